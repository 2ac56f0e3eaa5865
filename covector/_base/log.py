"""The verbosity ladder: COVECTOR_DEBUG=1..5 prints, to stderr, what happens at each stage.

1 what is traced and compiled, and why again; 2 Jaxprs; 3 the program after each pass, and its
fused kernels; 4 LLVM IR; 5 assembly.  Each level prints those below it too.
"""

from __future__ import annotations

import sys
from typing import Any

from covector._base.config import config


def wanted(level: int) -> bool:
    """Whether messages of `level` are printed (before making a costly one)."""
    return config.debug >= level


def debug(level: int, message: str, *args: Any) -> None:
    """Print one line, `message % args`, if the debug level is at least `level`."""
    if config.debug >= level:
        _print(message % args if args else message)


def show(level: int, title: str, body: Any) -> None:
    """Print a program, any object whose `str` is its text, under a title."""
    if config.debug >= level:
        _print(f"{title}\n{str(body).rstrip()}")


def compiles(message: str, *args: Any) -> None:
    """Log what was traced or compiled, if the option `log_compiles` is set."""
    if config.log_compiles:
        warning(message, *args)


def warning(message: str, *args: Any) -> None:
    """Log one line at the level of warnings."""
    import logging  # not for who logs nothing: importing it takes a while

    logging.getLogger("covector").warning(message, *args)


def _print(text: str) -> None:
    # In one piece, so that threads do not mix their lines; there may be no stderr (pythonw).
    if sys.stderr is not None:
        sys.stderr.write(f"covector: {text}\n")
