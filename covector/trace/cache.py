"""The trace cache of fresh functions: a program is found again by what its function depends on.

`shared(fun, …)` gives the program of a function equal to one that was traced before: the same
code, and equal values in every place that it reads (`purity_state`).  What it captured, arrays and
tracers, are the program's constants, so other arrays of the same types are put in their places; an
array whose elements were looked at while tracing must be the very same.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from covector import trace as tracing
from covector._base.config import config
from covector._base.context import context
from covector._base.named_tuple import NamedTuple
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.trace.purity_objects import Same, is_pure
from covector.trace.purity_state import Opaque, Walk
from covector.trace.tracer import Tracer

#: Programs remembered; beyond that those used longest ago are forgotten.
KEPT: Final = 1024


class Entry(NamedTuple):
    """A traced function: its program, where its constants come from, what the tracer noted.

    sources: for each constant of the program, the number of a captured value, or the constant.
    keep: objects whose identities are in the key.  read: captured arrays that must be the same.
    """

    jaxpr: Jaxpr
    sources: tuple[Any, ...]
    extra: Any
    keep: Sequence[Any]
    read: tuple[int, ...] = ()
    arrays: tuple[Same, ...] = ()

    def program(self, leaves: Sequence[Any]) -> ClosedJaxpr:
        """The program, of a function that captured `leaves`."""
        consts = [leaves[s] if type(s) is int else s[0] for s in self.sources]
        return ClosedJaxpr(self.jaxpr, consts)

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether the arrays that were looked at are the same."""
        return all(a == Same(leaves[n]) for n, a in zip(self.read, self.arrays, strict=True))


class _Table:
    """Entries by key, in order of use; several under one key differ in the arrays they read."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entries: OrderedDict[Any, tuple[Entry, ...]] = OrderedDict()
        #: Keys of functions that are gone.  Appended to at any moment, by the garbage collector.
        self.gone: deque[Any] = deque()

    def find(self, key: Any, leaves: Sequence[Any]) -> Entry | None:
        with self.lock:
            entries = self.entries.get(key)
            if entries is None:
                return None
            self.entries.move_to_end(key)
        return next((e for e in entries if e.fits(leaves)), None)

    def add(self, key: Any, entry: Entry) -> None:
        dropped: list[Any] = []  # outlives the lock: what dies may run anybody's code
        with self.lock:
            while self.gone:
                dropped.append(self.entries.pop(self.gone.popleft(), None))
            old = self.entries.get(key, ())
            self.entries[key] = (entry, *old[:VARIANTS])
            if len(self.entries) > KEPT:
                dropped.append(self.entries.popitem(last=False))


#: Entries under one key that differ in the arrays they looked at.
VARIANTS: Final = 7
_table: Final = _Table()


def _gone(same: Same, gone: deque[Any] = _table.gone) -> None:
    # As a default, since at shutdown modules lose their names before the last function dies.
    if same.key is not None:
        gone.append(same.key)


def shared(
    fun: Any,
    key: Any,
    trace: Callable[[], tuple[ClosedJaxpr, Any]],
    *,
    degrade: bool = False,
    also: Sequence[Any] = (),
) -> tuple[ClosedJaxpr, Any]:
    """What `trace()` gives, (program, anything) of `fun`, or gave for an equal function.

    key: what else the program depends on; hashable.  also: other values that it depends on.
    degrade: a function that reads what cannot be compared counts as equal to itself; otherwise it
    is traced.
    """
    # Where derivatives depend on which values all devices share, types do not tell all.
    walk = None if context.trace.region is not None else _walk(fun, degrade, also)
    if walk is None:
        return trace()
    full = (key, config.current_key, context.trace.axes, tuple(walk.key))
    try:
        hash(full)
    except TypeError:  # the metadata of a user's node of a tree
        return trace()
    found = _table.find(full, walk.leaves)
    if found is not None:
        return found.program(walk.leaves), found.extra
    with tracing.watchers[0](list(enumerate(walk.leaves))) as looked_at:
        program, extra = trace()
    after = _walk(fun, degrade, also)
    if after is not None and after.key == walk.key:  # else tracing changed what it depends on
        entry = _entry(program, extra, walk, sorted(looked_at))
        if entry is not None:
            for same in walk.same:
                same.key = full
            _table.add(full, entry)
            return entry.program(walk.leaves), extra
    return program, extra


def _walk(fun: Any, degrade: bool, also: Sequence[Any]) -> Walk | None:
    walk = Walk(gone=_gone)
    try:
        walk.root(fun, degrade)
        for x in also:
            walk.value(x)
    except Opaque:
        return None
    except Exception:  # a lazy module, a property that fails: then nothing is known of it
        return None
    return walk


def _entry(program: ClosedJaxpr, extra: Any, walk: Walk, looked_at: Sequence[int]) -> Entry | None:
    """What to remember; None if the program holds a tracer that the walk did not meet."""
    numbers = {id(x): n for n, x in enumerate(walk.leaves)}
    sources: list[Any] = []
    for const in program.consts:
        number = numbers.get(id(const))
        if number is None and isinstance(const, Tracer):
            return None
        sources.append((const,) if number is None else number)
    arrays = tuple([Same(walk.leaves[n]) for n in looked_at])
    return Entry(program.jaxpr, tuple(sources), extra, walk.keep, tuple(looked_at), arrays)


def node_types(treedef: Any) -> tuple[type, ...]:
    """The user's own classes in a structure: their methods may be called in the function."""
    try:
        return _node_types(treedef)
    except TypeError:  # its metadata have no hash
        return _node_types.__wrapped__(treedef)


@functools.lru_cache(maxsize=4096)
def _node_types(treedef: Any) -> tuple[type, ...]:
    data = treedef.node_data()
    if data is None:
        return ()
    found = dict.fromkeys(t for child in treedef.children() for t in node_types(child))
    if not is_pure(data[0].__module__):
        found[data[0]] = None
    return tuple(found)


def clear() -> None:
    """Forgets every program."""
    with _table.lock:
        entries = list(_table.entries.values())
        _table.entries.clear()
    del entries


def size() -> int:
    """How many keys there are."""
    return len(_table.entries)
