"""`jit`: traces a function once per type of its arguments, compiles it, and calls the result.

A call tries a compiled entry point first (`runtime.entry`), which knows the types it has seen;
everything else comes to `JitFunction.fallback`: it binds static arguments, flattens pytrees,
finds or makes the program, and runs it, or binds it as an operation of the current trace.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from covector import tree
from covector._base import log
from covector._base.boundary import api_boundary
from covector._base.config import config
from covector._base.context import context, quiet
from covector._base.source import user_frame
from covector.api.arguments import (
    Flat,
    argument_labels,
    as_argnums,
    check_callable,
    check_values,
    name_of,
    signature_of,
)
from covector.api.arrays import as_array
from covector.api.inspect import abstract, eval_shape
from covector.api.retrace import TraceCall, reasons, signature
from covector.api.stages import Lowered
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.ir.values import typeof
from covector.ops.call import Jit
from covector.runtime import dispatch
from covector.runtime.array import Array
from covector.runtime.entry import Record, callable_class
from covector.runtime.patterns import built_by, pattern_of, result_steps
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import Tracer


class Traced:
    """A traced function: the operation to bind, what it captured, the structure of its result."""

    __slots__ = ("_executable", "captured", "in_tree", "labels", "op", "out_tree", "patterns")

    def __init__(
        self, op: Jit, captured: list[Any], in_tree: Any, out_tree: Any, labels: list[str]
    ) -> None:
        self.op, self.captured = op, captured
        self.in_tree, self.out_tree = in_tree, out_tree
        #: What the flat arguments are called in messages.
        self.labels = labels
        self._executable: Any = None
        #: Structures of arguments that the entry point has a record of.
        self.patterns: set[Any] = set()

    def executable(self) -> Any:
        """The compiled program, made when first wanted."""
        if self._executable is None:
            self._executable = dispatch.executable(self.op, tuple(self.op.jaxpr.in_avals))
        return self._executable


#: fun -> {key: Traced}: jitting one function twice traces it once.
_shared: weakref.WeakKeyDictionary[Any, dict[Any, Traced]] = weakref.WeakKeyDictionary()
#: Every jitted function there is.
_alive: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()
#: Records an entry point may hold for one program: one for each structure of arguments.
ENTRIES = 64


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


def _look_like(wrapper: Any, fun: Any) -> None:
    """As functools.update_wrapper, for an object whose __dict__ is not to be seen."""
    own: dict[str, Any] = getattr(fun, "__dict__", {})
    for name, value in own.items():
        setattr(wrapper, name, value)
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fun, name):
            setattr(wrapper, name, getattr(fun, name))
    wrapper.__wrapped__ = fun


@callable_class
class JitFunction:
    """What `jit` returns: calls the compiled `fun`; binds as a method.

    Its call is an entry point of the runtime, which comes to `fallback` for what it has no record
    of: the first call with arguments of new types, calls while a function is traced.
    """

    # Given by `callable_class`: the records of its entry point.
    add_record: Callable[[Any, Record], None]
    clear_records: Callable[[], None]

    def __init__(
        self, fun: Callable[..., Any], static: Static, donated: Static, inline: bool
    ) -> None:
        _look_like(self, fun)
        self._fun, self._static, self._donated, self._inline = fun, static, donated, inline
        self._traces = _traces_of(fun, static)
        _alive.add(self)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"

    @api_boundary
    def fallback(self, *args: Any, **kwargs: Any) -> Any:
        """The call, whatever the arguments are."""
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        found, leaves = self.find(args, kwargs)
        if context.trace.parent is not None:
            outs = found.op(*found.captured, *leaves)
            return tree.unflatten(found.out_tree, outs)
        arrays = [x if type(x) is Array else as_array(x) for x in leaves]
        executable = found.executable()
        outs = executable.run([*found.captured, *arrays])
        if quiet.value == 0 and len(found.patterns) < ENTRIES:
            self._enter(found, executable, args, kwargs, leaves)
        return tree.unflatten(found.out_tree, outs)

    def _enter(
        self, found: Traced, executable: Any, args: Any, kwargs: Any, leaves: Sequence[Any]
    ) -> None:
        """Let the entry point run later calls like this one, if it can."""
        code = getattr(executable, "code", None)
        if code is None:
            return
        pattern = pattern_of(args, kwargs, static=_static_places(self._static, args, kwargs))
        if pattern is None or pattern.leaves != len(leaves) or pattern in found.patterns:
            return
        found.patterns.add(pattern)
        hidden = len(found.captured)
        record = Record(
            code.with_hidden(found.captured),
            executable.in_avals[hidden:],
            executable.out_avals,
            result=_result_steps(found.out_tree),
        )
        self.add_record(pattern, record)

    def find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], typer: Callable[[Any], Any] = typeof
    ) -> tuple[Traced, list[Any]]:
        """The traced program for these arguments (traced now if need be), and the flat ones."""
        fun, given = self._fun, (args, kwargs)
        key_static: Any = None
        if self._static:
            fun, given, key_static = _bind_static(fun, self._static, args, kwargs)
        leaves, in_tree = tree.flatten(given)
        try:
            avals = tuple([typer(x) for x in leaves])
        except TypeError:
            check_values(leaves, given, f"an argument of jit of {name_of(self._fun)}")
            raise
        key = (in_tree, avals, key_static, config.current_key)
        found = self._traces.get(key)
        if found is None:
            with _lock:
                found = self._traces.get(key) or self._trace(fun, key, given)
        return found, leaves

    def _trace(self, fun: Callable[..., Any], key: Any, given: Any) -> Traced:
        in_tree, avals = key[0], key[1]
        name = name_of(self._fun)
        labels = argument_labels(self._fun, given, self._static.numbers)
        if log.wanted(1):
            self._say_traced(name, key, labels)
        flat = Flat(fun, in_tree)
        program = trace_to_jaxpr(
            flat, avals, name, [f"argument {label} of {name}" for label in labels]
        )
        op = Jit(_lift_constants(program), name)
        captured = [as_array(c) for c in program.consts]
        found = Traced(op, captured, in_tree, flat.out_tree, labels)
        # A captured tracer belongs to a running trace: nobody else may meet it.
        if not any(isinstance(c, Tracer) for c in captured):
            self._traces[key] = found
        log.show(2, f"jaxpr of {name}", op.jaxpr)
        return found

    def _say_traced(self, name: str, key: Any, labels: list[str]) -> None:
        log.debug(1, "trace %s(%s), called at %s", name, signature(labels, key[1]), user_frame())
        last = next(reversed(self._traces.items()), None)
        if last is not None:
            why = reasons(TraceCall(*last[0]), last[1].labels, TraceCall(*key), labels)
            log.debug(1, "  again, since %s", "; ".join(why) or "it was forgotten")

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Lowered:
        """The traced function for arguments of these types (arrays or ShapeDtypeStructs)."""
        found, _ = self.find(args, kwargs, abstract)
        return Lowered(found, name_of(self._fun))

    lower = trace

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The structure, shapes and dtypes of the result."""
        return eval_shape(self._fun, *args, **kwargs)

    def clear_cache(self) -> None:
        """Forget every traced and compiled version of this function."""
        self._traces.clear()
        self.clear_records()

    def _cache_size(self) -> int:
        return len(self._traces)


