"""Other machines: AVX-512, plain SSE, Arm, Windows.  Their code is made and read, not run."""

import re

import llvmlite.binding as llvm
import pytest

from covector.backends.cpu.assemble import assembly, module_text
from covector.backends.cpu.emit.kernel import emit, lanes_of
from covector.backends.cpu.library.sort import order_function, values_function
from covector.backends.cpu.library.top_k import by_scanning, by_sorting
from covector.backends.cpu.link import _runtime
from covector.backends.cpu.target import Target
from covector.backends.cpu.workers import SYMBOL
from covector.compiler.loops.program import Accumulator, Fold, For, Kernel, Scan, Store
from covector.ir.index import Affine, Data, affine
from covector.ir.scalar import cast, compare, const, expr, load, name, select
from tests.backends.harness import at, buffer, buffers, i

ZERO = Affine()
AVX512 = "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+avx2,+fma,+f16c,+bmi2"
TARGETS = {
    "avx512": Target("x86_64-unknown-linux-gnu", "znver4", AVX512),
    "avx2": Target("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c,+bmi2"),
    "sse": Target("x86_64-unknown-linux-gnu", "x86-64", "+sse2"),
    "arm": Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon,+fp-armv8,+fullfp16"),
    "apple": Target("arm64-apple-darwin", "apple-m1", "+neon,+fp-armv8,+fullfp16"),
    "windows": Target("x86_64-pc-windows-msvc", "haswell", "+avx2,+fma,+f16c,+bmi2"),
}


@pytest.fixture(scope="module", autouse=True)
def all_machines():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def vector(value, dtype="float32", n="n", where=None):
    body = [For("i", ZERO, i("n"), [Store("y", (i("i"),), value, where)], "vector", 2)]
    inputs = [
        buffer("x", [n], "float32", "in"),
        buffer("h", [n], "float16", "in"),
        buffer("k", [n], "int32", "in"),
        buffer("b", [n], "int8", "in"),
    ]
    return Kernel("f", buffers(*inputs, buffer("y", [n], dtype, "out")), body, ("n",))


def folded(kind, dtype):
    names, dtypes, values = ("s",), (dtype,), (at("x", "i", dtype=dtype),)
    if kind.startswith("arg"):
        names, dtypes = ("s", "p"), (dtype, "int32")
        values = (*values, expr("index", "int32", extra=i("i")))
    fold = Fold([("i", ZERO, i("n"))], [Accumulator(names, kind, dtypes, values)], [], "i", 4)
    items = buffers(buffer("x", ["n"], dtype, "in"), buffer("y", [], dtype, "out"))
    return Kernel("f", items, [fold, Store("y", (), name("s", dtype))], ("n",))


def transposition():
    store = Store("y", (i("i"), i("j")), at("x", "j", "i") + 1.0)
    inner = For("j", ZERO, i("n"), [store], "vector")
    items = buffers(
        buffer("x", ["n", "m"], "float32", "in"), buffer("y", ["m", "n"], "float32", "out")
    )
    return Kernel("f", items, [For("i", ZERO, i("m"), [inner], "tile")], ("m", "n"))


def cumulative():
    s = name("s", "float32")
    scan = Scan(
        "k",
        ZERO,
        i("m"),
        [("s", const(0.0, "float32"))],
        [Store("y", (i("k"), i("j")), s)],
        [s + at("x", "k", "j")],
    )
    items = buffers(
        buffer("x", ["m", "n"], "float32", "in"), buffer("y", ["m", "n"], "float32", "out")
    )
    return Kernel("f", items, [For("j", ZERO, i("n"), [scan], "vector")], ("m", "n"))


