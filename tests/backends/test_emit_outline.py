"""A kernel that uses a function many times calls it, and computes the same."""

import numpy as np
import pytest

from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.emit.outline import OFTEN
from covector.backends.cpu.link import call, link
from covector.backends.cpu.target import host
from covector.compiler.loops.program import For, Kernel, Store
from covector.ir.index import Affine
from covector.ir.scalar import cast, expr
from tests.backends.harness import at, buffer, buffers, i


def chain(op, count, dtype="float32", n=21):
    """y = op(... op(x) / 2 + 0.25 ...), so often."""
    x = at("x", "j", dtype=dtype)
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    for _ in range(count):
        args = (x, x * 0.5) if op == "atan2" else (x,)
        x = expr(op, dtype, *args)
        x = cast(cast(x, work) * 0.5 + 0.25, dtype)
    body = [For("j", Affine(), Affine(n), [Store("y", (i("j"),), x)], "vector")]
    items = buffers(buffer("x", [n], dtype, "in"), buffer("y", [n], dtype, "out"))
    return Kernel("f", items, body)


def run(kernel, x):
    text, declared = emit(kernel, host())
    code = link([assemble(module_text(host(), [text], declared), host())], ["f"])
    y = np.zeros_like(x)
    call(code.address("f"), [x.ctypes.data, y.ctypes.data], ())
    return y, text


def steps(op, x, count):
    """The same by kernels of one use each, which write the function out."""
    for _ in range(count):
        x, text = run(chain(op, 1, str(x.dtype), x.size), x)
        assert "define internal" not in text
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["sin", "exp", "tanh", "erf_inv", "atan2"])
def test_called_functions_give_the_same_bits(op, dtype):
    x = np.linspace(-0.9, 0.9, 21).astype(dtype)
    got, text = run(chain(op, OFTEN + 1, dtype), x)
    assert text.count("define internal") >= 1
    np.testing.assert_array_equal(got, steps(op, x, OFTEN + 1))


def test_far_arguments_take_the_rare_way_inside():
    x = np.linspace(1e5, 1e6, 21).astype("f")
    got, _ = run(chain("sin", OFTEN + 1), x)
    np.testing.assert_array_equal(got, steps("sin", x, OFTEN + 1))


def test_few_uses_are_written_out():
    _, text = run(chain("sin", OFTEN), np.ones(21, "f"))
    assert "define internal" not in text
