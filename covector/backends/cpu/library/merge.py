"""Sorting by merging, with vectors: bitonic networks merge two vectors at a time.

Batcher 1968, "Sorting networks and their applications"; Chhugani et al. 2008, "Efficient
implementation of sorting on multi-core SIMD CPU architecture".  No two items that differ compare
equal, so the order of equal keys is that of their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covector.backends.cpu.emit.types import I1

#: Bytes of items that are merged together before more is looked at: they stay in cache.
CHUNK: Final = 1 << 16

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.records import Item, Records


def width(r: Records, vector_bytes: int) -> int:
    """Lanes that a network works on: two registers of them."""
    return max(4, 2 * vector_bytes // (r.type.bits // 8))


def padded(r: Records, n: Value, lanes: int) -> Value:
    """The length of an array for `n` items: whole pairs of vectors."""
    b, block = r.c.b, 2 * lanes
    return b.bin("and", b.add(n, b.int(block - 1)), b.int(-block))


def merge_sort(r: Records, here: Value, there: Value, n: Value, lanes: int) -> list[Value]:
    """Sorts items between two arrays of `n` (whole pairs of vectors, with room for one vector more
    behind); gives (where they are in the end, the other array)."""
    c, b = r.c, r.c.b
    block = 2 * lanes

    def pair(i: Value) -> None:
        halves = [_sorted(r, r.load(here, b.add(i, b.int(k)), n, lanes)) for k in (0, lanes)]
        for k, v in zip((0, lanes), _merge(r, *halves), strict=True):
            r.store(here, b.add(i, b.int(k)), n, v)

    c.loop(0, n, pair, step=block)

    chunk = block
    while 2 * chunk * r.itemsize <= CHUNK:
        chunk *= 2

    def double(
        run: Value, low: Value, high: Value, source: Value, target: Value, limit: Value
    ) -> list[Value]:
        """Merges a stretch's runs; then the next width, the next stretch, or all of the array."""
        _merge_runs(r, source, target, low, high, n, run, lanes)
        wider = b.mul(run, b.int(2))
        done, last = b.cmp("icmp sge", wider, limit), b.cmp("icmp sge", high, n)
        onwards = [wider, low, high, target, source, limit]
        following = [
            b.int(block),
            high,
            _least(r, b.add(high, b.int(chunk)), n),
            here,
            there,
            limit,
        ]
        whole = [wider, b.int(0), n, target, source, n]
        return [
            b.select(done, b.select(last, w, f), o)
            for o, f, w in zip(onwards, following, whole, strict=True)
        ]

    def more(run: Value, low: Value, high: Value, s: Value, t: Value, limit: Value) -> Value:
        return b.cmp("icmp slt", run, limit)

    first = _least(r, b.int(chunk), n)
    start = [b.int(block), b.int(0), first, here, there, first]
    _, _, _, source, target, _ = c.repeat(start, more, double)
    return [source, target]


def _merge_runs(
    r: Records, source: Value, target: Value, low: Value, high: Value, n: Value, run: Value,
    lanes: int,
) -> None:  # fmt: skip
    """Merges neighbouring runs of `run` items from `low` to `high`, in arrays of `n`."""
    c, b = r.c, r.c.b
    step = b.int(lanes)

    def two(start: Value) -> list[Value]:
        middle = _least(r, b.add(start, run), high)
        end = _least(r, b.add(middle, run), high)
        first, second = (r.load(source, at, n, lanes) for at in (start, middle))

        def one(out: Value, p: Value, q: Value, *kept: Value) -> list[Value]:
            """Writes the lesser vector, keeps the greater, reads on in the run that is behind."""
            left, right = r.load(source, p, n), r.load(source, q, n)
            ahead = b.cmp("icmp sge", q, end)
            behind = b.bin("xor", r.after(left, right), b.const(True, I1))
            take = b.bin("and", b.cmp("icmp slt", p, middle), b.bin("or", ahead, behind))
            new = r.load(source, b.select(take, p, q), n, lanes)
            low, high = _merge(r, list(kept), new)
            r.store(target, out, n, low)
            return [b.select(take, b.add(p, step), p), b.select(take, q, b.add(q, step)), *high]

        def both() -> None:
            low, high = _merge(r, first, second)
            r.store(target, start, n, low)
            begin = b.add(start, step)
            carried = [begin, b.add(middle, step), *high]
            last = c.loop(begin, b.sub(end, step), one, carried, step=lanes)
            r.store(target, b.sub(end, step), n, last[2:])

        def alone() -> None:
            def move(i: Value) -> None:
                r.store(target, i, n, r.load(source, i, n, lanes))

            c.loop(start, end, move, step=lanes)

        c.when(b.cmp("icmp slt", middle, end), both, alone)
        return [end]

    c.repeat([low], lambda start: b.cmp("icmp slt", start, high), two)


def _least(r: Records, x: Value, y: Value) -> Value:
    return r.c.b.select(r.c.b.cmp("icmp slt", x, y), x, y)


# Networks


def _merge(r: Records, x: Item, y: Item) -> tuple[Item, Item]:
    """Two sorted vectors as (the lesser items, the greater items), both sorted."""
    lanes = x[0].type.lanes
    y = [r.c.b.shuffle(v, None, range(lanes - 1, -1, -1)) for v in y]
    low, high = _ordered(r, x, y)
    distance = lanes // 2
    while distance:
        low, high = (_exchange(r, v, distance, 0) for v in (low, high))
        distance //= 2
    return low, high


def _sorted(r: Records, v: Item) -> Item:
    """A vector sorted: bitonic sort."""
    lanes, size = v[0].type.lanes, 2
    while size <= lanes:
        distance = size // 2
        while distance:
            v = _exchange(r, v, distance, size)
            distance //= 2
        size *= 2
    return v


def _ordered(r: Records, x: Item, y: Item) -> tuple[Item, Item]:
    b = r.c.b
    if len(x) == 1 and r.type.bits <= 32:
        return [b.intrinsic("umin", x[0], y[0])], [b.intrinsic("umax", x[0], y[0])]
    swap = r.after(x, y)
    return ([b.select(swap, q, p) for p, q in zip(x, y, strict=True)],
            [b.select(swap, p, q) for p, q in zip(x, y, strict=True)])  # fmt: skip


def _exchange(r: Records, v: Item, distance: int, size: int) -> Item:
    """Compares lanes `distance` apart; the lesser goes to the lower lane, in groups of `size`
    alternately to the upper one (0: always to the lower)."""
    b, lanes = r.c.b, v[0].type.lanes
    other = [b.shuffle(x, None, [k ^ distance for k in range(lanes)]) for x in v]
    greater = [bool(k & distance) != bool(size and size < lanes and k & size) for k in range(lanes)]
    low, high = _ordered(r, v, other)
    mask = [k + lanes * greater[k] for k in range(lanes)]
    return [b.shuffle(x, y, mask) for x, y in zip(low, high, strict=True)]


def pad(r: Records, base: Value, used: Value, n: Value) -> None:
    """Fills items `used .. n` with the last of all."""
    r.c.loop(used, n, lambda i: r.store(base, i, n, r.last()))
