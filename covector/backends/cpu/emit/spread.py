"""Which loops of a kernel run on several threads, and what that is worth.

Only loops at the top of a kernel: each becomes a function of a range of its iterations, which
`covector_parallel` calls from the workers.  Results do not depend on who does what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from covector.backends.cpu.emit.address import scalar_index
from covector.backends.cpu.emit.vectorise import index_reads
from covector.compiler.loops.place import COST
from covector.compiler.loops.program import (
    Fold,
    For,
    Kernel,
    Let,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)  # fmt: skip
from covector.compiler.loops.transform import all_statements, expressions
from covector.ir.index import Affine
from covector.ir.scalar import Expr, walk_deep

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest
    from covector.backends.cpu.emit.ssa import Value

#: Picoseconds of work from which a loop is spread: a sleeping worker takes some 50 us to come.
WORTH: Final = 150_000_000
#: Picoseconds an element, on one thread: of a simple operation, a load, a store.
OPERATION, LOAD, STORE = 40, 80, 150
#: How often a loop whose end is not known is taken to go round.
ROUNDS: Final = 16
#: The least elements of a range, where it is not whole rows.
QUANTUM: Final = 256


def loops(kernel: Kernel) -> list[For]:
    """The loops of `kernel` whose iterations may run on several threads."""
    return [s for s in kernel.body if isinstance(s, For) and _splits(kernel, s)]


def _splits(kernel: Kernel, loop: For) -> bool:
    inside = list(all_statements([loop]))
    if not _names_stay(inside) or not _scratch_stays(kernel, loop):
        return False
    if loop.mode == "serial":
        return False
    return loop.mode == "parallel" or _independent(kernel, loop, inside)


def _names_stay(inside: list[Statement]) -> bool:
    made: set[str] = set()
    for s in inside:
        if isinstance(s, Fold):
            made.update(n for r in s.results for n in r.names)
        elif isinstance(s, Scan | Repeat):
            made.update(n for n, _ in s.carries)
        elif isinstance(s, Let):
            made.add(s.name)
    return all(e.extra in made for e in _nodes(inside) if e.op == "name")


def _scratch_stays(kernel: Kernel, loop: For) -> bool:
    scratch = {b.name for b in kernel.buffers.values() if b.home == "scratch"}
    mine = scratch & touched([loop])
    return not mine or not mine & touched([s for s in kernel.body if s is not loop])


def _independent(kernel: Kernel, loop: For, inside: list[Statement]) -> bool:
    """Whether every iteration writes, and of what is written reads, places of its own."""
    places: dict[str, set[object]] = {}
    for s in inside:
        if isinstance(s, Store | Update) and kernel.buffers[s.buffer].home != "scratch":
            own = any([a for a, _ in i.terms] == [loop.axis] for i in s.index)
            if not own:
                return False
            places.setdefault(s.buffer, set()).add(s.index)
    reads = ((e.extra[0], e.extra[1]) for e in _nodes(inside) if e.op == "load")
    return all(places[b] == {index} for b, index in reads if b in places)


def _nodes(inside: list[Statement]) -> Iterator[Expr]:
    for s in inside:
        yield from walk_deep(*expressions(s))


def touched(body: list[Statement]) -> set[str]:
    """The buffers that some statements, and those inside them, read or write."""
    inside = list(all_statements(body))
    found: set[str] = set()
    for s in inside:
        if isinstance(s, Store | Update):
            found.add(s.buffer)
            for i in s.index:
                index_reads(i, found)
    found.update(e.extra[0] for e in _nodes(inside) if e.op == "load")
    return found


# What it is worth


def work(nest: Nest, loop: For, env: Env) -> Value:
    """Picoseconds that one iteration takes, as far as it is known when the kernel is called."""
    value = nest.b.const(0, nest.b.int(0).type)
    return _sum(nest, loop.body, env.bind(loop.axis, nest.b.int(0)), value)


def _sum(nest: Nest, statements: list[Statement], env: Env, total: Value) -> Value:
    b = nest.b
    for s in statements:
        total = b.add(total, b.int(_own(s)))
        bodies = [(s, getattr(s, "body", []))]
        if isinstance(s, Fold):
            inner, trips = env, b.int(1)
            for axis, low, high in s.loops:
                trips = b.mul(trips, _trips(nest, low, high, inner))
                inner = inner.bind(axis, b.int(0))
            once = b.int(sum(_price(e) for r in s.results for e in r.values))
            total = b.add(total, b.mul(trips, _sum(nest, s.stores, inner, once)))
        elif isinstance(s, For | Scan):
            inner = env.bind(s.axis, b.int(0))
            trips = _trips(nest, s.low, s.high, env)
            once = b.int(sum(map(_price, s.next)) if isinstance(s, Scan) else 0)
            total = b.add(total, b.mul(trips, _sum(nest, s.body, inner, once)))
        elif isinstance(s, Repeat):
            once = b.int(sum(map(_price, (s.condition, *s.next))))
            total = b.add(total, b.mul(b.int(ROUNDS), _sum(nest, s.body, env, once)))
        else:
            for _, body in bodies:
                total = _sum(nest, body, env, total)
    return total


def _trips(nest: Nest, low: Affine, high: Affine, env: Env) -> Value:
    return nest.b.sub(scalar_index(nest, high, env), scalar_index(nest, low, env))


def _own(s: Statement) -> int:
    """Of a statement without loops."""
    if isinstance(s, For | Fold | Scan | Repeat):
        return 0
    return sum(map(_price, expressions(s))) + (STORE if isinstance(s, Store | Update) else 0)


def _price(root: Expr) -> int:
    total = 0
    for e in walk_deep(root):
        if e.op == "load":
            total += LOAD
        elif e.args:
            total += OPERATION * COST.get(e.op, 1)
    return total
