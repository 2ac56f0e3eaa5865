"""Whole programs: drivers, library calls, bundles."""

import json

import numpy as np
import pytest

from covector.backends.cpu.bundle import CompiledProgram, load_program, program_key
from covector.backends.cpu.executable import compile_kernels, compile_program
from covector.backends.cpu.link import call
from covector.compiler.loops.program import For, Kernel, Store
from covector.compiler.program import Copy, KernelCall, LibraryCall, Program, Slot
from covector.ir.index import Affine
from tests.backends.harness import at, blank, buffer, buffers, i, values


def run_program(code: CompiledProgram, inputs, outputs) -> None:
    arena = np.full(code.arena + 64, 0xFF, np.uint8)
    start = -arena.ctypes.data % 64
    pointers = [a.ctypes.data for a in (*inputs, *outputs)] + [arena.ctypes.data + start]
    call(code.address, pointers)


def slot(shape, dtype, home, offset=None):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    s = Slot(tuple(shape), dtype, size, home)
    s.offset = offset
    return s


def scale(n, factor, name="f", source="x", target="y"):
    body = [
        For(
            "i", Affine(), Affine(n), [Store(target, (i("i"),), at(source, "i") * factor)], "vector"
        )
    ]
    return Kernel(
        name,
        buffers(buffer(source, [n], "float32", "in"), buffer(target, [n], "float32", "out")),
        body,
    )


def test_steps_arena_and_repeated_results():
    n = 37
    slots = [
        slot([n], "float32", "in"),
        slot([n], "float32", "out"),
        slot([n], "float32", "temp", 64),
    ]
    steps = [KernelCall(0, [0, 2]), KernelCall(1, [2, 1])]
    program = Program("p", slots, [0], [1, 0, 1], steps, [scale(n, 2.0), scale(n, 3.0)], arena=256)
    code = compile_program(program, meta={"who": ["me", 1]})
    x = np.random.default_rng(0).random(n, np.float32)
    for c in (code, load_program(code.bundle)):
        outs = [blank([n], "float32") for _ in range(3)]
        run_program(c, [x], outs)
        np.testing.assert_array_equal(outs[0], x * 2 * 3)
        np.testing.assert_array_equal(outs[1], x)
        np.testing.assert_array_equal(outs[2], outs[0])
        assert c.meta == {"who": ["me", 1]}
        assert c.arena == 256


def test_copy_and_symbols():
    n = i("n")
    body = [For("i", Affine(), n, [Store("y", (i("i"),), at("y", "i") + at("x", "i"))], "vector")]
    kernel = Kernel(
        "f",
        buffers(buffer("x", [n], "float32", "in"), buffer("y", [n], "float32", "inout")),
        body,
        ("n",),
    )
    slots = [slot([20], "float32", "in"), slot([20], "float32", "in"), slot([20], "float32", "out")]
    steps = [Copy(1, 2), KernelCall(0, [0, 2], [20])]
    code = compile_program(Program("p", slots, [0, 1], [2], steps, [kernel]))
    x, y = values([20], "float32"), values([20], "float32", 1)
    out = blank([20], "float32")
    run_program(code, [x, y], [out])
    np.testing.assert_array_equal(out, x + y)


def test_lone_kernel_needs_no_driver():
    n = 21
    x, kernel = values([n], "float32"), scale(n, 2.0)
    slots = [slot([n], "float32", "in"), slot([n], "float32", "out")]
    code = compile_program(Program("p", slots, [0], [1], [KernelCall(0, [0, 1])], [kernel]))
    driven = compile_program(Program("p", slots, [0], [1], [KernelCall(0, [0, 1])] * 2, [kernel]))
    assert code.code_bytes < driven.code_bytes
    for c in (code, load_program(code.bundle), driven):
        out = blank([n], "float32")
        run_program(c, [x], [out])
        np.testing.assert_array_equal(out, x * np.float32(2))


def test_damaged_bundles_are_refused():
    code = compile_program(Program("p", [], [], [], [], []))
    assert load_program(code.bundle) is not None
    assert load_program(code.bundle[:-1]) is None
    assert load_program(b"something else") is None


