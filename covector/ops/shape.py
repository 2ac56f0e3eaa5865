"""Primitives that rearrange elements: index maps for the compiler, not copies.

Those that cut arrays into pieces and join them are in `pieces`, and have their names here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, const, expr
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import View
from covector.ops.pieces import (
    Concatenate,
    Pad,
    Slice,
    Split,
    concatenate,
    pad,
    slice_,
    slice_along,
    split,
    stack,
    unstack,
)

__all__ = [
    "BroadcastInDim",
    "Concatenate",
    "Copy",
    "Iota",
    "Pad",
    "Reshape",
    "Rev",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "broadcast_in_dim",
    "broadcast_to",
    "concatenate",
    "copy",
    "expand_dims",
    "full",
    "iota",
    "move_axis",
    "pad",
    "reshape",
    "rev",
    "slice_",
    "slice_along",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
    "zeros",
]


class Transpose(View):
    """Permutes the axes: output axis d is input axis `permutation[d]`."""

    name = "transpose"
    permutation: tuple[int, ...]

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """The permuted shape."""
        if sorted(self.permutation) != list(range(x.ndim)):
            raise TypeError(
                f"transpose: permutation {self.permutation} is not a permutation of the axes of "
                f"{x.str_short()}"
            )
        return tuple(x.shape[d] for d in self.permutation)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        return np.transpose(x, self.permutation)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The inverse permutation."""
        return [transpose(ct, _inverse(self.permutation))]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        (x,), (dim,) = args, dims
        rest = [d for d in range(typeof(x).ndim) if d != dim]
        return transpose(x, (dim, *(rest[d] for d in self.permutation))), 0

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """Input axis permutation[d] has the index of output axis d."""
        return [index[d] for d in _inverse(self.permutation)]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.transpose."""
        return writer.emit("stablehlo.transpose", [x], permutation=self.permutation)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every permutation of three axes, rank 0, and small dtypes."""
        yield Sample(Transpose(()), (ShapedArray((), "float32"),))
        for p in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
            yield Sample(Transpose(p), (ShapedArray((2, 3, 5), "float32"),))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            yield Sample(Transpose((1, 0)), (ShapedArray((19, 33), dtype),))


