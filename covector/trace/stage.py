"""Staging: runs a Python function on tracers and records its operations as a Jaxpr."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from covector import trace as tracing
from covector._base.config import config
from covector._base.context import context, current_trace
from covector._base.source import user_frame
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, DropVar, Equation, Jaxpr, Literal, Var
from covector.ir.values import as_numpy, typeof
from covector.trace.tracer import (
    Argument,
    Trace,
    Tracer,
    check_alive,
    check_not_inside,
    computed,
)

#: What is written into a program, if it has no axes.
_NUMBERS: Final = (bool, int, float, complex, np.generic, np.ndarray)
#: The label of an argument that is no part of a larger one.
_PLAIN: Final = r"argument (\w+) of ([^,]+)"


class StagedTracer(Tracer):
    """A value that will exist when the recorded program runs."""

    __slots__ = ("source", "variable")

    def __init__(self, trace: StageTrace, var: Var, source: Any = None) -> None:
        self.owner, self.variable, self.aval, self.source = trace, var, var.aval, source

    def origin_message(self) -> str:
        """The user's line that made it, and the arguments that it depends on."""
        trace = cast("StageTrace", self.owner)
        label = str(trace.labels.get(self.variable) or "")
        return f"It is {label}." if label else computed(self.source, self._arguments())

    def _arguments(self) -> list[Any]:
        """What the arguments are called that it depends on."""
        trace = cast("StageTrace", self.owner)
        return [trace.labels[v] for v in trace.ancestors(self.variable) if v in trace.labels]

    def ways_out(self) -> str:
        """Which arguments of a jitted function could be static."""
        labels = self._arguments()
        found = [m for x in labels if (m := re.fullmatch(_PLAIN, str(x))) is not None]
        # those of other functions, such as bodies of loops, are looked up: no strings
        if not 1 <= len(labels) == len(found) <= 2 or not all(type(x) is str for x in labels):
            return ""
        fun = found[0][2] if found[0][2].isidentifier() else "fun"
        names = [m[1] for m in found]
        if len(names) == 1:
            return (
                f"If `{names[0]}` is a setting, not data, declare it static: "
                f'jit({fun}, static_argnames="{names[0]}").'
            )
        return (
            f"If `{names[0]}` and `{names[1]}` are settings, not data, declare them static: "
            f"jit({fun}, static_argnames={tuple(names)})."
        )


class StageTrace(Trace):
    """Records equations.  What it meets from outside becomes a constant of the Jaxpr."""

    __slots__ = ("_const_vars", "consts", "eqns", "invars", "labels")

    def __init__(self, parent: Any, what: str = "", fun: Any = None) -> None:
        super().__init__(parent, what, fun)
        self.eqns: list[Equation] = []
        self.invars: list[Var] = []
        self.consts: list[Any] = []
        self._const_vars: dict[int, Var] = {}
        #: What arguments are called in messages.
        self.labels: dict[Var, Any] = {}

    def new_input(self, aval: ShapedArray, label: Any = "") -> StagedTracer:
        """A further argument of the program; what it is called is `str(label)`."""
        var = Var(aval)
        self.invars.append(var)
        if label:
            self.labels[var] = label
        return StagedTracer(self, var)

    def ancestors(self, var: Var) -> list[Var]:
        """The arguments that `var` depends on."""
        wanted = {var}
        for eqn in reversed(self.eqns):
            if any(v in wanted for v in eqn.outvars):
                wanted.update(v for v in eqn.invars if isinstance(v, Var))
        return [v for v in self.invars if v in wanted]

    def atom(self, x: Any) -> Atom:
        """`x` as an operand: its variable, a literal, or the variable of a captured constant."""
        if type(x) is StagedTracer and x.owner is self:
            return x.variable
        if type(x) is float:
            aval = typeof(x)
            return Literal(aval.dtype.type(x), aval)
        if isinstance(x, Tracer):
            check_alive(x)
        elif not isinstance(x, np.ndarray) or x.ndim == 0:
            aval = typeof(x)
            if isinstance(x, np.generic) and cast("Any", x).dtype is aval.dtype:
                return Literal(x, aval)
            if isinstance(x, _NUMBERS):
                return Literal(as_numpy(x, aval)[()], aval)
        return self._constant(x)

    def _constant(self, x: Any) -> Var:
        var = self._const_vars.get(id(x))
        if var is None:
            if isinstance(x, Tracer):
                check_not_inside(x, self)
            var = self._const_vars[id(x)] = Var(typeof(x))
            self.consts.append(x)  # keeps x alive, so its id stays its own
        return var

    def process(self, op: Any, args: Any) -> Any:
        """Record `op`; the result is a tracer (a list of them if it has several results)."""
        atoms: list[Atom] = []
        avals: list[ShapedArray] = []
        for x in args:
            atom = x.variable if type(x) is StagedTracer and x.owner is self else self.atom(x)
            atoms.append(atom)
            avals.append(atom.aval)
        out = op.result(*avals)
        source = context.source or user_frame(3)
        if not op.multiple_results:
            var = Var(out)
            self.eqns.append(Equation.of(op, atoms, [var], source, context.scope))
            return StagedTracer(self, var, source)
        outvars = [Var(a) for a in out]
        self.eqns.append(Equation.of(op, atoms, outvars, source, context.scope))
        return [StagedTracer(self, v, source) for v in outvars]

    def finish(self, outputs: Sequence[Any], name: str = "") -> ClosedJaxpr:
        """The recorded program with these results; dead equations are left out."""
        outvars = [self.atom(x) for x in outputs]
        eqns, used = _live(self.eqns, outvars)
        pairs = [
            (v, c) for v, c in zip(self._const_vars.values(), self.consts, strict=True) if v in used
        ]
        jaxpr = Jaxpr([v for v, _ in pairs], self.invars, outvars, eqns, name)
        return ClosedJaxpr(jaxpr, [c for _, c in pairs])


