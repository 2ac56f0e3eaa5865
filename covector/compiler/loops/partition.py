"""Cuts a program into steps: which values get memory, and which kernel stores which of them.

Works backwards from the outputs.  A step is a kernel over a group of values, a push, a running
reduction, or a library call; what a step loads and nobody has made yet becomes a root itself.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from covector._base.named_tuple import NamedTuple
from covector.compiler import loops
from covector.compiler.loops.address import Accesses, linear
from covector.compiler.loops.costs import COST
from covector.compiler.loops.domain import Apart, MustBuffer
from covector.compiler.loops.graph import Graph, Node, Value, element_type
from covector.compiler.loops.planner import Group, lower_group
from covector.compiler.loops.program import For, Kernel, Statement, Store
from covector.compiler.loops.strides import step_along
from covector.compiler.loops.transform import all_statements
from covector.ir.index import atoms
from covector.ir.scalar import Expr

#: Costs an element, in additions: what a buffer adds (write), and each stream that is read.
WRITE_COST, STREAM_COST = 16, 6
#: Values stored by one kernel; lowerings of one step.
GROUP_SIZE, ATTEMPTS = 8, 400
#: How far a step looks for others that share its sources, in nodes and in places of the program: so
#: the planner's time grows as the program does.
NEAR, WINDOW = 64, 4096
#: Values of a group that is remembered, should there be others like it.
LARGEST_FORM = 120


@final
class Step:
    """One step: `makes` these values, `loads` those.  kernel: None for a library call.

    base: the value whose elements the result of a push starts with.  alias: the value whose memory
    holds the result already, as a reshape's operand does; there is nothing to run then.
    """

    __slots__ = (
        "alias",
        "arguments",
        "base",
        "group",
        "kernel",
        "loads",
        "makes",
        "node",
        "replaces",
    )

    def __init__(self, makes: Sequence[Value], node: Node | None, group: Group | None) -> None:
        self.makes, self.node, self.group = list(makes), node, group
        self.kernel: Kernel | None = None
        self.base: Value | None = None
        self.alias: Value | None = None
        self.replaces: Step | None = None
        #: The values of the kernel's buffers, in order.
        self.arguments: list[Value] = []
        self.loads: list[Value] = []


@final
class Partition:
    """The steps that make `outputs`, in an order that respects their loads."""

    def __init__(self, graph: Graph, outputs: Iterable[Value]) -> None:
        self.graph = graph
        self.outputs = [v for v in dict.fromkeys(outputs) if v.node is not None]
        self.memory: dict[Value, None] = {}
        self.maker: dict[Value, Step] = {}
        self.queue: list[tuple[int, int, Value]] = []
        self.inlined: dict[Value, dict[Step, None]] = {}
        self.costly: dict[Value, int] = {}
        self.ancestry = Ancestry(graph.nodes)
        self.forms_of = Forms(graph.nodes)
        self.forms: dict[Any, Lowered] = {}
        #: What a trial gave memory to: taken back, if it comes to nothing.
        self.trail: list[Value] = []
        self.traffics: dict[Kernel, int] = {}
        #: Of steps that make several values and load later ones: the first position made, in
        #: order, and the last position loaded.
        self.firsts: list[int] = []
        self.ends: list[int] = []
        #: Values in memory that no step makes yet; and which of them are computed from which.
        self.wanted: dict[Value, None] = {}
        self.users: dict[Value, dict[Value, None]] = {}
        self.uses: dict[Value, int] = {}
        for node in graph.nodes:
            for a in {a for a in node.args if isinstance(a, Value)}:
                self.uses[a] = self.uses.get(a, 0) + 1
        #: Values that share no kernel, since their steps would wait for one another.
        self.lone: set[Value] = set()

    def run(self) -> list[Step]:
        """The steps, in order."""
        for v in self.outputs:
            self.need(v)
        for v in self._forced():
            self.need(v)
        self._settle()
        while (step := self._circular()) is not None:
            self._separate(step)
            self._settle()
        return self._ordered()

    def _settle(self) -> None:
        """Make steps until every value in memory has one, and none computes what another does."""
        stale: dict[Step, None] = {}
        while self.queue or stale:
            if not self.queue:
                step = next(iter(stale))
                del stale[step]
                self._lower(step)
                continue
            value = heapq.heappop(self.queue)[2]
            if value in self.maker or value not in self.memory:
                continue
            self.wanted.pop(value, None)
            step = self._host(value) or self._step_for(value)
            for other in self.inlined.pop(value, {}):
                if other is not step:
                    stale[other] = None  # it computes the value again: let it load it
                    self._forget(other)
            stale.pop(step, None)

    def _circular(self) -> Step | None:
        """A step of several values that waits for itself, through others (which changed since it
        was made); None if the steps can be put in order."""
        done: set[Step] = set()
        for root in {self.maker[v]: None for v in self.outputs}:
            path: dict[Step, None] = {}
            stack = [(root, False)]
            while stack:
                step, leaving = stack.pop()
                if leaving:
                    del path[step]
                    done.add(step)
                    continue
                if step in done:
                    continue
                if step in path:
                    circle = list(path)[list(path).index(step) :]
                    return next(s for s in circle if len(s.makes) > 1)
                path[step] = None
                stack.append((step, True))
                stack.extend((self.maker[v], False) for v in step.loads if v.node is not None)
        return None

    def _separate(self, step: Step) -> None:
        """A step of its own for each value that `step` makes."""
        self.lone.update(step.makes)
        for v in step.makes[1:]:
            self._drop(step, v)
        self._lower(step)

    def _forced(self) -> list[Value]:
        """Values that live in memory whatever the kernels are: operands of libraries, results of
        whatever is no kernel, of all nodes that an output depends on."""
        live = {v.node for v in self.outputs}
        for node in reversed(self.graph.nodes):
            if node in live:
                live.update(a.node for a in node.args if isinstance(a, Value))
        found: list[Value] = []
        for node in self.graph.nodes:
            if node in live and node.rule != "kernel":
                found += node.outs
                if node.rule in ("library", "control"):
                    found += [a for a in node.args if isinstance(a, Value)]
        return found

    def need(self, value: Value) -> None:
        """Give `value` memory of its own."""
        if value.node is not None and value not in self.memory:
            self.memory[value] = None
            self.trail.append(value)
            heapq.heappush(self.queue, (-value.position, -value.number, value))
            self.wanted[value] = None
            for s in self._sources(value):
                self.users.setdefault(s, {})[value] = None

    # One step

    def _forget(self, step: Step) -> None:
        """What `step` recomputes is no longer known (it will be lowered again, or is dropped)."""
        if step.group is not None:
            for v in step.group.inlined:
                steps = self.inlined.get(v)
                if steps is not None:
                    steps.pop(step, None)

    def _host(self, value: Value) -> Step | None:
        """A kernel that computes `value` for itself, and now stores it too."""
        node = value.node
        if node is None or node.rule != "kernel" or value in self.lone:
            return None
        hosts = [s for s in self.inlined.get(value, ()) if s.group is not None][:2]
        for host in hosts:
            first = host.makes[0]
            if len(host.makes) >= GROUP_SIZE or first in self.lone:
                continue
            if not (_fits(value, first) or _fits(first, value)):
                continue
            if self._try(host, [*host.makes, value], self._alone(value)):
                self.maker[value] = host
                return host
        return None

    def _step_for(self, value: Value) -> Step:
        node = value.node
        assert node is not None
        if node.rule == "kernel":
            group = Group([value])
            step = Step([value], None, group)
            self._lower(step)
            self._widen(step)
        else:
            step = Step(node.outs, node, None)
            for v in node.outs:
                self.memory[v] = None
            self._lower(step)
        for v in step.makes:
            self.maker[v] = step
            self.wanted.pop(v, None)
        return step

    def _lower(self, step: Step, trial: bool = False) -> None:
        """(Re)make the kernel of `step`, giving memory to what it cannot recompute.

        Where it would have to wait for what it makes itself, it is taken apart, or, as a `trial`,
        given up by MustBuffer.
        """
        for _ in range(ATTEMPTS):
            try:
                self._attempt(step)
                break
            except (MustBuffer, Apart) as refusal:
                value, several = refusal.args[0], len(step.makes) > 1
                if value not in self.memory and value not in step.makes:
                    self.need(value)
                    self._need_shared(value)
                elif trial:
                    raise
                elif value in step.makes and several:
                    self._drop(step, value)
                elif several:  # it would have to wait for what it makes itself
                    self.lone.update(step.makes)
                    for v in step.makes[1:]:
                        self._drop(step, v)
                else:
                    raise RuntimeError(f"the planner cannot place {value} in a loop nest") from None
        else:
            raise RecursionError(f"the planner found no placement for {step.makes}")
        for v in step.loads:
            self.need(v)

    def _need_shared(self, value: Value) -> None:
        """`value` is to be made by another step: give memory to what it is made of and others use
        too, where making it twice would cost more."""
        stack, seen = [value], {value}
        while stack and len(seen) < 64:
            node = stack.pop().node
            assert node is not None
            for v in node.args:
                if isinstance(v, Expr) or v in seen or v.node is None or v in self.memory:
                    continue
                seen.add(v)
                if self.uses.get(v, 0) < 2:
                    stack.append(v)
                elif v.node.rule == "kernel" and self._dear(v):
                    self.need(v)

    def _dear(self, value: Value) -> bool:
        """Whether `value`, estimated from names of operations, costs more to make than memory."""
        cost, size = 0.0, max(value.size or 1, 1)
        streams = 0.0
        stack, seen = [value], {value}
        while stack:
            v = stack.pop()
            if v.node is None or v in self.memory:
                streams += min(1.0, (v.size or 0) / size)
                continue
            work = max([v.size or 0, *(math.prod(n.const for n in s) for s in v.node.shapes)])
            cost += COST.get(v.node.op.name, 1) * work / size
            if cost + STREAM_COST * streams > WRITE_COST + 2 * STREAM_COST:
                return True
            for a in v.node.args:
                if not isinstance(a, Expr) and a not in seen:
                    seen.add(a)
                    stack.append(a)
        return cost + STREAM_COST * streams > WRITE_COST + 2 * STREAM_COST

    def _drop(self, step: Step, value: Value) -> None:
        step.makes.remove(value)
        assert step.group is not None
        step.group.roots = list(step.makes)
        self.maker.pop(value, None)
        self.wanted[value] = None
        heapq.heappush(self.queue, (-value.position, -value.number, value))

    def _attempt(self, step: Step) -> None:
        own = set(step.makes)
        depends = self.ancestry.depends

        def in_memory(v: Value) -> bool:
            if v.node is None or v in own:
                return True
            waits = len(own) > 1 and v.node.rule == "kernel" and step.replaces is None
            if waits and any(depends(v, root) for root in own):
                return False  # made from what this kernel makes: computed again, not waited for
            return v in self.memory or self._elsewhere(v, step)

        if step.group is not None:
            self._forget(step)
            names = "_".join(r.node.op.name for r in step.makes[:2] if r.node is not None)
            step.kernel, step.arguments = self._lowered(step.group, in_memory, names)
            step.alias = alias_of(step.kernel, step.arguments)
            for v, cost in step.group.inlined.items():
                self.costly[v] = cost
                self.inlined.setdefault(v, {})[step] = None
        elif step.node is not None and step.node.rule in ("library", "control"):
            step.arguments = [v for v in step.node.args if isinstance(v, Value)]
        elif step.node is not None and step.node.rule == "push":
            step.kernel, step.arguments, step.base = loops.serial.lower_push(step.node, in_memory)
        elif step.node is not None and step.node.rule == "cumulate":
            step.kernel, step.arguments = loops.serial.lower_cumulate(step.node, in_memory)
        elif step.node is not None and step.node.rule == "each":
            step.kernel, step.arguments = loops.each.lower_each(step.node, in_memory, element_type)
        elif step.node is not None and step.node.rule == "small_matrices":
            step.kernel, step.arguments = loops.matrices.lower_matrices(
                step.node, in_memory, element_type
            )
        else:
            raise NotImplementedError(f"{step.node}: it states no native rule")
        read = [*step.arguments, *([] if step.base is None else [step.base])]
        step.loads = [v for v in dict.fromkeys(read) if v not in own]

    def _lowered(
        self, group: Group, in_memory: Callable[[Value], bool], name: str
    ) -> tuple[Kernel, list[Value]]:
        """As `lower_group`; of groups that are the same, layer after layer, one is lowered."""
        form = self.forms_of.form(group.roots, in_memory)
        if form is None:
            return lower_group(group, in_memory, name)
        key, values = form
        found = self.forms.get(key)
        if found is None:
            number = {v: n for n, v in enumerate(values)}
            try:
                kernel, arguments = lower_group(group, in_memory, name)
            except (MustBuffer, Apart) as refusal:
                if refusal.args[0] in number:
                    self.forms[key] = Lowered(type(refusal), number[refusal.args[0]])
                raise
            costs = {number[v]: cost for v, cost in group.inlined.items()}
            self.forms[key] = Lowered(kernel, [number[v] for v in arguments], costs)
            return kernel, arguments
        if found.costs is None:
            raise found.outcome(values[found.numbers])
        group.inlined = {values[n]: cost for n, cost in found.costs.items()}
        return found.outcome, [values[n] for n in found.numbers]

    def _elsewhere(self, v: Value, step: Step) -> bool:
        """Whether another step computes `v` already and doing it again costs more than memory."""
        others = self.inlined.get(v)
        if not others or others.keys() <= {step, step.replaces}:
            return False
        streams = sum(min(1.0, (s.size or 0) / max(v.size or 1, 1)) for s in self._sources(v))
        return self.costly[v] + STREAM_COST * streams > WRITE_COST + 2 * STREAM_COST

    def _sources(self, v: Value) -> list[Value]:
        """The values in memory that `v` is computed from (the first few, and not far away)."""
        stack, found, seen = [v], [], {v}
        while stack and len(seen) < NEAR:
            node = stack.pop().node
            assert node is not None
            for a in node.args:
                if isinstance(a, Expr) or a in seen:
                    continue
                seen.add(a)
                if a.node is None or a in self.memory:
                    found.append(a)
                    if len(found) > 8:
                        return found
                else:
                    stack.append(a)
        return found

    # Several values in one kernel

    def _widen(self, step: Step) -> None:
        """Let the kernel store other values that are wanted, where they share its loads."""
        (first,) = step.makes
        if first in self.lone:
            return
        near: dict[Value, None] = {}
        mine = self._sources(first)
        for s in mine:
            near[s] = None
            if s.size is None or s.size > 1:
                near |= self.users.get(s, {})
        found = []
        for v in near:
            if v not in self.wanted or v is first or v in self.lone:
                continue
            fits = _fits(v, first) or _fits(first, v)
            if fits and v.node is not None and v.node.rule == "kernel":
                found.append(v)
        fixed = [s for s in mine if s not in found]
        near_by = lambda v: abs(v.position - first.position) < WINDOW // 2  # noqa: E731
        found = sorted(filter(near_by, found), key=lambda v: -v.position)[: 4 * GROUP_SIZE]
        depends = self.ancestry.depends
        found = [v for v in found if not any(depends(s, v) for s in fixed)][: GROUP_SIZE - 1]
        alone = {v: self._alone(v) for v in found}
        apart = sum(alone.values())
        if len(found) > 1 and self._try(step, [first, *found], apart):
            return
        for v in found:
            self._try(step, [*step.makes, v], alone[v])

    def _alone(self, v: Value) -> int:
        """The traffic of a kernel that stores only `v`."""
        step, start = Step([v], None, Group([v])), len(self.trail)
        try:
            self._lower(step)
            return self._traffic(step)
        finally:
            self._take_back(start)
            self._forget(step)

    def _traffic(self, step: Step) -> int:
        kernel = step.kernel
        assert kernel is not None
        found = self.traffics.get(kernel)
        if found is None:
            found = self.traffics[kernel] = traffic(kernel)
        return found

    def _take_back(self, start: int) -> None:
        """What was given memory since `start` has none (it may still stand in the queue)."""
        for v in self.trail[start:]:
            del self.memory[v]
            self.wanted.pop(v, None)
        del self.trail[start:]

    def _try(self, step: Step, makes: list[Value], apart: int) -> bool:
        """Lower `step` for `makes`, if that moves less memory than kernels of their own (those of
        the new ones move `apart`); or leave it as it was."""
        assert step.kernel is not None
        start = len(self.trail)
        makes = sorted(makes, key=lambda v: -sum(n != 1 for n in v.shape))
        new = Step(makes, None, Group(makes))
        new.replaces = step
        try:
            self._lower(new, trial=True)
            assert new.kernel is not None
            good = len(new.makes) == len(makes) and not self._cyclic(new)
            good = good and self._traffic(new) < self._traffic(step) + apart
        except (MustBuffer, Apart):
            good = False
        if good:
            self._forget(step)
            self._forget(new)
            for v in new.group.inlined:  # type: ignore[union-attr]
                self.inlined.setdefault(v, {})[step] = None
            step.makes, step.kernel, step.arguments = new.makes, new.kernel, new.arguments
            step.loads, step.group, step.alias = new.loads, new.group, new.alias
            self._note_span(step)
            return True
        self._forget(new)
        self._take_back(start)
        return False

    def _note_span(self, step: Step) -> None:
        first = min(v.position for v in step.makes)
        end = max((v.position for v in step.loads), default=-1)
        if end > first:
            at = bisect.bisect(self.firsts, first)
            self.firsts.insert(at, first)
            self.ends.insert(at, end)

    def _reach(self, position: int, floor: int) -> int:
        """The last position that what is at `position` may depend on, through steps that make
        several values; not looked for beyond `floor`."""
        reach, before = position, -1
        while before < reach < floor:
            before = reach
            known = bisect.bisect(self.firsts, before)
            reach = max(reach, max(self.ends[:known], default=reach))
        return reach

    def _cyclic(self, step: Step) -> bool:
        """Whether something that the step loads depends on something that it makes: through the
        program, or through another step that makes several values at once."""
        makes = set(step.makes)
        floor = min(v.position for v in makes)
        depends = self.ancestry.depends
        seen: set[Value] = set()
        stack = list(step.loads)
        while stack:
            v = stack.pop()
            if v in makes:
                return True
            if v.node is None or v in seen:
                continue
            seen.add(v)
            if any(depends(v, root) for root in makes):
                return True
            if self._reach(v.position, floor) < floor:
                continue
            maker = self.maker.get(v)
            if maker is not None and maker is not step.replaces:
                seen.update(maker.makes)
                stack.extend(maker.loads)
            else:
                stack.extend(a for a in v.node.args if isinstance(a, Value))
        return False

    # Order

    def _ordered(self) -> list[Step]:
        """The steps that the outputs depend on, each after those that make what it loads."""
        order: dict[Step, None] = {}
        roots = sorted({self.maker[v]: None for v in self.outputs}, key=_position)
        stack = [(s, False) for s in reversed(roots)]
        while stack:
            step, ready = stack.pop()
            if step in order:
                continue
            if ready:
                order[step] = None
                continue
            stack.append((step, True))
            before = {self.maker[v]: None for v in step.loads if v.node is not None}
            stack.extend((s, False) for s in sorted(before, key=_position, reverse=True))
        return list(order)


def alias_of(kernel: Kernel, arguments: Sequence[Value]) -> Value | None:
    """The value that the kernel only copies, element for element in order."""
    body: Sequence[Statement] = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Store) or body[0].value.op != "load":
        return None
    names = [n for n, b in kernel.buffers.items() if b.home != "scratch"]
    target, (source, index) = body[0].buffer, body[0].value.extra
    if names != [source, target] or arguments[0].size != arguments[1].size:
        return None
    places = [
        linear(i, kernel.buffers[b].shape) for b, i in ((source, index), (target, body[0].index))
    ]
    return arguments[0] if places[0] is not None and places[0] == places[1] else None


def traffic(kernel: Kernel) -> int:
    """Elements that a kernel moves between the caches and memory that is not its own.

    What one row reads again is in the cache, if it is read along the same axis.
    """
    total = 0
    for nest in kernel.body:
        trips: dict[str, int] = {}
        outer: list[str] = []
        loop = nest
        while isinstance(loop, For):
            outer.append(loop.axis)
            loop = loop.body[0] if len(loop.body) == 1 else None
        for s in all_statements([nest]):
            loops = [(s.axis, s.low, s.high)] if isinstance(s, For) else getattr(s, "loops", [])
            for a, low, high in loops:
                trips[a] = max(trips.get(a, 0), (high - low).constant or 1)
        streams: dict[tuple[str, tuple[int | None, ...]], int] = {}
        for name, index in Accesses(all_statements([nest])).places:
            buffer = kernel.buffers[name]
            if buffer.home == "scratch":
                continue
            count = 1
            for a in atoms(index):
                count *= trips.get(a, 1) if isinstance(a, str) else 1
            key = name, tuple(step_along(a, index, buffer) for a in outer[:1])
            streams[key] = max(streams.get(key, 0), count)
        total += sum(streams.values())
    return total


def _position(step: Step) -> int:
    return min(v.position for v in step.makes)


def _fits(v: Value, first: Value) -> bool:
    """Whether `v` can be stored in the loops over `first`: the same leading axes."""
    if len(v.shape) > len(first.shape) and any(n != 1 for n in v.shape[len(first.shape) :]):
        return False
    return all(n in (m, 1) for n, m in zip(v.shape, first.shape, strict=False))


@final
class Ancestry:
    """Which node depends on which, exactly among `WINDOW` neighbours in the order of a program.

    A set of bits a node: bit k says that it depends on the one k places before.  What is farther
    away counts as depended on.
    """

    __slots__ = ("_bits",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._bits: list[int] = []
        mask = (1 << WINDOW) - 1
        for node in nodes:
            bits = 1
            for a in node.args:
                if isinstance(a, Value) and a.node is not None:
                    bits |= self._bits[a.node.position] << (node.position - a.node.position)
            self._bits.append(bits & mask)

    def depends(self, v: Value, on: Value) -> bool:
        """Whether `v` is made from `on`, or is of the same node."""
        if v.node is None or on.node is None:
            return False
        distance = v.node.position - on.node.position
        return distance >= 0 and (
            distance >= WINDOW or bool(self._bits[v.node.position] >> distance & 1)
        )


@final
class Forms:
    """Tells which groups of values are the same but for where in the program they stand."""

    __slots__ = ("_kinds", "_numbers")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._numbers: dict[Any, int] = {}
        self._kinds = [
            self._number((n.op, n.out_shapes, n.out_dtypes)) if n.rule == "kernel" else -1
            for n in nodes
        ]

    def _number(self, what: Any) -> int:
        return self._numbers.setdefault(what, len(self._numbers))

    def form(
        self, roots: Sequence[Value], in_memory: Callable[[Value], bool]
    ) -> tuple[tuple[Any, ...], list[Value]] | None:
        """(what the group of `roots` is, its values in that order); None if it is too large."""
        number = {v: n for n, v in enumerate(roots)}
        values = list(roots)
        made = len(roots)
        parts: list[Any] = [made]
        for at, v in enumerate(values):  # grows on the way
            node = v.node
            kind = -1 if node is None else self._kinds[node.position]
            if node is None or kind < 0 or (at >= made and in_memory(v)):
                known = node is None or in_memory(v)
                parts.append(self._number((v.shape, v.dtype, known)))
                continue
            if at > LARGEST_FORM:
                return None
            parts.append(-1 - kind)
            parts.append(v.number)
            for a in node.args:
                if not isinstance(a, Value):
                    parts.append(a)
                    continue
                n = number.get(a)
                if n is None:
                    n = number[a] = len(values)
                    values.append(a)
                parts.append(n)
        return (*parts, *self._siblings(values, number)), values

    def _siblings(self, values: list[Value], number: dict[Value, int]) -> list[int]:
        """Which values are results of one node."""
        several = [v for v in values if v.node is not None and len(v.node.outs) > 1]
        return [number.get(o, -1) for v in several for o in v.node.outs]  # type: ignore[union-attr]


class Lowered(NamedTuple):
    """What became of a group, in terms of the numbers of its values: a kernel, its arguments and
    the costs of what it recomputes; or a refusal (costs None) and the value that it names."""

    outcome: Any
    numbers: Any
    costs: dict[int, int] | None = None
