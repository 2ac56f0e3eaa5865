"""What numbers are made of and how they are written: signs, rounding, exponents, special values."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._elementwise import isfinite
from covector.numpy.convert import (
    array_operand,
    broadcast,
    cast,
    is_kind,
    like,
    number,
    operands,
    promote,
    promote_inexact,
    select,
)
from covector.runtime.eager import eager

point = ops.pointwise

#: For each float dtype: bits of the mantissa, bias of the exponent, the integer of its width.
_FORMATS = {
    dtypes.as_dtype(name): (mantissa, bias, np.dtype(whole))
    for name, mantissa, bias, whole in (
        ("float16", 10, 15, np.int16),
        ("bfloat16", 7, 127, np.int16),
        ("float32", 23, 127, np.int32),
        ("float64", 52, 1023, np.int64),
    )
}


# Signs


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set: of negative numbers and of -0.0.

    >>> import covector.numpy as cnp
    >>> cnp.signbit(-0.0).tolist()
    True
    """
    (x,) = operands("signbit", x)
    if is_kind(x, np.complexfloating):
        raise ValueError("signbit is not well-defined for complex-valued inputs")
    aval = typeof(x)
    if not is_kind(x, np.floating):
        signed = is_kind(x, np.signedinteger)
        return point.lt(x, number(x, 0)) if signed else point.ne(x, x)
    if aval.dtype not in _FORMATS:
        x = cast(x, np.dtype(np.float32))
    whole = _FORMATS[typeof(x).dtype][2]
    return point.lt(ops.cast.bitcast_convert_type(x, whole), whole.type(0))


def copysign(x1: Any, x2: Any, /) -> Any:
    """The magnitude of x1 with the sign of x2.

    >>> import covector.numpy as cnp
    >>> cnp.copysign(1.0, -0.0).tolist()
    -1.0
    """
    x1, x2 = broadcast("copysign", *promote_inexact(*operands("copysign", x1, x2)))
    if is_kind(x1, np.complexfloating):
        raise TypeError("copysign does not support complex-valued inputs")
    size = point.abs_(x1)
    return select(signbit(x2), point.neg(size), size)


def fabs(x: Any, /) -> Any:
    """The absolute value of a real number, as a float.

    >>> import covector.numpy as cnp
    >>> cnp.fabs(-3).tolist()
    3.0
    """
    (x,) = promote_inexact(*operands("fabs", x))
    if is_kind(x, np.complexfloating):
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return point.abs_(x)


def isposinf(x: Any, /, out: Any = None) -> Any:
    """Whether it is +inf.

    >>> import covector.numpy as cnp
    >>> cnp.isposinf(cnp.inf).tolist()
    True
    """
    return _is_signed_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: Any = None) -> Any:
    """Whether it is -inf.

    >>> import covector.numpy as cnp
    >>> cnp.isneginf(-cnp.inf).tolist()
    True
    """
    return _is_signed_infinity("isneginf", x, -np.inf, out)


def _is_signed_infinity(who: str, x: Any, infinity: float, out: Any) -> Any:
    convert.refuse_out(who, out)
    (x,) = operands(who, x)
    if is_kind(x, np.complexfloating):
        raise ValueError(f"{who} is not well-defined for complex-valued inputs")
    return point.eq(x, number(x, infinity)) if is_kind(x, np.floating) else point.ne(x, x)


# Complex numbers


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a complex number in the plane, in radians, or degrees if `deg`.

    >>> import covector.numpy as cnp
    >>> f"{float(cnp.angle(1j)):.4f}"
    '1.5708'
    """
    (z,) = operands("angle", z)
    if is_kind(z, np.complexfloating):
        out = point.atan2(point.imag(z), point.real(z))
    else:
        x = z if is_kind(z, np.floating) else cast(z, dtypes.default_float())
        out = select(signbit(x), number(x, np.pi), number(x, 0))
        out = select(point.ne(x, x), x, out)
    return point.mul(out, like(out, 180 / np.pi)) if deg else out


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not zero.

    >>> import covector.numpy as cnp
    >>> cnp.iscomplex(1 + 0j).tolist()
    False
    """
    (x,) = operands("iscomplex", x)
    if is_kind(x, np.complexfloating):
        imaginary = point.imag(x)
        return point.ne(imaginary, number(imaginary, 0))
    return ops.shape.full(typeof(x).shape, False, np.bool_)


