"""Random calls of `covector.numpy` against NumPy: indexing, updates, einsum, matmul, sets."""

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp

SEEDS = range(8)
CASES = 25


def shape_of(rng, low=0, high=4, largest=4):
    return tuple(int(n) for n in rng.integers(1, largest + 1, rng.integers(low, high + 1)))


def numbers(rng, shape):
    return rng.integers(-9, 10, shape).astype(np.float32)


def index_of(rng, shape):
    """An index in bounds, of every kind of entry."""
    batch = shape_of(rng, 0, 2, 3)
    entries, kept = [], list(shape)
    while kept:
        n = kept.pop(0)
        kind = rng.integers(0, 8)
        if kind == 0:
            entries.append(int(rng.integers(-n, n)))
        elif kind in (1, 2):
            ends = [None if rng.random() < 0.3 else int(rng.integers(-n - 1, n + 2)) for _ in "ab"]
            step = [None, 1, 2, -1, -2][rng.integers(0, 5)]
            entries.append(slice(*ends, step))
        elif kind == 3:
            given = tuple(m if rng.random() < 0.7 else 1 for m in batch)[rng.integers(0, 2) :]
            entries.append(
                rng.integers(-n, n, given).astype(rng.choice(["int32", "int8", "int64"]))
            )
        elif kind == 4:
            entries.append(None)
            kept.insert(0, n)
        elif kind == 5 and rng.random() < 0.5:
            entries.append(rng.random(n) < 0.6)
        elif kind == 6 and Ellipsis not in [e for e in entries if e is Ellipsis]:
            entries.append(Ellipsis)
            drop = int(rng.integers(0, len(kept) + 2))
            kept = ([n, *kept])[drop:]
        else:
            entries.append(slice(None))
        if rng.random() < 0.15 and Ellipsis not in [e for e in entries if e is Ellipsis]:
            break
    return tuple(entries)


