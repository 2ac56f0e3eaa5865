"""Transposition: run a linear program backwards, cotangents of results to those of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covector import ops
from covector._base.context import context
from covector.ir.jaxpr import Equation, Jaxpr, Literal, Var
from covector.ir.op import Linear, has_rule
from covector.trace.stage import read_literal


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cts: Sequence[Any], tools: Any
) -> list[Any]:
    """Cotangents (None where zero) of the arguments given as `Linear`.

    `args`: a value for an argument the program is not linear in (it gets None), else a `Linear`.
    """
    known: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(
        (v, a) for v, a in zip(jaxpr.invars, args, strict=True) if not isinstance(a, Linear)
    )
    linear = _run_known(jaxpr, known)
    totals: dict[Any, Any] = {}
    for v, ct in zip(jaxpr.outvars, cts, strict=True):
        if isinstance(v, Var) and v not in known:
            _accumulate(totals, v, ct)
    outer = context.source
    try:
        for eqn in reversed(linear):
            # Of what is dropped there is none.
            outs: list[Any] = [totals.pop(v, None) for v in eqn.outvars]
            for ct in outs:
                if ct is not None:
                    break
            else:
                continue
            # What a forward line becomes, going back, belongs to it; a user's rule has own lines.
            context.source = outer if eqn.op.name == "custom_lin" else eqn.source or outer
            for v, ct in zip(eqn.invars, _transpose(eqn, outs, known, tools), strict=True):
                if ct is not None and isinstance(v, Var) and v not in known:
                    _accumulate(totals, v, ct)
    finally:
        context.source = outer
    return [totals.get(v) if isinstance(a, Linear) else None
            for v, a in zip(jaxpr.invars, args, strict=True)]  # fmt: skip


def _run_known(jaxpr: Jaxpr, known: dict[Var, Any]) -> list[Equation]:
    """Bind equations that depend on no linear argument; the rest, in order, is linear."""
    linear: list[Equation] = []
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if v not in known and type(v) is Var:
                linear.append(eqn)
                break
        else:
            out = eqn.op(*[_value(v, known) for v in eqn.invars])
            outs = out if eqn.op.multiple_results else [out]
            known.update((v, x) for v, x in zip(eqn.outvars, outs, strict=True)
                         if isinstance(v, Var))  # fmt: skip
    return linear


def _transpose(eqn: Equation, outs: list[Any], known: dict[Var, Any], tools: Any) -> Sequence[Any]:
    if not has_rule(eqn.op, "transpose"):
        raise NotImplementedError(
            f"{eqn.op.name} has no transpose rule: it is not linear in its arguments, so the "
            f"reverse derivative of this program does not exist (at {eqn.source})"
        )
    args = [
        read_literal(v) if type(v) is Literal else known[v] if v in known else Linear(v.aval)
        for v in eqn.invars
    ]
    ct = outs if eqn.op.multiple_results else outs[0]
    try:
        return eqn.op.transpose(tools, ct, *args)
    except TypeError as error:
        if "ir.op.Linear object" not in str(error):
            raise
        raise NotImplementedError(
            f"{eqn.op.name} is not linear in these arguments together, so it cannot be transposed "
            f"(at {eqn.source})"
        ) from None


def _value(v: Any, known: dict[Var, Any]) -> Any:
    return read_literal(v) if isinstance(v, Literal) else known[v]


def _accumulate(totals: dict[Any, Any], v: Var, ct: Any) -> None:
    if ct is None:
        return
    old = totals.get(v)
    totals[v] = ct if old is None else ops.pointwise.add(old, ct)
