"""`x[index]`: static positions become slices, integer arrays become one gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy import _convert
from covector.numpy._index_parse import Int, Many, NewAxis, Parsed, Range, parse
from covector.ops.index import GatherDimensionNumbers, GatherScatterMode

_MODES = {
    None: GatherScatterMode.PROMISE_IN_BOUNDS,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "wrap": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def mode_of(mode: Any, who: str) -> GatherScatterMode:
    """The mode by name; ValueError naming the choices."""
    if isinstance(mode, GatherScatterMode):
        return mode
    try:
        return _MODES[mode]
    except (KeyError, TypeError):
        names = sorted(m for m in _MODES if m)
        raise ValueError(f"{who}: mode must be one of {names}; got {mode!r}") from None


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
    how = mode_of(mode, "indexing")
    if how is not GatherScatterMode.FILL_OR_DROP and not parsed.many:
        return _static(x, parsed)
    x, places = _basic(x, parsed)
    if not places:
        return _new_axes(x, parsed)
    positions = _positions(x, places, wrap_negative_indices, mode == "wrap")
    out = _gather(x, places, positions, parsed, how, fill_value, indices_are_sorted, unique_indices)
    return _new_axes_around(out, parsed, positions)


def _static(x: Any, parsed: Parsed) -> Any:
    """Only static positions and slices: slice, reverse, squeeze, expand."""
    x, _ = _basic(x, parsed, ints=True)
    axis, removed = 0, []
    for entry in parsed.entries:
        if isinstance(entry, NewAxis):
            continue
        if isinstance(entry, Int):
            removed.append(axis)
        axis += 1
    return _new_axes(ops.shape.squeeze(x, removed) if removed else x, parsed)


def _basic(x: Any, parsed: Parsed, ints: bool = False) -> tuple[Any, list[tuple[int, Any]]]:
    """(`x` with its slices taken, [(axis, Int or Many)] of what is left to gather).

    `ints`: take static positions too (clamped), leaving an axis of size 1.
    """
    shape = typeof(x).shape
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    reverse: list[int] = []
    left: list[tuple[int, Any]] = []
    axis = 0
    for entry in parsed.entries:
        if isinstance(entry, NewAxis):
            continue
        if isinstance(entry, Range):
            start, step, count = entry
            last = start + (count - 1) * step
            if step < 0 and count:
                start, last = last, start
                reverse.append(axis)
            starts[axis], steps[axis] = (start if count else 0), abs(step)
            limits[axis] = last + 1 if count else 0
        elif ints and isinstance(entry, Int):
            n = shape[axis]
            if n == 0:
                raise IndexError(f"index {entry.position} is out of bounds for axis {axis} of size 0")
            position = entry.position + n if entry.position < 0 else entry.position
            starts[axis] = min(max(position, 0), n - 1)
            limits[axis] = starts[axis] + 1
        else:
            left.append((axis, entry))
        axis += 1
    if starts != [0] * len(shape) or limits != list(shape) or steps != [1] * len(shape):
        unit = all(s == 1 for s in steps)
        x = ops.shape.Slice(tuple(starts), tuple(limits), None if unit else tuple(steps))(x)
    return (ops.shape.rev(x, reverse) if reverse else x), left


def _positions(x: Any, places: Sequence[tuple[int, Any]], wrap: bool, modulo: bool) -> list[Any]:
    """The integer arrays, negative ones wrapped, broadcast to one shape."""
    shape = typeof(x).shape
    arrays = [
        wrapped(e.positions if isinstance(e, Many) else e.position, shape[axis], wrap, modulo)
        for axis, e in places
    ]
    try:
        common = _convert.broadcast_shapes("indexing", *[typeof(a).shape for a in arrays])
    except TypeError:
        shapes = ", ".join(str(typeof(a).shape) for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
    return [_convert.broadcast_to(a, common) for a in arrays]


def wrapped(positions: Any, size: int, wrap: bool = True, modulo: bool = False) -> Any:
    """Positions as integers, `size` added to negative ones (`modulo`: the remainder)."""
    if isinstance(positions, (int, np.integer, np.ndarray)):
        array = np.asarray(positions)
        if modulo:
            array = array % size
        elif wrap and array.dtype.kind == "i":
            array = np.where(array < 0, array + size, array)
        return array.astype(np.int32) if array.dtype.itemsize > 4 else array
    aval = typeof(positions)
    if aval.dtype.kind == "u" or not (wrap or modulo):
        return positions
    if aval.dtype.itemsize < 4:
        positions = _convert.cast(positions, np.dtype(np.int32))
    dtype = typeof(positions).dtype
    if modulo:
        rest = ops.pointwise.rem(positions, dtype.type(size))
        return wrapped(rest, size)
    negative = ops.pointwise.lt(positions, dtype.type(0))
    moved = ops.pointwise.add(positions, dtype.type(size))
    return ops.pointwise.where(negative, moved, positions)


def stack_positions(positions: Sequence[Any]) -> Any:
    """Positions for several axes as one array with a last axis that names the axis."""
    arrays = _convert.promote_dtypes(*positions)
    columns = [ops.shape.reshape(a, (*typeof(a).shape, 1)) for a in arrays]
    return columns[0] if len(columns) == 1 else ops.shape.concatenate(columns, -1 + columns[0].ndim)


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
    batch = len(typeof(positions[0]).shape)
    first = 0 if parsed.separated else sum(a < axes[0] for a in range(len(shape)) if a not in axes)
    rank = len(shape) - len(axes) + batch
    offset = tuple(d for d in range(rank) if not first <= d < first + batch)
    numbers = GatherDimensionNumbers(offset, tuple(axes), tuple(axes))
    sizes = tuple(1 if a in axes else n for a, n in enumerate(shape))
    return ops.index.gather(
        x,
        stack_positions(positions),
        numbers,
        sizes,
        indices_are_sorted=is_sorted,
        unique_indices=unique,
        mode=mode,
        fill_value=fill_value,
    )


def _new_axes(x: Any, parsed: Parsed) -> Any:
    """Insert the new axes; no integer arrays."""
    if not any(isinstance(e, NewAxis) for e in parsed.entries):
        return x
    kept = [e for e in parsed.entries if not isinstance(e, (Int, Many))]
    return _insert(x, [k for k, e in enumerate(kept) if isinstance(e, NewAxis)], parsed)


def _new_axes_around(x: Any, parsed: Parsed, positions: Sequence[Any]) -> Any:
    """Insert the new axes into a gathered result, whose gathered axes are in one place."""
    if not any(isinstance(e, NewAxis) for e in parsed.entries):
        return x
    batch = len(typeof(positions[0]).shape)
    layout: list[str] = ["many"] * batch if parsed.separated else []
    placed = parsed.separated
    for e in parsed.entries:
        if isinstance(e, (Int, Many)):
            if not placed:
                layout += ["many"] * batch
                placed = True
        else:
            layout.append("new" if isinstance(e, NewAxis) else "range")
    return _insert(x, [d for d, what in enumerate(layout) if what == "new"], parsed)


def _insert(x: Any, places: Sequence[int], parsed: Parsed) -> Any:
    x = ops.shape.expand_dims(x, places)
    empty = [e.size == 0 for e in parsed.entries if isinstance(e, NewAxis)]
    if any(empty):
        shape = typeof(x).shape
        limits = list(shape)
        for d, is_empty in zip(places, empty, strict=True):
            limits[d] = 0 if is_empty else 1
        x = ops.shape.Slice((0,) * len(shape), tuple(limits), None)(x)
    return x
