"""Chooses what runs as vectors: which axis has the lanes, how much is unrolled, where tiles pay.

Works on a serial nest; each decision looks only at loop extents and at strides of accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from covector.compiler.loops.address import Accesses, linear
from covector.compiler.loops.place import COST
from covector.compiler.loops.program import Fold, For, Kernel, Statement
from covector.compiler.loops.transform import all_statements, expressions
from covector.compiler.loops.lower import walk_deep
from covector.ir.index import Affine, Data, Quotient

#: Rows shorter than this are better done many at a time, one a lane.
SHORT = 8
#: A fold cheaper than this (in additions an element) is unrolled more: its adds form a chain.
CHEAP = 10


@final
class Strides:
    """How the accesses of some statements move along an axis."""

    __slots__ = ("places", "shapes")

    def __init__(self, kernel: Kernel, body: Sequence[Statement]) -> None:
        self.shapes = {n: b.shape for n, b in kernel.buffers.items()}
        self.places = list(Accesses(all_statements(body)).places)

    def vote(self, axis: str) -> int:
        """Accesses with unit stride along `axis`, less those with another stride."""
        votes = 0
        for buffer, index in self.places:
            step = step_along(axis, index, self.shapes[buffer])
            if step != 0:
                votes += 1 if step == 1 else -1
        return votes


def step_along(axis: str, index: Sequence[Affine], shape: tuple[Affine, ...]) -> int | None:
    """Elements the address moves by when `axis` grows by one; None if it is not one number."""
    if any(_hides(axis, i) for i in index):
        return None
    address = linear(index, shape)
    if address is not None:
        return dict(address.terms).get(axis, 0)
    steps = [dict(i.terms).get(axis, 0) for i in index]
    if any(steps[:-1]):
        return None
    return steps[-1] if steps else 0


def _hides(axis: str, i: Affine) -> bool:
    """Whether `axis` is inside a quotient or a data-dependent atom of `i`."""
    for atom, _ in i.terms:
        if isinstance(atom, Quotient):
            if _mentions(axis, atom.index):
                return True
        elif isinstance(atom, Data) and any(
            _mentions(axis, j)
            for e in walk_deep([atom.value])
            for j in (e.extra[1] if e.op == "load" else [e.extra] if e.op == "index" else ())
        ):
            return True
    return False


def _mentions(axis: str, i: Affine) -> bool:
    return any(a == axis for a, _ in i.terms) or _hides(axis, i)


def choose_lanes(kernel: Kernel) -> Kernel:
    """The kernel with its vector axes chosen (its loops are changed in place)."""
    for s in kernel.body:
        _nest(kernel, s, outer=False)
    return kernel


def _nest(kernel: Kernel, s: Statement, outer: bool) -> None:
    """Choose for `s` and what is inside it; `outer`: a loop round it has the lanes already."""
    if isinstance(s, Fold):
        _fold(kernel, s, outer)
    elif isinstance(s, For):
        inner = [t for t in s.body if isinstance(t, (For, Fold))]
        if not outer and (not inner or _lanes_outside(kernel, s)):
            s.mode, outer = "vector", True
            s.unroll = 2 if not inner and _cost(s.body) < 40 else 1
        for t in inner:
            _nest(kernel, t, outer)


def _fold(kernel: Kernel, s: Fold, outer: bool) -> None:
    cost = _cost([s])
    s.unroll = 4 if cost < CHEAP else 2 if cost < 40 else 1
    if outer:
        s.unroll = 1
        return
    strides = Strides(kernel, [s])
    axis = max((a for a, _, _ in s.loops), key=lambda a: (strides.vote(a), a))
    s.vector = axis
    s.loops.sort(key=lambda loop: loop[0] == axis)


def _lanes_outside(kernel: Kernel, s: For) -> bool:
    """Whether the loops inside `s` should be done one a lane of `s`."""
    inner = [t for t in all_statements(s.body) if isinstance(t, (For, Fold))]
    if any(b.home == "scratch" for b in kernel.buffers.values()):
        return False
    if any(isinstance(t, For) and any(isinstance(u, (For, Fold)) for u in t.body) for t in inner):
        return False
    extents = [
        (high - low).constant
        for t in inner
        for _, low, high in (t.loops if isinstance(t, Fold) else [("", t.low, t.high)])
    ]
    if all(n is not None and n < SHORT for n in extents):
        return True
    folds = [t for t in inner if isinstance(t, Fold)]
    if len(folds) != len(inner):
        return False
    strides = Strides(kernel, [*folds])
    mine = strides.vote(s.axis)
    return all(mine >= strides.vote(a) for f in folds for a, _, _ in f.loops)


def _cost(body: Sequence[Statement]) -> int:
    roots: list[Any] = []
    for s in all_statements(body):
        roots += expressions(s)
    return sum(COST.get(e.op, 1) for e in walk_deep(roots))
