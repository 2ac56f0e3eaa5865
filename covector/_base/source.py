"""The user's own line: which frame outside Covector made the current call.

Attached to every traced equation and named by errors, so finding it must cost next to nothing:
a `Source` keeps the code object and the instruction only; the line number is looked up when
somebody prints it.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames of the import machinery and of NumPy's dispatcher have no file of their own.
_excluded: list[str] = ["<frozen ", "<__array_function__", _ROOT]
_STANDARD_LIBRARY: Final = os.path.dirname(os.path.abspath(linecache.__file__)) + os.sep
_INSTALLED: Final = tuple(_STANDARD_LIBRARY + name for name in ("site-packages", "dist-packages"))

# Documented, in spite of its name.
_getframe: Final[Callable[[int], FrameType]] = sys._getframe  # pyright: ignore[reportPrivateUsage]


class _Internal(dict[str, bool]):
    """File name -> whether it is Covector's own (or excluded); filled on demand."""

    def __missing__(self, filename: str) -> bool:
        internal = filename.startswith(tuple(_excluded))
        if not internal and filename[:1] != "<" and not os.path.isabs(filename):
            internal = os.path.abspath(filename).startswith(tuple(_excluded))
        self[filename] = internal
        return internal


class _NotUser(dict[str, bool]):
    """File name -> whether code in it is nobody's program: Covector, Python's library, NumPy.

    NumPy's functions call ours back (``np.sum(x)``), as does ``functools``; the line that matters
    is above them.
    """

    def __missing__(self, filename: str) -> bool:
        numpy = getattr(sys.modules.get("numpy"), "__file__", None)
        skipped = (
            _internal[filename]
            or (filename.startswith(_STANDARD_LIBRARY) and not filename.startswith(_INSTALLED))
            or (numpy is not None and filename.startswith(os.path.dirname(numpy) + os.sep))
        )
        self[filename] = skipped
        return skipped


_internal: Final = _Internal()
_not_user: Final = _NotUser()


def register_exclusion(path: str) -> None:
    """Treats files under a path as internal: their frames are never named as the user's."""
    path = os.path.abspath(path)
    _excluded.append(path + os.sep if os.path.isdir(path) else path)
    forget()


def forget() -> None:
    """Classifies all files again when they are next met."""
    _internal.clear()
    _not_user.clear()


def is_internal(filename: str) -> bool:
    """Whether a file is part of Covector, or was excluded by `register_exclusion`."""
    return _internal[filename]


class Source:
    """A place in the user's program; prints as ``file.py:12 (function)``."""

    __slots__ = ("code", "instruction")

    def __init__(self, code: CodeType, instruction: int):
        self.code: Final = code
        self.instruction: Final = instruction

    @property
    def filename(self) -> str:
        """Full name of the file."""
        return self.code.co_filename

    @property
    def function(self) -> str:
        """Qualified name of the function."""
        return self.code.co_qualname

    @property
    def lineno(self) -> int:
        """The line, or 0 where the interpreter knows none."""
        return self._span()[0]

    def _span(self) -> tuple[int, int | None, int | None, int | None]:
        for i, span in enumerate(self.code.co_positions()):
            if 2 * i == self.instruction:
                return (span[0] or 0, *span[1:])
        return self.code.co_firstlineno, None, None, None

    @property
    def text(self) -> str:
        """The line itself, stripped; empty if the file cannot be read."""
        return linecache.getline(self.filename, self.lineno).strip()

    @property
    def expression(self) -> str:
        """The text of the call or operation itself, if it stands on one line; else empty."""
        line, end_line, start, end = self._span()
        if start is None or end is None or end_line != line:
            return ""
        raw = linecache.getline(self.filename, line).encode()  # columns count bytes
        return raw[start:end].decode(errors="replace")

    def __repr__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.lineno} ({self.function})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Source)
            and self.code is other.code
            and self.instruction == other.instruction
        )

    def __hash__(self) -> int:
        return hash((id(self.code), self.instruction))

    def __reduce__(self) -> Any:
        # Code objects do not pickle; a place read back knows its words only.
        return StoredSource, (self.filename, self.lineno, self.function)


class StoredSource:
    """A `Source` that was pickled: the same words without the code object."""

    __slots__ = ("filename", "function", "lineno")

    def __init__(self, filename: str, lineno: int, function: str):
        self.filename, self.lineno, self.function = filename, lineno, function

    @property
    def text(self) -> str:
        """The line itself, stripped; empty if the file cannot be read."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __repr__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.lineno} ({self.function})"


def user_frame(depth: int = 1) -> Source | None:
    """The innermost frame of the user, `depth` frames up or further; None if there is none."""
    frame: FrameType | None = _getframe(depth)
    skipped = _not_user
    code = frame.f_code
    while skipped[code.co_filename]:
        frame = frame.f_back
        if frame is None:
            return None
        code = frame.f_code
    return Source(code, frame.f_lasti)


def user_frames(limit: int | None = None) -> list[Source]:
    """The user's frames, innermost first, at most `limit` of them."""
    frames: list[Source] = []
    frame: FrameType | None = _getframe(1)
    while frame is not None and (limit is None or len(frames) < limit):
        if not _not_user[frame.f_code.co_filename]:
            frames.append(Source(frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return frames


def user_stacklevel() -> int:
    """The ``stacklevel`` with which the caller's ``warnings.warn`` names the user's line."""
    level = 1
    frame = _getframe(1)
    while frame.f_back is not None and _not_user[frame.f_code.co_filename]:
        frame = frame.f_back
        level += 1
    return level
