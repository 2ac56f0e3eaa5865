"""Stable sorts of rows, by radix: from the least digit to the greatest, each pass stable.

Knuth, The Art of Computer Programming, vol. 3, 5.2.5 (radix sorting by distribution counting) and
5.2.1 (straight insertion, for short rows).  Elements become unsigned keys first; a digit that all
keys share is skipped.  One lone operand is sorted as keys alone; otherwise a key travels with the
number of its element, and the operands are gathered at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import I1, I8, I32, I64, INTS, PARTS, PTR, Type
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.keys import Key

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.site import Operand, Site
    from covector.backends.cpu.target import Target

#: Rows up to this length are sorted by insertion.
SHORT: Final = 48
#: From this length on digits have 11 bits (fewer passes, larger tables), below it 8.
LONG: Final = 1 << 14


@final
class Records:
    """Where the items being sorted are: keys alone, or keys each with a 32-bit number.

    Keys of up to 32 bits are packed with their number into one 64-bit word.
    """

    __slots__ = ("bits", "c", "numbered", "packed", "shift", "type")

    def __init__(self, c: Code, bits: int, numbered: bool) -> None:
        self.c, self.bits, self.numbered = c, bits, numbered
        self.packed = numbered and bits <= 32
        self.shift = 32 if self.packed else 0  # where the key's bits begin
        self.type: Type = I64 if self.packed else INTS[bits]

    @property
    def apart(self) -> bool:
        """Whether numbers are in an array of their own, behind the keys."""
        return self.numbered and not self.packed

    def size(self, b: Builder, n: Value) -> Value:
        """Bytes of `n` items."""
        return b.mul(n, b.int(self.type.bits // 8 + (4 if self.apart else 0)))

    def load(self, base: Value, i: Value, n: Value) -> list[Value]:
        """An item: its key (packed or not), and its number if that is apart."""
        item = [self.c.load(base, i, self.type)]
        if self.apart:
            item.append(self.c.load(self.c.at(base, n, self.type), i, I32))
        return item

    def store(self, base: Value, i: Value, n: Value, item: list[Value]) -> None:
        """Writes an item."""
        self.c.store(base, i, item[0])
        if self.apart:
            self.c.store(self.c.at(base, n, self.type), i, item[1])

    def item(self, key: Value, number: Value | None) -> list[Value]:
        """An item of a key (of its own width) and a number (i64)."""
        b = self.c.b
        if not self.numbered:
            return [key]
        assert number is not None
        if not self.packed:
            return [key, b.cast("trunc", number, I32)]
        high = b.bin("shl", b.cast("zext", key, I64), b.int(32))
        return [b.bin("or", high, number)]

    def number(self, item: list[Value]) -> Value:
        """The number in an item, as i32."""
        return item[1] if self.apart else self.c.b.cast("trunc", item[0], I32)

    def greater(self, x: list[Value], y: list[Value]) -> Value:
        """Whether the key of `x` is greater than that of `y`."""
        b, bound = self.c.b, y[0]
        if self.packed:
            bound = b.bin("or", bound, b.const((1 << self.shift) - 1, I64))
        return b.cmp("icmp ugt", x[0], bound)

    def digit(self, item: list[Value], low: int, width: int) -> Value:
        """Bits `low ..` of the key, as i64."""
        b = self.c.b
        moved = b.bin("lshr", item[0], b.const(low + self.shift, self.type))
        if low + width < self.bits or not self.packed:
            moved = b.bin("and", moved, b.const((1 << min(width, self.bits - low)) - 1, self.type))
        return b.cast("zext", moved, I64)


def digits(bits: int, width: int) -> list[tuple[int, int]]:
    """(lowest bit, width) of each digit of a key."""
    count = -(-bits // width)
    even = -(-bits // count)
    return [(low, min(even, bits - low)) for low in range(0, bits, even)]


def insertion_sort(r: Records, base: Value, n: Value) -> None:
    """Sorts `n` items where they are."""
    c, b = r.c, r.c.b

    def one(i: Value) -> None:
        item = r.load(base, i, n)

        def test(j: Value, more: Value) -> Value:
            return more

        def follow(j: Value) -> Value:
            """Whether the item before place `j` must move up."""
            (found,) = c.when(
                b.cmp("icmp sgt", j, b.int(0)),
                lambda: [r.greater(r.load(base, b.sub(j, b.int(1)), n), item)],
                lambda: [b.const(False, I1)],
            )
            return found

        def move(j: Value, more: Value) -> list[Value]:
            before = b.sub(j, b.int(1))
            r.store(base, j, n, r.load(base, before, n))
            return [before, follow(before)]

        place, _ = c.repeat([i, follow(i)], test, move)
        r.store(base, place, n, item)

    c.loop(1, n, one)


def radix_sort(r: Records, here: Value, there: Value, n: Value, width: int) -> list[Value]:
    """Sorts `n` items between two arrays; gives (where they are in the end, the other)."""
    c, b = r.c, r.c.b
    parts = digits(r.bits, width)
    size = 1 << parts[0][1]
    tables = [c.local(I32, size) for _ in parts]
    one = b.const(1, I32)
    for table in tables:
        c.clear(table, 4 * size)

    def count(i: Value) -> None:
        item = r.load(here, i, n)
        for table, (low, bits) in zip(tables, parts, strict=True):
            at = r.digit(item, low, bits)
            c.store(table, at, b.bin("add", c.load(table, at, I32), one))

    c.loop(0, n, count)
    all_of_them = b.cast("trunc", n, I32)
    pair = [here, there]
    for table, (low, bits) in zip(tables, parts, strict=True):

        def distribute(source: Value, target: Value, table=table, low=low, bits=bits) -> None:
            def prefix(k: Value, total: Value) -> list[Value]:
                found = c.load(table, k, I32)
                c.store(table, k, total)
                return [b.bin("add", total, found)]

            c.loop(0, 1 << bits, prefix, [b.const(0, I32)])

            def move(i: Value) -> None:
                item = r.load(source, i, n)
                at = r.digit(item, low, bits)
                place = c.load(table, at, I32)
                c.store(table, at, b.bin("add", place, one))
                r.store(target, b.cast("zext", place, I64), n, item)

            c.loop(0, n, move)

        source, target = pair
        first = r.digit(r.load(source, b.int(0), n), low, bits)
        shared = b.cmp("icmp eq", c.load(table, first, I32), all_of_them)
        pair = c.when(
            shared,
            lambda s=source, t=target: [s, t],
            lambda s=source, t=target, f=distribute: f(s, t) or [t, s],
        )
    return pair


def sort_items(r: Records, here: Value, there: Value, n: Value) -> list[Value]:
    """Sorts by the method that suits the length; gives (where the items are, the other array)."""
    c, b = r.c, r.c.b

    def short() -> list[Value]:
        insertion_sort(r, here, n)
        return [here, there]

    def longer() -> list[Value]:
        if r.bits <= 16:
            return radix_sort(r, here, there, n, 8)
        return c.when(
            b.cmp("icmp slt", n, b.int(LONG)),
            lambda: radix_sort(r, here, there, n, 8),
            lambda: radix_sort(r, here, there, n, 11),
        )

    return c.when(b.cmp("icmp sle", n, b.int(SHORT)), short, longer)


# The functions


def values_function(name: str, dtype: str) -> tuple[str, set[str]]:
    """`(in, out, rows, n)`: sorts each row of one operand."""
    c = Code(name, {"x": "p", "y": "p", "rows": "n", "n": "n"})
    x, y, rows, n = c.parameters
    b, key = c.b, Key(dtype)
    r = Records(c, key.type.bits, False)
    spare = c.allocate(b.add(r.size(b, n), b.int(64)))

    def row(k: Value) -> None:
        offset = b.mul(k, n)
        source, target = c.at(x, offset, key.type), c.at(y, offset, key.type)

        def take(i: Value, *seen: Value) -> list[Value]:
            bits = c.load(source, i, key.type)
            c.store(target, i, key.of(b, bits))
            return [b.bin("or", s, key.is_negative_zero(b, bits)) for s in seen]

        signed = c.loop(0, n, take, [b.const(False, I1)] if key.floating else [])
        found, _ = sort_items(r, target, spare, n)
        c.loop(0, n, lambda i: c.store(target, i, key.back(b, c.load(found, i, key.type))))
        if signed:
            c.when(signed[0], lambda: _restore_zeros(c, key, source, target, n))

    c.loop(0, rows, row)
    c.free(spare)
    return c.text()


def _restore_zeros(c: Code, key: Key, source: Value, target: Value, n: Value) -> None:
    """Zeros of either sign are equal: they keep the order they came in."""
    b = c.b

    def count(i: Value, total: Value) -> list[Value]:
        below = key.below_zero(b, c.load(source, i, key.type))
        return [b.add(total, b.cast("zext", below, I64))]

    (start,) = c.loop(0, n, count, [b.int(0)])

    def put(i: Value, at: Value) -> list[Value]:
        bits = c.load(source, i, key.type)
        zero = key.is_zero(b, bits)
        c.when(zero, lambda: c.store(target, at, bits))
        return [b.add(at, b.cast("zext", zero, I64))]

    c.loop(0, n, put, [start])


def order_function(name: str, dtype: str, parts: int = 1) -> tuple[str, set[str]]:
    """`(in, order, spare, n, fresh)`: re-orders a row's numbers by one more, greater key.

    `order`: n i32; with `fresh` it is made, in order, first.  `spare`: twice the records.
    `parts`: elements from one key to the next in memory (2 for the parts of complex numbers).
    """
    c = Code(name, {"x": "p", "order": "p", "spare": "p", "n": "n", "fresh": "n"})
    x, order, spare, n, fresh = c.parameters
    b, key = c.b, Key(dtype)
    r = Records(c, key.type.bits, True)
    there = c.at(spare, r.size(b, n), I8)
    made = b.cmp("icmp ne", fresh, b.int(0))

    def take(i: Value) -> None:
        at = b.cast("zext", c.load(order, i, I32), I64)
        bits = c.load(x, b.mul(at, b.int(parts)), key.type)
        r.store(spare, i, n, r.item(key.of(b, bits), at))

    def number(i: Value) -> None:
        c.store(order, i, b.cast("trunc", i, I32))

    c.when(made, lambda: c.loop(0, n, number))
    c.loop(0, n, take)
    found, _ = sort_items(r, spare, there, n)
    c.loop(0, n, lambda i: c.store(order, i, r.number(r.load(found, i, n))))
    return c.text()


def take_function(name: str, bits: int, words: int) -> tuple[str, set[str]]:
    """`(in, out, order, n)`: gathers a row; elements are `words` words of `bits` bits."""
    c = Code(name, {"x": "p", "y": "p", "order": "p", "n": "n"})
    x, y, order, n = c.parameters
    b = c.b

    def one(i: Value) -> None:
        at = b.cast("zext", c.load(order, i, I32), I64)
        for w in range(words):
            place, to = (b.add(b.mul(v, b.int(words)), b.int(w)) for v in (at, i))
            c.store(y, to, c.load(x, place, INTS[bits]))

    c.loop(0, n, one)
    return c.text()


# The routine


def sort(site: Site) -> None:
    """Sorts the rows (last axis) of all operands together, by the first `num_keys`, stably."""
    (num_keys,) = site.attributes
    shape = site.inputs[0].shape
    n = shape[-1] if shape else 1
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    if rows * n == 0:
        return
    if n >= 1 << 31:
        raise NotImplementedError(f"sort of rows of {n} elements: elements count in 32 bits")
    b = site.host.b
    if len(site.inputs) == 1 and site.inputs[0].dtype not in PARTS:
        x, y = site.inputs[0], site.outputs[0]
        name = _need(site, "sort", x.dtype, lambda name: values_function(name, x.dtype))
        b.effect("effect", I64, (x.pointer, y.pointer, b.int(rows), b.int(n)), name)
        return
    order, spare = _room(b, 4 * n), _room(b, 2 * n * 12 + 64)
    keys = [k for x in reversed(site.inputs[:num_keys]) for k in reversed(_keys(x))]

    def row(k: Value, carried: list[Value]) -> list[Value]:
        start = b.mul(k, b.int(n))
        for round_, (x, dtype, part, parts) in enumerate(keys):
            _order(site, x, dtype, part, parts, start, order, spare, n, round_ == 0)
        for x, y in zip(site.inputs, site.outputs, strict=True):
            _take(site, x, y, start, order, n)
        return carried

    b.loop(b.int(0), b.int(rows), 1, [], row)
    for pointer in (order, spare):
        b.effect("effect", I64, (pointer,), "free")


def _keys(x: Operand) -> list[tuple[Operand, str, int, int]]:
    """(operand, dtype, which part, of how many): complex numbers sort by parts."""
    part = PARTS.get(x.dtype)
    return [(x, part, k, 2) for k in range(2)] if part else [(x, x.dtype, 0, 1)]


def _order(
    site: Site, x: Operand, dtype: str, part: int, parts: int, start: Value, order: Value,
    spare: Value, n: int, fresh: bool,
) -> None:  # fmt: skip
    b = site.host.b
    kind = INTS[max(8, Key(dtype).type.bits)]
    at = b.add(b.mul(start, b.int(parts)), b.int(part))
    pointer = b.put("gep", x.pointer.type, (x.pointer, at), kind)
    name = _need(site, f"order{parts}", dtype, lambda name: order_function(name, dtype, parts))
    args = (pointer, order, spare, b.int(n), b.int(int(fresh)))
    b.effect("effect", I64, args, name)


def _take(site: Site, x: Operand, y: Operand, start: Value, order: Value, n: int) -> None:
    b = site.host.b
    bits, words = min(8 * x.itemsize, 64), max(x.itemsize // 8, 1)
    at = b.mul(start, b.int(words))
    source, target = (b.put("gep", v.pointer.type, (v.pointer, at), INTS[bits]) for v in (x, y))
    name = _need(site, "take", f"{words}x{bits}", lambda name: take_function(name, bits, words))
    b.effect("effect", I64, (source, target, order, b.int(n)), name)


def _room(b: Builder, nbytes: int) -> Value:
    return b.put("call", PTR, (b.int(nbytes),), "malloc", len(b.scopes) - 1, keep=False)


def _need(
    site: Site, what: str, dtype: str, make: Callable[[str], tuple[str, set[str]]]
) -> str:
    """Makes sure that a function is linked in; its name."""
    target: Target = site.host.target
    name = f"{what}.{dtype}"

    def text() -> str:
        function, declared = make(name)
        return module_text(target, [function], declared)

    site.host.code(name, text)
    return name
