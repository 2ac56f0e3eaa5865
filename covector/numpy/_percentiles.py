"""Order statistics: quantiles, percentiles, medians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._indexing import take_along_axis
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    is_kind,
    number,
    operands,
    placed,
    promote_inexact,
    strong,
)

point = ops.pointwise
METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The value below which the share `q` (0 to 1; a scalar or 1-d) of the elements lies.

    method: between two elements 'linear', 'lower', 'higher', 'midpoint', 'nearest'; or
    'inverted_cdf', the only one for `weights`.  NaN if there is one.

    >>> import covector.numpy as cnp
    >>> cnp.quantile(cnp.array([1.0, 2.0, 4.0]), 0.5).tolist()
    2.0
    """
    return _quantile("quantile", a, q, 1, axis, out, overwrite_input, method, keepdims, weights)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`quantile` for shares in percent.

    >>> import covector.numpy as cnp
    >>> cnp.percentile(cnp.array([1.0, 2.0, 4.0]), 50.0).tolist()
    2.0
    """
    out = _quantile("percentile", a, q, 100, axis, out, overwrite_input, method, keepdims, weights)
    return placed(out, None, out_sharding)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """`quantile` of the elements that are not NaN.

    >>> import covector.numpy as cnp
    >>> cnp.nanquantile(cnp.array([1.0, cnp.nan, 3.0]), 0.5).tolist()
    2.0
    """
    return _quantile("nanquantile", a, q, 1, axis, out, overwrite_input, method, keepdims, weights,
                     True)  # fmt: skip


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """`percentile` of the elements that are not NaN.

    >>> import covector.numpy as cnp
    >>> cnp.nanpercentile(cnp.array([1.0, cnp.nan, 3.0]), 50.0).tolist()
    2.0
    """
    return _quantile("nanpercentile", a, q, 100, axis, out, overwrite_input, method, keepdims,
                     weights, True)  # fmt: skip


def median(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The middle element over `axis`, or the mean of the two in the middle; NaN if there is one.

    >>> import covector.numpy as cnp
    >>> cnp.median(cnp.array([1, 2, 3, 4])).tolist()
    2.5
    """
    return _quantile("median", a, 0.5, 1, axis, out, overwrite_input, "midpoint", keepdims, None)


