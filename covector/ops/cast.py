"""Primitives between dtypes: conversion, the same bits read otherwise, reduced precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Linear, Op, Sample
from covector.ir.scalar import Expr, bitcast, cast, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops._check import np_where
from covector.ops.families import Pointwise


class ConvertElementType(Pointwise):
    """The value in another dtype: floats to integers towards zero and saturating, NaN to 0;
    complex to real drops the imaginary part; to bool tells what is not 0."""

    name = "convert_element_type"
    arity = 1
    accepts = "biufc"
    new_dtype: Any
    weak_type: bool = False

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The same shape."""
        _check.check_kind(self.name, 0, avals[0], self.accepts)
        return ShapedArray(avals[0].shape, self.new_dtype, self.weak_type)

    def numpy(self, x: Any) -> Any:
        """NumPy's conversion, made total."""
        x, dtype = np.asarray(x), np.dtype(self.new_dtype)
        old, new = _check.kind(x.dtype), _check.kind(dtype)
        if new == "b":
            return x != 0
        if old == "c" and new != "c":
            x, old = x.real, "f"
        if old == "f" and new in "iu":
            return _float_to_integer(x, dtype)
        if x.dtype == np.float64 and new == "f" and dtype.itemsize < 4:
            x = x.astype(np.float32)  # rounds twice, as machines (and XLA) do
        return x.astype(dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The converted tangent; none to or from integers."""
        out, (t,) = self(*primals), tangents
        inexact = _check.kind(np.dtype(self.new_dtype)) in "fc"
        return out, self(t) if inexact and t is not None else None

    def transpose(self, tools: Any, ct: Any, *args: Linear) -> list[Any]:
        """Converted back."""
        return [convert_element_type(ct, args[0].aval.dtype, args[0].aval.weak_type)]

    def element(self, dtype: str, *args: Expr) -> Expr:
        """A cast."""
        return cast(args[0], dtype)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.convert."""
        return writer.convert(operands[0], self.new_dtype)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every pair of a few dtypes; values out of range."""
        names = ("bool", "int8", "int32", "uint8", "uint32", "float16", "bfloat16", "float32",
                 "float64", "complex64")  # fmt: skip
        for old in names:
            for new in names:
                yield Sample(ConvertElementType(np.dtype(new)),
                             (ShapedArray((7,), old),))  # fmt: skip
        wild = np.array(
            [np.nan, np.inf, -np.inf, 1e10, -1e10, 300.0, -1.5, 255.5, 2.0**31], np.float32
        )
        for new in ("int8", "uint8", "int32", "uint32", "int64"):
            yield Sample(ConvertElementType(np.dtype(new)), (wild,), smooth=False)


def _float_to_integer(x: Any, dtype: Any) -> Any:
    info = dtypes.iinfo(dtype)
    x = x.astype(np.float64)
    low, high = float(info.min), float(info.max)  # high may round up to a power of two
    fits = (x >= low) & (x < high)
    out = np.where(x >= high, np.array(info.max, dtype), np.where(fits, x, 0).astype(dtype))
    return np.where(x < low, np.array(info.min, dtype), out)


def convert_element_type(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """`x` in another dtype; itself if it has it, and that weak type."""
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return ConvertElementType(dtype, weak_type)(x)


class BitcastConvertType(Op):
    """The same bits as another dtype; wider elements are pieces along a trailing axis."""

    name = "bitcast_convert_type"
    arity = 1
    transpose = Absent("not linear")
    new_dtype: Any

    def result(self, x: ShapedArray) -> ShapedArray:
        """A trailing axis more (narrower) or less (wider)."""
        new = np.dtype(self.new_dtype)
        if x.dtype == new:
            return ShapedArray(x.shape, new)
        self._check_kind(x, x.dtype)
        old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new)
        pieces = new_bits // old_bits
        if pieces > 1 and x.shape[-1:] != (pieces,):
            raise ValueError(
                f"bitcast_convert_type: {x.str_short()} to {new}, of {new_bits} bits, needs a last "
                f"axis of {pieces} elements"
            )
        self._check_kind(x, new)
        if max(old_bits, new_bits) % min(old_bits, new_bits):
            raise ValueError(
                f"bitcast_convert_type: {x.dtype} has {old_bits} bits, {new} has {new_bits}: no "
                "element of one is made of whole elements of the other"
            )
        if old_bits == new_bits:
            return ShapedArray(x.shape, new)
        if old_bits > new_bits:
            return ShapedArray((*x.shape, old_bits // new_bits), new)
        return ShapedArray(x.shape[:-1], new)

    def _check_kind(self, x: ShapedArray, dtype: Any) -> None:
        if _check.kind(dtype) not in "iuf":
            raise TypeError(
                "bitcast_convert_type does not support bool, complex or key values unless both "
                f"dtypes are the same: got an operand of {x.dtype} and new_dtype={self.new_dtype}"
            )

    def numpy(self, x: Any) -> Any:
        """NumPy's view; elements of less than a byte, each in a byte there, are packed first."""
        new = np.dtype(self.new_dtype)
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new)
        if old_bits == new_bits:
            return x.view(new)
        if min(old_bits, new_bits) < 8:
            return _repacked(x, old_bits, new, new_bits)
        if old_bits < new_bits:
            return x.view(new)[..., 0]
        return x[..., None].view(new)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """No tangent: the result is locally constant, or has no meaning as a number."""
        return self(*primals), None

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The op itself; the batch axis is first, so that it is not the trailing one."""
        return self(ops.shape.move_axis(args[0], dims[0], 0)), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """Pieces are shifted into place, the first in the lowest bits."""
        old, new = ask.dtypes[0], ask.out_dtypes[0]
        if old == new:
            return ask.at(0, index)
        narrow, wide = (_bits(d) for d in (old, new))
        if narrow == wide:
            return bitcast(ask.at(0, index), new)
        if narrow > wide:
            whole = _as_bytes(ask.at(0, index[:-1]), narrow)
            by = ask.index(affine(index[-1]) * wide, whole.dtype)
            piece = expr("shift_right_logical", whole.dtype, whole, by)
            if wide < 8:
                piece = piece & ((1 << wide) - 1)
            return bitcast(cast(piece, f"uint{wide}"), new)
        total: Expr | None = None
        for j in range(wide // narrow):
            piece = _as_bytes(ask.at(0, [*index, affine(j)]), narrow)
            piece = cast(piece, f"uint{max(wide, 8)}")
            amount = const(j * narrow, piece.dtype)
            piece = expr("shift_left", piece.dtype, piece, amount) if j else piece
            total = piece if total is None else total | piece
        assert total is not None
        return bitcast(cast(total, f"uint{wide}"), new)

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.bitcast_convert."""
        if writer.aval(x).dtype == self.new_dtype:
            return x
        return writer.emit("stablehlo.bitcast_convert", [x])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Same width, narrower, wider."""
        for shape, old, new in (
            ((3, 5), "float32", "int32"),
            ((3, 5), "int16", "bfloat16"),
            ((3, 5), "float64", "uint64"),
            ((3,), "float32", "uint8"),
            ((2, 3), "uint64", "uint32"),
            ((3, 4), "uint8", "int32"),
            ((2,), "uint32", "float64"),
            ((3,), "float32", "float32"),
            ((3, 2), "int4", "uint8"),
            ((8,), "uint4", "float32"),
            ((2, 2), "uint2", "int4"),
            ((3,), "int16", "int4"),
            ((2, 3), "int4", "int2"),
        ):
            op = BitcastConvertType(dtypes.as_dtype(new))
            yield Sample(op, (ShapedArray(shape, dtypes.as_dtype(old)),), smooth=False)


def _repacked(x: Any, old_bits: int, new: Any, new_bits: int) -> Any:
    """The bits of `x`, in order, as elements of `new`: through a byte for each bit."""
    bits = np.unpackbits(x[..., None].view(np.uint8), axis=-1, bitorder="little")[..., :old_bits]
    if old_bits > new_bits:
        bits = bits.reshape(*x.shape, old_bits // new_bits, new_bits)
    else:
        bits = bits.reshape(*x.shape[:-1], new_bits)
    packed = np.zeros((*bits.shape[:-1], 8 * new.itemsize), np.uint8)
    packed[..., :new_bits] = bits
    return np.packbits(packed, axis=-1, bitorder="little").view(new)[..., 0]


def _as_bytes(x: Expr, bits: int) -> Expr:
    """The bits of `x` as an unsigned integer of a byte or more."""
    return cast(bitcast(x, f"uint{bits}"), f"uint{max(bits, 8)}")


def _bits(dtype: str) -> int:
    return dtypes.itemsize_bits(dtypes.as_dtype(dtype))


def bitcast_convert_type(x: Any, dtype: Any) -> Any:
    """The bits of `x` as another dtype."""
    return BitcastConvertType(np.dtype(dtype))(x)


#: Bits of exponent and of mantissa.
_FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


class ReducePrecision(Pointwise):
    """Rounded to fewer bits of exponent and mantissa, to nearest even; what is too small for the
    exponent becomes 0, what is too large infinite."""

    name = "reduce_precision"
    arity = 1
    accepts = "f"
    exponent_bits: int
    mantissa_bits: int

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The argument's type."""
        if self.exponent_bits < 1:
            raise ValueError(
                f"reduce_precision: exponent_bits must be positive; got {self.exponent_bits}"
            )
        if self.mantissa_bits < 0:
            raise ValueError(
                f"reduce_precision: mantissa_bits must not be negative; got {self.mantissa_bits}"
            )
        return super().result(*avals)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangent in the same precision."""
        (t,) = tangents
        return self(*primals), None if t is None else self(t)

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """The cotangent in the same precision."""
        return [self(ct)]

    def _constants(self, dtype: str) -> tuple[int, int, int, int]:
        """(bits dropped, mantissa bits, least and greatest biased exponent kept)."""
        exponent, mantissa = _FORMATS[dtype]
        drop = max(mantissa - self.mantissa_bits, 0)
        bias = (1 << (exponent - 1)) - 1
        reduced = (1 << (min(self.exponent_bits, exponent) - 1)) - 1
        return drop, mantissa, bias - reduced, bias + reduced

    def numpy(self, x: Any) -> Any:
        """On the bits."""
        x = np.asarray(x)
        name, size = x.dtype.name, x.dtype.itemsize
        drop, mantissa, low, high = self._constants(name)
        unsigned = np.dtype(f"u{size}")
        bits, one = x.view(unsigned), unsigned.type(1)
        sign = bits & unsigned.type(1 << (8 * size - 1))
        if drop:
            odd = (bits >> unsigned.type(drop)) & one
            bits = bits + (unsigned.type((1 << (drop - 1)) - 1) + odd)
            bits = bits & ~unsigned.type((1 << drop) - 1)
        if self.exponent_bits < _FORMATS[name][0]:
            exponent = (bits & ~unsigned.type(1 << (8 * size - 1))) >> unsigned.type(mantissa)
            infinite = sign | unsigned.type(((1 << _FORMATS[name][0]) - 1) << mantissa)
            bits = np_where(exponent > high, infinite, bits)
            bits = np_where(exponent <= low, sign, bits)
        return np.where(np.isnan(x), x, np.asarray(bits, unsigned).view(x.dtype))

    def element(self, dtype: str, *args: Expr) -> Expr:
        """On the bits."""
        (x,) = args
        drop, mantissa, low, high = self._constants(dtype)
        width = _bits(dtype)
        unsigned = f"uint{width}"
        bits = bitcast(x, unsigned)
        sign = bits & (1 << (width - 1))
        if drop:
            odd = expr("shift_right_logical", unsigned, bits, const(drop, unsigned)) & 1
            bits = bits + (odd + ((1 << (drop - 1)) - 1))
            bits = bits & ((1 << width) - (1 << drop))
        if self.exponent_bits < _FORMATS[dtype][0]:
            size = bits & ((1 << (width - 1)) - 1)
            exponent = expr("shift_right_logical", unsigned, size, const(mantissa, unsigned))
            infinite = sign | (((1 << _FORMATS[dtype][0]) - 1) << mantissa)
            bits = select(compare("gt", exponent, high), infinite, bits)
            bits = select(compare("le", exponent, low), sign, bits)
        return select(compare("ne", x, x), x, bitcast(bits, dtype))

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.reduce_precision."""
        return writer.emit(
            "stablehlo.reduce_precision",
            operands,
            exponent_bits=writer.i32(self.exponent_bits),
            mantissa_bits=writer.i32(self.mantissa_bits),
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """To half precision, to bfloat16, to tiny formats; special values."""
        special = np.array(
            [1.1, 1e20, 1e-30, np.nan, np.inf, 65519, 65520, -1e-10, -0.0, 3e38], np.float32
        )
        for e, m in ((5, 10), (8, 7), (4, 3), (8, 23), (11, 52)):
            yield Sample(ReducePrecision(e, m), (special,), smooth=False)
            for dtype in ("float16", "bfloat16", "float64"):
                op = ReducePrecision(e, m)
                yield Sample(op, (ShapedArray((7,), dtype),), smooth=False)


def reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """`x` rounded to that many bits of exponent and mantissa."""
    return ReducePrecision(int(exponent_bits), int(mantissa_bits))(x)
