"""Constants: scalar equations whose operands are all literals are computed now."""

from __future__ import annotations

import numpy as np

from covector import dtypes
from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr, Literal
from covector.ir.op import has_rule


def fold_constants(jaxpr: Jaxpr) -> Jaxpr:
    """The program with those results as literals."""
    out = Writer()
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if _known(eqn) and all(isinstance(v, Literal) for v in invars):
            with np.errstate(all="ignore"):
                value = eqn.op.numpy(*[np.asarray(v.val) for v in invars])  # type: ignore[union-attr]
            aval = eqn.outvars[0].aval
            out.env[eqn.outvars[0]] = Literal(np.asarray(value, aval.dtype)[()], aval)
        else:
            out.copy(eqn, invars)
    return out.finish(jaxpr)


def _known(eqn: Equation) -> bool:
    """Whether the equation gives one plain scalar, not a list of one, without effects."""
    if eqn.op.multiple_results or len(eqn.outvars) != 1 or eqn.effects or not eqn.invars:
        return False
    if eqn.outvars[0].aval.shape:
        return False
    dtype = eqn.outvars[0].aval.dtype
    return not isinstance(dtype, dtypes.ExtendedDType) and has_rule(eqn.op, "numpy")
