"""Nested programs of control flow: each goes through the whole pipeline; their constants become
operands of the equation."""

from __future__ import annotations

from collections.abc import Callable

from covector.compiler import control
from covector.compiler.passes.rewrite import Constants, Writer
from covector.ir.jaxpr import ClosedJaxpr

Prepare = Callable[[ClosedJaxpr], ClosedJaxpr]


def prepare_nested(closed: ClosedJaxpr, prepare: Prepare) -> ClosedJaxpr:
    """The program with `prepare` applied to every nested one."""
    if not any(e.op.name in control.CONTROL for e in closed.eqns):
        return closed
    out, constants = Writer(), Constants(closed)
    for eqn in closed.eqns:
        if eqn.op.name in control.CONTROL:
            programs = [prepare(p) for p in control.nested(eqn.op)]
            eqn = control.hoist(eqn, programs, constants.variable)
        out.eqns.append(eqn)
    jaxpr = closed.jaxpr.replace(constvars=constants.variables, eqns=out.eqns)
    return ClosedJaxpr(jaxpr, constants.values)
