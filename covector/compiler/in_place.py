"""Kernels that update in place: one buffer where an operand dies and a result is born."""

from __future__ import annotations

from collections.abc import Sequence

from covector.compiler.loops.address import Accesses
from covector.compiler.loops.graph import Value
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store, Update
from covector.compiler.loops.transform import Rewrite, all_statements, expressions
from covector.ir.scalar import walk_deep


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
            for e in walk_deep(*expressions(s)):
                if (
                    e.op != "load"
                    or e.extra[0] != old
                    or (s is store and e.extra[1] == store.index)
                ):
                    continue
                same_row = fixed and all(e.extra[1][d] == store.index[d] for d in fixed)
                if k >= at or not same_row:
                    return False
    return True


def _touched(body: Sequence[Statement]) -> set[str]:
    return {name for name, _ in Accesses(all_statements(body)).places}


def reordered(kernel: Kernel, arguments: list[Value], out: Value) -> list[Value]:
    """The arguments in the order of the kernel's buffers after `out` became the last 'inout'."""
    homes = [b.home for b in kernel.buffers.values() if b.home != "scratch"]
    rest = iter([a for a in arguments if a is not out])
    last = len(homes) - 1 - homes[::-1].index("inout")
    return [out if k == last else next(rest) for k in range(len(homes))]
