"""Arrays by rule: ranges, grids, triangles of ones, index arrays."""

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
from covector.numpy.convert import (
    cast,
    is_kind,
    number,
    operands,
    placed,
    shape_of,
    strong,
    user_dtype,
)

point = ops.pointwise
INT = np.dtype(np.int32)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Numbers from `start` (0 if alone) up to, not including, `stop`, `step` apart.

    All three must be concrete, since they decide the shape.

    >>> import covector.numpy as cnp
    >>> cnp.arange(3)
    Array([0, 1, 2], dtype=int32)
    """
    bounds = {"start": start, "stop": stop, "step": step}
    given = {name: x for name, x in bounds.items() if x is not None}
    if start is None:
        raise TypeError("arange: start must be a number; got None")
    operands("arange", *given.values())
    for name, x in given.items():
        if np.ndim(x) != 0:
            raise TypeError(f"arange: argument {name} must be a scalar; got shape {np.shape(x)}")
        if is_kind(x, np.complexfloating):
            raise ValueError(f"arange: argument {name} must not be complex; got {x}")
    wanted = user_dtype(dtype, "arange") or dtypes.result_type(*given.values())
    values = {
        name: convert.concrete(x, f"the argument `{name}` of arange").item()
        for name, x in given.items()
    }
    by = values.get("step", 1)
    low, high = (values["start"], values["stop"]) if "stop" in values else (0, values["start"])
    if by == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    count = max(math.ceil((high - low) / by), 0)
    return placed(_arithmetic_sequence(low, by, count, wanted), device, out_sharding)


def _arithmetic_sequence(low: Any, by: Any, count: int, dtype: Any) -> Any:
    """low + by * k, in `dtype`; as NumPy, whose step is what remains of it in that dtype."""
    places = ops.shape.iota(dtype, (count,), 0)
    if low == 0 and by == 1:
        return places
    with np.errstate(all="ignore"):
        first, second = (np.asarray(v).astype(dtype) for v in (low, low + by))
        step = np.asarray(second - first).astype(dtype)[()]
        first = first[()]
    scaled = places if step == 1 else point.mul(places, step)
    return scaled if first == 0 else point.add(scaled, first)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop` (included if `endpoint`).

    Arrays as ends give an axis of them at `axis`.  With `retstep`, (numbers, step).

    >>> import covector.numpy as cnp
    >>> cnp.linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = operator.index(convert.concrete(num, "the argument `num` of linspace")[()])
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = operands("linspace", start, stop)
    natural = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    wanted = user_dtype(dtype, "linspace") or natural
    inner = dtypes.to_inexact_dtype(dtypes.result_type(natural, wanted))
    start, stop = convert.broadcast_all("linspace", strong(start, inner), strong(stop, inner))
    count = num - 1 if endpoint else num
    out = _spaced(start, stop, num, count, endpoint, inner)
    if is_kind(wanted, np.integer):
        out = point.floor(out)
    place = convert.canonical_axis(axis, typeof(out).ndim, "linspace")
    out = placed(ops.shape.move_axis(strong(out, wanted), 0, place), device)
    if not retstep:
        return out
    step = (
        point.div(point.sub(stop, start), number(start, count))
        if count > 0
        else ops.shape.full(typeof(start).shape, np.nan, inner)
    )
    return out, step


def _spaced(start: Any, stop: Any, num: int, count: int, endpoint: bool, dtype: Any) -> Any:
    """start * (1 - k / count) + stop * (k / count), with `stop` itself at the end."""
    shape = typeof(start).shape
    if num == 0:
        return ops.shape.full((0, *shape), 0, dtype)
    if endpoint and num == 1:
        return ops.shape.expand_dims(start, (0,))
    steps = num - 1 if endpoint else num
    k = ops.shape.iota(dtypes.to_real_dtype(dtype), (steps,), 0)
    weight = strong(point.div(k, number(k, count)), dtype)
    full = (steps, *shape)
    weight = ops.shape.broadcast_in_dim(weight, full, (0,))
    left, right = (convert.broadcast_to(x, full) for x in (start, stop))
    rest = point.sub(number(weight, 1), weight)
    out = point.add(point.mul(left, rest), point.mul(right, weight))
    if not endpoint:
        return out
    return ops.shape.concatenate([out, ops.shape.expand_dims(stop, (0,))], 0)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from base**start to base**stop, evenly spaced on a logarithmic scale.

    >>> import covector.numpy as cnp
    >>> cnp.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    start, stop, base = operands("logspace", start, stop, base)
    wanted = user_dtype(dtype, "logspace") or dtypes.to_inexact_dtype(
        dtypes.result_type(start, stop)
    )
    inner = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, wanted))
    exponents = strong(linspace(start, stop, num, endpoint, axis=axis), inner)
    base = cast(base, inner)
    return strong(point.pow_(*convert.broadcast("logspace", base, exponents)), wanted)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from `start` to `stop`, each a constant multiple of the one before.

    >>> import covector.numpy as cnp
    >>> [round(x, 3) for x in cnp.geomspace(1, 100, 3).tolist()]
    [1.0, 10.0, 100.0]
    """
    start, stop = operands("geomspace", start, stop)
    wanted = user_dtype(dtype, "geomspace") or dtypes.to_inexact_dtype(
        dtypes.result_type(start, stop)
    )
    inner = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, wanted))
    start, stop = (strong(x, inner) for x in (start, stop))
    # Both negative: the sequence of the magnitudes, negated.
    if is_kind(inner, np.complexfloating):
        sign = point.sign(start)
        start, stop = point.div(start, sign), point.div(stop, sign)
    else:
        both = convert.broadcast_all("geomspace", point.sign(start), point.sign(stop))
        negative = point.eq(point.add(*both), number(start, -2))
        sign = point.where(negative, *(
            ops.shape.full(typeof(negative).shape, v, inner) for v in (-1, 1)))  # fmt: skip
        start, stop = (point.mul(*convert.broadcast("geomspace", sign, x)) for x in (start, stop))
    out = _powers(point.log(start), point.log(stop), num, endpoint, inner)
    shape = typeof(out).shape
    scale = ops.shape.broadcast_to(sign, shape)
    place = convert.canonical_axis(axis, len(shape), "geomspace")
    return strong(ops.shape.move_axis(point.mul(scale, out), 0, place), wanted)


