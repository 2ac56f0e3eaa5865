"""Choosing elements: by a condition, by a number, by where something holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base import errors
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._at import IndexedUpdate
from covector.numpy._elementwise import nonzero_mask
from covector.numpy._indexing import take
from covector.numpy.convert import array_operand, cast, operands, promote
from covector.runtime.eager import eager
from covector.trace.tracer import Tracer

point = ops.pointwise


@eager(arrays=3)
def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """`x` where `condition` holds, else `y`; of a condition alone, `nonzero(condition)`.

    Both are computed; a derivative that is not finite in the branch not taken does no harm.

    >>> import covector.numpy as cnp
    >>> cnp.where(cnp.array([True, False]), 1, 2).tolist()
    [1, 2]
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value go with a condition alone")
    condition, x, y = operands("where", condition, x, y)
    x, y = promote(x, y)
    return convert.select(nonzero_mask(condition), x, y)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Positions of the elements that are not zero, one array an axis.

    The result's shape depends on the values, so while tracing `size` must be given: the first
    `size` positions, padded with `fill_value` (0 by default; a tuple has one for each axis).
    Raises ConcretizationTypeError if it is needed and not given.

    >>> import covector.numpy as cnp
    >>> cnp.nonzero(cnp.array([0, 5, 6]))[0].tolist()
    [1, 2]
    """
    a = array_operand("nonzero", a)
    if not a.ndim:
        raise ValueError("nonzero: of an array of rank 0 is not defined; use atleast_1d first")
    index = dtypes.default_int()
    if size is None:
        numbers = convert.concrete(
            a, "the size of the result of nonzero (or where): use its size argument"
        )
        return tuple([as_array(found.astype(index)) for found in np.nonzero(numbers)])
    size = int(convert.concrete(size, "the argument `size` of nonzero"))
    places = _first_places(nonzero_mask(a), size)
    missing = point.ge(places, np.asarray(a.size, index)[()])
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * a.ndim
    if len(fills) != a.ndim:
        raise ValueError(f"nonzero: wanted {a.ndim} fill values, one an axis; got {fill_value}")
    out = []
    for axis, fill in enumerate(fills):
        stride = np.asarray(int(np.prod(a.shape[axis + 1 :], dtype=np.int64)), index)[()]
        extent = np.asarray(a.shape[axis], index)[()]
        place = places if stride in (0, 1) else point.div(places, stride)
        place = point.rem(place, extent) if axis and extent else place
        out.append(convert.select(missing, cast(0 if fill is None else fill, index), place))
    return tuple(out)


def _first_places(mask: Any, size: int) -> Any:
    """The flat positions of the first `size` true elements, then as many as there are elements."""
    index = dtypes.default_int()
    mask = ops.shape.reshape(mask, (typeof(mask).size,))
    count = typeof(mask).size
    out = ops.shape.full((size,), count, index)
    if not count or not size:
        return out
    ranks = ops.cumulative.cumsum(cast(mask, index), 0)
    # Every true element writes its position at its rank; the others write nowhere.
    ranks = convert.select(mask, point.sub(ranks, index.type(1)), index.type(size))
    places = ops.shape.iota(index, (count,), 0)
    return IndexedUpdate(out, ranks).set(places, mode="drop", unique_indices=True)


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Positions of the elements that are not zero, a row each; see `nonzero`.

    >>> import covector.numpy as cnp
    >>> cnp.argwhere(cnp.array([[0, 5], [6, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    a = array_operand("argwhere", a)
    if not a.ndim:
        lifted = ops.shape.reshape(a, (1,))
        (found,) = nonzero(lifted, size=size, fill_value=fill_value)
        return ops.shape.zeros(typeof(found).update(shape=(typeof(found).size, 0)))
    return ops.shape.stack(nonzero(a, size=size, fill_value=fill_value), 1)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Positions of the elements that are not zero in the flattened array; see `nonzero`.

    >>> import covector.numpy as cnp
    >>> cnp.flatnonzero(cnp.array([[0, 5], [6, 0]])).tolist()
    [1, 2]
    """
    a = array_operand("flatnonzero", a)
    return nonzero(ops.shape.reshape(a, (a.size,)), size=size, fill_value=fill_value)[0]


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of `arr` where `condition` holds, flattened; see `compress`.

    >>> import covector.numpy as cnp
    >>> cnp.extract(cnp.array([True, False, True]), cnp.arange(3)).tolist()
    [0, 2]
    """
    condition, arr = (array_operand("extract", x) for x in (condition, arr))
    flat = [ops.shape.reshape(x, (x.size,)) for x in (condition, arr)]
    return compress(*flat, size=size, fill_value=fill_value)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: Any = None,
) -> Any:
    """The slices of `a` along `axis` (None: flattened) where the 1-d `condition` holds.

    While tracing, `size` says how many, at most all; missing ones are `fill_value`.

    >>> import covector.numpy as cnp
    >>> cnp.compress(cnp.array([False, True]), cnp.array([[1, 2], [3, 4]]), axis=0).tolist()
    [[3, 4]]
    """
    convert.refuse_out("compress", out)
    condition, a = (array_operand("compress", x) for x in (condition, a))
    (fill_value,) = operands("compress", fill_value)
    if condition.ndim != 1:
        raise ValueError("compress: condition must be a 1D array")
    if axis is None:
        axis, a = 0, ops.shape.reshape(a, (a.size,))
    axis = convert.canonical_axis(axis, a.ndim, "compress")
    n = a.shape[axis]
    if condition.shape[0] > n:
        beyond = ops.shape.slice_along(condition, 0, n, condition.shape[0])
        if not isinstance(beyond, Tracer) and np.any(np.asarray(beyond)):
            raise ValueError("compress: condition has true elements beyond the end of the array")
        condition = ops.shape.slice_along(condition, 0, 0, n)
    if size is not None and not 0 <= size <= n:
        raise ValueError(f"compress: size must be 0 to {n}, the size of axis {axis}; got {size}")
    (places,) = nonzero(condition, size=size, fill_value=n)
    if size is None:
        return take(a, places, axis=axis)
    return take(a, places, axis=axis, mode="fill", fill_value=_static_fill(fill_value))


def _static_fill(value: Any) -> Any:
    return convert.concrete(value, "a fill value").item()


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """For each element the choice that goes with the first condition that holds, else `default`.

    >>> import covector.numpy as cnp
    >>> x = cnp.arange(4)
    >>> cnp.select([x < 1, x < 3], [x, 10 * x], -1).tolist()
    [0, 10, 20, -1]
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not condlist:
        raise ValueError("condlist must be non-empty")
    conditions = operands("select", *condlist)
    *choices, out = promote(*operands("select", *choicelist, default))
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        out = convert.select(nonzero_mask(condition), choice, out)
    return out


