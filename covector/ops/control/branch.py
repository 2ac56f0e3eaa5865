"""`cond`: one of several programs runs, the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Absent, Linear, Op, Sample
from covector.ir.values import typeof
from covector.ops.control.parts import (
    cut,
    either,
    leave,
    pick,
    spread_out,
    with_batch,
)
from covector.ops.families import Pointwise
from covector.trace.stage import trace_to_jaxpr

#: Under vmap, branches of so few elementwise equations are both computed, and one selected.
FEW = 8


class Cond(Op):
    """`branches[clamp(index)](*operands)`.

    Arguments: an int32 scalar, then the operands, which every branch takes; all branches give
    results of the same types.
    """

    name = "cond"
    multiple_results = True
    branches: tuple[ClosedJaxpr, ...]

    decompose = Absent("call")

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the branches."""
        return frozenset[str]().union(*(b.effects for b in self.branches))

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The types that the branches give."""
        index, *operands = avals
        if index.shape or index.dtype != np.int32:
            raise TypeError(f"cond: the index must be an int32 scalar; got {index.str_short()}")
        first = self.branches[0]
        for k, branch in enumerate(self.branches):
            for what, wanted, given in (
                ("takes", branch.in_avals, operands),
                ("gives", branch.out_avals, first.out_avals),
            ):
                if [a.strong() for a in wanted] != [a.strong() for a in given]:
                    raise TypeError(
                        f"cond: branch {k} {what} {[a.str_short() for a in wanted]}; must be "
                        f"{[a.str_short() for a in given]}"
                    )
        return tuple(first.out_avals)

    def numpy(self, index: Any, *operands: Any) -> list[np.ndarray]:
        """The chosen branch, evaluated in NumPy."""
        branch = self.branches[min(max(int(index), 0), len(self.branches) - 1)]
        return evaluate(branch.jaxpr, branch.consts, operands)

    # Transformations: each branch is transformed, so that all give results of the same kinds.

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A choice between the branches' jvps."""
        moving = [t is not None for t in tangents[1:]]
        wanted = _any_of(tools.jvp_jaxpr(b, moving)[1] for b in self.branches)
        branches = tuple(tools.jvp_jaxpr(b, moving, wanted)[0] for b in self.branches)
        outs = Cond(branches)(*primals, *(t for t in tangents[1:] if t is not None))
        return outs[: len(wanted)], spread_out(outs[len(wanted) :], wanted)

    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """Two choices by one index; the known one also gives what the other's branches need.

        Branches share the places of their residuals; those of the branches not taken are zeros.
        """
        if unknown[0]:
            return trace.stage(self, args)
        hidden = list(unknown[1:])
        wanted = _any_of(tools.split_jaxpr(b, hidden)[2] for b in self.branches)
        splits = [tools.split_jaxpr(b, hidden, wanted) for b in self.branches]
        places, avals = _shared_places([residuals for *_, residuals in splits])
        count = len(wanted) - sum(wanted)
        known = tuple(
            _known_branch(tools, split[0], count, at, avals)
            for split, at in zip(splits, places, strict=True)
        )
        staged = tuple(
            _staged_branch(tools, split[1], len(split[3]), at, avals)
            for split, at in zip(splits, places, strict=True)
        )
        index, *operands = args
        context.trace = trace.parent
        try:
            given = leave(operands, hidden)
            outs: list[Any] = Cond(known)(index, *given) if known[0].jaxpr.outvars else []
        finally:
            context.trace = trace
        rest = trace.stage(Cond(staged), [index, *outs[count:], *pick(operands, hidden)])
        found, made = iter(outs), iter(rest)
        return [next(made) if w else next(found) for w in wanted]

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A choice between the branches' transposes."""
        index, *operands = args
        linear = [isinstance(a, Linear) for a in operands]
        given = [ct is not None for ct in cts]
        wanted = _any_of(tools.transpose_jaxpr(b, linear, given)[1] for b in self.branches)
        branches = tuple(tools.transpose_jaxpr(b, linear, given, wanted)[0] for b in self.branches)
        outs = Cond(branches)(index, *leave(operands, linear), *pick(cts, given))
        return [None, *spread_out(spread_out(outs, wanted), linear)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Of one index, a choice between batched branches.  Of an index for each example, a loop
        over the batch, so that a branch that is not taken is not run; cheap ones, and those with
        collectives over the batch, are selected."""
        batched = [d is not None for d in dims[1:]]
        apart = not (tools.mentions(self) or all(map(_is_cheap, self.branches)))
        if dims[0] is not None and apart:
            return ops.control.over_batch(self, size, args, dims)
        wanted = _any_of(tools.batch_jaxpr(b, size, batched)[1] for b in self.branches)
        if dims[0] is not None:
            wanted = [True] * len(wanted)
        branches = tuple(tools.batch_jaxpr(b, size, batched, wanted)[0] for b in self.branches)
        moved = [
            with_batch(x, b, d, size) for x, b, d in zip(args[1:], batched, dims[1:], strict=True)
        ]
        if dims[0] is None:
            return Cond(branches)(args[0], *moved), [0 if w else None for w in wanted]
        last = np.int32(len(branches) - 1)
        index = ops.pointwise.clamp(np.int32(0), args[0], last)
        cases = zip(*(tools.call(b, moved) for b in branches), strict=True)
        return [_select(index, case) for case in cases], [0] * len(wanted)

    def stablehlo(self, writer: Any, index: Any, *operands: Any) -> Any:
        """stablehlo.case, of the index clamped."""

        def clamp(i: Any) -> list[Any]:
            return [ops.pointwise.clamp(np.int32(0), i, np.int32(len(self.branches) - 1))]

        (clamped,) = writer.closed(trace_to_jaxpr(clamp, [index.aval], "clamp"), [index])
        return writer.case(clamped, self.branches, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Three branches, with different residuals; index in and out of range."""

        def product(x: Any, y: Any) -> list[Any]:
            return [ops.pointwise.mul(ops.pointwise.sin(x), y), x]

        def square(x: Any, y: Any) -> list[Any]:
            return [ops.pointwise.mul(x, x), y]

        def swapped(x: Any, y: Any) -> list[Any]:
            return [y, x]

        for dtype, index in (("float32", 0), ("float32", 7), ("float64", 1)):
            aval = ShapedArray((3,), dtype)
            branches = tuple(
                trace_to_jaxpr(f, [aval, aval], f.__name__) for f in (product, square, swapped)
            )
            yield Sample(Cond(branches), (np.int32(index), aval, aval))


def _any_of(masks: Iterable[Sequence[bool]]) -> list[bool]:
    return list(reduce(either, masks))


def _shared_places(
    lists: Sequence[Sequence[ShapedArray]],
) -> tuple[list[list[int]], list[ShapedArray]]:
    """(for each branch the places of its residuals, the types of the places)."""
    avals: list[ShapedArray] = []
    places: list[list[int]] = []
    for residuals in lists:
        free = list(range(len(avals)))
        own: list[int] = []
        for aval in residuals:
            strong = aval.strong()
            at = next((k for k in free if avals[k] == strong), len(avals))
            if at == len(avals):
                avals.append(strong)
            else:
                free.remove(at)
            own.append(at)
        places.append(own)
    return places, avals


def _known_branch(
    tools: Any, known: ClosedJaxpr, count: int, places: list[int], avals: list[ShapedArray]
) -> ClosedJaxpr:
    """The known part of a branch, its residuals in their places."""

    def run(*args: Any) -> list[Any]:
        outs = tools.call(known, args)
        at = dict(zip(places, outs[count:], strict=True))
        return [
            *outs[:count],
            *(at[k] if k in at else ops.shape.zeros(a) for k, a in enumerate(avals)),
        ]

    return trace_to_jaxpr(run, known.in_avals, known.jaxpr.debug_name)


def _staged_branch(
    tools: Any, staged: ClosedJaxpr, count: int, places: list[int], avals: list[ShapedArray]
) -> ClosedJaxpr:
    """The unknown part of a branch, taking all places."""

    def run(*args: Any) -> list[Any]:
        residuals, hidden = cut(args, len(avals))
        return tools.call(staged, [*(residuals[k] for k in places), *hidden])

    hidden_avals = staged.in_avals[count:]
    return trace_to_jaxpr(run, [*avals, *hidden_avals], staged.jaxpr.debug_name)


def _is_cheap(branch: ClosedJaxpr) -> bool:
    eqns = branch.eqns
    return len(eqns) <= FEW and all(
        isinstance(e.op, Pointwise) or e.op.name in ("broadcast_in_dim", "reshape") for e in eqns
    )


def _select(index: Any, cases: Sequence[Any]) -> Any:
    shape = typeof(cases[0]).shape
    which = ops.shape.broadcast_in_dim(index, shape, (0,))
    if len(cases) == 1:
        return cases[0]
    return ops.pointwise.select_n(which, *cases)
