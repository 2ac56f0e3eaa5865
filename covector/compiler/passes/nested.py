"""Nested programs of control flow: each goes through the whole pipeline; their constants become
operands of the equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from covector.compiler import control
from covector.compiler.passes.rewrite import Writer
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Var

Prepare = Callable[[ClosedJaxpr], ClosedJaxpr]


def prepare_nested(closed: ClosedJaxpr, prepare: Prepare) -> ClosedJaxpr:
    """The program with `prepare` applied to every nested one."""
    if not any(e.op.name in control.CONTROL for e in closed.eqns):
        return closed
    out = Writer()
    constvars, consts = list(closed.jaxpr.constvars), list(closed.consts)
    known = {id(c): v for v, c in zip(constvars, consts, strict=True)}

    def constant(c: Any, aval: ShapedArray) -> Var:
        if id(c) not in known:
            known[id(c)] = Var(aval)
            constvars.append(known[id(c)])
            consts.append(c)
        return known[id(c)]

    for eqn in closed.eqns:
        if eqn.op.name in control.CONTROL:
            programs = [prepare(p) for p in control.nested(eqn.op)]
            eqn = control.hoist(eqn, programs, constant)
        out.eqns.append(eqn)
    jaxpr = closed.jaxpr.replace(constvars=constvars, eqns=out.eqns)
    return ClosedJaxpr(jaxpr, consts)
