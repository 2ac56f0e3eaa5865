"""Loops and branches as steps of a program: memory of carries, rows, nested programs."""

import numpy as np
import pytest
from fuzzing import LIBRARY, compare
from toys import (
    Build,
    CumSum,
    Sort,
    ToyCond,
    ToyScan,
    ToyWhile,
    UpdateSlice,
    oracle,
    random_inputs,
)

from covector.compiler.loops.verify import verify
from covector.compiler.plan import plan
from covector.compiler.program import Copy, Loop, from_skeleton
from covector.compiler.run import run


def check(jaxpr, inputs=None):
    inputs = random_inputs(jaxpr) if inputs is None else inputs
    program = plan(jaxpr)
    for kernel in program.kernels:
        verify(kernel)
    got = run(program, inputs, LIBRARY, lanes=True)
    for out, want in zip(got, oracle(jaxpr, inputs), strict=True):
        compare(out.reshape(want.shape), want, str(program))
    return program


def counted(n=5):
    """while i < n: i, x = i + 1, sin(x) * w"""
    c = Build()
    i, _ = c.input(), c.input(3)
    condition = c.closed(c.lt(i, float(n)))
    b = Build()
    w, i, x = b.input(3), b.input(), b.input(3)
    return ToyWhile(condition, b.closed(b.add(i, 1.0), b.mul(b.sin(x), w)), 0, 1)


def test_while():
    b = Build()
    w, x = b.input(3), b.input(3)
    _, y = b(counted(), w, 0.0, x)
    program = check(b.jaxpr(b.add(y, 1.0)))
    assert sum(isinstance(s, Loop) for s in program.steps) == 1


def test_while_that_never_runs():
    b = Build()
    w, x, i = b.input(3), b.input(3), b.input()
    check(b.jaxpr(*b(counted(), w, b.add(b.mul(i, 0.0), 9.0), x)))


def test_body_updates_in_place():
    """An elementwise body leaves the new carry in the place of the old: no spare, no copy."""
    b = Build()
    w, x = b.input(3), b.input(3)
    program = plan(b.jaxpr(*b(counted(), w, 0.0, b.sin(x))))
    (loop,) = (s for s in program.steps if isinstance(s, Loop))
    assert loop.spare == (None, None)
    assert not any(isinstance(s, Copy) for s in program.steps)


def test_update_of_a_carry_in_place():
    """x[i] = y is one row a round, not a copy of x."""
    b = Build()
    i, x, y = b.input(dtype="int32"), b.input(7, 3), b.input(1, 3)
    body = b.closed(b.add(i, 1), b(UpdateSlice(), x, y, i), y)
    c = Build()
    n = [c.input(dtype="int32"), c.input(7, 3), c.input(1, 3)]
    condition = c.closed(c.lt(n[0], 7))
    out = Build()
    x, y = out.input(7, 3), out.input(1, 3)
    i = out.input(dtype="int32")
    jaxpr = out.jaxpr(*out(ToyWhile(condition, body, 0, 0), i, x, y))
    program = check(jaxpr, [*random_inputs(jaxpr)[:2], np.int32(2)])
    assert not any(isinstance(s, Copy) for s in program.programs[1].steps)


def test_carries_that_change_places():
    b = Build()
    x, y, z = b.input(4), b.input(4), b.input(4)
    body = b.closed(y, x, b.add(x, z), z)
    scan = ToyScan(body, 3, False, 0, 3)
    out = Build()
    check(out.jaxpr(*out(scan, *[out.input(4) for _ in range(3)])))


def test_one_value_for_two_carries_and_a_constant():
    b = Build()
    w, x, y = b.input(4), b.input(4), b.input(4)
    scan = ToyScan(b.closed(b.mul(x, w), b.add(y, x)), 3, False, 1, 2)
    out = Build()
    v = out.sin(out.input(4))
    check(out.jaxpr(*out(scan, v, v, v)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 6])
def test_scan(length, reverse):
    b = Build()
    w, c, x = b.input(5), b.input(5), b.input(5)
    new = b.add(b.mul(c, w), x)
    scan = ToyScan(b.closed(new, b.sin(new), x), length, reverse, 1, 1)
    out = Build()
    check(out.jaxpr(*out(scan, out.input(5), out.input(5), out.input(length, 5))))


def test_nested_loops_share_the_arena():
    inner = Build()
    c, x = inner.input(6), inner.input(6)
    total = inner.add(c, inner(Sort(), inner.sin(x)))
    small = ToyScan(inner.closed(total, total), 4, False, 0, 1)
    b = Build()
    c, rows = b.input(6), b.input(4, 6)
    last, ys = b(small, c, rows)
    big = ToyScan(b.closed(last, b(CumSum(0, False), ys)), 3, False, 0, 1)
    out = Build()
    program = check(out.jaxpr(*out(big, out.input(6), out.input(3, 4, 6))))
    assert program.arena >= program.programs[0].arena > 0


@pytest.mark.parametrize("index", [-3, 0, 1, 9])
def test_branch(index):
    a = Build()
    x, y = a.input(4), a.input(4)
    first = a.closed(x, a.add(x, y))
    b = Build()
    x, y = b.input(4), b.input(4)
    second = b.closed(b.sin(y), x)
    out = Build()
    i, x, y = out.input(dtype="int32"), out.input(4), out.input(4)
    jaxpr = out.jaxpr(*out(ToyCond((first, second)), i, out.sin(x), y))
    inputs = random_inputs(jaxpr)
    check(jaxpr, [np.int32(index), *inputs[1:]])


def test_skeleton():
    b = Build()
    w, x = b.input(3), b.input(3)
    program = plan(b.jaxpr(*b(counted(), w, 0.0, b(Sort(), x))))
    again = from_skeleton(program.skeleton())
    assert [str(s) for s in again.slots] == [str(s) for s in program.slots]
    assert [str(s) for s in again.steps] == [str(s) for s in program.steps]
