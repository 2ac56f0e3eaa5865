"""Inlines calls, and replaces ops that have no native rule by their decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from covector.compiler.libraries import chosen, is_small
from covector.compiler.loops.graph import native_rule
from covector.compiler.passes.rewrite import Constants, Writer
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal
from covector.ir.op import Op, has_rule
from covector.trace.stage import trace_to_jaxpr

#: Calls whose field `jaxpr` is the whole meaning: nothing needs to be staged.
CALLS: Final = frozenset({"jit", "custom_jvp_call", "custom_vjp_call"})
#: Ops whose decomposition waits: other passes must not look through them; `open_barriers` does.
BARRIERS: Final = frozenset({"optimization_barrier"})
_staged: Final[dict[Any, ClosedJaxpr]] = {}
_KEPT: Final = 4096


def expand(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with only ops that the planner has a rule for (or that nothing can expand)."""
    if not any(_expandable(e) for e in closed.eqns):
        return closed
    out, constants = Writer(), Constants(closed)
    # Each frame: the equations left, the variables' meanings, and the call's own results.
    frames: list[tuple[Any, dict[Any, Atom], Sequence[Any], Sequence[Atom], dict[Any, Atom]]] = []
    env: dict[Any, Atom] = out.env
    rest = iter(closed.eqns)
    top = True
    while True:
        eqn = next(rest, None)
        if eqn is None:
            if not frames:
                break
            inner = env
            rest, env, results, given, _ = frames.pop()
            for v, w in zip(results, given, strict=True):
                env[v] = w if isinstance(w, Literal) else inner[w]
            top = not frames
            continue
        invars = [v if isinstance(v, Literal) else env.get(v, v) for v in eqn.invars]
        body = _body(eqn)
        if body is not None:
            frames.append((rest, env, eqn.outvars, body.jaxpr.outvars, env))
            env = dict(zip(body.jaxpr.invars, invars, strict=True))
            for v, c in zip(body.jaxpr.constvars, body.consts, strict=True):
                env[v] = constants.variable(c, v.aval)
            rest, top = iter(body.eqns), False
        elif top:
            out.copy(eqn, invars)
        else:
            fresh: list[Any] = [type(v)(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, fresh, strict=True))
            out.eqns.append(eqn.replace(invars=invars, outvars=fresh))
    jaxpr = closed.jaxpr.replace(
        constvars=constants.variables, eqns=out.eqns, outvars=out.reads(closed.jaxpr.outvars)
    )
    return ClosedJaxpr(jaxpr, constants.values)


def _expandable(eqn: Equation) -> bool:
    op = eqn.op
    if op.name in CALLS:
        return True
    if native_rule(op) or not has_rule(op, "decompose") or op.name in BARRIERS:
        return False
    avals = [v.aval for v in eqn.invars]
    return not is_small(op, avals) and chosen(op, avals) is None


def open_barriers(jaxpr: Jaxpr) -> Jaxpr:
    """The program with what barriers give replaced by what they are given."""
    if not any(e.op.name in BARRIERS for e in jaxpr.eqns):
        return jaxpr
    out = Writer()
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if eqn.op.name in BARRIERS:
            out.env.update(zip(eqn.outvars, invars, strict=True))
        else:
            out.copy(eqn, invars)
    return out.finish(jaxpr)


def _body(eqn: Equation) -> ClosedJaxpr | None:
    """The program that the equation stands for, or None if it stays."""
    if not _expandable(eqn):
        return None
    if eqn.op.name in CALLS:
        return eqn.op.jaxpr  # type: ignore[attr-defined]
    return decomposition(eqn.op, tuple(v.aval for v in eqn.invars))


def decomposition(op: Op, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """`op` in terms of simpler ops, as a program; kept for the next time."""
    key = (op, avals)
    found = _staged.get(key)
    if found is None:

        def call(*args: Any) -> Sequence[Any]:
            outs = op.decompose(*args)
            return outs if op.multiple_results else [outs]

        if len(_staged) >= _KEPT:
            _staged.clear()
        found = _staged[key] = trace_to_jaxpr(call, avals, op.name)
    return found
