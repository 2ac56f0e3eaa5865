"""Loops, scans, branches, guarded stores; strided, gathered and scattered places; every bound."""

import numpy as np
import pytest

from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import For, If, Kernel, Let, Scan, Store, Update
from covector.ir.index import Affine, Data, Quotient, affine
from covector.ir.scalar import cast, compare, const, expr, name, select
from tests.backends.harness import at, blank, buffer, buffers, check, i, run, values

ZERO = Affine()
SIZES = [0, 1, 7, 8, 9, 24, 37]


def index(value, dtype="int64"):
    return expr("index", dtype, extra=affine(value))


def mild(*shape):
    return np.random.default_rng(2).random(shape, np.float32)


@pytest.fixture(params=["epilogue", "masked", "narrow"])
def target(request):
    h = host()
    if request.param == "narrow":
        return Target(h.triple, h.cpu, h.features, vector_bytes=16)
    return Target(h.triple, h.cpu, h.features, tail=request.param)


@pytest.mark.parametrize("mode", ["serial", "vector", "parallel"])
@pytest.mark.parametrize("unroll", [1, 2, 3])
def test_loops_over_two_axes(mode, unroll, target):
    for m, n in [(3, 0), (0, 5), (1, 1), (5, 9), (4, 40)]:
        for symbolic in (False, True):
            em, en = (i("m"), i("n")) if symbolic else (Affine(m), Affine(n))
            value = at("x", "i", "j") * at("w", "j") + at("c", "i")
            inner = For("j", ZERO, en, [Store("y", (i("i"), i("j")), value)], mode, unroll)
            items = buffers(
                buffer("x", [em, en], "float32", "in"),
                buffer("w", [en], "float32", "in"),
                buffer("c", [em], "float32", "in"),
                buffer("y", [em, en], "float32", "out"),
            )
            kernel = Kernel(
                "f", items, [For("i", ZERO, em, [inner])], ("m", "n") if symbolic else ()
            )
            check(
                kernel,
                [mild(m, n), mild(n), mild(m), blank([m, n], "float32")],
                [m, n] if symbolic else [],
                rtol=1e-6,
                target=target,
            )


@pytest.mark.parametrize("bounds", [(2, 5), (3, 11), (1, 39), (5, 5), (9, 2)])
def test_loops_that_start_late(bounds, target):
    low, high = bounds
    for symbolic in (False, True):
        a, b = (i("a"), i("b")) if symbolic else (Affine(low), Affine(high))
        body = [For("i", a, b, [Store("y", (i("i"),), at("x", "i") + 1.0)], "vector", 2)]
        items = buffers(buffer("x", [40], "float32", "in"), buffer("y", [40], "float32", "out"))
        kernel = Kernel("f", items, body, ("a", "b") if symbolic else ())
        check(kernel, [mild(40), blank([40], "float32")], bounds if symbolic else [], target=target)


