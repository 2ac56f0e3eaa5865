"""Reductions over axes, and the place of the greatest or least element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, cast, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import Combining, LinearOp, like, mean_of_chosen, rule, scale, worst


class Reduction(Combining):
    """Combines the elements along `axes`, which are removed."""

    axes: tuple[int, ...]

    def result(self, x: ShapedArray) -> ShapedArray:
        """The shape without `axes`."""
        _check.check_kind(self.name, 0, x, self.accepts)
        _check.check_axes(self.name, self.axes, x.ndim)
        return ShapedArray(_without(x.shape, self.axes), x.dtype, x.weak_type)

    @rule
    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's, in the dtype of the argument (half precision through float32)."""
        wide = self.accumulator(x.dtype)
        return np.asarray(self.way.numpy.reduce(x, self.axes, dtype=wide)).astype(x.dtype)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The axes skip the batch axis, which stays among those kept."""
        (x,), (dim,) = args, dims
        axes = tuple(a + (a >= dim) for a in self.axes)
        return self.with_params(axes=axes)(x), dim - sum(a < dim for a in axes)

    @rule
    def kernel(self, ask: Any, index: Sequence[Any]) -> Any:
        """A fold over the reduced axes; narrow floats are accumulated in float32."""
        element = _element(ask, index, self.axes)
        if not self.axes:
            return element(())
        return self.fold(ask, [ask.shapes[0][d] for d in self.axes], element)

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reduce; narrow floats are accumulated in float32."""
        dtype = writer.aval(x).dtype
        wide = writer.convert(x, self.accumulator(dtype))
        total = writer.reduce(self.way.hlo, wide, self.identity(dtype), self.axes)
        return writer.convert(total, dtype)


