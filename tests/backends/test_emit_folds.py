"""Reductions: every kind and type, lengths 0 to long, lanes inside and outside, accuracy."""

import numpy as np
import pytest

from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import (
    Accumulator,
    Fold,
    For,
    Kernel,
    Store,
    Update,
)
from covector.ir.index import Affine
from covector.ir.scalar import cast, compare, const, expr, name
from tests.backends.harness import at, blank, buffer, buffers, check, i, run, values

ZERO = Affine()
LENGTHS = [0, 1, 9, 100]
KINDS = {
    "float32": ["sum", "prod", "max", "min"],
    "float64": ["sum", "prod", "max", "min"],
    "int32": ["sum", "prod", "max", "min", "and", "or", "xor"],
    "int64": ["sum", "max", "min"],
    "uint8": ["sum", "max", "min", "xor"],
    "int16": ["prod", "min"],
    "uint32": ["max", "min"],
    "uint64": ["max", "min"],
    "bool": ["and", "or", "xor", "max", "min"],
    "bfloat16": ["sum", "max"],
    "float16": ["max", "min", "sum"],
}


def masked_host() -> Target:
    h = host()
    return Target(h.triple, h.cpu, h.features, tail="masked")


TARGETS = {"native": host, "masked": masked_host}


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]()


def lone_fold(kind: str, dtype: str, extent, symbols=(), unroll=4) -> Kernel:
    acc = Accumulator(("s",), kind, (dtype,), (at("x", "i", dtype=dtype),))
    fold = Fold([("i", ZERO, Affine() + extent)], [acc], vector="i", unroll=unroll)
    items = buffers(buffer("x", [extent], dtype, "in"), buffer("y", [], dtype, "out"))
    return Kernel("f", items, [fold, Store("y", (), name("s", dtype))], symbols)


def sample(n: int, dtype: str, kind: str) -> np.ndarray:
    x = values([n], dtype, n)
    if kind in ("sum", "prod") and x.dtype.kind in "fV":  # mild: the order of addition is free
        return (np.random.default_rng(n).random(n) * 0.5 + 0.75).astype(x.dtype)
    return x


@pytest.mark.parametrize(("dtype", "kind"), [(d, k) for d, kinds in KINDS.items() for k in kinds])
def test_every_kind(dtype, kind, target):
    short = dtype in ("bfloat16", "float16")
    tolerance = 1e-6 if dtype == "float32" else 1e-2 if short else 1e-14
    for n in LENGTHS if not (short and kind == "sum") else [0, 1, 9, 33]:
        x = sample(n, dtype, kind)
        rtol = tolerance * max(n, 1) if x.dtype.kind in "fV" and kind in ("sum", "prod") else 0.0
        check(lone_fold(kind, dtype, n), [x, blank([], dtype)], rtol=rtol, target=target)
    kernel = lone_fold(kind, dtype, i("n"), ("n",))
    for n in [0, 1, 8, 33, 100]:
        x = sample(n, dtype, kind)
        rtol = tolerance * max(n, 1) if x.dtype.kind in "fV" and kind in ("sum", "prod") else 0.0
        if not (short and kind == "sum" and n > 33):
            check(kernel, [x, blank([], dtype)], [n], rtol=rtol, target=target)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64", "bool"])
@pytest.mark.parametrize("index", ["int32"])
def test_arg(kind, dtype, index, target):
    rng = np.random.default_rng(0)

    def kernel(extent, symbols=()):
        where = expr("index", index, extra=i("i"))
        acc = Accumulator(("v", "k"), kind, (dtype, index), (at("x", "i", dtype=dtype), where))
        fold = Fold([("i", ZERO, Affine() + extent)], [acc], vector="i", unroll=2)
        items = buffers(
            buffer("x", [extent], dtype, "in"),
            buffer("y", [], dtype, "out"),
            buffer("z", [], index, "out"),
        )
        stores = [Store("y", (), name("v", dtype)), Store("z", (), name("k", index))]
        return Kernel("f", items, [fold, *stores], symbols)

    free = kernel(i("n"), ("n",))
    for n in LENGTHS[1:]:
        for x in (values([n], dtype, n), rng.integers(0, 2, n).astype(dtype)):  # many ties
            for k, symbols in ((kernel(n), []), (free, [n])):
                got = check(k, [x, blank([], dtype), blank([], index)], symbols, target=target)
                want = getattr(np, kind)(x)
                assert got[2] == want
    if dtype.startswith("float"):
        x = np.full(40, -np.inf if kind == "argmax" else np.inf, dtype)
        assert check(free, [x, blank([], dtype), blank([], index)], [40])[2] == 0
        x[[17, 30]] = np.nan
        assert check(free, [x, blank([], dtype), blank([], index)], [40])[2] == 17


