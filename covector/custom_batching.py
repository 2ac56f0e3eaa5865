"""`covector.custom_batching`: functions with a batching rule of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from covector import lax, tree
from covector._base.boundary import api_boundary
from covector.api.arguments import (
    Flat,
    avals_of,
    check_callable,
    check_values,
    flatten_axes,
    name_of,
    signature_of,
)
from covector.api.arrays import as_array
from covector.ops.custom_vmap import CustomVmapCall
from covector.trace.stage import trace_to_jaxpr

__all__ = ["custom_vmap", "sequential_vmap"]


class custom_vmap:
    """A function whose `vmap` is what a rule says.

    The rule, set by `def_vmap`, takes the size of the batch, a tuple that tells for each argument
    (a tree of booleans if the argument is a tree) whether it is batched, along its first axis, and
    the arguments; it returns the results, batched along their first axes, and a tree of booleans
    that tells which of them are.

    >>> import covector as cv
    >>> @cv.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def f_vmap_rule(axis_size, in_batched, xs, y):
    ...     return xs * y, True
    >>> cv.vmap(f, (0, None))(cv.numpy.arange(3), 10).tolist()
    [0, 10, 20]
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun, "custom_vmap")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; usable as a decorator."""
        check_callable(vmap_rule, "def_vmap")
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, where nothing batches it.  AttributeError if it has no rule."""
        name = name_of(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap"
            )
        args = _positional(self.fun, args, kwargs)
        leaves, in_tree = tree.flatten((args, {}))
        check_values(leaves, args, f"an argument of {name}")
        flat = Flat(self.fun, in_tree)
        program = trace_to_jaxpr(flat, avals_of(leaves), name)
        body = program.jaxpr
        lifted = program if not body.constvars else type(program)(
            body.replace(constvars=[], invars=[*body.constvars, *body.invars])
        )  # fmt: skip
        rule = _flat_rule(self.vmap_rule, in_tree, flat.out_tree, name)
        call = CustomVmapCall(lifted, name, rule, len(body.constvars))
        return tree.unflatten(flat.out_tree, call(*program.consts, *leaves))


def _positional(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by position, as the rule takes them."""
    signature = signature_of(fun)
    if signature is None:
        if kwargs:
            raise TypeError(f"custom_vmap of {name_of(fun)} takes no arguments by name")
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"custom_vmap of {name_of(fun)} takes arguments by position; "
            f"{sorted(bound.kwargs)} can be given by name alone"
        )
    return bound.args


def _flat_rule(rule: Callable[..., Any], in_tree: Any, out_tree: Any, name: str) -> Any:
    """The user's rule, of flat values."""

    def flat(
        size: int, batched: Sequence[bool], values: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        flags, _ = tree.unflatten(in_tree, list(batched))
        args, _ = tree.unflatten(in_tree, list(values))
        result = rule(size, tuple(flags), *args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(
                f"custom_vmap of {name}: the rule must return a pair (results, which of them are "
                f"batched); got {type(result).__name__}"
            )
        outs, out_batched = result
        leaves, found = tree.flatten(outs)
        if found != out_tree:
            raise ValueError(
                f"custom_vmap of {name}: the rule's results must have the structure of the "
                f"function's, {out_tree}; got {found}"
            )
        out_flags = flatten_axes(out_batched, out_tree, f"custom_vmap of {name}: out_batched")
        return [as_array(x) for x in leaves], [bool(b) for b in out_flags]

    return flat


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """`f`, whose vmap is a loop over the examples (`lax.map`), one at a time.

    >>> import covector as cv
    >>> f = cv.custom_batching.sequential_vmap(lambda x: x + 1)
    >>> cv.vmap(f)(cv.numpy.arange(3)).tolist()
    [1, 2, 3]
    """
    mapped = custom_vmap(f)

    def rule(size: int, batched: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        del size
        flags, structure = tree.flatten(tuple(batched))
        leaves = tree.leaves(args)
        moving = [x for x, b in zip(leaves, flags, strict=True) if b]

        def one(rows: Sequence[Any]) -> Any:
            rest = iter(rows)
            full = [next(rest) if b else x for x, b in zip(leaves, flags, strict=True)]
            return f(*tree.unflatten(structure, full))

        outs = lax.map(one, moving)
        return outs, tree.map(lambda _: True, outs)

    mapped.def_vmap(rule)
    return mapped
