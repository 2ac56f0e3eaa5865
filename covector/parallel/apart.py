"""Loops that devices run by themselves, apart from each other: no collective is in them.

All else is computed for all devices at once, as one batch.  A loop of a batch would do so little
for each device in a round that no thread could help; apart, each device is a round of a loop
without a carry, which the native backend spreads over threads (compiler/ranges.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr
from covector.ir.op import Op
from covector.ops.call import Call
from covector.ops.collective import axis_names
from covector.ops.control.parts import over_batch

_LOOPS = frozenset(("scan", "while", "replay"))
#: How often a loop whose end is not known is taken to go round.
_ROUNDS = 16
#: Operations on elements, of all devices together, from which threads are worth it.
_WORTH = 1 << 18
#: Elements of a value, on average, from which a device alone fills the lanes of vectors.
_WIDE = 32
#: A product with fewer rows than this reads a matrix for each; a batch reads it once for all.
_ROWS, _MATRIX = 8, 1 << 14


class Apart(Op, registered=False):
    """`op`, of which a batch is a loop over its examples."""

    name = "apart"
    multiple_results = True
    op: Op

    def result(self, *avals: ShapedArray) -> Any:
        """The operation's."""
        return self.op.result(*avals)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Each example by itself."""
        del tools
        return over_batch(self, size, args, dims)

    def decompose(self, *args: Any) -> Any:
        """The operation."""
        return self.op(*args)


def set_apart(body: Jaxpr, mesh_axes: Sequence[tuple[Any, int]]) -> Jaxpr:
    """`body` with the loops marked that are worth it."""
    devices = math.prod(size for _, size in mesh_axes)
    found = body.derived.get(("apart", devices))
    if found is None:
        eqns = [_marked(e, devices) for e in body.eqns]
        same = all(a is b for a, b in zip(eqns, body.eqns, strict=True))
        found = body if same else body.replace(eqns=eqns)
        body.derived[("apart", devices)] = found
    return found


def _marked(eqn: Equation, devices: int) -> Equation:
    op = eqn.op
    if not _loops(op) or op.effects or axis_names(op):
        return eqn
    work = _Work()
    work.equation(eqn, 1)
    if work.shared or devices * work.elements < _WORTH:
        return eqn
    wide = work.elements >= _WIDE * work.equations
    return eqn.replace(op=Apart(op)) if wide else eqn


def _loops(op: Op) -> bool:
    """Whether it is a loop, or a call of what has one."""
    if op.name in _LOOPS:
        return True
    return isinstance(op, Call) and any(_loops(e.op) for e in op.jaxpr.eqns)


class _Work:
    """What one device has to do: how many equations, on how many elements."""

    __slots__ = ("elements", "equations", "shared")

    def __init__(self) -> None:
        self.elements = self.equations = 0
        self.shared = False  # whether a large matrix is read for few rows

    def equation(self, eqn: Equation, times: int) -> None:
        """Counts it, run so many times."""
        inner = [v for v in eqn.op.params.values() if isinstance(v, ClosedJaxpr)]
        inner += eqn.op.params.get("branches", ())
        if inner:
            rounds = 1
            if eqn.op.name in _LOOPS:
                rounds = eqn.op.params.get("length", _ROUNDS)
            for program in inner:
                for e in program.eqns:
                    self.equation(e, times * rounds)
            return
        sizes = [v.aval.size for v in eqn.outvars]
        if eqn.op.name == "dot_general":
            # The root of the sizes of both operands and the result: rows x columns x sums.
            x, y = (v.aval.size for v in eqn.invars[:2])
            sizes = [math.isqrt(x * y * max(sizes[0], 1))]
            rows = sizes[0] // max(x, y, 1)
            self.shared = self.shared or (max(x, y) >= _MATRIX and rows < _ROWS)
        self.elements += times * sum(sizes)
        self.equations += times
