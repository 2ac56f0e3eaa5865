"""What the trace at the bottom runs in place of evaluation while an option asks for more.

While none does in any thread it runs `dispatch.evaluate`: options that are off cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from covector import runtime
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
    """What `find` gives runs while one of the options `names` is set in some thread.

    It asks for itself whether that is this thread, and evaluates if not.
    """

    def __init__(
        self, names: Sequence[str], find: Callable[[], Callable[[Op, Sequence[Any]], Any]]
    ) -> None:
        self.names = frozenset(names)
        self.find = find
        self.local = _Local()
        self.scopes = 0  # in force, of all threads

    def wanted(self) -> bool:
        """Whether some thread has one of the options."""
        return self.scopes > 0 or any(getattr(type(config), name) for name in self.names)

    def in_force(self) -> bool:
        """Whether one of the options is set in this thread."""
        return any(getattr(config, name) for name in self.names)


KEYS: Final = Watch(["debug_key_reuse"], lambda: runtime.debug_keys.tracked)
VALUES: Final = Watch(["debug_nans", "debug_infs"], lambda: runtime.debug_values.watched)
#: The first that is wanted acts; it is to evaluate by the next.
_WATCHES: Final = (KEYS, VALUES)


def install() -> None:
    """Lets the options act on what runs at once."""
    config.on_change(_on_option)
    _switch()


def _on_option(option: Option, event: str) -> None:
    """Called with the lock of the configuration held."""
    concerned = [w for w in _WATCHES if option.name in w.names]
    for watch in concerned:
        watch.scopes += {"enter": 1, "exit": -1}.get(event, 0)
    if concerned:
        _switch()


def _switch() -> None:
    Context.trace.process = next((w.find() for w in _WATCHES if w.wanted()), dispatch.evaluate)