X, K, B = at("x", "i"), at("k", "i", dtype="int32"), at("b", "i", dtype="int8")
KERNELS = {
    "math": vector(expr("tanh", "float32", X) + expr("exp", "float32", X)),
    "rare": vector(expr("sin", "float32", X)),
    "half": vector(
        cast(cast(at("h", "i", dtype="float16"), "float32") * 2.0, "float16"), "float16"
    ),
    "division": vector(expr("rem", "int32", K, K + 1), "int32"),
    "saturate": vector(cast(X, "int8"), "int8"),
    "mask": vector(select(compare("lt", B, const(3, "int8")), X, -X), where=compare("gt", X, 0.0)),
    "gather": vector(at("x", affine(Data(K)))),
    "stride": vector(at("x", i("i") * 3)),
    "round": vector(expr("floor", "float32", X) + expr("round_even", "float32", X)),
    "sum": folded("sum", "float32"),
    "max": folded("max", "float64"),
    "argmax": folded("argmax", "float32"),
    "or": folded("or", "bool"),
    "prod": folded("prod", "int64"),
    "transposition": transposition(),
    "cumulative": cumulative(),
}


def called(text: str, target: Target) -> set[str]:
    """The functions that some assembly calls, without those it defines."""
    names = re.findall(r"^\s+(?:callq?|bl|jmp|b)\s+_?([A-Za-z_][\w.]*)(?:@PLT)?\s*$", text, re.M)
    defined = set(re.findall(r"^_?([A-Za-z_][\w.]*):", text, re.M))
    return {n for n in names if n not in defined}


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_kernels(target, kernel):
    machine = TARGETS[target]
    text, declared = emit(KERNELS[kernel], machine)
    code = assembly(module_text(machine, [text], declared), machine)
    assert re.search(r"^_?f:", code, re.M)
    allowed = {*_runtime(), "_chkstk", SYMBOL}
    assert called(code, machine) <= allowed


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16"])
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_routines(target, dtype):
    machine = TARGETS[target]
    for text, declared in (
        values_function("f", dtype, machine),
        order_function("f", dtype, 1, machine),
        by_scanning("f", dtype, machine),
        by_sorting("f", dtype, machine),
    ):
        code = assembly(module_text(machine, [text], declared), machine)
        assert called(code, machine) <= {*_runtime(), "_chkstk"}


def test_width_and_tail_follow_the_machine():
    found = {k: (t.vector_bytes, t.tail) for k, t in TARGETS.items()}
    assert found == {
        "avx512": (64, "masked"),
        "avx2": (32, "epilogue"),
        "sse": (16, "epilogue"),
        "arm": (16, "epilogue"),
        "apple": (16, "epilogue"),
        "windows": (32, "epilogue"),
    }
    text, declared = emit(KERNELS["math"], TARGETS["avx512"])
    assert "llvm.masked.load" in text
    assert "zmm" in assembly(module_text(TARGETS["avx512"], [text], declared), TARGETS["avx512"])
    assert not any(d.startswith("@constant") for d in declared)
    assert any(d.startswith("@constant") for d in emit(KERNELS["math"], TARGETS["avx2"])[1])
    assert "llvm.masked.load" not in emit(KERNELS["math"], TARGETS["avx2"])[0]
    assert lanes_of(KERNELS["sum"], TARGETS["avx512"]) == 16
    assert lanes_of(KERNELS["max"], TARGETS["avx2"]) == 4


def test_overrides(monkeypatch):
    from covector.backends.cpu import target

    monkeypatch.setattr(target, "_state", {})
    monkeypatch.setenv("COVECTOR_VECTOR_BYTES", "16")
    monkeypatch.setenv("COVECTOR_TAIL", "masked")
    assert (target.host().vector_bytes, target.host().tail) == (16, "masked")
    assert target.host() is target.host()


def test_one_number_for_all_lanes_does_not_narrow_the_vectors():
    key = load("k", (), "uint64")
    items = buffers(
        buffer("k", [], "uint64", "in"),
        buffer("x", [64], "uint32", "in"),
        buffer("y", [64], "uint32", "out"),
    )
    target = TARGETS["avx2"]

    def lanes(value):
        body = [For("i", ZERO, Affine(64), [Store("y", (i("i"),), value)], "vector")]
        return lanes_of(Kernel("f", items, body), target)

    x = at("x", "i", dtype="uint32")
    assert lanes(cast(key, "uint32") + x) == 8
    assert lanes(cast(key + cast(x, "uint64"), "uint32")) == 4
