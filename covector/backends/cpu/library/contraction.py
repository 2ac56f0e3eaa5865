"""Contractions by register tiles: operands are packed as they lie, the right one once for all.

First the right operand's panels are packed, then pieces of the result are computed: a block of
rows, all blocks of the contracted axes, the sums of each block kept in registers.  Pieces and the
order of every sum follow from the sizes alone, however many threads take them.  What follows the
product row by row runs on a piece's rows while they are in cache.  As in K. Goto, R. van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34 (2008).
"""

from __future__ import annotations

import hashlib
import math
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.emit.kernel import emit_range
from covector.backends.cpu.emit.types import I64, PTR
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.contraction_pack import (
    GROUP,
    Packing,
    Span,
    columns_name,
    columns_text,
    over,
    pack_text,
    span_of,
)
from covector.backends.cpu.library.contraction_sizes import (
    Plan,
    Product,
    plan_of,
    product_of,
    suits,
)
from covector.backends.cpu.library.phases import DECLARED, LEAST, PARAMETERS, Phase, entry
from covector.backends.cpu.library.tiles import REAL, Axis, Sums, Tile, place, powers, smaller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site
    from covector.backends.cpu.target import Target
    from covector.compiler.loops.program import Kernel

__all__ = ["After", "call", "product_of", "product_text", "suits"]

#: Rows of the left operand that lie so many bytes apart share a few places of the first cache:
#: they are packed too, for so many panels.
CROWDED: Final = 1 << 12
REUSED: Final = 4


class After(NamedTuple):
    """A follower as the text knows it: its function of a range of `trips` rounds."""

    name: str
    trips: int


def call(site: Site, p: Product) -> None:
    """Emits the product, and what follows it."""
    host, b = site.host, site.host.b
    followers = site.followers
    total = p.products * p.m
    share = None
    if followers:
        share = total // math.gcd(total, *(f.trips for f in followers))
    names = [f"{canonical(f.kernel)!r}" for f in followers]
    names = [f"follower.{hashlib.sha256(n.encode()).hexdigest()[:24]}" for n in names]
    after = [After(n, f.trips) for n, f in zip(names, followers, strict=True)]
    key = (p, after)
    name = f"contraction.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"

    def text() -> str:
        functions, declared = product_text(name, p, host.target, share, after)
        return module_text(host.target, functions, declared)

    host.code(name, text)
    tile = Tile(host.target, p.dtype, p.n, p.m)
    for vectors, columns in ((tile.vectors, tile.width), (tile.last, tile.rest)):
        if columns and (columns < tile.width or tile.panels):
            label = tile_name(tile, vectors, columns)
            host.code(label, partial(tile_text, label, tile, vectors, columns, host.target))
    host.code(columns_name(tile), partial(columns_text, tile, host.target))
    given = [*(v.pointer for v in (*site.inputs, *site.outputs[:1]))]
    pointers = b.local(PTR, 4 + len(followers))
    for n, v in enumerate(given):
        b.effect("store", PTR, (v, b.put("gep", PTR, (pointers, b.int(n)), PTR)), 8)
    for n, (f, label) in enumerate(zip(followers, names, strict=True)):
        host.code(label, partial(_follower_text, f.kernel, host.target, label))
        buffers = b.local(PTR, len(f.pointers))
        for k, v in enumerate(f.pointers):
            b.effect("store", PTR, (v, b.put("gep", PTR, (buffers, b.int(k)), PTR)), 8)
        b.effect("store", PTR, (buffers, b.put("gep", PTR, (pointers, b.int(4 + n)), PTR)), 8)
    b.effect("effect", PTR, (pointers,), name)


def _follower_text(kernel: Kernel, target: Target, name: str) -> str:
    text, declared = emit_range(kernel, target, name)
    return module_text(target, [text], declared)


