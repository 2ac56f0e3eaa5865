"""What is written between the brackets, brought to one form.

`parse(index, shape)` gives one entry per axis of the array, plus the places of new axes: an
entry is an `Int` (static), a `Range` (a slice) or `Many` (an integer array, maybe traced).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes
from covector._base import errors
from covector._base.named_tuple import NamedTuple
from covector.ir.values import typeof
from covector.runtime.array import Array
from covector.trace.tracer import Tracer


class Int(NamedTuple):
    """One static position, not yet wrapped or checked."""

    position: int


class Range(NamedTuple):
    """A slice: `count` positions from `start`, `step` apart (step may be negative)."""

    start: int
    step: int
    count: int  # type: ignore[assignment]  # the tuple method is of no use here


class Many(NamedTuple):
    """An integer array of positions (a NumPy array, an Array or a tracer)."""

    positions: Any


class NewAxis(NamedTuple):
    """An axis that the array does not have, of size 1 (or 0: a scalar False)."""

    size: int = 1


class Parsed(NamedTuple):
    """entries: for the axes of the array and the new axes, in order as written.

    `separated`: whether integer arrays are apart from one another (then their axes go first).
    """

    entries: tuple[Int | Range | Many | NewAxis, ...]
    separated: bool

    @property
    def many(self) -> list[Many]:
        """The integer arrays."""
        return [e for e in self.entries if isinstance(e, Many)]


def parse(index: Any, shape: tuple[int, ...]) -> Parsed:
    """The entries of `index` into an array of `shape`.

    IndexError for too many indices, TypeError for what is no index.
    """
    items = _as_tuple(index)
    consumed = sum(_axes_of(item) for item in items)
    if consumed > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {consumed} were indexed"
        )
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError(f"an index can only have a single ellipsis ('...'); got {index!r}")
    if not any(item is Ellipsis for item in items):
        items = (*items, Ellipsis)
    entries: list[Any] = []
    written: list[str] = []  # as NumPy sees it: where integer arrays are apart
    axis = 0
    for item in items:
        if item is None:
            entries.append(NewAxis())
            written.append("basic")
        elif item is Ellipsis:
            rest = len(shape) - consumed
            entries.extend(Range(0, 1, shape[axis + k]) for k in range(rest))
            axis += rest
            written.append("basic")
        else:
            found = _entries(item, shape, axis)
            entries.extend(found)
            axis += _axes_of(item)
            written.extend("many" if isinstance(e, (Many, Int)) else "basic" for e in found)
    return Parsed(tuple(entries), _separated(entries, written))


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return tuple([_from_list(item) if isinstance(item, (list, tuple)) else item
                      for item in index])  # fmt: skip
    if isinstance(index, list):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[array(seq)]` instead of `arr[seq]`; got {index!r}"
        )
    return (index,)


def _from_list(item: Any) -> np.ndarray:
    numbers = np.asarray(item)
    return numbers if numbers.size else numbers.astype(np.int32)


def _is_mask(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    return isinstance(item, (np.ndarray, Array, Tracer)) and item.dtype == np.bool_


def _axes_of(item: Any) -> int:
    """How many axes of the array an item speaks of."""
    if item is None or item is Ellipsis:
        return 0
    return np.ndim(item) if _is_mask(item) else 1


def _entries(item: Any, shape: tuple[int, ...], axis: int) -> list[Any]:
    if isinstance(item, slice):
        return [_range(item, shape[axis])]
    if isinstance(item, str):
        raise TypeError(f"string indexing is not supported; got index {item!r}")
    if _is_mask(item):
        return _where(item, shape, axis)
    if isinstance(item, (int, np.integer)):
        return [Int(int(item))]
    if isinstance(item, (np.ndarray, np.generic, Array, Tracer)):
        if not dtypes.issubdtype(typeof(item).dtype, np.integer):
            raise _not_an_index(item, typeof(item).dtype)
        return [Many(item)]
    if hasattr(item, "__index__"):
        return [Int(operator.index(item))]
    raise _not_an_index(item, type(item).__name__)


def _not_an_index(item: Any, kind: Any) -> TypeError:
    return TypeError(
        f"Indexer must have integer or boolean type, got indexer with type {kind}: {item!r}"
    )


def _range(item: slice, size: int) -> Range:
    for part in (item.start, item.stop, item.step):
        if isinstance(part, Tracer):
            raise IndexError(
                "Array slice indices must have static start/stop/step to be used with NumPy "
                f"indexing syntax; found {item}. To index a statically sized array at a dynamic "
                "position, use lax.dynamic_slice or lax.dynamic_update_slice"
            )
    start, stop, step = slice(*map(_static_int, (item.start, item.stop, item.step))).indices(size)
    return Range(start, step, len(range(start, stop, step)))


def _static_int(x: Any) -> int | None:
    try:
        return None if x is None else operator.index(x)
    except TypeError:
        raise TypeError(f"slice indices must be integers or None; got {x!r}") from None


def _where(mask: Any, shape: tuple[int, ...], axis: int) -> list[Any]:
    """A boolean array as the integer arrays of the positions where it holds."""
    if isinstance(mask, Tracer):
        raise errors.NonConcreteBooleanIndexError(mask)
    mask = np.asarray(mask)
    if mask.ndim == 0:
        return [NewAxis(int(mask))]
    for d, n in enumerate(mask.shape):
        if n != shape[axis + d]:
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {axis + d}: got "
                f"{mask.shape}, expected {shape[axis : axis + mask.ndim]}"
            )
    return [Many(found.astype(np.int32)) for found in np.nonzero(mask)]


def _separated(entries: Sequence[Any], written: Sequence[str]) -> bool:
    if not any(isinstance(e, Many) for e in entries):
        return False
    runs = "".join("m" if w == "many" else "b" for w in written).strip("b")
    return "b" in runs
