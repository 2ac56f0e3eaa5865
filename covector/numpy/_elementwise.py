"""Elementwise functions: operands are promoted to one dtype, broadcast to one shape, and bound.

Each statement declares one: name, operation, promotion, what it computes, an example.  Those that
take more than one operation are in `_arithmetic` and `_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy.convert import (
    SCALARS,
    array_operand,
    broadcast,
    cast,
    is_kind,
    operands,
    promote,
    promote_inexact,
    promote_numeric,
)
from covector.runtime.eager import eager

point = ops.pointwise
Promotion = Callable[..., tuple[Any, ...]]


def operation(op: Any) -> Any:
    """An operation; or that of a name, whose family is loaded with the first that is wanted."""
    return getattr(point, op) if isinstance(op, str) else op


def unary(name: str, op: Any, promotion: Promotion, what: str, example: str) -> Any:
    """Declare a function of one argument."""

    def function(x: Any, /) -> Any:
        return operation(op)(*promotion(*operands(name, x)))

    return eager(named(function, name, what, example))


def binary(name: str, op: Any, promotion: Promotion, what: str, example: str) -> Any:
    """Declare a function of two arguments."""

    def function(x: Any, y: Any, /) -> Any:
        x, y = promotion(*operands(name, x, y))
        return operation(op)(*broadcast(name, x, y))

    return eager(named(function, name, what, example), arrays=2)


def numbered(name: str, op: Any, promotion: Promotion, what: str, example: str) -> Any:
    """Declare a function of two arguments whose names are `x1` and `x2`."""

    def function(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promotion(*operands(name, x1, x2))
        return operation(op)(*broadcast(name, x1, x2))

    return eager(named(function, name, what, example), arrays=2)


def named(function: Any, name: str, what: str, example: str) -> Any:
    """`function` with its public name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "covector.numpy"
    call, result = example.split(" -> ")
    function.__doc__ = f"""{what}

Element by element; arrays, NumPy arrays or scalars, promoted to one dtype and broadcast to one
shape. Raises TypeError for anything else, such as a list, and ValueError for shapes that do not
fit.

>>> import covector.numpy as cnp
>>> {call}.tolist()
{result}
"""
    return function


# Promotions beside those of `convert`


def same(*args: Any) -> tuple[Any, ...]:
    """As they are."""
    return args


def truth(*args: Any) -> tuple[Any, ...]:
    """Operands as booleans: whether they are not zero."""
    return promote(*[nonzero_mask(x) for x in args])


def nonzero_mask(x: Any) -> Any:
    """Whether the elements of `x` are not zero."""
    if isinstance(x, SCALARS):
        return bool(x)
    aval = typeof(x)
    return x if aval.dtype == np.bool_ else point.ne(x, np.zeros((), aval.dtype)[()])


# Operations made of several, or chosen by dtype


def _or(x: Any, y: Any) -> Any:
    return point.or_(x, y) if typeof(x).dtype == np.bool_ else point.add(x, y)


def _and(x: Any, y: Any) -> Any:
    return point.and_(x, y) if typeof(x).dtype == np.bool_ else point.mul(x, y)


def _subtract(x: Any, y: Any) -> Any:
    if typeof(x).dtype == np.bool_:
        raise TypeError("subtract does not accept dtype bool: use logical_xor in its place")
    return point.sub(x, y)


def _ordered(name: str, strict: str) -> Any:
    """A comparison; complex numbers by their real, then their imaginary part."""

    def compare(x: Any, y: Any) -> Any:
        real = operation(name)
        if not is_kind(x, np.complexfloating):
            return real(x, y)
        xr, yr = point.real(x), point.real(y)
        second = point.and_(point.eq(xr, yr), real(point.imag(x), point.imag(y)))
        return point.or_(operation(strict)(xr, yr), second)

    return compare


def _integral(op: str) -> Any:
    """Rounding: integers and booleans are whole already."""

    def round_(x: Any) -> Any:
        if is_kind(x, np.integer) or typeof(x).dtype == np.bool_:
            return array_operand("", x)
        return operation(op)(x)

    return round_


def _absolute(x: Any) -> Any:
    if typeof(x).dtype == np.bool_ or is_kind(x, np.unsignedinteger):
        return array_operand("abs", x)
    return point.abs_(x)


def _bitwise_count(x: Any) -> Any:
    bits = point.abs_(x) if is_kind(x, np.signedinteger) else x
    if typeof(x).dtype == np.bool_:
        return cast(array_operand("", x), np.dtype(np.uint8))
    return cast(point.population_count(bits), np.dtype(np.uint8))


def _cbrt(x: Any) -> Any:
    if is_kind(x, np.complexfloating):
        raise TypeError("cbrt does not accept complex numbers")
    return point.cbrt(x)


def _right_shift(x: Any, y: Any) -> Any:
    unsigned = is_kind(x, np.unsignedinteger)
    return (point.shift_right_logical if unsigned else point.shift_right_arithmetic)(x, y)


def _real(x: Any) -> Any:
    return point.real(x) if is_kind(x, np.complexfloating) else array_operand("real", x)


