"""Products of vectors, matrices and tensors: each becomes one `dot_general`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from covector import ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._elementwise import conj, multiply
from covector.numpy.convert import canonical_axis, operands, placed, promote, user_dtype
from covector.runtime.eager import eager

Pair = tuple[Sequence[int], Sequence[int]]


def product(
    x: Any,
    y: Any,
    contract: Pair,
    batch: Pair = ((), ()),
    precision: Any = None,
    wanted: Any = None,
) -> Any:
    """The contraction of two arrays of one dtype."""
    return ops.contract.dot_general(x, y, (contract, batch), precision, wanted)


def _operands(who: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any]:
    """(both, as arrays of one dtype; the dtype of the result if one is preferred)."""
    wanted = user_dtype(preferred, who)
    x, y = promote(*operands(who, a, b))
    return as_array(x), as_array(y), wanted


def _scaled(x: Any, y: Any, wanted: Any) -> Any:
    """The product with a scalar."""
    out = multiply(x, y)
    return out if wanted is None else convert.strong(out, wanted)


@eager(arrays=2)
def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over the last axis of `a` and the last but one of `b` (its only one).

    With a scalar, a product element by element.  `preferred_element_type`: the dtype of the
    result, in which products are added.  Raises TypeError for sizes that differ.

    >>> import covector.numpy as cnp
    >>> cnp.dot(cnp.array([1, 2]), cnp.array([3, 4])).tolist()
    11
    """
    x, y, wanted = _operands("dot", a, b, preferred_element_type)
    if not x.ndim or not y.ndim:
        return placed(_scaled(x, y, wanted), None, out_sharding)
    axes = (x.ndim - 1,), (max(y.ndim - 2, 0),)
    return placed(product(x, y, axes, precision=precision, wanted=wanted), None, out_sharding)


