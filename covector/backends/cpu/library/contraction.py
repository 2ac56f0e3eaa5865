"""Contractions by register tiles: operands are packed as they lie, the right one once for all.

First the right operand's panels are packed, then pieces of the result are computed: a block of
rows, all blocks of the contracted axes, the sums of each block kept in registers.  Pieces and the
order of every sum follow from the sizes alone, however many threads take them.  What follows the
product row by row runs on a piece's rows while they are in cache.  As in K. Goto, R. van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34 (2008).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from covector._base.digest import digest
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.emit.types import PTR
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.contraction_around import (
    After,
    Before,
    Leading,
    arguments,
    follow,
    in_cache,
    share_of,
)
from covector.backends.cpu.library.contraction_pack import (
    GROUP,
    Packing,
    Span,
    over,
    pack_text,
    right_copies,
    row_name,
    row_text,
    rows_name,
    rows_text,
    span_of,
)
from covector.backends.cpu.library.contraction_sizes import (
    Plan,
    Product,
    leads,
    plan_of,
    product_of,
    suits,
)
from covector.backends.cpu.library.contraction_thin import (
    dots_name,
    dots_text,
    is_thin,
    thin_of,
    thin_text,
)
from covector.backends.cpu.library.phases import DECLARED, LEAST, PARAMETERS, Phase, entry
from covector.backends.cpu.library.tiles import REAL, Axis, Sums, Tile, place, smaller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site
    from covector.backends.cpu.target import Target

__all__ = ["After", "Before", "call", "product_of", "product_text", "suits"]

#: Rows of the left operand that lie so many bytes apart share a few places of the first cache:
#: they are packed too, for so many panels.
CROWDED: Final = 1 << 12
REUSED: Final = 4
#: Products of each sum from which what calls the tiles is nothing beside them: LLVM is to make do.
QUICK: Final = 64


def call(site: Site, p: Product) -> None:
    """Emits the product, what makes its left operand, and what follows it."""
    host, followers, leaders = site.host, site.followers, site.leaders
    around = [f.trips for f in (*leaders, *followers)]
    if leaders and not leads(p, host.target, share_of(p, around)):
        for f in leaders:
            host.run_kernel(f.kernel, f.pointers)
        leaders, around = (), [f.trips for f in followers]
    share = share_of(p, around) if around else None
    kernels = [*(f.kernel for f in followers), *map(in_cache, leaders)]
    names = [digest(canonical(k)).hexdigest()[:24] for k in kernels]
    names = [f"follower.{n}" for n in names]
    after = [After(n, f.trips) for n, f in zip(names, followers, strict=False)]
    before = [
        Before(n, f.trips, len(f.pointers), f.own)
        for n, f in zip(names[len(after) :], leaders, strict=True)
    ]
    key = (p, after, before) if before else (p, after)
    name = f"contraction.{digest(repr(key)).hexdigest()[:16]}"

    def text() -> str:
        functions, declared = product_text(name, p, host.target, share, after, before)
        return module_text(host.target, functions, declared)

    host.code(name, text, quick=p.k >= QUICK)
    for label, made in _shared(p, host.target):
        host.code(label, made)
    given = [f.pointers for f in (*followers, *leaders)]
    pointers = arguments(site, list(zip(kernels, given, names, strict=True)))
    host.b.effect("effect", PTR, (pointers,), name)


def _shared(p: Product, target: Target) -> list[tuple[str, Callable[[], str]]]:
    """The functions, by name, that a product calls and others do too."""
    if is_thin(p, target):
        plan = thin_of(p, target, None)
        return [(dots_name(p, plan), partial(dots_text, p, plan, target))]
    tile = Tile(target, p.dtype, p.n, p.m)
    found: list[tuple[str, Callable[[], str]]] = []
    if tile.panels:
        found.append((tile_name(tile, tile.vectors, True),
                      partial(tile_text, tile, tile.vectors, True, target)))  # fmt: skip
    if tile.rest:
        whole = tile.rest == tile.last * tile.lanes
        found.append((tile_name(tile, tile.last, whole),
                      partial(tile_text, tile, tile.last, whole, target)))  # fmt: skip
    copies = right_copies(p, tile)
    packs, by_rows = _lie(p, tile)
    if packs:
        copies.append((row_name(tile), row_text) if by_rows else (rows_name(tile), rows_text))
    return [*found, *((label, partial(made, tile, target)) for label, made in copies)]


def product_text(
    name: str, p: Product, target: Target, share: int | None, followers: Sequence[After],
    leaders: Sequence[Before] = (),
) -> tuple[list[str], set[str]]:  # fmt: skip
    """The functions of one product, and what they need declared."""
    if is_thin(p, target):
        return thin_text(name, p, target, share, followers, leaders)
    plan = plan_of(p, target, share)
    tile, size = plan.tile, REAL[p.dtype].bits // 8
    later = () if plan.apart else followers
    part, declared = _Part(f"{name}.part", p, plan, later, leaders).text()
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
    follow(c, p, followers, low, high)
    return c.text()


# The pieces


def _lie(p: Product, tile: Tile) -> tuple[bool, bool]:
    """Whether the left operand is packed, and whether it lies along the sums; else along the
    rows."""
    inner = p.sums[-1].left if p.sums else 1
    along = inner != 1 and len(p.rows) == 1 and p.rows[0].step == 1
    nbytes = max((a.step for a in p.rows), default=0) * REAL[p.dtype].bits // 8
    crowded = nbytes % CROWDED == 0 and p.m > 1 and tile.count >= REUSED
    return along or len(p.sums) > 1 or len(p.rows) > 1 or crowded, not along


@final
class _Part:
    """The function of some pieces: [product, block of rows, chunk of panels]."""

    __slots__ = (
        "by_rows", "c", "followers", "leaders", "left", "name", "p", "packs", "plan", "rows",
        "spacing",
    )  # fmt: skip

    def __init__(
        self, name: str, p: Product, plan: Plan, followers: Sequence[After],
        leaders: Sequence[Before] = (),
    ) -> None:  # fmt: skip
        self.c, self.p, self.plan, self.followers = Code(name, PARAMETERS), p, plan, followers
        self.leaders = leaders
        self.packs, self.by_rows = _lie(p, plan.tile)
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
        rows = 0  # of the left operand, made here
        if any(f.own is not None for f in self.leaders):
            nbytes, rows = _up(nbytes), most * p.k * size
        own = None
        if nbytes + right + rows:
            own = c.allocate(b.int(nbytes + right + rows + 64))
            number = b.bin("and", b.add(b.cast("ptrtoint", own, b.int(0).type), b.int(63)),
                           b.int(-64))  # fmt: skip
            aligned = b.cast("inttoptr", number, PTR)
            self.left = c.at(aligned, right // size, plan.tile.real)
            self.rows = c.at(aligned, (right + nbytes) // size, plan.tile.real)
        else:
            aligned = self.left = self.rows = c.parameters[0]
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
        base = b.mul(number, b.int(p.m)) if p.products > 1 else b.int(0)
        leading = Leading(c, p, self.leaders, len(self.followers), tile.real, self.rows)
        x = leading.make(x, low, b.add(base, low), b.add(base, high))

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
        follow(c, p, self.followers, b.add(base, low), b.add(base, high))

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
                    given = (c.at(start, at, tile.real), c.at(into, line, tile.real))
                    b.effect("effect", PTR, (*given, length, b.int(step)), row_name(tile))

                over(c, p, span, 0, round_)

            c.loop(0, count, row)
            return

        full = b.bin("udiv", count, b.int(tile.rows))
        single = b.bin("urem", count, b.int(tile.rows))

        def rows(at: Value, line: Value) -> None:
            start = c.at(x, b.add(at, low), tile.real)
            into = c.at(self.left, b.mul(line, b.int(tile.rows)), tile.real)
            numbers = (length, b.int(step), full, single, b.int(self.spacing))
            b.effect("effect", PTR, (start, into, *numbers), rows_name(tile))

        over(c, p, span, 0, rows)

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
        name = tile_name(tile, vectors, columns == vectors * tile.lanes)

        def one(q: Value) -> None:
            if not self.packs:
                first = b.add(place(c, b.add(low, q), p.rows), b.mul(span.start, b.int(inner)))
                left = c.at(x, first, tile.real)
            else:
                lines = q if self.by_rows else b.bin("udiv", q, b.int(tile.rows))
                left = c.at(self.left, b.mul(lines, b.int(self.spacing)), tile.real)
            result = c.at(out, b.add(b.mul(b.add(low, q), b.int(p.n)), column), tile.real)
            given = (left, panel, result, b.int(apart), b.int(step), span.total, b.int(p.n))
            b.effect("effect", PTR, (*given, b.sub(count, q), again, b.int(columns)), name)

        c.loop(0, count, one, step=tile.rows)


def _up(nbytes: int) -> int:
    """Whole lines of the cache."""
    return -(-nbytes // 64) * 64


# A tile

_TILE: Final = {
    "left": "p", "panel": "p", "out": "p", "apart": "n", "step": "n", "count": "n", "line": "n",
    "rows": "n", "again": "n", "columns": "n",
}  # fmt: skip


def tile_name(tile: Tile, vectors: int, whole: bool) -> str:
    """The name of the function of `tile_text`."""
    return f"tile.{tile.real.suffix}.{tile.rows}x{vectors}x{tile.lanes}{'' if whole else '.part'}"


def tile_text(tile: Tile, vectors: int, whole: bool, target: Target) -> str:
    """The function that all contractions share: a tile of results, over a block of the sums.

    left: rows are `apart`, products `step` elements apart; out: rows are `line` apart, of which the
    first `rows` are written, `columns` of each, or, if this is for `whole` tiles, all; again: adds
    to what is there.
    """
    c = Code(tile_name(tile, vectors, whole), _TILE)
    left, panel, out, apart, step, count, line, rows, again, columns = c.parameters
    b, real, width = c.b, tile.real, vectors * tile.lanes
    # No more rows than there are: the last is repeated.
    last = b.sub(rows, b.int(1))
    numbers = [smaller(c, b.int(r), last) for r in range(tile.rows)]
    lefts = [c.at(left, b.mul(n, apart), real) for n in numbers]
    room = out if whole else c.local(real, tile.rows * width)
    if whole:
        results = [c.at(out, b.mul(n, line), real) for n in numbers]
    else:
        results = [c.at(room, r * width, real) for r in range(tile.rows)]

    def copy(source: Value, apart: Value, into: Value, line: Value) -> None:
        """Results of a tile that is not whole, from where they are worked on or to there."""

        def row(r: Value) -> None:
            here, there = c.at(source, b.mul(r, apart), real), c.at(into, b.mul(r, line), real)
            c.loop(0, columns, lambda n: c.store(there, n, c.load(here, n, real)))

        c.loop(0, smaller(c, rows, b.int(tile.rows)), row)

    def found() -> list[Value]:
        if not whole:
            copy(out, line, room, b.int(width))
        return sums.load(results, width)

    sums = Sums(c, tile, lefts, vectors)
    start = c.when(b.cmp("icmp ne", again, b.int(0)), found, sums.zeros)
    sums.store(results, sums.many(start, panel, count, step, width), width)
    if not whole:
        copy(room, b.int(width), out, line)
    text, declared = c.text()
    return module_text(target, [text], declared)
