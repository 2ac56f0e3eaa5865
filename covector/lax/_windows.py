"""Reductions over sliding windows, by any function."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.containers import is_listed
from covector.api.vectorize import vmap
from covector.ir.avals import ShapedArray
from covector.ir.values import as_numpy, typeof
from covector.lax._arguments import as_array
from covector.lax._computation import lone_operation, reduced
from covector.ops.windows import WRITTEN_OUT, covered
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import is_concrete

#: Operations that have a reduction over windows.
_MONOIDS: dict[str, Any] = {
    "add": ops.windows.ReduceWindowSum,
    "max": ops.windows.ReduceWindowMax,
    "min": ops.windows.ReduceWindowMin,
    "or": ops.windows.ReduceWindowMax,
    "and": ops.windows.ReduceWindowMin,
}


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis that a word stands for.

    `padding`: 'VALID', none; 'SAME' (or 'SAME_LOWER'), as much as makes the result have
    `ceil(size / stride)` windows, half of it before, and the odd one after (before).  RuntimeError
    for other words, ValueError for sequences of different lengths.

    >>> from covector import lax
    >>> lax.padtype_to_pads((10,), (3,), (2,), "SAME")
    [(0, 1)]
    """
    word = str(getattr(padding, "name", padding)).upper()
    if word not in ("SAME", "SAME_LOWER", "VALID"):
        raise RuntimeError(
            f"padding must be 'SAME', 'SAME_LOWER' or 'VALID' as a word; got {padding!r}"
        )
    if not len(in_shape) == len(window_shape) == len(window_strides):
        raise ValueError(
            "padtype_to_pads: in_shape, window_shape and window_strides must have equal lengths; "
            f"got {tuple(in_shape)}, {tuple(window_shape)}, {tuple(window_strides)}"
        )
    pads: list[tuple[int, int]] = []
    for n, w, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = 0 if word == "VALID" else max((-(-n // stride) - 1) * stride + w - n, 0)
        less, more = total // 2, total - total // 2
        pads.append((more, less) if word == "SAME_LOWER" else (less, more))
    return pads


def pads_of(
    who: str, padding: Any, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The (low, high) pairs that `padding` says, for a window that may be dilated already."""
    if isinstance(padding, str) or hasattr(padding, "name"):
        return padtype_to_pads(sizes, window, strides, padding)
    pairs: list[tuple[int, int]] = []
    for pair in padding:
        if not is_listed(pair) or len(pair) != 2:
            raise ValueError(
                f"{who}: padding={padding!r} must be a word or have a pair (low, high) for each "
                "axis that the window slides along"
            )
        pairs.append((operator.index(pair[0]), operator.index(pair[1])))
    if len(pairs) != len(sizes):
        raise TypeError(
            f"{who}: padding={padding!r} must have one pair for each axis that the window slides "
            f"along, of which there are {len(sizes)}"
        )
    return pairs


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of what `reduce_window` gives, for padding as pairs.

    >>> from covector import lax
    >>> lax.reduce_window_shape_tuple((10, 9), (3, 2), (2, 1), ((1, 1), (0, 0)))
    (5, 8)
    """
    ones = (1,) * len(operand_shape)
    op = ops.windows.ReduceWindowMax(
        tuple(window_dimensions),
        tuple(window_strides),
        tuple((low, high) for low, high in padding),
        tuple(base_dilation or ones),
        tuple(window_dilation or ones),
    )
    return op.out_shape(tuple(operand_shape))


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of each window combined by `computation`, an associative function.

    Args:
      operand: an array, or a tree of arrays of one shape.
      init_value: a like tree of scalars of the same dtypes, where combining starts.
      computation: `computation(x, y)` takes and gives such trees of scalars.
      window_dimensions: the size of a window along each axis.
      window_strides: how far a window is from the next; 1 if not given.
      padding: 'VALID', 'SAME', 'SAME_LOWER', or for each axis (low, high) places to add.
      base_dilation, window_dilation: steps between elements of the operand, of a window.

    Places without an element (of padding, or between elements) are passed over.  The gradient of
    a maximum goes to the first of equal elements.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.reduce_window(jnp.arange(6.0), 0.0, lax.add, (2,), (2,)))
    [1. 5. 9.]
    """
    leaves, inits, structure, combine = reduced(
        "reduce_window", operand, init_value, computation, TypeError
    )
    shape = typeof(leaves[0]).shape
    how = _parameters(shape, window_dimensions, window_strides, padding, base_dilation,
                      window_dilation)  # fmt: skip
    out = _by_monoid(combine, leaves, inits, how)
    if out is None:
        out = _combine_places(combine, leaves, inits, how)
    return tree.unflatten(structure, out)


def _parameters(
    shape: Sequence[int],
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> tuple[Any, ...]:
    """The fields of a `WindowOp`, checked."""
    ones = (1,) * len(shape)
    given = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }
    numbers = {k: ones if v is None else tuple(map(operator.index, v)) for k, v in given.items()}
    for k, v in numbers.items():
        if len(v) != len(shape):
            raise TypeError(
                f"reduce_window: {k}={v} must have one entry for each axis of the operand, whose "
                f"shape is {tuple(shape)}"
            )
        if any(n < 1 for n in v):
            raise TypeError(f"reduce_window: {k} must be positive; got {v}")
    spread = [
        covered(w, d)
        for w, d in zip(numbers["window_dimensions"], numbers["window_dilation"], strict=True)
    ]
    pads = pads_of("reduce_window", padding, shape, spread, numbers["window_strides"])
    return (
        numbers["window_dimensions"], numbers["window_strides"], tuple(pads),
        numbers["base_dilation"], numbers["window_dilation"],
    )  # fmt: skip


def _by_monoid(
    combine: Callable[..., list[Any]], leaves: list[Any], inits: list[Any], how: tuple[Any, ...]
) -> list[Any] | None:
    """The reduction by one known operation, if `combine` is one, with this initial value."""
    name = lone_operation(combine, leaves, "reduce_window")
    dtype = typeof(leaves[0]).dtype
    if name not in _MONOIDS or (name in ("and", "or") and dtype != np.bool_):
        return None
    op = _MONOIDS[name](*how)
    if dtypes.kind_of(dtype) not in op.accepts:
        return None
    neutral = _is(inits[0], op.identity(dtype), dtype)
    out = op(leaves[0])
    return [out if neutral else ops.by_name(name)(out, _scalar(inits[0], dtype))]


def _scalar(init: Any, dtype: Any) -> Any:
    """An initial value as a scalar of the operand's dtype."""
    return np.asarray(init).astype(dtype)[()] if type(init) in (bool, int, float) else init


def _is(init: Any, identity: Any, dtype: Any) -> bool:
    """Whether a known initial value changes nothing."""
    if not is_concrete(init):
        return False
    value = np.asarray(as_numpy(init, typeof(init))).astype(dtype)
    return bool(value == np.asarray(identity).astype(dtype))


def _combine_places(
    combine: Callable[..., list[Any]], leaves: list[Any], inits: list[Any], how: tuple[Any, ...]
) -> list[Any]:
    """The initial value, combined with one place of the windows after the other."""
    op = ops.windows.ReduceWindowMax(*how)
    shape = op.out_shape(typeof(leaves[0]).shape)
    starts = [_scalar(v, typeof(x).dtype) for v, x in zip(inits, leaves, strict=True)]
    carry = [ops.shape.broadcast_to(as_array(v), shape) for v in starts]
    size = math.prod(shape)
    if not size:
        return carry
    padded = [op.padded(x, v) for x, v in zip(leaves, starts, strict=True)]
    if not op.is_plain:
        has = ops.shape.full(typeof(leaves[0]).shape, True, bool)
        padded.append(op.padded(has, np.False_))

    def together(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        flat = [[ops.shape.reshape(v, (size,)) for v in vs] for vs in (xs, ys[: len(xs)])]
        made = [ops.shape.reshape(v, shape) for v in vmap(combine)(*flat)]
        if op.is_plain:
            return made
        return [ops.pointwise.where(ys[-1], v, x) for v, x in zip(made, xs, strict=True)]

    if math.prod(op.window_dimensions) <= WRITTEN_OUT:
        for tap in op.taps:
            cuts = op.cut_at(tap, shape)
            carry = together(carry, [ops.windows.sliced(x, cuts) for x in padded])
        return carry
    return _looped(together, carry, padded, op, shape)


def _looped(
    together: Callable[..., list[Any]],
    carry: list[Any],
    padded: list[Any],
    op: Any,
    shape: tuple[int, ...],
) -> list[Any]:
    """As `_combine_places`: a loop over the places."""
    spreads, rank = op.window_dilation, len(shape)
    places = np.array(
        [[k * s for k, s in zip(tap, spreads, strict=True)] for tap in
         itertools.product(*map(range, op.window_dimensions))], np.int32,
    )  # fmt: skip
    sizes = tuple(covered(m, s) for m, s in zip(shape, op.window_strides, strict=True))
    n, m = len(padded), len(carry)

    def body(*args: Any) -> list[Any]:
        full, sofar, place = args[:n], args[n : n + m], args[n + m]
        starts = [ops.shape.reshape(ops.pieces.slice_along(place, 0, d, d + 1), ())
                  for d in range(rank)]  # fmt: skip
        pieces = [ops.slicing.dynamic_slice(x, starts, sizes) for x in full]
        cut = [ops.pieces.slice_(p, (0,) * rank, sizes, op.window_strides) for p in pieces]
        return together(sofar, cut)

    avals = [*map(typeof, padded), *(typeof(c).strong() for c in carry)]
    program = trace_to_jaxpr(body, [*avals, ShapedArray((rank,), np.int32)], "reduce_window")
    lifted = program.jaxpr.replace(
        constvars=[], invars=[*program.jaxpr.constvars, *program.jaxpr.invars]
    )
    held = [*program.consts, *padded]
    scan = ops.control.Scan(type(program)(lifted, []), len(places), False, len(held), m)
    return list(scan(*held, *carry, as_array(places)))
