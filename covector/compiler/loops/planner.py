"""From a group of values to one kernel: the domain is cut and factored until the rules can be
said over each part; each part becomes a nest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from covector.compiler.loops.address import (
    Accesses,
    collapse,
    flattenable,
    linear,
    quotients,
)
from covector.compiler.loops.domain import Apart, Domain, Factor, MustBuffer, Split, domain_of
from covector.compiler.loops.graph import Value
from covector.compiler.loops.lanes import choose_lanes, crowded
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.naming import make_kernel
from covector.compiler.loops.place import costs, settle
from covector.compiler.loops.program import Kernel, Statement
from covector.compiler.loops.schedule import Scheduler
from covector.compiler.loops.transform import all_statements
from covector.ir.index import ZERO, Affine, Quotient, affine

#: Parts of one kernel (each is code of its own) before what causes them gets memory instead.
CUTS = 10
#: Cuts and factorings of one kernel before the planner gives up.
ATTEMPTS = 200


@final
class Group:
    """Values stored by one kernel: `roots`, the first of which has the whole domain."""

    __slots__ = ("inlined", "roots")

    def __init__(self, roots: Sequence[Value]) -> None:
        self.roots = list(roots)
        #: Cost of computing each value that the kernel recomputes.
        self.inlined: dict[Value, int] = {}


def root_index(root: Value, first: Value, domain: Domain) -> tuple[Affine, ...]:
    """The index of `root` in the loops of `first`: the leading axes; raises Apart."""
    index = []
    for d, n in enumerate(root.shape):
        if n == 1:
            index.append(ZERO)
        elif d < len(first.shape) and first.shape[d] == n:
            index.append(domain.index[d])
        else:
            raise Apart(root)
    return tuple(index)


def lower_group(
    group: Group, in_memory: Callable[[Value], bool], name: str, recompute: bool = False
) -> tuple[Kernel, list[Value]]:
    """The kernel that stores `group.roots`.  Raises MustBuffer and Apart."""
    first = group.roots[0]
    work = [domain_of(first.shape)]
    body: list[Statement] = []
    factors: dict[str, int] = {}
    cuts = 0
    flat: dict[Value, None] = {}
    group.inlined = {}
    for _ in range(ATTEMPTS):
        if not work:
            break
        domain = work.pop(0)
        low = Lowering(domain, in_memory, factors, recompute)
        roots = [(r, root_index(r, first, domain)) for r in group.roots]
        try:
            settled = settle(roots, low)
            nest = Scheduler(low, settled.finals, f"_{len(body)}" if body else "").run()
            absorb = flattenable(nest, _shapes(nest))
            _factor_rest(nest, absorb, low)
        except Split as s:
            axis, at, value = s.args
            cuts += 1
            if cuts > CUTS and value not in group.roots:
                raise MustBuffer(value) from None
            work[:0] = domain.cut(axis, at)
            continue
        except Factor as f:
            axis, n = f.args
            if axis in low.own:
                domain = domain.factor(axis, n)
            else:
                factors[axis] = n
            work.insert(0, domain)
            continue
        body += nest
        flat |= absorb
        factors = {}
        cost = costs(low)
        for leaf, target in low.targets.items():
            value = leaf.extra[0]
            if target is not None and value not in group.roots:
                group.inlined[value] = max(group.inlined.get(value, 0), cost.get(leaf, 0))
    else:
        for v in (v for r in group.roots if r.node is not None for v in r.node.args):
            if isinstance(v, Value) and v.node is not None and not in_memory(v):
                raise MustBuffer(v)  # what has no end here may be easy in kernels of its own
        raise RecursionError(
            f"the planner cut {group.roots} into more than {ATTEMPTS} pieces without an end"
        )
    kernel, values = make_kernel(name, body)
    names = dict(
        zip(values, (n for n, b in kernel.buffers.items() if b.home != "scratch"), strict=True)
    )
    kernel = collapse(kernel, [names[v] for v in flat if v in names])  # not scratch
    if not recompute and crowded(kernel):
        return lower_group(group, in_memory, name, recompute=True)
    return choose_lanes(kernel), values


def _shapes(nest: Sequence[Statement]) -> dict[Any, tuple[Affine, ...]]:
    return {b: b.shape for b, _ in Accesses(all_statements(nest)).places}


def _factor_rest(nest: Sequence[Statement], flat: dict[Any, None], low: Lowering) -> None:
    """Raise Factor for an axis that would remove a quotient which no address absorbs."""
    found = Accesses(all_statements(nest))
    left = list(found.indices)
    for buffer, index in found.places:
        address = linear(index, buffer.shape) if buffer in flat else None
        left += index if address is None else [address]
    for i in left:
        for q in quotients(i):
            _factor_for(q, low)


def _factor_for(q: Quotient, low: Lowering) -> None:
    for inner in quotients(q.index):
        _factor_for(inner, low)
    for atom, c in q.index.terms:
        if not isinstance(atom, str) or c < 1 or q.n % c or atom not in low.box:
            continue
        least, most = low.range_of(q.index - affine(atom) * c)
        start, end = low.box[atom]
        m, n = q.n // c, (end - start).constant
        even = start == 0 and n and n % m == 0 and 1 < m < n
        known = not least.terms and not most.terms
        if even and known and ((least.const >= 0 and most.const < c) or c % q.n == 0):
            raise Factor(atom, m)
