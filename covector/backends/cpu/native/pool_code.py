"""Native: the caching pool and the buffers made from it.  Called with the interpreter lock held.

A block starts at a multiple of 64; the 16 bytes before it hold its size and the address that
the system's allocator gave.  While it is free, its first word links it to the next.
"""

from __future__ import annotations

from .capi import (
    Py_DecRef,
    PyErr_NoMemory,
    PyLong_FromLongLong,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyObject_Free,
    PyObject_Init,
    PyObject_Malloc,
    PyObject_Vectorcall,
)
from .language import call, instance, leading_zeros, sizeof, stack, word
from .structs import Buffer, Context, Pool

context: Context = instance(Context)
pool: Pool = instance(Pool)

SMALL = 512
HUGE_PAGE = 1 << 21
HUGE_FROM = 1 << 22
ADVISE_HUGE = 14  # MADV_HUGEPAGE
LARGEST = 1 << 46
CLASSES = 168


def block_size(nbytes: word) -> word:
    """The size of the block for a request: see `runtime.pool.block_size`."""
    if nbytes <= 64:
        return 64
    if nbytes <= SMALL:
        return (nbytes + 63) & -64
    step = 1 << (61 - leading_zeros(nbytes - 1))
    return (nbytes + step - 1) & -step


def block_class(size: word) -> word:
    """The free list of blocks of this size."""
    if size <= SMALL:
        return size >> 6
    top = 63 - leading_zeros(size)
    return 8 + ((top - 9) << 2) + ((size >> (top - 2)) & 3)


def fresh_block(size: word) -> word:
    """A block from the system, or 0."""
    align = HUGE_PAGE if size >= HUGE_FROM else 64
    raw = PyMem_RawMalloc(size + align)
    if raw == 0:
        return 0
    block = (raw + 16 + align - 1) & -align
    block[-1] = raw
    block[-2] = size
    if size >= HUGE_FROM and pool.advise != 0:
        call(pool.advise, block, size, ADVISE_HUGE)
    return block


def take_block(nbytes: word) -> word:
    """The address of a block of at least so many bytes, or 0."""
    if nbytes < 0 or nbytes > LARGEST:
        return 0
    size = block_size(nbytes)
    head = pool.free + (block_class(size) << 3)
    block = head[0]
    if block != 0:
        head[0] = block[0]
        pool.cached = pool.cached - size
    else:
        block = fresh_block(size)
        if block == 0:
            trim(0)
            block = fresh_block(size)
            if block == 0:
                return 0
    in_use = pool.in_use + size
    pool.in_use = in_use
    if in_use > pool.peak:
        pool.peak = in_use
    return block


def give_block(block: word) -> None:
    """Takes a block back."""
    size = block[-2]
    pool.in_use = pool.in_use - size
    if pool.cached + size > pool.limit:
        if size > pool.limit:
            PyMem_RawFree(block[-1])
            return
        trim(pool.limit - size)
    pool.cached = pool.cached + size
    head = pool.free + (block_class(size) << 3)
    block[0] = head[0]
    head[0] = block


def trim(keep: word) -> word:
    """Gives cached blocks back, the largest first, until `keep` bytes remain; bytes freed."""
    before = pool.cached
    which = CLASSES - 1
    while which > 0 and pool.cached > keep:
        head = pool.free + (which << 3)
        while head[0] != 0 and pool.cached > keep:
            block = head[0]
            head[0] = block[0]
            pool.cached = pool.cached - block[-2]
            PyMem_RawFree(block[-1])
        which -= 1
    return before - pool.cached


def no_room(nbytes: word) -> word:
    """0, with the exception set that says so."""
    args = stack(1)
    args[0] = PyLong_FromLongLong(nbytes)
    if args[0] != 0:
        PyObject_Vectorcall(context.exhausted, args, 1, 0)
        Py_DecRef(args[0])
    return 0


def new_buffer(nbytes: word) -> Buffer:
    """A new Buffer over a block of the pool; 0 with an exception."""
    block = take_block(nbytes)
    if block == 0:
        return Buffer(no_room(nbytes))
    buffer = Buffer(buffer_over(block, nbytes, 0))
    if buffer == 0:
        give_block(block)
    return buffer


def buffer_over(address: word, nbytes: word, owner: word) -> word:
    """A Buffer over the memory of `owner` (whose reference it takes), or over a block."""
    memory = PyObject_Malloc(sizeof(Buffer))
    if memory == 0:
        return PyErr_NoMemory()
    buffer = Buffer(PyObject_Init(memory, context.buffer_type))
    buffer.address = address
    buffer.nbytes = nbytes
    buffer.owner = owner
    return buffer


def free_buffer(self: word) -> None:
    """tp_dealloc of Buffer."""
    buffer = Buffer(self)
    kind = buffer.type
    if buffer.owner == 0:
        give_block(buffer.address)
    else:
        Py_DecRef(buffer.owner)
    PyObject_Free(self)
    Py_DecRef(kind)
