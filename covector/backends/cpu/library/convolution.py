"""Convolutions whose operands have features last and are padded: rows, and sums over all places.

A piece of work is a block of rows and some panels of columns.  Pieces follow from the sizes alone,
and so does the order of every sum, however many threads take them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from covector._base.digest import digest
from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import PTR
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.phases import (
    DECLARED,
    LEAST,
    PARAMETERS,
    PIECES,
    Phase,
    entry,
)
from covector.backends.cpu.library.tiles import Axis, Sums, Tile, collapsed, place, smaller

if TYPE_CHECKING:
    from collections.abc import Callable

    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site
    from covector.backends.cpu.target import Target

#: A block's rows of lhs take about so many bytes: they stay in the second cache.
BLOCK_BYTES: Final = 1 << 16
#: Places that are summed in registers before the sums go to memory.
PLACES: Final = 128
#: Results of so many bytes are summed in several parts of the places.
PARTIAL_BYTES: Final = 1 << 19
#: The most parts.
PARTS: Final = 16
#: So many tiles in a row repay a copy of the columns that they all read.
PACKED: Final = 4


class Geometry(NamedTuple):
    """The sizes of a convolution: lhs [n, spatial ..., groups, inputs]."""

    dtype: str
    n: int
    spatial: tuple[int, ...]
    groups: int
    inputs: int
    window: tuple[int, ...]
    places: tuple[int, ...]
    outputs: int
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def steps(self) -> list[int]:
        """Elements of lhs between neighbours along [n, spatial ...]."""
        out = [self.groups * self.inputs]
        for n in reversed(self.spatial):
            out.insert(0, out[0] * n)
        return out

    @property
    def at_places(self) -> list[Axis]:
        """The axes of the places: the batch first."""
        first, *rest = self.steps
        inner = [Axis(p, s * k) for p, s, k in zip(self.places, self.strides, rest, strict=True)]
        return [Axis(self.n, first), *inner]

    @property
    def in_window(self) -> list[Axis]:
        """The axes of the window, and the features."""
        rest = self.steps[1:]
        inner = [Axis(t, d * k) for t, d, k in zip(self.window, self.dilation, rest, strict=True)]
        return [*inner, Axis(self.inputs, 1)]

    @property
    def rows(self) -> int:
        """Places of all the batch."""
        return self.n * math.prod(self.places)

    @property
    def depth(self) -> int:
        """Products of each sum over the window."""
        return math.prod(self.window) * self.inputs


def conv_rows(site: Site) -> None:
    """lhs [n, spatial ..., group, i], rhs [window ..., i, group, o]; see `ops`."""
    strides, dilation = site.attributes
    (x, y), (out,) = site.inputs, site.outputs
    g = Geometry(
        out.dtype, x.shape[0], x.shape[1:-2], x.shape[-2], x.shape[-1], y.shape[:-3],
        out.shape[1:-2], out.shape[-1], strides, dilation,
    )  # fmt: skip
    _call(site, "conv_rows", g, rows_text)


def conv_taps(site: Site) -> None:
    """x [n, spatial ..., group, i], y [n, places ..., group, o]; see `ops`."""
    strides, dilation, window = site.attributes
    (x, y), (out,) = site.inputs, site.outputs
    g = Geometry(
        out.dtype, x.shape[0], x.shape[1:-2], x.shape[-2], x.shape[-1], window, y.shape[1:-2],
        out.shape[-1], strides, dilation,
    )  # fmt: skip
    _call(site, "conv_taps", g, taps_text)


def _call(site: Site, kind: str, g: Geometry, make: Callable[..., tuple[list[str], set[str]]]
          ) -> None:  # fmt: skip
    host, b = site.host, site.host.b
    name = f"{kind}.{digest(repr(g)).hexdigest()[:16]}"

    def text() -> str:
        functions, declared = make(name, g, host.target)
        return module_text(host.target, functions, declared)

    host.code(name, text)
    pointers = b.local(PTR, 4)
    for n, v in enumerate((site.inputs[0], site.inputs[1], site.outputs[0])):
        b.effect("store", PTR, (v.pointer, b.put("gep", PTR, (pointers, b.int(n)), PTR)), 8)
    b.effect("effect", PTR, (pointers,), name)


#: A block of places: from one number to another of the outer axes; where along the last axis, and
#: how many there.
_Span = tuple["Value", "Value", "Value", int]


def _pointers(c: Code) -> list[Value]:
    return [c.load(c.parameters[0], k, PTR) for k in range(4)]


# Rows


def rows_text(name: str, g: Geometry, target: Target) -> tuple[list[str], set[str]]:
    """The functions of one geometry, and what they need declared."""
    tile = Tile(target, g.dtype, g.outputs, g.rows)
    size = tile.real.bits // 8
    pack, packing = _pack(f"{name}.pack", g, tile)
    tiles = -(-g.rows // tile.rows)
    work = 2 * tile.rows * g.depth * g.outputs
    # Blocks of tiles; where there are few, panels are shared out too.
    fit = BLOCK_BYTES // (tile.rows * g.inputs * size * math.prod(g.strides)) or 1
    fine = max(1, tiles * g.groups // PIECES, -(-LEAST // work))
    block = min(fit, fine, tiles)
    blocks = -(-tiles // block)
    chunks = min(tile.count, max(1, PIECES // (2 * blocks * g.groups)))
    chunk = -(-tile.count // chunks)
    chunks = -(-tile.count // chunk)
    part, declared = _rows_part(f"{name}.part", g, tile, tiles, block, blocks, chunk, chunks)
    units = g.groups * blocks * chunks
    least = max(1, round(LEAST * chunks / (work * block)))
    phases = [
        Phase(f"{name}.pack", g.depth, max(1, (1 << 18) // (tile.packed * g.groups * size))),
        Phase(f"{name}.part", units, least),
    ]
    whole = entry(name, g.groups * g.depth * tile.packed * size, phases)
    return [pack, part, whole], {*packing, *declared, *DECLARED}


def _pack(name: str, g: Geometry, tile: Tile) -> tuple[str, set[str]]:
    """Copies rhs into panels: [group, panel, depth, columns of a panel]."""
    c = Code(name, PARAMETERS)
    _, source, _, room = _pointers(c)
    b, lanes = c.b, tile.lanes
    vector, depth = tile.real.of(lanes), g.depth

    def line(k: Value) -> None:
        def group(n: Value) -> None:
            given = c.at(source, b.mul(b.add(b.mul(k, b.int(g.groups)), n), b.int(g.outputs)),
                         tile.real)  # fmt: skip
            base = c.at(room, b.mul(n, b.int(depth * tile.packed)), tile.real)

            def panel(j: Value) -> None:
                at = b.add(b.mul(j, b.int(depth * tile.width)), b.mul(k, b.int(tile.width)))
                for v in range(tile.vectors):
                    found = c.load(given, b.add(b.mul(j, b.int(tile.width)), b.int(v * lanes)),
                                   vector)  # fmt: skip
                    c.store(base, b.add(at, b.int(v * lanes)), found)

            c.loop(0, tile.panels, panel)
            if not tile.rest:
                return
            first, wide = tile.panels * tile.width, tile.last * lanes
            at = b.add(b.int(depth * first), b.mul(k, b.int(wide)))

            def copy(i: Value) -> None:
                c.store(base, b.add(at, i),
                        c.load(given, b.add(b.int(first), i), tile.real))  # fmt: skip

            c.loop(0, tile.rest, copy)
            zero = b.const(0.0, tile.real)
            c.loop(tile.rest, wide, lambda i: c.store(base, b.add(at, i), zero))

        c.loop(0, g.groups, group)

    c.loop(c.parameters[2], c.parameters[3], line)
    return c.text()


def _rows_part(
    name: str, g: Geometry, tile: Tile, tiles: int, block: int, blocks: int, chunk: int,
    chunks: int,
) -> tuple[str, set[str]]:  # fmt: skip
    """Pieces of work: [group, block of tiles, chunk of panels]."""
    c = Code(name, PARAMETERS)
    x, _, out, room = _pointers(c)
    b = c.b
    at_places, in_window = collapsed(g.at_places), collapsed(g.in_window)

    def one(q: Value, panel: Value, column: Value, group: Value, vectors: int, columns: int
            ) -> None:  # fmt: skip
        """A tile: rows from `q` on (no more than there are: the last is repeated)."""
        numbers = [smaller(c, b.add(q, b.int(r)), b.int(g.rows - 1)) for r in range(tile.rows)]
        base = b.mul(group, b.int(g.inputs))
        rows = [c.at(x, b.add(base, place(c, n, at_places)), tile.real) for n in numbers]
        sums = Sums(c, tile, rows, vectors)
        zero = b.int(0)
        made = sums.nest(sums.zeros(), zero, panel, zero, in_window, vectors * tile.lanes)
        start = b.add(b.mul(group, b.int(g.outputs)), column)
        whole = b.int(g.groups * g.outputs)
        results = [c.at(out, b.add(b.mul(n, whole), start), tile.real) for n in numbers]
        sums.store(results, made, columns)

    def piece(u: Value) -> None:
        split = b.bin("urem", u, b.int(chunks)) if chunks > 1 else b.int(0)
        rest = b.bin("udiv", u, b.int(chunks)) if chunks > 1 else u
        group = b.bin("udiv", rest, b.int(blocks)) if g.groups > 1 else b.int(0)
        which = b.bin("urem", rest, b.int(blocks)) if g.groups > 1 else rest
        low = b.mul(which, b.int(block))
        high = smaller(c, b.add(low, b.int(block)), b.int(tiles))
        first = b.mul(split, b.int(chunk))
        end = smaller(c, b.add(first, b.int(chunk)), b.int(tile.panels))
        packed = c.at(room, b.mul(group, b.int(g.depth * tile.packed)), tile.real)

        def whole(j: Value) -> None:
            panel = c.at(packed, b.mul(j, b.int(g.depth * tile.width)), tile.real)
            column = b.mul(j, b.int(tile.width))
            c.loop(low, high, lambda t: one(b.mul(t, b.int(tile.rows)), panel, column, group,
                                            tile.vectors, tile.width))  # fmt: skip

        if tile.panels:
            c.loop(first, end, whole)
        if not tile.rest:
            return

        def last() -> None:
            panel = c.at(packed, tile.panels * g.depth * tile.width, tile.real)
            column = b.int(tile.panels * tile.width)
            c.loop(low, high, lambda t: one(b.mul(t, b.int(tile.rows)), panel, column, group,
                                            tile.last, tile.rest))  # fmt: skip

        c.when(b.cmp("icmp eq", split, b.int(chunks - 1)), last)

    c.loop(c.parameters[2], c.parameters[3], piece)
    return c.text()


# Sums over places


def taps_text(name: str, g: Geometry, target: Target) -> tuple[list[str], set[str]]:
    """The functions of one geometry, and what they need declared."""
    tile = Tile(target, g.dtype, g.outputs, g.depth)
    size = tile.real.bits // 8
    result = g.depth * g.groups * g.outputs
    outer = g.rows // g.places[-1]
    work = 2 * g.rows * result
    wanted = max(1, min(PIECES, work // LEAST))
    parts = max(1, min(PARTS, wanted, outer, 8 * PARTIAL_BYTES // (result * size)))
    tiles = -(-g.depth // tile.rows)
    blocks = min(tiles, max(1, -(-wanted // (parts * g.groups))))
    block = -(-tiles // blocks)
    blocks = -(-tiles // block)
    part, declared = _taps_part(f"{name}.part", g, tile, outer, parts, tiles, block, blocks)
    units = g.groups * blocks * parts
    phases = [Phase(f"{name}.part", units, max(1, LEAST * units // work))]
    functions = [part]
    if parts > 1:
        total, more = _total(f"{name}.total", tile, result, parts)
        functions.append(total)
        declared |= more
        vectors = -(-result // tile.lanes)
        phases.append(Phase(f"{name}.total", vectors, (1 << 16) // parts))
    functions.append(entry(name, parts * result * size if parts > 1 else 0, phases))
    return functions, {*declared, *DECLARED}


def _taps_part(
    name: str, g: Geometry, tile: Tile, outer: int, parts: int, tiles: int, block: int, blocks: int
) -> tuple[str, set[str]]:
    """Pieces of work: [group, part of the places, block of tiles]."""
    c = Code(name, PARAMETERS)
    x, y, result, room = _pointers(c)
    b = c.b
    *around, along = g.at_places
    around, in_window = collapsed(around), collapsed(g.in_window)
    line = g.groups * g.outputs  # from one place's columns to the next's
    count = along.length
    many = min(count, 2 * PLACES)  # along the last axis, at a time
    few = max(1, PLACES // count)  # of the other axes
    share = -(-outer // parts)
    keeps = block >= PACKED
    packed = c.local(tile.real, max(few * count, many) * tile.width if keeps else 1)

    def pack(start_of: Value, vectors: int, columns: int, span: _Span) -> None:
        """Copies the columns of a block of places, one line after the other."""
        u0, u1, _, length = span
        sums, width = Sums(c, tile, [], vectors), vectors * tile.lanes

        def lines(u: Value) -> None:
            source, into = b.mul(u, b.int(count * line)), b.mul(b.sub(u, u0), b.int(length * width))

            def copy(k: Value) -> None:
                row = c.at(start_of, b.add(source, b.mul(k, b.int(line))), tile.real)
                at = b.add(into, b.mul(k, b.int(width)))
                for v, found in enumerate(sums.load([row], columns)):
                    c.store(packed, b.add(at, b.int(v * tile.lanes)), found)

            c.loop(0, length, copy)

        c.loop(u0, u1, lines)

    def one(q: Value, column: Value, group: Value, target: Value, vectors: int, columns: int,
            span: _Span) -> None:  # fmt: skip
        """Adds a block of places to a tile of results."""
        u0, u1, start, length = span
        numbers = [smaller(c, b.add(q, b.int(r)), b.int(g.depth - 1)) for r in range(tile.rows)]
        base = b.add(b.mul(group, b.int(g.inputs)), b.mul(start, b.int(along.step)))
        rows = [c.at(x, b.add(base, place(c, n, in_window)), tile.real) for n in numbers]
        sums = Sums(c, tile, rows, vectors)
        at = b.add(b.mul(group, b.int(g.outputs)), column)
        panel = c.at(y, b.add(at, b.mul(start, b.int(line))), tile.real)
        results = [c.at(target, b.add(b.mul(n, b.int(line)), at), tile.real) for n in numbers]

        def trip(u: Value, *now: Value) -> list[Value]:
            at, axis = place(c, u, around), Axis(length, along.step)
            if not keeps:
                return sums.run(list(now), at, panel, b.mul(u, b.int(count * line)), axis, line)
            width = vectors * tile.lanes
            here = b.mul(b.sub(u, u0), b.int(length * width))
            return sums.run(list(now), at, packed, here, axis, width)

        made = c.loop(u0, u1, trip, sums.load(results, columns))
        sums.store(results, made, columns)

    def piece(unit: Value) -> None:
        which = b.bin("urem", unit, b.int(blocks)) if blocks > 1 else b.int(0)
        rest = b.bin("udiv", unit, b.int(blocks)) if blocks > 1 else unit
        part = b.bin("urem", rest, b.int(parts)) if parts > 1 else b.int(0)
        group = b.bin("udiv", rest, b.int(parts)) if parts > 1 else rest
        low = b.mul(which, b.int(block))
        high = smaller(c, b.add(low, b.int(block)), b.int(tiles))
        target = result
        if parts > 1:
            target = c.at(room, b.mul(part, b.int(g.depth * line)), tile.real)
        _clear(c, g, tile, target, group, low, high)
        first = b.mul(part, b.int(share))
        end = smaller(c, b.add(first, b.int(share)), b.int(outer))

        def places(u0: Value) -> None:
            u1 = smaller(c, b.add(u0, b.int(few)), end)

            def some(start: Value, length: int) -> None:
                span = (u0, u1, start, length)

                def panels(vectors: int, columns: int, column: Value) -> None:
                    if keeps:
                        at = b.add(b.mul(group, b.int(g.outputs)), column)
                        base = c.at(y, b.add(at, b.mul(start, b.int(line))), tile.real)
                        pack(base, vectors, columns, span)
                    c.loop(low, high, lambda t: one(b.mul(t, b.int(tile.rows)), column, group,
                                                    target, vectors, columns, span))  # fmt: skip

                c.loop(0, tile.panels, lambda j: panels(tile.vectors, tile.width,
                                                        b.mul(j, b.int(tile.width))))  # fmt: skip
                if tile.rest:
                    panels(tile.last, tile.rest, b.int(tile.panels * tile.width))

            whole = count - count % many
            c.loop(0, whole, lambda start: some(start, many), step=many)
            if whole < count:
                some(b.int(whole), count - whole)

        c.loop(first, end, places, step=few)

    c.loop(c.parameters[2], c.parameters[3], piece)
    return c.text()


def _clear(
    c: Code, g: Geometry, tile: Tile, target: Value, group: Value, low: Value, high: Value
) -> None:
    """Zeros the results of tiles `low` to `high`."""
    b = c.b
    end = smaller(c, b.mul(high, b.int(tile.rows)), b.int(g.depth))
    zero = b.const(0.0, tile.real)

    def row(q: Value) -> None:
        at = b.add(b.mul(b.add(b.mul(q, b.int(g.groups)), group), b.int(g.outputs)), b.int(0))
        start = c.at(target, at, tile.real)

        def put(i: Value, width: int) -> None:
            c.store(start, i, b.splat(zero, width))

        c.vectors(b.int(g.outputs), tile.lanes, put)

    c.loop(b.mul(low, b.int(tile.rows)), end, row)


def _total(name: str, tile: Tile, count: int, parts: int) -> tuple[str, set[str]]:
    """Adds the parts up, in order; units are vectors."""
    c = Code(name, PARAMETERS)
    _, _, out, room = _pointers(c)
    b, lanes = c.b, tile.lanes

    def add(i: Value, width: int) -> None:
        total = c.load(room, i, tile.real.of(width))
        for p in range(1, parts):
            found = c.load(room, b.add(i, b.int(p * count)), tile.real.of(width))
            total = b.bin("fadd", total, found)
        c.store(out, i, total)

    low = b.mul(c.parameters[2], b.int(lanes))
    high = smaller(c, b.mul(c.parameters[3], b.int(lanes)), b.int(count))
    whole = b.add(low, b.bin("and", b.sub(high, low), b.int(-lanes)))
    c.loop(low, whole, lambda i: add(i, lanes), step=lanes)
    c.loop(whole, high, lambda i: add(i, 1))
    return c.text()
