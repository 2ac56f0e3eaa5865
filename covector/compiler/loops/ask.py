"""The `Ask` of `ir.kernel`: how the planner answers what a rule asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from covector.compiler.loops.costs import MEMORY_COST, READ_COST, WHOLE_FOLD, product
from covector.compiler.loops.domain import FoldRef, FoldResult, MustBuffer, Refusal, Split
from covector.compiler.loops.graph import Node
from covector.ir.index import ZERO, Affine, Data, Quotient, affine
from covector.ir.scalar import INDEX, Expr, cast, const, expr

if TYPE_CHECKING:
    from covector.compiler.loops.lower import Lowering

#: Element types whose sums and products are accumulated in another one.
WIDER = {"float16": "float32", "bfloat16": "float32"}


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
        said = body(axes)
        values: tuple[Expr, ...] = tuple(said) if pair else (said,)
        given: tuple[str, ...] = tuple(v.dtype for v in values)
        if not loops and init is None:
            return values if pair else values[0]
        if kind == "sum" and init is None and any(h == ZERO for _, _, h in loops):
            return const(0, given[0])  # a sum starts from -0, which changes no element
        if (
            pair
            and given[-1] == INDEX
            and all(not h.terms and h.const < 1 << 31 for _, _, h in loops)
        ):
            small = _narrow_index(values[-1])  # half the lanes of an int64 go to waste
            if small is not None:
                values = (values[0], small)
        wide = WIDER.get(given[0]) if kind in ("sum", "prod") else None
        if wide:
            values = (cast(values[0], wide),)
            init = None if init is None else cast(init, wide)
        ref = FoldRef(node, index, kind)
        need: frozenset[str] = frozenset().union(*map(low.axes_of, index)) if index else frozenset()
        ref.need, ref.loops, ref.values, ref.init = need, tuple(loops), values, init
        self._admit(ref)
        ref.dtypes = tuple(v.dtype for v in values)
        ref.names = tuple(
            expr("name", d, extra=FoldResult(ref, k)) for k, d in enumerate(ref.dtypes)
        )
        if pair:
            return ref.names[0], cast(ref.names[1], given[1])
        return cast(ref.names[0], given[0])

    def _admit(self, ref: FoldRef) -> None:
        """Refuse, before what it is made of is looked at, a fold inside a fold, one that would run
        far more often than it has results, and one that should be a kernel of its own."""
        low, value = self.low, ref.node.outs[0]
        if not ref.need <= low.own.keys():
            raise MustBuffer(value)
        places = low.places.setdefault(ref.node, {})
        places[ref.index] = None
        trips = [(high - lo).constant for lo, high in (low.box[a] for a in ref.need)]
        extents = [(high - lo).constant for _, lo, high in ref.loops]
        if value.size is None or None in trips or None in extents:
            return
        count, volume = product(n or 0 for n in trips), product(n or 0 for n in extents)
        again = volume * (count - value.size) + volume * count * (len(places) - 1)
        if again > MEMORY_COST * value.size + READ_COST * count:
            raise MustBuffer(value)
        if not ref.need and low.own and volume > WHOLE_FOLD:
            raise MustBuffer(value)

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


def _narrow_index(e: Expr) -> Expr | None:
    """A loop index as an int32, if `e` is one."""
    return expr("index", "int32", extra=e.extra) if e.op == "index" else None
