"""Contractions to a few columns: vectors lie along the sums, and are added up at their end.

Tiles would fill vectors with columns that there are not.  Here a row of the left operand is read
once, a vector at a time, and meets each column; so the time is that of reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import PTR
from covector.backends.cpu.library.code import Code
from covector.backends.cpu.library.contraction_around import After, Before, Leading, follow
from covector.backends.cpu.library.phases import DECLARED, LEAST, PARAMETERS, Phase, entry
from covector.backends.cpu.library.tiles import REAL, Axis, place, smaller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.contraction_sizes import Product
    from covector.backends.cpu.target import Target

#: Columns from which, and to which, this is faster than tiles (of one the planner makes a kernel).
COLUMNS: Final = (2, 6)
#: Vectors of a sum, at least: adding up their lanes costs as much as some of them.
VECTORS: Final = 4
#: Rows, at least, and bytes of the right operand, at most.
ROWS: Final = 16
RIGHT_BYTES: Final = 1 << 17
#: Sums in registers, and rows of them, at most.
SUMS: Final = 12
TOGETHER: Final = 4
#: Bytes of a block of the left operand: a piece of work.
BLOCK_BYTES: Final = 96 * 1024


def is_thin(p: Product, target: Target) -> bool:
    """Whether a product has so few columns, and its left operand lies along the sums."""
    size = REAL[p.dtype].bits // 8
    lines = len(p.sums) == len(p.rows) == 1 and p.sums[0].left == 1
    long = p.k >= VECTORS * (target.vector_bytes // size) and p.k * p.n * size <= RIGHT_BYTES
    return lines and long and COLUMNS[0] <= p.n <= COLUMNS[1] and p.m >= ROWS


class Thin(NamedTuple):
    """How such a product is shared out: `rows` at once, `blocks` of each product, of `most` rows,
    which is a multiple of the rows that what runs around it needs.  packs: columns are copied, so
    that they lie along the sums; else they are `apart`."""

    lanes: int
    rows: int
    most: int
    blocks: int
    packs: bool
    apart: int


def thin_of(p: Product, target: Target, share: int | None) -> Thin:
    """Sizes alone decide."""
    size, share = REAL[p.dtype].bits // 8, share or 1
    rows = min(TOGETHER, SUMS // p.n)
    most = max(1, BLOCK_BYTES // (p.k * size * share)) * share
    packs = p.sums[0].right != 1 or len(p.columns) != 1
    apart = p.k if packs else p.columns[0].step
    return Thin(target.vector_bytes // size, rows, most, -(-p.m // most), packs, apart)


def thin_text(
    name: str, p: Product, target: Target, share: int | None, followers: Sequence[After],
    leaders: Sequence[Before],
) -> tuple[list[str], set[str]]:  # fmt: skip
    """The functions of one product, and what they need declared."""
    plan, size = thin_of(p, target, share), REAL[p.dtype].bits // 8
    part, declared = _part(f"{name}.part", p, plan, followers, leaders)
    work = 2 * p.n * p.k * min(plan.most, p.m)
    phases = [Phase(f"{name}.part", p.products * plan.blocks, max(1, LEAST // work))]
    functions, nbytes = [part], 0
    if plan.packs:
        pack, more = _pack(f"{name}.pack", p)
        functions.insert(0, pack)
        declared |= more
        nbytes = p.products * p.k * p.n * size
        phases.insert(0, Phase(f"{name}.pack", p.products, max(1, (1 << 17) // (p.k * p.n * size))))
    functions.append(entry(name, nbytes, phases))
    return functions, {*declared, *DECLARED}


def _pack(name: str, p: Product) -> tuple[str, set[str]]:
    """Copies the columns of some products, one after the other."""
    c, real = Code(name, PARAMETERS), REAL[p.dtype]
    b, step = c.b, p.sums[0].right
    y, room = c.load(c.parameters[0], 1, PTR), c.load(c.parameters[0], 3, PTR)

    def one(number: Value) -> None:
        source = c.at(y, place(c, number, [Axis(a.length, a.right) for a in p.batch]), real)
        target = c.at(room, b.mul(number, b.int(p.k * p.n)), real)
        for column in range(p.n):
            first = c.at(source, place(c, b.int(column), p.columns), real)
            into = c.at(target, column * p.k, real)

            def copy(i: Value, first: Value = first, into: Value = into) -> None:
                c.store(into, i, c.load(first, b.mul(i, b.int(step)), real))

            c.loop(0, p.k, copy)

    c.loop(c.parameters[2], c.parameters[3], one)
    return c.text()


def _part(
    name: str, p: Product, plan: Thin, followers: Sequence[After], leaders: Sequence[Before]
) -> tuple[str, set[str]]:
    """The function of some pieces: [product, block of rows]."""
    c, real = Code(name, PARAMETERS), REAL[p.dtype]
    b, size = c.b, real.bits // 8
    x, y, out, room = [c.load(c.parameters[0], k, PTR) for k in range(4)]
    own = None
    if any(f.own is not None for f in leaders):
        own = c.allocate(b.int(plan.most * p.k * size))
    leading = Leading(c, p, leaders, len(followers), real, own or c.parameters[0])

    def piece(u: Value) -> None:
        which = b.bin("urem", u, b.int(plan.blocks)) if plan.blocks > 1 else b.int(0)
        number = b.bin("udiv", u, b.int(plan.blocks)) if plan.blocks > 1 else u
        low = b.mul(which, b.int(plan.most))
        high = smaller(c, b.add(low, b.int(plan.most)), b.int(p.m))
        base = b.mul(number, b.int(p.m))
        left = c.at(x, place(c, number, [Axis(a.length, a.left) for a in p.batch]), real)
        left = leading.make(left, low, b.add(base, low), b.add(base, high))
        right = c.at(y, place(c, number, [Axis(a.length, a.right) for a in p.batch]), real)
        if plan.packs:
            right = c.at(room, b.mul(number, b.int(p.k * p.n)), real)
        result = c.at(out, b.mul(base, b.int(p.n)), real)

        def rows(r: Value) -> None:
            here = c.at(left, b.mul(r, b.int(p.rows[0].step)), real)
            given = (here, right, c.at(result, b.mul(r, b.int(p.n)), real))
            numbers = (p.rows[0].step, plan.apart, p.k)
            count = b.sub(high, r)
            b.effect("effect", PTR, (*given, *map(b.int, numbers), count), dots_name(p, plan))

        c.loop(low, high, rows, step=plan.rows)
        follow(c, p, followers, b.add(base, low), b.add(base, high))

    c.loop(c.parameters[2], c.parameters[3], piece)
    if own is not None:
        c.free(own)
    return c.text()


def leads_thin(p: Product, target: Target, share: int, most: int) -> bool:
    """Whether the rows of a block, of at most so many bytes, are made when they are multiplied."""
    return thin_of(p, target, share).most * p.k * REAL[p.dtype].bits // 8 <= most


# The sums

_DOTS: Final = {
    "left": "p", "right": "p", "out": "p", "apart": "n", "column": "n", "count": "n", "rows": "n",
}  # fmt: skip


def dots_name(p: Product, plan: Thin) -> str:
    """The name of the function of `dots_text`."""
    return f"dots.{REAL[p.dtype].suffix}x{plan.lanes}.{plan.rows}x{p.n}"


def dots_text(p: Product, plan: Thin, target: Target) -> str:
    """The function that all such contractions share: some rows times all columns.

    left: rows are `apart`, right: columns are `column` elements apart, `count` products each; of
    the results, which lie together, the first `rows` rows are written.
    """
    c, real, lanes = Code(dots_name(p, plan), _DOTS), REAL[p.dtype], plan.lanes
    left, right, to, apart, column, count, have = c.parameters
    b, vector = c.b, real.of(lanes)
    last = b.sub(have, b.int(1))
    # No more rows than there are: the last is repeated.
    numbers = [smaller(c, b.int(r), last) for r in range(plan.rows)]
    lefts = [c.at(left, b.mul(n, apart), real) for n in numbers]
    rights = [c.at(right, b.mul(b.int(j), column), real) for j in range(p.n)]

    def add(i: Value, width: int, *sums: Value) -> list[Value]:
        kind = real.of(width)
        xs = [c.load(x, i, kind) for x in lefts]
        out = list(sums)
        for j, right in enumerate(rights):
            y = c.load(right, i, kind)
            for r, x in enumerate(xs):
                n = r * p.n + j
                out[n] = b.bin("fadd contract", sums[n], b.bin("fmul contract", x, y))
        return out

    start = [b.const(0.0, vector)] * (plan.rows * p.n)
    whole = b.bin("and", count, b.int(-lanes))
    sums = c.loop(0, whole, lambda i, *v: add(i, lanes, *v), start, step=lanes)
    for half in (lanes >> n for n in range(1, lanes.bit_length())):
        sums = [
            b.bin("fadd", _some(b, s, 0, half), _some(b, s, half, half)) for s in sums
        ]  # fmt: skip
    sums = c.loop(whole, count, lambda i, *v: add(i, 1, *v), sums)
    for r, n in enumerate(numbers):
        for j in range(p.n):
            c.store(to, b.add(b.mul(n, b.int(p.n)), b.int(j)), sums[r * p.n + j])
    text, declared = c.text()
    return module_text(target, [text], declared)


def _some(b: Builder, v: Value, first: int, count: int) -> Value:
    return b.extract(v, first) if count == 1 else b.shuffle(v, None, range(first, first + count))
