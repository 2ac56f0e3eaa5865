"""The options `debug_nans` and `debug_infs`: every result is looked at, and the culprit is named.

While one of them is set in some thread, the trace at the bottom runs `watched` (`watch`).  Compiled
programs look at their results themselves (`debug_code`).  A program whose result is bad is run
again, operation by operation, into loops and branches, from its result back to the operation that
made the first bad value of it.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from covector import ops
from covector._base.config import config
from covector._base.context import Context, context, current_trace
from covector._base.named_tuple import NamedTuple
from covector._base.source import user_frame
from covector.ir.jaxpr import ClosedJaxpr, Equation, Literal, Var
from covector.ir.op import Op
from covector.ops.call import Call, Jit
from covector.runtime import array as arrays
from covector.runtime import dispatch
from covector.runtime.debug_code import can_be_bad, with_test
from covector.runtime.watch import VALUES
from covector.trace.stage import read_literal


def watched(op: Op, args: Sequence[Any]) -> Any:
    """As `dispatch.evaluate`.  Raises FloatingPointError for a result that is not to be."""
    local = VALUES.local
    if local.inside or not VALUES.in_force():
        return dispatch.evaluate(op, args)
    local.inside = True
    try:
        tested = _tested(op) if isinstance(op, Jit) else None
        if tested is not None:
            *out, bad = dispatch.evaluate(tested, args)
            if bad:
                look(op, args, out)
            return out
        out = dispatch.evaluate(op, args)
        look(op, args, out if op.multiple_results else [out])
    finally:
        local.inside = False
    return out


def _tested(op: Jit) -> Jit | None:
    """The program with the test compiled in; None if there is nothing to test."""
    kinds = config.debug_nans, config.debug_infs
    known = op.__dict__.setdefault("_tested", {})
    if kinds not in known:
        closed = with_test(op.jaxpr, *kinds)
        known[kinds] = None if closed is None else Jit(closed, op.label)
    return known[kinds]


def look(op: Op, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Raises FloatingPointError if a result of `op` is not to be."""
    for k, x in enumerate(outs):
        if what_is_wrong(x):
            _refuse(op, args, k, x)


def executable(op: Jit, avals: tuple[Any, ...]) -> Any:
    """What `watched` runs for a program on arguments of these types, or None; if it has machine
    code, its last result is the test.
    """
    tested = _tested(op)
    return None if tested is None else dispatch.executable_of(tested, avals)


def what_is_wrong(x: Any) -> str:
    """'nan' or 'inf' if the array has one and it is looked for, else ''."""
    aval = x.aval
    if not can_be_bad(aval):
        return ""
    elements = arrays.host(x)
    if aval.shape:
        if np.isfinite(elements).all():
            return ""
    elif cmath.isfinite(elements.item()):
        return ""
    if config.debug_nans and np.isnan(elements).any():
        return "nan"
    return "inf" if config.debug_infs and np.isinf(elements).any() else ""


def _refuse(op: Op, args: Sequence[Any], which: int, value: Any) -> None:
    kind = what_is_wrong(value)
    once_more = _without_effects(op)
    found = _blame(once_more, args, which) if once_more is not None else None
    found = found or Blame(op.name, None, ())
    source = found.source or context.source or user_frame()
    lines = [f"invalid value ({kind}) encountered in {found.name}"]
    if source is not None:
        lines[0] += f" at {source}"
        if source.text:
            lines.append(f"    {source.text}")
    lines += found.notes
    if once_more is None:
        lines.append("What made it is not known: io_callback cannot be called a second time.")
    elif isinstance(op, Jit):
        lines.append(f"It is a value of the compiled function {op.label}, run again to find it.")
    raise FloatingPointError("\n".join(lines))


def _without_effects(op: Op) -> Op | None:
    """The operation without callbacks that have no results; None if it has others with effects."""
    if not op.effects:
        return op
    params = {k: ops.control.silent_parts(v) for k, v in op.params.items()}
    quiet = op.with_params(**params)
    return None if quiet.effects else quiet


class Blame(NamedTuple):
    """The operation that made a bad value, the user's line, and which round of which loop."""

    name: str
    source: Any
    notes: tuple[str, ...]


