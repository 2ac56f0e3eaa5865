"""Reductions: accumulators in registers (folds), or in memory (updates).

Every (instance, unrolled copy, result) has an accumulator with one element a lane; they meet in
trees, so the order of combination is fixed by the program, not by LLVM.  A long float sum is cut
into stretches: each is summed by itself, then added to a total that carries its rounding error
along (Knuth, The Art of Computer Programming, vol. 2, 4.2.2: the exact error of an addition).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from covector.backends.cpu.emit.address import locate, scalar_index
from covector.backends.cpu.emit.combine import Combiner, Values, no_index
from covector.backends.cpu.emit.convert import from_memory
from covector.backends.cpu.emit.memory import ask, lane_pointers, load, read, store, write_one
from covector.backends.cpu.emit.nest import part_names
from covector.backends.cpu.emit.ssa import Value
from covector.backends.cpu.emit.types import PARTS
from covector.backends.cpu.emit.vectorise import overlap_is_harmless, phases
from covector.compiler.loops.program import Accumulator, Fold, Statement, Update
from covector.ir.index import Affine, Data, Quotient

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest
    from covector.backends.cpu.emit.vectorise import Phase
    from covector.ir.scalar import Expr

EmitBody = Callable[["Nest", list[Statement], list["Env"]], None]
#: Additions that one accumulator does before it is added to its total: chains as short as those
#: of NumPy's pairwise sum.  Measured: 3 % slower than one long chain, in cache.
STRETCH: Final = 16


def emit_fold(nest: Nest, s: Fold, envs: list[Env], emit_body: EmitBody) -> None:
    """Runs the fold for every instance and binds its results' names."""
    if s.vector is not None and envs[0].lanes > 1:
        raise ValueError(f"fold over {s.vector}: lanes along it inside lanes along another axis")
    groups: dict[tuple[Value, ...], list[Env]] = {}
    for env in envs:
        groups.setdefault(_outer_bounds(nest, s, env), []).append(env)
    for group in groups.values():
        _Fold(nest, s, group, emit_body).run()


def _outer_bounds(nest: Nest, s: Fold, env: Env) -> tuple[Value, ...]:
    """Bounds that do not depend on the fold's own axes: instances may share loops if alike."""
    own = {axis for axis, _, _ in s.loops}
    return tuple(
        scalar_index(nest, bound, env)
        for _, low, high in s.loops
        for bound in (low, high)
        if not any(atom in own for atom, _ in bound.terms)
    )


