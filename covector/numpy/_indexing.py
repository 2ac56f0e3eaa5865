"""Reading by index: static positions become slices, integer arrays become one gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._index_parse import Int, Many, NewAxis, Parsed, Range, parse
from covector.numpy.convert import (
    array_operand,
    broadcast_to,
    cast,
    is_kind,
    number,
    operands,
)
from covector.ops.gather import GatherDimensionNumbers, GatherScatterMode
from covector.runtime.eager import eager
from covector.trace.tracer import Tracer

point = ops.pointwise
_LONG: Final = np.dtype(np.int64)


def getitem(
    x: Any,
    index: Any,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x[index]`, with JAX's semantics: positions out of bounds are clamped unless `mode` says
    otherwise ('fill' gives `fill_value`, NaN by default)."""
    shape = typeof(x).shape
    parsed = parse(index, shape)
    how = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    fills = how is GatherScatterMode.FILL_OR_DROP
    if not fills and not parsed.many:
        return _static(x, parsed, wrap_negative_indices)
    x, places = _basic(x, parsed)
    if not places:
        return _new_axes(x, parsed)
    positions = _positions(x, places, wrap_negative_indices)
    if not fills and all(not typeof(p).shape for p in positions):
        return _new_axes(_one(x, [axis for axis, _ in places], positions), parsed)
    out = _gather(x, places, positions, parsed, how, fill_value, indices_are_sorted, unique_indices)
    return _new_axes_around(out, parsed, positions)


def _static(x: Any, parsed: Parsed, wrap: bool) -> Any:
    """Only static positions and slices: slice, reverse, squeeze, expand."""
    x, _ = _basic(x, parsed, ints=True, wrap=wrap)
    own = [e for e in parsed.entries if not isinstance(e, NewAxis)]
    removed = [axis for axis, e in enumerate(own) if isinstance(e, Int)]
    return _new_axes(ops.shape.squeeze(x, removed), parsed)


def _basic(
    x: Any, parsed: Parsed, ints: bool = False, wrap: bool = True
) -> tuple[Any, list[tuple[int, Any]]]:
    """(`x` with its slices taken, [(axis, Int or Many)] of what is left to gather).

    `ints`: take static positions too (clamped), leaving an axis of size 1.
    """
    shape = typeof(x).shape
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    reverse: list[int] = []
    left: list[tuple[int, Any]] = []
    own = [e for e in parsed.entries if not isinstance(e, NewAxis)]
    for axis, entry in enumerate(own):
        if isinstance(entry, Range):
            start, step, count = entry
            last = start + (count - 1) * step
            if step < 0 and count:
                start, last = last, start
                reverse.append(axis)
            starts[axis], steps[axis] = (start if count else 0), (abs(step) if count else 1)
            limits[axis] = last + 1 if count else 0
        elif ints and isinstance(entry, Int):
            starts[axis] = _clamped(entry.position, shape[axis], axis, wrap)
            limits[axis] = starts[axis] + 1
        else:
            left.append((axis, entry))
    return ops.shape.rev(ops.shape.slice_(x, starts, limits, steps), reverse), left


def _clamped(position: int, size: int, axis: int, wrap: bool) -> int:
    if size == 0:
        raise IndexError(f"index {position} is out of bounds for axis {axis} with size 0")
    position = position + size if wrap and position < 0 else position
    return min(max(position, 0), size - 1)


def _positions(x: Any, places: Sequence[tuple[int, Any]], wrap: bool) -> list[Any]:
    """The integer arrays, negative ones wrapped, broadcast to one shape."""
    shape = typeof(x).shape
    arrays = [
        wrapped(e.positions if isinstance(e, Many) else e.position, shape[axis], wrap)
        for axis, e in places
    ]
    return list(convert.broadcast_all("indexing", *arrays))


def wrapped(positions: Any, size: int, wrap: bool = True) -> Any:
    """Positions as integers, `size` added to negative ones if `wrap`."""
    if isinstance(positions, (int, np.generic, np.ndarray)):
        array = np.asarray(positions)
        if wrap and array.dtype.kind == "i":
            array = np.where(array < 0, array + size, array)
        return array.astype(np.int32) if array.dtype.itemsize > 4 else array
    dtype = typeof(positions).dtype
    if dtype.kind == "u" or not wrap:
        return positions
    if dtype.itemsize < 4:
        dtype = np.dtype(np.int32)
        positions = cast(positions, dtype)
    negative = point.lt(positions, dtype.type(0))
    return point.where(negative, point.add(positions, dtype.type(size)), positions)


