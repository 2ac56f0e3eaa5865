"""Diagonals and triangles of arrays.  Diagonals are views: every (n + 1)-th element of the rows."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._ranges import below_diagonal
from covector.numpy._reductions import sum_dtype
from covector.numpy.convert import array_operand, canonical_axis, user_dtype
from covector.trace.tracer import Tracer

point = ops.pointwise
INT = np.dtype(np.int32)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis; `offset` columns to the right.

    >>> import covector.numpy as cnp
    >>> cnp.diagonal(cnp.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = array_operand("diagonal", a)
    offset = operator.index(convert.concrete(offset, "the argument `offset` of diagonal")[()])
    if x.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    first, second = (canonical_axis(d, x.ndim, "diagonal") for d in (axis1, axis2))
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    return _diagonal(x, offset, first, second)


def _diagonal(x: Any, offset: int, first: int, second: int) -> Any:
    rest = [d for d in range(x.ndim) if d not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    moved = ops.shape.transpose(x, (*rest, first, second))
    shape = tuple(x.shape[d] for d in rest)
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = ops.shape.reshape(moved, (*shape, rows * columns))
    if not count:
        return ops.shape.slice_along(flat, len(rest), 0, 0)
    start = offset if offset >= 0 else -offset * columns
    stop = start + (count - 1) * (columns + 1) + 1
    return ops.shape.slice_along(flat, len(rest), start, stop, columns + 1)


def trace(
    a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """The sum of the diagonal of two axes; `offset` may be traced.

    >>> import covector.numpy as cnp
    >>> cnp.trace(cnp.array([[1, 2], [3, 4]])).tolist()
    5
    """
    convert.refuse_out("trace", out)
    x = array_operand("trace", a)
    wanted = user_dtype(dtype, "trace") or sum_dtype(x.dtype, "trace")
    first, second = (canonical_axis(d, x.ndim, "trace") for d in (axis1, axis2))
    if isinstance(offset, Tracer):
        rest = [d for d in range(x.ndim) if d not in (first, second)]
        x = ops.shape.transpose(x, (*rest, first, second))
        rows, columns = (ops.shape.iota(INT, x.shape, x.ndim + d) for d in (-2, -1))
        mine = point.eq(point.add(rows, convert.cast(offset, INT)), columns)
        values = convert.select(mine, x, convert.number(x, 0))
        return ops.reduce.reduce_sum(convert.strong(values, wanted), (x.ndim - 2, x.ndim - 1))
    values = diagonal(x, offset, first, second)
    return ops.reduce.reduce_sum(convert.strong(values, wanted), (typeof(values).ndim - 1,))


def diag(v: Any, k: int = 0) -> Any:
    """Of a 1-d array the square array with it on its `k`-th diagonal; of a 2-d one that diagonal.

    >>> import covector.numpy as cnp
    >>> cnp.diag(cnp.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    x = array_operand("diag", v)
    k = operator.index(convert.concrete(k, "the argument `k` of diag")[()])
    if x.ndim == 2:
        return _diagonal(x, k, 0, 1)
    if x.ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    n = x.shape[0]
    size = n + abs(k)
    if not n:
        return ops.shape.full((size, size), 0, x.dtype)
    start = k if k >= 0 else -k * size
    rest = size * size - start - ((n - 1) * (size + 1) + 1)
    return ops.shape.reshape(ops.shape.pad(x, 0, [(start, rest, size)]), (size, size))


def diagflat(v: Any, k: int = 0) -> Any:
    """The square array with all elements of `v` on its `k`-th diagonal.

    >>> import covector.numpy as cnp
    >>> cnp.diagflat(cnp.array([[1, 2]])).tolist()
    [[1, 0], [0, 2]]
    """
    x = array_operand("diagflat", v)
    return diag(ops.shape.reshape(x, (x.size,)), k)


def tril(m: Any, k: int = 0) -> Any:
    """The elements of the last two axes at and below the `k`-th diagonal, zeros above.

    >>> import covector.numpy as cnp
    >>> cnp.tril(cnp.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    x = _matrices("tril", m)
    return convert.select(below_diagonal(x.shape, k), x, convert.number(x, 0))


def triu(m: Any, k: int = 0) -> Any:
    """The elements of the last two axes at and above the `k`-th diagonal, zeros below.

    >>> import covector.numpy as cnp
    >>> cnp.triu(cnp.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    x = _matrices("triu", m)
    if not isinstance(k, Tracer):
        return convert.select(below_diagonal(x.shape, k - 1), convert.number(x, 0), x)
    less = point.sub(convert.cast(k, INT), np.int32(1))
    return convert.select(below_diagonal(x.shape, less), convert.number(x, 0), x)


def _matrices(who: str, m: Any) -> Any:
    x = array_operand(who, m)
    if x.ndim < 2:
        raise ValueError(f"Argument to {who} must be at least 2D; got shape {x.shape}")
    return x
