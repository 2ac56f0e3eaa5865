"""Contractions by register tiles: the right operand is copied into panels, as tiles read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import PTR
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.phases import PARAMETERS
from covector.backends.cpu.library.tiles import Axis, Tile, place, powers, smaller

if TYPE_CHECKING:
    from collections.abc import Callable

    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.contraction_sizes import Depth, Plan, Product
    from covector.backends.cpu.target import Target

#: Panels that are packed together: lines are read some vectors long.
GROUP: Final = 8


class Span(NamedTuple):
    """A block of the sums: rounds of the outer axes, elements of the inner one; where its packed
    lines begin, and how many there are."""

    outer: tuple[Value, Value]
    inner: tuple[Value, Value]
    start: Value
    total: Value


def span_of(c: Code, d: Depth, number: Value) -> Span:
    """Block `number` of the sums."""
    b = c.b
    if d.pieces == 1:
        low = b.mul(number, b.int(d.rounds))
        high = smaller(c, b.add(low, b.int(d.rounds)), b.int(d.outer))
        if d.rounds == d.outer:
            low, high = b.int(0), b.int(d.outer)
        trips = b.mul(b.sub(high, low), b.int(d.inner))
        return Span((low, high), (b.int(0), b.int(d.inner)), b.mul(low, b.int(d.inner)), trips)
    which = b.bin("urem", number, b.int(d.pieces)) if d.outer > 1 else number
    around = b.bin("udiv", number, b.int(d.pieces)) if d.outer > 1 else b.int(0)
    low = b.mul(which, b.int(d.length))
    high = smaller(c, b.add(low, b.int(d.length)), b.int(d.inner))
    start = b.add(b.mul(around, b.int(d.inner)), low)
    return Span((around, b.add(around, b.int(1))), (low, high), start, b.sub(high, low))


def over(c: Code, p: Product, span: Span, side: int, body: Callable[[Value, Value], None]) -> None:
    """`body(first element, number of the line)` for every round of a block of the sums."""
    b = c.b
    axes = [Axis(a.length, a[1 + side]) for a in p.sums]
    outer, inner = axes[:-1], axes[-1] if axes else Axis(1, 0)
    length = b.sub(span.inner[1], span.inner[0])

    def round_(o: Value) -> None:
        first = b.add(place(c, o, outer), b.mul(span.inner[0], b.int(inner.step)))
        body(first, b.mul(b.sub(o, span.outer[0]), length))

    c.loop(*span.outer, round_)


# The right operand


def pack_text(name: str, p: Product, plan: Plan) -> tuple[str, set[str]]:
    """Units: [product, block of the sums, group of panels]."""
    c = Code(name, PARAMETERS)
    _, y, _, room = [c.load(c.parameters[0], k, PTR) for k in range(4)]
    b, tile, d = c.b, plan.tile, plan.depth
    groups = -(-tile.count // GROUP)

    def unit(u: Value) -> None:
        group = b.bin("urem", u, b.int(groups)) if groups > 1 else b.int(0)
        rest = b.bin("udiv", u, b.int(groups)) if groups > 1 else u
        which = b.bin("urem", rest, b.int(d.blocks)) if p.products > 1 else rest
        number = b.bin("udiv", rest, b.int(d.blocks)) if p.products > 1 else b.int(0)
        source = c.at(y, place(c, number, [Axis(a.length, a.right) for a in p.batch]), tile.real)
        target = c.at(room, b.mul(number, b.int(p.k * tile.packed)), tile.real)
        first = b.mul(group, b.int(GROUP))
        last = smaller(c, b.add(first, b.int(GROUP)), b.int(tile.panels))
        span, packing = span_of(c, d, which), Packing(c, p, plan, source)
        base = c.at(target, b.mul(span.start, b.int(tile.packed)), tile.real)
        packing.panels(span, base, first, last)
        if tile.rest:
            final = b.cmp("icmp eq", group, b.int(groups - 1))
            c.when(final, lambda: packing.rest(span, base))

    c.loop(c.parameters[2], c.parameters[3], unit)
    return c.text()


def together(p: Product, tile: Tile) -> bool:
    """Whether the columns of a vector lie together."""
    axes = p.columns or (Axis(1, 1),)
    return axes[-1].step == 1 and (len(axes) == 1 or axes[-1].length % tile.lanes == 0)


def right_copies(p: Product, tile: Tile) -> list[tuple[str, Callable[[Tile, Target], str]]]:
    """The functions that packing the right operand calls: of each the name and what makes it."""
    found: list[tuple[str, Callable[[Tile, Target], str]]] = []
    side_by_side, lone = together(p, tile), len(p.columns) < 2
    if tile.panels and side_by_side and lone:
        found.append((panels_name(tile), panels_text))
    if (tile.rest or not side_by_side) and (side_by_side or lone):
        found.append((columns_name(tile), columns_text))
    return found


@final
class Packing:
    """Copies a block of the sums of some panels: [panel, line, columns of the panel]."""

    __slots__ = ("c", "p", "plan", "source")

    def __init__(self, c: Code, p: Product, plan: Plan, source: Value) -> None:
        self.c, self.p, self.plan, self.source = c, p, plan, source

    def panels(self, span: Span, base: Value, first: Value, last: Value) -> None:
        """Whole panels from `first` to `last`; `base` is where panel 0 is, or would be."""
        c, b, tile = self.c, self.c.b, self.plan.tile
        if not tile.panels:
            return
        if together(self.p, tile):
            self._lines(span, base, first, last)
            return

        def one(j: Value) -> None:
            column = b.mul(j, b.int(tile.width))
            into = c.at(base, b.mul(column, span.total), tile.real)
            self._panel(span, into, column, tile.vectors, tile.width)

        c.loop(first, last, one)

    def rest(self, span: Span, base: Value) -> None:
        """The last panel, if it is not whole."""
        c, b, tile = self.c, self.c.b, self.plan.tile
        column = b.int(tile.panels * tile.width)
        into = c.at(base, b.mul(column, span.total), tile.real)
        self._panel(span, into, column, tile.last, tile.rest)

    def _lines(self, span: Span, base: Value, first: Value, last: Value) -> None:
        """Whole panels side by side, so that lines are read as long as they are."""
        c, b, tile, p = self.c, self.c.b, self.plan.tile, self.p
        axes, step = p.columns, p.sums[-1].right if p.sums else 1
        vector = tile.real.of(tile.lanes)

        def lines(at: Value, line: Value) -> None:
            source = c.at(self.source, at, tile.real)
            into = c.at(base, b.mul(line, b.int(tile.width)), tile.real)
            numbers = (b.int(step), b.sub(span.inner[1], span.inner[0]), first, last,
                       b.mul(b.int(tile.width), span.total))  # fmt: skip
            b.effect("effect", PTR, (source, into, *numbers), panels_name(tile))

        def round_(at: Value, line: Value) -> None:
            def one(i: Value) -> None:
                source = c.at(self.source, b.add(at, b.mul(i, b.int(step))), tile.real)
                into = c.at(base, b.mul(b.add(line, i), b.int(tile.width)), tile.real)

                def panel(j: Value) -> None:
                    column = b.mul(j, b.int(tile.width))
                    target = c.at(into, b.mul(column, span.total), tile.real)
                    for v in range(tile.vectors):
                        where = place(c, b.add(column, b.int(v * tile.lanes)), axes)
                        c.store(target, v * tile.lanes, c.load(source, where, vector))

                c.loop(first, last, panel)

            c.loop(0, b.sub(span.inner[1], span.inner[0]), one)

        over(c, p, span, 1, lines if len(axes) == 1 else round_)

    def _panel(self, span: Span, into: Value, column: Value, vectors: int, columns: int) -> None:
        c, b, tile, p = self.c, self.c.b, self.plan.tile, self.p
        axes = p.columns or (Axis(1, 1),)
        step = p.sums[-1].right if p.sums else 1
        width = vectors * tile.lanes
        even = together(self.p, tile) or len(axes) == 1
        length = b.sub(span.inner[1], span.inner[0])
        for v in range(vectors):
            have = min(tile.lanes, columns - v * tile.lanes)
            for k in range(1 if even else have):
                offset = v * tile.lanes + k
                first = c.at(self.source, place(c, b.add(column, b.int(offset)), axes), tile.real)
                target = c.at(into, offset, tile.real)
                numbers = [axes[-1].step, step, width]

                def vector(at: Value, line: Value, given: tuple[Any, ...]) -> None:
                    first, target, numbers, have = given
                    start = c.at(target, b.mul(line, b.int(width)), tile.real)
                    args = (c.at(first, at, tile.real), start, *map(b.int, numbers), length)
                    b.effect("effect", PTR, (*args, b.int(have)), columns_name(tile))

                def single(at: Value, line: Value, given: tuple[Any, ...]) -> None:
                    first, target, (_, step, width), _ = given

                    def one(i: Value) -> None:
                        found = c.load(first, b.add(at, b.mul(i, b.int(step))), tile.real)
                        c.store(target, b.mul(b.add(line, i), b.int(width)), found)

                    c.loop(0, length, one)

                copy = partial(vector if even else single, given=(first, target, numbers, have))
                over(c, p, span, 1, copy)


# A vector of columns

_COLUMNS: Final = {
    "source": "p", "into": "p", "apart": "n", "step": "n", "width": "n", "count": "n", "have": "n",
}  # fmt: skip


def columns_name(tile: Tile) -> str:
    """The name of the function of `columns_text`."""
    return f"columns.{tile.real.suffix}x{tile.lanes}"


def columns_text(tile: Tile, target: Target) -> str:
    """The function that all contractions share: copies `count` lines of a vector of columns.

    source: columns are `apart`, lines `step` elements apart; into: lines are `width` apart.  Of
    `have` columns the last fills what is left of the vector.
    """
    c = Code(columns_name(tile), _COLUMNS)
    source, into, apart, step, width, count, have = c.parameters
    b, lanes, real = c.b, tile.lanes, tile.real
    whole = b.cmp("icmp eq", have, b.int(lanes))
    last = b.sub(have, b.int(1))
    starts = [c.at(source, b.mul(smaller(c, b.int(k), last), apart), real) for k in range(lanes)]

    def put(line: Value, value: Value) -> None:
        c.store(into, b.mul(line, width), value)

    def copy(i: Value) -> None:
        put(i, c.load(source, b.mul(i, step), real.of(lanes)))

    def square(i: Value) -> None:
        rows = [c.load(start, i, real.of(lanes)) for start in starts]
        for k, row in enumerate(turned(b, rows)):
            put(b.add(i, b.int(k)), row)

    def single(i: Value) -> None:
        value = b.const(0.0, real.of(lanes))
        for k, start in enumerate(starts):
            value = b.insert(value, c.load(start, b.mul(i, step), real), k, lanes)
        put(i, value)

    def gathered() -> list[Value]:
        squares = b.select(b.cmp("icmp eq", step, b.int(1)), b.bin("and", count, b.int(-lanes)),
                           b.int(0))  # fmt: skip
        c.loop(0, squares, square, step=lanes)
        c.loop(squares, count, single)
        return []

    dense = b.bin("and", whole, b.cmp("icmp eq", apart, b.int(1)))
    c.when(dense, lambda: c.loop(0, count, copy), gathered)
    text, declared = c.text()
    return module_text(target, [text], declared)


# Lines of whole panels

_PANELS: Final = {
    "source": "p", "into": "p", "step": "n", "count": "n", "first": "n", "last": "n", "apart": "n",
}  # fmt: skip


def panels_name(tile: Tile) -> str:
    """The name of the function of `panels_text`."""
    return f"panels.{tile.real.suffix}.{tile.vectors}x{tile.lanes}"


def panels_text(tile: Tile, target: Target) -> str:
    """The function that all contractions share: copies `count` lines of the panels from `first`
    to `last`.

    source: columns lie together, lines are `step` elements apart; into: panels are `apart`.
    """
    c = Code(panels_name(tile), _PANELS)
    source, into, step, count, first, last, apart = c.parameters
    b, real, vector = c.b, tile.real, tile.real.of(tile.lanes)

    def line(i: Value) -> None:
        start = c.at(source, b.mul(i, step), real)
        target = c.at(into, b.mul(i, b.int(tile.width)), real)

        def panel(j: Value) -> None:
            here = c.at(start, b.mul(j, b.int(tile.width)), real)
            there = c.at(target, b.mul(j, apart), real)
            for v in range(tile.vectors):
                c.store(there, v * tile.lanes, c.load(here, v * tile.lanes, vector))

        c.loop(first, last, panel)

    c.loop(0, count, line)
    text, declared = c.text()
    return module_text(target, [text], declared)


# Rows of the left operand

_ROW: Final = {"source": "p", "into": "p", "count": "n", "step": "n"}
_ROWS: Final = {
    "source": "p", "into": "p", "count": "n", "step": "n", "tiles": "n", "single": "n",
    "apart": "n",
}  # fmt: skip


def row_name(tile: Tile) -> str:
    """The name of the function of `row_text`."""
    return f"row.{tile.real.suffix}x{tile.lanes}"


def row_text(tile: Tile, target: Target) -> str:
    """The function that all contractions share: copies `count` elements that are `step` apart."""
    c = Code(row_name(tile), _ROW)
    source, into, count, step = c.parameters
    b, real = c.b, tile.real

    def put(i: Value, width: int) -> None:
        c.store(into, i, c.load(source, b.mul(i, step) if width == 1 else i, real.of(width)))

    dense = b.select(b.cmp("icmp eq", step, b.int(1)), b.bin("and", count, b.int(-tile.lanes)),
                     b.int(0))  # fmt: skip
    c.loop(0, dense, lambda i: put(i, tile.lanes), step=tile.lanes)
    c.loop(dense, count, lambda i: put(i, 1))
    text, declared = c.text()
    return module_text(target, [text], declared)


def rows_name(tile: Tile) -> str:
    """The name of the function of `rows_text`."""
    return f"rows.{tile.real.suffix}.{tile.rows}"


def rows_text(tile: Tile, target: Target) -> str:
    """The function that all contractions share: copies rows that lie together, tile by tile, for
    `count` products, which are `step` elements apart.

    into: `tiles` whole tiles, which are `apart`, then one of `single` rows.
    """
    c = Code(rows_name(tile), _ROWS)
    source, into, count, step, tiles, single, apart = c.parameters
    b, real, rows = c.b, tile.real, tile.rows

    def one(i: Value) -> None:
        start = c.at(source, b.mul(i, step), real)
        target = c.at(into, b.mul(i, b.int(rows)), real)

        def whole(t: Value) -> None:
            here = c.at(start, b.mul(t, b.int(rows)), real)
            there, r = c.at(target, b.mul(t, apart), real), 0
            for n in powers(rows):
                c.store(there, r, c.load(here, r, real.of(n)))
                r += n

        c.loop(0, tiles, whole)
        here = c.at(start, b.mul(tiles, b.int(rows)), real)
        there = c.at(target, b.mul(tiles, apart), real)
        c.loop(0, single, lambda r: c.store(there, r, c.load(here, r, real)))

    c.loop(0, count, one)
    text, declared = c.text()
    return module_text(target, [text], declared)


def turned(b: Builder, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors, by log2(lanes) perfect shuffles."""
    lanes = len(rows)
    half = lanes // 2
    low = [x for k in range(half) for x in (k, lanes + k)]
    high = [x for k in range(half, lanes) for x in (k, lanes + k)]
    for _ in range(lanes.bit_length() - 1):
        rows = [
            b.shuffle(rows[k], rows[k + half], mask)
            for k in range(half) for mask in (low, high)
        ]  # fmt: skip
    return rows
