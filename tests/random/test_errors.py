"""Wrong arguments are refused at once, in words that name function, argument and what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import random as r

KEY = r.key(0)
TWO = np.ones(2, np.float32)

SHAPED = [
    "bits", "uniform", "normal", "gumbel", "exponential", "laplace", "logistic", "cauchy",
    "maxwell", "rademacher",
]  # fmt: skip
FLOATING = {
    **{name: () for name in SHAPED if name not in ("bits", "rademacher", "normal")},
    "truncated_normal": (-1.0, 1.0), "pareto": (2.0,), "rayleigh": (2.0,), "gamma": (2.0,),
    "loggamma": (2.0,), "chisquare": (2.0,), "f": (2.0, 3.0), "t": (2.0,), "beta": (2.0, 3.0),
    "triangular": (0.0, 0.5, 1.0), "wald": (1.0,), "weibull_min": (1.0, 2.0),
    "double_sided_maxwell": (0.0, 1.0), "dirichlet": (TWO,), "generalized_normal": (2.0,),
    "ball": (3,), "binomial": (10, 0.5), "multinomial": (10, TWO / 2),
}  # fmt: skip
WITH_PARAMETERS = {
    "truncated_normal": (-TWO, 2.0), "pareto": (TWO,), "rayleigh": (TWO,), "gamma": (TWO,),
    "loggamma": (TWO,), "chisquare": (TWO,), "f": (TWO, 3.0), "t": (TWO,), "beta": (TWO, 3.0),
    "triangular": (0 * TWO, 0.5, 1.0), "wald": (TWO,), "lognormal": (TWO,), "poisson": (TWO,),
    "binomial": (10, TWO / 2), "bernoulli": (TWO / 2,), "geometric": (TWO / 2,),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("shape", [(-1,), (2.5,), "ab", None], ids=str)
def test_shapes(name: str, shape: Any) -> None:
    with pytest.raises(TypeError, match=f"{name}: (Shapes must be|sizes must not)"):
        getattr(r, name)(KEY, shape)


def test_traced_shape() -> None:
    with pytest.raises(TypeError, match=r"concrete values of integer type.*make the argument stat"):
        cv.jit(lambda n: r.uniform(KEY, (n,)))(3)


@pytest.mark.parametrize("name", FLOATING)
def test_float_dtypes(name: str) -> None:
    wanted = f"dtype argument to `{name}` must be a float dtype, got int32"
    with pytest.raises(ValueError, match=wanted):
        getattr(r, name)(KEY, *FLOATING[name], dtype="int32")


@pytest.mark.parametrize("name", ["poisson", "geometric"])
def test_integer_dtypes(name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` must be an int dtype, got float32"):
        getattr(r, name)(KEY, 0.5, dtype="float32")


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_parameters_that_do_not_fit(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} got parameters of shape \(2,\).*\(2, 3\)"):
        getattr(r, name)(KEY, *WITH_PARAMETERS[name], shape=(2, 3))


@pytest.mark.parametrize("name", WITH_PARAMETERS)
@pytest.mark.parametrize("x", [[0.5, 0.5], "a", None])
def test_parameters_that_are_no_arrays(name: str, x: Any) -> None:
    args = [x if isinstance(a, np.ndarray) else a for a in WITH_PARAMETERS[name]]
    with pytest.raises(TypeError, match=f"{name} requires ndarray or scalar arguments"):
        getattr(r, name)(KEY, *args)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: r.bits(KEY, (2,), "int32"), ValueError, "must be an unsigned int dtype, got int3"),
        (lambda: r.bits(KEY, (2,), "uint4"), TypeError, "8, 16, 32 or 64 bits"),
        (lambda: r.uniform(KEY, (2, 3), minval=TWO), ValueError, r"uniform: .*\(2,\), \(2, 3\)"),
        (lambda: r.uniform(KEY, (), minval=TWO), ValueError, r"uniform: a bound of shape \(2,\)"),
        (lambda: r.uniform(KEY, minval=1j), ValueError, "uniform: parameters must be real"),
        (lambda: r.uniform(KEY, minval="a"), TypeError, "uniform requires ndarray or scalar"),
        (lambda: r.uniform(KEY, (2,), "float4_e2m1fn"), TypeError, "floats of 8, 16, 32 or 64"),
        (lambda: r.normal(KEY, (2,), bool), ValueError, "a float or complex dtype, got bool"),
        (lambda: r.randint(KEY, (2,), 0, 5, "float32"), TypeError, "integer dtypes, got float32"),
        (lambda: r.randint(KEY, (2,), 0, 2**31), OverflowError, "int32"),
        (lambda: r.randint(KEY, (2,), 0, 1j), TypeError, "bounds must be integers; got 1j"),
        (lambda: r.randint(KEY, (2,), [0, 1], 5), TypeError, "randint requires ndarray or scalar"),
        (lambda: r.randint(KEY, (), TWO, 5), ValueError, r"shapes \(2,\) and \(\) do not fit"),
        (lambda: r.bernoulli(KEY, 1), TypeError, "must have a floating dtype, got int32"),
        (lambda: r.bernoulli(KEY, 0.5, mode="x"), ValueError, "'high' or 'low'; got 'x'"),
        (lambda: r.gumbel(KEY, mode="x"), ValueError, "gumbel: mode must be"),
        (lambda: r.permutation(KEY, 3.5), TypeError, "must be an integer or have an axis; got 3.5"),
        (lambda: r.permutation(KEY, [1, 2]), TypeError, "permutation requires ndarray"),
        (lambda: r.permutation(KEY, TWO, axis=1), ValueError, "axis 1 is out of bounds"),
        (lambda: r.choice(KEY, 0), ValueError, "a must be greater than 0"),
        (lambda: r.choice(KEY, 5, 3), TypeError, "shape must be a sequence"),
        (lambda: r.choice(KEY, 5, (6,), False), ValueError, "cannot take 6 samples of 5 entries"),
        (lambda: r.choice(KEY, 5, p=TWO), ValueError, r"shape \(5,\) of a; got \(2,\)"),
        (lambda: r.choice(KEY, 2, p=[0.5, 0.5]), TypeError, "choice requires ndarray"),
        (lambda: r.choice(KEY, TWO, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda: r.categorical(KEY, TWO, shape=(3,), replace=False), ValueError, "draw 3 of 2"),
        (lambda: r.categorical(KEY, cnp.ones((3, 4)), shape=(3, 5)), ValueError, "categorical"),
        (lambda: r.categorical(KEY, cnp.ones((3, 4)), axis=2), ValueError, "axis 2 is out of"),
        (lambda: r.categorical(KEY, cnp.arange(3)), ValueError, "float dtype"),
        (lambda: r.lognormal(KEY, 1j), ValueError, "lognormal: parameters must be real"),
        (lambda: r.dirichlet(KEY, 2.0), ValueError, "alpha must have an axis"),
        (lambda: r.multinomial(KEY, 2, 0.5), ValueError, "p must have an axis"),
        (lambda: cv.jit(lambda n: r.permutation(KEY, n))(4), cv.errors.ConcretizationTypeError,
         "permutation"),
    ],
)  # fmt: skip
def test_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_narrowing_is_told() -> None:
    with pytest.warns(UserWarning, match="float64 asked for by uniform"):
        assert r.uniform(KEY, (2,), "float64").dtype == np.float32
