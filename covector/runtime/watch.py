"""What the trace at the bottom runs in place of evaluation while an option asks for more.

While none does in any thread it runs `dispatch.evaluate`: options that are off cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from covector._base.config import config
from covector._base.context import Context
from covector._base.options import Option
from covector.ir.op import Op
from covector.runtime import dispatch


class _Local(threading.local):
    """Whether this thread is in an operation already: what that is made of is its own affair."""

    inside = False


@final
class Watch:
    """`process` runs while one of the options `names` is set in some thread.

    It asks for itself whether that is this thread, and evaluates if not.
    """

    def __init__(self, names: Sequence[str], process: Callable[[Op, Sequence[Any]], Any]) -> None:
        self.names = frozenset(names)
        self.process = process
        self.local = _Local()
        self.scopes = 0  # in force, of all threads

    def wanted(self) -> bool:
        """Whether some thread has one of the options."""
        return self.scopes > 0 or any(getattr(type(config), name) for name in self.names)


_watches: Final[list[Watch]] = []


def install(*watches: Watch) -> None:
    """Lets the options act on what runs at once: the first watch that is wanted does.

    It is to evaluate by the next.
    """
    _watches[:] = watches
    config.on_change(_on_option)
    _switch()


def _on_option(option: Option, event: str) -> None:
    """Called with the lock of the configuration held."""
    concerned = [w for w in _watches if option.name in w.names]
    for watch in concerned:
        watch.scopes += {"enter": 1, "exit": -1}.get(event, 0)
    if concerned:
        _switch()


def _switch() -> None:
    Context.trace.process = next((w.process for w in _watches if w.wanted()), dispatch.evaluate)
