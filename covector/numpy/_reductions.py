"""Reductions over axes: sums, products, extrema, truth, and running ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._elementwise import nonzero_mask
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    canonical_axis,
    cast,
    is_kind,
    operands,
    strong,
    user_dtype,
)
from covector.runtime.eager import eager

point = ops.pointwise


def kept(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction over `axes`, with them as axes of size 1 if `keepdims`."""
    return ops.shape.expand_dims(x, axes) if keepdims else x


def masked(who: str, x: Any, where: Any, neutral: Any) -> Any:
    """`x` with the neutral element where `where`, broadcast to it, does not hold."""
    if where is None:
        return x
    return convert.select(where_mask(who, where), x, convert.number(x, neutral))


def where_mask(who: str, where: Any) -> Any:
    """The argument `where`, which must be of booleans."""
    (where,) = operands(who, where)
    if typeof(where).dtype != np.bool_:
        raise ValueError(f"{who}: where must be None or booleans; got {typeof(where).str_short()}")
    return where


def _combined(result: Any, initial: Any, combine: Callable[[Any, Any], Any], who: str) -> Any:
    if initial is None:
        return result
    (initial,) = operands(who, initial)
    if typeof(initial).shape:
        raise ValueError(f"{who}: initial value must be a scalar; got shape {np.shape(initial)}")
    return combine(cast(initial, typeof(result).dtype), result)


# Sums and products


@eager(named=("a", "where", "initial"))
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over `axis` (None: all axes; an int; a tuple), of the elements where `where` holds.

    Booleans and narrow integers are added as default integers unless `promote_integers` is False;
    narrow floats are accumulated in float32.  `initial` is added.

    >>> import covector.numpy as cnp
    >>> cnp.sum(cnp.array([1, 2])).tolist()
    3
    """
    x, wanted = _summand("sum", a, dtype, out, promote_integers)
    axes = canonical_axes(axis, x.ndim, "sum")
    if wanted == np.bool_:
        return any(x, axes, keepdims=keepdims, where=where)
    x = masked("sum", strong(x, wanted), where, 0)
    result = _combined(ops.reduce.reduce_sum(x, axes), initial, point.add, "sum")
    return kept(result, axes, keepdims)


@eager(named=("a", "where", "initial"))
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over `axis`; see `sum`.

    >>> import covector.numpy as cnp
    >>> cnp.prod(cnp.array([2, 3])).tolist()
    6
    """
    x, wanted = _summand("prod", a, dtype, out, promote_integers)
    axes = canonical_axes(axis, x.ndim, "prod")
    if wanted == np.bool_:
        return all(x, axes, keepdims=keepdims, where=where)
    x = masked("prod", strong(x, wanted), where, 1)
    result = _combined(ops.reduce.reduce_prod(x, axes), initial, point.mul, "prod")
    return kept(result, axes, keepdims)


def _summand(who: str, a: Any, dtype: Any, out: Any, promote: bool) -> tuple[Any, Any]:
    convert.refuse_out(who, out)
    x = array_operand(who, a)
    wanted = user_dtype(dtype, who)
    return x, wanted if wanted is not None else sum_dtype(x.dtype, who, promote)


def sum_dtype(dtype: Any, who: str, promote: bool = True) -> Any:
    """The dtype in which elements are added: narrow integers become default ones."""
    if isinstance(dtype, dtypes.KeyType):
        raise TypeError(f"{who}: random keys are not numbers; got an array of dtype {dtype}")
    if dtype.kind == "f":
        return dtype
    default = dtypes.default_int()
    if dtype == np.bool_:
        return default
    for kind, letter in ((np.unsignedinteger, "u"), (np.signedinteger, "i")):
        if promote and is_kind(dtype, kind):
            return np.dtype(f"{letter}{sorted((dtype.itemsize, default.itemsize))[1]}")
    return dtype


# Extrema


@eager(named=("a", "where", "initial"))
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The greatest element over `axis`; NaN if there is one.

    `initial` is a lower bound of the result; it must be given with `where` and for an empty axis
    (else ValueError).

    >>> import covector.numpy as cnp
    >>> cnp.max(cnp.array([1, 2])).tolist()
    2
    """
    return _extremum("max", ops.reduce.reduce_max, point.max_, a, axis, out, keepdims, initial,
                     where)  # fmt: skip


@eager(named=("a", "where", "initial"))
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The least element over `axis`; see `max`.

    >>> import covector.numpy as cnp
    >>> cnp.min(cnp.array([1, 2])).tolist()
    1
    """
    return _extremum("min", ops.reduce.reduce_min, point.min_, a, axis, out, keepdims, initial,
                     where)  # fmt: skip


amax, amin = max, min


