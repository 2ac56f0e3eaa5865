"""The state that a function depends on beside its arguments, as a key that can be compared.

A walk over the function: its code, cells, defaults, every global and attribute that it reads, and
those of the functions it calls.  Two functions with equal keys trace to one program; arrays and
tracers enter by their types alone and are collected, since a program takes them as arguments.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from covector._base.digest import digest
from covector.ir.avals import ShapedArray
from covector.ir.values import typers
from covector.trace.purity_code import Place, code_of
from covector.trace.purity_objects import (
    DULL,
    EFFECTS,
    MISSING,
    MIXED,
    SLOTS,
    Same,
    Unset,
    content,
    fields_of,
    global_of,
    is_plain,
    is_public,
    is_pure,
    is_python,
    lookup,
    type_of,
)
from covector.trace.tracer import Tracer


class Opaque(Exception):
    """The function depends on a value that says nothing of itself: an iterator, a file, a lock."""


#: Values that a walk may meet; beyond that a function counts as opaque.
LIMIT: Final = 20_000
#: NumPy arrays of more bytes are not compared by their elements.
ELEMENTS: Final = 1 << 20

#: type -> what values of it consist of; None: it is known by its identity.
parts: Final[dict[type, Callable[[Any], tuple[Any, ...] | None]]] = {}


class Walk:
    """Makes the key of a function or value, piece by piece.

    key: the pieces.  leaves: arrays and tracers met, in order.  keep: objects whose identities are
    in the key.  same: the pieces that stand for one object.

    strict: raise `Opaque` for what cannot be told from its equals; else it counts by identity.
    read(place, code, value): called for every place that a function reads.
    """

    def __init__(
        self,
        *,
        strict: bool = True,
        read: Callable[[Place, types.CodeType, Any], None] | None = None,
        gone: Callable[[Same], None] | None = None,
    ) -> None:
        self.key: list[Any] = []
        self.leaves: list[Any] = []
        self.keep: list[Any] = []
        self.same: list[Same] = []
        self.strict, self.read, self.gone = strict, read, gone
        #: Functions that were looked into, with their first argument if that is known.
        self.visited: list[tuple[types.FunctionType, Any]] = []
        self._seen: dict[Any, int] = {}
        self._held: list[Any] = []  # what has a number, so that identities stay while walking

    # Values

    def value(self, x: Any) -> None:
        """Appends what tells `x` from values that are not equal to it."""
        kind = type_of(x)
        write = _WRITERS.get(kind)
        if write is not None:
            write(self, x)
            return
        if len(self.key) > LIMIT:
            raise Opaque("it depends on too much")
        if self._again(x):
            return
        if kind in typers or isinstance(x, (Tracer, np.generic)):
            self._leaf(x)
            return
        self._other(x, kind)

    def _again(self, x: Any) -> bool:
        """Whether `x` was met before; then its number stands for it."""
        known = self._seen.get(id(x))
        if known is None:
            self._seen[id(x)] = len(self._seen)
            self._held.append(x)
            return False
        self.key += ("again", known)
        return True

    def _leaf(self, x: Any) -> None:
        if issubclass(type(x), (np.ndarray, np.generic)):
            self._elements(x)
        elif not self.strict:
            self.identity(x)
        else:
            self.key += ("array", type(x), x.aval)
            self.leaves.append(x)

    def _elements(self, x: Any) -> None:
        kind = type_of(x)
        exact = kind is np.ndarray or issubclass(kind, np.generic)
        if not exact or x.dtype.hasobject or x.nbytes > ELEMENTS:
            self.opaque(x)
            return
        data = x.tobytes()
        short = data if len(data) <= 64 else digest(data).digest()
        self.key += (kind, x.dtype, x.shape, short)
        if kind is np.ndarray:
            self.leaves.append(x)

    def identity(self, x: Any) -> None:
        """Appends a piece that is equal for this very object only."""
        same = Same(x, self.gone)
        self.same.append(same)
        self.key.append(same)

    def opaque(self, x: Any) -> None:
        """`x` cannot be told from its equals."""
        if self.strict:
            raise Opaque(f"it depends on a {type(x).__name__}")
        self.identity(x)

    def _known(self, x: Any) -> None:
        """`x` by its identity; it lives as long as the key is used."""
        self.key.append(id(x))
        self.keep.append(x)

    def _other(self, x: Any, kind: Any) -> None:
        take_apart = parts.get(kind)
        if take_apart is not None:
            given = take_apart(x)
            self.key.append(kind)
            if given is None:
                self.identity(x)
            else:
                self.values(given)
        elif isinstance(x, type):
            self.cls(x)
        elif isinstance(x, np.dtype):
            self.key += (np.dtype, x)
        elif isinstance(x, np.ufunc) or is_public(x):
            self._known(x)
        elif isinstance(x, enum.Enum):
            self.cls(kind)
            self.key.append(x.name)
        elif isinstance(x, tuple) and hasattr(kind, "_fields"):
            self.cls(kind)
            self.values(x)
        elif is_pure(kind.__module__) and kind.__hash__ not in (None, object.__hash__):
            self.key += (kind, x)  # a value of ours: a tree's structure, an operation
        elif is_plain(kind):
            self.cls(kind)
            for name, field in fields_of(x):
                self.key.append(name)
                self.value(field)
        else:
            self.opaque(x)

    def values(self, xs: Any) -> None:
        """Several values, and how many."""
        self.key.append(len(xs))
        for x in xs:
            self.value(x)

    def cls(self, x: type) -> None:
        """A class: itself, and what the functions in it depend on."""
        self._known(x)
        for base in x.__mro__:
            if is_pure(base.__module__) or not is_python(base) or ("class", base) in self._seen:
                continue
            self._seen["class", base] = len(self._seen)
            for name, member in tuple(vars(base).items()):
                if name not in DULL and not isinstance(member, SLOTS):
                    self._member(member)

    def _member(self, x: Any) -> None:
        if issubclass(type(x), (staticmethod, classmethod)):
            x = x.__func__
        elif isinstance(x, property):
            for function in (x.fget, x.fset):
                if function is not None:
                    self._member(function)
            return
        elif isinstance(x, functools.cached_property):
            x = x.func
        if not (isinstance(x, types.FunctionType) and _is_generated(x)):
            self.value(x)

    # Functions

    def root(self, fun: Any, degrade: bool) -> None:
        """The function to trace.  degrade: a function that cannot be looked through counts as
        itself, as do those that functions of ours wrap."""
        if isinstance(fun, types.MethodType):
            self.key.append(types.MethodType)
            self._degrading(fun, degrade, (fun.__func__, fun.__self__))
        elif isinstance(fun, types.FunctionType) and is_pure(fun.__globals__.get("__name__")):
            self._again(fun)
            self._wrapper(fun, lambda x: self.root(x, degrade))
        else:
            self._degrading(fun, degrade, (fun,))

    def _degrading(self, fun: Any, degrade: bool, objects: tuple[Any, ...]) -> None:
        lists = (self.key, self.leaves, self.keep, self.same)
        start, seen = [len(whole) for whole in lists], dict(self._seen)
        try:
            self._callable(fun)
        except Opaque:
            if not degrade:
                raise
            for whole, n in zip(lists, start, strict=True):
                del whole[n:]
            self._seen = seen
            for x in objects:
                self.identity(x)

    def _callable(self, fun: Any) -> None:
        """A function that is called, so that its first argument is known if it is a method."""
        self.key.append(getattr(fun, "__name__", None))
        if isinstance(fun, types.MethodType):
            self.method(fun.__func__, fun.__self__)
        else:
            self.value(fun)

    def function(self, fun: types.FunctionType, first: Any = None) -> None:
        """A function by its code and all that it reads; `first`: its first argument."""
        if is_pure(fun.__globals__.get("__name__")):
            if fun.__closure__ is None or is_public(fun):
                self._known(fun)
            else:
                self._wrapper(fun, self.value)
            return
        code = fun.__code__
        self.key.append(id(code))
        self.keep.append(code)
        self.values(fun.__defaults__ or ())
        self.value(fun.__kwdefaults__ or None)
        self.value(fun.__dict__ or None)
        self.visited.append((fun, first))
        found = code_of(code)
        for module in found.imports:
            self._passed_on(module)
        cells = dict(zip(code.co_freevars, fun.__closure__ or (), strict=True))
        for place in found.reads:
            if place.kind == "global":
                x = global_of(fun, place.name)
            elif place.kind == "cell":
                x = content(cells[place.name])
            elif first is None:
                continue
            else:
                x = first
            self._follow(x, place, code)

    def _wrapper(self, fun: types.FunctionType, inside: Callable[[Any], None]) -> None:
        """A function of ours around others: its code, its cells."""
        self._known(fun.__code__)
        self.key.append(fun.__name__)
        for cell in fun.__closure__ or ():
            x = content(cell)
            (inside if callable(x) else self.value)(x)
        self.values(fun.__defaults__ or ())

    def method(self, fun: Any, first: Any) -> None:
        """A function bound to its first argument, of which only what it reads matters."""
        if not isinstance(fun, types.FunctionType) or is_pure(fun.__globals__.get("__name__")):
            self.value(fun)
            self.value(first)
            return
        if isinstance(first, type):
            self._known(first)
        pair = (id(fun), id(first))
        if pair in self._seen:
            self.key += ("again", self._seen[pair])
            return
        self._seen[pair] = len(self._seen)
        self._held += (fun, first)
        self.function(fun, first)

    def _follow(self, x: Any, place: Place, code: types.CodeType) -> None:
        """The value at the end of a chain of attributes, and what leads there."""
        for n, name in enumerate(place.attributes):
            step = self._attribute(x, name)
            if step is _ABSENT:
                # A method, or something that computes: the value itself is what matters.
                place = place._replace(attributes=place.attributes[:n])
                if self.read is not None:
                    self.read(place, code, x)
                self.value(x)
                return
            if step is _DONE:
                return
            x = step
        if self.read is not None:
            self.read(place, code, x)
        if isinstance(x, types.ModuleType):
            self._passed_on(x.__name__)
        self.value(x)

    def _passed_on(self, module: str) -> None:
        """A module as a value: nobody sees what is read of it."""
        if self.strict and (not is_pure(module) or module.partition(".")[0] in MIXED):
            raise Opaque(f"it passes the module {module} on")

    def _attribute(self, x: Any, name: str) -> Any:
        """The attribute of that name where it is plain data; _DONE if that settled the chain."""
        if isinstance(x, types.ModuleType):
            return getattr(x, name, MISSING)
        if isinstance(x, types.FunctionType):
            return x.__dict__.get(name, _ABSENT)
        kind = type_of(x)
        if isinstance(x, type):
            found = lookup(x, name)
            if not isinstance(found, (staticmethod, classmethod, property, *SLOTS)):
                return _ABSENT if found is MISSING else found
            return _ABSENT
        if not is_plain(kind) or kind in parts:
            return _ABSENT
        if is_pure(kind.__module__) or issubclass(kind, (tuple, enum.Enum, Tracer)):
            return _ABSENT
        own = getattr(x, "__dict__", {})
        found = lookup(kind, name)
        if isinstance(found, types.MemberDescriptorType):
            self._known(kind)
            return getattr(x, name, MISSING)
        if name in own and not hasattr(type_of(found), "__set__"):
            self._known(kind)
            return own[name]
        if isinstance(found, types.FunctionType):
            self._known(kind)
            self.method(found, x)
            return _DONE
        if isinstance(found, property) and isinstance(found.fget, types.FunctionType):
            self._known(kind)
            self.method(found.fget, x)
            return _DONE
        if found is MISSING or hasattr(type_of(found), "__get__"):
            return _ABSENT
        self._known(kind)
        return found


_ABSENT: Final = object()
_DONE: Final = object()


def _is_generated(fun: types.FunctionType) -> bool:
    """Whether `dataclass` wrote a method."""
    return fun.__code__.co_filename == "<string>" and fun.__name__.startswith("__")


# How to write each kind of value.


def _atom(walk: Walk, x: Any) -> None:
    walk.key += (type(x), x)


def _number(walk: Walk, x: Any) -> None:
    walk.key += (type(x), repr(x))  # -0.0 equals 0.0, NaN nothing, range(0) range(0, -1)


def _items(walk: Walk, x: Any) -> None:
    if walk._again(x):  # pyright: ignore[reportPrivateUsage]
        return
    walk.key.append(type(x))
    walk.values(x)


def _mapping(walk: Walk, x: Any) -> None:
    if walk._again(x):  # pyright: ignore[reportPrivateUsage]
        return
    walk.key += (type(x), len(x))
    for key, item in tuple(x.items()):
        walk.value(key)
        walk.value(item)


def _set(walk: Walk, x: Any) -> None:
    if not all(type(item) in _ATOMS for item in x):
        walk.opaque(x)
        return
    walk.key += (type(x), frozenset([(type_of(item), item) for item in x]))


def _slice(walk: Walk, x: Any) -> None:
    walk.key.append(slice)
    walk.values((x.start, x.stop, x.step))


def _function(walk: Walk, x: Any) -> None:
    if not walk._again(x):  # pyright: ignore[reportPrivateUsage]
        walk.function(x)


def _method(walk: Walk, x: Any) -> None:
    walk.key.append(types.MethodType)
    walk.method(x.__func__, x.__self__)


def _builtin(walk: Walk, x: Any) -> None:
    owner = x.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        name = getattr(owner, "__name__", None) or x.__module__
        if not is_pure(name) or (name == "builtins" and x.__name__ in EFFECTS):
            walk.opaque(x)
            return
        walk._known(x)  # pyright: ignore[reportPrivateUsage]
        return
    walk.key += (type(x), x.__name__)
    walk.value(owner)


def _module(walk: Walk, x: Any) -> None:
    walk._known(x)  # pyright: ignore[reportPrivateUsage]


def _partial(walk: Walk, x: Any) -> None:
    if walk._again(x):  # pyright: ignore[reportPrivateUsage]
        return
    walk.key.append(functools.partial)
    walk.values((x.func, x.args, x.keywords))


def _cached(walk: Walk, x: Any) -> None:
    walk.value(x.__wrapped__)


def _namespace(walk: Walk, x: Any) -> None:
    if not walk._again(x):  # pyright: ignore[reportPrivateUsage]
        walk.key.append(types.SimpleNamespace)
        walk.value(vars(x))


_ATOMS: Final = (int, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_WRITERS: Final[dict[type, Callable[[Walk, Any], None]]] = {
    **dict.fromkeys((*_ATOMS, ShapedArray), _atom),
    **dict.fromkeys((float, complex, range), _number),
    **dict.fromkeys((tuple, list), _items),
    **dict.fromkeys((dict, collections.OrderedDict, types.MappingProxyType), _mapping),
    **dict.fromkeys((set, frozenset), _set),
    slice: _slice,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.ModuleType: _module,
    types.SimpleNamespace: _namespace,
    Unset: lambda walk, x: walk.key.append(Unset),
    functools.partial: _partial,
    type(functools.lru_cache(lambda: None)): _cached,
    **dict.fromkeys(
        (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
        _module,
    ),
}
