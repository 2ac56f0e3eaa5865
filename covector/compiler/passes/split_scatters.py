"""Many updates of few elements, in parts that threads can share: each has a table of its own.

    x.at[i].add(u)  =  x + sum of (zeros.at[i of the part].add(u of the part)) over the parts

The parts depend on shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from covector.compiler.loops.interpret import identity
from covector.compiler.passes.rewrite import Writer
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Equation, Jaxpr, Literal
from covector.ir.op import Op

#: Elements of the updates from which it is worth it.
MANY: Final = 1 << 17
#: Parts at most: enough for many threads, few enough to be cheap to combine.
PARTS: Final = 16
#: Updates of a part for each element of its table, at least: filling the tables and adding them up
#: moves each element three times.  Two parts, which two threads share, need fewer.
DENSE: Final = 16
DENSE_OF_TWO: Final = 4
#: How tables are combined: (the reduction, the operation with the operand, the kind).
COMBINED: Final = {
    "scatter-add": ("reduce_sum", "add", "sum"),
    "scatter-sub": ("reduce_sum", "add", "sum"),
    "scatter-mul": ("reduce_prod", "mul", "prod"),
    "scatter-min": ("reduce_min", "min", "min"),
    "scatter-max": ("reduce_max", "max", "max"),
}


def split_scatters(jaxpr: Jaxpr) -> Jaxpr:
    """The program with such scatters in parts."""
    out = Writer()
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        parts = _parts(eqn) if eqn.op.name in COMBINED else 0
        if parts > 1:
            out.env[eqn.outvars[0]] = _in_parts(eqn, invars, parts, out)
        else:
            out.copy(eqn, invars)
    return out.finish(jaxpr)


def _parts(eqn: Equation) -> int:
    """How many parts the updates are cut into: along the one axis of index vectors, the first."""
    x, indices, updates = (v.aval for v in eqn.invars)
    numbers = eqn.op.params["dimension_numbers"]
    if len(indices.shape) != 2 or numbers.operand_batching_dims or x.size == 0:
        return 0
    if updates.size < MANY or 0 in numbers.update_window_dims or x.dtype == np.dtype(bool):
        return 0
    count = indices.shape[0]
    most = max(updates.size // (DENSE * x.size), min(2, updates.size // (DENSE_OF_TWO * x.size)))
    most = min(PARTS, count, most)
    return next((p for p in range(most, most // 2, -1) if count % p == 0), most)


def _in_parts(eqn: Equation, invars: list[Any], parts: int, out: Writer) -> Any:
    """Write it; what is left over of the index vectors is done last, one after the other."""
    x, indices, updates = invars
    op: Any = eqn.op
    registry = Op.registry
    reduction, join, kind = COMBINED[op.name]
    length = indices.aval.shape[0] // parts

    def cut(v: Any, low: int, high: int) -> Any:
        shape = v.aval.shape
        if (low, high) == (0, shape[0]):
            return v
        ends = (low, *(0 for _ in shape[1:])), (high, *shape[1:])
        return out.emit(registry["slice"](*ends, None), [v], eqn)

    def part(v: Any) -> Any:
        shape = (parts, length, *v.aval.shape[1:])
        return out.emit(registry["reshape"](shape), [cut(v, 0, parts * length)], eqn)

    dtype = x.aval.dtype
    number = np.asarray(identity(kind, dtype.name), dtype)[()]
    fill = registry["broadcast_in_dim"]((parts, *x.aval.shape), ())
    tables = out.emit(fill, [Literal(number, ShapedArray((), dtype))], eqn)
    tables = out.emit(op.over_leading_axis(True), [tables, part(indices), part(updates)], eqn)
    total = out.emit(registry[reduction](axes=(0,)), [tables], eqn)
    total = out.emit(registry[join](), [x, total], eqn)
    count = indices.aval.shape[0]
    if parts * length == count:
        return total
    rest = [cut(v, parts * length, count) for v in (indices, updates)]
    return out.emit(op, [total, *rest], eqn)
