"""Eager evaluation: an operation on concrete arrays, at the bottom of every trace.

Each operation (op instance) has an entry point: the first call with given types finds an
executable (a compiled one where a backend has a rule, else the op's NumPy rule); later calls run
it, natively if it is machine code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from covector import ops
from covector._base.errors import UnexpectedTracerError
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Op, has_rule
from covector.ir.values import typeof
from covector.runtime import array as arrays
from covector.runtime.array import Array, from_numpy
from covector.runtime.backend import MemoryStats
from covector.runtime.entry import Record, callable_class
from covector.runtime.patterns import Pattern, as_list
from covector.runtime.placement import shardings_of
from covector.trace.stage import eval_jaxpr
from covector.trace.tracer import Tracer, leak_message

Avals = tuple[ShapedArray, ...]

#: `compile(op, avals)` -> Executable or None; filled by the wiring, tried in order.
compilers: list[Callable[[Op, Avals], Any]] = []

#: COVECTOR_BACKEND=reference evaluates everything by the ops' NumPy rules.
REFERENCE_ONLY: Final = os.environ.get("COVECTOR_BACKEND", "").lower() == "reference"

#: What a program with a check is told.
UNCOLLECTED: Final = (
    "Cannot abstractly evaluate a checkify.check which was not functionalized: a check inside jit, "
    "scan, cond or while_loop can be run only where checkify collects it. Wrap the outermost "
    "function: err, out = checkify.checkify(f)(...), then err.throw(); jit goes around or inside "
    "it. Or use debug_check, which does nothing outside of checkify"
)

_entries: Final[dict[Op, Any]] = {}
_lock: Final = threading.Lock()
#: Operations remembered; beyond that the oldest are forgotten.
KEPT: Final = 2048
#: Types of arguments that one operation has executables for; beyond that it starts anew.
TYPES: Final = 512
#: Kinds of sharded arguments of one operation that its entry point knows.
PLACED: Final = 64


def evaluate(op: Op, args: Sequence[Any]) -> Any:
    """The value of `op` on arrays, NumPy arrays or Python scalars: an Array, or a list of them.

    Raises TypeError for anything else, and what the op's `result` rule raises.
    """
    try:
        entry = op._entry  # type: ignore[attr-defined]
    except AttributeError:
        entry = _entry_of(op)
    return entry(*args)


@callable_class
class OpEntry:
    """The entry point of one operation; what it does depends on types alone, not on options."""

    follows_options = False

    def __init__(self, op: Op) -> None:
        self.op = op
        self.executables: dict[Avals, Any] = {}
        #: Argument types and shardings with a record.
        self.placed: set[Any] = set()

    def fallback(self, *args: Any) -> Any:
        """The operation on arguments that no record fits."""
        op = self.op
        for x in args:
            if type(x) is not Array:  # of arrays there may be a record
                return self(*[x if type(x) is Array else as_array(x) for x in args])  # type: ignore[operator]
        avals = tuple([x.aval for x in args])
        found = self.executables.get(avals) or self.find(avals)
        out = found.run(args)
        given, made = shardings_of(op, args, avals, found.out_avals)
        if made is not None:
            for x, sharding in zip(out, made, strict=True):
                x._sharding = sharding
            self._record(found, avals, given, made)
        return list(out) if op.multiple_results else out[0]

    def find(self, avals: Avals) -> Any:
        """The executable for arguments of these types, made now."""
        found = executable(self.op, avals)
        if len(self.executables) >= TYPES:
            self.forget()
        self.executables[avals] = found
        given, made = shardings_of(self.op, avals, avals, found.out_avals)
        self._record(found, avals, None if made is None else given, made)
        return found

    def forget(self) -> None:
        """Drops all executables and records."""
        self.clear_records()  # type: ignore[attr-defined]
        self.executables.clear()
        self.placed.clear()

    def _record(self, found: Any, avals: Avals, given: Any, made: Any) -> None:
        """Let later calls with arguments of these types and shardings run at once."""
        code = getattr(found, "code", None)
        if code is None or (made is not None and (avals, given) in self.placed):
            return
        if made is not None:
            if len(self.placed) >= PLACED:
                return
            self.placed.add((avals, given))
        result = as_list(len(found.out_avals)) if self.op.multiple_results else None
        record = Record(
            code, avals, found.out_avals, result=result, in_shardings=given, out_shardings=made
        )
        self.add_record(Pattern(len(avals), (), None), record)  # type: ignore[attr-defined]


def executable_of(op: Op, avals: Avals) -> Any:
    """The executable that `evaluate` runs for arguments of these types."""
    entry = _entry_of(op)
    return entry.executables.get(avals) or entry.find(avals)


def as_array(x: Any) -> Array:
    """A concrete value as an Array; raises TypeError for what is none.

    Raises UnexpectedTracerError for a tracer: it has outlived its trace.
    """
    if isinstance(x, Tracer):
        raise UnexpectedTracerError(leak_message(x))
    return x if type(x) is Array else from_numpy(x, typeof(x))


def executable(op: Op, avals: Avals) -> Any:
    """A new executable for `op` on arguments of these types.

    Raises ValueError for a program with a check that nobody collects.
    """
    if op.effects and ops.check.CHECK in op.effects and not isinstance(op, ops.check.Check):
        raise ValueError(UNCOLLECTED)
    if not REFERENCE_ONLY:
        for compile_op in compilers:
            found = compile_op(op, avals)
            if found is not None:
                return found
    return Reference(op, avals)


class StepByStep:
    """A program run one operation at a time, where no backend compiles it whole."""

    __slots__ = ("in_avals", "jaxpr", "out_avals")

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.jaxpr = closed.jaxpr
        self.in_avals, self.out_avals = tuple(closed.in_avals), tuple(closed.out_avals)

    def run(self, args: Sequence[Array]) -> list[Array]:
        """Evaluates the equations in order."""
        outs = eval_jaxpr(self.jaxpr, [], *args)
        return [
            x if type(x) is Array and x.aval is aval else from_numpy(np.asarray(x), aval)
            for x, aval in zip(outs, self.out_avals, strict=True)
        ]

    def text(self, stage: str) -> str:
        """The program; it has no other form."""
        return str(self.jaxpr)


def _entry_of(op: Op) -> Any:
    """The entry of an op; equal instances share it."""
    with _lock:
        entry = _entries.get(op)
        if entry is None:
            while len(_entries) >= KEPT:
                del _entries[next(iter(_entries))]
            entry = _entries[op] = OpEntry(op)
    op.__dict__["_entry"] = entry
    return entry


def clear_caches() -> None:
    """Forgets all executables of eager operations."""
    with _lock:
        for entry in _entries.values():
            entry.forget()


class Reference:
    """An operation evaluated by its NumPy rule, or by its decomposition into others."""

    __slots__ = ("in_avals", "op", "out_avals")

    def __init__(self, op: Op, avals: Avals) -> None:
        out = op.result(*avals)
        self.op, self.in_avals = op, avals
        self.out_avals: Avals = tuple(out) if op.multiple_results else (out,)

    def run(self, args: Sequence[Array]) -> list[Array]:
        """Evaluates the op on arrays of the types `in_avals`."""
        op = self.op
        if has_rule(op, "numpy"):
            with np.errstate(all="ignore"):
                out = op.numpy(*map(arrays.host, args))
        elif has_rule(op, "decompose"):
            out = op.decompose(*args)
        else:
            raise NotImplementedError(f"{op.name} has no rule for eager evaluation")
        results = out if op.multiple_results else (out,)
        return [_result(op, r, aval) for r, aval in zip(results, self.out_avals, strict=True)]

    def text(self, stage: str) -> str:
        """The op; it has no other form."""
        return repr(self.op)

    @property
    def memory(self) -> MemoryStats:
        """Bytes of arguments and results."""
        sizes = (sum(a.nbytes for a in avals) for avals in (self.in_avals, self.out_avals))
        return MemoryStats(*sizes)


def _result(op: Op, value: Any, aval: ShapedArray) -> Array:
    if type(value) is Array:
        return value
    elements = np.asarray(value)
    if elements.shape != aval.shape:
        raise RuntimeError(
            f"{op.name}: the NumPy rule gave shape {elements.shape}; its result rule says "
            f"{aval.str_short()}"
        )
    # `np.asarray` in there converts a result of another dtype.
    return from_numpy(elements, aval, give=True)
