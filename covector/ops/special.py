"""Elementwise special functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.ops.arithmetic import abs_, add, mul, neg, reciprocal, sign, sub, where
from covector.ops.elementary import exp
from covector.ops.erf_inverse import erf_inv_numpy
from covector.ops.families import like, scale, scipy_special, unary, wide

TWO_OVER_SQRT_PI = 1.1283791670955126
HALF_SQRT_PI = 0.886226925452758
_gammaln, _digamma = scipy_special("gammaln"), scipy_special("digamma")


def _gauss(x: Any) -> Any:
    """exp(-x^2)."""
    return exp(neg(mul(x, x)))


erf = unary(
    "erf",
    "f",
    wide(scipy_special("erf")),
    lambda t, y, x: scale(t, mul(like(x, TWO_OVER_SQRT_PI), _gauss(x))),
    hlo="chlo.erf",
)
erfc = unary(
    "erfc",
    "f",
    wide(scipy_special("erfc")),
    lambda t, y, x: scale(t, mul(like(x, -TWO_OVER_SQRT_PI), _gauss(x))),
    hlo="chlo.erfc",
)
erf_inv = unary(
    "erf_inv",
    "f",
    erf_inv_numpy,
    lambda t, y, x: scale(t, mul(like(x, HALF_SQRT_PI), exp(mul(y, y)))),
    hlo="chlo.erf_inv",
    domain=(-0.9, 0.9),
)


def _lgamma_numpy(x: Any) -> Any:
    return np.where(np.isinf(x), np.inf, _gammaln(x))


def _digamma_numpy(x: Any) -> Any:
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole, np.nan, _digamma(np.where(pole, 1.0, x)))


lgamma = unary(
    "lgamma",
    "f",
    wide(_lgamma_numpy),
    lambda t, y, x: scale(t, digamma(x)),
    hlo="chlo.lgamma",
    domain=(0.2, 4.0),
)
digamma = unary(
    "digamma",
    "f",
    wide(_digamma_numpy),
    lambda t, y, x: scale(t, ops.zeta.polygamma(like(x, 1), x)),
    hlo="chlo.digamma",
    domain=(0.2, 4.0),
    scale=4.0,
)


def _i1e_derivative(t: Any, y: Any, x: Any) -> Any:
    """i0e - i1e (sign(x) + 1/x), whose limit at 0 is 1/2."""
    least = float(dtypes.finfo(typeof(x).dtype).eps)
    small = ops.compare.lt(abs_(x), like(x, least))
    safe = where(small, like(x, 1), x)
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), reciprocal(safe))))
    return scale(t, where(small, like(x, 0.5), slope))


bessel_i0e = unary(
    "bessel_i0e",
    "f",
    wide(scipy_special("i0e")),
    lambda t, y, x: scale(t, sub(bessel_i1e(x), mul(sign(x), y))),
    scale=4.0,
)
bessel_i1e = unary(
    "bessel_i1e",
    "f",
    wide(scipy_special("i1e")),
    _i1e_derivative,
    scale=4.0,
)
