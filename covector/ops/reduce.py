"""Reductions over axes, and the place of the greatest or least element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, cast, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import LinearOp, like, scale


class Reduction(Op):
    """Combines the elements along `axes`, which are removed.  kind: one of COMBINE."""

    kind: ClassVar[str] = ""
    accepts: ClassVar[str] = "biufc"
    #: The StableHLO op that combines two elements.
    hlo: ClassVar[str] = ""
    axes: tuple[int, ...]

    def result(self, x: ShapedArray) -> ShapedArray:
        """The shape without `axes`."""
        _check.check_kind(self.name, 0, x, self.accepts)
        _check.check_axes(self.name, self.axes, x.ndim)
        return ShapedArray(_without(x.shape, self.axes), x.dtype, x.weak_type)

    def identity(self, dtype: Any) -> Any:
        """What the reduction of no elements gives."""
        raise TypeError(f"{self.name} has no identity")

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The axes skip the batch axis, which stays among those kept."""
        (x,), (dim,) = args, dims
        axes = tuple(a + (a >= dim) for a in self.axes)
        return self.with_params(axes=axes)(x), dim - sum(a < dim for a in axes)

    def kernel(self, ask: Any, index: Sequence[Any]) -> Any:
        """A fold over the reduced axes; narrow floats are accumulated in float32."""
        narrow = self.kind in ("sum", "prod") and _check.is_narrow(ask.dtypes[0])
        element = _element(ask, index, self.axes)
        if not self.axes:
            return element(())
        extents = [ask.shapes[0][d] for d in self.axes]
        kind = self.kind
        if ask.dtypes[0] == "bool":
            kind = {"max": "or", "min": "and"}.get(kind, kind)
        if not narrow:
            return ask.fold(kind, extents, element)

        def widened(k: Sequence[Any]) -> Expr:
            return cast(element(k), "float32")

        return cast(ask.fold(kind, extents, widened), ask.dtypes[0])

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reduce; narrow floats are accumulated in float32."""
        aval = writer.aval(x)
        if self.kind not in ("sum", "prod") or not _check.is_narrow(aval.dtype):
            return writer.reduce(self.hlo, x, self.identity(aval.dtype), self.axes)
        wide = writer.convert(x, np.dtype(np.float32))
        return writer.convert(
            writer.reduce(self.hlo, wide, self.identity(aval.dtype), self.axes), aval.dtype
        )


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
    hlo = "stablehlo.add"

    def identity(self, dtype: Any) -> Any:
        """0."""
        return 0

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's sum in the dtype of the argument (half precision through float32)."""
        wide = np.float32 if _check.is_narrow(x.dtype) else x.dtype
        return np.sum(x, self.axes, dtype=wide).astype(x.dtype)

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
    hlo = "stablehlo.multiply"
    transpose = Absent("not linear")

    def identity(self, dtype: Any) -> Any:
        """1."""
        return 1

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's product in the dtype of the argument (half precision through float32)."""
        wide = np.float32 if _check.is_narrow(x.dtype) else x.dtype
        return np.prod(x, self.axes, dtype=wide).astype(x.dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Every tangent times the product of all other elements: right where some are 0 too."""
        (x,), (t,) = primals, tangents
        out = self(x)
        if t is None:
            return out, None
        kept = _kept(x, self.axes)
        shape = (*(typeof(x).shape[d] for d in kept), -1)
        x, t = (_rows(v, kept, self.axes) for v in (x, t))
        axis = len(shape) - 1
        others = ops.pointwise.mul(
            ops.cumulative.exclusive_cumprod(x, axis, reverse=False),
            ops.cumulative.exclusive_cumprod(x, axis, reverse=True),
        )
        return out, reduce_sum(scale(t, others), (axis,))

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


def worst(kind: str, dtype: Any) -> Any:
    """The least value of a dtype for 'max', the greatest for 'min'."""
    greatest = kind == "min"
    letter = _check.kind(dtype)
    if letter == "b":
        return greatest
    if letter in "iu":
        info = dtypes.iinfo(dtype)
        return int(info.max if greatest else info.min)
    return float("inf" if greatest else "-inf")


class Extremum(Reduction):
    """The greatest or least element over axes; NaN if there is one."""

    transpose = Absent("not linear")

    def identity(self, dtype: Any) -> Any:
        """The least (greatest) value there is."""
        return worst(self.kind, dtype)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """Pairwise, by the rule of the elementwise op, where NumPy's differs."""
        start = np.asarray(self.identity(x.dtype)).astype(x.dtype)
        if x.dtype.kind == "c":
            return _complex_extremum(x, self.axes, start, self.kind)
        pick = np.maximum if self.kind == "max" else np.minimum
        out = pick.reduce(x, self.axes, initial=start) if self.axes else x
        return np.asarray(out).astype(x.dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangent of the chosen element; the mean of the tangents of equal ones."""
        (x,), (t,) = primals, tangents
        out = self(x)
        if t is None:
            return out, None
        chosen = ops.pointwise.eq(x, _spread(out, x, self.axes))
        zero, one = like(t, 0), like(t, 1)
        where = ops.pointwise.where
        total = reduce_sum(where(chosen, t, zero), self.axes)
        ones = ops.shape.broadcast_to(where(chosen, one, zero), typeof(x).shape)
        return out, scale(total, ops.pointwise.reciprocal(reduce_sum(ones, self.axes)))

    def kernel(self, ask: Any, index: Sequence[Any]) -> Any:
        """A fold; of complex numbers two: the real part, then the imaginary one among equals."""
        if not ask.dtypes[0].startswith("complex") or not self.axes:
            return super().kernel(ask, index)
        element = _element(ask, index, self.axes)
        extents = [ask.shapes[0][d] for d in self.axes]
        part = "float32" if ask.dtypes[0] == "complex64" else "float64"
        worst = const(float("-inf" if self.kind == "max" else "inf"), part)

        def real(k: Sequence[Any]) -> Expr:
            return expr("real", part, element(k))

        first = ask.fold(self.kind, extents, real)

        def imaginary(k: Sequence[Any]) -> Expr:
            z = element(k)
            mine = compare("eq", expr("real", part, z), first)
            return select(mine, expr("imag", part, z), worst)

        second = ask.fold(self.kind, extents, imaginary)
        return expr("complex", ask.dtypes[0], first, second)


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
    hlo = "stablehlo.maximum"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_extremum_samples`."""
        yield from _extremum_samples(ReduceMax)


class ReduceMin(Extremum):
    """The least element over axes (of complex numbers by real part, then imaginary part)."""

    name = "reduce_min"
    kind = "min"
    hlo = "stablehlo.minimum"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_extremum_samples`."""
        yield from _extremum_samples(ReduceMin)


def _extremum_samples(cls: type[Op]) -> Iterable[Sample]:
    names = ("bool", "int8", "uint32", "float16", "bfloat16", "float32", "float64")
    yield from _samples(cls, names, smooth=False)  # in half precision there are ties
    yield Sample(cls((1,)), (ShapedArray((4, 7), "float32"),))
    yield Sample(cls((1,)), (ShapedArray((4, 7), "complex64"),))
    special = np.array([[1, np.nan, 3], [2, 2, 1], [-0.0, 0.0, -0.0]], np.float32)
    yield Sample(cls((1,)), (special,), smooth=False)


class Logical(Reduction):
    """A bitwise reduction of booleans or integers."""

    accepts = "biu"
    jvp = Absent("integer")
    transpose = Absent("not linear")

    def identity(self, dtype: Any) -> Any:
        """0, or all bits set."""
        ones = True if _check.kind(dtype) == "b" else -1
        return ones if self.kind == "and" else 0 * ones

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[self.kind]
        return function.reduce(x, self.axes, dtype=x.dtype) if self.axes else x


class ReduceAnd(Logical):
    """Bitwise (of booleans, logical) and over axes."""

    name = "reduce_and"
    kind = "and"
    hlo = "stablehlo.and"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        yield from _samples(ReduceAnd, ("bool", "int8", "uint32"))


class ReduceOr(Logical):
    """Bitwise (of booleans, logical) or over axes."""

    name = "reduce_or"
    kind = "or"
    hlo = "stablehlo.or"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        yield from _samples(ReduceOr, ("bool", "int8", "uint32"))


class ReduceXor(Logical):
    """Bitwise (of booleans, logical) exclusive or over axes."""

    name = "reduce_xor"
    kind = "xor"
    hlo = "stablehlo.xor"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        yield from _samples(ReduceXor, ("bool", "int8", "uint32"))


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


class Argmax(ArgExtremum):
    """The index of the first greatest element."""

    name = "argmax"
    kind = "argmax"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_arg_samples`."""
        yield from _arg_samples(Argmax)


class Argmin(ArgExtremum):
    """The index of the first least element."""

    name = "argmin"
    kind = "argmin"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_arg_samples`."""
        yield from _arg_samples(Argmin)


def _arg_samples(cls: type[ArgExtremum]) -> Iterable[Sample]:
    int32 = np.dtype(np.int32)
    for axis in (0, 1, 2):
        yield Sample(cls((axis,), int32), (ShapedArray((3, 5, 7), "float32"),))
    for dtype in ("bool", "int8", "uint32", "bfloat16", "float64"):
        yield Sample(cls((0,), np.dtype(np.uint8)), (ShapedArray((37,), dtype),))
    special = np.array([[1, np.nan, 3, np.nan], [2, 5, 5, 2], [-0.0, 0.0, -0.0, 0.0]], np.float32)
    yield Sample(cls((1,), int32), (special,))


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
