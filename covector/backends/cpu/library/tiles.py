"""Tiles of products: some rows times some vectors of columns, all in registers.

Sums of outer products: a number of each row, times whole vectors of a panel of columns.  Rows are
read where they lie; no patches are copied.  As in K. Goto, R. van de Geijn, "Anatomy of
high-performance matrix multiplication", ACM TOMS 34 (2008), for the tile, and in M. Dukhan, "The
indirect convolution algorithm" (2019), for rows that are addressed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.types import F32, F64, Type

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.code import Code
    from covector.backends.cpu.target import Target

#: (rows, vectors) that leave registers for a panel's vectors and one number, by registers.
_TILES: Final = {16: ((6, 2), (4, 3), (10, 1)), 32: ((8, 3), (12, 2), (14, 1))}
#: Sums of so few products are written out.
_WRITTEN_OUT: Final = 32
#: Instances of a long loop side by side.
_UNROLL: Final = 4

REAL: Final[dict[str, Type]] = {"float32": F32, "float64": F64}


class Axis(NamedTuple):
    """Of a loop: how many trips, and how many elements further on each begins."""

    length: int
    step: int


@final
class Tile:
    """The shape of the tiles that cover `columns` columns.

    rows x vectors of `lanes`; `panels` whole panels, and a last one of `rest` columns (or 0).
    """

    __slots__ = ("columns", "lanes", "panels", "real", "rest", "rows", "vectors")

    def __init__(self, target: Target, dtype: str, columns: int, rows: int) -> None:
        real = REAL[dtype]
        lanes = target.vector_bytes // (real.bits // 8)
        registers = 32 if target.vector_bytes == 64 or "aarch64" in target.triple else 16
        if target.triple.startswith("arm64"):
            registers = 32
        self.rows, self.vectors = min(
            _TILES[registers], key=lambda t: _cost(*t, -(-columns // lanes), rows)
        )
        self.rows = min(self.rows, rows)
        self.real, self.lanes, self.columns = real, lanes, columns
        self.panels, self.rest = divmod(columns, self.width)

    @property
    def width(self) -> int:
        """Columns of a whole panel."""
        return self.vectors * self.lanes

    @property
    def last(self) -> int:
        """Vectors of the last panel."""
        return -(-self.rest // self.lanes)

    @property
    def packed(self) -> int:
        """Columns of all panels, with those that fill the last vector."""
        return self.panels * self.width + self.last * self.lanes

    @property
    def count(self) -> int:
        """Panels, the last one included."""
        return self.panels + bool(self.rest)


def _cost(rows: int, vectors: int, needed: int, have: int) -> float:
    """Cycles for each row and place: multiplications, loads, or waiting for sums."""
    cycles = 0.0
    used = min(rows, have)
    while needed > 0:
        now = min(vectors, needed)
        cycles += max(used * now / 2, (used + now) / 2.5, 4)
        needed -= now
    return cycles / used


def collapsed(axes: Sequence[Axis]) -> list[Axis]:
    """The same loops, fewer of them."""
    out: list[Axis] = []
    for axis in axes:
        if axis.length == 1:
            continue
        if out and out[-1].step == axis.length * axis.step:
            out[-1] = Axis(out[-1].length * axis.length, axis.step)
        else:
            out.append(axis)
    return out


def place(c: Code, number: Value, axes: Sequence[Axis]) -> Value:
    """How many elements from the start the place of this number (in C order) is."""
    b, total = c.b, c.b.int(0)
    for k, axis in enumerate(reversed(axes)):
        if k == len(axes) - 1:
            at = number
        else:
            at = b.bin("urem", number, b.int(axis.length))
            number = b.bin("udiv", number, b.int(axis.length))
        total = b.add(total, b.mul(at, b.int(axis.step)))
    return total


def smaller(c: Code, x: Value, y: Value) -> Value:
    """The lesser of two numbers."""
    return c.b.select(c.b.cmp("icmp slt", x, y), x, y)


@final
class Sums:
    """Emits the sums of one tile: `rows` are pointers, `vectors` of the panel are used."""

    __slots__ = ("c", "rows", "tile", "vectors")

    def __init__(self, c: Code, tile: Tile, rows: list[Value], vectors: int) -> None:
        self.c, self.tile, self.rows, self.vectors = c, tile, rows, vectors

    @property
    def vector(self) -> Type:
        """A vector of elements."""
        return self.tile.real.of(self.tile.lanes)

    def zeros(self) -> list[Value]:
        """The sums at the start."""
        return [self.c.b.const(0.0, self.vector)] * (len(self.rows) * self.vectors)

    def add(self, sums: list[Value], at: Value, panel: Value, line: Value) -> list[Value]:
        """One product each: of the rows' element `at`, with the panel's vectors at `line`."""
        c, b, lanes = self.c, self.c.b, self.tile.lanes
        columns = [
            c.load(panel, b.add(line, b.int(v * lanes)), self.vector) for v in range(self.vectors)
        ]
        out: list[Value] = []
        for r, row in enumerate(self.rows):
            x = b.splat(c.load(row, at, self.tile.real), lanes)
            for v, column in enumerate(columns):
                product = b.bin("fmul contract", x, column)  # one instruction with the sum
                out.append(b.bin("fadd contract", sums[r * self.vectors + v], product))
        return out

    def run(
        self, sums: list[Value], at: Value, panel: Value, line: Value, axis: Axis, leap: int
    ) -> list[Value]:
        """Products along an axis; lines of the panel are `leap` elements apart."""
        c, b = self.c, self.c.b
        each = 1 if axis.length < _UNROLL else _UNROLL
        whole = axis.length - axis.length % each

        def trip(i: Value, *now: Value) -> list[Value]:
            values = list(now)
            here = b.add(at, b.mul(i, b.int(axis.step)))
            there = b.add(line, b.mul(i, b.int(leap)))
            for k in range(each):
                values = self.add(
                    values, b.add(here, b.int(k * axis.step)), panel,
                    b.add(there, b.int(k * leap)),
                )  # fmt: skip
            return values

        sums = c.loop(0, whole, trip, sums, step=each)
        for k in range(whole, axis.length):
            sums = self.add(
                sums, b.add(at, b.int(k * axis.step)), panel, b.add(line, b.int(k * leap))
            )
        return sums

    def many(
        self, sums: list[Value], panel: Value, count: Value, step: Value, leap: int
    ) -> list[Value]:
        """As `run`, for numbers that the machine code is told."""
        c, b = self.c, self.c.b
        whole = b.bin("and", count, b.int(-_UNROLL))

        def trip(i: Value, each: int, *now: Value) -> list[Value]:
            values = list(now)
            here, there = b.mul(i, step), b.mul(i, b.int(leap))
            for k in range(each):
                values = self.add(values, here, panel, b.add(there, b.int(k * leap)))
                here = b.add(here, step)
            return values

        sums = c.loop(0, whole, lambda i, *v: trip(i, _UNROLL, *v), sums, step=_UNROLL)
        return c.loop(whole, count, lambda i, *v: trip(i, 1, *v), sums)

    def nest(
        self, sums: list[Value], at: Value, panel: Value, line: Value, axes: Sequence[Axis],
        leap: int,
    ) -> list[Value]:  # fmt: skip
        """Products along several axes, the last one innermost."""
        b, count = self.c.b, 1
        for axis in axes:
            count *= axis.length
        if not axes:
            return self.add(sums, at, panel, line)
        if count <= _WRITTEN_OUT:
            for k in range(count):
                here, rest = 0, k
                for axis in reversed(axes):
                    rest, digit = divmod(rest, axis.length)
                    here += digit * axis.step
                sums = self.add(sums, b.add(at, b.int(here)), panel, b.add(line, b.int(k * leap)))
            return sums
        first, *others = axes
        if not others:
            return self.run(sums, at, panel, line, first, leap)
        inner = count // first.length * leap

        def trip(i: Value, *now: Value) -> list[Value]:
            return self.nest(
                list(now), b.add(at, b.mul(i, b.int(first.step))), panel,
                b.add(line, b.mul(i, b.int(inner))), others, leap,
            )  # fmt: skip

        return self.c.loop(0, first.length, trip, sums)

    def load(self, out: Sequence[Value], columns: int) -> list[Value]:
        """What rows of results hold, `columns` of them; beyond, zeros."""
        found: list[Value] = []
        for row in out:
            found += self._pieces(columns, lambda at, n, row=row: self.c.load(
                row, at, self.tile.real.of(n)))  # fmt: skip
        return found

    def _pieces(self, columns: int, read: Callable[[int, int], Value]) -> list[Value]:
        b, lanes, found = self.c.b, self.tile.lanes, []
        for v in range(self.vectors):
            have = min(lanes, columns - v * lanes)
            if have == lanes:
                found.append(read(v * lanes, lanes))
                continue
            whole = b.const(0.0, self.vector)
            done = 0
            for n in powers(have):
                part = read(v * lanes + done, n)
                for k in range(n):
                    whole = b.insert(whole, b.extract(part, k), done + k, lanes)
                done += n
            found.append(whole)
        return found

    def store(self, out: Sequence[Value], sums: list[Value], columns: int) -> None:
        """Writes the first `columns` columns to rows of results."""
        c, b, lanes = self.c, self.c.b, self.tile.lanes
        for r, row in enumerate(out):
            for v in range(self.vectors):
                value, done = sums[r * self.vectors + v], 0
                have = min(lanes, columns - v * lanes)
                if have == lanes:
                    c.store(row, v * lanes, value)
                    continue
                for n in powers(have):
                    part = b.shuffle(value, None, range(done, done + n)) if n > 1 else b.extract(
                        value, done)  # fmt: skip
                    c.store(row, v * lanes + done, part)
                    done += n


def powers(n: int) -> list[int]:
    """Powers of two, falling, whose sum is `n`."""
    return [1 << k for k in reversed(range(n.bit_length())) if n >> k & 1]
