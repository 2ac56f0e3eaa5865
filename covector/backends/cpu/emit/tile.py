"""Two loops blocked by lanes x lanes: a block that is read across its lanes is transposed in
registers, so that both the reads and the writes are of whole vectors.

Blocks go down a panel of the inner axis, so that the lines a block half uses are still in cache
when its neighbour wants the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from covector.backends.cpu.emit.access import offset, read
from covector.backends.cpu.emit.address import linearise, locate, scalar_index
from covector.backends.cpu.emit.convert import from_memory
from covector.backends.cpu.emit.ssa import Value
from covector.backends.cpu.emit.vectorise import phases, whole_blocks
from covector.compiler.loops.program import For, Let, Statement, Store

if TYPE_CHECKING:
    from covector.backends.cpu.emit.address import Memory
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest
    from covector.ir.index import Affine

#: Elements of the inner axis in a panel.
PANEL: Final = 128
#: Bytes of a cache line: neighbouring blocks that share lines are done one after the other.
LINE: Final = 64


@final
class Block:
    """One block: `rows[name, index]` are its transposed loads, found once for all its rows."""

    __slots__ = ("axis", "base", "inner", "rows")

    def __init__(self, axis: str, inner: str, base: Env) -> None:
        self.axis, self.inner, self.base = axis, inner, base
        self.rows: dict[Any, list[Value]] = {}


def fits(nest: Nest, s: For) -> bool:
    """Whether a 'tile' loop is two loops around plain stores (else it is done as it stands)."""
    if nest.lanes == 1 or len(s.body) != 1 or not isinstance(s.body[0], For):
        return False
    inner = s.body[0]
    square = not any(a == s.axis for bound in (inner.low, inner.high) for a, _ in bound.terms)
    return square and all(isinstance(x, Store | Let) for x in inner.body)


def tiled(
    nest: Nest, s: For, env: Env, low: Value, high: Value,
    emit_body: Callable[[Nest, list[Statement], list[Env]], None],
) -> None:  # fmt: skip
    """Emits `s` and the loop inside it in blocks, then the ragged edges by rows."""
    b, lanes = nest.b, nest.lanes
    (inner,) = s.body
    assert isinstance(inner, For)
    left, right = scalar_index(nest, inner.low, env), scalar_index(nest, inner.high, env)
    bottom, end = whole_blocks(b, low, high, lanes), whole_blocks(b, left, right, lanes)

    def block(i: Value, j: Value) -> None:
        base = env.bind(s.axis, i).bind(inner.axis, j)
        found = Block(s.axis, inner.axis, base)
        rows = []
        for r in range(lanes):
            row = base.bind(s.axis, i, r).spread(inner.axis, j, 0, lanes)
            row.tile = (found, r)
            rows.append(row)
        emit_body(nest, inner.body, rows)

    def least(x: Value, y: Value) -> Value:
        if x.op == y.op == "const":
            return b.int(min(x.extra, y.extra))
        return b.select(b.cmp("icmp slt", x, y), x, y)

    def panel(start: Value, carried: list[Value]) -> list[Value]:
        """Blocks that share cache lines are neighbours in time: they are the innermost loop."""
        stop = least(b.add(start, b.int(PANEL)), end)
        group = lanes * _blocks_per_line(nest, inner)

        def rows_of_blocks(i: Value, c: list[Value]) -> list[Value]:
            below = least(b.add(i, b.int(group)), bottom)

            def column(j: Value, c: list[Value]) -> list[Value]:
                def one(k: Value, c: list[Value]) -> list[Value]:
                    block(k, j)
                    return c

                return b.loop(i, below, lanes, c, one)

            return b.loop(start, stop, lanes, c, column)

        b.loop(low, bottom, group, [], rows_of_blocks)
        return carried

    b.loop(left, end, PANEL, [], panel)

    def rows(first: Value, last: Value, start: Value) -> None:
        def row(i: Value, c: list[Value]) -> list[Value]:
            for phase in phases(nest, inner.axis, start, right, 1, True):

                def body(j: Value, c: list[Value], phase: Any = phase) -> list[Value]:
                    copies, _ = phase.instances(j, [env.bind(s.axis, i)])
                    emit_body(nest, inner.body, copies[0])
                    return c

                b.loop(phase.low, phase.high, phase.step, [], body)
            return c

        b.loop(first, last, 1, [], row)

    if end is not right:
        rows(low, bottom, end)
    if bottom is not high:
        rows(bottom, high, left)


def _blocks_per_line(nest: Nest, inner: For) -> int:
    """How many blocks side by side use the same cache lines."""
    sizes = [nest.memory[s.buffer].element.size for s in inner.body if isinstance(s, Store)]
    return max(1, min(2, LINE // (nest.lanes * max(sizes, default=LINE))))


def transposed(nest: Nest, name: str, index: tuple[Affine, ...], env: Env) -> Value | None:
    """Row `r` of a block, if `name[index]` is contiguous along the block's other axis."""
    block, r = env.tile
    rows = block.rows.get((name, index))
    if rows is None:
        memory = nest.memory[name]
        form = linearise(nest.b, memory, index)
        steps = dict(form.terms)
        across = steps.get(block.inner, 0) != 1 and (
            block.inner in steps or any(block.inner in dict(a.terms) for a, _ in form.opaque)
        )
        if steps.get(block.axis) != 1 or not across or any(
            not isinstance(atom, str) for atom in steps
        ):  # fmt: skip
            return None
        rows = block.rows[name, index] = _transpose(nest, memory, index, block)
    return rows[r]


def _transpose(nest: Nest, memory: Memory, index: tuple[Affine, ...], block: Block) -> list[Value]:
    """Vectors along the inner axis, one for each row of the block.

    A vector is put together of 16-byte pieces of several lines at once, while loading; what is
    left to exchange lies within 16 bytes, where interleaving is one instruction.
    """

    b, lanes = nest.b, nest.lanes
    piece = min(128 // memory.element.memory.bits, lanes)
    lines = []
    i, more = block.base.axes[block.axis]
    j, _ = block.base.axes[block.inner]
    for k in range(lanes):
        env = block.base.bind(block.inner, j, k).spread(block.axis, i, more, lanes)
        lines.append(locate(nest, memory, index, env).pointer)
    out: list[Value] = []
    for start in range(0, lanes, piece):
        vectors = []
        for k in range(piece):
            parts = [
                read(nest, memory, offset(nest, memory, lines[k + n], start), piece)
                for n in range(0, lanes, piece)
            ]
            vectors.append(_concatenate(nest, parts))
        out += _interleave(nest, vectors, piece)
    return [from_memory(b, v, memory.element) for v in out]


def _concatenate(nest: Nest, parts: list[Value]) -> Value:
    while len(parts) > 1:
        n = parts[0].type.lanes
        parts = [nest.b.shuffle(x, y, range(2 * n))
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]  # fmt: skip
    return parts[0]


def _interleave(nest: Nest, vectors: list[Value], piece: int) -> list[Value]:
    """Transposes `piece` vectors within each group of `piece` lanes: perfect shuffles."""
    b, lanes = nest.b, vectors[0].type.lanes
    half = piece // 2

    def mask(high: bool) -> list[int]:
        out = []
        for n in range(lanes):
            group, at = n - n % piece, n % piece
            element = group + at // 2 + (half if high else 0)
            out.append(element + lanes if at % 2 else element)
        return out

    masks = mask(False), mask(True)
    rounds = piece.bit_length() - 1
    for _ in range(rounds):
        vectors = [
            b.shuffle(vectors[k // 2], vectors[k // 2 + half], masks[k % 2]) for k in range(piece)
        ]
    return vectors
