"""Linear algebra: norms, products, transposes; factors and systems are in files of their own."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.config import config
from covector.ir.values import typeof
from covector.numpy import _diagonals, _products, _reductions, _shape, convert
from covector.numpy._arithmetic import safe_sqrt, without_kink
from covector.numpy._elementwise import abs as absolute
from covector.numpy._reductions import kept
from covector.numpy.convert import array_operand, canonical_axes, canonical_axis, is_kind
from covector.numpy.factors import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from covector.numpy.systems import (
    det,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

point = ops.pointwise


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors along an axis, of matrices along two, or of all elements.

    ord of vectors: 2 (None), 0, inf, -inf, any number p.  Of matrices: 'fro' (None), 1, -1, inf,
    -inf, and of the singular values the greatest, 2, the least, -2, their sum, 'nuc'.  Its
    derivative at 0 is 0.  Raises ValueError for another order.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.norm(cnp.array([3.0, 4.0])).tolist()
    5.0
    """
    x = _inexact("norm", x)
    if axis is None and ord is None:
        return kept(_euclidean(x, tuple(range(x.ndim))), tuple(range(x.ndim)), keepdims)
    axes = canonical_axes(axis, x.ndim, "norm")
    if len(axes) == 1:
        return _vector_norm(x, axes, 2 if ord is None else ord, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, axes, "fro" if ord is None else ord, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: {axis=}. Pass one axis to compute a vector-norm, or "
        "two axes to compute a matrix-norm."
    )


def _inexact(who: str, x: Any) -> Any:
    x = array_operand(who, x)
    return convert.strong(x, dtypes.to_inexact_dtype(x.dtype))


def _square(x: Any) -> Any:
    if is_kind(x, np.complexfloating):
        return point.add(point.square(point.real(x)), point.square(point.imag(x)))
    return point.square(x)


def _euclidean(x: Any, axes: tuple[int, ...]) -> Any:
    return safe_sqrt(ops.reduce.reduce_sum(_square(x), axes))


