"""Views after arithmetic: an elementwise op of operands that one view made is that view of the op.

    div(broadcast(x), 128.0)  becomes  broadcast(div(x, 128.0))

The op then runs on as few elements as there are, views meet and merge, equal sums of different
shapes become equal equations.
"""

from __future__ import annotations

from typing import Any, Final

from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr, Literal, Var
from covector.ops.families import Pointwise

#: Views that only rename the places of elements, or repeat them.
VIEWS: Final = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose"})


def sink_views(jaxpr: Jaxpr) -> Jaxpr:
    """The program with views moved behind the elementwise ops that use them."""
    out = Writer()
    views: dict[Any, Equation] = {}
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        view = _common_view(eqn, invars, views)
        if view is None:
            out.copy(eqn, invars)
            new = out.eqns[-1]
        else:
            inner = [
                v if isinstance(v, Literal) or not v.aval.ndim else views[v].invars[0]
                for v in invars
            ]
            made = out.emit(eqn.op, inner, eqn)
            new = Equation(view.op, [made], eqn.outvars, eqn.source, eqn.scope)
            out.eqns.append(new)
        if new.op.name in VIEWS and isinstance(new.invars[0], Var):
            views[new.outvars[0]] = new
    return out.finish(jaxpr)


def _common_view(eqn: Equation, invars: list[Any], views: dict[Any, Equation]) -> Equation | None:
    """The view that made every array among the operands, all from one shape, or None."""
    if not isinstance(eqn.op, Pointwise) or len(eqn.outvars) != 1 or eqn.effects:
        return None
    arrays = [v for v in invars if v.aval.ndim]
    if not arrays:
        return None
    found = [views.get(v) for v in arrays]
    first = found[0]
    if first is None:
        return None
    shape = first.invars[0].aval.shape
    for view in found:
        if view is None or view.op != first.op or view.invars[0].aval.shape != shape:
            return None
    return first
