"""From values to scalar expressions: asks the kernel rules what each element is.

`Lowering` answers for one domain (a box of loop axes): `at` is lazy, it returns a leaf that names
(value, index); a worklist replaces the leaves by loads, or by what the value's rule says.  Folds
found on the way become names.  Nothing here knows loops; `schedule` arranges the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

from covector.compiler.loops.ask import Asking
from covector.compiler.loops.domain import (
    Domain,
    FoldRef,
    FoldResult,
    Loop,
    MustBuffer,
    Scratch,
)
from covector.compiler.loops.graph import Node, Value
from covector.ir.index import ZERO, Affine, Data, Quotient, affine
from covector.ir.scalar import Expr, expr, walk, walk_deep

#: A value wanted at more places of one domain than this gets memory.
INDICES = 24
#: Operations of one kernel: LLVM's time grows faster than the length of a block.
LARGEST = 3000


@final
class Lowering:
    """The expressions of one domain; see the module's text.

    in_memory: values to load (inputs and buffers).  scratch: decisions for this domain.
    recompute: row-local scratch is not to be used (see `columns.crowded`).
    """

    __slots__ = (
        "ask", "asked", "box", "deep", "domain", "done", "factors", "fold_axes", "folds",
        "in_memory", "own", "places", "ranges", "recompute", "root_index", "said", "scratch",
        "targets",
    )  # fmt: skip

    def __init__(
        self,
        domain: Domain,
        in_memory: Callable[[Value], bool],
        factors: dict[str, int] | None = None,
        recompute: bool = False,
    ) -> None:
        self.recompute = recompute
        self.domain, self.in_memory = domain, in_memory
        self.factors = factors or {}
        self.own = {a: k for k, (a, _, _) in enumerate(domain.axes)}
        self.box: dict[Any, tuple[Affine, Affine]] = {a: (lo, h) for a, lo, h in domain.axes}
        self.ranges: dict[Affine, tuple[Affine, Affine]] = {}
        self.deep: dict[Affine, frozenset[str]] = {}
        self.asked: dict[Node, int] = {}
        #: the indices at which each node's folds are wanted
        self.places: dict[Node, dict[tuple[Affine, ...], None]] = {}
        self.said: dict[Any, tuple[Expr, ...]] = {}
        self.fold_axes: dict[tuple[Affine, ...], tuple[list[Loop], list[Affine]]] = {}
        self.ask = Asking(self)
        self.scratch: dict[Value, Scratch] = {}
        self.root_index: dict[Value, tuple[Affine, ...]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what was resolved (placement changed); what the rules said stays."""
        self.done: dict[Expr, Expr] = {}
        self.targets: dict[Expr, Expr | None] = {}
        self.folds: dict[FoldRef, None] = {}

    # What a leaf stands for

    def leaf(self, value: Value, index: tuple[Affine, ...]) -> Expr:
        """The element of `value` at `index`, not yet resolved."""
        return expr("load", value.dtype, extra=(value, index))

    def target(self, leaf: Expr, value: Value, index: tuple[Affine, ...]) -> Expr | None:
        """What replaces `leaf`, or None if it stays a load from memory."""
        if value.node is None:
            return None
        if value not in self.root_index and self.in_memory(value):
            return None
        scratch = self.scratch.get(value)
        if scratch is not None:
            return expr("load", value.dtype, extra=(scratch, self.position(scratch, index)))
        return self.say(value.node, index)[value.number]

    def say(self, node: Node, index: tuple[Affine, ...]) -> tuple[Expr, ...]:
        """What the rule of `node` says at `index`: one expression for each result."""
        key = (node, index)
        found = self.said.get(key)
        if found is None:
            asked = self.asked[node] = self.asked.get(node, 0) + 1
            large = asked == 1 and len(self.asked) > LARGEST and node.outs[0] not in self.root_index
            if node.rule != "kernel" or asked > INDICES or large:
                raise MustBuffer(node.outs[0])
            ask = self.ask
            ask.begin(node, index)
            answer = node.op.kernel(ask, index)
            found = answer if isinstance(answer, tuple) else (answer,)
            self.said[key] = found
        return found

    def position(self, scratch: Scratch, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Where in `scratch` the element at `index` is; refuses what it does not cover."""
        out = []
        for i, base, dim in zip(index, scratch.base, scratch.dims, strict=True):
            p = i - base
            if dim is None:
                if p != 0:
                    raise MustBuffer(scratch.value)
                continue
            p = p - dim[0]
            low, high = self.range_of(p)
            if low.terms or high.terms or low.const < 0 or high.const >= dim[1]:
                raise MustBuffer(scratch.value)
            out.append(p)
        return tuple(out)

    # The worklist

    def resolve(self, roots: Iterable[Expr]) -> None:
        """Replace every leaf under `roots`; `done` then maps each node to its final form."""
        done = self.done
        stack = list(roots)
        while stack:
            e = stack[-1]
            if e in done:
                stack.pop()
                continue
            waiting = self._waiting(e)
            if waiting:
                stack.extend(waiting)
            else:
                done[e] = self._resolved(e)
                stack.pop()

    def _waiting(self, e: Expr) -> list[Expr]:
        """What must be resolved before `e` can be."""
        done = self.done
        if e.op == "load":
            value, index = e.extra
            waiting = [d for i in index if i.terms for d in i.data() if d not in done]
            if waiting or isinstance(value, Scratch):
                return waiting
            if e not in self.targets:
                self.targets[e] = self.target(e, value, index)
            target = self.targets[e]
            return [] if target is None or target in done else [target]
        if e.op == "index":
            return [d for d in e.extra.data() if d not in done]
        if e.op == "name" and isinstance(e.extra, FoldResult):
            ref = e.extra.ref
            waiting = [v for v in ref.values if v not in done]
            if ref.init is not None and ref.init not in done:
                waiting.append(ref.init)
            if not waiting:
                self.folds[ref] = None
            return waiting
        return [a for a in e.args if a not in done]

    def _resolved(self, e: Expr) -> Expr:
        done = self.done
        if e.op == "load":
            value, index = e.extra
            if not isinstance(value, Scratch):
                target = self.targets[e]
                if target is not None:
                    return done[target]
            new = tuple(self.with_data(i) for i in index)
            return e if new == index else expr("load", e.dtype, extra=(value, new))
        if e.op == "index":
            new = self.with_data(e.extra)
            return e if new is e.extra else expr("index", e.dtype, extra=new)
        if not e.args:
            return e
        args = tuple([done[a] for a in e.args])
        return e if args == e.args else expr(e.op, e.dtype, *args, extra=e.extra)

    def with_data(self, i: Affine) -> Affine:
        """`i` with the data-dependent indices in it resolved."""
        changed: dict[Any, Affine] = {}
        for atom, _ in i.terms:
            if isinstance(atom, Data):
                new = self.done[atom.value]
                if new is not atom.value:
                    changed[atom] = affine(Data(new))
            elif isinstance(atom, Quotient):
                inner = self.with_data(atom.index)
                if inner is not atom.index:
                    changed[atom] = affine(Quotient(atom.kind, inner, atom.n))
        return i.substitute(changed) if changed else i

    def reach(self, roots: Iterable[Expr]) -> list[Expr]:
        """The argument leaves met under unresolved `roots`: through what is recomputed, but not
        into folds, scratch or memory."""
        seen: set[Expr] = set()
        out: list[Expr] = []
        stack = list(roots)
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            if e.op == "load":
                if isinstance(e.extra[0], Scratch):
                    continue
                out.append(e)
                stack.extend(d for i in e.extra[1] if i.terms for d in i.data())
                target = self.targets[e]
                if target is not None:
                    stack.append(target)
            elif e.op == "index":
                stack.extend(e.extra.data())
            else:
                stack.extend(e.args)
        return out

    def direct(self, roots: Iterable[Expr], memo: dict[Expr, list[Expr]]) -> list[Expr]:
        """The argument leaves met under unresolved `roots`, not looking behind them."""
        out: dict[Expr, None] = {}
        for root in roots:
            found = memo.get(root)
            if found is None:
                found = memo[root] = [
                    e
                    for e in walk_deep(root)
                    if e.op == "load" and not isinstance(e.extra[0], Scratch)
                ]
            out.update(dict.fromkeys(found))
        return list(out)

    # Facts about indices

    def range_of(self, i: Affine) -> tuple[Affine, Affine]:
        """(least, greatest) over the domain, both inclusive."""
        if not i.terms:
            return i, i
        found = self.ranges.get(i)
        if found is None:
            found = self.ranges[i] = i.over(self.box)
        return found

    def axes_of(self, i: Affine) -> frozenset[str]:
        """Every axis `i` depends on, looking inside quotients and data."""
        if not i.terms:
            return frozenset()
        found = self.deep.get(i)
        if found is None:
            parts: set[str] = set()
            for atom, _ in i.terms:
                if isinstance(atom, str):
                    if atom in self.box:
                        parts.add(atom)
                elif isinstance(atom, Quotient):
                    parts |= self.axes_of(atom.index)
                else:
                    parts |= self.axes_in(atom.value)
            found = self.deep[i] = frozenset(parts)
        return found

    def axes_in(self, e: Expr) -> set[str]:
        """Every axis that the value of `e` depends on."""
        parts: set[str] = set()
        for node in walk(e):
            if node.op == "load":
                for i in node.extra[1]:
                    parts |= self.axes_of(i)
            elif node.op == "index":
                parts |= self.axes_of(node.extra)
            elif node.op == "name" and isinstance(node.extra, FoldResult):
                parts |= node.extra.ref.need
        return parts

    def loops_for(self, extents: tuple[Affine, ...]) -> tuple[list[Loop], list[Affine]]:
        """Axis names and indices for a fold over `extents`: the same for the same extents."""
        found = self.fold_axes.get(extents)
        if found is None:
            loops: list[Loop] = []
            index: list[Affine] = []
            for k, n in enumerate(extents):
                if n == 1:
                    index.append(ZERO)
                    continue
                name = f"k{k}" if not self.fold_axes else f"k{k}_{len(self.fold_axes)}"
                parts = _factored(name, n, self.factors)
                loops += parts[0]
                index.append(parts[1])
            for a, low, high in loops:
                self.box[a] = (low, high)
            found = self.fold_axes[extents] = (loops, index)
        return found


def _factored(
    name: str, n: Affine, factors: dict[Any, Any]
) -> tuple[list[tuple[str, Affine, Affine]], Affine]:
    m = factors.get(name)
    if m is None:
        return [(name, ZERO, n)], affine(name)
    outer, at = _factored(name + "o", Affine(n.const // m), factors)
    inner, rest = _factored(name + "i", Affine(m), factors)
    return [*outer, *inner], at * m + rest
