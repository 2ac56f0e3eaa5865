"""Running reductions along an axis, and the linear recurrence that their derivatives are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Cumulate, Linear, Op, Sample
from covector.ir.scalar import Expr, cast, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops._check import np_where
from covector.ops.families import Combining, LinearOp, like, rule, scale, scale_both


class Cumulative(Combining):
    """Every prefix along `axis` reduced (every suffix, if `reverse`)."""

    accepts = "iufc"
    axis: int
    reverse: bool = False

    def result(self, x: ShapedArray) -> ShapedArray:
        """The argument's type."""
        _check.check_kind(self.name, 0, x, self.accepts)
        if not 0 <= self.axis < x.ndim:
            raise ValueError(f"{self.name}: axis {self.axis} is out of bounds for {x.str_short()}")
        return x

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The axis skips the batch axis."""
        (x,), (dim,) = args, dims
        return self.with_params(axis=self.axis + (self.axis >= dim))(x), dim

    @rule
    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's (half precision through float32)."""
        wide, accumulate = self.accumulator(x.dtype), self.way.numpy.accumulate
        return _running(lambda v: accumulate(v, self.axis, dtype=wide), self, x).astype(x.dtype)

    @rule
    def combine(self, x: Any, y: Any) -> Any:
        """The elementwise op."""
        return ops.by_name(self.way.op)(x, y)

    @rule
    def cumulate(self, ask: Any) -> Cumulate:
        """A carry of the total; sums and products of narrow floats are accumulated in float32."""
        dtype = dtypes.as_dtype(ask.dtypes[0])
        wide: str = self.accumulator(dtype).name
        op, start = ops.by_name(self.way.op), const(self.identity(dtype), wide)

        def step(carries: Sequence[Expr], index: Sequence[Any]) -> Any:
            total = op.element(wide, carries[0], cast(ask.at(0, index), wide))
            return (total,), (cast(total, ask.dtypes[0]),)

        return Cumulate(self.axis, self.reverse, (start,), step)

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """Prefixes of doubling length: log2(n) elementwise steps."""
        return writer.lower(self._by_doubling, [x])[0]

    def _by_doubling(self, x: Any) -> list[Any]:
        fill = like(x, self.identity(typeof(x).dtype))
        (out,) = _doubling(
            lambda xs, ys: [self.combine(xs[0], ys[0])], [x], [fill], self.axis, self.reverse
        )
        return [out]


def _doubling(
    combine: Callable[[Any, Any], Sequence[Any]],
    xs: Sequence[Any],
    fills: Sequence[Any],
    axis: int,
    reverse: bool,
) -> Sequence[Any]:
    """The inclusive scan of `combine(earlier, later)` (Hillis and Steele, 1986)."""
    step, n = 1, typeof(xs[0]).shape[axis]
    while step < n:
        earlier = [shift(x, axis, step, fill, reverse) for x, fill in zip(xs, fills, strict=True)]
        xs = combine(earlier, xs)
        step *= 2
    return xs


def shift(x: Any, axis: int, by: int, fill: Any, reverse: bool = False) -> Any:
    """`x` moved `by` places towards the end of `axis` (to its start, if `reverse`)."""
    config = [(0, 0, 0)] * typeof(x).ndim
    config[axis] = (-by, by, 0) if reverse else (by, -by, 0)
    return ops.pieces.pad(x, fill, config)


