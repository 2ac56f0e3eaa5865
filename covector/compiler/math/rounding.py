"""Roundings, signs, extrema, remainders and neighbours of floats as basic operations."""

from __future__ import annotations

import math

from covector.compiler.math.formats import (
    F64,
    Format,
    absolute,
    div,
    eq,
    format_of,
    ge,
    gt,
    le,
    lt,
    ne,
    number_in,
    numpy_dtype,
    power_of_two,
    round_even,
    shift_right,
    shift_right_arithmetic,
    sign_of,
    with_sign,
)
from covector.ir.scalar import Expr, bitcast, const, expr, fma, select


def square(x: Expr) -> Expr:
    return x * x


def _floor(x: Expr) -> Expr:
    return expr("floor", x.dtype, x)


def ceil(x: Expr) -> Expr:
    return -_floor(-x)


def trunc(x: Expr) -> Expr:
    return with_sign(_floor(absolute(x)), sign_of(x))


def round_away(x: Expr) -> Expr:
    """To the nearest integer, ties away from 0."""
    a = absolute(x)
    whole = _floor(a)
    up = select(ge(a - whole, 0.5), format_of(x).const(1.0), 0.0)
    return with_sign(whole + up, sign_of(x))


def is_finite(x: Expr) -> Expr:
    return lt(absolute(x), math.inf)


def sign(x: Expr) -> Expr:
    """-1 or 1; a zero or NaN itself."""
    return select(gt(absolute(x), 0.0), with_sign(format_of(x).const(1.0), sign_of(x)), x)


def maximum(x: Expr, y: Expr) -> Expr:
    """NaN if either is; -0 below +0.

    The hardware's maximum gives its second operand for two zeros or a NaN.  Both orders of it,
    and-ed, are right but for NaN: 5 instructions on x86 (with the NaN mask or-ed in), where NaN
    alone would take 3.  A constant operand, known to be no NaN, leaves 1 or 2.
    """
    if x.op == "const":
        x, y = y, x
    if y.op == "const" and not math.isnan(y.extra):
        lower = le(x, y) if y.extra == 0 and math.copysign(1, y.extra) > 0 else lt(x, y)
        return select(lower, y, x)
    f = format_of(x)
    both = f.from_bits(f.bits(select(gt(x, y), x, y)) & f.bits(select(gt(y, x), y, x)))
    return select(ne(x, x) | ne(y, y), math.nan, both)


def minimum(x: Expr, y: Expr) -> Expr:
    """NaN if either is; -0 below +0.

    Both orders of the hardware's minimum, or-ed: two zeros give -0 if one is, NaN stays NaN.
    """
    if x.op == "const":
        x, y = y, x
    if y.op == "const" and not math.isnan(y.extra):
        higher = ge(x, y) if y.extra == 0 and math.copysign(1, y.extra) < 0 else gt(x, y)
        return select(higher, y, x)
    f = format_of(x)
    return f.from_bits(f.bits(select(lt(x, y), x, y)) | f.bits(select(lt(y, x), y, x)))


def nextafter(x: Expr, y: Expr) -> Expr:
    """The neighbour of x towards y, on the bits: magnitudes are ordered as integers."""
    width = 8 * numpy_dtype(x.dtype).itemsize  # of any format
    integer = f"int{width}"
    bits = bitcast(x, integer)
    away = select(gt(y, x), bits ^ bits, const(-(1 << width - 1), integer))  # sign bit of y - x
    one = const(1, integer)
    step = select(lt(bits ^ away, 0), -one, one)
    moved = bitcast(select(eq(x, 0.0), away | one, bits + step), x.dtype)
    return select(eq(x, y), y, select(ne(x, x) | ne(y, y), math.nan, moved))


def rem(x: Expr, y: Expr) -> Expr:
    """What is left of x when y is taken off towards 0 as often as it goes; exact.

    Quotients of more bits than a float has are rare: they go by 2**n modulo the divisor.
    """
    f = format_of(x)
    a, b = absolute(x), absolute(y)
    quotient = div(a, b)
    left = fma(-round_even(quotient), b, a)
    huge = ge(quotient, 2.0 ** (f.fraction - 1))
    left = expr("select_rare", f.dtype, huge, _huge_remainder(a, b, f), left)
    left = select(lt(left, 0.0), left + b, left)
    left = with_sign(absolute(select(lt(a, b), a, left)), sign_of(x))
    return select(lt(a, math.inf) & gt(b, 0.0), left, math.nan)


def _modulo(x: Expr, m: Expr, inverse: Expr) -> Expr:
    """An integer x less a multiple of m, at most about m / 2 in size."""
    return fma(-round_even(x * inverse), m, x)


def _huge_remainder(a: Expr, b: Expr, f: Format) -> Expr:
    """a mod b, or that less b, of positive finite numbers where a is much the greater.

    a = A 2**i and b = B 2**j with integers A, B: the remainder is 2**j (A 2**(i - j) mod B), the
    power by squaring.  All numbers are integers of one significand or sums of two.
    """
    (big, i), (modulus, j) = (_integer_and_exponent(v, f) for v in (a, b))
    inverse = div(1.0, modulus)
    n = i - j
    steps = 6 if f is F64 else 4
    power = power_of_two(shift_right(n, steps), f)
    for bit in reversed(range(steps)):
        power = _product_modulo(power, power, modulus, inverse)
        double = ne(n & (1 << bit), 0)
        power = _modulo(power * select(double, f.const(2.0), 1.0), modulus, inverse)
    left = _product_modulo(power, big, modulus, inverse)
    left = _modulo(left, modulus, inverse)
    # by 2**j in two parts, which may be a denormal's exponent
    half = shift_right_arithmetic(j, 1)
    return left * power_of_two(half, f) * power_of_two(j - half, f)


def _product_modulo(x: Expr, y: Expr, m: Expr, inverse: Expr) -> Expr:
    """x * y less a multiple of m, at most about 3/4 m in size, for |x|, |y| <= m or so."""
    product = x * y
    low = fma(x, y, -product)
    return _modulo(_modulo(product, m, inverse), m, inverse) + low


def _integer_and_exponent(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """(A, i): x = A 2**i, with 2**fraction <= A < 2**(fraction + 1)."""
    denormal = lt(x, f.tiny)
    bits = f.bits(select(denormal, x * 2.0 ** (f.fraction + 1), x))
    integer = number_in(bits & ((1 << f.fraction) - 1), f)
    offset = const(f.bias + f.fraction, f.integer)
    more = const(f.bias + 2 * f.fraction + 1, f.integer)
    return integer, shift_right(bits, f.fraction) - select(denormal, more, offset)
