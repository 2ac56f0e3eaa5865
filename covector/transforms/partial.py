"""Partial evaluation: run what is known, record what depends on an unknown value.

Linearisation is forward mode over it: the tangents are unknown, so that what is recorded is a
linear program, whose constants (the residuals) are known values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from covector import trace as tracing
from covector._base.config import config
from covector._base.context import context, current_trace
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.ops.collective import ReplicatedArgument, ReplicatedResult
from covector.trace.stage import StagedTracer, StageTrace, eval_jaxpr
from covector.trace.tracer import Argument, Tracer, tangent_aval
from covector.transforms.jvp import JVPTrace


class PartialTrace(StageTrace):
    """Binds an operation of known values in the parent; stages one with an unknown argument."""

    __slots__ = ("tools",)

    def __init__(self, parent: Any, tools: Any, fun: Any = None) -> None:
        super().__init__(parent, "linearization", fun)
        self.tools = tools

    def process(self, op: Any, args: Any) -> Any:
        """Known: the parent's meaning.  Unknown: an equation, or the op's own `partial` rule."""
        for x in args:
            if type(x) is StagedTracer and x.owner is self:
                break
        else:
            context.trace = self.parent
            try:
                return op(*args)
            finally:
                context.trace = self
        split = getattr(op, "partial", None)
        if split is not None:
            unknown = [type(x) is StagedTracer and x.owner is self for x in args]
            if not all(unknown):
                return split(self.tools, self, unknown, args)
        return StageTrace.process(self, op, args)

    def stage(self, op: Any, args: Sequence[Any]) -> Any:
        """Record `op` whatever its arguments are."""
        return StageTrace.process(self, op, args)


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    avals: Sequence[ShapedArray],
    varies: Sequence[bool],
    tools: Any,
) -> tuple[list[Any], list[Any], ClosedJaxpr]:
    """(results, which results have a tangent, the linear program).

    The program takes the tangents of the arguments that vary, and gives those results' tangents
    that are not zero; its consts are the residuals.
    """
    partial = PartialTrace(context.trace, tools, fun)
    forward = JVPTrace(partial, tools, fun)
    tangents = [
        partial.new_input(tangent_aval(a), Argument(fun, n)) if v else None
        for n, (a, v) in enumerate(zip(avals, varies, strict=True))
    ]
    tangents = _between_devices(partial, ReplicatedArgument, primals, tangents)
    inputs = [forward.wrap(p, t, n)
              for n, (p, t) in enumerate(zip(primals, tangents, strict=True))]  # fmt: skip
    try:
        with current_trace(forward):
            outputs = fun(*inputs)
        pairs = [forward.unwrap(x) for x in outputs]
        found = _between_devices(
            partial, ReplicatedResult, [p for p, _ in pairs], [t for _, t in pairs]
        )
        pairs = [(p, t) for (p, _), t in zip(pairs, found, strict=True)]
        moving = [t is not None for _, t in pairs]
        program = partial.finish([t for _, t in pairs if t is not None], "tangent")
    finally:
        partial.alive = forward.alive = False
    if config.check_tracer_leaks:
        del inputs, outputs, tangents, found
        pairs = [(p, None) for p, _ in pairs]
        tracing.purity_leaks.check_leaks([partial, forward], Tracer)
    return [p for p, _ in pairs], moving, program


def _between_devices(
    partial: PartialTrace, kind: Any, primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Tangents; where `shard_map` knows the primal to be the same on all devices, marked so."""
    region = partial.region
    if region is None:
        return list(tangents)
    out: list[Any] = []
    for p, t in zip(primals, tangents, strict=True):
        axes = () if t is None else region.replicated(p)
        count = math.prod(size for _, size in axes)
        names = tuple(name for name, _ in axes)
        out.append(partial.stage(kind(names, count), [t]) if axes else t)
    return out


def split_jaxpr(
    jaxpr: ClosedJaxpr, unknown: Sequence[bool], tools: Any, wanted: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """Cut a program in two by which arguments are known.

    known(known args) -> [known results..., residuals...];
    staged(residuals..., unknown args...) -> unknown results.  Also: which results are unknown,
    and the residuals' avals.  `wanted`: results that are to count as unknown.
    """
    body = jaxpr.jaxpr
    shape: dict[str, Any] = {}

    def run_known(*known_args: Any) -> list[Any]:
        trace = PartialTrace(context.trace, tools)
        known = iter(known_args)
        args = [
            trace.new_input(v.aval) if u else next(known)
            for v, u in zip(body.invars, unknown, strict=True)
        ]
        try:
            with current_trace(trace):
                outputs = eval_jaxpr(body, jaxpr.consts, *args)
            mask = [
                w or (type(x) is StagedTracer and x.owner is trace)
                for x, w in zip(outputs, wanted or [False] * len(outputs), strict=True)
            ]
            staged = trace.finish([x for x, u in zip(outputs, mask, strict=True) if u])
        finally:
            trace.alive = False
        shape["mask"], shape["staged"] = mask, staged
        return [x for x, u in zip(outputs, mask, strict=True) if not u] + staged.consts

    known_avals = [v.aval for v, u in zip(body.invars, unknown, strict=True) if not u]
    known = tools.trace(run_known, known_avals, body.debug_name)
    staged: Jaxpr = shape["staged"].jaxpr
    as_args = Jaxpr(
        [], [*staged.constvars, *staged.invars], staged.outvars, staged.eqns, body.debug_name
    )
    residuals = [v.aval for v in staged.constvars]
    return known, ClosedJaxpr(as_args, []), shape["mask"], residuals
