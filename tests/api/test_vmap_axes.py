"""`vmap`: axes as trees, negative, none; sizes; names; `chunk`; functions with a rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import lax
from covector import numpy as cnp
from covector.custom_batching import custom_vmap, sequential_vmap

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

AXES: list[tuple[Any, Any, Any]] = [
    # in_axes, out_axes, arguments
    (0, 0, (X, X)),
    (-1, -1, (X, X)),
    ((1, None), 1, (X, X[:, 0])),
    ([2, -2], 0, (X, np.moveaxis(X, 2, 1))),
    (({"a": 0, "b": None}, 1), 0, ({"a": X, "b": X[0]}, np.moveaxis(X, 0, 1))),
    (({"a": 1, "b": 1}, None), {"s": 1, "t": None}, ({"a": X, "b": X}, X[:, 0])),
]


def _sum(x: Any, y: Any) -> Any:
    if isinstance(x, dict):
        return {"s": x["a"] * 2 + y, "t": y}
    return x * 2 + y


@pytest.mark.parametrize(("in_axes", "out_axes", "args"), AXES)
def test_axes_are_those_of_jax(in_axes, out_axes, args, jax, assert_close):
    wanted = jax.vmap(_sum, in_axes, out_axes)(*args)
    assert_close(cv.vmap(_sum, in_axes, out_axes)(*args), wanted)
    assert_close(cv.jit(cv.vmap(_sum, in_axes, out_axes))(*args), wanted)
    if not isinstance(out_axes, dict):
        assert_close(cv.vmap(_sum, in_axes, out_axes, chunk=2)(*args), wanted)


def test_keyword_arguments_are_mapped_along_their_first_axis():
    assert cv.vmap(lambda x, y: x + y, in_axes=1)(X[0], y=np.arange(4.0)).shape == (4, 3)


def test_the_size_may_be_given():
    assert cv.vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)().tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"inconsistent sizes.*axis_size=3"):
        cv.vmap(lambda x: x, axis_size=3)(X)


def test_spmd_axis_name_changes_no_value():
    f = cv.vmap(lambda x: x * 2, spmd_axis_name="data")
    np.testing.assert_array_equal(f(X), X * 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cv.vmap(_sum, in_axes="x"), TypeError, "in_axes must be an int, None, or a tuple"),
        (lambda: cv.vmap(_sum, in_axes=(0, 1.5)), TypeError, r"with the leaf 1\.5"),
        (lambda: cv.vmap(_sum, in_axes=(0,))(X, X), ValueError, r"len\(in_axes\)=1, len\(args\)=2"),
        (lambda: cv.vmap(_sum, in_axes=None)(X, X), ValueError, "at least one non-None value"),
        (lambda: cv.vmap(_sum)(X, X[0]), ValueError, r"inconsistent sizes.*\[0\]\[0\] has size 2"),
        (lambda: cv.vmap(_sum, in_axes=3)(X, X), ValueError, "rank should be at least 4.*only 3"),
        (lambda: cv.vmap(_sum, out_axes=None)(X, X), ValueError, "out_axes is None"),
        (lambda: cv.vmap(_sum, out_axes=3)(X, X), ValueError, "out_axes=3 is out of bounds"),
        (lambda: cv.vmap(_sum, out_axes=(0, 0))(X, X), ValueError, "vmap out_axes must be"),
        (lambda: cv.vmap(_sum, in_axes=({"a": 0}, 0))(X, X), ValueError, "vmap in_axes must be"),
        (lambda: cv.vmap(_sum, chunk=0), ValueError, "chunk must be a positive integer"),
        (lambda: cv.vmap(_sum, axis_name="i", chunk=2), ValueError, "needs all examples"),
        (lambda: cv.vmap(3), TypeError, "vmap wants a function"),
        (lambda: cv.vmap(lambda x: x)("no"), TypeError, "not a valid array type"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# A block of the batch at a time


def _model(x: Any, w: Any) -> Any:
    return {"y": cnp.sin(x) @ w, "w": w.sum()}


@pytest.mark.parametrize("chunk", [1, 3, 4, 10, 11])
def test_chunks_change_no_value(chunk):
    x, w = np.linspace(0, 1, 50).reshape(10, 5).astype(np.float32), np.ones((5, 2), np.float32)
    wanted = cv.vmap(_model, (0, None), {"y": 0, "w": None})(x, w)
    f = cv.vmap(_model, (0, None), {"y": 0, "w": None}, chunk=chunk)
    for got in (f(x, w), cv.jit(f)(x, w)):
        np.testing.assert_allclose(got["y"], wanted["y"], rtol=1e-6)
        assert got["w"].shape == ()
    loss = lambda w, c: (cv.vmap(_model, (0, None), chunk=c)(x, w)["y"] ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(
        cv.grad(loss)(w, chunk), cv.grad(lambda w: loss(w, None))(w), rtol=1e-5
    )
    nested = cv.vmap(cv.vmap(lambda a, b: a * b, (0, None), chunk=chunk), (None, 0), chunk=3)
    np.testing.assert_allclose(nested(x[:, 0], x[:, 1]), np.outer(x[:, 1], x[:, 0]), rtol=1e-6)


def test_a_chunk_is_a_loop_whose_body_has_the_chunks_size():
    program = str(cv.make_jaxpr(cv.vmap(cnp.sin, chunk=4))(np.zeros((10, 3), np.float32)))
    assert "scan[" in program
    assert "length=2" in program
    assert "f32[4,3] = sin" in program
    assert "f32[2,3] = sin" in program  # what is left over
    assert "f32[10,3] = sin" not in program


# Functions with a rule of their own


def test_custom_vmap_uses_its_rule():
    seen = []

    @custom_vmap
    def f(x, y):
        return {"p": x["a"] * y}

    @f.def_vmap
    def rule(size, batched, x, y):
        seen.append((size, batched, np.shape(x["a"]), np.shape(y)))
        return {"p": x["a"] * y + 100.0}, {"p": True}

    x = np.arange(3.0, dtype=np.float32)
    assert float(f({"a": 2.0}, y=3.0)["p"]) == 6.0
    got = cv.vmap(f, ({"a": 0}, None))({"a": x}, 2.0)
    assert got["p"].tolist() == [100.0, 102.0, 104.0]
    assert seen == [(3, ({"a": True}, False), (3,), ())]
    assert cv.jit(cv.vmap(lambda a: f({"a": a}, a)["p"]))(x).tolist() == [100.0, 101.0, 104.0]
    assert seen[-1] == (3, ({"a": True}, True), (3,), (3,))


def test_custom_vmap_has_derivatives_of_its_rule():
    @custom_vmap
    def f(x, y):
        return cnp.sin(x) * y

    @f.def_vmap
    def rule(size, batched, x, y):
        return cnp.sin(x) * y * 3.0, True

    x = np.linspace(0, 1, 4).astype(np.float32)
    assert float(cv.grad(f)(0.5, 2.0)) == pytest.approx(2 * np.cos(0.5))
    inside = cv.vmap(lambda x: cv.jvp(f, (x, 2.0), (1.0, 0.0))[1])(x)
    np.testing.assert_allclose(inside, 6 * np.cos(x), rtol=1e-6)
    outside = cv.grad(lambda x: cv.vmap(f, (0, None))(x, 2.0).sum())(x)
    np.testing.assert_allclose(outside, 6 * np.cos(x), rtol=1e-6)


def test_custom_vmap_says_what_is_wrong_with_a_rule():
    @custom_vmap
    def f(x):
        return x

    with pytest.raises(AttributeError, match="No batching rule defined for custom_vmap function f"):
        f(1.0)
    for wrong, message in (
        (lambda size, batched, x: x, "must return a pair"),
        (lambda size, batched, x: ((x, x), True), "must have the structure"),
        (lambda size, batched, x: (x[0], True), r"result 0 must be f32\[2,3,4\]"),
    ):
        f.def_vmap(wrong)
        with pytest.raises(ValueError, match=message):
            cv.vmap(f)(X)

    def outer(x):
        h = custom_vmap(lambda y: x * y)
        h.def_vmap(lambda size, batched, y: (y, True))
        return h(1.0)

    with pytest.raises(ValueError, match="closed over is batched"):
        cv.vmap(outer)(X)


def test_sequential_vmap_runs_one_example_after_another():
    f = sequential_vmap(lambda d: lax.cond(d["a"] > 1, lambda v: 2 * v, lambda v: v - 1, d["b"]))
    x = np.arange(4.0, dtype=np.float32)
    assert cv.vmap(f, ({"a": 0, "b": None},))({"a": x, "b": 3.0}).tolist() == [2, 2, 6, 6]
    twice = cv.vmap(cv.vmap(f))({"a": x.reshape(2, 2), "b": x.reshape(2, 2)})
    assert twice.tolist() == [[-1, 0], [4, 6]]
    assert "scan[" in str(cv.make_jaxpr(cv.vmap(f))({"a": x, "b": x}))
