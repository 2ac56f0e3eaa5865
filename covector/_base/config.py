"""The current value of every option: one value per process, with overrides per thread.

Reading sits on the path of every call, so ``config`` is a ``threading.local`` whose class carries
the process-wide values and whose per-thread dictionary carries the overrides of that thread: one
attribute read, no Python code, finds the right one.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from .options import ANY, INERT, OPTIONS, Option

_MISSING: Final = object()
_KEYS_LIMIT: Final = 4096


class TraceKey(tuple[Any, ...]):
    """The values of all options that influence tracing.

    Interned: two equal keys are one object, so comparing and hashing go by identity and cost a
    cache lookup nothing.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def differences(self, other: TraceKey) -> dict[str, tuple[Any, Any]]:
        """Option name -> (value here, value there), for those that differ."""
        return {
            name: (self[i], other[i])
            for name, i in _shared.positions.items()
            if i < min(len(self), len(other)) and self[i] != other[i]
        }


class _Shared:
    """What the threads share: the options by name, interned keys, the threads with overrides."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.options: Final[dict[str, Option]] = {}
        self.names: Final[dict[str, str]] = {}  # every accepted spelling -> the option's name
        self.positions: dict[str, int] = {}  # traced option -> its place in a key
        self.keys: Final[dict[Any, TraceKey]] = {}
        self.derived: Final[dict[Any, TraceKey]] = {}  # (key, traced changes) -> key
        self.overriding: Final[dict[int, dict[str, Any]]] = {}  # id -> a thread's dictionary
        self.overriding_threads = 0
        self.epoch = 0  # counts process-wide changes of traced options
        self.callbacks: tuple[Callable[[Option, str], None], ...] = ()
        self.user_contexts = 0

    def intern(self, values: tuple[Any, ...]) -> TraceKey:
        # The types are part of the identity: 1, 1.0 and True are equal but not interchangeable.
        exact = (values, tuple(map(type, values)))
        key = self.keys.get(exact)
        if key is not None:
            return key
        if len(self.keys) >= _KEYS_LIMIT:
            # Values of user contexts may be without number. Keys still in use lose their twins,
            # which costs a trace; the process-wide key must stay the same object.
            self.derived.clear()
            kept = {e: k for e, k in self.keys.items() if k is Config.current_key}
            self.keys.clear()
            self.keys.update(kept)
        return self.keys.setdefault(exact, TraceKey(values))


_shared: Final = _Shared()


class Config(threading.local):
    """The options. Read one as an attribute: ``config.enable_x64`` (or ``config.jax_enable_x64``).

    ``config.update(name, value)`` changes it for the process, ``config.scoped(name=value)`` for
    the current thread within a ``with`` block or a decorated function.
    """

    current_key: TraceKey = TraceKey()

    def update(self, name: str, val: Any) -> None:
        """Sets an option for the whole process, save for threads that hold an override of it.

        Raises AttributeError for an unknown name, TypeError or ValueError for a wrong value.

        >>> config.update("numpy_rank_promotion", "allow")
        """
        option = self.option(name)
        val = option.check(val)
        with _shared.lock:
            old, told = getattr(Config, option.name), _Told()
            _set_global(option.name, val)
            try:
                _notify(option, "update", told)
            except BaseException:
                _set_global(option.name, old)
                _take_back("update", told)
                raise

    def read(self, name: str) -> Any:
        """The value of an option in this thread, by any of its names."""
        return getattr(self, self.option(name).name)

    def scoped(self, **overrides: Any) -> Scope:
        """A context manager (and decorator) that overrides options in this thread.

        >>> with config.scoped(enable_x64=True):
        ...     config.enable_x64
        True
        """
        return Scope({self.option(name): value for name, value in overrides.items()})

    def trace_key(self) -> TraceKey:
        """The values of all options that influence tracing: a tuple compared by identity.

        ``config.current_key`` is the same without the cost of a call.
        """
        return self.current_key

    def option(self, name: str) -> Option:
        """The declaration of an option: default, allowed values, documentation."""
        known = _shared.names.get(name)
        if known is not None:
            return _shared.options[known]
        import difflib  # for this message alone

        near = difflib.get_close_matches(name, _shared.names, n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise AttributeError(f"there is no option {name!r}{hint}")

    def on_change(self, callback: Callable[[Option, str], None]) -> Callable[[], None]:
        """Calls ``callback(option, event)`` after every change; returns a function that stops it.

        The event is ``"update"`` (process-wide), ``"enter"`` or ``"exit"`` (this thread). The
        change has happened when the callback runs; one that raises undoes an update or an entry,
        of which those that were told before hear in turn.
        The lock of the configuration is held, so ``config.overriding_threads`` is current.
        """
        with _shared.lock:
            _shared.callbacks = (*_shared.callbacks, callback)

        def stop() -> None:
            with _shared.lock:
                _shared.callbacks = tuple(c for c in _shared.callbacks if c is not callback)

        return stop

    @property
    def overriding_threads(self) -> int:
        """How many threads now see a trace key that differs from the process-wide one."""
        return _shared.overriding_threads

    @property
    def values(self) -> dict[str, Any]:
        """All options of this thread under their JAX names."""
        options = tuple(_shared.options.values())
        return {option.jax_name: getattr(self, option.name) for option in options}

    def __iter__(self) -> Iterator[Option]:
        return iter(tuple(_shared.options.values()))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"options are set with config.update({name!r}, ...) for the process, or with "
            f"config.scoped({name}=...) for a block of code"
        )

    def __repr__(self) -> str:
        changed = (f"{o.name}={getattr(self, o.name)!r}" for o in self
                   if getattr(self, o.name) != o.default)  # fmt: skip
        return f"Config({', '.join(changed)})"


def _set_global(name: str, value: Any) -> None:
    setattr(Config, name, value)
    if name in _shared.positions:
        _refresh_all()


def _refresh_all() -> None:
    """Recomputes the process-wide key and those of the threads that hold overrides."""
    _shared.epoch += 1
    Config.current_key = _shared.intern(tuple(getattr(Config, n) for n in _shared.positions))
    for local in _shared.overriding.values():
        local["current_key"] = _key_of(local)
    _count_overriding()


def _key_of(local: dict[str, Any]) -> TraceKey:
    pairs = zip(_shared.positions, Config.current_key, strict=True)
    return _shared.intern(tuple(local.get(name, value) for name, value in pairs))


def _derive(key: TraceKey, changes: tuple[tuple[str, type, Any], ...]) -> TraceKey:
    if not changes:
        return key
    derived = _shared.derived.get((key, changes))
    if derived is None:
        values = list(key)
        for name, _, value in changes:
            values[_shared.positions[name]] = value
        derived = _shared.derived[key, changes] = _shared.intern(tuple(values))
    return derived


def _count_overriding() -> None:
    base = Config.current_key
    _shared.overriding_threads = sum(
        [local["current_key"] is not base for local in _shared.overriding.values()]
    )


def _count_change(before: TraceKey, after: TraceKey) -> None:
    base = Config.current_key
    _shared.overriding_threads += (after is not base) - (before is not base)


#: Who was told of a change, in order, and of which option.
_Told = list[tuple[Callable[["Option", str], None], "Option"]]


def _notify(option: Option, event: str, told: _Told | None = None) -> None:
    for callback in _shared.callbacks:
        callback(option, event)
        if told is not None:
            told.append((callback, option))


def _take_back(event: str, told: _Told) -> None:
    """Tells who was told of a change, before somebody refused it, that all is as it was."""
    for callback, option in reversed(told):
        callback(option, event)


class Scope:
    """Overrides of options in one thread, as a context manager or a decorator; reusable."""

    __slots__ = ("_changes", "_saved", "_traced")

    def __init__(self, changes: dict[Option, Any]):
        self._changes = [(option, option.check(value)) for option, value in changes.items()]
        self._traced = tuple([(o.name, v.__class__, v) for o, v in self._changes if o.traced])
        self._saved: list[tuple[dict[str, Any], list[Any], TraceKey, int]] = []

    def __enter__(self) -> None:
        local = config.__dict__  # of this thread
        with _shared.lock:
            key = config.current_key
            saved = [local.get(option.name, _MISSING) for option, _ in self._changes]
            self._saved.append((local, saved, key, _shared.epoch))
            for option, value in self._changes:
                local[option.name] = value
            derived = local["current_key"] = _derive(key, self._traced)
            _shared.overriding[id(local)] = local
            _count_change(key, derived)
            if _shared.callbacks:
                self._announce_entry()

    def _announce_entry(self) -> None:
        told = _Told()
        try:
            for option, _ in self._changes:
                _notify(option, "enter", told)
        except BaseException:
            self._restore()
            _take_back("exit", told)
            raise

    def __exit__(self, *exc: object) -> None:
        with _shared.lock:
            self._restore()
            if _shared.callbacks:
                for option, _ in self._changes:
                    _notify(option, "exit")

    def _restore(self) -> None:
        mine = config.__dict__
        # One scope object may be entered by several threads at once; each undoes its own.
        at = len(self._saved) - 1
        while at >= 0 and self._saved[at][0] is not mine:
            at -= 1
        if at < 0:
            names = ", ".join(option.name for option, _ in self._changes)
            raise RuntimeError(f"the scope of {names} is left by a thread that did not enter it")
        local, saved, key, epoch = self._saved.pop(at)
        for (option, _), value in zip(self._changes, saved):  # noqa: B905 (speed)
            if value is _MISSING:
                local.pop(option.name, None)
            else:
                local[option.name] = value
        before = local["current_key"]
        if len(local) == 1:  # only the key is left
            local.clear()
            del _shared.overriding[id(local)]
            _count_change(before, Config.current_key)
        else:
            after = local["current_key"] = key if epoch == _shared.epoch else _key_of(local)
            _count_change(before, after)

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return scoped


class NoDefault:
    """The type of an argument that was not given."""

    def __repr__(self) -> str:
        return "<no default>"


_no_default: Final = NoDefault()


class ScopedOption:
    """One option as a context manager: ``with enable_x64(True): ...``.

    The argument may be left out for flags, where it means True.
    """

    __slots__ = ("option",)

    def __init__(self, option: Option):
        self.option: Final = option

    def __call__(self, new_val: Any = _no_default) -> Scope:
        if new_val is _no_default:
            if not self.option.is_flag:
                raise TypeError(
                    f"{self.option.name}() needs the new value of the option: {self.option.allowed}"
                )
            new_val = True
        return Scope({self.option: new_val})

    @property
    def value(self) -> Any:
        """The current value in this thread."""
        return getattr(config, self.option.name)

    @property
    def __name__(self) -> str:
        return self.option.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.option.doc}\n\nTakes {self.option.allowed}."

    def __repr__(self) -> str:
        return f"<option {self.option.name} = {self.value!r}>"


_V = TypeVar("_V")


class PerConfig(dict[TraceKey, _V]):
    """One value per combination of traced options: ``per_config[config.current_key]``.

    `make` is called without arguments, under the options in question.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], _V]):
        super().__init__()
        self._make = make

    def __missing__(self, key: TraceKey) -> _V:
        return self.setdefault(key, self._make())


