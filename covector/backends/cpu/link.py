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

#: Libraries that one engine of LLVM's links.  It forgets their memory when they die, but the room
#: for their names only when it dies itself, after the last of them.
LIBRARIES: Final = 128

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
    images: Iterable[bytes],
    names: Iterable[str],
    symbols: Mapping[str, int] | None = None,
    helpers: Iterable[str] | None = None,
) -> CompiledModule:
    """Loads object files as one library; `symbols` are addresses of what it imports.

    helpers: what it calls of the helpers, as `helpers_in` says, if that is known.
    """
    images, symbols = tuple(images), symbols or {}
    if helpers is None:
        helpers = helpers_in(images)
        symbols = {name: symbols[name] for name in _mentioned(symbols, images)}
    found = {n: workers.address(_pool_code) if n == workers.SYMBOL else _runtime()[n]
             for n in helpers}  # fmt: skip
    return _load(images, names, {**found, **symbols})


def helpers_in(images: Iterable[bytes]) -> list[str]:
    """The functions that the object files call without saying so."""
    return _mentioned((*_runtime(), workers.SYMBOL), images)


def _mentioned(names: Iterable[str], images: Iterable[bytes]) -> list[str]:
    """Those of the names that are in an object file."""
    images = tuple(images)
    return [name for name in names if any(name.encode() in image for image in images)]


def _load(
    images: Iterable[bytes], names: Iterable[str], symbols: Mapping[str, int]
) -> CompiledModule:
    names = tuple(names)
    with _lock:
        builder = llvm.JITLibraryBuilder()
        for image in images:
            builder.add_object_img(image)
        for name, address in symbols.items():  # each takes memory and time
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        number = next(_count)
        tracker = builder.link(_jit(host(), number), f"covector{number}")
        return CompiledModule(tracker, names)


def _pool_code(text: str, names: Iterable[str], symbols: Mapping[str, int]) -> CompiledModule:
    """The code of the worker threads."""
    key = "w" + hashlib.sha256(f"{host().fingerprint}\n{text}".encode()).hexdigest()
    image = cache.lookup(key)
    if image is None:
        image = assemble(text, host())
        cache.store(key, image)
    known = {**_runtime(), **symbols}
    return _load([image], names, {name: known[name] for name in _mentioned(known, [image])})


def call(address: int, pointers: Iterable[int], symbols: Iterable[int] = ()) -> None:
    """Runs `void f(ptr buffers, ptr symbols)`; for tests and the slow path."""
    pointers, symbols = list(pointers), list(symbols)
    buffers = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    numbers = (ctypes.c_int64 * max(len(symbols), 1))(*symbols)
    _SIGNATURE(address)(buffers, numbers)


_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def _jit(target: Target, number: int) -> Any:
    if number % LIBRARIES == 0:
        # JITLink puts code and its constants side by side.  The older linker, which Windows still
        # needs, may not, in a process that has much memory: farther than an instruction reaches.
        near = platform.system() != "Windows"
        _state["jit"] = llvm.create_lljit_compiler(target.machine(), use_jit_link=near)
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
