"""The purity guard: notices what a traced function reads and changes beside its arguments.

A compiled function repeats what was traced.  A global that it read, an iterator that it consumed,
a list that it changed, a print: these happened once.  `Snapshot` remembers what was read, to be
compared at later calls; `observed` tells of what tracing changed.  Option `purity_guard`.
"""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import threading
import types
import warnings
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from covector._base.config import config
from covector._base.named_tuple import NamedTuple
from covector._base.source import is_internal, user_stacklevel
from covector.ir.values import typers
from covector.trace.purity_code import Place, code_of
from covector.trace.purity_objects import is_pure, type_of
from covector.trace.purity_state import Opaque, Walk
from covector.trace.tracer import Tracer


class PurityWarning(UserWarning):
    """A traced function depends on, or changes, state outside itself."""


class PurityError(RuntimeError):
    """A traced function depends on, or changes, state outside itself (`purity_guard="error"`)."""


for _class in (PurityWarning, PurityError):
    _class.__module__ = "covector.errors"  # tracebacks name the public door


def report(findings: Sequence[str], who: str) -> None:
    """Warns of what was found, or raises PurityError, as the option says."""
    if not findings:
        return
    message = "\n".join([f"{who} is not pure:", *(f"  {line}" for line in findings)])
    if config.purity_guard == "error":
        raise PurityError(message)
    warnings.warn(message, PurityWarning, stacklevel=user_stacklevel())


# What a function read.


class _Read(NamedTuple):
    place: Place
    code: types.CodeType
    shown: str
    pieces: tuple[Any, ...]
    keep: Sequence[Any]


class Snapshot:
    """What a function, and those it calls, read outside themselves when this was made."""

    __slots__ = ("_reads", "_root")

    def __init__(self, root: Any) -> None:
        self._root = root
        self._reads = _reads(root)

    def changes(self) -> list[str]:
        """What is otherwise now, a line each."""
        now = _reads(self._root)
        found: list[str] = []
        for key, old in self._reads.items():
            new = now.get(key)
            if new is None or new.pieces == old.pieces:
                continue
            if new.shown == old.shown:
                change = f"was another {old.shown} when traced"
            else:
                change = f"was {old.shown} when traced, is {new.shown} now"
            found.append(f"`{old.place}` {change}; {_line(old.code, old.place.line)}")
        return found


def _reads(root: Any) -> dict[Any, _Read]:
    found: dict[Any, _Read] = {}

    def read(place: Place, code: types.CodeType, value: Any) -> None:
        if not _is_library(value):
            pieces, keep = _pieces(value)
            found.setdefault((place[:3], id(code)), _Read(place, code, _shown(value), pieces, keep))

    _walk(root, read)
    return found


def _walk(root: Any, read: Any = None) -> Walk:
    walk = Walk(strict=False, read=read)
    # What fails on the way, an attribute that computes for one, is no reason to fail.
    with contextlib.suppress(Opaque, AttributeError, RecursionError):
        walk.root(root, False)
    return walk


def _pieces(value: Any) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """(what tells a value from others, what must live as long)."""
    walk = Walk(strict=False)
    if isinstance(value, types.FunctionType):
        walk.identity(value.__code__)  # what it reads is listed by itself
    elif isinstance(value, types.MethodType):
        walk.identity(value.__func__)
        walk.identity(value.__self__)
    else:
        with contextlib.suppress(Opaque):
            walk.value(value)
    return tuple(walk.key), walk.keep


def _is_library(value: Any) -> bool:
    """Whether a value is part of a library, which nobody changes."""
    if isinstance(value, types.ModuleType):
        return True
    return callable(value) and is_pure(getattr(value, "__module__", None))


def _shown(value: Any) -> str:
    if isinstance(value, Tracer) or (type(value) in typers and hasattr(value, "aval")):
        return f"{value.aval.str_short()} array"
    if isinstance(value, types.FunctionType):
        file = os.path.basename(value.__code__.co_filename)
        return f"the function {value.__name__} ({file}:{value.__code__.co_firstlineno})"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # anybody's __repr__
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(code: types.CodeType, line: int) -> str:
    """'line 3 of f (file.py:12)': counted from the function's own first line."""
    nth = max(line - code.co_firstlineno + 1, 1)
    name = code.co_qualname.rpartition("<locals>.")[2]
    return f"line {nth} of {name} ({os.path.basename(code.co_filename)}:{line})"


# What tracing changed.

#: Methods of containers that change them.
_CHANGING: Final = frozenset(
    ["append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
     "setdefault", "popitem", "add", "discard", "appendleft", "popleft", "extendleft",
     "difference_update", "intersection_update"]
)  # fmt: skip


class _Events(threading.local):
    """Calls that code of the user made while this thread observes; None: it does not."""

    def __init__(self) -> None:
        self.active = False
        self.reset()

    def reset(self) -> None:
        self.prints: dict[tuple[types.CodeType, int], None] = {}
        self.nexts: dict[types.CodeType, int] = {}
        self.changing: dict[int, tuple[types.CodeType, int, str]] = {}
        self.findings: dict[str, None] = {}

    def profile(self, frame: types.FrameType, event: str, called: Any) -> None:
        """What `sys.setprofile` calls."""
        if event != "c_call" or is_internal(frame.f_code.co_filename):
            return
        name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
        if isinstance(owner, types.ModuleType) and owner.__name__ == "builtins":
            if name == "print":
                self.prints[frame.f_code, frame.f_lineno] = None
            elif name == "next":
                self.nexts.setdefault(frame.f_code, frame.f_lineno)
        elif name in _CHANGING:
            self.changing.setdefault(id(owner), (frame.f_code, frame.f_lineno, name))


