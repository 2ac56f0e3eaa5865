"""sin, cos, tan as basic operations, right for every finite argument.

Up to about 2**17 (float32) or 2**26 (float64), n = round(x / pi) and r = x - n pi by three
constants (W. J. Cody, W. Waite, 1980), with fused multiply-adds.  Larger arguments are multiplied
by as many bits of 1 / (2 pi) as matter to them, whole turns dropped on the way (M. H. Payne,
R. N. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983); that
part stands under a `select_rare`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    F64,
    absolute,
    clamp,
    div,
    eq,
    fast_two_sum,
    flip,
    format_of,
    gt,
    horner,
    lt,
    two_product,
)
from covector.compiler.math.huge_angle import nearest, reduce_huge
from covector.ir.scalar import Expr, bitcast, cast, expr, fma, select

#: From here on, angles are reduced the long way.
_HUGE = {"float32": 2.0**17, "float64": 2.0**26}


@final
class _Angle:
    """x = (n - ahead) unit + r + error, |r| <= unit / 2; `odd`: a sign bit, set for odd n."""

    __slots__ = ("error", "odd", "r")

    def __init__(self, r: Expr, error: Expr | None, odd: Expr) -> None:
        self.r, self.error, self.odd = r, error, odd


_Way = Callable[[Expr, float, float, bool], _Angle]


def _common(x: Expr, half_turn: float, ahead: float, exact: bool) -> _Angle:
    """For |x| up to `_HUGE`; `half_turn` is the unit over pi."""
    n, odd = nearest(x, 1 / (math.pi * half_turn), ahead)
    first, second, third = (part * half_turn for part in coefficients.PI[x.dtype])
    near = fma(n, -first, x)  # nothing is lost here
    if not exact:
        return _Angle(fma(n, -third, fma(n, -second, near)), None, odd)
    product, product_error = two_product(n, format_of(x).const(second))
    r = near - product
    error = ((near - r) - product) - product_error
    return _Angle(r, fma(n, -third, error), odd)


def _huge(x: Expr, half_turn: float, ahead: float, exact: bool) -> _Angle:
    u, low, odd = reduce_huge(x, round(2 / half_turn), ahead)
    pi_high, pi_low, _ = (part * half_turn for part in coefficients.PI["float64"])
    if low is not None:
        product, error = two_product(u, F64.const(pi_high))
        rest = fma(u, pi_low, fma(low, pi_high, error))
        r, error = fast_two_sum(product, rest)
        return _Angle(r, error, odd)
    r = u * pi_high
    rounded = cast(r, "float32")
    error = cast(r - cast(rounded, "float64"), "float32") if exact else None
    # integers have no narrowing shift in common, but a signed zero does as well
    return _Angle(rounded, error, F32.bits(cast(bitcast(odd, "float64"), "float32")))


def _by_size(x: Expr, value: Callable[[_Way], Expr]) -> Expr:
    """`value` of how x is reduced: one branch, which computes all that a huge angle needs."""
    is_huge = gt(absolute(x), _HUGE[x.dtype])
    return expr("select_rare", x.dtype, is_huge, value(_huge), value(_common))


def _sin_of(x: Expr, ahead: float) -> Expr:
    """sin(x + ahead pi) = (-1)**n sin r, |r| <= pi / 2, kept from rounding beyond 1."""

    def signed(way: _Way) -> Expr:
        angle = way(x, 1.0, ahead, False)
        return flip(angle.r, angle.odd)

    r = _by_size(x, signed)
    z = r * r
    return clamp(fma(r * z, horner(z, coefficients.SIN[r.dtype]), r), -1.0, 1.0)


def sin(x: Expr) -> Expr:
    return select(eq(x, 0.0), x, _sin_of(x, 0.0))  # for -0


def cos(x: Expr) -> Expr:
    """sin(x + pi / 2): the half turn is added to the multiple of pi, not to x."""
    return _sin_of(x, 0.5)


def tan(x: Expr) -> Expr:
    """tan r, or -1 / tan r for odd n; the error of r, which -1 / r would show, is put back."""

    def value(way: _Way) -> Expr:
        angle = way(x, 0.5, 0.0, True)
        r, error = angle.r, angle.error
        assert error is not None
        z = r * r
        rz, p = r * z, horner(z, coefficients.TAN[r.dtype])
        t = fma(rz, p, r)
        t = r + fma(rz, p, error * fma(t, t, 1.0))
        odd = lt(angle.odd, 0)
        return div(select(odd, format_of(x).const(-1.0), t), select(odd, t, 1.0))

    return select(eq(x, 0.0), x, _by_size(x, value))  # for -0
