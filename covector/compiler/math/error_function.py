"""erf, erfc, erf_inv as basic operations."""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.exponential import one_minus_exp
from covector.compiler.math.formats import (
    F32,
    absolute,
    at_most,
    div,
    eq,
    format_of,
    gt,
    horner,
    lt,
    round_by_magic,
    shift_left,
    shift_right,
    sign_of,
    square_root,
    two_product,
    with_sign,
)
from covector.ir.scalar import Expr, fma, select

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
    """e**(-a**2) R(a) / (a + c) for x >= 0, a polynomial R in (a - c) / (a + c) (M. Shepherd,
    J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x**2) erfc x in 0 <= x < inf",
    Math. Comp. 36, 1981); 2 less that for x < 0.
    """
    f = format_of(x)
    a = at_most(absolute(x), _ERFC_END[f.dtype])
    c = coefficients.ERFCX_CENTRE[f.dtype]
    inverse = div(1.0, a + c)
    r = horner((a - c) * inverse, coefficients.ERFCX[f.dtype])
    square, square_low = two_product(a, a)
    n, bits = round_by_magic(square, -1 / math.log(2))
    high, low = coefficients.LN2[f.dtype]
    t = fma(n, -low, fma(n, -high, -square)) - square_low
    p = horner(t, coefficients.EXP_NARROW[f.dtype])
    half = shift_left(shift_right(bits, 1), f.fraction) + (f.bias << f.fraction)
    other = shift_left(bits, f.fraction) + (2 * f.bias << f.fraction) - half
    y = p * r * inverse * f.from_bits(half) * f.from_bits(other)
    return select(lt(x, 0.0), f.const(2.0) - y, y)
