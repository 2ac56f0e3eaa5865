"""Object code into this process: ORC's LLJIT, the symbols code may use, and how long it lives."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import platform
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import llvmlite.binding as llvm

from covector.backends.cpu import cache, workers
from covector.backends.cpu.assemble import assemble
from covector.backends.cpu.target import Target, host

#: Functions of the C library that code may call: the heap, and what LLVM falls back on.
HELPERS: Final = (
    "malloc", "free", "memcpy", "memset", "memmove", "bzero", "fma", "fmaf", "fmod", "fmodf",
    "floorf", "floor", "ceilf", "ceil", "truncf", "trunc", "roundf", "round", "roundeven",
    "roundevenf",
)  # fmt: skip

_lock = threading.Lock()
_count = itertools.count()
_state: Final[dict[str, Any]] = {}


@final
class CompiledModule:
    """Machine code in memory; it lives as long as this object (and whoever keeps it)."""

    __slots__ = ("_addresses", "_tracker")

    def __init__(self, tracker: Any, names: Iterable[str]) -> None:
        self._tracker = tracker
        self._addresses = {name: tracker[name] for name in names}

    def address(self, name: str) -> int:
        """Where the function `name` begins."""
        return self._addresses[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions this has."""
        return tuple(self._addresses)


def link(
    images: Iterable[bytes], names: Iterable[str], symbols: Mapping[str, int] | None = None
) -> CompiledModule:
    """Loads object files as one library; `symbols` are addresses of what it imports."""
    images, symbols = tuple(images), dict(symbols or {})
    if any(workers.SYMBOL.encode() in image for image in images):
        symbols[workers.SYMBOL] = workers.address(_pool_code)
    return _load(images, names, symbols)


def _load(
    images: Iterable[bytes], names: Iterable[str], symbols: Mapping[str, int]
) -> CompiledModule:
    names = tuple(names)
    with _lock:
        builder = llvm.JITLibraryBuilder()
        for image in images:
            builder.add_object_img(image)
        for name, address in {**_runtime(), **symbols}.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_jit(host()), f"covector{next(_count)}")
        return CompiledModule(tracker, names)


def _pool_code(text: str, names: Iterable[str], symbols: Mapping[str, int]) -> CompiledModule:
    """The code of the worker threads."""
    key = "w" + hashlib.sha256(f"{host().fingerprint}\n{text}".encode()).hexdigest()
    image = cache.lookup(key)
    if image is None:
        image = assemble(text, host())
        cache.store(key, image)
    return _load([image], names, symbols)


def call(address: int, pointers: Iterable[int], symbols: Iterable[int] = ()) -> None:
    """Runs `void f(ptr buffers, ptr symbols)`; for tests and the slow path."""
    pointers, symbols = list(pointers), list(symbols)
    buffers = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    numbers = (ctypes.c_int64 * max(len(symbols), 1))(*symbols)
    _SIGNATURE(address)(buffers, numbers)


_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def _jit(target: Target) -> Any:
    if "jit" not in _state:
        _state["jit"] = llvm.create_lljit_compiler(target.machine())
    return _state["jit"]


def _runtime() -> dict[str, int]:
    """What generated code may call without saying so: the heap, and LLVM's own helpers."""
    if "runtime" not in _state:
        library = _c_library()
        found = {}
        for name in HELPERS:
            function = getattr(library, name, None)
            if function is not None:
                found[name] = ctypes.cast(function, ctypes.c_void_p).value
        if platform.system() == "Windows":  # frames over a page touch their stack in order
            kernel = ctypes.CDLL("ntdll")
            found["__chkstk"] = ctypes.cast(kernel["__chkstk"], ctypes.c_void_p).value
        _state["runtime"] = found
    return _state["runtime"]


def _c_library() -> Any:
    system = platform.system()
    if system == "Windows":
        return ctypes.CDLL("ucrtbase")
    return ctypes.CDLL(None)
