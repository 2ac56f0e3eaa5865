"""Elementwise functions.  Unlike those of `covector.numpy` they promote no dtypes.

The plain ones are made from a table: the operation, what it computes, an example.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector.ir.values import typeof
from covector.lax._arguments import as_array, spread, user_dtype
from covector.lax._enums import RoundingMethod

_point = ops.pointwise

_UNARY = """{what}

    `x`: {accepts}.  The result has its shape{dtype}.  TypeError for other dtypes.

    >>> from covector import lax
    >>> print(lax.{name}({example}))
    {result}
    """

_BINARY = """{what}

    `x`, `y`: {accepts}, of one dtype and shape (axes of size 1, and scalars, are repeated).
    The result has that shape{dtype}.  TypeError for other arguments.

    >>> from covector import lax
    >>> print(lax.{name}({example}))
    {result}
    """

_NUMBER = "integer, floating point or complex"
_INEXACT = "floating point or complex"
_INTEGER = "integer"
_BITS = "boolean or integer"
_SAME = " and dtype"


def _named(function: Callable[..., Any], name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "covector.lax"
    function.__doc__ = doc
    return function


def _unary(
    name: str, op: Any, accepts: str, what: str, example: str, result: str, dtype: str = _SAME
) -> Any:
    def function(x: Any) -> Any:
        return op(x)

    doc = _UNARY.format(
        name=name, what=what, accepts=accepts, example=example, result=result, dtype=dtype
    )
    return _named(function, name, doc)


def _accurate(name: str, op: Any, accepts: str, what: str, example: str, result: str) -> Any:
    """A function with the option `accuracy`, which every backend of ours meets."""

    def function(x: Any, *, accuracy: Any = None) -> Any:
        return op(x)

    doc = _UNARY.format(
        name=name, what=what, accepts=accepts, example=example, result=result, dtype=_SAME
    )
    return _named(function, name, doc)


def _binary(
    name: str, op: Any, accepts: str, what: str, example: str, result: str, dtype: str = _SAME
) -> Any:
    def function(x: Any, y: Any) -> Any:
        return op(*spread(name, x, y))

    doc = _BINARY.format(
        name=name, what=what, accepts=accepts, example=example, result=result, dtype=dtype
    )
    return _named(function, name, doc)


# Arithmetic

add = _binary("add", _point.add, _NUMBER, "The sum x + y.", "1.5, 2.0", "3.5")
sub = _binary("sub", _point.sub, _NUMBER, "The difference x - y.", "1.5, 2.0", "-0.5")
div = _binary(
    "div",
    _point.div,
    _NUMBER,
    "The quotient x / y; of integers, rounded towards zero (-1 if y is 0).",
    "-7, 2",
    "-3",
)
rem = _binary(
    "rem",
    _point.rem,
    "integer or floating point",
    "The remainder of x / y, with the sign of x.",
    "-7, 2",
    "-1",
)
max = _binary(
    "max", _point.max_, "of any dtype", "The greater of x and y; NaN wins.", "1.0, 2.0", "2.0"
)
min = _binary(
    "min", _point.min_, "of any dtype", "The lesser of x and y; NaN wins.", "1.0, 2.0", "1.0"
)
atan2 = _binary(
    "atan2",
    _point.atan2,
    "floating point",
    "The angle of the point (y, x), between -pi and pi; x is the ordinate here.",
    "0.0, 1.0",
    "0.0",
)
mulhi = _binary(
    "mulhi",
    _point.mulhi,
    _INTEGER,
    "The high half of the product x * y, as wide as the operands.",
    "1 << 30, 8",
    "2",
)
neg = _unary("neg", _point.neg, _NUMBER, "The negative -x.", "2.0", "-2.0")
sign = _unary(
    "sign", _point.sign, _NUMBER, "-1, 0 or 1 (x / |x| if complex; NaN if NaN).", "-2.5", "-1.0"
)
abs = _unary(
    "abs",
    _point.abs_,
    "signed integer, floating point or complex",
    "The absolute value.",
    "-2.5",
    "2.5",
    "; it is real",
)
floor = _unary(
    "floor", _point.floor, "floating point", "The greatest integer <= x.", "-2.5", "-3.0"
)
ceil = _unary("ceil", _point.ceil, "floating point", "The least integer >= x.", "-2.5", "-2.0")
is_finite = _unary(
    "is_finite",
    _point.is_finite,
    "floating point",
    "Whether x is neither infinite nor NaN.",
    "1.0",
    "True",
    "; it is boolean",
)
square = _unary("square", _point.square, _NUMBER, "The square x * x.", "3.0", "9.0")

# Elementary functions

exp = _accurate("exp", _point.exp, _INEXACT, "e to the power x.", "0.0", "1.0")
exp2 = _accurate("exp2", _point.exp2, _INEXACT, "2 to the power x.", "3.0", "8.0")
expm1 = _accurate("expm1", _point.expm1, _INEXACT, "exp(x) - 1, exact near 0.", "0.0", "0.0")
log = _accurate("log", _point.log, _INEXACT, "The natural logarithm.", "1.0", "0.0")
log1p = _accurate("log1p", _point.log1p, _INEXACT, "log(1 + x), exact near 0.", "0.0", "0.0")
sqrt = _accurate("sqrt", _point.sqrt, _INEXACT, "The square root.", "4.0", "2.0")
rsqrt = _accurate("rsqrt", _point.rsqrt, _INEXACT, "1 / sqrt(x).", "4.0", "0.5")
cbrt = _accurate("cbrt", _point.cbrt, "floating point", "The cube root.", "8.0", "2.0")
sin = _accurate("sin", _point.sin, _INEXACT, "The sine, x in radians.", "0.0", "0.0")
cos = _accurate("cos", _point.cos, _INEXACT, "The cosine, x in radians.", "0.0", "1.0")
tan = _accurate("tan", _point.tan, _INEXACT, "The tangent, x in radians.", "0.0", "0.0")
tanh = _accurate("tanh", _point.tanh, _INEXACT, "The hyperbolic tangent.", "0.0", "0.0")
logistic = _accurate("logistic", _point.logistic, _INEXACT, "1 / (1 + exp(-x)).", "0.0", "0.5")
asin = _unary("asin", _point.asin, _INEXACT, "The arc sine, in radians.", "0.0", "0.0")
acos = _unary("acos", _point.acos, _INEXACT, "The arc cosine, in radians.", "1.0", "0.0")
atan = _unary("atan", _point.atan, _INEXACT, "The arc tangent, in radians.", "0.0", "0.0")
sinh = _unary("sinh", _point.sinh, _INEXACT, "The hyperbolic sine.", "0.0", "0.0")
cosh = _unary("cosh", _point.cosh, _INEXACT, "The hyperbolic cosine.", "0.0", "1.0")
asinh = _unary("asinh", _point.asinh, _INEXACT, "The inverse of sinh.", "0.0", "0.0")
acosh = _unary("acosh", _point.acosh, _INEXACT, "The inverse of cosh.", "1.0", "0.0")
atanh = _unary("atanh", _point.atanh, _INEXACT, "The inverse of tanh.", "0.0", "0.0")

# Special functions

_FLOAT = "floating point"
erf = _unary("erf", _point.erf, _FLOAT, "The error function.", "0.0", "0.0")
erfc = _unary("erfc", _point.erfc, _FLOAT, "1 - erf(x), exact for large x.", "0.0", "1.0")
erf_inv = _unary("erf_inv", _point.erf_inv, _FLOAT, "The inverse of erf.", "0.0", "0.0")
lgamma = _unary(
    "lgamma", _point.lgamma, _FLOAT, "The logarithm of |gamma(x)|.", "float('inf')", "inf"
)
digamma = _unary(
    "digamma", _point.digamma, _FLOAT, "The derivative of lgamma.", "float('inf')", "inf"
)
bessel_i0e = _unary(
    "bessel_i0e",
    _point.bessel_i0e,
    _FLOAT,
    "exp(-|x|) I0(x), the scaled modified Bessel function of order 0.",
    "0.0",
    "1.0",
)
bessel_i1e = _unary(
    "bessel_i1e",
    _point.bessel_i1e,
    _FLOAT,
    "exp(-|x|) I1(x), the scaled modified Bessel function of order 1.",
    "0.0",
    "0.0",
)

# Comparisons and bits

_FLAG = "; it is boolean"
_ANY = "of any dtype"
_ORDERED = "boolean, integer or floating point"
eq = _binary("eq", _point.eq, _ANY, "Whether x == y.", "1.0, 2.0", "False", _FLAG)
ne = _binary("ne", _point.ne, _ANY, "Whether x != y.", "1.0, 2.0", "True", _FLAG)
lt = _binary("lt", _point.lt, _ORDERED, "Whether x < y.", "1.0, 2.0", "True", _FLAG)
le = _binary("le", _point.le, _ORDERED, "Whether x <= y.", "1.0, 2.0", "True", _FLAG)
gt = _binary("gt", _point.gt, _ORDERED, "Whether x > y.", "1.0, 2.0", "False", _FLAG)
ge = _binary("ge", _point.ge, _ORDERED, "Whether x >= y.", "1.0, 2.0", "False", _FLAG)
bitwise_not = _unary(
    "bitwise_not", _point.not_, _BITS, "Every bit flipped (logical not).", "5", "-6"
)
bitwise_and = _binary(
    "bitwise_and", _point.and_, _BITS, "The bits (truth) set in both.", "6, 3", "2"
)
bitwise_or = _binary("bitwise_or", _point.or_, _BITS, "The bits (truth) set in any.", "6, 3", "7")
bitwise_xor = _binary("bitwise_xor", _point.xor, _BITS, "The bits that differ.", "6, 3", "5")
shift_left = _binary(
    "shift_left",
    _point.shift_left,
    _INTEGER,
    "The bits of x moved up by y; 0 if y is not less than their number.",
    "3, 2",
    "12",
)
shift_right_logical = _binary(
    "shift_right_logical",
    _point.shift_right_logical,
    _INTEGER,
    "The bits of x moved down by y, zeros from above.",
    "-1, 31",
    "1",
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    _point.shift_right_arithmetic,
    _INTEGER,
    "The bits of x moved down by y, the sign bit from above.",
    "-8, 1",
    "-4",
)
population_count = _unary(
    "population_count", _point.population_count, _INTEGER, "The number of bits set.", "7", "3"
)
clz = _unary("clz", _point.clz, _INTEGER, "The number of zero bits at the top.", "1", "31")


# Those with parameters or rules of their own


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product x * y.

    `x`, `y`: integer, floating point or complex, of one dtype and shape (axes of size 1, and
    scalars, are repeated).  `out_dtype`: dtype to multiply in and return, if not theirs.

    >>> from covector import lax
    >>> print(lax.mul(3.0, 2.0))
    6.0
    """
    x, y = spread("mul", x, y)
    if out_dtype is not None:
        wide = user_dtype(out_dtype, "mul")
        x, y = (ops.cast.convert_element_type(v, wide) for v in (x, y))
    return _point.mul(x, y)


