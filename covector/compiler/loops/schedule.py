"""From expressions to loops: arranges folds, scratch fills and stores of one domain in a nest.

Everything sits in the outermost loops that its index needs.  The needs must form a chain (rows
first); siblings over one set of loops share a nest.  The result is serial; `lanes` chooses
vectors afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from covector.compiler.loops.domain import (
    Apart,
    FoldRef,
    FoldResult,
    MustBuffer,
    Scratch,
)
from covector.compiler.loops.graph import Value
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.program import Accumulator, Fold, For, Statement, Store
from covector.compiler.loops.transform import Rewrite
from covector.ir.index import Affine
from covector.ir.scalar import Expr, expr, walk_deep

Level = frozenset[str]


@final
class Final:
    """A root's store: where, the leaf of its value, and the own axes it depends on."""

    __slots__ = ("axes", "index", "leaf", "root")

    def __init__(self, root: Value, index: tuple[Affine, ...], leaf: Expr, axes: Level) -> None:
        self.root, self.index, self.leaf, self.axes = root, index, leaf, axes


def levels_of(low: Lowering, finals: Sequence[Final]) -> list[Level]:
    """The sets of own axes at which something sits, each containing the one before.

    Raises MustBuffer or Apart for what breaks the chain.
    """
    wanted: list[tuple[int, int, Level, Any]] = []
    for ref in low.folds:
        if not ref.need <= low.own.keys():
            raise MustBuffer(ref.node.outs[0])
        wanted.append((len(ref.need), 1, ref.need, MustBuffer(ref.node.outs[0])))
    wanted += [(len(s.rows), 2, s.rows, MustBuffer(s.value)) for s in low.scratch.values()]
    wanted += [(len(f.axes), 0, f.axes, Apart(f.root)) for f in finals]
    prefix = list(low.own)
    wanted.sort(key=lambda w: (w[0], w[1], w[2] != frozenset(prefix[: w[0]])))
    levels: list[Level] = [frozenset()]
    for _, _, need, refusal in wanted:
        if not levels[-1] <= need:
            raise refusal
        if need != levels[-1]:
            levels.append(need)
    return levels


@final
class Group:
    """Folds that share a nest, and the scratch they fill on the way."""

    __slots__ = ("fills", "refs", "values")

    def __init__(self) -> None:
        self.refs: list[FoldRef] = []
        self.values: list[tuple[Expr, ...]] = []
        self.fills: dict[Scratch, tuple[tuple[Affine, ...], Expr]] = {}