def product_text(
    name: str, p: Product, target: Target, share: int | None, followers: Sequence[After]
) -> tuple[list[str], set[str]]:
    """The functions of one product, and what they need declared."""
    plan = plan_of(p, target, share)
    tile, size = plan.tile, REAL[p.dtype].bits // 8
    part, declared = _Part(f"{name}.part", p, plan, () if plan.apart else followers).text()
    units = plan.pieces(p)
    work = max(1, 2 * p.m * p.n * p.k * p.products // units)
    phases = [Phase(f"{name}.part", units, max(1, LEAST // work))]
    functions = [part]
    nbytes = 0
    if not plan.whole:
        pack, more = pack_text(f"{name}.pack", p, plan)
        functions.insert(0, pack)
        declared |= more
        nbytes = p.products * p.k * tile.packed * size
        groups = p.products * plan.depth.blocks * -(-tile.count // GROUP)
        each = plan.depth.most * GROUP * tile.width * size
        phases.insert(0, Phase(f"{name}.pack", groups, max(1, (1 << 17) // each)))
    if plan.apart and share is not None:
        then, more = _then(f"{name}.then", p, share, followers)
        functions.append(then)
        declared |= more
        shares = p.products * p.m // share
        phases.append(Phase(f"{name}.then", shares, max(1, (1 << 17) // (share * p.n * size))))
    functions.append(entry(name, nbytes, phases))
    return functions, {*declared, *DECLARED}


def _then(
    name: str, p: Product, share: int, followers: Sequence[After]
) -> tuple[str, set[str]]:  # fmt: skip
    """What follows, by shares of the result."""
    c = Code(name, PARAMETERS)
    low, high = (c.b.mul(n, c.b.int(share)) for n in c.parameters[2:])
    _follow(c, p, followers, low, high)
    return c.text()


def _follow(c: Code, p: Product, followers: Sequence[After], low: Value, high: Value) -> None:
    """Runs what follows on these rows of the whole result."""
    b, total = c.b, p.products * p.m
    bounds = c.local(I64, 2)
    for k, f in enumerate(followers):
        if f.trips >= total:
            ends = [b.mul(e, b.int(f.trips // total)) for e in (low, high)]
        else:
            ends = [b.bin("udiv", e, b.int(total // f.trips)) for e in (low, high)]
        for at, end in enumerate(ends):
            c.store(bounds, at, end)
        b.effect("effect", PTR, (c.load(c.parameters[0], 4 + k, PTR), bounds), f.name)


# The pieces


@final
class _Part:
    """The function of some pieces: [product, block of rows, chunk of panels]."""

    __slots__ = ("by_rows", "c", "followers", "left", "name", "p", "packs", "plan", "spacing")

    def __init__(self, name: str, p: Product, plan: Plan, followers: Sequence[After]) -> None:
        self.c, self.p, self.plan, self.followers = Code(name, PARAMETERS), p, plan, followers
        inner = p.sums[-1].left if p.sums else 1
        # As it lies: along the sums, or along the rows.
        along = inner != 1 and len(p.rows) == 1 and p.rows[0].step == 1
        self.by_rows = not along
        nbytes = max((a.step for a in p.rows), default=0) * REAL[p.dtype].bits // 8
        crowded = nbytes % CROWDED == 0 and p.m > 1 and plan.tile.count >= REUSED
        self.packs = along or len(p.sums) > 1 or len(p.rows) > 1 or crowded
        padded = -(-plan.depth.most // 16) * 16 + 16
        # Between rows; or between tiles, whose rows lie together.
        self.spacing = padded if self.by_rows else plan.depth.most * plan.tile.rows

    def text(self) -> tuple[str, set[str]]:
        """(the function, the declarations it needs)."""
        c, p, plan = self.c, self.p, self.plan
        b, size = c.b, plan.tile.real.bits // 8
        most = plan.most(p)
        lines = most if self.by_rows else -(-most // plan.tile.rows)
        nbytes = lines * self.spacing * size if self.packs else 0
        right = p.k * plan.tile.packed * size if plan.whole else 0
        own = None
        if nbytes + right:
            own = c.allocate(b.int(nbytes + right + 64))
            number = b.bin("and", b.add(b.cast("ptrtoint", own, b.int(0).type), b.int(63)),
                           b.int(-64))  # fmt: skip
            aligned = b.cast("inttoptr", number, PTR)
            self.left = c.at(aligned, right // size, plan.tile.real)
        else:
            aligned = self.left = c.parameters[0]
        self._pieces(aligned)
        if own is not None:
            c.free(own)
        return c.text()

    def _pieces(self, own: Value) -> None:
        c, p, plan = self.c, self.p, self.plan
        b, tile, blocks = c.b, plan.tile, plan.blocks
        x, y, out, room = [c.load(c.parameters[0], k, PTR) for k in range(4)]

        def product(number: Value) -> tuple[Value, Value, Value]:
            at_x = place(c, number, [Axis(a.length, a.left) for a in p.batch])
            source = c.at(x, at_x, tile.real)
            result = c.at(out, b.mul(number, b.int(p.m * p.n)), tile.real)
            return source, result, c.at(room, b.mul(number, b.int(p.k * tile.packed)), tile.real)

        def one(number: Value) -> None:
            source, result, _ = product(number)
            at_y = place(c, number, [Axis(a.length, a.right) for a in p.batch])
            panels = Packing(c, p, plan, c.at(y, at_y, tile.real))

            def block(k: Value) -> None:
                span = span_of(c, plan.depth, k)
                base = c.at(own, b.mul(span.start, b.int(tile.packed)), tile.real)
                panels.panels(span, base, b.int(0), b.int(tile.panels))
                if tile.rest:
                    panels.rest(span, base)

            c.loop(0, plan.depth.blocks, block)
            c.loop(0, blocks, lambda w: self._block(number, w, b.int(0), source, own, result))

        def piece(u: Value) -> None:
            split, rest = self._split(u, plan.chunks)
            which, number = self._split(rest, blocks)
            source, result, packed = product(number if p.products > 1 else b.int(0))
            self._block(number, which, split, source, packed, result)

        c.loop(c.parameters[2], c.parameters[3], one if plan.whole else piece)

    def _split(self, u: Value, n: int) -> tuple[Value, Value]:
        b = self.c.b
        return (b.bin("urem", u, b.int(n)), b.bin("udiv", u, b.int(n))) if n > 1 else (b.int(0), u)

    def _block(
        self, number: Value, which: Value, split: Value, x: Value, packed: Value, out: Value
    ) -> None:
        """A block of rows, some panels, all of the sums; then what follows."""
        c, p, plan = self.c, self.p, self.plan
        b, tile = c.b, plan.tile
        steps, blocks = b.int(plan.steps(p)), b.int(plan.blocks)
        low, high = (
            b.mul(b.bin("udiv", b.mul(n, steps), blocks), b.int(plan.step))
            for n in (which, b.add(which, b.int(1)))
        )
        high = smaller(c, high, b.int(p.m))
        first = b.mul(split, b.int(plan.chunk))
        end = smaller(c, b.add(first, b.int(plan.chunk)), b.int(tile.panels))
        last = b.cmp("icmp eq", split, b.int(plan.chunks - 1))

        def depth(k: Value) -> None:
            span = span_of(c, plan.depth, k)
            if self.packs:
                self._pack(span, x, low, high)
            lines = c.at(packed, b.mul(span.start, b.int(tile.packed)), tile.real)

            def panel(j: Value, vectors: int, columns: int) -> None:
                column = b.mul(j, b.int(tile.width))
                here = c.at(lines, b.mul(column, span.total), tile.real)
                self._tiles(span, x, here, out, (low, high), column, vectors, columns, k)

            if tile.panels:
                c.loop(first, end, lambda j: panel(j, tile.vectors, tile.width))
            if tile.rest:
                rest = lambda: panel(b.int(tile.panels), tile.last, tile.rest)  # noqa: E731
                c.when(last, rest) if plan.chunks > 1 else rest()

        c.loop(0, plan.depth.blocks, depth)
        base = b.mul(number, b.int(p.m)) if p.products > 1 else b.int(0)
        _follow(c, p, self.followers, b.add(base, low), b.add(base, high))

    def _pack(self, span: Span, x: Value, low: Value, high: Value) -> None:
        """Copies a block of the left operand, so that it lies together."""
        c, p, tile = self.c, self.p, self.plan.tile
        b, count = c.b, c.b.sub(high, low)
        step = p.sums[-1].left if p.sums else 1
        length = b.sub(span.inner[1], span.inner[0])
        if self.by_rows:

            def row(r: Value) -> None:
                start = c.at(x, place(c, b.add(low, r), p.rows), tile.real)
                into = c.at(self.left, b.mul(r, b.int(self.spacing)), tile.real)

                def round_(at: Value, line: Value) -> None:
                    def put(i: Value, width: int) -> None:
                        found = c.load(start, b.add(at, b.mul(i, b.int(step))), tile.real.of(width))
                        c.store(into, b.add(line, i), found)

                    c.vectors(length, tile.lanes if step == 1 else 1, put)

                over(c, p, span, 0, round_)

            c.loop(0, count, row)
            return

        rows = tile.rows
        full = b.bin("udiv", count, b.int(rows))
        done = b.mul(full, b.int(rows))

        def round_(at: Value, line: Value) -> None:
            def one(i: Value) -> None:
                start = c.at(x, b.add(b.add(at, b.mul(i, b.int(step))), low), tile.real)
                into = c.at(self.left, b.mul(b.add(line, i), b.int(rows)), tile.real)

                def copy(t: Value) -> None:
                    source = c.at(start, b.mul(t, b.int(rows)), tile.real)
                    target, r = c.at(into, b.mul(t, b.int(self.spacing)), tile.real), 0
                    for n in powers(rows):
                        c.store(target, r, c.load(source, r, tile.real.of(n)))
                        r += n

                c.loop(0, full, copy)
                last = b.sub(b.mul(full, b.int(self.spacing)), done)
                single = lambda r: c.store(into, b.add(last, r), c.load(start, r, tile.real))  # noqa: E731
                c.loop(done, count, single)

            c.loop(0, length, one)

        over(c, p, span, 0, round_)

    def _tiles(
        self, span: Span, x: Value, panel: Value, out: Value, rows: tuple[Value, Value],
        column: Value, vectors: int, columns: int, again: Value,
    ) -> None:  # fmt: skip
        """The tiles of a block of rows that meet one panel."""
        c, p, tile = self.c, self.p, self.plan.tile
        b, (low, high) = c.b, rows
        count = b.sub(high, low)
        inner = p.sums[-1].left if p.sums else 1
        step = inner if not self.packs else 1 if self.by_rows else tile.rows
        apart = p.rows[0].step if p.rows else 0
        if self.packs:
            apart = self.spacing if self.by_rows else 1
        name = tile_name(tile, vectors, columns)

        def one(q: Value) -> None:
            if not self.packs:
                first = b.add(place(c, b.add(low, q), p.rows), b.mul(span.start, b.int(inner)))
                left = c.at(x, first, tile.real)
            else:
                lines = q if self.by_rows else b.bin("udiv", q, b.int(tile.rows))
                left = c.at(self.left, b.mul(lines, b.int(self.spacing)), tile.real)
            result = c.at(out, b.add(b.mul(b.add(low, q), b.int(p.n)), column), tile.real)
            given = (left, panel, result, b.int(apart), b.int(step), span.total, b.int(p.n))
            b.effect("effect", PTR, (*given, b.sub(count, q), again), name)

        c.loop(0, count, one, step=tile.rows)


# A tile

_TILE: Final = {
    "left": "p", "panel": "p", "out": "p", "apart": "n", "step": "n", "count": "n", "line": "n",
    "rows": "n", "again": "n",
}  # fmt: skip


def tile_name(tile: Tile, vectors: int, columns: int) -> str:
    """The name of the function of `tile_text`."""
    return f"tile.{tile.real.suffix}.{tile.rows}x{vectors}x{tile.lanes}.{columns}"


def tile_text(name: str, tile: Tile, vectors: int, columns: int, target: Target) -> str:
    """The function that all contractions share: a tile of results, over a block of the sums.

    left: rows are `apart`, products `step` elements apart; out: rows are `line` apart, of which the
    first `rows` are written; again: adds to what is there.
    """
    c = Code(name, _TILE)
    left, panel, out, apart, step, count, line, rows, again = c.parameters
    b, real = c.b, tile.real
    # No more rows than there are: the last is repeated.
    last = b.sub(rows, b.int(1))
    numbers = [smaller(c, b.int(r), last) for r in range(tile.rows)]
    lefts = [c.at(left, b.mul(n, apart), real) for n in numbers]
    results = [c.at(out, b.mul(n, line), real) for n in numbers]
    sums = Sums(c, tile, lefts, vectors)
    more = b.cmp("icmp ne", again, b.int(0))
    start = c.when(more, lambda: sums.load(results, columns), sums.zeros)
    made = sums.many(start, panel, count, step, vectors * tile.lanes)
    sums.store(results, made, columns)
    text, declared = c.text()
    return module_text(target, [text], declared)
