"""The sort routine against NumPy's stable sort and lexsort: every type, length, number of keys."""

import numpy as np
import pytest

from covector.backends.cpu.executable import compile_program
from covector.compiler.math.evaluate import numpy_dtype
from covector.compiler.program import LibraryCall, Program, Slot
from tests.backends.harness import guarded, values
from tests.backends.test_program import run_program

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


def slot(array, home):
    return Slot(array.shape, array.dtype.name, array.nbytes, home)


def library(name, attributes, inputs, outputs):
    slots = [*(slot(x, "in") for x in inputs), *(slot(y, "out") for y in outputs)]
    m, n = len(inputs), len(outputs)
    shapes = [a.shape for a in (*inputs, *outputs)]
    step = LibraryCall(name, range(m), range(m, m + n), shapes, attributes)
    code = compile_program(Program("p", slots, range(m), range(m, m + n), [step], []))
    pairs = [guarded(y) for y in outputs]
    before = [room.copy() for _, room in pairs]
    run_program(code, inputs, [inside for inside, _ in pairs])
    for (inside, room), old in zip(pairs, before, strict=True):
        start = inside.ctypes.data - room.ctypes.data
        old[start : start + inside.nbytes] = room[start : start + inside.nbytes]
        assert (old == room).all()
    return [inside for inside, _ in pairs]


def run_sort(operands, num_keys=1):
    return library("sort", (num_keys,), operands, [np.zeros_like(x) for x in operands])


def wide(x):
    """As a type NumPy sorts, in the same order."""
    return x.astype(np.float64) if x.dtype.kind == "V" or x.dtype.name == "bfloat16" else x


def draw(shape, dtype, seed):
    x = values(shape, dtype, seed)
    few = values((5,), dtype, seed + 1)
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.4, rng.choice(few, shape), x)


def same_bits(got, want):
    kind = np.dtype(f"u{got.dtype.itemsize}") if got.dtype.kind != "c" else np.uint64
    if got.dtype.kind in "fV":
        number = ~np.isnan(got.astype(np.float64))
        np.testing.assert_array_equal(number, ~np.isnan(want.astype(np.float64)))
        np.testing.assert_array_equal(got.view(kind)[number], want.view(kind)[number])
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(0,), (1,), (2,), (47,), (5, 48), (3, 49), (2, 3, 130), (0, 5), (20000,)]
)
def test_values(dtype, shape):
    x = draw(shape, dtype, len(shape))
    with np.errstate(all="ignore"):
        order = np.argsort(wide(x), axis=-1, kind="stable")
        (got,) = run_sort([x])
        same_bits(got, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (2,), (5, 48), (3, 49), (2, 3, 130), (20000,)])
def test_order(dtype, shape):
    """argsort: the numbers travel along, equal keys in the order they came."""
    x = draw(shape, dtype, 7)
    numbers = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape).copy()
    with np.errstate(all="ignore"):
        want = np.argsort(wide(x), axis=-1, kind="stable")
        got, order = run_sort([x, numbers])
        np.testing.assert_array_equal(order, want)
        same_bits(got, np.take_along_axis(x, want, -1))


@pytest.mark.parametrize("n", [3, 40, 300, 20000])
@pytest.mark.parametrize("num_keys", [1, 2, 3])
def test_several_keys(n, num_keys):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, n).astype(np.int8)
    b = rng.choice(np.array([0.0, -0.0, np.nan, 1.0, -np.inf]), n)
    c = rng.integers(0, 1 << 40, n).astype(np.uint64)
    z = (rng.random(n) + 1j * rng.random(n)).astype(np.complex128)
    want = np.lexsort([c, b, a][3 - num_keys :])
    got = run_sort([a, b, c, z], num_keys)
    for g, x in zip(got, (a, b, c, z), strict=True):
        same_bits(g, x[want])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 30, 500])
def test_complex_sorts_by_parts(dtype, n):
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 4, (2, n)) + 1j * rng.integers(-2, 2, (2, n))).astype(dtype)
    (got,) = run_sort([x])
    np.testing.assert_array_equal(got, np.sort(x, axis=-1))


def test_zeros_keep_their_order_and_nan_comes_last():
    x = np.array([0.0, -0.0, np.nan, -np.nan, 1, -np.inf, np.inf, 0.0, -0.0], np.float32)
    (got,) = run_sort([x])
    np.testing.assert_array_equal(got, [-np.inf, 0, 0, 0, 0, 1, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(np.signbit(got[1:5]), [False, True, False, True])
    assert numpy_dtype("bfloat16").itemsize == 2


def test_sorted_and_reversed_rows():
    x = np.arange(100_000, dtype=np.int64)
    for given in (x, x[::-1].copy(), np.zeros_like(x)):
        np.testing.assert_array_equal(run_sort([given])[0], np.sort(given))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((1,), 1),
        ((50,), 3),
        ((3, 300), 1),
        ((3, 300), 20),
        ((2, 300), 300),
        ((2, 299), 250),
        ((70000,), 40),
        ((4, 5), 0),
    ],
)
def test_top_k(dtype, shape, k):
    x = draw(shape, dtype, 3)
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.int64)
    if x.dtype.kind in "fV" or x.dtype.name == "bfloat16":  # the total order: by bits, signs apart
        width = 8 * x.dtype.itemsize
        sign = bits >> (width - 1) & 1
        magnitude = bits & ((1 << (width - 1)) - 1)
        keys = np.where(sign == 1, -1 - magnitude, magnitude)
    else:
        keys = x
    places = np.arange(shape[-1])
    order = np.stack(
        [
            sorted(places, key=lambda p, r=r: (-int(r[p]), p))[:k]
            for r in keys.reshape(-1, shape[-1])
        ]
    ).reshape(*shape[:-1], k)
    blank = np.zeros((*shape[:-1], k), x.dtype), np.zeros((*shape[:-1], k), np.int32)
    got, numbers = library("top_k", (k,), [x], blank)
    np.testing.assert_array_equal(numbers, order)
    want = np.take_along_axis(x, order.astype(np.int64), -1)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
