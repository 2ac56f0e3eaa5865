"""Random programs of nested loops and branches: the oracle's values, and its derivatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import covector as cv
import covector.numpy as cnp

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
Fun = Callable[[Any], Any]
Build = Callable[[Any, Any], Fun]

#: Functions of three numbers to three numbers, given the library and its numpy.
LEAVES: list[Build] = [
    lambda lib, m: lambda x: m.sin(x) + 0.1,
    lambda lib, m: lambda x: x * m.cos(x.sum()),
    lambda lib, m: lambda x: m.tanh(x[::-1]) * 1.1,
    lambda lib, m: lambda x: m.where(x > 0, x * 0.5, x * x),
    lambda lib, m: lambda x: m.cumsum(x) * 0.4,
    lambda lib, m: lambda x: x.at[1].add(x[0] * x[2]),
    lambda lib, m: lambda x: (m.ones((3, 3)) * 0.2 + m.outer(x, x) * 0.1) @ x,
]


def _scan(lib: Any, m: Any, f: Fun, g: Fun, n: int, reverse: bool) -> Fun:
    def step(c: Any, y: Any) -> Any:
        return f(c) * 0.7 + y * 0.1, None

    return lambda x: lib.lax.scan(step, g(x), m.zeros((n, 3)) + x, reverse=reverse)[0]


def _scan_with_rows(lib: Any, m: Any, f: Fun, g: Fun, n: int, reverse: bool) -> Fun:
    def step(c: Any, y: Any) -> Any:
        return f(c) * 0.7, (g(c) * y, c.sum())

    def run(x: Any) -> Any:
        c, ys = lib.lax.scan(step, x, m.arange(3.0)[:, None] + x, reverse=reverse)
        return c + ys[0].sum(0) * 0.1 + ys[1].sum() * 0.01

    return run


def _switch(lib: Any, m: Any, f: Fun, g: Fun, n: int, reverse: bool) -> Fun:
    ways = [f, g, lambda x: x, lambda x: f(g(x))]
    return lambda x: lib.lax.switch((x[0] * 3).astype("int32"), ways, x)


def _mapped_cond(lib: Any, m: Any, f: Fun, g: Fun, n: int, reverse: bool) -> Fun:
    def one(s: Any, x: Any) -> Any:
        return lib.lax.cond(s > 0, lambda s: f(x * s), lambda s: g(x + s), s)

    return lambda x: lib.vmap(lambda s: one(s, x))(x).sum(0)


def _mapped_while(lib: Any, m: Any, f: Fun, g: Fun, n: int, reverse: bool) -> Fun:
    def going(c: Any) -> Any:
        return c < 2.0

    def one(s: Any) -> Any:
        def step(c: Any) -> Any:
            return c * 1.3 + 0.1 + s * s * 0.1

        if lib is not jax:
            return lib.lax.while_loop(going, step, s)
        # Enough rounds, of which those beyond the end do nothing: that has a reverse mode there.
        return lib.lax.scan(lambda c, _: (m.where(going(c), step(c), c), None), s, None, 40)[0]

    return lambda x: f(lib.vmap(one)(m.abs(x) + 0.2)) * 0.3


#: From two such functions to one.
JOINTS: list[Callable[[Any, Any, Fun, Fun, int, bool], Fun]] = [
    lambda lib, m, f, g, n, reverse: lambda x: f(g(x)),
    _scan,
    _scan_with_rows,
    lambda lib, m, f, g, n, reverse: (
        lambda x: lib.lax.cond(x.sum() > 0.1, f, lambda x: g(x) * 0.5, x)
    ),
    _switch,
    lambda lib, m, f, g, n, reverse: (
        lambda x: lib.lax.fori_loop(0, n, lambda i, c: f(c) * 0.8 + i * 0.01, g(x))
    ),
    lambda lib, m, f, g, n, reverse: lambda x: lib.lax.map(lambda s: f(x * s) * s, x).sum(0),
    _mapped_cond,
    _mapped_while,
    lambda lib, m, f, g, n, reverse: lambda x: lib.jit(f)(lib.grad(lambda y: (g(y) ** 2).sum())(x)),
]


def program(draw: random.Random, depth: int) -> Build:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(LEAVES)
    first, second = program(draw, depth - 1), program(draw, depth - 1)
    joint, n, reverse = draw.choice(JOINTS), draw.randint(0, 3), draw.random() < 0.5
    return lambda lib, m: joint(lib, m, first(lib, m), second(lib, m), n, reverse)


def results(build: Build, lib: Any, m: Any, x: np.ndarray) -> list[Any]:
    f, y = build(lib, m), m.asarray(x)

    def total(x: Any) -> Any:
        return (f(x) * m.arange(1.0, 4.0)).sum()

    slope = lib.grad(total)
    return [
        lib.jit(f)(y),
        lib.jit(slope)(y),
        lib.jit(lambda y: lib.jvp(slope, (y,), (m.ones(3),))[1])(y),
        lib.jit(lib.vmap(slope))(m.stack([y, -y, y * 0.5])),
    ]


# One for each 25 examples of the profile in force.
@pytest.mark.parametrize("seed", range(max(3, settings().max_examples // 25)))
def test_control_flow_is_the_oracles(seed: int) -> None:
    build = program(random.Random(seed), 3)
    x = np.random.default_rng(seed).uniform(-1, 1, 3).astype("f")
    pairs = zip(results(build, cv, cnp, x), results(build, jax, jax.numpy, x), strict=True)
    for ours, theirs in pairs:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        size = max(1.0, float(np.abs(theirs).max()))
        if size > 1e4:
            continue  # so steep that rounding decides
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4 * size)
