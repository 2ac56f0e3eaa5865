"""Tracebacks that end in the user's code: Covector's own frames are taken out on the way.

Every public function is an *API boundary*. An exception that leaves it has its internal frames
removed (or hidden), so that a mistake in a user's function shows the user's lines only. The option
``traceback_filtering`` says how; ``"off"`` shows everything.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

from .config import config
from .source import is_internal

_F = TypeVar("_F", bound=Callable[..., Any])


def api_boundary(fun: _F) -> _F:
    """Decorates a public function so that its exceptions come without Covector's own frames."""

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            # A bare `raise` adds no entry for this frame, so the filtered traceback stays as it is.
            raise

    return call  # type: ignore[return-value]


def filter_traceback(error: BaseException) -> None:
    """Removes or hides the internal frames of an exception that is being handled, in place.

    To be followed by a bare ``raise``.
    """
    mode = _MODES[config.traceback_filtering]
    if mode is not None:
        for related in _chain(error):
            mode(related)


def _chain(error: BaseException) -> list[BaseException]:
    """An exception, those that led to it, and the members of groups."""
    found: list[BaseException] = []
    pending: list[Any] = [error]
    while pending:
        related = pending.pop()
        if isinstance(related, BaseException) and not any(related is known for known in found):
            found.append(related)
            pending += [related.__cause__, related.__context__]
            pending += _members(related)
    return found


def _members(error: Any) -> tuple[Any, ...]:
    return error.exceptions if BaseExceptionGroup in error.__class__.__mro__ else ()


def _remove_quietly(error: BaseException) -> None:
    error.__traceback__ = _user_part(error.__traceback__)[0]


def _remove(error: BaseException) -> None:
    error.__traceback__, removed = _user_part(error.__traceback__)
    note = "hidden: {} internal frames (COVECTOR_TRACEBACK_FILTERING=off shows them)"
    notes = getattr(error, "__notes__", [])
    if removed and not any(n.startswith("hidden: ") for n in notes):
        error.add_note(note.format(removed))


def _hide(error: BaseException) -> None:
    # IPython and pytest leave out frames that have this local variable.
    entry = error.__traceback__
    while entry is not None:
        if is_internal(entry.tb_frame.f_code.co_filename):
            entry.tb_frame.f_locals["__tracebackhide__"] = True
        entry = entry.tb_next


def _choose(error: BaseException) -> None:
    ipython = sys.modules.get("IPython")
    interactive = ipython is not None and ipython.get_ipython() is not None
    (_hide if interactive else _remove_quietly)(error)


_MODES: Final[dict[str, Callable[[BaseException], None] | None]] = {
    "off": None,
    "tracebackhide": _hide,
    "remove_frames": _remove,
    "quiet_remove_frames": _remove_quietly,
    "auto": _choose,
}


def _user_part(traceback: TracebackType | None) -> tuple[TracebackType | None, int]:
    """The traceback without internal entries, and how many there were."""
    kept: list[TracebackType] = []
    total = 0
    entry = traceback
    while entry is not None:
        total += 1
        if not is_internal(entry.tb_frame.f_code.co_filename):
            kept.append(entry)
        entry = entry.tb_next
    if len(kept) == total:
        return traceback, 0
    result: TracebackType | None = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result, total - len(kept)
