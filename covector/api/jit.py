"""`jit`: traces a function once per type of its arguments, compiles it, and calls the result.

A call tries a compiled entry point first (`runtime.entry`), which knows the types it has seen;
everything else comes to `JitFunction.fallback`: it binds static arguments, flattens pytrees,
finds or makes the program, and runs it, or binds it as an operation of the current trace.
"""

from __future__ import annotations

import functools
import gc
import inspect
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from covector import api, runtime, transforms, tree
from covector import trace as tracing
from covector._base import log
from covector._base.boundary import api_boundary
from covector._base.config import config
from covector._base.context import context, quiet
from covector._base.source import user_frame
from covector.api.arguments import Flat, argument_labels, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.api.programs import Found, Program, Taker
from covector.api.retrace import History, TraceCall, signature
from covector.api.static_arguments import Static, bind_static, donated_leaves, static_places
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.runtime import array, deferred, dispatch
from covector.runtime.array import Array
from covector.runtime.entry import Record, callable_class
from covector.runtime.patterns import built_by, pattern_of, result_steps
from covector.runtime.placement import shardings_of
from covector.runtime.pool import give_back
from covector.runtime.watch import KEYS, VALUES
from covector.trace import cache, purity_state
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import Tracer

if TYPE_CHECKING:
    from covector.api.stages import Lowered, Traced

