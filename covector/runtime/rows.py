"""One row of an array by a Python integer, `x[i]` and `x.at[i].set(y)`: bytes moved, no program.

The integer is a run-time symbol of the record, so that one serves for all positions in bounds;
positions out of bounds, which have meanings of their own, go the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector.ir.avals import ShapedArray
from covector.runtime.array import GONE, Array
from covector.runtime.backend import NativeCode
from covector.runtime.entry import Record, signature
from covector.runtime.native import ROW, native
from covector.runtime.patterns import Pattern

Filed = tuple[Pattern, Record] | None


def _is_place(x: Any, i: Any) -> bool:
    """Whether `i` is a Python integer that names a row of an array on no chosen device."""
    return (
        type(x) is Array
        and type(i) is int
        and not isinstance(x.buffer, GONE)
        and getattr(x, "_sharding", None) is None
        and isinstance(x.dtype, np.dtype)
        and x.ndim > 0
        and -x.shape[0] <= i < x.shape[0]
    )


def read(args: Sequence[Any], result: Any) -> Filed:
    """The record of `x[i]` for arguments (x, i); None if it is no such call."""
    runtime = native()
    x, i = args
    if runtime is None or not _is_place(x, i) or type(result) is not Array:
        return None
    row: ShapedArray = result.aval
    if row.shape != x.shape[1:] or row.dtype != x.dtype or hasattr(result, "_sharding"):
        return None
    pattern = Pattern(2, (), ROW)
    code = NativeCode(runtime.read_row, symbols=(row.nbytes,))
    return pattern, Record(code, [x.aval], [row], bounds=(x.shape[0],))


def written(args: Sequence[Any], result: Any) -> Filed:
    """The record of `update.set(y)` for arguments (update, y); None if it is no such call.

    update: a named tuple (x, i).  y: of the type of one row.
    """
    runtime = native()
    update, y = args
    if runtime is None or not _is_place(*update) or type(result) is not Array:
        return None
    types = signature([update[0], y])
    if types is None or result.aval != update[0].aval or hasattr(result, "_sharding"):
        return None
    whole, row = update[0].aval, types[1][0]
    if row.shape != whole.shape[1:] or row.dtype != whole.dtype or types[1][1] != id(None):
        return None
    pattern = Pattern(2, (), (("ARGUMENT", 0, None), ("NAMED", 2, type(update)),
                              ("LEAF", 0, None), ("INTEGER", 0, None), ("ARGUMENT", 1, None),
                              ("LEAF", 0, None)))  # fmt: skip
    code = NativeCode(runtime.write_row, symbols=(whole.nbytes, row.nbytes))
    return pattern, Record(code, [whole, row], [result.aval], bounds=(whole.shape[0],))
