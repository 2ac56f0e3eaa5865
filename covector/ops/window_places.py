"""Where in each window the extremum stands; values that go with it, and back: the derivatives of
`reduce_window_max` and `reduce_window_min`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Sample
from covector.ir.scalar import Expr, cast, compare, const, number, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import LinearOp, like, worst
from covector.ops.windows import (
    WRITTEN_OUT,
    ReduceWindowMax,
    ReduceWindowMin,
    WindowOp,
    by_size,
    covered,
    sliced,
    window_cases,
)

#: The gradient of windows of so many elements is a sum over the places in a window.
SUMMED = 4

INT32 = np.dtype(np.int32)


class SelectOp(WindowOp):
    """Finds the extremum of each window: of equal ones the first, of NaNs too.

    select: 'ge', the greatest, or 'le', the least.
    """

    select: str

    @property
    def kind(self) -> str:
        """'max' or 'min'."""
        return "max" if self.select == "ge" else "min"

    @property
    def place(self) -> Any:
        """The op that gives the extremum's place."""
        return WindowPlace(*self.params.values())


class WindowPlace(SelectOp):
    """The place in its window (in C order, an int32) of the extremum; -1 if it has no element."""

    name = "window_place"
    arity = 1
    accepts = "biuf"
    jvp = Absent("integer")
    transpose = Absent("not linear")

    def result(self, x: ShapedArray) -> ShapedArray:
        """One int32 for each window."""
        _check.check_kind(self.name, 0, x, self.accepts)
        return ShapedArray(self.out_shape(x.shape), INT32)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """One place of the windows after the other."""
        best = np.zeros(self.out_shape(x.shape), x.dtype)
        place = np.full(best.shape, -1, np.int32)
        filled = self.views(np.ones(x.shape, bool), False)
        for k, (piece, has) in enumerate(zip(self.views(x, 0), filled, strict=True)):
            better = piece > best if self.select == "ge" else piece < best
            if _check.kind(x.dtype) == "f":
                better |= (piece != piece) & (best == best)
            better = has & (better | (place < 0))
            best, place = np.where(better, piece, best), np.where(better, np.int32(k), place)
        return place

    kernel = property(by_size)

    def written_out(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The elements compared one after the other."""
        best: Expr | None = None
        place = const(-1, "int32")
        for k, tap in enumerate(self.taps):
            x, inside = self.tap_at(ask, 0, index, tap)
            if x is None:
                continue
            number = const(k, "int32")
            if best is None:
                best, place = x, number if inside is None else select(inside, number, place)
                continue
            better = _better(self.select, x, best)
            if place.op != "const":
                better = better | compare("lt", place, 0)
            if inside is not None:
                better = better & inside
            best, place = select(better, x, best), select(better, number, place)
        return place

    def folded(self, ask: Any, index: Sequence[Any]) -> Expr:
        """A loop over the places."""

        def element(k: Sequence[Any]) -> tuple[Expr, Expr]:
            flat = affine(0)
            for i, w in zip(k, self.window_dimensions, strict=True):
                flat = flat * w + affine(i)
            return self.tap_at(ask, 0, index, k)[0], ask.index(flat, "int64")

        extents = list(map(affine, self.window_dimensions))
        _, place = ask.fold(f"arg{self.kind}", extents, element)
        return cast(place, "int32")

    def decompose(self, x: Any) -> Any:
        """Of the padded operand.  Padding that may be chosen is as bad as all elements there are:
        then it is the first of these; or there is none."""
        point, how = ops.pointwise, list(self.plain().params.values())[:-1]
        bottom = like(x, worst(self.kind, typeof(x).dtype))
        full = self.padded(x, bottom)
        has = self.padded(ops.shape.full(typeof(x).shape, True, bool), np.False_)
        extremum = (ReduceWindowMax if self.kind == "max" else ReduceWindowMin)(*how)
        first = WindowPlace(*how, "ge")(has)
        place = self.plain()(full)
        place = point.where(point.eq(extremum(full), bottom), first, place)
        return point.where(ReduceWindowMax(*how)(has), place, like(place, -1))

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """One slice of the padded operand after the other."""
        return writer.lower(self._in_slices, [x])[0]

    def _in_slices(self, x: Any) -> list[Any]:
        point, shape = ops.pointwise, self.out_shape(typeof(x).shape)
        full = self.padded(x, like(x, 0))
        has = self.padded(ops.shape.full(typeof(x).shape, True, bool), np.False_)
        best = ops.shape.full(shape, 0, typeof(x).dtype)
        place = ops.shape.full(shape, -1, INT32)
        for k, tap in enumerate(self.taps):
            piece, inside = (sliced(v, self.cut_at(tap, shape)) for v in (full, has))
            better = (point.gt if self.select == "ge" else point.lt)(piece, best)
            if _check.kind(typeof(x).dtype) == "f":
                news = point.and_(point.ne(piece, piece), point.eq(best, best))
                better = point.or_(better, news)
            better = point.and_(inside, point.or_(better, point.lt(place, like(place, 0))))
            best = point.where(better, piece, best)
            place = point.where(better, ops.shape.full(shape, k, INT32), place)
        return [place]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """The greatest and the least; ties, NaN, small dtypes."""
        for op, aval in window_cases(WindowPlace, "ge"):
            yield Sample(op, (aval,))
        for kind in ("ge", "le"):
            special = np.array([1, np.nan, 3, 2, 2, -0.0, 0.0, -np.inf, np.inf], np.float32)
            op = WindowPlace((2,), (1,), ((1, 1),), (2,), (1,), kind)
            yield Sample(op, (special,))
            yield Sample(op.with_params(window_dimensions=(35,), padding=((30, 30),)), (special,))
        for dtype in ("bool", "int8", "bfloat16"):
            op = WindowPlace((3,), (2,), ((1, 1),), (1,), (1,), "ge")
            yield Sample(op, (ShapedArray((19,), dtype),))


def _better(select: str, x: Expr, best: Expr) -> Expr:
    """Whether `x`, which comes later, is chosen."""
    if x.dtype == "bool":
        return x & ~best if select == "ge" else ~x & best
    better = compare("gt" if select == "ge" else "lt", x, best)
    if "float" not in x.dtype:
        return better
    return better | (compare("ne", x, x) & compare("eq", best, best))


class SelectLinear(SelectOp, LinearOp):
    """Of (values, operand): linear in the values, which go with the operand's extrema."""

    arity = 2
    accepts = "iufc"

    def _listed(self, *args: Any) -> list[Any]:
        return [self.decompose(*args)]

    def places(self, x: Any) -> tuple[Any, Any]:
        """Of the operand's extrema: (the place in the flattened operand, -1 for none; the same
        with a last axis of size 1)."""
        shape, point = typeof(x).shape, ops.pointwise
        place = self.place(x)
        out, rest, flat, step = typeof(place).shape, place, None, 1
        for d, (n, axis) in reversed(list(enumerate(zip(shape, self.axes, strict=True)))):
            w, stride, (low, _), dilation, spread = axis
            window = ops.shape.iota(INT32, out, d)
            digit, rest = point.rem(rest, like(rest, w)), point.div(rest, like(rest, w))
            at = point.mul(window, like(window, stride))
            at = point.add(at, point.mul(digit, like(digit, spread)))
            at = point.div(point.sub(at, like(at, low)), like(at, dilation))
            at = point.mul(at, like(at, step))
            flat, step = at if flat is None else point.add(flat, at), step * n
        flat = place if flat is None else flat
        flat = point.where(point.lt(place, like(place, 0)), like(flat, -1), flat)
        return flat, ops.shape.expand_dims(flat, (len(out),))


class SelectAndGatherAdd(SelectLinear):
    """The value that stands where a window of the operand has its extremum; 0 if nowhere."""

    name = "select_and_gather_add"

    def result(self, t: ShapedArray, x: ShapedArray) -> ShapedArray:
        """One value for each window."""
        _check.check_kind(self.name, 0, t, self.accepts)
        _check.check_kind(self.name, 1, x, "biuf")
        if t.shape != x.shape:
            raise TypeError(
                f"{self.name}: values and operand must have equal shapes; got {t.str_short()} and "
                f"{x.str_short()}"
            )
        return ShapedArray(self.out_shape(x.shape), t.dtype)

    def numpy(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """One place of the windows after the other."""
        place = self.place.numpy(x)
        out = np.zeros(place.shape, t.dtype)
        for k, piece in enumerate(self.views(t, 0)):
            out = np.where(place == k, piece, out)
        return out

    def transpose(self, tools: Any, ct: Any, t: Any, x: Any) -> list[Any]:
        """Each cotangent, added where its window's extremum stands."""
        return [SelectAndScatterAdd(*self.params.values())(ct, x), None]

    @property
    def kernel(self) -> Any:
        """A small window written out."""
        small = math.prod(self.window_dimensions) <= WRITTEN_OUT
        return self._written_out if small else None

    def _written_out(self, ask: Any, index: Sequence[Any]) -> Expr:
        dtype = ask.dtypes[0]
        found = nothing = number(0, dtype)
        best: Expr | None = None
        has: Expr | None = None  # whether an element was met; None: surely
        for tap in self.taps:
            x, inside = self.tap_at(ask, 1, index, tap)
            if x is None:
                continue
            t = self.tap_at(ask, 0, index, tap)[0]
            if best is None:
                best, has = x, inside
                found = t if inside is None else select(inside, t, nothing)
                continue
            better = _better(self.select, x, best)
            if has is not None:
                better = better | ~has
                has = None if inside is None else has | inside
            if inside is not None:
                better = better & inside
            best, found = select(better, x, best), select(better, t, found)
        return found

    def decompose(self, t: Any, x: Any) -> Any:
        """Looked up."""
        if not typeof(t).size:
            return ops.shape.full(self.out_shape(typeof(x).shape), 0, typeof(t).dtype)
        numbers = ops.gather.GatherDimensionNumbers((), (0,), (0,))
        flat = ops.shape.reshape(t, (typeof(t).size,))
        fill = ops.gather.GatherScatterMode.FILL_OR_DROP
        return ops.gather.gather(flat, self.places(x)[1], numbers, (1,), fill, 0)

    def stablehlo(self, writer: Any, t: Any, x: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(self._listed, [t, x])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        for op, x in _samples(SelectAndGatherAdd):
            yield Sample(op, (ShapedArray(x.shape, "float32"), x), (-50.0, 50.0))


class SelectAndScatterAdd(SelectLinear):
    """For each window of the operand a value: their sums where the windows' extrema stand."""

    name = "select_and_scatter_add"

    def result(self, source: ShapedArray, x: ShapedArray) -> ShapedArray:
        """The operand's shape."""
        _check.check_kind(self.name, 0, source, self.accepts)
        _check.check_kind(self.name, 1, x, "biuf")
        wanted = self.out_shape(x.shape)
        if source.shape != wanted:
            raise TypeError(
                f"{self.name}: there must be one value for each window, {wanted} of the operand "
                f"{x.str_short()}; got {source.str_short()}"
            )
        return ShapedArray(x.shape, source.dtype)

    def numpy(self, source: np.ndarray, x: np.ndarray) -> np.ndarray:
        """One place of the windows after the other."""
        place, total = self.place.numpy(x), np.zeros(x.shape, source.dtype)
        for k, tap in enumerate(self.taps):
            term = np.where(place == k, source, np.zeros((), source.dtype))
            config, steps = self._spread(tap, x.shape, place.shape)
            spread = ops.pieces.Pad(config).numpy(term, np.zeros((), source.dtype))
            total += spread[tuple(slice(None, None, s) for s in steps)]
        return total

    def _spread(self, tap: Sequence[int], shape: Sequence[int], out: Sequence[int]) -> Any:
        """How values of the windows lie at place `tap` of them: (padding, steps) of the operand."""
        config: list[tuple[int, int, int]] = []
        for k, n, m, (_, stride, (low, _), dilation, spread) in zip(
            tap, shape, out, self.axes, strict=True
        ):
            start = k * spread - low
            config.append((start, covered(n, dilation) - start - covered(m, stride), stride - 1))
        return tuple(config), self.base_dilation

    def transpose(self, tools: Any, ct: Any, source: Any, x: Any) -> list[Any]:
        """Each window's value stands where its extremum does."""
        return [SelectAndGatherAdd(*self.params.values())(ct, x), None]

    def decompose(self, source: Any, x: Any) -> Any:
        """A sum over the places of small windows; an indexed sum for large ones."""
        shape, point = typeof(x).shape, ops.pointwise
        zero, out = like(source, 0), typeof(source).shape
        total = ops.shape.full(shape, 0, typeof(source).dtype)
        if not typeof(source).size or not typeof(x).size:
            return total
        if math.prod(self.window_dimensions) <= SUMMED:
            place = self.place(x)
            terms: list[Any] = []
            for k, tap in enumerate(self.taps):
                term = point.where(point.eq(place, like(place, k)), source, zero)
                config, steps = self._spread(tap, shape, out)
                spread = ops.pieces.pad(term, 0, config)
                terms.append(
                    ops.pieces.slice_(spread, (0,) * len(steps), typeof(spread).shape, steps)
                )
            total = terms[0]
            for term in terms[1:]:
                total = point.add(total, term)
            return total
        numbers = ops.scatter.ScatterDimensionNumbers((), (0,), (0,))
        flat = ops.shape.reshape(total, (typeof(total).size,))
        added = ops.scatter.ScatterAdd(numbers)(flat, self.places(x)[1], source)
        return ops.shape.reshape(added, shape)

    def stablehlo(self, writer: Any, source: Any, x: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(self._listed, [source, x])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_samples`."""
        for op, x in _samples(SelectAndScatterAdd):
            source = ShapedArray(op.out_shape(x.shape), "float32")
            yield Sample(op, (source, x), (-50.0, 50.0), scale=4.0)


def _samples(cls: Any) -> Iterable[tuple[Any, Any]]:
    yield from window_cases(cls, "ge")
    yield cls((3,), (2,), ((1, 1),), (1,), (1,), "le"), ShapedArray((19,), "float32")
    ties = np.array([1, 1, 3, 2, 2, -0.0, 0.0, -np.inf, -np.inf], np.float32)
    yield cls((2,), (1,), ((1, 1),), (2,), (1,), "ge"), ties
