"""`each`: a program of one element, run for every element of an array, loops included.

It is made of a `scan` without a carry whose body is scalar (what `vmap` makes of a `while` whose
examples end at different times), and becomes one kernel: the lanes of a vector are examples, those
that have ended wait for the others of their vector, and vectors are spread over threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from covector.compiler.loops.domain import Domain, Factor, MustBuffer, Split, domain_of
from covector.compiler.loops.graph import Node, Value, literal
from covector.compiler.loops.lanes import choose_lanes
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.naming import make_kernel
from covector.compiler.loops.program import For, Kernel, Repeat, Statement, Store
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal
from covector.ir.op import Op, has_rule
from covector.ir.scalar import Expr, expr

#: Equations of a body beyond which code for one element is no longer small.
MOST = 200


@final
class Each(Op, registered=False):
    """`outs[index] = body(*args)` for every index of `shape`.

    axes: for each argument the axes of `shape` that it has, in order; along others it is the same.
    """

    name = "each"
    multiple_results = True
    body: ClosedJaxpr
    shape: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """Arrays of `shape`."""
        return tuple(ShapedArray(self.shape, a.dtype) for a in self.body.out_avals)


def each_of(eqn: Equation) -> Equation | None:
    """The `each` that a scan without a carry is, or None."""
    p = eqn.op.params
    if eqn.op.name != "scan" or p["num_carry"] or p["length"] < 1:
        return None
    body, consts = p["jaxpr"], p["num_consts"]
    given = [(0,) if k >= consts else () for k in range(len(eqn.invars))]
    inner = _inner(body.jaxpr)
    if inner is not None:
        numbers = {v: k for k, v in enumerate(body.jaxpr.invars)}
        order = [numbers[v] for v in inner.invars]
        axes = tuple(
            (*given[k], *(d + 1 for d in a)) for k, a in zip(order, inner.op.params["axes"],
                                                              strict=True)
        )  # fmt: skip
        shape = (p["length"], *inner.op.params["shape"])
        op = Each(inner.op.params["body"], shape, axes)
        return eqn.replace(op=op, invars=[eqn.invars[k] for k in order])
    if not _loops(body.jaxpr) or not _is_scalar(body.jaxpr):
        return None
    return eqn.replace(op=Each(body, (p["length"],), tuple(given)))


def _inner(body: Jaxpr) -> Equation | None:
    """The one equation of the body, if it is an `each` of the body's arguments."""
    if len(body.eqns) != 1 or body.eqns[0].op.name != "each":
        return None
    (eqn,) = body.eqns
    arguments = set(body.invars)
    plain = all(v in arguments for v in eqn.invars) and list(body.outvars) == list(eqn.outvars)
    return eqn if plain else None


def _loops(body: Jaxpr) -> bool:
    return any(e.op.name == "while" for e in body.eqns)


def _is_scalar(body: Jaxpr) -> bool:
    """Whether everything in it is a scalar, and each operation a function of scalars or a loop."""
    if len(body.eqns) > MOST or any(v.aval.shape for v in (*body.invars, *body.outvars)):
        return False
    for eqn in body.eqns:
        if any(v.aval.shape for v in (*eqn.invars, *eqn.outvars)) or eqn.effects:
            return False
        if eqn.op.name == "while":
            p = eqn.op.params
            cond, inner = p["cond_jaxpr"].jaxpr, p["body_jaxpr"].jaxpr
            if _loops(cond) or not _is_scalar(cond) or not _is_scalar(inner):
                return False
        elif not has_rule(eqn.op, "kernel") or len(eqn.outvars) != 1:
            return False
    return True


@final
class _Scalars:
    """The `Ask` of an operation of scalars: its arguments are expressions."""

    __slots__ = ("args", "dtypes", "out_dtypes", "out_shapes", "shapes")

    def __init__(self, args: Sequence[Expr], dtype: str) -> None:
        self.args = args
        self.dtypes = tuple(a.dtype for a in args)
        self.shapes: tuple[tuple[Any, ...], ...] = ((),) * len(args)
        self.out_shapes, self.out_dtypes = ((),), (dtype,)

    def at(self, k: int, index: Sequence[Any]) -> Expr:
        """Argument `k`."""
        return self.args[k]


@final
class _Writer:
    """The statements of a body; loops are statements, the rest is expressions."""

    __slots__ = ("count", "element_type", "roots")

    def __init__(self, element_type: Callable[[Any], str]) -> None:
        self.count, self.element_type = 0, element_type
        self.roots: list[Expr] = []

    def run(self, body: Jaxpr, args: Sequence[Expr], out: list[Statement]) -> list[Expr]:
        """The results, after the statements that go to `out`."""
        known: dict[Any, Expr] = dict(zip(body.invars, args, strict=True))

        def read(v: Any) -> Expr:
            return literal(v) if isinstance(v, Literal) else known[v]

        for eqn in body.eqns:
            given = [read(v) for v in eqn.invars]
            if eqn.op.name == "while":
                made = self.loop(eqn.op.params, given, out)
            else:
                dtype = self.element_type(eqn.outvars[0].aval.dtype)
                made = [eqn.op.kernel(_Scalars(given, dtype), ())]
            known.update(zip(eqn.outvars, made, strict=True))
        return [read(v) for v in body.outvars]

    def loop(self, p: dict[str, Any], args: list[Expr], out: list[Statement]) -> list[Expr]:
        """A `while`: its carry are names."""
        n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        start = args[m:]
        names = [self._name(e.dtype) for e in start]
        (condition,) = self.run(p["cond_jaxpr"].jaxpr, [*args[:n], *names], [])
        inside: list[Statement] = []
        following = self.run(p["body_jaxpr"].jaxpr, [*args[n:m], *names], inside)
        carries = [(str(e.extra), s) for e, s in zip(names, start, strict=True)]
        out.append(Repeat(carries, condition, inside, following))
        self.roots += [*start, condition, *following]
        return names

    def _name(self, dtype: str) -> Expr:
        self.count += 1
        return expr("name", dtype, extra=f"r{self.count}")


def lower_each(
    node: Node, in_memory: Callable[[Value], bool], element_type: Callable[[Any], str]
) -> tuple[Kernel, list[Value]]:
    """The kernel: loops over the elements, in them the body's statements, then the stores."""
    op: Any = node.op
    domain: Domain = domain_of(node.out_shapes[0])
    low = Lowering(domain, in_memory)
    low.ask.begin(node, domain.index)
    args = [low.ask.at(k, tuple(domain.index[d] for d in axes)) for k, axes in enumerate(op.axes)]
    writer, body = _Writer(element_type), list[Statement]()
    outs = writer.run(op.body.jaxpr, args, body)
    try:
        low.resolve([*writer.roots, *outs])
    except (Split, Factor):
        raise MustBuffer(node.outs[0]) from None
    for ref in low.folds:
        raise MustBuffer(ref.node.outs[0])
    body = [_resolved(s, low.done) for s in body]
    body += [Store(v, domain.index, low.done[e]) for v, e in zip(node.outs, outs, strict=True)]  # type: ignore[arg-type]
    for a, lo, h in reversed(domain.axes):
        body = list[Statement]([For(a, lo, h, body)])
    kernel, values = make_kernel(node.op.name, body)
    return choose_lanes(kernel), values


def _resolved(s: Statement, done: dict[Expr, Expr]) -> Statement:
    assert isinstance(s, Repeat)
    carries = [(n, done[e]) for n, e in s.carries]
    inside = [_resolved(t, done) for t in s.body]
    return Repeat(carries, done[s.condition], inside, [done[e] for e in s.next])
