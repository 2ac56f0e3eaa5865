"""Gather and scatter: windows at places that an array of indices holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops
from covector.api.vectorize import vmap
from covector.ir.values import typeof
from covector.lax._arguments import integers
from covector.lax._control import while_loop
from covector.ops.gather import GatherDimensionNumbers, GatherScatterMode
from covector.ops.scatter import ScatterDimensionNumbers

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "index_take",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of `operand`, of `slice_sizes`, that start at the index vectors `start_indices`.

    The last axis of `start_indices` holds the components of an index vector; the result has its
    other axes, and, at `offset_dims`, those of a window.  `mode` says what a window that does not
    fit gives: 'clip' moves it inside, 'fill' puts `fill_value` (default: NaN, the least signed or
    the greatest unsigned integer, True) for all of it; None and 'promise_in_bounds': there is
    none.  TypeError for dimension numbers that do not fit.  Semantics: StableHLO `gather`.

    >>> from covector import lax, numpy as jnp
    >>> numbers = lax.GatherDimensionNumbers(
    ...     offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> x, indices = jnp.array([10, 20, 30]), jnp.array([[2], [0], [9]])
    >>> print(lax.gather(x, indices, numbers, (1,), mode="clip"))
    [30 10 30]
    """
    if mode is None:
        mode, fill_value = GatherScatterMode.PROMISE_IN_BOUNDS, None
    return ops.gather.gather(
        operand,
        start_indices,
        GatherDimensionNumbers(*map(integers, dimension_numbers)),
        integers(slice_sizes),
        mode,
        fill_value,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """The elements of `src` at `idxs[k]` (1-D, of one length) along each axis `axes[k]`.

    The result has a leading axis of that length, then the other axes of `src`.  Negative indices
    count from the end; those out of bounds are clipped.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.index_take(jnp.arange(6).reshape(2, 3), [jnp.array([2, 0])], (1,)))
    [[2 5]
     [0 3]]
    """
    shape, axes, point = typeof(src).shape, integers(axes), ops.pointwise
    columns: list[Any] = []
    for index, axis in zip(idxs, axes, strict=True):
        aval = typeof(index)
        zero, size = (ops.shape.full((), v, aval.dtype) for v in (0, shape[axis]))
        counted = point.select_n(point.lt(index, zero), index, point.add(index, size))
        columns.append(counted)
    window = [d for d in range(len(shape)) if d not in axes]
    numbers = GatherDimensionNumbers(
        tuple(range(1, len(window) + 1)), tuple(sorted(axes)), axes, (), ()
    )
    sizes = [1 if d in axes else n for d, n in enumerate(shape)]
    return gather(src, ops.shape.stack(columns, 1), numbers, sizes, mode="clip")


_SCATTER = """{what}

    The last axis of `scatter_indices` holds the components of an index vector: the place in
    `operand` where a window of `updates` begins.  `mode` says what happens to a window that does
    not fit: 'drop' (and None) leaves all of it out, 'clip' moves it inside,
    'promise_in_bounds': there is none.  {duplicates}  TypeError for dimension numbers, shapes or
    dtypes that do not fit.  Semantics: StableHLO `scatter`.

    >>> from covector import lax, numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers(
    ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> x, indices, updates = jnp.array([1, 2, 3]), jnp.array([[2], [0], [9]]), jnp.array([5, 6, 7])
    >>> print(lax.{name}(x, indices, updates, numbers))
    {result}
    """


def _scatter(name: str, kind: Any, what: str, duplicates: str, result: str) -> Any:
    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        return ops.scatter.scatter(
            operand,
            scatter_indices,
            updates,
            ScatterDimensionNumbers(*map(integers, dimension_numbers)),
            GatherScatterMode.from_any(mode),
            kind=kind,
            unique=unique_indices,
            is_sorted=indices_are_sorted,
        )

    function.__name__ = function.__qualname__ = name
    function.__module__ = "covector.lax"
    function.__doc__ = _SCATTER.format(name=name, what=what, duplicates=duplicates, result=result)
    return function


_ALL = "Updates that meet in one element are all combined, in C order."
scatter = _scatter(
    "scatter",
    ops.scatter.Scatter,
    "`operand` with windows replaced by `updates`.",
    "Of updates that meet in one element the last in C order stays.",
    "[6 2 5]",
)
scatter_add = _scatter(
    "scatter_add", ops.scatter.ScatterAdd, "`operand` plus windows of `updates`.", _ALL, "[7 2 8]"
)
scatter_sub = _scatter(
    "scatter_sub",
    ops.scatter.ScatterSub,
    "`operand` minus windows of `updates`.",
    _ALL,
    "[-5  2 -2]",
)
scatter_mul = _scatter(
    "scatter_mul",
    ops.scatter.ScatterMul,
    "`operand` times windows of `updates`.",
    _ALL,
    "[ 6  2 15]",
)
scatter_min = _scatter(
    "scatter_min",
    ops.scatter.ScatterMin,
    "The lesser of `operand` and windows of `updates`.",
    _ALL,
    "[1 2 3]",
)
scatter_max = _scatter(
    "scatter_max",
    ops.scatter.ScatterMax,
    "The greater of `operand` and windows of `updates`.",
    _ALL,
    "[6 2 5]",
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with `func`, a function of a scalar, applied to the elements in windows.

    `update_shape`: the shape that `updates` of a `scatter` with these indices would have.  An
    element that is in several windows has `func` applied as often.

    >>> from covector import lax, numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers(
    ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> x, indices = jnp.array([1, 2, 3]), jnp.array([[2], [2]])
    >>> print(lax.scatter_apply(x, indices, lambda v: 2 * v, numbers, update_shape=(2,)))
    [ 1  2 12]
    """
    how: dict[str, Any] = {"indices_are_sorted": indices_are_sorted, "mode": mode}
    ones = ops.shape.full(integers(update_shape), 1, "int32")
    blank = ops.shape.full(typeof(operand).shape, 0, "int32")
    counts = scatter_add(
        blank, scatter_indices, ones, dimension_numbers, unique_indices=unique_indices, **how
    )
    point, shape = ops.pointwise, typeof(operand).shape

    def once(k: Any, x: Any) -> Any:
        flat = vmap(func)(ops.shape.reshape(x, (typeof(x).size,)))
        applied = ops.shape.reshape(flat, shape)
        return point.select_n(point.lt(ops.shape.broadcast_to(k, shape), counts), x, applied)

    if unique_indices:
        return once(ops.shape.full((), 0, "int32"), operand)
    most = ops.reduce.reduce_max(counts, tuple(range(len(shape)))) if shape else counts

    def body(state: Any) -> Any:
        k, x = state
        return point.add(k, ops.shape.full((), 1, "int32")), once(k, x)

    start = (ops.shape.full((), 0, "int32"), operand)
    return while_loop(lambda state: point.lt(state[0], most), body, start)[1]
