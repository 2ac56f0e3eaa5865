"""Arrays as sets: distinct elements, membership, unions.  All are made of sorting and masks.

Sizes of results depend on values; while tracing the argument `size` gives them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.named_tuple import NamedTuple
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._choice import nonzero
from covector.numpy._indexing import take
from covector.numpy._search import searchsorted
from covector.numpy.convert import (
    array_operand,
    canonical_axis,
    cast,
    is_kind,
    number,
    operands,
    promote,
)

point = ops.pointwise


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements (or slices along `axis`) in order.

    On request also: where each occurs first, the place of every element among them, how often each
    occurs.  size: how many, the rest filled with `fill_value` (the least element by default: a
    ValueError if there is none).

    >>> import covector.numpy as cnp
    >>> cnp.unique(cnp.array([3, 1, 1])).tolist()
    [1, 3]
    """
    del sorted  # they always are
    x = array_operand("unique", ar)
    found = _unique(x, axis, equal_nan, size, fill_value)
    wanted = (True, return_index, return_inverse, return_counts)
    out = tuple(v for v, is_wanted in zip(found, wanted, strict=True) if is_wanted)
    return out[0] if len(out) == 1 else out


def _unique(x: Any, axis: int | None, equal_nan: bool, size: int | None, fill: Any) -> UniqueAll:
    index = dtypes.default_int()
    if axis is None:
        rows = ops.shape.reshape(x, (x.size,))
        place = 0
    else:
        place = canonical_axis(axis, x.ndim, "unique")
        rows = ops.shape.move_axis(x, place, 0)
    n = typeof(rows).shape[0]
    order, ordered = _sorted_rows(rows)
    first = _first_of_runs(ordered, equal_nan)
    if size is None and not n:
        size = 0
    if size and not n and fill is None:
        raise ValueError(
            f"unique: {typeof(x).str_short()} has no element to fill size={size} places with: give "
            "fill_value"
        )
    (starts,) = nonzero(first, size=size, fill_value=n)
    count = typeof(starts).size
    missing = point.ge(starts, number(starts, n))
    values = take(ordered, starts, axis=0, mode="clip") if n else ops.shape.full(
        (count, *typeof(rows).shape[1:]), 0, x.dtype)  # fmt: skip
    values = _with_fill(values, missing, fill)
    if n and count:
        # Beyond the last, the place of the least element.
        indices = take(order, convert.select(missing, number(starts, 0), starts), mode="clip")
    else:
        indices = ops.shape.full((count,), 0, index)
    ranks = (
        point.sub(ops.cumulative.cumsum(cast(first, index), 0), index.type(1))
        if n
        else ops.shape.full((0,), 0, index)
    )
    inverse = _put_back(ranks, order)
    if axis is None:
        inverse = ops.shape.reshape(inverse, x.shape)
    # A run ends where the next one starts, given or not.
    (nexts,) = nonzero(first, size=count + 1, fill_value=n)
    counts = point.sub(ops.shape.slice_along(nexts, 0, 1, count + 1), starts)
    return UniqueAll(ops.shape.move_axis(values, 0, place), indices, inverse, counts)


def _sorted_rows(rows: Any) -> tuple[Any, Any]:
    """(the indices that sort the rows, the rows in order)."""
    shape = typeof(rows).shape
    n = shape[0]
    places = ops.shape.iota(dtypes.default_int(), (n,), 0)
    if len(shape) == 1:
        ordered, order = ops.sort.sort([rows, places], 0)
        return order, ordered
    flat = ops.shape.reshape(rows, (n, math.prod(shape[1:])))
    columns = [ops.shape.squeeze(c, (1,)) for c in ops.shape.split(
        flat, (1,) * typeof(flat).shape[1], 1)]  # fmt: skip
    if not columns:
        return places, rows
    order = ops.sort.sort([*columns, places], 0, True, len(columns))[-1]
    return order, take(rows, order, axis=0, mode="clip") if n else rows