#: fun -> {options: {key: Found}}: jitting one function twice traces it once.
_shared: weakref.WeakKeyDictionary[Any, dict[Any, dict[Any, Found]]] = weakref.WeakKeyDictionary()
#: Every jitted function there is.
_alive: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()
#: Programs that one function may have; beyond that the oldest are forgotten.  Some 60 KB each.
TRACES = 1024
#: Records of an entry point; beyond that it starts anew.
RECORDS = 1024
#: Records an entry point may hold for one program: one for each structure of arguments.
ENTRIES = 64


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
    record_count: Callable[[], int]

    def __init__(
        self, fun: Callable[..., Any], static: Static, donated: Static, inline: bool
    ) -> None:
        _look_like(self, fun)
        self._fun, self._static, self._donated, self._inline = fun, static, donated, inline
        self._options = (static.key, donated.key)
        self._traces = _traces_of(fun, self._options)
        self._history = History(name_of(fun))
        _alive.add(self)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"

    @api_boundary
    def fallback(self, *args: Any, **kwargs: Any) -> Any:
        """The call, whatever the arguments are."""
        if config.disable_jit or context.trace.region is not None:
            return self._fun(*args, **kwargs)
        found, leaves = self.find(args, kwargs)
        program = found.program
        watched = VALUES.in_force() or KEYS.in_force()
        if watched or context.trace.parent is not None:
            if self._inline:
                outs = eval_jaxpr(program.op.jaxpr.jaxpr, [], *found.captured, *leaves)
            else:
                outs = program.op(*found.captured, *leaves)
                if quiet.value == 0 and found.snapshot is None and not KEYS.in_force():
                    self._enter_tested(found, args, kwargs, leaves)
            return tree.unflatten(program.out_tree, outs)
        arrays = [x if type(x) is Array else as_array(x) for x in leaves]
        values = [*found.captured, *arrays]
        body = program.op.jaxpr
        placed = shardings_of(program.op, values, body.in_avals, body.out_avals)
        if program.donated:
            outs = program.run_donating(found.captured, arrays, name_of(self._fun))
        else:
            outs = deferred.run(program.executable(), values)
        known = quiet.value == 0 and found.snapshot is None and len(found.patterns) < ENTRIES
        if known and (program.taken or not program.donated):
            self._enter(found, program.executable(), args, kwargs, leaves, placed=placed)
        for x, sharding in zip(outs, placed[1] or (), strict=False):
            x._sharding = sharding
        return tree.unflatten(program.out_tree, outs)

    def _enter_tested(self, found: Found, args: Any, kwargs: Any, leaves: Sequence[Any]) -> None:
        """As `_enter`, while `debug_nans` or `debug_infs` is set: with the test in it."""
        if len(found.patterns) < ENTRIES and not found.program.donated:
            op = found.program.op
            executable = runtime.debug_values.executable(op, tuple(op.jaxpr.in_avals))
            if executable is not None:
                self._enter(found, executable, args, kwargs, leaves, tested=True)

    def _enter(
        self,
        found: Found,
        executable: Any,
        args: Any,
        kwargs: Any,
        leaves: Sequence[Any],
        tested: bool = False,
        placed: tuple[Any, Any] = (None, None),
    ) -> None:
        """Let the entry point run later calls like this one, if it can.

        placed: the shardings of captured and given arrays, and of the results.
        """
        code = getattr(executable, "code", None)
        if code is None or (deferred.is_long(code) and not tested):
            return  # a long program's results are not waited for
        hidden = len(found.captured)
        given, made = placed
        given = None if made is None else given[hidden:]
        pattern = pattern_of(args, kwargs, static=static_places(self._static, args, kwargs))
        if pattern is None or pattern.leaves != len(leaves) or (pattern, given) in found.patterns:
            return
        found.patterns.add((pattern, given))
        record = Record(
            code.with_hidden(found.captured),
            executable.in_avals[hidden:],
            executable.out_avals,
            result=_result_steps(found.program.out_tree),
            in_shardings=given,
            out_shardings=made,
            donated=found.program.donated,
            taken={out: n - hidden for out, n in found.program.taken.items()},
            mark=array.Deleted(Taker(name_of(self._fun), user_frame(), later=True)),
            tested=tested,
        )
        if self.record_count() >= RECORDS:
            self.clear_records()
            for known in tuple(self._traces.values()):
                known.patterns.clear()
            found.patterns.add((pattern, given))
        self.add_record(pattern, record)

    def find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], typer: Callable[[Any], Any] = typeof
    ) -> tuple[Found, list[Any]]:
        """The traced program for these arguments (traced now if need be), and the flat ones."""
        key, fun, given, leaves = self._key(args, kwargs, typer)
        found = self._traces.get(key)
        if found is not None and found.snapshot is not None:
            found = self._still_true(found)
        if found is None:
            with _lock:
                found = self._traces.get(key) or self._trace(fun, key, given, args, kwargs)
        return found, leaves

    def _key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], typer: Callable[[Any], Any]
    ) -> tuple[TraceCall, Callable[..., Any], Any, list[Any]]:
        """(what the trace is filed under, function of the dynamic arguments, these, flat)."""
        fun, given = self._fun, (args, kwargs)
        key_static: Any = None
        if self._static:
            fun, given, key_static = bind_static(fun, self._static, args, kwargs)
        leaves, in_tree = tree.flatten(given)
        try:
            avals = tuple([typer(x) for x in leaves])
        except TypeError:
            check_values(leaves, given, f"an argument of jit of {name_of(self._fun)}")
            raise
        key = TraceCall(in_tree, avals, key_static, config.current_key, context.trace.axes)
        return key, fun, given, leaves

    def _trace(
        self, fun: Callable[..., Any], key: TraceCall, given: Any, args: Any, kwargs: Any
    ) -> Found:
        name = name_of(self._fun)
        donated = donated_leaves(self._donated, self._static, args, kwargs)
        static = static_places(self._static, args, kwargs)
        fixed = [args[p] if isinstance(p, int) else kwargs[p] for p in sorted(static, key=str)]

        traced: list[bool] = []

        def trace() -> tuple[ClosedJaxpr, Program]:
            traced.append(True)
            labels = argument_labels(self._fun, given, self._static.numbers)
            self._announce(key, labels)
            start = time.perf_counter()
            flat = Flat(fun, key.in_tree)
            sources = [f"argument {label} of {name}" for label in labels]
            closed = trace_to_jaxpr(flat, key.avals, name, sources)
            log.compiles("traced %s in %.6f s", name, time.perf_counter() - start)
            log.show(2, f"jaxpr of {name}", closed.jaxpr)
            if config.debug_key_reuse:
                transforms.key_reuse.check_program(closed, sources)
            return closed, Program(closed, name, key.in_tree, flat.out_tree, labels, donated)

        snapshot = None
        if config.purity_guard == "off":
            also = (*fixed, *cache.node_types(key.in_tree))
            closed, program = cache.shared(self._fun, (self._options, key), trace, also=also)
        else:
            root = self._fun
            if args and 0 in static and isinstance(root, types.FunctionType):
                root = types.MethodType(root, args[0])
            with tracing.purity.observed(root, name):
                closed, program = trace()
            snapshot = tracing.purity.Snapshot(root)
        captured = [as_array(c) for c in closed.consts]
        found = Found(program, captured, snapshot)
        # A captured tracer belongs to a running trace: nobody else may meet it.
        if not any(isinstance(c, Tracer) for c in captured):
            self._traces[key] = found
            while len(self._traces) > TRACES:
                del self._traces[next(iter(self._traces))]
            self._history.add(key, program.labels, user_frame(), shared=not traced)
        return found

    def _announce(self, key: TraceCall, labels: Sequence[str]) -> None:
        """Say that the function is traced (again, and why), to those who want to hear it."""
        name = name_of(self._fun)
        if config.no_tracing:
            raise RuntimeError(
                f"jit of {name} would be traced for {signature(labels, key.avals)}, "
                f"but the option no_tracing is set. {self._history.why(key, labels)}"
            )
        if not log.wanted(1) and not config.explain_cache_misses:
            return
        where, why = user_frame(), self._history.why(key, labels)
        log.debug(1, "trace %s(%s), called at %s", name, signature(labels, key.avals), where)
        if self._history:
            log.debug(1, "  again, since %s", why)
        if config.explain_cache_misses:
            log.warning(
                "jit of %s is traced for (%s), called at %s: %s",
                name, signature(labels, key.avals), where, why,
            )  # fmt: skip

    def _still_true(self, found: Found) -> Found | None:
        """The program, unless what the function read when traced has changed and is to be read
        again."""
        changes = found.snapshot.changes()
        if not changes:
            return found
        if config.purity_guard == "retrace":
            return self._forget(found)
        tracing.purity.report(changes, f"jit of {name_of(self._fun)}")
        return found

    def _forget(self, found: Found) -> None:
        with _lock:
            for key, other in list(self._traces.items()):
                if other is found:
                    del self._traces[key]

    # Ahead of time.

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced function for arguments of these types (arrays or ShapeDtypeStructs)."""
        found, _ = self.find(args, kwargs, api.inspect.abstract)
        return api.stages.Traced(found, name_of(self._fun), self._donated.numbers)

    @api_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """`trace(*args, **kwargs).lower()`."""
        found, _ = self.find(args, kwargs, api.inspect.abstract)
        return api.stages.Traced(found, name_of(self._fun), self._donated.numbers).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The structure, shapes and dtypes of the result."""
        return api.inspect.eval_shape(self._fun, *args, **kwargs)

    # Caches.

    @api_boundary
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Why the function was traced each time; or, given arguments, what a call would do.

        >>> import covector as cv
        >>> f = cv.jit(lambda x: x + 1)
        >>> _ = f(cv.numpy.ones(3)), f(cv.numpy.ones(4))
        >>> print(f.explain())
        <lambda> was traced twice:
          1. (x: f32[3]), called at ...
          2. (x: f32[4]), called at ...: x was f32[3], now f32[4]
        >>> print(f.explain(cv.numpy.ones(5)))
        <lambda> would be traced: x was f32[4], now f32[5]
        """
        if not args and not kwargs:
            return self._history.text()
        key, _, given, _ = self._key(args, kwargs, api.inspect.abstract)
        labels = argument_labels(self._fun, given, self._static.numbers)
        return self._history.forecast(key, labels, key in self._traces)

    def clear_cache(self) -> None:
        """Forget every traced and compiled version of this function."""
        self._traces.clear()
        self._history.clear()
        self.clear_records()

    def _cache_size(self) -> int:
        return len(self._traces)


def _parts(f: Any) -> tuple[Any, ...]:
    """What a jitted function is to functions that call it."""
    return f._fun, f._options, f._inline


purity_state.parts[JitFunction] = _parts


def _traces_of(fun: Any, options: Any) -> dict[Any, Found]:
    """The cache that this function object shares with other jits of it."""
    if inspect.ismethod(fun):
        return {}
    try:
        with _lock:
            return _shared.setdefault(fun, {}).setdefault(options, {})
    except TypeError:  # not hashable, or no weak references
        return {}


def _result_steps(out_tree: Any) -> Any:
    """How the entry point builds the result."""
    count = out_tree.num_leaves
    try:
        return result_steps(tree.unflatten(out_tree, range(count)))
    except TypeError:  # a custom node
        return built_by(lambda *outs: tree.unflatten(out_tree, outs), count)


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
      donate_argnums, donate_argnames: arguments that a call may overwrite with results of their
        shape and dtype.  They are deleted: later use raises RuntimeError, naming the call.
      inline: whether callers' programs take its equations in place of a call.
      keep_unused: accepted; every argument stays one of the program.

    Returns a function that can be called, used as a method, traced and lowered ahead of time
    (`.trace`, `.lower`), asked why it was traced (`.explain`), and whose cache can be cleared
    (`.clear_cache`).  Raises TypeError for arguments that are no arrays, ValueError for static
    arguments that cannot be hashed.

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
    both = {*static.numbers, *static.names} & {*donated.numbers, *donated.names}
    if both:
        listed = ", ".join(sorted(map(str, both)))
        raise ValueError(
            f"jit of {name_of(fun)}: an argument cannot be static and donated; {listed} is both"
        )
    return JitFunction(fun, static, donated, bool(inline))


def clear_caches() -> None:
    """Forget every traced and compiled program of this process; give memory back to the system.

    >>> import covector as cv
    >>> cv.clear_caches()
    """
    with _lock:
        for tables in _shared.values():
            for table in tables.values():
                table.clear()
    for jitted in list(_alive):
        jitted.clear_cache()
    cache.clear()
    dispatch.clear_caches()
    gc.collect()  # functions and what they were traced to are often in cycles
    give_back()
