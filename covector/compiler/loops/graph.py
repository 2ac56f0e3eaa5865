"""What the planner sees of a program: values and the nodes that make them.

Built once from a Jaxpr (or from one op with run-time extents, see `eager`); shapes are tuples of
`Affine`, element types plain names, scalar literals are expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import ml_dtypes

from covector import dtypes
from covector.compiler.libraries import chosen
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine
from covector.ir.jaxpr import Atom, Equation, Literal, Var
from covector.ir.op import Library, Op, has_rule
from covector.ir.scalar import Expr, const

Shape = tuple[Affine, ...]
#: Ops of nested programs; `compiler.control` knows how each is laid out.
CONTROL = frozenset({"while", "scan", "cond"})


@final
class Value:
    """An array: the result `number` of `node`, or an input (node None).

    `position` orders values so that arguments come before results.
    """

    __slots__ = ("dtype", "node", "number", "position", "shape")

    def __init__(
        self, shape: Shape, dtype: str, node: Node | None, number: int, position: int
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.node, self.number, self.position = node, number, position

    @property
    def size(self) -> int | None:
        """Number of elements, or None if it depends on run-time extents."""
        return size_of(self.shape)

    def __repr__(self) -> str:
        what = "input" if self.node is None else self.node.op.name
        return f"<{what} {self.position}: {self.dtype}[{','.join(map(str, self.shape))}]>"

    def __lt__(self, other: Value) -> bool:
        return self.position < other.position


@final
class Node:
    """One operation: arguments (values or constants) to results.  What `ask` shows to a rule."""

    __slots__ = (
        "args", "dtypes", "library", "op", "out_dtypes", "out_shapes", "outs", "position", "rule",
        "shapes",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        args: Sequence[Value | Expr],
        out_shapes: Sequence[Shape],
        out_dtypes: Sequence[str],
        position: int,
        library: Library | None = None,
    ) -> None:
        self.op, self.args, self.position = op, tuple(args), position
        self.shapes = tuple(a.shape if isinstance(a, Value) else () for a in args)
        self.dtypes = tuple(a.dtype for a in args)
        self.out_shapes, self.out_dtypes = tuple(out_shapes), tuple(out_dtypes)
        self.library = library
        self.rule = "library" if library is not None else native_rule(op)
        self.outs = tuple(
            Value(s, d, self, k, position)
            for k, (s, d) in enumerate(zip(out_shapes, out_dtypes, strict=True))
        )

    def __repr__(self) -> str:
        return f"<node {self.position}: {self.op}>"


def native_rule(op: Op) -> str:
    """Which of its rules the planner uses without a library: 'kernel', 'push', 'cumulate',
    'each' (a program of one element), 'small_matrices' (of one small matrix), 'control' (of nested
    programs), or ''."""
    for rule in ("kernel", "push", "cumulate"):
        if has_rule(op, rule):
            return rule
    if op.name in ("each", "small_matrices"):
        return op.name
    return "control" if op.name in CONTROL else ""


@final
class Graph:
    """The nodes of a program in order, and its values by variable."""

    __slots__ = ("constants", "nodes", "values")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.values: dict[Any, Value] = {}
        self.constants: dict[Expr, Value] = {}

    def input(self, key: Any, shape: Shape, dtype: str) -> Value:
        """A further input, found under `key`."""
        value = Value(shape, dtype, None, 0, -1 - len(self.values))
        self.values[key] = value
        return value

    def apply(
        self,
        op: Op,
        args: Sequence[Value | Expr],
        out_shapes: Sequence[Shape],
        out_dtypes: Sequence[str],
        library: Library | None = None,
    ) -> Node:
        """A further node."""
        node = Node(op, args, out_shapes, out_dtypes, len(self.nodes), library)
        self.nodes.append(node)
        return node

    def constant(self, e: Expr) -> Value:
        """A literal as a value that can stand in memory."""
        if e not in self.constants:
            self.constants[e] = self.apply(Constant(e), (), [()], [e.dtype]).outs[0]
        return self.constants[e]


@final
class Constant(Op, registered=False):
    """A scalar that must stand in memory: a result, or an operand of what is no kernel."""

    name = "constant"
    value: Expr

    def result(self) -> ShapedArray:
        """A scalar."""
        return ShapedArray((), getattr(ml_dtypes, self.value.dtype, self.value.dtype))

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The number."""
        return self.value


def graph_of(inputs: Iterable[Var], eqns: Iterable[Equation]) -> Graph:
    """The graph of a program whose inputs are `inputs`."""
    graph = Graph()
    shapes: dict[tuple[int, ...], Shape] = {}

    def shape_of(aval: ShapedArray) -> Shape:
        found = shapes.get(aval.shape)
        if found is None:
            found = shapes[aval.shape] = tuple(map(Affine, aval.shape))
        return found

    for v in inputs:
        graph.input(v, shape_of(v.aval), element_type(v.aval.dtype))
    for eqn in eqns:
        args = [operand(v, graph.values) for v in eqn.invars]
        library = chosen(eqn.op, [v.aval for v in eqn.invars])
        if library is not None or native_rule(eqn.op) != "kernel":
            args = [graph.constant(a) if isinstance(a, Expr) else a for a in args]
        node = graph.apply(
            eqn.op,
            args,
            [shape_of(v.aval) for v in eqn.outvars],
            [element_type(v.aval.dtype) for v in eqn.outvars],
            library,
        )
        graph.values.update(zip(eqn.outvars, node.outs, strict=True))
    return graph


def operand(v: Atom, values: Mapping[Any, Value]) -> Value | Expr:
    """The value of a variable; a literal as a constant."""
    if isinstance(v, Literal):
        return literal(v)
    return values[v]


_numbers = {"b": bool, "i": int, "u": int, "c": complex}


def literal(v: Literal) -> Expr:
    """A scalar written into the program, as a constant expression."""
    dtype = dtypes.physical_dtype(v.aval.dtype)
    return const(_numbers.get(dtypes.kind_of(dtype), float)(v.val), dtype.name)


_element_types: dict[Any, str] = {}


def element_type(dtype: Any) -> str:
    """The plain name of a dtype's elements in memory: 'float32', 'bfloat16', 'uint64' for keys."""
    found = _element_types.get(dtype)
    if found is None:
        found = _element_types[dtype] = dtypes.physical_dtype(dtype).name
    return found


def size_of(shape: Iterable[Affine]) -> int | None:
    """The product of constant extents, or None."""
    size = 1
    for n in shape:
        if n.terms:
            return None
        size *= n.const
    return size