def nanmedian(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The median of the elements that are not NaN.

    >>> import covector.numpy as cnp
    >>> cnp.nanmedian(cnp.array([1.0, cnp.nan, 3.0])).tolist()
    2.0
    """
    return _quantile("nanmedian", a, 0.5, 1, axis, out, overwrite_input, "midpoint", keepdims,
                     None, True)  # fmt: skip


def _quantile(
    who: str,
    a: Any,
    q: Any,
    whole: int,
    axis: Any,
    out: Any,
    overwrite_input: bool,
    method: str,
    keepdims: bool,
    weights: Any,
    skip_nan: bool = False,
) -> Any:
    if out is not None or overwrite_input:
        raise ValueError(f"{who} does not support overwrite_input=True or out != None")
    if method not in METHODS:
        raise ValueError(f"{who}: method can only be one of {METHODS}; got {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(f"{who}: only method 'inverted_cdf' supports weights; got "
                                  f"{method!r}")  # fmt: skip
    a, q = operands(who, a, q)
    (x,), (share,) = promote_inexact(array_operand(who, a)), promote_inexact(array_operand(who, q))
    wanted = typeof(x).dtype
    x, share = promote_inexact(x, share)  # the place is found in the wider type
    x, share = strong(x, typeof(x).dtype), strong(share, typeof(x).dtype)
    if is_kind(x, np.complexfloating):
        raise ValueError(f"{who} does not support complex input: complex numbers have no order")
    if share.ndim > 1:
        raise ValueError(f"q must have rank <= 1, got shape {share.shape}")
    if whole != 1:
        share = point.div(share, number(share, whole))
    axes = canonical_axes(axis, x.ndim, who)
    values = _rows(x, axes)
    if weights is not None:
        weights = _weight_rows(who, weights, x, axes)
    found = _of_rows(values, share, method, skip_nan, weights)
    return convert.cast(_shaped(found, share, x.shape, axes, keepdims), wanted)


def _rows(x: Any, axes: tuple[int, ...]) -> Any:
    """The axes `axes` merged into one, the last."""
    rest = [d for d in range(x.ndim) if d not in axes]
    moved = ops.shape.transpose(x, (*rest, *axes))
    count = math.prod(x.shape[d] for d in axes)
    return ops.shape.reshape(moved, (*(x.shape[d] for d in rest), count))


def _weight_rows(who: str, weights: Any, x: Any, axes: tuple[int, ...]) -> Any:
    weights = array_operand(who, weights)
    if weights.shape != x.shape:
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != x.shape[axes[0]]:
            raise ValueError(f"{who}: weights must have the shape of the array, or be 1-d along "
                             f"the axis; got {weights.shape} for {x.shape}")  # fmt: skip
        weights = ops.shape.broadcast_in_dim(weights, x.shape, axes)
    return _rows(strong(weights, x.dtype), axes)


def _of_rows(x: Any, share: Any, method: str, skip_nan: bool, weights: Any) -> Any:
    """Quantiles of the last axis: an array of (*rows, *share)."""
    dtype, n = x.dtype, x.shape[-1]
    if not n:
        raise ValueError("quantile: of an axis of size 0 there is none")
    last = x.ndim - 1
    missing = point.ne(x, x)
    full = (*x.shape[:-1], *share.shape)
    if weights is None:
        (ordered,) = ops.sort.sort([x], last)
    else:
        ordered, weights = ops.sort.sort([x, weights], last)
    some = ops.reduce.reduce_or(missing, (last,))
    if skip_nan:
        present = ops.reduce.reduce_sum(strong(point.not_(missing), dtype), (last,))
    else:
        present = ops.shape.full(x.shape[:-1], n, dtype)
    rows = tuple(range(last))
    present = ops.shape.broadcast_in_dim(present, full, rows)
    shares = ops.shape.broadcast_in_dim(share, full, range(last, len(full)))
    flat = (*x.shape[:-1], share.size)
    if method == "inverted_cdf":
        found = _inverted_cdf(ordered, shares, present, weights, flat)
    else:
        found = _between(ordered, shares, present, method, flat)
    found = ops.shape.reshape(found, full)
    nothing = (
        point.eq(present, number(present, 0))
        if skip_nan
        else ops.shape.broadcast_in_dim(some, full, rows)
    )
    nothing = point.or_(nothing, point.ne(shares, shares))
    return convert.select(nothing, number(found, np.nan), found)


def _between(ordered: Any, shares: Any, present: Any, method: str, flat: Any) -> Any:
    zero, one = number(shares, 0), number(shares, 1)
    top = point.max_(point.sub(present, one), zero)
    place = point.mul(shares, top)
    low, high = point.floor(place), point.ceil(place)
    weight = point.sub(place, low)
    low, high = (point.min_(point.max_(v, zero), top) for v in (low, high))

    def pick(v: Any) -> Any:
        index = convert.cast(ops.shape.reshape(v, flat), dtypes.default_int())
        return take_along_axis(ordered, index, -1, mode="clip")

    weight = ops.shape.reshape(weight, flat)
    below, above = pick(low), pick(high)
    half = number(weight, 0.5)
    if method == "lower":
        return below
    if method == "higher":
        return above
    if method == "nearest":
        return convert.select(point.le(weight, half), below, above)
    if method == "midpoint":
        return point.mul(point.add(below, above), half)
    rest = point.sub(one, weight)
    out = point.add(point.mul(below, rest), point.mul(above, weight))
    return convert.select(point.eq(below, above), below, out)  # infinities too


def _inverted_cdf(ordered: Any, shares: Any, present: Any, weights: Any, flat: Any) -> Any:
    """The first element at which the running share of the weights reaches q."""
    last = ordered.ndim - 1
    if weights is None:
        weights = ops.shape.full(ordered.shape, 1, ordered.dtype)
    weights = convert.select(point.ne(ordered, ordered), number(weights, 0), weights)
    running = ops.cumulative.cumsum(weights, last)
    total = ops.reduce.reduce_sum(weights, (last,))
    wide = (*flat, ordered.shape[-1])
    count = len(flat)
    wanted = ops.shape.broadcast_in_dim(ops.shape.reshape(shares, flat), wide, range(count))
    total = ops.shape.broadcast_in_dim(total, wide, range(last))
    running = ops.shape.broadcast_in_dim(running, wide, (*range(last), count))
    before = point.lt(running, point.mul(wanted, total))
    place = ops.reduce.reduce_sum(convert.cast(before, dtypes.default_int()), (count,))
    return take_along_axis(ordered, place, -1, mode="clip")


def _shaped(
    found: Any, share: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool
) -> Any:
    """(*rows, *share) as (*share, *shape of the reduction)."""
    rank = len(shape) - len(axes)
    if share.ndim:
        found = ops.shape.move_axis(found, rank, 0)
    if keepdims:
        kept = sorted(axes) if shape else (0,)  # a scalar counts as an array of one element
        found = ops.shape.expand_dims(found, [d + share.ndim for d in kept])
    return found