def declare(*options: Option) -> None:
    """Adds options, with their values from the environment or their defaults."""
    with _shared.lock:
        for option in options:
            if option.name in vars(Config) or option.name in _shared.names:
                raise ValueError(f"the name {option.name!r} is taken")
            _shared.options[option.name] = option
            _shared.names[option.name] = option.name
            setattr(Config, option.name, _initial(option))
            if option.jax_name != option.name:
                _spell(option.jax_name, option.name)
        traced = [o.name for o in _shared.options.values() if o.traced]
        _shared.positions = {name: i for i, name in enumerate(traced)}
        _refresh_all()


def _spell(spelling: str, name: str) -> None:
    # A property, not __getattr__: that would make every attribute read three times slower.
    _shared.names[spelling] = name
    setattr(Config, spelling, property(operator.attrgetter(name)))


def _initial(option: Option) -> Any:
    for variable in option.env:
        text = os.environ.get(variable)
        if text is None:
            continue
        try:
            return option.check(option.parse(text))
        except (TypeError, ValueError):
            complaint = f"environment variable {variable} takes {option.allowed}; got {text!r}"
            if variable.startswith("COVECTOR_"):
                raise ValueError(complaint) from None
            warnings.warn(f"{complaint}; it is ignored", stacklevel=4)
    return option.default


