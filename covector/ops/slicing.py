"""Primitives that read or replace one window, at a place known at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Linear, Op, Push, Sample
from covector.ir.scalar import Expr
from covector.ir.values import typeof
from covector.ops import _check, _place
from covector.ops.families import LinearOp
from covector.ops.pieces import batch_axis_first


class DynamicSlice(LinearOp):
    """The window of `slice_sizes` at the start indices, which are clipped so that it fits.

    Arguments: the operand, then one scalar index for each of its axes.
    """

    name = "dynamic_slice"
    slice_sizes: tuple[int, ...]

    def result(self, x: ShapedArray, *starts: ShapedArray) -> ShapedArray:
        """The window."""
        sizes = self.slice_sizes
        _check_starts(self.name, x, starts)
        if not _place.fit(sizes, x.shape):
            raise TypeError(
                f"dynamic_slice: slice_sizes={sizes} must lie between 0 and the size of each axis "
                f"of the operand {x.str_short()}"
            )
        return ShapedArray(sizes, x.dtype, x.weak_type)

    def numpy(self, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        """Clip, then slice."""
        return x[_numpy_window(x.shape, self.slice_sizes, starts)]

    def transpose(self, tools: Any, ct: Any, x: Any, *starts: Any) -> list[Any]:
        """The cotangent in the place of the window, zeros elsewhere."""
        zeros = ops.shape.zeros(x.aval)
        return [dynamic_update_slice(zeros, ct, starts), *(None for _ in starts)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis is taken whole; batched indices make it a gather."""
        (x, *starts), (x_dim, *start_dims) = args, dims
        if all(d is None for d in start_dims):
            x = ops.shape.move_axis(x, x_dim, 0)
            return dynamic_slice(x, [_zero(starts), *starts], (size, *self.slice_sizes)), 0
        ndim = len(starts)
        indices = _index_vectors(starts, start_dims, size)
        numbers = _place.GatherDimensionNumbers(
            tuple(range(1, ndim + 1)), (), tuple(range(ndim)), (), ()
        )
        sizes = self.slice_sizes
        if x_dim is not None:
            x = ops.shape.move_axis(x, x_dim, 0)
            numbers = _place.GatherDimensionNumbers(
                numbers.offset_dims, (), tuple(range(1, ndim + 1)), (0,), (0,)
            )
            sizes = (min(1, size), *sizes)
        return ops.gather.gather(x, indices, numbers, sizes, "clip"), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The operand's element at clipped start + index."""
        return ask.at(0, _window(ask, 1, self.slice_sizes, index))

    def stablehlo(self, writer: Any, x: Any, *starts: Any) -> Any:
        """stablehlo.dynamic_slice."""
        return writer.emit("stablehlo.dynamic_slice", [x, *starts], slice_sizes=self.slice_sizes)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """In bounds, out of bounds on both sides, several index dtypes, empty, rank 0."""
        x = ShapedArray((5, 7), "float32")
        for starts in ((1, 2), (-3, 6), (9, -9)):
            yield Sample(DynamicSlice((2, 3)), (x, *map(np.int32, starts)))
        yield Sample(DynamicSlice((2, 7)), (x, np.uint8(250), np.uint8(3)))
        yield Sample(DynamicSlice((2, 0)), (x, np.int8(-100), np.int8(3)))
        yield Sample(DynamicSlice((3, 3)), (x, np.uint64(2**64 - 1), np.uint64(1)))
        yield Sample(DynamicSlice((3, 3)), (x, np.uint32(2**32 - 1), np.uint32(1)))
        yield Sample(DynamicSlice(()), (ShapedArray((), "float32"),))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            yield Sample(DynamicSlice((17,)), (ShapedArray((37,), dtype), np.int64(4)))