def nextafter(x1: Any, x2: Any) -> Any:
    """The floating point number next to `x1` on the way to `x2`.

    >>> from covector import lax
    >>> print(lax.nextafter(1.0, 2.0) > 1.0)
    True
    """
    return _point.nextafter(*spread("nextafter", x1, x2))


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function: the sum of (k + q) ** -x over k = 0, 1, 2, …; floating point.

    >>> from covector import lax
    >>> print(f"{float(lax.zeta(2.0, 1.0)):.4f}")
    1.6449
    """
    return ops.zeta.zeta(*spread("zeta", x, q))


def polygamma(m: Any, x: Any) -> Any:
    """The `m`-th derivative of `digamma` at `x`; both floating point, `m` a whole number.

    >>> from covector import lax
    >>> print(f"{float(lax.polygamma(1.0, 1.0)):.4f}")
    1.6449
    """
    return ops.zeta.polygamma(*spread("polygamma", m, x))


def reciprocal(x: Any) -> Any:
    """1 / x, of a floating point or complex `x`.

    >>> from covector import lax
    >>> print(lax.reciprocal(4.0))
    0.25
    """
    return integer_pow(x, -1)


def pow(x: Any, y: Any) -> Any:
    """x to the power y.

    `x`: floating point or complex; `y`: of the same dtype, or integer; of one shape (axes of size
    1, and scalars, are repeated).  TypeError for other arguments.

    >>> from covector import lax
    >>> print(lax.pow(2.0, 10))
    1024.0
    """
    return _point.pow_(*spread("pow", x, y))


def integer_pow(x: Any, y: int) -> Any:
    """x to the power of the Python integer `y`, by repeated multiplication.

    `x`: a number of any dtype (integers: `y` must not be negative, else TypeError).

    >>> from covector import lax
    >>> print(lax.integer_pow(3, 4))
    81
    """
    return as_array(_point.integer_pow(x, y))


def round(x: Any, rounding_method: RoundingMethod | int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The integer nearest to each floating point number, as a floating point number.

    >>> from covector import lax
    >>> print(lax.round(2.5), lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN))
    3.0 2.0
    """
    return _point.round_(x, int(RoundingMethod(rounding_method)))


