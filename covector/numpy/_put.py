"""NumPy's in-place functions, out of place: `put`, `put_along_axis`, `place`, `fill_diagonal`."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import ops
from covector.numpy import convert
from covector.numpy._at import INT, IndexedUpdate
from covector.numpy._indexing import getitem


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """`a` with the elements at the flat positions `ind` replaced by `v`, which is repeated.

    `inplace` must be False: arrays are immutable, the result is a new one.  mode: 'clip',
    'wrap', or None, which drops what is out of bounds.

    >>> import covector.numpy as cnp
    >>> cnp.put(cnp.zeros(3), cnp.array([2]), 5.0, inplace=False).tolist()
    [0.0, 0.0, 5.0]
    """
    refuse_in_place("put", inplace)
    a, ind, v = (convert.array_operand("put", x) for x in (a, ind, v))
    ind, v = (ops.shape.reshape(x, (x.size,)) for x in (ind, v))
    if not ind.size or not v.size:
        return a
    flat = ops.shape.reshape(a, (a.size,))
    if mode == "wrap":
        n = convert.number(ind, a.size)
        rest = ops.pointwise.rem(ops.pointwise.add(ops.pointwise.rem(ind, n), n), n)
        ind, mode = rest, "drop"
    elif mode not in (None, "clip"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode!r}")
    repeated = ops.shape.tile(v, (-(-ind.size // v.size),))
    values = ops.shape.slice_along(repeated, 0, 0, ind.size)
    wrap = mode != "clip"
    out = IndexedUpdate(flat, ind).set(values, mode=mode, wrap_negative_indices=wrap)
    return ops.shape.reshape(out, a.shape)


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Any:
    """`arr` with, for every position, the element at the given place along `axis` replaced.

    `inplace` must be False: arrays are immutable, the result is a new one.

    >>> import covector.numpy as cnp
    >>> cnp.put_along_axis(cnp.zeros((1, 3)), cnp.array([[2]]), 5.0, 1, inplace=False).tolist()
    [[0.0, 0.0, 5.0]]
    """
    refuse_in_place("put_along_axis", inplace)
    arr, indices, values = (
        convert.array_operand("put_along_axis", x) for x in (arr, indices, values)
    )
    shape = arr.shape
    if axis is None:
        axis, arr = 0, ops.shape.reshape(arr, (arr.size,))
    if not convert.is_kind(indices, np.integer):
        raise TypeError(f"put_along_axis: indices must have an integer type; got {indices.dtype}")
    if arr.ndim != indices.ndim:
        raise ValueError(
            "put_along_axis arguments 'arr' and 'indices' must have same ndim. "
            f"Got {arr.ndim=} and {indices.ndim=}."
        )
    axis = convert.canonical_axis(axis, arr.ndim, "put_along_axis")
    index = []
    for d, n in enumerate(arr.shape):
        sizes = [n if k == d else 1 for k in range(arr.ndim)]
        index.append(indices if d == axis else ops.shape.iota(INT, sizes, d))
    out = IndexedUpdate(arr, tuple(index)).set(values, mode=mode)
    return ops.shape.reshape(out, shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """`arr` with the elements where `mask` holds replaced by `vals` in turn, which are repeated.

    `inplace` must be False: arrays are immutable, the result is a new one.

    >>> import covector.numpy as cnp
    >>> cnp.place(cnp.arange(3), cnp.arange(3) > 0, cnp.array([7, 8]), inplace=False).tolist()
    [0, 7, 8]
    """
    refuse_in_place("place", inplace)
    arr, mask, vals = (convert.array_operand("place", x) for x in (arr, mask, vals))
    if arr.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    if not vals.size:
        raise ValueError("Cannot place values from an empty array")
    if not arr.size:
        return arr
    flat, chosen = (ops.shape.reshape(x, (x.size,)) for x in (arr, mask))
    chosen = ops.cast.convert_element_type(chosen, np.dtype(np.bool_))
    rank = ops.cumulative.cumsum(convert.cast(chosen, INT), 0)
    rank = ops.pointwise.sub(rank, np.int32(1))
    turn = ops.pointwise.rem(ops.pointwise.max_(rank, np.int32(0)), np.int32(vals.size))
    values = getitem(ops.shape.reshape(vals, (vals.size,)), turn)
    out = ops.pointwise.where(chosen, convert.cast(values, arr.dtype), flat)
    return ops.shape.reshape(out, arr.shape)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """`a` with `val` (broadcast) on its main diagonal: where all indices are equal.

    `inplace` must be False: arrays are immutable, the result is a new one.

    >>> import covector.numpy as cnp
    >>> cnp.fill_diagonal(cnp.zeros((2, 2)), 1, inplace=False).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if inplace:
        raise NotImplementedError("fill_diagonal: arrays are immutable; pass inplace=False")
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not implemented")
    a, val = (convert.array_operand("fill_diagonal", x) for x in (a, val))
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = min(a.shape)
    if val.ndim:
        flat = ops.shape.reshape(val, (val.size,))
        flat = ops.shape.tile(flat, (-(-n // val.size),)) if val.size else flat
        val = ops.shape.slice_along(flat, 0, 0, n)
    place = ops.shape.iota(INT, (n,), 0)
    return IndexedUpdate(a, (place,) * a.ndim).set(val, unique_indices=True)


def refuse_in_place(who: str, inplace: bool) -> None:
    """NumPy changes its argument; that has no meaning for immutable arrays."""
    if inplace:
        raise ValueError(
            f"{who}: arrays are immutable and must be updated out of place; pass inplace=False"
        )
