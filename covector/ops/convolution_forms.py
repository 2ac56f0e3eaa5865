"""What convolutions become before they are compiled: one of two forms in one layout.

`conv_rows` gives rows of features, one for each place (a forward pass); `conv_taps` sums outer
products over all places (the gradient of a window).  Operands have features last, in groups, and
are padded; a dilated lhs is gone too: each phase of its result is a convolution of what is there.
Only compiled programs hold these two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Library, Op
from covector.ir.scalar import Expr, cast, number
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import like
from covector.ops.windows import covered

#: Element types of the native routines.
ROUTINE = frozenset(map(np.dtype, ("float32", "float64")))
#: Fewer multiplications than this: a kernel that is compiled with its surroundings.
SMALL = 2048
#: Windows of so many places are written out.
WRITTEN_OUT = 32


class _Form(Op, registered=False):
    """What both forms share.

    strides: elements of lhs from one place to the next; dilation: from one place in the window to
    the next; dtype: of the result.
    """

    arity = 2
    jvp = Absent("derived")
    transpose = Absent("derived")
    batch = Absent("derived")
    stablehlo = Absent("derived")
    samples = Absent("derived")
    form: ClassVar[str] = ""
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: Any

    def library(self, x: ShapedArray, y: ShapedArray) -> Library | None:
        """The routine, unless an own kernel is as good."""
        out = self.result(x, y)
        if not (x.dtype == y.dtype == out.dtype and out.dtype in ROUTINE) or 0 in out.shape:
            return None
        near = x.shape[-1] > 1 or self.strides[-1:] == (1,)
        if (out.shape[-1] == 1 and near) or out.size * self.depth(x, y) <= SMALL:
            return None
        return Library(self.name, (self.strides, self.dilation))

    def depth(self, x: ShapedArray, y: ShapedArray) -> int:
        """How many products there are in a sum."""
        raise TypeError(f"{self.name} has no depth")


class ConvRows(_Form, registered=False):
    """lhs [n, spatial ..., group, i], rhs [window ..., i, group, o]: [n, places ..., group, o]."""

    name = "conv_rows"

    def places(self, x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
        """How many there are along each axis."""
        return tuple(
            max(0, (n - covered(k, d)) // s + 1)
            for n, k, s, d in zip(x[1:-2], y, self.strides, self.dilation, strict=False)
        )

    def result(self, x: ShapedArray, y: ShapedArray) -> ShapedArray:
        """See the class."""
        shape = (x.shape[0], *self.places(x.shape, y.shape), *y.shape[-2:])
        return ShapedArray(shape, self.dtype)

    def depth(self, x: ShapedArray, y: ShapedArray) -> int:
        """Of the window and the input features."""
        return math.prod(y.shape[:-2])

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One place in the window after the other."""
        sizes = self.places(x.shape, y.shape)
        wide = _check.accumulator(self.dtype)
        total = np.zeros((x.shape[0], *sizes, *y.shape[-2:]), wide)
        for tap in itertools.product(*map(range, y.shape[:-3])):
            cuts = _cuts(tap, sizes, self.dilation, self.strides)
            total += np.einsum(
                "...gi,igo->...go", x[(slice(None), *cuts)].astype(wide), y[tap].astype(wide)
            )
        return ops.cast.ConvertElementType(self.dtype).numpy(total)

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """A small window of one feature written out; else a fold."""
        wide = _check.accumulator(self.dtype).name
        n, *place, group, o = index
        window = [affine(k).const for k in ask.shapes[1][:-3]]
        features = affine(ask.shapes[1][-3]).const

        def product(tap: Sequence[Any], i: Any) -> Expr:
            at = [
                affine(p) * s + affine(t) * d
                for p, t, s, d in zip(place, tap, self.strides, self.dilation, strict=True)
            ]
            x, y = ask.at(0, [n, *at, group, i]), ask.at(1, [*tap, i, group, o])
            return cast(x, wide) * cast(y, wide)

        if features == 1 and math.prod(window) <= WRITTEN_OUT:
            total: Expr | None = None
            for tap in itertools.product(*map(range, window)):
                term = product([affine(t) for t in tap], affine(0))
                total = term if total is None else total + term
            return cast(number(0, wide) if total is None else total, self.dtype.name)
        extents = [*map(affine, window), affine(features)]

        def element(k: Sequence[Any]) -> Expr:
            return product(k[:-1], k[-1])

        return cast(ask.fold("sum", extents, element), self.dtype.name)


