"""Every class of `covector.errors`: where it is raised, and what it says.

Those of traced values are in `test_errors_tracers`, `KeyReuseError` in `test_errors_keys`, the
purity guard's in `test_purity`.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import errors, lax
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Equation, Jaxpr, Var
from covector.ir.verify import verify
from covector.ops import pointwise
from covector.runtime import array
from covector.runtime.pool import pool

HUGE = 1 << 50


def said(error: type[BaseException], run: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        run()
    assert type(caught.value) is error
    return str(caught.value)


def dangling() -> None:
    """A program that uses what nobody defines."""
    x, y, z = (Var(ShapedArray((3,), "float32")) for _ in range(3))
    verify(Jaxpr([], [x], [z], [Equation(pointwise.add, [x, y], [z])], "f"))


def leaked() -> None:
    kept: list[Any] = []
    cv.jit(lambda x: (kept.append(x), x)[1])(1.0)
    kept[0] + 1


def reused() -> None:
    with cv.debug_key_reuse(True):
        key = cv.random.key(0)
        cv.random.split(key)
        cv.random.split(key)


#: class -> what raises it, and words of its message.
RAISED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "ConcretizationTypeError": (
        lambda: cv.jit(lambda n: cnp.zeros(5)[: int(n)])(3),
        ["argument n of <lambda>", "`int()`", 'static_argnames="n"'],
    ),
    "TracerBoolConversionError": (
        lambda: cv.jit(lambda x: 1 if x > 0 else 2)(3),
        ["from argument x of <lambda>", "test_errors_classes.py:", "lax.cond"],
    ),
    "TracerArrayConversionError": (
        lambda: cv.jit(lambda x: np.cos(x))(3.0), ["argument x of <lambda>", "covector.numpy"]),
    "TracerIntegerConversionError": (
        lambda: cv.jit(lambda n: [0] * n)(3), ["argument n of <lambda>", "lax.fori_loop"]),
    "NonConcreteBooleanIndexError": (
        lambda: cv.jit(lambda x: x[x > 1])(np.ones(3, np.float32)),
        ["bool[3]", "from argument x of <lambda>", "numpy.where(mask, x, fill)"],
    ),
    "UnexpectedTracerError": (leaked, ["It is argument x of <lambda>.", "kept in a list"]),
    "KeyReuseError": (reused, ["First by random_split", "then by random_split", "split(key)"]),
    "JaxprTypeError": (dangling, ["operand of equation 0 (add)", "lambda"]),
    "JaxRuntimeError": (
        lambda: cnp.zeros(HUGE), ["RESOURCE_EXHAUSTED", f"{4 * HUGE} bytes", "chunk="]),
}  # fmt: skip
#: Bases, which nothing raises itself; and that of symbolic shapes.
OTHERS = {"JAXTypeError", "JAXIndexError", "InconclusiveDimensionOperation"}


def test_every_class_is_here() -> None:
    public = {name for name in errors.__all__ if not name.startswith("Purity")}
    assert public == {*RAISED, *OTHERS}


@pytest.mark.parametrize("name", RAISED)
def test_it_is_raised_and_says_why(name: str) -> None:
    run, words = RAISED[name]
    error = getattr(errors, name)
    message = said(error, run)
    for word in words:
        assert word in message
    with pytest.raises(error) as caught:
        run()
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is error
    assert str(again) == str(caught.value)


def test_no_memory() -> None:
    """Of a result, of what a program needs meanwhile, from the entry point too; nothing leaks."""
    cnp.zeros(3)
    gc.collect()
    before = pool.stats().in_use
    for f in (
        cv.jit(lambda x: cnp.broadcast_to(x, (HUGE,))),
        cv.jit(lambda x: cnp.sort(cnp.broadcast_to(x, (HUGE,)))[3]),
        lambda x: cnp.full((HUGE,), x),
    ):
        for _ in range(3):
            assert "Out of memory allocating" in said(errors.JaxRuntimeError, lambda f=f: f(1.0))
    gc.collect()  # an exception and its traceback may be a cycle
    assert pool.stats().in_use <= before + 64
    assert issubclass(errors.JaxRuntimeError, RuntimeError)


def test_a_failed_computation_raises_at_each_use() -> None:
    x = cnp.ones(3)
    array.replace_buffer(x, array.Failed(ValueError("the disk is full")))
    for use in (
        lambda: x + 1,
        lambda: np.asarray(x),
        lambda: float(x[0]),
        lambda: cv.jit(cnp.sin)(x),
    ):
        assert "the computation of this array failed: the disk is full" in said(
            errors.JaxRuntimeError, use
        )


def test_where_jax_raises_the_same() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    for ours, theirs in [
        (lambda: cv.jit(cnp.arange)(3), lambda: jax.jit(jnp.arange)(3)),
        (lambda: cv.jit(cnp.nonzero)(3), lambda: jax.jit(jnp.nonzero)(3)),
        (lambda: cv.jit(lambda n: cnp.repeat(np.ones(3), n))(3),
         lambda: jax.jit(lambda n: jnp.repeat(np.ones(3), n))(3)),
        (lambda: cv.jit(lambda n: cnp.linspace(0, 1, n))(3),
         lambda: jax.jit(lambda n: jnp.linspace(0, 1, n))(3)),
        (lambda: cv.jit(lambda n: cnp.sum(np.ones((2, 2)), n))(1),
         lambda: jax.jit(lambda n: jnp.sum(np.ones((2, 2)), n))(1)),
        (lambda: cv.jit(lambda n: n.devices())(3), lambda: jax.jit(lambda n: n.devices())(3)),
        (lambda: cv.jit(pickle.dumps)(3), lambda: jax.jit(pickle.dumps)(3)),
        (lambda: cv.jit(lambda n: lax.scan(lambda c, _: (c, c), 0, None, length=n))(3),
         lambda: jax.jit(lambda n: jax.lax.scan(lambda c, _: (c, c), 0, None, length=n))(3)),
    ]:  # fmt: skip
        with pytest.raises(Exception) as wanted:  # noqa: PT011
            theirs()
        with pytest.raises(Exception) as found:  # noqa: PT011
            ours()
        assert type(found.value).__name__ == type(wanted.value).__name__
