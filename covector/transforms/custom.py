"""Functions with derivatives of their own, called while they are still Python functions.

A `CustomCall` is not recorded: each trace takes from it what it needs (the rule for derivatives,
the function for values), so that on concrete values both may branch in Python.  Only staging
makes it an operation that holds a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops
from covector._base.context import context, current_trace
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Op
from covector.ir.values import typeof
from covector.ops.custom import Common, CustomJvpCall, CustomVjpCall, Forward, asking, example_aval
from covector.ops.linear_call import Named
from covector.trace.stage import StagedTracer, StageTrace, known_inputs, trace_to_jaxpr
from covector.trace.tracer import AxisScope, Trace, Tracer
from covector.transforms.jvp import JVPTrace
from covector.transforms.partial import PartialTrace
from covector.transforms.shared_rule import shared_rule
from covector.transforms.tools import tools
from covector.transforms.vmap import BatchTrace, BatchTracer

#: A function of flat values.
Flat = Callable[..., Sequence[Any]]


class CustomCall(Op, registered=False):
    """`fun`, with the rule of a `kind` of operation (CustomJvpCall or CustomVjpCall)."""

    name = "custom_call"
    multiple_results = True
    kind: Any
    fun: Flat
    rule: Any
    label: str
    #: Whether the rule knows what devices share (transforms/shared_rule.py).
    placed: bool = False

    def __call__(self, *args: Any) -> Any:
        """Each trace's own meaning."""
        trace = context.trace
        if trace.parent is None:
            return list(self.fun(*args))
        if trace.region is not None and self.kind is CustomVjpCall and not self.placed:
            rule = shared_rule(self.rule, trace.region, args)
            return CustomCall(self.kind, self.fun, rule, self.label, True)(*args)
        if isinstance(trace, JVPTrace):
            return self._under_jvp(trace, args)
        if isinstance(trace, BatchTrace):
            return self._under_vmap(trace, args)
        if isinstance(trace, StageTrace):
            if isinstance(trace, PartialTrace) and not any(
                type(x) is StagedTracer and x.owner is trace for x in args
            ):
                with current_trace(trace.parent):
                    return self(*args)
            return self._staged(args)
        if isinstance(trace, _Values):
            run = trace.again
        elif isinstance(trace, AxisScope):
            run = _in_scope(trace)
        else:
            return trace.process(self, args)
        with current_trace(trace.parent):
            return self._inside(run)(*args)

    def decompose(self, *args: Any) -> list[Any]:
        """The function itself."""
        return list(self.fun(*args))

    def _inside(self, run: Callable[[Callable[[], Any]], Any]) -> CustomCall:
        """This call with function and rule run by `run`, which gives (result, value finder)."""

        def fun(*args: Any) -> list[Any]:
            outs, value = run(lambda: self.fun(*args))
            return [value(x) for x in outs]

        return CustomCall(
            self.kind, fun, _INSIDE[self.kind](self.rule, run), self.label, self.placed
        )

    def _under_jvp(self, trace: JVPTrace, args: Sequence[Any]) -> list[Any]:
        pairs = [trace.unwrap(x) for x in args]
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        with current_trace(trace.parent):
            if all(t is None for t in tangents):
                return self(*primals)
            outs, moved = self.kind.derive(tools, self.rule, self.label, primals, tangents)
        return [trace.wrap(x, t) for x, t in zip(outs, moved, strict=True)]

    def _under_vmap(self, trace: BatchTrace, args: Sequence[Any]) -> list[Any]:
        pairs = [trace.unwrap(x) for x in args]
        batched = [d is not None for _, d in pairs]
        with current_trace(trace.parent):
            if not any(batched) and trace.axis_name is None:
                return self(*(x for x, _ in pairs))
            moved = [x if d is None else ops.shape.move_axis(x, d, 0) for x, d in pairs]

            def mapper(fun: Flat, values: Sequence[Any], dims: Sequence[Any]) -> Any:
                return again(trace, fun, values, dims)

            common = Common(tools)

            def fun(*values: Any) -> list[Any]:
                made, dims = mapper(self.fun, values, [0 if b else None for b in batched])
                same = [d is None for d in dims]
                derivable = context.trace.parent is not None  # of this call, later
                if any(same) and derivable and not asking():
                    avals = [example_aval(typeof(x), d) for x, d in pairs]
                    same = self.kind.same_for_all(
                        tools, self.rule, mapper, trace.size, avals, batched, same
                    )
                common.same = same
                return common.placed(made, dims, trace.size)

            rule = self.kind.batched_rule(self.rule, mapper, trace.size, batched, common)
            outs = CustomCall(self.kind, fun, rule, self.label, self.placed)(*moved)
        same = common.same or [False] * len(outs)
        return [trace.wrap(x, None if s else 0) for x, s in zip(outs, same, strict=True)]

    def _staged(self, args: Sequence[Any]) -> list[Any]:
        with known_inputs(args):
            program = trace_to_jaxpr(self.fun, [typeof(x) for x in args], self.label)
        consts = program.consts
        body = program.jaxpr
        lifted = ClosedJaxpr(body.replace(constvars=[], invars=[*body.constvars, *body.invars]))
        rule = Named(_RULES[self.kind](self.rule, consts), f"{self.label}_rule")
        return self.kind(lifted, self.label, rule, len(consts))(*consts, *args)


