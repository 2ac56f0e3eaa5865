"""Bad input is refused with the documented type, before work, naming what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax

ones = np.ones
CASES: list[tuple[str, type[Exception], str, Callable[[], Any]]] = [
    ("shape mismatch", TypeError, r"add.*\(3,\).*\(4,\)", lambda: cnp.ones(3) + cnp.ones(4)),
    ("dtype mismatch", TypeError, "add.*float32.*int32",
     lambda: lax.add(cnp.ones(3), cnp.ones(3, "int32"))),
    ("dtype kind", TypeError, "sin.*floating point.*i32", lambda: lax.sin(cnp.arange(3))),
    ("unknown dtype", TypeError, "nonsense", lambda: cnp.zeros(3, "nonsense")),
    ("object array", TypeError, "object", lambda: cnp.array([object()])),
    ("a list", TypeError, "sin.*list.*position 0", lambda: cnp.sin([1.0])),
    ("bad axis", ValueError, "axis 2.*dimension 1", lambda: cnp.sum(cnp.ones(3), axis=2)),
    ("reshape", TypeError, r"\(7,\)", lambda: cnp.ones(6).reshape(7)),
    ("too many indices", IndexError, "1-dimensional, but 2", lambda: cnp.ones(3)[0, 0]),
    ("float index", TypeError, "integer or boolean", lambda: cnp.ones(3)[1.0]),
    ("string index", TypeError, "string", lambda: cnp.ones(3)["a"]),
    ("list index", TypeError, "non-tuple sequence", lambda: cnp.ones(3)[[0, 1]]),
    ("contraction", TypeError, r"f32\[2,3\]", lambda: cnp.ones((2, 3)) @ cnp.ones((2, 3))),
    ("not callable", TypeError, "3", lambda: cv.jit(3)),
    ("not callable", TypeError, "3", lambda: cv.grad(3)(1.0)),
    ("argnums too large", TypeError, "argnums=1", lambda: cv.grad(lambda x: x, argnums=1)(1.0)),
    ("argnums no int", TypeError, "argnums.*'a'", lambda: cv.grad(lambda x: x, argnums="a")(1.0)),
    ("vector grad", TypeError, r"scalar-output.*\(3,\)", lambda: cv.grad(lambda x: x)(cnp.ones(3))),
    ("tree grad", TypeError, "scalar-output", lambda: cv.grad(lambda x: (x, x))(1.0)),
    ("int grad", TypeError, "int32", lambda: cv.grad(lambda x: x * 2.0)(2)),
    ("int result grad", TypeError, "int32", lambda: cv.grad(lambda x: 1)(1.0)),
    ("complex grad", TypeError, "complex64", lambda: cv.grad(lambda x: x * 1j)(1.0)),
    ("aux", TypeError, "pair", lambda: cv.grad(lambda x: x, has_aux=True)(1.0)),
    ("unhashable static", ValueError, "hashable.*list",
     lambda: cv.jit(lambda x, n: x, static_argnums=1)(1.0, [1])),
    ("static out of range", ValueError, "static_argnums=5",
     lambda: cv.jit(lambda x: x, static_argnums=5)(1.0)),
    ("static unknown name", ValueError, "'zz'",
     lambda: cv.jit(lambda x: x, static_argnames="zz")(1.0)),
    ("string argument", TypeError, "'a'", lambda: cv.jit(lambda x: x)("a")),
    ("string result", TypeError, "'a'", lambda: cv.jit(lambda x: "a")(1.0)),
    ("vmap sizes", ValueError, "size 3.*size 4",
     lambda: cv.vmap(lambda x, y: x)(ones(3), ones(4))),
    ("vmap scalar", ValueError, "rank should be at least 1", lambda: cv.vmap(lambda x: x)(3.0)),
    ("vmap in_axes", TypeError, "in_axes.*'a'", lambda: cv.vmap(lambda x: x, in_axes="a")(ones(3))),
    ("vmap in_axes count", ValueError, "in_axes",
     lambda: cv.vmap(lambda x: x, in_axes=(0, 0))(ones(3))),
    ("vmap out_axes", ValueError, "out_axes", lambda: cv.vmap(lambda x: x, out_axes=3)(ones(3))),
    ("vmap out_axes None", ValueError, "out_axes is None",
     lambda: cv.vmap(lambda x: x, out_axes=None)(ones(3))),
    ("jvp dtype", TypeError, "f32.*i32", lambda: cv.jvp(lambda x: x, (1.0,), (1,))),
    ("jvp shape", ValueError, r"f32\[3\]", lambda: cv.jvp(lambda x: x, (1.0,), (cnp.ones(3),))),
    ("jvp no tuple", TypeError, "tuple or list", lambda: cv.jvp(lambda x: x, 1.0, 1.0)),
    ("vjp structure", ValueError, "structure", lambda: cv.vjp(lambda x: x, 1.0)[1]((1.0, 2.0))),
    ("vjp shape", ValueError, r"f32\[3\]", lambda: cv.vjp(lambda x: x, 1.0)[1](cnp.ones(3))),
    ("unknown option", AttributeError, "enable_x64", lambda: cv.config.update("enable_x46", True)),
    ("bad option value", (TypeError, ValueError), "enable_x64",  # type: ignore[list-item]
     lambda: cv.config.update("enable_x64", "maybe")),
    ("ragged", ValueError, "array", lambda: cnp.array([[1, 2], [3]])),
    ("too large an integer", OverflowError, "300", lambda: cnp.array(300, "int8")),
    ("negative size", TypeError, "negative", lambda: cnp.zeros(-1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "pattern", "call"), CASES, ids=[c[0] for c in CASES])
def test_is_refused(name: str, kind: Any, pattern: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=f"(?s){pattern}"):
        call()


def test_a_leaked_tracer_is_dead_and_says_where_it_came_from() -> None:
    leaked = []

    @cv.jit
    def f(x: Any) -> Any:
        leaked.append(cnp.sin(x))
        return x

    f(1.0)
    with pytest.raises(cv.errors.UnexpectedTracerError, match="argument x of f"):
        leaked[0] + 1
    with pytest.raises(cv.errors.UnexpectedTracerError):
        cv.jit(lambda y: y + leaked[0])(1.0)
    with pytest.raises(cv.errors.UnexpectedTracerError):
        bool(leaked[0])


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        (cv.errors.TracerBoolConversionError, bool),
        (cv.errors.ConcretizationTypeError, float),
        (cv.errors.ConcretizationTypeError, int),
        (cv.errors.TracerArrayConversionError, np.asarray),
        (cv.errors.TracerIntegerConversionError, lambda x: range(5)[x]),
        (cv.errors.ConcretizationTypeError, lambda x: x.item()),
    ],
)
def test_a_traced_value_has_no_number(kind: type[Exception], use: Callable[..., Any]) -> None:
    with pytest.raises(kind, match="argument x of"):
        cv.jit(lambda x: use(x))(1)


def test_a_boolean_mask_must_be_concrete() -> None:
    with pytest.raises(cv.errors.NonConcreteBooleanIndexError):
        cv.jit(lambda x: x[x > 0])(cnp.ones(3))


def test_bad_input_to_an_update_loses_nothing() -> None:
    x = cnp.arange(3.0)
    with pytest.raises(ValueError, match=r"\(2,\)"):
        x.at[0].set(cnp.ones(2))
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_the_error_is_raised_while_tracing_and_shows_the_users_line() -> None:
    @cv.jit
    def wrong(x: Any) -> Any:
        return cnp.dot(x, cnp.ones(4))

    with pytest.raises(TypeError) as info:
        wrong(cnp.ones(3))
    lines = [str(entry.path) for entry in info.traceback]
    assert any(path.endswith("test_bad_input.py") for path in lines)