class Cumsum(LinearOp, Cumulative):
    """Running sum."""

    name = "cumsum"
    kind = "sum"

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The running sum from the other end."""
        return [Cumsum(self.axis, not self.reverse)(ct)]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        yield from _samples(Cumsum, scale=4.0)


class Cumprod(Cumulative):
    """Running product."""

    name = "cumprod"
    kind = "prod"
    transpose = Absent("not linear")

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """y'[i] = x[i] y'[i - 1] + y[i - 1] x'[i]."""
        before = shift(out, self.axis, 1, like(out, 1), self.reverse)
        return linear_recurrence(x, scale(t, before), self.axis, self.reverse)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`; with zeros."""
        yield from _samples(Cumprod, domain=(0.5, 1.5), scale=16.0)
        yield Sample(Cumprod(0), (np.array([2, 0, 3, 0, 4], np.float32),))


class CumulativeExtremum(Cumulative):
    """The running maximum or minimum; NaN from the first NaN on."""

    transpose = Absent("not linear")

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """The elementwise op, accumulated: its order of complex numbers isn't NumPy's."""
        return _serial(ops.by_name(self.way.op).numpy, self, x)

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """The tangent of the element that is the extremum so far; half of each of two equal."""
        point = ops.pointwise
        start = like(out, self.identity(typeof(x).dtype))
        before = shift(out, self.axis, 1, start, self.reverse)
        mine, theirs = point.eq(x, out), point.eq(before, out)
        zero, half, one = (like(t, v) for v in (0, 0.5, 1))
        keep = point.where(theirs, point.where(mine, half, one), zero)
        new = point.where(mine, point.where(theirs, point.mul(t, half), t), zero)
        return linear_recurrence(keep, new, self.axis, self.reverse)


class Cummax(CumulativeExtremum):
    """Running maximum."""

    name = "cummax"
    kind = "max"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`; with NaN."""
        yield from _samples(Cummax)
        yield Sample(Cummax(0), (np.array([1, 3, 2, np.nan, 4], np.float32),), smooth=False)


class Cummin(CumulativeExtremum):
    """Running minimum."""

    name = "cummin"
    kind = "min"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`; with NaN."""
        yield from _samples(Cummin)
        yield Sample(Cummin(0), (np.array([3, 1, 2, np.nan, 0], np.float32),), smooth=False)


