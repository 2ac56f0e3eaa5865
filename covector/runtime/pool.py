"""The process-wide memory pool: every array's elements live in a block that comes from here.

Blocks are 64-byte aligned, of a few sizes (classes), and come back when their last user is gone;
fresh pages cost more than most arithmetic, so they are kept, up to a bound.  `native` is the fast
allocator that a backend may install; without it, blocks are pieces of NumPy arrays.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from covector._base.errors import JaxRuntimeError
from covector._base.named_tuple import NamedTuple

ALIGNMENT: Final = 64
#: Blocks of this size and more start at a multiple of it, and ask for huge pages.
HUGE_PAGE: Final = 1 << 21
#: From this size on, huge pages are asked for.
HUGE_FROM: Final = 1 << 22


class Stats(NamedTuple):
    """Bytes in blocks that are in use, bytes kept for reuse, the largest `in_use` so far."""

    in_use: int
    cached: int
    peak: int


def block_size(nbytes: int) -> int:
    """The size class of a request: multiples of 64 up to 512, then four steps a power of two.

    So at most a quarter of a large block is slack, and a size that varies a little finds the
    block it left.
    """
    if nbytes <= 512:
        return max(64, (nbytes + 63) & -64)
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return (nbytes + step - 1) & -step


def default_limit() -> int:
    """Bytes the pool may keep: COVECTOR_POOL_LIMIT, or a quarter of the machine's memory."""
    given = os.environ.get("COVECTOR_POOL_LIMIT")
    if given is not None:
        try:
            return max(0, int(given))
        except ValueError:
            raise ValueError(
                f"COVECTOR_POOL_LIMIT takes a number of bytes; got {given!r}"
            ) from None
    return physical_memory() // 4


def physical_memory() -> int:
    """Bytes of memory the machine has; 4 GiB if it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _windows_memory() or 1 << 32


def _windows_memory() -> int:
    kernel32 = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    if kernel32 is None:
        return 0
    kilobytes = ctypes.c_ulonglong(0)
    kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value << 10


class Allocator(Protocol):
    """What the pool asks of the code below it."""

    def stats(self) -> tuple[int, int, int]:
        """Bytes in use, bytes cached, the peak of bytes in use."""
        ...

    def trim(self, keep: int) -> int:
        """Gives cached blocks back to the system until `keep` bytes remain; returns bytes freed."""
        ...

    def set_limit(self, nbytes: int) -> None:
        """Bounds what is cached."""
        ...


class PythonAllocator:
    """The pool in Python: free lists of NumPy memory, by size class."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free: dict[int, list[np.ndarray]] = {}
        self.lock = threading.RLock()  # a collection inside may free another block
        self.in_use = self.cached = self.peak = 0

    def allocate(self, nbytes: int) -> Block:
        size = block_size(nbytes)
        with self.lock:
            kept = self.free.get(size)
            if kept:
                memory = kept.pop()
                self.cached -= size
            else:
                memory = _fresh(size)
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
        return Block(self, memory, nbytes)

    def release(self, memory: np.ndarray) -> None:
        with self.lock:
            size = memory.nbytes
            self.in_use -= size
            if self.cached + size <= self.limit:
                self.cached += size
                self.free.setdefault(size, []).append(memory)

    def stats(self) -> Stats:
        return Stats(self.in_use, self.cached, self.peak)

    def trim(self, keep: int) -> int:
        with self.lock:
            before = self.cached
            for size in sorted(self.free, reverse=True):
                kept = self.free[size]
                while kept and self.cached > keep:
                    kept.pop()
                    self.cached -= size
            return before - self.cached

    def set_limit(self, nbytes: int) -> None:
        self.limit = nbytes
        self.trim(nbytes)


def exhausted(nbytes: int) -> NoReturn:
    """Raises: the system has no memory for so many bytes."""
    raise JaxRuntimeError(
        f"RESOURCE_EXHAUSTED: Out of memory allocating {nbytes} bytes; arrays in use hold "
        f"{pool.stats().in_use}. Smaller batches (vmap with chunk=, lax.map with batch_size=), "
        "checkpoint, and donated arguments need less"
    )


def _fresh(size: int) -> np.ndarray:
    """New memory of `size` bytes at a multiple of 64."""
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        exhausted(size)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class Block:
    """A block of the Python pool; goes back when the last array over it is gone."""

    __slots__ = ("__weakref__", "address", "memory", "nbytes", "pool")

    def __init__(self, pool: PythonAllocator, memory: np.ndarray, nbytes: int) -> None:
        self.pool, self.memory, self.nbytes = pool, memory, nbytes
        self.address: int = memory.ctypes.data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    def __del__(self) -> None:
        self.pool.release(self.memory)


class Pool:
    """The pool of the process: the Python allocator, or the native one once it is installed."""

    def __init__(self) -> None:
        self.limit = default_limit()
        self.python = PythonAllocator(self.limit)
        self.allocator: Allocator = self.python

    def use(self, allocator: Allocator) -> None:
        """Makes a native allocator the one whose numbers count."""
        self.allocator = allocator
        allocator.set_limit(self.limit)

    def stats(self) -> Stats:
        """Bytes in use, bytes cached, the peak of bytes in use."""
        parts = {id(a): a.stats() for a in (self.python, self.allocator)}.values()
        return Stats(*map(sum, zip(*parts, strict=True)))

    def statistics(self) -> dict[str, int]:
        """The same and the bounds, by the names that devices report (`Device.memory_stats`)."""
        in_use, cached, peak = self.stats()
        return {
            "bytes_in_use": in_use,
            "peak_bytes_in_use": peak,
            "pool_bytes": in_use + cached,
            "bytes_reservable_limit": self.limit,
            "bytes_limit": physical_memory(),
        }

    def trim(self, keep: int = 0) -> int:
        """Gives cached memory back to the system; returns how many bytes."""
        used = {id(a): a for a in (self.python, self.allocator)}.values()
        return sum(a.trim(keep) for a in used)

    def set_limit(self, nbytes: int) -> None:
        """Bounds the bytes kept for reuse."""
        if nbytes < 0:
            raise ValueError(f"the pool's limit is a number of bytes, 0 or more; got {nbytes}")
        self.limit = nbytes
        self.python.set_limit(nbytes)
        self.allocator.set_limit(nbytes)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A new, writable NumPy array in pool memory, C order, contents undefined."""
        size = dtype.itemsize
        for n in shape:
            size *= n
        block = self.python.allocate(size)
        return np.asarray(block).view(dtype).reshape(shape) if size else np.empty(shape, dtype)


def give_back() -> None:
    """Returns to the system what nothing uses: the pool's kept blocks, the heap's free pages."""
    pool.trim()
    # glibc keeps free pages below the last one in use; others have no such function.
    trim = getattr(_process(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _process() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows: there is no such library
        return None


pool: Final = Pool()
