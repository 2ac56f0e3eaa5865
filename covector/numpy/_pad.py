"""`pad`: every mode, axis after axis, as concatenations of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy import _reductions, _statistics, convert
from covector.numpy._functional import apply_along_axis
from covector.numpy._percentiles import median
from covector.numpy._ranges import linspace
from covector.numpy.convert import array_operand, cast, is_kind, operands, strong

point = ops.pointwise
Widths = list[tuple[int, int]]

#: The keyword arguments each mode takes, with their defaults.
_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "linear_ramp": {"end_values": 0},
    **{mode: {"stat_length": None} for mode in ("maximum", "minimum", "mean", "median")},
    **{mode: {"reflect_type": "even"} for mode in ("reflect", "symmetric")},
    **{mode: {} for mode in ("edge", "wrap", "empty")},
}


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """`array` with so many elements before and after it along each axis.

    pad_width: a number, (before, after), or a pair for each axis.  mode: 'constant' (with
    `constant_values`), 'edge', 'reflect' and 'symmetric' (with `reflect_type`), 'wrap',
    'linear_ramp' (with `end_values`), 'maximum', 'minimum', 'mean', 'median' (with `stat_length`),
    'empty', or a function of (padded vector, widths, axis, kwargs).

    >>> import covector.numpy as cnp
    >>> cnp.pad(cnp.array([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    x = array_operand("pad", array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"pad: unknown mode {mode!r}: wanted one of {list(_OPTIONS)}")
    if unknown := set(kwargs) - set(_OPTIONS[mode]):
        raise ValueError(f"pad: unsupported keyword arguments for mode {mode!r}: {unknown}")
    options = {**_OPTIONS[mode], **kwargs}
    if mode == "constant":
        return _constant(x, widths, options["constant_values"])
    if mode == "empty":
        return _constant(x, widths, 0)
    pieces = _per_axis(mode, options, x.ndim)
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if not typeof(x).shape[axis]:
            raise ValueError(f"pad: cannot apply {mode!r} padding to empty axis {axis}")
        left, right = _SIDES[mode](x, axis, before, after, pieces[axis])
        x = ops.shape.concatenate([v for v in (left, x, right) if v is not None], axis)
    return x


def _widths(pad_width: Any, ndim: int) -> Widths:
    try:
        given = np.asarray(convert.concrete(pad_width, "the widths of pad"))
    except ValueError:
        given = np.zeros((0, 0, 0), int)
    if given.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    widths = _pairs(given, ndim, "pad_width")
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    return [(int(a), int(b)) for a, b in widths]


def _pairs(given: Any, ndim: int, what: str) -> list[tuple[Any, Any]]:
    """A pair for each axis, from what users may write."""
    shape = np.shape(given)
    if shape == ():
        return [(given, given)] * ndim
    if shape == (1,):
        return [(given[0], given[0])] * ndim
    if shape == (2,):
        return [(given[0], given[1])] * ndim
    if shape == (1, 2):
        return [(given[0][0], given[0][1])] * ndim
    if shape == (ndim, 2):
        return [(pair[0], pair[1]) for pair in given]
    raise ValueError(
        f"pad: {what} with nd={ndim} has unsupported shape {shape}. Valid shapes are ({ndim}, 2), "
        "(1, 2), (2,), (1,), or ()."
    )


def _per_axis(mode: str, options: dict[str, Any], ndim: int) -> list[Any]:
    """The one option of a mode, for each axis."""
    ((name, value),) = options.items() or ((None, None),)
    if name in (None, "reflect_type") or value is None:
        return [value] * ndim
    return _pairs(value, ndim, str(name))


def _constant(x: Any, widths: Widths, values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
    (values,) = operands("pad", values)
    if not typeof(values).shape:
        value = cast(values, x.dtype)
        out = ops.shape.pad(strong(x, x.dtype), value, [(a, b, 0) for a, b in widths])
        return cast(out, x.dtype, typeof(x).weak_type)
    weak = typeof(x).weak_type
    pairs = _pairs(values, x.ndim, "constant_values")
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, pairs, strict=True)):
        for config, value in (((before, 0, 0), low), ((0, after, 0), high)):
            config = [config if d == axis else (0, 0, 0) for d in range(x.ndim)]
            x = ops.shape.pad(x, cast(value, x.dtype), config)
    return cast(x, x.dtype, weak)


# What goes before and after along one axis: (x, axis, before, after, option) -> (left, right)


def _along(x: Any, axis: int, start: int, stop: int) -> Any:
    return ops.shape.slice_along(x, axis, start, stop)


def _repeated(x: Any, axis: int, times: int) -> Any:
    """A slice of size 1 repeated; None for no times."""
    shape = [times if d == axis else n for d, n in enumerate(typeof(x).shape)]
    return ops.shape.broadcast_to(x, shape) if times else None


def _edge(x: Any, axis: int, before: int, after: int, option: Any) -> Any:
    n = typeof(x).shape[axis]
    return (
        _repeated(_along(x, axis, 0, 1), axis, before),
        _repeated(_along(x, axis, n - 1, n), axis, after),
    )


def _reflecting(with_edge: bool) -> Callable[..., Any]:
    def reflect(x: Any, axis: int, before: int, after: int, kind: Any) -> Any:
        if kind not in ("even", "odd"):
            raise ValueError(f"pad: reflect_type must be 'even' or 'odd'; got {kind!r}")
        if typeof(x).shape[axis] == 1 and not with_edge:
            return _edge(x, axis, before, after, None)
        mirrored = ops.shape.rev(x, (axis,))
        left = _mirror(mirrored, axis, before, with_edge, kind == "odd")
        right = _mirror(x, axis, after, with_edge, kind == "odd")
        return None if left is None else ops.shape.rev(left, (axis,)), right

    return reflect


def _mirror(x: Any, axis: int, count: int, with_edge: bool, odd: bool) -> Any:
    """What follows `x` along the axis when it is reflected at its end, as often as it takes."""
    start = typeof(x).shape[axis]
    grown = x
    while (missing := count - (typeof(grown).shape[axis] - start)) > 0:
        n = typeof(grown).shape[axis]
        stop = n if with_edge else n - 1
        part = _along(grown, axis, max(stop - missing, 0), stop)
        part = ops.shape.rev(part, (axis,))
        if odd:
            edge = _along(grown, axis, n - 1, n)
            twice = point.mul(edge, convert.number(edge, 2))
            part = point.sub(ops.shape.broadcast_to(twice, typeof(part).shape), part)
        grown = ops.shape.concatenate([grown, part], axis)
    return _along(grown, axis, start, start + count) if count else None


def _wrap(x: Any, axis: int, before: int, after: int, option: Any) -> Any:
    n = typeof(x).shape[axis]

    def copies(count: int) -> Any:
        reps = [-(-count // n) if d == axis else 1 for d in range(typeof(x).ndim)]
        return ops.shape.tile(x, reps)

    left = right = None
    if before:
        tiles = copies(before)
        total = typeof(tiles).shape[axis]
        left = _along(tiles, axis, total - before, total)
    if after:
        right = _along(copies(after), axis, 0, after)
    return left, right


def _linear_ramp(x: Any, axis: int, before: int, after: int, ends: Any) -> Any:
    first, last = _edge(x, axis, 1, 1, None)
    out = []
    for edge, count, end in ((first, before, ends[0]), (last, after, ends[1])):
        edge = ops.shape.squeeze(edge, (axis,))
        ramp = linspace(cast(end, x.dtype), edge, count, endpoint=False, dtype=x.dtype, axis=axis)
        out.append(ramp if count else None)
    left, right = out
    return left, None if right is None else ops.shape.rev(right, (axis,))


def _statistic(compute: Callable[..., Any]) -> Callable[..., Any]:
    def sides(x: Any, axis: int, before: int, after: int, lengths: Any) -> Any:
        n = typeof(x).shape[axis]
        first, last = (n, n) if lengths is None else (min(int(k), n) for k in lengths)
        if not first or not last:
            raise ValueError("stat_length of 0 yields no value for padding")
        out = []
        for part, count in ((_along(x, axis, 0, first), before), (_along(x, axis, n - last, n),
                                                                  after)):  # fmt: skip
            value = compute(part, axis, keepdims=True)
            if is_kind(x, np.integer) and is_kind(value, np.inexact):
                value = point.round_(value, 1)
            out.append(_repeated(strong(value, x.dtype), axis, count))
        return tuple(out)

    return sides


_SIDES: dict[str, Callable[..., Any]] = {
    "edge": _edge,
    "reflect": _reflecting(with_edge=False),
    "symmetric": _reflecting(with_edge=True),
    "wrap": _wrap,
    "linear_ramp": _linear_ramp,
    "maximum": _statistic(_reductions.max),
    "minimum": _statistic(_reductions.min),
    "mean": _statistic(_statistics.mean),
    "median": _statistic(median),
}


def _by_function(x: Any, widths: Widths, function: Callable[..., Any], kwargs: Any) -> Any:
    out = _constant(x, widths, 0)
    for axis, pair in enumerate(widths):
        out = apply_along_axis(function, axis, out, pair, axis, kwargs)
    return out
