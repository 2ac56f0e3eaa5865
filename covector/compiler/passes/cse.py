"""Common subexpressions: equal ops of the same operands are computed once."""

from __future__ import annotations

from typing import Any

from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Jaxpr, Literal, Var


def common_subexpressions(jaxpr: Jaxpr) -> Jaxpr:
    """The program without equations that repeat an earlier one."""
    out = Writer()
    seen: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if eqn.effects:
            out.copy(eqn, invars)
            continue
        key = (eqn.op, *map(_operand, invars))
        before = seen.get(key)
        if before is None:
            seen[key] = eqn.outvars
            out.copy(eqn, invars)
            continue
        pairs = list(zip(before, eqn.outvars, strict=True))
        if any(not isinstance(old, Var) and isinstance(new, Var) for old, new in pairs):
            out.copy(eqn, invars)  # the earlier one dropped a result that this one wants
            continue
        out.env.update((new, old) for old, new in pairs)
    return out.finish(jaxpr)


def _operand(v: Any) -> Any:
    """Equal for operands that are the same; NaN and -0 by their bits."""
    if isinstance(v, Literal):
        return v.aval, v.val.tobytes() if hasattr(v.val, "tobytes") else repr(v.val)
    return v
