"""Collectives under vmap: values, derivatives, composition and errors, against JAX where it can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import lax
from covector import numpy as cnp
from tests.oracle import answer

Y = np.sin(np.arange(32, dtype=np.float32)).reshape(4, 4, 2)
V = np.array([0.5, -1.0, 2.0, 0.25], np.float32)

#: name -> function of (lax, numpy, example), which JAX has under vmap too.
BODIES: dict[str, tuple[Any, Any]] = {
    "psum": (lambda L, n, x: L.psum(n.sin(x), "i"), Y),
    "psum of a tree": (lambda L, n, x: L.psum({"a": x, "b": (1, x[0])}, "i"), Y),
    "psum of positions": (lambda L, n, x: L.psum(x, ("i", 1)), Y),
    "psum of booleans": (lambda L, n, x: L.psum(x > 0, "i"), V),
    "psum of what all have": (lambda L, n, x: L.psum(n.ones(2), "i") * x, V),
    "pmean": (lambda L, n, x: x - L.pmean(x, "i"), V),
    "pmean of integers": (lambda L, n, x: L.pmean(x, "i"), np.arange(4, dtype=np.int32)),
    "pmax": (lambda L, n, x: L.pmax(x, "i"), Y),
    "pmin": (lambda L, n, x: L.pmin([x, -x], "i"), Y),
    "ppermute": (lambda L, n, x: L.ppermute(x * x, "i", [(0, 2), (2, 1), (1, 3), (3, 0)]), Y),
    "pshuffle": (lambda L, n, x: L.pshuffle(x * x, "i", [1, 3, 0, 2]), Y),
    "all_gather": (lambda L, n, x: n.cumsum(L.all_gather(x, "i"), 0), Y),
    "all_gather, axis 1": (lambda L, n, x: L.all_gather(x, "i", axis=1), Y),
    "all_gather, axis -1, tiled": (lambda L, n, x: L.all_gather(x, "i", axis=-1, tiled=True), Y),
    "psum_scatter": (lambda L, n, x: L.psum_scatter(n.sin(x), "i"), Y),
    "psum_scatter, tiled": (lambda L, n, x: L.psum_scatter(n.sin(x), "i", tiled=True), Y),
    "all_to_all 0 0": (lambda L, n, x: L.all_to_all(x, "i", 0, 0), Y),
    "all_to_all 0 1": (lambda L, n, x: L.all_to_all(x, "i", 0, 1), Y),
    "all_to_all 0 1, tiled": (lambda L, n, x: L.all_to_all(x, "i", 0, 1, tiled=True), Y),
    "pswapaxes": (lambda L, n, x: L.pswapaxes(x, "i", 0), Y),
    "axis_index": (lambda L, n, x: x * L.axis_index("i"), V),
    "axis_size": (lambda L, n, x: x * L.axis_size("i"), V),
    "gradient of psum": (lambda L, n, x: _grad(L)(lambda x: L.psum(x * x, "i") ** 2)(x), V),
    "gradient of all_gather": (
        lambda L, n, x: _grad(L)(lambda x: (L.all_gather(x, "i") * n.arange(4)).sum())(x), V,
    ),
    "in a branch": (
        lambda L, n, x: L.cond(x > 0, lambda x: L.psum(n.sin(x), "i"), lambda x: x, x), V,
    ),
    "in a loop that ends at different times": (
        lambda L, n, x: L.while_loop(
            lambda c: c[1] < c[0] * 4, lambda c: (c[0], c[1] + L.pmax(c[0], "i")), (x, 0.0)
        ), V,
    ),
    "in the condition of a loop": (
        lambda L, n, x: L.while_loop(
            lambda c: L.psum(c, "i") < 30.0, lambda c: c + L.pmax(c, "i"), x
        ), V,
    ),
    "in a scan": (
        lambda L, n, x: L.scan(
            lambda c, z: (c + L.psum(c * x, "i"), L.axis_index("i") * z), 1.0, n.arange(3.0)
        ), V,
    ),
    "in a jit of what all have": (lambda L, n, x: _jit(L)(lambda y: y + L.axis_index("i"))(3.0), V),
}  # fmt: skip


def _package(L: Any) -> Any:
    return cv if L is lax else __import__("jax")


def _grad(L: Any) -> Any:
    return _package(L).grad


def _jit(L: Any) -> Any:
    return _package(L).jit


@pytest.mark.parametrize("name", list(BODIES))
def test_values_are_those_of_jax(name, jax, assert_close):
    body, x = BODIES[name]
    theirs = jax.vmap(lambda x: body(jax.lax, jax.numpy, x), axis_name="i")
    wanted = answer("api", theirs, x)
    mapped = cv.vmap(lambda x: body(lax, cnp, x), axis_name="i")
    assert_close(mapped(x), wanted, atol=1e-6)
    assert_close(cv.jit(mapped)(x), wanted, atol=1e-6)


#: Of those that are differentiable, linear or not (of all_to_all 0 1 JAX's derivative fails).
SMOOTH = [
    k for k in BODIES
    if k.split()[0].strip(",")
    in ("psum", "pmean", "ppermute", "pshuffle", "all_gather", "psum_scatter", "all_to_all")
    and k not in ("psum of a tree", "psum of booleans", "pmean of integers", "all_to_all 0 1")
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_inside_and_outside_are_those_of_jax(name, jax, assert_close):
    body, x = BODIES[name]

    def both(package: Any, L: Any, n: Any) -> Any:
        def loss(x: Any) -> Any:
            return (n.sin(body(L, n, x)) * 0.5).sum()

        inside = package.vmap(package.grad(loss), axis_name="i")
        outside = package.grad(lambda x: package.vmap(loss, axis_name="i")(x).sum())
        return package.jit(lambda x: (inside(x), outside(x)))(x)

    wanted = answer("api", lambda: both(jax, jax.lax, jax.numpy))
    assert_close(both(cv, lax, cnp), wanted, rtol=1e-5, atol=1e-6)


def test_gradient_of_the_greatest_goes_to_those_that_are():
    x = np.array([1.0, 3.0, 3.0], np.float32)
    inside = cv.vmap(cv.grad(lambda x: lax.pmax(x * x, "i")), axis_name="i")(x)
    assert inside.tolist() == [0.0, 9.0, 9.0]  # each of three results, shared by two
    outside = cv.grad(lambda x: cv.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(x).sum())(x)
    assert outside.tolist() == [3.0, 0.0, 0.0]


GROUPS = [[0, 3], [2, 1]]
IN_GROUPS: dict[str, tuple[Any, list[Any]]] = {
    "psum": (lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), [3, 3, 3, 3]),
    "psum of groups of different sizes": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0], [3, 1, 2]]), [0, 6, 6, 6],
    ),
    "pmean": (lambda x: lax.pmean(x, "i", axis_index_groups=GROUPS), [1.5] * 4),
    "pmean of groups of different sizes": (
        lambda x: lax.pmean(x, "i", axis_index_groups=[[0], [3, 1, 2]]), [0, 2, 2, 2],
    ),
    "pmax": (lambda x: lax.pmax(x, "i", axis_index_groups=GROUPS), [3, 2, 2, 3]),
    "size": (lambda x: x + lax.psum(1, "i", axis_index_groups=GROUPS), [2, 3, 4, 5]),
    "all_gather": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS),
        [[0, 3], [2, 1], [2, 1], [0, 3]],
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(cnp.stack([x, 10 * x]), "i", axis_index_groups=GROUPS),
        [3, 30, 3, 30],
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(cnp.stack([x, 10 * x]), "i", 0, 0, axis_index_groups=GROUPS),
        [[0, 3], [20, 10], [2, 1], [0, 30]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(IN_GROUPS))
def test_in_groups(name):
    body, wanted = IN_GROUPS[name]
    x = np.arange(4.0, dtype=np.float32)
    np.testing.assert_array_equal(cv.vmap(body, axis_name="i")(x), wanted)
    np.testing.assert_array_equal(cv.jit(cv.vmap(body, axis_name="i"))(x), wanted)


def test_numbers_stay_numbers():
    def f(x):
        found = (lax.psum(1, "i"), lax.psum(2.5, "i"), lax.psum(np.float32(2), "i"),
                 lax.pmean(1, "i"), lax.axis_size(("i", "j")))  # fmt: skip
        assert found == (4, 10.0, 8.0, 1.0, 8)
        assert [type(v) for v in found] == [int, float, np.float32, float, int]
        return x

    cv.vmap(cv.vmap(f, axis_name="i"), axis_name="j")(np.zeros((2, 4), np.float32))


Z = np.arange(6, dtype=np.float32).reshape(2, 3)
PAIRS = [(0, 5), (5, 0), (1, 2)]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda x: lax.psum(x, ("i", "j")), np.full((2, 3), 15)),
        (lambda x: lax.axis_index(("i", "j")), np.arange(6).reshape(2, 3)),
        (lambda x: lax.axis_index(("j", "i")), np.arange(6).reshape(3, 2).T),
        (lambda x: lax.all_gather(x, ("i", "j")), np.broadcast_to(np.arange(6), (2, 3, 6))),
        (lambda x: lax.all_gather(x, ("j", "i")), np.broadcast_to(Z.T.ravel(), (2, 3, 6))),
        (lambda x: lax.ppermute(x, ("i", "j"), PAIRS), [[5, 0, 1], [0, 0, 0]]),
        (lambda x: lax.pbroadcast(x, ("i", "j"), 4), np.full((2, 3), 4)),
        (lambda x: lax.psum_scatter(x * cnp.arange(6), ("i", "j")), 15 * Z),
        (
            lambda x: lax.all_to_all(x * cnp.arange(6), ("i", "j"), 0, 0),
            np.outer(np.arange(6), np.arange(6)).reshape(2, 3, 6),
        ),
    ],
)
def test_over_several_axes(body, wanted):
    mapped = cv.vmap(cv.vmap(body, axis_name="j"), axis_name="i")
    np.testing.assert_array_equal(mapped(Z), wanted)
    np.testing.assert_array_equal(cv.jit(mapped)(Z), wanted)


def test_what_nobody_sends_is_zero_and_its_gradient_goes_back():
    f = cv.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")
    assert f(V).tolist() == [0.0, 0.5, -1.0, 0.0]
    back = cv.grad(lambda x: (f(x) * np.arange(4)).sum())(V)
    assert back.tolist() == [1.0, 2.0, 0.0, 0.0]
    g = cv.vmap(cv.grad(lambda x: lax.pbroadcast(x, "i", 2)), axis_name="i")
    assert g(V).tolist() == [0.0, 0.0, 4.0, 0.0]


def test_an_inner_axis_hides_an_outer_one_of_the_same_name():
    twice = cv.vmap(cv.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")
    assert twice(Z).tolist() == [[3, 3, 3], [12, 12, 12]]


def test_under_another_vmap_a_collective_stays():
    def f(x):
        return cv.vmap(lambda y: lax.psum(x * y, "i"))(cnp.arange(3.0))

    np.testing.assert_allclose(
        cv.vmap(f, axis_name="i")(V), np.broadcast_to(V.sum() * np.arange(3), (4, 3))
    )


def test_one_function_under_axes_of_two_sizes():
    f = cv.jit(lambda x: x * lax.axis_size("i"))
    assert cv.vmap(f, axis_name="i")(np.ones(2, np.float32)).tolist() == [2, 2]
    assert cv.vmap(f, axis_name="i")(np.ones(3, np.float32)).tolist() == [3, 3, 3]


def test_a_program_shows_its_collectives():
    program = cv.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(1.0)
    assert "psum[axes=('i',) axis_index_groups=None]" in str(program)


def under(body: Any, x: Any = V) -> Any:
    return cv.vmap(body, axis_name="i")(x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.psum(V, "i"), NameError, "unbound axis name: i.*psum.*bound here are: none"),
        (lambda: under(lambda x: lax.pmax(x, "k")), NameError,
         r"unbound axis name: k.*bound here are: 'i' \(of size 4\)"),
        (lambda: cv.jit(lambda x: lax.all_gather(x, "k"))(V), NameError, "unbound axis name: k"),
        (lambda: lax.axis_index("k"), NameError, "unbound axis name: k. axis_index"),
        (lambda: lax.axis_size("k"), NameError, "unbound axis name: k. axis_size"),
        (lambda: under(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)])), ValueError,
         "sources and destinations must be unique"),
        (lambda: under(lambda x: lax.ppermute(x, "i", [(0, 9)])), ValueError,
         r"destinations must lie in range\(4\)"),
        (lambda: under(lambda x: lax.pshuffle(x, "i", [1, 1, 3, 2])), ValueError,
         "`perm` does not represent a permutation"),
        (lambda: under(lambda x: lax.pbroadcast(x, "i", 4)), ValueError, r"range\(4\).*got 4"),
        (lambda: under(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]])), ValueError,
         "must cover the indices 0 to 3"),
        (lambda: under(lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2, 3]])),
         ValueError, "must be of one size"),
        (lambda: under(lambda x: lax.psum(x, ("i", 0), axis_index_groups=GROUPS), Y), ValueError,
         "groups of the indices of one axis"),
        (lambda: under(lambda x: lax.all_gather(x, "i", axis=3), Y), ValueError, "out of bounds"),
        (lambda: under(lambda x: lax.all_to_all(x, "i", 1, 0), Y), ValueError,
         "size of axis 1 of the argument, 2, must be equal to that of the named axis 'i'.*4"),
        (lambda: under(lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True), Y),
         ValueError, "must be a multiple of"),
        (lambda: under(lambda x: lax.psum("no", "i")), TypeError, "argument of psum"),
        (lambda: under(lambda x: lax.pcast(x, "i", to="else")), ValueError, "to must be 'varying'"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
