"""Trees of arrays as one flat array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from covector import dtypes, numpy, ops, tree
from covector.api.arguments import avals_of, check_values
from covector.api.arrays import as_array

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(all elements as one array of rank 1, a function that makes such an array a tree again).

    The dtype is what those of the leaves promote to; the function gives each leaf its own back.
    It raises ValueError for an array of another length, TypeError for one of another dtype.

    >>> from covector.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"a": 1.0, "b": [2.0, 3.0]})
    >>> flat.tolist()
    [1.0, 2.0, 3.0]
    >>> [float(x) for x in unravel(flat * 2)["b"]]
    [4.0, 6.0]
    """
    leaves, structure = tree.flatten(pytree)
    check_values(leaves, pytree, "the argument of ravel_pytree")
    arrays = [as_array(x) for x in leaves]
    avals = avals_of(arrays)
    dtype = dtypes.result_type(*arrays) if arrays else dtypes.default_float()
    sizes = [math.prod(a.shape) for a in avals]
    total = sum(sizes)
    parts = [numpy.ravel(x).astype(dtype) for x in arrays]
    flat = ops.shape.concatenate(parts, 0) if parts else numpy.zeros(0, dtype)

    def unravel(flat: Any) -> Any:
        flat = as_array(flat)
        (aval,) = avals_of([flat])
        if aval.shape != (total,):
            raise ValueError(
                f"unravel takes an array of shape ({total},), as ravel_pytree gave; got "
                f"{aval.str_short()}"
            )
        if aval.dtype != dtype:
            raise TypeError(
                f"unravel takes an array of dtype {dtype}, as ravel_pytree gave; got "
                f"{aval.str_short()}"
            )
        out: list[Any] = []
        start = 0
        for a, n in zip(avals, sizes, strict=True):
            part = ops.pieces.slice_along(flat, 0, start, start + n)
            out.append(numpy.reshape(part, a.shape).astype(a.dtype))
            start += n
        return tree.unflatten(structure, out)

    return flat, unravel
