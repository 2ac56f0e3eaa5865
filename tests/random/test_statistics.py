"""The numbers are distributed as they should be: fixed seeds, so that no test fails by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import covector as cv
from covector import random as r

N = 20000
KEY = r.key(2024)

CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "uniform": (lambda k: r.uniform(k, (N,), minval=-2, maxval=3), stats.uniform(-2, 5)),
    "normal": (lambda k: r.normal(k, (N,)), stats.norm()),
    "normal-bfloat16": (lambda k: r.normal(k, (2000,), "bfloat16"), stats.norm()),
    "normal-complex": (lambda k: r.normal(k, (N,), "complex64").imag, stats.norm(0, 0.5**0.5)),
    "truncated_normal": (lambda k: r.truncated_normal(k, -1.0, 2.0, (N,)), stats.truncnorm(-1, 2)),
    "lognormal": (lambda k: r.lognormal(k, 0.7, (N,)), stats.lognorm(0.7)),
    "exponential": (lambda k: r.exponential(k, (N,)), stats.expon()),
    "laplace": (lambda k: r.laplace(k, (N,)), stats.laplace()),
    "logistic": (lambda k: r.logistic(k, (N,)), stats.logistic()),
    "gumbel": (lambda k: r.gumbel(k, (N,)), stats.gumbel_r()),
    "gumbel-high": (lambda k: r.gumbel(k, (N,), mode="high"), stats.gumbel_r()),
    "cauchy": (lambda k: r.cauchy(k, (N,)), stats.cauchy()),
    "pareto": (lambda k: r.pareto(k, 2.5, (N,)), stats.pareto(2.5)),
    "rayleigh": (lambda k: r.rayleigh(k, 2.0, (N,)), stats.rayleigh(scale=2)),
    "weibull_min": (lambda k: r.weibull_min(k, 2.0, 1.7, (N,)), stats.weibull_min(1.7, scale=2)),
    "maxwell": (lambda k: r.maxwell(k, (N,)), stats.maxwell()),
    "double_sided_maxwell": (
        lambda k: abs(r.double_sided_maxwell(k, 0.0, 2.0, (N,))), stats.maxwell(scale=2)),
    "triangular": (
        lambda k: r.triangular(k, -1.0, 0.5, 2.0, (N,)), stats.triang(0.5, loc=-1, scale=3)),
    "wald": (lambda k: r.wald(k, 1.5, (N,)), stats.invgauss(1.5)),
    "gamma": (lambda k: r.gamma(k, 2.3, (N,)), stats.gamma(2.3)),
    "gamma-small": (lambda k: r.gamma(k, 0.3, (N,)), stats.gamma(0.3)),
    "loggamma": (lambda k: r.loggamma(k, 0.3, (N,)), stats.loggamma(0.3)),
    "chisquare": (lambda k: r.chisquare(k, 3.0, (N,)), stats.chi2(3)),
    "f": (lambda k: r.f(k, 3.0, 8.0, (N,)), stats.f(3, 8)),
    "t": (lambda k: r.t(k, 3.0, (N,)), stats.t(3)),
    "beta": (lambda k: r.beta(k, 0.7, 2.0, (N,)), stats.beta(0.7, 2)),
    "dirichlet": (lambda k: r.dirichlet(k, np.float32([1, 2, 3]), (N,))[:, 1], stats.beta(2, 4)),
    "generalized_normal": (lambda k: r.generalized_normal(k, 3.0, (N,)), stats.gennorm(3)),
    # of a uniform point in a ball, the radius to the power of the dimension is uniform
    "ball": (
        lambda k: cv.numpy.linalg.norm(r.ball(k, 3, shape=(N,)), axis=-1) ** 3, stats.uniform()),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    """Kolmogorov and Smirnov's test."""
    draw, wanted = CONTINUOUS[name]
    found = np.asarray(cv.jit(draw)(KEY)).astype(np.float64)
    assert stats.kstest(found, wanted.cdf).pvalue > 1e-3


