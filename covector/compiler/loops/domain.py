"""What the planner reasons about: boxes of loop axes, folds and scratch found in them, and the
refusals by which a rule asks for another arrangement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from covector.compiler.loops.graph import Node, Value
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import Expr

#: A loop: axis, low, high.
Loop = tuple[str, Affine, Affine]


class Refusal(Exception):
    """A rule cannot be said over this domain as things are; the planner changes them."""


@final
class MustBuffer(Refusal):
    """(value): it needs memory of its own, filled by an earlier step."""


@final
class Split(Refusal):
    """(axis, at, value): the domain must be cut there, to say what `value` is."""


@final
class Factor(Refusal):
    """(axis, n): the axis must become two, outer * n + inner."""


@final
class Apart(Refusal):
    """(root): it does not fit in the loops of its group."""


@final
class Domain:
    """A box: axes (name, low, high) from the outside in, and the roots' index in terms of them."""

    __slots__ = ("axes", "index")

    def __init__(self, axes: Sequence[tuple[str, Affine, Affine]], index: Sequence[Affine]) -> None:
        self.axes, self.index = list(axes), tuple(index)

    def cut(self, axis: str, at: Affine) -> list[Domain]:
        """The part below `at` and the part from there on."""

        def part(low: Affine | None, high: Affine | None) -> Domain:
            axes = [
                (a, low or lo if a == axis else lo, high or h if a == axis else h)
                for a, lo, h in self.axes
            ]
            return Domain(axes, self.index)

        return [part(None, at), part(at, None)]

    def factor(self, axis: str, n: int) -> Domain:
        """The same box with `axis` as (outer, inner of extent n)."""
        axes = []
        for a, lo, h in self.axes:
            if a == axis:
                axes += [(a + "o", ZERO, Affine(h.const // n)), (a + "i", ZERO, Affine(n))]
            else:
                axes.append((a, lo, h))
        swap = {axis: affine(axis + "o") * n + affine(axis + "i")}
        return Domain(axes, [i.substitute(swap) for i in self.index])


def domain_of(shape: Sequence[Affine], prefix: str = "i") -> Domain:
    """The box of all indices of `shape`; axes of extent 1 need no loop."""
    axes, index = [], []
    for d, n in enumerate(shape):
        if n == 1:
            index.append(ZERO)
        else:
            axes.append((f"{prefix}{d}", ZERO, n))
            index.append(affine(f"{prefix}{d}"))
    return Domain(axes, index)


@final
class FoldRef:
    """A reduction that a rule asked for, at one index: a value with loops of its own.

    `need`: axes its index depends on.  `values`, `init` are unresolved expressions.
    """

    __slots__ = ("dtypes", "index", "init", "kind", "loops", "names", "need", "node", "values")

    def __init__(self, node: Node, index: tuple[Affine, ...], kind: str) -> None:
        self.node, self.index, self.kind = node, index, kind
        self.need: frozenset[str] = frozenset()
        self.loops: tuple[tuple[str, Affine, Affine], ...] = ()
        self.values: tuple[Expr, ...] = ()
        self.dtypes: tuple[str, ...] = ()
        self.init: Expr | None = None
        self.names: tuple[Expr, ...] = ()


@final
class FoldResult:
    """What a 'name' leaf of a fold carries until it gets its printed name."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: FoldRef, number: int) -> None:
        self.ref, self.number = ref, number

    def __str__(self) -> str:
        return f"fold{self.ref.node.position}"


@final
class Scratch:
    """Memory of a kernel for the part of `value` that one iteration of `rows` needs.

    dims: per axis of the value None (fixed within a row) or (base, low, extent): element `i` of
    the axis is kept at `i - base - low`.
    """

    __slots__ = ("base", "dims", "number", "rows", "value")

    def __init__(
        self,
        value: Value,
        rows: frozenset[str],
        base: tuple[Affine, ...],
        dims: tuple[tuple[int, int] | None, ...],
        number: int,
    ) -> None:
        self.value, self.rows, self.base, self.dims = value, rows, base, dims
        self.number = number

    @property
    def shape(self) -> tuple[Affine, ...]:
        """Extents of the axes that are kept."""
        return tuple(Affine(d[1]) for d in self.dims if d is not None)

    def fill_axes(self) -> list[tuple[str, Affine, Affine]]:
        """Loops over all of it."""
        return [(f"s{self.number}_{k}", ZERO, n) for k, n in enumerate(self.shape) if n != 1]

    def fill_position(self) -> tuple[Affine, ...]:
        """Where an iteration of `fill_axes` stores."""
        return tuple(
            ZERO if n == 1 else affine(f"s{self.number}_{k}") for k, n in enumerate(self.shape)
        )

    def fill_index(self) -> tuple[Affine, ...]:
        """The index of the value that an iteration of `fill_axes` stores."""
        return self.index_at(self.fill_position())

    def index_at(self, position: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The index of the value that is kept at `position`."""
        at = iter(position)
        return tuple(
            b if d is None else b + d[0] + next(at)
            for b, d in zip(self.base, self.dims, strict=True)
        )

    def __str__(self) -> str:
        return f"scratch{self.number}"
