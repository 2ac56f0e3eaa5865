"""Long reductions to few results, in two stages: parts that threads can share, then the rest.

The parts depend on shapes alone, so results do not depend on the number of threads; a float sum
in parts is also more exact.
"""

from __future__ import annotations

from typing import Any, Final

from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Equation, Jaxpr, Literal
from covector.ir.op import Op

REDUCTIONS: Final = frozenset({
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or",
    "reduce_xor",
})  # fmt: skip
#: Elements from which it is worth it, and results up to which their own loop is no parallel one.
LONG, FEW = 1 << 19, 256
#: Parts: enough for many threads, few enough to be cheap to combine.
PARTS: Final = 64


def split_reductions(jaxpr: Jaxpr) -> Jaxpr:
    """The program with such reductions as two."""
    out = Writer()
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        if eqn.op.name not in REDUCTIONS or not _two_stages(eqn, invars[0], out):
            out.copy(eqn, invars)
    return out.finish(jaxpr)


def _two_stages(eqn: Equation, x: Any, out: Writer) -> bool:
    """Write `eqn` as two reductions; False if it is short, or does not divide."""
    shape, result = x.aval.shape, eqn.outvars[0].aval
    axes: tuple[int, ...] = tuple(sorted(eqn.op.params["axes"]))
    if isinstance(x, Literal) or x.aval.size < LONG or result.size > FEW or not axes:
        return False
    first = axes[0]
    parts = _parts(shape[first])
    if parts is None or (shape[:first] and _size(shape[:first]) >= PARTS):
        return False
    count, rest = parts, shape[first] // parts
    divided = (*shape[:first], count, rest, *shape[first + 1 :])
    inner = tuple(d + 1 for d in axes)
    view = out.emit(Op.registry["reshape"](divided), [x], eqn)
    some = out.emit(eqn.op.with_params(axes=inner), [view], eqn)
    last = out.emit(eqn.op.with_params(axes=(first,)), [some], eqn)
    out.env[eqn.outvars[0]] = last
    return True


def _parts(n: int) -> int | None:
    """How many parts an axis of `n` is cut into, or None."""
    fits = [p for p in range(PARTS, 7, -1) if n % p == 0]
    return fits[0] if fits and n > fits[0] else (n if 8 <= n <= PARTS * 8 else None)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
