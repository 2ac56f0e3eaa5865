"""`vmap`, as users call it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from covector import tree
from covector._base.boundary import api_boundary
from covector._base.containers import is_listed
from covector.api.arguments import Flat, check_callable, check_values, flatten_axes, name_of
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.trace.cache import node_types, shared
from covector.trace.stage import trace_to_jaxpr
from covector.transforms.tools import tools
from covector.transforms.vmap import batch_flat, batch_in_chunks, place_axis
from covector.tree_util import keystr


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
    *,
    chunk: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `fun` over axes of its arguments.

    Args:
      fun: the function of one example.
      in_axes: which axis of each argument is the batch: an int, None (the argument is the same
        for all examples), or a tuple with one entry, possibly a tree, for each argument.
      out_axes: where the batch axis goes in the results: an int, None (the result must not depend
        on the example) or a tree of them.
      axis_name: the name of the axis, for collectives.
      axis_size: the size of the batch, where no argument tells it.
      spmd_axis_name, sum_match: how the batch is spread over devices; values do not depend on them.
      chunk: how many examples are computed at a time, so that memory is bounded (Covector's own).

    Keyword arguments are mapped along axis 0.  Raises ValueError where sizes or axes do not fit,
    or where a result depends on the example and its out_axes is None.

    >>> import covector as cv
    >>> cv.vmap(lambda x: x * x)(cv.numpy.arange(3)).tolist()
    [0, 1, 4]
    >>> cv.vmap(lambda x: x * x, chunk=2)(cv.numpy.arange(5)).tolist()
    [0, 1, 4, 9, 16]
    """
    check_callable(fun, "vmap")
    del spmd_axis_name, sum_match
    chunk = check_chunk(chunk, "vmap")
    if chunk is not None and axis_name is not None:
        raise ValueError(
            f"vmap: chunk={chunk} cannot be combined with axis_name={axis_name!r}: a collective "
            "needs all examples at a time"
        )
    if is_listed(in_axes):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, (int, tuple, type(None))):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments; got {in_axes!r}"
        )
    check_axes(in_axes, "in_axes", "vmap")
    check_axes(out_axes, "out_axes", "vmap")

    @api_boundary
    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if is_listed(in_axes) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got {len(in_axes)=}, "
                f"{len(args)=} for {name_of(fun)}"
            )
        leaves, in_tree = tree.flatten((args, kwargs))
        check_values(leaves, (args, kwargs), f"an argument of vmap of {name_of(fun)}")
        dims = flatten_axes((in_axes, 0), in_tree, "vmap in_axes")
        dims = [canonical_axis(d, x, fun, "vmap") for d, x in zip(dims, leaves, strict=True)]
        size = batch_size(leaves, dims, axis_size, (args, kwargs), fun, "vmap")
        flat = Flat(fun, in_tree)
        if chunk is None:
            outs, out_dims = batch_flat(flat, leaves, dims, size, tools, axis_name)
        else:
            outs, out_dims = chunked(flat, leaves, dims, size, chunk)
        wanted = flatten_axes(out_axes, flat.out_tree, "vmap out_axes")
        placed = [
            _place(x, d, w, size, fun) for x, d, w in zip(outs, out_dims, wanted, strict=True)
        ]
        return tree.unflatten(flat.out_tree, placed)

    return mapped


def check_chunk(chunk: Any, who: str) -> int | None:
    """`chunk` as a positive integer, or None."""
    if chunk is None:
        return None
    if isinstance(chunk, bool) or not hasattr(chunk, "__index__") or operator.index(chunk) < 1:
        raise ValueError(f"{who}: chunk must be a positive integer or None; got {chunk!r}")
    return operator.index(chunk)


def chunked(
    flat: Flat, args: Sequence[Any], dims: Sequence[int | None], size: int, chunk: int
) -> tuple[list[Any], list[int | None]]:
    """As `batch_flat`, `chunk` examples at a time.  A block is traced once for equal functions."""

    def trace(block: Callable[..., Any], avals: Sequence[ShapedArray]) -> Any:
        def now() -> tuple[ClosedJaxpr, Any]:
            varies: list[bool] = []

            def outs(*values: Any) -> list[Any]:
                found, varies[:] = block(*values)
                return found

            program = trace_to_jaxpr(outs, avals, name_of(flat.fun))
            return program, (varies, flat.out_tree)

        key = ("chunk", flat.in_tree, tuple(avals), tuple(dims), chunk)
        program, (varies, flat.out_tree) = shared(
            flat.fun, key, now, degrade=True, also=node_types(flat.in_tree)
        )
        return program, varies

    return batch_in_chunks(flat, args, dims, size, chunk, tools, trace)


def check_axes(axes: Any, what: str, who: str) -> None:
    """Refuse what is no tree of ints and Nones."""
    for leaf in tree.leaves(axes):
        if isinstance(leaf, bool) or not isinstance(leaf, int):
            raise TypeError(
                f"{who} {what} must be an int, None, or a tree of them; got {axes!r} with the "
                f"leaf {leaf!r}"
            )


def canonical_axis(dim: int | None, x: Any, fun: Any, who: str) -> int | None:
    """The axis of `x`, counted from 0; ValueError if there is none."""
    if dim is None:
        return None
    shape = typeof(x).shape
    if not -len(shape) <= dim < len(shape):
        raise ValueError(
            f"{who} of {name_of(fun)} was requested to map its argument along axis {dim}, which "
            f"implies that its rank should be at least {dim + 1 if dim >= 0 else -dim}, but is "
            f"only {len(shape)} (its shape is {shape})"
        )
    return dim % len(shape)


def batch_size(
    leaves: list[Any], dims: list[int | None], axis_size: int | None, whole: Any, fun: Any, who: str
) -> int:
    """The one size of all mapped axes; ValueError where there are several, or none."""
    sizes = [None if d is None else typeof(x).shape[d] for x, d in zip(leaves, dims, strict=True)]
    found = {s for s in sizes if s is not None}
    if axis_size is not None:
        found.add(axis_size)
    if not found:
        raise ValueError(
            f"{who} of {name_of(fun)} must have at least one non-None value in in_axes, or "
            "axis_size given: nothing tells the size of the batch"
        )
    if len(found) == 1:
        return found.pop()
    paths = [keystr(path) for path, _ in tree.flatten_with_path(whole)[0]]
    told = [
        f"{p} has size {s} along axis {d}"
        for p, s, d in zip(paths, sizes, dims, strict=True)
        if s is not None
    ]
    given = [] if axis_size is None else [f"axis_size={axis_size}"]
    raise ValueError(
        f"{who} of {name_of(fun)} got inconsistent sizes for array axes to be mapped: "
        + "; ".join([*told, *given])
    )


def _place(x: Any, dim: int | None, wanted: int | None, size: int, fun: Any) -> Any:
    if wanted is None:
        if dim is not None:
            raise ValueError(
                f"vmap of {name_of(fun)} has mapped output but out_axes is None: the result "
                "depends on the example"
            )
        return as_array(x)
    rank = typeof(x).ndim - (dim is not None) + 1
    if not -rank <= wanted < rank:
        raise ValueError(
            f"vmap of {name_of(fun)}: out_axes={wanted} is out of bounds for a batched result of "
            f"rank {rank}"
        )
    return as_array(place_axis(x, dim, wanted % rank, size))
