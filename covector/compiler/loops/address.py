"""Addresses as one sum of stride * axis: drops divisions that cancel, merges loops that are one.

Both passes may *flatten* a buffer: its index then is its linear address, its shape its size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, final

from covector.compiler.loops.graph import size_of
from covector.compiler.loops.program import (
    Buffer,
    Fold,
    For,
    Kernel,
    Statement,
    Store,
    Update,
)
from covector.compiler.loops.transform import (
    Rewrite,
    all_statements,
    bounds,
    children,
    expressions,
)
from covector.ir.index import ZERO, Affine, Quotient, affine
from covector.ir.scalar import walk_deep

Shape = tuple[Affine, ...]


def strides_of(shape: Shape) -> list[int] | None:
    """Elements between neighbours along each axis of a dense array; None if not all numbers."""
    out, step = [], 1
    for n in reversed(shape):
        if n.terms and len(out) + 1 < len(shape):
            return None
        out.append(step)
        step *= n.const
    return out[::-1]


def linear(index: Sequence[Affine], shape: Shape) -> Affine | None:
    """The address of `index`, with quotients that cancel removed."""
    strides = strides_of(shape)
    if strides is None:
        return None
    total = ZERO
    for i, s in zip(index, strides, strict=True):
        total = total + i * s
    return cancelled(total)


def cancelled(total: Affine) -> Affine:
    """`total` with every `n * (q div n) + (q mod n)` replaced by `q`."""
    while True:
        terms = dict(total.terms)
        for atom, c in total.terms:
            if isinstance(atom, Quotient) and atom.kind == "mod":
                whole = Quotient("div", atom.index, atom.n)
                if terms.get(whole) == c * atom.n:
                    gone = affine(atom) * c + affine(whole) * (c * atom.n)
                    total = total - gone + atom.index * c
                    break
        else:
            return total


def quotients(i: Affine) -> list[Quotient]:
    """The quotients among the atoms of `i`."""
    return [a for a, _ in i.terms if isinstance(a, Quotient)]


@final
class Accesses:
    """Every memory access and every other index expression of some statements."""

    __slots__ = ("indices", "places")

    def __init__(self, body: Iterable[Statement]) -> None:
        places: dict[tuple[Any, tuple[Affine, ...]], None] = {}
        indices: dict[Affine, None] = {}
        roots = []
        for s in body:
            if isinstance(s, (Store, Update)):
                places[s.buffer, s.index] = None
            roots += expressions(s)
            for b in bounds(s):
                indices[b] = None
        for s in [p for _, index in places for p in index]:
            roots += [a.value for a, _ in s.terms if hasattr(a, "value")]
        for e in walk_deep(*roots):
            if e.op == "load":
                places[e.extra] = None
            elif e.op == "index":
                indices[e.extra] = None
        self.places, self.indices = places, indices


def flattenable(body: Sequence[Statement], shapes: dict[Any, Shape]) -> dict[Any, None]:
    """Buffers whose linear addresses have fewer quotients than their indices."""
    out: dict[Any, None] = {}
    for buffer, index in Accesses(all_statements(body)).places:
        if any(quotients(i) for i in index):
            address = linear(index, shapes[buffer])
            if address is not None and len(quotients(address)) < sum(
                map(len, map(quotients, index))
            ):
                out[buffer] = None
    return out


def collapse(kernel: Kernel, flat: Iterable[Any] = ()) -> Kernel:
    """The kernel with loops merged where every address allows it, and the buffers in `flat`
    (and those that a merge needs) flattened."""
    shapes = {n: b.shape for n, b in kernel.buffers.items() if b.strides is None}
    merges: dict[int, dict[str, Affine]] = {}
    extents: dict[int, list[tuple[str, Affine, Affine]]] = {}
    flattened = dict.fromkeys(flat)
    for s in all_statements(kernel.body):
        if isinstance(s, For) and id(s) not in merges:
            chain = [s]
            while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For):
                chain.append(chain[-1].body[0])
            _plan(
                [(f.axis, f.low, f.high) for f in chain], chain, shapes, flattened, merges, extents
            )
        elif isinstance(s, Fold) and len(s.loops) > 1:
            _plan(s.loops, [s], shapes, flattened, merges, extents)
    if not flattened and not any(merges.values()):
        return kernel
    buffers = {n: _flat(b) if n in flattened else b for n, b in kernel.buffers.items()}

    def place(b: Any, index: tuple[Affine, ...]) -> tuple[Any, tuple[Affine, ...]]:
        return (b, (linear(index, shapes[b]),)) if b in flattened else (b, index)  # type: ignore[return-value]

    body = _apply(kernel.body, {}, merges, extents, place)
    return Kernel(kernel.name, buffers, body, kernel.symbols)


def _flat(b: Buffer) -> Buffer:
    size = size_of(b.shape)
    assert size is not None
    return Buffer(b.name, (Affine(size),), b.dtype, b.home)


def _plan(
    loops: Sequence[tuple[str, Affine, Affine]],
    chain: Sequence[Statement],
    shapes: dict[Any, Shape],
    flattened: dict[Any, None],
    merges: dict[int, dict[str, Affine]],
    extents: dict[int, list[tuple[str, Affine, Affine]]],
) -> None:
    """Which neighbours of a chain of loops become one; notes it under the statements' ids."""
    inner = chain[-1]
    subtree = all_statements(children(inner)) if isinstance(inner, For) else all_statements([inner])
    found = Accesses(subtree)
    axes = {a: low for a, low, high in loops if high - low == 1}
    loops = [loop for loop in loops if loop[0] not in axes]
    merged: list[list[tuple[str, Affine, Affine]]] = [[loop] for loop in loops[:1]]
    for outer, loop in itertools.pairwise(loops):
        need = _mergeable(outer, loop, found, shapes)
        if need is None:
            merged.append([loop])
        else:
            merged[-1].append(loop)
            flattened.update(dict.fromkeys(need))
    new: list[tuple[str, Affine, Affine]] = []
    for run in merged:
        name, low, high = run[0]
        for _, _, h in run[1:]:
            high = high * h.const
        new.append((name, low, high))
        if len(run) > 1:
            axes.update({a: ZERO for a, _, _ in run})
            axes[run[-1][0]] = affine(name)
    for s in chain:
        merges[id(s)] = axes
    extents[id(chain[0])] = new


