"""LU factors of small real matrices, where a call of LAPACK costs more than its arithmetic.

Row by row in a scratch of whole vectors: elimination by outer products, rows swapped as LAPACK
does (the first of the largest elements of a column).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import I32, I64, Type
from covector.backends.cpu.library.code import Code

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.matrices import Desk
    from covector.backends.cpu.library.site import Site

#: Rows and columns of a small matrix, at most.
LARGEST: Final = 32
_PARAMETERS: Final = {
    "x": "p", "out": "p", "pivots": "p", "order": "p", "batch": "n", "m": "n", "n": "n", "k": "n"
}  # fmt: skip


def serves(d: Desk, m: int, n: int) -> bool:
    """Whether matrices of m x n are small ones."""
    return not d.complex and max(m, n) <= LARGEST


def factor(site: Site, d: Desk) -> None:
    """Calls the function for all matrices of a site of `lu`."""
    (x,), outputs = site.inputs, site.outputs
    m, n = x.shape[-2:]
    target, b = site.host.target, site.host.b
    lanes = target.vector_bytes // (d.real.bits // 8)
    while lanes > 2 and lanes >= 2 * n:
        lanes //= 2
    name = f"small_lu.{d.real.suffix}.{lanes}"

    def text() -> str:
        function, declared = _text(name, d.real, lanes)
        return module_text(target, [function], declared)

    site.host.code(name, text)
    pointers = (x.pointer, *(o.pointer for o in outputs))
    b.effect("effect", I64, (*pointers, *map(b.int, (d.batch, m, n, min(m, n)))), name)


def _text(name: str, real: Type, lanes: int) -> tuple[str, set[str]]:
    c = Code(name, _PARAMETERS)
    b = c.b
    x, out, pivots, order, batch, m, n, k = c.parameters
    wide = real.of(lanes)
    room = c.local(real, LARGEST * (LARGEST + lanes))
    stride = b.bin("and", b.add(n, b.int(lanes - 1)), b.int(-lanes))
    numbers = b.const(tuple(range(lanes)), I32.of(lanes))
    one = b.const(1.0, real)
    zero = b.const(0.0, real)

    def row(i: Value) -> Value:
        return c.at(room, b.mul(i, stride), real)

    def size(i: Value, column: Value) -> Value:
        return b.intrinsic("fabs", c.load(row(i), column, real))

    def eliminate(j: Value, order_: Value) -> None:
        # The pivot: the first of the largest elements on or below the diagonal.
        def compare(i: Value, best: Value, place: Value) -> list[Value]:
            found = size(i, j)
            better = b.cmp("fcmp ogt", found, best)
            return [b.select(better, found, best), b.select(better, i, place)]

        after = b.add(j, b.int(1))
        _, place = c.loop(after, m, compare, [size(j, j), j])
        upper, other = row(j), row(place)

        def swap() -> None:
            def exchange(at: Value) -> None:
                first, second = c.load(upper, at, wide), c.load(other, at, wide)
                c.store(upper, at, second)
                c.store(other, at, first)

            c.loop(0, stride, exchange, step=lanes)
            first, second = c.load(order_, j, I32), c.load(order_, place, I32)
            c.store(order_, j, second)
            c.store(order_, place, first)

        c.when(b.cmp("icmp ne", place, j), swap)
        c.store(chosen[0], j, b.cast("trunc", place, I32))
        pivot = c.load(upper, j, real)
        divisor = b.select(b.cmp("fcmp oeq", pivot, zero), one, pivot)
        start = b.bin("and", j, b.int(-lanes))
        lane = b.splat(b.cast("trunc", b.sub(j, start), I32), lanes)
        right, here_too = b.cmp("icmp sgt", numbers, lane), b.cmp("icmp eq", numbers, lane)

        def reduce(i: Value) -> None:
            here = row(i)
            factor_ = b.splat(b.bin("fdiv", c.load(here, j, real), divisor), lanes)

            def subtract(at: Value, old: Value) -> Value:
                return b.bin("fsub", old, b.bin("fmul", factor_, c.load(upper, at, wide)))

            def rest(at: Value) -> None:
                c.store(here, at, subtract(at, c.load(here, at, wide)))

            # Columns before are done: L stands there.  All as whole vectors: a load that meets a
            # narrower store waits for it.
            old = c.load(here, start, wide)
            done = b.select(here_too, factor_, old)
            c.store(here, start, b.select(right, subtract(start, old), done))
            c.loop(b.add(start, b.int(lanes)), stride, rest, step=lanes)

        c.loop(after, m, reduce)

    chosen: list[Value] = [pivots]

    def each(e: Value) -> None:
        source, target = (c.at(p, b.mul(e, b.mul(m, n)), real) for p in (x, out))
        chosen[0] = c.at(pivots, b.mul(e, k), I32)
        order_ = c.at(order, b.mul(e, m), I32)

        def take(i: Value) -> None:
            c.store(order_, i, b.cast("trunc", i, I32))
            line, here = c.at(source, b.mul(i, n), real), row(i)
            c.loop(0, n, lambda j: c.store(here, j, c.load(line, j, real)))
            c.loop(n, stride, lambda j: c.store(here, j, zero))

        def give(i: Value) -> None:
            line, here = c.at(target, b.mul(i, n), real), row(i)
            c.loop(0, n, lambda j: c.store(line, j, c.load(here, j, real)))

        c.loop(0, m, take)
        c.loop(0, k, lambda j: eliminate(j, order_))
        c.loop(0, m, give)

    c.loop(0, batch, each)
    return c.text()
