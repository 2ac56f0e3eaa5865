"""Arrays by rule: ranges, grids, triangles of ones, index arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
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
    if any(n is not None and operator.index(n) < 0 for n in (N, M)):
        raise ValueError(f"eye: negative dimensions are not allowed, got {N} and {M}")
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
    wanted = user_dtype(dtype, "tri") or np.dtype(np.float32)
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