def live_equations(eqns: Sequence[Equation], outvars: Sequence[Atom]) -> list[Equation]:
    """The equations that an output or an effect depends on; unwanted results become `DropVar`."""
    return _live(eqns, outvars)[0]


def _live(eqns: Sequence[Equation], outvars: Sequence[Atom]) -> tuple[list[Equation], set[Any]]:
    """(these equations, what they and the outputs read)."""
    live: set[Any] = set(outvars)  # literals are in nobody's way
    kept: list[Equation] = []
    for eqn in reversed(eqns):
        outs = eqn.outvars
        if len(outs) != 1 or outs[0] not in live:
            wanted = [v in live for v in outs]
            if not any(wanted) and not eqn.effects:
                continue
            if not all(wanted):
                outs = [v if w else DropVar(v.aval) for v, w in zip(outs, wanted, strict=True)]
                eqn = eqn.replace(outvars=outs)
        live.update(eqn.invars)
        kept.append(eqn)
    kept.reverse()
    return kept, live


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    name: str = "",
    sources: Sequence[Any] | None = None,
) -> ClosedJaxpr:
    """Run `fun` on tracers of `in_avals`; it returns a flat sequence of values.

    `sources`: what to call each argument in messages; by default, what `fun.label` says.
    """
    trace = StageTrace(context.trace, f"tracing of {name}" if name else "trace")
    labels: Sequence[Any] = sources or [""] * len(in_avals)
    if sources is None and hasattr(fun, "label"):
        labels = [Argument(fun, n) for n in range(len(in_avals))]
    tracers = [trace.new_input(a, s) for a, s in zip(in_avals, labels, strict=True)]
    scope, context.scope = context.scope, ()  # names inside are counted from the program on
    try:
        with current_trace(trace):
            outputs = fun(*tracers)
            program = trace.finish(outputs, name)
    finally:
        trace.alive, context.scope = False, scope
    if config.check_tracer_leaks:
        del tracers, outputs
        tracing.purity_leaks.check_leaks([trace], Tracer)
    return program


def known_inputs(values: Sequence[Any]) -> Any:
    """A context in which a program of these inputs is traced: in a function under `shard_map` it
    is known which of them are the same on all devices.
    """
    region = context.trace.region
    return contextlib.nullcontext() if region is None else region.body(values)


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Bind every equation of `jaxpr` in the current trace, and give the results."""
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Atom) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    outer = context.source
    try:
        for eqn in jaxpr.eqns:
            context.source = eqn.source or outer
            given = [read_literal(v) if isinstance(v, Literal) else env[v] for v in eqn.invars]
            out = eqn.op(*given)
            if eqn.op.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))  # type: ignore[arg-type]
            else:
                env[eqn.outvars[0]] = out  # type: ignore[index]
    finally:
        context.source = outer
    return [read_literal(v) if isinstance(v, Literal) else read(v) for v in jaxpr.outvars]


def read_literal(literal: Literal) -> Any:
    """The value of a literal; weakly typed ones as Python scalars, so that they stay weak."""
    return literal.val.item() if literal.aval.weak_type else literal.val
