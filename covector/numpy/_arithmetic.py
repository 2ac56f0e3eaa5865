"""Elementwise arithmetic that takes more than one operation: powers, quotients, logarithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.config import config
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._elementwise import isinf
from covector.numpy.convert import (
    array_operand,
    broadcast,
    is_kind,
    like,
    number,
    operands,
    promote,
    promote_inexact,
    promote_numeric,
    select,
)

point = ops.pointwise


def _zero(x: Any) -> Any:
    return like(x, 0)


def reciprocal(x: Any, /) -> Any:
    """1 / x, of integers as floats.

    >>> import covector.numpy as cnp
    >>> cnp.reciprocal(4.0).tolist()
    0.25
    """
    (x,) = promote_inexact(*operands("reciprocal", x))
    return point.reciprocal(x)


# Logarithms


def log2(x: Any, /) -> Any:
    """The logarithm to base 2.

    >>> import covector.numpy as cnp
    >>> cnp.log2(8.0).tolist()
    3.0
    """
    (x,) = promote_inexact(*operands("log2", x))
    return _over(point.log(x), np.log(2))


def log10(x: Any, /) -> Any:
    """The logarithm to base 10.

    >>> import covector.numpy as cnp
    >>> round(cnp.log10(1000.0).tolist(), 5)
    3.0
    """
    (x,) = promote_inexact(*operands("log10", x))
    return _over(point.log(x), np.log(10))


def _over(x: Any, value: Any) -> Any:
    """`x` over a real number, each part by itself."""
    if not is_kind(x, np.complexfloating):
        return point.div(x, number(x, value))
    parts = point.real(x), point.imag(x)
    return point.complex_(*(point.div(v, number(v, value)) for v in parts))


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow; its gradient is finite everywhere.

    >>> import covector.numpy as cnp
    >>> round(cnp.logaddexp(0.0, 0.0).tolist(), 4)
    0.6931
    """
    given = operands("logaddexp", x1, x2)
    out = _logaddexp(*broadcast("logaddexp", *promote_inexact(*given)))
    if is_kind(out, np.complexfloating) and not all(typeof(x).weak_type for x in given):
        return convert.strong(out, typeof(out).dtype)
    return out


def _logaddexp(x1: Any, x2: Any) -> Any:
    larger = point.max_(x1, x2)
    # Not |x1 - x2|, whose derivative is 0 where both are equal: each has a half of it there.
    gap = point.sub(point.min_(x1, x2), larger)
    if is_kind(larger, np.complexfloating):
        same = point.eq(point.real(x1), point.real(x2))
        infinite = isinf(point.real(larger))
    else:
        same, infinite = point.eq(x1, x2), isinf(larger)
    gap = select(point.and_(same, infinite), like(gap, 0), gap)
    out = point.add(larger, point.log1p(point.exp(gap)))
    return _principal(out) if is_kind(out, np.complexfloating) else out


