"""Native: the tables behind an entry, as memory that the compiled code reads.

An index is never changed where a reader could see it half done: new records go into free slots
of a hash table with one store of a word; whatever needs more is built anew and swapped in.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

from covector.runtime.native import ROW

from . import structs
from .build import ctypes_structure

_STEPS: Final = {
    name: getattr(structs, name)
    for name in (
        "ARGUMENT", "LEAF", "NONE", "TUPLE", "LIST", "DICT", "NAMED", "SAME", "INTEGER",
        "SLICE",
    )
}  # fmt: skip
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1
_unpack: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)(("PySlice_Unpack", ctypes.pythonapi))
#: A program that runs longer lets other threads go on meanwhile.
RELEASE_FROM: Final = 20_000.0
#: What one thread moves, roughly; for programs that do not state their time.
BYTES_PER_NANOSECOND: Final = 8.0


def words(values: Iterable[int]) -> Any:
    """An array of words; never empty, so that it has an address."""
    values = list(values)
    return (ctypes.c_uint64 * max(len(values), 1))(*(v & _MASK for v in values))


def _address(memory: Any) -> int:
    return ctypes.addressof(memory)


class Steps:
    """A program of steps in memory: (kind, n, address) each."""

    def __init__(self, steps: Iterable[tuple[str, int, Any]]) -> None:
        self.kept: list[Any] = []
        flat: list[int] = []
        for kind, n, operand in steps:
            flat += [_STEPS[kind], n, self._operand(kind, operand)]
        self.count = len(flat) // 3
        self.memory = words(flat)
        self.address = _address(self.memory)

    def _operand(self, kind: str, operand: Any) -> int:
        self.kept.append(operand)
        if kind == "DICT":
            keys = words(map(id, operand))
            self.kept.append(keys)
            return _address(keys)
        if kind == "SLICE":
            bounds = (ctypes.c_int64 * 3)()
            here = ctypes.addressof(bounds)
            _unpack(slice(*operand), here, here + 8, here + 16)
            self.kept.append(bounds)
            return here
        return id(operand) if kind in ("NAMED", "SAME") else 0


class NativeRecord:
    """A record in memory."""

    def __init__(self, record: Any) -> None:
        code = record.code
        shardings = record.in_shardings or (None,) * len(record.in_avals)
        out_shardings = record.out_shardings or (None,) * len(record.out_avals)
        self.signature = tuple(zip(map(id, record.in_avals), map(_pointer, shardings), strict=True))
        hidden = [x.buffer for x in code.hidden]
        outputs = [
            value
            for n, (aval, sharding) in enumerate(zip(record.out_avals, out_shardings, strict=True))
            for value in (id(aval), aval.nbytes, _pointer(sharding), record.taken.get(n, -1) + 1)
        ]
        steps = None if record.result is None else Steps(record.result)
        arrays = {
            "signature": words(v for pair in self.signature for v in pair),
            "hidden_data": words(b.address for b in hidden),
            "output_types": words(outputs),
            "symbols": words(code.symbols),
            "bounds": words(record.bounds),
            "donated_leaves": words(record.donated),
        }
        self.memory = ctypes_structure(structs.Record)(
            leaves=len(record.in_avals),
            hidden=len(hidden),
            outputs=len(record.out_avals),
            code=code.address,
            constant_symbols=len(code.symbols),
            integers=len(record.bounds),
            arena=code.arena,
            flags=_flags(record),
            donated=len(record.donated),
            mark=_pointer(record.mark),
            result=0 if steps is None else steps.address,
            result_steps=0 if steps is None else steps.count,
            after=0 if code.after is None else id(code.after),
            holder=id(self),
            **{name: _address(array) for name, array in arrays.items()},
        )
        self.kept = (record, hidden, steps, arrays)
        self.address = _address(self.memory)


def _flags(record: Any) -> int:
    long = structs.LONG if _nanoseconds(record) >= RELEASE_FROM else 0
    return long | (structs.TESTED if record.tested else 0)


def _nanoseconds(record: Any) -> float:
    """How long a run takes: as the code says, and at least as its memory takes to pass."""
    moved = sum(aval.nbytes for aval in (*record.in_avals, *record.out_avals))
    return max(record.code.nanoseconds, moved / BYTES_PER_NANOSECOND)


def _pointer(x: Any) -> int:
    return 0 if x is None else id(x)


def mixed(signature: Iterable[tuple[int, int]]) -> int:
    """The hash of a signature, as native code computes it."""
    value = 0
    for aval, sharding in signature:
        value = ((value ^ sharding ^ aval) * _MULTIPLIER) & _MASK
    return value >> 32


class NativePattern:
    """A pattern in memory, with its hash table."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self.records: dict[Any, NativeRecord] = {}
        self.keywords = words(map(id, pattern.keywords))
        self.steps = None if pattern.steps is None else Steps(pattern.steps)
        self.slots = words([0] * 4)
        self.memory = ctypes_structure(structs.Pattern)(
            arguments=pattern.arguments,
            names=len(pattern.keywords),
            keywords=_address(self.keywords),
            program=0 if self.steps is None else self.steps.address,
            steps=0 if self.steps is None else self.steps.count,
            leaves=pattern.leaves,
            integers=pattern.integers,
            depth=pattern.depth,
            mask=3,
            slots=_address(self.slots),
            holder=id(self),
        )
        self.address = _address(self.memory)

    def add(self, record: NativeRecord) -> bool:
        """Puts a record into the table; False if it is too full and must be built anew."""
        if record.signature in self.records or 2 * len(self.records) >= len(self.slots):
            return False
        self.records[record.signature] = record
        self._place(record)
        return True

    def _place(self, record: NativeRecord) -> None:
        slot = mixed(record.signature) & (len(self.slots) - 1)
        while self.slots[slot]:
            slot = (slot + 1) & (len(self.slots) - 1)
        self.slots[slot] = record.address

    def grown(self, record: NativeRecord) -> NativePattern:
        """A copy with room for more, and with this record in place of an older one."""
        new = NativePattern(self.pattern)
        new.records = {**self.records, record.signature: record}
        size = 4
        while size < 4 * len(new.records):
            size *= 2
        new.slots = words([0] * size)
        new.memory.mask, new.memory.slots = size - 1, _address(new.slots)
        for each in new.records.values():
            new._place(each)
        return new


class NativeIndex:
    """The patterns of an entry in memory."""

    def __init__(self, patterns: Iterable[NativePattern] = ()) -> None:
        self.patterns = tuple(patterns)
        self.table = words(p.address for p in self.patterns)
        self.memory = ctypes_structure(structs.Index)(
            count=len(self.patterns),
            patterns=_address(self.table),
            rows=next((p.address for p in self.patterns if p.pattern.steps == ROW), 0),
        )
        self.address = _address(self.memory)

    def with_record(self, pattern: Any, record: Any) -> NativeIndex:
        """An index that has the record too: this one, or a new one where it must grow."""
        native = NativeRecord(record)
        for i, known in enumerate(self.patterns):
            if known.pattern == pattern:
                if known.add(native):
                    return self
                before, after = self.patterns[:i], self.patterns[i + 1 :]
                return NativeIndex((*before, known.grown(native), *after))
        new = NativePattern(pattern)
        new.add(native)
        return NativeIndex((*self.patterns, new))
