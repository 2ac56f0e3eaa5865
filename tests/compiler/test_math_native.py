"""The expansions as machine code: what LLVM makes of them equals what they mean."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest

from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.emit.arith import NATIVE
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import call, link
from covector.backends.cpu.target import host
from covector.compiler.loops.program import Buffer, For, Kernel, Store
from covector.compiler.math import coefficients, expand_all, split_complex
from covector.compiler.math.evaluate import evaluate, evaluate_all
from covector.compiler.math.expand import FLOAT_RULES
from covector.ir.index import Affine, affine
from covector.ir.scalar import ARITY, Expr, expr, load, name
from tests.compiler.math_samples import FUNCTIONS, arguments

OPS = sorted(set(FLOAT_RULES) - {"max", "min", "is_finite"})


def machine_code(value: Expr, inputs: dict[str, np.ndarray], dtype: str) -> np.ndarray:
    """`value`, of loads x[i] and so on, for every i."""
    n = len(next(iter(inputs.values())))
    index = affine("i")
    body = [For("i", Affine(), Affine(n), [Store("out", (index,), value)], "vector", 1)]
    buffers = [Buffer(b, (Affine(n),), str(a.dtype), "in") for b, a in inputs.items()]
    buffers.append(Buffer("out", (Affine(n),), dtype, "out"))
    kernel = Kernel("f", {b.name: b for b in buffers}, body)
    text, declared = emit(kernel, host())
    code = link([assemble(module_text(host(), [text], declared), host())], ["f"])
    out = np.empty(n, dtype)
    call(code.address("f"), [a.ctypes.data for a in (*inputs.values(), out)])
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", OPS)
def test_machine_code_is_what_the_expansion_means(op, dtype):
    rng = np.random.default_rng(3)
    x = rng.permutation(arguments(op if op in FUNCTIONS else "sin", dtype, 900))
    inputs = {"x": x, "y": rng.permutation(x)}
    labels = list(inputs)[: ARITY[op]]
    root = expr(op, dtype, *(load(v, (affine("i"),), dtype) for v in labels))
    got = machine_code(root, {v: inputs[v] for v in labels}, dtype)
    meant = expand_all([expr(op, dtype, *(name(v, dtype) for v in labels))], NATIVE)[0]
    want = evaluate(meant, inputs)
    # a multiplication and an addition may be fused where the expansion does not ask for it
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("op", ["mul", "div", "exp", "log", "sqrt", "tanh", "atan"])
def test_complex_machine_code(op):
    rng = np.random.default_rng(4)
    inputs = {v: rng.normal(size=200).astype(np.float32) for v in ("a", "b", "c", "d")}
    pairs = [("a", "b"), ("c", "d")][: ARITY[op]]

    def parts(leaf):
        args = [
            expr("complex", "complex64", leaf(re, "float32"), leaf(im, "float32"))
            for re, im in pairs
        ]
        (pair,) = split_complex([expr(op, "complex64", *args)])
        return expand_all(pair, NATIVE)

    for got_node, want_node in zip(
        parts(lambda v, d: load(v, (affine("i"),), d)), parts(name), strict=True
    ):
        used = {v: inputs[v] for pair in pairs for v in pair}
        got = machine_code(got_node, used, "float32")
        (want,) = evaluate_all([want_node], inputs)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_the_coefficients_can_be_made_again():
    path = pathlib.Path(__file__).parents[2] / "tools" / "math_coefficients.py"
    spec = importlib.util.spec_from_file_location("math_coefficients", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for entry in ("cbrt", "sinh"):
        found, error = tool.TABLE[entry]("float32")
        stored = getattr(coefficients, entry.upper())["float32"]
        np.testing.assert_allclose(found, stored, rtol=1e-6)
        assert error < 1e-3
    assert tool.turn_words(20) == list(coefficients.TURN_WORDS)


#: Intrinsics that are instructions on AVX2, AVX-512 and NEON.
INSTRUCTIONS = {
    "fma", "fabs", "sqrt", "floor", "ceil", "trunc", "round", "roundeven", "copysign", "maximum",
    "minimum", "vector.reduce.or",
}  # fmt: skip


def text_of(op: str, dtype: str) -> tuple[str, set[str]]:
    labels = ("x", "y")[: ARITY[op]]
    value = expr(op, dtype, *(load(v, (affine("i"),), dtype) for v in labels))
    body = [For("i", Affine(), affine("n"), [Store("out", (affine("i"),), value)], "vector", 1)]
    buffers = [Buffer(v, (affine("n"),), dtype, "in") for v in labels]
    buffers.append(Buffer("out", (affine("n"),), dtype, "out"))
    return emit(Kernel("f", {b.name: b for b in buffers}, body, ("n",)), host())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", OPS)
def test_no_library_is_called_and_nothing_is_scalarised(op, dtype):
    text, _ = text_of(op, dtype)
    assert "frem" not in text
    called = set(re.findall(r"call [^@\n]*@llvm\.([a-z.]+?)\.v?\d*[fi]\d+", text))
    assert called <= INSTRUCTIONS


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_a_rare_path_is_behind_its_branch(op):
    text, _ = text_of(op, "float32")
    usual, rare = [], []
    for block in re.split(r"\n(?=\w+:)", text):
        (rare if block.startswith("then") else usual).append(block)
    # the reduction of a huge float32 is the only part in float64
    assert "double" not in "".join(usual)
    assert "double" in "".join(rare)
