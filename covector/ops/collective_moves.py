"""Collectives that move elements between the participants of a named axis.

Each is over one axis and adds, removes or swaps whole axes of its size; `lax` makes the tiled
forms, and those over several axes, of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.ops._check import check_axes
from covector.ops.collective import AxisIndex, Collective, Groups, Psum, take_rows
from covector.ops.families import LinearOp, like


class Move(LinearOp, Collective):
    """A linear collective over one axis.  `axis_size`: of the axis, or of each group."""

    axis_name: Any
    axis_size: int
    axis_index_groups: Groups | None

    def check_size(self, x: ShapedArray, axis: int) -> None:
        """Refuse an argument whose `axis` is not of the named axis' size."""
        check_axes(self.name, (axis,), x.ndim, "an axis")
        if x.shape[axis] != self.axis_size:
            what = "group of the axis" if self.axis_index_groups else "axis"
            raise ValueError(
                f"{self.name}: axis {axis} of the argument {x.str_short()} must have the size of "
                f"the {what} {self.axis_name!r}, {self.axis_size}; it has {x.shape[axis]}"
            )


class AllGather(Move):
    """The values of all participants, stacked along a new axis."""

    name = "all_gather"
    all_gather_dimension: int
    positions = ("all_gather_dimension",)

    def result(self, x: ShapedArray) -> ShapedArray:
        """One more axis, of the named axis' size."""
        k = self.all_gather_dimension
        check_axes(self.name, (k,), x.ndim + 1, "the place of the new axis")
        return x.update(shape=(*x.shape[:k], self.axis_size, *x.shape[k:]))

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """The batch axis, in its place."""
        front = ops.pieces.batch_axis_first(x, dim, size)
        return ops.shape.move_axis(front, 0, self.all_gather_dimension), None

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """Each participant's part of the sum."""
        return [_like(self, ReduceScatter, self.all_gather_dimension)(ct)]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """The stack itself, for all."""
        whole = np.moveaxis(stack, 0, self.all_gather_dimension)
        return np.broadcast_to(whole, (len(stack), *whole.shape))


class ReduceScatter(Move):
    """The sum over all participants, of which the k-th gets the k-th slice along an axis."""

    name = "reduce_scatter"
    scatter_dimension: int
    positions = ("scatter_dimension",)

    def result(self, x: ShapedArray) -> ShapedArray:
        """Without the axis."""
        k = self.scatter_dimension
        self.check_size(x, k)
        return x.update(shape=(*x.shape[:k], *x.shape[k + 1 :]))

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """The sum over the batch; the axis becomes the batch axis."""
        total, _ = Psum((self.axis_name,), None).over(tools, size, x, dim)
        return total, self.scatter_dimension

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """All slices, stacked again."""
        return [_like(self, AllGather, self.scatter_dimension)(ct)]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """The sum, cut along the axis."""
        return np.moveaxis(stack.sum(0, dtype=stack.dtype), self.scatter_dimension, 0)


def _like(op: Move, kind: type[Move], place: int) -> Any:
    return kind(op.axis_name, op.axis_size, op.axis_index_groups, place)


class AllToAll(Move):
    """The k-th slice along one axis goes to participant k; what comes is stacked along another.

    `split_axis` is an axis of the argument, of the named axis' size; `concat_axis` one of the
    result.
    """

    name = "all_to_all"
    split_axis: int
    concat_axis: int
    positions = ("split_axis", "concat_axis")

    def result(self, x: ShapedArray) -> ShapedArray:
        """The axis taken out, and put in elsewhere."""
        self.check_size(x, self.split_axis)
        check_axes(self.name, (self.concat_axis,), x.ndim, "concat_axis")
        rest = [n for d, n in enumerate(x.shape) if d != self.split_axis]
        rest.insert(self.concat_axis, self.axis_size)
        return x.update(shape=tuple(rest))

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """The split axis becomes the batch axis, the batch axis the new one."""
        front = ops.pieces.batch_axis_first(x, dim, size)
        return ops.shape.transpose(front, self._order(typeof(front).ndim)), 0

    def _order(self, ndim: int) -> list[int]:
        split = self.split_axis + 1
        rest = [d for d in range(1, ndim) if d != split]
        rest.insert(self.concat_axis, 0)
        return [split, *rest]

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The way back."""
        back = self.with_params(split_axis=self.concat_axis, concat_axis=self.split_axis)
        return [back(ct)]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """Slices along one axis, stacked along the other, one receiver after another."""
        return np.stack([
            np.stack([np.take(sent, k, self.split_axis) for sent in stack], self.concat_axis)
            for k in range(len(stack))
        ])  # fmt: skip


class PPermute(LinearOp, Collective):
    """For each pair (source, destination) of `perm` the value goes there; others get zeros."""

    name = "ppermute"
    axis_name: Any
    perm: tuple[tuple[int, int], ...]

    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the argument."""
        return x

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """Rows of the batch, elsewhere."""
        sources = self._sources(size)
        if dim is None and size not in sources:
            return x, None
        return take_rows(ops.pieces.batch_axis_first(x, dim, size), sources), 0

    def _sources(self, size: int) -> list[int]:
        """What each participant gets; `size` where nothing comes."""
        origin = {to: source for source, to in self.perm}
        return [origin.get(k, size) for k in range(size)]

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The way back."""
        return [PPermute(self.axis_name, tuple((to, source) for source, to in self.perm))(ct)]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """Rows, one by one."""
        out = np.zeros_like(stack)
        for source, to in self.perm:
            out[to] = stack[source]
        return out


class PBroadcast(LinearOp, Collective):
    """The value of participant `source`, for all."""

    name = "pbroadcast"
    axis_name: Any
    source: int

    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the argument."""
        return x

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """A row of the batch."""
        if dim is None:
            return x, None
        row = take_rows(ops.shape.move_axis(x, dim, 0), [self.source])
        return ops.shape.squeeze(row, (0,)), None

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The sum of all cotangents, at the source; zero elsewhere."""
        here = ops.pointwise.eq(AxisIndex(self.axis_name)(), np.int32(self.source))
        total = Psum((self.axis_name,), None)(ct)
        return [ops.pointwise.where(here, total, like(ct, 0))]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """One row, for all."""
        return np.broadcast_to(stack[self.source], stack.shape)
