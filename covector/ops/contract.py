"""Contractions: sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Library, Sample
from covector.ir.scalar import Expr, cast
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import SumOfProducts

#: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), each a tuple of axes.
Dimensions = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]

#: Element types of the `gemm` routine.
GEMM = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


class DotGeneral(SumOfProducts):
    """Sums of products over the contracting axes, for every index of the batch axes.

    The result has the batch axes, then the other axes of lhs, then those of rhs.  It is of
    `preferred_element_type`, if given; narrow floats are accumulated in float32.
    """

    name = "dot_general"
    dimension_numbers: Dimensions
    precision: Any = None
    preferred_element_type: Any = None

    def result(self, lhs: ShapedArray, rhs: ShapedArray) -> ShapedArray:
        """Checks the dimension numbers against both shapes."""
        _check_dimensions(self.dimension_numbers, lhs, rhs)
        given = self.common_dtype(lhs, rhs)
        (xc, yc), (xb, yb) = self.dimension_numbers
        shape = (
            *(lhs.shape[d] for d in xb),
            *(lhs.shape[d] for d in _others(lhs.ndim, xc, xb)),
            *(rhs.shape[d] for d in _others(rhs.ndim, yc, yb)),
        )
        dtype = given if self.preferred_element_type is None else self._preferred(given)
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    def _preferred(self, given: Any) -> Any:
        wanted = np.dtype(self.preferred_element_type)
        kinds = _check.kind(given), _check.kind(wanted)
        if set(kinds) <= set("iu") and wanted.itemsize < given.itemsize:
            raise TypeError(
                f"dot_general: preferred_element_type={wanted} must not be narrower than the "
                f"operands' {given}"
            )
        return wanted

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """NumPy's einsum."""
        out = self.result(ShapedArray(x.shape, x.dtype), ShapedArray(y.shape, y.dtype)).dtype
        wide = self.accumulator(x.dtype, y.dtype, out)
        (xc, yc), (xb, yb) = self.dimension_numbers
        x_axes, y_axes = list(range(x.ndim)), list(range(x.ndim, x.ndim + y.ndim))
        for i, j in (*zip(xc, yc, strict=True), *zip(xb, yb, strict=True)):
            y_axes[j] = x_axes[i]
        free = [*(x_axes[d] for d in (*xb, *_others(x.ndim, xc, xb))),
                *(y_axes[d] for d in _others(y.ndim, yc, yb))]  # fmt: skip
        work = np.dtype(np.int64) if wide == np.bool_ else wide
        total = np.einsum(x.astype(work), x_axes, y.astype(work), y_axes, free)
        return ops.cast.ConvertElementType(out).numpy(np.asarray(total).astype(wide))

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """The contraction of the cotangent with the other operand."""
        contract, batch = self.dimension_numbers
        (mine_c, other_c), (mine_b, other_b) = (
            (contract[::-1], batch[::-1]) if k else (contract, batch)
        )
        mine_kept = _others(wanted.ndim, mine_c, mine_b)
        other_kept = _others(typeof(other).ndim, other_c, other_b)
        start = len(mine_b) + (0 if k else len(mine_kept))
        ct_kept = tuple(range(start, start + len(other_kept)))
        numbers = ((ct_kept, other_kept), (tuple(range(len(mine_b))), other_b))
        kind = self.preference(wanted, ct, other)
        out = DotGeneral(numbers, self.precision, kind)(ct, other)
        # its axes, as axes of the operand: batch, kept, then contracted in the order of `other`
        rest = [mine_c[other_c.index(d)] for d in sorted(other_c)]
        axes = [*mine_b, *mine_kept, *rest]
        return ops.shape.transpose(out, tuple(axes.index(d) for d in range(wanted.ndim)))

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Of both: one more batch axis; of one: one more of its own axes."""
        (x, y), (dx, dy) = args, dims
        (xc, yc), (xb, yb) = self.dimension_numbers
        xc, xb = _skip(xc, dx), _skip(xb, dx)
        yc, yb = _skip(yc, dy), _skip(yb, dy)
        if dx is not None and dy is not None:
            xb, yb, place = (dx, *xb), (dy, *yb), 0
        elif dx is not None:
            place = len(xb) + _others(typeof(x).ndim, xc, xb).index(dx)
        else:
            kept = typeof(x).ndim - len(xc) - len(xb)
            place = len(xb) + kept + _others(typeof(y).ndim, yc, yb).index(dy)
        return self.with_params(dimension_numbers=((xc, yc), (xb, yb)))(x, y), place

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """A fold of products."""
        (xc, yc), (xb, yb) = self.dimension_numbers
        ranks = [len(s) for s in ask.shapes]
        x_kept, y_kept = _others(ranks[0], xc, xb), _others(ranks[1], yc, yb)
        x_dtype, y_dtype = ask.dtypes
        wide: str = self.accumulator(x_dtype, y_dtype, ask.out_dtypes[0]).name
        x_index: list[Any] = [None] * ranks[0]
        y_index: list[Any] = [None] * ranks[1]
        for i, d in zip(index, (*xb, *x_kept), strict=False):
            x_index[d] = i
        for i, d in zip((*index[: len(xb)], *index[len(xb) + len(x_kept) :]), (*yb, *y_kept),
                        strict=True):  # fmt: skip
            y_index[d] = i

        def body(k: Sequence[Any]) -> Expr:
            at_x, at_y = list(x_index), list(y_index)
            for i, d, e in zip(k, xc, yc, strict=True):
                at_x[d] = at_y[e] = affine(i)
            x, y = cast(ask.at(0, at_x), wide), cast(ask.at(1, at_y), wide)
            return x & y if wide == "bool" else x * y

        if not xc:
            return cast(body(()), ask.out_dtypes[0])
        kind = "or" if wide == "bool" else "sum"
        total = ask.fold(kind, [ask.shapes[0][d] for d in xc], body)
        return cast(total, ask.out_dtypes[0])

    def library(self, lhs: ShapedArray, rhs: ShapedArray) -> Library | None:
        """`gemm`, for operands and result of one of its dtypes."""
        out = self.result(lhs, rhs)
        if not (lhs.dtype == rhs.dtype == out.dtype and out.dtype in GEMM):
            return None
        return Library("gemm", (self.dimension_numbers,))

    def stablehlo(self, writer: Any, x: Any, y: Any) -> Any:
        """stablehlo.dot_general into the accumulator's dtype, then a conversion."""
        out = writer.out_avals[0]
        wide = self.accumulator(writer.aval(x).dtype, writer.aval(y).dtype, out.dtype)
        if writer.aval(x).dtype != writer.aval(y).dtype or not _check.is_narrow(out.dtype):
            x, y = writer.convert(x, wide), writer.convert(y, wide)
        if wide == np.bool_:
            x, y = (writer.convert(v, np.dtype(np.int32)) for v in (x, y))
            return writer.convert(self._dot(writer, x, y, np.int32), wide)
        return writer.convert(self._dot(writer, x, y, wide), out.dtype)

    def _dot(self, writer: Any, x: Any, y: Any, dtype: Any) -> Any:
        (xc, yc), (xb, yb) = self.dimension_numbers
        return writer.emit(
            "stablehlo.dot_general",
            [x, y],
            ShapedArray(writer.out_avals[0].shape, dtype),
            dot_dimension_numbers=writer.dot_numbers(xb, yb, xc, yc),
            precision_config=writer.precision(self.precision),
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Products of matrices and vectors, batches, several and no contracting axes, dtypes."""
        for x, y, numbers in (
            ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
            ((4, 3), (5, 4), (((0,), (1,)), ((), ()))),
            ((4,), (4,), (((0,), (0,)), ((), ()))),
            ((3,), (4,), (((), ()), ((), ()))),
            ((3, 4), (4,), (((1,), (0,)), ((), ()))),
            ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
            ((3, 2, 4), (5, 4, 2), (((2,), (1,)), ((1,), (2,)))),
            ((2, 3, 4, 5), (5, 4, 3, 2), (((1, 3), (2, 0)), ((2,), (1,)))),
            ((3, 0), (0, 5), (((1,), (0,)), ((), ()))),
            ((0, 4), (4, 5), (((1,), (0,)), ((), ()))),
            ((), (3,), (((), ()), ((), ()))),
        ):
            avals = (ShapedArray(x, "float32"), ShapedArray(y, "float32"))
            yield Sample(DotGeneral(numbers), avals, scale=4.0)
        plain = (((1,), (0,)), ((), ()))
        shapes = ((3, 17), (17, 5))
        for dtype in ("bool", "int8", "uint32", "float16", "bfloat16", "float64", "complex64"):
            avals = tuple(ShapedArray(s, dtype) for s in shapes)
            yield Sample(DotGeneral(plain), avals, scale=4.0)
        for dtype, wanted in (("float16", "float32"), ("int8", "int32"), ("float32", "bfloat16")):
            avals = tuple(ShapedArray(s, dtype) for s in shapes)
            yield Sample(DotGeneral(plain, None, np.dtype(wanted)), avals, scale=4.0)
        mixed = (ShapedArray(shapes[0], "float32"), ShapedArray(shapes[1], "bfloat16"))
        yield Sample(DotGeneral(plain), mixed, scale=4.0)


def _others(rank: int, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for axes in used for d in axes}
    return tuple(d for d in range(rank) if d not in taken)


def _skip(axes: Sequence[int], dim: int | None) -> tuple[int, ...]:
    """`axes` of one example as axes of the array that has a batch axis `dim` more."""
    return tuple(axes) if dim is None else tuple(a + (a >= dim) for a in axes)


def _check_dimensions(numbers: Dimensions, lhs: ShapedArray, rhs: ShapedArray) -> None:
    (xc, yc), (xb, yb) = numbers
    for side, aval, contract, batch in (("lhs", lhs, xc, xb), ("rhs", rhs, yc, yb)):
        axes = (*contract, *batch)
        if any(not 0 <= d < aval.ndim for d in axes):
            raise TypeError(
                f"dot_general: {side} contracting axes {tuple(contract)} and batch axes "
                f"{tuple(batch)} must be among the {aval.ndim} axes of {aval.str_short()}, "
                f"and not negative"
            )
        if len(set(axes)) != len(axes):
            raise TypeError(
                f"dot_general: {side} contracting axes {tuple(contract)} and batch axes "
                f"{tuple(batch)} must be distinct"
            )
    for what, left, right in (("contracting", xc, yc), ("batch", xb, yb)):
        sizes = tuple(lhs.shape[d] for d in left), tuple(rhs.shape[d] for d in right)
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general: {what} axes must have equal sizes; got {sizes[0]} of "
                f"{lhs.str_short()} (axes {tuple(left)}) and {sizes[1]} of {rhs.str_short()} "
                f"(axes {tuple(right)})"
            )


def dot_general(
    x: Any,
    y: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """See `DotGeneral`; the dimension numbers may be any nested sequences."""
    (xc, yc), (xb, yb) = dimension_numbers
    numbers = (
        (tuple(map(int, xc)), tuple(map(int, yc))),
        (tuple(map(int, xb)), tuple(map(int, yb))),
    )
    wanted = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return DotGeneral(numbers, precision, wanted)(x, y)


def matmul(x: Any, y: Any) -> Any:
    """The product of two matrices."""
    return dot_general(x, y, (((1,), (0,)), ((), ())))
