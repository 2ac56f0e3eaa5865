"""SciPy's functions, over arrays of this library: `special`, `stats`, `linalg`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_LEAVES = frozenset({"linalg", "special", "stats"})


def __getattr__(name: str) -> Any:
    if name in _LEAVES and importlib.util.find_spec(f"covector.scipy.{name}") is not None:
        return importlib.import_module(f"covector.scipy.{name}")
    raise AttributeError(f"module 'covector.scipy' has no attribute {name!r}")
