"""pure_callback, io_callback, debug.print and debug.callback, in and under every transformation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector.experimental import io_callback

X = np.array([3.0, 1.0, 2.0], "f")


def like(x: Any) -> Any:
    return cv.ShapeDtypeStruct(x.shape, x.dtype)


def ordered(x: Any, method: str | None = "expand_dims") -> Any:
    return cv.pure_callback(lambda x: np.sort(np.asarray(x)), like(x), x, vmap_method=method)


def test_pure_callback() -> None:
    assert ordered(X).tolist() == [1, 2, 3]
    assert (cv.jit(ordered)(X) + 1).tolist() == [2, 3, 4]

    def step(x: Any, _: Any) -> Any:
        return ordered(x) * 2, x.sum()

    last, sums = cv.jit(lambda x: cv.lax.scan(step, x, None, length=3))(X)
    assert last.tolist() == [8, 16, 24]
    assert sums.tolist() == [6, 12, 24]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap_methods(method: str) -> None:
    shapes: list[tuple[int, ...]] = []

    def add(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    def f(x: Any, y: Any) -> Any:
        return cv.pure_callback(add, like(x), x, y, vmap_method=method)

    rows = np.stack([X, -X])
    for g in (cv.vmap(f, (0, None)), cv.jit(cv.vmap(f, (0, None)))):
        np.testing.assert_array_equal(g(rows, X), rows + X)
    wanted = {
        "sequential": ((3,), (3,)), "expand_dims": ((2, 3), (1, 3)),
        "broadcast_all": ((2, 3), (2, 3)),
    }  # fmt: skip
    assert set(shapes) == {wanted[method]}


def test_trees_keywords_and_a_derivative_of_one_s_own() -> None:
    @cv.custom_jvp
    def sine(x: Any) -> Any:
        return cv.pure_callback(
            lambda v, scale: {"out": np.asarray(np.sin(v["x"]) * scale, np.float32)},
            {"out": like(x)}, {"x": x}, scale=2.0, vmap_method="expand_dims",
        )["out"]  # fmt: skip

    @sine.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return sine(*primals), 2 * cnp.cos(primals[0]) * tangents[0]

    x = cnp.float32(0.3)
    np.testing.assert_allclose(cv.jit(sine)(x), 2 * np.sin(0.3), rtol=1e-6)
    np.testing.assert_allclose(cv.jit(cv.grad(sine))(x), 2 * np.cos(0.3), rtol=1e-6)


def test_io_callback_in_loops_runs_in_order_and_is_not_removed() -> None:
    seen: list[int] = []

    def body(i: Any, c: Any) -> Any:
        io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
        return c + 1

    assert float(cv.jit(lambda c: cv.lax.fori_loop(0, 5, body, c))(0.0)) == 5
    assert seen == [0, 1, 2, 3, 4]
    counter = iter(range(100))
    take = cv.jit(lambda: io_callback(lambda: np.int32(next(counter)), like(np.int32(0))))
    assert [int(take()) for _ in range(3)] == [0, 1, 2]


def test_a_callback_may_call_covector_again() -> None:
    f = cv.jit(lambda x: cv.pure_callback(lambda x: np.asarray(cnp.sin(x) + 1), like(x), x))
    x = cnp.float32(1.0)
    for _ in range(10_000):
        y = f(x)
    np.testing.assert_allclose(y, np.sin(1.0) + 1, rtol=1e-6)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    @cv.jit
    def f(x: Any) -> Any:
        cv.debug.print("x={x} {}", x * 2, x=x)

        def large(x: Any) -> Any:
            cv.debug.print("large {:.1f}", x)
            return x * x

        return cnp.sin(cv.lax.cond(x > 1, large, lambda x: x, x))

    def lines(g: Callable[[], Any]) -> list[str]:
        g()
        return capsys.readouterr().out.splitlines()

    assert lines(lambda: f(2.0)) == ["x=2.0 4.0", "large 2.0"]
    assert lines(lambda: cv.grad(f)(0.5)) == ["x=0.5 1.0"]
    mapped = lines(lambda: cv.vmap(f)(cnp.array([0.5, 2.0])))
    assert sorted(mapped) == ["large 2.0", "x=0.5 1.0", "x=2.0 4.0"]
    assert lines(lambda: cv.debug.print("{a}", a=cnp.arange(3))) == ["[0 1 2]"]


def test_log_and_callback_as_decorator(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "covector.debug"):
        cv.jit(lambda x: cv.debug.log("x is {}", x))(3)
    assert [r.getMessage() for r in caplog.records] == ["x is 3"]
    seen: list[float] = []

    @cv.debug.callback()
    def look(x: Any) -> None:
        seen.append(float(x))

    cv.jit(lambda x: look(x))(4.0)
    assert seen == [4]


def _refuses(x: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: cv.grad(lambda x: ordered(x).sum())(X), ValueError, "custom_jvp or custom_vjp"),
        (lambda: cv.vmap(lambda x: ordered(x, None))(np.stack([X, X])), NotImplementedError,
         "needs vmap_method, one of sequential"),
        (lambda: ordered(X, "parallel"), ValueError, "got 'parallel'"),
        (lambda: cv.jit(lambda x: cv.pure_callback(lambda x: np.zeros(2, "f"), like(x), x))(X),
         RuntimeError, r"must be f32\[3\], as declared; it returned .* shape \(2,\)"),
        (lambda: cv.pure_callback(lambda x: (x, x), like(X), X), RuntimeError, "structure"),
        (lambda: cv.jit(lambda x: cv.pure_callback(_refuses, like(x), x))(X), KeyError,
         "no such thing"),
        (lambda: cv.pure_callback(3, like(X), X), TypeError, "wants a function"),
        (lambda: cv.debug.print("{}", 1, 2), ValueError, "has no field for 1 of the values"),
        (lambda: cv.debug.print("{} {}", 1), IndexError, "out of range"),
        (lambda: cv.vmap(lambda x: io_callback(lambda x: x, like(x[0]), x[0], ordered=True))(
            np.stack([X, X])), ValueError, "no order under vmap"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