def _mergeable(
    outer: tuple[str, Affine, Affine],
    inner: tuple[str, Affine, Affine],
    found: Accesses,
    shapes: dict[Any, Shape],
) -> list[Any] | None:
    """The buffers to flatten so that two loops become one, or None if they cannot."""
    (a, low_a, _), (b, low_b, high_b) = outer, inner
    if low_a != 0 or low_b != 0 or high_b.terms:
        return None
    n = high_b.const

    def fits(i: Affine) -> bool:
        terms = dict(i.terms)
        return terms.get(a, 0) == n * terms.get(b, 0) and all(fits(q.index) for q in quotients(i))

    if not all(map(fits, found.indices)):
        return None
    need = []
    for buffer, index in found.places:
        if all(map(fits, index)):
            continue
        if buffer not in shapes or not all(fits(q.index) for i in index for q in quotients(i)):
            return None
        address = linear(index, shapes[buffer])
        if address is None or not fits(address):
            return None
        need.append(buffer)
    return need


def _apply(
    body: Sequence[Statement],
    axes: dict[str, Affine],
    merges: dict[int, dict[str, Affine]],
    extents: dict[int, list[tuple[str, Affine, Affine]]],
    place: Any,
) -> list[Statement]:
    out: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            loops, inner = extents[id(s)], s
            while len(inner.body) == 1 and isinstance(inner.body[0], For):
                inner = inner.body[0]
            below = {**axes, **merges[id(s)]}
            mapped = Rewrite(below, place)
            new: list[Statement] = _apply(inner.body, below, merges, extents, place)
            for k, (a, low, high) in reversed(list(enumerate(loops))):
                last = k == len(loops) - 1
                mode, unroll = (inner.mode, inner.unroll) if last else ("serial", 1)
                new = [For(a, mapped.index(low), mapped.index(high), new, mode, unroll)]
            out += new
        elif isinstance(s, Fold):
            below = {**axes, **merges.get(id(s), {})}
            new_fold = Rewrite(below, place).statement(s)
            assert isinstance(new_fold, Fold)
            new_fold.loops = extents.get(id(s), new_fold.loops)
            out.append(new_fold)
        else:
            out.append(_inside(s, axes, merges, extents, place))
    return out


def _inside(s: Statement, axes: Any, merges: Any, extents: Any, place: Any) -> Statement:
    """A statement that is no loop of ours, with the loops inside it applied."""
    new = Rewrite(axes, place).statement(s)
    for name in ("body", "orelse"):
        if hasattr(s, name):
            setattr(new, name, _apply(getattr(s, name), axes, merges, extents, place))
    return new