@pytest.mark.parametrize("m", [1, 3, 17, 200])
@pytest.mark.parametrize("n", [1, 8, 37, 300])
@pytest.mark.parametrize("constant", [True, False])
def test_rows_and_all(m, n, constant, target):
    """A sum by rows, a maximum of everything with its place, from one pass each."""
    em, en = (m, n) if constant else (i("m"), i("n"))
    symbols = () if constant else ("m", "n")
    x = at("x", "i", "j")
    rows = For(
        "i",
        ZERO,
        Affine() + em,
        [
            Fold(
                [("j", ZERO, Affine() + en)],
                [Accumulator(("s",), "sum", ("float32",), (x,))],
                vector="j",
                unroll=4,
            ),
            Store("r", (i("i"),), name("s", "float32")),
        ],
    )
    whole = Fold(
        [("i", ZERO, Affine() + em), ("j", ZERO, Affine() + en)],
        [
            Accumulator(("t",), "sum", ("float32",), (x,)),
            Accumulator(("v",), "max", ("float32",), (x,)),
        ],
        vector="j",
        unroll=2,
    )
    items = buffers(
        buffer("x", [em, en], "float32", "in"),
        buffer("r", [em], "float32", "out"),
        buffer("t", [], "float32", "out"),
        buffer("v", [], "float32", "out"),
    )
    body = [rows, whole, Store("t", (), name("t", "float32")), Store("v", (), name("v", "float32"))]
    data = np.random.default_rng(1).random((m, n), np.float32)
    got = run(
        Kernel("f", items, body, symbols),
        [data, blank([m], "float32"), blank([], "float32"), blank([], "float32")],
        [] if constant else [m, n],
        target,
    )
    np.testing.assert_allclose(got[1], data.sum(1, dtype="d"), rtol=1e-6)
    np.testing.assert_allclose(got[2], data.sum(dtype="d"), rtol=1e-6)
    assert got[3] == data.max()


@pytest.mark.parametrize("unroll", [1, 2])
@pytest.mark.parametrize("n", [1, 5, 8, 37])
def test_lanes_outside(n, unroll, target):
    """Lanes over columns, the fold inside them serial: softmax over the first axis."""
    m = 70
    x, e = at("x", "i", "j"), at("e", "i", "j")
    fold = Fold(
        [("i", ZERO, Affine(m))],
        [
            Accumulator(("s",), "sum", ("float32",), (x * x,)),
            Accumulator(("t",), "max", ("float32",), (x,)),
        ],
    )
    inner = For(
        "i",
        ZERO,
        Affine(m),
        [Store("e", (i("i"), i("j")), (x - name("t", "float32")) + name("s", "float32"))],
    )
    items = buffers(buffer("x", [m, n], "float32", "in"), buffer("e", [m, n], "float32", "out"))
    body = [For("j", ZERO, Affine(n), [fold, inner], "vector", unroll)]
    assert e.op == "load"
    check(
        Kernel("f", items, body),
        [values_mild(m, n), blank([m, n], "float32")],
        rtol=1e-5,
        target=target,
    )


def values_mild(*shape):
    return np.random.default_rng(2).random(shape, np.float32)


