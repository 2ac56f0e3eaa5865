"""Object code into this process: the symbols code may use, and how long it lives.

Object files are linked by ourselves where we can (`image.py`), which leaves something that a later
process places without further ado; elsewhere by LLVM, in each process anew.
"""

from __future__ import annotations

import ctypes
import marshal
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from covector._base import log
from covector._base.digest import digest
from covector._base.named_tuple import NamedTuple
from covector.backends import cpu
from covector.backends.cpu import cache, workers
from covector.backends.cpu.image import SUPPORTED, Image, Placed, Unknown, linked
from covector.backends.cpu.target import host

#: Functions of the C library that code may call: the heap, and what LLVM falls back on.
HELPERS: Final = (
    "malloc", "free", "memcpy", "memset", "memmove", "bzero", "fma", "fmaf", "fmod", "fmodf",
    "floorf", "floor", "ceilf", "ceil", "truncf", "trunc", "roundf", "round", "roundeven",
    "roundevenf",
)  # fmt: skip

#: Of tables.  What is on disk has a digest and is the user's own, as the code beside it.
_FORMAT: Final = 4

_state: Final[dict[str, Any]] = {}


@final
class CompiledModule:
    """Machine code in memory; it lives as long as this object (and whoever keeps it)."""

    __slots__ = ("_addresses", "_kept")

    def __init__(self, kept: Any, addresses: dict[str, int]) -> None:
        self._kept, self._addresses = kept, addresses

    def address(self, name: str) -> int:
        """Where the function `name` begins."""
        return self._addresses[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions this has."""
        return tuple(self._addresses)


class Loadable(NamedTuple):
    """What a process needs to have the code: bytes, and a table of plain data about them."""

    table: dict[str, Any]
    code: bytes

    def packed(self) -> bytes:
        """Both in one, for the disk."""
        table = marshal.dumps(self.table, _FORMAT)
        sizes = len(table).to_bytes(8, "little") + len(self.code).to_bytes(8, "little")
        return b"".join([sizes, table, self.code])


def unpacked(data: bytes) -> Loadable | None:
    """What was `packed`; None if it is not whole."""
    size, length = (int.from_bytes(data[at : at + 8], "little") for at in (0, 8))
    if len(data) != 16 + size + length:
        return None
    return Loadable(marshal.loads(data[16 : 16 + size]), data[16 + size :])


def loadable(images: Iterable[bytes], names: Iterable[str]) -> Loadable:
    """The code of object files as one library, that gives the functions called `names`."""
    images, names = tuple(images), tuple(names)
    if SUPPORTED:
        try:
            image = linked(images, names)
            return Loadable({"image": image.table()}, image.content)
        except Unknown as reason:
            log.debug(1, "LLVM is to link this: %s", reason)
    helpers = [name for name in helpers_in(images) if name not in names]
    table = {"sizes": [*map(len, images)], "names": names, "helpers": helpers}
    return Loadable(table, b"".join(images))


def load(code: Loadable, symbols: Mapping[str, int] | None = None) -> CompiledModule:
    """The code in this process; `symbols` are addresses of what it imports."""
    symbols = symbols or {}
    if "image" in code.table:
        image = Image(code.code, *code.table["image"])
        placed = Placed(image, {n: _import(n, symbols) for n in image.imports})
        return CompiledModule(placed, {n: placed.address + at for n, at in image.exports.items()})
    images, at = [], 0
    for size in code.table["sizes"]:
        images.append(code.code[at : at + size])
        at += size
    found = {n: _import(n, symbols) for n in (*code.table["helpers"], *_mentioned(symbols, images))}
    target = host()
    machine = target.triple, target.cpu, target.features
    return CompiledModule(*cpu.llvm.library(images, code.table["names"], found, machine))


def link(
    images: Iterable[bytes], names: Iterable[str], symbols: Mapping[str, int] | None = None
) -> CompiledModule:
    """Loads object files as one library; `symbols` are addresses of what it imports."""
    return load(loadable(images, names), symbols)


def _import(name: str, symbols: Mapping[str, int]) -> int:
    """The address of what code imports."""
    found = symbols.get(name)
    if found is None:
        found = workers.address(load_pool) if name == workers.SYMBOL else _runtime().get(name)
    if found is None:
        raise RuntimeError(f"machine code calls {name}, which nobody has given")
    return found


def helpers_in(images: Iterable[bytes]) -> list[str]:
    """The functions that the object files call without saying so."""
    return _mentioned((*_runtime(), workers.SYMBOL), images)


def _mentioned(names: Iterable[str], images: Iterable[bytes]) -> list[str]:
    """Those of the names that are in an object file."""
    images = tuple(images)
    return [name for name in names if any(name.encode() in image for image in images)]


def pool(disk: cache.DiskCache | None) -> Loadable:
    """The code of the worker threads, which other code imports: from `disk`, or made now."""
    if "pool" not in _state:
        text = workers.module(host())
        key = "w" + digest(f"{host().fingerprint}\nquick\n{text}").hexdigest()
        stored = None if disk is None else disk.lookup(key)
        code = None if stored is None else unpacked(stored)
        if code is None:
            # It calls, and waits: with LLVM's least effort it is as fast, and there in a quarter.
            image = cpu.assemble.assemble(text, host(), quick=True)
            code = loadable([image], workers.FUNCTIONS)
            if disk is not None:
                disk.store(key, code.packed())
        _state["pool"] = code
    return _state["pool"]


def load_pool(symbols: Mapping[str, int]) -> CompiledModule:
    """The code of the worker threads in this process."""
    return load(pool(cache.current()), symbols)


def call(address: int, pointers: Iterable[int], symbols: Iterable[int] = ()) -> None:
    """Runs `void f(ptr buffers, ptr symbols)`; for tests and the slow path."""
    pointers, symbols = list(pointers), list(symbols)
    buffers = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    numbers = (ctypes.c_int64 * max(len(symbols), 1))(*symbols)
    _SIGNATURE(address)(buffers, numbers)


_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def _runtime() -> dict[str, int]:
    """What generated code may call without saying so: the heap, and LLVM's own helpers."""
    if "runtime" not in _state:
        library = _c_library()
        found = {}
        for name in HELPERS:
            function = getattr(library, name, None)
            if function is not None:
                found[name] = ctypes.cast(function, ctypes.c_void_p).value
        if sys.platform == "win32":  # frames over a page touch their stack in order
            kernel = ctypes.CDLL("ntdll")
            found["__chkstk"] = ctypes.cast(kernel["__chkstk"], ctypes.c_void_p).value
        _state["runtime"] = found
    return _state["runtime"]


def _c_library() -> Any:
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    return ctypes.CDLL(None)
