"""Elementwise powers and roots."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Sample
from covector.ir.scalar import Expr, cast, const, expr
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.arithmetic import div, mul, reciprocal, sub, where
from covector.ops.families import Pointwise, Tangent1, like, scale, unary, wide


def _rsqrt_numpy(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _square_element(self: Any, dtype: str, x: Expr) -> Expr:
    return expr("square", dtype, x) if dtype.startswith("complex") else x * x


square = unary(
    "square",
    "iufc",
    lambda x: x * x,
    lambda t, y, x: scale(t, mul(x, like(x, 2))),
    element=_square_element,
)
sqrt = unary(
    "sqrt",
    "fc",
    wide(np.sqrt),
    lambda t, y, x: scale(t, div(like(y, 0.5), y)),
    hlo="sqrt",
    domain=(0.1, 3.0),
)
rsqrt = unary(
    "rsqrt",
    "fc",
    wide(_rsqrt_numpy),
    lambda t, y, x: scale(t, mul(like(y, -0.5), div(y, x))),
    hlo="rsqrt",
    domain=(0.1, 3.0),
)
cbrt = unary(
    "cbrt",
    "f",
    wide(np.cbrt),
    lambda t, y, x: scale(t, reciprocal(mul(like(y, 3), mul(y, y)))),
    hlo="cbrt",
    domain=(0.1, 3.0),
)


class IntegerPow(Pointwise):
    """`x ** y` for a constant integer `y`; a negative one needs an inexact `x`."""

    name = "integer_pow"
    arity = 1
    accepts = "iufc"
    derivatives: ClassVar[tuple[Tangent1]] = (lambda t, out, x: None,)
    transpose = Absent("not linear")
    y: int

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """As every elementwise op, after the sign of the exponent was checked."""
        if self.y < 0 and _check.kind(avals[0].dtype) in "iu":
            raise TypeError(
                f"integer_pow: integers cannot be raised to the negative power {self.y}: "
                f"got {avals[0].str_short()}; convert it to a floating point dtype"
            )
        return super().result(*avals)

    def numpy(self, x: Any) -> Any:
        """Repeated products, in double precision for floats."""
        power = wide(self._power) if x.dtype.kind not in "iu" else self._power
        return power(x)

    def _power(self, x: Any) -> Any:
        value = np.asarray(_by_squaring(x, abs(self.y), np.multiply, np.ones_like(x)))
        return value if self.y >= 0 else 1 / value

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """y x^(y - 1) times the tangent."""
        (x,), (t,), n = primals, tangents, self.y
        if t is None or n == 0:
            return self(x), None
        if n == 1:
            return self(x), t
        return self(x), scale(t, mul(like(x, n), integer_pow(x, n - 1)))

    def element(self, dtype: str, *args: Expr) -> Expr:
        """Repeated squaring; a reciprocal at the end if `y` is negative."""
        (x,) = args
        one = const(1, dtype)
        value = _by_squaring(x, abs(self.y), operator.mul, one)
        return value if self.y >= 0 else expr("div", dtype, one, value)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Small and large, positive and negative powers."""
        for y in (0, 1, 2, 3, 7, 13, -1, -2, -5):
            yield Sample(IntegerPow(y), (ShapedArray((3, 5), "float32"),), (0.5, 1.5), scale=8.0)
        for dtype in ("int8", "uint32", "float16", "bfloat16", "float64", "complex64"):
            yield Sample(IntegerPow(3), (ShapedArray((7,), dtype),), (0.5, 1.5), scale=8.0)


def _by_squaring(x: Any, n: int, times: Any, one: Any) -> Any:
    result = None
    while n:
        if n & 1:
            result = x if result is None else times(result, x)
        n >>= 1
        if n:
            x = times(x, x)
    return one if result is None else result


def integer_pow(x: Any, y: int) -> Any:
    """`x ** y` for an integer `y`; `x` itself for 1."""
    return x if y == 1 else IntegerPow(int(y))(x)


def _as_base(x: Any, y: Any) -> Any:
    """The exponent in the dtype of the base."""
    dtype = typeof(x).dtype
    return y if typeof(y).dtype == dtype else ops.cast.convert_element_type(y, dtype)


def _pow_by_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    """y x^(y - 1), where 0 x^(0 - 1) is 0."""
    whole = _check.kind(typeof(y).dtype) in "iu"
    less = where(ops.compare.eq(y, like(y, 0)), like(y, 1), sub(y, like(y, 1)))
    if whole and _check.kind(typeof(y).dtype) == "u":
        less = _as_base(x, less)
    return scale(t, mul(_as_base(x, y), pow_(x, less)))


def _pow_by_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    """log(x) x^y, where log(0) counts as 0: the limit for every positive exponent."""
    safe = where(ops.compare.eq(x, like(x, 0)), like(x, 1), x)
    return scale(t, mul(ops.pointwise.log(safe), out))


class Pow(Pointwise):
    """`x ** y`, of inexact numbers; `y` may be an integer."""

    name = "pow"
    arity = 2
    accepts = "fc"
    derivatives = (_pow_by_base, _pow_by_exponent)
    transpose = Absent("not linear")

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The dtype of the base."""
        _check.check_count("pow", avals, 2)
        x, y = avals
        _check.check_kind("pow", 0, x, "fc")
        if _check.kind(y.dtype) in "iu":
            shape = _check.same_shape("pow", avals)
            return ShapedArray(shape, x.dtype, x.weak_type and y.weak_type)
        return super().result(*avals)

    @staticmethod
    def numpy(x: Any, y: Any) -> Any:
        """NumPy's, in double precision; an integer exponent is rounded to the base's dtype."""
        up = np.complex128 if x.dtype.kind == "c" else np.float64
        return np.power(x.astype(up), y.astype(x.dtype).astype(up)).astype(x.dtype)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """The scalar `pow`, of an integer exponent as a float."""
        x, y = args
        return expr("pow", dtype, x, cast(y, dtype))

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.power, of an integer exponent too."""
        aval = writer.out_avals[0]
        x, y = (writer.broadcast_to(v, aval.shape) for v in operands)
        return writer.emit("stablehlo.power", [x, writer.convert(y, aval.dtype)])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Floats, complex numbers, integer exponents of bases of both signs, scalars."""
        for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"):
            yield Sample(pow_, (ShapedArray((3, 5), dtype),) * 2, (0.5, 2.0), scale=4.0)
        base = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0], np.float32)
        for exponent in (
            np.array([3, -3, 2, 0, 1, -1], np.int32),
            np.array([3, 4, 2, 0, 1, 5], np.uint8),
        ):
            yield Sample(pow_, (base, exponent), scale=4.0)
        yield Sample(
            pow_, (ShapedArray((), "float32"), ShapedArray((4,), "float32")), (0.5, 2.0), scale=4.0
        )


pow_ = Pow()
