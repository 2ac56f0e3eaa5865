"""erf and erfc as basic operations (erf_inv has its own file)."""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.exponential import one_minus_exp
from covector.compiler.math.formats import (
    F32,
    F64,
    absolute,
    at_most,
    div,
    format_of,
    horner,
    lt,
    power_of_two,
    round_by_magic,
    shift_left,
    shift_right,
    sign_of,
    two_product,
    with_sign,
)
from covector.ir.scalar import Expr, cast, fma, select

#: Where erf is 1 to the last bit, and where erfc is 0.
_ERF_END = {"float32": 3.94, "float64": 5.99}
_ERFC_END = {"float32": 10.1, "float64": 27.3}


def erf(x: Expr) -> Expr:
    """1 - e**(log erfc a), a = |x|: the logarithm is a times a polynomial, right also near 0."""
    f = format_of(x)
    a = at_most(absolute(x), _ERF_END[f.dtype])
    first, *rest = coefficients.ERF[f.dtype]
    y = fma(a, first, a * horner(a, rest))
    return with_sign(one_minus_exp(-y), sign_of(x))


def erfc(x: Expr) -> Expr:
    """e**(-a**2) R / (a + 2) for a = |x|, a polynomial R in 4 / (a + 2) - 1; 2 less that for x < 0.

    After M. Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x**2) erfc x in
    0 <= x < inf", Math. Comp. 36, 1981.
    """
    f = format_of(x)
    a = at_most(absolute(x), _ERFC_END[f.dtype])
    y = _erfc_of_single(a) if f is F32 else _erfc_of_double(a)
    return select(lt(x, 0.0), f.const(2.0) - y, y)


def _erfc_of_single(a: Expr) -> Expr:
    """In float64, where a**2 is exact and a float32's denormals are normal."""
    a = cast(a, "float64")
    q = div(1.0, a + 2.0)
    r = horner(fma(q, 4.0, -1.0), coefficients.ERFCX["float32"])
    y = a * a * (-1 / math.log(2))
    n, bits = round_by_magic(y, 1.0)
    p = horner(y - n, coefficients.EXP2_SHORT["float64"])
    return cast(p * r * q * power_of_two(bits, F64), "float32")


def _erfc_of_double(a: Expr) -> Expr:
    """With first-order corrections, inside the exponent, of what a**2 and 1 / (a + 2) lost."""
    f = F64
    d = a + 2.0
    q = div(1.0, d)
    lost = fma(-q, a - (d - 2.0), fma(-q, d, 1.0))
    t = q * 4.0 - 1.0
    first, *others = coefficients.ERFCX[f.dtype]
    h = horner(t, others)
    r = fma(t, h, first)
    r_low = fma(t, h, -(r - first))
    square, square_low = two_product(a, a)
    n, bits = round_by_magic(square, -1 / math.log(2))
    high, low = coefficients.LN2[f.dtype]
    correction = fma(lost, horner(t, coefficients.ERFCX_SLOPE[f.dtype]), -square_low)
    e = fma(n, -high, -square) + fma(n, -low, correction)
    p = fma(e * e, horner(e, coefficients.EXPM1[f.dtype]), e)  # expm1(e)
    half = shift_left(shift_right(bits, 1), f.fraction) + (f.bias << f.fraction)
    other = shift_left(bits, f.fraction) + (2 * f.bias << f.fraction) - half
    return (r + fma(r, p, r_low)) * q * f.from_bits(half) * f.from_bits(other)
