"""Along which named axes a program's values may differ, found without running it.

A value that differs along no axis is the same on all devices: a result that is to be replicated
must be one.  A `psum`, `pmax`, `pmin` makes values equal; what depends on the place makes them
differ; everything else keeps what its arguments have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ops.collective import AxisIndex, Collective, PVary, Reducer, axis_names
from covector.ops.collective_moves import PBroadcast

Names = frozenset[Any]
NONE: Names = frozenset()


def varying(jaxpr: Jaxpr, given: Sequence[Names], consts: Sequence[Names] = ()) -> list[Names]:
    """For each result, the axes along which it may differ, where the arguments do along `given`,
    and the constants along `consts`.
    """
    known: dict[Any, Names] = dict(zip(jaxpr.invars, given, strict=True))
    known.update(zip(jaxpr.constvars, consts, strict=False))
    spread(jaxpr.eqns, known)
    return [known.get(v, NONE) if isinstance(v, Var) else NONE for v in jaxpr.outvars]


def spread(eqns: Iterable[Equation], known: dict[Any, Names]) -> None:
    """Add what the equations define to `known`."""
    for eqn in eqns:
        args = [known.get(v, NONE) if isinstance(v, Var) else NONE for v in eqn.invars]
        known.update(zip(eqn.outvars, _of_results(eqn, args), strict=True))


def _of_results(eqn: Equation, args: Sequence[Names]) -> Sequence[Names]:
    op = eqn.op
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op, args)
    together = NONE.union(*args)
    if isinstance(op, Collective):
        named = frozenset(op.axis_names)
        equal = isinstance(op, (Reducer, PBroadcast)) and not isinstance(op, PVary)
        equal = equal and op.groups is None
        return [together - named if equal else together | named]
    body = op.params.get("jaxpr")
    if isinstance(body, ClosedJaxpr) and len(body.in_avals) == len(args):
        return varying(body.jaxpr, args)
    return [together | axis_names(op)] * len(eqn.outvars)


def _cond(op: Any, args: Sequence[Names]) -> list[Names]:
    which, *operands = args
    outs = [varying(b.jaxpr, operands) for b in op.branches]
    return [which.union(*each) for each in zip(*outs, strict=True)]


def _while(op: Any, args: Sequence[Names]) -> list[Names]:
    cond_consts, body_consts, carry = op.parts(args)
    while True:
        (going,) = varying(op.cond_jaxpr.jaxpr, [*cond_consts, *carry])
        made = varying(op.body_jaxpr.jaxpr, [*body_consts, *carry])
        new = [a | b | going for a, b in zip(carry, made, strict=True)]
        if new == carry:
            return new
        carry = new


def _scan(op: Any, args: Sequence[Names]) -> list[Names]:
    consts, carry, xs = op.parts(args)
    while True:
        made = varying(op.jaxpr.jaxpr, [*consts, *carry, *xs])
        new = [a | b for a, b in zip(carry, made, strict=False)]
        if new == carry:
            return [*carry, *made[len(carry) :]]
        carry = new


def _shard_map(op: Any, args: Sequence[Names]) -> list[Names]:
    own = frozenset(name for name, _ in op.mesh_axes)
    inside = [
        a | frozenset(name for names in spec for name in names)
        for a, spec in zip(args, op.in_specs, strict=True)
    ]
    return [names - own for names in varying(op.jaxpr.jaxpr, inside)]


def _axis_index(op: AxisIndex, args: Sequence[Names]) -> list[Names]:
    del args
    return [frozenset(op.axis_names)]


_RULES: dict[str, Any] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "shard_map": _shard_map,
    "axis_index": _axis_index,
}