def isreal(x: Any) -> Any:
    """Whether the imaginary part is zero.

    >>> import covector.numpy as cnp
    >>> cnp.isreal(1 + 0j).tolist()
    True
    """
    (x,) = operands("isreal", x)
    if is_kind(x, np.complexfloating):
        imaginary = point.imag(x)
        return point.eq(imaginary, number(imaginary, 0))
    return ops.shape.full(typeof(x).shape, True, np.bool_)


# Rounding


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """`a` rounded to so many decimals, halves to even.

    Raises NotImplementedError for integers and a negative number of decimals.

    >>> import covector.numpy as cnp
    >>> cnp.round(2.5).tolist()
    2.0
    """
    (a,) = operands("round", a)
    convert.refuse_out("round", out)
    decimals = int(convert.concrete(decimals, "the argument `decimals` of round"))
    if typeof(a).dtype == np.bool_:
        raise ValueError("round does not accept booleans")
    if is_kind(a, np.integer):
        if decimals < 0:
            raise NotImplementedError("round: integers are not rounded to decimals < 0")
        return array_operand("round", a)
    if is_kind(a, np.complexfloating):
        return point.complex_(*(_round(part, decimals) for part in (point.real(a), point.imag(a))))
    return _round(a, decimals)


around = round


def _round(x: Any, decimals: int) -> Any:
    if not decimals:
        return point.round_(x, 1)
    aval = typeof(x)
    wide = x if aval.dtype.itemsize > 2 else cast(x, np.dtype(np.float32))
    factor = like(wide, 10.0**decimals)
    out = point.div(point.round_(point.mul(wide, factor), 1), factor)
    return cast(out, aval.dtype, aval.weak_type)


def rint(x: Any, /) -> Any:
    """The nearest whole number, halves to even.

    >>> import covector.numpy as cnp
    >>> cnp.rint(1.5).tolist()
    2.0
    """
    (x,) = operands("rint", x)
    if not is_kind(x, np.inexact):
        return convert.strong(x, dtypes.to_inexact_dtype(typeof(x).dtype))
    return round(x)


def trunc(x: Any) -> Any:
    """The whole part: rounded towards zero.

    >>> import covector.numpy as cnp
    >>> cnp.trunc(-1.5).tolist()
    -1.0
    """
    (x,) = operands("trunc", x)
    if is_kind(x, np.complexfloating):
        raise TypeError("trunc does not support complex-valued inputs")
    if not is_kind(x, np.floating):
        return array_operand("trunc", x)
    return select(point.lt(x, like(x, 0)), point.ceil(x), point.floor(x))


# Exponent and mantissa


def frexp(x: Any, /) -> tuple[Any, Any]:
    """(m, n) with x = m * 2**n and 0.5 <= |m| < 1; of 0, infinities and NaN, (x, 0).

    >>> import covector.numpy as cnp
    >>> [v.tolist() for v in cnp.frexp(6.0)]
    [0.75, 3]
    """
    (x,) = promote_inexact(*operands("frexp", x))
    if is_kind(x, np.complexfloating):
        raise TypeError("frexp does not support complex-valued inputs")
    dtype = typeof(x).dtype
    if dtype not in _FORMATS:
        rest, exponent = frexp(convert.strong(x, np.dtype(np.float32)))
        return cast(rest, dtype), exponent
    mantissa, bias, whole = _FORMATS[dtype]
    # Subnormal numbers have no exponent of their own: scale them up first.
    tiny = point.lt(point.abs_(x), number(x, float(dtypes.finfo(dtype).tiny)))
    scaled = select(tiny, point.mul(x, number(x, 2.0 ** (mantissa + 1))), x)
    bits = ops.cast.bitcast_convert_type(scaled, whole)
    field = ((1 << (dtype.itemsize * 8 - 1 - mantissa)) - 1) << mantissa
    biased = point.shift_right_logical(point.and_(bits, whole.type(field)), whole.type(mantissa))
    exponent = cast(biased, np.dtype(np.int32))
    exponent = point.sub(exponent, np.int32(bias - 1))
    exponent = select(tiny, point.sub(exponent, np.int32(mantissa + 1)), exponent)
    cleared = point.and_(bits, whole.type(~field))
    rest = ops.cast.bitcast_convert_type(
        point.or_(cleared, whole.type((bias - 1) << mantissa)), dtype
    )
    special = point.or_(point.eq(x, number(x, 0)), point.not_(point.is_finite(x)))
    return select(special, x, rest), select(special, np.int32(0), exponent)


