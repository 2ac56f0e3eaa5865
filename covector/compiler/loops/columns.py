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
from covector.compiler.loops.transform import Rewrite, all_statements, expressions
from covector.compiler.math.evaluate import numpy_dtype
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import Expr, compare, const, load, name, select, walk

#: Columns of a panel: at most, and at least (a cache line of floats).
WIDEST, NARROWEST = 512, 16
#: What a panel keeps should stay in L2.
PANEL_BYTES = 192 * 1024
#: Rows combined in registers before a scratch row of accumulators is touched, if they are cheap.
ROWS, LIGHT = 8, 6


def panels(kernel: Kernel, loop: For) -> list[Statement]:
    """What stands for `loop` (constant bounds, a body of folds, scans, loops and stores); new
    scratch is added to the kernel's buffers."""
    extent = loop.high.const - loop.low.const
    width = panel_width(kernel, loop, extent)
    rows = _Panel(kernel, loop, width)
    count, rest = divmod(extent, width)
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
    if rest:
        out += rows.statements(loop.low + count * width, rest)
    rows.finish()
    return out


def panel_width(kernel: Kernel, loop: For, extent: int) -> int:
    """Columns of a panel: what it keeps fits in L2; panels are about equal."""
    per_column = 8
    for b in _written(kernel, loop):
        elements = 1
        for n in b.shape:
            elements *= n.const
        per_column += elements * numpy_dtype(b.dtype).itemsize
    widest = max(NARROWEST, min(WIDEST, PANEL_BYTES // per_column // NARROWEST * NARROWEST))
    if extent <= widest:
        return extent
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

    __slots__ = ("column", "kept", "kernel", "loop", "rows", "width")

    def __init__(self, kernel: Kernel, loop: For, width: int) -> None:
        self.kernel, self.loop, self.width = kernel, loop, width
        self.column = f"{loop.axis}c"
        self.kept = {b.name for b in _written(kernel, loop)}
        #: names of scalars -> the scratch rows that hold them for every column
        self.rows: dict[str, Buffer] = {}

    def statements(self, start: Affine, width: int) -> list[Statement]:
        """The panel of `width` columns from `start` on."""
        swap = {self.loop.axis: start + affine(self.column)}
        rewrite = Rewrite(swap, self._place, self._leaf)
        return self._body(self.loop.body, rewrite, width)

    def finish(self) -> None:
        """Give the scratch its new shapes."""
        buffers = self.kernel.buffers
        for n in self.kept:
            b = buffers[n]
            buffers[n] = Buffer(n, (*b.shape, Affine(self.width)), b.dtype, b.home)
        for b in self.rows.values():
            buffers[b.name] = b

    def _place(self, buffer: str, index: tuple[Affine, ...]) -> tuple[str, tuple[Affine, ...]]:
        return buffer, (*index, affine(self.column)) if buffer in self.kept else index

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

    def _columns(self, body: list[Statement], width: int, cheap: bool = False) -> For:
        unroll = 2 if cheap and width >= 64 else 1
        return For(self.column, ZERO, Affine(width), body, "vector", unroll)

    def _body(self, body: Sequence[Statement], rewrite: Rewrite, width: int) -> list[Statement]:
        out: list[Statement] = []
        plain: list[Statement] = []
        for s in body:
            if isinstance(s, (Store, Update)):
                plain.append(rewrite.statement(s))
                continue
            if plain:
                out.append(self._columns(plain, width, cheap=True))
                plain = []
            if isinstance(s, Fold):
                out += self._fold(s, rewrite, width)
            elif isinstance(s, Scan):
                out += self._scan(s, rewrite, width)
            elif isinstance(s, For):
                inner = self._body(s.body, rewrite, width)
                out.append(For(s.axis, rewrite.index(s.low), rewrite.index(s.high), inner))
            else:
                raise TypeError(f"panels: unexpected {type(s).__name__}")
        if plain:
            out.append(self._columns(plain, width, cheap=True))
        return out

    def _fold(self, s: Fold, rewrite: Rewrite, width: int) -> list[Statement]:
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
        body: list[Statement] = [self._columns([*stores, *inner], width)]
        cheap = not stores and all(isinstance(t, Update) for t in inner) and _light(inner)
        for k, (a, low, high) in enumerate(reversed(s.loops)):
            rows_at_once = ROWS // max(1, len(inner)) if k == 0 and cheap else 1
            body = [For(a, rewrite.index(low), rewrite.index(high), body, "serial", rows_at_once)]
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

    def _scan(self, s: Scan, rewrite: Rewrite, width: int) -> list[Statement]:
        rows = [self._row(n, e.dtype) for n, e in s.carries]
        start: list[Statement] = [
            self._set(row, rewrite.expr(e)) for row, (_, e) in zip(rows, s.carries, strict=True)
        ]
        rewrite.memo.clear()
        axes = dict(rewrite.axes)
        if s.reverse:
            axes[s.axis] = s.low + s.high - 1 - affine(s.axis)
        inside = Rewrite(axes, self._place, self._leaf)
        body = inside.statements(s.body)
        following = [inside.expr(e) for e in s.next]
        lets = [Let(f"{row.name}n", e) for row, e in zip(rows, following, strict=True)]
        body += lets
        body += [self._set(row, name(t.name, row.dtype)) for row, t in zip(rows, lets, strict=True)]
        low, high = rewrite.index(s.low), rewrite.index(s.high)
        return [
            self._columns(start, width),
            For(s.axis, low, high, [self._columns(body, width)]),
        ]


def _light(body: Sequence[Statement]) -> bool:
    """Whether the statements do no more than a few operations a column."""
    nodes = walk(*(root for s in body for root in expressions(s)))
    return sum(COST.get(e.op, 1) for e in nodes) <= LIGHT
