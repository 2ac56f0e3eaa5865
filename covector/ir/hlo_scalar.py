"""Scalar expressions as StableHLO operations on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray

#: The scalar ops of `ir.scalar` that are one op here.
ELEMENTWISE = {
    "add": "stablehlo.add", "sub": "stablehlo.subtract", "mul": "stablehlo.multiply",
    "div": "stablehlo.divide", "rem": "stablehlo.remainder", "neg": "stablehlo.negate",
    "abs": "stablehlo.abs", "sign": "stablehlo.sign", "max": "stablehlo.maximum",
    "min": "stablehlo.minimum", "sqrt": "stablehlo.sqrt", "rsqrt": "stablehlo.rsqrt",
    "cbrt": "stablehlo.cbrt", "floor": "stablehlo.floor", "ceil": "stablehlo.ceil",
    "round_even": "stablehlo.round_nearest_even", "round_away": "stablehlo.round_nearest_afz",
    "is_finite": "stablehlo.is_finite", "and": "stablehlo.and", "or": "stablehlo.or",
    "xor": "stablehlo.xor", "not": "stablehlo.not", "population_count": "stablehlo.popcnt",
    "clz": "stablehlo.count_leading_zeros", "shift_left": "stablehlo.shift_left",
    "shift_right_logical": "stablehlo.shift_right_logical",
    "shift_right_arithmetic": "stablehlo.shift_right_arithmetic", "select": "stablehlo.select",
    "bitcast": "stablehlo.bitcast_convert", "exp": "stablehlo.exponential",
    "expm1": "stablehlo.exponential_minus_one", "log": "stablehlo.log",
    "log1p": "stablehlo.log_plus_one", "logistic": "stablehlo.logistic", "sin": "stablehlo.sine",
    "cos": "stablehlo.cosine", "tan": "stablehlo.tan", "atan2": "stablehlo.atan2",
    "tanh": "stablehlo.tanh", "pow": "stablehlo.power", "complex": "stablehlo.complex",
    "real": "stablehlo.real", "imag": "stablehlo.imag", "asin": "chlo.asin", "acos": "chlo.acos",
    "atan": "chlo.atan", "sinh": "chlo.sinh", "cosh": "chlo.cosh", "asinh": "chlo.asinh",
    "acosh": "chlo.acosh", "atanh": "chlo.atanh", "erf": "chlo.erf", "erfc": "chlo.erfc",
    "erf_inv": "chlo.erf_inv", "lgamma": "chlo.lgamma", "digamma": "chlo.digamma",
    "nextafter": "chlo.next_after", "bessel_i1e": "chlo.bessel_i1e", "conj": "chlo.conj",
}  # fmt: skip


def _square(writer: Any, aval: ShapedArray, x: Any) -> Any:
    return writer.emit("stablehlo.multiply", [x, x], aval)


def _fma(writer: Any, aval: ShapedArray, x: Any, y: Any, z: Any) -> Any:
    return writer.emit("stablehlo.add", [writer.emit("stablehlo.multiply", [x, y], aval), z], aval)


def _exp2(writer: Any, aval: ShapedArray, x: Any) -> Any:
    return writer.emit("stablehlo.power", [writer.full(aval, 2), x], aval)


def _trunc(writer: Any, aval: ShapedArray, x: Any) -> Any:
    whole = writer.emit("stablehlo.floor", [writer.emit("stablehlo.abs", [x], aval)], aval)
    return writer.emit(
        "stablehlo.multiply", [writer.emit("stablehlo.sign", [x], aval), whole], aval
    )


def _mulhi(writer: Any, aval: ShapedArray, x: Any, y: Any) -> Any:
    """The high half of the product: of the double width, or, of 64 bits, from four parts."""
    bits, signed = 8 * aval.dtype.itemsize, dtypes.kind_of(aval.dtype) == "i"
    if bits < 64:
        wide = np.dtype(f"{'int' if signed else 'uint'}{2 * bits}")
        whole = ShapedArray(aval.shape, wide)
        product = writer.emit(
            "stablehlo.multiply", [writer.convert(x, wide), writer.convert(y, wide)], whole
        )
        high = writer.emit(
            "stablehlo.shift_right_logical", [product, writer.full(whole, bits)], whole
        )
        return writer.convert(high, aval.dtype)
    u = ShapedArray(aval.shape, np.dtype(np.uint64))

    def op(kind: str, a: Any, b: Any) -> Any:
        return writer.emit(f"stablehlo.{kind}", [a, b], u)

    mask, half = writer.full(u, 0xFFFFFFFF), writer.full(u, 32)
    a, b = (writer.emit("stablehlo.bitcast_convert", [v], u) if signed else v for v in (x, y))
    (a0, b0), (a1, b1) = (
        [op("and", v, mask) for v in (a, b)],
        [op("shift_right_logical", v, half) for v in (a, b)],
    )
    middle = op(
        "add",
        op("multiply", a1, b0),
        op("shift_right_logical", op("multiply", a0, b0), half),
    )
    cross = op("add", op("multiply", a0, b1), op("and", middle, mask))
    high = op("add", op("multiply", a1, b1), op("shift_right_logical", middle, half))
    high = op("add", high, op("shift_right_logical", cross, half))
    if not signed:
        return high
    zero, none = writer.full(aval, 0), writer.full(u, 0)
    for sign, other in ((x, b), (y, a)):
        negative = writer.compare("LT", sign, zero)
        high = op("subtract", high, writer.select(negative, other, none))
    return writer.emit("stablehlo.bitcast_convert", [high], aval)


#: Those that are several; each is given the writer, the aval of the result, the operands.
COMPOSED: dict[str, Callable[..., Any]] = {
    "square": _square,
    "fma": _fma,
    "exp2": _exp2,
    "trunc": _trunc,
    "mulhi": _mulhi,
}