CHOICE_P = np.float32([0.1, 0.2, 0.3, 0.4])
DISCRETE: dict[str, tuple[Any, Any]] = {
    "bits": (lambda k: r.bits(k, (N,), "uint8"), stats.randint(0, 256)),
    "randint": (lambda k: r.randint(k, (N,), -3, 8), stats.randint(-3, 8)),
    "randint-int8": (lambda k: r.randint(k, (N,), -128, 128, "int8"), stats.randint(-128, 128)),
    "bernoulli": (lambda k: r.bernoulli(k, 0.3, (N,)), stats.bernoulli(0.3)),
    "bernoulli-high": (lambda k: r.bernoulli(k, 0.3, (N,), mode="high"), stats.bernoulli(0.3)),
    "rademacher": (lambda k: (r.rademacher(k, (N,)) + 1) // 2, stats.bernoulli(0.5)),
    "geometric": (lambda k: r.geometric(k, 0.3, (N,)), stats.geom(0.3)),
    "poisson": (lambda k: r.poisson(k, 3.0, (N,)), stats.poisson(3)),
    "poisson-large": (lambda k: r.poisson(k, 40.0, (N,)), stats.poisson(40)),
    "binomial": (lambda k: r.binomial(k, 10, 0.3, (N,)), stats.binom(10, 0.3)),
    "binomial-large": (lambda k: r.binomial(k, 100, 0.6, (N,)), stats.binom(100, 0.6)),
    "multinomial": (
        lambda k: r.multinomial(k, 20, CHOICE_P, shape=(N, 4))[:, 2], stats.binom(20, 0.3)),
    "choice": (lambda k: r.choice(k, 7, (N,)), stats.randint(0, 7)),
    "choice-weighted": (
        lambda k: r.choice(k, 4, (N,), p=CHOICE_P),
        stats.rv_discrete(values=(range(4), CHOICE_P / CHOICE_P.sum(dtype="f8")))),
    "categorical": (
        lambda k: r.categorical(k, np.log(CHOICE_P), shape=(N,)),
        stats.rv_discrete(values=(range(4), CHOICE_P / CHOICE_P.sum(dtype="f8")))),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    """The chi-square test, of values that are expected five times at least."""
    draw, wanted = DISCRETE[name]
    found = np.asarray(cv.jit(draw)(KEY)).astype(np.int64)
    low, high = int(found.min()), int(found.max())
    values = np.arange(low, high + 1)
    expected = wanted.pmf(values) * N
    kept = expected >= 5
    counts = np.bincount(found - low, minlength=len(values))[kept].astype(float)
    others = N - expected[kept].sum()
    observed, expected = np.append(counts, N - counts.sum()), np.append(expected[kept], others)
    if others < 1e-6 * N:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    assert stats.chi2(len(observed) - 1).sf(statistic) > 1e-3


def test_permutations_are_equally_likely() -> None:
    found = np.asarray(cv.vmap(lambda k: r.permutation(k, 4))(r.split(KEY, 4800)))
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_is_drawn_twice(weighted: bool) -> None:
    p = cv.numpy.arange(1.0, 21) if weighted else None
    found = np.asarray(r.choice(KEY, 20, (20,), replace=False, p=p))
    assert sorted(found) == list(range(20))


def test_bits_of_neighbours_are_independent() -> None:
    """Of split keys, of folded numbers, of neighbouring counters: no correlation."""
    streams = [
        cv.vmap(lambda k: r.bits(k, (64,)))(r.split(KEY, 64)),
        cv.vmap(lambda n: r.bits(r.fold_in(KEY, n), (64,)))(np.arange(64)),
        r.bits(KEY, (64, 64)),
    ]
    for x in streams:
        bits = np.unpackbits(np.asarray(x).view(np.uint8), axis=-1).astype(float) - 0.5
        for y in (bits, bits.T):
            correlation = np.corrcoef(y)[np.triu_indices(len(y), 1)] * y.shape[1] ** 0.5
            assert abs(correlation).max() < 6.5
            assert abs(correlation.std() - 1) < 0.05
