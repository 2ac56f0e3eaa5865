"""Collectives: operations over a named axis, of a vmap or of devices, as one example sees them.

Whoever owns the axis gives the meaning (`named`): under a vmap of that name a `psum` is a sum over
the batch axis.  Under any other vmap a collective is batched and stays.  Here: the class they
share, reductions, `axis_index`; those that move elements are in `collective_moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.ir.op import Absent, Op
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import LinearOp, like, mean_of_chosen

Groups = tuple[tuple[int, ...], ...]


class Collective(Op):
    """An operation over named axes.

    `axis_index_groups`: the axis is cut into these groups of indices; the operation is done in
    each of them by itself.
    """

    numpy = Absent("collective")
    decompose = Absent("collective")
    stablehlo = Absent("collective")
    samples = Absent("collective")
    #: Positions of axes among the parameters, which a leading batch axis moves by one.
    positions: ClassVar[tuple[str, ...]] = ()

    @property
    def axis_names(self) -> tuple[Any, ...]:
        """The axes it is over."""
        return (self.params["axis_name"],)

    @property
    def groups(self) -> Groups | None:
        """The groups of indices that do this each by itself."""
        return self.params.get("axis_index_groups")

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The op itself: along the same axes of each example."""
        if not self.positions:
            return self(*args), dims[0]
        return self.moved()(ops.shape.move_axis(args[0], dims[0], 0)), 0

    def moved(self) -> Any:
        """This, of an array with one more axis in front."""
        return self.with_params(**{p: self.params[p] + 1 for p in self.positions})

    def named(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """(result, its batch axis or None), where the op's axis is this vmap's, of `size`."""
        if self.groups is not None:
            return self._grouped(tools, self.groups, size, args[0], dims[0]), 0
        return self.over(tools, size, args[0], dims[0])

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """`named`, without groups."""
        raise NotImplementedError(f"{self.name} says nothing about a batch")

    def _grouped(self, tools: Any, groups: Groups, size: int, x: Any, dim: int | None) -> Any:
        """The op over the members of each group, batched over groups of one size."""
        order = [k for group in groups for k in group]
        whole = ops.pieces.batch_axis_first(x, dim, size)
        inner: Any = self.with_params(axis_index_groups=None)
        each = len(groups[0])
        if all(len(group) == each for group in groups):
            rows = take_rows(whole, order)
            shape = (len(groups), each, *typeof(rows).shape[1:])
            out, place = inner.moved().over(tools, each, ops.shape.reshape(rows, shape), 1)
            if place is None:
                out, place = ops.shape.expand_dims(out, (1,)), 1
                shape = typeof(out).shape
                out = ops.shape.broadcast_to(out, (shape[0], each, *shape[2:]))
            out = ops.shape.move_axis(out, place, 1)
            joined = ops.shape.reshape(out, (size, *typeof(out).shape[2:]))
        else:
            done = [inner.over(tools, len(g), take_rows(whole, g), 0) for g in groups]
            joined = ops.pieces.concatenate(
                [ops.pieces.batch_axis_first(out, place, len(group))
                 for (out, place), group in zip(done, groups, strict=True)], 0
            )  # fmt: skip
        return take_rows(joined, _inverse(order))

    def spmd(self, stack: np.ndarray) -> np.ndarray:
        """The meaning in NumPy: of all participants' values along axis 0, all their results."""
        if self.groups is None:
            return self.all_together(stack)
        inner: Any = self.with_params(axis_index_groups=None)
        parts: list[np.ndarray] = [inner.all_together(stack[list(group)]) for group in self.groups]
        return np.concatenate(parts)[_inverse([k for group in self.groups for k in group])]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """`spmd`, without groups."""
        raise NotImplementedError(f"{self.name} says nothing in NumPy")


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def axis_names(op: Op) -> frozenset[Any]:
    """The names of axes that `op`, or a program it holds, has collectives over and doesn't bind."""
    found = op.__dict__.get("_axis_names")
    if found is None:
        if isinstance(op, Collective):
            found = frozenset(op.axis_names)
        else:
            bound = frozenset(name for name, _ in op.params.get("mesh_axes", ()))
            found = frozenset[Any]().union(*map(_names_in, op.params.values())) - bound
        op.__dict__["_axis_names"] = found
    return found


def _names_in(value: Any) -> frozenset[Any]:
    """The names in the programs that a parameter is, or holds."""
    if isinstance(value, ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        found = value.derived.get("axis names")
        if found is None:
            found = frozenset[Any]().union(*(axis_names(e.op) for e in value.eqns))
            value.derived["axis names"] = found
        return found
    if isinstance(value, (tuple, list)):
        return frozenset[Any]().union(*map(_names_in, cast("Sequence[Any]", value)))
    return frozenset()


def take_rows(x: Any, rows: Sequence[int]) -> Any:
    """`x[rows]` of known positions; zeros where one is not below the number of rows.

    Runs of neighbours are slices: no array of positions, which a nested program could not hold.
    """
    aval = typeof(x)
    size, *rest = aval.shape
    runs = _runs([int(k) for k in rows], size)
    if runs == [(0, size)]:
        return x
    parts = [
        ops.shape.zeros(aval.update(shape=(count, *rest)))
        if first < 0
        else ops.pieces.slice_along(x, 0, first, first + count)
        for first, count in runs
    ]
    return parts[0] if len(parts) == 1 else ops.pieces.concatenate(parts, 0)


def _runs(rows: Sequence[int], size: int) -> list[tuple[int, int]]:
    """(first row, how many) of each run of neighbours; (-1, how many) of missing rows."""
    runs: list[tuple[int, int]] = []
    for k in rows:
        first, count = runs[-1] if runs else (0, 0)
        if count and (first < 0 if k >= size else first >= 0 and k == first + count):
            runs[-1] = (first, count + 1)
        else:
            runs.append((-1 if k >= size else k, 1))
    return runs


class Reducer(Collective):
    """All values over named axes combined into one, which every participant gets."""

    axes: tuple[Any, ...]
    axis_index_groups: Groups | None

    #: The reduction over array axes, by name in `ops.reduce`.
    over_axes: ClassVar[str] = ""
    numpy_combine: ClassVar[Callable[..., Any]]
    accepts: ClassVar[str] = "biufc"

    @property
    def axis_names(self) -> tuple[Any, ...]:
        """The axes it is over."""
        return self.axes

    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the argument."""
        _check.check_kind(self.name, 0, x, self.accepts)
        return x

    def moved(self) -> Any:
        """Itself: no parameter is a position."""
        return self

    def named(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The reduction over the batch axis, then over the axes that are left."""
        out, dim = super().named(tools, size, args, dims)
        rest = tuple(name for name in self.axes if name != tools.axis)
        return self.with_params(axes=rest, axis_index_groups=None)(out) if rest else out, dim

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """The reduction over the batch axis."""
        if dim is None:
            return self.repeated(x, size), None
        reduce: Any = getattr(ops.reduce, self.over_axes)
        return reduce(x, (dim,)), None

    def repeated(self, x: Any, size: int) -> Any:
        """Of `size` times the same value."""
        return x

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """NumPy's reduction, for all."""
        out = type(self).numpy_combine(stack, 0, dtype=stack.dtype)
        return np.broadcast_to(out, stack.shape)


class Psum(LinearOp, Reducer):
    """The sum over named axes.

    Its transpose is itself: each participant's value is part of every participant's sum.
    """

    name = "psum"
    over_axes = "reduce_sum"
    accepts = "iufc"
    numpy_combine = staticmethod(np.add.reduce)

    def repeated(self, x: Any, size: int) -> Any:
        """`size` times the value."""
        return ops.pointwise.mul(x, like(x, size))

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The sum of the participants' cotangents."""
        return [self(ct)]


class PVary(LinearOp, Reducer):
    """The value itself, which from here on counts as different along named axes."""

    name = "pvary"

    def over(self, tools: Any, size: int, x: Any, dim: int | None) -> Any:
        """The value itself."""
        return x, dim

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """Each participant's own cotangent."""
        return [self(ct)]

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """All values."""
        return stack


class ReducerOfOrder(Reducer):
    """The greatest or least value over named axes."""

    transpose = Absent("not linear")

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangent of the chosen value; the mean of the tangents of equal ones."""
        (x,), (t,) = primals, tangents
        out = self(x)
        if t is None:
            return out, None
        total = Psum(self.axes, self.axis_index_groups)
        return out, mean_of_chosen(t, ops.pointwise.eq(x, out), total)


class Pmax(ReducerOfOrder):
    """The greatest value over named axes."""

    name = "pmax"
    over_axes = "reduce_max"
    numpy_combine = staticmethod(np.maximum.reduce)


class Pmin(ReducerOfOrder):
    """The least value over named axes."""

    name = "pmin"
    over_axes = "reduce_min"
    numpy_combine = staticmethod(np.minimum.reduce)


class AxisIndex(Collective):
    """The participant's place along a named axis: an int32 scalar."""

    name = "axis_index"
    arity = 0
    axis_name: Any

    jvp = Absent("integer")
    transpose = Absent("integer")

    def result(self) -> ShapedArray:
        """An int32 scalar."""
        return ShapedArray((), "int32")

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The same for all examples of another axis."""
        return self(), None

    def named(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """0, 1, 2, … along the batch axis."""
        return ops.shape.iota("int32", (size,), 0), 0

    def all_together(self, stack: np.ndarray) -> np.ndarray:
        """0, 1, 2, … along axis 0 of an array of that shape."""
        first = np.arange(len(stack), dtype=np.int32)
        return np.broadcast_to(first.reshape(-1, *[1] * (stack.ndim - 1)), stack.shape)


# Of derivatives that are taken on devices.  Among devices, each has a part of the cotangent of a
# value that is the same on all; these stand where such a derivative begins and ends.


class _Replicated(Op, registered=False):
    """The tangent of a value that is the same along named axes, over which are `count` devices.

    It is recorded in linear programs, for their transposes; anywhere else it is nothing.
    """

    axes: tuple[Any, ...]
    count: int

    def __call__(self, *args: Any) -> Any:
        return args[0]

    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the argument."""
        return x


class ReplicatedArgument(_Replicated, registered=False):
    """Of an argument: its cotangent is the sum of the devices' parts."""

    name = "replicated_argument"

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The sum."""
        return [Psum(self.axes, None)(ct)]


class ReplicatedResult(_Replicated, registered=False):
    """Of a result: each device gets its share of the cotangent."""

    name = "replicated_result"

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The share."""
        return [ops.pointwise.mul(ct, like(ct, 1 / self.count))]
