"""Turns in a huge angle: x / (2 pi) without its integer part, to full precision."""

from __future__ import annotations

from itertools import pairwise

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
from covector.ir.scalar import Expr, cast, const, expr, fma, select

_LOW = (1 << 32) - 1
_MAGIC_BITS = 0x4330000000000000  # of 2.0**52: or-ing a 32-bit integer adds it


def reduce_huge(x: Expr, per_turn: int, ahead: float) -> tuple[Expr, Expr | None, Expr]:
    """(high, low, odd): x / (2 pi) * per_turn + ahead = n + high + low, but for whole turns.

    |high| <= 1/2 or hardly more; `odd` is the sign bit of an int64, set where n is odd.  A float64
    `high` alone suffices for a float32 `x`.  NaN where x is not finite.
    """
    if format_of(x) is F64:
        high, low = _turns_of_double(x)
        n, odd = nearest(high, float(per_turn), ahead)
        return fma(high, per_turn, -n), low * float(per_turn), odd
    parts = _turns_of_single(x)
    n, odd = nearest(_sum(parts), float(per_turn), ahead)
    # Added to the parts, n makes their sum small, hence exact as far as it matters.
    return _sum([n * (-1.0 / per_turn), *parts]) * float(per_turn), None, odd


def nearest(x: Expr, scale: float, ahead: float) -> tuple[Expr, Expr]:
    """(n - ahead, a sign bit for odd n) where n = round(x * scale + ahead)."""
    f = format_of(x)
    shifted = fma(x, scale, ahead) + f.magic if ahead else fma(x, scale, f.magic)
    n = shifted - f.magic
    return n - ahead if ahead else n, shift_left(f.bits(shifted), f.width - 1)


def _sum(terms: list[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _turns_of_single(x: Expr) -> list[Expr]:
    """Parts that add up to x / (2 pi), but for whole turns; they grow less from one to the next.

    x has 24 bits, each part of 1 / (2 pi) 29: their product is exact in float64.  So is what is
    left of it without its integer part; and sums of such rests are, as far as their bits matter:
    where high ones cancel, low ones gain room.
    """
    assert format_of(x) is F32
    x = cast(x, "float64")
    products = [x * part for part in coefficients.TURNS["float64"]]
    return [product - round_even(product) for product in products]


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
    top = _high(middle) + _high(p0[2]) + _high(p1[2]) + p0[1] + p1[1]
    top = top + shift_left(p0[0] + p1[0], 32)
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
    for high, low in pairwise(words):
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
