"""log and its kin as basic operations: log1p, asinh, acosh, atanh.

x = 2**k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); then log x = k log 2 + log(1 + f), where
log(1 + f) is a polynomial in f (float32) or one in s = f / (2 + f) (float64).
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    F64,
    Format,
    absolute,
    div,
    eq,
    fast_two_sum,
    format_of,
    gt,
    horner,
    lt,
    number_in,
    shift_left,
    shift_right,
    shift_right_arithmetic,
    sign_of,
    square_root,
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
    offset = 2.0**f.fraction + f.bias
    shift = f.const(offset)
    if scaled is not None:
        shift = select(scaled, f.const(offset + f.fraction + 1), shift)
    return number_in(biased, f) - shift, biased, m


def log_of(k: Expr, u: Expr, error: Expr | None = None) -> Expr:
    """k log 2 + log(1 + u + error), for sqrt(1/2) - 1 <= u <= sqrt(2) - 1."""
    f = format_of(u)
    high, low = coefficients.LN2[f.dtype]
    if f is F32:
        z = u * u
        w = fma(u, horner(u, coefficients.LOG[f.dtype]), -0.5)
        if error is None:
            return fma(k, high, fma(k, low, fma(z, w, u)))
        return fma(k, high, u + fma(k, low, fma(z, w, error)))
    s = div(u, u + 2.0)
    z = s * s
    half_square = u * u * 0.5
    # log(1 + u) = u - (u**2 / 2 - s (u**2 / 2 + z R(z))): the correction of u is small
    t = s * fma(z, horner(z, coefficients.LOG[f.dtype]), half_square)
    rest = fma(k, low, t) if error is None else fma(k, low, t) + error
    return fma(k, high, u - (half_square - rest))


def log2_of_single(x: Expr) -> Expr:
    """log2 of a float64 in the range of float32 (denormals too), to 37 bits; -inf, inf, NaN."""
    k, _, m = split(x, F64)
    s = div(m - 1.0, m + 1.0)
    y = fma(s, horner(s * s, coefficients.LOG2_OF_RATIO["float64"]), k)
    return log_limits(x, y)


def log_limits(x: Expr, y: Expr) -> Expr:
    """y, a logarithm of a finite x > 0, with that of 0, infinity, NaN."""
    return select(eq(x, 0.0), -math.inf, select(lt(x, math.inf), y, x))


def _with_limits(x: Expr, y: Expr, origin: Expr | float, pole: float) -> Expr:
    """y where origin < x < inf; x where it is inf or NaN; `pole` at `origin`, NaN below."""
    below = select(eq(x, origin), format_of(x).const(pole), math.nan)
    return select(gt(x, origin), select(lt(x, math.inf), y, x), below)


def log(x: Expr) -> Expr:
    f = format_of(x)
    denormal = lt(x, f.tiny)
    k, _, m = split(select(denormal, x * 2.0 ** (f.fraction + 1), x), f, denormal)
    return _with_limits(x, log_of(k, m - 1.0), 0.0, -math.inf)


def log_of_sum(u: Expr, error: Expr, doubled: Expr | None = None) -> Expr:
    """log(u + error) for a normal u > 0 and an error of at most some ulps of it.

    Where the condition `doubled` holds, log(2 u), of a huge u.
    """
    f = format_of(u)
    k, biased, m = split(u, f)
    # the error counts as long as 2**-k is a normal number, and longer than that
    scale = f.from_bits(-shift_left(biased, f.fraction) + ((2 * f.bias) << f.fraction))
    error = select(lt(u, 2.0 ** (f.bias // 2)), error * scale, 0.0)
    if doubled is not None:
        k = k + select(doubled, f.const(1.0), 0.0)
    return log_of(k, *fast_two_sum(m - 1.0, error))


def log1p(x: Expr) -> Expr:
    y = _with_limits(x, log_of_sum(*two_sum(x, 1.0)), -1.0, -math.inf)
    return with_sign(y, sign_of(x))  # for -0; elsewhere y has the sign of x


def asinh(x: Expr) -> Expr:
    """log(1 + (a + a**2 / (1 + sqrt(1 + a**2)))), a = |x|; log(2 a) for huge ones."""
    f = format_of(x)
    a = absolute(x)
    huge = gt(a, 2.0 ** (f.fraction + 5))
    square = a * a
    v, v_error = fast_two_sum(a, div(square, square_root(square + 1.0) + 1.0))
    u, error = two_sum(v, 1.0)
    y = log_of_sum(select(huge, a, u), error + v_error, huge)
    return with_sign(select(lt(a, math.inf), y, a), sign_of(x))


def acosh(x: Expr) -> Expr:
    """log(x + sqrt(x**2 - 1)); log(2 x) for huge ones."""
    f = format_of(x)
    huge = gt(x, 2.0 ** (f.fraction + 5))
    u, error = fast_two_sum(x, square_root(fma(x, x, -1.0)))
    y = log_of_sum(select(huge, x, u), error, huge)
    return select(lt(x, 1.0), math.nan, select(lt(x, math.inf), y, x))


def atanh(x: Expr) -> Expr:
    """With (1 + a) / (1 - a) = 2**k m, 1 <= m <= 2 or so: k log(2) / 2 + atanh((m - 1) / (m + 1)).

    With q = 2**-k that quotient is ((1 + a) q - (1 - a)) / ((1 + a) q + (1 - a)).
    """
    f = format_of(x)
    a = absolute(x)
    rest, whole = f.const(1.0) - a, a + 1.0
    # the bits of a float, as a number, are its logarithm to a tenth of an octave
    k_bits = shift_right_arithmetic(f.bits(whole) - f.bits(rest), f.fraction)
    q = f.from_bits(-shift_left(k_bits, f.fraction) + (f.bias << f.fraction))
    small = lt(a, 0.5)  # where 1 - a is not exact; k is 0 (then s is a) or 1
    over = select(small, fma(a, q + 1.0, q - 1.0), fma(whole, q, -rest))
    s = div(over, select(small, fma(a, q - 1.0, q + 1.0), fma(whole, q, rest)))
    z = s * s
    tail = s * z * horner(z, coefficients.ATANH[f.dtype])
    base = (1 << f.fraction - 1) + ((f.bias + f.fraction) << f.fraction)
    k = f.from_bits(k_bits + base) - 1.5 * 2.0**f.fraction
    high, low = (part / 2 for part in coefficients.LN2[f.dtype])
    y = fma(k, high, s) + fma(k, low, tail)
    limit = select(eq(a, 1.0), f.const(math.inf), math.nan)
    return with_sign(select(lt(a, 1.0), y, limit), sign_of(x))
