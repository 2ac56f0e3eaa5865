"""Compiled programs that call Python: the trampoline, and what raises the exceptions it met.

Machine code calls a program's trampoline with the number of a callback and pointers to its operands
and results.  That takes the interpreter lock, whoever holds it, so a program may run with it or
without.  An exception is kept for the thread that runs the program; the code returns at once, and
`raise_error` raises it again, with its own traceback.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from covector import dtypes
from covector._base.boundary import api_boundary
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays


class _Local(threading.local):
    """What the callback that ended the running program of this thread raised."""

    error: BaseException | None = None


_local: Final = _Local()
#: Up to so many bytes another copy costs less than asking NumPy where an array lies.
_SMALL: Final = 4096

#: `void host_call(i64 number, ptr words)`: pointers to operands and results, then a word that is to
#: become 1.  (Of a Python function that raises, ctypes gives no result at all.)
Trampoline: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


class _Operand(NamedTuple):
    """A value as memory: its bytes, element type, shape."""

    nbytes: int
    dtype: Any
    shape: tuple[int, ...]


def _operand(aval: ShapedArray) -> _Operand:
    dtype = dtypes.physical_dtype(aval.dtype)
    return _Operand(aval.size * dtype.itemsize, dtype, aval.shape)


class _Callback(NamedTuple):
    """A callback of a program: `function(*arrays)` gives arrays as declared."""

    function: Callable[..., Sequence[Any]]
    operands: tuple[_Operand, ...]
    results: tuple[_Operand, ...]
    #: The type of the words that the code passes.
    words: Any


def trampoline(
    calls: Sequence[tuple[Callable[..., Any], Sequence[ShapedArray], Sequence[ShapedArray]]],
) -> Any:
    """The trampoline of a program whose callbacks are these: (function of NumPy arrays, types of
    its arguments, of its results).  It must live as long as the code."""
    table = [
        _Callback(
            function, tuple(map(_operand, given)), tuple(map(_operand, made)),
            ctypes.c_void_p * (len(given) + len(made) + 1),
        )
        for function, given, made in calls
    ]  # fmt: skip

    def call(number: int, place: int) -> None:
        if number < 0:
            # An interrupt as the very first thing in here, which ctypes cannot pass on.
            _local.error = _local.error or KeyboardInterrupt()
            return
        try:
            callback = table[number]
            words = callback.words.from_address(place)
            given = callback.operands
            out = callback.function(*map(_read, given, words))
            places = words[len(given) : -1]
            for result, value, pointer in zip(callback.results, out, places, strict=True):
                _write(result, value, pointer)
            words[-1] = 1
        except BaseException as error:  # whatever it is, it is raised again by who ran the program
            _local.error = error

    return Trampoline(call)


def _read(operand: _Operand, pointer: int) -> np.ndarray:
    """A copy of a value: the callback may keep it; the program has other uses for the memory."""
    nbytes, dtype, shape = operand
    if 0 < nbytes <= _SMALL:
        return np.frombuffer(ctypes.string_at(pointer, nbytes), dtype).reshape(shape)
    copy = arrays.pool.empty(shape, dtype)  # as memory of an array is to be, so that it can be kept
    if nbytes:
        ctypes.memmove(copy.ctypes.data, pointer, nbytes)
    return copy


def _write(result: _Operand, value: Any, pointer: int) -> None:
    elements = np.asarray(value, result.dtype)
    if result.nbytes <= _SMALL:
        ctypes.memmove(pointer, elements.tobytes(), result.nbytes)
    else:
        elements = np.ascontiguousarray(elements)
        ctypes.memmove(pointer, elements.ctypes.data, result.nbytes)


@api_boundary
def raise_error() -> None:
    """Raises what the callback raised that ended the program which this thread has just run."""
    error, _local.error = _local.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback holds this frame