def _first_of_runs(ordered: Any, equal_nan: bool) -> Any:
    """Whether each row differs from the one before it."""
    shape = typeof(ordered).shape
    n = shape[0]
    if not n:
        return ops.shape.full((0,), True, np.bool_)
    left = ops.shape.slice_along(ordered, 0, 0, n - 1)
    right = ops.shape.slice_along(ordered, 0, 1, n)
    differ = point.ne(left, right)
    if equal_nan and is_kind(ordered, np.inexact):
        both = point.and_(point.ne(left, left), point.ne(right, right))
        differ = point.and_(differ, point.not_(both))
    differ = ops.reduce.reduce_or(differ, tuple(range(1, len(shape))))
    return ops.shape.concatenate([ops.shape.full((1,), True, np.bool_), differ], 0)


def _with_fill(values: Any, missing: Any, fill: Any) -> Any:
    shape = typeof(values).shape
    if not shape[0]:
        return values
    if fill is None:
        least = ops.shape.slice_along(values, 0, 0, 1)
    else:
        least = cast(array_operand("unique", fill), typeof(values).dtype)
    mask = ops.shape.broadcast_in_dim(missing, shape, (0,))
    return convert.select(mask, ops.shape.broadcast_to(least, shape), values)


def _put_back(ranks: Any, order: Any) -> Any:
    """The rank of each element, in the original order."""
    n = typeof(order).size
    if not n:
        return ranks
    numbers = ops.scatter.ScatterDimensionNumbers((), (0,), (0,))
    blank = ops.shape.full((n,), 0, typeof(ranks).dtype)
    return ops.scatter.scatter(
        blank, ops.shape.reshape(order, (n, 1)), ranks, numbers, "clip", unique=True
    )


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The distinct elements, where they occur first, the place of every element, their counts.

    >>> import covector.numpy as cnp
    >>> cnp.unique_all(cnp.array([3, 1, 1])).counts.tolist()
    [2, 1]
    """
    return _unique(array_operand("unique_all", x), None, False, size, fill_value)


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The distinct elements, and how often each occurs.

    >>> import covector.numpy as cnp
    >>> cnp.unique_counts(cnp.array([3, 1, 1])).counts.tolist()
    [2, 1]
    """
    found = _unique(array_operand("unique_counts", x), None, False, size, fill_value)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The distinct elements, and the place of every element among them.

    >>> import covector.numpy as cnp
    >>> cnp.unique_inverse(cnp.array([3, 1, 1])).inverse_indices.tolist()
    [1, 0, 0]
    """
    found = _unique(array_operand("unique_inverse", x), None, False, size, fill_value)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements in order.

    >>> import covector.numpy as cnp
    >>> cnp.unique_values(cnp.array([3, 1, 1])).tolist()
    [1, 3]
    """
    return _unique(array_operand("unique_values", x), None, False, size, fill_value).values


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Any:
    """Whether each element is among the test elements (`invert`: is not).

    method: 'compare_all', 'binary_search', 'sort', or 'auto'.

    >>> import covector.numpy as cnp
    >>> cnp.isin(cnp.arange(3), cnp.array([1])).tolist()
    [False, True, False]
    """
    del assume_unique
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"{method=} is not implemented; options are 'compare_all', "
                         "'binary_search', 'sort', and 'auto'")  # fmt: skip
    x, tests = (
        array_operand("isin", v) for v in promote(*operands("isin", element, test_elements))
    )
    tests = ops.shape.reshape(tests, (tests.size,))
    few = method == "compare_all" or (method == "auto" and tests.size <= 16)
    out = _among_few(x, tests) if few or not tests.size else _among(x, ops.sort.sort([tests], 0)[0])
    return point.not_(out) if invert else out


def _among_few(x: Any, tests: Any) -> Any:
    wide = (*x.shape, tests.size)
    left = ops.shape.broadcast_in_dim(x, wide, range(x.ndim))
    right = ops.shape.broadcast_in_dim(tests, wide, (x.ndim,))
    return ops.reduce.reduce_or(point.eq(left, right), (x.ndim,))


