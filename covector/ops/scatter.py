"""Scatter: windows of updates combined into an array, at places that an array of indices holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Linear, Op, Push, Sample
from covector.ir.scalar import Expr, expr
from covector.ir.values import typeof
from covector.ops import _check, _place
from covector.ops._place import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from covector.ops.families import WAYS, Way, scale

CLIP, FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP


class ScatterOp(Op):
    """Each index vector (along the last axis of the indices) is the start of a window.

    Arguments: operand, indices, updates.  The window of updates is combined with the operand's
    elements there.  A window that does not fit is clipped in mode CLIP, else dropped as a whole.
    Updates that meet in one element combine in C order of the updates (many into few: in parts
    that depend on shapes alone), so that results are deterministic here; JAX leaves the order
    undefined.  Semantics: StableHLO `scatter`.

    Subclasses: how to combine.  kind: 'set' or one of COMBINE, of what `element` makes of updates;
    way: how to combine an old element and an update, None to replace; accepts: kinds of dtypes.
    """

    arity = 3
    kind: ClassVar[str] = ""
    way: ClassVar[Way | None] = None
    accepts: ClassVar[str] = "iufc"
    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = FILL

    def result(self, x: ShapedArray, indices: ShapedArray, updates: ShapedArray) -> ShapedArray:
        """The operand's shape."""
        numbers = self.dimension_numbers
        _check.same_dtype(self.name, (x, updates))
        _check.check_kind(self.name, 0, x, self.accepts)
        wanted = max(indices.ndim - 1, 0) + len(numbers.update_window_dims)
        if updates.ndim != wanted:
            raise TypeError(
                f"{self.name}: updates must have rank {wanted}, the axes of the indices "
                f"{indices.str_short()} but the last and those of update_window_dims="
                f"{numbers.update_window_dims}; got {updates.str_short()}"
            )
        _place.check_numbers(self.name, numbers, x, indices, updates.ndim)
        batch = _place.batch_dims(numbers, updates.ndim)
        if tuple(updates.shape[d] for d in batch) != indices.shape[:-1]:
            raise TypeError(
                f"{self.name}: axes {batch} of the updates {updates.str_short()} must have the "
                f"sizes of the axes of the indices {indices.str_short()} but the last"
            )
        window = _place.window_dims(numbers, x.ndim)
        for d, k in zip(window, numbers.update_window_dims, strict=True):
            if updates.shape[k] > x.shape[d]:
                raise TypeError(
                    f"{self.name}: axis {k} of the updates {updates.str_short()} must not exceed "
                    f"axis {d} of the operand {x.str_short()}, which it is a window of"
                )
        return x

    def numpy(self, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        """NumPy's indexed assignment, or unbuffered `ufunc.at`, in C order of the updates."""
        out = np.array(x, order="C")
        if 0 in updates.shape or 0 in x.shape:
            return out
        numbers = self.dimension_numbers
        sizes = _place.window_sizes(numbers, x.ndim, updates.shape)
        places, fits = _place.numpy_places(numbers, x.shape, sizes, indices, updates.shape)
        flat = np.zeros(updates.shape, np.int64)
        for k, at in enumerate(places):
            flat += at * math.prod(x.shape[k + 1 :])
        if self.mode is not CLIP and not fits.all():
            kept = np.broadcast_to(fits, updates.shape)
            flat, updates = flat[kept], updates[kept]
        with np.errstate(all="ignore"):
            if self.way is None:
                out.reshape(-1)[flat.reshape(-1)] = updates.reshape(-1)
            else:
                self.way.numpy.at(out.reshape(-1), flat.reshape(-1), updates.reshape(-1))
        return out

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis is one of the window, or, if the indices have it, common to all."""
        x, updates = (ops.pieces.batch_axis_first(args[k], dims[k], size) for k in (0, 2))
        indices, indices_dim = args[1], dims[1]
        if indices_dim is not None:
            indices = ops.shape.move_axis(indices, indices_dim, 0)
        return self.over_leading_axis(indices_dim is not None)(x, indices, updates), 0

    def over_leading_axis(self, indices: bool) -> Any:
        """The same for each place on a leading axis of operand and updates; and of the `indices`,
        or these are common to all."""
        return self.with_params(
            dimension_numbers=_place.batched_numbers(self.dimension_numbers, indices),
            indices_are_sorted=self.indices_are_sorted and not indices,
        )

    def push(self, ask: Any) -> Push:
        """Every element of the updates, to clipped start + its place in the window."""
        numbers, shape = self.dimension_numbers, ask.shapes[0]
        sizes = _place.window_sizes(numbers, len(shape), ask.shapes[2])

        def body(u: Sequence[Any]) -> Any:
            batch, base = _place.split_index(numbers, len(shape), u)
            where = None
            for k, d in enumerate(numbers.scatter_dims_to_operand_dims):
                start, extent = ask.at(1, [*batch, affine(k)]), affine(shape[d])
                if self.mode is CLIP:
                    at = _place.clip(ask, start, sizes[d], extent)
                else:
                    at, fits = _place.drop(ask, start, sizes[d], extent)
                    where = fits if where is None else where & fits
                base[d] = affine(base[d]) + at
            return [affine(b) for b in base], self.element(ask.at(2, u)), self.kind, where

        return Push(0, ask.shapes[2], body)

    def element(self, update: Expr) -> Expr:
        """What is combined for an update."""
        return update

    def stablehlo(self, writer: Any, x: Any, indices: Any, updates: Any) -> Any:
        """stablehlo.scatter, which drops; indices are clipped before if that is the mode."""
        numbers, aval = self.dimension_numbers, writer.aval(x)
        if self.mode is CLIP:
            sizes = _place.window_sizes(numbers, aval.ndim, writer.aval(updates).shape)
            indices = _place.hlo_clip(writer, numbers, aval.shape, sizes, indices)
        window, inserted, starts, operand_batch, indices_batch = (list(d) for d in numbers)
        scalar = ShapedArray((), aval.dtype)

        def combine(old: Any, new: Any) -> list[Any]:
            return [writer.emit(self.way.hlo, [old, new], scalar) if self.way else new]

        return writer.emit(
            "stablehlo.scatter",
            [x, indices, updates],
            regions=[writer.region([scalar, scalar], combine)],
            scatter_dimension_numbers=(
                f"#stablehlo.scatter<update_window_dims = {window}, "
                f"inserted_window_dims = {inserted}, input_batching_dims = {operand_batch}, "
                f"scatter_indices_batching_dims = {indices_batch}, "
                f"scatter_dims_to_operand_dims = {starts}, "
                f"index_vector_dim = {writer.aval(indices).ndim - 1}>"
            ),
            indices_are_sorted=self.indices_are_sorted,
            unique_indices=self.unique_indices,
        )

    # Shared by derivatives

    def look_up(self, x: Any, indices: Any, updates: ShapedArray) -> Any:
        """For each element of the updates, the element of `x` it goes to (0 if dropped)."""
        shape, numbers = typeof(x).shape, self.dimension_numbers
        if 0 in shape:
            return ops.shape.full(updates.shape, 0, typeof(x).dtype)
        sizes = _place.window_sizes(numbers, len(shape), updates.shape)
        return ops.gather.gather(
            x,
            indices,
            GatherDimensionNumbers(*[tuple(dims) for dims in numbers]),
            sizes,
            self.mode,
            0 if self.mode is FILL else None,
            indices_are_sorted=self.indices_are_sorted,
            unique_indices=self.unique_indices,
        )

    def like(self, kind: type[ScatterOp]) -> Any:
        """Another way to combine at the same places."""
        return kind(*self.params.values())


def samples_of(kind: type[ScatterOp], small: Sequence[str]) -> Any:
    """Samples of one way to combine."""
    extremum = issubclass(kind, ScatterExtremum)
    domain = (-50.0, 50.0) if extremum else (0.5, 2.0)  # wide: near ties have no derivative

    def samples() -> Iterable[Sample]:
        f, rows = "float32", np.array([[3], [0], [-1], [9], [3]], np.int32)
        x = ShapedArray((5, 7), f)
        for mode in (CLIP, FILL):
            op = kind(ScatterDimensionNumbers((1,), (0,), (0,)), mode=mode)
            yield Sample(op, (x, rows, ShapedArray((5, 7), f)), domain)
            op = kind(ScatterDimensionNumbers((0, 1), (), (1,)), mode=mode)
            yield Sample(op, (x, rows, ShapedArray((5, 3, 5), f)), domain)
            op = kind(ScatterDimensionNumbers((), (1,), (1,), (0,), (0,)), mode=mode)
            yield Sample(op, (x, rows, ShapedArray((5,), f)), domain)
        points = np.array([[[1, 2], [4, 6]], [[0, 0], [3, 3]]], np.int64)
        op = kind(ScatterDimensionNumbers((), (0, 1), (0, 1)), True, True)
        yield Sample(op, (x, points, ShapedArray((2, 2), f)), domain)
        op = kind(ScatterDimensionNumbers((1, 3), (), (1, 0)))
        yield Sample(op, (x, points, ShapedArray((2, 2, 2, 3), f)), domain)
        op = kind(ScatterDimensionNumbers((), (0,), (0,)))
        for dtype in small:
            args = (ShapedArray((37,), dtype), np.array([[5], [40], [5]], np.uint8))
            yield Sample(op, (*args, ShapedArray((3,), dtype)), domain)
        empty = ShapedArray((0,), f), np.array([[0], [-1]], np.int8), ShapedArray((2,), f)
        yield Sample(op, empty)

    return samples


class LinearScatter(ScatterOp):
    """Linear in operand and updates."""

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The op itself, of the tangents."""
        x, indices, updates = primals
        t_x, _, t_updates = tangents
        out = self(*primals)
        if t_x is None and t_updates is None:
            return out, None
        t_x = ops.shape.zeros(typeof(x)) if t_x is None else t_x
        t_updates = ops.shape.zeros(typeof(updates)) if t_updates is None else t_updates
        return out, self(t_x, indices, t_updates)


class Scatter(LinearScatter):
    """Replaces the elements.  Of several updates of one element the last stays."""

    name = "scatter"
    kind = "set"
    accepts = "biufck"

    def transpose(self, tools: Any, ct: Any, x: Any, indices: Any, updates: Any) -> list[Any]:
        """The operand's: zero where something was written.  An update's: that of its element, if
        it is the one that stayed."""
        ct_x = ct_updates = None
        aval = _aval_of(updates)
        if isinstance(x, Linear):
            ct_x = self(ct, indices, ops.shape.zeros(aval))
        if isinstance(updates, Linear):
            ct_updates = self.look_up(ct, indices, aval)
            if not self.unique_indices:
                stayed = self._stayed(typeof(ct), indices, aval)
                ct_updates = ops.pointwise.select_n(stayed, ops.shape.zeros(aval), ct_updates)
        return [ct_x, None, ct_updates]

    def _stayed(self, x: ShapedArray, indices: Any, updates: ShapedArray) -> Any:
        """Whether each update is the last at its place: number them, write, read back."""
        dtype = np.dtype(np.int32 if updates.size < 1 << 31 else np.int64)
        first = ops.shape.iota(dtype, (updates.size,), 0)
        ids = ops.shape.reshape(ops.pointwise.add(first, np.ones((), dtype)), updates.shape)
        written = self(ops.shape.full(x.shape, 0, dtype), indices, ids)
        return ops.pointwise.eq(self.look_up(written, indices, updates), ids)


class ScatterAdd(LinearScatter):
    """Adds the updates."""

    name = "scatter-add"
    kind = "sum"
    way = WAYS["sum"]

    def transpose(self, tools: Any, ct: Any, x: Any, indices: Any, updates: Any) -> list[Any]:
        """The operand's as it is; an update's: that of its element."""
        ct_x = ct if isinstance(x, Linear) else None
        if not isinstance(updates, Linear):
            return [ct_x, None, None]
        return [ct_x, None, self.look_up(ct, indices, updates.aval)]


class ScatterSub(LinearScatter):
    """Subtracts the updates."""

    name = "scatter-sub"
    kind = "sum"
    way = Way(np.subtract, "sub", "stablehlo.subtract")

    def element(self, update: Expr) -> Expr:
        """Its negative is added."""
        return expr("neg", update.dtype, update)

    def transpose(self, tools: Any, ct: Any, x: Any, indices: Any, updates: Any) -> list[Any]:
        """The operand's as it is; an update's: the negative of that of its element."""
        ct_x = ct if isinstance(x, Linear) else None
        if not isinstance(updates, Linear):
            return [ct_x, None, None]
        return [ct_x, None, ops.pointwise.neg(self.look_up(ct, indices, updates.aval))]


class ScatterMul(ScatterOp):
    """Multiplies by the updates."""

    name = "scatter-mul"
    kind = "prod"
    way = WAYS["prod"]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Linear in the operand; an update's tangent is scaled by all the other factors."""
        x, indices, updates = primals
        t_x, _, t_updates = tangents
        out = self(x, indices, updates)
        total = None if t_x is None else self(t_x, indices, updates)
        if t_updates is not None:
            others = self.look_up(x, indices, typeof(updates))
            if not self.unique_indices:
                others = self._other_factors(x, indices, updates)
            t = scale(t_updates, others)
            start = ops.shape.zeros(typeof(out)) if total is None else total
            total = self.like(ScatterAdd)(start, indices, t)
        return out, total

    def _other_factors(self, x: Any, indices: Any, updates: Any) -> Any:
        """For each update, the operand times all other updates of its element.

        The product of all factors but the zeros, divided by the update; 0 if another one is 0.
        """
        pointwise, aval = ops.pointwise, typeof(updates)
        zero, one = (ops.shape.full(aval.shape, v, aval.dtype) for v in (0, 1))
        is_zero = pointwise.eq(updates, zero)
        factor = pointwise.select_n(is_zero, updates, one)
        count = pointwise.select_n(is_zero, zero, one)
        products = self.look_up(self(x, indices, factor), indices, aval)
        blank = ops.shape.zeros(typeof(x))
        zeros = self.look_up(self.like(ScatterAdd)(blank, indices, count), indices, aval)
        alone = pointwise.eq(zeros, count)
        return pointwise.select_n(alone, zero, pointwise.div(products, factor))

    def transpose(self, tools: Any, ct: Any, x: Any, indices: Any, updates: Any) -> list[Any]:
        """The operand's, multiplied likewise."""
        if isinstance(updates, Linear):
            raise NotImplementedError(
                "scatter-mul is not linear in the updates if several of them meet in one element"
            )
        return [self(ct, indices, updates), None, None]


class ScatterExtremum(ScatterOp):
    """Of the element and its updates the least or greatest."""

    accepts = "biuf"
    transpose = Absent("not linear")

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The mean of the tangents of those that are equal to the result."""
        x, indices, updates = primals
        t_x, _, t_updates = tangents
        out = self(x, indices, updates)
        if t_x is None and t_updates is None:
            return out, None
        aval, pointwise, add = typeof(updates), ops.pointwise, self.like(ScatterAdd)
        reached = self.look_up(out, indices, aval)
        masks = pointwise.eq(x, out), pointwise.eq(updates, reached)
        sums: list[Any] = []
        for values in ((t_x, t_updates), None):
            parts: list[Any] = []
            for k, (mask, of) in enumerate(zip(masks, (typeof(x), aval), strict=True)):
                zero = ops.shape.zeros(of)
                value = ops.shape.full(of.shape, 1, of.dtype) if values is None else values[k]
                parts.append(zero if value is None else pointwise.select_n(mask, zero, value))
            sums.append(add(parts[0], indices, parts[1]))
        one = ops.shape.full(typeof(out).shape, 1, typeof(out).dtype)
        return out, pointwise.div(sums[0], pointwise.max_(sums[1], one))


class ScatterMin(ScatterExtremum):
    """Minimum with the updates."""

    name = "scatter-min"
    kind = "min"
    way = WAYS["min"]


class ScatterMax(ScatterExtremum):
    """Maximum with the updates."""

    name = "scatter-max"
    kind = "max"
    way = WAYS["max"]


_SMALL: dict[Any, Sequence[str]] = {
    Scatter: ("bool", "int8", "bfloat16", "complex64"),
    ScatterAdd: ("uint8", "float16", "bfloat16", "complex64"),
    ScatterSub: ("uint8", "bfloat16", "complex64"),
    ScatterMul: ("int8", "bfloat16", "complex64"),
    ScatterMin: ("bool", "int8", "bfloat16"),
    ScatterMax: ("bool", "uint32", "float16"),
}
for _kind, _dtypes in _SMALL.items():
    _kind.samples = staticmethod(samples_of(_kind, _dtypes))


def scatter(
    x: Any,
    indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    mode: str | GatherScatterMode = "drop",
    *,
    kind: type[ScatterOp] = Scatter,
    unique: bool = False,
    is_sorted: bool = False,
) -> Any:
    """`x` with windows of `updates` combined (by default: put) at `indices`."""
    mode = GatherScatterMode.from_any(mode)
    return kind(dimension_numbers, is_sorted, unique, mode)(x, indices, updates)


def _aval_of(x: Any) -> ShapedArray:
    return x.aval if isinstance(x, Linear) else typeof(x)
