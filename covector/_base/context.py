"""The current interpreter of operations, per thread.

`context.trace` is read at every operation, so it is a plain attribute of a `threading.local`;
its default, the evaluating trace at the bottom, is a class attribute filled by `_wiring`.
`quiet` is the process-wide word that compiled entry points test: while it is not zero some
thread traces or holds a scoped option, and calls take the Python path.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any


class Context(threading.local):
    """What a thread is doing.

    `trace`: its current trace; `scope`: names given to what it traces; `source`: the user's line
    that the operations belong to which a transformation binds, while it goes through a program.
    """

    trace: Any = None
    scope: tuple[str, ...] = ()
    source: Any = None


context = Context()

#: Non-zero while any thread traces or holds a scoped option (see `disturb`).
quiet = ctypes.c_int64(0)
_lock = threading.Lock()


def disturb(by: int) -> None:
    """Add `by` (+1 on entry, -1 on exit) to the quiet word."""
    with _lock:
        quiet.value += by


class current_trace:
    """`with current_trace(t):` operations of this thread are interpreted by `t`."""

    __slots__ = ("previous", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace

    def __enter__(self) -> Any:
        self.previous = context.trace
        context.trace = self.trace
        with _lock:
            quiet.value += 1
        return self.trace

    def __exit__(self, *exc: object) -> None:
        context.trace = self.previous
        with _lock:
            quiet.value -= 1