def stack_positions(positions: Sequence[Any]) -> Any:
    """Positions for several axes as one array with a last axis that names the axis."""
    arrays = _alike(positions)
    return ops.shape.stack(arrays, typeof(arrays[0]).ndim)


def _alike(positions: Sequence[Any]) -> tuple[Any, ...]:
    """Positions in one integer type: uint64 has none in common with signed ones but what it is
    cut to, which is still out of bounds."""
    arrays = convert.promote(*positions)
    if is_kind(arrays[0], np.integer):
        return arrays
    last = np.iinfo(_LONG).max
    return tuple(
        cast(point.min_(p, number(p, last)) if is_kind(p, np.unsignedinteger) else p, _LONG)
        for p in positions
    )


def _one(x: Any, axes: Sequence[int], positions: Sequence[Any]) -> Any:
    """The slice of `x` at one position of each of some axes, clamped."""
    shape = typeof(x).shape
    at = dict(zip(axes, _alike(positions), strict=True))
    zero = np.zeros((), typeof(next(iter(at.values()))).dtype)
    starts = [at.get(axis, zero) for axis in range(len(shape))]
    sizes = [1 if axis in at else n for axis, n in enumerate(shape)]
    return ops.shape.squeeze(ops.slicing.dynamic_slice(x, starts, sizes), axes)


def _gather(
    x: Any,
    places: Sequence[tuple[int, Any]],
    positions: Sequence[Any],
    parsed: Parsed,
    mode: GatherScatterMode,
    fill_value: Any,
    is_sorted: bool,
    unique: bool,
) -> Any:
    shape = typeof(x).shape
    axes = [axis for axis, _ in places]
    if any(0 in typeof(p).shape for p in positions):
        x = _never_read(x, axes)
        shape = typeof(x).shape
    batch = typeof(positions[0]).ndim
    first = 0 if parsed.separated else axes[0]
    rank = len(shape) - len(axes) + batch
    offset = tuple(d for d in range(rank) if not first <= d < first + batch)
    numbers = GatherDimensionNumbers(offset, tuple(axes), tuple(axes))
    sizes = tuple(1 if a in axes else n for a, n in enumerate(shape))
    return ops.gather.gather(
        x,
        stack_positions(positions),
        numbers,
        sizes,
        mode,
        fill_value,
        indices_are_sorted=is_sorted,
        unique_indices=unique,
    )


def _never_read(x: Any, axes: Sequence[int]) -> Any:
    """`x`, of which no element is read, with an element along those of `axes` that have none."""
    more = [(0, 1 if d in axes and not n else 0, 0) for d, n in enumerate(typeof(x).shape)]
    return ops.pieces.pad(x, 0, more)


def _new_axes(x: Any, parsed: Parsed) -> Any:
    """Insert the new axes, where nothing else adds axes."""
    kept = [e for e in parsed.entries if not isinstance(e, (Int, Many))]
    return _insert(x, [k for k, e in enumerate(kept) if isinstance(e, NewAxis)], parsed)


def _new_axes_around(x: Any, parsed: Parsed, positions: Sequence[Any]) -> Any:
    """Insert the new axes into a gathered result, whose gathered axes are in one place."""
    batch = typeof(positions[0]).ndim
    layout: list[str] = ["many"] * batch if parsed.separated else []
    placed = parsed.separated
    for e in parsed.entries:
        if not isinstance(e, (Int, Many)):
            layout.append("new" if isinstance(e, NewAxis) else "range")
        elif not placed:
            layout += ["many"] * batch
            placed = True
    return _insert(x, [d for d, what in enumerate(layout) if what == "new"], parsed)


def _insert(x: Any, places: Sequence[int], parsed: Parsed) -> Any:
    x = ops.shape.expand_dims(x, places)
    sizes = [e.size for e in parsed.entries if isinstance(e, NewAxis)]
    for d, size in zip(places, sizes, strict=True):
        if not size:  # an index of False
            x = ops.shape.slice_along(x, d, 0, 0)
    return x


# Functions