def piecewise(x: Any, condlist: Any, funclist: list[Any], *args: Any, **kw: Any) -> Any:
    """For each element the function (or constant) that goes with the last condition that holds.

    One function more than conditions is the default; else the default is 0.

    >>> import covector.numpy as cnp
    >>> x = cnp.array([-2.0, 3.0])
    >>> cnp.piecewise(x, [x < 0], [lambda v: -v, lambda v: 10 * v]).tolist()
    [2.0, 30.0]
    """
    x = array_operand("piecewise", x)
    if isinstance(condlist, (tuple, list)) and not any(isinstance(c, list) for c in condlist):
        conditions = [array_operand("piecewise", c) for c in condlist]
        if conditions and not conditions[0].ndim and x.ndim and len(conditions) == x.shape[0]:
            conditions = [ops.shape.stack(conditions)]
    else:
        conditions = convert.array_operands("piecewise", condlist)
    if len(funclist) == len(conditions):
        default: Any = 0
        functions = funclist
    elif len(funclist) == len(conditions) + 1:
        *functions, default = funclist
    else:
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected; got {len(funclist)}"
        )
    out = convert.broadcast_to(_apply(default, x, args, kw), x.shape)
    for condition, function in zip(conditions, functions, strict=True):
        out = convert.select(nonzero_mask(condition), _apply(function, x, args, kw), out)
    return out


def _apply(function: Callable[..., Any] | Any, x: Any, args: Any, kw: Any) -> Any:
    value = function(x, *args, **kw) if callable(function) else function
    (value,) = operands("piecewise", value)
    return cast(value, x.dtype)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """For each element the choice that `a` numbers; all are broadcast to one shape.

    mode: what happens to numbers that no choice has: 'raise' (ValueError; not while tracing),
    'wrap', 'clip'.

    >>> import covector.numpy as cnp
    >>> cnp.choose(cnp.array([1, 0]), [cnp.array([1, 2]), cnp.array([3, 4])]).tolist()
    [3, 2]
    """
    convert.refuse_out("choose", out)
    a = array_operand("choose", a)
    if not convert.is_kind(a, np.integer):
        raise ValueError("`a` array must be integer typed")
    cases = convert.array_operands("choose", choices)
    count = len(cases)
    if mode == "raise":
        if isinstance(a, Tracer):
            raise errors.ConcretizationTypeError(
                a, "It is checked by choose in mode 'raise'; use mode='clip' or mode='wrap'."
            )
        if np.any((np.asarray(a) < 0) | (np.asarray(a) >= count)):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        n = convert.number(a, count)
        rest = point.rem(a, n)
        a = point.rem(point.add(rest, n), n)
    elif mode == "clip":
        a = point.clamp(convert.number(a, 0), a, convert.number(a, count - 1))
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    which, *cases = convert.broadcast_all("choose", cast(a, np.dtype(np.int32)), *promote(*cases))
    return cases[0] if count == 1 else point.select_n(which, *cases)