def _vector_norm(x: Any, axes: tuple[int, ...], ord: Any, keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm.")
    if ord == 2:
        return kept(_euclidean(x, axes), axes, keepdims)
    size = absolute(x)
    if ord == np.inf:
        return _reductions.max(size, axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return _reductions.min(size, axes, keepdims=keepdims, initial=np.inf)
    if ord == 0:
        present = convert.strong(point.ne(x, convert.number(x, 0)), typeof(size).dtype)
        return _reductions.sum(present, axes, keepdims=keepdims)
    if ord == 1:
        return _reductions.sum(size, axes, keepdims=keepdims)
    (power,) = convert.operands("norm", ord)
    power = convert.cast(power, typeof(size).dtype)
    total = _reductions.sum(point.pow_(size, power), axes, keepdims=keepdims)
    inverse = point.reciprocal(power)
    at_zero = point.pow_(convert.number(total, 0), inverse)  # of a negative power, infinite
    return without_kink(lambda x: point.pow_(x, inverse), total, at_zero)


def _matrix_norm(x: Any, axes: tuple[int, ...], ord: Any, keepdims: bool) -> Any:
    if ord in ("fro", "f"):
        return kept(_euclidean(x, axes), axes, keepdims)
    rows, columns = axes
    over = {1: (rows, columns), np.inf: (columns, rows)}
    if isinstance(ord, (int, float)) and abs(ord) in over:
        inner, outer_axis = over[abs(ord)]
        sums = _reductions.sum(absolute(x), inner, keepdims=True)
        pick = _reductions.max if ord > 0 else _reductions.min
        initial = 0 if ord > 0 else np.inf
        out = pick(sums, outer_axis, keepdims=True, initial=initial)
        return out if keepdims else ops.shape.squeeze(out, sorted(axes))
    if ord in ("nuc", 2, -2):
        moved = _shape.moveaxis(x, axes, (-2, -1))
        pick, initial = {
            "nuc": (_reductions.sum, None), 2: (_reductions.max, 0), -2: (_reductions.min, np.inf)
        }[ord]  # fmt: skip
        out = pick(svdvals(_without_kink_at_zero(moved)), -1, initial=initial)
        return ops.shape.expand_dims(out, sorted(axes)) if keepdims else out
    raise ValueError(
        f"Invalid order {ord!r} for matrix norm: wanted 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
    )


def _without_kink_at_zero(x: Any) -> Any:
    """Matrices, of which those that are all 0 count as constant."""
    if config.singular_derivatives == "ieee":
        return x
    nothing = _reductions.all(point.eq(x, convert.number(x, 0)), (-2, -1), keepdims=True)
    return convert.select(_shape.broadcast_to(nothing, x.shape), convert.number(x, 0), x)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along an axis, several (as one vector) or all; see `norm`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.vector_norm(cnp.array([[3.0], [4.0]])).tolist()
    5.0
    """
    x = _inexact("vector_norm", x)
    return _vector_norm(x, canonical_axes(axis, x.ndim, "vector_norm"), ord, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two axes; see `norm`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.matrix_norm(cnp.array([[3.0, 4.0]])).tolist()
    5.0
    """
    x = _inexact("matrix_norm", x)
    axes = canonical_axes((-2, -1), x.ndim, "matrix_norm")
    return _matrix_norm(x, axes, ord, keepdims)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.matrix_transpose(cnp.ones((2, 3))).shape
    (3, 2)
    """
    return _shape.matrix_transpose(x)


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The matrix product; see `covector.numpy.matmul`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.matmul(cnp.ones((1, 2)), cnp.ones((2, 1))).tolist()
    [[2.0]]
    """
    return _products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of products along an axis; see `covector.numpy.vecdot`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.vecdot(cnp.ones(2), cnp.ones(2)).tolist()
    2.0
    """
    return _products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over pairs of axes; see `covector.numpy.tensordot`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.tensordot(cnp.ones((2, 3)), cnp.ones((2, 3))).tolist()
    6.0
    """
    return _products.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def outer(x1: Any, x2: Any, /) -> Any:
    """The product of every element of one 1-d array with every one of another.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.outer(cnp.array([1, 2]), cnp.array([3])).tolist()
    [[3], [6]]
    """
    shapes = [typeof(x).shape for x in convert.operands("outer", x1, x2)]
    if any(len(s) != 1 for s in shapes):
        raise ValueError(f"Input arrays must be one-dimensional, but they have shapes {shapes}")
    return _products.outer(x1, x2)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements along an axis.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.cross(cnp.array([1, 0, 0]), cnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    sizes = [
        typeof(x).shape[canonical_axis(axis, typeof(x).ndim, "cross")]
        for x in convert.operands("cross", x1, x2)
    ]
    if sizes != [3, 3]:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they have sizes "
            f"{sizes} along axis {axis}"
        )
    return _products.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.diagonal(cnp.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return _diagonals.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.trace(cnp.array([[1, 2], [3, 4]])).tolist()
    5
    """
    return _diagonals.trace(x, offset, -2, -1, dtype)


def matrix_power(a: Any, n: int) -> Any:
    """Square matrices to an integer power, by repeated squaring; a negative one is of the inverse.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.matrix_power(cnp.array([[1, 1], [0, 1]]), 3).tolist()
    [[1, 3], [0, 1]]
    """
    x = array_operand("matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-1] != x.shape[-2]:
        raise TypeError(f"Last 2 dimensions of the array must be square; got {x.shape}")
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"exponent must be an integer, got {n}") from None
    if n < 0:
        x, n = inv(x), -n
    if n == 0:
        rows, columns = (ops.shape.iota(np.dtype(np.int32), x.shape, x.ndim + d) for d in (-2, -1))
        return convert.strong(point.eq(rows, columns), x.dtype)
    result = None
    while n:
        if n & 1:
            result = x if result is None else _products.matmul(result, x)
        n >>= 1
        x = _products.matmul(x, x) if n else x
    return result


def cond(x: Any, p: Any = None) -> Any:
    """The condition number of matrices: the ratio of the greatest and the least singular value.

    p: another norm, of the matrix and of its inverse, as in `norm`; 2 and -2 (the reciprocal) are
    of singular values.  ValueError for fewer than two axes.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.cond(cnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    2.0
    """
    x = _inexact("cond", x)
    if x.ndim < 2:
        raise ValueError(
            f"{x.ndim}-dimensional array given. Array must be at least two-dimensional"
        )
    if p in (None, 2, -2):
        s = svdvals(x)
        first, last = s[..., 0], s[..., -1]
        return point.div(last, first) if p == -2 else point.div(first, last)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"cond: with p={p!r} matrices must be square; got shape {x.shape}")
    axes = (x.ndim - 2, x.ndim - 1)
    sizes = [_matrix_norm(y, axes, p, False) for y in (x, inv(x))]
    ratio = point.mul(*sizes)
    none = point.and_(point.ne(ratio, ratio), point.not_(_reductions.any(point.ne(x, x), axes)))
    return point.where(none, convert.number(ratio, np.inf), ratio)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of several matrices, in the order that costs least; the ends may be 1-d.

    The order is found by dynamic programming (Cormen et al., Introduction to Algorithms, 15.2).

    >>> import covector.numpy as cnp
    >>> cnp.linalg.multi_dot([cnp.ones((1, 2)), cnp.ones((2, 3)), cnp.ones(3)]).tolist()
    [6.0]
    """
    parts = convert.array_operands("multi_dot", arrays)
    if len(parts) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(parts)}")
    shapes = [x.shape for x in parts]
    ends = {len(shapes[0]), len(shapes[-1])}
    if any(len(s) != 2 for s in shapes[1:-1]) or not ends <= {1, 2}:
        raise ValueError(
            "multi_dot: input arrays must be two-dimensional, except for the first and last array "
            f"which may be 1 or 2 dimensional; got {shapes}"
        )
    sizes = [shapes[0][0] if len(shapes[0]) == 2 else 1, *(s[0] for s in shapes[1:])]
    sizes[1] = shapes[0][-1]
    sizes.append(shapes[-1][1] if len(shapes[-1]) == 2 else 1)
    for k, (left, right) in enumerate(itertools.pairwise(shapes)):
        if left[-1] != right[0]:
            raise ValueError(
                f"multi_dot: last dimension of array {k} must match first dimension of array "
                f"{k + 1}; got {left} and {right}"
            )
    splits = _cheapest_splits(sizes)

    def multiply(first: int, last: int) -> Any:
        if first == last:
            return parts[first]
        middle = splits[first, last]
        return _products.matmul(
            multiply(first, middle), multiply(middle + 1, last), precision=precision
        )

    return multiply(0, len(parts) - 1)


def _cheapest_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split the product of matrices i to j (matrix k is sizes[k] × sizes[k + 1])."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], splits[i, j] = min(options)
    return splits
