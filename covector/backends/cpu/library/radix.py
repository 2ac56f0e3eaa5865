"""Sorting by distribution, from the least digit to the greatest, each pass stable.

Knuth, The Art of Computer Programming, vol. 3, 5.2.5.  A digit that all keys share is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covector.backends.cpu.emit.types import I32, I64

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.records import Records


def digits(bits: int, width: int) -> list[tuple[int, int]]:
    """(lowest bit, width) of each digit of a key."""
    count = -(-bits // width)
    even = -(-bits // count)
    return [(low, min(even, bits - low)) for low in range(0, bits, even)]


def radix_sort(
    r: Records, here: Value, there: Value, n: Value, room: Value, width: int
) -> list[Value]:
    """Sorts `n` items between two arrays of `room`; gives (where they end up, the other)."""
    c, b = r.c, r.c.b
    parts = digits(r.bits, width)
    size = 1 << parts[0][1]
    tables = [c.local(I32, size) for _ in parts]
    one = b.const(1, I32)
    for table in tables:
        c.clear(table, 4 * size)

    def count(i: Value) -> None:
        item = r.load(here, i, room)
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
                item = r.load(source, i, room)
                at = r.digit(item, low, bits)
                place = c.load(table, at, I32)
                c.store(table, at, b.bin("add", place, one))
                r.store(target, b.cast("zext", place, I64), room, item)

            c.loop(0, n, move)

        source, target = pair
        first = r.digit(r.load(source, b.int(0), room), low, bits)
        shared = b.cmp("icmp eq", c.load(table, first, I32), all_of_them)
        pair = c.when(
            shared,
            lambda s=source, t=target: [s, t],
            lambda s=source, t=target, f=distribute: f(s, t) or [t, s],
        )
    return pair