@pytest.mark.parametrize("step", [-5, -4, -2, -1, 0, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_strided_reads_touch_nothing_beyond(step, dtype, target):
    for n in (1, 7, 9, 37):
        start = -step * (n - 1) if step < 0 else 0
        size = abs(step) * (n - 1) + 1
        place = Affine(start) + i("i") * step
        body = [
            For(
                "i",
                ZERO,
                Affine(n),
                [Store("y", (i("i"),), at("x", place, dtype=dtype))],
                "vector",
                2,
            )
        ]
        items = buffers(buffer("x", [size], dtype, "in"), buffer("y", [n], dtype, "out"))
        check(Kernel("f", items, body), [values([size], dtype), blank([n], dtype)], target=target)


@pytest.mark.parametrize("step", [-3, -1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_strided_writes(step, dtype, target):
    for n in SIZES[1:]:
        start = -step * (n - 1) if step < 0 else 0
        size = abs(step) * (n - 1) + 1
        place = Affine(start) + i("i") * step
        body = [
            For(
                "i", ZERO, Affine(n), [Store("y", (place,), at("x", "i", dtype=dtype))], "vector", 2
            )
        ]
        items = buffers(buffer("x", [n], dtype, "in"), buffer("y", [size], dtype, "inout"))
        check(
            Kernel("f", items, body), [values([n], dtype), values([size], dtype, 5)], target=target
        )


def test_buffers_with_strides(target):
    """A column of a matrix, a transposed matrix, run-time strides."""
    m, n = 11, 13
    x = mild(m * n)
    for strides, symbols in (((1, m), ()), ((i("s"), i("t")), ("s", "t"))):
        body = [
            For(
                "i",
                ZERO,
                Affine(m),
                [
                    For(
                        "j",
                        ZERO,
                        Affine(n),
                        [Store("y", (i("i"), i("j")), at("x", "i", "j") * 2.0)],
                        "vector",
                        2,
                    )
                ],
            )
        ]
        items = buffers(
            buffer("x", [m, n], "float32", "in", strides), buffer("y", [m, n], "float32", "out")
        )
        kernel = Kernel("f", items, body, symbols)
        got = check(kernel, [x, blank([m, n], "float32")], [1, m][: len(symbols)], target=target)
        np.testing.assert_array_equal(got[1], 2 * x.reshape(n, m).T)


def test_gather_and_scatter(target):
    for n in SIZES:
        rows = np.random.default_rng(0).integers(0, 9, n).astype(np.int32)
        row = affine(Data(at("r", "i", dtype="int32")))
        take = For("i", ZERO, Affine(n), [Store("y", (i("i"),), at("x", row) + 1.0)], "vector", 2)
        items = buffers(
            buffer("x", [9], "float32", "in"),
            buffer("r", [n], "int32", "in"),
            buffer("y", [n], "float32", "out"),
        )
        check(Kernel("f", items, [take]), [mild(9), rows, blank([n], "float32")], target=target)
        whole = For(
            "i",
            ZERO,
            Affine(n),
            [
                For(
                    "j",
                    ZERO,
                    Affine(12),
                    [Store("y", (i("i"), i("j")), at("x", row, "j"))],
                    "vector",
                )
            ],
        )
        items = buffers(
            buffer("x", [9, 12], "float32", "in"),
            buffer("r", [n], "int32", "in"),
            buffer("y", [n, 12], "float32", "out"),
        )
        check(
            Kernel("f", items, [whole]),
            [mild(9, 12), rows, blank([n, 12], "float32")],
            target=target,
        )
        for mode in ("serial", "vector"):  # several meet in one element
            add = For(
                "i",
                ZERO,
                Affine(n),
                [Update("y", (row,), "sum", at("x", "i", dtype="int32"))],
                mode,
            )
            items = buffers(
                buffer("x", [n], "int32", "in"),
                buffer("r", [n], "int32", "in"),
                buffer("y", [9], "int32", "inout"),
            )
            check(
                Kernel("f", items, [add]),
                [values([n], "int32"), rows, values([9], "int32")],
                target=target,
            )


def test_scatter_that_drops(target):
    """Out of bounds is said by `where`: nothing is written, nothing read there."""
    n = 21
    rows = np.random.default_rng(0).permutation(n).astype(np.int64)
    r = at("r", "i", dtype="int64")
    fits = compare("lt", r, const(9, "int64"))
    place = affine(Data(select(fits, r, const(0, "int64"))))
    for mode in ("serial", "vector"):
        put = For("i", ZERO, Affine(n), [Store("y", (place,), at("x", "i"), fits)], mode)
        items = buffers(
            buffer("x", [n], "float32", "in"),
            buffer("r", [n], "int64", "in"),
            buffer("y", [9], "float32", "inout"),
        )
        check(Kernel("f", items, [put]), [mild(n), rows, np.zeros(9, np.float32)], target=target)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "int16"])
def test_conditional_store(dtype, target):
    n = 45
    keep = compare("gt", at("c", "i"), const(0.5, "float32"))
    body = [
        For(
            "i",
            ZERO,
            Affine(n),
            [Store("y", (i("i"),), at("x", "i", dtype=dtype), keep)],
            "vector",
            2,
        )
    ]
    items = buffers(
        buffer("c", [n], "float32", "in"),
        buffer("x", [n], dtype, "in"),
        buffer("y", [n], dtype, "inout"),
    )
    check(
        Kernel("f", items, body),
        [mild(n), values([n], dtype), values([n], dtype, 9)],
        target=target,
    )


def test_store_of_all_lanes_to_one_place(target):
    n = 19
    keep = compare("gt", at("x", "i"), const(0.5, "float32"))
    for where in (None, keep):
        body = [For("i", ZERO, Affine(n), [Store("y", (), at("x", "i"), where)], "vector", 2)]
        items = buffers(buffer("x", [n], "float32", "in"), buffer("y", [], "float32", "inout"))
        check(Kernel("f", items, body), [mild(n), mild()], target=target)


def test_uniform_branch_guards_reads(target):
    """What lies behind a condition is read only where it holds."""
    n = 6
    row = i("i")
    for where in (True, False):
        inside = compare("lt", index(row), const(3, "int64"))
        value = at("x", row, "j")
        store = Store("y", (row, i("j")), value, inside if where else None)
        inner = For("j", ZERO, Affine(10), [store], "vector")
        body = [For("i", ZERO, Affine(n), [inner if where else If(inside, [inner])])]
        items = buffers(
            buffer("x", [n, 10], "float32", "in"), buffer("y", [n, 10], "float32", "inout")
        )
        check(Kernel("f", items, body), [mild(n, 10), mild(n, 10)], target=target)


def test_branch_with_two_sides(target):
    flag = at("c", dtype="bool")
    sides = [
        [For("i", ZERO, Affine(20), [Store("y", (i("i"),), at("x", "i") + k)], "vector")]
        for k in (1.0, 2.0)
    ]
    items = buffers(
        buffer("c", [], "bool", "in"),
        buffer("x", [20], "float32", "in"),
        buffer("y", [20], "float32", "out"),
    )
    for c in (True, False):
        check(
            Kernel("f", items, [If(flag, *sides)]),
            [np.array(c), mild(20), blank([20], "float32")],
            target=target,
        )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("outer", ["serial", "vector"])
def test_scan(reverse, outer, target):
    """A cumulative sum and a Fibonacci pair down the first axis, lanes over the second."""
    for m, n in [(0, 5), (1, 1), (9, 13), (5, 16)]:
        x = at("x", "k", "j")
        s, a, b = name("s", "float32"), name("a", "int32"), name("b", "int32")
        scan = Scan(
            "k",
            ZERO,
            Affine(m),
            [("s", const(0.5, "float32")), ("a", const(0, "int32")), ("b", const(1, "int32"))],
            [Let("t", s + x), Store("y", (i("k"), i("j")), name("t", "float32"))],
            [name("t", "float32"), b, a + b],
            reverse,
        )
        last = [Store("z", (i("j"),), s), Store("f", (i("j"),), name("a", "int32"))]
        items = buffers(
            buffer("x", [m, n], "float32", "in"),
            buffer("y", [m, n], "float32", "out"),
            buffer("z", [n], "float32", "out"),
            buffer("f", [n], "int32", "out"),
        )
        body = [For("j", ZERO, Affine(n), [scan, *last], outer, 2)]
        check(
            Kernel("g", items, body),
            [mild(m, n), blank([m, n], "float32"), blank([n], "float32"), blank([n], "int32")],
            rtol=1e-6,
            target=target,
        )


def test_scan_in_place(target):
    """Reads of what the scan itself wrote are neither hoisted nor remembered."""
    n = 30
    body = [
        Scan(
            "k",
            Affine(1),
            Affine(n),
            [("s", const(1.0, "float32"))],
            [Store("x", (i("k"),), at("x", i("k") - 1) + at("x", "k")), Let("v", at("x", "k"))],
            [name("s", "float32") + name("v", "float32")],
        ),
        Store("y", (), name("s", "float32")),
    ]
    items = buffers(buffer("x", [n], "float32", "inout"), buffer("y", [], "float32", "out"))
    check(Kernel("f", items, body), [mild(n), blank([], "float32")], rtol=1e-6, target=target)


def test_in_place_store_then_read(target):
    n = 29
    x = at("x", "i")
    body = [
        For(
            "i",
            ZERO,
            Affine(n),
            [
                Store("x", (i("i"),), x + 1.0),
                Store("y", (i("i"),), x * 2.0),
                Store("x", (i("i"),), x * x),
                Store("z", (i("i"),), x),
            ],
            "vector",
            2,
        )
    ]
    items = buffers(
        buffer("x", [n], "float32", "inout"),
        buffer("y", [n], "float32", "out"),
        buffer("z", [n], "float32", "out"),
    )
    check(
        Kernel("f", items, body),
        [mild(n), blank([n], "float32"), blank([n], "float32")],
        target=target,
    )


@pytest.mark.parametrize("n", [1, 3, 7, 8, 50])
@pytest.mark.parametrize("coefficient", [1, 3, -1])
def test_quotients(n, coefficient, target):
    """Reshapes that were not factored away, contiguous or not."""
    size = 45
    flat = i("i") * coefficient + (0 if coefficient > 0 else size - 1)
    div, mod = affine(Quotient("div", flat, n)), affine(Quotient("mod", flat, n))
    rows = (size * abs(coefficient)) // n + 1
    body = [
        For(
            "i",
            ZERO,
            Affine(size),
            [
                Store("y", (i("i"),), at("x", div, mod)),
                Store("z", (i("i"),), index(div + mod * 2, "int32")),
            ],
            "vector",
            2,
        )
    ]
    items = buffers(
        buffer("x", [rows, n], "float32", "in"),
        buffer("y", [size], "float32", "out"),
        buffer("z", [size], "int32", "out"),
    )
    check(
        Kernel("f", items, body),
        [mild(rows, n), blank([size], "float32"), blank([size], "int32")],
        target=target,
    )


@pytest.mark.parametrize(
    "dtype", ["int32", "int64", "int8", "uint16", "float32", "float64", "bool"]
)
def test_index_as_a_value(dtype, target):
    n = 300
    body = [
        For(
            "i", ZERO, Affine(n), [Store("y", (i("i"),), index(i("i") * 3 - 7, dtype))], "vector", 2
        )
    ]
    check(
        Kernel("f", buffers(buffer("y", [n], dtype, "out")), body),
        [blank([n], dtype)],
        target=target,
    )


def test_mixed_widths_share_lanes(target):
    n = 37
    a, b, c = at("a", "i", dtype="int8"), at("b", "i", dtype="float64"), at("c", "i", dtype="bool")
    value = select(c, cast(a, "float64") + b, cast(cast(b, "float32"), "float64"))
    body = [For("i", ZERO, Affine(n), [Store("y", (i("i"),), value)], "vector", 2)]
    items = buffers(
        buffer("a", [n], "int8", "in"),
        buffer("b", [n], "float64", "in"),
        buffer("c", [n], "bool", "in"),
        buffer("y", [n], "float64", "out"),
    )
    given = [
        values([n], "int8"),
        values([n], "float64"),
        values([n], "bool"),
        blank([n], "float64"),
    ]
    check(Kernel("f", items, body), given, target=target)


def test_deep_expression_needs_no_recursion():
    x = at("x", "i")
    value = x
    for k in range(5000):
        value = value + float(k % 3)
    body = [For("i", ZERO, Affine(3), [Store("y", (i("i"),), value)])]
    items = buffers(buffer("x", [3], "float32", "in"), buffer("y", [3], "float32", "out"))
    kernel = Kernel("f", items, body)
    assert len(canonical(kernel)) > 5000
    np.testing.assert_allclose(
        run(kernel, [np.zeros(3, np.float32), blank([3], "float32")])[1], 4999
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16", "bool", "complex64"])
def test_transposition_in_blocks(dtype, target):
    """Whole blocks, ragged edges, a second operand that is read along the rows."""
    for m, n in [(16, 16), (70, 41), (3, 20)]:
        for symbolic in (False, True) if dtype == "float32" else (m == 3,):
            em, en = (i("m"), i("n")) if symbolic else (Affine(m), Affine(n))
            value = select(
                at("c", "j", dtype="bool"),
                at("x", "j", "i", dtype=dtype),
                at("w", "i", "j", dtype=dtype),
            )
            inner = For("j", ZERO, en, [Store("y", (i("i"), i("j")), value)], "vector")
            items = buffers(
                buffer("x", [en, em], dtype, "in"),
                buffer("w", [em, en], dtype, "in"),
                buffer("c", [en], "bool", "in"),
                buffer("y", [em, en], dtype, "out"),
            )
            kernel = Kernel(
                "f", items, [For("i", ZERO, em, [inner], "tile")], ("m", "n") if symbolic else ()
            )
            given = [
                values([n, m], dtype),
                values([m, n], dtype, 1),
                values([n], "bool"),
                blank([m, n], dtype),
            ]
            want = np.where(given[2], given[0].T, given[1])
            got = run(kernel, given, [m, n] if symbolic else [], target)[3]
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
