"""Elementwise functions: operands are promoted to one dtype, broadcast to one shape, and bound.

Most are rows of a table: name, operation, promotion, what it computes, an example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import _convert
from covector.numpy._convert import broadcast, cast, operands, promote_dtypes, promote_inexact

p = ops.pointwise


def _unary(name: str, op: Any, promote: Callable[..., Any], what: str, example: str) -> Any:
    def function(x: Any, /) -> Any:
        return op(*promote(*operands(name, x)))

    return _named(function, name, what, example)


def _binary(name: str, op: Any, promote: Callable[..., Any], what: str, example: str) -> Any:
    def function(x: Any, y: Any, /) -> Any:
        x, y = promote(*operands(name, x, y))
        return op(*broadcast(name, x, y))

    return _named(function, name, what, example)


def _named(function: Any, name: str, what: str, example: str) -> Any:
    function.__name__ = function.__qualname__ = name
    call, result = example.split(" -> ")
    function.__doc__ = f"""{what}

Element by element; arrays, NumPy arrays or scalars, promoted to one dtype and broadcast to one
shape. Raises TypeError for anything else, such as a list, and for shapes that do not fit.

>>> import covector.numpy as cnp
>>> {call}.tolist()
{result}
"""
    return function


def _same(*args: Any) -> tuple[Any, ...]:
    return args


def _booleans(*args: Any) -> tuple[Any, ...]:
    """Operands as booleans: whether they are not zero."""
    return tuple([_nonzero(x) for x in args])


def _nonzero(x: Any) -> Any:
    if isinstance(x, _convert.SCALARS):
        return bool(x)
    aval = typeof(x)
    if aval.dtype == np.bool_:
        return x
    return p.ne(x, aval.dtype.type(0))


def _numbers(*args: Any) -> tuple[Any, ...]:
    """Promoted; booleans to the default integer."""
    args = promote_dtypes(*args)
    if typeof(args[0]).dtype == np.bool_:
        return tuple([cast(x, dtypes.default_int()) for x in args])
    return args


def _add(x: Any, y: Any) -> Any:
    return p.or_(x, y) if typeof(x).dtype == np.bool_ else p.add(x, y)


def _multiply(x: Any, y: Any) -> Any:
    return p.and_(x, y) if typeof(x).dtype == np.bool_ else p.mul(x, y)


def _subtract(x: Any, y: Any) -> Any:
    if typeof(x).dtype == np.bool_:
        raise TypeError(
            "subtract does not accept dtype bool: use logical_xor or bitwise_xor in its place"
        )
    return p.sub(x, y)


def _extreme(real: Any, choose: Any) -> Any:
    """max/min; complex numbers by real, then imaginary part."""

    def op(x: Any, y: Any) -> Any:
        if dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
            xr, yr = p.real(x), p.real(y)
            first = p.or_(choose(xr, yr), p.and_(p.eq(xr, yr), choose(p.imag(x), p.imag(y))))
            return p.where(p.or_(p.ne(x, x), first), x, y)
        return real(x, y)

    return op


def _ordered(op: Any, strict: Any) -> Any:
    """A comparison; complex numbers by real, then imaginary part."""

    def compare(x: Any, y: Any) -> Any:
        if dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
            xr, yr = p.real(x), p.real(y)
            return p.or_(strict(xr, yr), p.and_(p.eq(xr, yr), op(p.imag(x), p.imag(y))))
        return op(x, y)

    return compare


_UNARY = {
    "negative": (p.neg, _same, "The negative.", "cnp.negative(1.0) -> -1.0"),
    "sin": (p.sin, promote_inexact, "The sine of x radians.", "cnp.sin(0.0) -> 0.0"),
    "cos": (p.cos, promote_inexact, "The cosine of x radians.", "cnp.cos(0.0) -> 1.0"),
    "tan": (p.tan, promote_inexact, "The tangent of x radians.", "cnp.tan(0.0) -> 0.0"),
    "arcsin": (p.asin, promote_inexact, "The arc sine, in radians.", "cnp.arcsin(0.0) -> 0.0"),
    "arccos": (p.acos, promote_inexact, "The arc cosine, in radians.", "cnp.arccos(1.0) -> 0.0"),
    "arctan": (p.atan, promote_inexact, "The arc tangent, in radians.", "cnp.arctan(0.0) -> 0.0"),
    "sinh": (p.sinh, promote_inexact, "The hyperbolic sine.", "cnp.sinh(0.0) -> 0.0"),
    "cosh": (p.cosh, promote_inexact, "The hyperbolic cosine.", "cnp.cosh(0.0) -> 1.0"),
    "tanh": (p.tanh, promote_inexact, "The hyperbolic tangent.", "cnp.tanh(0.0) -> 0.0"),
    "arcsinh": (p.asinh, promote_inexact, "Inverse of sinh.", "cnp.arcsinh(0.0) -> 0.0"),
    "arccosh": (p.acosh, promote_inexact, "Inverse of cosh.", "cnp.arccosh(1.0) -> 0.0"),
    "arctanh": (p.atanh, promote_inexact, "Inverse of tanh.", "cnp.arctanh(0.0) -> 0.0"),
    "exp": (p.exp, promote_inexact, "e to the power x.", "cnp.exp(0.0) -> 1.0"),
    "exp2": (p.exp2, promote_inexact, "2 to the power x.", "cnp.exp2(3.0) -> 8.0"),
    "expm1": (p.expm1, promote_inexact, "exp(x) - 1, accurate near 0.", "cnp.expm1(0.0) -> 0.0"),
    "log": (p.log, promote_inexact, "The natural logarithm.", "cnp.log(1.0) -> 0.0"),
    "log1p": (p.log1p, promote_inexact, "log(1 + x), accurate near 0.", "cnp.log1p(0.0) -> 0.0"),
    "sqrt": (p.sqrt, promote_inexact, "The square root.", "cnp.sqrt(4.0) -> 2.0"),
    "cbrt": (p.cbrt, promote_inexact, "The cube root.", "cnp.cbrt(8.0) -> 2.0"),
    "square": (p.square, _same, "x times x.", "cnp.square(3) -> 9"),
    "floor": (p.floor, promote_inexact, "The integer below.", "cnp.floor(1.5) -> 1.0"),
    "ceil": (p.ceil, promote_inexact, "The integer above.", "cnp.ceil(1.5) -> 2.0"),
    "sign": (p.sign, _same, "-1, 0 or 1; z / |z| of complex.", "cnp.sign(-2.0) -> -1.0"),
    "bitwise_not": (p.not_, _same, "Every bit inverted.", "cnp.bitwise_not(0) -> -1"),
    "bitwise_count": (
        lambda x: cast(p.population_count(p.abs_(x) if typeof(x).dtype.kind == "i" else x),
                       np.dtype(np.uint8)),
        _numbers, "How many bits of |x| are set.", "cnp.bitwise_count(7) -> 3"),
    "logical_not": (p.not_, _booleans, "Whether x is zero.", "cnp.logical_not(0) -> True"),
}  # fmt: skip

_BINARY = {
    "add": (_add, promote_dtypes, "x + y; `or` of booleans.", "cnp.add(1, 2) -> 3"),
    "subtract": (_subtract, promote_dtypes, "x - y.", "cnp.subtract(3, 1) -> 2"),
    "multiply": (_multiply, promote_dtypes, "x * y; `and` of booleans.",
                 "cnp.multiply(2, 3) -> 6"),
    "divide": (p.div, promote_inexact, "x / y, a floating-point division.",
               "cnp.divide(1, 2) -> 0.5"),
    "maximum": (_extreme(p.max_, p.gt), promote_dtypes, "The larger; NaN if one is NaN.",
                "cnp.maximum(1, 2) -> 2"),
    "minimum": (_extreme(p.min_, p.lt), promote_dtypes, "The smaller; NaN if one is NaN.",
                "cnp.minimum(1, 2) -> 1"),
    "equal": (p.eq, promote_dtypes, "x == y.", "cnp.equal(1, 1) -> True"),
    "not_equal": (p.ne, promote_dtypes, "x != y.", "cnp.not_equal(1, 1) -> False"),
    "less": (_ordered(p.lt, p.lt), promote_dtypes, "x < y.", "cnp.less(1, 2) -> True"),
    "less_equal": (_ordered(p.le, p.lt), promote_dtypes, "x <= y.",
                   "cnp.less_equal(2, 2) -> True"),
    "greater": (_ordered(p.gt, p.gt), promote_dtypes, "x > y.", "cnp.greater(1, 2) -> False"),
    "greater_equal": (_ordered(p.ge, p.gt), promote_dtypes, "x >= y.",
                      "cnp.greater_equal(2, 2) -> True"),
    "bitwise_and": (p.and_, promote_dtypes, "Bits set in both.", "cnp.bitwise_and(6, 3) -> 2"),
    "bitwise_or": (p.or_, promote_dtypes, "Bits set in either.", "cnp.bitwise_or(6, 3) -> 7"),
    "bitwise_xor": (p.xor, promote_dtypes, "Bits set in just one.",
                    "cnp.bitwise_xor(6, 3) -> 5"),
    "left_shift": (p.shift_left, _numbers, "x * 2**y, by shifting.",
                   "cnp.left_shift(1, 3) -> 8"),
    "logical_and": (p.and_, _booleans, "Whether both are not zero.",
                    "cnp.logical_and(1, 0) -> False"),
    "logical_or": (p.or_, _booleans, "Whether one is not zero.",
                   "cnp.logical_or(1, 0) -> True"),
    "logical_xor": (p.xor, _booleans, "Whether just one is not zero.",
                    "cnp.logical_xor(1, 0) -> True"),
    "arctan2": (p.atan2, promote_inexact, "The angle of the point (y, x), in radians.",
                "cnp.arctan2(0.0, 1.0) -> 0.0"),
    "nextafter": (p.nextafter, promote_inexact, "The next number after x towards y.",
                  "cnp.nextafter(0.0, 0.0) -> 0.0"),
}  # fmt: skip

functions: dict[str, Any] = {
    **{name: _unary(name, *row) for name, row in _UNARY.items()},
    **{name: _binary(name, *row) for name, row in _BINARY.items()},
}


def abs(x: Any, /) -> Any:
    """The absolute value; of complex numbers a real one.

    >>> import covector.numpy as cnp
    >>> cnp.abs(-3).tolist()
    3
    """
    (x,) = operands("abs", x)
    dtype = typeof(x).dtype
    if dtype == np.bool_ or dtypes.issubdtype(dtype, np.unsignedinteger):
        return _convert.asarray_operand(x)
    return p.abs_(x)


def positive(x: Any, /) -> Any:
    """`x` itself, as an array.

    >>> import covector.numpy as cnp
    >>> cnp.positive(2).tolist()
    2
    """
    (x,) = operands("positive", x)
    return _convert.asarray_operand(x)


def reciprocal(x: Any, /) -> Any:
    """1 / x.

    >>> import covector.numpy as cnp
    >>> cnp.reciprocal(4.0).tolist()
    0.25
    """
    (x,) = promote_inexact(*operands("reciprocal", x))
    return p.div(typeof(x).dtype.type(1), x)


def log2(x: Any, /) -> Any:
    """The logarithm to base 2.

    >>> import covector.numpy as cnp
    >>> cnp.log2(8.0).tolist()
    3.0
    """
    (x,) = promote_inexact(*operands("log2", x))
    return _scaled_log(x, np.log(2))


def log10(x: Any, /) -> Any:
    """The logarithm to base 10.

    >>> import covector.numpy as cnp
    >>> round(cnp.log10(1000.0).tolist(), 5)
    3.0
    """
    (x,) = promote_inexact(*operands("log10", x))
    return _scaled_log(x, np.log(10))


def _scaled_log(x: Any, base: float) -> Any:
    return p.div(p.log(x), typeof(x).dtype.type(base))


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """x1 / x2 rounded down; integers stay integers.

    >>> import covector.numpy as cnp
    >>> cnp.floor_divide(-7, 2).tolist()
    -4
    """
    x1, x2 = broadcast("floor_divide", *_numbers(*operands("floor_divide", x1, x2)))
    dtype = typeof(x1).dtype
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return p.div(x1, x2)
    if dtypes.issubdtype(dtype, np.integer):
        quotient = p.div(x1, x2)
        rest = p.rem(x1, x2)
        down = p.and_(p.ne(p.sign(x1), p.sign(x2)), p.ne(rest, dtype.type(0)))
        return p.where(down, p.sub(quotient, dtype.type(1)), quotient)
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


def remainder(x1: Any, x2: Any, /) -> Any:
    """x1 - floor_divide(x1, x2) * x2: the sign is that of x2 (as Python's %).

    >>> import covector.numpy as cnp
    >>> cnp.remainder(-7, 3).tolist()
    2
    """
    x1, x2 = broadcast("remainder", *_numbers(*operands("remainder", x1, x2)))
    zero = typeof(x1).dtype.type(0)
    rest = p.rem(x1, x2)
    if dtypes.issubdtype(typeof(x1).dtype, np.unsignedinteger):
        return rest
    differ = p.ne(p.lt(rest, zero), p.lt(x2, zero))
    return p.where(p.and_(differ, p.ne(rest, zero)), p.add(rest, x2), rest)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder with the sign of x1 (as C's fmod).

    >>> import covector.numpy as cnp
    >>> cnp.fmod(-7.0, 3.0).tolist()
    -1.0
    """
    x1, x2 = broadcast("fmod", *_numbers(*operands("fmod", x1, x2)))
    if dtypes.issubdtype(typeof(x1).dtype, np.integer):
        zero = typeof(x2).dtype.type(0)
        return p.where(p.eq(x2, zero), zero, p.rem(x1, x2))
    return p.rem(x1, x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """(floor_divide(x1, x2), remainder(x1, x2)).

    >>> import covector.numpy as cnp
    >>> [v.tolist() for v in cnp.divmod(7, 3)]
    [2, 1]
    """
    x1, x2 = broadcast("divmod", *_numbers(*operands("divmod", x1, x2)))
    if dtypes.issubdtype(typeof(x1).dtype, np.integer):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    dtype = typeof(x1).dtype
    zero = dtype.type(0)
    rest = p.rem(x1, x2)
    quotient = p.div(p.sub(x1, rest), x2)
    moved = p.and_(p.ne(p.sign(x2), p.sign(rest)), p.ne(rest, zero))
    rest = p.where(moved, p.add(rest, x2), rest)
    quotient = p.where(moved, p.sub(quotient, dtype.type(1)), quotient)
    return p.round_(quotient, 1), rest


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; integers stay integers.

    A Python integer as exponent is expanded into multiplications.

    >>> import covector.numpy as cnp
    >>> cnp.power(2, 10).tolist()
    1024
    """
    x1, x2 = operands("power", x1, x2)
    base = typeof(x1)
    if isinstance(x2, int) and not isinstance(x2, bool) and base.dtype != np.bool_:
        return _power_by_int(x1, x2, base)
    x1, x2 = broadcast("power", *_numbers(x1, x2))
    dtype = typeof(x1).dtype
    if dtypes.issubdtype(dtype, np.integer):
        return _integer_power(x1, x2, dtype)
    return p.pow_(x1, x2)


def _power_by_int(x: Any, n: int, aval: Any) -> Any:
    if dtypes.issubdtype(aval.dtype, np.integer) and n < 0:
        if isinstance(x, int):
            x = cast(x, dtypes.default_int(), True)
        return _integer_power(*broadcast("power", *promote_dtypes(x, n)), aval.dtype)
    if n == 2:
        return p.square(x)
    return p.integer_pow(_convert.asarray_operand(x), n)


def _integer_power(x: Any, n: Any, dtype: Any) -> Any:
    """By squaring; a negative exponent gives 0 save for 1 and -1."""
    one, zero = dtype.type(1), dtype.type(0)
    shape = typeof(x).shape or typeof(n).shape
    total: Any = _convert.broadcast_to(one, shape)
    factor: Any = _convert.broadcast_to(x, shape) if shape != typeof(x).shape else x
    signed = dtypes.issubdtype(dtype, np.signedinteger)
    rest = p.max_(n, zero) if signed else n
    for _ in range(8 * dtype.itemsize - signed):
        odd = p.ne(p.and_(rest, one), zero)
        total = p.where(odd, p.mul(total, factor), total)
        factor = p.mul(factor, factor)
        rest = p.shift_right_logical(rest, one)
    if signed:
        alternate = p.where(p.eq(p.and_(n, one), zero), one, dtype.type(-1))
        small = p.where(p.eq(x, one), one, p.where(p.eq(x, dtype.type(-1)), alternate, zero))
        total = p.where(p.lt(n, zero), small, total)
    return total


def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y, in floating point.

    >>> import covector.numpy as cnp
    >>> cnp.float_power(2, -1).tolist()
    0.5
    """
    return p.pow_(*broadcast("float_power", *promote_inexact(*operands("float_power", x, y))))


def right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 / 2**x2 rounded down, by shifting.

    >>> import covector.numpy as cnp
    >>> cnp.right_shift(-8, 1).tolist()
    -4
    """
    x1, x2 = broadcast("right_shift", *_numbers(*operands("right_shift", x1, x2)))
    unsigned = dtypes.issubdtype(typeof(x1).dtype, np.unsignedinteger)
    return (p.shift_right_logical if unsigned else p.shift_right_arithmetic)(x1, x2)


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow; its gradient is finite everywhere.

    >>> import covector.numpy as cnp
    >>> round(cnp.logaddexp(0.0, 0.0).tolist(), 4)
    0.6931
    """
    x1, x2 = broadcast("logaddexp", *promote_inexact(*operands("logaddexp", x1, x2)))
    # The maximum as a choice, so that the derivative at equal arguments is the sum of two halves.
    larger, smaller = p.max_(x1, x2), p.min_(x1, x2)
    same = p.eq(larger, smaller)  # also where both are infinite
    gap = p.where(same, typeof(x1).dtype.type(0), p.sub(smaller, larger))
    return p.add(larger, p.log1p(p.exp(gap)))


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow.

    >>> import covector.numpy as cnp
    >>> cnp.logaddexp2(0.0, 0.0).tolist()
    1.0
    """
    x1, x2 = broadcast("logaddexp2", *promote_inexact(*operands("logaddexp2", x1, x2)))
    log_two = typeof(x1).dtype.type(np.log(2))
    return p.div(logaddexp(p.mul(x1, log_two), p.mul(x2, log_two)), log_two)


def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1² + x2²), without overflow.

    >>> import covector.numpy as cnp
    >>> cnp.hypot(3.0, 4.0).tolist()
    5.0
    """
    x1, x2 = broadcast("hypot", *promote_inexact(*operands("hypot", x1, x2)))
    if dtypes.issubdtype(typeof(x1).dtype, np.complexfloating):
        raise TypeError("hypot does not support complex-valued inputs")
    zero = typeof(x1).dtype.type(0)
    x1, x2 = p.abs_(x1), p.abs_(x2)
    large, small = p.max_(x1, x2), p.min_(x1, x2)
    ratio = p.where(p.eq(large, zero), zero, p.div(small, large))
    finite = p.mul(large, p.sqrt(p.add(p.square(ratio), typeof(ratio).dtype.type(1))))
    infinite = p.or_(isinf(x1), isinf(x2))
    return p.where(infinite, typeof(ratio).dtype.type(np.inf), finite)


def isnan(x: Any, /) -> Any:
    """Whether it is NaN.

    >>> import covector.numpy as cnp
    >>> cnp.isnan(cnp.nan).tolist()
    True
    """
    (x,) = operands("isnan", x)
    return p.ne(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether it is neither infinite nor NaN.

    >>> import covector.numpy as cnp
    >>> cnp.isfinite(1.0).tolist()
    True
    """
    (x,) = operands("isfinite", x)
    dtype = typeof(x).dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        return p.and_(p.is_finite(p.real(x)), p.is_finite(p.imag(x)))
    if dtypes.issubdtype(dtype, np.floating):
        return p.is_finite(x)
    return p.eq(x, x)


def isinf(x: Any, /) -> Any:
    """Whether it is infinite.

    >>> import covector.numpy as cnp
    >>> cnp.isinf(-cnp.inf).tolist()
    True
    """
    (x,) = operands("isinf", x)
    dtype = typeof(x).dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        return p.or_(isinf(p.real(x)), isinf(p.imag(x)))
    if dtypes.issubdtype(dtype, np.floating):
        return p.eq(p.abs_(x), dtype.type(np.inf))
    return p.ne(x, x)


def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """`x` where `condition` holds, else `y`; of a condition alone, `nonzero(condition)`.

    Both are computed; a derivative that is not finite in the branch not taken does no harm.

    >>> import covector.numpy as cnp
    >>> cnp.where(cnp.array([True, False]), 1, 2).tolist()
    [1, 2]
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("Either both or neither of the x and y arguments should be provided")
    condition, x, y = operands("where", condition, x, y)
    x, y = promote_dtypes(x, y)
    condition = _nonzero(condition)
    shape = _convert.broadcast_shapes(
        "where", typeof(condition).shape, typeof(x).shape, typeof(y).shape
    )
    condition, x, y = (_convert.broadcast_to(v, shape) for v in (condition, x, y))
    return p.where(condition, x, y)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Positions of the elements that are not zero, one array an axis.

    The result's shape depends on the values, so while tracing `size` must be given: the first
    `size` positions, padded with `fill_value` (0 by default).

    >>> import covector.numpy as cnp
    >>> cnp.nonzero(cnp.array([0, 5, 6]))[0].tolist()
    [1, 2]
    """
    (a,) = operands("nonzero", a)
    concrete = np.asarray(a)
    found = np.nonzero(np.atleast_1d(concrete))
    index = dtypes.default_int()
    if size is None:
        return tuple([_convert.asarray_operand(f.astype(index)) for f in found])
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(found)
    out = []
    for positions, fill in zip(found, fills, strict=True):
        padded = np.full(size, 0 if fill is None else fill, index)
        count = min(size, len(positions))
        padded[:count] = positions[:count]
        out.append(_convert.asarray_operand(padded))
    return tuple(out)