@pytest.mark.parametrize("constant", [True, False])
def test_triangle(constant, target):
    """Bounds that depend on an outer axis, also with several rows side by side."""
    n = 45
    extent = Affine(n) if constant else i("n")
    fold = Fold(
        [("j", ZERO, i("i") + 1)],
        [Accumulator(("s",), "sum", ("float32",), (at("x", "i", "j"),))],
        vector="j",
        unroll=2,
    )
    body = [For("i", ZERO, extent, [fold, Store("y", (i("i"),), name("s", "float32"))], unroll=2)]
    items = buffers(
        buffer("x", [extent, extent], "float32", "in"), buffer("y", [extent], "float32", "out")
    )
    kernel = Kernel("f", items, body, () if constant else ("n",))
    check(
        kernel,
        [values_mild(n, n), blank([n], "float32")],
        [] if constant else [n],
        rtol=1e-5,
        target=target,
    )


def test_start_and_scratch(target):
    """A start value; scratch filled on the way and read by the next pass."""
    for n in (3, 29, 64):
        x = at("x", "i", "j")
        e = x * x + 1.0
        fold = Fold(
            [("j", ZERO, Affine(n))],
            [Accumulator(("s",), "sum", ("float32",), (e,), const(10.0, "float32"))],
            [Store("t", (i("j"),), e)],
            vector="j",
            unroll=2,
        )
        last = For(
            "j",
            ZERO,
            Affine(n),
            [
                Store(
                    "y",
                    (i("i"), i("j")),
                    expr("div", "float32", at("t", "j"), name("s", "float32")),
                )
            ],
            "vector",
            2,
        )
        items = buffers(
            buffer("x", [5, n], "float32", "in"),
            buffer("y", [5, n], "float32", "out"),
            buffer("t", [n], "float32", "scratch"),
        )
        kernel = Kernel("f", items, [For("i", ZERO, Affine(5), [fold, last])])
        check(kernel, [values_mild(5, n), blank([5, n], "float32")], rtol=1e-5, target=target)


def test_large_scratch_comes_from_the_heap():
    n = 100_000
    fill = For("i", ZERO, Affine(n), [Store("t", (i("i"),), at("x", "i") + 1.0)], "vector", 2)
    back = For(
        "i", ZERO, Affine(n), [Store("y", (i("i"),), at("t", Affine(n - 1) - i("i")))], "vector", 2
    )
    items = buffers(
        buffer("x", [n], "float32", "in"),
        buffer("y", [n], "float32", "out"),
        buffer("t", [n], "float32", "scratch"),
    )
    x = values_mild(n)
    got = run(Kernel("f", items, [fill, back]), [x, blank([n], "float32")])
    np.testing.assert_array_equal(got[1], x[::-1] + 1)


@pytest.mark.parametrize("n", [1, 5, 8, 37])
@pytest.mark.parametrize("unroll", [1, 4])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_accumulators_in_memory(n, unroll, kind, target):
    """The reduced axis outside: rows stream into a row of accumulators."""
    m = 23
    start = {"sum": 0.0, "max": float("-inf")}[kind]
    clear = For("j", ZERO, Affine(n), [Store("y", (i("j"),), const(start, "float32"))], "vector")
    add = For("j", ZERO, Affine(n), [Update("y", (i("j"),), kind, at("x", "i", "j"))], "vector", 2)
    items = buffers(buffer("x", [m, n], "float32", "in"), buffer("y", [n], "float32", "out"))
    kernel = Kernel("f", items, [clear, For("i", ZERO, Affine(m), [add], unroll=unroll)])
    check(kernel, [values_mild(m, n), blank([n], "float32")], rtol=1e-5, target=target)


def test_update_of_one_place_by_all_lanes(target):
    for n in (0, 3, 40):
        items = buffers(buffer("x", [n], "int32", "in"), buffer("y", [], "int32", "out"))
        body = [
            Store("y", (), const(5, "int32")),
            For(
                "i",
                ZERO,
                Affine(n),
                [Update("y", (), "sum", at("x", "i", dtype="int32"))],
                "vector",
                2,
            ),
        ]
        check(Kernel("f", items, body), [values([n], "int32"), blank([], "int32")], target=target)


