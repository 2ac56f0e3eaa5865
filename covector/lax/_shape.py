"""Functions that make arrays, rearrange, cut and join them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.lax._arguments import (
    as_array,
    axes_in,
    axis_in,
    broadcast_shapes,
    integers,
    user_dtype,
)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """`operand` repeated along new leading axes of these sizes.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.broadcast(jnp.array([1, 2]), (3,)))
    [[1 2]
     [1 2]
     [1 2]]
    """
    sizes = tuple(map(operator.index, sizes))
    if not sizes:
        return as_array(operand)
    shape = (*sizes, *typeof(operand).shape)
    return broadcast_in_dim(operand, shape, range(len(sizes), len(shape)))


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """`operand` with its axis k as axis `broadcast_dimensions[k]` of the result, of `shape`.

    Axes of size 1, and those the operand lacks, are repeated.  TypeError if sizes do not fit.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.broadcast_in_dim(jnp.array([1, 2]), (2, 3), (0,)))
    [[1 1 1]
     [2 2 2]]
    """
    return ops.shape.broadcast_in_dim(operand, integers(shape), integers(broadcast_dimensions))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """`x` with leading axes of size 1, so that it has at least `rank` axes.

    >>> from covector import lax, numpy as jnp
    >>> lax.broadcast_to_rank(jnp.zeros(3), 2).shape
    (1, 3)
    """
    missing = rank - typeof(x).ndim
    return as_array(ops.shape.expand_dims(x, range(max(missing, 0))))


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` broadcast to the shape of `like_arr`; ValueError if it does not fit.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.broadcast_like(1.0, jnp.zeros(2)))
    [1. 1.]
    """
    given, shape = typeof(arr).shape, typeof(like_arr).shape
    if len(given) > len(shape) or broadcast_shapes(given, shape) != shape:
        raise ValueError(f"broadcast_like: cannot broadcast an array of {given} to shape {shape}")
    return as_array(ops.shape.broadcast_to(arr, shape))


