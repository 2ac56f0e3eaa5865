"""Static and donated arguments of `jit`: which they are, and what a call binds of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from covector import tree
from covector.api.arguments import as_argnums, name_of, signature_of


class Static:
    """Which arguments are static: known when tracing, part of the key, not traced."""

    __slots__ = ("names", "numbers")

    def __init__(self, fun: Callable[..., Any], argnums: Any, argnames: Any, what: str) -> None:
        numbers = () if argnums is None else as_argnums(argnums, f"jit: {what}_argnums")
        if argnames is None:
            names: tuple[str, ...] = ()
        elif isinstance(argnames, str):
            names = (argnames,)
        else:
            names = tuple(argnames)
        given: tuple[Any, ...] = names
        if not all(isinstance(n, str) for n in given):
            raise TypeError(f"jit: {what}_argnames must be str; got {argnames!r}")
        signature = signature_of(fun) if numbers or names else None
        if signature is not None:
            numbers, names = _complete(signature, numbers, names, argnums, argnames, fun, what)
        self.numbers, self.names = numbers, frozenset(names)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)

    @property
    def key(self) -> tuple[Any, ...]:
        """To compare it by."""
        return self.numbers, tuple(sorted(self.names))


def _complete(
    signature: inspect.Signature,
    numbers: tuple[int, ...],
    names: tuple[str, ...],
    argnums: Any,
    argnames: Any,
    fun: Any,
    what: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names refer to one another where only one of them is given."""
    kinds = inspect.Parameter
    params = list(signature.parameters.values())
    places = [p for p in params if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    star = any(p.kind is kinds.VAR_POSITIONAL for p in params)
    double = any(p.kind is kinds.VAR_KEYWORD for p in params)
    for n in numbers:
        if not star and not -len(places) <= n < len(places):
            raise ValueError(
                f"jit: {what}_argnums={argnums} is out of range: {name_of(fun)} takes "
                f"{len(places)} positional arguments"
            )
    known = {p.name for p in params}
    for name in names:
        if name not in known and not double:
            raise ValueError(
                f"jit: {what}_argnames={argnames!r} names {name!r}, which is no argument of "
                f"{name_of(fun)}{signature}"
            )
    numbers = tuple(n % len(places) if n < 0 and places else n for n in numbers)
    if argnames is None:
        usable = [p for p in places if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        names = tuple(p.name for k, p in enumerate(places) if k in numbers and p in usable)
    elif argnums is None:
        numbers = tuple(k for k, p in enumerate(places) if p.name in names)
    return numbers, names


def static_places(static: Static, args: Any, kwargs: Any) -> set[int | str]:
    """The static arguments of a call: positions and names."""
    places: set[int | str] = {n for n in static.numbers if n < len(args)}
    return places | {k for k in kwargs if k in static.names}


def donated_leaves(
    donated: Static, static: Static, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[int, ...]:
    """Numbers of the flat dynamic arguments of a call that are donated."""
    if not donated:
        return ()

    def marked(x: Any, mark: bool) -> Any:
        return tree.structure(x).unflatten([mark] * tree.structure(x).num_leaves)

    marks = tuple(
        marked(x, n in donated.numbers) for n, x in enumerate(args) if n not in static.numbers
    )
    named = {k: marked(x, k in donated.names) for k, x in kwargs.items() if k not in static.names}
    return tuple(n for n, mark in enumerate(tree.leaves((marks, named))) if mark)


def bind_static(
    fun: Callable[..., Any], static: Static, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], Any, Any]:
    """(function of the dynamic arguments, these, a hashable key of the static ones)."""
    fixed = [(n, args[n]) for n in static.numbers if n < len(args)]
    named = sorted((k, v) for k, v in kwargs.items() if k in static.names)
    for what, value in [*fixed, *named]:
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"jit of {name_of(fun)}: static argument {what!r} must be hashable, since it is "
                f"part of the key of the compiled function; got {value!r} of type {type(value)}. "
                f"Pass it as an ordinary argument, or as a hashable value such as a tuple"
            ) from None
    places = {n for n, _ in fixed}
    dynamic = tuple(x for n, x in enumerate(args) if n not in places)
    rest = {k: v for k, v in kwargs.items() if k not in static.names}

    def bound(*moving: Any, **options: Any) -> Any:
        given = iter(moving)
        full = [dict(fixed)[n] if n in places else next(given) for n in range(len(args))]
        return fun(*full, **options, **dict(named))

    functools.update_wrapper(bound, fun)
    key = (_typed(fixed), _typed(named))
    return bound, (dynamic, rest), (key, len(args))


def _typed(values: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
    """With their types: 1, 1.0 and True are equal, and not the same."""
    return tuple([(place, v.__class__, v) for place, v in values])
