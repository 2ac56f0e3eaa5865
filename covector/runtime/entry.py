"""Compiled entry points: callables that run a program at once when they know the argument types.

An `Entry` has *records*, each a compiled program with the types it is for, filed under the
*pattern* of the arguments (how they nest).  A call that fits runs it, natively where the native
runtime is there; anything else goes to the entry's Python `fallback` with the same arguments:
a tracer, new types, a trace in progress or a scoped option (the *quiet* word is not zero).
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from covector import dtypes
from covector._base.config import config
from covector._base.context import disturb, quiet
from covector._base.options import Option
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime.array import Array
from covector.runtime.backend import MemoryStats, NativeCode
from covector.runtime.native import native

_native: Final = native()
_lock: Final = threading.RLock()

Step = tuple[str, int, Any]


@final
class Pattern:
    """How the arguments of a call nest, down to leaves: arrays and numbers.

    `steps` takes the arguments apart on a stack: (ARGUMENT, i) pushes one; LEAF, NONE, INTEGER
    pop one; TUPLE, LIST, DICT, NAMED pop a container and push its items; SAME pops the very
    object given, SLICE a slice of these three numbers.  None where every argument is a leaf.  Leaves come in the order of pytrees.
    """

    __slots__ = ("arguments", "depth", "hash", "integers", "keywords", "leaves", "steps")

    def __init__(
        self, arguments: int, keywords: tuple[str, ...], steps: tuple[Step, ...] | None
    ) -> None:
        self.arguments, self.keywords, self.steps = arguments, keywords, steps
        kinds = ["LEAF"] * arguments if steps is None else [kind for kind, _, _ in steps]
        self.leaves: int = kinds.count("LEAF")
        self.integers: int = kinds.count("INTEGER")
        self.depth: int = _depth(steps or ())
        self.hash = hash((arguments, keywords, _key(steps)))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Pattern)
            and self.arguments == other.arguments
            and self.keywords == other.keywords
            and _key(self.steps) == _key(other.steps)
        )

    def __repr__(self) -> str:
        steps = "" if self.steps is None else " ".join(kind for kind, _, _ in self.steps)
        return f"Pattern({self.arguments}, {self.keywords}, {steps or 'leaves'})"

    def match(
        self, args: Sequence[Any], names: Mapping[str, Any]
    ) -> tuple[list[Any], list[int]] | None:
        """The leaves and run-time integers of a call, or None if it has another structure."""
        if len(args) != self.arguments or tuple(names) != self.keywords:
            return None
        if self.steps is None:
            return list(args), []
        pending: list[Any] = []
        leaves: list[Any] = []
        integers: list[int] = []
        given = (*args, *names.values())
        for kind, n, operand in self.steps:
            if kind == "ARGUMENT":
                pending.append(given[n])
                continue
            x = pending.pop()
            if kind == "LEAF":
                leaves.append(x)
            elif kind == "INTEGER" and type(x) is int:
                integers.append(x)
            else:
                items = _items(kind, n, operand, x)
                if items is None:
                    return None
                pending.extend(reversed(items))
        return leaves, integers


    def fill(
        self, args: Sequence[Any], names: Mapping[str, Any], leaves: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call that matches, with other leaves."""
        given = (*args, *names.values())
        if self.steps is None:
            return list(leaves), {}
        new = list(given)
        steps, rest = iter(self.steps), iter(leaves)
        for kind, n, _ in steps:
            assert kind == "ARGUMENT"
            new[n] = _refill(given[n], steps, rest)
        positional = new[: self.arguments]
        return positional, dict(zip(self.keywords, new[self.arguments :], strict=True))


def _refill(x: Any, steps: Iterator[Step], leaves: Iterator[Any]) -> Any:
    """A value with its leaves replaced, by the steps that take it apart."""
    kind, _, operand = next(steps)
    if kind == "LEAF":
        return next(leaves)
    if kind == "DICT":
        new = {k: _refill(x[k], steps, leaves) for k in operand}
        return {k: new[k] for k in x}
    if kind in ("TUPLE", "LIST", "NAMED"):
        items = [_refill(item, steps, leaves) for item in x]
        return type(x)._make(items) if kind == "NAMED" else type(x)(items)
    return x


_CONTAINERS: Final = {"TUPLE": tuple, "LIST": list, "DICT": dict}


def _items(kind: str, n: int, operand: Any, x: Any) -> Sequence[Any] | None:
    """The items of a container that is as a step wants it, else None."""
    if kind == "NONE":
        return () if x is None else None
    if kind == "SAME":
        return () if x is operand else None
    if kind == "SLICE":
        # By type too: True and 1 are equal.
        same = type(x) is slice and (x.start, x.stop, x.step) == operand
        return () if same and not any(type(p) is bool for p in (x.start, x.stop, x.step)) else None
    wanted = operand if kind == "NAMED" else _CONTAINERS.get(kind)
    if type(x) is not wanted or len(x) != n:
        return None
    if kind != "DICT":
        return x
    return [x[k] for k in operand] if all(k in x for k in operand) else None