class UserContext:
    """A value of the user's own that trace caches depend on; made by `make_user_context`."""

    __slots__ = ("_option",)

    def __init__(self, option: Option):
        self._option = option

    @property
    def value(self) -> Any:
        """The current value in this thread."""
        return getattr(config, self._option.name)

    def __call__(self, new_val: Any) -> Scope:
        return Scope({self._option: new_val})


def make_user_context(default_value: Any = None) -> UserContext:
    """A new context value that traced functions may read through ``.value``.

    Setting it, ``with context(new_value): ...``, makes traced functions trace again, as the options
    of `config` do. Values must be hashable.

    >>> units = make_user_context("metre")
    >>> with units("foot"):
    ...     units.value
    'foot'
    """
    with _shared.lock:
        _shared.user_contexts += 1
        name = f"user_context_{_shared.user_contexts}"
    option = Option(name, ANY, default_value, "A user's own value.", traced=True, jax=False)
    option.check(default_value)
    declare(option)
    return UserContext(option)


def _after_fork() -> None:
    """In the child: only the thread that forked is left."""
    _shared.lock = threading.RLock()
    mine = config.__dict__
    gone = [identity for identity, local in _shared.overriding.items() if local is not mine]
    for identity in gone:
        del _shared.overriding[identity]
    _count_overriding()
    if gone:
        _notify(_shared.options["enable_x64"], "exit")


