"""`small_matrices`: a program over a batch of small matrices, as straight-line code for one.

It becomes one kernel: a loop over the batch, whose lanes are examples, with an expression for every
element of every matrix.  What the elements share, such as the steps of an elimination, is computed
once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, final

from covector.compiler.loops.address import collapse
from covector.compiler.loops.domain import Domain, Factor, MustBuffer, Split, domain_of
from covector.compiler.loops.graph import Node, Value, literal
from covector.compiler.loops.lanes import choose_lanes
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.naming import make_kernel
from covector.compiler.loops.program import For, Kernel, Let, Statement, Store
from covector.compiler.loops.staged import staged
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine, affine
from covector.ir.jaxpr import ClosedJaxpr, Equation, Literal
from covector.ir.op import Op, has_rule
from covector.ir.scalar import COMPARISONS, Expr, const, expr, load, name, walk

#: The scalar operation by which a fold of each kind combines.
COMBINED = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


@final
class SmallMatrices(Op, registered=False):
    """`body`, whose values all have the axes `batch` and after them the axes of a small matrix,
    a vector, or none.  Arguments of `body` may have any shape.
    """

    name = "small_matrices"
    multiple_results = True
    body: ClosedJaxpr
    batch: tuple[int, ...]

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The results of `body`."""
        return tuple(self.body.out_avals)


@final
class _Ask:
    """The `Ask` of an operation in the body, whose index is that of the batch and then numbers."""

    __slots__ = ("args", "dtypes", "low", "out_dtypes", "out_shapes", "shapes", "view")

    def __init__(self, low: Lowering, view: _View, eqn: Equation) -> None:
        self.low, self.view, self.args = low, view, eqn.invars
        self.shapes = tuple(tuple(map(Affine, v.aval.shape)) for v in eqn.invars)
        self.out_shapes = tuple(tuple(map(Affine, v.aval.shape)) for v in eqn.outvars)
        self.dtypes = tuple(view.element_type(v.aval.dtype) for v in eqn.invars)
        self.out_dtypes = tuple(view.element_type(v.aval.dtype) for v in eqn.outvars)

    def at(self, k: int, index: Sequence[Any]) -> Expr:
        """An element that is known, or one of an argument of the body."""
        return self.view.at(self.args[k], tuple(map(affine, index)))

    def fold(self, kind: str, extents: Sequence[Any], body: Callable[..., Expr],
             init: Expr | None = None) -> Expr:  # fmt: skip
        """Written out."""
        total = init
        for k in itertools.product(*(range(affine(n).const) for n in extents)):
            x = body(tuple(map(Affine, k)))
            total = x if total is None else expr(COMBINED[kind], x.dtype, total, x)
        assert total is not None
        return total

    def piece(self, i: Any, lengths: Sequence[Any]) -> tuple[int, Affine]:
        """As over a domain."""
        return self.low.ask.piece(i, lengths)

    def divmod(self, i: Any, n: Any) -> tuple[Affine, Affine]:
        """As over a domain."""
        return self.low.ask.divmod(i, n)

    def index(self, i: Any, dtype: str) -> Expr:
        """The number `i`, as an element."""
        return self.low.ask.index(i, dtype)


