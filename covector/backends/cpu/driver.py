"""The driver of a program: one function that runs its steps, kernels and library calls, in order.

`void program(ptr buffers, ptr symbols)`: buffers are pointers to inputs, outputs, then the arena.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from covector.backends.cpu import library
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import I1, I8, I64, PTR
from covector.backends.cpu.library.site import Operand, Site
from covector.backends.cpu.target import Target
from covector.compiler.loops.program import Kernel
from covector.compiler.program import Action, Copy, KernelCall, LibraryCall, Program

#: The name of the function.
ENTRY = "program"


@final
class Driver:
    """Builds the driver's text; `kernels` are the loop programs it calls, by function name.

    `codes`: other functions it calls, each with what gives its module's text.  `imported`: what
    comes from libraries.
    """

    __slots__ = (
        "_frame", "_name", "_program", "_widest", "b", "codes", "imported", "kernels", "pointers",
        "target",
    )  # fmt: skip

    def __init__(self, program: Program, target: Target, name: Callable[[Kernel], str]) -> None:
        self._program, self.target, self._name = program, target, name
        self.b = Builder(target.f16c)
        self.kernels: dict[str, Kernel] = {}
        self.codes: dict[str, Callable[[], str]] = {}
        self.imported: dict[str, None] = {}
        self.pointers: dict[int, Value] = {}
        self._frame: Value | None = None
        self._widest = 1

    def text(self) -> tuple[str, set[str]]:
        """(the function, the declarations it needs)."""
        b, p = self.b, self._program
        widest = [len(s.slots) + len(s.symbols) for s in p.steps if isinstance(s, KernelCall)]
        self._widest = max([8, *widest])
        self._frame = b.put("alloca", PTR, (), (I64, self._widest), 0, keep=False)
        self._find_slots()
        for step in p.steps:
            _STEP[type(step)](self, step)
        self._pass_through()
        b.scopes[-1].block.end = ("ret",)
        body, declared = function_body(b.blocks)
        head = f"define void @{ENTRY}(ptr %buffers, ptr %symbols) nounwind {{"
        return f"{head}\n{body}\n}}\n", declared

    # Slots

    def _given(self, position: int) -> Value:
        b = self.b
        buffers = b.argument("buffers", PTR)
        place = b.put("gep", PTR, (buffers, b.int(position)), PTR)
        return b.put("load", PTR, (place,), 8)

    def _find_slots(self) -> None:
        p = self._program
        for n, s in enumerate(p.inputs):
            self.pointers.setdefault(s, self._given(n))
        for n, s in enumerate(p.outputs):
            if s not in self.pointers:
                self.pointers[s] = self._given(len(p.inputs) + n)
        arena = self._given(len(p.inputs) + len(p.outputs)) if p.arena else None
        for s, slot in enumerate(p.slots):
            if s not in self.pointers and arena is not None:
                self.pointers[s] = self.b.put("gep", PTR, (arena, self.b.int(slot.offset or 0)), I8)

    def _pass_through(self) -> None:
        """Results that are an argument, or the same value as an earlier result, are copied."""
        p = self._program
        made: set[int] = set(p.inputs)
        for n, s in enumerate(p.outputs):
            if s in made:
                self._copy(self._given(len(p.inputs) + n), self.pointers[s], p.slots[s].nbytes)
            made.add(s)

    def _pointer(self, s: int) -> Value:
        found = self.pointers.get(s)
        return found if found is not None else self.b.argument("buffers", PTR)  # of no bytes

    # Steps

    def run_kernel(self, kernel: Kernel, pointers: list[Value], symbols: Any = ()) -> None:
        """Emits a call of a loop program."""
        name = self._name(kernel)
        self.kernels.setdefault(name, kernel)
        b, frame = self.b, self._frame
        assert frame is not None
        if len(pointers) + len(symbols) > self._widest:
            frame = b.put("alloca", PTR, (), (I64, len(pointers) + len(symbols)), 0, keep=False)
        for n, v in enumerate([*pointers, *(b.int(x) for x in symbols)]):
            place = b.put("gep", PTR, (frame, b.int(n)), I64)
            b.effect("store", v.type, (v, place), 8)
        numbers = b.put("gep", PTR, (frame, b.int(len(pointers))), I64)
        b.effect("effect", PTR, (frame, numbers), name)

    def code(self, name: str, make: Callable[[], str]) -> None:
        """Makes sure that the function `name` is linked in."""
        self.codes.setdefault(name, make)

    def imports(self, name: str) -> None:
        """Says that the function `name` comes from a library."""
        self.imported.setdefault(name)

    def _kernel_call(self, step: KernelCall) -> None:
        kernel = self._program.kernels[step.kernel]
        self.run_kernel(kernel, [self._pointer(s) for s in step.slots], step.symbols)

    def _library_call(self, step: LibraryCall) -> None:
        operands = [
            Operand(self._pointer(s), shape, self._program.slots[s].dtype)
            for s, shape in zip((*step.inputs, *step.outputs), step.shapes, strict=True)
        ]
        inputs, outputs = operands[: len(step.inputs)], operands[len(step.inputs) :]
        library.routine(step.name)(Site(self, inputs, outputs, step.attributes))

    def _copy_step(self, step: Copy) -> None:
        nbytes = self._program.slots[step.source].nbytes
        self._copy(self._pointer(step.target), self._pointer(step.source), nbytes)

    def _copy(self, to: Value, source: Value, nbytes: int) -> None:
        if nbytes:
            b = self.b
            args = (to, source, b.int(nbytes), b.const(False, I1))
            b.effect("effect", PTR, args, "llvm.memmove.p0.p0.i64")


_STEP: dict[type[Action], Callable[[Driver, Any], None]] = {
    KernelCall: Driver._kernel_call,
    LibraryCall: Driver._library_call,
    Copy: Driver._copy_step,
}
