"""Means, variances and what is made of them; the variants that leave NaN out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import _reductions as reductions
from covector.numpy import convert
from covector.numpy._arithmetic import safe_sqrt
from covector.numpy._reductions import kept, masked, where_mask
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    is_kind,
    number,
    operands,
    promote_inexact,
    strong,
    user_dtype,
)
from covector.runtime.eager import eager

point = ops.pointwise


def _wide(dtype: Any) -> Any:
    """The dtype in which means of `dtype` are computed."""
    narrow = is_kind(dtype, np.floating) and dtype.itemsize < 4
    return np.dtype(np.float32) if narrow else dtype


def _dtypes(who: str, x: Any, dtype: Any) -> tuple[Any, Any]:
    """(dtype of the result, dtype of the computation)."""
    if dtype is None:
        wanted = dtypes.to_inexact_dtype(x.dtype)
        return wanted, _wide(wanted)
    wanted = user_dtype(dtype, who)
    inner = wanted if is_kind(wanted, np.inexact) else dtypes.to_inexact_dtype(x.dtype)
    return wanted, _wide(inner)


def _count(x: Any, axes: tuple[int, ...], where: Any, dtype: Any, who: str) -> Any:
    """How many elements there are over `axes`: a number, or an array if `where` chooses."""
    if where is None:
        return dtypes.to_real_dtype(dtype).type(math.prod([x.shape[d] for d in axes]))
    mask = convert.broadcast_to(where_mask(who, where), x.shape)
    return ops.reduce.reduce_sum(strong(mask, dtypes.to_real_dtype(dtype)), axes)


def _divided(total: Any, count: Any) -> Any:
    """`total` over a real count."""
    count = convert.cast(count, typeof(total).dtype)
    if isinstance(count, np.generic):
        return point.div(total, count)
    return point.div(*convert.broadcast("mean", total, count))


@eager(named=("a", "where"))
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The mean over `axis` (None: all axes), of the elements where `where` holds.

    Integers give floats; narrow floats are accumulated in float32.

    >>> import covector.numpy as cnp
    >>> cnp.mean(cnp.array([1, 2])).tolist()
    1.5
    """
    convert.refuse_out("mean", out)
    x = array_operand("mean", a)
    wanted, inner = _dtypes("mean", x, dtype)
    axes = canonical_axes(axis, x.ndim, "mean")
    total = ops.reduce.reduce_sum(masked("mean", strong(x, inner), where, 0), axes)
    out = _divided(total, _count(x, axes, where, inner, "mean"))
    return kept(strong(out, wanted), axes, keepdims)


def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean over `axis` weighted by `weights`: of the shape of `a`, or 1-d along the axis.

    With `returned`, (average, sum of the weights).

    >>> import covector.numpy as cnp
    >>> cnp.average(cnp.array([1.0, 2.0]), weights=cnp.array([3.0, 1.0])).tolist()
    1.25
    """
    a = array_operand("average", a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        count = a.size if axis is None else math.prod(
            a.shape[d] for d in canonical_axes(axis, a.ndim, "average"))  # fmt: skip
        total = ops.shape.full(typeof(out).shape, count, typeof(out).dtype)
        return (out, total) if returned else out
    a, weights = promote_inexact(*operands("average", a, weights))
    a, weights = array_operand("average", a), array_operand("average", weights)
    if a.shape != weights.shape:
        axes = canonical_axes(axis, a.ndim, "average")
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        if weights.shape != tuple(a.shape[d] for d in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified "
                             f"axis; got {weights.shape} and {a.shape}")  # fmt: skip
        weights = ops.shape.broadcast_in_dim(weights, a.shape, axes)
    total = reductions.sum(weights, axis, keepdims=keepdims)
    out = point.div(reductions.sum(point.mul(a, weights), axis, keepdims=keepdims), total)
    return (out, total) if returned else out


@eager(named=("a", "where"))
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The variance over `axis`: the mean of |x - mean|², with n - ddof in place of n.

    `mean`: the mean with the axes kept, if it is known.  `correction`: another name of ddof.

    >>> import covector.numpy as cnp
    >>> cnp.var(cnp.array([1.0, 3.0])).tolist()
    1.0
    """
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)[0]