def test_conditional_update(target):
    n = 41
    x = at("x", "i", dtype="int32")
    items = buffers(buffer("x", [n], "int32", "in"), buffer("y", [n], "int32", "inout"))
    even = compare("eq", x & const(1, "int32"), const(0, "int32"))
    body = [For("i", ZERO, Affine(n), [Update("y", (i("i"),), "sum", x, even)], "vector", 2)]
    check(Kernel("f", items, body), [values([n], "int32"), values([n], "int32", 3)], target=target)


def long_sum(x: np.ndarray, constant: bool) -> float:
    n = x.size
    kernel = lone_fold("sum", x.dtype.name, n if constant else i("n"), () if constant else ("n",))
    return run(kernel, [x, blank([], x.dtype.name)], [] if constant else [n])[1]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("n", [1000, 100_003, 3_000_001])
def test_long_sums_are_as_accurate_as_numpy(n, constant):
    rng = np.random.default_rng(n)
    worst, theirs = 0.0, 0.0
    for x in (
        rng.random(n, np.float32),
        np.full(n, 0.1, np.float32),
        rng.standard_normal(n, np.float32) ** 2 * 1e3,
    ):
        exact = x.sum(dtype=np.float64)
        worst = max(worst, abs(long_sum(x, constant) - exact) / exact)
        theirs = max(theirs, abs(x.sum(dtype=np.float32) - exact) / exact)
    assert worst <= max(2 * theirs, 4 * np.finfo(np.float32).eps)


def test_long_sum_over_two_axes_and_rows():
    """Short rows, many of them: the stretches are cut in the outer loop."""
    m, n = 40_000, 24
    x = np.full((m, n), 0.1, np.float32)
    for constant in (True, False):
        em, en = (Affine(m), Affine(n)) if constant else (i("m"), i("n"))
        fold = Fold(
            [("i", ZERO, em), ("j", ZERO, en)],
            [Accumulator(("s",), "sum", ("float32",), (at("x", "i", "j"),))],
            vector="j",
        )
        items = buffers(buffer("x", [em, en], "float32", "in"), buffer("y", [], "float32", "out"))
        kernel = Kernel(
            "f", items, [fold, Store("y", (), name("s", "float32"))], () if constant else ("m", "n")
        )
        got = run(kernel, [x, blank([], "float32")], [] if constant else [m, n])[1]
        assert abs(got / x.sum(dtype="d") - 1) < 1e-6
        column = Fold(
            [("i", ZERO, em)], [Accumulator(("s",), "sum", ("float32",), (at("x", "i", "j"),))]
        )
        items = buffers(buffer("x", [em, en], "float32", "in"), buffer("y", [en], "float32", "out"))
        body = [
            For("j", ZERO, en, [column, Store("y", (i("j"),), name("s", "float32"))], "vector", 2)
        ]
        got = run(
            Kernel("f", items, body, kernel.symbols),
            [x, blank([n], "float32")],
            [] if constant else [m, n],
        )[1]
        assert np.abs(got / x.sum(0, dtype="d") - 1).max() < 1e-6


def test_infinite_and_overflowing_sums_stay_infinite():
    x = np.zeros(100_000, np.float32)
    x[5000] = np.inf
    assert long_sum(x, True) == np.inf
    x[7000] = -np.inf
    assert np.isnan(long_sum(x, False))
    assert long_sum(np.full(100_000, 3e38, np.float32), True) == np.inf
    assert np.isnan(long_sum(np.where(np.arange(100_000) == 9, np.nan, 0).astype("f"), True))


def test_sum_of_a_cast_accumulates_in_its_own_type():
    n = 300
    acc = Accumulator(("s",), "sum", ("float64",), (cast(at("x", "i"), "float64"),))
    items = buffers(buffer("x", [n], "float32", "in"), buffer("y", [], "float64", "out"))
    body = [
        Fold([("i", ZERO, Affine(n))], [acc], vector="i", unroll=2),
        Store("y", (), name("s", "float64")),
    ]
    x = values_mild(n)
    got = run(Kernel("f", items, body), [x, blank([], "float64")])
    np.testing.assert_allclose(got[1], x.sum(dtype="d"), rtol=1e-14)
