"""Forward mode: every value carries a tangent, and every operation states how they propagate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from covector._base.context import context
from covector._base.source import user_frame
from covector.ir.op import has_rule
from covector.ir.values import typeof
from covector.trace.stage import StagedTracer
from covector.trace.tracer import Argument, Trace, Tracer, check_alive, made_of, told
from covector.transforms.under import run_under


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("made", "primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any, made: Any = None) -> None:
        self.owner, self.primal, self.tangent = trace, primal, tangent
        self.aval = typeof(primal)
        self.made = made

    def origin_message(self) -> str:
        """The user's line that made it, and the arguments that it depends on."""
        if self.made is not None:
            return told(self.made, self.owner)
        # What is recorded of a tangent tells where it was, at no cost here.
        for x in (self.tangent, self.primal):
            message = x.origin_message() if isinstance(x, Tracer) else ""
            if message:
                return message.replace("It is ", "It was computed from ", 1)
        return ""

    def ways_out(self) -> str:
        """Those of the primal value, or that it is known outside."""
        if isinstance(self.primal, Tracer):
            return self.primal.ways_out()
        return (
            "A derivative is being taken: return the value as auxiliary data (has_aux=True), or "
            "compute it from values that are not differentiated."
        )

    def __bool__(self) -> bool:
        """Of the primal value: which way a Python branch goes has no derivative."""
        check_alive(self)
        return bool(self.primal)

    def __index__(self) -> int:
        check_alive(self)
        return operator.index(self.primal)

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal!r}, tangent={self.tangent!r})"


class JVPTrace(Trace):
    """Interprets an operation by its `jvp` rule, under the parent trace."""

    __slots__ = ("tools",)

    def __init__(self, parent: Any, tools: Any, fun: Any = None) -> None:
        super().__init__(parent, "derivative", fun)
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
        outer = context.source
        try:
            if not moving or not has_rule(op, "jvp"):
                return op(*primals)
            if outer is None:  # one look for the line, for all that the rule binds
                context.source = user_frame(3)
            out, tangent = op.jvp(self.tools, primals, tangents)
            if op.multiple_results:
                return [self._made(o, t, args) for o, t in zip(out, tangent, strict=True)]
            return self._made(out, tangent, args)
        finally:
            context.trace, context.source = self, outer

    def _made(self, primal: Any, tangent: Any, args: Any) -> Any:
        """As `wrap`, with the line; where the tangent is recorded that is known already."""
        if tangent is None:
            return primal
        made = None if type(tangent) is StagedTracer else made_of(args, self)
        return JVPTracer(self, primal, tangent, made)

    def wrap(self, primal: Any, tangent: Any, number: int | None = None) -> Any:
        """A tracer, unless the tangent is zero; `number`: of which argument."""
        if tangent is None:
            return primal
        made = None if number is None else Argument(self.fun, number)
        return JVPTracer(self, primal, tangent, made)

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
    trace = JVPTrace(context.trace if parent is None else parent, tools, fun)
    given = enumerate(zip(primals, tangents, strict=True))
    pairs = run_under(trace, fun, (trace.wrap(p, t, n) for n, (p, t) in given))
    return [p for p, _ in pairs], [t for _, t in pairs]
