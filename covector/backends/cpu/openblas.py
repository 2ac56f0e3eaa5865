"""The BLAS and LAPACK library: where its functions are.  The first program that calls one loads it.

That program may come from disk: nothing is imported here that is only there to write code.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

_lock = threading.Lock()
_library: Final[list[Any]] = []


def resolve(names: Iterable[str]) -> dict[str, int]:
    """Addresses of imported functions that are not part of this package's own code."""
    return {name: address(name) for name in names}


def address(name: str) -> int:
    """Where a BLAS function is; loads the library at the first call."""
    function = getattr(_blas(), name, None)
    if function is None:
        raise RuntimeError(f"scipy-openblas32 has no function {name}: is its version too old?")
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _blas() -> Any:
    with _lock:
        if not _library:
            # Its work is shared out by `product`, among the threads that run kernels; it starts
            # threads of its own when it is loaded, unless told not to.
            before = os.environ.get("OPENBLAS_NUM_THREADS")
            os.environ["OPENBLAS_NUM_THREADS"] = "1"
            try:
                _library.append(_load())
            finally:
                if before is None:
                    del os.environ["OPENBLAS_NUM_THREADS"]
                else:
                    os.environ["OPENBLAS_NUM_THREADS"] = before
            _library[0].scipy_openblas_set_num_threads(1)
    return _library[0]


def _load() -> Any:
    # Found, not imported: the package's own code reads metadata for longer than loading takes.
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("Covector needs the package scipy-openblas32: pip install it")
    folder = os.path.join(spec.submodule_search_locations[0], "lib")
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    found = sorted(p for p in os.listdir(folder) if "openblas" in p and p.endswith(suffix))
    if not found:
        raise RuntimeError(f"scipy-openblas32: no library *openblas*{suffix} in {folder}")
    return ctypes.CDLL(os.path.join(folder, found[0]))