def _imag(x: Any) -> Any:
    if is_kind(x, np.complexfloating):
        return point.imag(x)
    return ops.shape.broadcast_to(array_operand("imag", ops.families.like(x, 0)), typeof(x).shape)


def _conj(x: Any) -> Any:
    return point.conj(x) if is_kind(x, np.complexfloating) else array_operand("conj", x)


def _is_finite(x: Any) -> Any:
    if is_kind(x, np.complexfloating):
        return point.and_(point.is_finite(point.real(x)), point.is_finite(point.imag(x)))
    return point.is_finite(x) if is_kind(x, np.floating) else point.eq(x, x)


def _is_infinite(x: Any) -> Any:
    if is_kind(x, np.complexfloating):
        return point.or_(_is_infinite(point.real(x)), _is_infinite(point.imag(x)))
    if is_kind(x, np.floating):
        return point.eq(point.abs_(x), np.asarray(np.inf).astype(typeof(x).dtype)[()])
    return point.ne(x, x)


# Of one argument: signs, parts, rounding

abs = absolute = unary(
    "abs", _absolute, same, "The absolute value; of complex numbers a real one.",
    "cnp.abs(-3) -> 3",
)  # fmt: skip
positive = unary("positive", lambda x: array_operand("positive", x), same, "`x` itself.",
                 "cnp.positive(2) -> 2")  # fmt: skip
negative = unary("negative", "neg", same, "The negative.", "cnp.negative(1.0) -> -1.0")
sign = unary("sign", "sign", same, "-1, 0 or 1; z / |z| of complex.", "cnp.sign(-2.0) -> -1.0")
square = unary("square", "square", promote_numeric, "x times x.", "cnp.square(3) -> 9")
real = unary("real", _real, same, "The real part.", "cnp.real(1 + 2j) -> 1.0")
imag = unary("imag", _imag, same, "The imaginary part.", "cnp.imag(1 + 2j) -> 2.0")
conj = conjugate = unary(
    "conjugate", _conj, same, "The complex conjugate.", "cnp.conj(1 + 2j) -> (1-2j)"
)
floor = unary("floor", _integral("floor"), same, "The integer below.", "cnp.floor(1.5) -> 1.0")
ceil = unary("ceil", _integral("ceil"), same, "The integer above.", "cnp.ceil(1.5) -> 2.0")

# Powers, exponentials, logarithms

sqrt = unary("sqrt", "sqrt", promote_inexact, "The square root.", "cnp.sqrt(4.0) -> 2.0")
cbrt = unary("cbrt", _cbrt, promote_inexact, "The cube root.", "cnp.cbrt(8.0) -> 2.0")
exp = unary("exp", "exp", promote_inexact, "e to the power x.", "cnp.exp(0.0) -> 1.0")
exp2 = unary("exp2", "exp2", promote_inexact, "2 to the power x.", "cnp.exp2(3.0) -> 8.0")
expm1 = unary("expm1", "expm1", promote_inexact, "exp(x) - 1, accurate near 0.",
              "cnp.expm1(0.0) -> 0.0")  # fmt: skip
log = unary("log", "log", promote_inexact, "The natural logarithm.", "cnp.log(1.0) -> 0.0")
log1p = unary("log1p", "log1p", promote_inexact, "log(1 + x), accurate near 0.",
              "cnp.log1p(0.0) -> 0.0")  # fmt: skip

# Circular and hyperbolic functions

sin = unary("sin", "sin", promote_inexact, "The sine of x radians.", "cnp.sin(0.0) -> 0.0")
cos = unary("cos", "cos", promote_inexact, "The cosine of x radians.", "cnp.cos(0.0) -> 1.0")
tan = unary("tan", "tan", promote_inexact, "The tangent of x radians.", "cnp.tan(0.0) -> 0.0")
arcsin = asin = unary("arcsin", "asin", promote_inexact, "The arc sine, in radians.",
                      "cnp.arcsin(0.0) -> 0.0")  # fmt: skip
arccos = acos = unary("arccos", "acos", promote_inexact, "The arc cosine, in radians.",
                      "cnp.arccos(1.0) -> 0.0")  # fmt: skip
arctan = atan = unary("arctan", "atan", promote_inexact, "The arc tangent, in radians.",
                      "cnp.arctan(0.0) -> 0.0")  # fmt: skip
sinh = unary("sinh", "sinh", promote_inexact, "The hyperbolic sine.", "cnp.sinh(0.0) -> 0.0")
cosh = unary("cosh", "cosh", promote_inexact, "The hyperbolic cosine.", "cnp.cosh(0.0) -> 1.0")
tanh = unary("tanh", "tanh", promote_inexact, "The hyperbolic tangent.",
             "cnp.tanh(0.0) -> 0.0")  # fmt: skip
arcsinh = asinh = unary("arcsinh", "asinh", promote_inexact, "The inverse of sinh.",
                        "cnp.arcsinh(0.0) -> 0.0")  # fmt: skip
arccosh = acosh = unary("arccosh", "acosh", promote_inexact, "The inverse of cosh.",
                        "cnp.arccosh(1.0) -> 0.0")  # fmt: skip
