"""jet: Taylor mode, against nested forward mode, and against JAX where it has the rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as jnp
from covector import lax
from covector.experimental.jet import jet
from covector.ir.op import Op
from covector.scipy import special
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
from jax.experimental import jet as jax_jet  # noqa: E402

ORDER = 4
RNG = np.random.default_rng(8)


def nested(fun: Any, primals: Any, series: Any) -> Any:
    """Value and derivatives along the curve, by forward mode of forward mode."""
    order = len(series[0])

    def curve(s: Any) -> Any:
        points = [
            x + sum(t * (s**k / math.factorial(k)) for k, t in enumerate(terms, 1))
            for x, terms in zip(primals, series, strict=True)
        ]
        return fun(*points)

    def derivative(g: Any) -> Any:
        return lambda s: cv.jvp(g, (s,), (1.0,))[1]

    found, g = [], curve
    for _ in range(order):
        g = derivative(g)
        found.append(g(0.0))
    return fun(*primals), found


def check(fun: Any, primals: Any, rtol: float = 1e-8, order: int = ORDER) -> None:
    with cv.enable_x64(True):
        primals = tuple(np.asarray(x, np.float64) for x in primals)
        rng = np.random.default_rng(1)
        series = tuple([rng.normal(size=x.shape) for _ in range(order)] for x in primals)
        value, terms = jet(fun, primals, series)
        wanted, derivatives = nested(fun, primals, series)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        for k, (got, right) in enumerate(zip(terms, derivatives, strict=True), 1):
            assert got.shape == np.shape(right)
            np.testing.assert_allclose(got, right, rtol, rtol, err_msg=f"order {k}")


UNARY = {
    "exp": 0.3, "exp2": 0.3, "expm1": 0.3, "log": 1.3, "log1p": 0.3, "sin": 0.4, "cos": 0.4,
    "tan": 0.4, "sinh": 0.4, "cosh": 0.4, "tanh": 0.4, "arcsin": 0.3, "arccos": 0.3,
    "arctan": 0.3, "arcsinh": 0.3, "arccosh": 1.4, "arctanh": 0.3, "sqrt": 1.2, "cbrt": 1.2,
    "square": 0.7, "reciprocal": 0.7, "abs": -0.7, "negative": 0.2, "sign": 0.2, "floor": 0.2,
    "sinc": 0.4,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_elementary_functions(name: str) -> None:
    check(getattr(jnp, name), (np.array([UNARY[name], UNARY[name] * 1.1]),))


@pytest.mark.parametrize(
    "fun",
    [lax.logistic, lax.rsqrt, lax.erf, lax.erfc, lax.lgamma, lax.digamma, special.i0e,
     special.ndtri, cv.nn.gelu, cv.nn.softplus, cv.nn.silu, cv.nn.relu],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_special_functions(fun: Any) -> None:
    check(fun, (np.array([0.3, 0.6]),))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "arctan2",
                                  "maximum", "minimum", "hypot", "logaddexp"])  # fmt: skip
def test_functions_of_two_arguments(name: str) -> None:
    check(getattr(jnp, name), (np.array([0.7, 1.3]), np.array([1.1, 0.4])))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, -1, -2, 0.5, 2.0])
def test_powers(exponent: float) -> None:
    check(lambda x: x**exponent, (np.array([0.7, 1.3]),))


def test_a_power_at_zero() -> None:
    for power in (2, 2.0):
        _, terms = jet(lambda x, p=power: x**p, (0.0,), ([1.0, 0.0, 0.0],))
        assert [float(t) for t in terms] == [0, 2, 0]


ARRAYS = {
    "dot": lambda x, y: (x @ y).T,
    "einsum": lambda x, y: jnp.einsum("ij,jk->k", x, y),
    "softmax": lambda x, y: cv.nn.softmax(x @ y),
    "logsumexp": lambda x, y: cv.nn.logsumexp(x + y, axis=0),
    "sort": lambda x, y: jnp.sort(x * y, axis=1),
    "max": lambda x, y: jnp.max(x * y, axis=1),
    "prod": lambda x, y: jnp.prod(x, axis=0) + jnp.cumsum(y, 1) + jnp.cumprod(x, 0),
    "where": lambda x, y: jnp.where(x > 0.6, x, jnp.sin(y)) + jnp.clip(x, 0.2, 0.8),
    "index": lambda x, y: (
        x[1:, ::2] * y[np.array([0, 2])][:, :2] + jnp.asarray(x).at[0].set(y[1])[0, 0]
    ),
    "join": lambda x, y: jnp.concatenate([x, jnp.pad(y, 1)[:, 1:4]], 0) ** 2,
    "norm": lambda x, y: jnp.linalg.norm(x - y),
    "solve": lambda x, y: jnp.linalg.solve(x + 3 * jnp.eye(3), y),
    "inv_det": lambda x, y: jnp.linalg.inv(x + 3 * jnp.eye(3)) + jnp.linalg.det(y),
    "window": lambda x, y: lax.reduce_window(x * y, -np.inf, lax.max, (2, 2)),
    "constant": lambda x, y: jnp.ones(2) + 0 * x[0, 0] + lax.stop_gradient(y[0, 0]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays(name: str) -> None:
    rng = np.random.default_rng(2)
    check(ARRAYS[name], (rng.uniform(0.2, 1, (3, 3)), rng.uniform(0.2, 1, (3, 3))), 1e-7, 3)


def _scanned(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        k, c = c
        return (k + 1, jnp.tanh(c * row + x[0])), (c * 2, k)

    (_, c), (rows, _) = lax.scan(step, (0, jnp.ones(3)), jnp.stack([x, x * x]))
    return c + rows.sum(0)


CONTROL = {
    "jit": lambda x: cv.jit(lambda x: jnp.sin(x) * x)(x),
    "checkpoint": lambda x: cv.checkpoint(lambda x: jnp.sin(x) * x)(x),
    "scan": _scanned,
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: jnp.sin(x) * 2, lambda x: x, x),
    "while": lambda x: lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, x)
    )[1],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.cos(c) + i * x, jnp.zeros(3)),
    "map": lambda x: lax.map(jnp.exp, x),
    "vmap": lambda x: cv.vmap(lambda a: jnp.sin(a) * x[0])(x),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    check(CONTROL[name], (np.array([0.3, 0.5, 0.9]),), 1e-7, 3)


def test_rules_of_the_users() -> None:
    @cv.custom_jvp
    def twice(x: Any) -> Any:
        return jnp.sin(x)

    @twice.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return twice(primals[0]), 2 * jnp.cos(primals[0]) * tangents[0]

    @cv.custom_vjp
    def through(x: Any) -> Any:
        return x**3

    through.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))
    _, terms = jet(twice, (0.5,), ([1.0, 0.0],))
    np.testing.assert_allclose(terms, [2 * np.cos(0.5), -2 * np.sin(0.5)], rtol=1e-5)
    _, terms = jet(through, (0.5,), ([1.0, 0.0],))
    np.testing.assert_allclose(terms, [0.75, 3.0], rtol=1e-5)


def test_inside_other_transformations() -> None:
    def third(x: Any) -> Any:
        return jet(lambda x: jnp.exp(x) * jnp.sin(x), (x,), ([1.0, 0.0, 0.0],))[1][2]

    x = np.float32(0.4)
    wanted = 2 * np.exp(0.4) * (np.cos(0.4) - np.sin(0.4))
    np.testing.assert_allclose(third(x), wanted, rtol=1e-4)
    np.testing.assert_allclose(cv.jit(third)(x), wanted, rtol=1e-4)
    np.testing.assert_allclose(cv.vmap(third)(np.array([x, x])), [wanted] * 2, rtol=1e-4)
    np.testing.assert_allclose(cv.grad(third)(x), -4 * np.exp(0.4) * np.sin(0.4), rtol=1e-4)


JAX = {
    "sin": lambda m, lib, x: m.sin(x),
    "net": lambda m, lib, x: m.tanh(m.dot(x, x) + m.exp(-x)).sum(),
    "tree": lambda m, lib, x: {"a": x * x, "b": [m.log(x), 1.0 / x]},
    "pow": lambda m, lib, x: x**3 + x**2.5,
}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", JAX)
def test_as_jax(name: str, scaled: bool) -> None:
    x = np.array([0.4, 0.7, 1.3], np.float32)
    series = [RNG.normal(size=3).astype("f") for _ in range(3)]
    got = jet(lambda x: JAX[name](jnp, cv, x), (x,), (series,), factorial_scaled=scaled)
    wanted = answer(
        "api",
        lambda *xs: jax_jet.jet(
            lambda x: JAX[name](jax.numpy, jax, x), *xs, factorial_scaled=scaled
        ),
        (x,), (series,),
    )  # fmt: skip
    assert str(cv.tree.structure(got)) == str(jax.tree.structure(wanted))
    for a, b in zip(cv.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("primals", "series", "message"),
    [
        ((1.0,), ([1.0], [2.0]), "sequences of equal lengths"),
        ((1.0, 2.0), ([1.0, 0.0], [1.0]), "one length"),
        ((1.0,), (1.0,), "list of terms"),
        ((np.ones(3),), ([np.ones(2)],), "shape of the argument"),
    ],
)
def test_what_is_refused(primals: Any, series: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jet(lambda *xs: xs[0], primals, series)


def test_an_operation_without_derivative_is_named() -> None:
    class Mystery(Op, registered=False):
        name = "mystery"

        def result(self, x: Any) -> Any:
            return x

    with pytest.raises(NotImplementedError, match="no rule for mystery"):
        jet(lambda x: Mystery()(x), (np.float32(1.0),), ([1.0],))
