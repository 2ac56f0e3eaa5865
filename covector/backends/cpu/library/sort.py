"""Stable sorts of rows.

Elements become unsigned keys first.  One lone operand is sorted as keys alone; otherwise a key
travels with the number of its element, and the operands are gathered at the end.  Several keys
are sorted by one after the other, from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import I1, I8, I32, I64, INTS, PARTS, PTR
from covector.backends.cpu.library import merge, radix
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.keys import Key
from covector.backends.cpu.library.records import Records

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.site import Operand, Site
    from covector.backends.cpu.target import Target

#: From this many items on, keys of up to 16 bits are sorted by distribution.
MANY: Final = 1000
#: From this many on, where memory sets the pace, wider ones too.
VAST: Final = 1 << 22


def sort_items(
    r: Records, here: Value, there: Value, n: Value, room: Value, lanes: int
) -> list[Value]:
    """Sorts `n` items in arrays of `room`; gives (where they are in the end, the other array)."""
    c, b = r.c, r.c.b

    def merged() -> list[Value]:
        merge.pad(r, here, n, room)
        return merge.merge_sort(r, here, there, room, lanes)

    limit, digit = (MANY, 8) if r.bits <= 16 else (VAST, 11)
    return c.when(
        b.cmp("icmp slt", n, b.int(limit)),
        merged,
        lambda: radix.radix_sort(r, here, there, n, room, digit),
    )


# The functions


def values_function(name: str, dtype: str, target: Target) -> tuple[str, set[str]]:
    """`(in, out, rows, n)`: sorts each row of one operand."""
    c = Code(name, {"x": "p", "y": "p", "rows": "n", "n": "n"})
    x, y, rows, n = c.parameters
    b, key = c.b, Key(dtype)
    r = Records(c, key.type.bits, False, 32)
    lanes = merge.width(r, target.vector_bytes)
    room = merge.padded(r, n, lanes)
    spare = c.allocate(b.mul(b.add(room, b.int(2 * lanes)), b.int(2 * r.itemsize)))
    other = c.at(spare, b.mul(b.add(room, b.int(lanes)), b.int(r.itemsize)), I8)

    def row(k: Value) -> None:
        offset = b.mul(k, n)
        source, result = c.at(x, offset, key.type), c.at(y, offset, key.type)

        def take(i: Value, width: int, *seen: Value) -> list[Value]:
            bits = c.load(source, i, key.type.of(width))
            r.store(spare, i, room, r.item(key.of(b, bits), None))
            negative = key.is_negative_zero(b, bits)
            return [b.bin("or", s, c.any(negative)) for s in seen]

        signed = c.vectors(n, lanes, take, [b.const(False, I1)] if key.floating else [])
        found, _ = sort_items(r, spare, other, n, room, lanes)

        def give(i: Value, width: int) -> None:
            back = key.back(b, r.key(r.load(found, i, room, width), key.type))
            c.store(result, i, back)

        c.vectors(n, lanes, give)
        if signed:
            c.when(signed[0], lambda: _restore_zeros(c, key, source, result, n))

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


def order_function(name: str, dtype: str, parts: int, target: Target) -> tuple[str, set[str]]:
    """`(in, order, n, fresh)`: re-orders a row's numbers by one more, greater key.

    `order`: n i32; with `fresh` it is made, in order, first.  `parts`: elements from one key to
    the next in memory (2 for the parts of complex numbers).
    """
    c = Code(name, {"x": "p", "order": "p", "n": "n", "fresh": "n"})
    x, order, n, fresh = c.parameters
    b, key = c.b, Key(dtype)
    r = Records(c, key.type.bits, True)
    lanes = merge.width(r, target.vector_bytes)
    room = merge.padded(r, n, lanes)
    spare = c.allocate(b.mul(b.add(room, b.int(2 * lanes)), b.int(2 * r.itemsize)))
    other = c.at(spare, b.mul(b.add(room, b.int(lanes)), b.int(r.itemsize)), I8)
    made = b.cmp("icmp ne", fresh, b.int(0))

    def take(i: Value, at: Value) -> None:
        bits = c.load(x, b.mul(at, b.int(parts)), key.type)
        r.store(spare, i, room, r.item(key.of(b, bits), i))

    c.when(
        made,
        lambda: c.loop(0, n, lambda i: take(i, i)),
        lambda: c.loop(0, n, lambda i: take(i, b.cast("zext", c.load(order, i, I32), I64))),
    )
    found, free = sort_items(r, spare, other, n, room, lanes)

    def compose() -> None:
        """Numbers are places in the old order; it is moved out of the way, then gathered."""
        c.loop(0, n, lambda i: c.store(free, i, c.load(order, i, I32)))

        def one(i: Value) -> None:
            place = b.cast("zext", r.number(r.load(found, i, room)), I64)
            c.store(order, i, c.load(free, place, I32))

        c.loop(0, n, one)

    c.when(
        made,
        lambda: c.loop(0, n, lambda i: c.store(order, i, r.number(r.load(found, i, room)))),
        compose,
    )
    c.free(spare)
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
    b, target = site.host.b, site.host.target
    if len(site.inputs) == 1 and site.inputs[0].dtype not in PARTS:
        x, y = site.inputs[0], site.outputs[0]
        name = _need(site, "sort", x.dtype, lambda name: values_function(name, x.dtype, target))
        b.effect("effect", I64, (x.pointer, y.pointer, b.int(rows), b.int(n)), name)
        return
    order = _room(b, 4 * n)
    keys = [k for x in reversed(site.inputs[:num_keys]) for k in reversed(_keys(x))]

    def row(k: Value, carried: list[Value]) -> list[Value]:
        start = b.mul(k, b.int(n))
        for round_, (x, dtype, part, parts) in enumerate(keys):
            _order(site, x, dtype, part, parts, start, order, n, round_ == 0)
        for x, y in zip(site.inputs, site.outputs, strict=True):
            _take(site, x, y, start, order, n)
        return carried

    b.loop(b.int(0), b.int(rows), 1, [], row)
    b.effect("effect", I64, (order,), "free")


def _keys(x: Operand) -> list[tuple[Operand, str, int, int]]:
    """(operand, dtype, which part, of how many): complex numbers sort by parts."""
    part = PARTS.get(x.dtype)
    return [(x, part, k, 2) for k in range(2)] if part else [(x, x.dtype, 0, 1)]


def _order(
    site: Site, x: Operand, dtype: str, part: int, parts: int, start: Value, order: Value,
    n: int, fresh: bool,
) -> None:  # fmt: skip
    b = site.host.b
    kind = INTS[max(8, Key(dtype).type.bits)]
    at = b.add(b.mul(start, b.int(parts)), b.int(part))
    pointer = b.put("gep", x.pointer.type, (x.pointer, at), kind)
    name = _need(
        site,
        f"order{parts}",
        dtype,
        lambda name: order_function(name, dtype, parts, site.host.target),
    )
    args = (pointer, order, b.int(n), b.int(int(fresh)))
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


def _need(site: Site, what: str, dtype: str, make: Callable[[str], tuple[str, set[str]]]) -> str:
    """Makes sure that a function is linked in; its name."""
    target: Target = site.host.target
    name = f"{what}.{dtype}"

    def text() -> str:
        function, declared = make(name)
        return module_text(target, [function], declared)

    site.host.code(name, text)
    return name
