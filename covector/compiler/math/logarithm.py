"""log and its kin as basic operations: log1p, asinh, acosh, atanh.

x = 2**k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); then log x = k log 2 + log(1 + f), where
log(1 + f) is a polynomial in f (float32) or one in s = f / (2 + f) (float64).
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    Format,
    div,
    eq,
    format_of,
    gt,
    horner,
    lt,
    shift_left,
    shift_right,
    sign_of,
    two_sum,
    with_sign,
)
from covector.ir.scalar import Expr, fma, select

_ROOT_HALF_BITS = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}


def split(x: Expr, f: Format, scaled: Expr | None = None) -> tuple[Expr, Expr, Expr]:
    """(k, biased bits of k, m) with x = 2**k m, sqrt(1/2) <= m < sqrt(2), for a normal x > 0.

    Where the condition `scaled` holds, x was multiplied by 2**(fraction + 1) and k makes up.
    """
    root = _ROOT_HALF_BITS[f.dtype]
    i = f.bits(x) + ((f.bias << f.fraction) - root)
    biased = shift_right(i, f.fraction)
    m = f.from_bits((i & ((1 << f.fraction) - 1)) + root)
    # 2**fraction + k: an integer small enough can be put straight into the low bits of a float
    base = (f.bias + f.fraction) << f.fraction
    offset = 2.0**f.fraction + f.bias
    shift = f.const(offset)
    if scaled is not None:
        shift = select(scaled, f.const(offset + f.fraction + 1), shift)
    return f.from_bits(biased | base) - shift, biased, m


def log_of(k: Expr, u: Expr) -> Expr:
    """k log 2 + log(1 + u), for sqrt(1/2) - 1 <= u <= sqrt(2) - 1."""
    f = format_of(u)
    high, low = coefficients.LN2[f.dtype]
    if f is F32:
        z = u * u
        w = fma(u, horner(u, coefficients.LOG[f.dtype]), -0.5)
        return fma(k, high, fma(k, low, fma(z, w, u)))
    s = div(u, u + 2.0)
    z = s * s
    half_square = u * u * 0.5
    # log(1 + u) = u - (u**2 / 2 - s (u**2 / 2 + z R(z))): the correction of u is small
    t = s * fma(z, horner(z, coefficients.LOG[f.dtype]), half_square)
    return fma(k, high, u - (half_square - fma(k, low, t)))


def _with_limits(x: Expr, y: Expr, origin: Expr | float, pole: float) -> Expr:
    """y where origin < x < inf; x where it is inf or NaN; `pole` at `origin`, NaN below."""
    below = select(eq(x, origin), format_of(x).const(pole), math.nan)
    return select(gt(x, origin), select(lt(x, math.inf), y, x), below)


def log(x: Expr) -> Expr:
    f = format_of(x)
    denormal = lt(x, f.tiny)
    k, _, m = split(select(denormal, x * 2.0 ** (f.fraction + 1), x), f, denormal)
    return _with_limits(x, log_of(k, m - 1.0), 0.0, -math.inf)


def _log1p_core(x: Expr, low: Expr | None = None) -> Expr:
    """log(1 + x + low) for a finite x > -1 and a `low` of at most some ulps of x."""
    f = format_of(x)
    u, error = two_sum(x, 1.0)
    if low is not None:
        error = error + low
    k, biased, m = split(u, f)
    # the error of 1 + x counts as long as 2**-k is a normal number, and longer than that
    scale = f.from_bits(-shift_left(biased, f.fraction) + ((2 * f.bias) << f.fraction))
    error = select(lt(x, 2.0 ** (f.bias // 2)), error * scale, 0.0)
    return log_of(k, (m - 1.0) + error)


def log1p(x: Expr) -> Expr:
    y = _with_limits(x, _log1p_core(x), -1.0, -math.inf)
    return with_sign(y, sign_of(x))  # for -0; elsewhere y has the sign of x
