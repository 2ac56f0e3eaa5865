"""Reductions over windows that slide along an array.

A window's element `k` of the result's element `i` is the element `i * stride + k * window_dilation
- low` of the operand, of which `base_dilation - 1` places lie between two elements; a place that
holds no element counts for nothing.  Semantics: StableHLO `reduce_window`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine, affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, cast, compare, number, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import Combining, LinearOp, like

#: Windows of so many elements are written out, one after the other; larger ones are loops.
WRITTEN_OUT = 32


class WindowOp(Op):
    """Looks at windows of its last argument.

    Fields, for each axis: the window's size, the step from one to the next, places added
    (low, high; negative: cut off), steps between elements of the operand and of the window.
    """

    accepts: ClassVar[str] = "iuf"
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    @property
    def axes(self) -> list[tuple[int, int, tuple[int, int], int, int]]:
        """(size, stride, (low, high), base dilation, window dilation) of each axis."""
        return list(
            zip(
                self.window_dimensions,
                self.window_strides,
                self.padding,
                self.base_dilation,
                self.window_dilation,
                strict=True,
            )
        )

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """The places in a window, in C order."""
        return list(itertools.product(*map(range, self.window_dimensions)))

    def out_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each axis."""
        for field in ("window_strides", "padding", "base_dilation", "window_dilation"):
            if len(getattr(self, field)) != len(self.window_dimensions):
                raise ValueError(
                    f"{self.name}: {field}={getattr(self, field)} must have one entry for each of "
                    f"window_dimensions={self.window_dimensions}"
                )
        if len(shape) != len(self.window_dimensions):
            raise ValueError(
                f"{self.name}: window_dimensions={self.window_dimensions} must have one entry for "
                f"each axis of the operand, whose shape is {tuple(shape)}"
            )
        for field in ("window_dimensions", "window_strides", "base_dilation", "window_dilation"):
            if any(n < 1 for n in getattr(self, field)):
                raise ValueError(
                    f"{self.name}: {field} must be positive; got {getattr(self, field)}"
                )
        sizes = [
            (covered(n, dilation) + low + high, covered(w, spread), stride)
            for n, (w, stride, (low, high), dilation, spread) in zip(shape, self.axes, strict=True)
        ]
        return tuple(itertools.starmap(windows_in, sizes))

    def batched(self, dim: int) -> Any:
        """The same op where the operand has a further axis."""

        def at(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
            return (*values[:dim], value, *values[dim:])

        return self.with_params(
            window_dimensions=at(self.window_dimensions, 1),
            window_strides=at(self.window_strides, 1),
            padding=at(self.padding, (0, 0)),
            base_dilation=at(self.base_dilation, 1),
            window_dilation=at(self.window_dilation, 1),
        )

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Windows of size 1 along the batch axis."""
        if len(args) == 1:
            return self.batched(dims[0])(*args), dims[0]
        first = [ops.pieces.batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True)]
        return self.batched(0)(*first), 0

    def padded(self, x: Any, value: Any) -> Any:
        """`x` with every place there, `value` where it has no element."""
        config = [
            (low, high, dilation - 1)
            for (low, high), dilation in zip(self.padding, self.base_dilation, strict=True)
        ]
        return ops.pieces.pad(x, value, config)

    @property
    def is_plain(self) -> bool:
        """Whether every place holds an element."""
        return not any(map(any, self.padding)) and all(d == 1 for d in self.base_dilation)

    def plain(self) -> Any:
        """The same op, of an operand that is padded already."""
        rank = len(self.padding)
        return self.with_params(padding=((0, 0),) * rank, base_dilation=(1,) * rank)

    def views(self, x: np.ndarray, value: Any) -> Iterable[np.ndarray]:
        """For each place in a window, what stands there: NumPy views of the padded array."""
        shape = self.out_shape(x.shape)
        config = tuple((*p, d - 1) for p, d in zip(self.padding, self.base_dilation, strict=True))
        full = ops.pieces.Pad(config).numpy(x, np.asarray(value).astype(x.dtype))
        for tap in self.taps:
            yield full[self.cut_at(tap, shape)]

    def cut_at(self, tap: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
        """Of the padded array, the elements at place `tap` of the windows."""
        starts = [k * spread for k, spread in zip(tap, self.window_dilation, strict=True)]
        return tuple(
            slice(a, a + covered(m, s), s)
            for a, m, s in zip(starts, shape, self.window_strides, strict=True)
        )

    def tap_at(self, ask: Any, k: int, index: Sequence[Any], tap: Sequence[Any]) -> Any:
        """(argument `k` at place `tap` of a window, whether it has an element there); None, None
        if it has none.  A condition of None: it surely has one."""
        place: list[Affine] = []
        inside: Expr | None = None
        given = zip(index, tap, ask.shapes[k], self.axes, strict=True)
        for i, t, n, (_, stride, (low, high), dilation, spread) in given:
            at = affine(i) * stride + affine(t) * spread - low
            before, after = max(low, 0), max(high, 0)
            if before or after or dilation > 1:
                extent = affine(covered(affine(n).const, dilation))
                which, _ = ask.piece(at + before, [before, extent, after])
                if which != 1:
                    return None, None
            if dilation > 1:
                at, rest = ask.divmod(at, dilation)
                here = compare("eq", ask.index(rest, "int64"), 0)
                inside = here if inside is None else inside & here
            place.append(at)
        return ask.at(k, place), inside


def by_size(op: Any) -> Any:
    """The `kernel` rule: a small window is written out, a large one is a fold; None for a large one
    with places to skip."""
    if math.prod(op.window_dimensions) <= WRITTEN_OUT:
        return op.written_out
    return op.folded if op.is_plain else None


def covered(n: int, dilation: int) -> int:
    """Places that `n` elements take, `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def windows_in(room: int, window: int, stride: int) -> int:
    """How many windows fit in `room` places."""
    return (room - window) // stride + 1 if room >= window else 0


def sliced(x: Any, cuts: Sequence[slice]) -> Any:
    """`x[cuts]`; the slices may be empty beyond its end."""
    shape = typeof(x).shape
    starts = [min(c.start, n) for c, n in zip(cuts, shape, strict=True)]
    ends = [max(a, min(c.stop, n)) for a, c, n in zip(starts, cuts, shape, strict=True)]
    return ops.pieces.slice_(x, starts, ends, [c.step for c in cuts])


class WindowReduction(WindowOp, Combining):
    """Combines the elements of each window."""

    def result(self, x: ShapedArray) -> ShapedArray:
        """One element for each window."""
        _check.check_kind(self.name, 0, x, self.accepts)
        return ShapedArray(self.out_shape(x.shape), x.dtype, x.weak_type)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """One place of the windows after the other."""
        wide = x.astype(self.accumulator(x.dtype), copy=False)
        out = functools.reduce(self.way.numpy, self.views(wide, self.identity(x.dtype)))
        return np.asarray(out).astype(x.dtype)

    kernel = property(by_size)

    def written_out(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The elements combined one after the other."""
        given = dtypes.as_dtype(ask.dtypes[0])
        dtype: str = self.accumulator(given).name
        out, nothing = None, number(self.identity(given), dtype)
        for tap in self.taps:
            x, inside = self.tap_at(ask, 0, index, tap)
            if x is None:
                continue
            x = cast(x, dtype)
            if inside is not None:
                x = select(inside, x, nothing)
            out = x if out is None else ops.by_name(self.way.op).element(dtype, out, x)
        return cast(nothing if out is None else out, ask.dtypes[0])

    def folded(self, ask: Any, index: Sequence[Any]) -> Expr:
        """A loop over the places."""

        def element(k: Sequence[Any]) -> Expr:
            return self.tap_at(ask, 0, index, k)[0]

        return self.fold(ask, list(map(affine, self.window_dimensions)), element)

    def decompose(self, x: Any) -> Any:
        """Windows of the padded operand."""
        return self.plain()(self.padded(x, like(x, self.identity(typeof(x).dtype))))

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reduce_window; narrow floats are added in float32."""
        aval = writer.aval(x)
        wide = self.accumulator(aval.dtype)
        scalar = ShapedArray((), wide)

        def pair(a: Any, b: Any) -> list[Any]:
            return [writer.emit(self.way.hlo, [a, b], scalar)]

        pads = str([list(p) for p in self.padding])
        ranks = f"{len(self.padding)}x2xi64"
        out = writer.emit(
            "stablehlo.reduce_window",
            [writer.convert(x, wide), writer.full(scalar, self.identity(aval.dtype))],
            ShapedArray(self.out_shape(aval.shape), wide),
            [writer.region([scalar, scalar], pair)],
            window_dimensions=self.window_dimensions,
            window_strides=self.window_strides,
            base_dilations=self.base_dilation,
            window_dilations=self.window_dilation,
            padding=f"dense<{pads if self.padding else ''}> : tensor<{ranks}>",
        )
        return writer.convert(out, aval.dtype)


class ReduceWindowSum(LinearOp, WindowReduction):
    """The sum of each window."""

    name = "reduce_window_sum"
    accepts = "iufc"
    kind = "sum"

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The sum of the windows that an element is in: windows of the spread-out cotangent."""
        shape, strides = x.aval.shape, self.window_strides
        if 0 in shape or 0 in typeof(ct).shape:
            return [None]
        padding: list[tuple[int, int]] = []
        for n, m, (w, stride, (low, _), dilation, spread) in zip(
            shape, typeof(ct).shape, self.axes, strict=True
        ):
            reach = covered(w, spread) - 1
            length = covered(n, dilation) + reach
            before = reach - low
            padding.append((before, length - before - covered(m, stride)))
        op = ReduceWindowSum(
            self.window_dimensions, self.base_dilation, tuple(padding), strides,
            self.window_dilation,
        )  # fmt: skip
        return [op(ct)]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `window_cases`; small dtypes."""
        for op, aval in window_cases(ReduceWindowSum):
            yield Sample(op, (aval,), scale=4.0)
        for dtype in ("int8", "uint32", "float16", "bfloat16", "float64", "complex64"):
            op = ReduceWindowSum((3,), (2,), ((1, 1),), (1,), (1,))
            yield Sample(op, (ShapedArray((19,), dtype),), scale=4.0)


def window_cases(cls: Any, *more: str, few: bool = False) -> Iterable[tuple[Any, ShapedArray]]:
    """Ops and operands: plain, padded, dilated, cut, large, without windows, without axes."""
    cases = (
        ((7, 9), (2, 3), (1, 2), ((0, 0), (0, 0)), (1, 1), (1, 1)),
        ((2, 7, 8, 3), (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 1), (0, 0)),
         (1,) * 4, (1,) * 4),
        ((5, 6), (2, 3), (2, 1), ((1, 2), (3, 0)), (2, 3), (1, 2)),
        ((9,), (2,), (2,), ((-2, 3),), (1,), (3,)),
        ((50,), (40,), (3,), ((0, 0),), (1,), (1,)),
        ((30,), (36,), (5,), ((20, 10),), (2,), (1,)),
        ((2,), (4,), (1,), ((0, 0),), (1,), (1,)),
        ((0,), (2,), (1,), ((2, 1),), (1,), (1,)),
        ((), (), (), (), (), ()),
    )  # fmt: skip
    for shape, *how in cases[1:6:2] if few else cases:
        yield cls(*how, *more), ShapedArray(shape, "float32")


class WindowExtremum(WindowReduction):
    """The greatest or least element of each window; NaN if there is one."""

    accepts = "biuf"
    transpose = Absent("not linear")

    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """The tangent of the chosen element: of equal ones the first."""
        select = "ge" if self.kind == "max" else "le"
        return ops.window_places.SelectAndGatherAdd(*self.params.values(), select)(t, x)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """See `window_cases`; small dtypes, NaN."""
        for op, aval in window_cases(cls, few=cls is ReduceWindowMin):
            yield Sample(op, (aval,), (-50.0, 50.0), smooth=op.is_plain)  # else some are infinite
        for dtype in ("bool", "int8", "uint32", "bfloat16", "float64"):
            op = cls((3,), (2,), ((1, 1),), (1,), (1,))
            yield Sample(op, (ShapedArray((19,), dtype),), smooth=False)
        special = np.array([1, np.nan, 3, 2, 2, -0.0, 0.0, -np.inf], np.float32)
        yield Sample(cls((2,), (1,), ((1, 0),), (1,), (1,)), (special,), smooth=False)


class ReduceWindowMax(WindowExtremum):
    """The greatest element of each window."""

    name = "reduce_window_max"
    kind = "max"


class ReduceWindowMin(WindowExtremum):
    """The least element of each window."""

    name = "reduce_window_min"
    kind = "min"
