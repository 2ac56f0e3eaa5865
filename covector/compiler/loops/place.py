"""Where each value of a kernel lives: recomputed at its uses, in row-local scratch, in a buffer.

`settle` lowers one domain, counts how often each recomputed value would be evaluated, and lowers
again with better decisions until nothing changes.  A value belongs in memory when computing it
again costs more than writing it once and reading it back.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import final

from covector.compiler.loops.costs import COST, ENDLESS, MEMORY_COST, READ_COST, product
from covector.compiler.loops.domain import FoldRef, FoldResult, MustBuffer, Scratch
from covector.compiler.loops.graph import Value
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.schedule import Final, Level, parts_in
from covector.ir.index import ZERO, Affine
from covector.ir.scalar import Expr

#: Scratch of one row stays in L2, scratch for a whole kernel in L1.
ROW_SCRATCH_BYTES, KERNEL_SCRATCH_BYTES = 256 * 1024, 32 * 1024
#: Lowerings of one domain; the last one is taken as it is.
ROUNDS = 12


@final
class Settled:
    """A lowered domain whose placement is decided."""

    __slots__ = ("finals", "low")

    def __init__(self, low: Lowering, finals: list[Final]) -> None:
        self.low, self.finals = low, finals


@final
class Pass:
    """One set of loops in which values are asked for: a fold, a scratch fill, or the stores."""

    __slots__ = ("level", "order", "roots", "trips")

    def __init__(
        self, level: Level, order: Sequence[str], trips: dict[str, int], roots: list[Expr]
    ) -> None:
        self.level, self.order, self.trips, self.roots = level, order, trips, roots

    def evaluations(self, axes: frozenset[str]) -> int:
        """How often a value that depends on `axes` is computed: hoisted as far as they allow."""
        count = pending = 1
        for a in self.order:
            pending *= self.trips[a]
            if a in axes:
                count = pending
        return count


def settle(roots: Sequence[tuple[Value, tuple[Affine, ...]]], low: Lowering) -> Settled:
    """Lower `roots` at their indices, with scratch where it pays; raises MustBuffer for a value
    that must get a buffer."""
    low.root_index = dict(roots)
    finals = [
        Final(v, i, low.leaf(v, i), frozenset().union(*map(low.axes_of, i)) if i else frozenset())
        for v, i in roots
    ]
    for _ in range(ROUNDS):
        low.reset()
        low.resolve([f.leaf for f in finals])
        _resolve_fills(low)
        if not _decide(low, finals):
            break
    return Settled(low, finals)


def _resolve_fills(low: Lowering) -> None:
    """Lower what the scratch in use is filled with."""
    known: set[Scratch] = set()
    while True:
        used = [p for p in parts_in(low.done.values()) if isinstance(p, Scratch)]
        new = [s for s in used if s not in known]
        if not new:
            low.scratch = {s.value: s for s in used}
            return
        for s in new:
            known.add(s)
            for a, lo, h in s.fill_axes():
                low.box[a] = (lo, h)
            low.resolve([low.say(s.value.node, s.fill_index())[s.value.number]])  # type: ignore[arg-type]


def fill_root(low: Lowering, s: Scratch) -> Expr:
    """What an own fill of `s` stores, unresolved."""
    return low.say(s.value.node, s.fill_index())[s.value.number]  # type: ignore[arg-type]


def _passes(low: Lowering, finals: Sequence[Final]) -> list[Pass] | None:
    """Every pass with the leaves it reaches; None if trip counts are not numbers."""
    trips: dict[str, int] = {}
    for a, (lo, h) in low.box.items():
        if isinstance(a, str):
            n = h - lo
            if n.terms:
                return None
            trips[a] = n.const
    wanted = [*(f.need for f in low.folds), *(s.rows for s in low.scratch.values())]
    needs = sorted(dict.fromkeys(wanted), key=len)
    rank = {a: k for k, need in reversed(list(enumerate(needs))) for a in need}
    own = sorted(low.own, key=lambda a: (rank.get(a, len(needs)), low.own[a]))
    deepest = needs[-1] if needs else frozenset()
    out = []
    for axes in dict.fromkeys(f.axes for f in finals):
        order = [a for a in own if a in axes]
        roots = [f.leaf for f in finals if f.axes == axes]
        out.append(Pass(axes & deepest, order, trips, roots))
    for ref in low.folds:
        order = [a for a in own if a in ref.need] + [a for a, _, _ in ref.loops]
        roots = [*ref.values, *([] if ref.init is None else [ref.init])]
        out.append(Pass(ref.need, order, trips, roots))
    for s in low.scratch.values():
        order = [a for a in own if a in s.rows] + [a for a, _, _ in s.fill_axes()]
        out.append(Pass(s.rows, order, trips, [fill_root(low, s)]))
    return out


def costs(low: Lowering) -> dict[Expr, int]:
    """For every argument leaf that is recomputed, what one of its elements costs: all that is
    recomputed below it, where what smaller values need (a row's mean) counts once for them."""
    ops: dict[Expr, int] = {}  # operations each time the node is evaluated
    below: dict[Expr, int] = {}  # work of all elements of the values under it
    each: dict[Expr, int] = {}
    for e in low.done:  # in order: arguments before users
        here, under = COST.get(e.op, 1), 0
        if e.op == "load":
            target = low.targets.get(e)
            if target is not None:
                size = max(e.extra[0].size or 1, 1)
                under = min(ops[target] * size + below[target], ENDLESS * size)
                each[e] = under // size
        elif e.op == "name" and isinstance(e.extra, FoldResult):
            ref = e.extra.ref
            volume = product((h - lo).constant or 1 for _, lo, h in ref.loops)
            under = volume * sum(ops[v] + 1 for v in ref.values) * (ref.node.outs[0].size or 1)
            under += sum(below[v] for v in ref.values)
        else:
            for a in e.args:
                here += ops[a]
                under += below[a]
        ops[e], below[e] = min(here, ENDLESS), under
    return each


def dependences(low: Lowering) -> dict[Expr, frozenset[str]]:
    """For every resolved node, the axes that its value depends on (a broadcast value does not
    depend on all axes of its index)."""
    found: dict[Expr, frozenset[str]] = {}
    nothing: frozenset[str] = frozenset()
    for e in low.done:  # in order: arguments before users
        axes = nothing
        if e.op == "load":
            target = low.targets.get(e)
            if target is not None and target in found:
                axes = found[target]
            else:
                axes = nothing.union(*map(low.axes_of, e.extra[1]))
        elif e.op == "index":
            axes = low.axes_of(e.extra)
        elif e.op == "name" and isinstance(e.extra, FoldResult):
            axes = e.extra.ref.need
        else:
            for a in e.args:
                more = found[a]
                axes = axes if more <= axes else axes | more
        found[e] = axes
    return found


def _decide(low: Lowering, finals: Sequence[Final]) -> bool:
    """Move values to scratch where that pays (True if any), or raise MustBuffer.

    One sweep from users to arguments: what a value in scratch needs, its fill asks for once.
    """
    passes = _passes(low, finals)
    if passes is None:
        return False
    cost, depends = costs(low), dependences(low)
    asks: dict[Value, dict[tuple[int, Expr], None]] = {}
    queue: list[tuple[int, int, Value]] = []
    direct: dict[Expr, list[Expr]] = {}

    def ask(k: int, roots: Sequence[Expr]) -> None:
        for leaf in low.direct(roots, direct):
            value = leaf.extra[0]
            if low.targets[leaf] is not None and value not in low.scratch:
                if value not in asks:
                    asks[value] = {}
                    heapq.heappush(queue, (-value.position, -value.number, value))
                asks[value][k, leaf] = None

    for k, p in enumerate(passes):
        ask(k, p.roots)
    changed = False
    while queue:
        value = heapq.heappop(queue)[2]
        asked = asks[value]
        if _worth(value, asked, cost, depends, passes, low.recompute):
            scratch = low.scratch[value] = _scratch_for(value, asked, low, passes)
            (k, leaf), *_ = asked  # from here on one fill asks, over the axes the value depends on
            order = [a for a in passes[k].order if a in depends[leaf]]
            asked = {(len(passes), leaf): None}
            passes.append(Pass(scratch.rows, order, passes[k].trips, []))
            changed = True
        for k, leaf in asked:
            ask(k, [low.targets[leaf]])  # type: ignore[list-item]
    return changed


def _worth(
    value: Value,
    asked: dict[tuple[int, Expr], None],
    cost: dict[Expr, int],
    depends: dict[Expr, frozenset[str]],
    passes: Sequence[Pass],
    recompute: bool,
) -> bool:
    """Whether computing `value` wherever it is asked for costs more than memory for it."""
    if recompute:  # only what one pass asks for at several places
        asked = max(({a: None for a in asked if a[0] == k} for k in {k for k, _ in asked}), key=len)
    again = max(cost[leaf] for _, leaf in asked)
    if len(asked) == 1 and again <= READ_COST:
        return False
    count, fixed = 0, set()
    for k, leaf in asked:
        axes = depends[leaf]
        if axes <= passes[k].level:  # computed once a row for all passes
            if leaf in fixed:
                continue
            fixed.add(leaf)
        count += passes[k].evaluations(axes)
    size = value.size or 0
    return again * (count - size) > MEMORY_COST * size + READ_COST * count


def _scratch_for(
    value: Value,
    asked: dict[tuple[int, Expr], None],
    low: Lowering,
    passes: Sequence[Pass],
) -> Scratch:
    """Scratch that covers every use of `value`, in the deepest rows they share; else MustBuffer."""
    common = frozenset.intersection(*(passes[k].level for k, _ in asked))
    indices = {leaf.extra[1]: None for _, leaf in asked}
    used = frozenset().union(*(low.axes_of(i) for index in indices for i in index))
    levels = {frozenset[str](), *(p.level for p in passes)}
    fits = [level for level in levels if used & common <= level <= common]
    rows = min(fits, key=len, default=frozenset())
    base, dims, size = [], [], 1
    for same in zip(*indices, strict=True):
        parts = {_split(i, rows, low) for i in same}
        rests = {rest for _, rest in parts}
        if len({b for b, _ in parts}) != 1:
            raise MustBuffer(value)
        (first, _), *_ = parts
        if len(rests) == 1 and not next(iter(rests)).terms:
            base.append(first + next(iter(rests)))
            dims.append(None)
            continue
        lows, highs = zip(*(low.range_of(r) for r in rests), strict=True)
        if any(b.terms for b in (*lows, *highs)):
            raise MustBuffer(value)
        least, most = min(b.const for b in lows), max(b.const for b in highs)
        base.append(first)
        dims.append((least, most - least + 1))
        size *= most - least + 1
    limit = ROW_SCRATCH_BYTES if rows else KERNEL_SCRATCH_BYTES
    if size * 8 > limit * 2 or not _fillable(low, asked, rows):
        raise MustBuffer(value)
    return Scratch(value, rows, tuple(base), tuple(dims), len(low.scratch))


def _fillable(low: Lowering, asked: dict[tuple[int, Expr], None], rows: Level) -> bool:
    """Whether what the value is computed from is known in `rows`."""
    roots = [leaf for _, leaf in asked]
    return all(part.need <= rows for part in _folds_under(low, roots))


def _folds_under(low: Lowering, roots: Sequence[Expr]) -> list[FoldRef]:
    found = parts_in([low.done[r] for r in roots])
    return [p for p in found if isinstance(p, FoldRef)] + [
        f
        for s in found
        if isinstance(s, Scratch)
        for f in parts_in([low.done[fill_root(low, s)]])
        if isinstance(f, FoldRef)
    ]


def _split(i: Affine, rows: Level, low: Lowering) -> tuple[Affine, Affine]:
    """`i` as (what is fixed within a row, the rest with the constant)."""
    fixed = ZERO
    for atom, c in i.terms:
        axes = low.axes_of(Affine(0, ((atom, 1),)))
        if axes <= rows:
            fixed = fixed + Affine(0, ((atom, c),))
    return fixed, i - fixed