config: Final = Config()
declare(*OPTIONS, *INERT)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
_spell("x64_enabled", "enable_x64")


def scoped_option(name: str) -> ScopedOption:
    """The context manager of one option, by any of its names."""
    return ScopedOption(config.option(name))


# What JAX offers at top level. The package door re-exports them.
allow_f16_reductions = scoped_option("allow_f16_reductions")
array_garbage_collection_guard = scoped_option("array_garbage_collection_guard")
auto_pcast = scoped_option("auto_pcast")
check_tracer_leaks = scoped_option("check_tracer_leaks")
debug_infs = scoped_option("debug_infs")
debug_key_reuse = scoped_option("debug_key_reuse")
debug_nans = scoped_option("debug_nans")
default_device = scoped_option("default_device")
default_matmul_precision = scoped_option("default_matmul_precision")
default_prng_impl = scoped_option("default_prng_impl")
enable_checks = scoped_option("enable_checks")
enable_custom_prng = scoped_option("enable_custom_prng")
enable_x64 = scoped_option("enable_x64")
explain_cache_misses = scoped_option("explain_cache_misses")
jax2tf_associative_scan_reductions = scoped_option("jax2tf_associative_scan_reductions")
legacy_prng_key = scoped_option("legacy_prng_key")
log_compiles = scoped_option("log_compiles")
no_execution = scoped_option("no_execution")
no_tracing = scoped_option("no_tracing")
numpy_dtype_promotion = scoped_option("numpy_dtype_promotion")
numpy_rank_promotion = scoped_option("numpy_rank_promotion")
purity_guard = scoped_option("purity_guard")
remove_size_one_mesh_axis_from_type = scoped_option("remove_size_one_mesh_axis_from_type")
singular_derivatives = scoped_option("singular_derivatives")
softmax_custom_jvp = scoped_option("softmax_custom_jvp")
thread_guard = scoped_option("thread_guard")
threefry_partitionable = scoped_option("threefry_partitionable")
transfer_guard_device_to_device = scoped_option("transfer_guard_device_to_device")
transfer_guard_device_to_host = scoped_option("transfer_guard_device_to_host")
transfer_guard_host_to_device = scoped_option("transfer_guard_host_to_device")


def checking_leaks() -> Scope:
    """A context in which a traced function that leaves traced values behind raises.

    UnexpectedTracerError says where they were made and where they are kept.  Slow: every trace
    ends with a search of all objects.
    """
    return check_tracer_leaks(True)


def disable_jit(disable: bool = True) -> Scope:
    """A context in which functions run operation by operation, so that Python can be debugged.

    >>> with disable_jit():
    ...     config.disable_jit
    True
    """
    return Scope({config.option("disable_jit"): disable})


def transfer_guard(new_val: str) -> Scope:
    """The guards of all transfers, to, from and between devices.  Not acted on yet."""
    names = ("", "_host_to_device", "_device_to_device", "_device_to_host")
    return Scope({config.option(f"transfer_guard{name}"): new_val for name in names})
