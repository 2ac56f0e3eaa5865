"""Gives a finished nest its buffers and canonical names: equal kernels get equal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covector.compiler.loops.domain import Scratch
from covector.compiler.loops.graph import Value
from covector.compiler.loops.program import Buffer, Kernel, Statement, Store, Update
from covector.compiler.loops.transform import Rewrite, all_statements, expressions
from covector.ir.index import Affine, atoms
from covector.ir.scalar import walk_deep


def buffers_in(body: Sequence[Statement]) -> tuple[dict[Any, None], dict[Any, None]]:
    """What the statements (load, store), in order of first appearance."""
    loads: dict[Any, None] = {}
    stores: dict[Any, None] = {}
    roots = []
    for s in all_statements(body):
        roots += expressions(s)
        if isinstance(s, (Store, Update)):
            stores[s.buffer] = None
            roots += [d for i in s.index for d in i.data()]
    for e in walk_deep(*roots):
        if e.op == "load":
            loads[e.extra[0]] = None
    return loads, stores


def make_kernel(
    name: str,
    body: list[Statement],
    in_place: Sequence[Value] = (),
    shapes: dict[Any, tuple[Affine, ...]] | None = None,
) -> tuple[Kernel, list[Value]]:
    """The kernel, and which value is each of its buffers that is not scratch."""
    loads, stores = buffers_in(body)
    buffers: dict[str, Buffer] = {}
    names: dict[Any, str] = {}
    values: list[Value] = []
    groups = [
        ("in", "x", [v for v in loads if isinstance(v, Value) and v not in stores]),
        (
            "inout",
            "z",
            [v for v in stores if v in in_place or (v in loads and isinstance(v, Value))],
        ),
        ("out", "y", [v for v in stores if isinstance(v, Value)]),
        ("scratch", "t", [v for v in (*loads, *stores) if isinstance(v, Scratch)]),
    ]
    for home, letter, members in groups:
        for v in members:
            if v in names:
                continue
            names[v] = label = f"{letter}{sum(n[0] == letter for n in names.values())}"
            value = v.value if isinstance(v, Scratch) else v
            shape = (shapes or {}).get(v, v.shape)
            buffers[label] = Buffer(label, shape, value.dtype, home)
            if isinstance(v, Value):
                values.append(v)
    rename = Rewrite(place=lambda b, i: (names[b], i))
    symbols = {a: None for b in buffers.values() for a in sorted(atoms(b.shape))}
    return Kernel(name, buffers, rename.statements(body), tuple(symbols)), values
