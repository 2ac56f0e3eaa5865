"""Chooses what runs as vectors: which axis has the lanes, how much is unrolled, where tiles pay,
where columns are done in panels, which loops may be spread over threads, what is fetched early.

Works on a serial kernel; each decision looks only at loop extents and at strides of accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from covector.compiler import loops
from covector.compiler.loops.address import Accesses
from covector.compiler.loops.costs import COST
from covector.compiler.loops.program import Fold, For, If, Kernel, Scan, Statement, Store, Update
from covector.compiler.loops.strides import Strides, mentions, step_along
from covector.compiler.loops.transform import all_statements, bounds, expressions
from covector.ir.scalar import Expr, walk, walk_deep

#: Rows shorter than this are better done many at a time, one a lane.
SHORT = 8
#: Folds longer than this along columns are done in panels.
LONG = 16
#: Beyond this cost of an element, unrolling a loop with folds inside only makes code longer.
DEAR = 40
#: Up to these costs of an element so many vectors are done side by side: their chains of dependent
#: instructions fill each other's gaps; beyond, LLVM has too much to read.
UNROLLED = ((150, 4), (600, 2))
#: Columns that a panel needs for its rows to be read as streams; and what costs no more than so
#: much is not kept for whole columns, which no near cache holds: as fast, and half the code.
STREAM, CHEAP = 64, 12
#: Both axes of a transposed tile are at least this long.
TILE = 16


def choose_lanes(kernel: Kernel) -> Kernel:
    """The kernel with its loops' modes chosen (statements are changed in place or replaced)."""
    kernel.body = _body(kernel, kernel.body, False)
    for s in kernel.body:
        _spread(kernel, s)
    if any(isinstance(s, Fold) for s in all_statements(kernel.body)):
        loops.asks.ask_ahead(kernel)
    return kernel


def crowded(kernel: Kernel) -> bool:
    """Whether panels of columns keep what is cheap, or so much that they would be too narrow to
    stream: computing the values again is faster then."""
    if not any(b.home == "scratch" for b in kernel.buffers.values()):
        return False
    for s in all_statements(kernel.body):
        if isinstance(s, For):
            inner = [t for t in all_statements(s.body) if isinstance(t, (For, Fold, Scan))]
            if inner and _outer(kernel, s, inner) == "panels":
                extent = s.high.const - s.low.const
                width = loops.columns.panel_width(kernel, s, extent)
                return width < min(STREAM, extent) or (width < extent and _keeps_cheap(kernel, s))
    return False


def _keeps_cheap(kernel: Kernel, loop: For) -> bool:
    """Whether all that the loop keeps, a column of it each, costs little to compute."""
    kept = [
        t
        for t in all_statements(loop.body)
        if isinstance(t, Store) and kernel.buffers[t.buffer].home == "scratch"
    ]
    return bool(kept) and all(_cost_a_row(t.value, loop.axis) <= CHEAP for t in kept)


def _cost_a_row(root: Expr, column: str) -> int:
    """The cost of what is not the same in all rows of a column: of that a panel makes a row."""
    total, varies = 0, set[Expr]()
    for e in walk(root):
        if e.op in ("load", "index"):
            index = e.extra[1] if e.op == "load" else (e.extra,)
            differs = any(atom != column for i in index for atom, _ in i.terms)
        else:
            differs = not varies.isdisjoint(e.args)
        if differs:
            varies.add(e)
            total += COST.get(e.op, 1)
    return total


def _body(kernel: Kernel, body: Sequence[Statement], lanes: bool) -> list[Statement]:
    return [new for s in body for new in _statement(kernel, s, lanes)]


def _statement(kernel: Kernel, s: Statement, lanes: bool) -> list[Statement]:
    """What stands for `s`; `lanes`: a loop round it has them already."""
    if isinstance(s, Fold):
        _fold(kernel, s, lanes)
    elif isinstance(s, (For, Scan, If)):
        if isinstance(s, For) and not lanes:
            return _loop(kernel, s)
        s.body = _body(kernel, s.body, lanes)
    return [s]


def _loop(kernel: Kernel, s: For) -> list[Statement]:
    inner = [t for t in all_statements(s.body) if isinstance(t, (For, Fold, Scan))]
    if not inner:
        if independent(kernel, s):
            cost = _cost(s.body)
            s.mode, s.unroll = "vector", _side_by_side(cost, 1)
        return [s]
    tile = _as_tile(kernel, s)
    if tile is not None:
        return [tile]
    choice = _outer(kernel, s, inner)
    if choice == "panels":
        return loops.columns.panels(kernel, s)
    if choice == "lanes":
        s.mode = "vector"
        s.unroll = 4 if _cost(s.body) < DEAR and not any(isinstance(t, For) for t in inner) else 1
    s.body = _body(kernel, s.body, choice == "lanes")
    return [s]


def _side_by_side(cost: int, least: int) -> int:
    """How many vectors of elements of this cost are done at once."""
    return next((n for most, n in UNROLLED if cost <= most), least)


def _fold(kernel: Kernel, s: Fold, lanes: bool) -> None:
    cost = _cost([s])
    s.unroll = 1 if lanes else _side_by_side(cost, 2)
    if lanes:
        return
    strides = Strides(kernel, [s])
    axis = max((a for a, _, _ in s.loops), key=lambda a: (strides.vote(a), a))
    s.vector = axis
    s.loops.sort(key=lambda loop: loop[0] == axis)


