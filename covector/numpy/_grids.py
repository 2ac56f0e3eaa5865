"""Arrays written in brackets: `mgrid[0:3]`, `r_[1, 2]`, `s_[1:]`."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.numpy._creation import array
from covector.numpy._join import concatenate
from covector.numpy._ranges import arange, linspace
from covector.numpy._shape import atleast_1d, moveaxis
from covector.numpy.convert import array_operand


def _range(key: slice) -> Any:
    """A slice as a range; an imaginary step is a number of points, the end included."""
    start = 0 if key.start is None else key.start
    if key.stop is None:
        raise ValueError(f"a range in brackets needs an end; got {key}")
    step = 1 if key.step is None else key.step
    if isinstance(step, complex):
        return linspace(start, key.stop, int(abs(step)))
    return arange(start, key.stop, step)


@final
class _Grid:
    """`grid[a:b, c:d]`: the coordinates of a grid, dense or open."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range(key)
        lines = [_range(k) for k in key]
        shape = [x.size for x in lines]
        if self.sparse:
            return [
                ops.shape.broadcast_in_dim(
                    x, [n if k == d else 1 for k, n in enumerate(shape)], (d,)
                )
                for d, x in enumerate(lines)
            ]
        if not lines:
            return array([])
        dense = [ops.shape.broadcast_in_dim(x, shape, (d,)) for d, x in enumerate(lines)]
        return concatenate([ops.shape.expand_dims(x, (0,)) for x in dense], 0)


@final
class _Join:
    """`r_[...]`: ranges, scalars and arrays joined along an axis.

    A text first: 'axis', 'axis,ndim' or 'axis,ndim,place' says along which axis, with how many
    axes at least, and at which place the axes of smaller arrays start.
    """

    def __init__(self, axis: int, ndim: int, place: int) -> None:
        self.axis, self.ndim, self.place = axis, ndim, place

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, place = self.axis, self.ndim, self.place
        if items and isinstance(items[0], str):
            text = items.pop(0)
            if text in ("r", "c"):
                raise NotImplementedError(f"Cannot create matrix with {text!r}: there are none")
            try:
                numbers = [int(part) for part in text.split(",")]
            except ValueError as error:
                raise ValueError(f"could not understand directive {text!r}") from error
            axis, ndim, place = (*numbers, *(axis, ndim, place)[len(numbers) :])
        parts = [_range(x) if isinstance(x, slice) else array_operand("r_", _as_operand(x))
                 for x in items]  # fmt: skip
        return concatenate([_placed(x, ndim, place) for x in parts], axis)


def _as_operand(x: Any) -> Any:
    return array(x) if isinstance(x, (list, tuple)) else x


def _placed(x: Any, ndim: int, place: int) -> Any:
    x = atleast_1d(x)
    missing = ndim - typeof(x).ndim
    if missing <= 0:
        return x
    rank = typeof(x).ndim
    x = ops.shape.reshape(x, (*(1,) * missing, *typeof(x).shape))
    first = place if place >= 0 else missing + 1 + place
    return moveaxis(x, tuple(range(missing, ndim)), tuple(range(first, first + rank)))


mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)
r_, c_ = _Join(0, 1, -1), _Join(-1, 2, 0)
index_exp, s_ = np.index_exp, np.s_
