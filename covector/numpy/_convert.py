"""From what users pass to what operations take: arrays, promotion, broadcasting.

Every function of `covector.numpy` begins here: `operands(name, ...)` refuses what is no array,
`promote(...)` brings dtypes together by the lattice, `broadcast(...)` shapes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.config import config
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.runtime.array import Array
from covector.trace.tracer import Tracer

SCALARS = (bool, int, float, complex)


def check_arraylike(who: str, *args: Any) -> None:
    """Refuse lists, strings and other objects: TypeError naming the function and the position."""
    for k, x in enumerate(args):
        if type(x) is Array or isinstance(x, (Tracer, np.ndarray, np.generic, *SCALARS)):
            continue
        if hasattr(x, "__jax_array__"):
            continue
        hint = "; convert it with array(...) first" if isinstance(x, (list, tuple)) else ""
        raise TypeError(
            f"{who} requires ndarray or scalar arguments, got {type(x)} at position {k}{hint}."
        )


def operands(who: str, *args: Any) -> tuple[Any, ...]:
    """`args`, checked; NumPy arrays stay as they are until an operation reads them."""
    check_arraylike(who, *args)
    return tuple([x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in args])


def promote_dtypes(*args: Any) -> tuple[Any, ...]:
    """`args` brought to their common dtype; Python scalars become scalars of it."""
    avals = [typeof(x) for x in args]
    first = avals[0]
    if all(a.dtype is first.dtype and a.weak_type == first.weak_type for a in avals):
        return args
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    return tuple([cast(x, dtype, weak) for x in args])


def promote_inexact(*args: Any) -> tuple[Any, ...]:
    """`args` brought to their common dtype, integers to the default float."""
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    dtype = dtypes.to_inexact_dtype(dtype)
    return tuple([cast(x, dtype, weak) for x in args])


def cast(x: Any, dtype: Any, weak: bool = False) -> Any:
    """`x` as `dtype`; a Python or NumPy scalar is converted at once."""
    aval = typeof(x)
    if aval.dtype == dtype and (aval.weak_type == weak or isinstance(x, SCALARS)):
        return x
    if isinstance(x, (*SCALARS, np.generic)):
        if weak:
            return dtypes.scalar_type_of(dtype)(x)
        return dtype.type(x)
    return ops.cast.convert_element_type(x, dtype, weak)


def broadcast_shapes(who: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape by NumPy's rule; TypeError naming the shapes if there is none."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[int] = []
    for d in range(-rank, 0):
        sizes = {s[d] for s in shapes if len(s) >= -d} - {1}
        if len(sizes) > 1:
            raise TypeError(
                f"{who} got incompatible shapes for broadcasting: "
                f"{', '.join(str(tuple(s)) for s in shapes)}."
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def broadcast(who: str, *args: Any) -> tuple[Any, ...]:
    """`args` with one shape; scalars stay scalars (operations broadcast them)."""
    shapes = [typeof(x).shape for x in args]
    wanted = {s for s in shapes if s}
    if len(wanted) <= 1:
        return args
    if config.numpy_rank_promotion != "allow":
        _check_rank_promotion(who, shapes)
    shape = broadcast_shapes(who, *shapes)
    return tuple([x if not s else broadcast_to(x, shape) for x, s in zip(args, shapes, strict=True)])


def _check_rank_promotion(who: str, shapes: Sequence[tuple[int, ...]]) -> None:
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return
    message = (
        f"Following NumPy automatic rank promotion for {who} on shapes "
        f"{' '.join(map(str, shapes))}. Set the option numpy_rank_promotion to 'allow' to allow it."
    )
    if config.numpy_rank_promotion == "raise":
        raise ValueError(message)
    warnings.warn(message, stacklevel=4)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` broadcast to `shape`, which fits."""
    given, shape = typeof(x).shape, tuple(shape)
    if given == shape:
        return x
    offset = len(shape) - len(given)
    kept = [d for d, n in enumerate(given) if n == shape[offset + d]]
    if len(kept) < len(given):
        x = ops.shape.reshape(x, [given[d] for d in kept])
    return ops.shape.broadcast_in_dim(x, shape, [offset + d for d in kept])


def asarray_operand(x: Any) -> Any:
    """`x` (checked before) as an Array or tracer."""
    return x if isinstance(x, Tracer) else as_array(x)


def canonical_axis(axis: Any, ndim: int, who: str = "") -> int:
    """`axis` in [0, ndim); ValueError naming it otherwise, TypeError if it is no integer."""
    try:
        n = axis.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{who}: axis must be an integer; got {axis!r}") from None
    if not -ndim <= n < ndim:
        raise ValueError(f"axis {n} is out of bounds for array of dimension {ndim}")
    return n % ndim


def canonical_axes(axis: Any, ndim: int, who: str = "") -> tuple[int, ...]:
    """None (all axes), an int or a sequence of ints, as a tuple in [0, ndim) without repeats."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(canonical_axis(a, ndim, who) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{who}: duplicate value in 'axis': {axis}")
    return axes

