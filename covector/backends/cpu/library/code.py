"""A small language over the builder for routines that are written by hand: loops, loads, stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import I1, I8, I64, PTR, Type


@final
class Code:
    """One function under construction; parameters are pointers ('p') and i64 ('n')."""

    __slots__ = ("_signature", "b", "name", "parameters")

    def __init__(self, name: str, parameters: dict[str, str]) -> None:
        self.b, self.name = Builder(), name
        types = {"p": PTR, "n": I64}
        self.parameters = [self.b.argument(k, types[t]) for k, t in parameters.items()]
        self._signature = ", ".join(v.typed for v in self.parameters)

    def text(self) -> tuple[str, set[str]]:
        """(the function, the declarations it needs)."""
        self.b.scopes[-1].block.end = ("ret",)
        body, declared = function_body(self.b.blocks)
        return f"define void @{self.name}({self._signature}) nounwind {{\n{body}\n}}\n", declared

    # Memory

    def at(self, pointer: Value, index: Value | int, type: Type) -> Value:
        """A pointer to element `index`."""
        index = self.b.int(index) if isinstance(index, int) else index
        if index.op == "const" and index.extra == 0:
            return pointer
        return self.b.put("gep", PTR, (pointer, index), type.scalar)

    def load(self, pointer: Value, index: Value | int, type: Type) -> Value:
        """Reads an element, here and now."""
        place, b = self.at(pointer, index, type), self.b
        return b.put("load", type, (place,), type.scalar.bits // 8, len(b.scopes) - 1, keep=False)

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        """Writes an element."""
        place = self.at(pointer, index, value.type)
        self.b.effect("store", value.type, (value, place), value.type.scalar.bits // 8)

    def local(self, type: Type, count: int) -> Value:
        """Memory on the stack, for the whole function."""
        return self.b.local(type, count)

    def allocate(self, nbytes: Value) -> Value:
        """Memory on the heap."""
        return self.b.put("call", PTR, (nbytes,), "malloc", len(self.b.scopes) - 1, keep=False)

    def free(self, pointer: Value) -> None:
        """Gives it back."""
        self.b.effect("effect", PTR, (pointer,), "free")

    def clear(self, pointer: Value, nbytes: int) -> None:
        """Zeros bytes."""
        b = self.b
        args = (pointer, b.const(0, I8), b.int(nbytes), FALSE)
        b.effect("effect", PTR, args, "llvm.memset.p0.i64")

    # Control

    def loop(
        self, low: Value | int, high: Value | int, body: Callable[..., object],
        carried: list[Value] | None = None, step: int = 1,
    ) -> list[Value]:  # fmt: skip
        """`body(i, *carried)`; it gives the new carried values."""
        lift = lambda x: self.b.int(x) if isinstance(x, int) else x  # noqa: E731

        def one(i: Value, values: list[Value]) -> list[Value]:
            made = body(i, *values)
            return list(made) if isinstance(made, (list, tuple)) else []

        return self.b.loop(lift(low), lift(high), step, carried or [], one)

    def vectors(
        self, n: Value, lanes: int, body: Callable[..., object], carried: list[Value] | None = None
    ) -> list[Value]:
        """`body(i, width, *carried)` over 0 .. n: whole vectors first, then one by one."""
        whole = self.b.bin("and", n, self.b.int(-lanes))
        values = self.loop(0, whole, lambda i, *v: body(i, lanes, *v), carried, step=lanes)
        return self.loop(whole, n, lambda i, *v: body(i, 1, *v), values)

    def any(self, condition: Value) -> Value:
        """Whether some lane holds."""
        if condition.type.lanes == 1:
            return condition
        name = f"llvm.vector.reduce.or.{condition.type.suffix}"
        return self.b.put("call", I1, (condition,), name)

    def repeat(
        self, carried: list[Value], test: Callable[..., Value],
        body: Callable[..., list[Value]],
    ) -> list[Value]:  # fmt: skip
        """While `test(*carried)`: `body(*carried)` gives the new values."""
        return self.b.repeat(carried, lambda v: test(*v), lambda v: body(*v))

    def when(
        self, condition: Value, body: Callable[[], object],
        orelse: Callable[[], object] | None = None,
    ) -> list[Value]:  # fmt: skip
        """Runs one of two bodies; lists of values that they give meet after them."""
        made = lambda f: lambda: r if isinstance(r := f(), list) else []  # noqa: E731
        return self.b.branch(condition, made(body), None if orelse is None else made(orelse))


FALSE = Builder().const(False, I1)
