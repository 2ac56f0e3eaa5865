"""How a vector loop is cut: a main loop of whole blocks, then what the target does with the rest.

Masked targets finish under a mask.  Others do one more whole vector that ends where the loop ends,
overlapping what was done before, if doing an element twice is harmless; else scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import I32
from covector.compiler.loops.program import Fold, For, If, Let, Repeat, Scan, Statement, Store
from covector.ir.index import Affine
from covector.ir.scalar import Expr, walk_deep

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest


@final
class Phase:
    """A stretch `low .. high` of a vector loop, `count` vectors of `lanes` a trip.

    ending: 'whole', 'masked' (the lanes beyond the end are off) or 'clamped' (the last vector
    moves back to end at the end; its first lanes were done before).  `aligned`: its vectors follow
    each other from a multiple of `lanes`.
    """

    __slots__ = (
        "aligned", "axis", "b", "count", "end", "ending", "high", "lanes", "low", "main",
    )  # fmt: skip

    def __init__(
        self, b: Builder, axis: str, low: Value, high: Value, lanes: int, count: int,
        ending: str = "whole", end: Value | None = None, main: bool = False, aligned: bool = False,
    ) -> None:  # fmt: skip
        self.b, self.axis, self.low, self.high = b, axis, low, high
        self.lanes, self.count, self.ending, self.main = lanes, count, ending, main
        self.aligned = aligned
        self.end = end if end is not None else high

    @property
    def step(self) -> int:
        """Elements done a trip."""
        return self.lanes * self.count

    def instances(self, i: Value, envs: list[Env]) -> tuple[list[list[Env]], Value | None]:
        """(for each instance outside, those inside; which lanes count: None for all)."""
        if self.ending == "whole":

            def spread(env: Env, u: int) -> Env:
                more = u * self.lanes
                return env.spread(self.axis, i, more, self.lanes, aligned=self.aligned)

            return [[spread(env, u) for u in range(self.count)] for env in envs], None
        b, lanes = self.b, self.lanes
        numbers = b.const(tuple(range(lanes)), I32.of(lanes))
        if self.ending == "masked":
            left = b.cast("trunc", b.sub(self.end, i), I32)
            mask = b.cmp("icmp slt", numbers, left)
            return [[env.spread(self.axis, i, 0, lanes, mask)] for env in envs], mask
        last = b.sub(self.end, b.int(lanes))
        if i.op == last.op == "const":
            at = b.int(min(i.extra, last.extra))
        else:
            at = b.select(b.cmp("icmp slt", i, last), i, last)
        skipped = b.cast("trunc", b.sub(i, at), I32)
        mask = None if skipped.extra == 0 else b.cmp("icmp sge", numbers, skipped)
        return [[env.spread(self.axis, at, 0, lanes)] for env in envs], mask


def phases(
    nest: Nest, axis: str, low: Value, high: Value, unroll: int, harmless: bool,
    streams: bool = False,
) -> list[Phase]:  # fmt: skip
    """The stretches that together do `low .. high`, in order.

    `streams`: vectors that are stored one after the other are neighbours in memory, if they are
    along this axis, so that whole lines may pass the caches.
    """
    b, lanes = nest.b, nest.lanes
    main = whole_blocks(b, low, high, lanes * unroll)
    aligned = streams and low.op == "const" and low.extra % lanes == 0
    out = [Phase(b, axis, low, main, lanes, unroll, main=True, aligned=aligned)]
    known = low.op == high.op == "const"
    masked = nest.target.tail == "masked"
    if known:
        whole = whole_blocks(b, main, high, lanes)
        count = (whole.extra - main.extra) // lanes
        if count:
            out.append(Phase(b, axis, main, whole, lanes, count, aligned=aligned))
        if whole.extra < high.extra:
            overlap = harmless and high.extra - low.extra >= lanes
            if masked:
                out.append(Phase(b, axis, whole, high, lanes, 1, "masked"))
            elif overlap:
                out.append(Phase(b, axis, whole, high, lanes, 1, "clamped"))
            else:
                out.append(Phase(b, axis, whole, high, 1, 1))
        return out
    if masked:
        return [*out, Phase(b, axis, main, high, lanes, 1, "masked")]
    if harmless:
        enough = b.cmp("icmp sge", b.sub(high, low), b.int(lanes))
        split = b.select(enough, high, main)
        out.append(Phase(b, axis, main, split, lanes, 1, "clamped", high))
        return [*out, Phase(b, axis, split, high, 1, 1)]
    if unroll > 1:
        whole = whole_blocks(b, main, high, lanes)
        out.append(Phase(b, axis, main, whole, lanes, 1))
        main = whole
    return [*out, Phase(b, axis, main, high, 1, 1)]


def whole_blocks(b: Builder, low: Value, high: Value, block: int) -> Value:
    """The end of the last whole block of iterations from `low`."""
    if low.op == high.op == "const":
        return b.int(low.extra + max(high.extra - low.extra, 0) // block * block)
    count = b.bin("sdiv", b.sub(high, low), b.int(block))
    return b.add(low, b.mul(count, b.int(block)))


def overlap_is_harmless(statements: list[Statement]) -> bool:
    """Whether doing some elements twice changes nothing: only stores, to what is not read."""
    written: set[str] = set()
    read: set[str] = set()
    return _pure(statements, written, read) and not written & read


def _pure(statements: list[Statement], written: set[str], read: set[str]) -> bool:
    for s in statements:
        if isinstance(s, Store):
            written.add(s.buffer)
            for i in s.index:
                index_reads(i, read)
        elif isinstance(s, For | Scan | Repeat):
            if not _pure(s.body, written, read):
                return False
        elif isinstance(s, Fold):
            if not _pure(s.stores, written, read):
                return False
        elif isinstance(s, If):
            if not _pure(s.body, written, read) or not _pure(s.orelse, written, read):
                return False
        elif not isinstance(s, Let):
            return False
        for e in _expressions(s):
            _reads(e, read)
    return True


def _expressions(s: Statement) -> list[Expr]:
    if isinstance(s, Store):
        return [s.value, *([] if s.where is None else [s.where])]
    if isinstance(s, Let):
        return [s.value]
    if isinstance(s, If):
        return [s.condition]
    if isinstance(s, Scan):
        return [*s.next, *(e for _, e in s.carries)]
    if isinstance(s, Repeat):
        return [*s.next, s.condition, *(e for _, e in s.carries)]
    if isinstance(s, Fold):
        return [e for r in s.results for e in (*r.values, *([r.init] if r.init else []))]
    return []


def _reads(root: Expr, read: set[str]) -> None:
    read.update(node.extra[0] for node in walk_deep(root) if node.op == "load")


def index_reads(index: Affine, read: set[str]) -> None:
    """Adds the buffers that an index is read from."""
    read.update(n.extra[0] for n in walk_deep(*index.data()) if n.op == "load")
