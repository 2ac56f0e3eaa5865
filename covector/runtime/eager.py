"""Eager functions that learn: composites such as `x * 2.0` or `x[3]` without their Python.

A function of arrays is a Python function over operations.  Called a second time with arguments of
the same types, it is staged, and the operations' own programs, in sequence (`runtime.sequence`),
become a record of its entry point: the third call runs them natively.  As with `jit`, what it
does may depend on types and settings alone; a function that looks at values cannot be staged, and
stays in Python.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from covector import ops, runtime
from covector._base import log
from covector._base.config import config
from covector._base.context import context, quiet
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime import rows
from covector.runtime.dispatch import executable
from covector.runtime.entry import Record, callable_class, operator_entry, signature
from covector.runtime.native import native
from covector.runtime.patterns import NUMBERS, Pattern, pattern_of, result_steps
from covector.runtime.placement import shardings_of
from covector.trace.stage import trace_to_jaxpr

#: Kinds of calls remembered for one function, learned or not.
KEPT: Final = 1024
#: Options under which each operation is looked at: no shortcuts then.
_WATCHFUL: Final = (
    "debug_nans", "debug_infs", "debug_key_reuse", "check_static_indices", "no_execution",
    "no_tracing",
)  # fmt: skip

_lock: Final = threading.RLock()


#: (arguments, result) of a call -> a record that needs no program, and its pattern; or None.
Shortcut = Callable[[Sequence[Any], Any], tuple[Pattern, Record] | None]


class Learner:
    """Learns one function: `notice` after a call that no record served."""

    __slots__ = ("constant", "entry", "fun", "generation", "seen", "shortcut")

    def __init__(
        self,
        entry: Any,
        fun: Callable[..., Any],
        constant: Callable[..., Collection[int | str]],
        shortcut: Shortcut | None = None,
    ) -> None:
        self.entry, self.fun, self.constant, self.shortcut = entry, fun, constant, shortcut
        self.generation: int = entry.generation
        self.seen: dict[Any, bool] = {}  # (pattern, types, options) -> whether it was tried

    def notice(self, args: Sequence[Any], names: Mapping[str, Any], result: Any) -> None:
        """Remembers the kind of a call; learns it the second time."""
        if quiet.value or context.trace.parent is not None:
            return
        if self.shortcut is not None and not names and not _watched():
            filed = self.shortcut(args, result)
            if filed is not None:
                self._file(*filed)
                return
        pattern = pattern_of(args, names, constant=self.constant(args, names))
        if pattern is None:
            return
        leaves, _ = pattern.match(args, names)  # type: ignore[misc]
        types = signature(leaves)
        if types is None:
            return
        if self.generation != self.entry.generation:
            self.generation = self.entry.generation
            self.seen.clear()
        key = (pattern, types, config.current_key)
        tried = self.seen.get(key)
        if tried is None:
            if len(self.seen) >= KEPT:
                self.seen.clear()
            self.seen[key] = False
        elif not tried:
            self.seen[key] = True
            self._learn(pattern, leaves, args, names)

    def _learn(
        self, pattern: Pattern, leaves: list[Any], args: Sequence[Any], names: Mapping[str, Any]
    ) -> None:
        avals = [aval for aval, _ in signature(leaves) or ()]
        if not _exact(leaves, avals) or _watched():
            return
        try:
            record = self._record(pattern, leaves, avals, args, names)
        except Exception as error:  # whatever it is, the function itself will say it
            log.debug(2, "%s stays in Python: %s", self.fun, error)
            return
        if record is not None:
            self._file(pattern, record)

    def _file(self, pattern: Pattern, record: Record) -> None:
        with _lock:
            if self.entry.record_count() >= KEPT:
                self.entry.clear_records()
            self.entry.add_record(pattern, record)

    def _record(
        self, pattern: Pattern, leaves: list[Any], avals: list[ShapedArray], args: Sequence[Any],
        names: Mapping[str, Any],
    ) -> Record | None:  # fmt: skip
        structure: list[Any] = []

        def flat(*tracers: Any) -> list[Any]:
            positional, keywords = pattern.fill(args, names, tracers)
            outputs: list[Any] = []
            structure.append(_numbered(self.fun(*positional, **keywords), outputs))
            return outputs

        closed = trace_to_jaxpr(flat, avals, getattr(self.fun, "__name__", ""))
        if set(closed.jaxpr.invars).issuperset(closed.jaxpr.outvars):
            return None  # arguments themselves, which a record would copy
        code = runtime.sequence.sequence(closed, executable)
        if code is None:
            return None
        whole = ops.call.Jit(closed, closed.jaxpr.debug_name or "")
        given, made = shardings_of(whole, leaves, avals, closed.out_avals)
        return Record(
            code, avals, closed.out_avals, result=result_steps(structure[0]),
            in_shardings=None if made is None else given, out_shardings=made,
        )  # fmt: skip


def _watched() -> bool:
    return any(config.read(name) for name in _WATCHFUL)


def _exact(leaves: Sequence[Any], avals: Sequence[ShapedArray]) -> bool:
    """Whether Python numbers give the same results as weakly typed arrays.

    A number meets a narrow type directly, an array of the default type is rounded twice.
    """
    if not any(type(x) in NUMBERS for x in leaves):
        return True
    return all(a.itemsize >= 4 or a.dtype.kind == "b" for a in avals)


def _numbered(result: Any, outputs: list[Any]) -> Any:
    """The structure of a result with numbers for its arrays, which are appended to `outputs`."""
    kind = type(result)
    if result is None:
        return None
    if kind is tuple or kind is list:
        return kind(_numbered(item, outputs) for item in result)
    if isinstance(result, tuple) and hasattr(kind, "_make"):
        return kind._make(_numbered(item, outputs) for item in result)  # type: ignore[attr-defined]
    if not hasattr(result, "aval"):
        raise TypeError(f"a result of type {kind.__name__} is no array")
    outputs.append(result)
    return len(outputs) - 1


@callable_class
class EagerFunction:
    """A function with an entry point of its own; see `eager`."""

    def __init__(
        self, fun: Callable[..., Any], constant: Any, shortcut: Shortcut | None = None
    ) -> None:
        functools.update_wrapper(self, fun)  # type: ignore[arg-type]
        self._learner = Learner(self, fun, constant, shortcut)

    def fallback(self, *args: Any, **names: Any) -> Any:
        """The Python function."""
        learner = self._learner
        result = learner.fun(*args, **names)
        if quiet.value == 0:
            learner.notice(args, names, result)
        return result

    def __repr__(self) -> str:
        return f"<function {getattr(self, '__qualname__', '?')}>"

    def __reduce__(self) -> str:
        return self.__dict__["__qualname__"]  # pickled by name, as functions are


def eager(
    fun: Callable[..., Any] | None = None,
    *,
    arrays: int = 1,
    named: Collection[str] = (),
    shortcut: Shortcut | None = None,
) -> Any:
    """Makes `fun` learn its composites.  Its first `arrays` arguments and the keywords `named` are
    arrays, numbers, or containers of them; all others are settings (an axis, a mode, a shape).

    shortcut: a record for calls that need no program.  Without the native runtime `fun` itself is
    returned.
    """
    if fun is None:
        return lambda f: eager(f, arrays=arrays, named=named, shortcut=shortcut)
    if native() is None:
        return fun

    def constant(args: Sequence[Any], names: Mapping[str, Any]) -> list[int | str]:
        return [*range(arrays, len(args)), *(k for k in names if k not in named)]

    return EagerFunction(fun, constant, shortcut)


def _all_arrays(args: Sequence[Any], names: Mapping[str, Any]) -> tuple[()]:
    return ()


def _but_exponents(args: Sequence[Any], names: Mapping[str, Any]) -> tuple[int, ...]:
    """A Python integer as exponent is a setting: it becomes multiplications."""
    return (1,) if type(args[1]) is int else ()


_BINARY: Final = (
    "add", "sub", "mul", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift",
    "floordiv", "truediv", "matmul",
)  # fmt: skip
_OTHER: Final = ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs", "invert")


def install_operators(methods: Mapping[str, Any]) -> None:
    """As `array.install_methods`, with operators that learn."""
    if native() is None:
        arrays.install_methods(methods)
        return
    watched = dict(methods)
    for name in _BINARY:
        if f"__{name}__" in methods:
            learner = _operator(f"__{name}__", methods[f"__{name}__"])
            watched[f"__{name}__"] = _watch(learner, methods[f"__{name}__"])
            reflected = methods.get(f"__r{name}__")
            if reflected is not None:
                watched[f"__r{name}__"] = _watch_reflected(learner, reflected)
    for name in (*(f"__{n}__" for n in _OTHER), "__getitem__"):
        if name in methods:
            watched[name] = _watch(_operator(name, methods[name]), methods[name])
    arrays.install_methods(watched)


def _operator(name: str, method: Callable[..., Any]) -> Learner:
    constant = _but_exponents if name == "__pow__" else _all_arrays
    shortcut = rows.read if name == "__getitem__" else None
    return Learner(operator_entry(name), method, constant, shortcut)


def _watch(learner: Learner, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def operator(*args: Any) -> Any:
        result = method(*args)
        if quiet.value == 0 and result is not NotImplemented:
            learner.notice(args, {}, result)
        return result

    return operator


def _watch_reflected(learner: Learner, method: Callable[..., Any]) -> Callable[..., Any]:
    # The entry is looked up by (left, right); `method` is called as (right, left).
    swapped = Learner(learner.entry, lambda left, right: method(right, left), learner.constant)

    @functools.wraps(method)
    def operator(self: Any, other: Any) -> Any:
        result = method(self, other)
        if quiet.value == 0 and result is not NotImplemented:
            swapped.notice((other, self), {}, result)
        return result

    return operator