def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2, for integers x2, without overflow on the way.

    >>> import covector.numpy as cnp
    >>> cnp.ldexp(0.75, 3).tolist()
    6.0
    """
    x1, x2 = operands("ldexp", x1, x2)
    if is_kind(x1, np.complexfloating) or is_kind(x2, np.inexact):
        raise ValueError(
            f"ldexp not supported for input types {(typeof(x1).dtype, typeof(x2).dtype)}"
        )
    (x1,) = promote_inexact(x1)
    x1 = convert.strong(x1, typeof(x1).dtype)
    x1, n = broadcast("ldexp", x1, cast(x2, np.dtype(np.int32)))
    dtype = typeof(x1).dtype
    if dtype not in _FORMATS:
        return cast(ldexp(cast(x1, np.dtype(np.float32)), n), dtype)
    bias = _FORMATS[dtype][1]
    limit = 3 * bias
    n = point.clamp(np.int32(-limit), n, np.int32(limit))
    # In three steps, so that each power of two is a normal number; a step that is not the last
    # must not leave the normal range, or the result is rounded twice.
    first = point.clamp(np.int32(1 - bias), n, np.int32(bias))
    rest = point.sub(n, first)
    second = point.clamp(np.int32(1 - bias), rest, np.int32(bias))
    third = point.clamp(np.int32(1 - bias), point.sub(rest, second), np.int32(bias))
    out = x1
    for step in (third, second, first):
        out = point.mul(out, _power_of_two(step, dtype))
    return out


def _power_of_two(n: Any, dtype: Any) -> Any:
    """2**n for -bias < n <= bias."""
    mantissa, bias, whole = _FORMATS[dtype]
    biased = cast(point.add(n, np.int32(bias)), whole)
    return ops.cast.bitcast_convert_type(point.shift_left(biased, whole.type(mantissa)), dtype)


def spacing(x: Any, /) -> Any:
    """The distance to the next number away from zero, with the sign of x; of float16 its size.

    >>> import covector.numpy as cnp
    >>> cnp.spacing(1.0).tolist() == 2.0**-23
    True
    """
    (x,) = operands("spacing", x)
    if is_kind(x, np.complexfloating):
        raise ValueError("spacing is not defined for complex inputs")
    (x,) = promote_inexact(x)
    if typeof(x).dtype not in _FORMATS:
        raise NotImplementedError(f"spacing: of {typeof(x).dtype}, only of 16 bits or more")
    x = convert.strong(x, typeof(x).dtype)
    away = select(signbit(x), number(x, -np.inf), number(x, np.inf))
    out = point.sub(point.nextafter(x, away), x)
    return point.abs_(out) if typeof(x).dtype == np.float16 else out


# Special values


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """NaN replaced by `nan`, infinities by the largest finite numbers or by what is given.

    >>> import covector.numpy as cnp
    >>> cnp.nan_to_num(cnp.array([1.0, cnp.nan])).tolist()
    [1.0, 0.0]
    """
    del copy
    (x,) = operands("nan_to_num", x)
    if not is_kind(x, np.inexact):
        return array_operand("nan_to_num", x)
    dtype = typeof(x).dtype
    if is_kind(x, np.complexfloating):
        parts = (point.real(x), point.imag(x))
        return point.complex_(*(nan_to_num(v, True, nan, posinf, neginf) for v in parts))
    info = dtypes.finfo(dtype)
    posinf = info.max if posinf is None else posinf
    neginf = info.min if neginf is None else neginf
    x = convert.strong(x, dtype)
    nan, posinf, neginf = (cast(v, dtype) for v in operands("nan_to_num", nan, posinf, neginf))
    x = select(point.ne(x, x), nan, x)
    x = select(point.eq(x, number(x, np.inf)), posinf, x)
    return select(point.eq(x, number(x, -np.inf)), neginf, x)


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol * |b|, or both are equal (also infinite), element by element.

    >>> import covector.numpy as cnp
    >>> cnp.isclose(1.0, 1.000001).tolist()
    True
    """
    a, b = broadcast("isclose", *promote(*operands("isclose", a, b)))
    if is_kind(a, np.integer):
        (a, b) = promote_inexact(a, b)
    same = point.eq(a, b)
    if not is_kind(a, np.inexact):
        return same
    near = point.le(
        point.abs_(point.sub(a, b)),
        _tolerance(rtol, atol, point.abs_(b)),
    )
    out = point.or_(same, point.and_(near, isfinite(b)))
    if equal_nan:
        out = point.or_(out, point.and_(point.ne(a, a), point.ne(b, b)))
    return out


