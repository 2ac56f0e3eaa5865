"""Sorting, and what follows from it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy.convert import array_operand, array_operands, canonical_axis, is_kind
from covector.runtime.eager import eager

point = ops.pointwise


def _refuse(who: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(f"{who}: 'kind' has no meaning here; use 'stable'. Got {kind!r}")
    if order is not None:
        raise TypeError(f"{who}: 'order' is for structured arrays only; got {order!r}")


def _along(who: str, a: Any, axis: Any) -> tuple[Any, int]:
    x = array_operand(who, a)
    if axis is None:
        return ops.shape.reshape(x, (x.size,)), 0
    return x, canonical_axis(axis, x.ndim, who)


@eager
def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """The elements along `axis` (None: of the flat array) in ascending order; NaN last.

    Always stable; complex numbers by real part, then imaginary part.

    >>> import covector.numpy as cnp
    >>> cnp.sort(cnp.array([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    _refuse("sort", kind, order)
    x, axis = _along("sort", a, axis)
    (out,) = ops.sort.sort([x], axis, stable)
    return ops.shape.rev(out, (axis,)) if descending else out


@eager
def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort along `axis` (None: the flat array); stable, descending too.

    >>> import covector.numpy as cnp
    >>> cnp.argsort(cnp.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    _refuse("argsort", kind, order)
    x, axis = _along("argsort", a, axis)
    wanted = convert.user_dtype(dtype, "argsort") or dtypes.default_int()
    if not descending:
        return ops.sort.argsort(x, axis, wanted)
    # Reversed twice: equal elements keep their order.
    n = typeof(x).shape[axis]
    found = ops.sort.argsort(ops.shape.rev(x, (axis,)), axis, wanted)
    return point.sub(wanted.type(max(n - 1, 0)), ops.shape.rev(found, (axis,)))


def sort_complex(a: Any) -> Any:
    """The elements along the last axis as complex numbers, in order.

    >>> import covector.numpy as cnp
    >>> cnp.sort_complex(cnp.array([2.0, 1.0])).tolist()
    [(1+0j), (2+0j)]
    """
    x = array_operand("sort_complex", a)
    return convert.strong(sort(x), dtypes.to_complex_dtype(x.dtype))


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys along `axis`: by the last key, ties by the one before.

    >>> import covector.numpy as cnp
    >>> cnp.lexsort((cnp.array([2, 1, 3]), cnp.array([0, 0, -1]))).tolist()
    [2, 1, 0]
    """
    arrays = array_operands("lexsort", keys)
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({x.shape for x in arrays}) > 1:
        raise ValueError(f"all keys need to be the same shape; got {[x.shape for x in arrays]}")
    if not arrays[0].ndim:
        return ops.shape.full((), 0, dtypes.default_int())
    axis = canonical_axis(axis, arrays[0].ndim, "lexsort")
    places = ops.shape.iota(dtypes.default_int(), arrays[0].shape, axis)
    return ops.sort.sort([*arrays[::-1], places], axis, True, len(arrays))[-1]


def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """Rearranged so that the `kth` element is in its sorted place, smaller ones before it.

    >>> import covector.numpy as cnp
    >>> cnp.partition(cnp.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    x = array_operand("partition", a)
    _check_kth("partition", x, kth, axis)
    return sort(x, axis)


def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The indices that `partition`.

    >>> import covector.numpy as cnp
    >>> cnp.argpartition(cnp.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    x = array_operand("argpartition", a)
    _check_kth("argpartition", x, kth, axis)
    return argsort(x, axis, dtype=np.int32 if x.size < 1 << 31 else np.int64)


def _check_kth(who: str, x: Any, kth: int, axis: int) -> None:
    if is_kind(x, np.complexfloating):
        raise NotImplementedError(f"{who} for complex dtype is not implemented.")
    n = x.shape[canonical_axis(axis, x.ndim, who)]
    canonical_axis(operator.index(kth), n, f"{who}: kth")
