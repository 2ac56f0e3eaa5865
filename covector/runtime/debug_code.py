"""The test of `debug_nans` and `debug_infs` inside compiled programs: one more result, a bool.

It is computed by equations of the program, so that it is fused with what makes the results.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Var
from covector.ops.call import Jit
from covector.trace.stage import trace_to_jaxpr

_FLAG: Final = ShapedArray((), "bool")
_inexact: Final[dict[Any, bool]] = {}


def with_test(closed: ClosedJaxpr, nans: bool, infs: bool) -> ClosedJaxpr | None:
    """The program with one more result: whether another one has a NaN, or an infinity.

    None if none of them can have one.
    """
    body = closed.jaxpr
    tested = [v for v in dict.fromkeys(body.outvars) if can_be_bad(v.aval)]
    if not tested:
        return None

    def test(*values: Any) -> list[Any]:
        found = [_bad(x, nans, infs) for x in values]
        while len(found) > 1:
            found = [*map(ops.pointwise.or_, found[::2], found[1::2]), *found[len(found) & -2 :]]
        return found

    flag = Var(_FLAG)
    call = Jit(trace_to_jaxpr(test, [v.aval for v in tested], "debug_values"), "debug_values")
    eqns = [*body.eqns, Equation(call, tested, [flag])]
    return ClosedJaxpr(body.replace(eqns=eqns, outvars=[*body.outvars, flag]), closed.consts)


def can_be_bad(aval: ShapedArray) -> bool:
    """Whether an array of this type can have a NaN or an infinity."""
    found = _inexact.get(aval.dtype)
    if found is None:
        found = _inexact[aval.dtype] = dtypes.issubdtype(aval.dtype, np.inexact)
    return found and aval.size > 0


def _bad(x: Any, nans: bool, infs: bool) -> Any:
    """Whether an element is bad."""
    point, dtype = ops.pointwise, np.dtype(x.dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        parts = (ops.complex_parts.real(x), ops.complex_parts.imag(x))
        return point.or_(*(_bad(part, nans, infs) for part in parts))
    if dtype.itemsize == 1:
        x = ops.cast.convert_element_type(x, np.float32)
    if not infs:
        bad = point.ne(x, x)
    elif nans:
        bad = point.not_(point.is_finite(x))
    else:
        bad = point.eq(point.abs_(x), np.asarray(np.inf, x.dtype)[()])
    return ops.reduce.reduce_or(bad, tuple(range(x.ndim)))