class Cumlogsumexp(Cumulative):
    """The logarithm of the running sum of exponentials, which does not overflow."""

    name = "cumlogsumexp"
    accepts = "fc"
    transpose = Absent("not linear")

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """`logaddexp`, accumulated in double precision."""
        if x.dtype.kind == "c":
            wide = _serial(_complex_logaddexp, self, x.astype(np.complex128))
        else:
            wide = _serial(np.logaddexp, self, x.astype(np.float64))
        return wide.astype(x.dtype)

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """y'[i] = e^(y[i - 1] - y[i]) y'[i - 1] + e^(x[i] - y[i]) x'[i]."""
        before = shift(out, self.axis, 1, like(out, -np.inf), self.reverse)
        keep, new = _share(before, out), _share(x, out)
        return linear_recurrence(keep, scale(t, new), self.axis, self.reverse)

    def cumulate(self, ask: Any) -> Cumulate:
        """A carry of the greatest real part so far, and of the sum of exponentials over it."""
        dtype = ask.dtypes[0]
        wide = "float32" if _check.is_narrow(dtype) else dtype
        part = {"complex64": "float32", "complex128": "float64"}.get(wide, wide)

        def lift(v: Expr) -> Expr:
            return v if part == wide else cast(v, wide)

        def step(carries: Sequence[Expr], index: Sequence[Any]) -> Any:
            top, total = carries
            x = cast(ask.at(0, index), wide)
            size = x if part == wide else expr("real", part, x)
            new = expr("max", part, top, size)
            # an infinite maximum is not subtracted: inf - inf would be NaN
            base = select(expr("is_finite", "bool", new), new, const(0.0, part))
            total = total * lift(expr("exp", part, top - base))
            total = total + expr("exp", wide, x - lift(base))
            out = expr("log", wide, total) + lift(base)
            out = select(compare("eq", new, float("inf")), lift(new), out)
            return (new, total), (cast(out, dtype),)

        return Cumulate(self.axis, self.reverse, (const(float("-inf"), part), const(0, wide)), step)

    def combine(self, x: Any, y: Any) -> Any:
        """max + log(1 + e^-|x - y|)."""
        return _logaddexp(x, y)

    def identity(self, dtype: Any) -> Any:
        """Minus infinity."""
        return -np.inf

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Several axes and dtypes; infinities."""
        yield from _samples(
            Cumlogsumexp, ("float16", "bfloat16", "float64", "complex64"), scale=8.0
        )
        special = np.array(
            [[-np.inf, -np.inf, 1, 2], [1, np.inf, 2, 3], [1, 1000, -1000, 2]], np.float32
        )
        yield Sample(Cumlogsumexp(1), (special,), smooth=False)


def _complex_logaddexp(x: Any, y: Any) -> Any:
    top = np.maximum(x.real, y.real)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.exp(x - top) + np.exp(y - top)) + top


def _logaddexp(x: Any, y: Any) -> Any:
    point = ops.pointwise
    if _check.kind(typeof(x).dtype) == "c":
        parts = [point.real(v) for v in (x, y)]
        top = point.max_(*parts)
        top = point.where(point.is_finite(top), top, like(top, 0))
        top = point.complex_(top, like(top, 0))
        return point.add(
            point.log(point.add(point.exp(point.sub(x, top)), point.exp(point.sub(y, top)))),
            top,
        )
    top, gap = point.max_(x, y), point.sub(x, y)
    near = point.add(top, point.log1p(point.exp(point.neg(point.abs_(gap)))))
    return point.where(point.ne(gap, gap), point.add(x, y), near)


def _share(x: Any, total: Any) -> Any:
    """e^(x - total), which is 0 where x is minus infinity even if `total` is."""
    point = ops.pointwise
    gap = point.sub(x, total)
    if _check.kind(typeof(x).dtype) == "c":
        size = point.real(x)
        least = point.eq(size, like(size, -np.inf))
    else:
        least = point.eq(x, like(x, -np.inf))
    return point.where(least, like(x, 0), point.exp(gap))


class LinearRecurrence(Op):
    """y[i] = a[i] y[i - 1] + b[i] along `axis`, with y[-1] = 0; backwards if `reverse`."""

    name = "linear_recurrence"
    arity = 2
    axis: int
    reverse: bool = False

    def result(self, a: ShapedArray, b: ShapedArray) -> ShapedArray:
        """The common type."""
        dtype = _check.same_dtype(self.name, (a, b))
        _check.check_kind(self.name, 0, a, "fc")
        if a.shape != b.shape:
            raise TypeError(
                f"linear_recurrence: `a` and `b` must have one shape; got {a.shape}, {b.shape}"
            )
        if not 0 <= self.axis < a.ndim:
            raise ValueError(
                f"linear_recurrence: axis {self.axis} is out of bounds for {a.str_short()}"
            )
        return ShapedArray(a.shape, dtype, a.weak_type and b.weak_type)

    def numpy(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Element after element, narrow floats in float32."""
        wide = np.float32 if _check.is_narrow(a.dtype) else a.dtype
        a, out = (np.moveaxis(v, self.axis, 0).astype(wide) for v in (a, b))
        places = range(len(a))
        y = np.zeros(a.shape[1:], wide)
        for i in reversed(places) if self.reverse else places:
            y = out[i] = np_where(y == 0, out[i], a[i] * y + out[i])
        return np.moveaxis(out, 0, self.axis).astype(b.dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The recurrence of a'[i] y[i - 1] + b'[i]."""
        (a, b), (ta, tb) = primals, tangents
        out = self(a, b)
        if ta is not None:
            before = shift(out, self.axis, 1, like(out, 0), self.reverse)
            # both may be infinite: `before` is a tangent as well
            term = scale_both(ta, before)
            tb = term if tb is None else ops.pointwise.add(term, tb)
        return out, None if tb is None else self(a, tb)

    def transpose(self, tools: Any, ct: Any, a: Any, b: Any) -> list[Any]:
        """The recurrence from the other end: x[i] = a[i + 1] x[i + 1] + ct[i]."""
        if isinstance(a, Linear):
            raise NotImplementedError("linear_recurrence is linear in `b`, not in `a`")
        moved = shift(a, self.axis, 1, like(a, 0), not self.reverse)
        return [None, LinearRecurrence(self.axis, not self.reverse)(moved, ct)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        a, b = (ops.pieces.batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True))
        return self.with_params(axis=self.axis + 1)(a, b), 0

    def cumulate(self, ask: Any) -> Cumulate:
        """One carry."""
        dtype = ask.dtypes[0]
        wide = "float32" if _check.is_narrow(dtype) else dtype

        def step(carries: Sequence[Expr], index: Sequence[Any]) -> Any:
            (last,) = carries
            new = cast(ask.at(1, index), wide)
            # as `scale_tangent`: an infinite coefficient of 0 does not count
            y = select(compare("eq", last, 0), new, cast(ask.at(0, index), wide) * last + new)
            return (y,), (cast(y, dtype),)

        return Cumulate(self.axis, self.reverse, (const(0, wide),), step)

    def stablehlo(self, writer: Any, a: Any, b: Any) -> Any:
        """A scan of affine maps, by prefixes of doubling length."""
        return writer.lower(self._by_doubling, [a, b])[0]

    def _by_doubling(self, a: Any, b: Any) -> list[Any]:
        point = ops.pointwise

        def combine(first: Any, then: Any) -> list[Any]:
            (a1, b1), (a2, b2) = first, then
            return [point.mul(a2, a1), point.add(point.scale_tangent(b1, a2), b2)]

        fills = (like(a, 1), like(b, 0))
        return [_doubling(combine, [a, b], fills, self.axis, self.reverse)[1]]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both directions, several axes and dtypes."""
        for axis, reverse in ((0, False), (1, True), (2, False)):
            x = ShapedArray((3, 5, 4), "float32")
            yield Sample(LinearRecurrence(axis, reverse), (x, x), (-1.0, 1.0), scale=8.0)
        for dtype in ("bfloat16", "float64", "complex64"):
            x = ShapedArray((7,), dtype)
            yield Sample(LinearRecurrence(0), (x, x), (-1.0, 1.0), scale=8.0)
        x = ShapedArray((0, 3), "float32")
        yield Sample(LinearRecurrence(0), (x, x))


def _samples(
    cls: type[Op],
    names: Sequence[str] = ("int8", "uint32", "float16", "bfloat16", "float64", "complex64"),
    **how: Any,
) -> Iterable[Sample]:
    """Every axis, both directions, an empty axis; small dtypes."""
    for axis, reverse in ((0, False), (1, True), (2, False)):
        yield Sample(cls(axis, reverse), (ShapedArray((3, 5, 4), "float32"),), **how)
    yield Sample(cls(1), (ShapedArray((2, 0), "float32"),), **how)
    for dtype in names:
        yield Sample(cls(0, True), (ShapedArray((7,), dtype),), **how)


def _running(function: Callable[[Any], Any], op: Cumulative, x: np.ndarray) -> np.ndarray:
    if not op.reverse:
        return function(x)
    return np.flip(function(np.flip(x, op.axis)), op.axis)


def _serial(combine: Callable[[Any, Any], Any], op: Cumulative, x: np.ndarray) -> np.ndarray:
    def run(v: np.ndarray) -> np.ndarray:
        out = np.moveaxis(np.array(v), op.axis, 0)
        for i in range(1, len(out)):
            out[i] = combine(out[i - 1], out[i])
        return np.moveaxis(out, 0, op.axis)

    return _running(run, op, x)


def cumsum(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running sum of `x` along `axis`."""
    return Cumsum(axis, reverse)(x)


def cumprod(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running product of `x` along `axis`."""
    return Cumprod(axis, reverse)(x)


def cummax(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running maximum of `x` along `axis`."""
    return Cummax(axis, reverse)(x)


def cummin(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running minimum of `x` along `axis`."""
    return Cummin(axis, reverse)(x)


def cumlogsumexp(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The logarithm of the running sum of exponentials of `x` along `axis`."""
    return Cumlogsumexp(axis, reverse)(x)


def linear_recurrence(a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
    """y[i] = a[i] y[i - 1] + b[i] along `axis`."""
    return LinearRecurrence(axis, reverse)(a, b)


def exclusive_cumprod(x: Any, axis: int, reverse: bool) -> Any:
    """The running product of the elements before (after, if `reverse`) each one."""
    return cumprod(shift(x, axis, 1, like(x, 1), reverse), axis, reverse)