@final
class _View:
    """The elements of all values of the body, for one example."""

    __slots__ = ("batch", "element_type", "folded", "known", "low", "values")

    def __init__(self, low: Lowering, batch: tuple[Affine, ...],
                 element_type: Callable[[Any], str]) -> None:  # fmt: skip
        self.low, self.batch, self.element_type = low, batch, element_type
        self.values: dict[Any, Any] = {}
        #: by variable: its elements, by the index within the matrix
        self.known: dict[Any, dict[tuple[Affine, ...], Expr]] = {}
        self.folded: dict[Expr, Expr] = {}

    def at(self, v: Any, index: tuple[Affine, ...]) -> Expr:
        """The element of a variable, or of a number, at an index."""
        if isinstance(v, Literal):
            return literal(v)
        if v in self.values:
            value = self.values[v]
            return load(value, index, value.dtype)
        assert index[: len(self.batch)] == self.batch
        return self.known[v][index[len(self.batch) :]]

    def run(self, eqn: Equation) -> None:
        """Learn the results of an equation."""
        if has_rule(eqn.op, "per_matrix"):
            made = eqn.op.per_matrix(*map(self._whole, eqn.invars))
            found = [dict(_elements(x)) for x in made]
        else:
            ask, found = _Ask(self.low, self, eqn), [{} for _ in eqn.outvars]
            for core in _places(eqn.outvars[0].aval.shape[len(self.batch) :]):
                made = eqn.op.kernel(ask, (*self.batch, *core))
                for x, e in zip(found, made if isinstance(made, tuple) else (made,), strict=True):
                    x[core] = e
        for v, elements in zip(eqn.outvars, found, strict=True):
            self.known[v] = {core: self._fold(e) for core, e in elements.items()}

    def _whole(self, v: Any) -> Any:
        """A vector, or a matrix by rows."""
        shape = v.aval.shape[len(self.batch) :]
        elements = iter([self.at(v, (*self.batch, *core)) for core in _places(shape)])
        if len(shape) == 1:
            return tuple(elements)
        return tuple(tuple(next(elements) for _ in range(shape[1])) for _ in range(shape[0]))

    def _fold(self, root: Expr) -> Expr:
        """With comparisons of numbers decided: masks of triangles, identities."""
        known, stack = self.folded, [root]
        while stack:
            e = stack[-1]
            waiting = [a for a in e.args if a not in known]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if e not in known:
                known[e] = new = self._node(e)
                known[new] = new
        return known[root]

    def _node(self, e: Expr) -> Expr:
        args = tuple([self.folded[a] for a in e.args])
        numbers = all(a.op == "const" for a in args)
        if e.op in ("select", "select_rare") and args[0].op == "const":
            return args[1] if args[0].extra else args[2]
        if numbers and e.op in COMPARISONS:
            return const(_COMPARED[e.op](args[0].extra, args[1].extra), "bool")
        if numbers and e.op == "cast" and args[0].dtype in ("bool", "int32"):
            if e.dtype in ("float32", "float64"):
                return const(float(args[0].extra), e.dtype)
            if e.dtype in ("complex64", "complex128"):
                return const(complex(args[0].extra), e.dtype)
            if e.dtype in ("int32", "int64"):
                return const(int(args[0].extra), e.dtype)
        return e if args == e.args else expr(e.op, e.dtype, *args, extra=e.extra)


def _places(shape: Sequence[int]) -> list[tuple[Affine, ...]]:
    return [tuple(map(Affine, k)) for k in itertools.product(*map(range, shape))]


def _elements(x: Any) -> list[tuple[tuple[Affine, ...], Expr]]:
    if isinstance(x[0], Expr):
        return [((Affine(i),), e) for i, e in enumerate(x)]
    return [((Affine(i), Affine(j)), e) for i, row in enumerate(x) for j, e in enumerate(row)]


def lower_matrices(
    node: Node, in_memory: Callable[[Value], bool], element_type: Callable[[Any], str]
) -> tuple[Kernel, list[Value]]:
    """The kernel: loops over the batch, in them a store for each element of each result."""
    op: Any = node.op
    domain: Domain = domain_of(tuple(map(Affine, op.batch)))
    low = Lowering(domain, in_memory)
    view = _View(low, domain.index, element_type)
    body = op.body.jaxpr
    view.values.update(zip(body.invars, node.args, strict=True))
    for eqn in body.eqns:
        view.run(eqn)
    stores = [
        (out, core, e)
        for out, v in zip(node.outs, body.outvars, strict=True)
        for core, e in view.known[v].items()
    ]
    try:
        low.resolve(e for _, _, e in stores)
    except (Split, Factor):
        _give_memory(node, in_memory)
    if low.folds:
        _give_memory(node, in_memory)
    nest = _statements([(out, (*domain.index, *core), low.done[e]) for out, core, e in stores])
    for a, lo, h in reversed(domain.axes):
        nest = list[Statement]([For(a, lo, h, nest)])
    kernel, values = make_kernel(op.name, nest)
    kernel = collapse(kernel)
    return staged(kernel) or choose_lanes(kernel), values


def _statements(stores: Sequence[tuple[Value, tuple[Affine, ...], Expr]]) -> list[Statement]:
    """The stores, each after names for what is used more than once: so the text stays short."""
    uses = Counter(e for _, _, e in stores)
    for e in walk(*uses):
        uses.update(e.args)
    named: dict[Expr, Expr] = {}
    out: list[Statement] = []
    for value, index, root in stores:
        stack = [root]
        while stack:
            e = stack[-1]
            waiting = [a for a in e.args if a not in named]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if e in named:
                continue
            args = tuple([named[a] for a in e.args])
            new = e if args == e.args else expr(e.op, e.dtype, *args, extra=e.extra)
            if e.op not in ("const", "name", "index") and uses[e] > 1:
                label = f"v{len(out)}"
                out.append(Let(label, new))
                new = name(label, e.dtype)
            named[e] = new
        out.append(Store(value, index, named[root]))  # type: ignore[arg-type]
    return out


def _give_memory(node: Node, in_memory: Callable[[Value], bool]) -> None:
    """Refuse to compute what is not a function of one example."""
    for v in node.args:
        if isinstance(v, Value) and v.node is not None and not in_memory(v):
            raise MustBuffer(v)
