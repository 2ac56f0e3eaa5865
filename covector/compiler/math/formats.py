"""What the expansions share: the numbers of a float format, and small scalar-IR idioms.

Everything is written once for float32 and float64: `format_of(x)` gives the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import ml_dtypes
import numpy as np

from covector.ir.scalar import Expr, bitcast, compare, const, expr, fma, select

#: Floats that have no arithmetic of their own: each op is done in float32, then rounded.
NARROW_FLOATS = frozenset(
    {"float16", "bfloat16"}
    | {name for name in vars(ml_dtypes) if name.startswith(("float4", "float6", "float8"))}
)


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of an element type's name ('bfloat16' and its kin come from ml_dtypes)."""
    return np.dtype(getattr(ml_dtypes, name, name))


@final
class Format:
    """An IEEE 754 binary format and the integer type of its bits."""

    __slots__ = ("bias", "dtype", "fraction", "huge", "integer", "magic", "tiny", "width")

    dtype: str
    integer: str  # its bits as a signed integer
    width: int
    fraction: int  # explicit bits of the significand
    bias: int
    tiny: float  # the least normal number
    huge: float  # the greatest finite number
    magic: float  # adding it rounds to an integer, held in the low bits of the sum

    def __init__(self, width: int, fraction: int) -> None:
        self.dtype, self.integer = f"float{width}", f"int{width}"
        self.width, self.fraction = width, fraction
        self.bias = (1 << (width - fraction - 2)) - 1
        self.tiny = 2.0 ** (1 - self.bias)
        self.huge = (2.0 - 2.0**-fraction) * 2.0**self.bias
        self.magic = 1.5 * 2.0**fraction

    @property
    def sign_bit(self) -> int:
        return -(1 << (self.width - 1))

    def const(self, value: float) -> Expr:
        return const(float(value), self.dtype)

    def bits(self, x: Expr) -> Expr:
        return bitcast(x, self.integer)

    def from_bits(self, bits: Expr) -> Expr:
        return bitcast(bits, self.dtype)


F32: Final = Format(32, 23)
F64: Final = Format(64, 52)
FORMATS: Final = {"float32": F32, "float64": F64}


def format_of(x: Expr) -> Format:
    return FORMATS[x.dtype]


def lt(x: Expr, y: Expr | float) -> Expr:
    return compare("lt", x, y)


def gt(x: Expr, y: Expr | float) -> Expr:
    return compare("gt", x, y)


def le(x: Expr, y: Expr | float) -> Expr:
    return compare("le", x, y)


def ge(x: Expr, y: Expr | float) -> Expr:
    return compare("ge", x, y)


def eq(x: Expr, y: Expr | float) -> Expr:
    return compare("eq", x, y)


def ne(x: Expr, y: Expr | float) -> Expr:
    return compare("ne", x, y)


def div(x: Expr | float, y: Expr) -> Expr:
    return expr("div", y.dtype, x if isinstance(x, Expr) else const(float(x), y.dtype), y)


def absolute(x: Expr) -> Expr:
    return expr("abs", x.dtype, x)


def square_root(x: Expr) -> Expr:
    return expr("sqrt", x.dtype, x)


def round_even(x: Expr) -> Expr:
    return expr("round_even", x.dtype, x)


def shift_left(x: Expr, by: int) -> Expr:
    return expr("shift_left", x.dtype, x, const(by, x.dtype))


def shift_right(x: Expr, by: int) -> Expr:
    """Logical: zeros come in."""
    return expr("shift_right_logical", x.dtype, x, const(by, x.dtype))


def shift_right_arithmetic(x: Expr, by: int) -> Expr:
    return expr("shift_right_arithmetic", x.dtype, x, const(by, x.dtype))


def at_most(x: Expr, high: float) -> Expr:
    """min(x, high); NaN stays (one instruction: the hardware's min keeps its second operand)."""
    return select(gt(x, high), const(high, x.dtype), x)


def at_least(x: Expr, low: float) -> Expr:
    """max(x, low); NaN stays."""
    return select(lt(x, low), const(low, x.dtype), x)


def clamp(x: Expr, low: float, high: float) -> Expr:
    return at_most(at_least(x, low), high)


def sign_of(x: Expr) -> Expr:
    """The sign bit alone, as an integer."""
    f = format_of(x)
    return f.bits(x) & f.sign_bit


def with_sign(x: Expr, sign: Expr) -> Expr:
    """The non-negative `x` with the sign bit `sign` (made by `sign_of`) set."""
    f = format_of(x)
    return f.from_bits(f.bits(x) | sign)


def flip(x: Expr, sign: Expr) -> Expr:
    """`x`, negated where the sign bit `sign` is set."""
    f = format_of(x)
    return f.from_bits(f.bits(x) ^ sign)


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, lowest order first."""
    total = const(coefficients[-1], x.dtype)
    for c in coefficients[-2::-1]:
        total = fma(total, x, c)
    return total


def round_by_magic(x: Expr, scale: float) -> tuple[Expr, Expr]:
    """round(x * scale), |.| < 2**(fraction - 2): as a float, and as bits of which the low are it.

    Cheaper than rounding and converting, and the only way to 64-bit integers without AVX-512.
    """
    f = format_of(x)
    shifted = fma(x, scale, f.magic)
    return shifted - f.magic, f.bits(shifted)


def number_in(bits: Expr, f: Format) -> Expr:
    """2**fraction + the integer 0 <= bits < 2**fraction, as a float: no conversion is needed."""
    return f.from_bits(bits | ((f.bias + f.fraction) << f.fraction))


def power_of_two(n_bits: Expr, f: Format, plus: int = 0) -> Expr:
    """2**(n + plus) for n in the low bits of `n_bits`; the exponent must be that of a normal."""
    return f.from_bits(shift_left(n_bits, f.fraction) + ((f.bias + plus) << f.fraction))


def two_sum(a: Expr, b: Expr | float) -> tuple[Expr, Expr]:
    """a + b, and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + ((-part) + b)


def fast_two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """As `two_sum`, where |a| >= |b| or a is 0 (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a * b, and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)