def _key(steps: tuple[Step, ...] | None) -> Any:
    """What two programs of steps are compared by: operands by identity, keys by value."""
    if steps is None:
        return None
    return tuple(
        (kind, n, operand if kind in ("DICT", "SLICE") else id(operand)) for kind, n, operand in steps
    )


_GROWTH: Final = {
    "ARGUMENT": 1, "LEAF": -1, "NONE": -1, "SAME": -1, "INTEGER": -1, "SLICE": -1
}  # fmt: skip


def _depth(steps: Sequence[Step]) -> int:
    """The most that is on the stack at once."""
    height = deepest = 0
    for kind, n, _ in steps:
        height += _GROWTH.get(kind, n - 1)
        deepest = max(deepest, height)
    return deepest


def pattern_of(
    args: Sequence[Any],
    names: Mapping[str, Any] | None = None,
    *,
    static: Collection[int | str] = (),
    constant: Collection[int | str] = (),
    integers: Collection[int | str] = (),
) -> Pattern | None:
    """The pattern of a call, or None for a structure that entries cannot take apart.

    static: arguments (positions, names) compared by identity.  constant: arguments of settings,
    small values such as an axis, a name, a shape, compared one by one.  integers: arguments whose
    Python integers are run-time values.  Containers are tuples, lists, dicts with str or int keys
    and named tuples; custom nodes of pytrees are not known here.
    """
    names = names or {}
    if not names and not static and not constant and not integers and all(map(_is_leaf, args)):
        return Pattern(len(args), (), None)
    keys = sorted(names)
    order = [*range(len(args)), *keys]
    positions = {name: len(args) + i for i, name in enumerate(names)}
    steps: list[Step] = []
    for which in order:
        x = names[which] if isinstance(which, str) else args[which]
        steps.append(("ARGUMENT", positions[which] if isinstance(which, str) else which, None))
        if which in static:
            steps.append(("SAME", 0, x))
            continue
        atom = _constant if which in constant else _integer if which in integers else _leaf
        if not _take_apart(x, steps, atom):
            return None
    return Pattern(len(args), tuple(names), tuple(steps))


_NUMBERS: Final = (float, int, bool)


def _is_leaf(x: Any) -> bool:
    return type(x) is Array or type(x) in _NUMBERS


# What to do with a value that is no container: the kind of its step, or None to give up.


def _leaf(x: Any) -> str | None:
    return "LEAF" if _is_leaf(x) else "SAME" if x is Ellipsis else None


def _integer(x: Any) -> str | None:
    return "INTEGER" if type(x) is int else _leaf(x)


def _constant(x: Any) -> str | None:
    # Small integers, short names and booleans are one object each; others may be equal without
    # being the same, and would fill the table.
    kind = type(x)
    if kind is int:
        return "SAME" if -5 <= x <= 256 else None
    return "SAME" if kind in _ATOMS or isinstance(x, (type, np.dtype)) else None


_ATOMS: Final = (bool, str, type(Ellipsis))


def _take_apart(x: Any, steps: list[Step], atom: Callable[[Any], str | None]) -> bool:
    """Appends the steps for one value; False if there are none."""
    kind = type(x)
    if x is None:
        steps.append(("NONE", 0, None))
        return True
    if kind is dict:
        if not all(type(k) in (str, int) for k in x) or len({type(k) for k in x}) > 1:
            return False
        keys = tuple(sorted(x))
        steps.append(("DICT", len(x), keys))
        return all(_take_apart(x[k], steps, atom) for k in keys)
    if kind is tuple or kind is list:
        steps.append(("TUPLE" if kind is tuple else "LIST", len(x), None))
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        steps.append(("NAMED", len(x), kind))
    elif kind is slice:
        parts = (x.start, x.stop, x.step)
        if not all(p is None or (type(p) is int and abs(p) < 1 << 62) for p in parts):
            return False
        steps.append(("SLICE", 0, parts))
        return True
    else:
        wanted = atom(x)
        if wanted is None:
            return False
        steps.append((wanted, 0, x if wanted == "SAME" else None))
        return True
    return all(_take_apart(item, steps, atom) for item in x)


def result_steps(example: Any) -> tuple[Step, ...] | None:
    """How a result is built around its outputs.

    example: the result's structure with output numbers (ints) for leaves.  None stands for a
    single output.  Raises TypeError for a custom node: use `built_by`.
    """
    if type(example) is int:
        return None if example == 0 else (("LEAF", example, None),)
    steps: list[Step] = []
    _put_together(example, steps)
    return tuple(steps)


