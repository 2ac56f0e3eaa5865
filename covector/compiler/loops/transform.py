"""Rewriting loop programs: new indices, names and buffers throughout a tree of statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from covector.compiler.loops.program import (
    Accumulator,
    Fold,
    For,
    If,
    Let,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.ir.index import Affine, Data, Quotient, affine
from covector.ir.scalar import Expr, expr

Place = tuple[Any, tuple[Affine, ...]]


@final
class Rewrite:
    """A map over expressions, indices and statements.

    axes: loop axes to replace by an Affine.  place: (buffer, index) -> (buffer, index), after
    the axes.  leaf: replaces whole 'name' and 'load' nodes, if it returns one.
    """

    __slots__ = ("axes", "indices", "leaf", "memo", "place")

    def __init__(
        self,
        axes: dict[Any, Affine] | None = None,
        place: Callable[[Any, tuple[Affine, ...]], Place] | None = None,
        leaf: Callable[[Expr], Expr | None] | None = None,
    ) -> None:
        self.axes, self.place, self.leaf = axes or {}, place, leaf
        self.memo: dict[Expr, Expr] = {}
        self.indices: dict[Affine, Affine] = {}

    def expr(self, root: Expr) -> Expr:
        """The expression rewritten."""
        memo = self.memo
        if root in memo:
            return memo[root]
        stack = [root]
        while stack:
            e = stack[-1]
            if e in memo:
                stack.pop()
                continue
            waiting = [a for a in e.args if a not in memo]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            memo[e] = self._node(e)
        return memo[root]

    def _node(self, e: Expr) -> Expr:
        if not e.args:
            if self.leaf is not None and e.op in ("name", "load"):
                new = self.leaf(e)
                if new is not None:
                    return new
            if e.op == "load":
                extra = self.position(*e.extra)
                return e if extra == e.extra else expr("load", e.dtype, extra=extra)
            if e.op == "index":
                i = self.index(e.extra)
                return e if i is e.extra else expr("index", e.dtype, extra=i)
            return e
        memo = self.memo
        args = tuple([memo[a] for a in e.args])
        return e if args == e.args else expr(e.op, e.dtype, *args, extra=e.extra)

    def position(self, buffer: Any, index: tuple[Affine, ...]) -> Place:
        """(buffer, index) rewritten."""
        index = tuple([self.index(i) for i in index])
        return self.place(buffer, index) if self.place is not None else (buffer, index)

    def index(self, i: Affine) -> Affine:
        """The index expression rewritten."""
        if not i.terms:
            return i
        found = self.indices.get(i)
        if found is None:
            changes = {}
            for atom, _ in i.terms:
                if isinstance(atom, Quotient):
                    inner = self.index(atom.index)
                    if inner is not atom.index:
                        changes[atom] = affine(Quotient(atom.kind, inner, atom.n))
                elif isinstance(atom, Data):
                    value = self.expr(atom.value)
                    if value is not atom.value:
                        changes[atom] = affine(Data(value))
                elif atom in self.axes:
                    changes[atom] = self.axes[atom]
            found = self.indices[i] = i.substitute(changes) if changes else i
        return found

    def statements(self, body: Iterable[Statement]) -> list[Statement]:
        """The statements rewritten (loops keep their axes; see `Rewrite.axes`)."""
        return [self.statement(s) for s in body]

    def _maybe(self, e: Expr | None) -> Expr | None:
        return None if e is None else self.expr(e)

    def _asks(self, s: For | Fold) -> tuple[Place, ...]:
        return tuple(self.position(*place) for place in s.asks)

    def statement(self, s: Statement) -> Statement:
        """One statement rewritten."""
        if isinstance(s, Store):
            buffer, index = self.position(s.buffer, s.index)
            return Store(buffer, index, self.expr(s.value), self._maybe(s.where))
        if isinstance(s, Update):
            buffer, index = self.position(s.buffer, s.index)
            return Update(buffer, index, s.kind, self.expr(s.value), self._maybe(s.where))
        if isinstance(s, For):
            low, high = self.index(s.low), self.index(s.high)
            body, asks = self.statements(s.body), self._asks(s)
            return For(s.axis, low, high, body, s.mode, s.unroll, s.ahead, asks)
        if isinstance(s, Fold):
            loops = [(a, self.index(lo), self.index(h)) for a, lo, h in s.loops]
            results = [
                Accumulator(
                    r.names, r.kind, r.dtypes, tuple(map(self.expr, r.values)), self._maybe(r.init)
                )
                for r in s.results
            ]
            stores, asks = self.statements(s.stores), self._asks(s)
            return Fold(loops, results, stores, s.vector, s.unroll, asks)
        if isinstance(s, Scan):
            carries = [(n, self.expr(e)) for n, e in s.carries]
            low, high, following = self.index(s.low), self.index(s.high), map(self.expr, s.next)
            body = self.statements(s.body)
            return Scan(s.axis, low, high, carries, body, list(following), s.reverse)
        if isinstance(s, Repeat):
            carries = [(n, self.expr(e)) for n, e in s.carries]
            condition, body = self.expr(s.condition), self.statements(s.body)
            return Repeat(carries, condition, body, [self.expr(e) for e in s.next])
        if isinstance(s, If):
            body, orelse = self.statements(s.body), self.statements(s.orelse)
            return If(self.expr(s.condition), body, orelse)
        if isinstance(s, Let):
            return Let(s.name, self.expr(s.value))
        raise TypeError(f"rewriting: unknown statement {type(s).__name__}")


def children(s: Statement) -> list[Statement]:
    """The statements directly inside `s`."""
    if isinstance(s, (For, Scan, Repeat)):
        return s.body
    if isinstance(s, Fold):
        return s.stores
    return [*s.body, *s.orelse] if isinstance(s, If) else []


def all_statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Every statement, outer before inner, in order."""
    stack = list(reversed(body))
    while stack:
        s = stack.pop()
        yield s
        stack.extend(reversed(children(s)))


def expressions(s: Statement) -> list[Expr]:
    """The expressions in `s` itself, not in the statements inside it."""
    if isinstance(s, (Store, Update)):
        return [s.value] if s.where is None else [s.value, s.where]
    if isinstance(s, Fold):
        values = [v for r in s.results for v in r.values]
        return values + [r.init for r in s.results if r.init is not None]
    if isinstance(s, Scan):
        return [*(e for _, e in s.carries), *s.next]
    if isinstance(s, Repeat):
        return [*(e for _, e in s.carries), s.condition, *s.next]
    if isinstance(s, Let):
        return [s.value]
    return [s.condition] if isinstance(s, If) else []


def bounds(s: Statement) -> list[Affine]:
    """The loop bounds in `s` itself."""
    if isinstance(s, (For, Scan)):
        return [s.low, s.high]
    if isinstance(s, Fold):
        return [b for _, low, high in s.loops for b in (low, high)]
    return []
