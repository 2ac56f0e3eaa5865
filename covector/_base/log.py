"""The verbosity ladder: COVECTOR_DEBUG=1..5 prints, to stderr, what happens at each stage.

1 traces and compiles; 2 Jaxprs; 3 after each pass, and the fused kernels; 4 LLVM IR; 5 assembly.
"""

from __future__ import annotations

import sys
from typing import Any

from covector._base.config import config


def debug(level: int, message: str, *args: Any) -> None:
    """Print if the debug level is at least `level`."""
    if config.debug >= level:
        print(f"covector: {message % args if args else message}", file=sys.stderr)


def wanted(level: int) -> bool:
    """Whether messages of `level` are printed (before making a costly one)."""
    return config.debug >= level
