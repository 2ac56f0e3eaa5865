"""Reductions, running reductions, sorting."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from covector import ops, tree
from covector._base.containers import is_listed
from covector.api.vectorize import vmap
from covector.ir.avals import ShapedArray
from covector.ir.op import Op
from covector.ir.values import typeof
from covector.lax._arguments import as_array, axis_in, user_dtype
from covector.lax._computation import lone_operation, reduced

_REDUCTION = """{what} over `axes`, which the result lacks.

    `operand`: {accepts}; the result has its dtype.  ValueError for axes that are negative, too
    large or repeated.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.{name}(jnp.array({example}), (1,)))
    {result}
    """


def _reduction(name: str, function: Any, accepts: str, what: str, example: str, result: str) -> Any:
    def reduction(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
        axes = tuple(map(operator.index, axes))
        return as_array(function(operand, axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__module__ = "covector.lax"
    reduction.__doc__ = _REDUCTION.format(
        name=name, what=what, accepts=accepts, example=example, result=result
    )
    return reduction


_NUMBER = "integer, floating point or complex"
_BITS = "boolean or integer"
reduce_sum = _reduction(
    "reduce_sum", ops.reduce.reduce_sum, _NUMBER, "The sum", "[[1, 2], [3, 4]]", "[3 7]"
)
reduce_prod = _reduction(
    "reduce_prod", ops.reduce.reduce_prod, _NUMBER, "The product", "[[1, 2], [3, 4]]", "[ 2 12]"
)
reduce_max = _reduction(
    "reduce_max",
    ops.reduce.reduce_max,
    "of any dtype",
    "The greatest element (NaN wins; the least number if there is none)",
    "[[1, 2], [3, 4]]",
    "[2 4]",
)
reduce_min = _reduction(
    "reduce_min",
    ops.reduce.reduce_min,
    "of any dtype",
    "The least element (NaN wins; the greatest number if there is none)",
    "[[1, 2], [3, 4]]",
    "[1 3]",
)
reduce_and = _reduction(
    "reduce_and",
    ops.reduce.reduce_and,
    _BITS,
    "The bits set in all",
    "[[True, False], [True, True]]",
    "[False  True]",
)
reduce_or = _reduction(
    "reduce_or",
    ops.reduce.reduce_or,
    _BITS,
    "The bits set in any",
    "[[True, False], [False, False]]",
    "[ True False]",
)
reduce_xor = _reduction(
    "reduce_xor",
    ops.reduce.reduce_xor,
    _BITS,
    "The bits set in an odd number",
    "[[True, False], [True, True]]",
    "[ True False]",
)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the greatest element along `axis`: the first of several; NaN is greatest.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.argmax(jnp.array([1.0, 3.0, 2.0]), 0, "int32"))
    1
    """
    return ops.reduce.argmax(operand, *_arg("argmax", operand, axis, index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the least element along `axis`: the first of several; NaN is least.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.argmin(jnp.array([1.0, 3.0, 2.0]), 0, "int32"))
    0
    """
    return ops.reduce.argmin(operand, *_arg("argmin", operand, axis, index_dtype))


def _arg(name: str, operand: Any, axis: Any, index_dtype: Any) -> tuple[int, Any]:
    axis, shape = operator.index(axis), typeof(operand).shape
    if not 0 <= axis < len(shape):
        raise ValueError(f"{name}: invalid axis {axis} for operand shape {shape}")
    return axis, user_dtype(index_dtype, name)


# Any combination

#: What a monoid's two-argument operation is called when it reduces.
_MONOIDS = {
    "add": "reduce_sum",
    "mul": "reduce_prod",
    "max": "reduce_max",
    "min": "reduce_min",
    "and": "reduce_and",
    "or": "reduce_or",
    "xor": "reduce_xor",
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """The elements along `dimensions` combined by `computation`, an associative function.

    `operands`: a tree of arrays of one shape; `init_values`: a like tree of scalars, of the same
    dtypes, combined too.  `computation(x, y)` takes and gives such trees of scalars; in which
    order and grouping elements are combined is not specified.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.reduce(jnp.array([[1, 2], [3, 4]]), 0, lax.add, (1,)))
    [3 7]
    """
    leaves, inits, structure, combine = reduced(
        "reduce", operands, init_values, computation, ValueError
    )
    dimensions = tuple(map(operator.index, dimensions))
    shape = typeof(leaves[0]).shape
    kept = ops.reduce.ReduceMax(dimensions).result(ShapedArray(shape, bool)).shape
    if not dimensions:  # nothing to combine
        return tree.unflatten(structure, [as_array(x) for x in leaves])
    monoid = lone_operation(combine, leaves, "reduce")
    if monoid in _MONOIDS:
        total = getattr(ops.reduce, _MONOIDS[monoid])(leaves[0], dimensions)
        changes = not _is_identity(monoid, inits[0], typeof(total).dtype)
        out = [ops.by_name(monoid)(total, inits[0]) if changes else as_array(total)]
    else:
        rows = [_rows(x, kept, dimensions) for x in leaves]
        out = _combine_rows(combine, rows, inits, kept)
    return tree.unflatten(structure, out)


def _is_identity(monoid: str, init: Any, dtype: Any) -> bool:
    """Whether the start value is a Python number that changes nothing."""
    if type(init) not in (bool, int, float):
        return False
    reduction: Any = Op.registry[_MONOIDS[monoid]](())
    return bool(init == reduction.identity(dtype))


def _rows(x: Any, kept: Sequence[int], dimensions: Sequence[int]) -> Any:
    """`x` as a matrix: the axes to reduce, and the others."""
    ndim = typeof(x).ndim
    rest = [d for d in range(ndim) if d not in dimensions]
    columns = 1
    for n in kept:
        columns *= n
    moved = ops.shape.transpose(x, (*dimensions, *rest))
    rows = typeof(x).size // columns if columns else 0
    return ops.shape.reshape(moved, (rows, columns))


def _combine_rows(
    combine: Callable[..., list[Any]], rows: list[Any], inits: Sequence[Any], kept: Sequence[int]
) -> list[Any]:
    """Combine in a balanced tree: halves, until one row is left; then with the initial values."""
    columns = typeof(rows[0]).shape[1]

    def together(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        n = typeof(xs[0]).shape[0]
        flat = [[ops.shape.reshape(v, (n * columns,)) for v in vs] for vs in (xs, ys)]
        return [ops.shape.reshape(v, (n, columns)) for v in vmap(combine)(*flat)]

    start = [ops.shape.broadcast_to(as_array(v), (1, columns)) for v in inits]
    n = typeof(rows[0]).shape[0]
    while n > 1:
        half = n // 2
        low, high, rest = (
            [ops.shape.slice_along(x, 0, a, b) for x in rows]
            for a, b in ((0, half), (half, 2 * half), (2 * half, n))
        )
        rows = together(low, high)
        if n % 2:
            rows = [ops.shape.concatenate(pair, 0) for pair in zip(rows, rest, strict=True)]
        n -= half
    out = together(start, rows) if n else start
    return [ops.shape.reshape(x, kept) for x in out]


# Running reductions

_RUNNING = """{what} up to each element along `axis` (from the end, if `reverse`).

    `operand`: {accepts}; the result has its shape and dtype.  ValueError for an axis that is
    negative or too large.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.{name}(jnp.array({example})))
    {result}
    """


def _running(name: str, function: Any, accepts: str, what: str, example: str, result: str) -> Any:
    def running(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        shape = typeof(operand).shape
        if not 0 <= operator.index(axis) < len(shape):
            raise ValueError(f"{name}: axis {axis} is out of bounds for array of shape {shape}")
        return function(operand, operator.index(axis), bool(reverse))

    running.__name__ = running.__qualname__ = name
    running.__module__ = "covector.lax"
    running.__doc__ = _RUNNING.format(
        name=name, what=what, accepts=accepts, example=example, result=result
    )
    return running


cumsum = _running("cumsum", ops.cumulative.cumsum, _NUMBER, "The sum", "[1, 2, 3]", "[1 3 6]")
cumprod = _running(
    "cumprod", ops.cumulative.cumprod, _NUMBER, "The product", "[1, 2, 3]", "[1 2 6]"
)
cummax = _running("cummax", ops.cumulative.cummax, _NUMBER, "The maximum", "[2, 1, 3]", "[2 2 3]")
cummin = _running("cummin", ops.cumulative.cummin, _NUMBER, "The minimum", "[2, 1, 3]", "[2 1 1]")
cumlogsumexp = _running(
    "cumlogsumexp",
    ops.cumulative.cumlogsumexp,
    "floating point or complex",
    "log of the sum of exp",
    "[0.0, -float('inf')]",
    "[0. 0.]",
)


# Sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """`operand` in increasing order along `dimension`: -0 equals +0, NaN comes last.

    `operand`: an array, or a sequence of arrays of one shape, which are reordered together: by
    the first, where equal by the second, …, of the first `num_keys`.  Always stable.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.sort(jnp.array([3, 1, 2])))
    [1 2 3]
    """
    several = is_listed(operand)
    operands: list[Any] = list(operand) if is_listed(operand) else [operand]
    if not operands:
        raise TypeError("sort requires at least one operand")
    avals = [typeof(x) for x in operands]
    if any(a.shape != avals[0].shape for a in avals):
        raise TypeError(f"sort: operands must have equal shapes; got {[a.shape for a in avals]}")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(operands)}")
    dimension = axis_in(dimension, avals[0].ndim)
    out = ops.sort.sort(operands, dimension, bool(is_stable), num_keys)
    return tuple(out) if several else out[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """`keys` in increasing order along `dimension`, and `values` reordered like them.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([0, 1, 2])))
    [1 2 3] [1 2 0]
    """
    return sort((keys, values), dimension, is_stable)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The `k` greatest elements along `axis`, from the greatest, and their indices (int32).

    Of equal elements the first comes first; NaN is greatest.  ValueError if there are not so many.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.top_k(jnp.array([3.0, 1.0, 2.0]), 2))
    [3. 2.] [0 2]
    """
    shape, k = typeof(operand).shape, operator.index(k)
    axis = axis_in(axis, len(shape))
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    if k > shape[axis]:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got k={k} with "
            f"shape={shape} and axis={axis}"
        )
    return list(ops.sort.top_k(operand, k, axis))


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """As `top_k`: the result here is exact, which any `recall_target` allows.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.approx_max_k(jnp.array([3.0, 1.0, 2.0]), 2))
    [3. 2.] [0 2]
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The `k` least elements, from the least, and their indices; exact.

    >>> from covector import lax, numpy as jnp
    >>> print(*lax.approx_min_k(jnp.array([3.0, 1.0, 2.0]), 2))
    [1. 2.] [1 2]
    """
    values, indices = top_k(ops.pointwise.neg(operand), k, axis=reduction_dimension)
    return [ops.pointwise.neg(values), indices]
