"""Checks and conversions of arguments that the functions of `covector.lax` share."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof

__all__ = [
    "as_array",
    "axes_in",
    "axis_in",
    "broadcast_shapes",
    "integers",
    "spread",
    "user_dtype",
]


def integers(values: Any) -> tuple[int, ...]:
    """A sequence of integers (or one integer) as a tuple of Python ints."""
    if hasattr(values, "__iter__") and getattr(values, "ndim", 1):
        return tuple([operator.index(v) for v in values])
    return (operator.index(values),)


def user_dtype(dtype: Any, who: str) -> Any:
    """A dtype that a caller gave, canonical: warns if it is narrowed, TypeError if it is none."""
    return dtypes.canonicalize_dtype(
        dtypes.check_user_dtype_supported(dtype, who), allow_extended_dtype=True
    )


def axis_in(axis: Any, ndim: int) -> int:
    """`axis`, counted from the end if negative; ValueError if it is out of range."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def axes_in(axes: Iterable[Any], ndim: int) -> tuple[int, ...]:
    """Several axes, by `axis_in`; ValueError if one is repeated."""
    axes = tuple(axes)
    found = tuple([axis_in(a, ndim) for a in axes])
    if len(set(found)) != len(found):
        raise ValueError(f"dimensions are not unique: {axes}")
    return found


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to; ValueError if there is none.

    >>> from covector import lax
    >>> lax.broadcast_shapes((1, 2), (3, 1), (2,))
    (3, 2)
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    out: list[int] = []
    for sizes in zip(*padded, strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            given = [tuple(s) for s in shapes]
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={given}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def spread(name: str, *args: Any) -> Sequence[Any]:
    """The arguments of an elementwise function with axes of size 1 repeated to fit.

    Scalars stay: operations broadcast them.  Other arguments must have equally many axes.
    """
    shapes = [typeof(x).shape for x in args]
    wide = {s for s in shapes if s}
    if len(wide) <= 1:
        return args
    if len({len(s) for s in wide}) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions (or none); got shapes "
            f"{', '.join(map(str, shapes))}"
        )
    try:
        shape = broadcast_shapes(*wide)
    except ValueError:
        raise TypeError(
            f"{name}: arguments have incompatible shapes {', '.join(map(str, shapes))}: wanted "
            f"equal sizes, or 1, along each axis"
        ) from None
    return [ops.shape.broadcast_to(x, shape) if s else x for x, s in zip(args, shapes, strict=True)]
