"""The code generator's version: part of every cache key, so that old machine code is never run."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from covector._base.digest import digest
from covector.version import __version__

#: What the machine code of a program depends on, below the package.
SOURCES = ("backends/cpu", "compiler", "ir", "ops")


@functools.cache
def generator() -> str:
    """A digest of the release and of the generator's source files (names, sizes, times).

    A release alone would do for users; whoever changes a source file gets a new version too.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    lines = [line for folder in SOURCES for line in sorted(_files(f"{root}/{folder}"))]
    return digest("\n".join([__version__, *lines])).hexdigest()[:16]


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                info = entry.stat()
                yield f"{entry.name} {info.st_size} {info.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
