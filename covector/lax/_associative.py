"""Prefix sums of any associative operation, in a number of steps that grows with the logarithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from covector import ops, tree
from covector.api.arguments import check_callable, check_values
from covector.api.arrays import as_array
from covector.ir.values import typeof


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """`out[k] = fn(out[k - 1], elems[k])` along `axis`, for an associative `fn`.

    `fn` combines two trees like `elems`, arrays of any size along `axis`, element by element.  It
    is called about 2 log2(n) times on halves and quarters … of the data (R. E. Ladner,
    M. J. Fischer, "Parallel prefix computation", J. ACM 27, 1980).  Raises TypeError where `fn` is
    no function, ValueError where the sizes along `axis` differ or there is no such axis.

    >>> from covector import lax, numpy as cnp
    >>> lax.associative_scan(lambda a, b: a * b, cnp.arange(1, 6)).tolist()
    [1, 2, 6, 24, 120]
    """
    check_callable(fn, "associative_scan")
    leaves, structure = tree.flatten(elems)
    check_values(leaves, elems, "elems of associative_scan")
    arrays = [as_array(x) for x in leaves]
    axes: list[int] = []
    sizes: set[int] = set()
    for x in arrays:
        shape = typeof(x).shape
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"associative_scan: no axis {axis} in an array of shape {shape}")
        axes.append(axis % len(shape))
        sizes.add(shape[axis])
    if len(sizes) > 1:
        raise ValueError(
            f"associative_scan: all arrays must have one size along axis {axis}; got "
            f"{sorted(sizes)}"
        )
    work = _Scan(fn, structure, axes)
    if reverse:
        arrays = [ops.shape.rev(x, (d,)) for x, d in zip(arrays, axes, strict=True)]
    out = work.run(arrays, sizes.pop() if sizes else 0)
    if reverse:
        out = [ops.shape.rev(x, (d,)) for x, d in zip(out, axes, strict=True)]
    return tree.unflatten(structure, out)


class _Scan:
    """The recursion: pairs are combined, their scan gives the odd places, one more step the even
    ones."""

    __slots__ = ("_axes", "_fn", "_structure")

    def __init__(self, fn: Callable[[Any, Any], Any], structure: Any, axes: list[int]) -> None:
        self._fn, self._structure, self._axes = fn, structure, axes

    def run(self, xs: list[Any], size: int) -> list[Any]:
        """The scan of arrays of that size along their axes."""
        if size < 2:
            return xs
        odd = self._combined(self._part(xs, 0, size - 1, 2), self._part(xs, 1, size, 2))
        odd = self.run(odd, size // 2)
        rest = self._part(xs, 2, size, 2)
        before = odd if size % 2 else self._part(odd, 0, size // 2 - 1)
        even = self._combined(before, rest) if size > 2 else rest
        first = self._part(xs, 0, 1)
        even = [
            ops.shape.concatenate([f, e], d)
            for f, e, d in zip(first, even, self._axes, strict=True)
        ]
        return [_woven(e, o, d) for e, o, d in zip(even, odd, self._axes, strict=True)]

    def _combined(self, a: list[Any], b: list[Any]) -> list[Any]:
        out = self._fn(tree.unflatten(self._structure, a), tree.unflatten(self._structure, b))
        leaves, structure = tree.flatten(out)
        if structure != self._structure:
            raise TypeError(
                f"associative_scan: fn must return the structure it takes, {self._structure}; it "
                f"returns {structure}"
            )
        return [as_array(x) for x in leaves]

    def _part(self, xs: list[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        return [
            ops.pieces.slice_along(x, d, start, stop, step)
            for x, d in zip(xs, self._axes, strict=True)
        ]


def _woven(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], odd[1], … along `axis`."""
    shape = typeof(even).shape
    n, m = shape[axis], typeof(odd).shape[axis]
    if n > m:
        last = ops.pieces.slice_along(even, axis, m, n)
        even = ops.pieces.slice_along(even, axis, 0, m)
    else:
        last = None
    both = ops.shape.stack([even, odd], axis + 1)
    out = ops.shape.reshape(both, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    return out if last is None else ops.shape.concatenate([out, last], axis)
