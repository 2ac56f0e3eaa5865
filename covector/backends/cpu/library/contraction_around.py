"""What runs around the pieces of a contraction: kernels that make rows of the left operand just
before these are multiplied, and kernels that go on with rows of the result."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.kernel import emit_range
from covector.backends.cpu.emit.types import I64, PTR
from covector.compiler.epilogue import given_to
from covector.compiler.loops.program import Buffer, Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.emit.types import Type
    from covector.backends.cpu.library.code import Code
    from covector.backends.cpu.library.contraction_sizes import Product
    from covector.backends.cpu.library.site import Leader, Site
    from covector.backends.cpu.target import Target

#: The first of the pointers that are those of kernels; before: lhs, rhs, result, room.
FIRST: Final = 4


class After(NamedTuple):
    """A follower as the text knows it: its function of a range of `trips` rounds."""

    name: str
    trips: int


class Before(NamedTuple):
    """A leader as the text knows it: its function of a range of `trips` rounds, how many `buffers`
    it has, and which of them is of rows that may lie anywhere."""

    name: str
    trips: int
    buffers: int
    own: int | None


def share_of(p: Product, trips: Sequence[int]) -> int:
    """The rows of the whole that a piece has a multiple of, for kernels of so many rounds."""
    total = p.products * p.m
    return total // math.gcd(total, *trips)


def in_cache(f: Leader) -> Kernel:
    """A leader's kernel, what it writes to rows that are used again not past the caches."""
    if f.own is None:
        return f.kernel
    buffers = dict(f.kernel.buffers)
    name = given_to(f.kernel)[f.own]
    old = buffers[name]
    buffers[name] = Buffer(name, old.shape, old.dtype, "inout", old.strides)
    return Kernel(f.kernel.name, buffers, f.kernel.body, f.kernel.symbols)


def arguments(site: Site, kernels: Sequence[tuple[Kernel, Sequence[Value], str]]) -> Value:
    """Emits what a contraction is called with: pointers to lhs, rhs, result, a place for the room,
    then the pointers of each of `kernels`, whose functions of these names are linked in."""
    host, b = site.host, site.host.b
    pointers = b.local(PTR, FIRST + len(kernels))

    def put(place: Value, n: int, v: Value) -> None:
        b.effect("store", PTR, (v, b.put("gep", PTR, (place, b.int(n)), PTR)), 8)

    for n, v in enumerate((*site.inputs, *site.outputs[:1])):
        put(pointers, n, v.pointer)
    for n, (kernel, given, label) in enumerate(kernels):
        host.code(label, partial(_text, kernel, host.target, label))
        buffers = b.local(PTR, len(given))
        for k, v in enumerate(given):
            put(buffers, k, v)
        put(pointers, FIRST + n, buffers)
    return pointers


def _text(kernel: Kernel, target: Target, name: str) -> str:
    text, declared = emit_range(kernel, target, name)
    return module_text(target, [text], declared)


def follow(c: Code, p: Product, followers: Sequence[After], low: Value, high: Value) -> None:
    """Runs what follows on these rows of the whole result."""
    bounds = c.local(I64, 2)
    for k, f in enumerate(followers):
        _run(c, p, f, c.load(c.parameters[0], FIRST + k, PTR), bounds, (low, high))


def _run(
    c: Code, p: Product, f: After | Before, buffers: Value, bounds: Value,
    rows: tuple[Value, Value],
) -> None:  # fmt: skip
    """Runs a kernel's rounds that these rows of the whole are."""
    b, total = c.b, p.products * p.m
    for at, end in enumerate(rows):
        if f.trips >= total:
            c.store(bounds, at, b.mul(end, b.int(f.trips // total)))
        else:
            c.store(bounds, at, b.bin("udiv", end, b.int(total // f.trips)))
    b.effect("effect", PTR, (buffers, bounds), f.name)


@final
class Leading:
    """The leaders of a product, whose pointers come after those of `following` followers; `rows`:
    memory for the rows of a block."""

    __slots__ = ("c", "first", "leaders", "p", "real", "rows")

    def __init__(
        self, c: Code, p: Product, leaders: Sequence[Before], following: int, real: Type,
        rows: Value,
    ) -> None:  # fmt: skip
        self.c, self.p, self.leaders, self.first = c, p, leaders, FIRST + following
        self.real, self.rows = real, rows

    def make(self, x: Value, row: Value, low: Value, high: Value) -> Value:
        """Makes rows `low` to `high` of the whole left operand, `row` the first one of its product,
        which begins at `x`; where that would have to begin for the rows to be where they are."""
        c, b, k = self.c, self.c.b, self.c.b.int(self.p.k)
        bounds = c.local(I64, 2)
        for n, f in enumerate(self.leaders):
            buffers = c.load(c.parameters[0], self.first + n, PTR)
            if f.own is not None:
                given, buffers = buffers, c.local(PTR, f.buffers)
                for place in range(f.buffers):
                    c.store(buffers, place, c.load(given, place, PTR))
                first = b.sub(b.int(0), b.mul(low, k))
                c.store(buffers, f.own, c.at(self.rows, first, self.real))
                x = c.at(self.rows, b.sub(b.int(0), b.mul(row, k)), self.real)
            _run(c, self.p, f, buffers, bounds, (low, high))
        return x
