"""Derivatives and maps of what reads and writes at computed places, against the oracle."""

import numpy as np
import pytest

import covector as cv
from covector import lax
from tests.oracle import answer

jax_lax = pytest.importorskip("jax.lax", reason="the oracle: pip install jax==0.10.2")

X = np.float32([1, 2, 3, 4])
U = np.float32([5, 5, 2, 7, 7])
INDEX = np.int32([[0], [0], [1], [9], [-1]])
CT = np.float32([1, 10, 100, 1000])


def scatter(module, kind, **how):
    numbers = module.ScatterDimensionNumbers((), (0,), (0,))
    return lambda x, u: getattr(module, kind)(x, INDEX, u, numbers, **how)


def gather(module, **how):
    numbers = module.GatherDimensionNumbers((), (0,), (0,))
    return lambda x: module.gather(x, INDEX, numbers, (1,), **how)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("scatter", "drop"),
        ("scatter", "clip"),
        ("scatter_add", "drop"),
        ("scatter_add", "clip"),
        ("scatter_sub", "drop"),
        ("scatter_min", "drop"),
        ("scatter_max", "drop"),
    ],
)
def test_scatter_with_duplicates(kind, mode, jax):
    found = cv.vjp(scatter(lax, kind, mode=mode), X, U)[1](CT)
    theirs = scatter(jax_lax, kind, mode=mode)
    wanted = answer("lax", lambda x, u: jax.vjp(theirs, x, u)[1](CT), X, U)
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w)


def test_scatter_mul_with_duplicates_and_zeros():
    """JAX refuses this one: the derivative by an update is the product of the other factors."""
    index = np.int32([[0], [0], [1]])
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    for rows in ([1, 2, 5, 3, 4], [2, 2, 0, 3, 4], [2, 2, 0, 0, 4], [0, 2, 5, 3, 4]):
        x, u = np.float32(rows[:2]), np.float32(rows[2:])
        _, pull = cv.vjp(lambda x, u: lax.scatter_mul(x, index, u, numbers), x, u)
        ct_x, ct_u = pull(np.float32([1, 10]))
        np.testing.assert_allclose(ct_x, [u[0] * u[1], 10 * u[2]])
        np.testing.assert_allclose(ct_u, [x[0] * u[1], x[0] * u[0], 10 * x[1]])


@pytest.mark.parametrize("how", [{"mode": "clip"}, {"mode": "fill", "fill_value": 3.0}], ids=str)
def test_gather(how, jax):
    out, pull = cv.vjp(gather(lax, **how), X)

    def theirs(x):
        out, pull = jax.vjp(gather(jax_lax, **how), x)
        return out, pull(U)[0], jax.jvp(gather(jax_lax, **how), (x,), (x,))[1]

    wanted, wanted_pull, wanted_push = answer("lax", theirs, X)
    np.testing.assert_allclose(out, wanted)
    np.testing.assert_allclose(pull(U)[0], wanted_pull)
    found = cv.jvp(gather(lax, **how), (X,), (X,))[1]
    np.testing.assert_allclose(found, wanted_push)


@pytest.mark.parametrize(
    "dims", [(0, None, 0), (None, 0, None), (0, 1, 0), (1, None, None)], ids=str
)
def test_dynamic_slices_are_mapped(dims, jax):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 5)).astype("f")
    starts = rng.integers(-2, 6, (2, 3)).astype("i4")
    update = rng.normal(size=(3, 2, 2)).astype("f")

    def args():
        sides = (x, starts, update)
        base = (x[0], starts[:, 0], update[0])
        return [b if d is None else np.moveaxis(s, 0, d) if k != 1 else np.moveaxis(s, 1, d)
                for k, (s, b, d) in enumerate(zip(sides, base, dims, strict=True))]  # fmt: skip

    def fun(module):
        def f(x, s, u):
            y = module.dynamic_update_slice(x, u, s)
            return y, module.dynamic_slice(y, s, (2, 3))

        return f

    found = cv.jit(cv.vmap(fun(lax), dims))(*args())
    wanted = answer("lax", jax.vmap(fun(jax_lax), dims), *args())
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w)


def test_indices_may_be_traced():
    def f(x, i):
        return lax.dynamic_index_in_dim(x, i, keepdims=False)

    assert float(cv.jit(f)(X, -1)) == 4.0
    np.testing.assert_array_equal(cv.grad(f)(X, 2), [0, 0, 1, 0])


def test_narrow_indices_count_from_the_end():
    """An int8 index of a long axis: JAX adds the size in int8, and wraps round."""
    x = np.arange(1000, dtype="f")
    assert np.asarray(lax.dynamic_slice(x, (np.int8(-2),), (1,))) == [998]
    assert np.asarray(cv.jit(lambda i: lax.dynamic_slice(x, (i,), (1,)))(np.int8(-2))) == [998]


def test_an_equation_knows_its_primitive():
    program = cv.make_jaxpr(lambda x: lax.slice(lax.sin(x), (0,), (2,)))(X)
    assert [e.primitive for e in program.eqns] == [lax.sin_p, lax.slice_p]
    assert [e.primitive.name for e in program.eqns] == ["sin", "slice"]
