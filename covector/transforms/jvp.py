"""Forward mode: every value carries a tangent, and every operation states how they propagate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector._base.config import config
from covector._base.context import context, current_trace
from covector._base.source import user_frame
from covector.ir.op import has_rule
from covector.ir.values import typeof
from covector.trace.purity_leaks import check_leaks
from covector.trace.tracer import Trace, Tracer, check_alive


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "source", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self.owner, self.primal, self.tangent = trace, primal, tangent
        self.aval = typeof(primal)
        # Finding the line takes a tenth of the time of a derivative: only for who looks for leaks.
        self.source = user_frame() if config.check_tracer_leaks else None

    def origin_message(self) -> str:
        """The user's line that made it, if that is known."""
        if self.source is not None:
            return f"It was computed at {self.source}."
        return self.primal.origin_message() if isinstance(self.primal, Tracer) else ""

    def __bool__(self) -> bool:
        """Of the primal value: which way a Python branch goes has no derivative."""
        check_alive(self)
        return bool(self.primal)

    def __index__(self) -> int:
        check_alive(self)
        return self.primal.__index__()

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal!r}, tangent={self.tangent!r})"


class JVPTrace(Trace):
    """Interprets an operation by its `jvp` rule, under the parent trace."""

    __slots__ = ("tools",)

    def __init__(self, parent: Any, tools: Any) -> None:
        super().__init__(parent, "derivative")
        self.tools = tools

    def process(self, op: Any, args: Any) -> Any:
        """Primals by the parent; tangents, if any argument has one, by the rule."""
        primals: list[Any] = []
        tangents: list[Any] = []
        moving = False
        for x in args:
            if type(x) is JVPTracer and x.owner is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                moving = True
            else:
                primals.append(x)
                tangents.append(None)
        context.trace = self.parent
        try:
            if not moving:
                return op(*primals)
            if not has_rule(op, "jvp"):
                return op(*primals)
            out, tangent = op.jvp(self.tools, primals, tangents)
        finally:
            context.trace = self
        if op.multiple_results:
            return [self.wrap(o, t) for o, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        """A tracer, unless the tangent is zero."""
        return primal if tangent is None else JVPTracer(self, primal, tangent)

    def unwrap(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent or None) of a result."""
        if type(x) is JVPTracer and x.owner is self:
            return x.primal, x.tangent
        return x, None


def jvp_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    tools: Any,
    parent: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Results and their tangents (None where zero) of a function of flat values."""
    trace = JVPTrace(context.trace if parent is None else parent, tools)
    inputs = [trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
    try:
        with current_trace(trace):
            outputs = fun(*inputs)
        pairs = [trace.unwrap(x) for x in outputs]
    finally:
        trace.alive = False
    if config.check_tracer_leaks:
        del inputs, outputs
        check_leaks([trace], Tracer)
    return [p for p, _ in pairs], [t for _, t in pairs]