def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The elements of `operand`, in C order, in another shape with as many.

    `dimensions`: read the axes of `operand` in this order instead.  TypeError if the number of
    elements differs.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.reshape(jnp.arange(6), (2, 3)))
    [[0 1 2]
     [3 4 5]]
    """
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    return as_array(ops.shape.reshape(operand, integers(new_sizes)))


def transpose(operand: Any, permutation: Any) -> Any:
    """`operand` with axis `permutation[d]` as axis d; TypeError if it is no permutation.

    >>> from covector import lax, numpy as jnp
    >>> lax.transpose(jnp.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    permutation = integers(permutation)
    if permutation == tuple(range(typeof(operand).ndim)):
        return as_array(operand)
    return ops.shape.Transpose(permutation)(operand)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` without the axes `dimensions`, which must have size 1 (else ValueError).

    >>> from covector import lax, numpy as jnp
    >>> lax.squeeze(jnp.zeros((1, 3, 1)), (0, -1)).shape
    (3,)
    """
    return as_array(ops.shape.squeeze(array, axes_in(dimensions, typeof(array).ndim)))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` with new axes of size 1, at the places `dimensions` of the result.

    >>> from covector import lax, numpy as jnp
    >>> lax.expand_dims(jnp.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """
    dimensions = tuple(dimensions)
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {dimensions}")
    ndim = typeof(array).ndim + len(dimensions)
    axes = tuple(axis_in(d, ndim) for d in dimensions)
    return as_array(ops.shape.expand_dims(array, tuple(dict.fromkeys(axes))))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """`operand` with the axes from `start_dimension` up to `stop_dimension` merged into one.

    >>> from covector import lax, numpy as jnp
    >>> lax.collapse(jnp.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = typeof(operand).shape
    start, stop, _ = slice_of(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(
            f"Invalid dimension range passed to collapse: {shape}"
            f"[{start_dimension}:{stop_dimension}]"
        )
    merged = (*shape[:start], math.prod(shape[start:stop]), *shape[stop:])
    return as_array(ops.shape.reshape(operand, merged))


slice_of = slice  # `slice` is a function of this package


def pad(operand: Any, padding_value: Any, padding_config: Sequence[Sequence[int]]) -> Any:
    """`operand` surrounded by the scalar `padding_value`.

    `padding_config`: for each axis (low, high, interior): how many before, after, and between any
    two elements; negative low or high cut off.  Both arguments have one dtype.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.pad(jnp.array([1, 2]), 0, [(1, 2, 1)]))
    [0 1 0 2 0 0]
    """
    config = tuple(tuple(map(operator.index, axis)) for axis in padding_config)
    return ops.shape.Pad(config)(operand, padding_value)  # type: ignore[arg-type]


def concatenate(operands: Any, dimension: int) -> Any:
    """Arrays of one dtype joined along axis `dimension`; other sizes must agree (else TypeError).

    >>> from covector import lax, numpy as jnp
    >>> print(lax.concatenate([jnp.array([1]), jnp.array([2, 3])], 0))
    [1 2 3]
    """
    operands = list(operands)
    if len(operands) == 1 and 0 <= operator.index(dimension) < typeof(operands[0]).ndim:
        return as_array(operands[0])
    return ops.shape.Concatenate(operator.index(dimension))(*operands)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """`operand` cut along `axis` into pieces of these sizes, which add up to its own.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.split(jnp.arange(5), (2, 3)))
    [0 1] [2 3 4]
    """
    return ops.shape.split(operand, integers(sizes), axis_in(axis, typeof(operand).ndim))


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape and dtype along a new axis of the result.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.stack([jnp.array([1, 2]), jnp.array([3, 4])], 1))
    [[1 3]
     [2 4]]
    """
    operands = list(operands)
    if not operands:
        raise ValueError("stack: wanted at least one operand")
    shapes = [typeof(x).shape for x in operands]
    if any(s != shapes[0] for s in shapes):
        raise ValueError(f"stack: operands must have equal shapes; got {shapes}")
    return ops.shape.stack(operands, axis_in(axis, len(shapes[0]) + 1))


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that axis.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.unstack(jnp.array([[1, 2], [3, 4]])))
    [1 2] [3 4]
    """
    return tuple(ops.shape.unstack(x, axis_in(axis, typeof(x).ndim)))


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """`operand` repeated `reps[d]` times along each axis d.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.tile(jnp.array([1, 2]), (2,)))
    [1 2 1 2]
    """
    reps = integers(reps)
    if len(reps) != typeof(operand).ndim:
        raise TypeError(
            f"tile: reps={reps} must have one entry for each axis of {typeof(operand).str_short()}"
        )
    if any(r < 0 for r in reps):
        raise ValueError(f"tile: reps={reps} must not be negative")
    return as_array(ops.shape.tile(operand, reps))


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` in reversed order along the axes `dimensions`.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.rev(jnp.array([1, 2, 3]), (0,)))
    [3 2 1]
    """
    return as_array(ops.shape.rev(operand, tuple(map(operator.index, dimensions))))


# New arrays


def iota(dtype: Any, size: int) -> Any:
    """0, 1, …, size - 1.

    >>> from covector import lax
    >>> print(lax.iota("int32", 3))
    [0 1 2]
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Any:
    """An array of `shape` whose elements are their index along axis `dimension`.

    >>> from covector import lax
    >>> print(lax.broadcasted_iota("int32", (2, 3), 0))
    [[0 0 0]
     [1 1 1]]
    """
    dtype = user_dtype(dtype, "iota")
    return ops.shape.iota(dtype, integers(shape), operator.index(dimension))


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of `shape` filled with the scalar `fill_value`, as `dtype` (default: its own).

    >>> from covector import lax
    >>> print(lax.full((2,), 1.5))
    [1.5 1.5]
    """
    aval = typeof(fill_value)
    if aval.shape:
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}"
        )
    shape = integers(shape)
    if any(n < 0 for n in shape):
        raise TypeError(f"full: sizes must not be negative; got shape {shape}")
    if dtype is not None:
        wanted = user_dtype(dtype, "full")
        if wanted != aval.dtype or aval.weak_type:
            if isinstance(fill_value, complex) and dtypes.issubdtype(wanted, np.floating):
                raise TypeError(f"full: {fill_value} is no number of dtype {wanted}")
            fill_value = ops.cast.convert_element_type(fill_value, wanted)
    return as_array(ops.shape.broadcast_to(fill_value, shape))


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array with the shape and dtype of `x`, unless others are given, filled with a scalar.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.full_like(jnp.arange(3), 7))
    [7 7 7]
    """
    aval = typeof(x)
    shape = aval.shape if shape is None else shape
    if dtype is None and aval.weak_type:
        kind = dtypes.scalar_type_of(aval.dtype)
        if not isinstance(fill_value, (int, float, complex)):
            return full(shape, ops.cast.convert_element_type(fill_value, aval.dtype, True))
        return full(shape, kind(fill_value))
    return full(shape, fill_value, aval.dtype if dtype is None else dtype)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array that nobody will read before it is overwritten: here, of zeros.

    >>> from covector import lax
    >>> lax.empty((2, 3), "float32").shape
    (2, 3)
    """
    return full(shape, 0, dtype)


def shape_as_value(shape: Any) -> Any:
    """A shape as an array of integers.

    >>> from covector import lax
    >>> print(lax.shape_as_value((2, 3)))
    [2 3]
    """
    return as_array(np.array(integers(shape), dtypes.default_int()))


def dtype(x: Any) -> Any:
    """The dtype that `x` has, or would have as an array.

    >>> from covector import lax
    >>> lax.dtype(1.5)
    dtype('float32')
    """
    return typeof(x).dtype
