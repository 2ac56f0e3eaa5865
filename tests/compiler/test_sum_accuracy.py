"""Sums are as accurate as NumPy's pairwise ones, along every axis; exact sums are the judge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp

CASES = [
    ((300_003,), None), ((4096, 100), 0), ((100, 4096), 1), ((50_000, 3), 0), ((3, 50_000), 1),
    ((40, 9, 500), (0, 2)), ((500, 9, 40), (0, 2)), ((257,), None),
]  # fmt: skip


def worst(found: np.ndarray, x: np.ndarray, axes: tuple[int, ...]) -> float:
    """The largest error, in units of the last place of the sum of magnitudes."""
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = np.transpose(x, (*kept, *axes)).reshape(math.prod(x.shape[d] for d in kept), -1)
    exact = np.array([math.fsum(row.tolist()) for row in rows])
    size = np.array([math.fsum(np.abs(row).tolist()) for row in rows])
    error = np.abs(np.asarray(found, np.float64).reshape(-1) - exact)
    return float((error / (size * np.finfo(np.float32).eps)).max())


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("kind", ["positive", "signed", "equal"])
def test_as_accurate_as_numpy(shape: tuple[int, ...], axis: int | tuple[int, ...] | None, kind):
    rng = np.random.default_rng(0)
    made = {
        "positive": lambda: rng.random(shape),
        "signed": lambda: rng.standard_normal(shape),
        "equal": lambda: np.full(shape, 1 / 3),
    }
    x = made[kind]().astype(np.float32)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    ours = worst(np.asarray(cv.jit(lambda x: cnp.sum(x, axis))(x)), x, axes)
    # Both round the last sum; a difference below that is luck.
    assert ours <= max(worst(x.sum(axis), x, axes), math.log2(x.size) / 4)
