"""Gather: windows of an array, at places that an array of indices holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Sample
from covector.ir.scalar import Expr, const, select
from covector.ir.values import typeof
from covector.ops import _check, _place
from covector.ops._place import GatherDimensionNumbers, GatherScatterMode
from covector.ops.families import LinearOp

FILL = GatherScatterMode.FILL_OR_DROP


class Gather(LinearOp):
    """Each index vector (along the last axis of the indices) is the start of a window.

    The windows, of `slice_sizes`, are put together as `dimension_numbers` says.  A window that
    does not fit is clipped, or, with mode FILL_OR_DROP, filled with `fill_value` (None: NaN, the
    least signed or the greatest unsigned integer, True).  Semantics: StableHLO `gather`.
    """

    name = "gather"
    arity = 2
    dimension_numbers: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]
    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS
    fill_value: Any = None

    def result(self, x: ShapedArray, indices: ShapedArray) -> ShapedArray:
        """The axes of the indices but the last, with the window's axes at `offset_dims`."""
        numbers, sizes = self.dimension_numbers, self.slice_sizes
        out_ndim = max(indices.ndim - 1, 0) + len(numbers.offset_dims)
        _place.check_numbers(self.name, numbers, x, indices, out_ndim)
        if not _place.fit(sizes, x.shape):
            raise TypeError(
                f"gather: slice_sizes={sizes} must lie between 0 and the size of each axis of the "
                f"operand {x.str_short()}"
            )
        if any(sizes[d] != 1 for d in numbers.collapsed_slice_dims) or any(
            sizes[d] > 1 for d in numbers.operand_batching_dims
        ):
            raise TypeError(
                f"gather: slice_sizes={sizes} must be 1 along collapsed_slice_dims="
                f"{numbers.collapsed_slice_dims} and at most 1 along operand_batching_dims="
                f"{numbers.operand_batching_dims}"
            )
        if self.mode is GatherScatterMode.ONE_HOT:
            raise ValueError("gather: mode ONE_HOT has no meaning here: use indexing functions")
        shape = [0] * out_ndim
        for d, n in zip(_place.batch_dims(numbers, out_ndim), indices.shape, strict=False):
            shape[d] = n
        window = _place.window_dims(numbers, x.ndim)
        for d, k in zip(numbers.offset_dims, window, strict=True):
            shape[d] = sizes[k]
        return ShapedArray(tuple(shape), x.dtype, x.weak_type)

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """NumPy's indexing with one index array per axis."""
        shape = self.result(_aval(x), _aval(indices)).shape
        if 0 in shape:
            return np.empty(shape, x.dtype)
        numbers = self.dimension_numbers
        places, fits = _place.numpy_places(numbers, x.shape, self.slice_sizes, indices, shape)
        out = np.broadcast_to(x[places], shape)
        if self.mode is not FILL:
            return out
        return np.where(fits, out, np.asarray(fill_of(x.dtype, self.fill_value), x.dtype))

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The windows of the tangent; what is filled in is a constant."""
        t = tangents[0]
        out = self(*primals)
        return out, None if t is None else self.with_params(fill_value=0)(t, primals[1])

    def transpose(self, tools: Any, ct: Any, x: Any, indices: Any) -> list[Any]:
        """Add each window's cotangent where it came from."""
        back = ops.scatter.ScatterAdd(
            _place.ScatterDimensionNumbers(*self.dimension_numbers),
            self.indices_are_sorted,
            self.unique_indices,
            self.mode,
        )
        return [back(ops.shape.zeros(x.aval), indices, ct), None]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis is one of the window, of the indices, or common to both."""
        (x, indices), (x_dim, indices_dim) = args, dims
        numbers, sizes = self.dimension_numbers, self.slice_sizes
        if x_dim is None:
            offsets, dropped, starts, operand_batch, indices_batch = numbers
            numbers = GatherDimensionNumbers(
                tuple(d + 1 for d in offsets),
                dropped,
                starts,
                operand_batch,
                tuple(d + 1 for d in indices_batch),
            )
        else:
            x = ops.shape.move_axis(x, x_dim, 0)
            numbers = _place.batched_numbers(numbers, indices_dim is not None)
            sizes = (size if indices_dim is None else min(1, size), *sizes)
        if indices_dim is not None:
            indices = ops.shape.move_axis(indices, indices_dim, 0)
        batched = self.with_params(
            dimension_numbers=numbers,
            slice_sizes=sizes,
            indices_are_sorted=self.indices_are_sorted and indices_dim is None,
            unique_indices=self.unique_indices and (indices_dim is None or x_dim is not None),
        )
        return batched(x, indices), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The operand's element at clipped start + place in the window, or the fill value."""
        numbers, shape = self.dimension_numbers, ask.shapes[0]
        batch, base = _place.split_index(numbers, len(shape), index)
        inside = None
        for k, d in enumerate(numbers.start_index_map):
            start = ask.at(1, [*batch, affine(k)])
            extent, size = affine(shape[d]), self.slice_sizes[d]
            base[d] = affine(base[d]) + _place.clip(ask, start, size, extent)
            if self.mode is FILL:
                fits = _place.fits(ask, start, size, extent)
                inside = fits if inside is None else inside & fits
        out = ask.at(0, [affine(b) for b in base])
        if inside is None:
            return out
        fill = fill_of(_numpy_dtype(out.dtype), self.fill_value)
        return select(inside, out, const(fill, out.dtype))

    def stablehlo(self, writer: Any, x: Any, indices: Any) -> Any:
        """stablehlo.gather, which clips; then a select if windows are filled."""
        numbers, sizes, out = self.dimension_numbers, self.slice_sizes, writer.out_avals[0]
        offsets, dropped, starts, operand_batch, indices_batch = (list(d) for d in numbers)
        found = writer.emit(
            "stablehlo.gather",
            [x, indices],
            dimension_numbers=(
                f"#stablehlo.gather<offset_dims = {offsets}, collapsed_slice_dims = {dropped}, "
                f"operand_batching_dims = {operand_batch}, "
                f"start_indices_batching_dims = {indices_batch}, start_index_map = {starts}, "
                f"index_vector_dim = {writer.aval(indices).ndim - 1}>"
            ),
            slice_sizes=sizes,
            indices_are_sorted=self.indices_are_sorted,
        )
        if self.mode is not FILL:
            return found
        fits = _place.hlo_fits(writer, numbers, writer.aval(x).shape, sizes, indices)
        flags = ShapedArray(out.shape, np.bool_)
        axes = tuple(_place.batch_dims(numbers, out.ndim))
        fits = writer.emit("stablehlo.broadcast_in_dim", [fits], flags, broadcast_dimensions=axes)
        fill = fill_of(dtypes.physical_dtype(out.dtype), self.fill_value)
        return writer.select(fits, found, writer.full(out, fill))

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Rows, columns, points, windows; batching axes; every mode; small dtypes."""
        clip, promise = GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS
        x = ShapedArray((5, 7), "float32")
        rows = np.array([[3], [0], [-1], [9], [3]], np.int32)
        for mode, fill in ((clip, None), (FILL, 3)):
            how = {"mode": mode, "fill_value": fill}
            op = Gather(GatherDimensionNumbers((1,), (0,), (0,)), (1, 7), **how)
            yield Sample(op, (x, rows))
            op = Gather(GatherDimensionNumbers((0, 1), (), (1,)), (5, 3), **how)
            yield Sample(op, (x, rows))
            op = Gather(GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1), **how)
            yield Sample(op, (x, rows))
        points = np.array([[[1, 2], [4, 6]], [[0, 0], [3, 3]]], np.int64)
        op = Gather(GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1), mode=promise)
        yield Sample(op, (x, points))
        op = Gather(GatherDimensionNumbers((1, 3), (), (1, 0)), (2, 3), mode=clip)
        yield Sample(op, (x, points))
        op = Gather(GatherDimensionNumbers((), (0,), (0,)), (1,), mode=FILL)
        for dtype in ("bool", "int8", "uint8", "bfloat16", "complex64"):
            args = (ShapedArray((37,), dtype), np.array([[40], [5]], np.uint8))
            yield Sample(op, args, smooth=False)  # NaN is filled in
        yield Sample(op, (ShapedArray((4,), "float32"), np.zeros((0, 1), np.int32)))


def gather(
    x: Any,
    indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: str | GatherScatterMode = "promise_in_bounds",
    fill_value: Any = None,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """The windows of `x` that start at `indices`."""
    if fill_value is not None and fill_value != fill_value and _is_inexact(typeof(x)):
        fill_value = None  # NaN is the default, and unequal to itself: bad in a parameter
    op = Gather(
        dimension_numbers,
        tuple(slice_sizes),
        indices_are_sorted,
        unique_indices,
        GatherScatterMode.from_any(mode),
        fill_value,
    )
    return op(x, indices)


def fill_of(dtype: Any, value: Any) -> Any:
    """`value` as a Python number of `dtype`, or the default fill value if it is None."""
    if value is not None:
        return np.asarray(value).astype(dtype).item()
    kind = _check.kind(dtype)
    if kind == "b":
        return True
    if kind in "iu":
        info: Any = dtypes.iinfo(dtype)
        return int(info.min if kind == "i" else info.max)
    return complex("nan") if kind == "c" else float("nan")


def _is_inexact(aval: ShapedArray) -> bool:
    return _check.kind(aval.dtype) in "fc"


def _aval(x: np.ndarray) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype)


def _numpy_dtype(name: str) -> Any:
    return ShapedArray((), name).dtype
