"""Casts and bit casts between element types."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import ELEMENTS, F16, F32, I1, I8, I16, I32, Element

_F32 = ELEMENTS["float32"]


def convert(b: Builder, x: Value, of: Element, to: Element) -> Value:
    """The value of `x` (of type `of`) as `to`: float to integer saturates, NaN becomes 0."""
    if of is to:
        return x
    if of.group == "h":
        return convert(b, _widen(b, x, of), _F32, to)
    if to.group == "h":
        return _narrow(b, convert(b, x, of, _F32), to)
    if to.group == "b":
        return b.cmp("fcmp une" if of.group == "f" else "icmp ne", x, b.const(0, x.type))
    if of.group == "f" and to.group == "f":
        return b.cast("fpext" if to.size > of.size else "fptrunc", x, to.register)
    if of.group == "f":
        return _saturate(b, x, to)
    if to.group == "f":
        return b.cast("sitofp" if of.group == "s" else "uitofp", x, to.register)
    if to.register.bits <= of.register.bits:
        return b.cast("trunc", x, to.register)
    return b.cast("sext" if of.group == "s" else "zext", x, to.register)


def reinterpret(b: Builder, x: Value, to: Element) -> Value:
    """The bits of `x` as `to`."""
    if x.type.bits != to.register.bits:
        raise ValueError(f"bitcast of {x.type} to {to.name}: the widths differ")
    return b.cast("bitcast", x, to.register)


def _saturate(b: Builder, x: Value, to: Element) -> Value:
    ret = to.register.of(x.type.lanes)
    name = "fptosi" if to.group == "s" else "fptoui"
    if to.size >= 4 or x.type.lanes == 1:
        return b.put("call", ret, (x,), f"llvm.{name}.sat.{ret.suffix}.{x.type.suffix}")
    # Narrow results: clamp, then convert as 32 bits, which vectors do well.
    low, high = (-(1 << (8 * to.size - 1)), (1 << (8 * to.size - 1)) - 1)
    if to.group == "u":
        low, high = 0, (1 << 8 * to.size) - 1
    whole = I32.of(x.type.lanes)
    wide = b.put("call", whole, (x,), f"llvm.fptosi.sat.{whole.suffix}.{x.type.suffix}")
    least, most = b.const(low, whole), b.const(high, whole)
    clamped = b.intrinsic("smin", b.intrinsic("smax", wide, least), most)
    return b.cast("trunc", clamped, to.register)


# float16 and bfloat16 live in registers as 16 bits.  `f16c` says whether the machine converts.


def _widen(b: Builder, x: Value, of: Element) -> Value:
    if of.name == "bfloat16":
        wide = b.cast("zext", x, I32)
        return b.cast("bitcast", b.bin("shl", wide, b.const(16, wide.type)), F32)
    if b.f16c:
        return b.cast("fpext", b.cast("bitcast", x, F16), F32)
    return _widen_half(b, x)


def _narrow(b: Builder, x: Value, to: Element) -> Value:
    if to.name == "bfloat16":
        return _narrow_bfloat(b, x)
    if b.f16c:
        return b.cast("bitcast", b.cast("fptrunc", x, F16), I16)
    return _narrow_half(b, x)


def _narrow_bfloat(b: Builder, x: Value) -> Value:
    """Round to nearest, ties to even, on the bits; a NaN stays one (quiet)."""
    bits = b.cast("bitcast", x, I32)
    c = lambda n: b.const(n, bits.type)  # noqa: E731
    odd = b.bin("and", b.bin("lshr", bits, c(16)), c(1))
    rounded = b.bin("add", b.bin("add", bits, c(0x7FFF)), odd)
    quiet = b.bin("or", bits, c(0x400000))
    nan = b.cmp("fcmp uno", x, x)
    return b.cast("trunc", b.bin("lshr", b.select(nan, quiet, rounded), c(16)), I16)


def _widen_half(b: Builder, x: Value) -> Value:
    """Shift the fields into place and scale by 2^112: exact, denormals included."""
    wide = b.cast("zext", x, I32)
    c = lambda n: b.const(n, wide.type)  # noqa: E731
    magnitude = b.bin("shl", b.bin("and", wide, c(0x7FFF)), c(13))
    value = b.cast("bitcast", magnitude, F32)
    scaled = b.bin("fmul", value, b.const(2.0**112, value.type))
    special = b.cmp("icmp uge", magnitude, c(0x7C00 << 13))  # infinity and NaN keep their exponent
    bits = b.select(special, b.bin("or", magnitude, c(0x7F800000)), b.cast("bitcast", scaled, I32))
    sign = b.bin("shl", b.bin("and", wide, c(0x8000)), c(16))
    return b.cast("bitcast", b.bin("or", bits, sign), F32)


def _narrow_half(b: Builder, x: Value) -> Value:
    """Round to nearest even on the bits; denormal results by adding a power of two in float."""
    bits = b.cast("bitcast", x, I32)
    c = lambda n: b.const(n, bits.type)  # noqa: E731
    magnitude = b.bin("and", bits, c(0x7FFFFFFF))
    odd = b.bin("and", b.bin("lshr", magnitude, c(13)), c(1))
    rebased = b.bin("add", magnitude, c(-((127 - 15) << 23) + 0xFFF))
    normal = b.bin("lshr", b.bin("add", rebased, odd), c(13))
    value = b.cast("bitcast", magnitude, F32)
    # 0.5 has the unit of the least half denormal, 2^-24, in its last place.
    small = b.bin("sub", b.cast("bitcast", b.bin("fadd", value, b.const(0.5, value.type)), I32),
                  c(0x3F000000))  # fmt: skip
    half = b.select(b.cmp("icmp ult", magnitude, c(113 << 23)), small, normal)
    half = b.select(b.cmp("icmp uge", magnitude, c(143 << 23)), c(0x7C00), half)
    payload = b.bin("or", b.bin("and", b.bin("lshr", magnitude, c(13)), c(0x3FF)), c(0x7E00))
    half = b.select(b.cmp("fcmp uno", x, x), payload, half)
    sign = b.bin("and", b.bin("lshr", bits, c(16)), c(0x8000))
    return b.cast("trunc", b.bin("or", half, sign), I16)


def literal(b: Builder, number: Any, of: Element) -> Value:
    """A Python number as a constant of this element type."""
    if of.group == "h":
        return b.const(half_bits(number, of.name), I16)
    if of.group == "b":
        return b.const(bool(number), I1)
    return b.const(float(number) if of.group == "f" else int(number), of.register)


def half_bits(number: Any, name: str) -> int:
    """The 16 bits of a number as float16 or bfloat16, to nearest even."""
    with np.errstate(over="ignore"):
        if name == "float16":
            return int(np.array(number, np.float16).view(np.uint16))
        single = np.array(number, np.float32)
    (bits,) = struct.unpack("<I", struct.pack("<f", single))
    if single != single:
        return (bits >> 16 | 0x40) & 0xFFFF
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def to_memory(b: Builder, x: Value, of: Element) -> Value:
    """As it is stored: a bool becomes a byte."""
    return b.cast("zext", x, I8) if of.group == "b" else x


def from_memory(b: Builder, x: Value, of: Element) -> Value:
    """As it is computed with, from how it is stored."""
    return b.cmp("icmp ne", x, b.const(0, x.type)) if of.group == "b" else x
