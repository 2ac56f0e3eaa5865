"""How far memory accesses move when a loop axis grows by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from covector.compiler.loops.address import Accesses, linear
from covector.compiler.loops.program import Buffer, Kernel, Statement
from covector.compiler.loops.transform import all_statements
from covector.ir.index import Affine, Data, Quotient
from covector.ir.scalar import walk_deep


@final
class Strides:
    """The accesses of some statements of a kernel, and how they move."""

    __slots__ = ("buffers", "places")

    def __init__(self, kernel: Kernel, body: Sequence[Statement], scratch: bool = True) -> None:
        self.buffers = kernel.buffers
        self.places = [
            (b, i)
            for b, i in Accesses(all_statements(body)).places
            if scratch or kernel.buffers[b].home != "scratch"
        ]

    def vote(self, axis: str) -> int:
        """Accesses with unit stride along `axis`, less those with another stride."""
        votes = 0
        for buffer, index in self.places:
            step = step_along(axis, index, self.buffers[buffer])
            if step != 0:
                votes += 1 if step == 1 else -1
        return votes


def step_along(axis: str, index: Sequence[Affine], buffer: Buffer) -> int | None:
    """Elements the address moves by when `axis` grows by one; None if it is not one number."""
    if any(hides(axis, i) for i in index):
        return None
    if buffer.strides is not None:
        steps = [
            (dict(i.terms).get(axis, 0), s) for i, s in zip(index, buffer.strides, strict=True)
        ]
        moving = [(c, s) for c, s in steps if c]
        if any(s.terms for _, s in moving):
            return None
        return sum(c * s.const for c, s in moving)
    address = linear(index, buffer.shape)
    if address is not None:
        return dict(address.terms).get(axis, 0)
    coefficients = [dict(i.terms).get(axis, 0) for i in index]
    if any(coefficients[:-1]):
        return None
    return coefficients[-1] if coefficients else 0


def hides(axis: str, i: Affine) -> bool:
    """Whether `axis` is inside a quotient or a data-dependent atom of `i`."""
    for atom, _ in i.terms:
        if isinstance(atom, Quotient):
            if mentions(axis, atom.index):
                return True
        elif isinstance(atom, Data) and any(
            mentions(axis, j)
            for e in walk_deep(atom.value)
            for j in (e.extra[1] if e.op == "load" else [e.extra] if e.op == "index" else ())
        ):
            return True
    return False


def mentions(axis: str, i: Affine) -> bool:
    """Whether the value of `i` depends on `axis`."""
    return any(a == axis for a, _ in i.terms) or hides(axis, i)
