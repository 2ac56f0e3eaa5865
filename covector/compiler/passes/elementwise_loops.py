"""Loops over a batch of scalar programs become `each`: one kernel, with loops inside it."""

from __future__ import annotations

from covector.compiler.loops.each import each_of
from covector.ir.jaxpr import Jaxpr


def elementwise_loops(jaxpr: Jaxpr) -> Jaxpr:
    """The program with every scan that is a map of scalars in that form."""
    if not any(e.op.name == "scan" for e in jaxpr.eqns):
        return jaxpr
    return jaxpr.replace(eqns=[each_of(e) or e for e in jaxpr.eqns])
