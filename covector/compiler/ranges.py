"""Whether the rounds of a loop without a carry are worth several threads, and in how many ranges.

Estimates of work, from the planned body alone: what is decided holds for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from covector.compiler.loops.costs import COST
from covector.compiler.loops.program import (
    Fold,
    For,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)  # fmt: skip
from covector.compiler.loops.transform import expressions
from covector.compiler.program import Action, Branch, KernelCall, LibraryCall, Loop, Program
from covector.ir.index import Affine
from covector.ir.scalar import walk

#: Picoseconds of work from which threads are worth their start.
WORTH: Final = 150_000_000
#: Picoseconds: of an operation on an element, of its load or store, of starting a step.
OPERATION, MEMORY, STEP = 40, 80, 4000
#: How often a loop whose end is not known is taken to go round.
ROUNDS: Final = 16
#: Fewer rounds, of steps that are spread over threads themselves, are left to these.
FEW: Final = 32
#: The most ranges, and the bytes of scratch memory that all of them may take: rounds are often a
#: way to need little memory.
MOST, SCRATCH = 64, 1 << 23


def ranges(length: int, body: Program) -> int:
    """In how many ranges `length` rounds of `body` are run; 1: one after another, by one thread.

    Each range that runs has scratch memory of its own.
    """
    if length < 2 or _calls_python(body):
        return 1
    if length * work(body) < WORTH or (length < FEW and _largest(body) >= WORTH):
        return 1
    scratch = MOST if not body.arena else max(SCRATCH // body.arena, 1)
    each = -(-length // min(length, MOST, scratch))
    return -(-length // each)


def _calls_python(program: Program) -> bool:
    """Whether it does: the interpreter's lock is held by the thread that waits for the others."""
    calls = any(isinstance(s, LibraryCall) and s.name == "host_call" for s in program.steps)
    return calls or any(map(_calls_python, program.programs))


def _largest(program: Program) -> int:
    """Of the steps that are spread over threads themselves, nested ones too, the most work."""
    found = [0, *map(_largest, program.programs)]
    for step in program.steps:
        looping = isinstance(step, Loop) and step.ranges > 1
        if looping or isinstance(step, KernelCall | LibraryCall):
            found.append(_step(program, step))
    return max(found)


def work(program: Program) -> int:
    """Picoseconds that a run of it takes on one thread, roughly."""
    return sum(_step(program, s) for s in program.steps)


def _step(p: Program, step: Action) -> int:
    if isinstance(step, KernelCall):
        return STEP + _body(p.kernels[step.kernel].body)
    if isinstance(step, LibraryCall):
        # A product of m x k by k x n has three operands, the root of whose sizes is m * k * n.
        sizes = sorted((math.prod(shape) for shape in step.shapes), reverse=True)
        around = sum(_body(p.kernels[f.kernel].body) for f in (*step.leaders, *step.followers))
        return STEP + OPERATION * math.isqrt(math.prod((sizes * 3)[:3])) + around
    if isinstance(step, Loop):
        rounds = ROUNDS if step.length is None else step.length
        tests = 0 if step.condition is None else work(p.programs[step.condition])
        return rounds * (tests + work(p.programs[step.body]))
    if isinstance(step, Branch):
        return max(work(p.programs[k]) for k in step.programs)
    return STEP + MEMORY * math.prod(p.slots[step.source].shape)


def _body(statements: Sequence[Statement]) -> int:
    return sum(map(_statement, statements))


def _statement(s: Any) -> int:
    if isinstance(s, Fold):
        trips = math.prod(_trips(low, high) for _, low, high in s.loops)
        return trips * (_prices(e for r in s.results for e in r.values) + _body(s.stores))
    if isinstance(s, For | Scan):
        following = _prices(s.next) if isinstance(s, Scan) else 0
        return _trips(s.low, s.high) * (following + _body(s.body))
    if isinstance(s, Repeat):
        return ROUNDS * (_prices([s.condition, *s.next]) + _body(s.body))
    stored = MEMORY if isinstance(s, Store | Update) else 0
    return stored + _prices(expressions(s)) + _body(getattr(s, "body", ()))


def _trips(low: Affine, high: Affine) -> int:
    """What depends on the row is taken for one: half a triangle's rows are short."""
    return max(high.const - low.const, 1)


def _prices(roots: Any) -> int:
    total = 0
    for e in walk(*roots):
        if e.op == "load":
            total += MEMORY
        elif e.args:
            total += OPERATION * COST.get(e.op, 1)
    return total
