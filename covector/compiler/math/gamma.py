"""lgamma and digamma as basic operations; float32 is done in float64.

Recurrences lead to a polynomial near the zeros, from 8 on there are Stirling's series, negative
arguments are reflected.  Between a negative argument's poles, where the function crosses 0, the
error is small beside 1, not beside the result.
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F64,
    absolute,
    div,
    eq,
    ge,
    gt,
    horner,
    lt,
    round_even,
)
from covector.compiler.math.logarithm import log, log2_of_single
from covector.ir.scalar import Expr, cast, fma, select

_STIRLING_FROM = 8.0


def _log(x: Expr, dtype: str) -> Expr:
    return log2_of_single(x) * math.log(2) if dtype == "float32" else log(x)


def _sin_pi(r: Expr) -> Expr:
    """sin(pi r), |r| <= 1/2."""
    high, low, _ = coefficients.PI["float64"]
    t = fma(r, low, r * high)
    z = t * t
    return fma(t * z, horner(z, coefficients.SIN["float64"]), t)


def lgamma(x: Expr) -> Expr:
    """log |gamma x|: to some ulps for x > 0; infinite at 0 and negative integers."""
    f, dtype = F64, x.dtype
    x = cast(x, "float64")
    a = absolute(x)
    negative, small, big = lt(x, 0.0), lt(a, 0.75), ge(a, _STIRLING_FROM)
    one = f.const(1.0)
    # y in [0.75, 2.65]: lgamma a = lgamma y + log p, or lgamma(a + 1) - log a
    y, p = select(small, a + 1.0, a), one
    for _ in range(6):
        down = gt(y, 2.65)
        y = select(down, y - 1.0, y)
        p = select(down, p * y, p)
    core = (y - 1.0) * (y - 2.0) * horner(y - 27 / 16, coefficients.LGAMMA[dtype])
    # for x < 0 lgamma(a + 1) is wanted
    p = select(negative, p * a, p)
    logarithm = _log(select(small | big, a, p), dtype)
    inverse = div(1.0, a)
    series = horner(inverse * inverse, coefficients.LGAMMA_SERIES[dtype])
    constant = 0.5 * math.log(2 * math.pi) - 0.5
    stirling = fma(a - 0.5, logarithm - 1.0, fma(inverse, series, constant))
    positive = select(big, stirling, core + select(small, -logarithm, logarithm))
    next_one = select(big, stirling + logarithm, core + select(small, f.const(0.0), logarithm))
    # gamma(-a) gamma(a + 1) = -pi / sin(pi a)
    sine = absolute(_sin_pi(a - round_even(a)))
    reflected = -_log(sine * (1 / math.pi), dtype) - next_one
    reflected = select(eq(sine, 0.0), math.inf, reflected)
    result = select(negative, reflected, positive)
    return cast(select(eq(a, math.inf), a, result), dtype)


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma: to some ulps for x > 0; NaN at 0 and negative integers."""
    f, dtype = F64, x.dtype
    x = cast(x, "float64")
    a = absolute(x)
    negative = lt(x, 0.0)
    whole = select(negative, a + 1.0, a)
    small, big = lt(whole, 1.0), ge(whole, _STIRLING_FROM)
    one, zero = f.const(1.0), f.const(0.0)
    # digamma(y + 1) = digamma y + 1 / y; the sum of the reciprocals as one fraction
    y = select(small, whole + 1.0, whole)
    over, under = select(small, -one, zero), select(small, whole, one)
    for _ in range(6):
        down = gt(y, 2.0)
        y = select(down, y - 1.0, y)
        over = select(down, fma(over, y, under), over)
        under = select(down, under * y, under)
    root, root_low = coefficients.DIGAMMA_ROOT
    core = ((y - root) - root_low) * horner(y - 1.5, coefficients.DIGAMMA[dtype])
    quotient = div(select(big, one, over), select(big, whole, under))
    square = quotient * quotient
    series = fma(square, horner(square, coefficients.DIGAMMA_SERIES[dtype]), quotient * 0.5)
    positive = select(big, _log(whole, dtype) - series, core + quotient)
    # digamma(-a) = digamma(a + 1) + pi cot(pi a)
    r = a - round_even(a)
    cotangent = div(_sin_pi(f.const(0.5) - absolute(r)), _sin_pi(r))
    y = select(negative, fma(cotangent, math.pi, positive), positive)
    pole = eq(r, 0.0) & (negative | eq(a, 0.0))
    return cast(select(pole, math.nan, y), dtype)