def _among(x: Any, ordered: Any) -> Any:
    """Whether each element is in a sorted array."""
    if not ordered.size:
        return ops.shape.full(typeof(x).shape, False, np.bool_)
    place = searchsorted(ordered, x)
    return point.eq(take(ordered, place, mode="clip"), x)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of two arrays.

    >>> import covector.numpy as cnp
    >>> cnp.union1d(cnp.array([1, 2]), cnp.array([2, 3])).tolist()
    [1, 2, 3]
    """
    first, second = _flat("union1d", ar1, ar2)
    both = ops.shape.concatenate([first, second], 0)
    return unique(both, size=size, fill_value=fill_value)


def _flat(who: str, ar1: Any, ar2: Any) -> list[Any]:
    arrays = [array_operand(who, x) for x in promote(*operands(who, ar1, ar2))]
    return [ops.shape.reshape(x, (x.size,)) for x in arrays]


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements that both arrays have; on request where each first occurs in both.

    size: how many, the rest filled with `fill_value` (by default the least that both have, or 0).

    >>> import covector.numpy as cnp
    >>> cnp.intersect1d(cnp.array([1, 2, 3]), cnp.array([3, 2])).tolist()
    [2, 3]
    """
    del assume_unique
    first, second = _flat("intersect1d", ar1, ar2)
    order1, sorted1 = _sorted_rows(first)
    order2, sorted2 = _sorted_rows(second)
    mask = point.and_(_first_of_runs(sorted1, False), _among(sorted1, sorted2))
    found = _chosen("intersect1d", sorted1, mask, size, fill_value)
    if not return_indices:
        return found.values
    in1 = _index_or_size(order1, found.places, found.missing)
    in2 = _index_or_size(order2, searchsorted(sorted2, found.values), found.missing)
    return found.values, in1, in2


def _index_or_size(order: Any, places: Any, missing: Any) -> Any:
    n = typeof(order).size
    found = take(order, places, mode="clip") if n else places
    return convert.select(missing, number(found, n), found)


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements of `ar1` that `ar2` lacks; missing ones are `fill_value` (0).

    >>> import covector.numpy as cnp
    >>> cnp.setdiff1d(cnp.array([1, 2, 3]), cnp.array([2])).tolist()
    [1, 3]
    """
    first, second = _flat("setdiff1d", ar1, ar2)
    absent = isin(first, second, invert=True)
    values = ops.shape.reshape(array_operand("setdiff1d", ar1), (typeof(first).size,))
    fill = 0 if fill_value is None else fill_value
    if not assume_unique:
        (values, absent) = ops.sort.sort([values, absent], 0)
        absent = point.and_(_first_of_runs(values, True), absent)
    return _chosen("setdiff1d", values, absent, size, fill).values


class _Chosen(NamedTuple):
    """The elements that a mask chose, where they were, and which of them are filled in."""

    values: Any
    places: Any
    missing: Any


def _chosen(who: str, x: Any, mask: Any, size: int | None, fill: Any) -> _Chosen:
    """fill: None for the first that is chosen, or 0 if none is."""
    n, dtype = typeof(x).size, typeof(x).dtype
    (places,) = nonzero(mask, size=size, fill_value=n)
    missing = point.ge(places, number(places, n))
    found = take(x, places, mode="clip") if n else ops.shape.full(typeof(places).shape, 0, dtype)
    if not typeof(found).size or size is None:
        return _Chosen(found, places, missing)
    if fill is None:
        first, none = (ops.shape.slice_along(v, 0, 0, 1) for v in (found, missing))
        fill = convert.select(none, number(first, 0), first)
    else:
        fill = cast(array_operand(who, fill), dtype)
    fill = ops.shape.broadcast_to(fill, typeof(found).shape)
    return _Chosen(convert.select(missing, fill, found), places, missing)


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements that just one of the arrays has.

    size: how many, the rest filled with `fill_value` (by default the least of them, or 0).

    >>> import covector.numpy as cnp
    >>> cnp.setxor1d(cnp.array([1, 2]), cnp.array([2, 3])).tolist()
    [1, 3]
    """
    del assume_unique
    first, second = _flat("setxor1d", ar1, ar2)
    both = ops.shape.concatenate([first, second], 0)
    lonely = ops.shape.concatenate(
        [isin(first, second, invert=True), isin(second, first, invert=True)], 0
    )
    ordered, lonely = ops.sort.sort([both, lonely], 0)
    mask = point.and_(_first_of_runs(ordered, True), lonely)
    return _chosen("setxor1d", ordered, mask, size, fill_value).values