class ConvTaps(_Form, registered=False):
    """x [n, spatial ..., group, c], y [n, places ..., group, o] -> [window ..., c, group, o].

    window: its sizes; those of x may go beyond what is needed.
    """

    name = "conv_taps"
    window: tuple[int, ...]

    def result(self, x: ShapedArray, y: ShapedArray) -> ShapedArray:
        """See the class."""
        return ShapedArray((*self.window, x.shape[-1], *y.shape[-2:]), self.dtype)

    def depth(self, x: ShapedArray, y: ShapedArray) -> int:
        """All places."""
        return math.prod(y.shape[:-2])

    def library(self, x: ShapedArray, y: ShapedArray) -> Library | None:
        """The routine; it is told the window."""
        found = super().library(x, y)
        return None if found is None else Library(found.name, (*found.attributes, self.window))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One place in the window after the other."""
        wide, sizes = _check.accumulator(self.dtype), y.shape[1:-2]
        out = np.zeros((*self.window, x.shape[-1], *y.shape[-2:]), wide)
        for tap in itertools.product(*map(range, self.window)):
            cuts = _cuts(tap, sizes, self.dilation, self.strides)
            seen = x[(slice(None), *cuts)].reshape(-1, *x.shape[-2:])
            flat = y.reshape(-1, *y.shape[-2:])
            out[tap] = np.einsum("kgc,kgo->cgo", seen.astype(wide), flat.astype(wide))
        return ops.cast.ConvertElementType(self.dtype).numpy(out)

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """A fold over all places."""
        wide = _check.accumulator(self.dtype).name
        *tap, c, group, o = index

        def product(k: Sequence[Any]) -> Expr:
            n, *place = k
            at = [
                affine(p) * s + affine(t) * d
                for p, t, s, d in zip(place, tap, self.strides, self.dilation, strict=True)
            ]
            x, y = ask.at(0, [n, *at, group, c]), ask.at(1, [n, *place, group, o])
            return cast(x, wide) * cast(y, wide)

        return cast(ask.fold("sum", list(ask.shapes[1][:-2]), product), self.dtype.name)


def _cuts(
    tap: Sequence[int], sizes: Sequence[int], dilation: Sequence[int], strides: Sequence[int]
) -> tuple[slice, ...]:
    return tuple(
        slice(t * d, t * d + covered(m, s), s)
        for t, m, d, s in zip(tap, sizes, dilation, strides, strict=True)
    )


# Into these forms


def normal(op: Any, x: Any, y: Any) -> Any:
    """`op(x, y)` (of `ConvGeneralDilated`), by one of the forms."""
    out = op.result(typeof(x), typeof(y))
    if 0 in (*typeof(x).shape, *typeof(y).shape, *out.shape):
        return ops.shape.full(out.shape, 0, out.dtype)
    wide = op.accumulator(typeof(x).dtype, typeof(y).dtype, out.dtype)
    x, y = (ops.cast.convert_element_type(v, wide) for v in (x, y))
    numbers = op.dimension_numbers
    sizes: list[int] = [typeof(y).shape[d] for d in numbers.rhs_spec[2:]]
    places = [out.shape[d] for d in numbers.out_spec[2:]]
    by_taps = math.prod(places) < math.prod(sizes)
    made = (_taps if by_taps else _rows)(op, x, y, wide, tuple(places))
    return ops.cast.convert_element_type(made, out.dtype)


def _grouped(x: Any, spec: Sequence[int], axis: int, groups: int, last: int) -> Any:
    """`x` as [rest of spec[0], spatial ..., group, spec[1]], where axis `spec[axis]` holds the
    groups; `last`: which of spec[0] and spec[1] is the last axis."""
    shape = typeof(x).shape
    sizes = [shape[d] for d in spec]
    place = spec[axis]
    split = ops.shape.reshape(
        x, (*shape[:place], groups, shape[place] // groups, *shape[place + 1 :])
    )
    moved = [d + (d >= place) for d in spec]
    order = [moved[1 - last], *moved[2:], place, moved[last]]
    assert len(order) == len(sizes) + 1
    return ops.shape.transpose(split, tuple(order))


def _padded(x: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """`x` [n, spatial ..., group, feature] with places added (or cut off) along spatial axes."""
    if not any(any(c) for c in config):
        return x
    whole = [(0, 0, 0), *config, (0, 0, 0), (0, 0, 0)]
    return ops.pieces.pad(x, like(x, 0), whole)


def _taps(op: Any, x: Any, y: Any, dtype: Any, window: tuple[int, ...]) -> Any:
    """Places in the window and places of the window exchange their parts: sums over many places
    for few results."""
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    fg, bg = op.feature_group_count, op.batch_group_count
    x = _grouped(x, lhs_spec, 0 if bg > 1 else 1, bg * fg, last=0)
    y = _grouped(y, rhs_spec, 0, bg * fg, last=0)
    phases: list[int] = []
    config: list[tuple[int, int, int]] = []
    widths: list[int] = []
    for axis, (d, a, b, (low, high)) in enumerate(
        zip(op.lhs_dilation, op.window_strides, op.rhs_dilation, op.padding, strict=True)
    ):
        if d == 1 or a > 1 or b > 1:
            phases.append(1)
            config.append((low, high, d - 1))
            widths.append(window[axis])
            continue
        # As for rows: places in phases are features.
        before = (d - 1 - low) % d
        offset, width = (low + before) // d, -(-window[axis] // d)
        have, there = typeof(x).shape[axis + 1], typeof(y).shape[axis + 1]
        count = -(-(there + before) // d)
        after = d * count - there - before
        y = _padded(y, [(before, after, 0) if k == axis else (0, 0, 0) for k in range(len(window))])
        config.append((offset, count + width - 1 - offset - have, 0))
        phases.append(d)
        widths.append(width)
    form = ConvTaps(op.rhs_dilation, op.window_strides, dtype, tuple(widths))
    x, y = _padded(x, config), _phases_last(y, phases)
    made = _complex_taps(form, x, y) if typeof(x).dtype.kind == "c" else form(x, y)
    return _placed(_taps_of_phases(made, phases, window), out_spec, first=False)


def _phases_last(y: Any, phases: Sequence[int]) -> Any:
    """[n, places ..., group, o] with each axis of places cut in steps of its phases, and these a
    part of the last axis."""
    if all(p == 1 for p in phases):
        return y
    rank, (n, *places, group, o) = len(phases), typeof(y).shape
    cut = [m for size, p in zip(places, phases, strict=True) for m in (size // p, p)]
    y = ops.shape.reshape(y, (n, *cut, group, o))
    outer, inner = (range(k, 2 * rank + 1, 2) for k in (1, 2))
    y = ops.shape.transpose(y, (0, *outer, 2 * rank + 1, *inner, 2 * rank + 2))
    return ops.shape.reshape(y, (n, *cut[::2], group, math.prod(phases) * o))


def _taps_of_phases(made: Any, phases: Sequence[int], window: Sequence[int]) -> Any:
    """[steps in the window ..., c, group, phases x o] as [window ..., c, group, o]: the last phase
    sees the first place of a step."""
    if all(p == 1 for p in phases):
        return made
    rank, (*steps, c, group, last) = len(phases), typeof(made).shape
    o = last // math.prod(phases)
    made = ops.shape.reshape(made, (*steps, c, group, *phases, o))
    made = ops.shape.rev(made, tuple(range(rank + 2, 2 * rank + 2)))
    order = [k for d in range(rank) for k in (d, rank + 2 + d)]
    made = ops.shape.transpose(made, (*order, rank, rank + 1, 2 * rank + 2))
    full = [n * p for n, p in zip(steps, phases, strict=True)]
    made = ops.shape.reshape(made, (*full, c, group, o))
    return ops.pieces.slice_(made, (0,) * (rank + 3), (*window, c, group, o))


def _placed(made: Any, out_spec: Sequence[int], first: bool) -> Any:
    """The result's groups merged and its axes in their places.  first: the batch is axis 0; else
    it comes after the spatial axes."""
    shape = typeof(made).shape
    flat = ops.shape.reshape(made, (*shape[:-2], shape[-2] * shape[-1]))
    rank = len(out_spec) - 2
    batch, spatial = (0, range(1, rank + 1)) if first else (rank, range(rank))
    order = ops.convolution.arranged((batch, rank + 1, *spatial), out_spec)
    return ops.shape.transpose(flat, order)


def _rows(op: Any, x: Any, y: Any, dtype: Any, places: tuple[int, ...]) -> Any:
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    fg, bg = op.feature_group_count, op.batch_group_count
    groups = fg * bg
    x = _grouped(x, lhs_spec, 0 if bg > 1 else 1, groups, last=1)
    y = _grouped(y, rhs_spec, 0, groups, last=0)  # [i, window ..., group, o]
    rank = len(places)
    y = ops.shape.transpose(y, (*range(1, rank + 1), 0, rank + 1, rank + 2))
    made = _undilated(op, x, y, dtype, places)
    return _placed(made, out_spec, first=True)


class _Group(NamedTuple):
    """Neighbouring phases that see equally many places of the window.

    starts: the first place that each sees; offset: the element of lhs that it meets there.
    """

    starts: tuple[int, ...]
    offset: int
    width: int


class _Phases(NamedTuple):
    """An axis where lhs is dilated by `dilation`: result `len(phases) * j + phase` is result `j` of
    a convolution, with stride `step`, of what is there and every `dilation`-th place of the window.

    length: results of each phase; skipped: results before the first one wanted.
    """

    dilation: int
    step: int
    length: int
    skipped: int
    low: int
    groups: list[_Group]


def _phases(d: int, s: int, low: int, size: int, places: int) -> _Phases:
    common = math.gcd(s, d)
    many, step = d // common, s // common
    # Of stride 1, from a little before the first result on: then no phase begins later than others.
    skipped = (d - 1 - low) % d if s == 1 else 0
    low += skipped
    groups: list[_Group] = []
    for phase in range(many):
        start = low % d - phase * s
        offset = -(start // d)
        start += offset * d
        width = max(0, -(-(size - start) // d))
        if groups and groups[-1][1:] == (offset, width):
            groups[-1] = _Group((*groups[-1].starts, start), offset, width)
        else:
            groups.append(_Group((start,), offset, width))
    if len(groups) > 2:  # rare: one group, whose window has zeros
        first = min(g.offset for g in groups)
        last = max(g.offset + g.width for g in groups)
        starts = [t - (g.offset - first) * d for g in groups for t in g.starts]
        groups = [_Group(tuple(starts), first, max(1, last - first))]
    return _Phases(d, step, -(-(places + skipped) // many), skipped, low // d, groups)


def _undilated(op: Any, x: Any, y: Any, dtype: Any, places: tuple[int, ...]) -> Any:
    """Without holes in lhs: the phases of a result are features of a few convolutions."""
    spreads = list(op.rhs_dilation)
    dilated = [d > 1 for d in op.lhs_dilation]
    if not any(dilated):
        form = ConvRows(op.window_strides, op.rhs_dilation, dtype)
        return _product(form, _padded(x, [(*pad, 0) for pad in op.padding]), y)
    for axis, r in enumerate(spreads):
        if dilated[axis] and r > 1:
            y, spreads[axis] = _window(y, axis, 0, 0, r - 1, 1), 1
    rank = len(places)
    axes: list[_Phases | None] = [
        _phases(d, s, low, typeof(y).shape[axis], places[axis]) if d > 1 else None
        for axis, (d, s, (low, _)) in enumerate(
            zip(op.lhs_dilation, op.window_strides, op.padding, strict=True)
        )
    ]
    steps = [s if a is None else a.step for s, a in zip(op.window_strides, axes, strict=True)]
    counts = [n if a is None else a.length for n, a in zip(places, axes, strict=True)]
    form = ConvRows(tuple(steps), tuple(spreads), dtype)

    def made(axis: int, window: Any, config: list[tuple[int, int, int]], sizes: list[int]) -> Any:
        """[n, counts ..., group, phases of the last axis, ..., of the first, o]"""
        if axis == rank:
            o = typeof(window).shape[-1] // math.prod(sizes)
            full = (typeof(x).shape[0], *counts, typeof(x).shape[-2], *sizes[::-1], o)
            if 0 in typeof(window).shape:
                return ops.shape.full(full, 0, dtype)
            return ops.shape.reshape(_product(form, _padded(x, config), window), full)
        phases = axes[axis]
        if phases is None:
            return made(axis + 1, window, [*config, (*op.padding[axis], 0)], [*sizes, 1])
        have: int = typeof(x).shape[axis + 1]
        parts: list[Any] = []
        for group in phases.groups:
            low = phases.low - group.offset
            high = phases.step * (phases.length - 1) + group.width - low - have
            part = _every(window, axis, group, phases.dilation)
            parts.append(made(axis + 1, part, [*config, (low, high, 0)],
                              [*sizes, len(group.starts)]))  # fmt: skip
        return ops.pieces.concatenate(parts, 2 * rank + 1 - axis) if len(parts) > 1 else parts[0]

    skipped = [0 if a is None else a.skipped for a in axes]
    return _interleaved(made(0, y, [], []), skipped, places)


def _every(y: Any, axis: int, group: _Group, step: int) -> Any:
    """Of each phase every `step`-th place of the window: the phases are a part of the features."""
    size, length = typeof(y).shape[axis], step * (group.width - 1) + 1
    parts: list[Any]
    if not group.width:
        parts = [ops.pieces.slice_along(y, axis, 0, 0)] * len(group.starts)
    else:
        parts = [_window(y, axis, -start, start + length - size, 0, step) for start in group.starts]
    last = typeof(y).ndim - 1
    shape = typeof(parts[0]).shape
    made = ops.shape.stack(parts, last)
    return ops.shape.reshape(made, (*shape[:-1], len(parts) * shape[-1]))


def _window(y: Any, axis: int, low: int, high: int, holes: int, step: int) -> Any:
    """`y` with places added to, or cut off, one axis of the window, and every `step`-th of them."""
    rank = typeof(y).ndim
    config = [(low, high, holes) if d == axis else (0, 0, 0) for d in range(rank)]
    if any(config[axis]):
        y = ops.pieces.pad(y, like(y, 0), config)
    return ops.pieces.slice_along(y, axis, 0, typeof(y).shape[axis], step)


def _interleaved(made: Any, skipped: Sequence[int], places: Sequence[int]) -> Any:
    """[n, counts ..., group, phases ..., o] as [n, places ..., group, o], from `skipped` on; the
    phases of the first axis are the innermost."""
    rank, shape = len(places), typeof(made).shape
    order = [0]
    for d in range(rank):
        order += [1 + d, 2 * rank + 1 - d]
    made = ops.shape.transpose(made, (*order, rank + 1, 2 * rank + 2))
    full = [shape[1 + d] * shape[2 * rank + 1 - d] for d in range(rank)]
    made = ops.shape.reshape(made, (shape[0], *full, shape[rank + 1], shape[-1]))
    ends = [a + n for a, n in zip(skipped, places, strict=True)]
    return ops.pieces.slice_(
        made, (0, *skipped, 0, 0), (shape[0], *ends, shape[rank + 1], shape[-1])
    )


def _product(form: Any, x: Any, y: Any) -> Any:
    """The form; a window of one place, without groups, is a product of matrices."""
    if typeof(x).dtype.kind == "c":
        return _complex_rows(form, x, y)
    shape, window = typeof(x).shape, typeof(y).shape
    if math.prod(window[:-3]) > 1 or shape[-2] > 1:
        return form(x, y)
    sizes = form.places(shape, window)
    ends = [covered(m, s) for m, s in zip(sizes, form.strides, strict=True)]
    limits = (shape[0], *ends, *shape[-2:])
    steps = (1, *form.strides, 1, 1)
    x = ops.pieces.slice_(x, (0,) * len(limits), limits, steps)
    rows = ops.shape.reshape(x, (shape[0] * math.prod(sizes), shape[-1]))
    made = ops.contract.matmul(rows, ops.shape.reshape(y, (window[-3], window[-1])))
    return ops.shape.reshape(made, (shape[0], *sizes, 1, window[-1]))


# Complex numbers: their parts are features


def _parts(x: Any) -> tuple[Any, Any]:
    return ops.pointwise.real(x), ops.pointwise.imag(x)


def _joined(first: Any, second: Any, axis: int) -> Any:
    return ops.pieces.concatenate([first, second], axis)


def _halves(x: Any, axis: int) -> tuple[Any, Any]:
    n = typeof(x).shape[axis]
    return tuple(ops.pieces.slice_along(x, axis, a, a + n // 2) for a in (0, n // 2))


def _real_form(form: Any, dtype: Any) -> Any:
    return form.with_params(dtype=np.dtype(np.float32 if dtype == np.complex64 else np.float64))


def _complex_rows(form: Any, x: Any, y: Any) -> Any:
    """(a + ib)(c + id) of features a, b with the window [c, d; -d, c]."""
    last, inputs = typeof(y).ndim - 1, typeof(y).ndim - 3
    real, imaginary = _parts(y)
    above = _joined(real, imaginary, last)
    below = _joined(ops.pointwise.neg(imaginary), real, last)
    x_real, x_imaginary = _parts(x)
    made = _product(
        _real_form(form, form.dtype),
        _joined(x_real, x_imaginary, typeof(x).ndim - 1),
        _joined(above, below, inputs),
    )
    return ops.pointwise.complex_(*_halves(made, typeof(made).ndim - 1))


def _complex_taps(form: Any, x: Any, y: Any) -> Any:
    """(a + ib)(c + id) from all four products of features a, b with features c, d."""
    joined = [_joined(*_parts(v), typeof(v).ndim - 1) for v in (x, y)]
    made = _real_form(form, form.dtype)(*joined)
    last = typeof(made).ndim - 1
    first, second = _halves(made, last - 2)
    (ac, ad), (bc, bd) = _halves(first, last), _halves(second, last)
    return ops.pointwise.complex_(ops.pointwise.sub(ac, bd), ops.pointwise.add(ad, bc))