def _blame(op: Op, args: Sequence[Any], which: int) -> Blame | None:
    """Who, inside the operation, made its bad result number `which`; None: itself."""
    rule = _call if isinstance(op, Call) else _INSIDE.get(op.name)
    return rule and rule(op, [dispatch.as_array(x) for x in args], which)


def _in_program(closed: ClosedJaxpr, args: Sequence[Any], which: int) -> Blame | None:
    """Who made result number `which`, whose value is bad; None if the program was given it."""
    body = closed.jaxpr
    env: dict[Any, Any] = dict(zip(body.constvars, closed.consts, strict=True))
    env.update(zip(body.invars, args, strict=True))
    made: dict[Any, Equation] = {}

    def read(v: Any) -> Any:
        return dispatch.as_array(read_literal(v) if isinstance(v, Literal) else env[v])

    for eqn in body.eqns:
        out = _run(eqn.op, [read(v) for v in eqn.invars])
        env.update(zip(eqn.outvars, out, strict=True))
        made.update((v, eqn) for v in eqn.outvars)
    v: Any = body.outvars[which]
    while v in made:
        eqn = made[v]
        before = [u for u in eqn.invars if isinstance(u, Var) and what_is_wrong(read(u))]
        earlier = next((u for u in before if u in made), None)
        if earlier is None:
            inner = _blame(eqn.op, [read(u) for u in eqn.invars], eqn.outvars.index(v))
            if inner is None:
                return Blame(eqn.op.name, eqn.source, ())
            return inner._replace(source=inner.source or eqn.source)
        v = earlier
    return None


def _run(op: Op, args: Sequence[Any]) -> Sequence[Any]:
    with current_trace(Context.trace):
        out = dispatch.evaluate(op, args)
    return out if op.multiple_results else [out]


def _call(op: Any, args: list[Any], which: int) -> Blame | None:
    return _in_program(op.jaxpr, args, which)


def _cond(op: ops.control.Cond, args: list[Any], which: int) -> Blame | None:
    index = min(max(int(args[0]), 0), len(op.branches) - 1)
    return _in_program(op.branches[index], args[1:], which)


def _solve(op: ops.control.LinearSolve, args: list[Any], which: int) -> Blame | None:
    _, consts, _, b = op.parts(args)
    return _in_program(op.solve, [*consts, *b], which)


def _scan(op: ops.control.Scan, args: list[Any], which: int) -> Blame | None:
    consts, carry, xs = op.parts(args)
    rows = range(op.length)

    def given(k: int, state: list[Any]) -> list[Any]:
        row = rows[-1 - k] if op.reverse else rows[k]
        return [*consts, *state, *(x[row] for x in xs)]

    return _in_rounds(op.jaxpr, given, carry, op.length, which, "scan")


def _while(op: ops.control.While, args: list[Any], which: int) -> Blame | None:
    cond_consts, body_consts, carry = op.parts(args)
    going = Jit(op.cond_jaxpr, "cond")

    def given(k: int, state: list[Any]) -> list[Any] | None:
        return [*body_consts, *state] if bool(_run(going, [*cond_consts, *state])[0]) else None

    return _in_rounds(op.body_jaxpr, given, carry, None, which, "while loop")


def _in_rounds(
    body: ClosedJaxpr,
    given: Callable[[int, list[Any]], list[Any] | None],
    carry: list[Any],
    length: int | None,
    which: int,
    what: str,
) -> Blame | None:
    """The first round that makes a bad value of good ones; whole rounds run compiled."""
    program, n = Jit(body, "body"), len(carry)
    k, bad = 0, [bool(what_is_wrong(x)) for x in carry]
    while length is None or k < length:
        args = given(k, carry)
        if args is None:
            return None
        outs = _run(program, args)
        wrong = [bool(what_is_wrong(x)) for x in outs]
        fresh = [j for j, w in enumerate(wrong) if w and (j >= n or not bad[j])]
        # A result that nobody asked about may be bad for itself.
        if fresh and (which < n or which in fresh or any(j < n for j in fresh)):
            found = _in_program(body, args, which if which in fresh else fresh[0])
            if found is not None:
                return found._replace(notes=(*found.notes, f"in round {k} of a {what}"))
        carry, bad = list(outs[:n]), wrong[:n]
        k += 1
    return None


_INSIDE: Final[dict[str, Callable[..., Blame | None]]] = {
    "cond": _cond, "scan": _scan, "while": _while, "linear_solve": _solve,
}  # fmt: skip
