"""From values to scalar expressions: asks the kernel rules what each element is.

`Lowering` answers for one domain (a box of loop axes): `at` is lazy, it returns a leaf that names
(value, index); a worklist replaces the leaves by loads, or by what the value's rule says.  Folds
found on the way become names.  Nothing here knows loops; `schedule` arranges the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from covector.compiler.loops.graph import Node, Value
from covector.ir.index import ZERO, Affine, Data, Quotient, affine
from covector.ir.scalar import INDEX, Expr, cast, expr, walk

#: Element types whose sums and products are accumulated in another one.
WIDER = {"float16": "float32", "bfloat16": "float32"}


#: A value wanted at more places of one domain than this gets memory.
INDICES = 24


class Refusal(Exception):
    """A rule cannot be said over this domain as things are; the planner changes them."""


@final
class MustBuffer(Refusal):
    """(value): it needs memory of its own, filled by an earlier step."""


@final
class Split(Refusal):
    """(axis, at, value): the domain must be cut there, to say what `value` is."""


@final
class Factor(Refusal):
    """(axis, n): the axis must become two, outer * n + inner."""


@final
class Apart(Refusal):
    """(root): it does not fit in the loops of its group."""


@final
class Domain:
    """A box: axes (name, low, high) from the outside in, and the roots' index in terms of them."""

    __slots__ = ("axes", "index")

    def __init__(self, axes: Sequence[tuple[str, Affine, Affine]], index: Sequence[Affine]) -> None:
        self.axes, self.index = list(axes), tuple(index)

    def cut(self, axis: str, at: Affine) -> list[Domain]:
        """The part below `at` and the part from there on."""

        def part(low: Affine | None, high: Affine | None) -> Domain:
            axes = [
                (a, low or lo if a == axis else lo, high or h if a == axis else h)
                for a, lo, h in self.axes
            ]
            return Domain(axes, self.index)

        return [part(None, at), part(at, None)]

    def factor(self, axis: str, n: int) -> Domain:
        """The same box with `axis` as (outer, inner of extent n)."""
        axes = []
        for a, lo, h in self.axes:
            if a == axis:
                axes += [(a + "o", ZERO, Affine(h.const // n)), (a + "i", ZERO, Affine(n))]
            else:
                axes.append((a, lo, h))
        swap = {axis: affine(axis + "o") * n + affine(axis + "i")}
        return Domain(axes, [i.substitute(swap) for i in self.index])


def domain_of(shape: Sequence[Affine], prefix: str = "i") -> Domain:
    """The box of all indices of `shape`; axes of extent 1 need no loop."""
    axes, index = [], []
    for d, n in enumerate(shape):
        if n == 1:
            index.append(ZERO)
        else:
            axes.append((f"{prefix}{d}", ZERO, n))
            index.append(affine(f"{prefix}{d}"))
    return Domain(axes, index)


@final
class FoldRef:
    """A reduction that a rule asked for, at one index: a value with loops of its own.

    `need`: axes its index depends on.  `values`, `init` are unresolved expressions.
    """

    __slots__ = ("dtypes", "index", "init", "kind", "loops", "names", "need", "node", "values")

    def __init__(self, node: Node, index: tuple[Affine, ...], kind: str) -> None:
        self.node, self.index, self.kind = node, index, kind
        self.need: frozenset[str] = frozenset()
        self.loops: tuple[tuple[str, Affine, Affine], ...] = ()
        self.values: tuple[Expr, ...] = ()
        self.dtypes: tuple[str, ...] = ()
        self.init: Expr | None = None
        self.names: tuple[Expr, ...] = ()


@final
class FoldResult:
    """What a 'name' leaf of a fold carries until it gets its printed name."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: FoldRef, number: int) -> None:
        self.ref, self.number = ref, number

    def __str__(self) -> str:
        return f"fold{self.ref.node.position}"


@final
class Scratch:
    """Memory of a kernel for the part of `value` that one iteration of `rows` needs.

    dims: per axis of the value None (fixed within a row) or (base, low, extent): element `i` of
    the axis is kept at `i - base - low`.
    """

    __slots__ = ("base", "dims", "number", "rows", "value")

    def __init__(
        self,
        value: Value,
        rows: frozenset[str],
        base: tuple[Affine, ...],
        dims: tuple[tuple[int, int] | None, ...],
        number: int,
    ) -> None:
        self.value, self.rows, self.base, self.dims = value, rows, base, dims
        self.number = number

    @property
    def shape(self) -> tuple[Affine, ...]:
        """Extents of the axes that are kept."""
        return tuple(Affine(d[1]) for d in self.dims if d is not None)

    def fill_axes(self) -> list[tuple[str, Affine, Affine]]:
        """Loops over all of it."""
        return [(f"s{self.number}_{k}", ZERO, n) for k, n in enumerate(self.shape) if n != 1]

    def fill_position(self) -> tuple[Affine, ...]:
        """Where an iteration of `fill_axes` stores."""
        return tuple(
            ZERO if n == 1 else affine(f"s{self.number}_{k}") for k, n in enumerate(self.shape)
        )

    def fill_index(self) -> tuple[Affine, ...]:
        """The index of the value that an iteration of `fill_axes` stores."""
        return self.index_at(self.fill_position())

    def index_at(self, position: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The index of the value that is kept at `position`."""
        at = iter(position)
        return tuple(
            b if d is None else b + d[0] + next(at)
            for b, d in zip(self.base, self.dims, strict=True)
        )

    def __str__(self) -> str:
        return f"scratch{self.number}"


@final
class Lowering:
    """The expressions of one domain; see the module's text.

    in_memory: values to load (inputs and buffers).  scratch: decisions for this domain.
    recompute: row-local scratch is not to be used (see `columns.crowded`).
    """

    __slots__ = (
        "ask", "asked", "box", "deep", "domain", "done", "factors", "fold_axes", "folds",
        "in_memory", "own", "ranges", "recompute", "root_index", "said", "scratch", "targets",
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
        self.said: dict[Any, tuple[Expr, ...]] = {}
        self.fold_axes: dict[Any, tuple[list[str], list[Affine]]] = {}
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
            if node.rule != "kernel" or asked > INDICES:
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
            waiting = [d for i in index if i.terms for d in data_of(i) if d not in done]
            if waiting or isinstance(value, Scratch):
                return waiting
            if e not in self.targets:
                self.targets[e] = self.target(e, value, index)
            target = self.targets[e]
            return [] if target is None or target in done else [target]
        if e.op == "index":
            return [d for d in data_of(e.extra) if d not in done]
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
                stack.extend(d for i in e.extra[1] if i.terms for d in data_of(i))
                target = self.targets[e]
                if target is not None:
                    stack.append(target)
            elif e.op == "index":
                stack.extend(data_of(e.extra))
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
                    for e in walk_deep([root])
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

    def loops_for(self, extents: tuple[Affine, ...]) -> tuple[list[str], list[Affine], list[Any]]:
        """Axis names and indices for a fold over `extents`: the same for the same extents."""
        found = self.fold_axes.get(extents)
        if found is None:
            loops, index = [], []
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


def _narrow_index(e: Expr) -> Expr | None:
    """A loop index as an int32, if `e` is one."""
    return expr("index", "int32", extra=e.extra) if e.op == "index" else None


def data_of(i: Affine) -> list[Expr]:
    """The expressions of the data-dependent atoms in `i`."""
    out: list[Expr] = []
    for atom, _ in i.terms:
        if isinstance(atom, Data):
            out.append(atom.value)
        elif isinstance(atom, Quotient):
            out += data_of(atom.index)
    return out


@final
class Asking:
    """The `Ask` of `ir.kernel`, for the node and index being asked now."""

    __slots__ = ("dtypes", "index_", "low", "node", "out_dtypes", "out_shapes", "shapes")

    def __init__(self, low: Lowering) -> None:
        self.low = low

    def begin(self, node: Node, index: tuple[Affine, ...]) -> None:
        """The next questions are those of `node` at `index`."""
        self.node, self.index_ = node, index
        self.shapes, self.dtypes = node.shapes, node.dtypes
        self.out_shapes, self.out_dtypes = node.out_shapes, node.out_dtypes

    def at(self, k: int, index: Sequence[Any]) -> Expr:
        """A leaf that names argument `k` at `index`."""
        value = self.node.args[k]
        if isinstance(value, Expr):
            return value
        if type(index) is not tuple or index is not self.index_:
            index = tuple([i if isinstance(i, Affine) else affine(i) for i in index])
            if len(index) != len(value.shape):
                raise ValueError(
                    f"{self.node.op.name}: its kernel rule asks for argument {k} of rank "
                    f"{len(value.shape)} at an index of rank {len(index)}"
                )
        return expr("load", value.dtype, extra=(value, index))

    def fold(
        self,
        kind: str,
        extents: Sequence[Any],
        body: Callable[[Sequence[Affine]], Any],
        init: Expr | None = None,
    ) -> Any:
        """Names for the results of a reduction, which gets loops of its own."""
        low, node, index = self.low, self.node, self.index_
        loops, axes = low.loops_for(tuple(map(affine, extents)))
        pair = kind in ("argmax", "argmin")
        values = body(axes)
        values = tuple(values) if pair else (values,)
        given = tuple(v.dtype for v in values)
        if not loops and init is None:
            return values if pair else values[0]
        if (
            pair
            and given[1] == INDEX
            and all(not h.terms and h.const < 1 << 31 for _, _, h in loops)
        ):
            small = _narrow_index(values[1])  # half the lanes of an int64 go to waste
            if small is not None:
                values = (values[0], small)
        wide = WIDER.get(given[0]) if kind in ("sum", "prod") else None
        if wide:
            values = (cast(values[0], wide),)
            init = None if init is None else cast(init, wide)
        ref = FoldRef(node, index, kind)
        need: frozenset[str] = frozenset().union(*map(low.axes_of, index)) if index else frozenset()
        ref.need, ref.loops, ref.values, ref.init = need, tuple(loops), values, init
        ref.dtypes = tuple(v.dtype for v in values)
        ref.names = tuple(
            expr("name", d, extra=FoldResult(ref, k)) for k, d in enumerate(ref.dtypes)
        )
        if pair:
            return ref.names[0], cast(ref.names[1], given[1])
        return cast(ref.names[0], given[0])

    def piece(self, i: Any, lengths: Sequence[Any]) -> tuple[int, Affine]:
        """Which piece holds `i` over the whole domain; cuts the domain where it is not one."""
        i, low = affine(i), self.low
        least, most = low.range_of(i)
        edge = ZERO
        for k, n in enumerate(lengths):
            start, edge = edge, edge + n
            if (edge - 1 - most).sure():
                return k, start
            if not (least - edge).sure():
                raise self._cut(i, edge)
        return len(lengths), edge

    def _cut(self, i: Affine, edge: Affine) -> Refusal:
        """The refusal that makes `i < edge` the same over the whole domain."""
        own = [(a, c) for a, c in i.terms if a in self.low.own]
        others = [a for a, _ in i.terms if a not in self.low.own]
        if len(own) == 1 and not any(a in self.low.box or not isinstance(a, str) for a in others):
            axis, c = own[0]
            rest = edge - (i - affine(axis) * c)
            if c == 1:
                return Split(axis, rest, self.node.outs[0])
            if not rest.terms:  # i < edge: below ceil(rest / c), or above floor(rest / c)
                at = -(-rest.const // c) if c > 0 else rest.const // c + 1
                return Split(axis, Affine(at), self.node.outs[0])
        return MustBuffer(self.node.outs[0])

    def divmod(self, i: Any, n: Any) -> tuple[Affine, Affine]:
        """Exact where the ranges say so; otherwise quotients, which addresses often absorb."""
        i, low = affine(i), self.low
        n = affine(n)
        if n == 1:
            return i, ZERO
        if n.terms:
            least, most = low.range_of(i)
            if least.sure() and (n - 1 - most).sure():
                return ZERO, i
            raise MustBuffer(self.node.outs[0])
        m = n.const
        if not m:  # an empty array: never evaluated
            return ZERO, ZERO
        whole = Affine(i.const // m, tuple((a, c // m) for a, c in i.terms if c % m == 0))
        rest = i - whole * m
        least, most = low.range_of(rest)
        if least.sure() and (n - 1 - most).sure():
            return whole, rest
        return self._quotient("div", i, m), self._quotient("mod", i, m)

    def _quotient(self, kind: str, i: Affine, n: int) -> Affine:
        atom, low = Quotient(kind, i, n), self.low
        if atom not in low.box:
            least, most = low.range_of(i)
            if kind == "mod":
                low.box[atom] = (ZERO, Affine(n))
            elif not least.terms and not most.terms:
                low.box[atom] = (Affine(least.const // n), Affine(most.const // n + 1))
        return affine(atom)

    def data(self, value: Expr) -> Affine:
        """An index read from memory."""
        if value.op == "const":
            return Affine(int(value.extra))
        return affine(Data(value))

    def index(self, i: Any, dtype: str) -> Expr:
        """The number `i`, as an element."""
        i = affine(i)
        if not i.terms:
            kind = float if "float" in dtype else complex if "complex" in dtype else int
            return expr("const", dtype, extra=bool(i.const) if dtype == "bool" else kind(i.const))
        return expr("index", dtype, extra=i)


def walk_deep(roots: Iterable[Expr]) -> list[Expr]:
    """Every node under `roots`, each once, also those inside data-dependent indices."""
    seen: set[Expr] = set()
    out: list[Expr] = []
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        out.append(e)
        if e.op == "load":
            for i in e.extra[1]:
                if i.terms:
                    stack.extend(data_of(i))
        elif e.op == "index":
            stack.extend(data_of(e.extra))
        else:
            stack.extend(e.args)
    return out
