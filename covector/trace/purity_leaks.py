"""Leaked tracers: where one is kept, for the message of its first use; a search when asked for."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from covector._base import errors
from covector._base.source import is_internal
from covector.trace.purity_objects import type_of

#: Containers around the tracer that are followed: a list in a dict in a list.
_DEPTH: Final = 3
_CONTAINERS: Final = (list, dict, set, tuple)


def kept_in(x: Any) -> str:
    """Where `x` is kept, as a sentence; empty if that is not found."""
    path = _path(x, _DEPTH, [x])
    return f"It was kept in {path}." if path else ""


def _path(x: Any, depth: int, seen: list[Any]) -> str:
    """The containers around `x` and what the outermost is called; empty if it has no name.

    A variable comes last: whoever touches the value has just given it one.
    """
    # No comprehensions: a variable of theirs would be found as a place of its own.
    holders: list[Any] = []
    variable = ""
    for holder in gc.get_referrers(x):
        if holder is seen or id(holder) in _ids(seen):
            continue
        holders.append(holder)
        name = _name(x, holder)
        if name and not _is_module(holder):
            return name
        variable = variable or name
    for holder in holders if depth else ():
        if isinstance(holder, _CONTAINERS) and not _is_module(holder):
            outer = _path(holder, depth - 1, [*seen, holder, holders])
            if outer:
                return f"a {type_of(holder).__name__}, {outer}"
    return variable or _local(x)


def _is_module(names: Any) -> bool:
    return isinstance(names, dict) and "__builtins__" in names


def _ids(objects: list[Any]) -> set[int]:
    return {id(x) for x in objects}


def _name(x: Any, holder: Any) -> str:
    """What `x` is called in a holder that has names for its parts."""
    if isinstance(holder, dict):
        names = cast("dict[Any, Any]", holder)
        if _is_module(names):
            return _said(f"the global `{{}}` of module {names.get('__name__')}", x, names)
        for owner in gc.get_referrers(holder):
            if getattr(owner, "__dict__", None) is holder:
                return _attribute(x, owner)
        return ""
    if isinstance(holder, types.CellType):
        return _variable(holder)
    return _attribute(x, holder)


def _attribute(x: Any, holder: Any) -> str:
    kind = type_of(holder)
    if kind.__module__.partition(".")[0] in ("covector", "builtins"):
        return ""
    return _said(f"the attribute `{{}}` of a {kind.__name__}", x, _attributes(holder))


def _attributes(holder: Any) -> dict[str, Any]:
    slots = {
        name: getattr(holder, name, None)
        for base in type(holder).__mro__
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    }
    return {**slots, **(getattr(holder, "__dict__", None) or {})}


def _said(text: str, x: Any, names: dict[Any, Any]) -> str:
    for name, value in names.items():
        if value is x and isinstance(name, str):
            return text.format(name)
    return ""


def _variable(cell: types.CellType) -> str:
    """The variable that a cell is for."""
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for fun in gc.get_referrers(closure):
                if isinstance(fun, types.FunctionType) and fun.__closure__ is closure:
                    name = fun.__code__.co_freevars[closure.index(cell)]
                    return f"the variable `{name}` that {fun.__qualname__} closes over"
    return ""


def _frames() -> Iterator[types.FrameType]:
    """The user's frames that are running."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not is_internal(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _local(x: Any) -> str:
    for frame in _frames():
        name = _said("the variable `{}` of " + frame.f_code.co_qualname, x, frame.f_locals)
        if name:
            return name
    return ""


def check_leaks(traces: Iterable[Any], tracer_type: type) -> None:
    """Raises UnexpectedTracerError if values of traces that ended are alive, saying where.

    A search of all objects: for the option `check_tracer_leaks`.
    """
    gc.collect()
    ended = {id(t) for t in traces}
    leaked = [x for x in gc.get_objects() if isinstance(x, tracer_type) and id(x.owner) in ended]
    places: list[str] = []
    for x in leaked[:8]:
        where = kept_in(x)
        if where:
            said = (f"a value of type {x.aval.str_short()}.", x.origin_message(), where)
            places.append(" ".join(filter(None, said)))
    if places:
        raise errors.UnexpectedTracerError(
            "Leaked tracers: a function returned, and left behind " + "; ".join(places) +
            " Return the values instead"
        )  # fmt: skip