@eager(named=("a", "where"))
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation over `axis`: the square root of `var`.

    >>> import covector.numpy as cnp
    >>> cnp.std(cnp.array([1.0, 3.0])).tolist()
    1.0
    """
    if dtype is not None and not is_kind(user_dtype(dtype, "std"), np.inexact):
        raise ValueError(f"dtype argument to std must be inexact; got {dtype}")
    out, wanted = _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return strong(safe_sqrt(out), wanted)


def _variance(
    who: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: Any,
) -> tuple[Any, Any]:
    convert.refuse_out(who, out)
    x = array_operand(who, a)
    if correction is not None:
        if not (isinstance(ddof, (int, float)) and ddof == 0):
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    wanted, inner = _variance_dtypes(who, x, dtype)
    axes = canonical_axes(axis, x.ndim, who)
    values = strong(x, inner)
    count = _count(x, axes, where, inner, who)
    if mean is None:
        total = ops.reduce.reduce_sum(masked(who, values, where, 0), axes)
        centre = _divided(ops.shape.expand_dims(total, axes), _kept_count(count, axes))
    else:
        centre = strong(operands(who, mean)[0], inner)
    gap = point.sub(*convert.broadcast(who, values, centre))
    if is_kind(inner, np.complexfloating):
        square = point.add(point.square(point.real(gap)), point.square(point.imag(gap)))
    else:
        square = point.square(gap)
    total = ops.reduce.reduce_sum(masked(who, square, where, 0), axes)
    out = _over_freedom(total, count, ddof)
    return kept(strong(out, wanted), axes, keepdims), wanted


def _variance_dtypes(who: str, x: Any, dtype: Any) -> tuple[Any, Any]:
    """As `_dtypes`; the result is real."""
    if dtype is not None:
        wanted = user_dtype(dtype, who)
        if is_kind(x, np.complexfloating) and not is_kind(wanted, np.complexfloating):
            raise ValueError(
                f"{who}: the variance of complex values needs a complex dtype; got {wanted}"
            )
    result, inner = _dtypes(who, x, dtype)
    return (result if dtype is not None else dtypes.to_real_dtype(result)), inner


def _kept_count(count: Any, axes: tuple[int, ...]) -> Any:
    """A count with the reduced axes kept, unless it is a number."""
    return count if isinstance(count, np.generic) else ops.shape.expand_dims(count, axes)


def _over_freedom(total: Any, count: Any, ddof: Any) -> Any:
    """`total` over count - ddof; NaN where that is not positive."""
    (ddof,) = operands("var", ddof)
    if isinstance(count, np.generic) and isinstance(ddof, (int, float)):
        freedom = number(total, float(count) - ddof)
        if freedom > 0:
            return point.div(total, freedom)
        return ops.shape.full(typeof(total).shape, np.nan, typeof(total).dtype)
    dtype = typeof(total).dtype
    freedom = point.sub(*convert.broadcast("var", strong(count, dtype), strong(ddof, dtype)))
    out = point.div(*convert.broadcast("var", total, freedom))
    return convert.select(point.gt(freedom, number(total, 0)), out, number(total, np.nan))


# Leaving NaN out


def _nan_mask(x: Any) -> Any:
    return point.ne(x, x)


def _filled(who: str, a: Any, value: Any) -> tuple[Any, Any]:
    """(the array with `value` for NaN, where it is NaN or None for dtypes that have none).

    `value`: a number, or "max" or "min" for what never is that.
    """
    x = array_operand(who, a)
    if not is_kind(x, np.inexact):
        return x, None
    if isinstance(value, str):
        value = ops.families.worst(value, typeof(x).dtype)
    mask = _nan_mask(x)
    return convert.select(mask, number(x, value), x), mask


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over `axis`, NaN counted as 0.

    >>> import covector.numpy as cnp
    >>> cnp.nansum(cnp.array([1.0, cnp.nan])).tolist()
    1.0
    """
    x, _ = _filled("nansum", a, 0)
    return reductions.sum(x, axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product over `axis`, NaN counted as 1.

    >>> import covector.numpy as cnp
    >>> cnp.nanprod(cnp.array([2.0, cnp.nan])).tolist()
    2.0
    """
    x, _ = _filled("nanprod", a, 1)
    return reductions.prod(x, axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The running sum along `axis`, NaN counted as 0.

    >>> import covector.numpy as cnp
    >>> cnp.nancumsum(cnp.array([1.0, cnp.nan, 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    return reductions.cumsum(_filled("nancumsum", a, 0)[0], axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The running product along `axis`, NaN counted as 1.

    >>> import covector.numpy as cnp
    >>> cnp.nancumprod(cnp.array([2.0, cnp.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    return reductions.cumprod(_filled("nancumprod", a, 1)[0], axis, dtype, out)


def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The greatest element over `axis`; NaN only where there is nothing else.

    >>> import covector.numpy as cnp
    >>> cnp.nanmax(cnp.array([1.0, cnp.nan])).tolist()
    1.0
    """
    return _nan_extremum("nanmax", reductions.max, a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The least element over `axis`; NaN only where there is nothing else.

    >>> import covector.numpy as cnp
    >>> cnp.nanmin(cnp.array([1.0, cnp.nan])).tolist()
    1.0
    """
    return _nan_extremum("nanmin", reductions.min, a, axis, out, keepdims, initial, where)


def _nan_extremum(
    who: str,
    reduce: Callable[..., Any],
    a: Any,
    axis: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    x, mask = _filled(who, a, who[3:])
    result = reduce(x, axis, out, keepdims, initial, where)
    if initial is not None or mask is None:
        return result
    nothing = reductions.all(mask, axis, keepdims=keepdims)
    return convert.select(nothing, number(result, np.nan), result)


def nanargmax(
    a: Any, axis: int | None = None, out: Any = None, keepdims: bool | None = None
) -> Any:
    """The index of the greatest element along `axis`, NaN left out; -1 if there is nothing else.

    >>> import covector.numpy as cnp
    >>> cnp.nanargmax(cnp.array([cnp.nan, 1.0])).tolist()
    1
    """
    return _nan_arg("nanargmax", reductions.argmax, "max", a, axis, out, keepdims)


def nanargmin(
    a: Any, axis: int | None = None, out: Any = None, keepdims: bool | None = None
) -> Any:
    """The index of the least element along `axis`, NaN left out; -1 if there is nothing else.

    >>> import covector.numpy as cnp
    >>> cnp.nanargmin(cnp.array([cnp.nan, 1.0])).tolist()
    1
    """
    return _nan_arg("nanargmin", reductions.argmin, "min", a, axis, out, keepdims)


def _nan_arg(who: str, find: Any, kind: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    x, mask = _filled(who, a, kind)
    found = find(x, axis, out, keepdims)
    if mask is None:
        return found
    nothing = reductions.all(mask, axis, keepdims=bool(keepdims))
    return convert.select(nothing, number(found, -1), found)


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The mean over `axis`, NaN left out.

    >>> import covector.numpy as cnp
    >>> cnp.nanmean(cnp.array([1.0, cnp.nan, 3.0])).tolist()
    2.0
    """
    return mean(a, axis, dtype, out, keepdims, where=_present("nanmean", a, where))


def _present(who: str, a: Any, where: Any) -> Any:
    """`where`, and not NaN."""
    x = array_operand(who, a)
    if not is_kind(x, np.inexact):
        return where
    present = point.eq(x, x)
    if where is None:
        return present
    return point.and_(*convert.broadcast(who, present, where_mask(who, where)))


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The variance over `axis`, NaN left out; see `var`.

    >>> import covector.numpy as cnp
    >>> cnp.nanvar(cnp.array([1.0, cnp.nan, 3.0])).tolist()
    1.0
    """
    where = _present("nanvar", a, where)
    return var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The standard deviation over `axis`, NaN left out; see `std`.

    >>> import covector.numpy as cnp
    >>> cnp.nanstd(cnp.array([1.0, cnp.nan, 3.0])).tolist()
    1.0
    """
    where = _present("nanstd", a, where)
    return std(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)
