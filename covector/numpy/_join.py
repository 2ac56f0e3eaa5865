"""Joining arrays and cutting them apart."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.api.arrays import as_array
from covector.numpy import convert
from covector.numpy._creation import asarray
from covector.numpy._indexing import getitem
from covector.numpy._shape import atleast_1d, atleast_2d, atleast_3d
from covector.numpy.convert import (
    array_operand,
    array_operands,
    canonical_axis,
    operands,
    promote,
    strong,
    user_dtype,
)
from covector.runtime.array import Array
from covector.runtime.eager import eager
from covector.trace.tracer import Tracer


def _common(who: str, arrays: Sequence[Any], dtype: Any) -> list[Any]:
    wanted = user_dtype(dtype, who)
    if wanted is not None:
        return [strong(x, wanted) for x in arrays]
    return [as_array(x) for x in promote(*arrays)]


@eager
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """The arrays joined along an axis they have (None: flattened first).

    Raises TypeError if the other axes differ, ValueError for no arrays.

    >>> import covector.numpy as cnp
    >>> cnp.concatenate([cnp.arange(2), cnp.arange(1)]).tolist()
    [0, 1, 0]
    """
    parts = array_operands("concatenate", arrays)
    if not parts:
        raise ValueError("Need at least one array to concatenate.")
    if axis is None:
        axis, parts = 0, [ops.shape.reshape(x, (x.size,)) for x in parts]
    if not parts[0].ndim:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, parts[0].ndim, "concatenate")
    return ops.shape.concatenate(_common("concatenate", parts, dtype), axis)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """The arrays joined along an axis they have; see `concatenate`.

    >>> import covector.numpy as cnp
    >>> cnp.concat([cnp.arange(2), cnp.arange(1)]).tolist()
    [0, 1, 0]
    """
    return concatenate(arrays, axis)


@eager
def stack(arrays: Any, axis: int = 0, out: Any = None, dtype: Any = None) -> Any:
    """The arrays, of one shape, along a new axis.

    >>> import covector.numpy as cnp
    >>> cnp.stack([cnp.arange(2), cnp.arange(2)]).tolist()
    [[0, 1], [0, 1]]
    """
    convert.refuse_out("stack", out)
    parts = array_operands("stack", arrays)
    if not parts:
        raise ValueError("Need at least one array to stack.")
    shapes = {x.shape for x in parts}
    if len(shapes) > 1:
        raise ValueError(f"All input arrays must have the same shape; got {sorted(shapes)}")
    axis = canonical_axis(axis, parts[0].ndim + 1, "stack")
    return ops.shape.stack(_common("stack", parts, dtype), axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along `axis`, without that axis.

    >>> import covector.numpy as cnp
    >>> [row.tolist() for row in cnp.unstack(cnp.ones((2, 1)))]
    [[1.0], [1.0]]
    """
    x = array_operand("unstack", x)
    if not x.ndim:
        raise ValueError(
            "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    axis = canonical_axis(axis, x.ndim, "unstack")
    return tuple(ops.shape.unstack(x, axis))


def vstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays as rows, joined along the first axis.

    >>> import covector.numpy as cnp
    >>> cnp.vstack([cnp.arange(2), cnp.arange(2)]).tolist()
    [[0, 1], [0, 1]]
    """
    parts = [atleast_2d(x) for x in array_operands("vstack", tup)]
    return concatenate(parts, 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays joined along the second axis (1-d ones along the first).

    >>> import covector.numpy as cnp
    >>> cnp.hstack([cnp.arange(2), cnp.arange(2)]).tolist()
    [0, 1, 0, 1]
    """
    parts = [atleast_1d(x) for x in array_operands("hstack", tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays joined along the third axis.

    >>> import covector.numpy as cnp
    >>> cnp.dstack([cnp.arange(2), cnp.arange(2)]).tolist()
    [[[0, 0], [1, 1]]]
    """
    parts = [atleast_3d(x) for x in array_operands("dstack", tup)]
    return concatenate(parts, 2, dtype)


def column_stack(tup: Any) -> Any:
    """1-d arrays as columns, 2-d ones as they are, side by side.

    >>> import covector.numpy as cnp
    >>> cnp.column_stack([cnp.arange(2), cnp.arange(2)]).tolist()
    [[0, 0], [1, 1]]
    """
    parts = array_operands("column_stack", tup)
    columns = [ops.shape.reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in parts]
    return concatenate(columns, 1)


def block(arrays: Any) -> Any:
    """An array put together from nested lists of blocks: the innermost along the last axis.

    >>> import covector.numpy as cnp
    >>> cnp.block([[cnp.ones((1, 1)), cnp.zeros((1, 1))]]).tolist()
    [[1.0, 0.0]]
    """
    depth = _depth(arrays)
    blocks = _nested(arrays)
    rank = max([depth, *(x.ndim for x in _flat(blocks))])

    def join(parts: Any, level: int) -> Any:
        if not isinstance(parts, list):
            return ops.shape.reshape(parts, (*(1,) * (rank - parts.ndim), *parts.shape))
        return concatenate([join(p, level + 1) for p in parts], rank - depth + level)

    return join(blocks, 0)


def _nested(x: Any) -> Any:
    return [_nested(v) for v in x] if isinstance(x, list) else array_operand("block", x)


def _flat(x: Any) -> list[Any]:
    return [leaf for v in x for leaf in _flat(v)] if isinstance(x, list) else [x]


def _depth(x: Any) -> int:
    if isinstance(x, tuple):
        raise TypeError("block: use lists for the structure; tuples have no meaning here")
    if not isinstance(x, list):
        return 0
    if not x:
        raise ValueError("List at arrays cannot be empty")
    depths = {_depth(v) for v in x}
    if len(depths) > 1:
        raise ValueError("List depths are mismatched: every list must be nested equally deep")
    return depths.pop() + 1


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` joined to the end of `arr` along `axis` (None: both flattened).

    >>> import covector.numpy as cnp
    >>> cnp.append(cnp.arange(2), 9).tolist()
    [0, 1, 9]
    """
    arr, values = operands("append", arr, values)
    return concatenate([asarray(arr), asarray(values)], axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`arr` with `values` before the places `obj` along `axis` (None: flattened).

    `obj`: an integer, integers, or a slice, as places in the array that is given.

    >>> import covector.numpy as cnp
    >>> cnp.insert(cnp.array([1, 2]), 1, 9).tolist()
    [1, 9, 2]
    """
    arr, values = (asarray(x) for x in operands("insert", arr, values))
    if axis is None:
        axis, arr = 0, ops.shape.reshape(arr, (arr.size,))
    axis = canonical_axis(axis, arr.ndim, "insert")
    n = arr.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    elif isinstance(obj, (list, tuple)):
        obj = np.asarray(obj)
    places = convert.concrete(obj, "the places of insert, which decide a shape")
    if places.ndim > 1:
        raise ValueError("insert: places must be an integer, a slice or 1-d")
    if places.dtype.kind not in "iu" and places.size:
        raise TypeError(f"insert: places must be integers; got {places.dtype}")
    single = places.ndim == 0
    places = places.reshape(-1).astype(np.int64)
    places = np.clip(np.where(places < 0, places + n, places), 0, n)
    if single:
        # A single place takes all of the values; their first axis goes along the axis.
        rank = arr.ndim
        values = ops.shape.reshape(values, (*(1,) * (rank - values.ndim), *values.shape))
        values = ops.shape.move_axis(values, 0, axis)
        count = values.shape[axis]
        places = np.repeat(places, count)
    count = len(places)
    order = np.argsort(places, kind="stable")
    targets = places[order] + np.arange(count)
    wanted = list(arr.shape)
    wanted[axis] = count
    values = convert.broadcast_to(strong(values, arr.dtype), wanted)
    # Every slice of the result comes from one place of arr followed by values.
    source = np.zeros(n + count, np.int32)
    fresh = np.zeros(n + count, bool)
    fresh[targets] = True
    source[targets] = n + order
    source[~fresh] = np.arange(n)
    both = ops.shape.concatenate([strong(arr, arr.dtype), values], axis)
    return getitem(both, (*(slice(None),) * axis, source))


def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Any:
    """`arr` without the slices at the places `obj` along `axis` (None: flattened).

    `obj`: an integer, integers, a mask, or a slice.  A traced integer is clipped; traced integers
    need `assume_unique_indices`, for they decide the shape.  IndexError for places out of bounds,
    ValueError for one that is.

    >>> import covector.numpy as cnp
    >>> cnp.delete(cnp.array([1, 2, 3]), 1).tolist()
    [1, 3]
    """
    x = asarray(operands("delete", arr)[0])
    if axis is None:
        axis, x = 0, ops.shape.reshape(x, (x.size,))
    axis = canonical_axis(axis, x.ndim, "delete")
    n = x.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    (obj,) = operands("delete", obj)
    if isinstance(obj, Tracer) and obj.dtype != np.bool_ and (
        not obj.ndim or assume_unique_indices
    ):  # fmt: skip
        return _without_traced(x, obj, axis)
    places = convert.concrete(obj, "the places of delete: use assume_unique_indices=True")
    keep = np.ones(n, bool)
    if places.dtype == np.bool_:
        if places.shape != (n,):
            raise ValueError("delete: a mask must have one entry for each slice along the axis; "
                             f"got shape {places.shape} for {n}")  # fmt: skip
        keep = ~places
    else:
        if places.dtype.kind not in "iu" and places.size:
            raise ValueError(f"delete: places must be integers; got {places.dtype}")
        wrong = places[(places < -n) | (places >= n)]
        if wrong.size:
            error = IndexError if places.ndim else ValueError
            raise error(f"delete: {wrong[0]} is out of bounds for {n} slices along axis {axis}")
        keep[places.astype(np.int64)] = False
    return getitem(x, (*(slice(None),) * axis, np.flatnonzero(keep).astype(np.int32)))


def _without_traced(x: Any, places: Any, axis: int) -> Any:
    """Every kept slice k comes from place k plus the number of removed places up to there."""
    n, point = x.shape[axis], ops.pointwise
    places = ops.shape.reshape(convert.cast(places, np.dtype(np.int32)), (places.size,))
    negative = point.lt(places, np.int32(0))
    places = point.where(negative, point.add(places, np.int32(n)), places)
    places = point.clamp(np.int32(0), places, np.int32(n - 1))
    (places,) = ops.sort.sort([places], 0)
    count = places.size
    gaps = point.sub(places, ops.shape.iota(np.dtype(np.int32), (count,), 0))
    kept = ops.shape.iota(np.dtype(np.int32), (n - count,), 0)
    both = (n - count, count)
    passed = point.ge(
        ops.shape.broadcast_in_dim(kept, both, (0,)), ops.shape.broadcast_in_dim(gaps, both, (1,))
    )
    skipped = ops.reduce.reduce_sum(convert.cast(passed, np.dtype(np.int32)), (1,))
    return getitem(x, (*(slice(None),) * axis, point.add(kept, skipped)))


# Cutting apart


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Pieces along `axis`: so many equal ones, or cut before the given places.

    Raises ValueError if the sections do not come out equal.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.split(cnp.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`, but sections may differ by one: the first ones are longer.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.array_split(cnp.arange(3), 2)]
    [[0, 1], [2]]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the second axis (of 1-d arrays, the first); see `split`.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.hsplit(cnp.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the first axis; see `split`.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.vsplit(cnp.ones((2, 1)), 2)]
    [[[1.0]], [[1.0]]]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the third axis; see `split`.

    >>> import covector.numpy as cnp
    >>> [x.shape for x in cnp.dsplit(cnp.ones((1, 1, 2)), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def _split(who: str, ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    x = array_operand(who, ary)
    axis = canonical_axis(axis, x.ndim, who)
    n = x.shape[axis]
    if isinstance(indices_or_sections, (tuple, list)) or np.ndim(indices_or_sections):
        places = indices_or_sections
        if isinstance(places, (Array, Tracer)):
            places = convert.concrete(places, f"the places of {who}")
        cuts = [operator.index(i) for i in places]
        cuts = [min(max(c + n if c < 0 else c, 0), n) for c in cuts]
        bounds = [0, *cuts, n]
    else:
        sections = operator.index(
            convert.concrete(indices_or_sections, f"the number of sections of {who}")[()]
        )
        if sections <= 0:
            raise ValueError(f"{who}: number of sections must be larger than 0; got {sections}")
        each, longer = divmod(n, sections)
        if longer and who != "array_split":
            raise ValueError(f"array split does not result in an equal division: rest is {longer}")
        bounds = [0]
        for k in range(sections):
            bounds.append(bounds[-1] + each + (k < longer))
    pairs = itertools.pairwise(bounds)
    if sorted(bounds) == bounds:
        return list(ops.shape.split(x, [b - a for a, b in pairs], axis))
    return [ops.shape.slice_along(x, axis, a, max(a, b)) for a, b in pairs]


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The array without zeros at its front ('f') and back ('b'), along `axis` (None: all axes).

    >>> import covector.numpy as cnp
    >>> cnp.trim_zeros(cnp.array([0, 1, 2, 0])).tolist()
    [1, 2]
    """
    x = asarray(filt)
    numbers = convert.concrete(x, "trim_zeros: the result's shape depends on it") != 0
    axes = convert.canonical_axes(axis, x.ndim, "trim_zeros")
    index: list[slice] = [slice(None)] * x.ndim
    for d in axes:
        found = np.flatnonzero(numbers.any(tuple(k for k in range(x.ndim) if k != d)))
        first = int(found[0]) if found.size else x.shape[d]
        last = int(found[-1]) + 1 if found.size else x.shape[d]
        start = first if "f" in trim.lower() else 0
        stop = last if "b" in trim.lower() else x.shape[d]
        index[d] = slice(start, stop)
    return getitem(x, tuple(index))
