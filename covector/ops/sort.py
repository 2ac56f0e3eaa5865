"""Sorting along an axis, and the greatest elements along one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Library, Op, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import like
from covector.ops.gather import GatherDimensionNumbers

INT32 = np.dtype(np.int32)


class Sort(Op):
    """All operands, rearranged along `dimension` so that the first `num_keys` of them ascend
    (compared in turn).  Stable; -0 equals +0, NaN comes last; complex numbers by real part, then
    imaginary part."""

    name = "sort"
    multiple_results = True
    transpose = Absent("not linear")
    dimension: int
    is_stable: bool = True
    num_keys: int = 1

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The operands' types."""
        if not avals:
            raise TypeError("sort needs an operand")
        if any(a.shape != avals[0].shape for a in avals):
            raise TypeError(
                f"sort: all operands must have one shape; got {[a.shape for a in avals]}"
            )
        if not 0 <= self.dimension < max(avals[0].ndim, 1) or not avals[0].ndim:
            raise ValueError(
                f"sort: dimension {self.dimension} is out of range for {avals[0].str_short()}"
            )
        if not 1 <= self.num_keys <= len(avals):
            raise ValueError(
                f"sort: num_keys must be from 1 to the number of operands, {len(avals)}; "
                f"got {self.num_keys}"
            )
        for k, aval in enumerate(avals[: self.num_keys]):
            _check.check_kind(self.name, k, aval, "biufc")
        return avals

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """NumPy's lexsort."""
        keys: list[np.ndarray] = []
        for x in arrays[: self.num_keys]:
            if x.dtype.kind == "c":
                keys += [np.real(x), np.imag(x)]
            else:
                keys.append(x.astype(np.float32) if _check.is_narrow(x.dtype) else x)
        order = np.lexsort(keys[::-1], self.dimension)
        return [np.take_along_axis(x, order, self.dimension) for x in arrays]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangents, rearranged as the operands were."""
        if all(t is None for t in tangents):
            return self(*primals), [None] * len(primals)
        shape = typeof(primals[0]).shape
        places = ops.shape.iota(INT32, shape, self.dimension)
        *outs, order = self(*primals, places)
        return outs, [None if t is None else take_along(t, order, self.dimension) for t in tangents]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        moved = [ops.pieces.batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True)]
        outs = self.with_params(dimension=self.dimension + 1)(*moved)
        return outs, [0] * len(outs)

    def library(self, *avals: ShapedArray) -> Library | None:
        """`sort`, which sorts along the last axis, with the number of keys."""
        last = self.dimension == avals[0].ndim - 1
        return Library("sort", (self.num_keys,)) if last else None

    def decompose(self, *args: Any) -> list[Any]:
        """With the dimension moved to the last place."""
        last = typeof(args[0]).ndim - 1
        moved = [ops.shape.move_axis(x, self.dimension, last) for x in args]
        outs = self.with_params(dimension=last)(*moved)
        return [ops.shape.move_axis(x, last, self.dimension) for x in outs]

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.sort with a lexicographic comparison."""
        return writer.sort(operands, self.dimension, self.is_stable, self.num_keys)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every axis, payloads, several keys, every kind of dtype, special values."""
        for axis in (0, 1, 2):
            yield Sample(Sort(axis), (ShapedArray((3, 5, 7), "float32"),))
        yield Sample(Sort(0), (ShapedArray((0,), "float32"),))
        for dtype in ("bool", "int8", "uint32", "int64", "float16", "bfloat16", "float64",
                      "complex64"):  # fmt: skip
            # in half precision there are ties
            yield Sample(Sort(0), (ShapedArray((37,), dtype), ShapedArray((37,), "int32")),
                         smooth=dtype not in ("float16", "bfloat16"))  # fmt: skip
        small = np.array([[2, 1, 2, 1, 0], [0, 0, 1, 1, 0]], np.int32)
        other = np.array([[0.5, 3, -1, 2, 7], [3, -3, 2, 5, 0]], np.float32)
        yield Sample(Sort(1, True, 2), (small, other, np.arange(10).reshape(2, 5)), smooth=False)
        special = np.array([0.0, -0.0, np.nan, -np.nan, 1, np.inf, -np.inf, -0.0], np.float32)
        yield Sample(Sort(0), (special, np.arange(8, dtype=np.int32)), smooth=False)


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """`x[..., indices[..., i, ...], ...]`: along `axis`, as many elements as there are indices."""
    shape, wanted = typeof(x).shape, typeof(indices).shape
    if 0 in wanted:
        return ops.shape.slice_along(x, axis, 0, min(wanted[axis], shape[axis]))
    rest = tuple(d for d in range(len(shape)) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), rest, rest)
    vectors = ops.shape.expand_dims(indices, (len(shape),))
    return ops.gather.gather(x, vectors, numbers, (1,) * len(shape))


class TopK(Op):
    """The `k` greatest elements along `axis`, descending, and their int32 indices.

    Equal elements keep their order.  Floats are in the total order of IEEE 754: -NaN, numbers
    with -0 below +0, NaN.
    """

    name = "top_k"
    multiple_results = True
    arity = 1
    transpose = Absent("not linear")
    k: int
    axis: int

    def result(self, x: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
        """`k` in place of the axis."""
        if _check.kind(x.dtype) not in "biuf":
            raise ValueError(
                f"top_k orders real numbers, integers or booleans; got {x.str_short()}"
            )
        if not 0 <= self.axis < x.ndim:
            raise ValueError(f"top_k: axis {self.axis} is out of range for {x.str_short()}")
        if not 0 <= self.k <= x.shape[self.axis]:
            raise ValueError(
                f"top_k: k must be from 0 to the size of axis {self.axis} of {x.str_short()}; "
                f"got {self.k}"
            )
        shape = tuple(self.k if d == self.axis else n for d, n in enumerate(x.shape))
        return (
            ShapedArray(shape, x.dtype, x.weak_type),
            ShapedArray(shape, INT32, x.weak_type),
        )

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A stable sort of keys that descend where the elements ascend."""
        order = np.argsort(_descending_numpy(x), self.axis, kind="stable")
        order = np.take(order, range(self.k), self.axis)
        return np.take_along_axis(x, order, self.axis), order.astype(INT32)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangents of the elements that were taken."""
        (t,) = tangents
        values, indices = self(*primals)
        if t is None:
            return [values, indices], [None, None]
        return [values, indices], [take_along(t, indices, self.axis), None]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The axis skips the batch axis."""
        dim = dims[0]
        return self.with_params(axis=self.axis + (self.axis >= dim))(args[0]), [dim, dim]

    def library(self, x: ShapedArray) -> Library | None:
        """`top_k`, along the last axis, with the number of elements."""
        return Library("top_k", (self.k,)) if self.axis == x.ndim - 1 else None

    def decompose(self, x: Any) -> list[Any]:
        """A sort of descending keys, cut off."""
        places = ops.shape.iota(INT32, typeof(x).shape, self.axis)
        _, values, indices = Sort(self.axis)(_descending(x), x, places)
        return [ops.shape.slice_along(v, self.axis, 0, self.k) for v in (values, indices)]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(self.decompose, [x])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every axis, k from 0 to all, small dtypes, special values."""
        for axis, k in ((0, 2), (1, 5), (2, 1), (1, 0)):
            yield Sample(TopK(k, axis), (ShapedArray((3, 5, 7), "float32"),))
        for dtype in ("bool", "int8", "uint32", "float16", "bfloat16", "float64"):
            smooth = dtype not in ("float16", "bfloat16")
            yield Sample(TopK(9, 0), (ShapedArray((37,), dtype),), smooth=smooth)
        special = np.array([-0.0, 0.0, np.nan, -np.nan, 1, np.inf, -np.inf, 1], np.float32)
        yield Sample(TopK(8, 0), (special,), smooth=False)


def _descending(x: Any) -> Any:
    """Integers that descend where `x` ascends, in the total order of floats."""
    point, dtype = ops.pointwise, typeof(x).dtype
    if _check.kind(dtype) != "f":
        return point.not_(x)
    signed = np.dtype(f"i{dtype.itemsize}")
    bits = ops.cast.bitcast_convert_type(x, signed)
    magnitude = like(bits, np.iinfo(signed).max)
    negative = point.lt(bits, like(bits, 0))
    return point.not_(point.where(negative, point.xor(bits, magnitude), bits))


def _descending_numpy(x: np.ndarray) -> np.ndarray:
    if _check.kind(x.dtype) != "f":
        return np.invert(x)
    if float(dtypes.finfo(x.dtype).min) >= 0:  # powers of two, without a sign
        return np.invert(np.ascontiguousarray(x).view(np.uint8).reshape(x.shape))
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(signed).reshape(x.shape)
    return np.invert(np.where(bits < 0, bits ^ np.iinfo(signed).max, bits))


def sort(
    operands: Sequence[Any], dimension: int, is_stable: bool = True, num_keys: int = 1
) -> list[Any]:
    """The operands, sorted together along `dimension` by the first `num_keys` of them."""
    return Sort(dimension, is_stable, num_keys)(*operands)


def argsort(x: Any, axis: int, index_dtype: Any = INT32) -> Any:
    """The indices that sort `x` along `axis`; stable."""
    places = ops.shape.iota(np.dtype(index_dtype), typeof(x).shape, axis)
    return sort([x, places], axis)[1]


def top_k(x: Any, k: int, axis: int) -> list[Any]:
    """The `k` greatest elements along `axis`, and their indices."""
    return TopK(k, axis)(x)
