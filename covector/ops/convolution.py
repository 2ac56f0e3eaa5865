"""Convolutions: sums of products over windows that slide along several axes at once.

For an output position p, a place t in the window, and along each spatial axis
`m = p * stride + t * rhs_dilation - low`:

    out[n, o, p] = sum of lhs[n, i, m / lhs_dilation] * rhs[o, i, t] over i and t,

where a place m that holds no element of lhs counts for nothing.  Semantics: StableHLO
`convolution`.  Both derivatives are convolutions too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.op import Sample
from covector.ir.text import register_value_class
from covector.ir.values import typeof
from covector.ops.families import SumOfProducts
from covector.ops.windows import covered, windows_in


@register_value_class
class ConvDimensionNumbers(NamedTuple):
    """Which axes of the operands and the result of a convolution are what.

    lhs_spec: (batch, feature, spatial axes ...); rhs_spec: (output feature, input feature, spatial
    axes ...); out_spec: as lhs_spec.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


class ConvGeneralDilated(SumOfProducts):
    """See the head of this file.

    feature_group_count: that many groups of features, each a convolution of its own.
    batch_group_count: so many groups of the batch, each convolved with its own output features.
    The result is of `preferred_element_type`, if given; narrow floats are summed in float32,
    booleans are true where any product is.
    """

    name = "conv_general_dilated"
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: Any = None
    preferred_element_type: Any = None

    def result(self, lhs: ShapedArray, rhs: ShapedArray) -> ShapedArray:
        """Checks the sizes of all axes against each other."""
        given = self.common_dtype(lhs, rhs)
        self._check_fields(lhs, rhs)
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        self._check_groups(lhs, rhs)
        heads = lhs.shape[lhs_spec[0]] // self.batch_group_count, rhs.shape[rhs_spec[0]]
        shape = arranged((*heads, *self.spatial_sizes(lhs.shape, rhs.shape)), out_spec)
        wanted = self.preferred_element_type
        weak = lhs.weak_type and rhs.weak_type
        return ShapedArray(shape, given if wanted is None else wanted, weak)

    def spatial_sizes(self, lhs: Sequence[int], rhs: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each spatial axis."""
        out: list[int] = []
        for n, k, stride, (low, high), dilation, spread in self.axes(lhs, rhs):
            room, wide = covered(n, dilation) + low + high, covered(k, spread)
            if room < 0:
                raise ValueError(
                    f"{self.name}: padding={self.padding} cuts off more than there is of the "
                    f"spatial axes of lhs, whose shape is {tuple(lhs)}"
                )
            out.append(windows_in(room, wide, stride))
        return tuple(out)

    def axes(
        self, lhs: Sequence[int], rhs: Sequence[int]
    ) -> list[tuple[int, int, int, tuple[int, int], int, int]]:
        """Of each spatial axis: (elements, window, stride, (low, high), lhs dilation, rhs
        dilation)."""
        lhs_spec, rhs_spec, _ = self.dimension_numbers
        return [
            (lhs[d], rhs[e], *rest)
            for d, e, *rest in zip(
                lhs_spec[2:], rhs_spec[2:], self.window_strides, self.padding, self.lhs_dilation,
                self.rhs_dilation, strict=True,
            )
        ]  # fmt: skip

    def _check_fields(self, lhs: ShapedArray, rhs: ShapedArray) -> None:
        if lhs.ndim != rhs.ndim or lhs.ndim < 2:
            raise ValueError(
                f"{self.name}: lhs and rhs must have the same number of axes, 2 or more; got "
                f"{lhs.str_short()} and {rhs.str_short()}"
            )
        for spec, axes in zip(("lhs", "rhs", "out"), self.dimension_numbers, strict=True):
            if sorted(axes) != list(range(lhs.ndim)):
                raise ValueError(
                    f"{self.name}: dimension_numbers.{spec}_spec={tuple(axes)} must name each of "
                    f"the {lhs.ndim} axes once"
                )
        rank = lhs.ndim - 2
        for field in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"):
            given = getattr(self, field)
            if len(given) != rank:
                raise ValueError(
                    f"{self.name}: {field}={given} must have one entry for each of the {rank} "
                    f"spatial axes of {lhs.str_short()} and {rhs.str_short()}"
                )
            if field != "padding" and any(n < 1 for n in given):
                raise ValueError(f"{self.name}: {field} must be positive; got {given}")

    def _check_groups(self, lhs: ShapedArray, rhs: ShapedArray) -> None:
        lhs_spec, rhs_spec, _ = self.dimension_numbers
        batch, features = (lhs.shape[d] for d in lhs_spec[:2])
        outputs, inputs = (rhs.shape[d] for d in rhs_spec[:2])
        for field, what, count in (
            ("feature_group_count", "features of lhs", features),
            ("batch_group_count", "batch of lhs", batch),
        ):
            groups = getattr(self, field)
            if groups < 1:
                raise ValueError(f"{self.name}: {field} must be positive; got {groups}")
            for size, text in ((count, what), (outputs, "output features of rhs")):
                if size % groups:
                    raise ValueError(
                        f"{self.name}: the {text} ({size}) must be a multiple of {field}={groups}; "
                        f"got lhs {lhs.str_short()} and rhs {rhs.str_short()}"
                    )
        if self.feature_group_count > 1 and self.batch_group_count > 1:
            raise ValueError(
                f"{self.name}: one of feature_group_count={self.feature_group_count} and "
                f"batch_group_count={self.batch_group_count} must be 1"
            )
        if features != inputs * self.feature_group_count:
            raise ValueError(
                f"{self.name}: lhs has {features} features (axis {lhs_spec[1]} of "
                f"{lhs.str_short()}); wanted feature_group_count={self.feature_group_count} times "
                f"the {inputs} input features of rhs (axis {rhs_spec[1]} of {rhs.str_short()})"
            )

    def accumulator(self, x: Any, y: Any, out: Any) -> Any:
        """The dtype in which products are summed; true ones are counted."""
        wide = super().accumulator(x, y, out)
        return np.dtype(np.int32) if wide == np.bool_ else wide

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One place in the window after the other, over the padded operand."""
        out = self.result(ShapedArray(x.shape, x.dtype), ShapedArray(y.shape, y.dtype))
        wide = self.accumulator(x.dtype, y.dtype, out.dtype)
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        axes = self.axes(x.shape, y.shape)
        x = np.transpose(x.astype(wide), lhs_spec)
        y = np.transpose(y.astype(wide), rhs_spec)
        config = [(0, 0, 0), (0, 0, 0), *((*pad, d - 1) for _, _, _, pad, d, _ in axes)]
        x = ops.pieces.Pad(tuple(config)).numpy(x, np.zeros((), wide))
        fg, bg = self.feature_group_count, self.batch_group_count
        x = x.reshape(bg, x.shape[0] // bg, fg, x.shape[1] // fg, *x.shape[2:])
        y = y.reshape(bg, fg, y.shape[0] // (bg * fg), *y.shape[1:])
        sizes = [out.shape[d] for d in out_spec[2:]]
        total = np.zeros((x.shape[1], bg, fg, y.shape[2], *sizes), wide)
        for tap in itertools.product(*(range(k) for _, k, *_ in axes)):
            cuts = tuple(
                slice(t * r, t * r + covered(m, s), s)
                for t, m, (_, _, s, _, _, r) in zip(tap, sizes, axes, strict=True)
            )
            total += np.einsum("bnfi...,bfoi->nbfo...", x[(..., *cuts)], y[(..., *tap)])
        flat = total.reshape(total.shape[0], y.shape[0] * y.shape[1] * y.shape[2], *sizes)
        back = np.transpose(flat, np.argsort(np.asarray(out_spec)))
        return ops.cast.ConvertElementType(out.dtype).numpy(np.ascontiguousarray(back))

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """Convolutions of the cotangent: with the reversed window, and as a window."""
        if 0 in (*wanted.shape, *typeof(other).shape, *typeof(ct).shape):
            return None
        return (self._pull_rhs if k else self._pull_lhs)(ct, wanted, other)

    def _pull_lhs(self, ct: Any, wanted: ShapedArray, rhs: Any) -> Any:
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        groups = self.feature_group_count * self.batch_group_count
        axes = self.axes(wanted.shape, typeof(rhs).shape)
        sizes = [typeof(ct).shape[d] for d in out_spec[2:]]
        padding: list[tuple[int, int]] = []
        for m, (n, k, stride, (low, _), dilation, spread) in zip(sizes, axes, strict=True):
            reach = covered(k, spread) - 1
            before = reach - low
            padding.append((before, covered(n, dilation) + reach - covered(m, stride) - before))
        window = ops.shape.rev(rhs, tuple(rhs_spec[2:]))
        spec = [rhs_spec[1], rhs_spec[0], *rhs_spec[2:]]
        if groups > 1:
            window = _regroup(window, rhs_spec[0], rhs_spec[1], groups)
        op = ConvGeneralDilated(
            self.lhs_dilation, tuple(padding), self.window_strides, self.rhs_dilation,
            ConvDimensionNumbers(tuple(out_spec), tuple(spec), tuple(lhs_spec)), groups, 1,
            self.precision, self.preference(wanted, ct, rhs),
        )  # fmt: skip
        out = op(ct, window)
        if self.batch_group_count > 1:  # whose groups came as groups of features
            out = _regroup(out, lhs_spec[1], lhs_spec[0], self.batch_group_count)
        return out

    def _pull_rhs(self, ct: Any, wanted: ShapedArray, lhs: Any) -> Any:
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        sizes = [typeof(ct).shape[d] for d in out_spec[2:]]
        padding: list[tuple[int, int]] = []
        for m, (n, k, stride, (low, _), dilation, spread) in zip(
            sizes, self.axes(typeof(lhs).shape, wanted.shape), strict=True
        ):
            total = (k - 1) * spread + covered(m, stride)
            padding.append((low, total - covered(n, dilation) - low))
        numbers = ConvDimensionNumbers(
            (lhs_spec[1], lhs_spec[0], *lhs_spec[2:]),
            (out_spec[1], out_spec[0], *out_spec[2:]),
            (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]),
        )
        return ConvGeneralDilated(
            self.rhs_dilation, tuple(padding), self.lhs_dilation, self.window_strides, numbers,
            self.batch_group_count, self.feature_group_count, self.precision,
            self.preference(wanted, ct, lhs),
        )(lhs, ct)  # fmt: skip

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Of lhs: more of its batch; of rhs: more output features; of both: more groups."""
        (x, y), (dx, dy) = args, dims
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        fg, bg = self.feature_group_count, self.batch_group_count
        if dy is None:
            x = _merge(x, dx, lhs_spec[0], bg)
            return _split(self(x, y), out_spec[0], size)
        if dx is None:
            y = _merge(y, dy, rhs_spec[0], fg * bg)
            return _split(self(x, y), out_spec[1], size, fg * bg)
        y = _merge(y, dy, rhs_spec[0])
        if bg > 1:
            op = self.with_params(batch_group_count=bg * size)
            x = _merge(x, dx, lhs_spec[0])
        else:
            op = self.with_params(feature_group_count=fg * size)
            x = _merge(x, dx, lhs_spec[1])
        return _split(op(x, y), out_spec[1], size)

    def decompose(self, x: Any, y: Any) -> Any:
        """In one of two forms, whose operands are in one layout and are padded."""
        return ops.convolution_forms.normal(self, x, y)

    def stablehlo(self, writer: Any, x: Any, y: Any) -> Any:
        """stablehlo.convolution into the accumulator's dtype, then a conversion."""
        out = writer.out_avals[0]
        wide = self.accumulator(writer.aval(x).dtype, writer.aval(y).dtype, out.dtype)
        x, y = writer.convert(x, wide), writer.convert(y, wide)
        pads = str([list(p) for p in self.padding]) if self.padding else ""
        rank = len(self.padding)
        made = writer.emit(
            "stablehlo.convolution",
            [x, y],
            ShapedArray(out.shape, wide),
            window_strides=self.window_strides,
            padding=f"dense<{pads}> : tensor<{rank}x2xi64>",
            lhs_dilation=self.lhs_dilation,
            rhs_dilation=self.rhs_dilation,
            window_reversal=f"array<i1{': ' if rank else ''}{', '.join(['false'] * rank)}>",
            dimension_numbers=_hlo_numbers(self.dimension_numbers),
            feature_group_count=self.feature_group_count,
            batch_group_count=self.batch_group_count,
            precision_config=writer.precision(self.precision),
        )
        return writer.convert(made, out.dtype)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Layouts, ranks, strides, dilations, groups; every kind of dtype."""
        for x, y, layout, rest in _CASES:
            op, avals = _case(x, y, layout, **rest)
            yield Sample(op, avals, scale=8.0)
        for dtype, wanted in (
            ("bool", None), ("int8", "int32"), ("uint32", None), ("float16", None),
            ("bfloat16", "float32"), ("float64", None), ("complex64", None),
        ):  # fmt: skip
            kind = None if wanted is None else np.dtype(wanted)
            op, _ = _case((2, 7, 3), (3, 3, 4), "NWC WIO NWC", padding=((1, 0),), kind=kind)
            avals = tuple(ShapedArray(s, dtype) for s in ((2, 7, 3), (3, 3, 4)))
            yield Sample(op, avals, scale=8.0)


#: (lhs, rhs, layout, fields that are not the default): what `samples` gives.
_CASES: Sequence[tuple[tuple[int, ...], tuple[int, ...], str, dict[str, Any]]] = (
    ((2, 5, 6, 3), (3, 2, 3, 4), "NHWC HWIO NHWC", {"padding": ((1, 1), (0, 2))}),
    ((2, 3, 7, 6), (4, 3, 3, 2), "NCHW OIHW NCHW", {"strides": (2, 1)}),
    ((3, 8, 2), (3, 2, 2), "CWN IWO WNC", {"spread": (2,), "padding": ((-1, 2),)}),
    ((1, 5, 4), (3, 4, 2), "NWC WIO NWC", {"dilation": (2,), "padding": ((1, 3),)}),
    ((1, 4, 4), (2, 4, 3), "NWC WIO NWC",
     {"dilation": (3,), "strides": (2,), "padding": ((2, 1),)}),
    ((2, 5, 4), (3, 2, 6), "NWC WIO NWC", {"features": 2, "padding": ((1, 1),)}),
    ((2, 5, 4), (3, 1, 4), "NWC WIO NWC", {"features": 4, "strides": (2,)}),
    ((4, 3, 5), (4, 3, 2), "NCW OIW NCW", {"batches": 2}),
    ((3, 4), (4, 2), "NC IO NC", {}),
    ((1, 3, 4, 3, 2), (2, 2, 2, 2, 2), "NDHWC DHWIO NDHWC", {"padding": ((0, 1),) * 3}),
    ((1, 2, 3), (4, 3, 2), "NWC WIO NWC", {}),
    ((0, 5, 3), (2, 3, 2), "NWC WIO NWC", {}),
)  # fmt: skip


def _case(
    x: tuple[int, ...], y: tuple[int, ...], layout: str, *, strides: Any = None,
    padding: Any = None, dilation: Any = None, spread: Any = None, features: int = 1,
    batches: int = 1, kind: Any = None,
) -> tuple[Any, tuple[ShapedArray, ...]]:  # fmt: skip
    rank = len(x) - 2
    ones = (1,) * rank
    words = layout.split()
    letters = [c for c in words[0] if c not in "NC"]
    heads = ("NC", "OI", "NC")
    numbers = ConvDimensionNumbers(*(
        tuple(word.index(c) for c in (*head, *letters))
        for word, head in zip(words, heads, strict=True)))  # fmt: skip
    op = ConvGeneralDilated(
        strides or ones, padding or ((0, 0),) * rank, dilation or ones, spread or ones, numbers,
        features, batches, None, kind,
    )  # fmt: skip
    return op, (ShapedArray(x, "float32"), ShapedArray(y, "float32"))


def arranged(values: Sequence[Any], spec: Sequence[int]) -> tuple[Any, ...]:
    """`values` of the axes that `spec` names, in the order of the axes."""
    return tuple(v for _, v in sorted(zip(spec, values, strict=True)))


def _hlo_numbers(numbers: ConvDimensionNumbers) -> str:
    def one(spec: Sequence[int], letters: str) -> str:
        words = [*letters, *map(str, range(len(spec) - 2))]
        return f"[{', '.join(words[list(spec).index(d)] for d in range(len(spec)))}]"

    lhs, rhs, out = numbers
    return f"#stablehlo.conv<{one(lhs, 'bf')}x{one(rhs, 'oi')}->{one(out, 'bf')}>"


def _regroup(x: Any, source: int, target: int, groups: int) -> Any:
    """`x` whose axis `source`, in groups, gives them to axis `target` as its slowest part."""
    shape = typeof(x).shape
    n = shape[source] // groups
    split = ops.shape.reshape(x, (*shape[:source], groups, n, *shape[source + 1 :]))
    place = target + (target > source)  # in what was split
    order = [d for d in range(len(shape) + 1) if d != source]
    order.insert(order.index(place), source)
    out = list(shape)
    out[source], out[target] = n, groups * shape[target]
    return ops.shape.reshape(ops.shape.transpose(split, tuple(order)), tuple(out))


def _merge(x: Any, dim: int, axis: int, groups: int = 1) -> Any:
    """`x` with its batch axis `dim` a part of `axis` (of one example), inside `groups`."""
    size = typeof(x).shape[dim]
    x = ops.shape.move_axis(x, dim, axis)
    shape = list(typeof(x).shape)
    n = shape[axis + 1]
    if groups > 1:
        split = (*shape[: axis + 1], groups, n // groups, *shape[axis + 2 :])
        x = ops.shape.move_axis(ops.shape.reshape(x, split), axis + 1, axis)
    return ops.shape.reshape(x, (*shape[:axis], size * n, *shape[axis + 2 :]))


def _split(x: Any, axis: int, size: int, groups: int = 1) -> tuple[Any, int]:
    """(`x` with a batch axis that was a part of `axis`, which one it is)."""
    shape = typeof(x).shape
    n = shape[axis] // max(size, 1)
    if groups == 1:
        return ops.shape.reshape(x, (*shape[:axis], size, n, *shape[axis + 1 :])), axis
    split = (*shape[:axis], groups, size, n // groups, *shape[axis + 1 :])
    x = ops.shape.move_axis(ops.shape.reshape(x, split), axis + 1, axis)
    return ops.shape.reshape(x, (*shape[:axis], size, n, *shape[axis + 1 :])), axis
