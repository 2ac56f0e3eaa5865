"""The memory plan of a program: which buffers its steps use, and where temporaries lie.

Liveness over the steps; a value may take over the buffer of one that dies where each element is
read no later than it is written; the rest share one arena.  Where first the best gap for each in
turn leaves holes, the largest are placed first instead (Pisarchyk and Lee, "Efficient memory
management for deep neural net inference", 2020: greedy by size).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from covector import compiler
from covector.compiler.loops.graph import Value
from covector.compiler.loops.partition import Step
from covector.compiler.loops.program import Accumulator, Kernel, Statement
from covector.compiler.math.formats import numpy_dtype
from covector.compiler.program import (
    ALIGNMENT,
    Action,
    Branch,
    Copy,
    KernelCall,
    LibraryCall,
    Loop,
    Program,
    Slot,
)
from covector.compiler.ranges import ranges
from covector.ir.index import Affine
from covector.ir.jaxpr import Jaxpr

#: Temporaries up to which other places for them are tried: that takes the square of the time.
MOST: Final = 2000

if TYPE_CHECKING:
    from covector.compiler import control

#: plans a nested program: (jaxpr, which input may be overwritten by which result) -> program
PlanNested = Callable[[Jaxpr, Mapping[int, int]], Program]


@final
class Control:
    """What a step of nested programs needs beside its operands and results."""

    __slots__ = ("arena", "flag", "layout", "programs", "ranges", "spare")

    def __init__(self, programs: list[Program], layout: control.Layout, ranges: int = 1) -> None:
        self.programs, self.layout, self.ranges = programs, layout, ranges
        size = ranges * max(p.arena for p in programs)
        self.arena = _buffer((size,), "uint8") if size else None
        self.flag: Value | None = None
        self.spare: list[Value | None] = []

    @property
    def temporaries(self) -> list[Value]:
        """Buffers that live during the step alone."""
        return [v for v in (self.arena, self.flag, *self.spare) if v is not None]


def _buffer(shape: Sequence[int], dtype: str) -> Value:
    return Value(tuple(map(Affine, shape)), dtype, None, 0, 0)


@final
class MemoryPlan:
    """The memory plan of a list of steps.

    donated: inputs that may be overwritten.  places: if given, the program is nested: its results
    have memory of their own, or take the place of the input that `places` names.
    held: what a step leaves alone, though it reads it last.
    """

    def __init__(
        self,
        inputs: list[Value],
        outputs: list[Value],
        steps: list[Step],
        donated: set[int],
        places: Mapping[int, int] | None,
        plan_nested: PlanNested,
        held: Mapping[Step, Sequence[Value]],
    ) -> None:
        self.inputs, self.outputs, self.plan_nested = inputs, outputs, plan_nested
        self.made = [v for s in steps for v in s.makes]
        self.steps = [s for s in steps if s.alias is None and _works(s)]
        #: values that live in the memory of another one
        self.home: dict[Value, Value] = {}
        self.kept = set(outputs)
        self.places = places
        self.donated = {inputs[k] for k in donated}
        #: for every buffer, the last step that uses it
        self.last: dict[Value, int] = {}
        for step in steps:
            if step.alias is not None:
                self._take(step.makes[0], step.alias)
        for t, step in enumerate(self.steps):
            for v in (*step.makes, *step.loads):
                self.last[self.root(v)] = t
        self.held = {t: held[s] for t, s in enumerate(self.steps) if s in held}
        self.kept_roots = {self.root(v) for v in outputs}
        self.copied: dict[int, list[tuple[Value, Value]]] = {}
        self.controls: dict[int, Control] = {}
        self.kernels: list[Kernel] = []
        self.programs: list[Program] = []
        self.known: dict[Any, int] = {}

    def root(self, v: Value) -> Value:
        """The value whose buffer `v` is in."""
        while v in self.home:
            v = self.home[v]
        return v

    def program(self, name: str) -> Program:
        """The finished program."""
        changed = [self._share(t, step) for t, step in enumerate(self.steps)]
        slots, number = self._slots()
        actions: list[Action] = []

        def at(v: Value) -> int:
            return number[self.root(v)]

        for t, (step, (kernel, arguments)) in enumerate(zip(self.steps, changed, strict=True)):
            for source, target in self.copied.get(t, ()):
                if at(source) != at(target):
                    actions.append(Copy(at(source), at(target)))
            if kernel is not None:
                actions.append(KernelCall(self._kernel(kernel), [at(v) for v in arguments]))
            elif t in self.controls:
                actions.append(self._control_action(self.controls[t], step, at))
            else:
                actions.append(_library_call(step, at))
        arena, peak = self._arena(slots, number)
        inputs = [number[v] for v in self.inputs]
        outputs = self._own(slots, number, actions)
        return Program(
            name, slots, inputs, outputs, actions, self.kernels, arena, peak, self.programs
        )

    def _kernel(self, kernel: Kernel) -> int:
        key = kernel_key(kernel)
        if key not in self.known:
            self.known[key] = len(self.kernels)
            self.kernels.append(kernel)
        return self.known[key]

    def _own(self, slots: list[Slot], number: dict[Value, int], actions: list[Action]) -> list[int]:
        """The slots of the results; those of a nested program are made its own by copies."""
        out: list[int] = []
        for k, v in enumerate(self.outputs):
            root = self.root(v)
            slot = number[root]
            if self.places is not None:
                taken = slot in out
                if root.node is None and root in self.inputs:
                    taken = taken or self.places.get(self.inputs.index(root)) != k
                if taken:
                    old = slots[slot]
                    shape = tuple(n.const for n in v.shape)
                    slots.append(Slot(shape, old.dtype, old.nbytes, "out"))
                    actions.append(Copy(slot, len(slots) - 1))
                    slot = len(slots) - 1
            out.append(slot)
        return out

    # Sharing

    def _dies(self, v: Value, t: int) -> bool:
        """Whether the buffer of `v` may be overwritten at step `t`, which reads it last."""
        root = self.root(v)
        if self.last.get(root) != t or root in self.kept_roots:
            return False
        if any(self.root(h) is root for h in self.held.get(t, ())):
            return False
        return root.node is not None or root in self.donated

    def _share(self, t: int, step: Step) -> tuple[Kernel | None, list[Value]]:
        """The kernel and its arguments, after results took over buffers that die here."""
        kernel, arguments = step.kernel, step.arguments
        if step.base is not None:
            self._start(t, step.base, step.makes[0], arguments)
            return kernel, arguments
        if kernel is None:
            if step.node is not None and step.node.rule == "control":
                self.controls[t] = self._control(t, step)
            return kernel, arguments
        for out in step.makes:
            for v in step.loads:
                if not self._may_take(out, v, t) or v not in arguments:
                    continue
                merged = compiler.in_place.in_place(
                    kernel, arguments.index(v), arguments.index(out)
                )
                if merged is not None:
                    self._take(out, v)
                    kernel = merged
                    arguments = compiler.in_place.reordered(
                        kernel, [a for a in arguments if a is not v], out
                    )
                    break
        return kernel, arguments

    def _start(self, t: int, base: Value, out: Value, others: Sequence[Value]) -> None:
        """Let `out` begin as `base`: in its buffer if it dies here, else as a copy."""
        roots = [self.root(v) for v in others]
        if self.root(base) not in roots and self._may_take(out, base, t):
            self._take(out, base)
        else:
            self.copied.setdefault(t, []).append((base, out))

    def _may_take(self, out: Value, v: Value, t: int) -> bool:
        if v.size != out.size or v.dtype != out.dtype or not v.size:
            return False
        if out in self.home or not self._dies(v, t):
            return False
        root = self.root(v)
        if root.node is not None or out not in self.kept or self.places is None:
            return True
        wanted = [k for k, o in enumerate(self.outputs) if o is out]
        return wanted == [self.places.get(self.inputs.index(root))]

    def _take(self, out: Value, v: Value) -> None:
        """`out` lives where `v` does: the later one's buffer if a result of the program."""
        old, new = self.root(v), self.root(out)
        if new in self.kept and old.node is not None and old not in self.kept:
            old, new = new, old
        self.home[new] = old
        if new in self.last:
            self.last[old] = max(self.last.get(old, 0), self.last[new])
        self.kept_roots = {self.root(k) for k in self.kept}

    # Control flow

    def _control(self, t: int, step: Step) -> Control:
        node = step.node
        assert node is not None
        layout = compiler.control.layout(node.op, len(node.args))
        given = compiler.control.nested(node.op)
        if layout.index is not None:
            return Control([self.plan_nested(c.jaxpr, {}) for c in given], layout)
        body = given[-1]
        constants = len(layout.consts[-1])
        places = {constants + k: k for k in range(len(layout.carry))}
        programs = [self.plan_nested(c.jaxpr, {}) for c in given[:-1]]
        programs.append(self.plan_nested(body.jaxpr, places))
        count = 1
        if node.op.name == "scan" and not layout.carry:
            count = ranges(node.op.params["length"], programs[-1])
        found = Control(programs, layout, count)
        if node.op.name == "while":
            found.flag = _buffer((), "bool")
        values = [v for v in node.args if isinstance(v, Value)]
        for k, position in enumerate(layout.carry):
            others = [v for n, v in enumerate(values) if n != position]
            self._start(t, values[position], node.outs[k], others)
            stays = programs[-1].outputs[k] == programs[-1].inputs[constants + k]
            out = node.outs[k]
            found.spare.append(None if stays else Value(out.shape, out.dtype, None, 0, 0))
        return found

    def _control_action(self, c: Control, step: Step, at: Callable[[Value], int]) -> Action:
        node = step.node
        assert node is not None
        numbers = [len(self.programs) + k for k in range(len(c.programs))]
        self.programs += c.programs
        arena = None if c.arena is None else at(c.arena)
        operands = [at(v) for v in node.args if isinstance(v, Value)]
        results = [at(v) for v in node.outs]
        if c.layout.index is not None:
            inputs = [operands[k] for k in c.layout.consts[0]]
            return Branch(numbers, operands[c.layout.index], inputs, results, arena)
        count = len(c.layout.carry)
        looping = node.op.name == "while"
        return Loop(
            numbers[0] if looping else None,
            numbers[-1],
            [operands[k] for k in c.layout.consts[0]] if looping else (),
            [operands[k] for k in c.layout.consts[-1]],
            results[:count],
            [None if v is None else at(v) for v in c.spare],
            [operands[k] for k in c.layout.xs],
            results[count:],
            None if looping else node.op.params["length"],
            False if looping else bool(node.op.params["reverse"]),
            arena,
            None if c.flag is None else at(c.flag),
            c.ranges,
        )

    # Slots

    def _slots(self) -> tuple[list[Slot], dict[Value, int]]:
        slots: list[Slot] = []
        number: dict[Value, int] = {}

        def add(v: Value, home: str) -> None:
            if v not in number:
                number[v] = len(slots)
                shape = tuple(n.const for n in v.shape)
                nbytes = (v.size or 0) * numpy_dtype(v.dtype).itemsize
                slots.append(Slot(shape, v.dtype, nbytes, home))

        for v in self.inputs:
            add(v, "in")
        for v in self.outputs:
            add(self.root(v), "out")
            if self.root(v) in self.donated and v not in self.inputs:
                slots[number[self.root(v)]].reused = True
        for v in self.made:
            add(self.root(v), "temp")
        for c in self.controls.values():
            for v in c.temporaries:
                add(v, "temp")
        return slots, number

    def _arena(self, slots: list[Slot], number: dict[Value, int]) -> tuple[int, int]:
        """Offsets of the temporaries; (bytes needed, most bytes alive at once)."""
        span: dict[int, list[int]] = {}
        for t, step in enumerate(self.steps):
            extra = self.controls[t].temporaries if t in self.controls else []
            for v in (*step.makes, *step.loads, *extra):
                span.setdefault(number[self.root(v)], [t, t])[1] = t
        starts: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for n, (first, last) in span.items():
            if slots[n].home == "temp":
                starts.setdefault(first, []).append(n)
                ends.setdefault(last, []).append(n)
        free: list[tuple[int, int]] = []
        arena = alive = peak = 0
        for t in range(len(self.steps)):
            for n in starts.get(t, ()):
                size = _rounded(slots[n])
                arena = _allocate(slots[n], size, free, arena)
                alive += size
            peak = max(peak, alive)
            for n in ends.get(t, ()):
                size = _rounded(slots[n])
                _release(slots[n], size, free)
                alive -= size
        blocks = [(slots[n], a, b) for n, (a, b) in span.items() if slots[n].home == "temp"]
        if arena > peak and len(blocks) <= MOST:
            arena = _by_size(blocks, arena)
        return arena, peak