def _principal(z: Any) -> Any:
    """The logarithm with its imaginary part in (-pi, pi]."""
    real, imaginary = point.real(z), point.imag(z)
    turn = like(imaginary, 2 * float(np.pi))
    turns = point.ceil(point.sub(point.div(imaginary, turn), like(imaginary, 0.5)))
    return point.complex_(real, point.sub(imaginary, point.mul(turns, turn)))


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow.

    >>> import covector.numpy as cnp
    >>> cnp.logaddexp2(0.0, 0.0).tolist()
    1.0
    """
    x1, x2 = broadcast("logaddexp2", *promote_inexact(*operands("logaddexp2", x1, x2)))
    log_two = like(x1, float(np.log(2)))
    return point.div(_logaddexp(point.mul(x1, log_two), point.mul(x2, log_two)), log_two)


# Quotients and remainders


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """x1 / x2 rounded down; integers stay integers.

    >>> import covector.numpy as cnp
    >>> cnp.floor_divide(-7, 2).tolist()
    -4
    """
    x1, x2 = broadcast("floor_divide", *promote_numeric(*operands("floor_divide", x1, x2)))
    return _floor_divide(x1, x2)


def _floor_divide(x1: Any, x2: Any) -> Any:
    if is_kind(x1, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs")
    if is_kind(x1, np.unsignedinteger):
        return point.div(x1, x2)
    if is_kind(x1, np.integer):
        quotient, one = point.div(x1, x2), like(x1, 1)
        uneven = point.ne(point.rem(x1, x2), _zero(x1))
        down = point.and_(point.ne(point.sign(x1), point.sign(x2)), uneven)
        return select(down, point.sub(quotient, one), quotient)
    return _float_divmod(x1, x2)[0]


def remainder(x1: Any, x2: Any, /) -> Any:
    """x1 - floor_divide(x1, x2) * x2: the sign is that of x2 (as Python's %).

    >>> import covector.numpy as cnp
    >>> cnp.remainder(-7, 3).tolist()
    2
    """
    x1, x2 = broadcast("remainder", *promote_numeric(*operands("remainder", x1, x2)))
    return _remainder(x1, x2)


mod = remainder


def _remainder(x1: Any, x2: Any) -> Any:
    rest, zero = _rest(x1, x2), _zero(x1)
    if is_kind(x1, np.unsignedinteger):
        return rest
    differ = point.ne(point.lt(rest, zero), point.lt(x2, zero))
    return select(point.and_(differ, point.ne(rest, zero)), point.add(rest, x2), rest)


def _rest(x1: Any, x2: Any) -> Any:
    """The remainder with the sign of x1; of integers, 0 where the divisor is."""
    rest = point.rem(x1, x2)
    if not is_kind(x1, np.integer):
        return rest
    return select(point.eq(x2, _zero(x2)), _zero(x1), rest)


def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder with the sign of x1 (as C's fmod).

    >>> import covector.numpy as cnp
    >>> cnp.fmod(-7.0, 3.0).tolist()
    -1.0
    """
    x1, x2 = broadcast("fmod", *promote_numeric(*operands("fmod", x1, x2)))
    return _rest(x1, x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """(floor_divide(x1, x2), remainder(x1, x2)).

    >>> import covector.numpy as cnp
    >>> [v.tolist() for v in cnp.divmod(7, 3)]
    [2, 1]
    """
    x1, x2 = broadcast("divmod", *promote_numeric(*operands("divmod", x1, x2)))
    if is_kind(x1, np.integer):
        return _floor_divide(x1, x2), _remainder(x1, x2)
    if is_kind(x1, np.complexfloating):
        raise TypeError("divmod does not support complex-valued inputs")
    return _float_divmod(x1, x2)


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    zero, one = _zero(x1), like(x1, 1)
    rest = point.rem(x1, x2)
    dividend = select(point.eq(x2, zero), x1, point.sub(x1, rest))  # x / 0 is infinite, not NaN
    quotient = point.div(dividend, x2)
    differ = point.ne(point.sign(x2), point.sign(rest))
    moved = point.and_(point.ne(rest, zero), differ)
    quotient = select(moved, point.sub(quotient, one), quotient)
    return point.round_(quotient), select(moved, point.add(rest, x2), rest)


def modf(x: Any, /, out: Any = None) -> tuple[Any, Any]:
    """(fractional part, whole part), both with the sign of x.

    >>> import covector.numpy as cnp
    >>> [v.tolist() for v in cnp.modf(-1.5)]
    [-0.5, -1.0]
    """
    convert.refuse_out("modf", out)
    (x,) = promote_inexact(*operands("modf", x))
    if is_kind(x, np.complexfloating):
        raise TypeError("modf does not support complex-valued inputs")
    whole = select(point.ge(x, like(x, 0)), point.floor(x), point.ceil(x))
    return point.sub(x, whole), whole


# Powers


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; integers stay integers.

    A Python integer as exponent is expanded into multiplications.  Raises TypeError for an integer
    to the power of a negative Python integer.

    >>> import covector.numpy as cnp
    >>> cnp.power(2, 10).tolist()
    1024
    """
    x1, x2 = operands("power", x1, x2)
    if isinstance(x2, int) and not isinstance(x2, bool):
        if typeof(x1).dtype == np.bool_:
            x1 = convert.cast(x1, np.dtype(np.int32))
        return point.square(x1) if x2 == 2 else point.integer_pow(array_operand("power", x1), x2)
    if is_kind(x2, np.integer) and is_kind(x1, np.inexact):
        dtype, weak = dtypes.result_type(x1, x2, return_weak_type_flag=True)
        return point.pow_(*broadcast("power", convert.cast(x1, dtype, weak), x2))
    x1, x2 = broadcast("power", *promote_numeric(x1, x2))
    if not is_kind(x1, np.integer):
        return point.pow_(x1, x2)
    return convert.strong(_integer_power(x1, x2), typeof(x1).dtype)


pow = power


def _integer_power(x: Any, n: Any) -> Any:
    """By squaring; a negative exponent gives 0 save for the bases 1 and -1."""
    zero, one = _zero(x), like(x, 1)
    signed = is_kind(x, np.signedinteger)
    total, factor, rest = one, x, n
    for _ in range(8 * typeof(x).dtype.itemsize - signed):
        odd = point.ne(point.and_(rest, one), zero)
        total = select(odd, point.mul(total, factor), total)
        factor = point.mul(factor, factor)
        rest = point.shift_right_logical(rest, one)
    if not signed:
        return total
    odd = point.ne(point.and_(n, one), zero)
    minus_one = like(x, -1)
    of_minus_one = select(odd, minus_one, one)
    inverse = select(point.eq(x, one), one, select(point.eq(x, minus_one), of_minus_one, zero))
    return select(point.lt(n, zero), inverse, total)


def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1² + x2²), without overflow.

    >>> import covector.numpy as cnp
    >>> cnp.hypot(3.0, 4.0).tolist()
    5.0
    """
    x1, x2 = broadcast("hypot", *promote_inexact(*operands("hypot", x1, x2)))
    if is_kind(x1, np.complexfloating):
        raise ValueError("hypot does not support complex-valued inputs")
    x1, x2 = point.abs_(x1), point.abs_(x2)
    large, small = point.max_(x1, x2), point.min_(x1, x2)
    empty = point.eq(large, like(large, 0))
    ratio = point.div(small, select(empty, like(large, 1), large))
    finite = point.mul(large, point.sqrt(point.add(point.square(ratio), like(large, 1))))
    finite = select(empty, large, finite)
    infinite = point.or_(isinf(x1), isinf(x2))
    return select(infinite, like(large, float("inf")), finite)


def safe_sqrt(x: Any) -> Any:
    """The square root of what is not negative, whose derivative at 0 counts as 0."""
    return without_kink(point.sqrt, x, like(x, 0))


def without_kink(root: Callable[[Any], Any], x: Any, at_zero: Any) -> Any:
    """`root(x)`, whose derivative at 0 counts as 0 (unless that is to be as IEEE has it)."""
    if config.singular_derivatives == "ieee":
        return root(x)
    zero = point.eq(x, like(x, 0))
    return select(zero, at_zero, root(select(zero, like(x, 1), x)))


# Extrema that ignore NaN, steps


def fmax(x1: Any, x2: Any) -> Any:
    """The larger; where one is NaN, the other.

    >>> import covector.numpy as cnp
    >>> cnp.fmax(1.0, cnp.nan).tolist()
    1.0
    """
    return _ignoring_nan("fmax", point.max_, x1, x2)


def fmin(x1: Any, x2: Any) -> Any:
    """The smaller; where one is NaN, the other.

    >>> import covector.numpy as cnp
    >>> cnp.fmin(1.0, cnp.nan).tolist()
    1.0
    """
    return _ignoring_nan("fmin", point.min_, x1, x2)


def _ignoring_nan(who: str, choose: Any, x1: Any, x2: Any) -> Any:
    x1, x2 = broadcast(who, *promote(*operands(who, x1, x2)))
    best = choose(x1, x2)
    if not is_kind(x1, np.inexact):
        return best
    best = select(point.ne(x2, x2), x1, best)
    return select(point.ne(x1, x1), x2, best)


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where x1 < 0, x2 where x1 is 0, 1 where x1 > 0.

    >>> import covector.numpy as cnp
    >>> cnp.heaviside(cnp.array([-1.0, 0.0, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    x1, x2 = broadcast("heaviside", *promote_inexact(*operands("heaviside", x1, x2)))
    zero = like(x1, 0)
    above = select(point.gt(x1, zero), like(x1, 1), select(point.ne(x1, x1), x1, x2))
    return select(point.lt(x1, zero), zero, above)
