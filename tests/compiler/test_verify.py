"""The checker of loop programs finds what is broken."""

import pytest

from covector.compiler.loops.program import (
    Accumulator,
    Buffer,
    Fold,
    For,
    Kernel,
    Store,
)
from covector.compiler.loops.verify import InvalidKernel, verify
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import cast, expr, load, name

ROW, K = affine("i"), affine("k")
EIGHT = Affine(8)


def kernel(body, *scratch, **homes):
    shapes = {"x": (EIGHT,), "y": (EIGHT,), **homes}
    buffers = {
        "x": Buffer("x", shapes["x"], "float32", "in"),
        "y": Buffer("y", shapes["y"], "float32", "out"),
    }
    for n in scratch:
        buffers[n] = Buffer(n, (EIGHT,), "float32", "scratch")
    return Kernel("k", buffers, body)


def loop(*body, low=ZERO, high=EIGHT, axis="i"):
    return For(axis, low, high, list(body))


def x(i=ROW):
    return load("x", (i,), "float32")


def t(i=ROW):
    return load("t", (i,), "float32")


def copy(value=None, index=ROW, to="y"):
    return Store(to, (index,), x() if value is None else value)


def test_good():
    verify(kernel([loop(copy())]))


BROKEN = {
    "out of bounds": ([loop(copy(x(ROW + 1)))], "index"),
    "out of bounds below": ([loop(copy(index=ROW - 1))], "index"),
    "no such buffer": ([loop(copy(load("q", (ROW,), "float32")))], "no buffer q"),
    "no such axis": ([loop(copy(x(affine("j"))))], "no axis"),
    "writes an input": ([loop(copy(to="x"))], "written, but an input"),
    "reads an output": ([loop(copy(load("y", (ROW,), "float32")))], "read, but an output"),
    "another rank": ([loop(Store("y", (ROW, ROW), x()))], "of rank 1"),
    "another type": ([loop(copy(cast(x(), "float64")))], "holds float32"),
    "mixed types": ([loop(copy(expr("add", "float32", x(), cast(x(), "float64"))))], "add to"),
    "no such name": ([loop(copy(name("f", "float32")))], "not defined"),
    "an axis twice": ([loop(loop(copy()))], "axis i"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken(what):
    body, message = BROKEN[what]
    with pytest.raises(InvalidKernel, match=message):
        verify(kernel(body))


def fold(value, axis="k"):
    result = Accumulator(("f",), "sum", ("float32",), (value,))
    return Fold([(axis, ZERO, EIGHT)], [result])


def test_fold_result_is_known_after_it_only():
    verify(kernel([fold(x(K)), loop(copy(name("f", "float32")))]))
    with pytest.raises(InvalidKernel, match="not defined"):
        verify(kernel([loop(copy(name("f", "float32"))), fold(x(K))]))


def test_scratch_is_filled_before_it_is_read():
    fill = loop(copy(x(K), K, "t"), axis="k")
    verify(kernel([fill, loop(copy(t()))], "t"))
    with pytest.raises(InvalidKernel, match="not surely filled"):
        verify(kernel([loop(copy(t())), fill], "t"))


def test_a_fill_must_reach_all_that_is_read():
    fill = loop(copy(x(K), K, "t"), high=Affine(7), axis="k")
    verify(kernel([fill, loop(copy(t()), high=Affine(7))], "t"))
    with pytest.raises(InvalidKernel, match="not surely filled"):
        verify(kernel([fill, loop(copy(t()))], "t"))


def test_a_fill_with_gaps_covers_nothing():
    fill = loop(copy(x(K), K * 2, "t"), high=Affine(4), axis="k")
    with pytest.raises(InvalidKernel, match="not surely filled"):
        verify(kernel([fill, loop(copy(t()), high=Affine(7))], "t"))


def test_two_loops_fill_one_axis():
    inner = Store("t", (K * 4 + affine("l"),), x(K * 4 + affine("l")))
    fill = loop(loop(inner, high=Affine(4), axis="l"), high=Affine(2), axis="k")
    verify(kernel([fill, loop(copy(t()))], "t"))


def test_a_fill_of_this_iteration():
    verify(kernel([loop(copy(to="t"), copy(t()))], "t"))
    with pytest.raises(InvalidKernel, match="not surely filled"):
        verify(kernel([loop(copy(to="t"), copy(t(ROW + 1)), high=Affine(7))], "t"))
