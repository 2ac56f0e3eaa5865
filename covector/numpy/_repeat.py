"""Repeating elements, and reversing, turning and rolling their order."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._indexing import getitem, take
from covector.numpy._shape import swapaxes
from covector.numpy.convert import array_operand, canonical_axes, canonical_axis, operands, placed
from covector.trace.tracer import Tracer

point = ops.pointwise
INT = np.dtype(np.int32)


def tile(A: Any, reps: Any) -> Any:
    """`A` repeated so many times along each axis.

    >>> import covector.numpy as cnp
    >>> cnp.tile(cnp.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    x = array_operand("tile", A)
    times = tuple(map(operator.index, reps)) if np.iterable(reps) else (operator.index(reps),)
    if any(n < 0 for n in times):
        raise ValueError(f"tile: reps must not be negative; got {times}")
    rank = max(x.ndim, len(times))
    x = ops.shape.reshape(x, (*(1,) * (rank - x.ndim), *x.shape))
    return ops.shape.tile(x, (*(1,) * (rank - len(times)), *times))


def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """Every element (slice along `axis`; None: of the flat array) repeated.

    `repeats`: how often, for all or one number for each.  It decides the shape, so while tracing
    `total_repeat_length` must be given: the result is cut to it, or its last slice repeated.

    >>> import covector.numpy as cnp
    >>> cnp.repeat(cnp.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    x = array_operand("repeat", a)
    (repeats,) = operands("repeat", repeats) if not isinstance(repeats, (list, tuple)) else (
        np.asarray(repeats),)  # fmt: skip
    if axis is None:
        axis, x = 0, ops.shape.reshape(x, (x.size,))
    axis = canonical_axis(axis, x.ndim, "repeat") if x.ndim else 0
    out = _repeated(x, repeats, axis, total_repeat_length)
    return placed(out, None, out_sharding)


def _repeated(x: Any, repeats: Any, axis: int, total: int | None) -> Any:
    n = x.shape[axis]
    given = typeof(repeats)
    if given.size and convert.is_kind(given.dtype, np.inexact):
        raise TypeError(f"repeat: repeats must be integers; got {given.str_short()}")
    if given.ndim > 1 or given.size not in (1, n):
        raise ValueError(
            f"repeat: repeats must be a scalar or have one number for each of the {n} slices "
            f"along axis {axis}; got shape {given.shape}"
        )
    if total is None:
        counts = convert.concrete(
            repeats, "the argument `repeats` of repeat: use its argument total_repeat_length"
        ).reshape(-1)
        if counts.size == 1:
            return _repeated_evenly(x, int(counts[0]), axis)
        places = np.repeat(np.arange(n, dtype=np.int32), counts)
        return getitem(x, (*(slice(None),) * axis, places))
    if not n:
        return x  # there is nothing to fill it with
    counts = convert.broadcast_to(convert.cast(repeats, INT), (n,))
    # Where each slice starts; the number of starts up to a place, less 1, is the slice there.
    ends = ops.cumulative.cumsum(as_array(counts), 0)
    marks = ops.shape.full((total,), 0, INT)
    starts = point.sub(ends, counts)
    marks = _scatter_ones(marks, starts)
    which = point.sub(ops.cumulative.cumsum(marks, 0), np.int32(1)) if total else marks
    return take(x, which, axis=axis, mode="clip")


def _scatter_ones(x: Any, places: Any) -> Any:
    numbers = ops.scatter.ScatterDimensionNumbers((), (0,), (0,))
    indices = ops.shape.reshape(places, (*typeof(places).shape, 1))
    ones = ops.shape.full(typeof(places).shape, 1, typeof(x).dtype)
    return ops.scatter.scatter(x, indices, ones, numbers, "drop", kind=ops.scatter.ScatterAdd)


def _repeated_evenly(x: Any, times: int, axis: int) -> Any:
    if times < 0:
        raise ValueError(f"repeat: counts must not be negative; got {times}")
    sizes = list(x.shape)
    wide = [*sizes[: axis + 1], times, *sizes[axis + 1 :]]
    spread = ops.shape.broadcast_in_dim(x, wide, [d for d in range(x.ndim + 1) if d != axis + 1])
    sizes[axis] *= times
    return ops.shape.reshape(spread, sizes)


def flip(m: Any, axis: Any = None) -> Any:
    """The order of the elements reversed along `axis` (None: all axes).

    >>> import covector.numpy as cnp
    >>> cnp.flip(cnp.arange(3)).tolist()
    [2, 1, 0]
    """
    x = array_operand("flip", m)
    return ops.shape.rev(x, canonical_axes(axis, x.ndim, "flip"))


def fliplr(m: Any) -> Any:
    """Reversed along the second axis.

    >>> import covector.numpy as cnp
    >>> cnp.fliplr(cnp.array([[1, 2]])).tolist()
    [[2, 1]]
    """
    return flip(array_operand("fliplr", m), 1)


def flipud(m: Any) -> Any:
    """Reversed along the first axis.

    >>> import covector.numpy as cnp
    >>> cnp.flipud(cnp.array([[1], [2]])).tolist()
    [[2], [1]]
    """
    return flip(array_operand("flipud", m), 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by k times 90 degrees in the plane of two axes, from the first to the second.

    >>> import covector.numpy as cnp
    >>> cnp.rot90(cnp.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    x = array_operand("rot90", m)
    first, second = (canonical_axis(d, x.ndim, "rot90") for d in axes)
    if first == second:
        raise ValueError("Axes must be different")
    turns = operator.index(k) % 4
    if turns == 2:
        return ops.shape.rev(x, (first, second))
    if turns == 1:
        return swapaxes(ops.shape.rev(x, (second,)), first, second)
    return ops.shape.rev(swapaxes(x, first, second), (second,)) if turns else x


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements moved by `shift` along `axis` (None: of the flat array), round the end.

    `shift` may be traced; a tuple goes with a tuple of axes.

    >>> import covector.numpy as cnp
    >>> cnp.roll(cnp.arange(3), 1).tolist()
    [2, 0, 1]
    """
    x = array_operand("roll", a)
    if axis is None:
        flat = ops.shape.reshape(x, (x.size,))
        return ops.shape.reshape(roll(flat, shift, 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [canonical_axis(d, x.ndim, "roll") for d in axes]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else _numbers(shift)
    if len(shifts) == 1 < len(axes):
        shifts *= len(axes)
    elif len(axes) == 1 < len(shifts):
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: Mismatched lengths between shift ({len(shifts)}) and axis "
                         f"({len(axes)})")  # fmt: skip
    for by, d in zip(shifts, axes, strict=True):
        x = _rolled(x, by, d)
    return x


def _numbers(shift: Any) -> list[Any]:
    (shift,) = operands("roll", shift)
    if typeof(shift).ndim > 1:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    if not typeof(shift).ndim:
        return [shift]
    return [getitem(shift, k) for k in range(typeof(shift).size)]


def _rolled(x: Any, by: Any, axis: int) -> Any:
    n = x.shape[axis]
    if not n:
        return x
    if not isinstance(by, Tracer):
        cut = n - int(by) % n
        if cut == n:
            return x
        parts = [ops.shape.slice_along(x, axis, a, b) for a, b in ((cut, n), (0, cut))]
        return ops.shape.concatenate(parts, axis)
    by = convert.cast(by, INT)
    rest = point.rem(by, np.int32(n))
    start = point.sub(np.int32(n), rest)  # in (0, 2 n)
    start = point.rem(start, np.int32(n))
    twice = ops.shape.concatenate([x, x], axis)
    starts = [start if d == axis else np.int32(0) for d in range(x.ndim)]
    return ops.slicing.dynamic_slice(twice, starts, x.shape)
