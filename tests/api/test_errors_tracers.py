"""Errors of traced values: the line, the argument, the ways out, in every transformation."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import errors, lax

Array = Any
ONES = np.ones(3, np.float32)


def said(error: type[Exception], run: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        run()
    assert type(caught.value) is error
    return str(caught.value)


# What asks for a value -> (error, what the message says of it).
ASKING: dict[str, tuple[Callable[[Array], Any], type[Exception], str]] = {
    "bool": (bool, errors.TracerBoolConversionError, "numpy.where"),
    "not": (operator.not_, errors.TracerBoolConversionError, "lax.cond"),
    "chain": (lambda y: 0 < y < 1, errors.TracerBoolConversionError, "lax.while_loop"),
    "int": (int, errors.ConcretizationTypeError, "`int()`"),
    "float": (float, errors.ConcretizationTypeError, "`float()`"),
    "complex": (complex, errors.ConcretizationTypeError, "`complex()`"),
    "item": (lambda y: y.item(), errors.ConcretizationTypeError, "`.item()`"),
    "tolist": (lambda y: y.tolist(), errors.ConcretizationTypeError, "`.tolist()`"),
    "tobytes": (lambda y: y.tobytes(), errors.ConcretizationTypeError, "`.tobytes`"),
    "devices": (lambda y: y.devices(), errors.ConcretizationTypeError, "`.devices`"),
    "format": (lambda y: f"{y:.2f}", errors.ConcretizationTypeError, "format '.2f'"),
    "pickle": (pickle.dumps, errors.ConcretizationTypeError, "pickle"),
    "arange": (cnp.arange, errors.ConcretizationTypeError, "of arange"),
    "axis": (lambda y: ONES.sum() + cnp.sum(ONES, y), errors.ConcretizationTypeError, "of sum"),
    "index": (operator.index, errors.TracerIntegerConversionError, "lax.fori_loop"),
    "list": (lambda y: [1, 2][y], errors.TracerIntegerConversionError, "Index an array"),
    "range": (range, errors.TracerIntegerConversionError, "Index an array"),
    "numpy": (np.sin, errors.TracerArrayConversionError, "covector.numpy function"),
    "asarray": (np.asarray, errors.TracerArrayConversionError, "covector.numpy function"),
    "position": (lambda y: np.ones(3)[y], errors.TracerArrayConversionError, "same name"),
    "mask": (
        lambda y: cnp.ones(()) [y > 0], errors.NonConcreteBooleanIndexError, "numpy.nonzero"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKING)
def test_jit(name: str) -> None:
    ask, error, advice = ASKING[name]

    def network(weight: Array, rate: Array) -> Array:
        return ask(abs(weight))

    message = said(error, lambda: cv.jit(network)(1, 2.0))
    assert "traced array of type " in message
    assert "at test_errors_tracers.py:" in message
    assert "from argument weight of network" in message
    assert "rate" not in message
    assert advice in message
    assert message.endswith(f"More: help(covector.errors.{error.__name__})")
    if error is not errors.NonConcreteBooleanIndexError:
        assert "If `weight` is a setting, not data, declare it static" in message
        assert 'jit(network, static_argnames="weight")' in message


def test_the_advice_works() -> None:
    def repeat(x: Array, times: Any) -> Array:
        return cnp.concatenate([x] * times)

    message = said(errors.TracerIntegerConversionError, lambda: cv.jit(repeat)(ONES, 2))
    assert 'jit(repeat, static_argnames="times")' in message
    assert cv.jit(repeat, static_argnames="times")(ONES, 2).shape == (6,)
    two = said(errors.ConcretizationTypeError, lambda: cv.jit(lambda a, b: cnp.arange(a + b))(1, 2))
    assert "static_argnames=('a', 'b')" in two


def test_parts_of_arguments_have_paths() -> None:
    def f(params: Any, *rest: Any, scale: Any) -> Any:
        return float(params["w"] + rest[1]["b"][0] + scale)

    message = said(
        errors.ConcretizationTypeError,
        lambda: cv.jit(f)({"w": 1.0}, 2.0, {"b": [3.0]}, scale=1.0),
    )
    for part in ("params['w']", "args[2]['b'][0]", "scale"):
        assert f"argument {part} of f" in message
    assert "static_argnames" not in message  # no part of an argument can be static
    many = cv.jit(lambda xs: float(sum(xs)))
    assert "and 2 others" not in said(errors.ConcretizationTypeError, lambda: many([1.0] * 3))
    assert "2 others" in said(errors.ConcretizationTypeError, lambda: many([1.0] * 6))


def loss(weight: Array, rate: Array) -> Any:
    value = weight * 2 + 1
    return float(value)


#: Transformations of one at a time, outside of jit: no line is staged there.
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "grad": (lambda f: cv.grad(f)(1.0, 2.0), "has_aux=True"),
    "value_and_grad": (lambda f: cv.value_and_grad(f, (0,))(1.0, 2.0), "has_aux=True"),
    "vjp": (lambda f: cv.vjp(f, 1.0, 2.0), "has_aux=True"),
    "linearize": (lambda f: cv.linearize(f, 1.0, 2.0), "has_aux=True"),
    "jvp": (lambda f: cv.jvp(f, (1.0, 2.0), (1.0, 1.0)), "has_aux=True"),
    "jacrev": (lambda f: cv.jacrev(f)(1.0, 2.0), "has_aux=True"),
    "jacfwd": (lambda f: cv.jacfwd(f)(1.0, 2.0), "has_aux=True"),
    "vmap": (lambda f: cv.vmap(f)(ONES, ONES), "stands for 3 values"),
    "vmap of grad": (lambda f: cv.vmap(cv.grad(f))(ONES, ONES), "stands for 3 values"),
    "jit of grad": (lambda f: cv.jit(cv.grad(f))(1.0, 2.0), "help("),
    "checkpoint": (lambda f: cv.grad(cv.checkpoint(f))(1.0, 2.0), "help("),
    "scan": (lambda f: lax.scan(lambda weight, _: (f(weight, 1), None), 1.0, ONES), "help("),
    "while": (lambda f: lax.while_loop(lambda c: True, lambda weight: f(weight, 1), 1.0), "help("),
    "eval_shape": (lambda f: cv.eval_shape(f, 1.0, 2.0), "static_argnames"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_line_and_the_argument_in_every_transformation(name: str) -> None:
    transform, advice = TRANSFORMS[name]
    message = said(errors.ConcretizationTypeError, lambda: transform(loss))
    line = loss.__code__.co_firstlineno + 1
    assert f"test_errors_tracers.py:{line} (loss)" in message
    assert "argument weight of " in message
    assert "rate" not in message or "static" in message
    assert advice in message


def test_an_argument_itself() -> None:
    def f(chosen: Array, other: Array) -> Any:
        return float(other)

    for run in (
        lambda: cv.jit(f)(1.0, 2.0),
        lambda: cv.grad(f, 1)(1.0, 2.0),
        lambda: cv.jvp(f, (1.0, 2.0), (1.0, 1.0)),
        lambda: cv.vmap(f, (None, 0))(1.0, ONES),
        lambda: cv.jacfwd(f, argnums=(1, 0))(1.0, 2.0),
    ):
        message = said(errors.ConcretizationTypeError, run)
        assert "argument other of f" in message
        assert "chosen" not in message


def test_a_derivative_does_not_hide_what_python_says() -> None:
    assert cv.grad(lambda x: x if x > 0 else -x)(-3.0) == -1
    with pytest.raises(TypeError, match="integer"):
        cv.grad(lambda x: [x, x][x])(0.0)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cv.jit(lambda x: x.nothing)(0.0)


LEAKING: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: cv.grad(f)(1.0),
    "jvp": lambda f: cv.jvp(f, (1.0,), (1.0,)),
    "vmap": lambda f: cv.vmap(f)(ONES),
    "vmap of grad": lambda f: cv.vmap(cv.grad(f))(ONES),
    "jacfwd": lambda f: cv.jacfwd(f)(1.0),
    "jit": lambda f: cv.jit(f)(1.0),
    "scan": lambda f: lax.scan(lambda weight, x: (f(weight), x), 1.0, ONES),
}


@pytest.mark.parametrize("name", LEAKING)
def test_a_leaked_value_says_where_it_was_made(name: str) -> None:
    kept: list[Any] = []

    def keeper(weight: Array) -> Array:
        kept.append(cnp.sin(weight))
        return weight * 1.0

    LEAKING[name](keeper)
    message = said(errors.UnexpectedTracerError, lambda: kept[0] + 1)
    line = keeper.__code__.co_firstlineno + 1
    assert f"It was computed at test_errors_tracers.py:{line} (" in message
    assert "from argument weight of " in message
    assert f"used at test_errors_tracers.py:{said_line()} (" in message
    assert "It was kept in a list, the variable `kept` that " in message


def said_line() -> int:
    """The line of the lambda that touches the value."""
    code = test_a_leaked_value_says_where_it_was_made.__code__
    return next(c.co_firstlineno for c in code.co_consts if getattr(c, "co_name", "") == "<lambda>")


def test_bases_catch_all_of_a_kind() -> None:
    for name, (ask, error, _) in ASKING.items():
        base = errors.JAXIndexError if name == "mask" else errors.JAXTypeError
        plain = IndexError if name == "mask" else TypeError
        with pytest.raises(base) as caught:
            cv.jit(ask)(1)
        assert isinstance(caught.value, plain)
        assert isinstance(caught.value, error)
