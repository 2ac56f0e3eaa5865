"""Where windows lie in an operand: shared by dynamic slices, gather and scatter.

Gather and scatter describe one geometry under two sets of names, in the same order of fields:
(window dims of the result or updates, dropped operand dims, operand dim of each index component,
batching dims of the operand, batching dims of the indices).  The index vector is the last axis of
the indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine, affine
from covector.ir.scalar import INDEX, Expr, bitcast, cast, compare, const, expr
from covector.ir.text import register_value_class
from covector.ops import _check


@register_value_class
class GatherDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and result of a gather correspond.

    offset_dims: axes of the result that run inside a window; collapsed_slice_dims: operand axes,
    of window size 1, that are dropped; start_index_map: operand axis of each component of an
    index vector; operand_batching_dims, start_indices_batching_dims: axes, pair by pair, that
    operand and indices have in common.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@register_value_class
class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates of a scatter correspond.

    update_window_dims: axes of the updates that run inside a window; inserted_window_dims:
    operand axes that windows lack (they have size 1 there); scatter_dims_to_operand_dims: operand
    axis of each component of an index vector; operand_batching_dims,
    scatter_indices_batching_dims: axes, pair by pair, that operand and indices have in common.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


@register_value_class
class GatherScatterMode(Enum):
    """What happens to a window that does not lie in the operand.

    CLIP moves it inside.  FILL_OR_DROP: a gather gives a fill value instead of all of it, a
    scatter leaves it out.  PROMISE_IN_BOUNDS: the caller knows that there is none (as it stands,
    a gather then clips and a scatter drops: memory stays safe).  ONE_HOT is accepted by indexing
    functions that have a form by matrix product.
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of that name; None is FILL_OR_DROP.  ValueError for anything else."""
        if isinstance(s, GatherScatterMode):
            return s
        found = _MODES.get(s)
        if found is None:
            raise ValueError(
                f'Unknown gather mode "{s}": wanted one of {", ".join(filter(None, _MODES))}'
            )
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}

Numbers = GatherDimensionNumbers | ScatterDimensionNumbers


# Geometry


def check_numbers(
    op: str, numbers: Numbers, operand: ShapedArray, indices: ShapedArray, out_ndim: int
) -> None:
    """Refuse dimension numbers that do not describe a map from the result to the operand."""
    if _check.kind(indices.dtype) not in "iu":
        raise ValueError(f"{op}: indices must have an integer type; got {indices.str_short()}")
    if not indices.ndim:
        raise TypeError(
            f"{op}: indices must have at least one axis, the last of which holds the index "
            f"vectors; got {indices.str_short()}"
        )
    offsets, dropped, starts, operand_batch, indices_batch = numbers
    limits = (out_ndim, operand.ndim, operand.ndim, operand.ndim, indices.ndim - 1)
    for what, dims, limit in zip(numbers._fields, numbers, limits, strict=True):
        if any(not 0 <= d < limit for d in dims):
            raise TypeError(f"{op}: {what}={dims} out of range: wanted axes in [0, {limit})")
        if len(set(dims)) != len(dims):
            raise TypeError(f"{op}: {what}={dims} has repeated entries")
        if dims is not starts and dims is not indices_batch and list(dims) != sorted(dims):
            raise TypeError(f"{op}: {what}={dims} must be sorted")
    names = numbers._fields
    if {*dropped, *starts} & {*operand_batch}:
        raise TypeError(
            f"{op}: {names[3]}={operand_batch} must have no axis in common with {names[1]}="
            f"{dropped} and {names[2]}={starts}"
        )
    if len(starts) != indices.shape[-1]:
        raise TypeError(
            f"{op}: {names[2]}={starts} must have one entry for each of the {indices.shape[-1]} "
            f"components of an index vector (the last axis of the indices {indices.str_short()})"
        )
    if len(offsets) + len(dropped) + len(operand_batch) != operand.ndim:
        raise TypeError(
            f"{op}: each axis of the operand {operand.str_short()} must be in a window "
            f"({names[0]}={offsets}), or in {names[1]}={dropped}, or in {names[3]}={operand_batch}"
        )
    shared = [operand.shape[d] for d in operand_batch]
    if shared != [indices.shape[d] for d in indices_batch]:
        raise TypeError(
            f"{op}: {names[3]}={operand_batch} and {names[4]}={indices_batch} must be pairs of "
            f"axes of equal size; got operand {operand.str_short()}, indices {indices.str_short()}"
        )


def fit(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a window of `sizes` fits in an operand of `shape`."""
    return len(sizes) == len(shape) and all(0 <= m <= n for m, n in zip(sizes, shape, strict=True))


