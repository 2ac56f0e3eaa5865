"""Contractions: transposes of an operand become part of the dimension numbers; one of the result
that exchanges its two parts exchanges the operands."""

from __future__ import annotations

from collections import Counter
from typing import Any

from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr, Var


def absorb_transposes(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose `dot_general`s read their operands before they were transposed, where
    that keeps the order of the result's axes."""
    out = Writer()
    transposed: dict[Any, Equation] = {}
    dots: dict[Any, Equation] = {}
    uses = Counter(v for e in jaxpr.eqns for v in e.invars if isinstance(v, Var))
    uses.update(v for v in jaxpr.outvars if isinstance(v, Var))
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if eqn.op.name == "transpose":
            source = eqn.invars[0]
            dot = dots.get(source) if isinstance(source, Var) and uses[source] == 1 else None
            swapped = _exchanged(eqn, dot) if dot is not None else None
            if swapped is not None:
                out.eqns.append(swapped)
                continue
            transposed[eqn.outvars[0]] = eqn
        elif eqn.op.name == "dot_general":
            new = _absorbed(eqn, invars, transposed) or eqn.replace(invars=invars)
            dots[eqn.outvars[0]] = new
            out.eqns.append(new)
            continue
        out.copy(eqn, invars)
    return out.finish(jaxpr)


def _exchanged(eqn: Equation, dot: Equation) -> Equation | None:
    """The contraction that gives the transposed result at once, if its order of axes is one that
    exchanging the operands gives."""
    contract, batch = dot.op.params["dimension_numbers"]
    count = len(batch[0])
    left = dot.invars[0].aval.ndim - count - len(contract[0])
    rank = dot.outvars[0].aval.ndim
    order = (*range(count), *range(count + left, rank), *range(count, count + left))
    if eqn.op.params["permutation"] != order:
        return None
    numbers = (contract[::-1], batch[::-1])
    op = dot.op.with_params(dimension_numbers=numbers)
    return dot.replace(op=op, invars=dot.invars[::-1], outvars=eqn.outvars)


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
