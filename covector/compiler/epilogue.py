"""Kernels that run on parts of a product while these are in cache: the product's followers.

A kernel follows a product if it ends in a loop whose rounds each read and write, of the product, of
what earlier followers made and of what it writes, a share of their own: the first round the first,
and so on.  Then any range of its rounds may run as soon as the rows are there, in any order, on
any thread: activations, masks, residuals, casts, but also a softmax or a norm of the rows.  What
it fills scratch memory with before, if that is little, is done again for each range.  No operation
runs otherwise than in steps of its own, so results are the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from covector.compiler.loops.address import Accesses, linear
from covector.compiler.loops.graph import Value
from covector.compiler.loops.partition import Step
from covector.compiler.loops.program import (
    Fold,
    For,
    Kernel,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.compiler.loops.transform import all_statements
from covector.compiler.program import Action, Follower, KernelCall, LibraryCall, Program, Slot
from covector.ir.index import Affine
from covector.ir.op import Library

#: Library routines that can have followers.
PRODUCTS: Final = frozenset({"gemm"})
#: The least shares that a product and its followers fall into, unless each is little work.
SHARES: Final = 16
LITTLE: Final = 1 << 24
#: Steps that a product may be moved past, to be beside what follows it.
NEAR: Final = 4
#: Rounds before its loop that a follower does for each range.
PREPARED: Final = 1024


def attach(program: Program) -> Program:
    """The program, kernels joined to the products that they follow."""
    steps: list[Action] = []
    waiting = iter(program.steps)
    step = next(waiting, None)
    while step is not None:
        follower = next(waiting, None)
        if isinstance(step, LibraryCall) and step.name in PRODUCTS:
            joined = _Joined(program, step)
            while isinstance(follower, KernelCall) and joined.add(follower):
                follower = next(waiting, None)
            step.followers = tuple(joined.followers)
        steps.append(step)
        step = follower
    program.steps = steps
    return program


class _Joined:
    """A product of a planned program, and its followers so far."""

    __slots__ = ("followers", "mine", "program", "size", "touched")

    def __init__(self, program: Program, call: LibraryCall) -> None:
        self.program, self.followers = program, list[Follower]()
        self.touched = {*call.inputs, *call.outputs}
        self.mine = set(call.outputs)
        contract, batch = call.attributes[0]
        self.size = Size(call.shapes, contract, batch)

    def add(self, call: KernelCall) -> bool:
        """Whether the kernel follows; then it is one of the followers."""
        kernel = self.program.kernels[call.kernel]
        if call.symbols or self.mine.isdisjoint(call.slots):
            return False
        names = given_to(kernel)
        mine = {n for n, s in zip(names, call.slots, strict=True) if s in self.mine}
        trips = rounds(kernel, mine)
        size = self.size if trips is None else self.size.shared(trips)
        if size is None or trips is None:
            return False
        slots = self.program.slots
        written = {s for n, s in zip(names, call.slots, strict=True) if n in written_by(kernel)}
        for w in written:
            for t in self.touched:
                if w == t and w in self.mine:
                    continue
                if w == t or overlap(slots[w], slots[t]):
                    return False
        self.size = size
        self.mine |= written
        self.touched.update(call.slots)
        self.followers.append(Follower(call.kernel, call.slots, trips))
        return True


class Size:
    """How a product falls into shares: so many rows in all, and so many as one share has."""

    __slots__ = ("m", "share", "total", "work")

    def __init__(
        self, shapes: Sequence[Sequence[int]], contract: Sequence[Any], batch: Sequence[Any]
    ) -> None:
        x, _, out = shapes
        rows = [n for d, n in enumerate(x) if d not in contract[0]]
        self.total = math.prod(rows)
        self.m = self.total // max(math.prod(x[d] for d in batch[0]), 1)
        depth = math.prod(x[d] for d in contract[0])
        self.work = 2 * math.prod(out) * depth // max(self.total, 1)  # of a row
        self.share = 1

    def shared(self, trips: int) -> Size | None:
        """As shares that are whole rounds too, of `trips`; None if these are too few or uneven."""
        total = self.total
        if not total or not trips or (total % trips and trips % total):
            return None
        share = math.lcm(self.share, max(total // trips, 1))
        if self.m % share or (total // share < SHARES and share * self.work > LITTLE):
            return None
        new = object.__new__(Size)
        new.total, new.m, new.work, new.share = total, self.m, self.work, share
        return new


def rounds(kernel: Kernel, mine: Iterable[str]) -> int | None:
    """How many rounds the last loop of a kernel has, whose shares are their own; None: no such
    loop, or much work before it.

    mine: its buffers that the product or earlier followers make.
    """
    if kernel.symbols or not kernel.body:
        return None
    *before, loop = kernel.body
    if not isinstance(loop, For) or loop.mode not in ("parallel", "vector"):
        return None
    if loop.low != 0 or loop.high.constant is None:
        return None
    trips = loop.high.const
    box = _box(loop.body)
    shared = {n for n in (*mine, *written_by(kernel)) if kernel.buffers[n].home != "scratch"}
    if before and not _prepares(before, shared):
        return None
    for name, index in Accesses(all_statements([loop])).places:
        buffer = kernel.buffers[name]
        if name not in shared:
            continue
        address = None if buffer.strides is not None else linear(index, buffer.shape)
        if address is None or not _own(address, loop.axis, trips, box, buffer.shape):
            return None
    return trips


def _prepares(before: Sequence[Statement], shared: set[str]) -> bool:
    """Whether statements fill scratch memory alone, in few rounds."""
    if any(name in shared for name, _ in Accesses(all_statements(before)).places):
        return False
    total = 0
    for s in before:
        if not isinstance(s, For | Fold):
            return False
        inner = _box([s])
        total += math.prod(high - low for low, high in inner.values())
        loops = [x for x in all_statements([s]) if isinstance(x, For | Fold | Scan | Repeat)]
        if sum(len(x.loops) if isinstance(x, Fold) else 1 for x in loops) != len(inner):
            return False  # some loop's rounds are not known
    return total <= PREPARED


def _own(address: Affine, axis: str, trips: int, box: Any, shape: tuple[Affine, ...]) -> bool:
    """Whether a round of the loop over `axis` stays in its share of the buffer."""
    size = math.prod(n.const for n in shape)
    if any(n.terms for n in shape) or size % trips:
        return False
    share = size // trips
    rest = address - Affine(0, ((axis, share),))
    if any(not isinstance(a, str) or a not in box for a, _ in rest.terms):
        return False
    least, most = rest.over(box)
    return not least.terms and not most.terms and least.const >= 0 and most.const < share


def _box(body: Sequence[Statement]) -> dict[str, tuple[int, int]]:
    """The bounds of all loops of which they are numbers; the widest, where a name is used again."""
    found: dict[str, tuple[int, int]] = {}
    dropped: set[str] = set()
    for s in all_statements(body):
        loops = s.loops if isinstance(s, Fold) else ()
        if isinstance(s, For | Scan):
            loops = ((s.axis, s.low, s.high),)
        for axis, low, high in loops:
            if low.terms or high.terms:
                dropped.add(axis)
                continue
            old = found.get(axis, (low.const, high.const))
            found[axis] = (min(old[0], low.const), max(old[1], high.const))
    return {a: ends for a, ends in found.items() if a not in dropped}


def given_to(kernel: Kernel) -> list[str]:
    """The names of its buffers that callers give, in order."""
    return [n for n, b in kernel.buffers.items() if b.home != "scratch"]


def written_by(kernel: Kernel) -> set[str]:
    """The names of those that it writes."""
    return {s.buffer for s in all_statements(kernel.body) if isinstance(s, Store | Update)}


def overlap(x: Slot, y: Slot) -> bool:
    """Whether two slots share memory of the arena."""
    if x.home != "temp" or y.home != "temp" or not x.nbytes or not y.nbytes:
        return False
    first, second = x.offset or 0, y.offset or 0
    return first < second + y.nbytes and second < first + x.nbytes


# Before memory is planned


def beside(steps: Sequence[Step]) -> list[Step]:
    """The steps, each product moved to right before the first step that loads its result, if that
    is not far away: what the product is made of lives so long."""
    home: dict[Value, Value] = {}
    users: dict[Value, Step] = {}
    products: dict[Value, Step] = {}
    for step in steps:
        if step.alias is not None:
            home[step.makes[0]] = home.get(step.alias, step.alias)
        elif library_of(step) is not None:
            products[step.makes[0]] = step
        for v in step.loads if step.alias is None else ():
            root = home.get(v, v)
            if root in products and step.kernel is not None and step.base is None:
                users.setdefault(root, step)
            else:
                users.setdefault(root, products.get(root, step))
    before: dict[Step, list[Step]] = {}
    at = {step: n for n, step in enumerate(s for s in steps if s.alias is None)}
    for root, product in products.items():
        user = users.get(root)
        if user is not None and user is not product and at[user] - at[product] <= NEAR:
            before.setdefault(user, []).append(product)
    moved = {p for several in before.values() for p in several}
    out: list[Step] = []
    for step in steps:
        out += [] if step in moved else [*before.get(step, ()), step]
    return out


def library_of(step: Step) -> Library | None:
    """The routine of a step that can have followers."""
    library = None if step.node is None or step.kernel is not None else step.node.library
    return None if library is None or library.name not in PRODUCTS else library


def held(steps: Sequence[Step]) -> dict[Step, list[Value]]:
    """For kernels that may follow a product: the values that are read until they end, so that
    nothing that they write may lie in their place.  They are loads of those steps from here on."""
    out = following(steps)
    for step, values in out.items():
        step.loads += [v for v in values if v not in step.loads]
    return out


def following(steps: Sequence[Step]) -> dict[Step, list[Value]]:
    """Kernels that may follow a product, each with what the product and followers before it read
    but did not make."""
    home: dict[Value, Value] = {}
    out: dict[Step, list[Value]] = {}
    made_by: Step | None = None
    mine: set[Value] = set()
    size: Size | None = None
    before: list[Value] = []
    for step in steps:
        if step.alias is not None:
            home[step.makes[0]] = home.get(step.alias, step.alias)
            continue
        library = library_of(step)
        if library is not None:
            made_by, mine, before = step, set(step.makes), list(step.loads)
            shapes = [[n.const for n in v.shape] for v in (*step.arguments, *step.makes)]
            size = Size(shapes, *library.attributes[0])
            continue
        followed = None
        if made_by is not None and step.kernel is not None and step.base is None:
            followed = _follows(step, home, mine, size)
        if followed is None:
            made_by = None
            continue
        size = followed
        out[step] = [v for v in before if home.get(v, v) not in mine]
        before += step.loads
        mine |= set(step.makes)
    return out


def _follows(
    step: Step, home: dict[Value, Value], mine: set[Value], size: Size | None
) -> Size | None:
    kernel = step.kernel
    assert kernel is not None
    roots = [home.get(v, v) for v in step.arguments]
    if size is None or mine.isdisjoint(roots):
        return None
    names = {n for n, v in zip(given_to(kernel), roots, strict=True) if v in mine}
    trips = rounds(kernel, names)
    return None if trips is None else size.shared(trips)
