"""The native runtime: arrays, the pool and compiled entry points in machine code of our own.

Written in a small language (`language.py`), compiled once through LLVM.  Importing this offers it
to the runtime, which must not have made its array class yet; where it does not work, the runtime
does the same in Python.
"""

from __future__ import annotations

from typing import Any

from covector._base.lazy import lazily as _lazily
from covector._base.log import debug
from covector.runtime.native import offer
from covector.runtime.pool import default_limit

with _lazily(globals()):
    from covector.backends.cpu.native import source as source
    from covector.backends.cpu.native import translate as translate

from . import build
from .runtime import NativeRuntime


def load() -> Any:
    """The native runtime of this process, or None where it is not supported or fails its test."""
    if not build.supported() or build.numpy_data_offset() == 0:
        return None
    try:
        return NativeRuntime(build.Code(), default_limit())
    except Exception as error:
        debug(1, "the native runtime does not work here, Python serves: %s", error)
        return None


offer(load)