# Loops around loops


def _outer(kernel: Kernel, s: For, inner: Sequence[Statement]) -> str:
    """Who does the columns of `s`: '' (the loops inside it have the lanes), 'lanes' or 'panels'."""
    nested = any(isinstance(t, For) and any(_has_loop(u) for u in t.body) for t in inner)
    if not independent(kernel, s):
        return ""
    folds = [t for t in inner if isinstance(t, (Fold, Scan))]
    extents = [n for t in inner for n in _extents(t)]
    scratch = any(
        kernel.buffers[t.buffer].home == "scratch"
        for t in all_statements(s.body)
        if isinstance(t, (Store, Update))
    )
    short = all(n is not None and n < SHORT for n in extents)
    if short and not scratch and not nested:
        return "lanes"
    if not folds:
        return ""
    if not all(_moves_along(kernel, s.axis, some) for some in (folds, inner)):
        return ""
    pairs = any(len(r.names) > 1 for t in folds if isinstance(t, Fold) for r in t.results)
    if pairs and not scratch and not nested:
        return "lanes"  # choosing both of a pair in memory is slower than in registers
    known = (s.high - s.low).constant
    long = max((n for n in extents if n is not None), default=0) >= LONG
    if known is not None and known >= SHORT and None not in extents and (long or scratch):
        return "panels"
    return "" if scratch or nested else "lanes"


def _moves_along(kernel: Kernel, axis: str, loops: Sequence[Statement]) -> bool:
    """Whether memory is read and written along `axis` rather than along the axes of `loops`."""
    strides = Strides(kernel, loops, scratch=False)
    mine = strides.vote(axis)
    return all(mine > strides.vote(a) for t in loops for a, _, _ in _loops(t))


def _has_loop(s: Statement) -> bool:
    return isinstance(s, (For, Fold, Scan))


def _loops(s: Statement) -> list[tuple[str, object, object]]:
    if isinstance(s, Fold):
        return list(s.loops)
    return [(s.axis, s.low, s.high)] if isinstance(s, (For, Scan)) else []


def _extents(s: Statement) -> list[int | None]:
    return [(high - low).constant for _, low, high in _loops(s)]  # type: ignore[operator]


def independent(kernel: Kernel, loop: For) -> bool:
    """Whether the iterations of `loop` touch nothing that another one writes."""
    body = list(all_statements(loop.body))
    written = [
        (s.buffer, s.index)
        for s in body
        if isinstance(s, (Store, Update)) and kernel.buffers[s.buffer].home != "scratch"
    ]
    for name, index in written:
        if not any(mentions(loop.axis, i) for i in index):
            return False
        if not step_along(loop.axis, index, kernel.buffers[name]) and not _own_axis(
            loop.axis, index
        ):
            return False
    outs = {name for name, _ in written}
    places = {(n, i) for n, i in Accesses(body).places if n in outs}
    return len(places) == len(set(written))


def _own_axis(axis: str, index: Sequence[object]) -> bool:
    """Whether one axis of the buffer is indexed by `axis` alone, times a number."""
    return any(
        len(i.terms) == 1 and i.terms[0][0] == axis  # type: ignore[attr-defined]
        for i in index
    )


# Tiles


def _as_tile(kernel: Kernel, s: For) -> For | None:
    """A nest of plain loops with a pair of them in blocks, if an operand is read along another
    axis than the result is written."""
    chain = [s]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For):
        chain.append(chain[-1].body[0])
    stores = chain[-1].body
    if len(chain) < 2 or not all(isinstance(t, Store) for t in stores):
        return None
    inner = chain[-1]
    strides = Strides(kernel, stores)
    for t in stores:
        if step_along(inner.axis, t.index, kernel.buffers[t.buffer]) != 1:  # type: ignore[attr-defined]
            return None
    across = [
        loop
        for loop in chain[:-1]
        for name, index in strides.places
        if step_along(loop.axis, index, kernel.buffers[name]) == 1
        and step_along(inner.axis, index, kernel.buffers[name]) not in (0, 1)
    ]
    fixed = {a for loop in chain for b in bounds(loop) for a, _ in b.terms}
    if not across or fixed & {loop.axis for loop in chain}:
        return None
    outer = across[0]
    sizes = [(loop.high - loop.low).constant for loop in (outer, inner)]
    if any(n is not None and n < TILE for n in sizes):
        return None
    nest = outer
    nest.mode, nest.body = "tile", list[Statement]([inner])
    for loop in reversed([c for c in chain[:-1] if c is not outer]):
        loop.body = list[Statement]([nest])
        nest = loop
    return nest


# Threads


def _spread(kernel: Kernel, s: Statement) -> None:
    """Mark the outermost serial loop of a nest whose iterations are independent."""
    if isinstance(s, For) and s.mode == "serial" and s.unroll == 1 and independent(kernel, s):
        inside = {t.buffer for t in all_statements(s.body) if isinstance(t, (Store, Update))}
        kept = {n for n in inside if kernel.buffers[n].home == "scratch"}
        outside = [t for t in kernel.body if t is not s]
        if not kept & {n for n, _ in Accesses(all_statements(outside)).places}:
            s.mode = "parallel"


def _cost(body: Sequence[Statement]) -> int:
    roots: list[Expr] = []
    for s in all_statements(body):
        roots += expressions(s)
    return sum(COST.get(e.op, 1) for e in walk_deep(*roots))
