"""From a Jaxpr to a `Program`: the loop planner's steps, and where each of their buffers lives.

The memory plan: liveness over the steps; a value may take over the buffer of one that dies where
each element is read only where it is written; the rest share one arena, first fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from covector.compiler.loops.graph import Graph, Value, element_type, graph_of, literal
from covector.compiler.loops.partition import Partition, Step
from covector.compiler.loops.address import Accesses
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store, Update
from covector.compiler.loops.transform import Rewrite, all_statements, expressions
from covector.compiler.loops.lower import walk_deep
from covector.compiler.math.evaluate import numpy_dtype
from covector.compiler.program import ALIGNMENT, Action, Copy, KernelCall, LibraryCall, Program, Slot
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Jaxpr, Literal
from covector.ir.op import Op
from covector.ir.scalar import Expr


@final
class Constant(Op):
    """A scalar that must stand in memory, because it is a result or an operand of a library."""

    name = "constant"
    value: Expr

    def result(self) -> ShapedArray:
        """A scalar."""
        return ShapedArray((), numpy_dtype(self.value.dtype))

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The number."""
        return self.value


def plan(jaxpr: Jaxpr, donated: Iterable[int] = (), name: str = "main") -> Program:
    """The program of `jaxpr`, whose equations must all have a native rule.

    donated: numbers of arguments whose memory the program may overwrite.
    """
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    graph = graph_of(inputs, jaxpr.eqns)
    outputs = [_output(v, graph) for v in jaxpr.outvars]
    steps = Partition(graph, outputs).run()
    given = {len(jaxpr.constvars) + k for k in donated}
    memory = _Memory([graph.values[v] for v in inputs], outputs, steps, given)
    return memory.program(name)


def _output(v: Any, graph: Graph) -> Value:
    if not isinstance(v, Literal):
        return graph.values[v]
    node = graph.apply(Constant(literal(v)), (), [()], [element_type(v.aval.dtype)])
    return node.outs[0]


