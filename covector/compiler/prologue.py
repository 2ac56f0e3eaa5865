"""Kernels that make the left operand of a product block by block, just before it is multiplied.

A kernel leads a product if it ends in a loop whose rounds each write a share of their own of the
operand, whose rows are the product's: casts, scales, masks, activations, norms, gathers of rows.
Then a block of rows is made when it is needed, once, by the thread that multiplies it; where nobody
else reads the operand, in memory that the next block uses again.  As in `epilogue`, kernels are
found on the planned program and run as in steps of their own, so results are the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from covector.compiler.epilogue import (
    NEAR,
    PRODUCTS,
    Size,
    following,
    given_to,
    library_of,
    overlap,
    rounds,
    written_by,
)
from covector.compiler.loops.graph import Value
from covector.compiler.loops.partition import Step
from covector.compiler.loops.program import Kernel, Update
from covector.compiler.loops.transform import all_statements, expressions
from covector.compiler.program import (
    Action,
    Branch,
    Copy,
    KernelCall,
    Leader,
    LibraryCall,
    Program,
)
from covector.ir.scalar import walk_deep

# Before memory is planned


def ahead(steps: Sequence[Step]) -> list[Step]:
    """The steps, each kernel that may lead a product moved to right before it, if that is not far
    away.  What it reads is a load of the product from here on: nothing may lie in its place."""
    home: dict[Value, Value] = {}
    for step in steps:
        if step.alias is not None:
            home[step.makes[0]] = home.get(step.alias, step.alias)
    run = [s for s in steps if s.alias is None]
    at = {s: n for n, s in enumerate(run)}
    maker = {v: s for s in run for v in s.makes}
    taken = set(following(steps))
    before: dict[Step, Step] = {}
    for step in run:
        if library_of(step) is None:
            continue
        left, *others = [home.get(v, v) for v in step.arguments]
        leader = maker.get(left)
        if leader is None or leader in taken or left in others or not _may_lead(leader, step, left):
            continue
        between = run[at[leader] + 1 : at[step]]
        loaded = {home.get(v, v) for s in between for v in s.loads}
        if len(between) > NEAR or not loaded.isdisjoint(leader.makes):
            continue
        if not set(leader.makes).isdisjoint(others):
            continue
        before[step] = leader
        taken.add(leader)
        step.loads += [v for v in leader.loads if v not in step.loads]
    moved = set(before.values())
    out: list[Step] = []
    for step in steps:
        if step in before:
            out.append(before[step])
        if step not in moved:
            out.append(step)
    return out


def _may_lead(leader: Step, step: Step, left: Value) -> bool:
    kernel, library = leader.kernel, library_of(step)
    if kernel is None or leader.base is not None or library is None:
        return False
    shapes = [[n.const for n in v.shape] for v in (*step.arguments, *step.makes)]
    if left.size != step.arguments[0].size or not _rows_first(shapes[0], *library.attributes[0]):
        return False
    trips = rounds(kernel, ())
    return trips is not None and Size(shapes, *library.attributes[0]).shared(trips) is not None


def _rows_first(shape: Sequence[int], contract: Sequence[Any], batch: Sequence[Any]) -> bool:
    """Whether the operand's axes are those of the batch, of the rows, of the sums."""
    count, last = len(batch[0]), len(shape) - len(contract[0])
    return tuple(batch[0]) == tuple(range(count)) and min(contract[0], default=last) >= last


# On the planned program


def lead(program: Program) -> Program:
    """The program, kernels joined to the products that they lead."""
    uses: Counter[int | None] = Counter(program.outputs)
    for step in program.steps:
        uses.update(set(_slots(step)))
    steps: list[Action] = []
    for step in program.steps:
        before = steps[-1] if steps else None
        if isinstance(step, LibraryCall) and isinstance(before, KernelCall):
            leader = _leader(program, before, step, uses)
            if leader is not None:
                steps.pop()
                step.leaders = (leader,)
        steps.append(step)
    program.steps = steps
    return program


def _leader(
    program: Program, call: KernelCall, step: LibraryCall, uses: Counter[int | None]
) -> Leader | None:
    """The kernel as what leads the product, or None."""
    kernel, slots = program.kernels[call.kernel], program.slots
    left, *others = step.inputs
    names = dict(zip(call.slots, given_to(kernel), strict=True))
    made = {s for s, n in names.items() if n in written_by(kernel)}
    if step.name not in PRODUCTS or call.symbols or left not in made:
        return None
    if len(names) < len(call.slots) or made & {*others} or not _apart(program, step, made):
        return None
    contract, batch = step.attributes[0]
    trips = rounds(kernel, ())
    if trips is None or not _rows_first(step.shapes[0], contract, batch):
        return None
    result = {*step.outputs, *_changed(program, step)}
    if any(s == r or overlap(slots[s], slots[r]) for s in call.slots for r in result):
        return None
    if Size(step.shapes, contract, batch).shared(trips) is None:
        return None
    alone = uses[left] == 2 and all(left not in f.slots for f in step.followers)
    own = alone and slots[left].home == "temp" and _only_stored(kernel, names[left])
    return Leader(call.kernel, call.slots, trips, own)


def _apart(program: Program, step: LibraryCall, made: set[int]) -> bool:
    """Whether followers read of these slots, at most, the rows that are there when they run."""
    for f in step.followers:
        kernel = program.kernels[f.kernel]
        names = {n for n, s in zip(given_to(kernel), f.slots, strict=True) if s in made}
        if names and rounds(kernel, names) != f.trips:
            return False
    return True


def _changed(program: Program, step: LibraryCall) -> set[int]:
    """Slots that followers write."""
    found: set[int] = set()
    for f in step.followers:
        kernel = program.kernels[f.kernel]
        names = zip(given_to(kernel), f.slots, strict=True)
        found.update(s for n, s in names if n in written_by(kernel))
    return found


def _only_stored(kernel: Kernel, name: str) -> bool:
    """Whether a buffer is written and never read."""
    statements = list(all_statements(kernel.body))
    if any(isinstance(s, Update) and s.buffer == name for s in statements):
        return False
    roots = [e for s in statements for e in expressions(s)]
    return all(e.op != "load" or e.extra[0] != name for e in walk_deep(*roots))


def _slots(step: Action) -> Iterator[int | None]:
    """The slots that a step uses, some more than once."""
    if isinstance(step, KernelCall):
        yield from step.slots
    elif isinstance(step, LibraryCall):
        yield from (*step.inputs, *step.outputs)
        for f in (*step.leaders, *step.followers):
            yield from f.slots
    elif isinstance(step, Copy):
        yield from (step.source, step.target)
    elif isinstance(step, Branch):
        yield from (step.index, *step.inputs, *step.outputs, step.arena)
    else:
        yield from (*step.condition_consts, *step.body_consts, *step.carry, *step.spare)
        yield from (*step.xs, *step.ys, step.arena, step.flag)
