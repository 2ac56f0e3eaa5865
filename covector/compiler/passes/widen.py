"""Products of narrow floats become products of float32, which the library has: what converts the
operands is made once for each element, not once for each product."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from covector import dtypes
from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr
from covector.ops.cast import ConvertElementType

#: Rows and columns from which converting both operands costs little beside their product.
LEAST: Final = 16
_WIDE: Final = np.dtype(np.float32)
_NARROW: Final = frozenset(map(np.dtype, (np.float16, dtypes.bfloat16)))


def widen_products(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose large contractions of float16 and bfloat16 multiply float32."""
    out = Writer()
    for eqn in jaxpr.eqns:
        if eqn.op.name != "dot_general" or not _worth(eqn):
            out.copy(eqn, out.reads(eqn.invars))
            continue
        wide = [
            x if x.aval.dtype == _WIDE else out.emit(ConvertElementType(_WIDE), [x], eqn)
            for x in out.reads(eqn.invars)
        ]
        product = eqn.op.with_params(preferred_element_type=None)
        (result,) = eqn.outvars
        if result.aval.dtype == _WIDE:
            out.eqns.append(eqn.replace(op=product, invars=wide))
            continue
        total = out.emit(product, wide, eqn)
        narrow = ConvertElementType(result.aval.dtype, result.aval.weak_type)
        out.eqns.append(Equation(narrow, [total], [result], eqn.source, eqn.scope))
    return out.finish(jaxpr)


def _worth(eqn: Equation) -> bool:
    x, y = (v.aval for v in eqn.invars)
    kinds = {x.dtype, y.dtype}
    if not kinds & _NARROW or not {*kinds, eqn.outvars[0].aval.dtype} <= {*_NARROW, _WIDE}:
        return False
    contract, batch = eqn.op.params["dimension_numbers"]
    shared = max(math.prod(x.shape[d] for d in (*contract[0], *batch[0])), 1)
    return min(x.size, y.size) >= LEAST * shared