@final
class Scheduler:
    """Makes the statements of one domain; `tag` keeps its names apart in the kernel."""

    __slots__ = ("filled", "finals", "items", "labels", "levels", "low", "pending", "spot", "tag")

    def __init__(self, low: Lowering, finals: Sequence[Final], tag: str = "") -> None:
        self.low, self.finals, self.tag = low, finals, tag
        self.levels = levels_of(low, finals)
        self.items: dict[Level, list[Group | Scratch]] = {level: [] for level in self.levels}
        self.spot: dict[FoldRef, int] = {}  # which item of its level
        self.filled: dict[Scratch, int] = {}
        self.pending: dict[Scratch, None] = {}
        self.labels: dict[FoldRef, tuple[str, ...]] = {}

    def run(self) -> list[Statement]:
        """The nest."""
        stores = [self.low.done[f.leaf] for f in self.finals]
        for item in self._in_order(stores):
            if isinstance(item, Scratch):
                self.pending[item] = None
            else:
                self._place(item)
        for e in stores:
            self._fill_now(scratches_in([e]))
        rename = Rewrite(leaf=self._label)
        return rename.statements(self._build(0))

    # Order

    def fill_value(self, s: Scratch) -> Expr:
        """What a fill of its own stores in `s`, resolved."""
        return self.low.done[self.low.say(s.value.node, s.fill_index())[s.value.number]]  # type: ignore[arg-type]

    def _needs(self, item: FoldRef | Scratch) -> list[FoldRef | Scratch]:
        done = self.low.done
        if isinstance(item, Scratch):
            roots = [self.fill_value(item)]
        else:
            roots = [done[v] for v in item.values]
            if item.init is not None:
                roots.append(done[item.init])
        return parts_in(roots)

    def _in_order(self, roots: Sequence[Expr]) -> list[FoldRef | Scratch]:
        """Every fold and scratch under `roots`, each after what it depends on."""
        order: dict[FoldRef | Scratch, None] = {}
        stack: list[tuple[FoldRef | Scratch, bool]] = [
            (p, False) for p in reversed(parts_in(roots))
        ]
        while stack:
            item, ready = stack.pop()
            if item in order:
                continue
            if ready:
                order[item] = None
            else:
                stack.append((item, True))
                stack.extend((p, False) for p in self._needs(item) if p not in order)
        return list(order)

    # Placing

    def _place(self, ref: FoldRef) -> None:
        """Put a fold in a nest of its level: an earlier one over the same loops if it can."""
        values = tuple(self.low.done[v] for v in ref.values)
        fused = self._fused(values, ref)
        self.labels[ref] = tuple(
            f"f{len(self.labels)}{self.tag}" + "i" * k for k in range(len(ref.names))
        )
        items = self.items[ref.need]
        if not fused:
            for at, group in enumerate(items):
                if isinstance(group, Group) and group.refs[0].loops == ref.loops:
                    joined = self._joined(ref, values, group, at)
                    if joined is not None:
                        group.refs.append(ref)
                        group.values.append(joined)
                        self.spot[ref] = at
                        return
        group = Group()
        group.refs.append(ref)
        group.values.append(forward(values, fused))
        group.fills = {s: (at, forward((e,), fused)[0]) for s, (at, e) in fused.items()}
        self.spot[ref] = len(items)
        for s in fused:
            del self.pending[s]
            self.filled[s] = len(items)
        items.append(group)

    def _joined(
        self, ref: FoldRef, values: tuple[Expr, ...], group: Group, at: int
    ) -> tuple[Expr, ...] | None:
        """`values` as they would read in `group`, item `at` of the level; None if they come
        too late for it."""
        values = forward(values, group.fills)
        roots = list(values)
        if ref.init is not None:
            roots.append(self.low.done[ref.init])
        for part in parts_in(roots):
            if isinstance(part, Scratch):
                if part.rows == ref.need and self.filled[part] >= at:
                    return None
            elif part.need == ref.need and self.spot[part] >= at:
                return None
        return values

    def _fused(
        self, values: tuple[Expr, ...], ref: FoldRef
    ) -> dict[Scratch, tuple[tuple[Affine, ...], Expr]]:
        """What the fold can fill on its way, (position, value); what it cannot is filled now."""
        fused: dict[Scratch, tuple[tuple[Affine, ...], Expr]] = {}
        roots = list(values)
        while True:
            waiting = [s for s in scratches_in(roots) if s in self.pending and s not in fused]
            if not waiting:
                return fused
            s = max(waiting, key=lambda s: s.value.position)  # its users are known by now
            fill = self._fusable(s, ref, roots)
            if fill is None:
                self._fill_now([s])
            else:
                fused[s] = fill
                roots.append(fill[1])

    def _fusable(
        self, s: Scratch, ref: FoldRef, roots: Sequence[Expr]
    ) -> tuple[tuple[Affine, ...], Expr] | None:
        """(position, value) if `roots` load `s` at one place that visits all of it just once."""
        if s.rows != ref.need:
            return None
        places = {e.extra[1] for e in walk_deep(*roots) if e.op == "load" and e.extra[0] is s}
        if len(places) != 1:
            return None
        (position,) = places
        loops = {a: (lo, h) for a, lo, h in ref.loops}
        for p, n in zip(position, s.shape, strict=True):
            if n == 1 and p == 0:
                continue
            axis = p.terms[0][0] if len(p.terms) == 1 and not p.const else None
            if axis not in loops or p.terms[0][1] != 1 or loops.pop(axis) != (0, n):
                return None
        if loops:
            return None
        low = self.low
        value = low.say(s.value.node, s.index_at(position))[s.value.number]  # type: ignore[arg-type]
        low.resolve([value])
        found = low.done[value]
        # Said at another place, it may read what the nest has no part for.
        return (position, found) if all(map(self._known, parts_in([found]))) else None

    def _known(self, part: FoldRef | Scratch) -> bool:
        if isinstance(part, Scratch):
            return part in self.pending or part in self.filled
        return part in self.spot

    def _fill_now(self, wanted: Iterable[Scratch]) -> None:
        """Give the pending ones of `wanted`, and what they load, nests of their own."""
        for s in wanted:
            if s in self.pending:
                del self.pending[s]
                self._fill_now(scratches_in([self.fill_value(s)]))
                items = self.items[s.rows]
                self.filled[s] = len(items)
                items.append(s)

    # Statements

    def _label(self, e: Expr) -> Expr | None:
        if e.op == "name" and isinstance(e.extra, FoldResult):
            return expr("name", e.dtype, extra=self.labels[e.extra.ref][e.extra.number])
        return None

    def _build(self, k: int) -> list[Statement]:
        level, low = self.levels[k], self.low
        body: list[Statement] = [self._statement(item) for item in self.items[level]]
        body += [
            Store(f.root, f.index, low.done[f.leaf])  # type: ignore[arg-type]
            for f in self.finals
            if f.axes == level
        ]
        if k + 1 < len(self.levels):
            inner: list[Statement] = self._build(k + 1)
            added = self.levels[k + 1] - level
            for a, lo, h in reversed(low.domain.axes):
                if a in added:
                    inner = [For(a, lo, h, inner)]
            body += inner
        return body

    def _statement(self, item: Group | Scratch) -> Statement:
        if isinstance(item, Scratch):
            body: Statement = Store(item, item.fill_position(), self.fill_value(item))  # type: ignore[arg-type]
            for a, lo, h in reversed(item.fill_axes()):
                body = For(a, lo, h, [body])
            return body
        done = self.low.done
        results = [
            Accumulator(
                self.labels[ref],
                ref.kind,
                ref.dtypes,
                values,
                None if ref.init is None else done[ref.init],
            )
            for ref, values in zip(item.refs, item.values, strict=True)
        ]
        stores: list[Statement] = [Store(s, at, e) for s, (at, e) in item.fills.items()]  # type: ignore[arg-type]
        return Fold(list(item.refs[0].loops), results, stores)


