"""Reductions over windows that slide along an array.

A window's element `k` of the result's element `i` is the element `i * stride + k * window_dilation
- low` of the operand, of which `base_dilation - 1` places lie between two elements; a place that
holds no element counts for nothing.  Semantics: StableHLO `reduce_window`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine, affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, cast, compare, const, expr, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import LinearOp, like
from covector.ops.reduce import worst

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
        return tuple(max(0, (n - w) // stride + 1) if n >= w else 0 for n, w, stride in sizes)

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


def kind_of(dtype: Any) -> str:
    """The letter of `_check.KINDS` for `dtype`."""
    return _check.kind(dtype)


def covered(n: int, dilation: int) -> int:
    """Places that `n` elements take, `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def sliced(x: Any, cuts: Sequence[slice]) -> Any:
    """`x[cuts]`; the slices may be empty beyond its end."""
    shape = typeof(x).shape
    starts = [min(c.start, n) for c, n in zip(cuts, shape, strict=True)]
    ends = [max(a, min(c.stop, n)) for a, c, n in zip(starts, cuts, shape, strict=True)]
    return ops.pieces.slice_(x, starts, ends, [c.step for c in cuts])


class WindowReduction(WindowOp):
    """Combines the elements of each window.  kind: one of COMBINE."""

    arity = 1
    kind: ClassVar[str] = ""
    #: The StableHLO op that combines two elements.
    hlo: ClassVar[str] = ""
    #: The NumPy function that does.
    pair: ClassVar[Callable[..., Any]]

    def identity(self, dtype: Any) -> Any:
        """What a window without elements gives."""
        raise TypeError(f"{self.name} has no identity")

    def result(self, x: ShapedArray) -> ShapedArray:
        """One element for each window."""
        _check.check_kind(self.name, 0, x, self.accepts)
        return ShapedArray(self.out_shape(x.shape), x.dtype, x.weak_type)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """One place of the windows after the other."""
        wide = x.astype(np.float32) if self._is_wide(x.dtype) else x
        pieces = self.views(wide, self.identity(x.dtype))
        out = np.array(next(iter(pieces)))
        for piece in itertools.islice(self.views(wide, self.identity(x.dtype)), 1, None):
            out = type(self).pair(out, piece)
        return np.asarray(out).astype(x.dtype)

    def _is_wide(self, dtype: Any) -> bool:
        return self.kind == "sum" and _check.is_narrow(dtype)

    @property
    def kernel(self) -> Any:
        """The elements written out, or a fold; None for a large window with places to skip."""
        if math.prod(self.window_dimensions) <= WRITTEN_OUT:
            return self._written_out
        return self._fold if self.is_plain else None

    def _written_out(self, ask: Any, index: Sequence[Any]) -> Expr:
        dtype = "float32" if self._is_wide(ask.dtypes[0]) else ask.dtypes[0]
        out = None
        nothing = const(self._start(ask.dtypes[0]), dtype)
        for tap in self.taps:
            x, inside = self.tap_at(ask, 0, index, tap)
            if x is None:
                continue
            x = cast(x, dtype)
            if inside is not None:
                x = select(inside, x, nothing)
            out = x if out is None else _combine(self.kind, out, x)
        return cast(nothing if out is None else out, ask.dtypes[0])

    def _start(self, dtype: str) -> Any:
        value = self.identity(dtypes.as_dtype(dtype))
        return float(value) if "float" in dtype else value

    def _fold(self, ask: Any, index: Sequence[Any]) -> Expr:
        kind = self.kind
        if ask.dtypes[0] == "bool":
            kind = {"max": "or", "min": "and"}[kind]
        wide = "float32" if self._is_wide(ask.dtypes[0]) else ask.dtypes[0]

        def element(k: Sequence[Any]) -> Expr:
            return cast(self.tap_at(ask, 0, index, k)[0], wide)

        return cast(ask.fold(kind, list(map(affine, self.window_dimensions)), element),
                    ask.dtypes[0])  # fmt: skip

    def decompose(self, x: Any) -> Any:
        """Windows of the padded operand."""
        return self.plain()(self.padded(x, like(x, self.identity(typeof(x).dtype))))

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reduce_window; narrow floats are added in float32."""
        aval = writer.aval(x)
        wide = np.dtype(np.float32) if self._is_wide(aval.dtype) else aval.dtype
        scalar = ShapedArray((), wide)

        def pair(a: Any, b: Any) -> list[Any]:
            return [writer.emit(self.hlo, [a, b], scalar)]

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


def _combine(kind: str, x: Expr, y: Expr) -> Expr:
    if kind == "sum":
        return x + y
    if x.dtype == "bool":
        return x | y if kind == "max" else x & y
    return expr(kind, x.dtype, x, y)


class ReduceWindowSum(LinearOp, WindowReduction):
    """The sum of each window."""

    name = "reduce_window_sum"
    accepts = "iufc"
    kind = "sum"
    hlo = "stablehlo.add"
    pair = staticmethod(np.add)

    def identity(self, dtype: Any) -> Any:
        """0."""
        return 0

    def _start(self, dtype: str) -> Any:
        return complex(0) if "complex" in dtype else 0.0 if "float" in dtype else 0

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
        """See `_samples`."""
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

    def identity(self, dtype: Any) -> Any:
        """The least (greatest) value there is."""
        return worst(self.kind, dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangent of the chosen element: of equal ones the first."""
        (x,), (t,) = primals, tangents
        out = self(x)
        if t is None:
            return out, None
        select = "ge" if self.kind == "max" else "le"
        return out, ops.window_places.SelectAndGatherAdd(*self.params.values(), select)(t, x)


class ReduceWindowMax(WindowExtremum):
    """The greatest element of each window."""

    name = "reduce_window_max"
    kind = "max"
    hlo = "stablehlo.maximum"
    pair = staticmethod(np.maximum)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_extremum_samples`."""
        yield from _extremum_samples(ReduceWindowMax)


class ReduceWindowMin(WindowExtremum):
    """The least element of each window."""

    name = "reduce_window_min"
    kind = "min"
    hlo = "stablehlo.minimum"
    pair = staticmethod(np.minimum)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """See `_extremum_samples`."""
        yield from _extremum_samples(ReduceWindowMin)


def _extremum_samples(cls: Any) -> Iterable[Sample]:
    for op, aval in window_cases(cls, few=cls is ReduceWindowMin):
        yield Sample(op, (aval,), (-50.0, 50.0), smooth=op.is_plain)  # else some are infinite
    for dtype in ("bool", "int8", "uint32", "bfloat16", "float64"):
        op = cls((3,), (2,), ((1, 1),), (1,), (1,))
        yield Sample(op, (ShapedArray((19,), dtype),), smooth=False)
    special = np.array([1, np.nan, 3, 2, 2, -0.0, 0.0, -np.inf], np.float32)
    yield Sample(cls((2,), (1,), ((1, 0),), (1,), (1,)), (special,), smooth=False)