arctanh = atanh = unary("arctanh", "atanh", promote_inexact, "The inverse of tanh.",
                        "cnp.arctanh(0.0) -> 0.0")  # fmt: skip

# Bits and truth

bitwise_not = invert = bitwise_invert = unary(
    "bitwise_not", "not_", same, "Every bit inverted.", "cnp.bitwise_not(0) -> -1"
)
bitwise_count = unary(
    "bitwise_count", _bitwise_count, same, "How many bits of |x| are set.",
    "cnp.bitwise_count(7) -> 3",
)  # fmt: skip
logical_not = unary("logical_not", "not_", truth, "Whether x is zero.",
                    "cnp.logical_not(0) -> True")  # fmt: skip
isnan = unary("isnan", lambda x: point.ne(x, x), same, "Whether it is NaN.",
              "cnp.isnan(cnp.nan) -> True")  # fmt: skip
isfinite = unary("isfinite", _is_finite, same, "Whether it is neither infinite nor NaN.",
                 "cnp.isfinite(1.0) -> True")  # fmt: skip
isinf = unary("isinf", _is_infinite, same, "Whether it is infinite.",
              "cnp.isinf(-cnp.inf) -> True")  # fmt: skip

# Of two arguments

add = binary("add", _or, promote, "x + y; `or` of booleans.", "cnp.add(1, 2) -> 3")
subtract = binary("subtract", _subtract, promote, "x - y.", "cnp.subtract(3, 1) -> 2")
multiply = binary("multiply", _and, promote, "x * y; `and` of booleans.",
                  "cnp.multiply(2, 3) -> 6")  # fmt: skip
divide = true_divide = numbered("divide", "div", promote_inexact,
                                "x1 / x2, a floating-point division.",
                                "cnp.divide(1, 2) -> 0.5")  # fmt: skip
maximum = binary("maximum", "max_", promote, "The larger; NaN if one is NaN.",
                 "cnp.maximum(1, 2) -> 2")  # fmt: skip
minimum = binary("minimum", "min_", promote, "The smaller; NaN if one is NaN.",
                 "cnp.minimum(1, 2) -> 1")  # fmt: skip
equal = binary("equal", "eq", promote, "x == y.", "cnp.equal(1, 1) -> True")
not_equal = binary("not_equal", "ne", promote, "x != y.", "cnp.not_equal(1, 1) -> False")
less = binary("less", _ordered("lt", "lt"), promote, "x < y.", "cnp.less(1, 2) -> True")
less_equal = binary("less_equal", _ordered("le", "lt"), promote, "x <= y.",
                    "cnp.less_equal(2, 2) -> True")  # fmt: skip
greater = binary("greater", _ordered("gt", "gt"), promote, "x > y.",
                 "cnp.greater(1, 2) -> False")  # fmt: skip
greater_equal = binary("greater_equal", _ordered("ge", "gt"), promote, "x >= y.",
                       "cnp.greater_equal(2, 2) -> True")  # fmt: skip
bitwise_and = binary("bitwise_and", "and_", promote, "Bits set in both.",
                     "cnp.bitwise_and(6, 3) -> 2")  # fmt: skip
bitwise_or = binary("bitwise_or", "or_", promote, "Bits set in either.",
                    "cnp.bitwise_or(6, 3) -> 7")  # fmt: skip
bitwise_xor = binary("bitwise_xor", "xor", promote, "Bits set in just one.",
                     "cnp.bitwise_xor(6, 3) -> 5")  # fmt: skip
left_shift = bitwise_left_shift = binary(
    "left_shift", "shift_left", promote_numeric, "x * 2**y, by shifting.",
    "cnp.left_shift(1, 3) -> 8",
)  # fmt: skip
right_shift = bitwise_right_shift = numbered(
    "right_shift", _right_shift, promote_numeric, "x1 / 2**x2 rounded down, by shifting.",
    "cnp.right_shift(-8, 1) -> -4",
)  # fmt: skip
logical_and = binary("logical_and", "and_", truth, "Whether both are not zero.",
                     "cnp.logical_and(1, 0) -> False")  # fmt: skip
logical_or = binary("logical_or", "or_", truth, "Whether one is not zero.",
                    "cnp.logical_or(1, 0) -> True")  # fmt: skip
logical_xor = binary("logical_xor", "xor", truth, "Whether just one is not zero.",
                     "cnp.logical_xor(1, 0) -> True")  # fmt: skip
arctan2 = atan2 = numbered(
    "arctan2", "atan2", promote_inexact, "The angle of the point (x2, x1), in radians.",
    "cnp.arctan2(0.0, 1.0) -> 0.0",
)  # fmt: skip
nextafter = binary("nextafter", "nextafter", promote_inexact,
                   "The next number after x towards y.",
                   "cnp.nextafter(0.0, 0.0) -> 0.0")  # fmt: skip
float_power = binary("float_power", "pow_", promote_inexact,
                     "x to the power y, in floating point.",
                     "cnp.float_power(2, -1) -> 0.5")  # fmt: skip
