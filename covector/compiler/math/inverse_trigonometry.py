"""asin, acos, atan, atan2 as basic operations: an odd polynomial near 0, and half-angle formulas.

Results near a multiple of pi / 4 are sums whose first addition is (almost) exact; what the
polynomial adds, and the second part of pi, come last.
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    absolute,
    div,
    eq,
    flip,
    format_of,
    gt,
    horner,
    lt,
    sign_of,
    square_root,
    with_sign,
)
from covector.ir.scalar import Expr, const, fma, select


def _arcsine(a: Expr) -> tuple[Expr, Expr, Expr]:
    """(big, s, tail): s + tail is asin a if not big (a > 1/2), else asin sqrt((1 - a) / 2)."""
    f = format_of(a)
    big = gt(a, 0.5)
    z = select(big, fma(a, -0.5, 0.5), a * a)
    s = select(big, square_root(z), a)
    return big, s, s * z * horner(z, coefficients.ASIN[f.dtype])


def asin(x: Expr) -> Expr:
    """asin a = pi / 2 - 2 asin sqrt((1 - a) / 2)."""
    f = format_of(x)
    big, s, tail = _arcsine(absolute(x))
    high, low, _ = (part / 2 for part in coefficients.PI[f.dtype])
    first = select(big, fma(s, -2.0, high), s)
    return with_sign(first + select(big, fma(tail, -2.0, low), tail), sign_of(x))


def acos(x: Expr) -> Expr:
    """pi / 2 - asin x; 2 asin sqrt((1 - x) / 2) for x > 1/2; pi less that of -x for x < -1/2."""
    f = format_of(x)
    big, s, tail = _arcsine(absolute(x))
    s, tail = flip(s, sign_of(x)), flip(tail, sign_of(x))
    high, low, _ = coefficients.PI[f.dtype]
    zero, negative = f.const(0.0), lt(x, 0.0)
    from_high = select(big, select(negative, f.const(high), zero), high / 2)
    from_low = select(big, select(negative, f.const(low), zero), low / 2)
    factor = select(big, f.const(2.0), -1.0)
    return fma(factor, s, from_high) + fma(factor, tail, from_low)


def _arctangent(t: Expr) -> Expr:
    """atan t - t, for |t| <= 1 (float32) or 1/2 (float64)."""
    z = t * t
    return t * z * horner(z, coefficients.ATAN[t.dtype])


def atan(x: Expr) -> Expr:
    """atan a = pi / 2 + atan(-1 / a), and (float64) pi / 4 + atan((a - 1) / (a + 1))."""
    f = format_of(x)
    a, one = absolute(x), f.const(1.0)
    if f is F32:
        big = gt(a, 1.0)
        over, under, eighths = select(big, -one, a), select(big, a, one), select(big, one, 0.0)
    else:
        big, middle = gt(a, 2.0), gt(a, 0.5)
        over = select(big, -one, select(middle, a - 1.0, a))
        under = select(big, a, select(middle, a + 1.0, one))
        eighths = select(big, one, select(middle, f.const(0.5), 0.0))
    return with_sign(_add_angle(eighths, div(over, under)), sign_of(x))


def _add_angle(quarters: Expr, t: Expr, negate: Expr | None = None) -> Expr:
    """quarters * pi / 2 + atan t (or - atan t where the sign bit `negate` is set)."""
    high, low, _ = (part / 2 for part in coefficients.PI[t.dtype])
    tail = _arctangent(t)
    if negate is not None:
        t, tail = flip(t, negate), flip(tail, negate)
    return fma(quarters, high, t) + fma(quarters, low, tail)


def atan2(y: Expr, x: Expr) -> Expr:
    """The quotient of the smaller by the greater, then the right eighth of the circle."""
    f = format_of(x)
    ax, ay, one, zero = absolute(x), absolute(y), f.const(1.0), f.const(0.0)
    steep = gt(ay, ax)
    over, under = select(steep, ax, ay), select(steep, ay, ax)
    both = eq(over, math.inf) & eq(under, math.inf)  # the diagonal, as 1 / 1
    over, under = select(both, one, over), select(both | eq(under, 0.0), one, under)
    left = lt(f.bits(x), 0)  # -0 counts
    quarters = select(steep, one, select(left, f.const(2.0), zero))
    negate = sign_of(x) ^ select(steep, const(f.sign_bit, f.integer), 0)  # one, but not both
    if f is F32:
        t = div(over, under)
    else:
        scale = select(gt(under, 2.0 ** (f.bias - 1)), f.const(0.25), one)
        over, under = over * scale, under * scale
        middle = gt(over, under * 0.5)
        t = div(select(middle, over - under, over), select(middle, over + under, under))
        eighth = select(middle, f.const(0.5), zero)
        quarters = quarters + flip(eighth, negate)
    return with_sign(_add_angle(quarters, t, negate), sign_of(y))