@final
class _Fold:
    """One fold over a list of instances that share its loops.

    State is carried through loops as a flat list: for each instance and result, either its
    accumulators (one a copy), or, outside the stretches of a long sum, (total, error).
    """

    __slots__ = (
        "b", "combiners", "cut", "emit_body", "envs", "in_order", "lanes", "nest", "rest",
        "results", "s", "stretch", "width",
    )  # fmt: skip

    def __init__(self, nest: Nest, s: Fold, envs: list[Env], emit_body: EmitBody) -> None:
        self.nest, self.s, self.envs, self.emit_body = nest, s, envs, emit_body
        self.b = nest.b
        vector = s.vector is not None and nest.lanes > 1
        self.results = [part for r in s.results for part in _real(nest, r)]
        self.combiners = [Combiner(r.kind, r.dtypes) for r in self.results]
        self.in_order = [_grows(s, r) for r in self.results]
        self.width = s.unroll if vector else 1
        self.lanes = nest.lanes if vector else envs[0].lanes
        self.cut, self.stretch = self._stretches(vector)
        self.rest: list[Value] | None = None  # accumulators of scalars after the last vector

    def _stretches(self, vector: bool) -> tuple[int | None, int]:
        """(which loop is cut, into stretches of how many trips); None: the sum is short."""
        if not any(c.sums for c in self.combiners):
            return None, 0
        stretch = STRETCH if self.width > 1 else 2 * STRETCH
        trips = 1
        for j in range(len(self.s.loops) - 1, -1, -1):
            axis, low, high = self.s.loops[j]
            extent = (high - low).constant
            if extent is None:
                return j, max(stretch // trips, 1)
            if vector and axis == self.s.vector:
                extent = -(-extent // (self.nest.lanes * self.width))
            if extent * trips > 2 * STRETCH:
                return j, max(stretch // trips, 1)
            trips *= max(extent, 1)
        return None, 0

    def run(self) -> None:
        outside = self.cut is not None
        state = self._start(outside, self.lanes, self.width)
        state = self._level(0, [[env] for env in self.envs], state)
        for env, chunk in zip(self.envs, self._split(state, outside, self.width), strict=True):
            for k, (c, r) in enumerate(zip(self.combiners, self.results, strict=True)):
                total = self._total(c, chunk[k], outside)
                if self.s.vector is not None:
                    total = c.across(self.b, total)
                self._bind(env, c, r, total, k)

    def _bind(self, env: Env, c: Combiner, r: Accumulator, total: Values, k: int) -> None:
        if self.rest is not None:
            e = self.envs.index(env)
            scalars = self._split(self.rest, False, 1)[e][k]
            total = c.combine(self.b, total, scalars[0])
        if self.in_order[k]:
            total = self._first_of_ties(c, r, total, env)
        if r.init is not None:
            total = self._from(c, r.init, total, env)
        for name, v in zip(r.names, c.lower(self.b, total), strict=True):
            env.define(name, v)

    def _first_of_ties(self, c: Combiner, r: Accumulator, total: Values, env: Env) -> Values:
        """With the first index of all where every element ties with the start."""
        (axis, low, _) = self.s.loops[0]
        first = self.nest.value(r.values[1], env.bind(axis, scalar_index(self.nest, low, env)))
        (best, place), b = total, self.b
        none = b.cmp("icmp eq", place, b.const(no_index(c), place.type.scalar))
        return best, b.select(none, first, place)

    def _from(self, c: Combiner, init: Expr, total: Values, env: Env) -> Values:
        start = c.lift(self.b, tuple(self.nest.all_lifted(init, env)))
        if len(start) < len(total):  # of an argmax the value has a start, the index has none
            return (*c.combine(self.b, start, total[:1]), *total[1:])
        return c.combine(self.b, start, total)

    # State

    def _start(self, outside: bool, lanes: int, width: int) -> list[Value]:
        out: list[Value] = []
        for _ in self.envs:
            for c in self.combiners:
                copies = 2 if outside and c.sums else width
                out += [v for _ in range(copies) for v in c.start(self.b, lanes)]
        return out

    def _split(self, state: list[Value], outside: bool, width: int) -> list[list[list[Values]]]:
        """The flat list as [instance][result][copy]."""
        out, at = [], 0
        for _ in self.envs:
            row = []
            for c in self.combiners:
                copies = 2 if outside and c.sums else width
                size = len(c.types)
                row.append([tuple(state[at + n * size : at + (n + 1) * size])
                            for n in range(copies)])  # fmt: skip
                at += copies * size
            out.append(row)
        return out

    def _flat(self, split: list[list[list[Values]]]) -> list[Value]:
        return [v for row in split for copies in row for state in copies for v in state]

    def _total(self, c: Combiner, copies: list[Values], outside: bool) -> Values:
        if outside and c.sums:
            (total,), (error,) = copies
            both = self.b.bin("fadd", total, error)
            # An infinite total has no error: its difference with itself is NaN.
            return (self.b.select(self.b.cmp("fcmp ord", error, error), both, total),)
        return c.tree(self.b, copies)

    def _enter(self, state: list[Value]) -> list[Value]:
        """From outside a stretch to inside: sums begin at zero, the others go on."""
        split = self._split(state, True, self.width)
        for row in split:
            for k, c in enumerate(self.combiners):
                if c.sums:
                    row[k] = [c.start(self.b, self.lanes)] * self.width
        return self._flat(split)

    def _leave(self, outside: list[Value], inside: list[Value]) -> list[Value]:
        """Adds a stretch's sums to their totals, and the rounding errors to the errors."""
        b = self.b
        before = self._split(outside, True, self.width)
        after = self._split(inside, False, self.width)
        for old, new in zip(before, after, strict=True):
            for k, c in enumerate(self.combiners):
                if not c.sums:
                    old[k] = new[k]
                    continue
                (total,), (error,) = old[k]
                (x,) = c.tree(b, new[k])
                s = b.bin("fadd", total, x)
                shadow = b.bin("fsub", s, total)
                lost = b.bin("fadd", b.bin("fsub", total, b.bin("fsub", s, shadow)),
                             b.bin("fsub", x, shadow))  # fmt: skip
                old[k] = [(s,), (b.bin("fadd", error, lost),)]
        return self._flat(before)

    # Loops

    def _level(self, j: int, groups: list[list[Env]], state: list[Value]) -> list[Value]:
        if j == len(self.s.loops):
            return self._leaf(groups, state, None)
        axis, low, high = self.s.loops[j]
        first = groups[0][0]
        low, high = scalar_index(self.nest, low, first), scalar_index(self.nest, high, first)
        if axis == self.s.vector and self.nest.lanes > 1:
            return self._vector(j, low, high, groups, state)

        def step(i: Value, carried: list[Value]) -> list[Value]:
            inner = [[env.bind(axis, i) for env in copies] for copies in groups]
            return self._level(j + 1, inner, carried)

        if j == self.cut:
            return self._in_stretches(low, high, 1, state, step)
        return self.b.loop(low, high, 1, state, step)

    def _in_stretches(
        self, low: Value, high: Value, step: int, state: list[Value],
        body: Callable[[Value, list[Value]], list[Value]],
    ) -> list[Value]:  # fmt: skip
        b, size = self.b, step * self.stretch
        if low.op == high.op == "const" and high.extra <= low.extra:
            return state

        def stretch(i: Value, carried: list[Value]) -> list[Value]:
            end = b.add(i, b.int(size))
            end = b.select(b.cmp("icmp slt", end, high), end, high)
            return self._leave(carried, b.loop(i, end, step, self._enter(carried), body))

        return b.loop(low, high, size, state, stretch)

    def _vector(
        self, j: int, low: Value, high: Value, groups: list[list[Env]], state: list[Value]
    ) -> list[Value]:
        outer = [env for (env,) in groups]
        harmless = overlap_is_harmless(self.s.stores)
        assert self.s.vector is not None
        for phase in phases(self.nest, self.s.vector, low, high, self.width, harmless):
            body = self._phase_body(j, phase, outer)
            if phase.lanes == 1:
                start = self._start(False, 1, 1)
                self._scalars(j, phase, start, body)
                if j > 0 and self.rest is not None:
                    state = self._absorb(state, self.rest)
                    self.rest = None
            elif j != self.cut:
                state = self.b.loop(phase.low, phase.high, phase.step, state, body)
            elif phase.main:
                state = self._in_stretches(phase.low, phase.high, phase.step, state, body)
            else:
                inside = self._enter(state)
                inside = self.b.loop(phase.low, phase.high, phase.step, inside, body)
                state = self._leave(state, inside)
        return state

    def _scalars(self, j: int, phase: Phase, start: list[Value], body: Any) -> None:
        if phase.low is not phase.high:
            self.rest = self.b.loop(phase.low, phase.high, 1, start, body)

    def _absorb(self, state: list[Value], rest: list[Value]) -> list[Value]:
        """Scalars join lane 0, so that nothing but the state is carried by the loops outside."""
        outside = self.cut is not None and self.cut >= self._vector_level()
        inside = self._enter(state) if outside else state
        split, scalars = self._split(inside, False, self.width), self._split(rest, False, 1)
        for row, one in zip(split, scalars, strict=True):
            for k, c in enumerate(self.combiners):
                lone = tuple(
                    self.b.put("insert", start.type, (x, start), 0)
                    for x, start in zip(one[k][0], c.start(self.b, self.lanes), strict=True)
                )
                row[k][0] = c.combine(self.b, row[k][0], lone)
        return self._leave(state, self._flat(split)) if outside else self._flat(split)

    def _vector_level(self) -> int:
        return next(n for n, (axis, _, _) in enumerate(self.s.loops) if axis == self.s.vector)

    def _phase_body(self, j: int, phase: Phase, outer: list[Env]) -> Any:
        def body(i: Value, carried: list[Value]) -> list[Value]:
            copies, active = phase.instances(i, outer)
            if j + 1 == len(self.s.loops):
                return self._leaf(copies, carried, active)
            if active is None:
                return self._level(j + 1, copies, carried)
            after = self._level(j + 1, copies, carried)
            return [self.b.select(active, a, c) for a, c in zip(after, carried, strict=True)]

        return body

    def _leaf(
        self, groups: list[list[Env]], state: list[Value], active: Value | None
    ) -> list[Value]:
        """One step of every instance: fill scratch, then combine."""
        flat = [env for copies in groups for env in copies]
        ask(self.nest, self.s.asks, flat)
        if self.s.stores:
            self.emit_body(self.nest, self.s.stores, flat)
        width = 1 if flat[0].lanes == 1 and self.lanes > 1 else self.width
        split = self._split(state, False, width)
        for env in flat:
            env.fresh.clear()
        for value in (v for r in self.results for v in r.values):
            self.nest.together(value, flat)
        for row, copies in zip(split, groups, strict=True):
            for k, (c, r) in enumerate(zip(self.combiners, self.results, strict=True)):
                values = [tuple(self.nest.lifted(v, env) for v in r.values) for env in copies]
                step = c.follow if self.in_order[k] else c.combine
                for u, lifted in enumerate(c.lift_all(self.b, values)):
                    old = row[k][u]
                    new = step(self.b, old, lifted)
                    if active is not None:
                        new = tuple(self.b.select(active, n, o)
                                    for n, o in zip(new, old, strict=True))  # fmt: skip
                    row[k][u] = new
        return self._flat(split)


def _grows(s: Fold, r: Accumulator) -> bool:
    """Whether `r` picks an element by an index that grows from step to step of every lane."""
    if len(r.names) != 2 or len(s.loops) != 1 or r.values[1].op != "index":
        return False
    axis = s.loops[0][0]
    return any(a == axis and c > 0 for a, c in r.values[1].extra.terms) and all(
        isinstance(a, str) for a, _ in r.values[1].extra.terms
    )


def _real(nest: Nest, r: Accumulator) -> list[Accumulator]:
    """An accumulator of complex numbers as accumulators of their parts."""
    part = PARTS.get(r.dtypes[0])
    if part is None:
        return [r]
    names, parts = part_names(r.names[0], r.dtypes[0]), tuple(nest.plain(r.values[0]))
    init = None if r.init is None else nest.plain(r.init)
    if r.kind == "sum":
        return [
            Accumulator((n,), "sum", (part,), (v,), None if init is None else init[k])
            for k, (n, v) in enumerate(zip(names, parts, strict=True))
        ]
    if r.kind == "prod":
        return [Accumulator(tuple(names), "prod", (part, part), parts, r.init)]
    raise NotImplementedError(f"a fold of complex numbers by {r.kind}: there are sum and prod")


# Accumulators in memory


def combine_update(nest: Nest, s: Update, envs: list[Env]) -> None:
    """`buffer[index] = combine(buffer[index], value)`; instances that share a place meet first."""
    memory = nest.memory[s.buffer]
    if memory.parts and s.value.dtype in PARTS:
        if s.kind != "sum":
            raise NotImplementedError(f"an update of complex numbers by {s.kind}: there is sum")
        for k, part in enumerate(nest.plain(s.value)):
            combine_update(
                nest, Update(s.buffer, (*s.index, Affine(k)), "sum", part, s.where), envs
            )
        return
    dtype = memory.element.name
    c = Combiner(s.kind, (dtype,))
    if s.where is not None or any(_gathers(i) for i in s.index):
        if all(_apart(nest, s, env) for env in envs):
            _update_apart(nest, s, c, envs)
        else:
            for env in envs:
                _update_serially(nest, s, c, env)
        return
    shared: dict[Any, list[Env]] = {}
    for env in envs:
        shared.setdefault(locate(nest, memory, s.index, env), []).append(env)
    for place, group in shared.items():
        values = [(nest.value(s.value, env),) for env in group]
        total = c.tree(nest.b, c.lift_all(nest.b, values))
        env = group[0]
        if env.lanes > 1 and place.offsets is None and place.step == 0:
            _update_one(nest, s, c, total, env)
        else:
            _write_back(nest, s, c, total, env)


def _write_back(nest: Nest, s: Update, c: Combiner, new: Values, env: Env) -> None:
    env.fresh.clear()
    old = c.lift(nest.b, (load(nest, s.buffer, s.index, env),))
    (value,) = c.lower(nest.b, c.combine(nest.b, old, new))
    store(nest, s.buffer, s.index, value, env, None)


def _update_one(nest: Nest, s: Update, c: Combiner, new: Values, env: Env) -> None:
    """All lanes meet in one element."""
    b = nest.b
    new = tuple(b.splat(v, env.lanes) for v in new)
    if env.mask is not None:
        start = c.start(b, env.lanes)
        new = tuple(b.select(env.mask, v, s) for v, s in zip(new, start, strict=True))
    assert env.vector is not None
    one = env.spread(env.vector, *env.axes[env.vector], 1)
    one.names.update(env.names)
    _write_back(nest, s, c, c.across(b, new), one)


def _apart(nest: Nest, s: Update, env: Env) -> bool:
    """Whether the lanes are sure to update different elements."""
    place = locate(nest, nest.memory[s.buffer], s.index, env)
    return (
        env.lanes > 1 and place.offsets is None and isinstance(place.step, int) and place.step != 0
    )


def _update_apart(nest: Nest, s: Update, c: Combiner, envs: list[Env]) -> None:
    """Instance after instance, each as a whole vector; one test for all that ask the same."""
    wheres = [None if s.where is None else nest.value(s.where, env) for env in envs]
    done = 0
    while done < len(envs):
        where = wheres[done]
        end = next((n for n in range(done, len(envs)) if wheres[n] is not where), len(envs))
        group, done = envs[done:end], end

        def write(group: list[Env] = group, where: Value | None = where) -> list[Value]:
            for env in group:
                inner = env if where is None else env.fork()
                old = c.lift(nest.b, (load(nest, s.buffer, s.index, inner),))
                new = c.lift(nest.b, (nest.value(s.value, inner),))
                (value,) = c.lower(nest.b, c.combine(nest.b, old, new))
                many = where is not None and where.type.lanes > 1
                store(nest, s.buffer, s.index, value, inner, where if many else None)
            return []

        if where is None or where.type.lanes > 1:
            write()
        else:
            nest.b.branch(where, write)


def _update_serially(nest: Nest, s: Update, c: Combiner, env: Env) -> None:
    """Lane after lane: two of them may meet in one element."""
    b = nest.b
    value = nest.lifted(s.value, env)
    where = None if s.where is None else nest.value(s.where, env)
    mask = env.mask
    if where is not None:
        mask = where if mask is None else b.bin("and", mask, where)
    memory = nest.memory[s.buffer]
    place = locate(nest, memory, s.index, env)
    for n, pointer in enumerate(lane_pointers(nest, memory, place, env.lanes)):
        new = c.lift(b, (b.extract(value, n),))

        def write(pointer: Value = pointer, new: Values = new) -> list[Value]:
            old = from_memory(b, read(nest, memory, pointer, 1), memory.element)
            (total,) = c.lower(b, c.combine(b, c.lift(b, (old,)), new))
            write_one(nest, memory, pointer, total)
            return []

        if mask is None:
            write()
        else:
            b.branch(mask if mask.type.lanes == 1 else b.extract(mask, n), write)


def _gathers(index: Any) -> bool:
    return any(isinstance(atom, Data | Quotient) for atom, _ in index.terms)
