"""The driver of a program: one function that runs its steps, kernels and library calls, in order.

`void program(ptr buffers, ptr symbols)`: buffers are pointers to inputs, outputs, then the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu import library
from covector.backends.cpu.emit.kernel import emit_inline, inlines
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.statements import SYMBOL
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import I1, I8, I32, I64, PTR
from covector.backends.cpu.library.site import Follower, Leader, Operand, Site
from covector.backends.cpu.objects import Objects
from covector.backends.cpu.target import Target
from covector.compiler.loops.program import Kernel
from covector.compiler.program import (
    Action,
    Branch,
    Copy,
    KernelCall,
    LibraryCall,
    Loop,
    Program,
)  # fmt: skip

#: The name of the function.
ENTRY = "program"
#: Inside loops, buffers of so few bytes are variables on the stack, which LLVM puts in registers.
SMALL = 256


class Frame(NamedTuple):
    """A program being run: where its slots are."""

    program: Program
    pointers: dict[int, Value]


@final
class Driver:
    """Builds the driver's text; `objects` is told what functions it calls as it meets them.

    `imported`: what comes from libraries.
    """

    __slots__ = (
        "_declared",
        "_depth",
        "_frame",
        "_objects",
        "_parts",
        "_root",
        "_shared",
        "b",
        "imported",
        "target",
    )

    def __init__(self, program: Program, target: Target, objects: Objects) -> None:
        self._root, self.target, self._objects = program, target, objects
        self.b = Builder(target.f16c)
        self._depth = 0  # of loops
        self._shared = False  # whether this is part of a loop that is spread over threads
        self._parts: list[str] = []  # functions beside the driver: ranges of such loops
        self._declared: set[str] = set()
        self.imported: dict[str, None] = {}
        self._frame = self.b.local(I64, _widest(program))

    def text(self) -> tuple[str, set[str]]:
        """(the function and those beside it, the declarations they need)."""
        b, p = self.b, self._root
        inputs = [self._given(n) for n in range(len(p.inputs))]
        outputs = [
            self._given(len(inputs) + n) if j is None else inputs[j]
            for n, j in enumerate(p.taken())
        ]
        arena = self._given(len(inputs) + len(outputs)) if p.arena else None
        self.run(p, inputs, outputs, arena, nested=False)
        b.scopes[-1].block.end = ("ret",)
        body, declared = function_body(b.blocks)
        head = f"define void @{ENTRY}(ptr %buffers, ptr %symbols) nounwind {{"
        functions = [*self._parts, f"{head}\n{body}\n}}\n"]
        return "".join(functions), declared | self._declared

    def _given(self, position: int) -> Value:
        b = self.b
        place = b.put("gep", PTR, (b.argument("buffers", PTR), b.int(position)), PTR)
        return b.put("load", PTR, (place,), 8)

    def run(
        self, p: Program, inputs: list[Value], outputs: list[Value], arena: Value | None,
        nested: bool = True,
    ) -> None:  # fmt: skip
        """Emits a program's steps, here and now; `nested`: it is a part of another.

        A result that is an argument, or the same value as an earlier result, is copied where its
        place is another one.
        """
        frame = Frame(p, {})
        for s, pointer in zip(p.inputs, inputs, strict=True):
            frame.pointers.setdefault(s, pointer)
        for s, pointer in zip(p.outputs, outputs, strict=True):
            frame.pointers.setdefault(s, pointer)
        for s, slot in enumerate(p.slots):
            if s in frame.pointers or arena is None:
                continue
            if nested and 0 < slot.nbytes <= SMALL:
                frame.pointers[s] = self.b.local(I8, slot.nbytes)
            else:
                frame.pointers[s] = self.b.put(
                    "gep", PTR, (arena, self.b.int(slot.offset or 0)), I8
                )
        for step in p.steps:
            _STEP[type(step)](self, frame, step)
        for s, pointer in zip(p.outputs, outputs, strict=True):
            if frame.pointers[s] is not pointer:
                self._copy(pointer, frame.pointers[s], p.slots[s].nbytes)

    # Steps

    def run_kernel(
        self, kernel: Kernel, pointers: list[Value], symbols: Sequence[int] = ()
    ) -> None:
        """Emits a call of a loop program, or its statements if they are few."""
        b = self.b
        if inlines(kernel, self._depth > 0):
            emit_inline(b, kernel, self.target, pointers, symbols)
            return
        name = self._objects.kernel(kernel)
        for n, v in enumerate([*pointers, *(b.int(x) for x in symbols)]):
            place = b.put("gep", PTR, (self._frame, b.int(n)), I64)
            b.effect("store", v.type, (v, place), 8)
        numbers = b.put("gep", PTR, (self._frame, b.int(len(pointers))), I64)
        b.effect("effect", PTR, (self._frame, numbers), name)

    def code(self, name: str, make: Callable[[], str], quick: bool = False) -> None:
        """Makes sure that the function `name` is linked in; `quick`: as of `assemble`."""
        self._objects.code(name, make, quick)

    def imports(self, name: str) -> None:
        """Says that the function `name` comes from a library."""
        self.imported.setdefault(name)

    def _kernel_call(self, frame: Frame, step: KernelCall) -> None:
        kernel = frame.program.kernels[step.kernel]
        self.run_kernel(kernel, [self._at(frame, s) for s in step.slots], step.symbols)

    def _library_call(self, frame: Frame, step: LibraryCall) -> None:
        operands = [
            Operand(self._at(frame, s), shape, frame.program.slots[s].dtype)
            for s, shape in zip((*step.inputs, *step.outputs), step.shapes, strict=True)
        ]
        inputs, outputs = operands[: len(step.inputs)], operands[len(step.inputs) :]
        followers = [
            Follower(
                frame.program.kernels[f.kernel], f.trips, [self._at(frame, s) for s in f.slots]
            )
            for f in step.followers
        ]
        leaders = [
            Leader(
                frame.program.kernels[f.kernel], f.trips, [self._at(frame, s) for s in f.slots],
                f.slots.index(step.inputs[0]) if f.own else None,
            )
            for f in step.leaders
        ]  # fmt: skip
        site = Site(self, inputs, outputs, step.attributes, followers, leaders)
        library.routine(step.name)(site)

    def _copy_step(self, frame: Frame, step: Copy) -> None:
        nbytes = frame.program.slots[step.source].nbytes
        self._copy(self._at(frame, step.target), self._at(frame, step.source), nbytes)

    def _at(self, frame: Frame, s: int) -> Value:
        found = frame.pointers.get(s)
        return found if found is not None else self.b.argument("buffers", PTR)  # of no bytes

    def _branch(self, frame: Frame, step: Branch) -> None:
        """The nested program that the index names; too small or too large means first or last."""
        b = self.b
        place = self._at(frame, step.index)
        index = b.put("load", I32, (place,), 4, len(b.scopes) - 1, keep=False)
        inputs = [self._at(frame, s) for s in step.inputs]
        outputs = [self._at(frame, s) for s in step.outputs]
        arena = None if step.arena is None else self._at(frame, step.arena)

        def choose(k: int) -> list[Value]:
            nested = frame.program.programs[step.programs[k]]
            if k == len(step.programs) - 1:
                self.run(nested, inputs, outputs, arena)
                return []
            this = b.cmp("icmp sle", index, b.const(k, I32))
            run = lambda: self.run(nested, inputs, outputs, arena) or []  # noqa: E731
            b.branch(this, run, lambda: choose(k + 1))
            return []

        choose(0)

    def _loop(self, frame: Frame, step: Loop) -> None:
        """Rounds of a nested program; values that it can't make in place alternate between two
        buffers, and are copied home if they end in the other one.  Small values are variables
        on the stack, and are copied from one to the other."""
        if step.ranges > 1 and not self._shared:
            self._ranges(frame, step)
            return
        b, p = self.b, frame.program
        places = [self._at(frame, s) for s in step.carry]
        small = [0 < p.slots[s].nbytes <= SMALL for s in step.carry]
        homes = [
            self._variable(place, p.slots[s].nbytes) if is_small else place
            for place, s, is_small in zip(places, step.carry, small, strict=True)
        ]
        spares = [
            None if s is None or is_small else self._at(frame, s)
            for s, is_small in zip(step.spare, small, strict=True)
        ]
        fresh = [
            b.local(I8, p.slots[s].nbytes) if is_small and spare is not None else None
            for s, spare, is_small in zip(step.carry, step.spare, small, strict=True)
        ]
        moving = [k for k, spare in enumerate(spares) if spare is not None]
        arena = None if step.arena is None else self._at(frame, step.arena)

        def current(values: list[Value]) -> list[Value]:
            out = list(homes)
            for n, k in enumerate(moving):
                out[k] = values[2 * n]
            return out

        def round_(values: list[Value], row: Value | None) -> list[Value]:
            now = current(values)
            new = list(now)
            for n, k in enumerate(moving):
                new[k] = values[2 * n + 1]
            new = [f if f is not None else v for f, v in zip(fresh, new, strict=True)]
            rows = [self._row(frame, s, step, row) for s in (*step.xs, *step.ys)]
            constants = [self._at(frame, s) for s in step.body_consts]
            given = [*constants, *now, *rows[: len(step.xs)]]
            self.run(p.programs[step.body], given, [*new, *rows[len(step.xs) :]], arena)
            for home, f, s in zip(homes, fresh, step.carry, strict=True):
                if f is not None:
                    self._copy(home, f, p.slots[s].nbytes)
            return [v for n in range(len(moving)) for v in (values[2 * n + 1], values[2 * n])]

        self._depth += 1
        start = [v for k in moving for v in (homes[k], spares[k]) if v is not None]
        if step.condition is None:
            length = b.int(step.length or 0)

            def counted(i: Value, values: list[Value]) -> list[Value]:
                last = b.sub(length, b.int(1))
                return round_(values, b.sub(last, i) if step.reverse else i)

            ends = b.loop(b.int(0), length, 1, start, counted)
        else:
            ends = b.repeat(start, lambda v: self._holds(frame, step, current(v), arena),
                            lambda v: round_(v, None))  # fmt: skip
        self._depth -= 1
        for n, k in enumerate(moving):
            self._bring_home(homes[k], ends[2 * n], p.slots[step.carry[k]].nbytes)
        for place, home, s in zip(places, homes, step.carry, strict=True):
            if home is not place:
                self._copy(place, home, p.slots[s].nbytes)

    def _ranges(self, frame: Frame, step: Loop) -> None:
        """Rounds that don't depend on each other: workers call a function of a range of them."""
        b = self.b
        slots = [*step.body_consts, *step.xs, *step.ys]
        slots += [] if step.arena is None else [step.arena]
        context = b.local(I64, max(len(slots), 1))
        for n, s in enumerate(slots):
            place = b.put("gep", PTR, (context, b.int(n)), I64)
            b.effect("store", PTR, (self._at(frame, s), place), 8)
        name = f"{ENTRY}.{len(self._parts)}"
        self._parts.append(self._range(frame.program, step, name, slots))
        part = Value("const", PTR, (), None, 0, f"@{name}")
        given = (part, context, b.argument("symbols", PTR), b.int(0), b.int(step.ranges))
        b.effect("effect", PTR, (*given, b.int(1)), SYMBOL)

    def _range(self, p: Program, step: Loop, name: str, slots: list[int]) -> str:
        """The function that runs the ranges `first .. last`, in the arena of the first one."""
        outside = self.b, self._frame, self._depth
        self.b = b = Builder(self.target.f16c)
        self._frame, self._depth, self._shared = b.local(I64, _widest(p)), 1, True
        given = b.argument("buffers", PTR)
        first, last = b.argument("first", I64), b.argument("last", I64)
        frame = Frame(p, {})
        for n, s in enumerate(slots):
            place = b.put("gep", PTR, (given, b.int(n)), PTR)
            frame.pointers[s] = b.put("load", PTR, (place,), 8)
        arena = None
        if step.arena is not None:
            size = b.int(p.slots[step.arena].nbytes // step.ranges)
            arena = b.put("gep", PTR, (frame.pointers[step.arena], b.mul(first, size)), I8)
        length = step.length or 0
        each = b.int(-(-length // step.ranges))

        def end(n: Value) -> Value:
            rounds = b.mul(n, each)
            return b.select(b.cmp("icmp slt", rounds, b.int(length)), rounds, b.int(length))

        def one(row: Value, values: list[Value]) -> list[Value]:
            rows = [self._row(frame, s, step, row) for s in (*step.xs, *step.ys)]
            constants = [self._at(frame, s) for s in step.body_consts]
            given = [*constants, *rows[: len(step.xs)]]
            self.run(p.programs[step.body], given, rows[len(step.xs) :], arena)
            return values

        b.loop(end(first), end(last), 1, [], one)
        b.scopes[-1].block.end = ("ret",)
        body, declared = function_body(b.blocks)
        self._declared |= declared
        self.b, self._frame, self._depth = outside
        self._shared = False
        head = f"define internal void @{name}(ptr %buffers, ptr %symbols, i64 %first, i64 %last)"
        return f"{head} nounwind {{\n{body}\n}}\n"

    def _variable(self, place: Value, nbytes: int) -> Value:
        """A variable on the stack that starts as what lies there."""
        home = self.b.local(I8, nbytes)
        self._copy(home, place, nbytes)
        return home

    def _holds(self, frame: Frame, step: Loop, carry: list[Value], arena: Value | None) -> Value:
        """Runs a while loop's condition: whether it goes on."""
        b = self.b
        assert step.condition is not None
        assert step.flag is not None
        flag = self._at(frame, step.flag)
        constants = [self._at(frame, s) for s in step.condition_consts]
        self.run(frame.program.programs[step.condition], [*constants, *carry], [flag], arena)
        byte = b.put("load", I8, (flag,), 1, len(b.scopes) - 1, keep=False)
        return b.cmp("icmp ne", byte, b.const(0, I8))

    def _row(self, frame: Frame, s: int, step: Loop, row: Value | None) -> Value:
        """Where a round's row of an array is."""
        b = self.b
        base, nbytes = self._at(frame, s), frame.program.slots[s].nbytes
        assert row is not None
        assert step.length is not None
        return b.put("gep", PTR, (base, b.mul(row, b.int(nbytes // max(step.length, 1)))), I8)

    def _bring_home(self, home: Value, end: Value, nbytes: int) -> None:
        b = self.b
        if home is not end and nbytes:
            run = lambda: self._copy(home, end, nbytes) or []  # noqa: E731
            b.branch(b.cmp("icmp ne", home, end), run)

    def _copy(self, to: Value, source: Value, nbytes: int) -> None:
        if nbytes:
            b = self.b
            args = (to, source, b.int(nbytes), b.const(False, I1))
            b.effect("effect", PTR, args, "llvm.memmove.p0.p0.i64")


_STEP: dict[type[Action], Callable[[Driver, Frame, Any], None]] = {
    KernelCall: Driver._kernel_call,
    LibraryCall: Driver._library_call,
    Copy: Driver._copy_step,
    Loop: Driver._loop,
    Branch: Driver._branch,
}


def _widest(p: Program) -> int:
    """The most words that a kernel's pointers and numbers take, nested programs included."""
    own = [len(s.slots) + len(s.symbols) for s in p.steps if isinstance(s, KernelCall)]
    calls = [s for s in p.steps if isinstance(s, LibraryCall)]
    own += [len(f.slots) for s in calls for f in (*s.leaders, *s.followers)]
    return max([8, *own, *map(_widest, p.programs)])
