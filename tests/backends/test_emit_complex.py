"""Complex numbers: read and written in parts, folded, carried, selected."""

import numpy as np
import pytest

from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import (
    Accumulator,
    Fold,
    For,
    Kernel,
    Let,
    Scan,
    Store,
    Update,
)
from covector.ir.index import Affine
from covector.ir.scalar import cast, compare, const, expr, name, select
from tests.backends.harness import at, blank, buffer, buffers, check, i

ZERO = Affine()


@pytest.fixture(params=["epilogue", "masked"])
def target(request):
    h = host()
    return Target(h.triple, h.cpu, h.features, tail=request.param)


@pytest.fixture(params=["complex64", "complex128"])
def dtype(request):
    return request.param


def real(dtype):
    return {"complex64": "float32", "complex128": "float64"}[dtype]


def tolerance(dtype):
    return 1e-5 if dtype == "complex64" else 1e-13


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def pointwise(value, out, dtype, n, arity=2):
    inputs = [buffer(f"x{k}", [n], dtype, "in") for k in range(arity)]
    body = [For("i", ZERO, Affine(n), [Store("y", (i("i"),), value)], "vector", 2)]
    return Kernel("f", buffers(*inputs, buffer("y", [n], out, "out")), body)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_arithmetic(op, dtype, target):
    x, y = (at(f"x{k}", "i", dtype=dtype) for k in range(2))
    for n in (1, 8, 37):
        kernel = pointwise(expr(op, dtype, x, y), dtype, dtype, n)
        given = [draw(n, dtype), draw(n, dtype, 1), blank([n], dtype)]
        check(kernel, given, rtol=tolerance(dtype), target=target)


@pytest.mark.parametrize("op", ["exp", "log", "sqrt", "sin", "conj", "neg"])
def test_functions(op, dtype, target):
    n = 19
    kernel = pointwise(expr(op, dtype, at("x0", "i", dtype=dtype)), dtype, dtype, n, 1)
    check(kernel, [draw(n, dtype), blank([n], dtype)], rtol=tolerance(dtype), target=target)


def test_parts_and_back(dtype, target):
    n = 29
    part = real(dtype)
    z = at("x0", "i", dtype=dtype)
    re, im = expr("real", part, z), expr("imag", part, z)
    swapped = expr("complex", dtype, im, re)
    check(
        pointwise(swapped, dtype, dtype, n, 1), [draw(n, dtype), blank([n], dtype)], target=target
    )
    size = expr("abs", part, z)
    check(
        pointwise(size, part, dtype, n, 1),
        [draw(n, dtype), blank([n], part)],
        rtol=tolerance(dtype),
        target=target,
    )
    kernel = pointwise(select(compare("gt", re, 0.0), z, const(1 - 2j, dtype)), dtype, dtype, n, 1)
    check(kernel, [draw(n, dtype), blank([n], dtype)], target=target)
    kernel = pointwise(cast(at("x0", "i", dtype="int32"), dtype), dtype, "int32", n, 1)
    check(kernel, [np.arange(n, dtype=np.int32), blank([n], dtype)], target=target)


@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize("vector", [True, False])
def test_folds(kind, vector, dtype, target):
    for n in (0, 3, 40, 300):
        x = at("x", "i", dtype=dtype)
        start = const(0.5 + 1j, dtype)
        fold = Fold(
            [("i", ZERO, Affine(n))],
            [Accumulator(("s",), kind, (dtype,), (x,), start)],
            [],
            "i" if vector else None,
            2 if vector else 1,
        )
        items = buffers(buffer("x", [n], dtype, "in"), buffer("y", [], dtype, "out"))
        kernel = Kernel("f", items, [fold, Store("y", (), name("s", dtype))])
        x = draw(n, dtype)
        x /= np.maximum(abs(x), 1e-3) if kind == "prod" else 1
        check(
            kernel,
            [x, blank([], dtype)],
            rtol=10 * tolerance(dtype) * max(n, 1) / 100 + 1e-12,
            target=target,
        )


def test_lanes_outside_scan_and_let(dtype, target):
    m, n = 7, 21
    x = at("x", "k", "j", dtype=dtype)
    s = name("s", dtype)
    scan = Scan(
        "k",
        ZERO,
        Affine(m),
        [("s", const(1j, dtype))],
        [Let("t", s * x), Store("y", (i("k"), i("j")), name("t", dtype))],
        [name("t", dtype) + x],
    )
    items = buffers(
        buffer("x", [m, n], dtype, "in"),
        buffer("y", [m, n], dtype, "out"),
        buffer("z", [n], dtype, "out"),
    )
    body = [For("j", ZERO, Affine(n), [scan, Store("z", (i("j"),), s)], "vector", 2)]
    check(
        Kernel("f", items, body),
        [draw((m, n), dtype), blank([m, n], dtype), blank([n], dtype)],
        rtol=100 * tolerance(dtype),
        target=target,
    )


def test_strides_conditions_and_updates(dtype, target):
    n = 23
    x = at("x", i("i") * 2, dtype=dtype)
    keep = compare("gt", expr("real", real(dtype), x), 0.0)
    for statement in (
        Store("y", (i("i"),), x),
        Store("y", (Affine(n - 1) - i("i"),), x),
        Store("y", (i("i"),), x, keep),
        Update("y", (i("i"),), "sum", x),
        Update("y", (ZERO,), "sum", x),
        Update("y", (i("i"),), "sum", x, keep),
    ):
        body = [For("i", ZERO, Affine(n), [statement], "vector", 2)]
        items = buffers(buffer("x", [2 * n], dtype, "in"), buffer("y", [n], dtype, "inout"))
        check(
            Kernel("f", items, body),
            [draw(2 * n, dtype), draw(n, dtype, 3)],
            rtol=tolerance(dtype) * 10,
            target=target,
        )


def test_neighbours_share_two_loads_and_are_stored_interleaved():
    from covector.backends.cpu.emit.kernel import emit

    x = at("x0", "i", dtype="complex64")
    text, _ = emit(pointwise(x * const(1j, "complex64"), "complex64", "complex64", 800, 1), host())
    assert "insertelement" not in text
    assert "gather" not in text
    lines = [line for line in text.splitlines() if "@constant" not in line]
    loads, stores = (sum(f" {word} <" in line for line in lines) for word in ("load", "store"))
    assert loads == stores == 4


def test_a_fold_that_orders_complex_numbers_is_refused():
    from covector.backends.cpu.emit.kernel import emit

    acc = Accumulator(("s",), "max", ("complex64",), (at("x", "i", dtype="complex64"),))
    items = buffers(buffer("x", [3], "complex64", "in"), buffer("y", [], "complex64", "out"))
    body = [Fold([("i", ZERO, Affine(3))], [acc]), Store("y", (), name("s", "complex64"))]
    with pytest.raises(NotImplementedError, match="sum and prod"):
        emit(Kernel("f", items, body), host())
