"""Donated arguments: their memory becomes the result's, and who uses them later hears who took
them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit, lax
from covector.runtime import dispatch
from covector.runtime.native import native

needs_native = pytest.mark.skipif(
    native() is None or dispatch.REFERENCE_ONLY, reason="otherwise buffers are copied"
)


def address(x: Any) -> int:
    return x.unsafe_buffer_pointer()


@needs_native
def test_the_result_takes_over_the_memory() -> None:
    f = jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    x, y = cnp.ones(10_000), cnp.ones(10_000)
    place = address(x)
    total, twice = f(x, y)
    assert address(total) == place
    np.testing.assert_array_equal(total, np.full(10_000, 2))
    np.testing.assert_array_equal(twice, np.full(10_000, 2))
    assert x.is_deleted()
    assert not y.is_deleted()


@pytest.mark.parametrize(
    "step",
    [
        lambda x: lax.fori_loop(0, 10, lambda i, c: c * 1.5, x),
        lambda x: cnp.sort(x)[::-1] * 1.0,
        lambda x: x.at[3].set(7.0),
        lambda x: cnp.cumsum(x),
        lambda x: cnp.where(x > 0.5, x, -x) / cnp.sum(x),
        lambda x: lax.scan(lambda c, v: (c + v, c), cnp.float32(0), x)[1],
        lambda x: x,
    ],
)
def test_results_are_those_of_a_call_without_donation(step: Any) -> None:
    values = np.random.default_rng(0).uniform(size=100).astype(np.float32)
    wanted = jit(step)(cnp.array(values))
    got = jit(lambda x: step(x), donate_argnums=0)(cnp.array(values))
    np.testing.assert_array_equal(got, wanted)


def test_later_use_names_the_call_that_took_it() -> None:
    @jit
    def plain(x: Any) -> Any:
        return x * 2

    def update(x: Any) -> Any:
        return x + 1

    step = jit(update, donate_argnums=0)
    x = cnp.ones((2, 3))
    step(x)
    for use in (lambda: x + 1, lambda: np.asarray(x), lambda: plain(x), lambda: step(x),
                lambda: x.tolist()):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[2,3\]") as error:
            use()
        assert "donated to the call of update at test_donation.py:" in str(error.value)
        assert "test_later_use_names_the_call" in str(error.value)
    assert x.shape == (2, 3)


def test_trees_names_and_static_arguments() -> None:
    def step(rate: float, params: Any, grads: Any) -> Any:
        return {k: params[k] - rate * grads[k] for k in params}

    f = jit(step, static_argnums=0, donate_argnames="params")
    params = {"w": cnp.ones((3, 3)), "b": cnp.zeros(3)}
    grads = {"w": cnp.ones((3, 3)), "b": cnp.ones(3)}
    new = f(0.5, params, grads)
    assert all(p.is_deleted() for p in params.values())
    assert not any(g.is_deleted() for g in grads.values())
    newer = f(0.5, params=new, grads=grads)
    assert new["w"].is_deleted()
    np.testing.assert_array_equal(newer["w"], np.zeros((3, 3)))
    np.testing.assert_array_equal(newer["b"], [-1, -1, -1])


def test_memory_that_others_use_is_left_alone() -> None:
    f = jit(lambda x: x + 1, donate_argnums=0)
    here = cv.devices()[0]
    looks = [np.asarray, lambda x: np.asarray(x)[5:], lambda x: cv.device_put(x, here)]
    for look in looks + [memoryview] * (native() is not None):
        x = cnp.ones(10_000)
        seen = look(x)
        np.testing.assert_array_equal(f(x), np.full(10_000, 2))
        assert x.is_deleted()
        assert np.asarray(seen).min() == np.asarray(seen).max() == 1


def test_numbers_and_numpy_arrays_may_be_donated() -> None:
    f = jit(lambda x: x + 1, donate_argnums=0)
    values = np.ones(3, np.float32)
    np.testing.assert_array_equal(f(values), [2, 2, 2])
    np.testing.assert_array_equal(values, [1, 1, 1])
    assert f(1.0) == 2.0


def test_an_array_donated_and_passed_again_is_refused() -> None:
    f = jit(lambda x, y: x + y, donate_argnums=0)
    x = cnp.ones(3)
    with pytest.raises(ValueError, match="argument x is donated, and the same array"):
        f(x, x)
    assert not x.is_deleted()
    g = jit(lambda y: x + y, donate_argnums=0)
    with pytest.raises(ValueError, match="captured a second time"):
        g(x)


def test_what_no_result_can_take_over_is_kept_and_said() -> None:
    f = jit(lambda x, y: (x.sum(), y + 1), donate_argnums=(0, 1))
    x, y = cnp.ones(3), cnp.ones(2)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: x: f32\[3\]"):
        f(x, y)
    assert not x.is_deleted()
    assert y.is_deleted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, cnp.ones(2))  # it is said once
        (first, second), _ = f.lower(x, cnp.ones(2)).args_info
    assert first.donated
    assert second.donated


def test_inside_a_trace_nothing_is_given_up() -> None:
    f = jit(lambda x: x * 2, donate_argnums=0)
    x = cnp.ones(3)
    np.testing.assert_array_equal(jit(lambda x: f(x) + x)(x), [3, 3, 3])
    np.testing.assert_array_equal(cv.grad(lambda x: f(x).sum())(x), [2, 2, 2])
    assert not x.is_deleted()


def test_bad_donations() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(ValueError, match=r"donate_argnums=\(2,\).*2 positional"):
        jit(f, donate_argnums=(2,))
    with pytest.raises(ValueError, match=r"donate_argnames.*'z'"):
        jit(f, donate_argnames="z")
    with pytest.raises(ValueError, match="static and donated"):
        jit(f, static_argnums=0, donate_argnames="x")


def test_jits_that_donate_and_those_that_do_not_are_apart() -> None:
    def f(x: Any) -> Any:
        return x + 1

    x = cnp.ones(3)
    jit(f)(x)
    jit(f, donate_argnums=0)(x)
    assert x.is_deleted()
    y = cnp.ones(3)
    jit(f)(y)
    assert not y.is_deleted()


@needs_native
def test_later_calls_take_memory_too() -> None:
    """Those that the entry point runs by itself."""

    def update(x: Any, g: Any) -> Any:
        return x - 0.5 * g, g.sum()

    step = jit(update, donate_argnums=0)
    x, g = cnp.arange(5.0), cnp.ones(5)
    place = address(x)
    for k in range(6):
        old = x
        x, total = step(x, g)
        assert address(x) == place
        assert old.is_deleted()
        assert float(total) == 5.0
        np.testing.assert_allclose(x, np.arange(5) - 0.5 * (k + 1))
    with pytest.raises(RuntimeError, match=r"donated to a call of update, first called at test_d"):
        old + 1
    with pytest.raises(RuntimeError, match="has been deleted"):
        step(old, g)
    with pytest.raises(ValueError, match="passed or captured a second time"):
        step(x, x)
    view = np.asarray(x)  # whoever looks at the memory keeps it
    before = view.copy()
    y, _ = step(x, g)
    assert x.is_deleted()
    np.testing.assert_array_equal(view, before)
    np.testing.assert_allclose(y, before - 0.5)
    np.testing.assert_allclose(step(np.ones(5, "float32"), g)[0], np.full(5, 0.5))
    np.testing.assert_allclose(step(y, g)[0], before - 1)


def test_trees_given_up_again_and_again() -> None:
    step = jit(lambda t, k: {n: v * k for n, v in t.items()}, donate_argnums=0)
    t = {"a": cnp.ones(3), "b": cnp.ones((2, 2))}
    for _ in range(4):
        old, t = t, step(t, 2.0)
        assert all(v.is_deleted() for v in old.values())
    np.testing.assert_array_equal(t["b"], np.full((2, 2), 16))


def test_donation_to_a_pmap() -> None:
    cv.config.update("num_cpu_devices", 4)
    try:
        step = cv.pmap(lambda x, g: x - g, donate_argnums=0)
        x, g = cnp.zeros((4, 3)), cnp.ones((4, 3))
        for _ in range(5):
            old, x = x, step(x, g)
            assert old.is_deleted()
            assert x.sharding.num_devices == 4
        np.testing.assert_array_equal(x, np.full((4, 3), -5))
        with pytest.raises(RuntimeError, match=r"donated to (the|a) call of <lambda>"):
            old + 1
    finally:
        cv.config.update("num_cpu_devices", -1)
