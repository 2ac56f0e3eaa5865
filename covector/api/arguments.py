"""Arguments of user functions: pytrees to flat values and back, argument numbers, checks."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from covector import transforms, tree
from covector._base.containers import is_listed
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.tree_util import keystr


class Flat:
    """`fun` as a function of flat values; the structure of its result is kept in `out_tree`."""

    __slots__ = ("aux", "described", "fun", "has_aux", "in_tree", "out_tree")

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool = False) -> None:
        self.fun, self.in_tree, self.has_aux = fun, in_tree, has_aux
        self.out_tree: Any = None
        self.aux: Any = None
        #: If `fun` takes some arguments of another function: that, their numbers, and whether
        #: they come as one tuple; for messages.
        self.described: tuple[Callable[..., Any], Sequence[int], bool] | None = None

    @property
    def name(self) -> str:
        """The name of the user's function."""
        return name_of(self.fun if self.described is None else self.described[0])

    def label(self, number: int) -> str:
        """What a flat argument is called in messages."""
        args, kwargs = tree.unflatten(self.in_tree, range(self.in_tree.num_leaves))
        if self.described is None:
            label = argument_labels(self.fun, (args, kwargs))[number]
        else:
            fun, numbers, nested = self.described
            path: Any = tree.flatten_with_path(args[0] if nested else args)[0][number][0]
            label = _positional_name(fun, numbers[int(path[0].idx)]) + keystr(path[1:])
        return f"argument {label} of {self.name}"

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        result = self.fun(*args, **kwargs)
        if self.has_aux:
            result, aux = split_aux(result)
            self.aux = tree.map(_without_tangent, aux)
        outs, self.out_tree = tree.flatten(result)
        check_values(outs, result, f"the result of {name_of(self.fun)}")
        return outs


def _without_tangent(x: Any) -> Any:
    """Auxiliary data has no derivative: of what the derivative follows, the value."""
    return x.primal if type(x) is transforms.jvp.JVPTracer and x.owner is context.trace else x


def split_aux(result: Any) -> tuple[Any, Any]:
    """(value, aux) of a function used with has_aux=True."""
    if not is_listed(result) or len(result) != 2:
        raise TypeError(
            "with has_aux=True the function must return a pair (value, auxiliary data); "
            f"got {type(result).__name__}"
        )
    return result[0], result[1]


def name_of(fun: Any) -> str:
    """The name of a callable, for messages and programs."""
    name = getattr(fun, "__name__", None)
    if name is None and hasattr(fun, "func"):
        return name_of(fun.func)
    return name or type(fun).__name__


def check_values(leaves: Sequence[Any], whole: Any, what: str) -> None:
    """Refuse a leaf that is no array or scalar, naming where in `whole` it is."""
    for k, leaf in enumerate(leaves):
        try:
            typeof(leaf)
        except TypeError:
            path = keystr(tree.flatten_with_path(whole)[0][k][0])
            raise TypeError(
                f"{what}{f' at {path}' if path else ''} is {leaf!r} of type "
                f"{type(leaf)}, which is not a valid array type: wanted arrays or Python "
                f"scalars (in lists, tuples, dicts or registered pytrees)"
            ) from None


def check_callable(fun: Any, who: str) -> None:
    """Refuse what cannot be called."""
    if not callable(fun):
        raise TypeError(f"{who} wants a function; got {fun!r} of type {type(fun)}")


def as_argnums(argnums: Any, who: str) -> tuple[int, ...]:
    """`argnums` as a tuple of ints."""
    given = argnums if is_listed(argnums) else (argnums,)
    try:
        return tuple(operator.index(n) for n in given)
    except TypeError:
        raise TypeError(
            f"{who}: argnums must be an int or a sequence of ints; got {argnums!r}"
        ) from None


def select_arguments(
    fun: Callable[..., Any], argnums: Any, args: Sequence[Any], who: str
) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """(function of the arguments numbered `argnums` alone, these numbers from 0).

    TypeError where there is no such argument, ValueError where one is named twice.
    """
    numbers = as_argnums(argnums, who)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise TypeError(
                f"{who} of {name_of(fun)} with argnums={argnums} needs at least "
                f"{n + 1 if n >= 0 else -n} positional arguments; got {len(args)}"
            )
    numbers = tuple(n % len(args) for n in numbers)
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"{who}: argnums={argnums} names an argument twice")

    def partial(chosen: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        full = list(args)
        for n, x in zip(numbers, chosen, strict=True):
            full[n] = x
        return fun(*full, **kwargs)

    return partial, numbers


def flatten_axes(axes: Any, in_tree: Any, what: str) -> list[Any]:
    """One axis for each leaf of `in_tree`, from a prefix tree of ints and Nones."""
    dummy = tree.unflatten(in_tree, [object()] * in_tree.num_leaves)
    out: list[Any] = []

    def add(axis: Any, part: Any) -> None:
        out.extend([axis] * tree.structure(part).num_leaves)

    try:
        tree.map(add, axes, dummy, is_leaf=lambda x: x is None)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{what} must be an int, None, or a tree of them that is a prefix of the values it "
            f"applies to; got {axes!r} for the structure {in_tree}: {error}"
        ) from None
    return out


def signature_of(fun: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, if Python knows one."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def argument_labels(fun: Any, given: Any, static: Sequence[int] = ()) -> list[str]:
    """What to call each flat argument: "x", "params['w']", "args[2]".

    given: (args, kwargs) without the static arguments, whose places are `static`.
    """
    args, _ = given
    parameters = signature_of(fun)
    names = _positional_names(parameters) if parameters else []
    count: int = len(args) + len(static)
    places: list[int] = [n for n in range(count) if n not in static]
    labels: list[str] = []
    paths: list[Any] = [path for path, _ in tree.flatten_with_path(given)[0]]
    for path in paths:
        if path[0].idx == 0:
            place = places[int(path[1].idx)]
            base = names[place] if place < len(names) else f"args[{place}]"
        else:
            base = str(path[1].key)
        labels.append(base + keystr(path[2:]))
    return labels


def _positional_name(fun: Callable[..., Any], place: int) -> str:
    parameters = signature_of(fun)
    names = _positional_names(parameters) if parameters else []
    return names[place] if place < len(names) else f"args[{place}]"


def _positional_names(parameters: inspect.Signature) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters.parameters.values() if p.kind in kinds]


def avals_of(leaves: Sequence[Any]) -> tuple[ShapedArray, ...]:
    """The abstract values of flat values."""
    return tuple([typeof(x) for x in leaves])