def _tolerance(rtol: Any, atol: Any, size: Any) -> Any:
    dtype = typeof(size).dtype
    rtol, atol = (cast(v, dtype) for v in operands("isclose", rtol, atol))
    (rtol, size) = broadcast("isclose", rtol, size)
    return point.add(*broadcast("isclose", atol, point.mul(rtol, size)))


@eager(arrays=3, named=("min", "max"))
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """`arr` within [min, max]; a bound that is None does not bound.

    Raises ValueError for complex numbers.

    >>> import covector.numpy as cnp
    >>> cnp.clip(cnp.array([-1, 5]), 0, 3).tolist()
    [0, 3]
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    (arr,) = operands("clip", arr)
    if any(v is not None and is_kind(v, np.complexfloating) for v in (arr, min, max)):
        raise ValueError("clip: complex numbers have no order; clip real and imaginary parts")
    out = arr
    if min is not None:
        bound, out = promote(*operands("maximum", min, out))
        out = point.max_(*broadcast("clip", bound, out))
    if max is not None:
        bound, out = promote(*operands("minimum", max, out))
        out = point.min_(*broadcast("clip", bound, out))
    return array_operand("clip", out)


# Conversions of units, special functions


def deg2rad(x: Any, /) -> Any:
    """Degrees to radians.

    >>> import covector.numpy as cnp
    >>> f"{float(cnp.deg2rad(180.0)):.4f}"
    '3.1416'
    """
    (x,) = promote_inexact(*operands("deg2rad", x))
    return point.mul(x, like(x, float(np.pi / 180)))


def rad2deg(x: Any, /) -> Any:
    """Radians to degrees.

    >>> import covector.numpy as cnp
    >>> f"{float(cnp.rad2deg(cnp.pi)):.2f}"
    '180.00'
    """
    (x,) = promote_inexact(*operands("rad2deg", x))
    return point.mul(x, like(x, float(180 / np.pi)))


radians, degrees = deg2rad, rad2deg


def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), 1 at 0; all its derivatives exist at 0 too.

    >>> import covector.numpy as cnp
    >>> cnp.sinc(0.0).tolist()
    1.0
    """
    (x,) = promote_inexact(*operands("sinc", x))
    z = point.mul(x, like(x, float(np.pi)))
    # Near 0 by the series, so that derivatives of any order are right there.
    near = point.lt(point.abs_(z), _radius(z))
    square = point.square(select(near, z, like(z, 0)))
    series = like(z, 1)
    for k in range(8, 0, -1):
        term = point.mul(square, like(z, -1 / ((2 * k) * (2 * k + 1))))
        series = point.add(like(z, 1), point.mul(term, series))
    safe = select(near, like(z, 1), z)
    return select(near, series, point.div(point.sin(safe), safe))


def _radius(z: Any) -> Any:
    return number(point.abs_(z), 0.5)


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 0.

    >>> import covector.numpy as cnp
    >>> cnp.i0(0.0).tolist()
    1.0
    """
    (x,) = promote_inexact(*operands("i0", x))
    if is_kind(x, np.complexfloating):
        raise ValueError("i0 does not support complex-valued inputs")
    size = point.abs_(x)
    return point.mul(point.exp(size), point.bessel_i0e(size))
