"""New processes, with a disk cache that the test names."""

from __future__ import annotations

import os
import subprocess
import sys


def said(program: str, cache: os.PathLike[str]) -> list[bytes]:
    """The words that a program prints in a process of its own."""
    told = {**os.environ, "COVECTOR_CACHE_DIR": str(cache), "JAX_PLATFORMS": "cpu"}
    told.pop("COVECTOR_COMPILATION_CACHE_DIR", None)
    python = [sys.executable, "-c", program]
    return subprocess.run(python, env=told, capture_output=True, check=True).stdout.split()
