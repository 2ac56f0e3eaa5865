"""Elementwise arithmetic: sums, products, powers, rounding, extrema, parts of complex numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from covector import ops
from covector._base.config import config
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Linear, Sample
from covector.ir.scalar import Expr, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops._check import np_where
from covector.ops.families import (
    Bilinear,
    Pointwise,
    Tangent2,
    binary,
    like,
    samples_of,
    scale,
    sum_to_aval,
    unary,
    wide,
)


def where(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `condition` holds, else `on_false`."""
    return ops.select.select_n(condition, on_false, on_true)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return div(like(x, 1), x)


# Sums and products


def _neg_transpose(self: Any, tools: Any, ct: Any, x: Linear) -> list[Any]:
    return [neg(ct)]


neg: Any = unary(
    "neg", "iufc", np.negative, lambda t, y, x: neg(t), hlo="negate", transpose=_neg_transpose
)


class Add(Pointwise):
    """Sum."""

    name = "add"
    arity = 2
    accepts = "iufc"
    hlo = "stablehlo.add"
    numpy = staticmethod(np.add)
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, y: t,
        lambda t, out, x, y: t,
    )
    samples = staticmethod(samples_of("add", "iufc", 2, (-2.0, 2.0)))

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """The cotangent, to each linear argument."""
        return [sum_to_aval(ct, a.aval) if isinstance(a, Linear) else None for a in args]


class AddAny(Add):
    """Sum of cotangents: `add`, by the name that clients of JAX's internals know."""

    name = "add_any"
    scalar = "add"
    samples = staticmethod(samples_of("add_any", "fc", 2, (-2.0, 2.0)))


class Sub(Pointwise):
    """Difference."""

    name = "sub"
    arity = 2
    accepts = "iufc"
    hlo = "stablehlo.subtract"
    numpy = staticmethod(np.subtract)
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, y: t,
        lambda t, out, x, y: neg(t),
    )
    samples = staticmethod(samples_of("sub", "iufc", 2, (-2.0, 2.0)))

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """The cotangent, negated for the second argument."""
        return [
            sum_to_aval(neg(ct) if k else ct, a.aval) if isinstance(a, Linear) else None
            for k, a in enumerate(args)
        ]


class Mul(Pointwise, Bilinear):
    """Product."""

    name = "mul"
    accepts = "iufc"
    hlo = "stablehlo.multiply"
    numpy = staticmethod(np.multiply)
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, y: scale(t, y),
        lambda t, out, x, y: scale(t, x),
    )
    samples = staticmethod(samples_of("mul", "iufc", 2, (-2.0, 2.0)))

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """The cotangent times the other factor."""
        return sum_to_aval(mul(ct, other), wanted)


class ScaleTangent(Pointwise, Bilinear):
    """`t * c`, but 0 where `t` is 0: a tangent times a coefficient that may be infinite or NaN."""

    name = "scale_tangent"
    accepts = "fc"
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, c: scale_tangent(t, c),
        lambda t, out, x, c: scale_tangents(x, t),
    )
    samples = staticmethod(samples_of("scale_tangent", "fc", 2, (-2.0, 2.0)))

    @staticmethod
    def numpy(t: Any, c: Any) -> Any:
        """Masked product."""
        with np.errstate(all="ignore"):
            return np.where(t == 0, np.zeros((), t.dtype), t * c).astype(t.dtype)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """Select after the product."""
        t, c = args
        return select(compare("eq", t, 0), const(0, dtype), t * c)

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """Its own transpose; for the coefficient, `ct * t` where neither is 0."""
        out = scale_tangents(other, ct) if k else scale_tangent(ct, other)
        return sum_to_aval(out, wanted)


class ScaleTangents(Pointwise, Bilinear):
    """`s * t`, but 0 where either is 0: a tangent times that of its coefficient.

    One of them may be infinite, since it was multiplied by an infinite coefficient before.
    """

    name = "scale_tangents"
    accepts = "fc"
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, y: scale_tangents(t, y),
        lambda t, out, x, y: scale_tangents(x, t),
    )
    samples = staticmethod(samples_of("scale_tangents", "fc", 2, (-2.0, 2.0)))

    @staticmethod
    def numpy(s: Any, t: Any) -> Any:
        """Masked product."""
        with np.errstate(all="ignore"):
            return np.where((s == 0) | (t == 0), np.zeros((), t.dtype), s * t).astype(t.dtype)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """Selects after the product."""
        s, t = args
        zero = const(0, dtype)
        return select(compare("eq", s, 0), zero, select(compare("eq", t, 0), zero, s * t))

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """The cotangent, scaled likewise."""
        return sum_to_aval(scale_tangents(ct, other), wanted)


def _wraps(x: Any, y: Any) -> Any:
    """Where the quotient does not fit: the least integer by -1."""
    signed = x.dtype.kind == "i"
    return (y == -1) & (x == np.iinfo(x.dtype).min) if signed else np.zeros(np.shape(y), bool)


