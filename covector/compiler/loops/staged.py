"""Records of many elements, one a lane: turned by blocks in registers into rows of scratch memory.

    for i:vector in 0 .. 1000                 for b:parallel in 0 .. 31
        y[i, 0] = f(x[i, 0], x[i, 1], ...)        for c:tile, l: t[c, l] = x[32*b + l, c]
        y[i, 1] = ...                             for l:vector in 0 .. 32
                                                      u[0, l] = f(t[0, l], t[1, l], ...)
                                                  for l:tile, c: y[32*b + l, c] = u[c, l]

Else each element of each record would be loaded, put into its lane, taken from it and stored by
itself: the code would be many times as long, and not faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from covector._base.named_tuple import NamedTuple
from covector.compiler.loops.address import Accesses, linear
from covector.compiler.loops.graph import size_of
from covector.compiler.loops.program import Buffer, For, Kernel, Let, Statement, Store
from covector.compiler.loops.transform import Rewrite, all_statements
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import load

#: Elements of a record from which on it is worth the way through memory.
RECORD: Final = 8
#: Bytes of scratch that stay in the nearest cache.
NEAR: Final = 24 << 10
#: Records of a block: a multiple of all lanes.
LONGEST, SHORTEST = 64, 16
_ITEMSIZE: Final = {"float32": 4, "int32": 4, "float64": 8, "int64": 8}


class _Records(NamedTuple):
    """A buffer that holds a record of `size` elements for each iteration, and its scratch."""

    buffer: Buffer
    size: int
    scratch: str


def staged(kernel: Kernel) -> Kernel | None:
    """The kernel, a loop over plain statements, with its records turned, and the modes of its loops
    chosen; None where there are no records, or few."""
    (loop,) = kernel.body if len(kernel.body) == 1 else (None,)
    if not isinstance(loop, For) or loop.low != 0 or loop.high.terms:
        return None
    if not all(isinstance(s, Let | Store) for s in loop.body):
        return None
    records = _records(kernel, loop)
    block = _block(records)
    count = loop.high.const // block if block else 0
    if not records or not count:
        return None
    number, lane, place = "b", "l", "c"
    here = affine(number) * block + affine(lane)

    def flat(name: str, index: tuple[Affine, ...]) -> tuple[str, tuple[Affine, ...]]:
        return (name, _address(kernel, name, index)) if name in records else (name, index)

    def turned(name: str, index: tuple[Affine, ...]) -> tuple[str, tuple[Affine, ...]]:
        if name not in records:
            return name, index
        (at,) = _address(kernel, name, index)
        r = records[name]
        return r.scratch, (at - here * r.size, affine(lane))

    def move(r: _Records) -> Statement:
        outside = (here * r.size + affine(place),)
        inside = (affine(place), affine(lane))
        dtype, name = r.buffer.dtype, r.buffer.name
        loops = [(place, r.size), (lane, block)]
        if r.buffer.home == "in":
            body: Statement = Store(r.scratch, inside, load(name, outside, dtype))
        else:
            body, loops = Store(name, outside, load(r.scratch, inside, dtype)), loops[::-1]
        (first, n), (second, m) = loops
        inner = For(second, ZERO, Affine(m), [body])
        return For(first, ZERO, Affine(n), [inner], "tile")

    main = Rewrite({loop.axis: here}, turned).statements(loop.body)
    body: list[Statement] = [
        *(move(r) for r in records.values() if r.buffer.home == "in"),
        For(lane, ZERO, Affine(block), main, "vector"),
        *(move(r) for r in records.values() if r.buffer.home == "out"),
    ]
    nests: list[Statement] = [For(number, ZERO, Affine(count), body, "parallel")]
    if count * block < loop.high.const:
        rest = Rewrite(place=flat).statements(loop.body)
        nests.append(For(loop.axis, Affine(count * block), loop.high, rest))
    return Kernel(kernel.name, _buffers(kernel, records, block), nests, kernel.symbols)


def _records(kernel: Kernel, loop: For) -> dict[str, _Records]:
    places: dict[str, set[tuple[int, int] | None]] = {}
    for name, index in Accesses(all_statements(loop.body)).places:
        places.setdefault(name, set()).add(_record(kernel.buffers[name], index, loop.axis))
    out: dict[str, _Records] = {}
    for name, found in places.items():
        sizes = {p[0] for p in found if p is not None}
        if None in found or len(sizes) != 1:
            continue
        (size,), used = sizes, len(found)
        buffer = kernel.buffers[name]
        wanted = size if buffer.home == "out" else size // 2
        if size >= RECORD and used >= wanted and buffer.home in ("in", "out"):
            out[name] = _Records(buffer, size, f"t{len(out)}")
    return out


def _record(buffer: Buffer, index: tuple[Affine, ...], axis: str) -> tuple[int, int] | None:
    """(size of the record, position in it) of an access, or None if it is of another kind."""
    address = linear(index, buffer.shape) if buffer.strides is None else None
    if address is None or len(address.terms) != 1 or buffer.dtype not in _ITEMSIZE:
        return None
    ((atom, size),) = address.terms
    inside = atom == axis and 0 <= address.const < size
    return (size, address.const) if inside else None


def _block(records: dict[str, _Records]) -> int:
    """How many records are turned at a time; 0 if they are too large."""
    nbytes = sum(r.size * _ITEMSIZE[r.buffer.dtype] for r in records.values())
    block = LONGEST
    while block >= SHORTEST and block * nbytes > NEAR:
        block //= 2
    return block if block >= SHORTEST else 0


def _address(kernel: Kernel, name: str, index: Sequence[Affine]) -> tuple[Affine, ...]:
    buffer = kernel.buffers[name]
    shape = buffer.shape
    address = index[0] if len(shape) == 1 else linear(index, shape)
    assert address is not None
    return (address,)


def _buffers(kernel: Kernel, records: dict[str, _Records], block: int) -> dict[str, Buffer]:
    out: dict[str, Buffer] = {}
    for name, b in kernel.buffers.items():
        size = size_of(b.shape)
        whole = name in records and size is not None
        out[name] = Buffer(name, (Affine(size),), b.dtype, b.home) if whole else b  # type: ignore[arg-type]
    for r in records.values():
        shape = (Affine(r.size), Affine(block))
        out[r.scratch] = Buffer(r.scratch, shape, r.buffer.dtype, "scratch")
    return out