def _extremum(
    who: str,
    reduce: Any,
    combine: Any,
    a: Any,
    axis: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    convert.refuse_out(who, out)
    x = array_operand(who, a)
    axes = canonical_axes(axis, x.ndim, who)
    if where is not None and initial is None:
        raise ValueError(
            f"reduction operation {who} does not have an identity, so to use a where mask one has "
            "to specify 'initial'"
        )
    if initial is None and 0 in [x.shape[d] for d in axes]:
        raise ValueError(f"zero-size array to reduction operation {who} which has no identity")
    x = strong(x, x.dtype)
    x = masked(who, x, where, ops.families.worst(who, x.dtype))
    return kept(_combined(reduce(x, axes), initial, combine, who), axes, keepdims)


@eager
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The greatest minus the least element over `axis`.

    >>> import covector.numpy as cnp
    >>> cnp.ptp(cnp.array([1, 4])).tolist()
    3
    """
    convert.refuse_out("ptp", out)
    x = array_operand("ptp", a)
    return point.sub(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


@eager
def argmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool | None = None) -> Any:
    """The index of the first greatest element along `axis` (None: of the flattened array).

    NaN counts as greatest.  Raises ValueError for an empty axis.

    >>> import covector.numpy as cnp
    >>> cnp.argmax(cnp.array([1, 3, 2])).tolist()
    1
    """
    return _arg_extremum("argmax", ops.reduce.argmax, a, axis, out, keepdims)


@eager
def argmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool | None = None) -> Any:
    """The index of the first least element along `axis`; see `argmax`.

    >>> import covector.numpy as cnp
    >>> cnp.argmin(cnp.array([2, 1, 3])).tolist()
    1
    """
    return _arg_extremum("argmin", ops.reduce.argmin, a, axis, out, keepdims)


def _arg_extremum(who: str, find: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    convert.refuse_out(who, out)
    x = array_operand(who, a)
    rank = x.ndim
    flat = x if axis is not None else ops.shape.reshape(x, (x.size,))
    place = canonical_axis(0 if axis is None else axis, flat.ndim, who)
    if not flat.shape[place]:
        raise ValueError(f"attempt to get {who} of an empty sequence")
    found = find(flat, place, dtypes.default_int())
    if not keepdims:
        return found
    return ops.shape.expand_dims(found, range(rank) if axis is None else (place,))


# Truth


@eager(named=("a", "where", "initial"))
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether all elements over `axis` are not zero.

    >>> import covector.numpy as cnp
    >>> cnp.all(cnp.array([1, 0])).tolist()
    False
    """
    return _logical("all", ops.reduce.reduce_and, True, a, axis, out, keepdims, where)


@eager(named=("a", "where", "initial"))
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether some element over `axis` is not zero.

    >>> import covector.numpy as cnp
    >>> cnp.any(cnp.array([1, 0])).tolist()
    True
    """
    return _logical("any", ops.reduce.reduce_or, False, a, axis, out, keepdims, where)


def _logical(
    who: str, reduce: Any, neutral: bool, a: Any, axis: Any, out: Any, keepdims: bool, where: Any
) -> Any:
    convert.refuse_out(who, out)
    x = nonzero_mask(array_operand(who, a))
    x = convert.cast(x, np.dtype(bool))  # not weakly typed
    axes = canonical_axes(axis, typeof(x).ndim, who)
    return kept(reduce(masked(who, x, where, neutral), axes), axes, keepdims)


@eager
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements over `axis` are not zero.

    >>> import covector.numpy as cnp
    >>> cnp.count_nonzero(cnp.array([1, 0, 2])).tolist()
    2
    """
    mask = nonzero_mask(array_operand("count_nonzero", a))
    return sum(mask, axis, dtypes.default_int(), keepdims=keepdims)


# Running reductions


@eager
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The running sum along `axis` (None: of the flattened array).

    >>> import covector.numpy as cnp
    >>> cnp.cumsum(cnp.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _cumulative("cumsum", ops.cumulative.cumsum, a, axis, dtype, out)


@eager
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The running product along `axis` (None: of the flattened array).

    >>> import covector.numpy as cnp
    >>> cnp.cumprod(cnp.array([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulative("cumprod", ops.cumulative.cumprod, a, axis, dtype, out)


def _cumulative(who: str, scan: Any, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    convert.refuse_out(who, out)
    x = array_operand(who, a)
    wanted = user_dtype(dtype, who)
    if wanted is None:
        wanted = sum_dtype(x.dtype, who, promote=False)
    if axis is None:
        axis, x = 0, ops.shape.reshape(x, (x.size,))
    axis = canonical_axis(axis, x.ndim, who)
    if wanted == np.bool_:  # computed in integers, where any nonzero total is True
        return nonzero_mask(scan(strong(x, dtypes.default_int()), axis))
    return scan(strong(x, wanted), axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running sum along `axis`, which may be left out of 1-d arrays only.

    Integers are added as default ones.  With `include_initial` it starts with a 0.

    >>> import covector.numpy as cnp
    >>> cnp.cumulative_sum(cnp.array([1, 2]), include_initial=True).tolist()
    [0, 1, 3]
    """
    return _from_initial("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running product along `axis`, in the dtype of `x`; see `cumulative_sum`.

    >>> import covector.numpy as cnp
    >>> cnp.cumulative_prod(cnp.array([2, 3]), include_initial=True).tolist()
    [1, 2, 6]
    """
    return _from_initial("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def _from_initial(
    who: str, scan: Any, start: int, x: Any, axis: Any, dtype: Any, include_initial: bool
) -> Any:
    x = array_operand(who, x)
    if not x.ndim:
        raise ValueError(f"The input must be non-scalar to take a {who}, but a scalar was passed")
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{who}: The input array has rank {x.ndim}, but an axis was not given")
        axis = 0
    axis = canonical_axis(axis, x.ndim, who)
    wanted = user_dtype(dtype, who) or sum_dtype(x.dtype, who, promote=who == "cumulative_sum")
    out = scan(x, axis, wanted)
    if not include_initial:
        return out
    shape = [1 if d == axis else n for d, n in enumerate(x.shape)]
    return ops.shape.concatenate([ops.shape.full(shape, start, wanted), out], axis)
