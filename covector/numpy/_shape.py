"""Shapes of arrays: reshape, permute, broadcast, repeat, reverse."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.api.arrays import as_array
from covector.numpy import convert
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    canonical_axis,
    operands,
    placed,
    shape_of,
)
from covector.runtime.eager import eager
from covector.trace.tracer import Tracer

point = ops.pointwise
INT = np.dtype(np.int32)


# What an array is


def shape(a: Any) -> tuple[int, ...]:
    """The extents, one an axis.

    >>> import covector.numpy as cnp
    >>> cnp.shape(cnp.ones((2, 3)))
    (2, 3)
    """
    return tuple(a.shape) if hasattr(a, "shape") else np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes.

    >>> import covector.numpy as cnp
    >>> cnp.ndim(cnp.ones((2, 3)))
    2
    """
    return a.ndim if hasattr(a, "ndim") else len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """The number of elements, or of those along `axis` (an int or a tuple).

    >>> import covector.numpy as cnp
    >>> cnp.size(cnp.ones((2, 3)))
    6
    """
    extents = shape(a)
    return math.prod(extents[d] for d in canonical_axes(axis, len(extents), "size"))


# Another shape, the same elements


def reshape(
    a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None
) -> Any:
    """The same elements in another shape; one size may be -1, which follows from the others.

    order: 'C', the last axis fastest, or 'F', the first.  Raises TypeError if the sizes differ.

    >>> import covector.numpy as cnp
    >>> cnp.reshape(cnp.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    del copy
    return placed(reshaped(array_operand("reshape", a), shape, order), None, out_sharding)


def reshaped(x: Any, shape: Any, order: str = "C") -> Any:
    """`reshape` of an array."""
    wanted = _whole_shape(x.shape, x.size, shape)
    if order == "C":
        return ops.shape.reshape(x, wanted)
    if order == "F":
        flat = ops.shape.transpose(x, range(x.ndim)[::-1])
        out = ops.shape.reshape(flat, wanted[::-1])
        return ops.shape.transpose(out, range(len(wanted))[::-1])
    if order == "A":
        raise NotImplementedError("reshape: order 'A' has no meaning here: wanted 'C' or 'F'")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def _whole_shape(given: tuple[int, ...], total: int, shape: Any) -> tuple[int, ...]:
    """`shape` with a size of -1 replaced by what fits."""
    if isinstance(shape, (tuple, list)) or (np.ndim(shape) == 1 and not isinstance(shape, Tracer)):
        sizes = tuple(shape)
    else:
        sizes = (shape,)
    try:
        sizes = tuple(map(operator.index, sizes))
    except TypeError as error:
        raise TypeError(
            f"reshape: Shapes must be 1D sequences of concrete values of integer type, got "
            f"{shape}: {error}"
        ) from None
    unknown = [d for d, n in enumerate(sizes) if n == -1]
    if not unknown:
        if math.prod(sizes) != total or any(n < 0 for n in sizes):
            raise TypeError(
                f"cannot reshape array of shape {given} (size {total}) into shape {sizes} (size "
                f"{math.prod(sizes)})"
            )
        return sizes
    if len(unknown) > 1:
        raise TypeError(f"reshape: can only infer one unknown dimension; got {sizes}")
    rest = math.prod(n for n in sizes if n != -1)
    if any(n < -1 for n in sizes) or (rest == 0) or total % rest:
        raise TypeError(
            f"cannot reshape array of shape {given} (size {total}) into shape {sizes} because the "
            f"product of specified axis sizes ({rest}) does not evenly divide {total}"
        )
    return tuple(total // rest if n == -1 else n for n in sizes)


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as one axis.

    >>> import covector.numpy as cnp
    >>> cnp.ravel(cnp.ones((1, 2))).tolist()
    [1.0, 1.0]
    """
    x = array_operand("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return placed(reshaped(x, (x.size,), order), None, out_sharding)


def resize(a: Any, new_shape: Any) -> Any:
    """An array of `new_shape`, filled with the elements of `a` over and over.

    >>> import covector.numpy as cnp
    >>> cnp.resize(cnp.array([1, 2]), (3,)).tolist()
    [1, 2, 1]
    """
    x = array_operand("resize", a)
    wanted = shape_of(new_shape, "resize")
    total = math.prod(wanted)
    flat = ops.shape.reshape(x, (x.size,))
    if not x.size:
        return ops.shape.full(wanted, 0, x.dtype)
    flat = ops.shape.tile(flat, (-(-total // x.size),))
    return ops.shape.reshape(ops.shape.slice_along(flat, 0, 0, total), wanted)


def squeeze(a: Any, axis: Any = None) -> Any:
    """The array without axes of size 1: all of them, or those named.

    Raises ValueError if a named axis has another size.

    >>> import covector.numpy as cnp
    >>> cnp.squeeze(cnp.ones((1, 2))).shape
    (2,)
    """
    x = array_operand("squeeze", a)
    if axis is None:
        axes = tuple(d for d, n in enumerate(x.shape) if n == 1)
    else:
        axes = canonical_axes(axis, x.ndim, "squeeze")
    return ops.shape.squeeze(x, axes)


def expand_dims(a: Any, axis: Any) -> Any:
    """The array with new axes of size 1 at the places `axis` of the result.

    >>> import covector.numpy as cnp
    >>> cnp.expand_dims(cnp.ones(2), 0).shape
    (1, 2)
    """
    x = array_operand("expand_dims", a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return ops.shape.expand_dims(x, canonical_axes(axis, x.ndim + count, "expand_dims"))


def atleast_1d(*arys: Any) -> Any:
    """Every array with at least one axis; one array, or a list of several.

    >>> import covector.numpy as cnp
    >>> cnp.atleast_1d(3).tolist()
    [3]
    """
    return _at_least("atleast_1d", arys, lambda x: (1,) if not x.ndim else x.shape)


def atleast_2d(*arys: Any) -> Any:
    """Every array with at least two axes, new ones first; one array, or a list of several.

    >>> import covector.numpy as cnp
    >>> cnp.atleast_2d(cnp.arange(2)).tolist()
    [[0, 1]]
    """
    return _at_least("atleast_2d", arys, lambda x: (*(1,) * max(2 - x.ndim, 0), *x.shape))


def atleast_3d(*arys: Any) -> Any:
    """Every array with at least three axes, those it has in the middle (as NumPy).

    >>> import covector.numpy as cnp
    >>> cnp.atleast_3d(cnp.arange(2)).shape
    (1, 2, 1)
    """
    wanted = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _at_least(
        "atleast_3d", arys, lambda x: wanted[x.ndim](x.shape) if x.ndim < 3 else x.shape
    )


def _at_least(who: str, arys: Sequence[Any], shape_for: Any) -> Any:
    arrays = [as_array(x) for x in operands(who, *arys)]
    out = [ops.shape.reshape(x, shape_for(x)) for x in arrays]
    return out[0] if len(out) == 1 else out


# Order of the axes


@eager
def transpose(a: Any, axes: Any = None) -> Any:
    """The axes reversed, or in the given order.

    >>> import covector.numpy as cnp
    >>> cnp.transpose(cnp.ones((2, 3))).shape
    (3, 2)
    """
    x = array_operand("transpose", a)
    if axes is None:
        return ops.shape.transpose(x, range(x.ndim)[::-1])
    order = tuple(canonical_axis(d, x.ndim, "transpose") for d in axes)
    if sorted(order) != list(range(x.ndim)):
        raise TypeError(f"transpose permutation isn't a permutation of operand dimensions, got "
                        f"permutation {tuple(axes)} for operand shape {x.shape}.")  # fmt: skip
    return ops.shape.transpose(x, order)


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Any:
    """The axes in the given order.

    >>> import covector.numpy as cnp
    >>> cnp.permute_dims(cnp.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(array_operand("permute_dims", a), axes)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped.

    >>> import covector.numpy as cnp
    >>> cnp.matrix_transpose(cnp.ones((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = array_operand("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim="
                         f"{x.ndim}")  # fmt: skip
    return swapaxes(x, -1, -2)


@eager
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes swapped.

    >>> import covector.numpy as cnp
    >>> cnp.swapaxes(cnp.ones((2, 3)), 0, 1).shape
    (3, 2)
    """
    x = array_operand("swapaxes", a)
    order = list(range(x.ndim))
    i, j = (canonical_axis(d, x.ndim, "swapaxes") for d in (axis1, axis2))
    order[i], order[j] = j, i
    return ops.shape.transpose(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places; the others keep their order.

    >>> import covector.numpy as cnp
    >>> cnp.moveaxis(cnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = array_operand("moveaxis", a)
    sources = canonical_axes(source, x.ndim, "moveaxis")
    targets = canonical_axes(destination, x.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ValueError("moveaxis: source and destination must have the same number of elements; "
                         f"got {len(sources)} and {len(targets)}")  # fmt: skip
    order = [d for d in range(x.ndim) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return ops.shape.transpose(x, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The axis moved before the axis `start`.

    >>> import covector.numpy as cnp
    >>> cnp.rollaxis(cnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = array_operand("rollaxis", a)
    start = operator.index(start)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"start={start} must satisfy {-x.ndim}<=start<={x.ndim}")
    axis = canonical_axis(axis, x.ndim, "rollaxis")
    start = start + x.ndim if start < 0 else start
    return ops.shape.move_axis(x, axis, start - 1 if start > axis else start)


# Broadcasting


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """`array` repeated to `shape` by NumPy's rule; ValueError if it does not fit.

    >>> import covector.numpy as cnp
    >>> cnp.broadcast_to(cnp.arange(2), (2, 2)).tolist()
    [[0, 1], [0, 1]]
    """
    x = array_operand("broadcast_to", array)
    wanted = shape_of(shape, "broadcast_to")
    if len(wanted) < x.ndim:
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={x.shape} shape={wanted}"
        )
    if any(n not in (1, m) for n, m in zip(x.shape[::-1], wanted[::-1], strict=False)):
        raise ValueError(f"Incompatible shapes for broadcasting: {x.shape} and requested shape "
                         f"{wanted}")  # fmt: skip
    return placed(convert.broadcast_to(x, wanted), None, out_sharding)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays broadcast to one shape.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.broadcast_arrays(1, cnp.arange(2))]
    [[1, 1], [0, 1]]
    """
    arrays = [as_array(x) for x in operands("broadcast_arrays", *args)]
    return list(convert.broadcast_all("broadcast_arrays", *arrays))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to; ValueError if there is none.

    >>> import covector.numpy as cnp
    >>> cnp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return convert.broadcast_shapes(
        "broadcast_shapes", *[shape_of(s, "broadcast_shapes") for s in shapes]
    )