def _div_numpy(x: Any, y: Any) -> Any:
    if _check.kind(x.dtype) not in "iu":
        return np.divide(x, y)
    if x.dtype.kind == "V":  # fewer than 8 bits
        wide = np.int8 if _check.kind(x.dtype) == "i" else np.uint8
        return _div_numpy(x.astype(wide), y.astype(wide)).astype(x.dtype)
    wraps = _wraps(x, y)
    safe = np.where((y == 0) | wraps, 1, y).astype(y.dtype)
    quotient = np.floor_divide(x, safe)
    if x.dtype.kind == "i":  # from floor to truncation
        inexact = quotient * safe != x
        quotient = quotient + (inexact & ((x < 0) != (safe < 0))).astype(x.dtype)
    return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)


def _rem_numpy(x: Any, y: Any) -> Any:
    if _check.kind(x.dtype) not in "iu":
        return np.fmod(x, y) if x.dtype.kind == "f" else wide(np.fmod)(x, y)
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    return np_where(y == 0, x, x - _div_numpy(x, safe) * safe).astype(x.dtype)


class Div(Pointwise):
    """Quotient; of integers, towards zero, and total: x / 0 is -1 (all bits set)."""

    name = "div"
    arity = 2
    accepts = "iufc"
    hlo = "stablehlo.divide"
    numpy = staticmethod(_div_numpy)
    derivatives: ClassVar[tuple[Tangent2, Tangent2]] = (
        lambda t, out, x, y: scale(t, reciprocal(y)),
        lambda t, out, x, y: scale(t, div(neg(out), y)),
    )
    samples = staticmethod(samples_of("div", "iufc", 2, (0.5, 2.0)))

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """The cotangent over the divisor."""
        return [sum_to_aval(div(ct, args[1]), args[0].aval), None]


rem = binary(
    "rem",
    "iuf",
    _rem_numpy,
    (
        lambda t, out, x, y: t,
        lambda t, out, x, y: scale(t, neg(round_(div(sub(x, out), y)))),
    ),
    hlo="remainder",
    domain=(0.5, 2.0),
)
add, add_any, sub, mul, div = Add(), AddAny(), Sub(), Mul(), Div()
scale_tangent, scale_tangents = ScaleTangent(), ScaleTangents()


# Extrema


def _extremum_numpy(greatest: bool) -> Any:
    pick = np.maximum if greatest else np.minimum

    def numpy(x: Any, y: Any) -> Any:
        kind = x.dtype.kind
        if kind == "c":  # by the real part, then the imaginary one
            less, more = (y, x) if greatest else (x, y)
            first = (more.real > less.real) | ((more.real == less.real) & (more.imag > less.imag))
            return np_where(first, x, y)
        if kind in "biu":
            return pick(x, y)
        zero = x + y if greatest else -(-x - y)  # of two zeros: -0 is below +0
        return np_where((x == 0) & (y == 0), zero, pick(x, y))

    return numpy


def _extremum_element(kind: str, order: str) -> Any:
    def element(self: Any, dtype: str, x: Expr, y: Expr) -> Expr:
        if dtype == "bool":
            return expr("or" if kind == "max" else "and", dtype, x, y)
        if not dtype.startswith("complex"):
            return expr(kind, dtype, x, y)
        part = "float32" if dtype == "complex64" else "float64"
        xr, yr = expr("real", part, x), expr("real", part, y)
        xi, yi = expr("imag", part, x), expr("imag", part, y)
        first = compare(order, xr, yr) | (compare("eq", xr, yr) & compare(order, xi, yi))
        return select(first, x, y)

    return element


def _share(t: Any, out: Any, mine: Any, other: Any) -> Any:
    """The tangent of an extremum from one argument: half of it where both are equal."""
    tie = where(ops.compare.eq(other, out), mul(t, like(t, 0.5)), t)
    return where(ops.compare.eq(mine, out), tie, like(t, 0))


max_, min_ = (
    binary(
        kind,
        "biufc",
        _extremum_numpy(kind == "max"),
        (
            lambda t, out, x, y: _share(t, out, x, y),
            lambda t, out, x, y: _share(t, out, y, x),
        ),
        hlo=f"{kind}imum",
        real_hlo=True,
        element=_extremum_element(kind, order),
    )
    for kind, order in (("max", "gt"), ("min", "lt"))
)