def built_by(build: Callable[..., Any], outputs: int) -> tuple[Step, ...]:
    """Steps that call `build(*outputs)`: for results with custom nodes."""
    leaves = (("LEAF", i, None) for i in range(outputs))
    return (*leaves, ("NAMED", outputs, lambda items: build(*items)))


def _put_together(x: Any, steps: list[Step]) -> None:
    kind = type(x)
    if kind is int:
        steps.append(("LEAF", x, None))
    elif x is None:
        steps.append(("NONE", 0, None))
    elif kind is dict:
        for value in x.values():
            _put_together(value, steps)
        steps.append(("DICT", len(x), tuple(x)))
    elif kind is tuple or kind is list or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        for item in x:
            _put_together(item, steps)
        if kind in (tuple, list):
            steps.append(("TUPLE" if kind is tuple else "LIST", len(x), None))
        else:
            steps.append(("NAMED", len(x), functools.partial(tuple.__new__, kind)))
    else:
        raise TypeError(f"result_steps: no steps for a {kind.__name__}")


def build_result(steps: tuple[Step, ...] | None, outputs: Sequence[Array]) -> Any:
    """The result that `steps` describe."""
    if steps is None:
        return outputs[0]
    values: list[Any] = []
    for kind, n, operand in steps:
        if kind == "LEAF":
            values.append(outputs[n])
            continue
        items = values[len(values) - n :]
        del values[len(values) - n :]
        if kind == "NONE":
            values.append(None)
        elif kind == "DICT":
            values.append(dict(zip(operand, items, strict=True)))
        elif kind == "NAMED":
            values.append(operand(tuple(items)))
        else:
            values.append(tuple(items) if kind == "TUPLE" else items)
    return values[0]


@final
class Record:
    """A compiled program and the types it is for.

    in_avals, in_shardings: of the leaves (a sharding of None: unset).  result: see
    `result_steps`.  donated: leaves whose memory is given up.  bounds: what each run-time integer
    must stay below (it may count from the end); the integers follow the code's own symbols.
    """

    __slots__ = ("bounds", "code", "donated", "in_avals", "in_shardings", "out_avals",
                 "out_shardings", "result")  # fmt: skip

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
        bounds: Sequence[int] = (),
    ) -> None:
        self.code = code
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.in_shardings = None if in_shardings is None else tuple(in_shardings)
        self.out_shardings = None if out_shardings is None else tuple(out_shardings)
        self.result = result
        self.donated, self.bounds = tuple(donated), tuple(bounds)
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
    return out


def _run_record(record: Record, leaves: Sequence[Any], integers: list[int]) -> Any:
    """Runs a record in Python."""
    views = [
        arrays.host(x) if type(x) is Array else np.asarray(x, aval.dtype)
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
    for i in record.donated:
        leaves[i].buffer = arrays.Deleted("donated to a program")
    return build_result(record.result, made)


def signature(leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """(aval, sharding's id) of each leaf; None if one is no ready array or number that fits."""
    found = []
    for x in leaves:
        if type(x) is Array:
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
    if table is not None and (quiet.value == 0 or self.__dict__.get("always")):
        found = table.find(args, names)
        if found is not None:
            return _run_record(*found)
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
        return f"Entry({self.fallback!r}, {self.record_count()} records)"


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
        self.always = 1  # whoever runs an executable stands below every trace

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
        record = Record(
            self.code, self.in_avals, self.out_avals, result=as_list(len(self.out_avals))
        )
        return _run_record(record, args, [])

    def text(self, stage: str) -> str:
        """The program after a stage; raises KeyError for a stage it does not have."""
        found = self.code.stages[stage]
        return found() if callable(found) else found

    @property
    def memory(self) -> MemoryStats:
        """Bytes it needs."""
        return MemoryStats(
            sum(a.nbytes for a in self.in_avals),
            sum(a.nbytes for a in self.out_avals),
            self.code.arena,
            0,
            sum(x.nbytes for x in self.code.hidden),
        )


def as_list(outputs: int) -> tuple[Step, ...]:
    """Steps for a list of all outputs."""
    return (*(("LEAF", i, None) for i in range(outputs)), ("LIST", outputs, None))


# Options: what changes them changes what a call means.

_scalars: Final[dict[type, ShapedArray]] = {}
_disturbed = [0]  # how much of the quiet word comes from threads with options of their own


def _refresh_scalars() -> None:
    for kind in _NUMBERS:
        dtype = dtypes.python_scalar_dtype(kind)
        _scalars[kind] = ShapedArray((), dtype, kind is not bool)
    if _native is not None:
        _native.set_scalars(*(_scalars[kind] for kind in _NUMBERS), config.enable_x64)


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
