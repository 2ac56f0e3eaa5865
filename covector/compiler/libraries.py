"""Which operations become library calls: where an own loop nest is not as fast, or not possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Op, has_rule

#: Multiplications of one matrix product up to which an own kernel, which can be fused, is faster
#: than a call of BLAS.
SMALL_PRODUCT: Final = 1024


def chosen(op: Op, avals: Sequence[ShapedArray]) -> Library | None:
    """The routine that `op` should be for these arguments, or None for its own kernel."""
    if not has_rule(op, "library"):
        return None
    found = op.library(*avals)
    if found is None or not has_rule(op, "kernel"):
        return found
    own = OWN.get(found.name)
    return None if own is not None and own(avals, *found.attributes) else found


def _small_product(avals: Sequence[ShapedArray], numbers: Any, *_: Any) -> bool:
    """Vectors (memory-bound either way), empty and very small matrices."""
    x, y = avals
    (contract, _), (batch_axes, _) = numbers
    k = _size(x, contract)
    batch = _size(x, batch_axes)
    per = max(k * batch, 1)
    m, n = x.size // per, y.size // per
    return min(m, n) <= 1 or m * n * k <= SMALL_PRODUCT


def _size(aval: ShapedArray, axes: Sequence[int]) -> int:
    size = 1
    for d in axes:
        size *= aval.shape[d]
    return size


#: library routine -> whether the own kernel is the better choice, from avals and attributes.
OWN: Final[dict[str, Callable[..., bool]]] = {"gemm": _small_product}