def nextafter_numpy(x: Any, y: Any) -> Any:
    """NumPy's, and that of the types it doesn't know."""
    if x.dtype.kind == "f":
        return np.nextafter(x, y)
    # bfloat16 and its kin: step the bits, whose order is that of the magnitudes.
    unsigned = {1: np.uint8, 2: np.uint16}[x.dtype.itemsize]
    x, y = np.broadcast_arrays(x, y)
    bits = np.ascontiguousarray(x).view(unsigned)
    top = unsigned(1 << (8 * x.dtype.itemsize - 1))
    away = (y > x) == (bits & top == 0)
    stepped = np.where(away, bits + unsigned(1), bits - unsigned(1)).astype(unsigned)
    least = np.where(y > 0, unsigned(1), top | unsigned(1)).astype(unsigned)
    out = np.where(x == 0, least, stepped).astype(unsigned).view(x.dtype)
    out = np.where(x == y, y, out)
    return np.where(np.isnan(x) | np.isnan(y), np.array(np.nan, x.dtype), out)


nextafter = binary(
    "nextafter",
    "f",
    nextafter_numpy,
    (lambda t, out, x, y: t, None),
    hlo="chlo.next_after",
    smooth=False,
)


# Signs and rounding


def _sign_numpy(x: Any) -> Any:
    if x.dtype.kind == "c":
        return np_where(x == 0, x, x / np.abs(x)).astype(x.dtype)
    return np.sign(x) if x.dtype.kind in "iu" else np_where(np.isnan(x) | (x == 0), x, np.sign(x))


def _sign_derivative(t: Any, s: Any, z: Any) -> Any:
    """0 of reals; of complex numbers, the part of t / |z| that is orthogonal to the sign, and 0
    at 0."""
    if _check.kind(typeof(z).dtype) != "c":
        return None
    size, parts = abs_(z), ops.complex_parts
    along = parts.real(mul(parts.conj(s), t))
    shrink = reciprocal(size)
    if config.singular_derivatives != "ieee":
        shrink = where(ops.compare.eq(size, like(size, 0)), like(size, 0), shrink)
    across = sub(t, mul(s, parts.complex_(along, like(along, 0))))
    return scale(across, parts.complex_(shrink, like(size, 0)))


def _sign_element(self: Any, dtype: str, x: Expr) -> Expr:
    return expr("min", dtype, x, const(1, dtype)) if dtype[0] == "u" else expr("sign", dtype, x)


sign = unary("sign", "iufc", _sign_numpy, _sign_derivative, element=_sign_element)


def _abs_derivative(t: Any, y: Any, x: Any) -> Any:
    """Sign times tangent; 0 at 0 (with the option 'ieee', 1)."""
    if _check.kind(typeof(x).dtype) == "c":
        parts = ops.complex_parts
        return parts.real(scale(t, parts.conj(sign(x))))
    if config.singular_derivatives == "ieee":
        return where(ops.compare.ge(x, like(x, 0)), t, neg(t))
    return scale(t, sign(x))


_REAL_OF = {np.dtype("complex64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("float64")}
COMPLEX_OF = {real: whole for whole, real in _REAL_OF.items()}


def real_dtype(self: Any, dtype: Any) -> Any:
    """The `out_dtype` rule of ops whose result is real."""
    return _REAL_OF.get(dtype, dtype)


abs_ = unary("abs", "ifc", np.abs, _abs_derivative, hlo="abs", out_dtype=real_dtype)
floor = unary("floor", "f", np.floor, hlo="floor", smooth=False)
ceil = unary("ceil", "f", np.ceil, hlo="ceil", smooth=False)


class Round(Pointwise):
    """To the nearest integer; halves away from zero (method 0) or to even (method 1)."""

    name = "round"
    arity = 1
    accepts = "f"
    derivatives = (None,)
    transpose = Absent("not linear")
    rounding_method: int = 0

    def numpy(self, x: Any) -> Any:
        """`rint`, or truncation of the magnitude plus a half."""
        if self.rounding_method:
            return np.rint(x)
        whole = np.trunc(x)
        half = np.abs(x - whole) >= 0.5
        return np.copysign(np_where(half, np.abs(whole) + x.dtype.type(1), np.abs(whole)), x)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """One rounding instruction or two."""
        return expr("round_even" if self.rounding_method else "round_away", dtype, *args)

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """One op for each method."""
        method = "even" if self.rounding_method else "afz"
        return writer.emit(f"stablehlo.round_nearest_{method}", [x])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both methods on halves, and on every float."""
        halves = np.array(
            [-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 0.49999997, 8388609.0], np.float32
        )
        for method in (0, 1):
            yield Sample(Round(method), (halves,), smooth=False)
            for dtype in ("float16", "bfloat16", "float64"):
                yield Sample(Round(method), (ShapedArray((3, 5), dtype),), smooth=False)


def round_(x: Any, rounding_method: int = 0) -> Any:
    """`x` rounded to integers."""
    return Round(int(rounding_method))(x)


def _bool(self: Any, dtype: Any) -> Any:
    return np.dtype(np.bool_)


is_finite = unary(
    "is_finite",
    "f",
    np.isfinite,
    hlo="is_finite",
    out_dtype=_bool,
    smooth=False,
    jvp=Absent("integer"),
)