@eager(arrays=2)
def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements (slices along `axis`) of `a` at integer `indices`; None: of the flat array.

    mode: what happens out of bounds, 'fill' (the default: NaN, the least integer, or
    `fill_value`), 'wrap', 'clip' (negative ones, too).  Raises TypeError for a list, ValueError
    for a wrong axis or mode.

    >>> import covector.numpy as cnp
    >>> cnp.take(cnp.array([10.0, 20.0]), cnp.array([1, -1, 5])).tolist()
    [20.0, 20.0, nan]
    """
    convert.refuse_out("take", out)
    a, indices = operands("take", a, indices)
    a = array_operand("take", a)
    if axis is None:
        axis, a = 0, ops.shape.reshape(a, (a.size,))
    axis = convert.canonical_axis(axis, a.ndim, "take")
    if typeof(indices).dtype == np.bool_:
        indices = cast(indices, np.dtype(np.int32))
    if not convert.is_kind(indices, np.integer):
        raise ValueError(f"take: indices must have an integer type; got {typeof(indices).dtype}")
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode of take is not supported.")
    if not a.shape[axis] and typeof(indices).size:
        raise IndexError(f"take: axis {axis} of {typeof(a).str_short()} has nothing to take")
    if mode == "wrap":
        indices, mode = _modulo(indices, a.shape[axis]), "promise_in_bounds"
    elif mode not in (None, "fill", "clip"):
        raise ValueError(f"Invalid mode {mode!r} for take: wanted 'fill', 'clip' or 'wrap'")
    index = (*(slice(None),) * axis, _position(indices))
    wrap = mode != "clip"
    return getitem(a, index, mode or "fill", fill_value, indices_are_sorted, unique_indices, wrap)


def _position(indices: Any) -> Any:
    return (
        indices
        if isinstance(indices, (int, Tracer))
        else np.asarray(indices)
        if isinstance(indices, np.generic)
        else indices
    )


def _modulo(indices: Any, size: int) -> Any:
    """Indices in [0, size)."""
    if size == 0:
        return indices
    indices = array_operand("take", indices)
    if typeof(indices).dtype.itemsize < 4:
        indices = cast(indices, np.dtype(np.int32))
    n = convert.number(indices, size)
    rest = point.rem(indices, n)
    return convert.select(point.lt(rest, convert.number(rest, 0)), point.add(rest, n), rest)


@eager(arrays=2)
def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """For every position, the element of `arr` whose place along `axis` the indices give.

    Both have as many axes; the others are broadcast.  `mode` and `fill_value` as of `take`.

    >>> import covector.numpy as cnp
    >>> x = cnp.array([[30, 10, 20]])
    >>> cnp.take_along_axis(x, cnp.argsort(x, axis=1), axis=1).tolist()
    [[10, 20, 30]]
    """
    arr, indices = operands("take_along_axis", arr, indices)
    arr, indices = (array_operand("take_along_axis", v) for v in (arr, indices))
    if not convert.is_kind(indices, np.integer):
        raise TypeError(
            f"take_along_axis: indices must have an integer type; got {typeof(indices).dtype}"
        )
    if axis is None:
        arr, axis = ops.shape.reshape(arr, (arr.size,)), 0
        if indices.ndim != 1:
            raise ValueError(
                f"take_along_axis: with axis=None, indices must be 1D; got {indices.shape}"
            )
    if arr.ndim != indices.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"got {indices.ndim} and {arr.ndim}"
        )
    axis = convert.canonical_axis(axis, arr.ndim, "take_along_axis")
    how = GatherScatterMode.from_any(mode)
    wrap = wrap_negative_indices is None or wrap_negative_indices
    rest = convert.broadcast_shapes("take_along_axis", *(
        (*v.shape[:axis], 1, *v.shape[axis + 1 :]) for v in (arr, indices)
    ))  # fmt: skip
    arr, indices = (
        broadcast_to(v, (*rest[:axis], v.shape[axis], *rest[axis + 1 :])) for v in (arr, indices)
    )
    indices = wrapped(indices, arr.shape[axis], wrap)
    if 0 in typeof(indices).shape:
        arr = _never_read(arr, [axis])
    others = tuple(d for d in range(arr.ndim) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return ops.gather.gather(
        arr,
        ops.shape.reshape(indices, (*typeof(indices).shape, 1)),
        numbers,
        [min(1, n) for n in typeof(arr).shape] if axis is not None else [],
        how,
        fill_value,
    )