@final
class _Memory:
    """The memory plan of a list of steps."""

    def __init__(
        self,
        inputs: list[Value],
        outputs: list[Value],
        steps: list[Step],
        donated: set[int],
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.made = [v for s in steps for v in s.makes]
        self.steps = [s for s in steps if s.alias is None and _works(s)]
        #: values that live in the memory of another one
        self.home: dict[Value, Value] = {}
        self.kept = set(outputs)
        self.donated = {inputs[k] for k in donated}
        self.last: dict[Value, int] = {}
        for step in steps:
            if step.alias is not None:
                self._take(step.makes[0], step.alias)
        #: for every buffer, the last step that uses it
        for t, step in enumerate(self.steps):
            for v in (*step.makes, *step.loads):
                self.last[self.root(v)] = t
        self.copied: dict[int, Value] = {}
        self.kernels: list[Kernel] = []
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
        for t, (step, (kernel, arguments)) in enumerate(zip(self.steps, changed, strict=True)):
            at = [number[self.root(v)] for v in arguments]
            if t in self.copied:
                source = self.copied[t]
                actions.append(Copy(number[self.root(source)], number[self.root(step.makes[0])]))
            if kernel is not None:
                actions.append(KernelCall(self._kernel(kernel), at))
            else:
                actions.append(_library_call(step, at, [number[self.root(v)] for v in step.makes]))
        arena, peak = self._arena(slots, number)
        inputs = [number[v] for v in self.inputs]
        outputs = [number[self.root(v)] for v in self.outputs]
        return Program(name, slots, inputs, outputs, actions, self.kernels, arena, peak)

    def _kernel(self, kernel: Kernel) -> int:
        key = kernel_key(kernel)
        if key not in self.known:
            self.known[key] = len(self.kernels)
            self.kernels.append(kernel)
        return self.known[key]

    # Sharing

    def _dies(self, v: Value, t: int) -> bool:
        """Whether the buffer of `v` may be overwritten at step `t`, which reads it last."""
        root = self.root(v)
        if self.last.get(root) != t or any(self.root(k) is root for k in self.kept):
            return False
        return root.node is not None or root in self.donated

    def _share(self, t: int, step: Step) -> tuple[Kernel | None, list[Value]]:
        """The kernel and its arguments, after results took over buffers that die here."""
        kernel, arguments = step.kernel, step.arguments
        if step.base is not None:
            out = step.makes[0]
            if self._dies(step.base, t) and step.base not in arguments:
                self._take(out, step.base)
            else:
                self.copied[t] = step.base
            return kernel, arguments
        if kernel is None:
            return kernel, arguments
        for out in step.makes:
            for v in step.loads:
                if not self._may_take(out, v, arguments, t):
                    continue
                merged = in_place(kernel, arguments.index(v), arguments.index(out))
                if merged is not None:
                    self._take(out, v)
                    kernel = merged
                    arguments = _reordered(kernel, [a for a in arguments if a is not v], out)
                    break
        return kernel, arguments

    def _may_take(self, out: Value, v: Value, arguments: list[Value], t: int) -> bool:
        if v.size != out.size or v.dtype != out.dtype or v not in arguments or not v.size:
            return False
        if out in self.home or not self._dies(v, t):
            return False
        return self.root(v).node is not None or out in self.kept

    def _take(self, out: Value, v: Value) -> None:
        """`out` lives where `v` does: the later one's buffer if a result of the program."""
        old, new = self.root(v), self.root(out)
        if new in self.kept and old.node is not None and old not in self.kept:
            old, new = new, old
        self.home[new] = old
        if new in self.last:
            self.last[old] = max(self.last.get(old, 0), self.last[new])

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
        return slots, number

    def _arena(self, slots: list[Slot], number: dict[Value, int]) -> tuple[int, int]:
        """Offsets of the temporaries; (bytes needed, most bytes alive at once)."""
        span: dict[int, list[int]] = {}
        for t, step in enumerate(self.steps):
            for v in (*step.makes, *step.loads):
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
                size = -(-slots[n].nbytes // ALIGNMENT) * ALIGNMENT
                arena = _allocate(slots[n], size, free, arena)
                alive += size
            peak = max(peak, alive)
            for n in ends.get(t, ()):
                size = -(-slots[n].nbytes // ALIGNMENT) * ALIGNMENT
                _release(slots[n], size, free)
                alive -= size
        return arena, peak


def _works(step: Step) -> bool:
    """Whether the step has anything to do."""
    return step.kernel is None or any(v.size for v in step.makes)


def _library_call(step: Step, inputs: list[int], outputs: list[int]) -> LibraryCall:
    library = None if step.node is None else step.node.library
    if library is None:
        raise TypeError(f"a step without a kernel or a library: {step.makes}")
    shapes = [tuple(n.const for n in v.shape) for v in (*step.arguments, *step.makes)]
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


def in_place(kernel: Kernel, source: int, target: int) -> Kernel | None:
    """The kernel with argument `target` in the memory of argument `source`, as one buffer; None
    if an element is read anywhere but where its own position is written."""
    names = [n for n, b in kernel.buffers.items() if b.home != "scratch"]
    old, new = names[source], names[target]
    if kernel.buffers[old].shape != kernel.buffers[new].shape:
        return None
    if kernel.buffers[old].home != "in" or kernel.buffers[new].home != "out":
        return None
    if not _same_place(kernel.body, old, new):
        return None
    name = next(f"z{k}" for k in range(len(kernel.buffers)) if f"z{k}" not in kernel.buffers)
    joined = {old: name, new: name}
    rename = Rewrite(place=lambda b, i: (joined.get(b, b), i))
    buffers: dict[str, Buffer] = {}
    was = kernel.buffers[new]
    for home in ("in", "inout", "out", "scratch"):
        buffers |= {n: b for n, b in kernel.buffers.items() if b.home == home and n not in joined}
        if home == "inout":
            buffers[name] = Buffer(name, was.shape, was.dtype, "inout", was.strides)
    return Kernel(kernel.name, buffers, rename.statements(kernel.body), kernel.symbols)


def _same_place(body: Sequence[Statement], old: str, new: str) -> bool:
    """Whether no element of `old` is read after the element of `new` at its place is stored.

    So it is if each is read only where it is stored; or by rows: where the loops around fix the
    same position of both, and a row of `old` is read before the row of `new` is written.
    """
    nests = [s for s in body if old in _touched([s]) or new in _touched([s])]
    if len(nests) != 1:
        return False
    rows: list[str] = []
    inner: Sequence[Statement] = nests
    while len(inner) == 1 and isinstance(inner[0], For):
        rows.append(inner[0].axis)
        inner = inner[0].body
    stores = [(k, s) for k, top in enumerate(inner) for s in all_statements([top])
              if isinstance(s, (Store, Update)) and s.buffer == new]  # fmt: skip
    if len(stores) != 1 or not isinstance(stores[0][1], Store):
        return False
    at, store = stores[0]
    fixed = [d for d, i in enumerate(store.index) if [a for a, _ in i.terms] in [[r] for r in rows]]
    if {a for d in fixed for a, _ in store.index[d].terms} != set(rows):
        fixed = []
    for k, top in enumerate(inner):
        for s in all_statements([top]):
            for e in walk_deep(expressions(s)):
                if e.op != "load" or e.extra[0] != old or (s is store and e.extra[1] == store.index):
                    continue
                same_row = fixed and all(e.extra[1][d] == store.index[d] for d in fixed)
                if k >= at or not same_row:
                    return False
    return True


def _touched(body: Sequence[Statement]) -> set[str]:
    return {name for name, _ in Accesses(all_statements(body)).places}


def _reordered(kernel: Kernel, arguments: list[Value], out: Value) -> list[Value]:
    """The arguments in the order of the kernel's buffers after `out` became the last 'inout'."""
    homes = [b.home for b in kernel.buffers.values() if b.home != "scratch"]
    rest = iter([a for a in arguments if a is not out])
    last = len(homes) - 1 - homes[::-1].index("inout")
    return [out if k == last else next(rest) for k in range(len(homes))]


def kernel_key(kernel: Kernel) -> Any:
    """Equal for kernels that are the same up to their own name."""
    buffers = tuple((b.name, b.shape, b.dtype, b.home, b.strides) for b in kernel.buffers.values())
    return buffers, kernel.symbols, _key(kernel.body)


def _key(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return tuple(map(_key, x))
    slots = getattr(type(x), "__slots__", None)
    if slots is None or not (hasattr(x, "lines") or hasattr(x, "line")):
        return x  # an index, an expression (interned: its identity is its meaning), a name
    return type(x).__name__, tuple(_key(getattr(x, s)) for s in slots)

