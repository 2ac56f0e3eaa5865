"""Derivatives behind a mask are 0, whatever the masked function does: in reverse, and twice.

Over every public function of arrays of one, two or three arguments, at zeros, ones, infinities,
the largest and the least numbers, in all combinations.  What fails to be called so is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.lax as lax
import covector.nn as nn
import covector.numpy as cnp
import covector.scipy.special as special

POINTS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e308, -1e308, 1e-320, 2.5])
PAIRS = [np.repeat(POINTS, len(POINTS)), np.tile(POINTS, len(POINTS))]
ROOMS = {"numpy": cnp, "lax": lax, "nn": nn, "special": special}
#: Sums of products: 0 times infinity is NaN in them, as in the function itself (differences.md).
SUMS_OF_PRODUCTS = {
    "numpy.convolve", "numpy.correlate", "numpy.corrcoef", "numpy.cov", "numpy.dot", "numpy.inner",
    "numpy.matmul", "numpy.polymul", "numpy.polyval", "numpy.vdot", "numpy.vecdot", "lax.dot",
}  # fmt: skip


def _functions() -> Iterator[str]:
    for room, module in ROOMS.items():
        for name in sorted(getattr(module, "__all__", dir(module))):
            function = getattr(module, name, None)
            if callable(function) and not isinstance(function, type) and name[0] != "_":
                yield f"{room}.{name}"


FUNCTIONS = [name for name in _functions() if name not in SUMS_OF_PRODUCTS]


def floats(result: Any) -> list[Any]:
    """Its floating-point arrays."""
    leaves = cv.tree_util.tree_leaves(result)
    return [x for x in leaves if getattr(getattr(x, "dtype", None), "kind", "") in "fc"]


def masked(fun: Callable[..., Any]) -> Callable[..., Any]:
    """0, as the sum of what a mask takes of the results of `fun`."""

    def hidden(*args: Any) -> Any:
        total = 0.0
        for x in floats(fun(*args)):
            kept = cnp.where(cnp.zeros(x.shape, bool), x, 0)
            total = total + kept.real.sum() + (kept.imag.sum() if x.dtype.kind == "c" else 0)
        return total

    return hidden


def derivatives(fun: Callable[..., Any], args: list[np.ndarray]) -> Iterator[tuple[str, Any]]:
    """Reverse; reverse of reverse; reverse of forward (forward mode alone is masked at its end)."""
    every = tuple(range(len(args)))
    ones = tuple(np.ones_like(x) for x in args)

    def along(*xs: Any) -> Any:
        return sum(g.sum() for g in cv.grad(fun, every)(*xs))

    yield "reverse", cv.grad(fun, every)(*args)
    yield "reverse of reverse", cv.grad(along, every)(*args)
    yield "reverse of forward", cv.grad(lambda *xs: cv.jvp(fun, xs, ones)[1], every)(*args)


def check(name: str, fun: Callable[..., Any], args: list[np.ndarray]) -> bool:
    """AssertionError naming the derivative that is not 0; False if there is nothing to check."""
    try:
        cv.eval_shape(cv.grad(masked(fun), tuple(range(len(args)))), *args)
        if not floats(cv.eval_shape(fun, *args)):
            return False
    except Exception:
        return False  # not a function of so many arrays
    for order, found in derivatives(masked(fun), args):
        for x in found:
            assert np.all(np.asarray(x) == 0), f"{name}: {order} is not 0 at {args}: {x}"
    return True


@pytest.fixture(autouse=True)
def _wide() -> Any:
    with cv.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("room", ROOMS)
def test_every_function(room: str) -> None:
    checked = 0
    for name in FUNCTIONS:
        if name.startswith(room + "."):
            fun = getattr(ROOMS[room], name.partition(".")[2])
            checked += check(name, fun, [POINTS])
            checked += check(name, fun, PAIRS)
    assert checked > {"numpy": 150, "lax": 55, "nn": 25, "special": 15}[room]


INNER: dict[str, Callable[[Any], Any]] = {
    "1/x": lambda x: 1 / x,
    "log": cnp.log,
    "sqrt": cnp.sqrt,
    "x/|x|": lambda x: x / cnp.abs(x),
    "x**-1.5": lambda x: x**-1.5,
    "arccos": cnp.arccos,
    "exp(1e3 x)": lambda x: cnp.exp(1e3 * x),
    "lgamma": lax.lgamma,
}
OUTER: dict[str, Callable[[Any], Any]] = {
    "exp": cnp.exp,
    "log": cnp.log,
    "sqrt": cnp.sqrt,
    "sin": cnp.sin,
    "tanh": cnp.tanh,
    "reciprocal": lambda y: 1 / y,
    "power": lambda y: y**2.5,
    "x**x": lambda y: y**y,
    "product": lambda y: y * cnp.exp(-y),
    "log1p": cnp.log1p,
    "logistic": nn.sigmoid,
    "erfinv": lax.erf_inv,
    "softmax": nn.softmax,
    "logsumexp": nn.logsumexp,
    "norm": cnp.linalg.norm,
    "std": cnp.std,
    "cumprod": cnp.cumprod,
    "arctan2": lambda y: cnp.arctan2(y, y),
}


@pytest.mark.parametrize("inner", INNER)
def test_compositions(inner: str) -> None:
    for outer, of in OUTER.items():
        assert check(f"{outer} of {inner}", lambda x, of=of: of(INNER[inner](x)), [POINTS])


def test_the_branch_that_where_takes_counts() -> None:
    for name, fun in {
        "exp(1/x)": lambda x: cnp.exp(1 / x),
        "x log x": lambda x: x * cnp.log(x),
        "sqrt": lambda x: x * cnp.sqrt(x),
        "power": lambda x: x**0.5,
        "inverse": lambda x: 1 / (x * x),
    }.items():
        for point, masks in ((0.0, True), (-1.0, True), (1.5, False)):
            hidden = lambda x, fun=fun: cnp.where(x > 0, fun(x), 0.0)  # noqa: E731
            for order in (
                cv.grad, cv.jacfwd, lambda f: cv.grad(cv.grad(f)), lambda f: cv.jacfwd(cv.grad(f)),
                lambda f: cv.grad(cv.jacfwd(f)), cv.hessian, lambda f: cv.jit(cv.hessian(f)),
            ):  # fmt: skip
                found = order(hidden)(point)
                wanted = 0.0 if masks else order(fun)(point)
                np.testing.assert_allclose(found, wanted, err_msg=f"{name} at {point}")


#: Functions with a kink at 0 -> arguments at which gradient and Hessian are 0.
KINKS: dict[str, tuple[Callable[..., Any], Any]] = {
    "abs": (cnp.abs, 0.0),
    "fabs": (cnp.fabs, 0.0),
    "hypot": (lambda x: cnp.hypot(x, 2 * x), 0.0),
    "norm": (cnp.linalg.norm, np.zeros(3)),
    "norm of a matrix": (cnp.linalg.norm, np.zeros((2, 3))),
    "norm 1": (lambda x: cnp.linalg.norm(x, 1), np.zeros(3)),
    "norm 3": (lambda x: cnp.linalg.norm(x, 3), np.zeros(3)),
    "norm 1.5": (lambda x: cnp.linalg.norm(x, 1.5), np.zeros(3)),
    "vector_norm": (cnp.linalg.vector_norm, np.zeros(3)),
    "spectral norm": (lambda x: cnp.linalg.norm(x, 2), np.zeros((2, 2))),
    "nuclear norm": (lambda x: cnp.linalg.norm(x, "nuc"), np.zeros((2, 2))),
    "std": (cnp.std, np.full(3, 2.0)),
    "distance": (lambda x: cnp.linalg.norm(x - x[::-1]), np.full(3, 1.5)),
    "size of a complex number": (lambda x: cnp.abs(x + 2j * x), 0.0),
}


@pytest.mark.parametrize("name", KINKS)
def test_subgradients_are_0_to_second_order(name: str) -> None:
    fun, at = KINKS[name]
    for order in (
        cv.grad, cv.jacfwd, cv.hessian, lambda f: cv.jacrev(cv.jacrev(f)),
        lambda f: cv.jacfwd(cv.jacfwd(f)), lambda f: cv.jacrev(cv.jacfwd(f)),
    ):  # fmt: skip
        found = np.asarray(order(fun)(at))
        np.testing.assert_array_equal(found, np.zeros_like(found))


def test_the_option_restores_ieee() -> None:
    def hidden(x: Any) -> Any:
        return cnp.where(x > 0, cnp.exp(1 / x), 0.0)

    assert cv.grad(hidden)(0.0) == 0
    compiled = cv.jit(cv.grad(hidden))
    with cv.config.scoped(singular_derivatives="ieee"):
        assert np.isnan(cv.grad(hidden)(0.0))
        assert np.isnan(compiled(0.0))
        assert np.isnan(cv.grad(cnp.linalg.norm)(np.zeros(2))).all()
        assert cv.grad(cnp.abs)(0.0) == 1
        for points in ([2.0, 3.0], [-1.0, 4.0]):  # elsewhere nothing differs
            x = np.array(points)
            np.testing.assert_array_equal(
                cv.grad(lambda x: (x * cnp.exp(x)).sum())(x), (x + 1) * np.exp(x)
            )
    assert compiled(0.0) == 0
    assert cv.grad(cnp.sqrt)(0.0) == np.inf  # what is not masked is still infinite
