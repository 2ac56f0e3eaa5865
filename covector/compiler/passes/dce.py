"""Dead code: equations that neither an output nor an effect depends on."""

from __future__ import annotations

from covector.ir.jaxpr import Jaxpr
from covector.trace.stage import live_equations


def dead_code(jaxpr: Jaxpr) -> Jaxpr:
    """The program without them; unwanted results become `DropVar`."""
    eqns = live_equations(jaxpr.eqns, jaxpr.outvars)
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(eqns=eqns)