class DynamicUpdateSlice(Op):
    """The operand with a window replaced by an update, at clipped start indices.

    Arguments: the operand, the update, then one scalar index for each axis.
    """

    name = "dynamic_update_slice"

    def result(self, x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
        """The operand's shape."""
        dtype = _check.same_dtype(self.name, (x, update))
        if not _place.fit(update.shape, x.shape):
            raise TypeError(
                f"dynamic_update_slice: the update {update.str_short()} must have as many axes as "
                f"the operand {x.str_short()}, none of them larger"
            )
        _check_starts(self.name, x, starts)
        return ShapedArray(x.shape, dtype)

    def numpy(self, x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        """Clip, copy, assign."""
        out = np.array(x)
        out[_numpy_window(x.shape, update.shape, starts)] = update
        return out

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Linear in operand and update."""
        out = self(*primals)
        if tangents[0] is None and tangents[1] is None:
            return out, None
        filled = [
            ops.shape.zeros(typeof(x)) if t is None else t
            for x, t in zip(primals[:2], tangents[:2], strict=True)
        ]
        return out, self(*filled, *primals[2:])

    def transpose(self, tools: Any, ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
        """The operand's cotangent is zero in the window; the update's is the window."""
        ct_x = ct_update = None
        aval = update.aval if isinstance(update, Linear) else typeof(update)
        if isinstance(x, Linear):
            ct_x = dynamic_update_slice(ct, ops.shape.zeros(aval), starts)
        if isinstance(update, Linear):
            ct_update = dynamic_slice(ct, starts, aval.shape)
        return [ct_x, ct_update, *(None for _ in starts)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis is part of the window; batched indices make it a scatter."""
        x, update = (batch_axis_first(a, d, size) for a, d in zip(args[:2], dims[:2], strict=True))
        starts, start_dims = args[2:], dims[2:]
        if all(d is None for d in start_dims):
            return dynamic_update_slice(x, update, [_zero(starts), *starts]), 0
        ndim = len(starts)
        indices = _index_vectors(starts, start_dims, size)
        window = tuple(range(1, ndim + 1))
        numbers = _place.ScatterDimensionNumbers(window, (), window, (0,), (0,))
        return ops.scatter.scatter(x, indices, update, numbers, "clip", unique=True), 0

    def push(self, ask: Any) -> Push:
        """Every element of the update, to clipped start + its index."""
        sizes = ask.shapes[1]

        def body(u: Sequence[Any]) -> Any:
            return _window(ask, 2, sizes, u), ask.at(1, u), "set", None

        return Push(0, sizes, body)

    def stablehlo(self, writer: Any, x: Any, update: Any, *starts: Any) -> Any:
        """stablehlo.dynamic_update_slice."""
        return writer.emit("stablehlo.dynamic_update_slice", [x, update, *starts])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """In bounds, out of bounds on both sides, several index dtypes, empty, rank 0."""
        x, update = ShapedArray((5, 7), "float32"), ShapedArray((2, 3), "float32")
        op = DynamicUpdateSlice()
        for starts in ((1, 2), (-3, 6), (9, -9)):
            yield Sample(op, (x, update, *map(np.int32, starts)))
        yield Sample(op, (x, update, np.uint8(250), np.uint8(3)))
        yield Sample(op, (x, ShapedArray((5, 7), "float32"), np.int8(3), np.int8(-3)))
        yield Sample(op, (x, ShapedArray((0, 3), "float32"), np.int64(3), np.int64(3)))
        yield Sample(op, (ShapedArray((), "float32"), ShapedArray((), "float32")))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            args = (ShapedArray((37,), dtype), ShapedArray((17,), dtype), np.int32(4))
            yield Sample(op, args)


def dynamic_slice(x: Any, starts: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """The window of `slice_sizes` at `starts` (clipped), integers of one dtype."""
    return DynamicSlice(tuple(slice_sizes))(x, *starts)


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """`x` with `update` in the window at `starts` (clipped), integers of one dtype."""
    return _dynamic_update_slice(x, update, *starts)


_dynamic_update_slice = DynamicUpdateSlice()


def _check_starts(op: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    given = ", ".join(a.str_short() for a in starts)
    if len(starts) != x.ndim:
        raise ValueError(
            f"{op}: wanted one start index for each axis of the operand {x.str_short()}; "
            f"got {len(starts)}: {given}"
        )
    if any(a.shape for a in starts):
        raise TypeError(f"{op}: start indices must be scalars; got {given}")
    if any(_check.kind(a.dtype) not in "iu" or a.dtype != starts[0].dtype for a in starts):
        raise TypeError(f"{op}: start indices must be integers of one dtype; got {given}")


def _numpy_window(
    shape: Sequence[int], sizes: Sequence[int], starts: Sequence[np.ndarray]
) -> tuple[slice, ...]:
    out: list[slice] = []
    for n, m, start in zip(shape, sizes, starts, strict=True):
        begin = min(max(int(start), 0), n - m)
        out.append(slice(begin, begin + m))
    return tuple(out)


def _window(ask: Any, first: int, sizes: Sequence[Any], index: Sequence[Any]) -> list[Any]:
    """The operand's index of the element at `index` of the window."""
    return [
        _place.clip(ask, ask.at(first + d, ()), m, affine(n)) + affine(i)
        for d, (m, n, i) in enumerate(zip(sizes, ask.shapes[0], index, strict=True))
    ]


def _zero(starts: Sequence[Any]) -> Any:
    """A start of 0, of the dtype of the others."""
    return np.zeros((), typeof(starts[0]).dtype if starts else np.int32)


def _index_vectors(starts: Sequence[Any], dims: Sequence[int | None], size: int) -> Any:
    """Scalars, batched or not, as an array of (size, number of them)."""
    pairs = zip(starts, dims, strict=True)
    return ops.shape.stack([batch_axis_first(s, d, size) for s, d in pairs], 1)
