"""Doors that load what they name at first use (PEP 562), told by plain import statements.

    with lazily(globals()):
        from covector.numpy._sorting import sort

Within the block `import` loads nothing, it notes where names come from; the module gets the
`__getattr__` and `__dir__` that load them.  Whoever reads source text (people, type checkers,
packagers) sees ordinary imports.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, final

_lock: Final = threading.RLock()


@contextlib.contextmanager
def uncollected() -> Generator[None]:
    """While modules load, garbage collections find nothing, and are a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                # All that there is becomes old at once, or the next collection would look at it.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _module(name: str) -> Any:
    """The module, as an import statement finds it: one whose loading, in another thread, waits for
    something that is loaded here is given as it is, where `import_module` sees a deadlock."""
    __import__(name)
    return sys.modules[name]


@final
class _Later:
    """A name of a module, noted."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def load(self, door: str) -> Any:
        wiring = f"{door.partition('.')[0]}._wiring"
        with uncollected():
            if wiring in sys.modules:
                _module(wiring)  # waits for the thread that is at it
            if self.module == door:  # asking the door for its module would come back to here
                return _module(f"{door}.{self.name}")
            return getattr(_module(self.module), self.name)


@final
class _Noted:
    """What stands for a module within the block: `from` takes names of it."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Later:
        return _Later(self._module, name)


@final
class lazily:
    """The imports in this block, of the module with these globals, are loaded at first use.

    A name that is also that of a module in the package would be taken by it: there must be none.
    further: gives what else the door has by name, or None; names: what that knows.
    """

    __slots__ = ("_further", "_globals", "_import", "_names")

    def __init__(
        self,
        globals: dict[str, Any],
        further: Callable[[str], Any] = lambda name: None,
        names: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._globals, self._further, self._names = globals, further, names

    def __enter__(self) -> None:
        _lock.acquire()  # so that doors which open at the same time restore what they found
        self._import = builtins.__import__
        builtins.__import__ = self._note

    def __exit__(self, *exc: object) -> None:
        builtins.__import__ = self._import
        _lock.release()
        door = self._globals
        later = {k: v for k, v in door.items() if type(v) is _Later}
        for name in later:
            del door[name]

        def __getattr__(name: str) -> Any:
            noted = later.get(name)
            if noted is not None:
                door[name] = value = noted.load(door["__name__"])
                return value
            value = self._further(name)
            if value is None:
                raise AttributeError(f"module {door['__name__']!r} has no attribute {name!r}")
            return value

        def __dir__() -> list[str]:
            return sorted({*door.get("__all__", ()), *later, *self._names()})

        door.update(__getattr__=__getattr__, __dir__=__dir__)

    def _note(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        if globals is not self._globals:  # another thread
            return self._import(name, globals, locals, names, level)
        if level or not names:
            raise ImportError(f"a lazy import is `from package.module import names`; got {name!r}")
        return _Noted(name)
