"""Turns in a huge angle: x / (2 pi) without its integer part, to full precision."""

from __future__ import annotations

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    F32,
    F64,
    absolute,
    eq,
    fast_two_sum,
    flip,
    format_of,
    round_even,
    shift_left,
    shift_right,
    sign_of,
)
from covector.ir.scalar import Expr, cast, const, expr, select

_LOW = (1 << 32) - 1
_MAGIC_BITS = 0x4330000000000000  # of 2.0**52: or-ing a 32-bit integer adds it


def turns(x: Expr) -> tuple[Expr, Expr | None]:
    """(high, low): turns in [-1/2, 1/2] such that x / (2 pi) - (high + low) is an integer.

    For a huge x.  A float64 `high` alone suffices for a float32 `x`; NaN where x is not finite.
    """
    return _turns_of_double(x) if format_of(x) is F64 else (_turns_of_single(x), None)


def _turns_of_single(x: Expr) -> Expr:
    """x has 24 bits, each part of 1 / (2 pi) 29: their product is exact in float64.

    So is its fractional part; and sums of such parts are, as far as their bits matter: where
    high ones cancel, low ones gain room.
    """
    assert format_of(x) is F32
    x = cast(x, "float64")
    total = None
    for part in coefficients.TURNS["float64"]:
        product = x * part
        fraction = product - round_even(product)
        total = fraction if total is None else total + fraction
    assert total is not None
    return total - round_even(total)


def _turns_of_double(x: Expr) -> tuple[Expr, Expr]:
    """|x| = m 2**e times 192 bits of 1 / (2 pi), from its e-th on, in integers of 32 by 32 bits."""
    f = F64
    bits = f.bits(absolute(x))
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    v = _window(shift_right(bits, 52) + (64 - 1075))
    m0, m1 = m & _LOW, shift_right(m, 32)
    p0 = [m0 * word for word in v[:5]]
    p1 = [m1 * word for word in v[1:6]]  # p1[k]: m1 * v[k + 1], of the weight of p0[k]
    low = _high(p0[4]) + _high(p1[4]) + (p0[3] & _LOW) + (p1[3] & _LOW)
    middle = _high(low) + _high(p0[3]) + _high(p1[3]) + (p0[2] & _LOW) + (p1[2] & _LOW)
    top = _high(middle) + _high(p0[2]) + _high(p1[2]) + p0[1] + p1[1] + shift_left(p0[0] + p1[0], 32)
    return _as_floats(x, top, middle, low)


def _high(word: Expr) -> Expr:
    return shift_right(word, 32)


def _window(start: Expr) -> list[Expr]:
    """Six words of 32 bits of 1 / (2 pi), which begin `start` - 64 bits behind the point."""
    words = [const(w, "int64") for w in coefficients.TURN_WORDS]
    for step, need in ((16, 4), (8, 11), (4, 7), (2, 5), (1, 4)):
        stay = eq(start & (64 * step), 0)
        words = [
            select(stay, words[i], words[i + step]) if i < need else words[i]
            for i in range(need if step < 16 else len(words))
        ]
    by = start & 63
    back = -by + 63
    found = []
    for high, low in zip(words, words[1:], strict=False):
        word = expr("shift_left", "int64", high, by) | expr(
            "shift_right_logical", "int64", shift_right(low, 1), back
        )
        found += [_high(word), word & _LOW]
    return found


def _as_floats(x: Expr, top: Expr, middle: Expr, low: Expr) -> tuple[Expr, Expr]:
    """The signed fraction top 2**-64 + (low halves of middle, low) as a sum of two floats."""
    f = F64

    def number(word: Expr, offset: float = 0.0) -> Expr:  # of 32 bits; they have no conversion
        return f.from_bits(word | _MAGIC_BITS) - (2.0**52 + offset)

    a = number(_high(top) ^ (1 << 31), 2.0**31)
    high, error = fast_two_sum(a, number(top & _LOW) * 2.0**-32)
    rest = number(middle & _LOW) * 2.0**-64 + number(low & _LOW) * 2.0**-96
    high, error = fast_two_sum(high, error + rest)
    sign = sign_of(x)
    not_a_number = x - x  # where x is infinite
    return flip(high * 2.0**-32 + not_a_number, sign), flip(error * 2.0**-32, sign)
