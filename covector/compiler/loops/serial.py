"""Kernels with an order of their own: pushes (writes at computed places) and running reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covector.compiler.loops.costs import COST, product
from covector.compiler.loops.domain import (
    Domain,
    Factor,
    MustBuffer,
    Split,
    domain_of,
)
from covector.compiler.loops.graph import Node, Value
from covector.compiler.loops.lanes import choose_lanes
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.naming import make_kernel
from covector.compiler.loops.program import For, Kernel, Scan, Statement, Store, Update
from covector.compiler.loops.transform import Rewrite
from covector.ir.index import Affine, affine
from covector.ir.scalar import Expr, expr, walk_deep

#: What one write of a push may cost, in additions: beyond it, its arguments come from memory, where
#: kernels with lanes and threads have put them; a push is serial.
PUSH_COST = 48
#: Elements of the updates from which their columns are shared out, and columns of a part, at least.
SHARED, WIDE = 1 << 17, 64

Made = tuple[Kernel, list[Value]]


def lower_push(
    node: Node, in_memory: Callable[[Value], bool]
) -> tuple[Kernel, list[Value], Value | None]:
    """The kernel that writes into the result, which holds the base already; and the base."""
    low, out = Lowering(Domain([], ()), in_memory), node.outs[0]
    low.ask.begin(node, ())
    push = node.op.push(low.ask)
    domain = domain_of(tuple(map(affine, push.extents)), "u")
    low = Lowering(domain, in_memory)
    low.ask.begin(node, ())
    push = node.op.push(low.ask)
    index, value, kind, where = push.body(list(domain.index))
    leaves = [value, *([] if where is None else [where])]
    index = tuple(map(affine, index))
    holder = expr("load", out.dtype, extra=(out, index))
    low.targets[holder] = None
    _resolve_whole(low, [*leaves, holder])
    index = low.done[holder].extra[1]
    value = low.done[value]
    where = None if where is None else low.done[where]
    roots = [low.done[holder], value, *([] if where is None else [where])]
    if sum(COST.get(e.op, 1) for e in walk_deep(*roots)) > PUSH_COST:
        for k, x in enumerate(node.args):
            if k != push.base and isinstance(x, Value) and not in_memory(x):
                raise MustBuffer(x)
    if kind == "set":
        body: list[Statement] = [Store(out, index, value, where)]  # type: ignore[arg-type]
    else:
        body = [Update(out, index, kind, value, where)]  # type: ignore[arg-type]
    for a, lo, h in reversed(_columns_first(domain, body)):
        body = [For(a, lo, h, body)]
    kernel, values = make_kernel(node.op.name, body, [out])
    choose_lanes(kernel)
    base = node.args[push.base]
    if not isinstance(base, Value):
        raise TypeError(f"{node.op}: a push into a literal; broadcast it first")
    return kernel, values, base


def _columns_first(domain: Domain, body: list[Statement]) -> list[tuple[str, Affine, Affine]]:
    """The loops round the one write in `body`, the outermost first.

    Where rows meet in one place, but columns do not, and there is much to do, the outermost is over
    parts of the columns, which threads can share; `body` is rewritten for it.
    """
    loops = list(domain.axes)
    trips = [(high - low).constant or 0 for _, low, high in loops]
    if len(loops) < 2 or product(trips) < SHARED:
        return loops
    (write,) = body
    assert isinstance(write, (Store, Update))
    apart = {i.terms[0][0] for i in write.index if len(i.terms) == 1}
    axis, low, _ = loops[-1]
    parts = next((p for p in range(trips[-1] // WIDE, 1, -1) if trips[-1] % (p * 16) == 0), 1)
    if loops[0][0] in apart or axis not in apart or parts == 1 or low != 0:
        return loops
    width = trips[-1] // parts
    outer = f"{axis}o"
    body[:] = Rewrite({axis: affine(outer) * width + affine(axis)}).statements(body)
    return [(outer, low, Affine(parts)), *loops[:-1], (axis, low, Affine(width))]


def _resolve_whole(low: Lowering, roots: Sequence[Expr]) -> None:
    """Resolve over the uncut domain and without folds: what needs either gets a buffer."""
    try:
        low.resolve(roots)
    except (Split, Factor):
        raise MustBuffer(low.ask.node.outs[0]) from None
    for ref in low.folds:
        raise MustBuffer(ref.node.outs[0])


def lower_cumulate(node: Node, in_memory: Callable[[Value], bool]) -> Made:
    """A serial pass along one axis, inside loops over the others."""
    domain = domain_of(node.out_shapes[0])
    low = Lowering(domain, in_memory)
    low.ask.begin(node, domain.index)
    rule = node.op.cumulate(low.ask)
    axis = f"i{rule.axis}"
    names = [expr("name", e.dtype, extra=f"c{k}") for k, e in enumerate(rule.start)]
    carries, outputs = rule.step(names, list(domain.index))
    _resolve_whole(low, [*rule.start, *carries, *outputs])
    done = low.done
    stores: list[Statement] = [
        Store(v, domain.index, done[e])  # type: ignore[arg-type]
        for v, e in zip(node.outs, outputs, strict=True)
    ]
    bounds = {a: (lo, h) for a, lo, h in domain.axes}
    low_bound, high_bound = bounds.get(axis, (Affine(0), Affine(1)))
    start = [(str(n.extra), done[e]) for n, e in zip(names, rule.start, strict=True)]
    body: list[Statement] = [
        Scan(axis, low_bound, high_bound, start, stores, [done[e] for e in carries], rule.reverse)
    ]
    for a, lo, h in reversed(domain.axes):
        if a != axis:
            body = [For(a, lo, h, body)]
    kernel, values = make_kernel(node.op.name, body)
    return choose_lanes(kernel), values