def _without(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _element(ask: Any, index: Sequence[Any], axes: Sequence[int]) -> Any:
    """`k` (the reduced indices) -> the argument's element there."""
    rank = len(ask.shapes[0])

    def body(k: Sequence[Any]) -> Expr:
        kept = iter(index)
        return ask.at(
            0, [affine(k[axes.index(d)]) if d in axes else next(kept) for d in range(rank)]
        )

    return body


def _kept(x: Any, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(d for d in range(typeof(x).ndim) if d not in axes)


def _spread(y: Any, x: Any, axes: Sequence[int]) -> Any:
    """`y`, a reduction of `x` over `axes`, repeated to the shape of `x`."""
    return ops.shape.broadcast_in_dim(y, typeof(x).shape, _kept(x, axes))


def _samples(cls: type[Op], dtypes_: Sequence[str], **how: Any) -> Iterable[Sample]:
    """One axis, several, all, none, an empty axis; small dtypes."""
    first = "bool" if "float32" not in dtypes_ else "float32"
    for axes in ((0,), (1,), (0, 2), (0, 1, 2), ()):
        yield Sample(cls(axes), (ShapedArray((3, 5, 7), first),), **how)
    yield Sample(cls((1,)), (ShapedArray((2, 0), first),), **how)
    for dtype in dtypes_:
        yield Sample(cls((1,)), (ShapedArray((4, 37), dtype),), **how)


class ReduceSum(LinearOp, Reduction):
    """Sum over axes."""

    name = "reduce_sum"
    kind = "sum"
    accepts = "iufc"

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The cotangent, repeated along the axes."""
        shape = x.aval.shape
        kept = tuple(d for d in range(len(shape)) if d not in self.axes)
        return [ops.shape.broadcast_in_dim(ct, shape, kept)]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        names = ("int8", "uint32", "float16", "bfloat16", "float32", "float64", "complex64")
        yield from _samples(ReduceSum, names, scale=4.0)


class ReduceProd(Reduction):
    """Product over axes."""

    name = "reduce_prod"
    kind = "prod"
    accepts = "iufc"
    transpose = Absent("not linear")

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """Every tangent times the product of all other elements: right where some are 0 too."""
        kept = _kept(x, self.axes)
        shape = (*(typeof(x).shape[d] for d in kept), -1)
        x, t = (_rows(v, kept, self.axes) for v in (x, t))
        axis = len(shape) - 1
        others = ops.pointwise.mul(
            ops.cumulative.exclusive_cumprod(x, axis, reverse=False),
            ops.cumulative.exclusive_cumprod(x, axis, reverse=True),
        )
        return reduce_sum(scale(t, others), (axis,))

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`; with one zero, and with two."""
        names = ("int8", "uint32", "float16", "bfloat16", "float32", "float64", "complex64")
        yield from _samples(ReduceProd, names, domain=(0.5, 1.5), scale=16.0)
        zeros = np.array([[0, 2, 3, 4], [0, 2, 0, 4], [1, 2, 3, 4]], np.float32)
        yield Sample(ReduceProd((1,)), (zeros,))


def _rows(x: Any, kept: Sequence[int], axes: Sequence[int]) -> Any:
    """`x` with the kept axes first and the others merged into one, the last."""
    shape = typeof(x).shape
    merged = 1
    for d in axes:
        merged *= shape[d]
    moved = ops.shape.transpose(x, (*kept, *sorted(axes)))
    return ops.shape.reshape(moved, (*(shape[d] for d in kept), merged))


class Extremum(Reduction):
    """The greatest or least element over axes; NaN if there is one."""

    transpose = Absent("not linear")

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """Pairwise, by the rule of the elementwise op, where NumPy's differs."""
        start = np.asarray(self.identity(x.dtype)).astype(x.dtype)
        if x.dtype.kind == "c":
            return _complex_extremum(x, self.axes, start, self.kind)
        out = self.way.numpy.reduce(x, self.axes, initial=start) if self.axes else x
        return np.asarray(out).astype(x.dtype)

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """The tangent of the chosen element; the mean of the tangents of equal ones."""
        chosen = ops.pointwise.eq(x, _spread(out, x, self.axes))
        return mean_of_chosen(t, chosen, lambda v: reduce_sum(v, self.axes))

    def kernel(self, ask: Any, index: Sequence[Any]) -> Any:
        """A fold; of complex numbers two: the real part, then the imaginary one among equals."""
        if not ask.dtypes[0].startswith("complex") or not self.axes:
            return super().kernel(ask, index)
        element = _element(ask, index, self.axes)
        extents = [ask.shapes[0][d] for d in self.axes]
        part = "float32" if ask.dtypes[0] == "complex64" else "float64"
        bottom = const(worst(self.kind, np.float32), part)

        def real(k: Sequence[Any]) -> Expr:
            return expr("real", part, element(k))

        first = ask.fold(self.kind, extents, real)

        def imaginary(k: Sequence[Any]) -> Expr:
            z = element(k)
            mine = compare("eq", expr("real", part, z), first)
            return select(mine, expr("imag", part, z), bottom)

        second = ask.fold(self.kind, extents, imaginary)
        return expr("complex", ask.dtypes[0], first, second)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """See `_samples`; complex numbers, NaN, equal ones."""
        names = ("bool", "int8", "uint32", "float16", "bfloat16", "float32", "float64")
        yield from _samples(cls, names, smooth=False)  # in half precision there are ties
        yield Sample(cls((1,)), (ShapedArray((4, 7), "float32"),))
        yield Sample(cls((1,)), (ShapedArray((4, 7), "complex64"),))
        special = np.array([[1, np.nan, 3], [2, 2, 1], [-0.0, 0.0, -0.0]], np.float32)
        yield Sample(cls((1,)), (special,), smooth=False)


def _complex_extremum(x: Any, axes: Sequence[int], start: Any, kind: str) -> Any:
    if not axes:
        return x
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = np.transpose(x, (*kept, *axes)).reshape(*(x.shape[d] for d in kept), -1)
    pick = ops.pointwise.max_ if kind == "max" else ops.pointwise.min_
    out = np.full(rows.shape[:-1], start)
    for i in range(rows.shape[-1]):
        out = pick.numpy(out, rows[..., i])
    return out


class ReduceMax(Extremum):
    """The greatest element over axes (of complex numbers by real part, then imaginary part)."""

    name = "reduce_max"
    kind = "max"


class ReduceMin(Extremum):
    """The least element over axes (of complex numbers by real part, then imaginary part)."""

    name = "reduce_min"
    kind = "min"


class Logical(Reduction):
    """A bitwise (of booleans, logical) reduction."""

    accepts = "biu"
    jvp = Absent("integer")
    transpose = Absent("not linear")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """See `_samples`."""
        yield from _samples(cls, ("bool", "int8", "uint32"))


class ReduceAnd(Logical):
    """Bitwise and over axes."""

    name = "reduce_and"
    kind = "and"


class ReduceOr(Logical):
    """Bitwise or over axes."""

    name = "reduce_or"
    kind = "or"


class ReduceXor(Logical):
    """Bitwise exclusive or over axes."""

    name = "reduce_xor"
    kind = "xor"


class ArgExtremum(Op):
    """The index of the first greatest or least element along the one axis of `axes`; NaN wins."""

    kind: ClassVar[str] = ""
    arity = 1
    jvp = Absent("integer")
    transpose = Absent("not linear")
    axes: tuple[int, ...]
    index_dtype: Any

    def result(self, x: ShapedArray) -> ShapedArray:
        """The shape without the axis, of `index_dtype`."""
        _check.check_kind(self.name, 0, x, "biuf")
        if len(self.axes) != 1:
            raise ValueError(f"{self.name}: axes must hold one axis; got {self.axes}")
        _check.check_axes(self.name, self.axes, x.ndim)
        if _check.kind(np.dtype(self.index_dtype)) not in "iu":
            raise TypeError(f"{self.name}: index_dtype must be an integer; got {self.index_dtype}")
        if not x.shape[self.axes[0]]:
            raise ValueError(
                f"{self.name} of an empty axis has no value: {x.str_short()} along {self.axes[0]}"
            )
        return ShapedArray(_without(x.shape, self.axes), self.index_dtype)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        find = np.argmax if self.kind == "argmax" else np.argmin
        if _check.is_narrow(x.dtype):
            x = x.astype(np.float32)
        return np.asarray(find(x, self.axes[0])).astype(self.index_dtype)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The axis skips the batch axis."""
        (x,), (dim,), (axis,) = args, dims, self.axes
        axis += axis >= dim
        return self.with_params(axes=(axis,))(x), dim - (axis < dim)

    def kernel(self, ask: Any, index: Sequence[Any]) -> Any:
        """A fold of (value, index) pairs."""
        element = _element(ask, index, self.axes)
        extent = ask.shapes[0][self.axes[0]]

        def body(k: Sequence[Any]) -> tuple[Expr, Expr]:
            return element(k), ask.index(affine(k[0]), "int64")

        _, place = ask.fold(self.kind, [extent], body)
        return cast(place, ask.out_dtypes[0])

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """The least index of an element that equals the extremum, or is NaN."""
        return writer.lower(self._by_extremum, [x])[0]

    def _by_extremum(self, x: Any) -> list[Any]:
        point, (axis,) = ops.pointwise, self.axes
        shape, inexact = typeof(x).shape, _check.kind(typeof(x).dtype) == "f"
        best = (reduce_max if self.kind == "argmax" else reduce_min)(x, self.axes)
        chosen = point.eq(x, _spread(best, x, self.axes))
        if inexact:
            chosen = point.or_(chosen, point.ne(x, x))
        places = ops.shape.iota(np.dtype(self.index_dtype), shape, axis)
        last = like(places, shape[axis])
        return [reduce_min(point.where(chosen, places, last), self.axes)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Every axis, small dtypes, equal elements, NaN."""
        int32 = np.dtype(np.int32)
        for axis in (0, 1, 2):
            yield Sample(cls((axis,), int32), (ShapedArray((3, 5, 7), "float32"),))
        for dtype in ("bool", "int8", "uint32", "bfloat16", "float64"):
            yield Sample(cls((0,), np.dtype(np.uint8)), (ShapedArray((37,), dtype),))
        special = [[1, np.nan, 3, np.nan], [2, 5, 5, 2], [-0.0, 0.0, -0.0, 0.0]]
        yield Sample(cls((1,), int32), (np.array(special, np.float32),))


class Argmax(ArgExtremum):
    """The index of the first greatest element."""

    name = "argmax"
    kind = "argmax"


class Argmin(ArgExtremum):
    """The index of the first least element."""

    name = "argmin"
    kind = "argmin"


def _over(cls: type[Op]) -> Any:
    def reduce(x: Any, axes: Sequence[int]) -> Any:
        axes = tuple(axes)
        return cls(axes)(x) if axes else x

    return reduce


def reduce_sum(x: Any, axes: Sequence[int]) -> Any:
    """The sum of `x` over `axes`; itself if there are none."""
    axes = tuple(axes)
    return ReduceSum(axes)(x) if axes else x


reduce_prod, reduce_max, reduce_min = _over(ReduceProd), _over(ReduceMax), _over(ReduceMin)
reduce_and, reduce_or, reduce_xor = _over(ReduceAnd), _over(ReduceOr), _over(ReduceXor)


def argmax(x: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first greatest element along `axis`."""
    return Argmax((axis,), np.dtype(index_dtype))(x)


def argmin(x: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first least element along `axis`."""
    return Argmin((axis,), np.dtype(index_dtype))(x)


def sum_all(x: Any) -> Any:
    """The sum of every element."""
    return reduce_sum(x, tuple(range(typeof(x).ndim)))
