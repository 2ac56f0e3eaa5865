"""Collectives: what the examples of a named `vmap` axis, or devices, tell one another.

Tiled forms, and those over several axes, are made of primitives over one axis by reshaping.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.containers import is_listed
from covector._base.context import context
from covector.api.arguments import check_values
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.lax._slicing import dynamic_index_in_dim
from covector.ops.collective import AxisIndex, Groups, Pmax, Pmin, Psum, PVary
from covector.ops.collective_moves import (
    AllGather,
    AllToAll,
    PBroadcast,
    PPermute,
    ReduceScatter,
)
from covector.runtime.array import Array
from covector.trace.tracer import Tracer


def axis_size(axis_name: Any) -> int:
    """The size of a named axis, or the product of those of a tuple of names.

    Raises NameError, as all functions here, for a name that is not bound.

    >>> import covector as cv
    >>> cv.vmap(lambda x: x * cv.lax.axis_size('i'), axis_name='i')(cv.numpy.arange(3)).tolist()
    [0, 3, 6]
    """
    return _product(_sizes(_names(axis_name), "axis_size"))


def axis_index(axis_name: Any) -> Any:
    """The place of this example, or device, along a named axis: an int32 scalar.

    Of a tuple of names, the place in row-major order.

    >>> import covector as cv
    >>> cv.vmap(lambda x: cv.lax.axis_index('i'), axis_name='i')(cv.numpy.zeros(3)).tolist()
    [0, 1, 2]
    """
    names = _names(axis_name)
    index: Any = None
    for name, size in zip(names, _sizes(names, "axis_index"), strict=True):
        own = AxisIndex(name)()
        if index is not None:
            index = ops.pointwise.mul(index, np.int32(size))
        index = own if index is None else ops.pointwise.add(index, own)
    return as_array(np.int32(0)) if index is None else index


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over one or several named axes; booleans are counted.

    Args:
      x: a tree of arrays.  A constant number gives a number: `psum(1, name)` is the axis' size.
      axis_name: a name or a tuple of them (of positions, too: those axes of `x` are summed).
      axis_index_groups: a list of lists of indices that covers the axis: sums within each.

    Raises NameError for a name that is not bound, ValueError for groups that do not fit.

    >>> import covector as cv
    >>> cv.vmap(lambda x: x / cv.lax.psum(x, 'i'), axis_name='i')(cv.numpy.arange(5.)).tolist()
    [0.0, 0.10000000149011612, 0.20000000298023224, 0.30000001192092896, 0.4000000059604645]
    """
    return _reduce(Psum, _sum, "psum", x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over one or several named axes; integers give floats.  See `psum`.

    >>> import covector as cv
    >>> cv.vmap(lambda x: x - cv.lax.pmean(x, 'i'), axis_name='i')(cv.numpy.arange(3.)).tolist()
    [-1.0, 0.0, 1.0]
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)

    def divided(v: Any) -> Any:
        return _divided(v, count)

    return tree.map(divided, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest value of `x` over one or several named axes.  See `psum`.

    >>> import covector as cv
    >>> cv.vmap(lambda x: cv.lax.pmax(x, 'i'), axis_name='i')(cv.numpy.arange(3)).tolist()
    [2, 2, 2]
    """
    return _reduce(Pmax, ops.reduce.reduce_max, "pmax", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least value of `x` over one or several named axes.  See `psum`.

    >>> import covector as cv
    >>> cv.vmap(lambda x: cv.lax.pmin(x, 'i'), axis_name='i')(cv.numpy.arange(3)).tolist()
    [0, 0, 0]
    """
    return _reduce(Pmin, ops.reduce.reduce_min, "pmin", x, axis_name, axis_index_groups)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """`x` sent along a named axis, for each pair (source, destination) of `perm`.

    Who is no destination gets zeros.  Raises ValueError where a source or a destination comes
    twice or is out of range.

    >>> import covector as cv
    >>> shift = lambda x: cv.lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 0)])
    >>> cv.vmap(shift, axis_name='i')(cv.numpy.arange(3)).tolist()
    [2, 0, 1]
    """
    names = _names(axis_name)
    size = _product(_sizes(names, "ppermute"))
    pairs = tuple((operator.index(a), operator.index(b)) for a, b in perm)
    for what, places in zip(("sources", "destinations"), zip(*pairs, strict=True), strict=False):
        if len(set(places)) != len(places):
            raise ValueError(f"ppermute sources and destinations must be unique, got {pairs}")
        if not all(0 <= k < size for k in places):
            raise ValueError(
                f"ppermute: {what} must lie in range({size}), the size of axis {axis_name!r}; "
                f"got {pairs}"
            )
    if len(names) == 1:
        return _each("ppermute", PPermute(names[0], pairs), x)
    return _each("ppermute", lambda v: _permuted(v, names, size, pairs), x)


def _permuted(x: Any, names: Sequence[Any], size: int, pairs: Any) -> Any:
    """Over several axes: of all values the one that comes here."""
    origin = {to: source for source, to in pairs}
    sources = np.array([origin.get(k, size) for k in range(size)], np.int32)
    source = dynamic_index_in_dim(as_array(sources), axis_index(tuple(names)), keepdims=False)
    there = ops.pointwise.lt(source, np.int32(size))
    row = dynamic_index_in_dim(_gather(x, names, None, 0), source, keepdims=False)
    return ops.pointwise.where(there, row, ops.shape.zeros(typeof(x)))


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """`x` permuted along a named axis: what example k gets comes from example `perm[k]`.

    Raises ValueError where `perm` is no permutation.

    >>> import covector as cv
    >>> turn = lambda x: cv.lax.pshuffle(x, 'i', [2, 1, 0])
    >>> cv.vmap(turn, axis_name='i')(cv.numpy.arange(3)).tolist()
    [2, 1, 0]
    """
    if sorted(perm) != list(range(len(perm))):
        raise ValueError(f"pshuffle: `perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value of `x` at place `source` of a named axis, for all.

    >>> import covector as cv
    >>> cv.vmap(lambda x: cv.lax.pbroadcast(x, 'i', 2), axis_name='i')(cv.numpy.arange(3)).tolist()
    [2, 2, 2]
    """
    names = _names(axis_name)
    size = _product(_sizes(names, "pbroadcast"))
    source = operator.index(source)
    if not 0 <= source < size:
        raise ValueError(
            f"pbroadcast: source must lie in range({size}), the size of axis {axis_name!r}; "
            f"got {source}"
        )
    if len(names) == 1:
        return _each("pbroadcast", PBroadcast(names[0], source), x)

    def take(v: Any) -> Any:
        return dynamic_index_in_dim(_gather(v, names, None, 0), source, 0, False)

    return _each("pbroadcast", take, x)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """`x`, which from here on may differ along a named axis of `shard_map` (to='varying').

    The values stay; but a derivative by `x` that a device takes is its own then, not the sum over
    devices that it is by a value all of them share.
    """
    names = _names(axis_name)
    _sizes(names, "pcast")
    if to != "varying":
        raise ValueError(f"pcast: to must be 'varying'; got {to!r}")
    return _each("pcast", PVary(names, None), x)


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of `x` of all places of a named axis, for all.

    Args:
      x: a tree of arrays.
      axis: the place of the new axis; with `tiled`, the axis along which values are joined.
      axis_index_groups: equally long lists of indices that cover the axis: values of each group.

    >>> import covector as cv
    >>> total = lambda x: (cv.lax.all_gather(x, 'i') * cv.numpy.arange(3)).sum()
    >>> cv.vmap(total, axis_name='i')(cv.numpy.arange(3)).tolist()
    [5, 5, 5]
    """
    del to
    names, _, groups = _axis("all_gather", axis_name, axis_index_groups)

    def gather(v: Any) -> Any:
        ndim = typeof(v).ndim
        k = _place("all_gather: axis", axis, ndim + (not tiled))
        out = _gather(v, names, groups, k)
        return _merged(out, k) if tiled else out

    return _each("all_gather", gather, x)


def _gather(x: Any, names: Sequence[Any], groups: Groups | None, axis: int) -> Any:
    for k, name in enumerate(reversed(names)):
        (size,) = (len(groups[0]),) if groups else _sizes((name,), "all_gather")
        x = AllGather(name, size, groups, axis)(x)
        if k:
            x = _merged(x, axis)
    return x


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum of `x` over a named axis, of which place k gets the k-th slice.

    Args:
      x: a tree of arrays.
      scatter_dimension: the axis that is cut: of the named axis' size, and taken out; with
        `tiled`, a multiple of it, and divided.
      axis_index_groups: equally long lists of indices that cover the axis: sums within each.

    >>> import covector as cv
    >>> part = lambda x: cv.lax.psum_scatter(x, 'i')
    >>> cv.vmap(part, axis_name='i')(cv.numpy.arange(9).reshape(3, 3)).tolist()
    [9, 12, 15]
    """
    names, sizes, groups = _axis("psum_scatter", axis_name, axis_index_groups)

    def scatter(v: Any) -> Any:
        k = _place("psum_scatter: scatter_dimension", scatter_dimension, typeof(v).ndim)
        v = _cut("psum_scatter", v, k, sizes, axis_name, tiled)
        for name, size in zip(names, sizes, strict=True):
            v = ReduceScatter(name, size, groups, k)(v)
        return v

    return _each("psum_scatter", scatter, x, counts=True)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The k-th slice along `split_axis` goes to place k; slices that come are joined.

    Args:
      x: a tree of arrays.
      split_axis: the axis that is cut: of the named axis' size, and taken out; with `tiled`, a
        multiple of it, and divided.
      concat_axis: the place of the new axis, by source; with `tiled`, the axis that grows.
      axis_index_groups: equally long lists of indices that cover the axis.

    >>> import covector as cv
    >>> swap = lambda x: cv.lax.all_to_all(x, 'i', 0, 0)
    >>> cv.vmap(swap, axis_name='i')(cv.numpy.arange(4).reshape(2, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    names, sizes, groups = _axis("all_to_all", axis_name, axis_index_groups)

    def exchange(v: Any) -> Any:
        ndim = typeof(v).ndim
        split = _place("all_to_all: split_axis", split_axis, ndim)
        concat = _place("all_to_all: concat_axis", concat_axis, ndim)
        v = _cut("all_to_all", v, split, sizes, axis_name, tiled)
        for k in range(len(sizes)):
            v = ops.shape.move_axis(v, split + k, k)
        for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
            v = AllToAll(name, size, groups, k, k)(v)
        shape = typeof(v).shape[len(sizes) :]
        v = ops.shape.move_axis(ops.shape.reshape(v, (_product(sizes), *shape)), 0, concat)
        return _merged(v, concat) if tiled else v

    return _each("all_to_all", exchange, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """`x` with a named axis and the axis `axis`, of the same size, swapped.  See `all_to_all`.

    >>> import covector as cv
    >>> swap = lambda x: cv.lax.pswapaxes(x, 'i', 0)
    >>> cv.vmap(swap, axis_name='i')(cv.numpy.arange(4).reshape(2, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


# Axes by name


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if is_listed(axis_name) else (axis_name,)


def _sizes(names: Sequence[Any], who: str) -> list[int]:
    """The sizes of bound axes; NameError, with those that are, for another name."""
    bound = dict(context.trace.axes)
    for name in names:
        if name not in bound:
            here = ", ".join(f"{k!r} (of size {n})" for k, n in bound.items()) or "none"
            raise NameError(
                f"unbound axis name: {name}. {who} is over a named axis of vmap, pmap or "
                f"shard_map; the names bound here are: {here}"
            )
    return [bound[name] for name in names]


def _axis(who: str, axis_name: Any, groups: Any) -> tuple[tuple[Any, ...], list[int], Any]:
    """(names, sizes, groups): with groups the size is theirs, and one."""
    names = _names(axis_name)
    sizes = _sizes(names, who)
    if groups is None:
        return names, sizes, None
    found = _groups(who, names, sizes, groups)
    if len({len(g) for g in found}) != 1:
        raise ValueError(f"{who}: axis_index_groups must be of one size; got {groups}")
    return names, [len(found[0])], found


def _groups(who: str, names: Sequence[Any], sizes: Sequence[int], groups: Any) -> Groups:
    if len(names) != 1:
        raise ValueError(
            f"{who}: axis_index_groups are groups of the indices of one axis; got axes {names}"
        )
    found = tuple(tuple(operator.index(k) for k in group) for group in groups)
    if sorted(k for group in found for k in group) != list(range(sizes[0])):
        raise ValueError(
            f"{who}: axis_index_groups must cover the indices 0 to {sizes[0] - 1} of axis "
            f"{names[0]!r}, each once; got {groups}"
        )
    return found


# Leaves


def _each(who: str, fun: Callable[[Any], Any], x: Any, counts: bool = False) -> Any:
    check_values(tree.leaves(x), x, f"the argument of {who}")

    def one(v: Any) -> Any:
        return fun(_counted(as_array(v)) if counts else as_array(v))

    return tree.map(one, x)


def _counted(x: Any) -> Any:
    """Booleans as integers."""
    if typeof(x).dtype != np.bool_:
        return x
    return ops.cast.convert_element_type(as_array(x), dtypes.canonicalize_dtype(np.int64), False)


def _reduce(
    kind: Any, combine: Any, who: str, x: Any, axis_name: Any, axis_index_groups: Any
) -> Any:
    given = _names(axis_name)
    names = tuple(n for n in given if not isinstance(n, int))
    positions = [n for n in given if isinstance(n, int)]
    sizes = _sizes(names, who)
    groups = None
    if axis_index_groups is not None:
        groups = _groups(who, given, sizes, axis_index_groups)
    each = len(groups[0]) if groups else _product(sizes)
    even = groups is None or all(len(g) == each for g in groups)

    def reduce(v: Any) -> Any:
        if kind is Psum:
            if not positions and even and _is_number(v):
                return v * each
            v = _counted(v)
        if positions:
            ndim = typeof(v).ndim
            v = combine(as_array(v), [_place(f"{who}: axis", p, ndim) for p in positions])
        v = as_array(v)
        return kind(names, groups)(v) if names else v

    check_values(tree.leaves(x), x, f"the argument of {who}")
    return tree.map(reduce, x)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic)) and not isinstance(x, (bool, np.bool_))


def _sum(x: Any, axes: Sequence[int]) -> Any:
    return ops.reduce.reduce_sum(x, axes)


def _divided(total: Any, count: Any) -> Any:
    if not isinstance(total, (Array, Tracer)):
        return total / count
    dtype = typeof(total).dtype
    if not dtypes.issubdtype(dtype, np.inexact):
        dtype = dtypes.canonicalize_dtype(np.float64)
        total = ops.cast.convert_element_type(total, dtype, False)
    if isinstance(count, int):
        count = np.asarray(count, dtype)[()]
    else:
        count = ops.cast.convert_element_type(count, dtype, False)
    return ops.pointwise.div(total, count)


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _place(what: str, axis: int, ndim: int) -> int:
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"{what} {axis} is out of bounds for an array of dimension {ndim}")
    return axis % ndim


def _merged(x: Any, axis: int) -> Any:
    """`x` with axes `axis` and `axis + 1` as one."""
    shape = typeof(x).shape
    joined = shape[axis] * shape[axis + 1]
    return ops.shape.reshape(x, (*shape[:axis], joined, *shape[axis + 2 :]))


def _cut(who: str, x: Any, axis: int, sizes: Sequence[int], name: Any, tiled: bool) -> Any:
    """`x` with an axis as several, of `sizes`; with `tiled`, and one more, of what is left."""
    shape = typeof(x).shape
    size = _product(sizes)
    wanted = "a multiple of" if tiled else "equal to"
    if shape[axis] % size if tiled else shape[axis] != size:
        raise ValueError(
            f"{who}: the size of axis {axis} of the argument, {shape[axis]}, must be {wanted} "
            f"that of the named axis {name!r} (or of its groups), {size}"
        )
    rest = (shape[axis] // size,) if tiled else ()
    return ops.shape.reshape(x, (*shape[:axis], *sizes, *rest, *shape[axis + 1 :]))
