"""Primitives that cut arrays into pieces and join them: slice, pad, concatenate, split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import Affine, affine
from covector.ir.op import Linear, Op, Sample
from covector.ir.scalar import Expr, compare, select
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import View


class Slice(View):
    """Elements `start_indices` up to `limit_indices` in steps of `strides` (None: of 1)."""

    name = "slice"
    start_indices: tuple[int, ...]
    limit_indices: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """ceil((limit - start) / stride)."""
        starts, limits, steps = self.start_indices, self.limit_indices, self.steps
        if not len(starts) == len(limits) == len(steps) == x.ndim:
            raise TypeError(
                f"slice: start_indices={starts}, limit_indices={limits} and strides="
                f"{self.strides} must have one entry for each axis of the operand {x.str_short()}"
            )
        for start, limit, n in zip(starts, limits, x.shape, strict=True):
            if not 0 <= start <= limit <= n:
                raise TypeError(
                    f"slice: wanted 0 <= start <= limit <= size for every axis; got start_indices="
                    f"{starts} and limit_indices={limits} for the operand {x.str_short()}"
                )
        if any(step < 1 for step in steps):
            raise TypeError(f"slice: strides must be positive, got {self.strides}")
        return tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides, as numbers."""
        return (1,) * len(self.start_indices) if self.strides is None else self.strides

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's basic indexing."""
        return x[tuple(map(slice, self.start_indices, self.limit_indices, self.steps))]

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """Zeros where nothing was taken."""
        config: list[tuple[int, int, int]] = []
        taken = zip(self.start_indices, typeof(ct).shape, self.steps, x.aval.shape, strict=True)
        for start, m, step, n in taken:
            covered = (m - 1) * step + 1 if m else 0
            config.append((start, n - start - covered, step - 1))
        return [pad(ct, 0, config)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis is taken whole, where it is."""
        (dim,) = dims
        strides = None if self.strides is None else _insert(self.strides, dim, 1)
        starts = _insert(self.start_indices, dim, 0)
        return Slice(starts, _insert(self.limit_indices, dim, size), strides)(args[0]), dim

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """start + i * stride."""
        return [
            affine(i) * step + start
            for i, start, step in zip(index, self.start_indices, self.steps, strict=True)
        ]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.slice."""
        return writer.emit(
            "stablehlo.slice",
            [x],
            start_indices=self.start_indices,
            limit_indices=self.limit_indices,
            strides=self.steps,
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Plain, with strides that do and do not divide, empty; small dtypes."""
        x = ShapedArray((5, 7), "float32")
        yield Sample(Slice((1, 2), (4, 7)), (x,))
        yield Sample(Slice((0, 1), (5, 7), (2, 3)), (x,))
        yield Sample(Slice((0, 3), (5, 3)), (x,))
        yield Sample(Slice((0, 3), (4, 3), (3, 2)), (x,))
        yield Sample(Slice((), ()), (ShapedArray((), "int32"),))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            yield Sample(Slice((3,), (36,), (2,)), (ShapedArray((37,), dtype),))


class Pad(Op):
    """Surrounds an array with a scalar: along each axis (low, high, interior) elements of it.

    Interior ones go between the elements; negative low or high ones cut off.
    """

    name = "pad"
    arity = 2
    padding_config: tuple[tuple[int, int, int], ...]

    def result(self, x: ShapedArray, value: ShapedArray) -> ShapedArray:
        """low + size + (size - 1) * interior + high."""
        config = self.padding_config
        if x.dtype != value.dtype:
            raise TypeError(
                f"pad: operand and padding value must have the same dtype; got {x.str_short()} "
                f"and {value.str_short()}"
            )
        if value.shape:
            raise ValueError(f"pad: the padding value must be a scalar; got {value.str_short()}")
        if len(config) != x.ndim:
            raise ValueError(
                f"pad: padding_config={config} must have one (low, high, interior) for each axis "
                f"of the operand {x.str_short()}"
            )
        if any(interior < 0 for _, _, interior in config):
            raise ValueError(f"pad: interior padding must not be negative; got {config}")
        shape = tuple(
            low + _dilated(n, interior) + high
            for n, (low, high, interior) in zip(x.shape, config, strict=True)
        )
        if any(n < 0 for n in shape):
            raise ValueError(
                f"pad: padding_config={config} takes more from the operand {x.str_short()} than "
                f"there is: the result would have shape {shape}"
            )
        return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)

    def numpy(self, x: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Assign to a strided view of the dilated result, then cut what is negative."""
        config = self.padding_config
        full = [
            max(low, 0) + _dilated(n, interior) + max(high, 0)
            for n, (low, high, interior) in zip(x.shape, config, strict=True)
        ]
        out = np.full(full, value, x.dtype)
        inside: list[slice] = []
        cut: list[slice] = []
        for n, m, (low, high, interior) in zip(x.shape, full, config, strict=True):
            begin = max(low, 0)
            inside.append(slice(begin, begin + _dilated(n, interior), interior + 1))
            cut.append(slice(max(-low, 0), m - max(-high, 0)))
        out[tuple(inside)] = x
        return out[tuple(cut)]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Linear in both."""
        out = self(*primals)
        if all(t is None for t in tangents):
            return out, None
        return out, self(*_filled(primals, tangents))

    def transpose(self, tools: Any, ct: Any, x: Any, value: Any) -> list[Any]:
        """What lies inside, to the operand; the sum of the rest, to the value."""
        ct_x = ct_value = None
        if isinstance(x, Linear):
            cut = pad(ct, 0, [(-low, -high, 0) for low, high, _ in self.padding_config])
            steps = [interior + 1 for _, _, interior in self.padding_config]
            ct_x = slice_(cut, (0,) * len(steps), typeof(cut).shape, steps)
        if isinstance(value, Linear):
            outside = self._outside(typeof(x).shape if not isinstance(x, Linear) else x.aval.shape)
            zero = ops.shape.zeros(typeof(ct))
            ct_value = ops.reduce.sum_all(ops.pointwise.select_n(outside, zero, ct))
        return [ct_x, ct_value]

    def _outside(self, shape: tuple[int, ...]) -> Any:
        """True where the padding value stands."""
        return self(ops.shape.full(shape, False, bool), np.True_)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis first, not padded; a batched value is selected afterwards."""
        (x, value), (x_dim, value_dim) = args, dims
        if value_dim is None:
            front = ops.shape.move_axis(x, x_dim, 0)
            return Pad(((0, 0, 0), *self.padding_config))(front, value), 0
        aval = typeof(x)
        shape = tuple(n for d, n in enumerate(aval.shape) if d != x_dim)
        plain = x if x_dim is None else ops.shape.move_axis(x, x_dim, 0)
        config = self.padding_config if x_dim is None else ((0, 0, 0), *self.padding_config)
        padded = pad(plain, 0, config)
        outside = self._outside(shape)
        wanted = (size, *typeof(outside).shape)
        axes = tuple(range(1, len(wanted)))
        if x_dim is None:
            padded = ops.shape.broadcast_in_dim(padded, wanted, axes)
        outside = ops.shape.broadcast_in_dim(outside, wanted, axes)
        value = ops.shape.broadcast_in_dim(value, wanted, (0,))
        return ops.pointwise.select_n(outside, padded, value), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The value outside; inside, the operand where interior padding does not stand."""
        value = ask.at(1, ())
        source: list[Affine] = []
        gaps: list[Affine] = []
        for i, n, m, config in zip(
            index, ask.shapes[0], ask.out_shapes[0], self.padding_config, strict=True
        ):
            low, _, interior = config
            which, _ = ask.piece(affine(i), _pieces(affine(n), affine(m), config))
            if which != 1:
                return value
            at = affine(i) - low
            if interior:
                at, rest = ask.divmod(at, interior + 1)
                gaps.append(rest)
            source.append(at)
        out = ask.at(0, source)
        for rest in gaps:
            out = select(compare("eq", ask.index(rest, "int64"), 0), out, value)
        return out

    def stablehlo(self, writer: Any, x: Any, value: Any) -> Any:
        """stablehlo.pad."""
        return writer.emit(
            "stablehlo.pad",
            [x, value],
            edge_padding_low=tuple(low for low, _, _ in self.padding_config),
            edge_padding_high=tuple(high for _, high, _ in self.padding_config),
            interior_padding=tuple(interior for _, _, interior in self.padding_config),
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Positive, negative, interior padding, all of them, past the whole operand, empty."""
        value = ShapedArray((), "float32")
        for shape, config in (
            ((3, 5), ((1, 2, 0), (0, 3, 0))),
            ((3, 5), ((-1, 1, 0), (2, -3, 0))),
            ((3, 5), ((0, 0, 2), (1, 1, 1))),
            ((4, 5), ((-2, 1, 2), (3, -4, 1))),
            ((3,), ((-5, 8, 0),)),
            ((3,), ((8, -5, 0),)),
            ((3,), ((-2, -1, 0),)),
            ((0,), ((2, 1, 3),)),
            ((), ()),
        ):
            yield Sample(Pad(config), (ShapedArray(shape, "float32"), value))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            args = (ShapedArray((17,), dtype), ShapedArray((), dtype))
            yield Sample(Pad(((3, 18, 0),)), args)


class Concatenate(Op):
    """Joins arrays along `dimension`."""

    name = "concatenate"
    dimension: int

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The sizes along `dimension` add up; the others must agree."""
        if not avals:
            raise ValueError("concatenate: wanted at least one operand")
        shapes = ", ".join(a.str_short() for a in avals)
        first, d = avals[0], self.dimension
        if any(a.ndim != first.ndim for a in avals):
            raise TypeError(f"concatenate: operands must have equal numbers of axes; got {shapes}")
        if not 0 <= d < first.ndim:
            raise TypeError(f"concatenate: dimension={d} is not an axis of the operands {shapes}")
        rest = [a.shape[:d] + a.shape[d + 1 :] for a in avals]
        if any(r != rest[0] for r in rest):
            raise TypeError(
                f"concatenate: operands must have equal sizes but along dimension={d}; got {shapes}"
            )
        dtype = _check.same_dtype("concatenate", avals)
        shape = (*first.shape[:d], sum(a.shape[d] for a in avals), *first.shape[d + 1 :])
        return ShapedArray(shape, dtype, all(a.weak_type for a in avals))

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        """NumPy's."""
        return np.concatenate(arrays, self.dimension)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Linear in all."""
        out = self(*primals)
        if all(t is None for t in tangents):
            return out, None
        return out, self(*_filled(primals, tangents))

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """To each operand its slice."""
        out: list[Any] = []
        start = 0
        for a in args:
            n = (a.aval if isinstance(a, Linear) else typeof(a)).shape[self.dimension]
            wanted = isinstance(a, Linear)
            out.append(slice_along(ct, self.dimension, start, start + n) if wanted else None)
            start += n
        return out

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis first; operands without one are repeated."""
        fronted = [batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True)]
        return Concatenate(self.dimension + 1)(*fronted), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The piece that holds the index."""
        d = self.dimension
        which, start = ask.piece(affine(index[d]), [shape[d] for shape in ask.shapes])
        return ask.at(which, [i - start if k == d else i for k, i in enumerate(map(affine, index))])

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.concatenate."""
        return writer.emit("stablehlo.concatenate", list(operands), dimension=self.dimension)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Each axis, one operand, narrow and empty pieces; small dtypes."""
        f = "float32"
        yield Sample(Concatenate(0), (ShapedArray((2, 3), f), ShapedArray((5, 3), f)))
        yield Sample(Concatenate(1), tuple(ShapedArray((3, n), f) for n in (2, 0, 19)))
        yield Sample(Concatenate(1), (ShapedArray((7, 1), f),) * 3)
        yield Sample(Concatenate(0), (ShapedArray((4,), f),))
        yield Sample(Concatenate(0), (ShapedArray((0, 2), f), ShapedArray((0, 2), f)))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            yield Sample(Concatenate(0), (ShapedArray((5,), dtype), ShapedArray((33,), dtype)))


class Split(Op):
    """Cuts an array along `axis` into pieces of the given `sizes`."""

    name = "split"
    multiple_results = True
    arity = 1
    sizes: tuple[int, ...]
    axis: int

    def result(self, x: ShapedArray) -> tuple[ShapedArray, ...]:
        """One array for each size; they add up to the size of the axis."""
        _check.check_axes("split", (self.axis,), x.ndim, "axis")
        if any(n < 0 for n in self.sizes):
            raise ValueError(f"split: sizes must not be negative, got {self.sizes}")
        if sum(self.sizes) != x.shape[self.axis]:
            raise ValueError(
                f"split: sizes={self.sizes} add up to {sum(self.sizes)}; wanted the size of axis "
                f"{self.axis} of the operand {x.str_short()}"
            )
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return tuple(ShapedArray((*before, n, *after), x.dtype, x.weak_type) for n in self.sizes)

    def numpy(self, x: np.ndarray) -> list[np.ndarray]:
        """NumPy's."""
        return np.split(x, np.cumsum(self.sizes[:-1], dtype=int), self.axis) if self.sizes else []

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The pieces of the tangent."""
        (t,) = tangents
        return self(*primals), [None] * len(self.sizes) if t is None else self(t)

    def transpose(self, tools: Any, cts: Sequence[Any], x: Any) -> list[Any]:
        """Joined again."""
        if all(ct is None for ct in cts):
            return [None]
        parts = [
            ops.shape.zeros(aval) if ct is None else ct
            for ct, aval in zip(cts, self.result(x.aval), strict=True)
        ]
        return [concatenate(parts, self.axis)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis stays where it is."""
        (dim,) = dims
        outs = Split(self.sizes, self.axis + (self.axis >= dim))(args[0])
        return outs, [dim] * len(outs)

    def decompose(self, x: Any) -> list[Any]:
        """Slices."""
        stops = np.cumsum(self.sizes).tolist()
        return [
            slice_along(x, self.axis, stop - n, stop)
            for n, stop in zip(self.sizes, stops, strict=True)
        ]

    def stablehlo(self, writer: Any, x: Any) -> list[Any]:
        """Slices."""
        out: list[Any] = []
        shape, start = list(writer.aval(x).shape), 0
        for aval in writer.out_avals:
            begin, end = [0] * len(shape), list(shape)
            begin[self.axis], end[self.axis] = start, start + aval.shape[self.axis]
            start = end[self.axis]
            out.append(
                writer.emit(
                    "stablehlo.slice",
                    [x],
                    aval,
                    start_indices=tuple(begin),
                    limit_indices=tuple(end),
                    strides=(1,) * len(shape),
                )
            )
        return out

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Each axis, one piece, an empty piece."""
        x = ShapedArray((6, 5), "float32")
        yield Sample(Split((1, 2, 3), 0), (x,))
        yield Sample(Split((2, 0, 3), 1), (x,))
        yield Sample(Split((5,), 1), (x,))
        yield Sample(Split((1, 3), 0), (ShapedArray((4,), "bool"),))


def slice_(
    x: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """`x[start:limit:stride]` along every axis; itself if that is all of it."""
    starts, limits = tuple(start_indices), tuple(limit_indices)
    steps = None if strides is None or all(s == 1 for s in strides) else tuple(strides)
    if steps is None and not any(starts) and limits == typeof(x).shape:
        return x
    return Slice(starts, limits, steps)(x)


def slice_along(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """`x[start:limit:stride]` along one axis."""
    shape = typeof(x).shape
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice_(x, starts, limits, strides)


def pad(x: Any, value: Any, padding_config: Sequence[Sequence[int]]) -> Any:
    """`x` padded with `value`, a scalar (a Python number takes the dtype of `x`)."""
    config = tuple((low, high, interior) for low, high, interior in padding_config)
    if isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value, typeof(x).dtype)
    return Pad(config)(x, value) if any(map(any, config)) else x


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """The arrays joined along `dimension`."""
    return Concatenate(dimension)(*operands) if len(operands) != 1 else operands[0]


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """`x` cut along `axis` into pieces of these sizes."""
    return Split(tuple(sizes), axis)(x)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """The arrays, of one shape, along a new axis."""
    return concatenate([ops.shape.expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: Any, axis: int = 0) -> list[Any]:
    """The slices of `x` along `axis`, without that axis."""
    parts = split(x, (1,) * typeof(x).shape[axis], axis)
    return [ops.shape.squeeze(p, (axis,)) for p in parts]


def batch_axis_first(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its batch axis moved to the front, or repeated along a new one."""
    if dim is not None:
        return ops.shape.move_axis(x, dim, 0)
    shape = typeof(x).shape
    return ops.shape.broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _filled(primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents, zeros where there is none."""
    return [
        ops.shape.zeros(typeof(x)) if t is None else t
        for x, t in zip(primals, tangents, strict=True)
    ]


def _dilated(n: int, interior: int) -> int:
    return n + max(n - 1, 0) * interior


def _pieces(n: Affine, m: Affine, config: tuple[int, int, int]) -> list[Affine]:
    """Lengths of: the padding before; what the operand covers; the padding after."""
    low, high, interior = config
    if n.constant is None or m.constant is None:  # a run-time size: the operand is not cut away
        covered = n + (n - 1) * interior + min(low, 0) + min(high, 0)
        return [affine(max(low, 0)), covered, affine(max(high, 0))]
    begin = min(max(low, 0), m.constant)
    end = max(begin, min(low + _dilated(n.constant, interior), m.constant))
    return [affine(begin), affine(end - begin), affine(m.constant - end)]


def _insert(values: Sequence[int], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at:])
