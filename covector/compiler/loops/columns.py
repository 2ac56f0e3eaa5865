"""Loops over columns, turned inside out: rows are streamed, one panel of columns at a time.

    for j { fold k { f += x[k, j] }; y[j] = f }

becomes, for each panel of w columns, with the accumulators in a scratch row,

    for c:vector { r[c] = 0 };  for k { for c:vector { r[c] += x[k, j + c] } };  for c:vector { … }

so that memory is read along its rows.  What the loop body keeps for later (scratch) is kept for
all columns of the panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from covector.compiler.loops.costs import COST
from covector.compiler.loops.interpret import identity
from covector.compiler.loops.program import (
    Buffer,
    Fold,
    For,
    Kernel,
    Let,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.compiler.loops.strides import mentions
from covector.compiler.loops.transform import Rewrite, all_statements, expressions
from covector.compiler.math.formats import numpy_dtype
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import Expr, compare, const, load, name, select, walk

#: Columns of a panel: at most, at most where it keeps more than accumulators (wider ones are no
#: faster, and there are fewer for threads), and at least (a cache line of floats).
WIDEST, KEEPING, NARROWEST = 512, 128, 16
#: What a panel keeps should stay in a core's caches (its L2, its share of L3).  Measured on softmax
#: over columns of 256 to 16384 floats: as fast as a tenth of it where that is wide enough, faster
#: than computing values again where it is not.
PANEL_BYTES = 4096 * 1024
#: Rows between what is read and what is asked for, where a panel is not whole rows: the hardware
#: does not foresee jumps from row to row.  Measured: up to twice as fast, alike from 8 to 32.
AHEAD = 16
#: What costs so much, in additions, and is the same in every row is computed once a column.
DEAR = 4
#: Rows combined in registers before a scratch row of accumulators is touched, if they are cheap.
ROWS, LIGHT = 8, 6
#: Axes of the loops over rows that something is inside; None: one of them may have no rows.
Axes = tuple[str, ...] | None


def panels(kernel: Kernel, loop: For) -> list[Statement]:
    """What stands for `loop` (constant bounds, a body of folds, scans, loops and stores); new
    scratch is added to the kernel's buffers."""
    extent = loop.high.const - loop.low.const
    width = panel_width(kernel, loop, extent)
    count, rest = divmod(extent, width)
    ahead = AHEAD if extent > width else 0
    kept = _written(kernel, loop)
    rows = _Panel(kernel, loop, width, ahead, {b.name: b for b in kept})
    out: list[Statement] = []
    if count:
        outer = f"{loop.axis}o"
        start = affine(outer) * width + loop.low
        body = rows.statements(start, width)
        out += (
            [For(outer, ZERO, Affine(count), body)]
            if count > 1
            else rows.statements(loop.low, width)
        )
    rows.finish()
    if rest:  # with scratch of its own, so that threads can share the others
        last = _Panel(kernel, loop, rest, ahead, {f"{b.name}r": b for b in kept})
        out += last.statements(loop.low + count * width, rest)
        last.finish()
    return out


