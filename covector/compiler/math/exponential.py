"""exp and its kin as basic operations: exp2, expm1, logistic, tanh, sinh, cosh.

Additive range reduction (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions",
1980) by a multiple of log 2, a minimax polynomial, a multiplication by a power of two.
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    absolute,
    at_least,
    at_most,
    clamp,
    div,
    format_of,
    horner,
    lt,
    power_of_two,
    round_by_magic,
    shift_left,
    shift_right,
    sign_of,
    with_sign,
)
from covector.ir.scalar import Expr, fma, select

_LOG2_E = 1 / math.log(2)
#: Beyond these, exp is 0 (also when halved bit by bit into the denormals) or infinite.
_EXP_LOW = {"float32": -104.0, "float64": -746.0}
_EXP_HIGH = {"float32": 90.0, "float64": 711.0}
#: Below this, expm1 is -1 to the last bit; above, infinite.
_EXPM1_LOW = {"float32": -18.0, "float64": -38.0}
_EXPM1_HIGH = {"float32": 89.0, "float64": 710.0}


def exp_parts(x: Expr) -> tuple[Expr, Expr]:
    """p and s with e**x = p * s * s, for x within the limits above.

    The reduction is by 2 m log 2: two factors s = 2**m give denormal and near-infinite results
    with one rounding, at the price of two more terms in the polynomial.
    """
    f = format_of(x)
    m, bits = round_by_magic(x, 0.5 * _LOG2_E)
    high, low = coefficients.LN2[f.dtype]
    r = fma(m, -2 * low, fma(m, -2 * high, x))
    return horner(r, coefficients.EXP[f.dtype]), power_of_two(bits, f)


def exp(x: Expr) -> Expr:
    p, s = exp_parts(clamp(x, _EXP_LOW[x.dtype], _EXP_HIGH[x.dtype]))
    return p * s * s


def exp2(x: Expr) -> Expr:
    f = format_of(x)
    x = clamp(x, -f.bias - f.fraction - 3.0, f.bias + 2.0)
    m, bits = round_by_magic(x, 0.5)
    s = power_of_two(bits, f)
    return horner(fma(m, -2.0, x), coefficients.EXP2[f.dtype]) * s * s


def expm1(x: Expr) -> Expr:
    f = format_of(x)
    n, bits = round_by_magic(x := clamp(x, _EXPM1_LOW[f.dtype], _EXPM1_HIGH[f.dtype]), _LOG2_E)
    half = power_of_two(bits, f, -1)  # 2**n may be infinite where expm1 is not
    y = _expm1_scaled(_reduced(x, n), half, half - 0.5) * 2.0
    return select(lt(absolute(x), 2.0 ** -(f.fraction + 2)), x, y)  # denormals; -0


def _reduced(x: Expr, n: Expr) -> Expr:
    """x - n log 2."""
    high, low = coefficients.LN2[x.dtype]
    return fma(n, -low, fma(n, -high, x))


def _expm1_scaled(r: Expr, s: Expr, base: Expr) -> Expr:
    """s (e**r - 1) + base for |r| <= log(2) / 2 and a power of two s."""
    sr = s * r
    return fma(sr * r, horner(r, coefficients.EXPM1[r.dtype]), sr + base)


def one_minus_exp(x: Expr) -> Expr:
    """1 - e**x for x <= 0; +0 for either zero."""
    f = format_of(x)
    n, bits = round_by_magic(x := at_least(x, _EXPM1_LOW[f.dtype]), _LOG2_E)
    s = power_of_two(bits, f)
    return _expm1_scaled(_reduced(x, n), -s, f.const(1.0) - s)


def tanh(x: Expr) -> Expr:
    """Near 0 an odd polynomial, else 1 - 2 / (e**(2 x) + 1)."""
    f = format_of(x)
    a = absolute(x)
    z = a * a
    small = fma(a * z, horner(z, coefficients.TANH[f.dtype]), a)
    y = at_most(a * 2.0, -_EXPM1_LOW[f.dtype] + 2.0)
    n, bits = round_by_magic(y, _LOG2_E)
    p = horner(_reduced(y, n), coefficients.EXP_NARROW[f.dtype])
    large = f.const(1.0) - div(2.0, fma(p, power_of_two(bits, f), 1.0))
    return with_sign(select(lt(a, 0.6), small, large), sign_of(x))


def logistic(x: Expr) -> Expr:
    """1 / (1 + e**-x), by e**-|x| so that small results keep their digits.

    e**-|x| = p 2**n with |r| <= log(2) / 2, for one more bit than `exp_parts`; 2**n in two parts.
    """
    f = format_of(x)
    y = at_least(-absolute(x), _EXP_LOW[f.dtype])
    n, bits = round_by_magic(y, _LOG2_E)
    p = horner(_reduced(y, n), coefficients.EXP_NARROW[f.dtype])
    half = shift_left(shift_right(bits, 1), f.fraction) + (f.bias << f.fraction)
    rest = shift_left(bits, f.fraction) + (2 * f.bias << f.fraction) - half
    e = p * f.from_bits(half) * f.from_bits(rest)
    return _over_sum(select(lt(x, 0.0), e, 1.0), 1.0, e)


def _over_sum(x: Expr, whole: float, part: Expr) -> Expr:
    """x / (whole + part) for a sum from 1 to 2.

    Near 1 its rounding would cost a whole ulp of a quotient near 2: it is taken back to first
    order (of the sum's error relative to 1, which is within a factor 2 of right).
    """
    total = part + whole
    error = part - (total - whole)
    q = div(x, total)
    return fma(-q, error, q)


def _half_exp(x: Expr) -> Expr:
    """e**|x| / 2, which may be finite where e**|x| is not."""
    p, s = exp_parts(at_most(absolute(x), _EXP_HIGH[x.dtype]))
    return p * (s * 0.5) * s


def sinh(x: Expr) -> Expr:
    f = format_of(x)
    z = x * x
    small = fma(x * z, horner(z, coefficients.SINH[f.dtype]), x)
    h = _half_exp(x)
    large = with_sign(h - div(0.25, h), sign_of(x))
    return select(lt(absolute(x), 1.0), small, large)


def cosh(x: Expr) -> Expr:
    h = _half_exp(x)
    return h + div(0.25, h)
