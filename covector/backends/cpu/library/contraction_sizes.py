"""Contractions by register tiles: their sizes, and how these decide who computes what.

Pieces of work, and the order of every sum, follow from sizes alone, however many threads there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.library.contraction_thin import is_thin, leads_thin
from covector.backends.cpu.library.phases import LEAST, PIECES
from covector.backends.cpu.library.tiles import REAL, Axis, Tile, collapsed

if TYPE_CHECKING:
    from covector.backends.cpu.target import Target

#: Bytes of the packed right operand, at most: BLAS packs a larger one piece by piece, just before
#: it is used, and so it is faster beyond the second cache.
ROOM: Final = 1 << 21
#: Rows from which packing so many bytes is worth it (docs/design/products.md).
FEWEST: Final = ((1 << 15, 8), (1 << 18, 48), (ROOM, 96))
#: Bytes of a panel of the right operand, at most: it stays in the first cache.
PANEL_BYTES: Final = 16 * 1024
#: Bytes of a block of the left operand, at most: it stays in the second cache.
BLOCK_BYTES: Final = 96 * 1024
#: Bytes of a block of the left operand that is made on the way, at most: whole rows, which stay in
#: the second cache beside what is packed.
MADE_BYTES: Final = 160 * 1024
#: Tiles of a block, at least: so often is a panel used once it is in the first cache.
TILES: Final = 6
#: Pieces of rows that are enough for many threads.
MANY: Final = 8
#: Blocks come in multiples of this, so that a few threads share them evenly.
EVEN: Final = 4
#: Products of a batch that are packed and computed as one piece each: how many there are at least,
#: and the bytes of their right operands at most.
WHOLE: Final = 8
WHOLE_BYTES: Final = 1 << 18


class Shared(NamedTuple):
    """An axis of both operands: its length, and the elements from one to the next in each."""

    length: int
    left: int
    right: int


class Product(NamedTuple):
    """A contraction: the axes of the batch, of the rows, of the columns, of the sums."""

    dtype: str
    batch: tuple[Shared, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    sums: tuple[Shared, ...]

    @property
    def products(self) -> int:
        """Of the batch."""
        return math.prod(a.length for a in self.batch)

    @property
    def m(self) -> int:
        """Rows of each."""
        return math.prod(a.length for a in self.rows)

    @property
    def n(self) -> int:
        """Columns of each."""
        return math.prod(a.length for a in self.columns)

    @property
    def k(self) -> int:
        """Products of each sum."""
        return math.prod(a.length for a in self.sums)


def product_of(
    dtype: str, shapes: Sequence[tuple[int, ...]], contract: Sequence[Sequence[int]],
    batch: Sequence[Sequence[int]],
) -> Product:  # fmt: skip
    """The product of a `dot_general`: shapes and dimension numbers as its own."""
    steps = [_dense(s) for s in shapes]

    def shared(axes: Sequence[Sequence[int]], order: Sequence[int]) -> tuple[Shared, ...]:
        found: list[Shared] = []
        for n in order:
            i, j = axes[0][n], axes[1][n]
            new = Shared(shapes[0][i], steps[0][i], steps[1][j])
            last = found[-1] if found else None
            if new.length == 1:
                continue
            if last and (last.left, last.right) == (
                new.length * new.left, new.length * new.right,
            ):  # fmt: skip
                new = Shared(last.length * new.length, new.left, new.right)
                found.pop()
            found.append(new)
        return tuple(found)

    own = [
        collapsed([
            Axis(shapes[s][d], steps[s][d])
            for d in range(len(shapes[s])) if d not in contract[s] and d not in batch[s]
        ])
        for s in (0, 1)
    ]  # fmt: skip
    pairs = range(len(contract[0]))
    orders = [sorted(pairs, key=lambda n, c=c: c[n]) for c in contract]
    sums = min((shared(contract, order) for order in orders), key=len)
    return Product(dtype, shared(batch, range(len(batch[0]))), tuple(own[0]), tuple(own[1]), sums)


def _dense(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def suits(p: Product, target: Target) -> bool:
    """Whether our own tiles are the better choice; else BLAS is: by measurement, by
    `benchmarks/products.py`."""
    if p.dtype not in REAL or p.k == 0 or min(p.m, p.n) < 2:
        return False
    if is_thin(p, target):
        return True
    tile = Tile(target, p.dtype, p.n, p.m)
    nbytes = p.k * tile.packed * tile.real.bits // 8
    if p.products >= WHOLE and nbytes <= WHOLE_BYTES:
        return True
    total = p.products * nbytes
    if _copied(p):
        return total <= ROOM
    return any(total <= most and p.m >= rows for most, rows in FEWEST)


def _copied(p: Product) -> bool:
    """Whether BLAS, which knows one distance between rows, would be given a copy of the right
    operand, which costs more than packing it for few rows."""
    sums = collapsed([Axis(a.length, a.right) for a in sorted(p.sums, key=lambda a: -a.right)])
    if max(len(sums), len(p.columns)) > 1:
        return True
    return bool(sums and p.columns) and 1 not in (sums[0].step, p.columns[0].step)


def leads(p: Product, target: Target, share: int) -> bool:
    """Whether blocks of rows of the left operand are made just before they are multiplied: where
    each is multiplied once, and stays in the second cache until it is; else all of it before."""
    rows, size = p.m * p.k, REAL[p.dtype].bits // 8
    batch = collapsed([Axis(a.length, a.left) for a in p.batch])
    if collapsed(p.rows) != [Axis(p.m, p.k)] or (batch and batch != [Axis(p.products, rows)]):
        return False
    if is_thin(p, target):
        return leads_thin(p, target, share, MADE_BYTES)
    plan = plan_of(p, target, share)
    side_by_side = plan_of(p, target, None).chunks > 1
    return not (plan.apart or side_by_side) and plan.most(p) * p.k * size <= MADE_BYTES


class Depth(NamedTuple):
    """How the sums are cut: `outer` rounds over the outer axes, of `inner` each; a block has
    `rounds` of them, or, where one is more than a block, `length` of its elements."""

    outer: int
    inner: int
    rounds: int
    length: int

    @property
    def blocks(self) -> int:
        """How many blocks."""
        return -(-self.outer // self.rounds) * self.pieces

    @property
    def pieces(self) -> int:
        """Blocks of a round."""
        return -(-self.inner // self.length)

    @property
    def most(self) -> int:
        """Products of the largest block."""
        return self.rounds * self.length


def _depth(p: Product, tile: Tile) -> Depth:
    most = max(32, PANEL_BYTES // (tile.width * tile.real.bits // 8))
    inner = p.sums[-1].length if p.sums else 1
    outer = p.k // inner
    if inner >= most or outer == 1:
        return Depth(outer, inner, 1, -(-inner // -(-inner // most)))
    rounds = min(outer, most // inner)
    return Depth(outer, inner, -(-outer // -(-outer // rounds)), inner)


class Plan(NamedTuple):
    """How a product is shared out: `blocks` of rows, each some times `step` rows, and pieces of
    `chunk` panels.  `whole`: a piece is one product of the batch, which packs for itself.
    `apart`: what follows waits for the whole result, since there are few pieces of rows."""

    tile: Tile
    depth: Depth
    blocks: int
    step: int
    chunk: int
    whole: bool
    apart: bool

    def pieces(self, p: Product) -> int:
        """Units of work."""
        return p.products * (1 if self.whole else self.blocks * self.chunks)

    def most(self, p: Product) -> int:
        """Rows of the largest block."""
        return min(p.m, -(-self.steps(p) // self.blocks) * self.step)

    def steps(self, p: Product) -> int:
        """Of all rows."""
        return -(-p.m // self.step)

    @property
    def chunks(self) -> int:
        """Pieces side by side."""
        return -(-self.tile.count // self.chunk)


def plan_of(p: Product, target: Target, share: int | None) -> Plan:
    """Sizes alone decide.  share: the rows of which a block has a multiple, for what follows."""
    tile = Tile(target, p.dtype, p.n, p.m)
    size = tile.real.bits // 8
    depth = _depth(p, tile)
    whole = p.products >= WHOLE and p.k * tile.packed * size <= WHOLE_BYTES
    step = math.lcm(tile.rows, share or 1)
    most = max(BLOCK_BYTES // (depth.most * size), TILES * tile.rows)
    if share is not None and step > most:
        step = share
    wanted = p.m if whole else -(-p.m * p.products // PIECES)
    least = -(-LEAST // (2 * p.k * p.n))
    rows = min(most, max(wanted, least, TILES * tile.rows))
    blocks = -(-p.m // rows)
    if blocks > 2:
        blocks = -(-blocks // EVEN) * EVEN
    blocks = min(blocks, -(-p.m // step))
    pieces = blocks * p.products
    work = 2 * p.m * p.k * p.n // blocks
    apart = share is not None and pieces < MANY and work >= 2 * LEAST and not whole
    chunk = tile.count
    if (share is None or apart) and not whole:
        chunks = min(tile.count, max(1, PIECES // pieces), max(1, work // LEAST))
        chunk = -(-tile.count // chunks)
    return Plan(tile, depth, blocks, step, chunk, whole, apart)
