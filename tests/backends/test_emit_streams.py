"""Large results are written past the caches: which stores, and that they write the same."""

import numpy as np
import pytest

from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.emit import address
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import call, link
from covector.backends.cpu.target import host
from covector.compiler.loops.interpret import interpret
from covector.compiler.loops.program import Accumulator, Fold, For, Kernel, Store
from covector.compiler.math.evaluate import numpy_dtype
from covector.ir.index import Affine
from covector.ir.scalar import cast, compare, const, name
from tests.backends.harness import at, buffer, buffers, i

ZERO = Affine()


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(address, "STREAMED", 64)


def rows(m, n, low=0, dtype="float32", where=None, mode="vector", home="out"):
    """y[r, j] = x[r, j] + 1 for the rows of m x n, from column `low` on."""
    value = cast(at("x", "r", "j") + 1.0, dtype)
    inner = For("j", Affine(low), Affine(n), [Store("y", (i("r"), i("j")), value, where)], mode, 2)
    items = buffers(buffer("x", [m, n], "float32", "in"), buffer("y", [m, n], dtype, home))
    return Kernel("f", items, [For("r", ZERO, Affine(m), [inner], "parallel")])


def dense(n):
    body = [For("j", ZERO, i("n"), [Store("y", (i("j"),), at("x", "j") * 3.0)], "vector", 2)]
    items = buffers(buffer("x", ["n"], "float32", "in"), buffer("y", ["n"], "float32", "out"))
    return Kernel("f", items, body, ("n",)), (n,)


def sums(m, n):
    """A loop of vectors around a fold: its stores are far apart in time."""
    total = Accumulator(("s",), "sum", ("float32",), (at("x", "r", "j"),))
    inner = [Fold([("r", ZERO, Affine(m))], [total]), Store("y", (i("j"),), name("s", "float32"))]
    items = buffers(buffer("x", [m, n], "float32", "in"), buffer("y", [n], "float32", "out"))
    return Kernel("f", items, [For("j", ZERO, Affine(n), inner, "vector")])


def aligned(array):
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    inside = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside


def streams(kernel, symbols=()):
    """Whether it writes past the caches; that it writes what the interpreter does is checked."""
    text, declared = emit(kernel, host())
    code = link([assemble(module_text(host(), [text], declared), host())], [kernel.name])
    arrays = []
    for k, b in enumerate(kernel.buffers.values()):
        shape = [symbols[0] if n.constant is None else n.constant for n in b.shape]
        values = np.arange(np.prod(shape)) * (1 - k) + k  # the input counts; the output is ones
        arrays.append(aligned(values.reshape(shape).astype(numpy_dtype(b.dtype))))
    want = [a.copy() for a in arrays]
    interpret(kernel, want, symbols)
    call(code.address(kernel.name), [a.ctypes.data for a in arrays], symbols)
    for got, wanted in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return "nontemporal" in text


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
@pytest.mark.parametrize("n", [32, 64, 96])
def test_rows_of_whole_lines_do(n, dtype):
    assert streams(rows(5, n, dtype=dtype))


def test_rows_that_end_within_a_vector_do_not():
    assert not streams(rows(16, 33))


def test_rows_that_begin_within_a_vector_do_not():
    assert not streams(rows(4, 64, low=3))
    assert streams(rows(4, 64, low=16))


def test_some_elements_do_not():
    assert not streams(rows(4, 64, where=compare("lt", at("x", "r", "j"), const(9.0, "float32"))))


def test_scalars_do_not():
    assert not streams(rows(4, 64, mode="serial"))


def test_what_is_updated_in_place_does_not():
    assert not streams(rows(4, 64, home="inout"))


def test_stores_far_apart_do_not():
    assert not streams(sums(3, 64))


@pytest.mark.parametrize("n", [1, 7, 16, 17, 64, 4096, 4101])
def test_a_size_of_run_time_decides_then(n):
    assert streams(*dense(n))


def test_small_results_do_not(monkeypatch):
    monkeypatch.setattr(address, "STREAMED", 1 << 20)
    assert not streams(rows(5, 64))
