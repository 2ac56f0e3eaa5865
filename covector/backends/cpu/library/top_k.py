"""The greatest elements of rows: kept in order while scanning, or by a whole sort if many.

Whole vectors are compared with the least element kept, so most of a long row costs one comparison
a vector.  Elements are in the total order of IEEE 754; equal ones keep their order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import I1, I8, I32, I64
from covector.backends.cpu.library import merge
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.keys import Key
from covector.backends.cpu.library.records import Records

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site
    from covector.backends.cpu.target import Target


def top_k(site: Site) -> None:
    """The `k` greatest elements of each row (last axis), descending, and their numbers as int32."""
    (k,) = site.attributes
    (x,), (values, numbers) = site.inputs, site.outputs
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    if rows * k == 0:
        return
    if n >= 1 << 31:
        raise NotImplementedError(f"top_k of rows of {n} elements: elements count in 32 bits")
    # Shifts of the kept elements against comparisons of a sort, each a fraction of a nanosecond.
    insertions = k * k * (0.25 + math.log(n / k) / 2)
    make = by_sorting if insertions > 4 * n * math.log2(n + 1) else by_scanning
    target, b = site.host.target, site.host.b
    name = f"top_k.{make.__name__}.{x.dtype}"

    def text() -> str:
        function, declared = make(name, x.dtype, target)
        return module_text(target, [function], declared)

    site.host.code(name, text)
    args = (x.pointer, values.pointer, numbers.pointer, b.int(rows), b.int(n), b.int(k))
    b.effect("effect", I64, args, name)


_PARAMETERS = {"x": "p", "values": "p", "numbers": "p", "rows": "n", "n": "n", "k": "n"}


def by_scanning(name: str, dtype: str, target: Target) -> tuple[str, set[str]]:
    """Keeps the `k` greatest in order; for few of many."""
    c = Code(name, _PARAMETERS)
    x, values, numbers, rows, n, k = c.parameters
    b, key = c.b, Key(dtype, total=True)
    kept = c.allocate(b.mul(b.add(k, b.int(8)), b.int(key.type.bits // 8)))
    lanes = max(4, 2 * target.vector_bytes // (key.type.bits // 8))

    def row(r: Value) -> None:
        source = c.at(x, b.mul(r, n), key.type)
        order = c.at(numbers, b.mul(r, k), I32)

        def insert(i: Value, used: Value, found: Value) -> Value:
            """Puts element `i` in its place among `used`; how many there are then."""

            def smaller(j: Value) -> Value:
                (answer,) = c.when(
                    b.cmp("icmp sgt", j, b.int(0)),
                    lambda: [b.cmp("icmp ult", c.load(kept, b.sub(j, b.int(1)), key.type), found)],
                    lambda: [b.const(False, I1)],
                )
                return answer

            def move(j: Value, go: Value) -> list[Value]:
                before = b.sub(j, b.int(1))
                c.store(kept, j, c.load(kept, before, key.type))
                c.store(order, j, c.load(order, before, I32))
                return [before, smaller(before)]

            full = b.cmp("icmp sge", used, k)
            last = b.select(full, b.sub(k, b.int(1)), used)
            place, _ = c.repeat([last, smaller(last)], lambda j, go: go, move)
            c.store(kept, place, found)
            c.store(order, place, b.cast("trunc", i, I32))
            return b.select(full, used, b.add(used, b.int(1)))

        def first(i: Value, used: Value) -> list[Value]:
            return [insert(i, used, key.of(b, c.load(source, i, key.type)))]

        c.loop(0, k, first, [b.int(0)])
        least = b.sub(k, b.int(1))

        def one(i: Value) -> None:
            found = key.of(b, c.load(source, i, key.type))
            better = b.cmp("icmp ugt", found, c.load(kept, least, key.type))
            c.when(better, lambda: insert(i, k, found) and None)

        def block(i: Value) -> None:
            found = key.of(b, c.load(source, i, key.type.of(lanes)))
            better = b.cmp("icmp ugt", found, b.splat(c.load(kept, least, key.type), lanes))
            c.when(c.any(better), lambda: c.loop(i, b.add(i, b.int(lanes)), one))

        whole = b.add(k, b.bin("and", b.sub(n, k), b.int(-lanes)))
        c.loop(k, whole, block, step=lanes)
        c.loop(whole, n, one)
        result = c.at(values, b.mul(r, k), key.type)
        c.loop(0, k, lambda i: c.store(result, i, key.back(b, c.load(kept, i, key.type))))

    c.loop(0, rows, row)
    c.free(kept)
    return c.text()


def by_sorting(name: str, dtype: str, target: Target) -> tuple[str, set[str]]:
    """Sorts the complements of all keys; for many of few."""
    c = Code(name, _PARAMETERS)
    x, values, numbers, rows, n, k = c.parameters
    b, key = c.b, Key(dtype, total=True)
    r = Records(c, key.type.bits, True)
    lanes = merge.width(r, target.vector_bytes)
    room = merge.padded(r, n, lanes)
    spare = c.allocate(b.mul(b.add(room, b.int(2 * lanes)), b.int(2 * r.itemsize)))
    other = c.at(spare, b.mul(b.add(room, b.int(lanes)), b.int(r.itemsize)), I8)

    def row(at: Value) -> None:
        source = c.at(x, b.mul(at, n), key.type)
        result, order = c.at(values, b.mul(at, k), key.type), c.at(numbers, b.mul(at, k), I32)

        def take(i: Value) -> None:
            found = key.of(b, c.load(source, i, key.type))
            r.store(spare, i, room, r.item(b.bin("xor", found, b.const(-1, found.type)), i))

        c.loop(0, n, take)
        merge.pad(r, spare, n, room)
        found, _ = merge.merge_sort(r, spare, other, room, lanes)

        def give(i: Value) -> None:
            number = r.number(r.load(found, i, room))
            c.store(order, i, number)
            c.store(result, i, c.load(source, b.cast("zext", number, I64), key.type))

        c.loop(0, k, give)

    c.loop(0, rows, row)
    c.free(spare)
    return c.text()
