"""Finding places in sorted arrays, interpolating, counting."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import _elementwise, _reductions, convert
from covector.numpy._at import IndexedUpdate
from covector.numpy._indexing import getitem, take
from covector.numpy._ranges import linspace
from covector.numpy.convert import (
    array_operand,
    cast,
    is_kind,
    number,
    operands,
    promote,
    promote_inexact,
    strong,
)
from covector.runtime.array import Array
from covector.trace.tracer import Tracer

point = ops.pointwise
SEARCHES = ("compare_all", "scan", "scan_unrolled", "sort")


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where each element of `v` goes in the sorted 1-d `a`: before equal ones, or ('right') after.

    sorter: the indices that sort `a`.  method: 'compare_all' counts all smaller ones, the others
    search by halving.

    >>> import covector.numpy as cnp
    >>> cnp.searchsorted(cnp.array([1, 2, 4]), cnp.array([2, 3])).tolist()
    [1, 2]
    """
    a, v = operands("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument {side=}, expected 'left' or 'right'")
    if method not in SEARCHES:
        raise ValueError(f"invalid argument {method=}, expected one of {list(SEARCHES)}")
    if typeof(a).ndim != 1:
        raise ValueError("a should be 1-dimensional")
    a, v = (as_array(x) for x in promote(a, v))
    if sorter is not None:
        a = getitem(a, array_operand("searchsorted", sorter))
    return (_compare_all if method == "compare_all" else _halving)(a, v, side)


def _less(x: Any, y: Any) -> Any:
    """x < y, where NaN is the greatest."""
    less = _elementwise.less(x, y)
    if not is_kind(x, np.inexact):
        return less
    return point.or_(less, point.and_(point.ne(y, y), point.eq(x, x)))


def _goes_after(element: Any, v: Any, side: str) -> Any:
    """Whether `v` goes after the element."""
    return _less(element, v) if side == "left" else point.not_(_less(v, element))


def _place_dtype(n: int) -> Any:
    """The dtype of places in an array of `n` elements."""
    return np.dtype(np.int32 if n < 1 << 31 else np.int64)


def _compare_all(a: Any, v: Any, side: str) -> Any:
    wide = (*v.shape, a.size)
    elements = ops.shape.broadcast_in_dim(a, wide, (v.ndim,))
    values = ops.shape.broadcast_in_dim(v, wide, range(v.ndim))
    after = cast(_goes_after(elements, values, side), _place_dtype(a.size))
    return ops.reduce.reduce_sum(after, (v.ndim,))


def _halving(a: Any, v: Any, side: str) -> Any:
    """By halving what is left, the same steps for every element (Knuth, The Art of Computer
    Programming 3, 6.2.1, algorithm U): one look-up and one comparison each, always in bounds."""
    if not a.size:
        return ops.shape.full(v.shape, 0, _place_dtype(0))
    if not is_kind(a, np.floating):
        return _places(a, v.shape, lambda element: _goes_after(element, v, side))
    compare = point.lt if side == "left" else point.le
    found = _places(a, v.shape, lambda element: compare(element, v))
    # A NaN is the greatest, and equal to others.
    last = _place_dtype(a.size).type(a.size)
    if side == "left":
        last = _places(a, (), lambda element: point.eq(element, element))
    return convert.select(point.ne(v, v), last, found)