def real(x: Any) -> Any:
    """The real part of a complex `x`.  TypeError for other dtypes.

    >>> from covector import lax
    >>> print(lax.real(1.0 + 2.0j))
    1.0
    """
    return _point.real(_complex("real", x))


def imag(x: Any) -> Any:
    """The imaginary part of a complex `x`.  TypeError for other dtypes.

    >>> from covector import lax
    >>> print(lax.imag(1.0 + 2.0j))
    2.0
    """
    return _point.imag(_complex("imag", x))


def conj(x: Any) -> Any:
    """The complex conjugate.  A real `x` (float32 or float64) becomes complex.

    >>> from covector import lax
    >>> print(lax.conj(1.0 + 2.0j))
    (1-2j)
    """
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        aval = typeof(x)
        return _point.complex_(x, 0.0 if aval.weak_type else ops.shape.full((), 0, aval.dtype))
    return _point.conj(x)


def complex(x: Any, y: Any) -> Any:
    """x + iy from a real and an imaginary part, both float32 or both float64.

    >>> from covector import lax
    >>> print(lax.complex(1.0, 2.0))
    (1+2j)
    """
    return _point.complex_(*spread("complex", x, y))


def clamp(min: Any, x: Any, max: Any) -> Any:
    """`min` where x is less, `max` where it is greater, else x.

    The bounds have the dtype of `x`, and its shape or none.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.clamp(0.0, jnp.array([-1.0, 0.5, 3.0]), 1.0))
    [0.  0.5 1. ]
    """
    return _point.clamp(min, x, max)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred` holds, else `on_false`; the derivative passes the chosen one only.

    `pred`: boolean (numbers are compared with 0), of the shape of the cases or a scalar.  The
    cases have one shape and dtype.  TypeError for other arguments.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4])))
    [1 4]
    """
    if typeof(pred).dtype != bool:
        pred = _point.ne(pred, ops.shape.full((), 0, typeof(pred).dtype))
    return select_n(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Any:
    """Each element from the case that `which` numbers there: False is 0, True is 1.

    `which`: boolean (of two cases) or int32 in [0, len(cases)), of the shape of the cases or a
    scalar.  The cases have one shape and dtype.  TypeError for other arguments.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.select_n(jnp.array([0, 2]), *jnp.array([[1, 2], [3, 4], [5, 6]])))
    [1 6]
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    shapes = [typeof(c).shape for c in cases]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(
            f"select_n: cases must have the same shapes, got {', '.join(map(str, shapes))}"
        )
    if typeof(which).shape not in ((), shapes[0]):
        raise TypeError(
            f"select_n: `which` must be a scalar or have the shape of the cases; got "
            f"{typeof(which).shape} and {shapes[0]}"
        )
    return _point.select_n(which, *cases)


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """`operand` as another dtype.

    Floats go to integers towards zero, limited to their range; complex numbers lose their
    imaginary part.  ValueError if there is no dtype, or one of keys.

    >>> from covector import lax
    >>> print(lax.convert_element_type(3.7, "int32"))
    3
    """
    if new_dtype is None:
        raise ValueError("convert_element_type: the new dtype must be given; got None")
    new = user_dtype(new_dtype, "convert_element_type")
    old = typeof(operand).dtype
    if isinstance(new, dtypes.ExtendedDType) or isinstance(old, dtypes.ExtendedDType):
        if new != old:
            raise ValueError(f"Cannot convert_element_type from {old} to {new}")
        return operand
    return as_array(ops.cast.convert_element_type(operand, new))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of `operand` read as another dtype.

    A narrower dtype adds a last axis, a wider one takes up the last axis, the first piece in the
    lowest bits.  An int4 has 4 bits here, whatever it takes in memory.  TypeError for booleans,
    ValueError if the bits do not fit.

    >>> from covector import lax
    >>> print(hex(lax.bitcast_convert_type(1.0, "int32")))
    0x3f800000
    """
    if new_dtype is None:
        raise ValueError("bitcast_convert_type: new_dtype must be a dtype; got None")
    new = user_dtype(new_dtype, "bitcast_convert_type")
    return as_array(ops.cast.bitcast_convert_type(operand, new))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """`operand` rounded to what a float with these sizes can hold, in its own dtype.

    >>> from covector import lax
    >>> print(lax.reduce_precision(1.1, exponent_bits=8, mantissa_bits=7))
    1.1015625
    """
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    return ops.cast.reduce_precision(operand, exponent_bits, mantissa_bits)


def stop_gradient(x: Any) -> Any:
    """`x`, a tree of arrays, as a constant for differentiation.

    >>> import covector as cv
    >>> print(cv.grad(lambda x: x * cv.lax.stop_gradient(x))(3.0))
    3.0
    """
    return tree.map(_stop, x)


def _stop(x: Any) -> Any:
    inexact = dtypes.issubdtype(typeof(x).dtype, np.inexact)
    return ops.select.stop_gradient(x) if inexact else x


def optimization_barrier(operand: Any) -> Any:
    """`operand`, a tree of arrays; no compiler moves work across it.

    >>> from covector import lax
    >>> print(lax.optimization_barrier((1.0, 2.0))[1])
    2.0
    """
    leaves, structure = tree.flatten(operand)
    return tree.unflatten(structure, ops.select.optimization_barrier(*leaves))


def _complex(name: str, x: Any) -> Any:
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        raise TypeError(f"{name}: argument must be complex; got {typeof(x).str_short()}")
    return x
