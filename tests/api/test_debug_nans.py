"""`debug_nans` and `debug_infs`: who made the first bad value, eagerly, in programs, in loops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import lax
from covector import numpy as cnp
from covector._base.context import Context
from covector.runtime import debug_values, dispatch


def message(fun: Callable[..., Any], *args: Any, option: str = "debug_nans") -> str:
    with cv.config.scoped(**{option: True}), pytest.raises(FloatingPointError) as caught:
        fun(*args)
    return str(caught.value)


def line_of(fun: Callable[..., Any], mark: str) -> str:
    """`file.py:12 (`, of the line of `fun` with this text."""
    lines, first = inspect.getsourcelines(fun)
    (at,) = [k for k, text in enumerate(lines) if mark in text]
    return f"test_debug_nans.py:{first + at} ("


def test_an_eager_operation() -> None:
    def f(x: float) -> Any:
        return cnp.log(cnp.float32(x))

    text = message(f, -1.0)
    assert text.startswith("invalid value (nan) encountered in log at ")
    assert line_of(f, "cnp.log") in text
    assert "return cnp.log(cnp.float32(x))" in text


def test_off_by_default_and_off_again_after_the_scope() -> None:
    process = Context.trace.process
    assert process is dispatch.evaluate
    assert np.isnan(cnp.log(-1.0))
    with cv.debug_nans(True):
        assert Context.trace.process is debug_values.watched
    assert Context.trace.process is dispatch.evaluate
    with cv.debug_nans(False):
        assert np.isnan(cnp.log(-1.0))


def test_an_option_of_the_whole_process() -> None:
    f = cv.jit(lambda x: cnp.log(x))
    f(1.0), f(1.0)
    cv.config.update("debug_nans", True)
    try:
        for _ in range(3):  # no record of the entry point serves either
            with pytest.raises(FloatingPointError, match="log"):
                f(-1.0)
            assert f(1.0) == 0.0
    finally:
        cv.config.update("debug_nans", False)
    assert np.isnan(f(-1.0))


def test_a_program_names_the_line_inside() -> None:
    def f(x: Any) -> Any:
        y = x - 3
        z = cnp.sqrt(y)  # here
        return cnp.sum(z * 2 + 1)

    text = message(cv.jit(f), cnp.arange(4.0))
    assert "(nan) encountered in sqrt" in text
    assert line_of(f, "# here") in text
    assert "compiled function f" in text


def test_a_masked_value_is_nobodys_fault() -> None:
    @cv.jit
    def f(x: Any) -> Any:
        return cnp.where(x > 0, cnp.log(x), 0.0)

    with cv.debug_nans(True):
        assert f(-1.0) == 0.0


def test_the_masked_operation_is_not_blamed_for_another() -> None:
    @cv.jit
    def f(x: Any) -> Any:
        masked = cnp.where(x > 0, cnp.log(x), 0.0)
        return masked + cnp.sqrt(x)

    assert "encountered in sqrt" in message(f, -1.0)


def test_an_argument_that_is_bad() -> None:
    assert "encountered in sin" in message(cv.jit(lambda x: cnp.sin(x) + 1), np.float32(np.nan))


def test_infs() -> None:
    f = cv.jit(lambda x: cnp.exp(x) + 1)
    assert "(inf) encountered in exp" in message(f, 1000.0, option="debug_infs")
    with cv.debug_nans(True):
        assert np.isinf(f(1000.0))
    with cv.debug_infs(True):
        assert np.isnan(cnp.log(-1.0))


def test_inside_a_nested_call() -> None:
    @cv.jit
    def inner(x: Any) -> Any:
        return cnp.log(x)

    assert "encountered in log" in message(cv.jit(lambda x: inner(x - 1) * 2), 0.5)


def test_inside_a_scan_it_names_the_round() -> None:
    def step(c: Any, x: Any) -> tuple[Any, Any]:
        return c + cnp.log(x), c  # step

    @cv.jit
    def f(xs: Any) -> Any:
        return lax.scan(step, 0.0, xs)

    text = message(f, cnp.array([1.0, 2.0, -3.0, 4.0]))
    assert "encountered in log" in text
    assert line_of(step, "# step") in text
    assert "in round 2 of a scan" in text


def test_inside_nested_loops_and_a_branch() -> None:
    def inner(i: Any, x: Any) -> Any:
        return lax.cond(x < 2, lambda x: cnp.sqrt(x - 1.5), lambda x: x, x - 1.0 * i)  # inner

    @cv.jit
    def f(x: Any) -> Any:
        def body(x: Any) -> Any:
            return lax.fori_loop(0, 2, inner, x)

        return lax.while_loop(lambda x: x > 0, body, x)

    text = message(f, 4.0)
    assert "encountered in sqrt" in text
    assert line_of(inner, "# inner") in text
    assert "of a while loop" in text


def test_an_eager_loop() -> None:
    text = message(lambda: lax.fori_loop(0, 4, lambda i, x: cnp.log(x), 2.0))
    assert "encountered in log" in text
    assert "in round 2" in text


@pytest.mark.parametrize("jitted", [False, True])
def test_backward(jitted: bool) -> None:
    def f(x: Any) -> Any:
        return g(x * 0.0) * 2.0

    @cv.custom_vjp
    def g(x: Any) -> Any:
        return x

    def back(x: Any, ct: Any) -> tuple[Any]:
        return (ct * cnp.log(x - 1),)  # back

    g.defvjp(lambda x: (x, x), back)
    grad = cv.grad(f)
    text = message(cv.jit(grad) if jitted else grad, 1.0)
    assert "encountered in log" in text
    assert line_of(back, "# back") in text


def test_backward_of_an_operation_names_the_forward_line() -> None:
    def f(x: Any) -> Any:
        with cv.config.scoped(singular_derivatives="ieee"):
            return cnp.sqrt(x * 0.0) * 0.0  # forward

    text = message(cv.jit(cv.grad(f)), 1.0)
    assert line_of(f, "# forward") in text


def test_vmap() -> None:
    f = cv.jit(cv.vmap(lambda x: cnp.log(x)))
    assert "encountered in log" in message(f, cnp.array([1.0, -1.0]))


def test_a_decomposition_is_judged_by_its_result() -> None:
    with cv.debug_infs(True):
        assert float(cnp.max(cnp.array([1.0, 2.0]), initial=0.0)) == 2.0
        assert float(cv.nn.logsumexp(cnp.array([1.0, 2.0]))) > 2.0


def test_complex_and_low_precision() -> None:
    assert "(nan)" in message(lambda: cnp.log(cnp.complex64(complex(np.nan, 1))))
    assert "(nan)" in message(lambda: cnp.log(cnp.bfloat16(-1)))


def test_a_program_compiled_ahead_and_pmap() -> None:
    compiled = cv.jit(lambda x: cnp.log(x)).lower(1.0).compile()
    assert "encountered in log" in message(compiled, -1.0)
    assert "(nan)" in message(cv.pmap(lambda x: cnp.log(x)), cnp.array([-1.0]))


def test_disable_jit() -> None:
    with cv.disable_jit():
        assert "encountered in log" in message(cv.jit(lambda x: cnp.log(x - 1) * 2), 0.0)
