"""Integer operations that a machine may lack, as basic ones."""

from __future__ import annotations

from covector.compiler.math.formats import eq, gt, lt, shift_right
from covector.ir.scalar import Expr, bitcast, cast, const, expr, select

_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_WIDTHS |= {f"u{name}": width for name, width in _WIDTHS.items()}


def width_of(x: Expr) -> int:
    return _WIDTHS[x.dtype]


def is_signed(x: Expr) -> bool:
    return not x.dtype.startswith("u")


def square(x: Expr) -> Expr:
    return x * x


def sign(x: Expr) -> Expr:
    one, zero = const(1, x.dtype), const(0, x.dtype)
    negative = select(lt(x, 0), -one, zero) if is_signed(x) else zero
    return select(gt(x, 0), one, negative)


def maximum(x: Expr, y: Expr) -> Expr:
    return select(gt(x, y), x, y)


def minimum(x: Expr, y: Expr) -> Expr:
    return select(lt(x, y), x, y)


def population_count(x: Expr) -> Expr:
    """Bits summed in fields of 2, 4, 8, ... bits (H. S. Warren, "Hacker's Delight", 5-1)."""
    width = width_of(x)

    def mask(field: int) -> int:
        ones = (1 << field) - 1
        return sum(ones << i for i in range(0, width, 2 * field))

    x = x - (shift_right(x, 1) & mask(1))
    x = (x & mask(2)) + (shift_right(x, 2) & mask(2))
    x = (x + shift_right(x, 4)) & mask(4)
    field = 8
    while field < width:
        x = x + shift_right(x, field)
        field *= 2
    return x & (2 * width - 1)


def clz(x: Expr) -> Expr:
    """The bits below the highest one are set, then those not set are counted."""
    by = 1
    while by < width_of(x):
        x = x | shift_right(x, by)
        by *= 2
    return population_count(~x)


def mulhi(x: Expr, y: Expr) -> Expr:
    """The high half of the product: through twice the width, or (64 bits) four partial products."""
    width = width_of(x)
    if width < 64:
        wide = ("int" if is_signed(x) else "uint") + str(2 * width)
        product = cast(x, wide) * cast(y, wide)
        return cast(expr("shift_right_logical", wide, product, const(width, wide)), x.dtype)
    a, b = bitcast(x, "uint64"), bitcast(y, "uint64")
    low = (1 << 32) - 1
    a0, a1, b0, b1 = a & low, shift_right(a, 32), b & low, shift_right(b, 32)
    middle = a1 * b0 + shift_right(a0 * b0, 32)
    cross = a0 * b1 + (middle & low)
    high = a1 * b1 + shift_right(middle, 32) + shift_right(cross, 32)
    if is_signed(x):
        zero = const(0, "uint64")
        high = high - select(lt(x, 0), b, zero) - select(lt(y, 0), a, zero)
    return bitcast(high, x.dtype)


def guarded_divisor(x: Expr, y: Expr) -> Expr:
    """`y`, with 1 for a divisor that would trap: 0, and -1 where x is the least integer.

    A division by such a node is left as it is (`expand` knows it by identity).
    """
    bad = eq(y, 0)
    if is_signed(x):
        bad = bad | (eq(y, -1) & eq(x, -(1 << (width_of(x) - 1))))
    return select(bad, const(1, y.dtype), y)


def is_guarded(x: Expr, y: Expr) -> bool:
    """Whether the divisor `y` of `x` cannot trap."""
    if y.op == "const":
        return y.extra not in (0, -1)
    return y.op == "select" and y is guarded_divisor(x, y.args[2])


def div(x: Expr, y: Expr) -> Expr:
    """x / 0 is -1, the least integer over -1 is itself."""
    return select(eq(y, 0), const(-1, x.dtype), expr("div", x.dtype, x, guarded_divisor(x, y)))


def rem(x: Expr, y: Expr) -> Expr:
    """x rem 0 is x, the least integer rem -1 is 0."""
    safe = guarded_divisor(x, y)
    return select(eq(y, 0), x, x - expr("div", x.dtype, x, safe) * safe)


def pow(x: Expr, n: Expr) -> Expr:
    """x**n by repeated squaring, a step for each bit of n; 0 for a negative n."""
    one = const(1, x.dtype)
    result, bits = one, width_of(n) - is_signed(n)
    for i in range(bits):
        bit = n & (1 << i)
        result = select(eq(bit, 0), result, result * x)
        if i < bits - 1:
            x = x * x
    return select(lt(n, 0), const(0, x.dtype), result) if is_signed(n) else result


def shift(op: str, x: Expr, by: Expr) -> Expr:
    """A shift whose amount may be the width or more; inside, it is masked."""
    width = width_of(x)
    unsigned = "u" + by.dtype.removeprefix("u")
    fits = lt(bitcast(by, unsigned), width)
    if op == "shift_right_arithmetic":
        by = select(fits, by, const(width - 1, by.dtype))
        return expr(op, x.dtype, x, by & (width - 1))
    return select(fits, expr(op, x.dtype, x, by & (width - 1)), const(0, x.dtype))


def is_plain_shift(by: Expr, width: int) -> bool:
    """Whether the amount is surely less than the width."""
    if by.op == "const":
        return 0 <= by.extra < width
    return by.op == "and" and any(a.op == "const" and 0 <= a.extra < width for a in by.args)
