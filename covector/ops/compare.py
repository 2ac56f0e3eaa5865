"""Elementwise comparisons, and operations on the bits of integers and booleans."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes
from covector.ir.op import Absent
from covector.ops._check import np_where
from covector.ops.families import binary, unary


def _bool(self: Any, dtype: Any) -> Any:
    return np.dtype(np.bool_)


def _compare_hlo(direction: str) -> Any:
    def stablehlo(self: Any, writer: Any, *operands: Any) -> Any:
        shape = writer.out_avals[0].shape
        return writer.compare(direction, *(writer.broadcast_to(x, shape) for x in operands))

    return stablehlo


eq, ne, lt, le, gt, ge = (
    binary(
        name,
        accepts,
        numpy,
        out_dtype=_bool,
        jvp=Absent("integer"),
        smooth=False,
        stablehlo=_compare_hlo(name.upper()),
        # the scalar op is typed by its result, a bool
    )
    for name, accepts, numpy in (
        ("eq", "biufck", np.equal),
        ("ne", "biufck", np.not_equal),
        ("lt", "biuf", np.less),
        ("le", "biuf", np.less_equal),
        ("gt", "biuf", np.greater),
        ("ge", "biuf", np.greater_equal),
    )
)

and_, or_, xor = (
    binary(name, "biu", numpy, hlo=name)
    for name, numpy in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor))
)
not_ = unary("not", "biu", np.invert, hlo="not")

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _bits(x: Any) -> Any:
    """As unsigned integers; those of less than a byte in the lowest bits."""
    width, unsigned = dtypes.itemsize_bits(x.dtype), _UNSIGNED[x.dtype.itemsize]
    bits = np.asarray(x).view(unsigned)
    return bits if width >= 8 else bits & unsigned((1 << width) - 1)


def _clz_numpy(x: Any) -> Any:
    bits = _bits(x).astype(np.uint64)
    length: Any = np.zeros(np.shape(bits), np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high: Any = bits >> np.uint64(shift)
        length = np_where(high != 0, length + shift, length)
        bits = np_where(high != 0, high, bits)
    return (dtypes.itemsize_bits(x.dtype) - length - (bits != 0)).astype(x.dtype)


population_count = unary(
    "population_count", "iu", lambda x: np.bitwise_count(_bits(x)).astype(x.dtype), hlo="popcnt"
)
clz = unary("clz", "iu", _clz_numpy, hlo="count_leading_zeros")


def _few(x: Any, width: int) -> Any:
    """The lowest bits of integers, if they are to have less than 8."""
    return x if width >= 8 else np.bitwise_and(x, (1 << width) - 1)


def _shift_numpy(kind: str) -> Any:
    def numpy(x: Any, by: Any) -> Any:
        width, unsigned = dtypes.itemsize_bits(x.dtype), _UNSIGNED[x.dtype.itemsize]
        bits, amount = _bits(x), _bits(by)
        over = amount >= width
        amount = np_where(over, width - 1, amount).astype(unsigned)
        if kind == "arithmetic":
            signed = np.dtype(f"i{x.dtype.itemsize}")
            if width < 8:  # the sign fills the byte
                bits = (bits ^ unsigned(1 << (width - 1))) - unsigned(1 << (width - 1))
            return _few(np.right_shift(bits.view(signed), amount.view(signed)), width).view(x.dtype)
        shift = np.left_shift if kind == "left" else np.right_shift
        return _few(np_where(over, unsigned(0), shift(bits, amount)), width).view(x.dtype)

    return numpy


shift_left, shift_right_logical, shift_right_arithmetic = (
    binary(name, "iu", _shift_numpy(kind), hlo=name, domain=(0.0, 9.0))
    for name, kind in (
        ("shift_left", "left"),
        ("shift_right_logical", "logical"),
        ("shift_right_arithmetic", "arithmetic"),
    )
)


def _mulhi_numpy(x: Any, y: Any) -> Any:
    product = np.multiply(x.astype(object), y.astype(object))
    high = np.asarray(np.right_shift(product, 8 * x.dtype.itemsize))
    return high.astype(x.dtype)


mulhi = binary("mulhi", "iu", _mulhi_numpy)
