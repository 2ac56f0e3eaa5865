"""Slices: at places known when the program is traced, or at run time (`dynamic_…`)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from covector import dtypes, ops
from covector._base.containers import is_listed
from covector.ir.values import typeof
from covector.lax._arguments import axis_in, integers


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """`operand[start:limit:stride]` along every axis, all of them within its shape.

    TypeError unless 0 <= start <= limit <= size and stride > 0.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.slice(jnp.arange(10), (2,), (9,), (3,)))
    [2 5 8]
    """
    steps = None if strides is None else integers(strides)
    if steps is not None and all(s == 1 for s in steps) and len(steps) == typeof(operand).ndim:
        steps = None
    return ops.shape.Slice(integers(start_indices), integers(limit_indices), steps)(operand)


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """`slice` along one axis; negative indices count from the end, None is an end.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.slice_in_dim(jnp.arange(5), 1, -1))
    [1 2 3]
    """
    shape = typeof(operand).shape
    axis = axis_in(axis, len(shape))
    start, limit = (
        default if i is None else operator.index(i) + shape[axis] * (i < 0)
        for i, default in ((start_index, 0), (limit_index, shape[axis]))
    )
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, limit, operator.index(stride)
    return slice(operand, starts, limits, steps)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The element `index` along one axis; IndexError if there is none.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.index_in_dim(jnp.arange(6).reshape(2, 3), -1, axis=1, keepdims=False))
    [2 5]
    """
    shape = typeof(operand).shape
    axis, index = axis_in(axis, len(shape)), operator.index(index)
    size = shape[axis]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    out = slice_in_dim(operand, index % size, index % size + 1, 1, axis)
    return out if keepdims else ops.shape.squeeze(out, (axis,))


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The window of `slice_sizes` that begins at `start_indices`, which may be traced values.

    `start_indices`: one scalar integer for each axis (or a 1-D array), all of one dtype.
    Negative ones count from the end, if allowed; then all are clipped so that the window fits.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_slice(jnp.arange(10), (7,), (4,)))
    [6 7 8 9]
    """
    starts = _starts(operand, start_indices, allow_negative_indices)
    return ops.slicing.dynamic_slice(operand, starts, integers(slice_sizes))


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """`operand` with `update` in the window at `start_indices`; see `dynamic_slice` for these.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (3,)))
    [0. 0. 1. 1.]
    """
    starts = _starts(operand, start_indices, allow_negative_indices)
    return ops.slicing.dynamic_update_slice(operand, update, starts)


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_slice` along one axis, whole along the others.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_slice_in_dim(jnp.arange(10), 3, 2))
    [3 4]
    """
    sizes = list(typeof(operand).shape)
    axis = axis_in(axis, len(sizes))
    sizes[axis] = operator.index(slice_size)
    starts = _along(start_index, axis, len(sizes))
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """The element at `index`, which may be a traced value, along one axis (clipped).

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_index_in_dim(jnp.arange(6).reshape(2, 3), 1, keepdims=False))
    [3 4 5]
    """
    axis = axis_in(axis, typeof(operand).ndim)
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else ops.shape.squeeze(out, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any,
    update: Any,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` at 0 along every axis but one.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, axis=0))
    [0. 1. 1. 0.]
    """
    ndim = typeof(operand).ndim
    starts = _along(start_index, axis_in(axis, ndim), ndim)
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`operand` with `update` (without that axis, or of size 1 along it) at `index` of one axis.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, axis=0))
    [0. 7. 0.]
    """
    ndim = typeof(operand).ndim
    axis = axis_in(axis, ndim)
    if typeof(update).ndim != ndim:
        update = ops.shape.expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def _along(start: Any, axis: int, ndim: int) -> list[Any]:
    starts: list[Any] = [0] * ndim
    starts[axis] = start
    return starts


def _starts(operand: Any, starts: Any, allow_negative: bool | Sequence[bool]) -> list[Any]:
    """Start indices as scalars of one dtype; negative ones counted from the end."""
    shape = typeof(operand).shape
    if isinstance(starts, np.ndarray):
        starts = [*starts]
    elif is_listed(starts):
        starts = list(starts)
    elif typeof(starts).ndim == 1:
        starts = ops.shape.unstack(starts)
    else:
        raise TypeError(
            f"start_indices must be a sequence of scalars or a 1-D array; got "
            f"{typeof(starts).str_short()}"
        )
    if len(starts) != len(shape):
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {shape})"
        )
    allowed = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else allow_negative
    wide = any(n > np.iinfo(np.int32).max for n in shape)
    plain = np.dtype(np.int64 if wide else np.int32)
    given = [typeof(s).dtype for s in starts if not isinstance(s, int) or isinstance(s, bool)]
    # Python integers take the dtype of the others, if these are wide enough for the shape.
    if len(set(given)) == 1 and dtypes.issubdtype(given[0], np.integer):
        plain = max(plain, given[0], key=lambda dtype: (dtype.itemsize, dtype == given[0]))
    return [
        _start(s, n, negative, plain) for s, n, negative in zip(starts, shape, allowed, strict=True)
    ]


def _start(start: Any, size: int, allow_negative: bool, plain: np.dtype) -> Any:
    if isinstance(start, (int, np.integer)) and not isinstance(start, bool):
        start = operator.index(cast("SupportsIndex", start))
        if start < 0 and allow_negative:
            start += size
        return plain.type(min(max(start, 0), size))
    aval = typeof(start)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        return start  # refused by the operation
    if aval.dtype.itemsize < plain.itemsize or aval.weak_type:
        start = ops.cast.convert_element_type(start, plain)
    dtype = typeof(start).dtype
    if not allow_negative or dtype.kind == "u":
        return start
    point = ops.pointwise
    zero, n = np.zeros((), dtype), np.asarray(size, dtype)
    return point.select_n(point.lt(start, zero), start, point.add(start, n))
