"""Loops and branches as machine code: random programs against the slow run, and chosen cases."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covector.backends.cpu.bundle import load_program
from covector.backends.cpu.executable import compile_program
from covector.compiler.loops.program import For, Kernel, Store
from covector.compiler.program import Branch, Copy, KernelCall, Loop, Program, Slot
from covector.compiler.run import run
from covector.ir.index import Affine
from covector.ir.scalar import compare, const, select
from tests.backends.harness import at, blank, buffer, buffers, i
from tests.backends.test_program import run_program

ZERO = Affine()


def slot(shape, dtype, home, offset=None):
    s = Slot(tuple(shape), dtype, int(np.prod(shape)) * np.dtype(dtype).itemsize, home)
    s.offset = offset
    return s


def pointwise(n, value, dtype="float32", inputs=("x",), home="out", made="out"):
    """out = value over n elements (n None: a scalar)."""
    shape, index = ([], ()) if n is None else ([n], (i("i"),))
    body = [Store(made, index, value)]
    if n is not None:
        body = [For("i", ZERO, Affine(n), body, "vector")]
    given = [buffer(name, shape, dtype, "in") for name in inputs]
    return Kernel("f", buffers(*given, buffer(made, shape, dtype, home)), body)


def x(name, n, dtype="float32"):
    return at(name, *([] if n is None else ["i"]), dtype=dtype)


def counter_below(limit, other=None):
    """A condition program over (counter[, other]): counter < limit."""
    scalar = buffer("x", [], "int32", "in")
    kernel = Kernel(
        "f",
        buffers(scalar, buffer("y", [], "bool", "out")),
        [Store("y", (), compare("lt", at("x", dtype="int32"), const(limit, "int32")))],
    )
    slots = [slot([], "int32", "in")]
    if other is not None:
        slots.append(other)
    slots.append(slot([], "bool", "out"))
    last = len(slots) - 1
    return Program("test", slots, range(last), [last], [KernelCall(0, [0, last])], [kernel])


def check(program, arrays):
    want = run(program, arrays)
    code = compile_program(program)
    for c in (code, load_program(code.bundle)):
        outs = [blank(program.slots[s].shape, program.slots[s].dtype) for s in program.outputs]
        given = [a.copy() for a in arrays]
        run_program(c, given, outs)
        for got, w in zip(outs, want, strict=True):
            np.testing.assert_array_equal(got, w.reshape(got.shape))
    return want


@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
@pytest.mark.parametrize("n", [None, 5, 40])
def test_while_with_alternating_buffers(rounds, n):
    """carry (counter, value): counter + 1 in a place of its own, value * 2 in another buffer."""
    shape = [] if n is None else [n]
    body = Program(
        "body",
        [
            slot([], "int32", "in"),
            slot(shape, "float32", "in"),
            slot([], "int32", "out"),
            slot(shape, "float32", "out"),
        ],
        [0, 1],
        [2, 3],
        [KernelCall(0, [0, 2]), KernelCall(1, [1, 3])],
        [pointwise(None, x("x", None, "int32") + 1, "int32"), pointwise(n, x("x", n) * 2.0)],
    )
    test = counter_below(rounds, slot(shape, "float32", "in"))
    slots = [
        slot([], "int32", "in"),
        slot(shape, "float32", "in"),
        slot([], "int32", "out"),
        slot(shape, "float32", "out"),
        slot([], "int32", "temp", 0),
        slot(shape, "float32", "temp", 64),
        slot([], "bool", "temp", 512),
    ]
    loop = Loop(0, 1, [], [], [2, 3], [4, 5], [], [], None, False, None, 6)
    program = Program(
        "p", slots, [0, 1], [2, 3], [Copy(0, 2), Copy(1, 3), loop], [], 1024, 0, [test, body]
    )
    value = np.float32(1.5) if n is None else np.arange(n, dtype=np.float32)
    _, last = check(program, [np.array(0, np.int32), np.array(value)])
    np.testing.assert_array_equal(last, value * 2.0**rounds)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("n", [None, 3])
def test_scan_over_rows(length, reverse, n):
    """carry' = carry + c * x, in place; y = carry': rows are read and written where they are."""
    shape = [] if n is None else [n]
    value = x("y", n) + x("c", n) * x("x", n)
    step = pointwise(n, value, inputs=("c", "x"), home="inout", made="y")
    copy = pointwise(n, x("x", n))
    body = Program(
        "body",
        [
            slot(shape, "float32", "in"),
            slot(shape, "float32", "in"),
            slot(shape, "float32", "in"),
            slot(shape, "float32", "out"),
        ],
        [0, 1, 2],
        [1, 3],
        [KernelCall(0, [0, 2, 1]), KernelCall(1, [1, 3])],
        [step, copy],
    )
    rows = [length, *shape]
    slots = [
        slot(shape, "float32", "in"),
        slot(shape, "float32", "in"),
        slot(rows, "float32", "in"),
        slot(shape, "float32", "out"),
        slot(rows, "float32", "out"),
    ]
    loop = Loop(None, 0, [], [0], [3], [None], [2], [4], length, reverse, None, None)
    program = Program("p", slots, [0, 1, 2], [3, 4], [Copy(1, 3), loop], [], 0, 0, [body])
    rng = np.random.default_rng(0)
    c, start, xs = (np.array(rng.integers(0, 5, s), np.float32) for s in (shape, shape, rows))
    check(program, [c, start, xs])


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branch(index):
    n = 11
    one = [slot([n], "float32", "in"), slot([n], "float32", "out")]
    programs = [
        Program("b", one, [0], [1], [KernelCall(0, [0, 1])], [pointwise(n, x("x", n) * k)])
        for k in (2.0, 3.0)
    ]
    programs.append(Program("b", one, [0], [1], [Copy(0, 1)], []))  # the operand itself
    slots = [slot([], "int32", "in"), slot([n], "float32", "in"), slot([n], "float32", "out")]
    branch = Branch([0, 1, 2], 0, [1], [2], None)
    program = Program("p", slots, [0, 1], [2], [branch], [], 0, 0, programs)
    (got,) = check(program, [np.array(index, np.int32), np.arange(n, dtype=np.float32)])
    factor = [2, 3, 1][min(max(index, 0), 2)]
    np.testing.assert_array_equal(got, factor * np.arange(n))


def nested_loops(outer, inner):
    """for outer: for inner: x = x + 1 (each with an arena of its own)."""
    one = [slot([], "int32", "in"), slot([], "int32", "temp", 0), slot([], "int32", "out")]
    add = Program(
        "add",
        one,
        [0],
        [2],
        [KernelCall(0, [0, 1]), Copy(1, 2)],
        [pointwise(None, x("x", None, "int32") + 1, "int32")],
        64,
    )
    level = [
        slot([], "int32", "in"),
        slot([], "int32", "out"),
        slot([], "int32", "temp", 0),
        slot([64], "uint8", "temp", 64),
    ]
    loop = Loop(None, 0, [], [], [1], [2], [], [], inner, False, 3, None)
    middle = Program("middle", level, [0], [1], [Copy(0, 1), loop], [], 128, 0, [add])
    top = [
        slot([], "int32", "in"),
        slot([], "int32", "out"),
        slot([], "int32", "temp", 0),
        slot([128], "uint8", "temp", 64),
    ]
    loop = Loop(None, 0, [], [], [1], [2], [], [], outer, False, 3, None)
    return Program("p", top, [0], [1], [Copy(0, 1), loop], [], 256, 0, [middle])


@pytest.mark.parametrize(("outer", "inner"), [(0, 3), (3, 0), (1, 1), (4, 5), (3, 4)])
def test_nested_loops(outer, inner):
    (got,) = check(nested_loops(outer, inner), [np.array(7, np.int32)])
    assert got == 7 + outer * inner


def test_scalar_loops_are_machine_loops():
    """No call of a kernel, no object beside the driver."""
    code = compile_program(nested_loops(30_000, 100))
    out = blank([], "int32")
    run_program(code, [np.array(0, np.int32)], [out])
    assert out == 3_000_000


def random_program(rng, depth):
    """A program over two vectors: (a, b) -> (a', b'), small whole numbers that stay small."""
    n = 6
    slots = [
        slot([n], "int32", "in"),
        slot([n], "int32", "in"),
        slot([n], "int32", "out"),
        slot([n], "int32", "out"),
    ]
    kernels, steps, programs = [], [], []
    room = 0

    def temp(shape, dtype):
        nonlocal room
        slots.append(slot(shape, dtype, "temp", room))
        room += 64 * (-(-max(slots[-1].nbytes, 1) // 64))
        return len(slots) - 1

    def kernel(value, inputs, target):
        kernels.append(pointwise(n, value, "int32", tuple("xyz"[: len(inputs)])))
        steps.append(KernelCall(len(kernels) - 1, [*inputs, target]))

    live = [0, 1]
    for _ in range(rng.randint(1, 4)):
        choice = rng.random()
        a, b = rng.choice(live), rng.choice(live)
        if choice < 0.5 or depth == 0:
            out = temp([n], "int32")
            p, q = x("x", n, "int32"), x("y", n, "int32")
            small = const(1023, "int32")
            value = rng.choice([(p + q) & small, select(compare("lt", p, q), p, q + 1), p ^ q])
            kernel(value, [a, b], out)
            live.append(out)
        elif choice < 0.75:
            inner, size = random_program(rng, depth - 1)
            homes = [temp([n], "int32") for _ in range(2)]
            spares = [temp([n], "int32") for _ in range(2)]
            arena = temp([max(size, 1)], "uint8")
            steps.extend([Copy(a, homes[0]), Copy(b, homes[1])])
            programs.append(inner)
            steps.append(
                Loop(
                    None,
                    len(programs) - 1,
                    [],
                    [],
                    homes,
                    spares,
                    [],
                    [],
                    rng.randint(0, 3),
                    rng.random() < 0.5,
                    arena,
                    None,
                )
            )
            live += homes
        else:
            sides = [random_program(rng, depth - 1) for _ in range(2)]
            outs = [temp([n], "int32") for _ in range(2)]
            arena = temp([max(*(s for _, s in sides), 1)], "uint8")
            steps.append(Branch([len(programs), len(programs) + 1], a, [a, b], outs, arena))
            programs += [p for p, _ in sides]
            live += outs
    for target in (2, 3):
        steps.append(Copy(rng.choice(live), target))
    return Program("p", slots, [0, 1], [2, 3], steps, kernels, room, 0, programs), room


@given(st.integers(0, 10**9))
@settings(max_examples=30)
def test_random_control_flow(seed):
    rng = random.Random(seed)
    program, _ = random_program(rng, 2)
    arrays = [np.array([rng.randint(-2, 5) for _ in range(6)], np.int32) for _ in range(2)]
    check(program, arrays)
