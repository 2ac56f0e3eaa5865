"""Numbers equal JAX's: bit for bit, or to some ulp; both kinds of keys, both widths."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.random as ours
from tests.random.oracle import (
    Draw,
    ask,
    ask_exactly,
    assert_equal,
    assert_near,
    jax,
    keys,
    theirs,
    wide,
)

SHAPES = [(), (1,), (37,), (3, 5), (0, 2)]
ROWS = np.arange(24, dtype=np.int32).reshape(6, 4)
LOGITS = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
WEIGHTS = np.float32([0.1, 0.2, 0.3, 0.4])

#: Equal bit for bit.
EXACT: dict[str, Draw] = {
    "split": lambda r, k: r.split(k, 5),
    "split-shape": lambda r, k: r.split(k, (2, 3)),
    "split-none": lambda r, k: r.split(k, 0),
    "fold_in": lambda r, k: r.fold_in(k, 2**32 - 1),
    "key_data": lambda r, k: r.key_data(k),
    "clone": lambda r, k: r.clone(k),
    **{f"bits{n}": lambda r, k, n=n: r.bits(k, (37,), f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"uniform{s}": lambda r, k, s=s: r.uniform(k, s) for s in SHAPES},
    **{
        f"uniform-{d}": lambda r, k, d=d: r.uniform(k, (500,), d)
        for d in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
    },
    **{
        f"uniform-bounds-{d}": lambda r, k, d=d: r.uniform(k, (500,), d, -3.1, 2.7)
        for d in ("float16", "bfloat16", "float32", "float64")
    },
    "uniform-reversed": lambda r, k: r.uniform(k, (50,), minval=2.0, maxval=-1.0),
    "uniform-ints": lambda r, k: r.uniform(k, (50,), minval=-1, maxval=np.int8(7)),
    "uniform-huge": lambda r, k: r.uniform(k, (50,), minval=-3e38, maxval=3e38),
    "uniform-infinite": lambda r, k: r.uniform(k, (50,), minval=0.0, maxval=np.inf),
    "uniform-arrays": lambda r, k: r.uniform(
        k, (2, 3), minval=np.float32([[-1.0], [2.0]]), maxval=np.float32([3.0, 4.0, 5.0])
    ),
    "randint": lambda r, k: r.randint(k, (500,), -5, 17),
    "randint-empty": lambda r, k: r.randint(k, (20,), 7, 3),
    "randint-arrays": lambda r, k: r.randint(
        k, (2, 3), np.array([0, 1, 2]), np.array([[9], [700]])
    ),
    "randint-floats": lambda r, k: r.randint(k, (50,), -3.7, 5.9),
    "randint-bools": lambda r, k: r.randint(k, (50,), False, True),
    "randint-span": lambda r, k: r.randint(k, (500,), -(2**31), 2**31 - 1),
    "randint-unsigned": lambda r, k: r.randint(k, (50,), np.uint32(7), np.uint32(2**32 - 1)),
    **{
        f"randint-{d}": lambda r, k, d=d: r.randint(k, (200,), 0, 100, d)
        for d in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    **{
        f"randint-past-{d}-{a}-{b}": lambda r, k, d=d, a=a, b=b: r.randint(k, (200,), a, b, d)
        for d, a, b in (
            ("int8", -128, 128), ("int8", -300, 300), ("int8", -128, 127), ("uint8", 0, 256),
            ("uint8", 0, 255), ("uint8", 200, 300), ("uint8", -5, 3), ("uint8", 300, 400),
            ("uint8", -9, -7), ("int16", -40000, 9), ("uint16", 0, 65536), ("int4", -100, 100),
            ("uint4", 0, 16), ("uint32", -7, 10),
        )
    },
    "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (500,)),
    "bernoulli-array": lambda r, k: r.bernoulli(k, WEIGHTS, (50, 4)),
    "bernoulli-float16": lambda r, k: r.bernoulli(k, np.float16(0.3), (500,)),
    "bernoulli-high": lambda r, k: r.bernoulli(k, 0.3, (500,), mode="high"),
    "bernoulli-high-bfloat16": lambda r, k: r.bernoulli(
        k, WEIGHTS.astype("bfloat16"), (200, 4), mode="high"
    ),
    "bernoulli-edges": lambda r, k: r.bernoulli(k, np.float32([-1, 0, 1, 2, np.nan]), (20, 5)),
    "rademacher": lambda r, k: r.rademacher(k, (50,)),
    "rademacher-int8": lambda r, k: r.rademacher(k, (50,), "int8"),
    "rademacher-float": lambda r, k: r.rademacher(k, (50,), "float32"),
    "permutation": lambda r, k: r.permutation(k, 100),
    "permutation-none": lambda r, k: r.permutation(k, 0),
    "permutation-large": lambda r, k: r.permutation(k, 3000),
    "permutation-rows": lambda r, k: r.permutation(k, ROWS),
    "permutation-columns": lambda r, k: r.permutation(k, ROWS, axis=1),
    "permutation-independent": lambda r, k: r.permutation(k, ROWS, -1, independent=True),
    "permutation-no-rows": lambda r, k: r.permutation(k, np.zeros((0, 3), np.float32)),
    "permutation-bool": lambda r, k: r.permutation(k, np.array([True, False, True, True])),
    "choice": lambda r, k: r.choice(k, 50, (20,)),
    "choice-once": lambda r, k: r.choice(k, 50, (4, 5), replace=False),
    "choice-rows": lambda r, k: r.choice(k, ROWS, (3,)),
    "choice-columns": lambda r, k: r.choice(k, ROWS, (3, 2), axis=1),
    "choice-rows-once": lambda r, k: r.choice(k, ROWS, (3,), replace=False),
    "choice-weighted": lambda r, k: r.choice(k, 4, (50,), p=WEIGHTS),
    "choice-weighted-once": lambda r, k: r.choice(k, 4, (3,), replace=False, p=WEIGHTS),
    "choice-weighted-ints": lambda r, k: r.choice(k, 4, (50,), p=np.array([1, 2, 3, 4])),
    "categorical": lambda r, k: r.categorical(k, LOGITS),
    "categorical-axis": lambda r, k: r.categorical(k, LOGITS, axis=0, shape=(50, 4)),
    "categorical-many": lambda r, k: r.categorical(k, LOGITS[0], shape=(500,)),
    "categorical-once": lambda r, k: r.categorical(k, LOGITS, shape=(3, 3), replace=False),
    "categorical-high": lambda r, k: r.categorical(k, LOGITS[0], shape=(500,), mode="high"),
    "categorical-impossible": lambda r, k: r.categorical(
        k, np.float32([-np.inf, 0, -np.inf, 1]), shape=(50,)
    ),
    "geometric": lambda r, k: r.geometric(k, 0.3, (500,)),
    "geometric-edges": lambda r, k: r.geometric(k, np.float32([0, 1e-30, 1, 2, np.nan])),
    "poisson": lambda r, k: r.poisson(
        k, np.float32([0.1, 3, 30, 1000, -1, np.nan, 0]), (50, 7)),
    "binomial": lambda r, k: r.binomial(
        k, np.float32([10, 1000, 5, 0, -1, np.inf, np.nan, 7, 7, 7, 20, 20.5]),
        np.float32([0.3, 0.8, 0.5, 0.2, 0.3, 0.5, 0.5, 0, 1, 1.5, 0.5, 0.5]), (50, 12)),
    "multinomial": lambda r, k: r.multinomial(k, 50, np.float32([0.4, 0, 0.6, 1]), shape=(9, 4)),
    "geometric-int8": lambda r, k: r.geometric(k, np.float32(0.1), (100,), "int8"),
}  # fmt: skip

#: name -> (how many ulp, below which size these do not shrink, draw).
NEAR: dict[str, tuple[float, float, Draw]] = {
    **{
        f"normal-{d}": (4, 0, lambda r, k, d=d: r.normal(k, (2000,), d))
        for d in ("float16", "bfloat16", "complex64")
    },
    "normal": (4, 0, lambda r, k: r.normal(k, (2000,), "float32")),
    # the oracle's log1p of float64 is wrong by up to 128 ulp for arguments in (-0.42, -0.29)
    "normal-float64": (32, 0, lambda r, k: r.normal(k, (2000,), "float64")),
    "exponential-float64": (128, 0, lambda r, k: r.exponential(k, (2000,), "float64")),
    "gumbel-high-float64": (128, 1, lambda r, k: r.gumbel(k, (2000,), "float64", mode="high")),
    "truncated_normal": (4, 2**-4, lambda r, k: r.truncated_normal(
        k, -1.0, 2.0, (2000,), "float32")),
    "truncated_normal-arrays": (8, 2**-4, lambda r, k: r.truncated_normal(
        k, np.float32([-1.0, 0.5]), 2.0, (200, 2), "float32")),
    "lognormal": (8, 0, lambda r, k: r.lognormal(k, 0.5, (2000,), "float32")),
    "exponential": (4, 0, lambda r, k: r.exponential(k, (2000,), "float32")),
    "exponential-float16": (4, 0, lambda r, k: r.exponential(k, (2000,), "float16")),
    "laplace": (4, 0, lambda r, k: r.laplace(k, (2000,), "float32")),
    "laplace-float16": (4, 0, lambda r, k: r.laplace(k, (2000,), "float16")),
    "logistic": (4, 1, lambda r, k: r.logistic(k, (2000,), "float32")),
    "logistic-float16": (4, 1, lambda r, k: r.logistic(k, (2000,), "float16")),
    "gumbel": (4, 1, lambda r, k: r.gumbel(k, (2000,))),
    "gumbel-high": (8, 1, lambda r, k: r.gumbel(k, (2000,), "float32", mode="high")),
    "gumbel-float16": (4, 1, lambda r, k: r.gumbel(k, (2000,), "float16")),
    "gumbel-bfloat16-high": (4, 1, lambda r, k: r.gumbel(k, (2000,), "bfloat16", mode="high")),
    "cauchy": (4, 0, lambda r, k: r.cauchy(k, (2000,), "float32")),
    "cauchy-float16": (4, 0, lambda r, k: r.cauchy(k, (2000,), "float16")),
    "pareto": (8, 0, lambda r, k: r.pareto(
        k, np.float32([2.0, 3.0]), (500, 2), "float32")),
    "rayleigh": (4, 0, lambda r, k: r.rayleigh(k, np.float32([2.0, 0.5]), (500, 2))),
    "rayleigh-float16": (4, 0, lambda r, k: r.rayleigh(k, 2.0, (500,), "float16")),
    "weibull_min": (16, 0, lambda r, k: r.weibull_min(k, 2.0, 1.7, (500,), "float32")),
    "weibull_min-arrays": (
        8, 0, lambda r, k: r.weibull_min(
            k, np.float32([1.0, 2.0]), 3, (50, 2), "float32")),
    "maxwell": (4, 0, lambda r, k: r.maxwell(k, (500,), "float32")),
    "double_sided_maxwell": (
        4, 1, lambda r, k: r.double_sided_maxwell(k, 1.0, 2.0, (500,), "float32")),
    "double_sided_maxwell-arrays": (4, 1, lambda r, k: r.double_sided_maxwell(
        k, np.float32([1.0, 2.0]), 2.0, dtype="float32")),
    "triangular": (4, 1, lambda r, k: r.triangular(k, -1.3, 0.4, 2.1, (500,), "float32")),
    "triangular-edges": (4, 1, lambda r, k: r.triangular(
        k, np.float32([0, 0, 1]), np.float32([0, 1, 1]), np.float32(1), (50, 3), "float32")),
    "gamma": (16, 0, lambda r, k: r.gamma(k, np.float32([2.3, 0.4, 50]), (200, 3), "float32")),
    "gamma-float16": (8, 0, lambda r, k: r.gamma(k, 2.0, (200,), "float16")),
    "gamma-float64": (64, 0, lambda r, k: r.gamma(k, np.array([2.3, 0.4]), (100, 2), "float64")),
    "gamma-none": (0, 0, lambda r, k: r.gamma(k, 2.0, (0, 2), "float32")),
    "loggamma": (
        16, 1, lambda r, k: r.loggamma(k, np.float32([2.3, 0.4, 0.001]), (200, 3), "float32")),
    "chisquare": (16, 0, lambda r, k: r.chisquare(k, 3.3, (200,), "float32")),
    "f": (32, 0, lambda r, k: r.f(k, np.float32([[3, 7]]), 5.0, (200, 2), "float32")),
    "t": (16, 0, lambda r, k: r.t(k, 3.3, (200,), "float32")),
    # a ratio of exponentials of logarithms, each to some ulp of itself
    "beta": (32, 0, lambda r, k: r.beta(k, np.float32([1.7, 0.5]), 0.6, (200, 2), "float32")),
    "dirichlet": (
        16, 0, lambda r, k: r.dirichlet(k, np.ones((2, 3), np.float32), (4, 2), "float32")),
    "generalized_normal": (16, 0, lambda r, k: r.generalized_normal(k, 1.5, (200,), "float32")),
    "ball": (16, 0, lambda r, k: r.ball(k, 3, 2.5, (200,), "float32")),
    # differences of nearly equal numbers
    "wald": (1024, 0, lambda r, k: r.wald(k, np.float32([1.7, 0.5]), (500, 2), "float32")),
}  # fmt: skip


#: Compiled in `test_statistics`, and long at it: made of gamma or binomial numbers.
COMPOSED = {
    "chisquare", "f", "t", "beta", "dirichlet", "generalized_normal", "ball", "multinomial",
}  # fmt: skip

#: Compiled and batched too; of the others, one case of a kind is enough.
COMPILED = {
    *(name for name in (*EXACT, *NEAR) if "-" not in name and name not in COMPOSED),
    "uniform-bounds-float32", "uniform-bounds-bfloat16", "randint-arrays",
    "randint-past-int8--128-128", "choice-once", "permutation-rows", "categorical-once",
    "bernoulli-high", "choice-weighted",
}  # fmt: skip


def ways(name: str, draw: Draw, key: Any, x64: bool) -> tuple[Any, ...]:
    """At once; and of the key and of another, compiled and batched (the first of that)."""
    if x64 or name not in COMPILED:
        return (draw(ours, key),)
    both = cv.numpy.stack([key, ours.key(99)])
    return draw(ours, key), cv.jit(cv.vmap(lambda k: draw(ours, k)))(both)[0]


def cases(table: dict[str, Any]) -> Any:
    """(name, x64): what names 64 bits under `enable_x64`, what depends on that both ways."""
    found = []
    for name in table:
        if "64" not in name:
            found.append((name, False))
        if "64" in name or name in DEFAULTS:
            found.append((name, True))
    return pytest.mark.parametrize(("name", "x64"), found)


#: Whose dtypes, or draws, are other ones under `enable_x64`.
DEFAULTS = {
    "split", "fold_in", "uniform(37,)", "uniform-ints", "randint", "randint-arrays",
    "randint-floats", "randint-span", "randint-unsigned", "randint-past-uint8-0-256", "bernoulli",
    "rademacher", "permutation", "permutation-rows", "choice", "choice-once", "choice-weighted",
    "choice-weighted-once", "choice-weighted-ints", "categorical", "categorical-once", "geometric",
    "poisson",
}  # fmt: skip


@cases(EXACT)
def test_equal(name: str, x64: bool) -> None:
    draw = EXACT[name]
    with wide(x64):
        their_key, key = keys(1234)
        asked = ask_exactly if name.startswith("uniform") else ask
        wanted = asked(lambda k: draw(theirs, k), their_key)
        for found in ways(name, draw, key, x64):
            assert_equal(found, wanted)


LEGACY = [
    "split", "split-shape", "split-none", "fold_in", "key_data", "clone", "bits32", "uniform(37,)",
    "randint", "bernoulli", "permutation", "choice", "categorical",
]  # fmt: skip


@pytest.mark.parametrize("name", LEGACY)
def test_legacy_keys(name: str) -> None:
    """Keys of two uint32 are taken, and where keys are the result such ones are given."""
    their_key, key = keys(0, legacy=True)
    wanted = ask_exactly(lambda k: EXACT[name](theirs, k), their_key)
    assert_equal(EXACT[name](ours, key), wanted)
    assert_equal(cv.jit(lambda k: EXACT[name](ours, k))(key), wanted)


@cases(NEAR)
def test_near(name: str, x64: bool) -> None:
    ulps, floor, draw = NEAR[name]
    with wide(x64):
        their_key, key = keys(7)
        wanted = ask(lambda k: draw(theirs, k), their_key)
        for found in ways(name, draw, key, x64):
            assert_near(found, wanted, ulps, floor)


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
def test_seeds(x64: bool) -> None:
    with wide(x64):
        for seed in (0, 5, -1, 2**31, 2**40 + 3, -(2**63), np.int8(-1), np.uint32(2**32 - 1),
                     np.int64(2**40 + 3), True):  # fmt: skip
            assert_equal(ours.key(seed), theirs.key(seed))
            assert_equal(ours.PRNGKey(seed), theirs.PRNGKey(seed))
        seeds = np.array([0, 7, -3])
        assert_equal(cv.vmap(ours.key)(seeds), jax.vmap(theirs.key)(seeds))
        assert_equal(cv.jit(ours.PRNGKey)(7), theirs.PRNGKey(7))


def test_batched_keys() -> None:
    """vmap over keys, and over the numbers folded into one."""
    their_keys, our_keys = theirs.split(theirs.key(1), (2, 3)), ours.split(ours.key(1), (2, 3))
    draw = {r: (lambda k, r=r: r.uniform(k, (4,))) for r in (ours, theirs)}
    assert_equal(
        cv.vmap(cv.vmap(draw[ours]), in_axes=1, out_axes=2)(our_keys),
        ask_exactly(jax.vmap(jax.vmap(draw[theirs]), in_axes=1, out_axes=2), their_keys),
    )
    numbers = np.arange(5)
    assert_equal(
        cv.jit(cv.vmap(lambda n: ours.fold_in(our_keys[0, 0], n)))(numbers),
        ask(jax.vmap(lambda n: theirs.fold_in(their_keys[0, 0], n)), numbers),
    )


def test_traced_bounds() -> None:
    key = ours.key(3)
    found = cv.jit(lambda a, b: ours.randint(key, (50,), a, b))(-3, 40)
    assert_equal(found, ask(lambda k: theirs.randint(k, (50,), -3, 40), theirs.key(3)))
    found = cv.jit(lambda a, b: ours.uniform(key, (50,), minval=a, maxval=b))(-3.3, 0.7)
    wanted = ask_exactly(lambda k: theirs.uniform(k, (50,), minval=-3.3, maxval=0.7), theirs.key(3))
    assert_equal(found, wanted)


def test_derivatives_of_parameters() -> None:
    for draw, x in (
        (lambda r, k, a: r.uniform(k, (), minval=a), 0.5),
        (lambda r, k, a: r.truncated_normal(k, a, 2.0), -0.5),
        (lambda r, k, a: r.pareto(k, a), 2.0),
        (lambda r, k, a: r.weibull_min(k, 1.0, a), 2.0),
        (lambda r, k, a: r.triangular(k, 0.0, a, 1.0), 0.5),
        (lambda r, k, a: r.gamma(k, a), 2.3),
        (lambda r, k, a: r.loggamma(k, a), 0.2),
    ):
        found = cv.grad(lambda a, d=draw: d(ours, ours.key(5), a))(x)
        wanted = ask(jax.grad(lambda a, d=draw: d(theirs, theirs.key(5), a)), x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("name", [n for n in ours.__all__ if n != "random_gamma_p"])
def test_signature(name: str) -> None:
    """Names, kinds, order and defaults of parameters are the oracle's."""
    found, wanted = (inspect.signature(getattr(r, name)) for r in (ours, theirs))
    assert [(p.name, p.kind, p.default) for p in found.parameters.values()] == [
        (p.name, p.kind, p.default) for p in wanted.parameters.values()
    ]
