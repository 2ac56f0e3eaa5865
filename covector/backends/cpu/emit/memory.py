"""Loads and stores: contiguous, strided by a small number, or lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covector.backends.cpu import emit
from covector.backends.cpu.emit.access import known_offset, offset, pure, read
from covector.backends.cpu.emit.address import (
    LINE,
    Place,
    along_lanes,
    linearise,
    locate,
    streamable,
)  # fmt: skip
from covector.backends.cpu.emit.convert import from_memory, to_memory
from covector.backends.cpu.emit.ssa import TRUE, Value
from covector.backends.cpu.emit.types import I32, PTR
from covector.ir.index import ZERO as ZERO_INDEX

if TYPE_CHECKING:
    from covector.backends.cpu.emit.address import Memory
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest
    from covector.ir.index import Affine

#: Bytes between the rows of a panel from which its lines are asked for ahead.
FAR: Final = 1024
#: Up to this stride, whole vectors are loaded and shuffled; beyond, lane by lane.
SHUFFLED: Final = 4


def load(nest: Nest, name: str, index: tuple[Affine, ...], env: Env) -> Value:
    """`name[index]`: a scalar where all lanes read one element."""
    memory = nest.memory[name]
    if env.tile is not None:
        found = emit.tile.transposed(nest, name, index, env)
        if found is not None:
            return found
    place = locate(nest, memory, index, env)
    if env.ahead is not None and memory.home == "in":
        _ask_ahead(nest, memory, index, place, env)
    return from_memory(nest.b, _load(nest, memory, place, env), memory.element)


def _ask_ahead(
    nest: Nest, memory: Memory, index: tuple[Affine, ...], place: Place, env: Env
) -> None:
    """Asks for what a vector some iterations of the loop around will read, if that is so far off
    that the hardware does not see it coming; once a line."""
    assert env.ahead is not None
    size, (axis, rows) = memory.element.size, env.ahead
    step = dict(linearise(nest.b, memory, index).terms).get(axis, 0)
    if place.step != 1 or abs(step) * size < FAR or _in_the_line_before(memory, env):
        return
    _fetch(nest, offset(nest, memory, place.pointer, step * rows))


def ask(nest: Nest, places: tuple[tuple[str, tuple[Affine, ...]], ...], envs: list[Env]) -> None:
    """Has the lines of `places` fetched, for vectors side by side once a line."""
    for name, index in places:
        memory = nest.memory[name]
        for env in envs:
            if not _in_the_line_before(memory, env):
                _fetch(nest, locate(nest, memory, index, env).pointer)


def _in_the_line_before(memory: Memory, env: Env) -> bool:
    """Whether the vector of the instance before begins in the same line, or there are no lanes."""
    return env.vector is None or env.axes[env.vector][1] * memory.element.size % LINE != 0


def _fetch(nest: Nest, pointer: Value) -> None:
    hints = [nest.b.const(n, I32) for n in (0, 3, 1)]  # to read, often, data
    nest.b.effect("effect", PTR, (pointer, *hints), "llvm.prefetch.p0")


def _load(nest: Nest, memory: Memory, place: Place, env: Env) -> Value:
    kind, lanes, step = memory.element.memory, env.lanes, place.step
    if lanes == 1 or (place.offsets is None and isinstance(step, int) and step == 0):
        return read(nest, memory, place.pointer, 1)
    if place.offsets is None and isinstance(step, int):
        if step == 1:
            if env.mask is None:
                return read(nest, memory, place.pointer, lanes)
            args = (place.pointer, nest.b.const(memory.align, I32), env.mask,
                    nest.b.const(0, kind.of(lanes)))  # fmt: skip
            name = f"llvm.masked.load.{kind.of(lanes).suffix}.p0"
            return pure(nest, memory, kind.of(lanes), args, name)
        if env.mask is None and memory.parts and step == 2:
            return _part(nest, memory, place.pointer, lanes)
        if env.mask is None and -SHUFFLED <= step <= SHUFFLED:
            return _strided(nest, memory, place.pointer, step, lanes)
    if env.mask is None and place.offsets is None:
        return _each(nest, memory, place, lanes)
    return _gather(nest, memory, place, env)


def _part(nest: Nest, memory: Memory, pointer: Value, lanes: int) -> Value:
    """Real or imaginary parts of neighbouring complex numbers: both share two loads."""
    odd = known_offset(memory, pointer) % 2
    first = offset(nest, memory, pointer, -odd)
    low = read(nest, memory, first, lanes)
    high = read(nest, memory, offset(nest, memory, first, lanes), lanes)
    return nest.b.shuffle(low, high, [2 * n + odd for n in range(lanes)])


def _strided(nest: Nest, memory: Memory, pointer: Value, step: int, lanes: int) -> Value:
    """Whole vectors that cover the lanes and nothing beyond the first and last, then shuffles."""
    b = nest.b
    span = abs(step) * (lanes - 1) + 1
    low = pointer if step > 0 else offset(nest, memory, pointer, step * (lanes - 1))
    starts = [*range(0, span - lanes, lanes), span - lanes]
    vectors = [read(nest, memory, offset(nest, memory, low, start), lanes) for start in starts]
    total, known = vectors[0], {}  # lane of the result -> lane of the vector that has it so far
    for start, vector in zip(starts, vectors, strict=True):
        here = {
            n: at - start
            for n, at in ((n, n * step if step > 0 else (n - lanes + 1) * step)
                          for n in range(lanes))
            if n not in known and 0 <= at - start < lanes
        }  # fmt: skip
        if vector is total:
            known = here
            continue
        mask = [known[n] if n in known else lanes + here[n] if n in here else -1
                for n in range(lanes)]  # fmt: skip
        total = b.shuffle(total, vector, mask)
        known = {n: n for n in (*known, *here)}
    if len(starts) == 1:
        return b.shuffle(total, None, [known[n] for n in range(lanes)])
    return total


def _each(nest: Nest, memory: Memory, place: Place, lanes: int) -> Value:
    """One load a lane, with a common step."""
    first, *others = lane_pointers(nest, memory, place, lanes)
    vector = nest.b.insert(None, read(nest, memory, first, 1), 0, lanes)
    for n, pointer in enumerate(others, 1):
        vector = nest.b.insert(vector, read(nest, memory, pointer, 1), n, lanes)
    return vector


def lane_pointers(nest: Nest, memory: Memory, place: Place, lanes: int) -> list[Value]:
    """The address of every lane by itself."""
    b, kind = nest.b, memory.element.memory
    if place.offsets is not None:
        offsets = along_lanes(nest, place, lanes)
        each = [b.extract(offsets, n) for n in range(lanes)]
        return [b.put("gep", PTR, (place.pointer, o), kind) for o in each]
    if isinstance(place.step, int):
        return [offset(nest, memory, place.pointer, place.step * n) for n in range(lanes)]
    steps = [b.mul(place.step, b.int(n)) for n in range(lanes)]
    return [b.put("gep", PTR, (place.pointer, s), kind) if n else place.pointer
            for n, s in enumerate(steps)]  # fmt: skip


def _pointers(nest: Nest, memory: Memory, place: Place, lanes: int) -> Value:
    offsets = along_lanes(nest, place, lanes)
    return nest.b.put(
        "gep", PTR.of(lanes), (place.pointer, offsets), memory.element.memory
    )  # a vector of pointers


def _gather(nest: Nest, memory: Memory, place: Place, env: Env) -> Value:
    b, kind, lanes = nest.b, memory.element.memory, env.lanes
    mask = env.mask if env.mask is not None else b.splat(TRUE, lanes)
    args = (_pointers(nest, memory, place, lanes), b.const(memory.align, I32), mask,
            b.const(0, kind.of(lanes)))  # fmt: skip
    vector = kind.of(lanes)
    return pure(nest, memory, vector, args, f"llvm.masked.gather.{vector.suffix}.v{lanes}p0")


# Stores


def store(
    nest: Nest, name: str, index: tuple[Affine, ...], value: Value, env: Env, where: Value | None
) -> None:
    """`name[index] = value` in the active lanes where `where` (None: everywhere) holds."""
    b, memory, lanes = nest.b, nest.memory[name], env.lanes
    place = locate(nest, memory, index, env)
    value = to_memory(b, value, memory.element)
    if lanes == 1:
        write = lambda: b.effect("store", value.type, (value, place.pointer), memory.align)  # noqa: E731
        _guarded(nest, where, write)
        return
    mask = env.mask
    if where is not None:
        mask = b.splat(where, lanes) if mask is None else b.bin("and", mask, where)
    step = place.step if place.offsets is None and isinstance(place.step, int) else None
    if step == 0:
        _store_one(nest, memory, place, value, mask, env)
        return
    value = b.splat(value, lanes)
    if step in (1, -1):
        pointer = place.pointer
        if step < 0:
            pointer = offset(nest, memory, pointer, 1 - lanes)
            value = b.shuffle(value, None, range(lanes - 1, -1, -1))
            mask = None if mask is None else b.shuffle(mask, None, range(lanes - 1, -1, -1))
        if mask is None and step > 0 and streamable(memory, linearise(b, memory, index), env):
            b.effect("stream", value.type, (value, pointer), memory.element.size * lanes)
        elif mask is None:
            b.effect("store", value.type, (value, pointer), memory.align)
        else:
            args = (value, pointer, b.const(memory.align, I32), mask)
            b.effect("effect", value.type, args, f"llvm.masked.store.{value.type.suffix}.p0")
        return
    if mask is None:
        for n, pointer in enumerate(lane_pointers(nest, memory, place, lanes)):
            one = b.extract(value, n)
            b.effect("store", one.type, (one, pointer), memory.align)
        return
    args = (value, _pointers(nest, memory, place, lanes), b.const(memory.align, I32), mask)
    name = f"llvm.masked.scatter.{value.type.suffix}.v{lanes}p0"
    b.effect("effect", value.type, args, name)


def _store_one(
    nest: Nest, memory: Memory, place: Place, value: Value, mask: Value | None, env: Env
) -> None:
    """All lanes write one element: the last active lane wins, as in a serial loop."""
    b, lanes = nest.b, env.lanes
    for n in range(lanes) if mask is not None else [lanes - 1]:
        one = b.extract(value, n)
        write = lambda x=one: b.effect("store", x.type, (x, place.pointer), memory.align)  # noqa: E731
        _guarded(nest, None if mask is None else b.extract(mask, n), write)


def write_one(nest: Nest, memory: Memory, pointer: Value, value: Value) -> None:
    """Stores one element."""
    value = to_memory(nest.b, value, memory.element)
    nest.b.effect("store", value.type, (value, pointer), memory.align)


def _guarded(nest: Nest, condition: Value | None, write: Callable[[], object]) -> None:
    if condition is None:
        write()
    else:

        def body() -> list[Value]:
            write()
            return []

        nest.b.branch(condition, body)


def store_parts(
    nest: Nest, name: str, index: tuple[Affine, ...], parts: tuple[Value, Value], env: Env,
    where: Value | None,
) -> None:  # fmt: skip
    """Stores complex numbers, given their parts; `index` is that of the complex elements."""
    b, memory, lanes = nest.b, nest.memory[name], env.lanes
    real = locate(nest, memory, (*index, ZERO_INDEX), env)
    if (
        lanes > 1 and where is None and env.mask is None and real.offsets is None
        and isinstance(real.step, int) and real.step == 2
    ):  # fmt: skip
        low, high = (b.splat(p, lanes) for p in parts)
        for half in range(2):
            mask = [k // 2 + half * (lanes // 2) + (k % 2) * lanes for k in range(lanes)]
            vector = b.shuffle(low, high, mask)
            pointer = offset(nest, memory, real.pointer, half * lanes)
            b.effect("store", vector.type, (vector, pointer), memory.align)
        return
    for n, part in enumerate(parts):
        store(nest, name, (*index, ZERO_INDEX + n), part, env, where)