def test_kernels_that_differ_in_names_share_code():
    one, two = scale(8, 2.0), scale(8, 2.0, "g", "source", "target")
    other = scale(8, 2.5)
    a, b, c = compile_kernels([one, two, other])
    assert a is b
    assert a.address != c.address
    assert compile_kernels([scale(8, 2.0, "h")])[0] is a


def test_keys_depend_on_text():
    assert program_key("a") == program_key("a") != program_key("b")
    assert json.dumps(program_key("a"))


NUMBERS = [
    ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    ((4, 3), (5, 4), (((0,), (1,)), ((), ()))),
    ((4, 3), (4, 5), (((0,), (0,)), ((), ()))),
    ((4,), (4,), (((0,), (0,)), ((), ()))),
    ((3,), (4,), (((), ()), ((), ()))),
    ((3, 4), (4,), (((1,), (0,)), ((), ()))),
    ((4, 3), (4,), (((0,), (0,)), ((), ()))),
    ((4,), (4, 3), (((0,), (0,)), ((), ()))),
    ((4,), (3, 4), (((0,), (1,)), ((), ()))),
    ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    ((2, 3, 4), (2, 4), (((2,), (1,)), ((0,), (0,)))),
    ((3, 2, 4), (5, 4, 2), (((2,), (1,)), ((1,), (2,)))),
    ((2, 3, 4, 5), (5, 4, 3, 2), (((1, 3), (2, 0)), ((2,), (1,)))),
    ((2, 3, 4), (3, 4, 5), (((1, 2), (0, 1)), ((), ()))),
    ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    ((2, 3, 4), (5, 2, 4, 3), (((2, 1), (2, 3)), ((0,), (1,)))),
    ((1, 4), (4, 1), (((1,), (0,)), ((), ()))),
    ((3, 1), (1, 5), (((1,), (0,)), ((), ()))),
    ((3, 0), (0, 5), (((1,), (0,)), ((), ()))),
    ((0, 4), (4, 5), (((1,), (0,)), ((), ()))),
    ((), (3,), (((), ()), ((), ()))),
    ((6, 1, 4), (4, 6), (((2,), (0,)), ((0,), (1,)))),
    ((130, 70), (70, 90), (((1,), (0,)), ((), ()))),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("x", "y", "numbers"), NUMBERS)
def test_gemm(x, y, numbers, dtype):
    (xc, yc), (xb, yb) = numbers
    a, b = list(range(len(x))), list(range(10, 10 + len(y)))
    for p, q in (*zip(xc, yc, strict=True), *zip(xb, yb, strict=True)):
        b[q] = a[p]
    free = [
        *(a[d] for d in xb),
        *(a[d] for d in range(len(x)) if d not in (*xc, *xb)),
        *(b[d] for d in range(len(y)) if d not in (*yc, *yb)),
    ]
    rng = np.random.default_rng(0)

    def draw(shape):
        v = rng.standard_normal(shape)
        return (v + 1j * rng.standard_normal(shape) if dtype[0] == "c" else v).astype(dtype)

    left, right = np.asarray(draw(x)), np.asarray(draw(y))
    want = np.asarray(np.einsum(left, a, right, b, free))
    slots = [slot(x, dtype, "in"), slot(y, dtype, "in"), slot(want.shape, dtype, "out")]
    step = LibraryCall("gemm", [0, 1], [2], [x, y, want.shape], (numbers,))
    code = compile_program(Program("p", slots, [0, 1], [2], [step], []))
    out = np.full(want.shape, np.nan, dtype)
    run_program(code, [left, right], [out])
    np.testing.assert_allclose(
        out, want, rtol=2e-5 if dtype in ("float32", "complex64") else 1e-12, atol=1e-5
    )


def test_unknown_routine_is_named():
    slots = [slot([3], "float32", "in"), slot([3], "float32", "out")]
    step = LibraryCall("no_such", [0], [1], [(3,), (3,)])
    with pytest.raises(NotImplementedError, match="no_such"):
        compile_program(Program("p", slots, [0], [1], [step], []))
