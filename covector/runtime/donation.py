"""Programs that take over the memory of arguments, which are deleted; results live there."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime.array import Array
from covector.runtime.native import native

_call: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@final
class Donating:
    """An executable whose `run` gives up arguments.

    compiled: what the backend made for these donated arguments.  donated: their numbers.
    taken: the number of a result -> that of the argument whose memory it is in.
    """

    def __init__(self, compiled: Any, donated: Sequence[int], taken: dict[int, int]) -> None:
        self.compiled, self.donated, self.taken = compiled, tuple(donated), taken
        self.in_avals: tuple[ShapedArray, ...] = compiled.in_avals
        self.out_avals: tuple[ShapedArray, ...] = compiled.out_avals

    def run(self, args: Sequence[Array], by: object = "donated to a program") -> list[Array]:
        """Runs it on arrays whose types are exactly `in_avals`; `by`: what took those donated."""
        code = self.compiled.code
        own = {n: _own_buffer(args[n]) for n in self.taken.values()}
        buffers = [arrays.memory(x) for x in (*code.hidden, *args)]
        hidden = len(code.hidden)
        for n, buffer in own.items():
            buffers[hidden + n] = buffer
        made = [
            None if n in self.taken
            else arrays.pool.empty(a.shape, dtypes.physical_dtype(a.dtype))
            for n, a in enumerate(self.out_avals)
        ]  # fmt: skip
        arena = arrays.pool.empty((code.arena,), np.dtype(np.uint8)) if code.arena else None
        rest = [0 if v is None else v.ctypes.data for v in (*made, arena)]
        pointers = (ctypes.c_void_p * (len(buffers) + len(rest)))(*map(_address, buffers), *rest)
        symbols = (ctypes.c_int64 * max(len(code.symbols), 1))(*code.symbols)
        _call(code.address)(pointers, symbols)
        mark = arrays.Deleted(by)
        for n in self.donated:
            arrays.replace_buffer(args[n], mark)
        return [
            arrays.wrap(a, own[self.taken[n]] if v is None else arrays.take(v))
            for n, (a, v) in enumerate(zip(self.out_avals, made, strict=True))
        ]

    def text(self, stage: str) -> str:
        """The program after a stage."""
        return self.compiled.text(stage)

    @property
    def memory(self) -> Any:
        """Bytes it needs."""
        return self.compiled.memory

    @property
    def code(self) -> Any:
        """What an entry point runs, given who may give up memory; None where it can't be told."""
        return self.compiled.code if _counts_are_plain() else None


@functools.cache
def _counts_are_plain() -> bool:
    """Whether native code can tell by a buffer's count of references that nobody else uses it."""
    if native() is None:
        return False
    buffer: Any = arrays.memory(arrays.from_numpy(np.zeros(1, np.float32)))
    count = ctypes.c_uint32.from_address(id(buffer))
    before = count.value
    more = [buffer] * 5
    return count.value == before + len(more)


def _address(buffer: Any) -> int:
    return buffer.ctypes.data if isinstance(buffer, np.ndarray) else buffer.address


def _own_buffer(x: Array) -> Any:
    """The memory of `x`, or a copy of it if others use that memory."""
    # Without the native runtime, views of a buffer do not count as references to it.
    alone = native() is not None and _references(x) <= _references_of_one()
    return arrays.memory(x) if alone else arrays.duplicate(x)


def _references(x: Array) -> int:
    buffer = arrays.memory(x)
    return sys.getrefcount(buffer)


@functools.cache
def _references_of_one() -> int:
    """How many references the interpreter counts here for a buffer that one array alone uses."""
    return _references(arrays.from_numpy(np.zeros(1, np.float32)))