def _traces_of(fun: Any, static: Static) -> dict[Any, Traced]:
    """The cache that this function object shares with other jits of it."""
    if inspect.ismethod(fun):
        return {}
    key = (static.numbers, static.names)
    try:
        with _lock:
            return _shared.setdefault(fun, {}).setdefault(key, {})  # type: ignore[return-value]
    except TypeError:  # not hashable, or no weak references
        return {}


def _static_places(static: Static, args: Any, kwargs: Any) -> set[int | str]:
    places: set[int | str] = {n for n in static.numbers if n < len(args)}
    return places | {k for k in kwargs if k in static.names}


def _result_steps(out_tree: Any) -> Any:
    """How the entry point builds the result."""
    count = out_tree.num_leaves
    try:
        return result_steps(tree.unflatten(out_tree, range(count)))
    except TypeError:  # a custom node
        return built_by(lambda *outs: tree.unflatten(out_tree, outs), count)


def _bind_static(
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


def _lift_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The captured constants as leading arguments."""
    body = program.jaxpr
    if not body.constvars:
        return program
    invars = [*body.constvars, *body.invars]
    return ClosedJaxpr(Jaxpr([], invars, body.outvars, body.eqns, body.debug_name), [])


_unspecified = object()


@api_boundary
def jit(
    fun: Any = _unspecified,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile `fun`: the first call with arguments of new types traces and compiles it.

    Args:
      fun: a function of arrays or pytrees of them.  Left out, `jit(static_argnums=0)` is a
        decorator.
      static_argnums, static_argnames: arguments that are Python values known when tracing; they
        must be hashable, and a new value means a new compilation.
      donate_argnums, donate_argnames: arguments whose memory may be reused.
      inline: whether callers' programs take its equations in place of a call.

    Returns a function that can be called, used as a method, lowered (`.lower`), and whose cache can
    be cleared (`.clear_cache`).  Raises TypeError for arguments that are no arrays, ValueError for
    static arguments that cannot be hashed.

    >>> import covector as cv
    >>> @cv.jit
    ... def f(x):
    ...     return 3 * x + 1
    >>> int(f(2))
    7
    """
    del in_shardings, out_shardings, keep_unused, device, backend, compiler_options
    options = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "inline": inline,
    }
    if fun is _unspecified:
        return functools.partial(jit, **options)
    check_callable(fun, "jit")
    if inspect.isgeneratorfunction(fun) or inspect.iscoroutinefunction(fun):
        raise TypeError(f"jit: {name_of(fun)} is a generator or coroutine; it cannot be traced")
    static = Static(fun, static_argnums, static_argnames, "static")
    donated = Static(fun, donate_argnums, donate_argnames, "donate")
    return JitFunction(fun, static, donated, inline)


def clear_caches() -> None:
    """Forget every traced and compiled program of this process.

    >>> import covector as cv
    >>> cv.clear_caches()
    """
    with _lock:
        for tables in _shared.values():
            for table in tables.values():
                table.clear()  # type: ignore[attr-defined]
    for jitted in list(_alive):
        jitted.clear_cache()
    dispatch.clear_caches()