def _powers(low: Any, high: Any, num: int, endpoint: bool, dtype: Any) -> Any:
    low, high = convert.broadcast_all("geomspace", low, high)
    return point.exp(strong(linspace(low, high, num, endpoint), dtype))


# Diagonals and triangles


def eye(N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on the `k`-th diagonal of an N × M array, zeros elsewhere.

    >>> import covector.numpy as cnp
    >>> cnp.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    shape = shape_of((N, N if M is None else M), "eye")
    wanted = user_dtype(dtype, "eye") or dtypes.default_float()
    (k,) = operands("eye", k)
    if typeof(k).shape or not is_kind(k, np.integer):
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows, columns = (ops.shape.iota(INT, shape, d) for d in (0, 1))
    rows = point.add(rows, cast(k, INT))
    return placed(strong(point.eq(rows, columns), wanted), device)


def identity(n: int, dtype: Any = None) -> Any:
    """The n × n identity matrix.

    >>> import covector.numpy as cnp
    >>> cnp.identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below the `k`-th diagonal, zeros above.

    >>> import covector.numpy as cnp
    >>> cnp.tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    shape = shape_of((N, N if M is None else M), "tri")
    wanted = user_dtype(dtype, "tri") or dtypes.default_float()
    return strong(below_diagonal(shape, k), wanted)


def below_diagonal(shape: Sequence[int], k: Any) -> Any:
    """Whether each element of the last two axes is at or below the `k`-th diagonal."""
    rows, columns = (ops.shape.iota(INT, shape, len(shape) + d) for d in (-2, -1))
    return point.ge(point.add(rows, cast(k, INT)), columns)


# Grids and index arrays


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """An array of the index of every element along each axis, stacked; if `sparse`, a tuple.

    >>> import covector.numpy as cnp
    >>> cnp.indices((1, 2)).tolist()
    [[[0, 0]], [[0, 1]]]
    """
    shape = shape_of(dimensions, "indices")
    wanted = user_dtype(dtype, "indices") or dtypes.default_int()
    out = []
    for d, n in enumerate(shape):
        sizes = [n if k == d else 1 for k in range(len(shape))] if sparse else shape
        out.append(ops.shape.iota(wanted, sizes, d))
    if sparse:
        return tuple(out)
    return ops.shape.stack(out) if out else ops.shape.full((0,), 0, wanted)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Arrays of the coordinates of a grid whose axes have the coordinates `xi`.

    indexing: 'ij', or 'xy', which swaps the first two axes.  `copy` must be True.

    >>> import covector.numpy as cnp
    >>> [x.tolist() for x in cnp.meshgrid(cnp.array([1, 2]), cnp.array([3]))]
    [[[1, 2]], [[3, 3]]]
    """
    lines = [as_array(x) for x in operands("meshgrid", *xi)]
    if not copy:
        raise ValueError("meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(x.ndim > 1 for x in lines):
        raise ValueError("Arguments to meshgrid must be at most 1D, got shapes "
                         f"{[x.shape for x in lines]}")  # fmt: skip
    lines = [ops.shape.reshape(x, (x.size,)) for x in lines]
    places = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        places[:2] = 1, 0
    shape = [0] * len(lines)
    for x, d in zip(lines, places, strict=True):
        shape[d] = x.size
    out = []
    for x, d in zip(lines, places, strict=True):
        sizes = [n if k == d else 1 for k, n in enumerate(shape)] if sparse else shape
        out.append(ops.shape.broadcast_in_dim(x, sizes, (d,)))
    return out


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
    flat = point.where(point.lt(flat, number(flat, 0)), point.add(flat, number(flat, total)), flat)
    flat = point.clamp(number(flat, 0), flat, number(flat, max(total - 1, 0)))
    out: list[Any] = []
    for n in reversed(sizes):
        size = number(flat, max(n, 1))
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
            raise TypeError("only int indices permitted")
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
