"""Loops without a carry: ranges of their rounds run on several threads, with the same results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.runtime import threads

R = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = threads.num_threads()
    yield
    threads.set_num_threads(before)


def newton(a: Any) -> Any:
    """A loop over a vector, whose length depends on the values."""

    def going(c: Any) -> Any:
        x, k = c
        return (abs(x * x - a).max() > 1e-5 * a.max()) & (k < 100)

    def step(c: Any) -> Any:
        x, k = c
        return 0.5 * (x + a / x), k + 1

    return lax.while_loop(going, step, (a + 1, 0))


def sums(x: Any) -> Any:
    """A chain of small steps, with scratch memory."""
    w = cnp.eye(x.shape[1], dtype=x.dtype) * 0.5

    def step(h: Any, row: Any) -> Any:
        h = cnp.tanh(h @ w + row)
        return h, cnp.sort(h)[0]

    return lax.scan(step, cnp.zeros(x.shape[1], x.dtype), x)


def cholesky(m: Any) -> Any:
    """A routine of LAPACK."""
    return cnp.linalg.cholesky(m @ m.T + 10 * cnp.eye(m.shape[0], dtype=m.dtype)).sum(0)


def nested(x: Any) -> Any:
    """A loop of the same kind inside."""
    return lax.map(lambda row: newton(row[None] + cnp.arange(1, 9, dtype=row.dtype))[0], x)


def reverse(x: Any) -> Any:
    return lax.scan(lambda c, r: (c, newton(r)[0]), None, x, reverse=True)[1]


PROGRAMS = {
    "newton": (cv.vmap(newton), R.random((2003, 16)) * 50 + 0.5),
    "sums": (lambda x: lax.map(sums, x), R.normal(size=(13, 1000, 16))),
    "cholesky": (lambda x: lax.map(cholesky, x), R.normal(size=(40, 40, 40))),
    "nested": (lambda x: lax.map(nested, x), R.random((30, 90)) * 9),
    "reverse": (reverse, R.random((2000, 16)) * 50 + 0.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_do_not_change_results(name: str) -> None:
    """Bit for bit; and they are those of one example at a time."""
    fun, x = PROGRAMS[name]
    x = x.astype(np.float32)
    compiled = cv.jit(fun)
    assert " ranges" in compiled.lower(x).as_text("kernels")
    found = []
    for n in (1, 2, 5):
        threads.set_num_threads(n)
        found += [[np.asarray(v) for v in cv.tree.leaves(compiled(x))] for _ in range(3)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    one = cv.jit(lambda row: fun(row[None]))
    for k in (0, 7, len(x) - 1):
        for a, b in zip(found[0], cv.tree.leaves(one(x[k])), strict=True):
            np.testing.assert_allclose(a[k], np.asarray(b)[0], rtol=1e-5, atol=1e-5)


def test_small_loops_stay_on_one_thread() -> None:
    x = np.ones((3, 4), np.float32)
    text = cv.jit(lambda x: lax.map(sums, x[:, None])).lower(x).as_text("kernels")
    assert "loop 3 times" in text
    assert " ranges" not in text


def test_a_callback_stays_where_the_lock_is() -> None:
    def one(row: Any) -> Any:
        out = newton(row)[0]
        return out + cv.pure_callback(lambda v: v * 2, cv.ShapeDtypeStruct((), "float32"), out[0])

    x = (R.random((500, 64)) + 1).astype(np.float32)
    compiled = cv.jit(lambda x: lax.map(one, x))
    threads.set_num_threads(3)
    np.testing.assert_allclose(compiled(x)[7], np.sqrt(x[7]) + 2 * np.sqrt(x[7, 0]), rtol=1e-4)


def test_how_many_ranges() -> None:
    """As many as scratch memory allows; each has as many rounds as the others, but the last."""
    program = cv.jit(lambda x: lax.map(cholesky, x)).lower(np.ones((99, 40, 40), "float32"))
    assert "99 times in 50 ranges" in program.as_text("kernels")
