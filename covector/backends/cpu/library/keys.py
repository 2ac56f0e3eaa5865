"""Elements as unsigned integers that sort as the elements do: what the radix sorts work on."""

from __future__ import annotations

from typing import Final, final

from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import F32, F64, INTS, Element, Type, element

_EXPONENT: Final = {"float16": 0x7C00, "bfloat16": 0x7F80}


@final
class Key:
    """How elements of one type become keys of `bits` bits, and keys elements.

    `total`: zeros and NaN are told apart by their bits (the order of `top_k`); else -0 is 0, and
    every NaN is the greatest.
    """

    __slots__ = ("element", "total", "type")

    def __init__(self, dtype: str, total: bool = False) -> None:
        self.element: Element = element(dtype)
        self.type: Type = INTS[max(self.element.memory.bits, 8)]
        self.total = total

    @property
    def floating(self) -> bool:
        """Whether there are zeros with a sign."""
        return self.element.group in "fh"

    def of(self, b: Builder, bits: Value) -> Value:
        """The key of an element, given its bits."""
        if self.element.group in "ub":
            return bits
        if self.element.group == "s":
            return b.bin("xor", bits, self._sign(b))
        sign = b.bin("ashr", bits, b.const(bits.type.bits - 1, bits.type))
        key = b.bin("xor", bits, b.bin("or", sign, self._sign(b)))
        if self.total:
            return key
        key = b.select(self.is_zero(b, bits), self._sign(b), key)
        return b.select(self._is_nan(b, bits), b.const(-1, bits.type), key)

    def back(self, b: Builder, key: Value) -> Value:
        """The bits of an element with this key."""
        if self.element.group in "ub":
            return key
        flipped = b.bin("xor", key, self._sign(b))
        if self.element.group == "s":
            return flipped
        positive = b.cmp("icmp slt", key, b.const(0, key.type))
        return b.select(positive, flipped, b.bin("xor", key, b.const(-1, key.type)))

    def is_zero(self, b: Builder, bits: Value) -> Value:
        """Whether a float is 0 or -0."""
        magnitude = b.bin("shl", bits, b.const(1, bits.type))
        return b.cmp("icmp eq", magnitude, b.const(0, bits.type))

    def is_negative_zero(self, b: Builder, bits: Value) -> Value:
        """Whether a float is -0."""
        return b.cmp("icmp eq", bits, self._sign(b))

    def below_zero(self, b: Builder, bits: Value) -> Value:
        """Whether a float is less than 0."""
        key = self.of(b, bits)
        return b.cmp("icmp ult", key, self._sign(b))

    def _sign(self, b: Builder) -> Value:
        return b.const(1 << (self.type.bits - 1), self.type)

    def _is_nan(self, b: Builder, bits: Value) -> Value:
        if self.element.group == "f":
            x = b.cast("bitcast", bits, F32 if self.type.bits == 32 else F64)
            return b.cmp("fcmp uno", x, x)
        magnitude = b.bin("and", bits, b.const(0x7FFF, bits.type))
        return b.cmp("icmp ugt", magnitude, b.const(_EXPONENT[self.element.name], bits.type))
