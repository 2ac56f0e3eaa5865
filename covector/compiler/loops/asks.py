"""Which lines of rows to come a kernel has fetched while it computes a row.

The hardware foresees a stream within a page of memory; where a row is reduced, and then read
again from the nearest cache, what comes next is no stream to it.  So the dearest loop of a row
asks for a later one: its time hides the memory's.
"""

from __future__ import annotations

from collections.abc import Sequence

from covector.compiler.loops.address import Accesses
from covector.compiler.loops.costs import COST
from covector.compiler.loops.program import Fold, For, Kernel, Place, Statement
from covector.compiler.loops.strides import step_along
from covector.compiler.loops.transform import all_statements, expressions
from covector.compiler.math.formats import numpy_dtype
from covector.ir.index import affine
from covector.ir.scalar import walk_deep

#: Bytes of a row that are worth asking for, and that fit into the nearest cache beside others;
#: and how far off what is asked for begins, in whole rows.  Measured on sums, variances, softmax
#: and layer normalisation of rows from 256 bytes to 16 KB: up to 30 % faster, alike from 2 KB on.
LEAST, MOST = 256, 16 * 1024
FAR = 4096


def ask_ahead(kernel: Kernel) -> None:
    """Sets `asks` in the loops inside every loop over rows that are reduced."""
    for s in all_statements(kernel.body):
        if isinstance(s, For) and s.mode in ("serial", "parallel") and not s.ahead:
            inner = [t for t in s.body if _vectors(t) is not None]
            if any(isinstance(t, Fold) for t in inner):
                _ask(kernel, s, inner)


def _vectors(s: Statement) -> str | None:
    """The axis that has the lanes, of a loop whose body has no further loops."""
    if isinstance(s, Fold):
        return s.vector if len(s.loops) == 1 and not _loops(s.stores) else None
    if isinstance(s, For) and s.mode == "vector" and not _loops(s.body):
        return s.axis
    return None


def _loops(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, (For, Fold)) for s in all_statements(body))


def _ask(kernel: Kernel, rows: For, inner: list[Statement]) -> None:
    found: dict[str, tuple[int, Statement, list[Place]]] = {}
    for t in inner:
        cost = _cost(t)
        for name, places in _later(kernel, rows, t).items():
            if name not in found or cost > found[name][0]:
                found[name] = cost, t, places
    for _, t, places in found.values():
        assert isinstance(t, (For, Fold))
        t.asks = (*t.asks, *places)


def _later(kernel: Kernel, rows: For, t: Statement) -> dict[str, list[Place]]:
    """By buffer, what `t` reads in the row that it is to ask for, if that is one place."""
    axis = _vectors(t)
    assert axis is not None
    out: dict[str, list[Place]] = {}
    for name, index in Accesses(all_statements([t])).places:
        buffer = kernel.buffers[name]
        size = numpy_dtype(buffer.dtype).itemsize
        step = step_along(rows.axis, index, buffer)
        if buffer.home != "in" or "complex" in buffer.dtype or step is None:
            continue
        if step_along(axis, index, buffer) == 1 and LEAST <= abs(step) * size <= MOST:
            ahead = affine(rows.axis) + max(1, FAR // (abs(step) * size))
            place = tuple(i.substitute({rows.axis: ahead}) for i in index)
            out.setdefault(name, []).append((name, place))
    return {name: places for name, places in out.items() if len(places) == 1}


def _cost(t: Statement) -> int:
    roots = [e for s in all_statements([t]) for e in expressions(s)]
    return sum(COST.get(e.op, 1) for e in walk_deep(*roots))