def window_dims(numbers: Numbers, ndim: int) -> list[int]:
    """The operand axes that run inside a window, in order."""
    _, dropped, _, operand_batch, _ = numbers
    return [d for d in range(ndim) if d not in dropped and d not in operand_batch]


def batch_dims(numbers: Numbers, out_ndim: int) -> list[int]:
    """The axes of the result (or updates) that are axes of the indices, in order."""
    return [d for d in range(out_ndim) if d not in numbers[0]]


def window_sizes(numbers: Numbers, ndim: int, updates_shape: Sequence[Any]) -> list[Any]:
    """The window's size along each operand axis, from the shape of updates."""
    sizes: list[Any] = [1] * ndim
    for d, k in zip(window_dims(numbers, ndim), numbers[0], strict=True):
        sizes[d] = updates_shape[k]
    return sizes


def split_index(numbers: Numbers, ndim: int, index: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(index of the index vector, operand index but for the window's start) of a result index."""
    offsets, _, _, operand_batch, indices_batch = numbers
    batch = [index[d] for d in batch_dims(numbers, len(index))]
    base: list[Any] = [0] * ndim
    for d, k in zip(window_dims(numbers, ndim), offsets, strict=True):
        base[d] = index[k]
    for d, k in zip(operand_batch, indices_batch, strict=True):
        base[d] = batch[k]
    return batch, base


def batched_numbers(numbers: Numbers, indices_batched: bool) -> Any:
    """With a leading axis on operand and result; the indices share it, or it is in the window."""
    offsets, dropped, starts, operand_batch, indices_batch = (
        tuple(d + 1 for d in dims) for dims in numbers
    )
    kind: Any = type(numbers)
    if indices_batched:
        return kind(offsets, dropped, starts, (0, *operand_batch), (0, *indices_batch))
    return kind((0, *offsets), dropped, starts, operand_batch, tuple(numbers[4]))


# In NumPy


def numpy_places(
    numbers: Numbers,
    shape: tuple[int, ...],
    sizes: Sequence[int],
    indices: np.ndarray,
    out_shape: tuple[int, ...],
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """(operand index of every element of the result, starts clipped; whether its window fits)."""
    out_ndim = len(out_shape)
    axes = [
        np.arange(n).reshape([-1 if k == d else 1 for k in range(out_ndim)])
        for d, n in enumerate(out_shape)
    ]
    _, base = split_index(numbers, len(shape), axes)
    kept = batch_dims(numbers, out_ndim)
    fits: Any = np.ones((1,) * out_ndim, bool)
    for k, d in enumerate(numbers[2]):
        start = as_int64(indices[..., k])
        start = start.reshape([out_shape[a] if a in kept else 1 for a in range(out_ndim)])
        limit: int = shape[d] - sizes[d]
        fits = fits & (start >= 0) & (start <= limit)
        base[d] = base[d] + np.clip(start, 0, max(limit, 0))
    return tuple(np.asarray(b) for b in base), fits


def as_int64(x: np.ndarray) -> np.ndarray:
    """Indices of any integer dtype; what is too large stays large."""
    if x.dtype == np.uint64:
        x = np.minimum(x, np.uint64(np.iinfo(np.int64).max))
    return x.astype(np.int64)


# Per element


def place(start: Expr, size: Any, extent: Affine) -> tuple[Expr, Any]:
    """`start` in the type its comparisons are made in, and extent - size, the last place."""
    limit = extent - size
    kind, bits = start.dtype.rstrip("0123456789"), int(start.dtype.lstrip("uint"))
    narrow = limit.constant is not None and limit.constant < 1 << 31
    if kind == "int":
        work = "int32" if bits <= 32 and narrow else INDEX
    elif bits == 64:
        work = "uint64"
    else:
        work = INDEX if not narrow else "uint32" if bits == 32 else "int32"
    return cast(start, work), limit


def clip(ask: Any, start: Expr, size: Any, extent: Affine) -> Affine:
    """`start` moved so that a window of `size` lies within `extent`."""
    start, limit = place(start, size, extent)
    if limit.constant == 0:
        return affine(0)
    if start.dtype[0] != "u":
        start = expr("max", start.dtype, start, const(0, start.dtype))
    clipped = expr("min", start.dtype, start, _number(ask, limit, start.dtype))
    return ask.data(cast(clipped, INDEX))


def fits(ask: Any, start: Expr, size: Any, extent: Affine) -> Expr:
    """Whether a window of `size` at `start` lies within `extent`."""
    start, limit = place(start, size, extent)
    if limit.constant is not None and limit.constant < 0:
        return const(False, "bool")
    if start.dtype[0] != "u" and limit.constant is not None:
        return compare("le", *_unsigned(start, limit.const))
    inside = compare("le", start, _number(ask, limit, start.dtype))
    return inside if start.dtype[0] == "u" else compare("ge", start, 0) & inside


def drop(ask: Any, start: Expr, size: Any, extent: Affine) -> tuple[Affine, Expr]:
    """Where a window of `size` at `start` is, and whether it lies within `extent`; where it does
    not, the place is some other one."""
    inside, at = fits(ask, start, size, extent), clip(ask, start, size, extent)
    start, limit = place(start, size, extent)
    if start.dtype[0] == "u" or (limit.constant or 0) <= 0:
        return at, inside
    start, last = _unsigned(start, limit.const)
    return ask.data(cast(expr("min", start.dtype, start, last), INDEX)), inside


def _unsigned(start: Expr, limit: int) -> tuple[Expr, Expr]:
    """Both as unsigned numbers: what is negative is beyond the limit, too."""
    dtype = f"u{start.dtype}"
    return bitcast(start, dtype), const(limit, dtype)


def _number(ask: Any, i: Affine, dtype: str) -> Expr:
    return const(i.constant, dtype) if i.constant is not None else ask.index(i, dtype)


# In StableHLO


def hlo_fits(
    writer: Any, numbers: Numbers, shape: Sequence[int], sizes: Sequence[int], indices: Any
) -> Any:
    """Whether each index vector is the start of a window that lies in the operand."""
    aval = writer.aval(indices)
    low, high = _hlo_bounds(writer, numbers, shape, sizes, aval)
    inside = writer.compare("LE", indices, high)
    if _check.kind(aval.dtype) == "i":
        above = writer.compare("GE", indices, low)
        inside = writer.emit("stablehlo.and", [above, inside], writer.aval(inside))
    return writer.reduce("stablehlo.and", inside, True, (aval.ndim - 1,))


def hlo_clip(
    writer: Any, numbers: Numbers, shape: Sequence[int], sizes: Sequence[int], indices: Any
) -> Any:
    """The index vectors, moved so that their windows lie in the operand."""
    low, high = _hlo_bounds(writer, numbers, shape, sizes, writer.aval(indices))
    return writer.emit("stablehlo.clamp", [low, indices, high], writer.aval(indices))


def _hlo_bounds(
    writer: Any, numbers: Numbers, shape: Sequence[int], sizes: Sequence[int], aval: ShapedArray
) -> tuple[Any, Any]:
    info: Any = np.iinfo(aval.dtype)
    last = [min(max(shape[d] - sizes[d], info.min), info.max) for d in numbers[2]]
    limits = writer.constant(np.asarray(last, aval.dtype))
    return writer.full(aval, 0), writer.broadcast_to(limits, aval.shape)
