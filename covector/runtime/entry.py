"""Compiled entry points: callables that run a program at once when they know the argument types.

An `Entry` has *records*, each a compiled program with the types it is for, filed under the
*pattern* of the arguments (how they nest).  A call that fits runs it, natively where the native
runtime is there; anything else goes to the entry's Python `fallback` with the same arguments:
a tracer, new types, a trace in progress or a scoped option (the *quiet* word is not zero).
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from covector import dtypes
from covector._base.config import config
from covector._base.context import disturb, quiet
from covector._base.options import Option
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.runtime import array as arrays
from covector.runtime.array import Array
from covector.runtime.backend import MemoryStats, NativeCode
from covector.runtime.native import native
from covector.runtime.patterns import NUMBERS, Pattern, Step, as_list, build_result

_native: Final = native()
_lock: Final = threading.RLock()


@final
class Record:
    """A compiled program and the types it is for.

    in_avals, in_shardings: of the leaves (a sharding of None: unset).  result: see
    `result_steps`.  donated: leaves whose memory is given up; taken: the number of an output ->
    that of the donated leaf whose memory it is in; mark: what the leaves hold then.
    bounds: what each run-time integer must stay below (it may count from the end); the integers
    follow the code's own symbols.
    tested: the last output, a bool, says that the call is to be made by the fallback instead.
    """

    __slots__ = ("bounds", "code", "donated", "in_avals", "in_shardings", "mark", "out_avals",
                 "out_shardings", "result", "taken", "tested")  # fmt: skip

    def __init__(
        self,
        code: NativeCode,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        *,
        result: tuple[Step, ...] | None = None,
        in_shardings: Sequence[Any] | None = None,
        out_shardings: Sequence[Any] | None = None,
        donated: Sequence[int] = (),
        taken: Mapping[int, int] | None = None,
        mark: arrays.Deleted | None = None,
        bounds: Sequence[int] = (),
        tested: bool = False,
    ) -> None:
        self.code = code
        for x in code.hidden:
            arrays.memory(x)  # native code has no way to wait for it
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.in_shardings = None if in_shardings is None else tuple(in_shardings)
        self.out_shardings = None if out_shardings is None else tuple(out_shardings)
        if tested and result is None:
            result = (("LEAF", 0, None),)
        self.result = result
        self.taken = dict(taken or {})
        self.mark = mark or arrays.Deleted("donated to a program")
        self.donated, self.bounds, self.tested = tuple(donated), tuple(bounds), tested
        if result is None and len(self.out_avals) != 1:
            raise ValueError(f"a record with {len(self.out_avals)} outputs needs result steps")

    @property
    def signature(self) -> tuple[Any, ...]:
        """What a call is looked up by: aval and sharding of each leaf."""
        shardings = self.in_shardings or (None,) * len(self.in_avals)
        return tuple(zip(self.in_avals, map(id, shardings), strict=True))


_program: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def run_code(
    code: NativeCode,
    args: Sequence[np.ndarray],
    out_avals: Sequence[ShapedArray],
    integers: Sequence[int] = (),
) -> list[np.ndarray]:
    """Calls a program by ctypes, on NumPy arrays: the slow way in."""
    # Native buffers have more alignment than NumPy gives; so has the pool's own memory.
    out = [arrays.pool.empty(a.shape, dtypes.physical_dtype(a.dtype)) for a in out_avals]
    arena = arrays.pool.empty((max(code.arena, 1),), np.dtype(np.uint8))
    views = [*map(arrays.host, code.hidden), *args, *out, arena]
    buffers = (ctypes.c_void_p * len(views))(*(v.ctypes.data for v in views))
    numbers = [*code.symbols, *integers]
    symbols = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
    _program(code.address)(buffers, symbols)
    if code.after is not None:
        code.after()
    return out


_AGAIN: Final = object()


def _run_record(record: Record, leaves: Sequence[Any], integers: list[int]) -> Any:
    """Runs a record in Python; _AGAIN if the fallback is to make the call."""
    if record.taken:  # only native code knows who else uses the memory
        return _AGAIN
    views = [
        arrays.host(x if type(x) is Array else arrays.from_numpy(x, aval))
        for x, aval in zip(leaves, record.in_avals, strict=True)
    ]
    numbers = [i % n for i, n in zip(integers, record.bounds, strict=True)]
    made = [
        arrays.wrap(aval, arrays.take(out))
        for aval, out in zip(
            record.out_avals,
            run_code(record.code, views, record.out_avals, numbers),
            strict=True,
        )
    ]
    for x, sharding in zip(made, record.out_shardings or (), strict=False):
        if sharding is not None:
            x._sharding = sharding
    if record.tested and arrays.host(made[-1]):
        return _AGAIN
    for i in record.donated:
        arrays.replace_buffer(leaves[i], record.mark)
    return build_result(record.result, made)


def signature(leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """(aval, sharding's id) of each leaf; None if one is no ready array or number that fits."""
    found = []
    for x in leaves:
        if type(x) is np.ndarray:
            try:
                found.append((typeof(x), id(None)))
            except TypeError:  # an object array, say
                return None
        elif type(x) is Array:
            if isinstance(x.buffer, arrays.GONE):
                return None
            found.append((x.aval, id(getattr(x, "_sharding", None))))
        else:
            # A thread may see other scalar types than the process while the word is not zero.
            aval = _scalars.get(type(x)) if quiet.value == 0 else None
            if aval is None or not _fits(x, aval):
                return None
            found.append((aval, id(None)))
    return tuple(found)


def _fits(x: Any, aval: ShapedArray) -> bool:
    bits = 8 * aval.itemsize - 1
    return type(x) is not int or -(1 << bits) <= x < 1 << bits


class _PythonTable:
    """The records of an entry where there is no native runtime."""

    def __init__(self) -> None:
        self.records: dict[Pattern, dict[Any, Record]] = {}

    def find(self, args: Sequence[Any], names: Mapping[str, Any]) -> Any:
        """(record, leaves, integers) for a call, or None."""
        for pattern, records in self.records.items():
            matched = pattern.match(args, names)
            if matched is None:
                continue
            record = records.get(signature(matched[0]))
            if record is not None and all(
                -n <= i < n for i, n in zip(matched[1], record.bounds, strict=True)
            ):
                return record, *matched
        return None


#: Every entry, to clear them when an option that programs depend on changes.
_entries: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def callable_class(cls: type) -> Any:
    """Makes a class one of entries: instances have `fallback` and are called as it is.

    The class states methods and class attributes; no slots, no `super()`, no `__call__`.  Use the
    methods `add_record`, `clear_records` and `record_count` that it gains.
    `follows_options = False`: what its programs mean depends on types alone, so records also serve
    while the quiet word is not zero and survive a change of options.
    """
    for method in (add_record, clear_records, record_count):
        setattr(cls, method.__name__, method)
    cls.generation = 0  # type: ignore[attr-defined]  # how often the records were forgotten
    if "follows_options" not in vars(cls):
        cls.follows_options = True  # type: ignore[attr-defined]
    if _native is not None:
        return _native.entry_type(cls)
    cls.__call__ = _call_in_python  # type: ignore[attr-defined]
    cls.__get__ = _bind_in_python  # type: ignore[attr-defined]
    return cls


def _call_in_python(self: Any, /, *args: Any, **names: Any) -> Any:
    table = self.__dict__.get("_table")
    if table is not None and (quiet.value == 0 or not self.follows_options):
        found = table.find(args, names)
        if found is not None:
            out = _run_record(*found)
            if out is not _AGAIN:
                return out
    return self.fallback(*args, **names)


def _bind_in_python(self: Any, instance: Any, owner: Any = None) -> Any:
    return self if instance is None else _Method(self, instance)


_Method: Final[Any] = type((lambda: None).__get__(0))


def add_record(self: Any, pattern: Pattern, record: Record) -> None:
    """Files a record: calls of this pattern and these types run it from now on."""
    if pattern.leaves != len(record.in_avals) or pattern.integers != len(record.bounds):
        raise ValueError(
            f"a record for {len(record.in_avals)} leaves and {len(record.bounds)} integers does "
            f"not go with a pattern of {pattern.leaves} and {pattern.integers}"
        )
    with _lock:
        if _native is not None:
            _native.add_record(self, pattern, record, always=not self.follows_options)
        else:
            table = self.__dict__.setdefault("_table", _PythonTable())
            table.records.setdefault(pattern, {})[record.signature] = record
        _entries.add(self)


def clear_records(self: Any) -> None:
    """Forgets all records; calls that are running end undisturbed."""
    with _lock:
        self.generation += 1
        self.__dict__.pop("_aside", None)
        _swap(self, None)


def _swap(entry: Any, records: Any) -> Any:
    """Gives an entry other records, or none; returns those it had."""
    if _native is not None:
        return _native.swap_records(entry, records)
    old = entry.__dict__.pop("_table", None)
    if records is not None:
        entry.__dict__["_table"] = records
    return old


def record_count(self: Any) -> int:
    """How many records there are."""
    with _lock:
        if _native is not None:
            return _native.record_count(self)
        table = self.__dict__.get("_table")
        return 0 if table is None else sum(map(len, table.records.values()))


@callable_class
class Entry:
    """A plain entry: `Entry(fallback)` calls `fallback` until it has records.

    Stored in a class, it is a method.
    """

    def __init__(self, fallback: Callable[..., Any]) -> None:
        self.fallback = fallback

    def __repr__(self) -> str:
        return f"Entry({self.fallback!r}, {record_count(self)} records)"


#: The entries of Array's operators: `operators['__add__']` is tried before the Python function.
operators: Final[dict[str, Any]] = {}


def operator_entry(name: str) -> Any:
    """The entry of an operator such as '__add__' or '__getitem__'; without the native runtime
    nobody consults it."""
    with _lock:
        if name not in operators:
            operators[name] = Entry(_no_fallback)
            if _native is not None:
                _native.set_operator(name, operators[name])
        return operators[name]


def _no_fallback(*args: Any) -> Any:
    raise TypeError("an operator's entry is not called")


@callable_class
class _Direct:
    """The entry of one executable: its records depend on nothing but types."""

    follows_options = False

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def fallback(self, *args: Any) -> list[Array]:
        """Whatever is not as the record wants it: see `Compiled.run_slowly`."""
        return self.compiled.run_slowly(args)


class Compiled:
    """An executable over native code: runs it on arrays, without a look-up."""

    __slots__ = ("__weakref__", "_entry", "code", "in_avals", "out_avals")

    def __init__(
        self, code: NativeCode, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
    ) -> None:
        self.code = code
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self._entry = _Direct(weakref.proxy(self))
        self._entry.add_record(
            Pattern(len(self.in_avals), (), None),
            Record(code, self.in_avals, self.out_avals, result=as_list(len(self.out_avals))),
        )

    def run(self, args: Sequence[Array]) -> list[Array]:
        """Runs it on arrays whose types are exactly `in_avals`."""
        return self._entry(*args)

    def run_slowly(self, args: Sequence[Array]) -> list[Array]:
        """As `run`, where an array is not ready; refuses wrong types."""
        given = tuple(x.aval for x in args)
        if given != self.in_avals:
            raise TypeError(f"a program for {self.in_avals} was called on {given}")
        pending = [x for x in args if type(x) is Array and type(x.buffer) is arrays.Pending]
        if pending:
            for x in pending:
                arrays.memory(x)
            return self.run(args)
        record = Record(
            self.code, self.in_avals, self.out_avals, result=as_list(len(self.out_avals))
        )
        return _run_record(record, args, [])

    def text(self, stage: str) -> str:
        """The program after a stage; raises KeyError for a stage it does not have."""
        found: Any = self.code.stages[stage]
        return str(found() if callable(found) else found)

    @property
    def memory(self) -> MemoryStats:
        """Bytes it needs."""
        return MemoryStats(
            sum(a.nbytes for a in self.in_avals),
            sum(a.nbytes for a in self.out_avals),
            self.code.arena,
            self.code.size,
            sum(x.nbytes for x in self.code.hidden),
        )


# Options: what changes them changes what a call means.

_scalars: Final[dict[type, ShapedArray]] = {}
_disturbed = [0]  # how much of the quiet word comes from threads with options of their own


def _refresh_scalars() -> None:
    for kind in NUMBERS:
        dtype = dtypes.python_scalar_dtype(kind)
        _scalars[kind] = ShapedArray((), dtype, kind is not bool)
    if _native is not None:
        weak_float, weak_int, strong_bool = (_scalars[kind] for kind in NUMBERS)
        _native.set_scalars(weak_float, weak_int, strong_bool, config.enable_x64)


def _on_option(option: Option, event: str) -> None:
    """Called with the lock of the configuration held."""
    change = config.overriding_threads - _disturbed[0]
    if change:
        _disturbed[0] += change
        disturb(change)
    if event == "update" and option.traced:
        _refresh_scalars()
        _exchange_records()


_key_now: list[Any] = [type(config).current_key]


def _exchange_records() -> None:
    """The records made under other options are put aside until these hold again."""
    old, new = _key_now[0], type(config).current_key
    if old is new:
        return
    _key_now[0] = new
    with _lock:
        for entry in tuple(_entries):
            if entry.follows_options:
                aside = entry.__dict__.setdefault("_aside", {})
                aside[old] = _swap(entry, aside.pop(new, None))


def clear_caches() -> None:
    """Forgets the records of all entries."""
    with _lock:
        for entry in tuple(_entries):
            if entry.follows_options:
                entry.clear_records()


_refresh_scalars()
config.on_change(_on_option)