def parts_in(roots: Iterable[Expr]) -> list[FoldRef | Scratch]:
    """The folds and the scratch that resolved `roots` read, each once."""
    found: dict[FoldRef | Scratch, None] = {}
    for e in walk_deep(*roots):
        if e.op == "load":
            if isinstance(e.extra[0], Scratch):
                found[e.extra[0]] = None
        elif e.op == "name" and isinstance(e.extra, FoldResult):
            found[e.extra.ref] = None
    return list(found)


def scratches_in(roots: Iterable[Expr]) -> list[Scratch]:
    """The scratch that resolved `roots` load, each once."""
    return [p for p in parts_in(roots) if isinstance(p, Scratch)]


def forward(
    values: tuple[Expr, ...], fills: dict[Scratch, tuple[tuple[Affine, ...], Expr]]
) -> tuple[Expr, ...]:
    """`values` with loads of what is being stored at the same place replaced by the value."""
    if not fills:
        return values

    def leaf(e: Expr) -> Expr | None:
        if e.op == "load" and isinstance(e.extra[0], Scratch):
            at = fills.get(e.extra[0])
            if at is not None and at[0] == e.extra[1]:
                return rewrite.expr(at[1])
        return None

    rewrite = Rewrite(leaf=leaf)
    return tuple(map(rewrite.expr, values))
