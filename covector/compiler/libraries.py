"""Which operations become library calls: where an own loop nest is not as fast, or not possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Op, has_rule

#: Multiplications of one matrix product up to which an own kernel, which can be fused, is faster
#: than a call of BLAS.
SMALL_PRODUCT: Final = 1024
#: Rows and columns of matrices, at most, for which linear algebra is straight-line code, and how
#: many of them there are at least: the lanes of a vector are examples, and code that grows with the
#: third power of the size takes as long to compile as calls of LAPACK for this share of it.
#: Complex ones are smaller: their products and quotients are long.
LARGEST_SMALL: Final = 8
LARGEST_COMPLEX: Final = 4
FEWEST_SMALL: Final = 16
SHARE: Final = 4


def chosen(op: Op, avals: Sequence[ShapedArray]) -> Library | None:
    """The routine that `op` should be for these arguments, or None for its own kernel."""
    if not has_rule(op, "library"):
        return None
    found = op.library(*avals)
    if found is None or not has_rule(op, "kernel"):
        return found
    own = OWN.get(found.name)
    return None if own is not None and own(avals, *found.attributes) else found


def is_small(op: Op, avals: Sequence[ShapedArray]) -> bool:
    """Whether `op` is linear algebra of many small matrices, which calls no library."""
    if not has_rule(op, "per_matrix"):
        return False
    *batch, m, n = avals[0].shape
    if math.prod(batch) < max(m * n * min(m, n) // SHARE, FEWEST_SMALL):
        return False
    outs = op.result(*avals)
    outs = outs if op.multiple_results else (outs,)
    cores = [n for a in (*avals, *outs) for n in a.shape[len(batch) :]]
    largest = LARGEST_SMALL if avals[0].dtype in _REAL else LARGEST_COMPLEX
    return min(cores) > 0 and max(cores) <= largest


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
    return math.prod(aval.shape[d] for d in axes)


_REAL: Final = frozenset(map(np.dtype, (np.float32, np.float64)))


#: library routine -> whether the own kernel is the better choice, from avals and attributes.
OWN: Final[dict[str, Callable[..., bool]]] = {"gemm": _small_product}
