"""Powers and roots as basic operations: pow, integer powers, cbrt, rsqrt.

pow needs the logarithm to more bits than a result has: float32 is done in float64, float64 in
pairs of float64 (T. J. Dekker, "A floating-point technique for extending the available
precision", Numer. Math. 18, 1971), with the special cases of IEEE 754-2019, 9.2.1.
"""

from __future__ import annotations

import math

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    F64,
    FORMATS,
    absolute,
    clamp,
    div,
    eq,
    fast_two_sum,
    format_of,
    gt,
    horner,
    lt,
    ne,
    number_in,
    power_of_two,
    round_by_magic,
    round_even,
    shift_right,
    sign_of,
    square_root,
    two_product,
    with_sign,
)
from covector.compiler.math.logarithm import log2_of_single, log_limits, split
from covector.ir.scalar import Expr, cast, const, expr, fma, select

_TWO_THIRDS = (2.0 / 3.0, 3.700743415417188e-17)


def rsqrt(x: Expr) -> Expr:
    return div(1.0, square_root(x))


def integer_pow(x: Expr, n: int) -> Expr:
    """x**n by repeated squaring, of any type with mul (and div, for n < 0)."""
    if n == 0:
        return const(1, x.dtype)
    result, base, left = None, x, abs(n)
    while left:
        if left & 1:
            result = base if result is None else result * base
        left >>= 1
        if left:
            base = base * base
    assert result is not None
    return result if n > 0 else expr("div", x.dtype, const(1, x.dtype), result)


def pow(x: Expr, y: Expr) -> Expr:
    """x**y; NaN for a finite x < 0 and a y that is no integer.  y's type may be an integer one."""
    f = format_of(x)
    a = absolute(x)
    if y.dtype in FORMATS:
        whole, half = eq(round_even(y), y), y * 0.5
        odd = whole & ne(round_even(half), half)
        never = lt(x, 0.0) & gt(x, -math.inf) & ~whole
    else:
        odd, never = ne(y & 1, 0), None
    y = cast(y, "float64")
    size = _pow_of_single(a, y) if f is F32 else _pow_of_double(a, y)
    signed = with_sign(size, select(odd, sign_of(x), const(0, f.integer)))
    return signed if never is None else select(never, math.nan, signed)


def _nothing(y: Expr, logarithm: Expr) -> Expr:
    """Where y log a is to be 0, whatever the other factor: x**0 and 1**y are 1."""
    return eq(y, 0.0) | eq(logarithm, 0.0)


def _pow_of_single(a: Expr, y: Expr) -> Expr:
    log2 = log2_of_single(cast(a, "float64"))
    t = clamp(select(_nothing(y, log2), 0.0, y * log2), -160.0, 130.0)
    n, bits = round_by_magic(t, 1.0)
    p = horner(t - n, coefficients.EXP2_SHORT["float64"])
    return cast(p * power_of_two(bits, F64), "float32")


def _log_pair(a: Expr) -> tuple[Expr, Expr]:
    """log a of a positive finite float64 as a sum of two, to about 2**-66 of it."""
    f = F64
    denormal = lt(a, f.tiny)
    k, _, m = split(select(denormal, a * 2.0 ** (f.fraction + 1), a), f, denormal)
    # s = (m - 1) / (m + 1), where m + 1 may need one bit more than there is
    over = m - 1.0
    under = m + 1.0
    under_low = m - (under - 1.0)
    inverse = div(1.0, under)
    s = over * inverse
    s_low = fma(-s, under_low, fma(-s, under, over)) * inverse
    s, s_low = fast_two_sum(s, s_low)
    # log m = 2 s + s**3 (2/3 + w), w = 2 z R(z), z = s**2
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    w = z * 2.0 * horner(z, coefficients.LOG_OF_RATIO["float64"])
    c, c_low = fast_two_sum(f.const(_TWO_THIRDS[0]), w)
    c_low = c_low + _TWO_THIRDS[1]
    cube, cube_low = two_product(s, z)
    cube_low = cube_low + fma(s, z_low, s_low * z)
    term, term_low = two_product(cube, c)
    term_low = term_low + fma(cube, c_low, cube_low * c)
    # k log 2 is exact in its first part, of 42 bits
    high, low = coefficients.LN2_SHORT["float64"]
    first, first_low = fast_two_sum(k * high, s + s)
    total, total_low = fast_two_sum(first, term)
    rest = total_low + first_low + (fma(k, low, s_low + s_low) + term_low)
    return fast_two_sum(total, rest)


def _pow_of_double(a: Expr, y: Expr) -> Expr:
    high, low = _log_pair(a)
    high = log_limits(a, high)
    nothing = _nothing(y, high)
    t = y * high
    rest = fma(y, low, fma(y, high, -t))
    rest = select(lt(absolute(t), 1024.0), rest, 0.0)
    t = clamp(select(nothing, 0.0, t), -760.0, 720.0)
    # e**(t + rest), as `exponential.exp` but with the rest of the argument
    m, bits = round_by_magic(t, 0.5 / math.log(2))
    high, low = coefficients.LN2["float64"]
    r = fma(m, -2 * high, t) + fma(m, -2 * low, rest)
    s = power_of_two(bits, F64)
    return horner(r, coefficients.EXP["float64"]) * s * s


def cbrt(x: Expr) -> Expr:
    """A polynomial for m = x / 8**n in [1, 8), after selects for its octave; a step of Halley."""
    f = format_of(x)
    a = absolute(x)
    denormal, scale = lt(a, f.tiny), 24 if f is F32 else 54
    bits = f.bits(select(denormal, a * 2.0**scale, a))
    k = number_in(shift_right(bits, f.fraction), f) - (2.0**f.fraction + f.bias)
    m = f.from_bits(bits & ((1 << f.fraction) - 1) | (f.bias << f.fraction))
    n, n_bits = round_by_magic(k - 1.0, 1 / 3)
    octave = fma(n, -3.0, k)  # 0, 1 or 2
    second, third = gt(octave, 0.5), gt(octave, 1.5)

    def by_octave(ratio: float) -> Expr:
        return select(third, f.const(ratio * ratio), select(second, f.const(ratio), 1.0))

    y = horner(m, coefficients.CBRT[f.dtype]) * by_octave(2.0 ** (1 / 3))
    m = m * by_octave(2.0)
    square, square_low = two_product(y, y)
    excess = fma(square, y, -m) + square_low * y
    y = y - div(y * excess, fma(square + square, y, m))
    y = y * power_of_two(n_bits, f) * select(denormal, f.const(2.0 ** -(scale // 3)), 1.0)
    return select(gt(a, 0.0) & lt(a, math.inf), with_sign(y, sign_of(x)), x)