class _Again(BatchTrace):
    """A `BatchTrace` that takes the tracers of another one for its own."""

    __slots__ = ("others",)

    def process(self, op: Any, args: Any) -> Any:
        """As the other would."""
        return super().process(op, [self._own(x) for x in args])

    def unwrap(self, x: Any) -> tuple[Any, int | None]:
        """As the other would."""
        return super().unwrap(self._own(x))

    def _own(self, x: Any) -> Any:
        if type(x) is BatchTracer and x.owner in self.others:
            return BatchTracer(self, x.val, x.dim)
        return x


def again(trace: BatchTrace, fun: Flat, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    """Results and their batch axes of `fun`, which may close over tracers of `trace`.

    It runs under the current trace, whether `trace` has ended or not.
    """
    new = object.__new__(_Again)
    for cls in type(trace).__mro__:
        for slot in cls.__dict__.get("__slots__", ()):
            if hasattr(trace, slot):
                setattr(new, slot, getattr(trace, slot))
    new.parent, new.alive = context.trace, True
    new.others = {trace, *getattr(trace, "others", ())}
    try:
        with current_trace(new):
            outs = fun(*[new.wrap(x, d) for x, d in zip(args, dims, strict=True)])
        pairs = [new.unwrap(x) for x in outs]
    finally:
        new.alive = False
    return [x for x, _ in pairs], [d for _, d in pairs]


# A rule that runs after its function was staged may close over the same tracers as the function:
# they are dead by then, but their values are arguments of the operation.

#: Runs a function of no arguments: (its result, a function that finds the value of a part of it).
Runner = Callable[[Callable[[], Any]], tuple[Any, Callable[[Any], Any]]]


class _Values(Trace):
    """Interprets operations in the parent, with values in the place of dead tracers."""

    __slots__ = ("again", "values")

    def __init__(self, parent: Any, values: dict[int, Any], again: Runner) -> None:
        super().__init__(parent, "rule")
        self.values, self.again = values, again

    def value(self, x: Any) -> Any:
        """`x`, or what stands for it now."""
        return self.values.get(id(x), x) if isinstance(x, Tracer) else x

    def process(self, op: Any, args: Any) -> Any:
        """The operation on the values."""
        context.trace = self.parent
        try:
            return op(*[self.value(x) for x in args])
        finally:
            context.trace = self


def _with_values(captured: Sequence[Any], values: Sequence[Any]) -> Runner:
    """Runs functions that close over `captured`, which have these values now."""
    dead = [x for x in captured if isinstance(x, Tracer)]
    if not dead:
        return lambda fun: (fun(), lambda x: x)
    table = {id(x): v for x, v in zip(captured, values, strict=True)}
    owners = {id(x.owner): x.owner for x in dead}

    def run(fun: Callable[[], Any]) -> tuple[Any, Callable[[Any], Any]]:
        before = {key: owner.alive for key, owner in owners.items()}
        trace = _Values(context.trace, table, run)
        try:
            for owner in owners.values():
                owner.alive = True
            with current_trace(trace):
                return fun(), trace.value
        finally:
            trace.alive = False
            for key, owner in owners.items():
                owner.alive = before[key]

    return run


def _in_scope(scope: AxisScope) -> Runner:
    """Runs functions with the axes of `scope` in force."""
    own = scope.axes[len(scope.parent.axes) :]

    def run(fun: Callable[[], Any]) -> tuple[Any, Callable[[Any], Any]]:
        with current_trace(AxisScope(context.trace, own)):
            return fun(), lambda x: x

    return run


def _jvp_inside(rule: Any, run: Runner) -> Any:
    """The rule, run by `run`."""

    def inside(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (outs, moved), value = run(lambda: rule(primals, tangents))
        return [value(x) for x in outs], [value(t) for t in moved]

    return inside


def _vjp_inside(rule: Any, run: Runner) -> Any:
    def inside(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        forward, value = run(lambda: rule(primals, moving))

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            made, value = run(lambda: forward.back(residuals, cts))
            return [value(ct) for ct in made]

        return Forward(
            [value(x) for x in forward.outs], [value(x) for x in forward.residuals], back
        )

    return inside


def _jvp_with_consts(rule: Any, captured: Sequence[Any]) -> Any:
    """The rule, of arguments that begin with the values of what was captured."""
    n = len(captured)

    def with_consts(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        run = _with_values(captured, primals[:n])
        return _jvp_inside(rule, run)(primals[n:], tangents[n:])

    return with_consts if captured else rule


def _vjp_with_consts(rule: Any, captured: Sequence[Any]) -> Any:
    n = len(captured)

    def with_consts(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        consts = list(primals[:n])
        run = _with_values(captured, consts)
        forward, value = run(lambda: rule(primals[n:], moving[n:]))

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            run = _with_values(captured, residuals[:n])
            made, value = run(lambda: forward.back(residuals[n:], cts))
            return [*[None] * n, *map(value, made)]

        kept = [*consts, *map(value, forward.residuals)]
        return Forward([value(x) for x in forward.outs], kept, back)

    return with_consts if captured else rule


_RULES = {CustomJvpCall: _jvp_with_consts, CustomVjpCall: _vjp_with_consts}
_INSIDE = {CustomJvpCall: _jvp_inside, CustomVjpCall: _vjp_inside}