def _places(a: Any, shape: tuple[int, ...], goes_after: Callable[[Any], Any]) -> Any:
    """How many elements of `a` something goes after, for each of `shape`."""
    index = _place_dtype(a.size)
    low = ops.shape.full(shape, 0, index)
    left = a.size
    while left:
        step = max(left // 2, 1)
        at = point.add(low, index.type(step - 1))
        element = getitem(a, at, mode="promise_in_bounds", wrap_negative_indices=False)
        low = point.add(low, point.where(goes_after(element), index.type(step), index.type(0)))
        left = left - step if left > 1 else 0
    return low


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each element falls in; `bins`: edges, ascending or descending.

    right: bins include their upper edge instead of the lower.

    >>> import covector.numpy as cnp
    >>> cnp.digitize(cnp.array([0.5, 2.5]), cnp.array([1.0, 2.0])).tolist()
    [0, 2]
    """
    x, bins = (array_operand("digitize", v) for v in operands("digitize", x, bins))
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins.shape}")
    index = _place_dtype(bins.size)
    if not bins.size:
        return ops.shape.full(x.shape, 0, index)
    side = "left" if right else "right"
    method = method or "scan"
    rising = searchsorted(bins, x, side, method=method)
    falling = searchsorted(ops.shape.rev(bins, (0,)), x, side, method=method)
    falling = point.sub(index.type(bins.size), falling)
    ascending = _elementwise.greater_equal(getitem(bins, -1), getitem(bins, 0))
    return convert.select(ascending, rising, falling)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation of the points (xp, fp), xp ascending, at `x`.

    left, right: values beyond the ends (the end values by default), or 'extrapolate'.  period: of
    x, in which case xp need not be in order.

    >>> import covector.numpy as cnp
    >>> cnp.interp(0.5, cnp.array([0.0, 1.0]), cnp.array([0.0, 10.0])).tolist()
    5.0
    """
    x, xp, fp = operands("interp", x, xp, fp)
    shapes = typeof(xp).shape, typeof(fp).shape
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    for side in (left, right):
        if isinstance(side, str) and side != "extrapolate":
            raise ValueError(f"the only valid string value of `left` and `right` is 'extrapolate', "
                             f"but got: {side!r}")  # fmt: skip
    x, xp = (strong(v, typeof(v).dtype) for v in promote_inexact(x, xp))
    (fp,) = promote_inexact(fp)
    fp = strong(fp, dtypes.result_type(x, fp))
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    n = typeof(xp).size
    if not n:
        raise ValueError("array of sample points is empty")
    place = searchsorted(xp, x, "right")
    place = point.clamp(number(place, min(1, n - 1)), place, number(place, n - 1))
    before = point.max_(point.sub(place, number(place, 1)), number(place, 0))
    x0, x1, f0, f1 = (take(v, k, mode="clip") for v in (xp, fp) for k in (before, place))
    width = point.sub(x1, x0)
    same = point.eq(width, number(width, 0))
    slope = point.div(point.sub(x, x0), convert.select(same, number(width, 1), width))
    value = point.add(f0, point.mul(strong(slope, fp.dtype), point.sub(f1, f0)))
    out = convert.select(same, f0, value)
    if period is not None:
        return out
    low, high = (getitem(v, k) for v in (fp,) for k in (0, -1))
    bounds = (left, point.lt, 0, low), (right, point.gt, -1, high)
    for side, beyond, k, default in bounds:
        if isinstance(side, str):
            continue
        end = default if side is None else cast(operands("interp", side)[0], fp.dtype)
        edge = ops.shape.broadcast_to(getitem(xp, k), typeof(x).shape)
        out = convert.select(beyond(x, edge), end, out)
    return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Everything within one period, the points in order and one more at each end."""
    if isinstance(period, (int, float)) and period == 0:
        raise ValueError(f"period must be a non-zero value; got {period}")
    if isinstance(period, complex):
        raise TypeError("interp: period must be real")
    period = _elementwise.abs(cast(operands("interp", period)[0], xp.dtype))
    x, xp = (_modulo(v, period) for v in (x, xp))
    xp, fp = ops.sort.sort([xp, fp], 0)
    ends = [ops.shape.slice_along(v, 0, *pair) for v in (xp, fp)
            for pair in ((xp.size - 1, xp.size), (0, 1))]  # fmt: skip
    xp = ops.shape.concatenate([point.sub(ends[0], period), xp, point.add(ends[1], period)], 0)
    return x, xp, ops.shape.concatenate([ends[2], fp, ends[3]], 0)


def _modulo(x: Any, period: Any) -> Any:
    rest = point.rem(x, period)
    negative = point.lt(rest, number(rest, 0))
    return convert.select(negative, point.add(rest, period), rest)


# Counting


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """How often each number from 0 occurs in a 1-d array of integers; or the sums of the weights.

    The length of the result is the greatest number plus 1, at least `minlength`; while tracing
    `length` must be given, and larger numbers are dropped.  Negative numbers count as 0.

    >>> import covector.numpy as cnp
    >>> cnp.bincount(cnp.array([1, 1, 3])).tolist()
    [0, 2, 0, 1]
    """
    x = array_operand("bincount", x)
    if x.dtype == np.bool_:
        x = cast(x, np.dtype(np.int32))
    if not is_kind(x, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = operator.index(minlength)
    if length is None:
        numbers = convert.concrete(x, "the length of the result of bincount: use its argument "
                                   "`length`")  # fmt: skip
        greatest = int(numbers.max()) if numbers.size else -1
        length = max(minlength, greatest + 1)
    length = operator.index(length)
    if weights is None:
        weights = ops.shape.full(x.shape, 1, dtypes.default_int())
    weights = array_operand("bincount", weights)
    if weights.shape != x.shape:
        raise ValueError("shape of weights must match shape of x.")
    places = point.max_(x, number(x, 0))
    blank = ops.shape.full((length,), 0, weights.dtype)
    out = IndexedUpdate(blank, places).add(weights, mode="drop") if length else blank
    return convert.placed(out, None, out_sharding)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of `histogram`.

    >>> import covector.numpy as cnp
    >>> cnp.histogram_bin_edges(cnp.array([0.0, 1.0]), 2).tolist()
    [0.0, 0.5, 1.0]
    """
    del weights
    if isinstance(bins, str):
        raise TypeError(f"histogram_bin_edges: bins must be a number or an array; got {bins!r}")
    a = array_operand("histogram_bin_edges", a)
    dtype = dtypes.to_inexact_dtype(a.dtype)
    given = np.asarray(bins) if isinstance(bins, (list, tuple)) else bins
    if typeof(operands("histogram", given)[0]).ndim == 1:
        return strong(given, dtypes.to_inexact_dtype(typeof(given).dtype))
    count = operator.index(convert.concrete(bins, "the number of bins of histogram")[()])
    if range is None:
        low, high = _reductions.min(a), _reductions.max(a)
    else:
        ends = range if isinstance(range, (Array, Tracer, np.ndarray)) else tuple(range)
        if len(ends) != 2:
            raise ValueError(f"`range` must be either None or a sequence of scalars; got {range}")
        low, high = (array_operand("histogram", ends[k]) for k in (0, 1))
    low, high = strong(low, dtype), strong(high, dtype)
    flat = point.eq(low, high)
    half = number(low, 0.5)
    low, high = (
        convert.select(flat, move(v, half), v) for v, move in ((low, point.sub), (high, point.add))
    )
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """(how many elements fall in each bin, the edges); the last bin includes its upper edge.

    bins: their number, evenly over `range` (the extent of the data), or their edges.  weights:
    what each element counts.  density: divide by the total and the widths.

    >>> import covector.numpy as cnp
    >>> cnp.histogram(cnp.array([0.0, 0.2, 1.0]), 2)[0].tolist()
    [2.0, 1.0]
    """
    a = array_operand("histogram", a)
    if weights is None:
        dtype = dtypes.to_inexact_dtype(a.dtype)
        a = strong(a, dtype)
        weights = ops.shape.full(a.shape, 1, dtype)
    else:
        a, weights = (strong(v, typeof(v).dtype) for v in promote_inexact(
            *operands("histogram", a, weights)))  # fmt: skip
        if a.shape != weights.shape:
            raise ValueError("weights should have the same shape as a.")
    edges = histogram_bin_edges(a, bins, range)
    flat, mass = (ops.shape.reshape(v, (v.size,)) for v in (a, weights))
    place, inside = _bins(flat, edges)
    mass = convert.select(inside, mass, number(mass, 0))
    counts = bincount(place, mass, length=edges.size - 1)
    if density:
        widths = _widths(edges)
        total = _reductions.sum(counts)
        counts = point.div(point.div(counts, strong(widths, counts.dtype)), ops.shape.broadcast_to(
            total, counts.shape))  # fmt: skip
    return counts, edges


def _bins(x: Any, edges: Any) -> tuple[Any, Any]:
    """(the bin of each element, clipped; whether it is in one)."""
    n = edges.size
    found = searchsorted(edges, x, "right")
    top = ops.shape.broadcast_to(getitem(edges, -1), typeof(x).shape)
    at_top = _elementwise.equal(x, top)
    found = convert.select(at_top, number(found, n - 1), found)
    inside = point.and_(point.ge(found, number(found, 1)), point.le(found, number(found, n - 1)))
    return point.clamp(
        number(found, 0), point.sub(found, number(found, 1)), number(found, max(n - 2, 0))
    ), inside


def _widths(edges: Any) -> Any:
    n = edges.size
    return point.sub(
        ops.shape.slice_along(edges, 0, 1, n), ops.shape.slice_along(edges, 0, 0, n - 1)
    )


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """(counts, edges of x, edges of y) of points in the plane; see `histogramdd`.

    >>> import covector.numpy as cnp
    >>> cnp.histogram2d(cnp.array([0.0, 1.0]), cnp.array([0.0, 1.0]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    x, y = (array_operand("histogram2d", v) for v in operands("histogram2d", x, y))
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"histogram2d: x and y must be 1-d of one size; got {x.shape}, {y.shape}")
    if not isinstance(bins, int) and np.ndim(bins) == 1 and len(bins) not in (1, 2):
        bins = [bins, bins]
    sample = ops.shape.stack(promote(x, y), 1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, *edges


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, list[Any]]:
    """(counts, edges along each axis) of points in space, the rows of `sample`.

    bins: a number, or for each axis a number or edges; range: for each axis a pair or None.

    >>> import covector.numpy as cnp
    >>> cnp.histogramdd(cnp.array([[0.0], [1.0]]), 2)[0].tolist()
    [1, 1]
    """
    sample = array_operand("histogramdd", sample)
    if sample.ndim != 2:
        raise ValueError("histogramdd: sample must be of shape (points, axes)")
    count, axes = sample.shape
    each = list(bins) if np.ndim(bins) or isinstance(bins, (list, tuple)) else [bins] * axes
    if len(each) != axes:
        raise ValueError("should be a bin for each dimension.")
    ranges = [None] * axes if range is None else list(range)
    if len(ranges) != axes:
        raise ValueError(f"For sample shape {sample.shape}, expected {axes} ranges")
    columns = [ops.shape.squeeze(c, (1,)) for c in ops.shape.split(sample, (1,) * axes, 1)]
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, ranges, strict=True)]
    sizes = [e.size - 1 for e in edges]
    place: Any = ops.shape.full((count,), 0, dtypes.default_int())
    inside: Any = ops.shape.full((count,), True, np.bool_)
    for column, edge, n in zip(columns, edges, sizes, strict=True):
        found, mine = _bins(column, edge)
        place = point.add(point.mul(place, number(place, n)), found)
        inside = point.and_(inside, mine)
    if weights is None:
        weights = ops.shape.full((count,), 1, dtypes.default_int())
    weights = array_operand("histogramdd", weights)
    if weights.shape != (count,):
        raise ValueError("should have one weight for each sample.")
    mass = convert.select(inside, weights, number(weights, 0))
    counts = ops.shape.reshape(bincount(place, mass, length=math.prod(sizes)), sizes)
    return (_density(counts, edges) if density else counts), edges


def _density(counts: Any, edges: Sequence[Any]) -> Any:
    (out,) = promote_inexact(counts)
    total = ops.shape.broadcast_to(_reductions.sum(out), counts.shape)
    for d, edge in enumerate(edges):
        widths = strong(_widths(edge), out.dtype)
        out = point.div(out, ops.shape.broadcast_in_dim(widths, counts.shape, (d,)))
    return point.div(out, total)
