"""A leaked tracer is dead: its first use says where it was made and where it was kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit, lax
from covector.errors import UnexpectedTracerError

in_a_global: Any = None
in_a_list: list[Any] = []


class Holder:
    def __init__(self) -> None:
        self.state: Any = None
        self.history: list[Any] = []


holder = Holder()


def message(use: Any) -> str:
    with pytest.raises(UnexpectedTracerError) as error:
        use()
    return str(error.value)


def test_the_line_and_the_argument_are_named() -> None:
    def f(weight: Any) -> Any:
        holder.state = weight * 2
        return weight

    jit(f)(1.0)
    said = message(lambda: holder.state + 1)
    assert "It was computed at test_leaks.py:" in said
    assert "from argument weight of f" in said
    assert "was used at test_leaks.py:" in said
    assert "after the tracing of f that made it had ended" in said
    holder.state = None


KEPT = {
    "the attribute `state` of a Holder": lambda x: setattr(holder, "state", x),
    "a list, the attribute `history` of a Holder": lambda x: holder.history.append(x),
    "a list, the global `in_a_list` of module": lambda x: in_a_list.append(x),
    "a dict, a list, the global `in_a_list` of module": lambda x: in_a_list.append({"x": x}),
}


def found() -> Any:
    """What was left behind, without a variable of its own."""
    (value,) = [v for v in (holder.state, *holder.history, *in_a_list) if v is not None]
    return value["x"] if isinstance(value, dict) else value


@pytest.fixture(autouse=True)
def emptied() -> Any:
    yield
    holder.state = None
    holder.history.clear()
    in_a_list.clear()


@pytest.mark.parametrize("where", KEPT)
def test_the_container_is_named(where: str) -> None:
    jit(lambda x: (KEPT[where](x + 1), x)[1])(1.0)
    for use in (
        lambda: found() + 1,
        lambda: cnp.sin(found()),
        lambda: bool(found()),
        lambda: np.asarray(found()),
        lambda: jit(lambda y: y * 2)(found()),
    ):
        assert f"It was kept in {where}" in message(use)


def test_globals_and_closures() -> None:
    kept: dict[str, Any] = {}

    @jit
    def f(x: Any) -> Any:
        global in_a_global
        in_a_global = x * 2
        return x

    f(1.0)
    assert "kept in the global `in_a_global` of module" in message(lambda: in_a_global + 1)

    @jit
    def g(x: Any) -> Any:
        kept["x"] = x * 3
        return x

    g(1.0)
    assert "kept in a dict, the variable `kept` that test_globals" in message(lambda: kept["x"] * 2)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jit(f)(1.0),
        lambda f: cv.grad(f)(1.0),
        lambda f: cv.vmap(f)(cnp.ones(3)),
        lambda f: lax.scan(lambda c, x: (f(c), None), 1.0, cnp.ones(3)),
        lambda f: lax.cond(True, f, f, 1.0),
        lambda f: lax.while_loop(lambda c: c < 2, lambda c: f(c) + 1, 1.0),
        lambda f: cv.eval_shape(f, 1.0),
        lambda f: cv.make_jaxpr(f)(1.0),
    ],
)
def test_every_transformation_kills_its_tracers(transform: Any) -> None:
    def f(x: Any) -> Any:
        holder.state = x * 2
        return x * 2

    transform(f)
    assert "kept in the attribute `state` of a Holder" in message(lambda: holder.state + 1)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jit(f)(1.0),
        lambda f: cv.grad(f)(1.0),
        lambda f: cv.vmap(f)(cnp.ones(3)),
        lambda f: lax.fori_loop(0, 3, lambda i, c: f(c), 1.0),
        lambda f: jit(cv.grad(f))(1.0),
    ],
)
def test_leaks_are_found_when_they_happen(transform: Any) -> None:
    def leaky(x: Any) -> Any:
        holder.history.append(x * 2)
        return x * 2

    def clean(x: Any) -> Any:
        holder.history.append(x.shape)
        return lax.cond(x > 0, lambda: x * 2, lambda: x)

    with cv.checking_leaks():
        with pytest.raises(UnexpectedTracerError, match="Leaked tracers") as error:
            transform(leaky)
        assert "It was computed at test_leaks.py:" in str(error.value)
        assert "a list, the attribute `history` of a Holder" in str(error.value)
        holder.history.clear()
        transform(clean)


def test_what_is_kept_on_purpose_is_no_leak() -> None:
    with cv.checking_leaks():
        out, pull = cv.vjp(lambda x: cnp.sin(x) * x, 1.0)
        assert pull(out)[0].shape == ()
        linear = cv.linearize(cnp.sin, 1.0)[1]
        np.testing.assert_allclose(linear(1.0), np.cos(1.0), rtol=1e-6)
