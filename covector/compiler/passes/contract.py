"""Contractions: transposes of an operand become part of the dimension numbers."""

from __future__ import annotations

from typing import Any

from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr


def absorb_transposes(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose `dot_general`s read their operands before they were transposed, where
    that keeps the order of the result's axes."""
    out = Writer()
    transposed: dict[Any, Equation] = {}
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if eqn.op.name == "transpose":
            transposed[eqn.outvars[0]] = eqn
        elif eqn.op.name == "dot_general":
            new = _absorbed(eqn, invars, transposed)
            if new is not None:
                out.eqns.append(new)
                continue
        out.copy(eqn, invars)
    return out.finish(jaxpr)


def _absorbed(eqn: Equation, invars: list[Any], transposed: dict[Any, Equation]) -> Equation | None:
    contract, batch = (list(pair) for pair in eqn.op.params["dimension_numbers"])
    changed = False
    for side in (0, 1):
        made = transposed.get(invars[side])
        if made is None:
            continue
        permutation = made.op.params["permutation"]
        used = {*contract[side], *batch[side]}
        kept = [permutation[d] for d in range(len(permutation)) if d not in used]
        if kept != sorted(kept):
            continue  # the result's axes would change their order
        contract[side] = tuple(permutation[d] for d in contract[side])
        batch[side] = tuple(permutation[d] for d in batch[side])
        invars[side] = made.invars[0]
        changed = True
    if not changed:
        return None
    numbers = (tuple(contract), tuple(batch))
    return eqn.replace(op=eqn.op.with_params(dimension_numbers=numbers), invars=invars)
