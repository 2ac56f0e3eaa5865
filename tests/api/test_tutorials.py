"""What the well-known tutorials of this kind of system promise, kept as promised."""

from __future__ import annotations

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import grad, jit, lax, vmap

g = 0.0


def test_a_global_is_frozen_until_a_new_type_comes() -> None:
    global g
    g = 0.0
    traces = []

    def impure(x: object) -> object:
        traces.append(x)
        return x + g

    f = jit(impure)
    assert f(4.0) == 4.0
    g = 10.0
    assert f(5.0) == 5.0  # the value of g when it was traced
    np.testing.assert_array_equal(f(cnp.array([4.0])), [14.0])  # traced anew for the new type
    assert len(traces) == 2


def test_an_iterator_is_consumed_once_while_an_array_can_be_indexed() -> None:
    array = cnp.arange(10)
    assert lax.fori_loop(0, 10, lambda i, x: x + array[i], 0) == 45
    iterator = iter(range(10))
    assert lax.fori_loop(0, 10, lambda i, x: x + next(iterator), 0) == 0


def test_arrays_are_immutable_and_the_message_shows_the_way() -> None:
    x = cnp.zeros((3, 3))
    with pytest.raises(TypeError, match=r"\.at\[idx\]\.set\(y\)"):
        x[1, :] = 1.0
    updated = x.at[1, :].set(1.0)
    np.testing.assert_array_equal(updated, [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(x, np.zeros((3, 3)))


def test_a_list_is_no_array() -> None:
    with pytest.raises(TypeError, match="sum requires ndarray or scalar arguments"):
        cnp.sum([1, 2, 3])
    assert cnp.sum(cnp.array([1, 2, 3])) == 6


def test_gradient_of_a_product() -> None:
    slope = grad(lambda w, x: w * x)(13.0, 42.0)
    assert slope == 42.0
    assert isinstance(slope, cv.Array)
    assert slope.shape == ()
    assert float(slope) == 42.0


def test_gradients_of_gradients() -> None:
    third = grad(grad(grad(cnp.sin)))(1.0)
    np.testing.assert_allclose(third, -np.cos(1.0), rtol=1e-6)


def test_partial_derivatives() -> None:
    def f(x: object, y: object, z: object) -> object:
        return x + 2 * y + z**2

    assert grad(f)(1.0, 2.0, 3.0) == 1.0
    assert grad(f, argnums=1)(1.0, 2.0, 3.0) == 2.0
    assert grad(f, argnums=2)(1.0, 2.0, 3.0) == 6.0
    assert grad(f, argnums=(0, 2))(1.0, 2.0, 3.0) == (1.0, 6.0)


def test_vmap_of_square_is_the_loop() -> None:
    def square(x: object) -> object:
        return x**2

    values = cnp.arange(10.0)
    np.testing.assert_array_equal(vmap(square)(values), [square(x) for x in values])


def test_transformations_compose() -> None:
    def predict(w: object, x: object) -> object:
        return cnp.tanh(cnp.dot(w, x))

    w, xs = cnp.array([0.5, -1.0]), cnp.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    per_example = jit(vmap(grad(predict), in_axes=(None, 0)))(w, xs)
    one_by_one = [grad(predict)(w, x) for x in xs]
    np.testing.assert_allclose(per_example, cnp.stack(one_by_one), rtol=1e-6)


def test_a_python_branch_on_a_traced_value_is_refused() -> None:
    @jit
    def f(x: object) -> object:
        if x < 3:
            return 3.0 * x
        return -4 * x

    with pytest.raises(cv.errors.TracerBoolConversionError, match="argument x of f"):
        f(2.0)
    assert grad(lambda x: 3.0 * x if x < 3 else -4 * x)(2.0) == 3.0


def test_out_of_bounds_is_clamped_and_updates_are_dropped() -> None:
    x = cnp.arange(10.0)
    assert x[11] == 9.0
    np.testing.assert_array_equal(x.at[11].add(23), x)


def test_random_numbers_are_functions_of_a_key() -> None:
    key = cv.random.key(0)
    once, again = cv.random.normal(key), cv.random.normal(key)
    assert once == again
    new_key, subkey = cv.random.split(key)
    assert cv.random.normal(subkey) != once
    assert new_key.shape == ()


def test_double_precision_is_asked_for() -> None:
    assert cnp.arange(3.0).dtype == np.float32
    with cv.enable_x64(True):
        assert cnp.arange(3.0).dtype == np.float64