def panel_width(kernel: Kernel, loop: For, extent: int) -> int:
    """Columns of a panel: what it keeps fits in L2; panels are equal, or about so."""
    per_column = 8
    for b in _written(kernel, loop):
        elements = 1
        for n in b.shape:
            elements *= n.const
        per_column += elements * numpy_dtype(b.dtype).itemsize
    most = KEEPING if per_column > 8 else WIDEST
    widest = max(NARROWEST, min(most, PANEL_BYTES // per_column // NARROWEST * NARROWEST))
    if extent <= widest:
        return extent
    for width in range(widest, widest // 2, -NARROWEST):  # what is left over is code of its own
        if extent % width == 0:
            return width
    count = -(-extent // widest)
    even = -(-extent // count)
    return -(-even // NARROWEST) * NARROWEST


def _written(kernel: Kernel, loop: For) -> list[Buffer]:
    """The scratch that the loop fills."""
    names = {s.buffer: None for s in all_statements(loop.body) if isinstance(s, (Store, Update))}
    return [b for n in names if (b := kernel.buffers[n]).home == "scratch"]


@final
class _Panel:
    """Writes the statements of one panel."""

    __slots__ = (
        "ahead", "column", "fills", "kept", "kernel", "loop", "names", "ready", "rows", "set",
        "width",
    )  # fmt: skip

    def __init__(
        self, kernel: Kernel, loop: For, width: int, ahead: int, kept: dict[str, Buffer]
    ) -> None:
        self.kernel, self.loop, self.width, self.ahead = kernel, loop, width, ahead
        self.column = f"{loop.axis}c"
        #: scratch of the loop, by its names here
        self.kept = kept
        self.names = {b.name: n for n, b in kept.items()}
        #: names of scalars -> the scratch rows that hold them for every column
        self.rows: dict[str, Buffer] = {}
        #: the rows that are final where a loop over rows begins, what is computed there once for
        #: all rows, and where it is kept
        self.ready: set[str] = set()
        self.fills: list[Statement] = []
        self.set: dict[Expr, Buffer] = {}

    def statements(self, start: Affine, width: int) -> list[Statement]:
        """The panel of `width` columns from `start` on."""
        swap = {self.loop.axis: start + affine(self.column)}
        rewrite = Rewrite(swap, self._place, self._leaf)
        self.ready, self.set = set(), {}
        return self._body(self.loop.body, rewrite, width)

    def finish(self) -> None:
        """Give the scratch its new shapes."""
        buffers = self.kernel.buffers
        for n, b in self.kept.items():
            buffers[n] = Buffer(n, (*b.shape, Affine(self.width)), b.dtype, b.home)
        for b in self.rows.values():
            buffers[b.name] = b

    def _place(self, buffer: str, index: tuple[Affine, ...]) -> tuple[str, tuple[Affine, ...]]:
        if buffer not in self.names:
            return buffer, index
        return self.names[buffer], (*index, affine(self.column))

    def _leaf(self, e: Expr) -> Expr | None:
        row = self.rows.get(e.extra) if e.op == "name" else None
        return None if row is None else self._load(row)

    def _load(self, row: Buffer) -> Expr:
        return load(row.name, (affine(self.column),), row.dtype)

    def _row(self, label: str, dtype: str) -> Buffer:
        """The scratch row that holds `label` for every column."""
        if label not in self.rows:
            free = (f"r{k}" for k in range(len(self.kernel.buffers) + len(self.rows) + 1))
            taken = {b.name for b in self.rows.values()} | self.kernel.buffers.keys()
            fresh = next(n for n in free if n not in taken)
            self.rows[label] = Buffer(fresh, (Affine(self.width),), dtype, "scratch")
        return self.rows[label]

    def _set(self, row: Buffer, value: Expr) -> Store:
        return Store(row.name, (affine(self.column),), value)

    def _columns(
        self, body: list[Statement], width: int, lines: bool = False, inside: Axes = ()
    ) -> For:
        """A loop over the columns; `lines`: two vectors at once, which are a line or more."""
        unroll = 2 if lines and width >= 64 else 1
        if inside:
            body = self._outside(body, inside)
        return For(self.column, ZERO, Affine(width), self._named(body), "vector", unroll)

    def _outside(self, body: list[Statement], inside: tuple[str, ...]) -> list[Statement]:
        """The body without what is dear and the same in every row: that is done once, before."""
        roots = [e for s in body for e in expressions(s)]
        same: dict[Expr, int] = {}  # what is the same in every row, and its cost
        for e in walk(*roots):
            if e.op == "load":
                varies = e.extra[0] in self.kept or e.extra[0] not in self._known()
                varies |= any(mentions(a, i) for a in inside for i in e.extra[1])
            elif e.op == "index":
                varies = any(mentions(a, e.extra) for a in inside)
            else:
                varies = e.op == "name" or any(a not in same for a in e.args)
            if not varies:
                same[e] = COST.get(e.op, 1) + sum(same[a] for a in e.args)
        rewrite = Rewrite()
        stack = roots
        while stack:
            e = stack.pop()
            if e not in same:
                stack.extend(e.args)
            elif same[e] >= DEAR and e.args and e.dtype != "bool":
                rewrite.memo[e] = self._load(self._once(e))
        return rewrite.statements(body) if rewrite.memo else body

    def _known(self) -> set[str]:
        """What may be read where a loop over rows begins."""
        return self.ready | {n for n, b in self.kernel.buffers.items() if b.home == "in"}

    def _once(self, e: Expr) -> Buffer:
        """The scratch row that holds `e`, which is filled before the loop over rows."""
        if e not in self.set:
            self.set[e] = row = self._row(f"{len(self.set)}:", e.dtype)
            self.fills.append(self._set(row, e))
        return self.set[e]

    def _named(self, body: list[Statement]) -> list[Statement]:
        """The body with names for the scratch that several statements only read: so what they
        have in common is computed once, although they write memory."""
        written = {s.buffer for s in body if isinstance(s, (Store, Update))}
        scratch = (self.kept.keys() | {row.name for row in self.rows.values()}) - written
        uses: dict[Expr, int] = {}
        for s in body:
            for e in walk(*expressions(s)):
                if e.op == "load" and e.extra[0] in scratch:
                    uses[e] = uses.get(e, 0) + 1
        shared = [e for e, count in uses.items() if count > 1]
        names = {e: Let(f"{e.extra[0]}v{n}", e) for n, e in enumerate(shared)}
        if not names:
            return body
        given = {e: name(let.name, e.dtype) for e, let in names.items()}
        return [*names.values(), *Rewrite(leaf=given.get).statements(body)]

    def _rows(
        self, axis: str, low: Affine, high: Affine, body: list[Statement], unroll: int = 1
    ) -> For:
        return For(axis, low, high, body, "serial", unroll, self.ahead)

    def _body(
        self, body: Sequence[Statement], rewrite: Rewrite, width: int, inside: Axes = ()
    ) -> list[Statement]:
        out: list[Statement] = []
        plain: list[Statement] = []
        for s in body:
            if isinstance(s, (Store, Update)):
                plain.append(rewrite.statement(s))
                continue
            if plain:
                out.append(self._columns(plain, width, True, inside))
                plain = []
            if isinstance(s, Fold):
                loops = self._fold(s, rewrite, width, inside)
            elif isinstance(s, Scan):
                loops = self._scan(s, rewrite, width, inside)
            elif isinstance(s, For):
                over = _over(inside, [(s.axis, s.low, s.high)])
                inner = self._body(s.body, rewrite, width, over)
                ends = rewrite.index(s.low), rewrite.index(s.high)
                loops = [self._rows(s.axis, *ends, inner)]
            else:
                raise TypeError(f"panels: unexpected {type(s).__name__}")
            if inside == ():
                if self.fills:
                    out.append(self._columns(self.fills, width))
                    self.fills = []
                self.ready = {row.name for row in self.rows.values()}
            out += loops
        if plain:
            out.append(self._columns(plain, width, True, inside))
        return out

    def _fold(self, s: Fold, rewrite: Rewrite, width: int, inside: Axes) -> list[Statement]:
        stores = rewrite.statements(s.stores)
        start: list[Statement] = []
        inner: list[Statement] = []
        later: dict[str, Buffer] = {}
        for r in s.results:
            values = [rewrite.expr(v) for v in r.values]
            rows = [self._row(n, d) for n, d in zip(r.names, r.dtypes, strict=True)]
            if len(rows) == 1:
                (row,), (value,) = rows, values
                first = (
                    const(identity(r.kind, row.dtype), row.dtype)
                    if r.init is None
                    else rewrite.expr(r.init)
                )
                start.append(self._set(row, first))
                inner.append(Update(row.name, (affine(self.column),), r.kind, value))
            else:
                lows = Rewrite({a: low for a, low, _ in s.loops})
                start += [self._set(row, lows.expr(v)) for row, v in zip(rows, values, strict=True)]
                inner += self._choose(r.kind, rows, values)
            later.update(zip(r.names, rows, strict=True))
        over = _over(inside, s.loops)
        cheap = not stores and all(isinstance(t, Update) for t in inner) and _light(inner)
        body: list[Statement] = [self._columns([*stores, *inner], width, not cheap, over)]
        for k, (a, low, high) in enumerate(reversed(s.loops)):
            rows_at_once = ROWS // max(1, len(inner)) if k == 0 and cheap else 1
            ends = rewrite.index(low), rewrite.index(high)
            body = [self._rows(a, *ends, body, rows_at_once)]
        rewrite.memo.clear()  # names of the fold mean its rows from here on
        return [self._columns(start, width), *body]

    def _choose(self, kind: str, rows: list[Buffer], values: list[Expr]) -> list[Statement]:
        """Keep the (value, index) pair that comes first among the best; NaN is better still."""
        value, index = values
        best, place = map(self._load, rows)
        better = compare("gt" if kind == "argmax" else "lt", value, best)
        if "float" in value.dtype:
            better = better | (compare("ne", value, value) & compare("eq", best, best))
        return [
            self._set(rows[1], select(better, index, place)),
            self._set(rows[0], select(better, value, best)),
        ]

    def _scan(self, s: Scan, rewrite: Rewrite, width: int, inside: Axes) -> list[Statement]:
        rows = [self._row(n, e.dtype) for n, e in s.carries]
        start: list[Statement] = [
            self._set(row, rewrite.expr(e)) for row, (_, e) in zip(rows, s.carries, strict=True)
        ]
        rewrite.memo.clear()
        axes = dict(rewrite.axes)
        if s.reverse:
            axes[s.axis] = s.low + s.high - 1 - affine(s.axis)
        within = Rewrite(axes, self._place, self._leaf)
        body = within.statements(s.body)
        following = [within.expr(e) for e in s.next]
        lets = [Let(f"{row.name}n", e) for row, e in zip(rows, following, strict=True)]
        body += lets
        body += [self._set(row, name(t.name, row.dtype)) for row, t in zip(rows, lets, strict=True)]
        low, high = rewrite.index(s.low), rewrite.index(s.high)
        over = _over(inside, [(s.axis, s.low, s.high)])
        return [
            self._columns(start, width),
            self._rows(s.axis, low, high, [self._columns(body, width, inside=over)]),
        ]


def _over(inside: Axes, loops: Sequence[tuple[str, Affine, Affine]]) -> Axes:
    """The axes inside further loops."""
    some = all(((high - low).constant or 0) > 0 for _, low, high in loops)
    return (*inside, *(a for a, _, _ in loops)) if some and inside is not None else None


def _light(body: Sequence[Statement]) -> bool:
    """Whether the statements do no more than a few operations a column."""
    nodes = walk(*(root for s in body for root in expressions(s)))
    return sum(COST.get(e.op, 1) for e in nodes) <= LIGHT