def valid(x, index):
    try:
        return x[index]
    except (IndexError, ValueError):
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_indexing(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        x = numbers(rng, shape_of(rng))
        index = index_of(rng, x.shape)
        wanted = valid(x, index)
        if wanted is None:
            continue
        ours = cnp.asarray(x)
        np.testing.assert_array_equal(ours[index], wanted, err_msg=repr((x.shape, index)))
        values = numbers(rng, wanted.shape)
        for method, ufunc in (("set", None), ("add", np.add), ("max", np.maximum)):
            target = x.copy()
            if ufunc is None:
                target[index] = values
                if (np.bincount(_touched(x.shape, index), minlength=1) > 1).any():
                    continue  # of repeated positions the last stays, by no rule of NumPy's
            else:
                ufunc.at(target, index, values)
            found = getattr(ours.at[index], method)(values)
            np.testing.assert_array_equal(found, target, err_msg=repr((x.shape, index, method)))


def _touched(shape, index):
    flat = np.arange(int(np.prod(shape)) or 1).reshape(shape) if 0 not in shape else np.zeros(shape)
    return flat[index].reshape(-1).astype(int)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_traced_indices(seed):
    """Integer arrays and scalars as arguments of a compiled function."""
    rng = np.random.default_rng(seed)
    for _ in range(CASES // 2):
        x = numbers(rng, shape_of(rng, 1))
        index = index_of(rng, x.shape)
        wanted = valid(x, index)
        arrays = [i for i in index if isinstance(i, np.ndarray) and i.dtype != bool]
        if wanted is None or not arrays:
            continue

        def read(x, arrays, index=index):
            given = iter(arrays)
            full = tuple(
                next(given) if isinstance(i, np.ndarray) and i.dtype != bool else i for i in index
            )
            return x[full]

        found = cv.jit(read)(x, arrays)
        np.testing.assert_array_equal(found, wanted, err_msg=repr((x.shape, index)))


@pytest.mark.parametrize("seed", SEEDS)
def test_einsum(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        sizes = {c: int(rng.integers(1, 4)) for c in "abcde"}
        terms = ["".join(rng.choice(list("abcde"), rng.integers(0, 4))) for _ in
                 range(rng.integers(1, 4))]  # fmt: skip
        used = sorted(set("".join(terms)))
        output = "".join(rng.permutation([c for c in used if rng.random() < 0.5]))
        text = ",".join(terms) + ("" if rng.random() < 0.2 else "->" + output)
        arrays = [numbers(rng, tuple(sizes[c] for c in t)) for t in terms]
        wanted = np.einsum(text, *arrays)
        found = cnp.einsum(text, *arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4, err_msg=text)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ij,jk", [(2, 1, 3, 4), (4, 5)]),
        ("i...,i...->...", [(3, 2), (3, 2)]),
        ("...,...", [(2, 3), (3,)]),
        ("...a,...b->ab...", [(2, 3), (2, 4)]),
        ("ab...->...ba", [(2, 3, 4, 5)]),
        ("...->...", [(2, 3)]),
        ("ii...->i...", [(2, 2, 3)]),
    ],
)
def test_einsum_with_ellipsis(text, shapes):
    rng = np.random.default_rng(0)
    arrays = [numbers(rng, s) for s in shapes]
    np.testing.assert_allclose(cnp.einsum(text, *arrays), np.einsum(text, *arrays), rtol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_matmul(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        batch = shape_of(rng, 0, 2, 3)
        k = int(rng.integers(1, 4))
        parts = []
        for _ in range(2):
            own = tuple(n if rng.random() < 0.7 else 1 for n in batch)[rng.integers(0, 3) :]
            parts.append(own)
        left = (k,) if rng.random() < 0.2 else (*parts[0], int(rng.integers(1, 4)), k)
        right = (k,) if rng.random() < 0.2 else (*parts[1], k, int(rng.integers(1, 4)))
        x, y = numbers(rng, left), numbers(rng, right)
        np.testing.assert_allclose(cnp.matmul(x, y), x @ y, err_msg=f"{left} @ {right}")


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap", "maximum"])
def test_pad(mode):
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        x = numbers(rng, shape_of(rng, 1, 3))
        widths = [tuple(int(w) for w in rng.integers(0, 9, 2)) for _ in x.shape]
        for options in [{"reflect_type": "odd"}, {}] if mode in ("reflect", "symmetric") else [{}]:
            if options and min(x.shape) < 2:
                continue
            found, wanted = cnp.pad(x, widths, mode, **options), np.pad(x, widths, mode, **options)
            np.testing.assert_array_equal(found, wanted, err_msg=repr((x.shape, widths, options)))


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_order_and_sets(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        x = numbers(rng, shape_of(rng, 1, 3, 5))
        axis = int(rng.integers(-x.ndim, x.ndim))
        order = np.argsort(x, axis, kind="stable")
        np.testing.assert_array_equal(cnp.argsort(x, axis), order)
        np.testing.assert_array_equal(cnp.take_along_axis(x, order, axis), np.sort(x, axis))
        q = rng.random(3).astype(np.float32)
        np.testing.assert_allclose(
            cnp.quantile(x, q, axis=axis), np.quantile(x, q, axis=axis), rtol=1e-4, atol=1e-4
        )
        found = cnp.unique(x, True, True, True)
        for ours, wanted in zip(found, np.unique(x, True, True, True), strict=True):
            np.testing.assert_array_equal(ours.reshape(-1), wanted.reshape(-1))
        rows = x.reshape(x.shape[0], -1)
        np.testing.assert_array_equal(cnp.unique(rows, axis=0), np.unique(rows, axis=0))
        a, b = x.reshape(-1), numbers(rng, (7,))
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d", "isin"):
            wanted = getattr(np, name)(a, b)
            np.testing.assert_array_equal(getattr(cnp, name)(a, b), wanted, err_msg=name)
        edges = np.sort(b)
        for side in ("left", "right"):
            found = cnp.searchsorted(edges, a, side)
            np.testing.assert_array_equal(found, np.searchsorted(edges, a, side))


def test_with_sizes_while_tracing():
    """What is compiled with `size` agrees with the concrete result, padded."""
    rng = np.random.default_rng(2)
    for _ in range(6):
        x = rng.integers(0, 4, 8).astype(np.int32)
        y = rng.integers(0, 6, 5).astype(np.int32)
        for function, args in (
            (cnp.unique, (x,)),
            (cnp.union1d, (x, y)),
            (cnp.intersect1d, (x, y)),
            (cnp.setdiff1d, (x, y)),
            (cnp.setxor1d, (x, y)),
            (cnp.flatnonzero, (x,)),
        ):
            wanted = np.asarray(function(*args))
            padded = cv.jit(lambda *a, f=function: f(*a, size=9, fill_value=-5))(*args)
            assert padded[: len(wanted)].tolist() == wanted.tolist(), function.__name__
            assert set(padded[len(wanted) :].tolist()) <= {-5}, function.__name__
