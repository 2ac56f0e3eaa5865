"""Random programs: eager = compiled = reference = JAX, and the transformations keep their laws."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import covector as cv
import covector.numpy as cnp
from covector.ir.interpret import evaluate
from tests.fuzz.programs import Program, arguments, programs
from tests.oracle import answer

slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
seeds = st.integers(0, 2**16)


def close(got: Any, wanted: Any, program: Program, rtol: float = 2e-4) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, program
    assert got.dtype == wanted.dtype, program
    size = np.max(np.abs(wanted), initial=1.0)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * size, err_msg=repr(program))


@slow
@given(programs(), seeds)
def test_compiled_is_eager_is_reference(program: Program, seed: int) -> None:
    args = arguments(program, seed)
    fun = lambda *xs: program(cnp, *xs)  # noqa: E731
    traced = cv.make_jaxpr(fun)(*args)
    wanted = evaluate(traced.jaxpr, [np.asarray(c) for c in traced.consts], args)
    compiled = cv.jit(fun)(*args)
    eager = fun(*map(cnp.asarray, args))
    for c, e, w in zip(compiled, eager, wanted, strict=True):
        close(c, w, program)
        close(e, w, program)


@slow
@given(programs(), seeds)
def test_compiled_is_jax(jax: Any, program: Program, seed: int) -> None:
    args = arguments(program, seed)
    ours = cv.jit(lambda *xs: program(cnp, *xs))(*args)
    theirs = answer("fuzz", lambda *xs: program(jax.numpy, *xs), *args)
    for x, y in zip(ours, theirs, strict=True):
        close(x, y, program)


@slow
@given(programs(), seeds)
def test_gradient_is_jax(jax: Any, program: Program, seed: int) -> None:
    args = arguments(program, seed)

    def loss(xp: Any) -> Any:
        return lambda *xs: sum(xp.sum(xp.sin(x)) for x in program(xp, *xs))

    numbers = tuple(range(len(args)))
    ours = cv.jit(cv.grad(loss(cnp), numbers))(*args)
    theirs = answer("fuzz", jax.grad(loss(jax.numpy), numbers), *args)
    for x, y in zip(ours, theirs, strict=True):
        close(x, y, program, 2e-3)


@slow
@given(programs(), seeds)
def test_vmap_is_a_loop(program: Program, seed: int) -> None:
    fun = lambda *xs: program(cnp, *xs)  # noqa: E731
    batch = [arguments(program, seed + k) for k in range(3)]
    stacked = [np.stack(column) for column in zip(*batch, strict=True)]
    mapped = cv.jit(cv.vmap(fun))(*stacked)
    singles = [cv.jit(fun)(*args) for args in batch]
    for k, x in enumerate(mapped):
        close(x, np.stack([np.asarray(s[k]) for s in singles]), program)


@slow
@given(programs(most=5, smooth=True), seeds)
def test_jvp_is_the_derivative(program: Program, seed: int) -> None:
    with cv.enable_x64(True):
        args = arguments(program, seed, np.float64)
        directions = arguments(program, seed + 1, np.float64)
        fun = lambda *xs: program(cnp, *xs)  # noqa: E731
        _, tangents = cv.jit(lambda xs, ts: cv.jvp(fun, xs, ts))(tuple(args), tuple(directions))
        step = 1e-5
        plus, minus = (
            fun(*[a + s * step * t for a, t in zip(args, directions, strict=True)]) for s in (1, -1)
        )
        for t, p, m in zip(tangents, plus, minus, strict=True):
            close(t, (np.asarray(p) - np.asarray(m)) / (2 * step), program, 1e-5)