class BroadcastInDim(View):
    """Input axis k becomes output axis `broadcast_dimensions[k]`; an axis of 1 is repeated."""

    name = "broadcast_in_dim"
    shape: tuple[int, ...]
    broadcast_dimensions: tuple[int, ...]

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """`shape`, after checking the dimensions against it."""
        dims, ndim = self.broadcast_dimensions, len(self.shape)
        if len(dims) != x.ndim:
            raise TypeError(
                f"broadcast_in_dim: broadcast_dimensions={dims} must name one output axis for each "
                f"of the {x.ndim} axes of {x.str_short()}"
            )
        if any(n < 0 for n in self.shape):
            raise TypeError(f"broadcast_in_dim: sizes must not be negative; got {self.shape}")
        if len(set(dims)) != len(dims) or any(not 0 <= d < ndim for d in dims):
            raise TypeError(
                f"broadcast_in_dim: broadcast_dimensions={dims} must be distinct axes of the "
                f"output shape {self.shape}; the operand is {x.str_short()}"
            )
        for n, d in zip(x.shape, dims, strict=True):
            if n not in (1, self.shape[d]):
                raise TypeError(
                    f"broadcast_in_dim: axis of size {n} of {x.str_short()} cannot become axis "
                    f"{d} of shape {self.shape}: wanted 1 or {self.shape[d]}"
                )
        return self.shape

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """Reshape with ones, then NumPy's broadcast."""
        middle = [1] * len(self.shape)
        for n, d in zip(x.shape, self.broadcast_dimensions, strict=True):
            middle[d] = n
        ordered = x.transpose(np.argsort(self.broadcast_dimensions, kind="stable"))
        return np.broadcast_to(ordered.reshape(middle), self.shape)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The sum over the repeated axes."""
        shape, dims = x.aval.shape, self.broadcast_dimensions
        kept = {d for n, d in zip(shape, dims, strict=True) if n == self.shape[d]}
        summed = tuple(d for d in range(len(self.shape)) if d not in kept)
        order = sorted(range(len(dims)), key=dims.__getitem__)
        ct = reshape(ops.reduce.reduce_sum(ct, summed), [shape[k] for k in order])
        return [transpose(ct, _inverse(order))]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        x = move_axis(args[0], dims[0], 0)
        dims = (0, *(d + 1 for d in self.broadcast_dimensions))
        return broadcast_in_dim(x, (size, *self.shape), dims), 0

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """0 along repeated axes."""
        return [
            affine(0) if n == 1 else index[d]
            for n, d in zip(ask.shapes[0], self.broadcast_dimensions, strict=True)
        ]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.broadcast_in_dim."""
        return writer.emit(
            "stablehlo.broadcast_in_dim", [x], broadcast_dimensions=self.broadcast_dimensions
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Scalars, new axes, repeated axes, an empty one."""
        yield Sample(BroadcastInDim((2, 3), ()), (ShapedArray((), "float32"),))
        yield Sample(BroadcastInDim((2, 3), (1,)), (ShapedArray((3,), "float32"),))
        yield Sample(BroadcastInDim((4, 2, 3), (0, 2)), (ShapedArray((1, 3), "int32"),))
        yield Sample(BroadcastInDim((5, 3, 2), (2, 0)), (ShapedArray((1, 5), "float32"),))
        yield Sample(BroadcastInDim((0, 3), (1,)), (ShapedArray((3,), "bool"),))


class Reshape(View):
    """The same elements, in C order, in another shape."""

    name = "reshape"
    new_sizes: tuple[int, ...]

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """`new_sizes`, which must hold as many elements."""
        if any(n < 0 for n in self.new_sizes):
            raise TypeError(
                f"reshape: the sizes of the new shape must not be negative: got {self.new_sizes} "
                f"for {x.str_short()}"
            )
        if ShapedArray(self.new_sizes, x.dtype).size != x.size:
            raise TypeError(
                f"reshape: total size must be unchanged: got {x.str_short()} ({x.size} elements) "
                f"and new shape {self.new_sizes} ({ShapedArray(self.new_sizes, x.dtype).size})"
            )
        return self.new_sizes

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        return np.reshape(x, self.new_sizes)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """Back to the shape of the argument."""
        return [reshape(ct, x.aval.shape)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        return reshape(move_axis(args[0], dims[0], 0), (size, *self.new_sizes)), 0

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """The flat index, taken apart by the sizes of the input's axes."""
        flat = affine(0)
        for n, i in zip(ask.out_shapes[0], index, strict=True):
            flat = flat * n.const + i
        out: list[Any] = []
        for n in reversed(ask.shapes[0][1:]):
            flat, rest = ask.divmod(flat, n.const)
            out.insert(0, rest)
        return [flat, *out] if ask.shapes[0] else []

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reshape."""
        return writer.emit("stablehlo.reshape", [x])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Merging, splitting, both, to and from rank 0, empty."""
        for old, new in (
            ((6,), (2, 3)),
            ((2, 3), (6,)),
            ((4, 6), (3, 8)),
            ((1, 1), ()),
            ((), (1, 1)),
            ((0, 3), (3, 0)),
        ):
            yield Sample(Reshape(new), (ShapedArray(old, "float32"),))


class Squeeze(View):
    """Drops axes of size 1."""

    name = "squeeze"
    dimensions: tuple[int, ...]

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """The shape without `dimensions`."""
        _check.check_axes("squeeze", self.dimensions, x.ndim, "dimensions")
        if any(x.shape[d] != 1 for d in self.dimensions):
            raise ValueError(
                f"squeeze: cannot select an axis to squeeze out which has size not equal to one, "
                f"got {x.str_short()} and dimensions={self.dimensions}"
            )
        return tuple(n for d, n in enumerate(x.shape) if d not in self.dimensions)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        return np.squeeze(x, self.dimensions)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The axes come back."""
        return [reshape(ct, x.aval.shape)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        x = move_axis(args[0], dims[0], 0)
        return squeeze(x, [d + 1 for d in self.dimensions]), 0

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """0 along the dropped axes."""
        kept = iter(index)
        return [
            affine(0) if d in self.dimensions else next(kept) for d in range(len(ask.shapes[0]))
        ]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reshape."""
        return writer.emit("stablehlo.reshape", [x])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """One axis, all, none, beside an empty axis."""
        yield Sample(Squeeze((1,)), (ShapedArray((2, 1, 3), "float32"),))
        yield Sample(Squeeze((0, 1)), (ShapedArray((1, 1), "bfloat16"),))
        yield Sample(Squeeze(()), (ShapedArray((1, 3), "int8"),))
        yield Sample(Squeeze((0,)), (ShapedArray((1, 0), "bool"),))


class Rev(View):
    """Reverses the order of the elements along `dimensions`."""

    name = "rev"
    dimensions: tuple[int, ...]

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """The same shape."""
        dims = self.dimensions
        if len(set(dims)) != len(dims) or any(not 0 <= d < x.ndim for d in dims):
            raise TypeError(
                f"rev: dimensions={dims} must be distinct axes of the operand {x.str_short()}"
            )
        return x.shape

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's flip."""
        return np.flip(x, self.dimensions)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """Its own transpose."""
        return [self(ct)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis stays where it is."""
        (dim,) = dims
        return rev(args[0], [d + (d >= dim) for d in self.dimensions]), dim

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """n - 1 - i along the reversed axes."""
        shape = ask.shapes[0]
        return [
            affine(shape[d]) - 1 - i if d in self.dimensions else i for d, i in enumerate(index)
        ]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """stablehlo.reverse."""
        return writer.emit("stablehlo.reverse", [x], dimensions=self.dimensions)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Each axis, both, none; small dtypes."""
        for dims in ((0,), (1,), (0, 1), ()):
            yield Sample(Rev(dims), (ShapedArray((3, 5), "float32"),))
        for dtype in ("bool", "int8", "bfloat16", "complex64"):
            yield Sample(Rev((0,)), (ShapedArray((37,), dtype),))
        yield Sample(Rev((0,)), (ShapedArray((0, 2), "float32"),))


class Copy(View):
    """The same elements in a buffer of their own."""

    name = "copy"

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """The same shape."""
        return x.shape

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """NumPy's."""
        return np.array(x, copy=True)

    def transpose(self, tools: Any, ct: Any, x: Any) -> list[Any]:
        """The cotangent."""
        return [ct]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The op itself."""
        return self(args[0]), dims[0]

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """The same index."""
        return index

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """XLA's values have no identity: nothing to do."""
        return x

    @staticmethod
    def samples() -> Iterable[Sample]:
        """A matrix, a scalar."""
        yield Sample(Copy(), (ShapedArray((2, 3), "float32"),))
        yield Sample(Copy(), (ShapedArray((), "bool"),))


class Iota(Op):
    """0, 1, 2, … along axis `dimension` of an array of `shape`."""

    name = "iota"
    arity = 0
    dtype: Any
    shape: tuple[int, ...]
    dimension: int

    def result(self) -> ShapedArray:
        """`shape` and `dtype`."""
        if _check.kind(self.dtype) not in "iufc":
            raise TypeError(
                f"iota does not accept dtype {self.dtype}: wanted an integer, floating point or "
                f"complex dtype"
            )
        if any(n < 0 for n in self.shape):
            raise TypeError(f"iota: sizes must not be negative: got shape {self.shape}")
        if not 0 <= self.dimension < len(self.shape):
            raise ValueError(
                f"iota: dimension={self.dimension} is not an axis of shape {self.shape}"
            )
        return ShapedArray(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        """arange, cast and broadcast."""
        n = self.shape[self.dimension]
        trailing = (1,) * (len(self.shape) - self.dimension - 1)
        line = np.arange(n).astype(self.dtype).reshape(n, *trailing)
        return np.broadcast_to(line, self.shape)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A constant."""
        return self(), None

    transpose = Absent("not linear")

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The same for all."""
        return self(), None

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The index itself."""
        dtype, i = ask.out_dtypes[0], affine(index[self.dimension])
        if _check.kind(self.dtype) == "c":
            part = "float32" if dtype == "complex64" else "float64"
            return expr("complex", dtype, ask.index(i, part), const(0.0, part))
        return ask.index(i, dtype)

    def stablehlo(self, writer: Any) -> Any:
        """stablehlo.iota."""
        return writer.emit("stablehlo.iota", [], iota_dimension=self.dimension)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every kind of dtype, each axis, an integer that wraps round, empty."""
        for dtype in ("int32", "uint8", "float32", "bfloat16", "float16", "complex64"):
            yield Sample(Iota(np.dtype(dtype), (37,), 0), ())
        yield Sample(Iota(np.dtype("int8"), (300,), 0), ())
        for dimension in (0, 1):
            yield Sample(Iota(np.dtype("int64"), (3, 5), dimension), ())
        yield Sample(Iota(np.dtype("float32"), (0, 2), 1), ())


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """`x` with its axes permuted; itself if they stay."""
    permutation = tuple(permutation)
    return x if permutation == tuple(range(len(permutation))) else Transpose(permutation)(x)


def broadcast_in_dim(x: Any, shape: Sequence[int], dims: Sequence[int]) -> Any:
    """`x` with its axis k as axis dims[k] of `shape`."""
    return BroadcastInDim(tuple(shape), tuple(dims))(x)


def reshape(x: Any, shape: Sequence[int]) -> Any:
    """`x` in another shape; itself if it has it."""
    shape = tuple(shape)
    return x if typeof(x).shape == shape else Reshape(shape)(x)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` broadcast to `shape` by NumPy's rule; itself if it has that shape."""
    given, shape = typeof(x).shape, tuple(shape)
    if given == shape:
        return x
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - len(given), len(shape))))


def move_axis(x: Any, source: int, destination: int) -> Any:
    """`x` with axis `source` moved to `destination`."""
    if source == destination:
        return x
    rest = [d for d in range(typeof(x).ndim) if d != source]
    rest.insert(destination, source)
    return transpose(x, rest)


def squeeze(x: Any, dimensions: Sequence[int]) -> Any:
    """`x` without the axes `dimensions`, of size 1; itself if there are none."""
    dimensions = tuple(dimensions)
    return Squeeze(dimensions)(x) if dimensions else x


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """`x` with new axes of size 1 at the places `axes` of the result."""
    axes = tuple(axes)
    if not axes:
        return x
    given = typeof(x).shape
    ndim = len(given) + len(axes)
    kept = tuple(d for d in range(ndim) if d not in axes)
    shape = [1] * ndim
    for n, d in zip(given, kept, strict=True):
        shape[d] = n
    return broadcast_in_dim(x, shape, kept)


def rev(x: Any, dimensions: Sequence[int]) -> Any:
    """`x` reversed along `dimensions`; itself if there are none."""
    dimensions = tuple(dimensions)
    return Rev(dimensions)(x) if dimensions else x


def tile(x: Any, reps: Sequence[int]) -> Any:
    """`x` repeated `reps[d]` times along each axis d."""
    shape, reps = typeof(x).shape, tuple(reps)
    both = [n for pair in zip(reps, shape, strict=True) for n in pair]
    repeated = broadcast_in_dim(x, both, tuple(range(1, 2 * len(shape), 2)))
    return reshape(repeated, [r * n for r, n in zip(reps, shape, strict=True)])


def iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """0, 1, 2, … along axis `dimension` of an array of `shape`."""
    return Iota(np.dtype(dtype), tuple(shape), dimension)()


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """An array of `shape` filled with the Python number `value`."""
    return broadcast_to(np.asarray(value, dtype), shape)


def zeros(aval: ShapedArray) -> Any:
    """Zeros of the shape and dtype of `aval`; of keys, those whose words are 0."""
    if isinstance(aval.dtype, dtypes.KeyType):
        words = full((*aval.shape, aval.dtype.words), 0, np.uint32)
        return ops.random_bits.random_wrap(words, aval.dtype.impl)
    return full(aval.shape, 0, aval.dtype)


#: In a buffer of its own.
copy = Copy()


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(d) for d in np.argsort(permutation))
