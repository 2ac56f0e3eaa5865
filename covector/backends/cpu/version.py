"""The code generator's version: part of every cache key, so that old machine code is never run."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from covector.version import __version__

#: What the machine code of a program depends on, below the package.
SOURCES = ("backends/cpu", "compiler", "ir", "ops")


@functools.cache
def generator() -> str:
    """A digest of the release and of the generator's source files (names, sizes, times).

    A release alone would do for users; whoever changes a source file gets a new version too.
    """
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(__version__.encode())
    for folder in SOURCES:
        for path, _, files in sorted(os.walk(root / folder)):
            for name in sorted(files):
                if name.endswith(".py"):
                    info = os.stat(os.path.join(path, name))
                    digest.update(f"{name} {info.st_size} {info.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
