"""Plain reads, and the rule of where they may stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covector.backends.cpu.emit.ssa import Value
from covector.backends.cpu.emit.types import PTR, Type

if TYPE_CHECKING:
    from covector.backends.cpu.emit.address import Memory
    from covector.backends.cpu.emit.nest import Nest


def read(nest: Nest, memory: Memory, pointer: Value, lanes: int) -> Value:
    """A plain load of `lanes` neighbours; from memory nobody writes it is hoisted and shared."""
    kind = memory.element.memory.of(lanes)
    return pure(nest, memory, kind, (pointer,), memory.align, "load")


def pure(
    nest: Nest, memory: Memory, kind: Type, args: tuple[Value, ...], extra: object,
    op: str = "call",
) -> Value:  # fmt: skip
    """An instruction that reads `memory`: placed as far out, and as seldom, as is right."""
    b = nest.b
    if memory.written:
        return b.put(op, kind, args, extra, len(b.scopes) - 1, keep=False)
    level = b.load_level(max(a.level for a in args))
    return b.put(op, kind, args, extra, level)


def offset(nest: Nest, memory: Memory, pointer: Value, n: int) -> Value:
    """`pointer + n` elements; a constant offset already there is merged."""
    b, there = nest.b, known_offset(memory, pointer)
    if there:
        n += there
        pointer = pointer.args[0]
    return b.put("gep", PTR, (pointer, b.int(n)), memory.element.memory) if n else pointer


def known_offset(memory: Memory, pointer: Value) -> int:
    """How many elements the last step to `pointer` went, or 0; where a kernel is part of a driver,
    the place of the memory itself is a step of bytes."""
    if pointer.op != "gep" or pointer.extra != memory.element.memory:
        return 0
    return pointer.args[1].extra if pointer.args[1].op == "const" else 0