_events: Final = _Events()


class _Observed:
    """The state around a function before it is traced."""

    def __init__(self, root: Any) -> None:
        #: (place, code, value, what it consists of, how far it is if it is an iterator)
        self.before: list[tuple[Place, types.CodeType, Any, Any, Any]] = []

        def read(place: Place, code: types.CodeType, value: Any) -> None:
            if not _is_library(value) and not callable(value):
                content = None if _is_iterator(value) else _pieces(value)[0]
                self.before.append((place, code, value, content, _progress(value)))

        walk = _walk(root, read)
        #: (place that is set, code, its object, what is there)
        self.writes = [
            (place, code, target, _get(target, place))
            for code, place, target in _targets(walk.visited)
        ]

    def findings(self) -> list[str]:
        """What tracing did, a line each."""
        found = [
            f"`print` runs when the function is traced, not when it is called; debug.print runs "
            f"each time; {_line(code, line)}"
            for code, line in _events.prints
        ]
        told: set[int] = set()
        for place, code, value, content, progress in self.before:
            if id(value) in told:
                continue
            if _is_iterator(value):
                said = _advanced(place, code, value, progress)
            elif type(value) in _CONTAINERS and _pieces(value)[0] != content:
                said = _changed(place, code, value)
            else:
                continue
            if said:
                told.add(id(value))
                found.append(said)
        for place, code, target, old in self.writes:
            if _get(target, place) is not old:
                kind = "attribute" if place.attributes else _VARIABLES[place.kind]
                found.append(
                    f"the {kind} `{place}` was set while tracing, once; return the value "
                    f"instead; {_line(code, place.line)}"
                )
        return found


_CONTAINERS: Final = (list, dict, set)
_VARIABLES: Final = {"global": "global variable", "cell": "variable of an outer function"}


def _advanced(place: Place, code: types.CodeType, value: Any, progress: Any) -> str:
    if progress is not None and _progress(value) == progress:
        return ""
    line = _events.nexts.get(code, place.line)
    return (
        f"`{place}`, an iterator, was advanced while tracing: the compiled function repeats what "
        f"came out then; index an array, or pass the values as an argument; {_line(code, line)}"
    )


def _changed(place: Place, code: types.CodeType, value: Any) -> str:
    at = _events.changing.get(id(value)) or (*_item_line(place, code), "")
    by = f" by `{at[2]}`" if at[2] else ""
    return (
        f"`{place}`, a {type(value).__name__} from outside, was changed{by} while tracing, once; "
        f"return the values instead; {_line(*at[:2])}"
    )


def _item_line(place: Place, code: types.CodeType) -> tuple[types.CodeType, int]:
    for item in code_of(code).items:
        if item[:3] == place[:3]:
            return code, item.line
    return code, place.line


def _targets(
    visited: Sequence[tuple[types.FunctionType, Any]],
) -> Iterator[tuple[types.CodeType, Place, Any]]:
    """(code, place that it sets, the dictionary, cell or object that holds it)."""
    for fun, first in visited:
        code = fun.__code__
        cells = dict(zip(code.co_freevars, fun.__closure__ or (), strict=True))
        for place in code_of(code).writes:
            target: Any = fun.__globals__ if place.kind == "global" else cells.get(place.name)
            if place.attributes:
                root = first if place.kind == "argument" else _get(target, Place(*place[:2], (), 0))
                for name in place.attributes[:-1]:
                    root = getattr(root, name, None)
                target = root
            if target is not None:
                yield code, place, target


_NOTHING: Final = object()


def _get(target: Any, place: Place) -> Any:
    if place.attributes:
        return getattr(target, place.attributes[-1], _NOTHING)
    if type_of(target) is dict:
        return target.get(place.name, _NOTHING)
    try:
        return target.cell_contents
    except (AttributeError, ValueError):
        return _NOTHING


def _is_iterator(x: Any) -> bool:
    kind = type_of(x)
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__")


def _progress(x: Any) -> Any:
    """How far an iterator is; None if it does not tell."""
    if not _is_iterator(x):
        return None
    if isinstance(x, types.GeneratorType):
        return -1 if x.gi_frame is None else x.gi_frame.f_lasti
    left = operator.length_hint(x, -1)
    return None if left < 0 else left


@contextlib.contextmanager
def observed(root: Any, who: str) -> Generator[None]:
    """Reports what the function `root` changes while it is traced inside.

    Inside another observation, that one reports.
    """
    watch = _Observed(root)
    if _events.active:
        yield
        _events.findings.update(dict.fromkeys(watch.findings()))
        return
    _events.reset()
    _events.active = True
    old = sys.getprofile()
    if old is None:  # a profiler that runs is left alone; then lines are less exact
        sys.setprofile(_events.profile)
    try:
        yield
    finally:
        _events.active = False
        if old is None:
            sys.setprofile(None)
    report(list({**_events.findings, **dict.fromkeys(watch.findings())}), f"the function {who}")