def _by_size(blocks: list[tuple[Slot, int, int]], arena: int) -> int:
    """Places (slot, first, last step) anew, the largest first, each in the smallest gap between
    those that live at the same time, if all need less than `arena` then; the bytes needed."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last)
    found: list[int] = []
    ordered = sorted(blocks, key=lambda b: (-_rounded(b[0]), b[1] - b[2], b[1]))
    for slot, first, last in ordered:
        size = _rounded(slot)
        at = 0
        best: tuple[int, int] | None = None  # (bytes left over, offset)
        for low, high, begin, end in placed:
            if begin <= last and first <= end:
                if low - at >= size and (best is None or low - at - size < best[0]):
                    best = (low - at - size, at)
                at = max(at, high)
        offset = at if best is None else best[1]
        if offset + size >= arena:
            return arena
        bisect.insort(placed, (offset, offset + size, first, last))
        found.append(offset)
    for (slot, _, _), offset in zip(ordered, found, strict=True):
        slot.offset = offset
    return max(high for _, high, _, _ in placed)


def _rounded(slot: Slot) -> int:
    return -(-slot.nbytes // ALIGNMENT) * ALIGNMENT


def _works(step: Step) -> bool:
    """Whether the step has anything to do."""
    return step.kernel is None or any(v.size for v in step.makes)


def _library_call(step: Step, at: Callable[[Value], int]) -> LibraryCall:
    library = None if step.node is None else step.node.library
    if library is None:
        raise TypeError(f"a step without a kernel or a library: {step.makes}")
    shapes = [tuple(n.const for n in v.shape) for v in (*step.arguments, *step.makes)]
    inputs, outputs = [at(v) for v in step.arguments], [at(v) for v in step.makes]
    return LibraryCall(library.name, inputs, outputs, shapes, library.attributes)


def _allocate(slot: Slot, size: int, free: list[tuple[int, int]], arena: int) -> int:
    """Give `slot` the smallest gap that holds it, or new memory; the arena's size then."""
    fits = [(end - start, start, end) for start, end in free if end - start >= size]
    if fits:
        _, start, end = min(fits)
        free.remove((start, end))
        if end - start > size:
            free.append((start + size, end))
        slot.offset = start
        return arena
    for start, end in free:
        if end == arena:  # the last gap, made longer
            free.remove((start, end))
            slot.offset = start
            return start + size
    slot.offset = arena
    return arena + size


def _release(slot: Slot, size: int, free: list[tuple[int, int]]) -> None:
    start = slot.offset or 0
    end = start + size
    for gap in list(free):
        if gap[1] == start:
            free.remove(gap)
            start = gap[0]
        elif gap[0] == end:
            free.remove(gap)
            end = gap[1]
    if end > start:
        free.append((start, end))


def kernel_key(kernel: Kernel) -> Any:
    """Equal for kernels that are the same up to their own name."""
    buffers = tuple((b.name, b.shape, b.dtype, b.home, b.strides) for b in kernel.buffers.values())
    return buffers, kernel.symbols, _key(kernel.body)


def _key(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return tuple(map(_key, x))
    slots = getattr(type(x), "__slots__", None)
    if slots is None or not isinstance(x, (Statement, Accumulator)):
        return x  # an index, an expression (interned: its identity is its meaning), a name
    return type(x).__name__, tuple(_key(getattr(x, s)) for s in slots)
