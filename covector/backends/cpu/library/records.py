"""What is sorted: keys alone, or keys each with the number of its element."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from covector.backends.cpu.emit.types import I32, I64, INTS, Type

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.code import Code

#: An item: its key (packed with its number, or not), and its number if that is apart.
Item = list["Value"]


@final
class Records:
    """Arrays of items.  Words of 64 bits are kept with their sign bit flipped: vectors compare
    signed ones only.

    Keys of up to 32 bits are packed with their number into one 64-bit word; numbers of wider keys
    are in an array of their own behind the keys.  A key alone has at least `least` bits.
    """

    __slots__ = ("bits", "c", "numbered", "packed", "shift", "type")

    def __init__(self, c: Code, bits: int, numbered: bool, least: int = 8) -> None:
        self.c, self.bits, self.numbered = c, bits, numbered
        self.packed = numbered and bits <= 32
        self.shift = 32 if self.packed else 0  # where the key's bits begin
        self.type: Type = I64 if self.packed else INTS[max(bits, least)]

    @property
    def apart(self) -> bool:
        """Whether numbers are in an array of their own."""
        return self.numbered and not self.packed

    @property
    def itemsize(self) -> int:
        """Bytes of an item."""
        return self.type.bits // 8 + (4 if self.apart else 0)

    def _place(self, base: Value, i: Value, n: Value) -> list[tuple[Value, Type]]:
        found = [(self.c.at(base, i, self.type), self.type)]
        if self.apart:
            found.append((self.c.at(self.c.at(base, n, self.type), i, I32), I32))
        return found

    def load(self, base: Value, i: Value, n: Value, lanes: int = 1) -> Item:
        """Items `i ..` of an array of `n`."""
        return [self.c.load(p, 0, t.of(lanes)) for p, t in self._place(base, i, n)]

    def store(self, base: Value, i: Value, n: Value, item: Item) -> None:
        """Writes items."""
        for (p, _), v in zip(self._place(base, i, n), item, strict=True):
            self.c.store(p, 0, v)

    def item(self, key: Value, number: Value | None) -> Item:
        """Items of keys (of their own width) and numbers (i64)."""
        b = self.c.b
        if not self.numbered:
            return [self._flipped(b.cast("zext", key, self.type))]
        assert number is not None
        if not self.packed:
            return [self._flipped(key), b.cast("trunc", number, I32)]
        high = b.bin("shl", b.cast("zext", key, I64), b.const(32, I64.of(key.type.lanes)))
        return [self._flipped(b.bin("or", high, number))]

    def _flipped(self, word: Value) -> Value:
        if self.type.bits < 64:
            return word
        return self.c.b.bin("xor", word, self.c.b.const(1 << 63, word.type))

    def last(self, lanes: int = 1) -> Item:
        """Items that come after all others."""
        b = self.c.b
        found = [self._flipped(b.const(-1, self.type.of(lanes)))]
        return [*found, b.const(-1, I32.of(lanes))] if self.apart else found

    def number(self, item: Item) -> Value:
        """The numbers of items, as i32."""
        return item[1] if self.apart else self.c.b.cast("trunc", item[0], I32)

    def key(self, item: Item, to: Type) -> Value:
        """The keys of items that are keys alone, as `to`."""
        return self.c.b.cast("trunc", self._flipped(item[0]), to)

    def after(self, x: Item, y: Item) -> Value:
        """Whether `x` comes after `y`: a greater key, or an equal one with a greater number."""
        b: Builder = self.c.b
        greater = b.cmp("icmp ugt" if self.type.bits < 64 else "icmp sgt", x[0], y[0])
        if not self.apart:
            return greater
        tie = b.bin("and", b.cmp("icmp eq", x[0], y[0]), b.cmp("icmp ugt", x[1], y[1]))
        return b.bin("or", greater, tie)

    def digit(self, item: Item, low: int, width: int) -> Value:
        """Bits `low ..` of the key, as i64."""
        b = self.c.b
        moved = b.bin("lshr", self._flipped(item[0]), b.const(low + self.shift, self.type))
        mask = (1 << min(width, self.bits - low)) - 1
        return b.cast("zext", b.bin("and", moved, b.const(mask, self.type)), I64)
