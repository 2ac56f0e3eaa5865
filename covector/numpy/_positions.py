"""Positions as arrays: of triangles, of diagonals, of grids, and from flat positions and back."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._creation import asarray
from covector.numpy.convert import is_kind, like, number, operands, shape_of, strong, user_dtype

point = ops.pointwise
INT = np.dtype(np.int32)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays for the grid of the given 1-d positions; booleans stand for where they hold.

    >>> import covector.numpy as cnp
    >>> x = cnp.arange(6).reshape(2, 3)
    >>> x[cnp.ix_(cnp.array([1]), cnp.array([0, 2]))].tolist()
    [[3, 5]]
    """
    out = []
    for d, x in enumerate(operands("ix_", *args)):
        x = as_array(x)
        if x.ndim != 1:
            raise ValueError(f"Arguments to ix_ must be 1-dimensional, got shape {x.shape}")
        if x.dtype == np.bool_:
            numbers = convert.concrete(x, "ix_ of booleans, which decide a shape")
            x = as_array(np.nonzero(numbers)[0].astype(dtypes.default_int()))
        elif not x.size:
            x = strong(x, INT)
        out.append(ops.shape.broadcast_in_dim(
            x, [x.size if k == d else 1 for k in range(len(args))], (d,)))  # fmt: skip
    return tuple(out)


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the index arrays of `shape`, as of each single index.

    >>> import covector.numpy as cnp
    >>> cnp.fromfunction(lambda i, j: i + 10 * j, (2, 2)).tolist()
    [[0.0, 10.0], [1.0, 11.0]]
    """
    size = shape_of(shape, "fromfunction")
    wanted = user_dtype(dtype, "fromfunction")
    return function(*[ops.shape.iota(wanted, size, d) for d in range(len(size))], **kwargs)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """(rows, columns) of the elements at and below the `k`-th diagonal of an n × m array.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _positions(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """(rows, columns) of the elements at and above the `k`-th diagonal of an n × m array.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _positions(np.triu_indices(n, k, m))


def _positions(found: Sequence[np.ndarray]) -> Any:
    return tuple(as_array(x.astype(dtypes.default_int())) for x in found)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """`tril_indices` for the shape of a 2-d array.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.tril_indices_from(cnp.ones((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    shape = _two_d("tril_indices_from", arr)
    return tril_indices(shape[0], k, shape[1])


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """`triu_indices` for the shape of a 2-d array.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.triu_indices_from(cnp.ones((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    shape = _two_d("triu_indices_from", arr)
    return triu_indices(shape[0], k, shape[1])


def _two_d(who: str, arr: Any) -> tuple[int, int]:
    shape = tuple(arr.shape) if hasattr(arr, "shape") else typeof(operands(who, arr)[0]).shape
    if len(shape) != 2:
        raise ValueError(f"{who}: Only 2-D inputs are accepted; got shape {shape}")
    return shape[0], shape[1]


def mask_indices(
    n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, ...]:
    """Positions of the elements of an n × n array that a function such as `tril` keeps.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.mask_indices(2, cnp.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    kept = convert.concrete(
        mask_func(ops.shape.full((n, n), 1, dtypes.default_int()), k), "mask_indices"
    )
    found = np.nonzero(kept)
    if size is not None:
        found = tuple(np.resize(np.pad(f, (0, max(size - len(f), 0))), size) for f in found)
    return _positions(found)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Index arrays of the diagonal of an array with `ndim` axes of size `n`.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (ops.shape.iota(dtypes.default_int(), (n,), 0),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Index arrays of the diagonal of `arr`, whose axes have one size.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.diag_indices_from(cnp.ones((2, 2)))]
    [[0, 1], [0, 1]]
    """
    (arr,) = operands("diag_indices_from", arr)
    shape = typeof(arr).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Flat positions in an array of `shape` as one array of positions an axis (clipped).

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.unravel_index(cnp.array([5]), (2, 3))]
    [[1], [2]]
    """
    flat = asarray(operands("unravel_index", indices)[0])
    if not is_kind(flat, np.integer):
        raise TypeError(f"unravel_index: indices must be integers; got {flat.dtype}")
    sizes = shape_of(shape, "unravel_index")
    total = math.prod(sizes)
    flat = point.where(point.lt(flat, like(flat, 0)), point.add(flat, like(flat, total)), flat)
    flat = point.clamp(like(flat, 0), flat, like(flat, max(total - 1, 0)))
    out: list[Any] = []
    for n in reversed(sizes):
        size = like(flat, max(n, 1))
        out.insert(0, point.rem(flat, size))
        flat = point.div(flat, size)
    return tuple(out)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Any:
    """Positions, one array an axis, as flat positions in an array of shape `dims`.

    mode: what happens out of bounds, 'raise' (ValueError; not while tracing), 'clip', 'wrap'.

    >>> import covector.numpy as cnp
    >>> cnp.ravel_multi_index((cnp.array([1]), cnp.array([2])), (2, 3)).tolist()
    [5]
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = shape_of(dims, "ravel_multi_index")
    arrays = [asarray(x) for x in operands("ravel_multi_index", *multi_index)]
    for x in arrays:
        if not is_kind(x, np.integer):
            raise ValueError(f"ravel_multi_index: positions must be integers; got {x.dtype}")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order: {order!r}. Expected 'C' or 'F'")
    wanted = user_dtype(dtype, "ravel_multi_index") or dtypes.default_int()
    arrays = [strong(_in_bounds(x, n, mode), wanted) for x, n in zip(arrays, sizes, strict=True)]
    total: Any = number(arrays[0], 0) if arrays else wanted.type(0)
    stride = 1
    pairs = list(zip(arrays, sizes, strict=True))
    for x, n in pairs if order == "F" else pairs[::-1]:
        total = point.add(*convert.broadcast(
            "ravel_multi_index", total, point.mul(x, number(x, stride))))  # fmt: skip
        stride *= n
    return as_array(total)


def _in_bounds(x: Any, size: int, mode: str) -> Any:
    n = number(x, size)
    if mode == "clip":
        return point.clamp(number(x, 0), x, number(x, size - 1))
    if mode == "wrap":
        return point.rem(point.add(point.rem(x, n), n), n)
    if mode != "raise":
        raise ValueError(f"invalid mode {mode!r}. Expected 'raise', 'wrap', or 'clip'")
    numbers = convert.concrete(x, "ravel_multi_index in mode 'raise': use mode='clip' or 'wrap'")
    if ((numbers < 0) | (numbers >= size)).any():
        raise ValueError("invalid entry in coordinates array")
    return x