@eager(arrays=2)
def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The matrix product; leading axes are a batch, and are broadcast.

    A 1-d array is a row on the left, a column on the right.  Raises TypeError for sizes that
    differ, ValueError for scalars and for batches that do not fit.

    >>> import covector.numpy as cnp
    >>> cnp.matmul(cnp.ones((2, 3)), cnp.ones((3,))).tolist()
    [3.0, 3.0]
    """
    x, y, wanted = _operands("matmul", a, b, preferred_element_type)
    return placed(matrix_product(x, y, precision, wanted), None, out_sharding)


def matrix_product(x: Any, y: Any, precision: Any = None, wanted: Any = None) -> Any:
    """`matmul` of arrays of one dtype."""
    for k, v in enumerate((x, y)):
        if not v.ndim:
            raise ValueError(
                f"matmul input operand {k} must have ndim at least 1, but it has ndim 0"
            )
    if x.ndim <= 2 and y.ndim <= 2:
        return product(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)), precision=precision,
                       wanted=wanted)  # fmt: skip
    batch = convert.broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    rows, columns = min(x.ndim, 2) - 1, min(y.ndim, 2) - 1
    x, x_places = _without_repeated(x, batch)
    y, y_places = _without_repeated(y, batch)
    common = [d for d in x_places if d in y_places]
    axes = (x.ndim - 1,), (y.ndim - 1 - columns,)
    shared = [x_places.index(d) for d in common], [y_places.index(d) for d in common]
    out = product(x, y, axes, shared, precision, wanted)
    # It has the common batch axes, those of x alone, rows, those of y alone, columns.
    tokens: list[Any] = [*common, *(d for d in x_places if d not in common)]
    tokens += ["row"] * rows + [d for d in y_places if d not in common] + ["column"] * columns
    wanted_order = [d for d in range(len(batch)) if d in tokens]
    order = [tokens.index(t) for t in (*wanted_order, *["row"] * rows, *["column"] * columns)]
    out = ops.shape.transpose(out, order)
    shape = typeof(out).shape
    full = (*batch, *shape[len(wanted_order) :])
    return ops.shape.reshape(out, full)


def _without_repeated(x: Any, batch: tuple[int, ...]) -> tuple[Any, list[int]]:
    """(`x` without batch axes of size 1, the places in `batch` of those that stay)."""
    rank = max(x.ndim - 2, 0)
    first = len(batch) - rank
    ones = [d for d in range(rank) if x.shape[d] == 1]
    return ops.shape.squeeze(x, ones), [first + d for d in range(rank) if d not in ones]


@eager(arrays=2)
def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products of all elements, those of `a` conjugated.

    >>> import covector.numpy as cnp
    >>> cnp.vdot(cnp.array([1, 2]), cnp.array([3, 4])).tolist()
    11
    """
    x, y = (convert.array_operand("vdot", v) for v in operands("vdot", a, b))
    x, y = (ops.shape.reshape(v, (v.size,)) for v in (conj(x), y))
    return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of products along `axis`, elements of `x1` conjugated; the other axes are a batch.

    >>> import covector.numpy as cnp
    >>> cnp.vecdot(cnp.ones((2, 3)), cnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    x, y, wanted = _operands("vecdot", x1, x2, preferred_element_type)
    if not x.ndim or not y.ndim:
        raise ValueError("vecdot: both arrays must have at least one axis; got shapes "
                         f"{x.shape} and {y.shape}")  # fmt: skip
    places = [canonical_axis(axis, v.ndim, "vecdot") for v in (x, y)]
    if x.shape[places[0]] != y.shape[places[1]]:
        raise ValueError(f"axes must match; got shapes {x.shape} and {y.shape} with {axis=}")
    x, y = (ops.shape.move_axis(v, d, v.ndim - 1) for v, d in zip((x, y), places, strict=True))
    return _rows_by_columns(conj(x), y, precision, wanted)


def _rows_by_columns(x: Any, y: Any, precision: Any, wanted: Any) -> Any:
    """Sums of products along the last axis; the others are broadcast."""
    row = ops.shape.expand_dims(x, (x.ndim - 1,))
    column = ops.shape.expand_dims(y, (y.ndim,))
    out = matrix_product(row, column, precision, wanted)
    return ops.shape.squeeze(out, (typeof(out).ndim - 2, typeof(out).ndim - 1))


def matvec(x1: Any, x2: Any, /) -> Any:
    """The product of matrices and vectors; the other axes are a batch.

    >>> import covector.numpy as cnp
    >>> cnp.matvec(cnp.ones((2, 3)), cnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    x, y, _ = _operands("matvec", x1, x2, None)
    if x.ndim < 2 or y.ndim < 1 or x.shape[-1] != y.shape[-1]:
        raise ValueError(f"matvec: wanted shapes (..., n, m) and (..., m); got {x.shape} and "
                         f"{y.shape}")  # fmt: skip
    out = matrix_product(x, ops.shape.expand_dims(y, (y.ndim,)))
    return ops.shape.squeeze(out, (typeof(out).ndim - 1,))


def vecmat(x1: Any, x2: Any, /) -> Any:
    """The product of vectors, conjugated, and matrices; the other axes are a batch.

    >>> import covector.numpy as cnp
    >>> cnp.vecmat(cnp.ones(2), cnp.ones((2, 3))).tolist()
    [2.0, 2.0, 2.0]
    """
    x, y, _ = _operands("vecmat", x1, x2, None)
    if x.ndim < 1 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ValueError(f"vecmat: wanted shapes (..., n) and (..., n, m); got {x.shape} and "
                         f"{y.shape}")  # fmt: skip
    out = matrix_product(ops.shape.expand_dims(conj(x), (x.ndim - 1,)), y)
    return ops.shape.squeeze(out, (typeof(out).ndim - 2,))


@eager(arrays=2)
def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products over the last axis of both.

    >>> import covector.numpy as cnp
    >>> cnp.inner(cnp.ones((2, 3)), cnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    x, y, wanted = _operands("inner", a, b, preferred_element_type)
    if not x.ndim or not y.ndim:
        return _scaled(x, y, wanted)
    return product(x, y, ((x.ndim - 1,), (y.ndim - 1,)), precision=precision, wanted=wanted)


@eager(arrays=2)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """The product of every element of `a` with every one of `b`, both flattened.

    >>> import covector.numpy as cnp
    >>> cnp.outer(cnp.array([1, 2]), cnp.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    convert.refuse_out("outer", out)
    x, y = (as_array(v) for v in promote(*operands("outer", a, b)))
    shape = (x.size, y.size)
    x, y = (ops.shape.reshape(v, (v.size,)) for v in (x, y))
    return multiply(*(ops.shape.broadcast_in_dim(v, shape, (d,)) for d, v in enumerate((x, y))))


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over pairs of axes: the last n of `a` with the first n of `b`, or the
    axes in two sequences, pair by pair.

    >>> import covector.numpy as cnp
    >>> cnp.tensordot(cnp.ones((2, 3)), cnp.ones((3, 2)), 1).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    x, y, wanted = _operands("tensordot", a, b, preferred_element_type)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise TypeError(f"tensordot: axes must be an int or a pair; got {axes!r}")
        left, right = (
            tuple(canonical_axis(d, v.ndim, "tensordot") for d in _as_sequence(side))
            for side, v in zip(axes, (x, y), strict=True)
        )
        if len(left) != len(right):
            raise TypeError(
                f"tensordot requires axes lists to have equal length, got {axes[0]} and {axes[1]}."
            )
    else:
        n = operator.index(axes)
        if n > min(x.ndim, y.ndim):
            raise TypeError(f"Number of tensordot axes (axes {n}) exceeds input ranks ({x.shape} "
                            f"and {y.shape})")  # fmt: skip
        left, right = tuple(range(x.ndim - n, x.ndim)) if n > 0 else (), tuple(range(n))
    out = product(x, y, (left, right), precision=precision, wanted=wanted)
    return placed(out, None, out_sharding)


def _as_sequence(axes: Any) -> Sequence[Any]:
    return axes if isinstance(axes, (tuple, list)) else (axes,)


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: `b` in the place of every element of `a`, times it.

    >>> import covector.numpy as cnp
    >>> cnp.kron(cnp.array([1, 2]), cnp.array([1, 10])).tolist()
    [1, 10, 2, 20]
    """
    x, y = (as_array(v) for v in promote(*operands("kron", a, b)))
    rank = max(x.ndim, y.ndim)
    x, y = (ops.shape.reshape(v, (*(1,) * (rank - v.ndim), *v.shape)) for v in (x, y))
    shape = [n for pair in zip(x.shape, y.shape, strict=True) for n in pair]
    left = ops.shape.broadcast_in_dim(x, shape, range(0, 2 * rank, 2))
    right = ops.shape.broadcast_in_dim(y, shape, range(1, 2 * rank, 2))
    out = multiply(left, right)
    return ops.shape.reshape(out, [n * m for n, m in zip(x.shape, y.shape, strict=True)])


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors of 2 or 3 elements along an axis; of two 2-d ones a scalar.

    >>> import covector.numpy as cnp
    >>> cnp.cross(cnp.array([1, 0, 0]), cnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    x, y = (as_array(v) for v in promote(*operands("cross", a, b)))
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (
        ops.shape.move_axis(v, canonical_axis(d, v.ndim, "cross"), v.ndim - 1)
        for v, d in ((x, axisa), (y, axisb))
    )
    sizes = x.shape[-1], y.shape[-1]
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"Dimension must be either 2 or 3 for cross product; got {sizes}")
    (x1, x2, x3), (y1, y2, y3) = (_components(v) for v in (x, y))
    third = _minor(x1, x2, y1, y2)
    if sizes == (2, 2):
        return third
    out = ops.shape.stack([_minor(x2, x3, y2, y3), _minor(x3, x1, y3, y1), third], -1 % (
        typeof(third).ndim + 1))  # fmt: skip
    rank = typeof(out).ndim
    return ops.shape.move_axis(out, rank - 1, canonical_axis(axisc, rank, "cross"))


def _components(x: Any) -> list[Any]:
    parts = ops.shape.unstack(x, x.ndim - 1)
    return parts if len(parts) == 3 else [*parts, convert.number(x, 0)]


def _minor(a: Any, b: Any, c: Any, d: Any) -> Any:
    """a d - b c."""
    point = ops.pointwise
    left, right = (point.mul(*convert.broadcast_all("cross", *pair)) for pair in ((a, d), (b, c)))
    return point.sub(*convert.broadcast_all("cross", left, right))
