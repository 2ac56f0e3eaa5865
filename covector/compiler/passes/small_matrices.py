"""Small linear algebra: operations on a batch of small matrices, and what stands between and around
them, become one `small_matrices`, which is one kernel without a call of LAPACK."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from covector.compiler.libraries import LARGEST_SMALL, chosen, is_small
from covector.compiler.loops.graph import native_rule
from covector.compiler.loops.matrices import SmallMatrices
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ops.families import Pointwise

#: Multiplications for one example in one group, at most: the time to compile grows with them.
MOST: Final = 2048
#: Equations behind a group's last one among which another member is looked for.
WINDOW: Final = 200


def small_matrices(jaxpr: Jaxpr) -> Jaxpr:
    """The program with such groups as one equation each."""
    if not any(_is_seed(e) for e in jaxpr.eqns):
        return jaxpr
    uses = Counter(v for e in jaxpr.eqns for v in e.invars if isinstance(v, Var))
    uses.update(v for v in jaxpr.outvars if isinstance(v, Var))
    eqns = list(jaxpr.eqns)
    k = 0
    while k < len(eqns):
        if _is_seed(eqns[k]):
            group = _Group(eqns, k, uses)
            group.grow()
            k = group.replace()
        else:
            k += 1
    return jaxpr.replace(eqns=eqns)


def _is_seed(eqn: Equation) -> bool:
    return is_small(eqn.op, [v.aval for v in eqn.invars])


@final
class _Group:
    """Equations that become one: from equation `first` on, all over the same batch."""

    __slots__ = ("batch", "eqns", "first", "inside", "left", "made", "size", "uses")

    def __init__(self, eqns: list[Equation], first: int, uses: Counter[Var]) -> None:
        self.eqns, self.first, self.uses = eqns, first, uses
        self.batch: tuple[int, ...] = eqns[first].invars[0].aval.shape[:-2]
        self.inside: dict[int, Equation] = {}
        self.made: set[Any] = set()
        self.size = 0
        #: how often its values are used by equations not looked at yet
        self.left = 0
        self._add(first)

    def _add(self, k: int) -> None:
        eqn = self.eqns[k]
        self.inside[k] = eqn
        self.size += self._work(eqn)
        for v in eqn.outvars:
            if isinstance(v, Var):
                self.made.add(v)
                self.left += self.uses[v]

    def _work(self, eqn: Equation) -> int:
        """About how many multiplications, or as costly operations, it is for one example."""
        depth = len(self.batch)
        elements = [math.prod(v.aval.shape[depth:]) for v in (*eqn.outvars, *eqn.invars)]
        if _is_seed(eqn):
            return max(elements) * min(eqn.invars[0].aval.shape[-2:])
        if eqn.op.name == "dot_general":
            (contracted, _), _ = eqn.op.params["dimension_numbers"]
            return elements[0] * math.prod(eqn.invars[0].aval.shape[d] for d in contracted)
        return max(elements)

    def grow(self) -> None:
        """Take in what uses the group's values, then what only the group uses."""
        outside: set[Any] = set()  # depends on the group without being of it
        last = self.first
        for k in range(self.first + 1, len(self.eqns)):
            eqn = self.eqns[k]
            mine = sum(v in self.made for v in eqn.invars if isinstance(v, Var))
            self.left -= mine
            late = any(v in outside for v in eqn.invars if isinstance(v, Var))
            if eqn.effects or not self.left + mine or k - last > WINDOW:
                break  # effects keep their order
            if mine and not late and self._fits(eqn):
                self._add(k)
                last = k
            elif mine or late:
                outside.update(eqn.outvars)
        self._take_sources()

    def _take_sources(self) -> None:
        inner = Counter(v for e in self.inside.values() for v in e.invars if isinstance(v, Var))
        for k in range(max(self.inside) - 1, max(self.first - WINDOW, 0) - 1, -1):
            eqn = self.eqns[k]
            outs = [v for v in eqn.outvars if isinstance(v, Var)]
            if k in self.inside or eqn.effects or not any(inner[v] for v in outs):
                continue
            if all(inner[v] == self.uses[v] for v in outs) and self._fits(eqn):
                self._add(k)
                inner.update(v for v in eqn.invars if isinstance(v, Var))

    def _fits(self, eqn: Equation) -> bool:
        """Whether the equation speaks of each example by itself, and of few elements."""
        depth = len(self.batch)
        shapes = [v.aval.shape for v in eqn.outvars]
        if any(s[:depth] != self.batch for s in shapes) or self.size + self._work(eqn) > MOST:
            return False
        if any(n > LARGEST_SMALL for s in shapes for n in s[depth:]) or any(0 in s for s in shapes):
            return False
        if _is_seed(eqn):
            return eqn.invars[0].aval.shape[:-2] == self.batch
        avals = [v.aval for v in eqn.invars]
        if native_rule(eqn.op) != "kernel" or chosen(eqn.op, avals) is not None:
            return False
        if isinstance(eqn.op, Pointwise):
            return all(s[:depth] == self.batch for s in (a.shape for a in avals) if s)
        rule = _ALONG.get(eqn.op.name)
        return rule is not None and rule(eqn.op, [a.shape for a in avals], shapes[0], depth)

    def replace(self) -> int:
        """Put the group as one equation behind all that it needs; the position from which on there
        may be others."""
        order = sorted(self.inside)
        members = [self.inside[k] for k in order]
        inner = Counter(v for e in members for v in e.invars if isinstance(v, Var))
        outs = [v for e in members for v in e.outvars
                if isinstance(v, Var) and self.uses[v] > inner[v]]  # fmt: skip
        free = dict.fromkeys(
            v for e in members for v in e.invars if isinstance(v, Var) and v not in self.made
        )
        body = ClosedJaxpr(Jaxpr([], list(free), outs, members))
        like = self.eqns[self.first]
        whole = Equation(
            SmallMatrices(body, self.batch), list(free), list(outs), like.source, like.scope
        )
        before: list[Equation] = []
        after: list[Equation] = []
        late = set(outs)
        for k in range(order[0], order[-1] + 1):
            eqn = self.eqns[k]
            if k in self.inside:
                continue
            if any(v in late for v in eqn.invars if isinstance(v, Var)):
                late.update(v for v in eqn.outvars if isinstance(v, Var))
                after.append(eqn)
            else:
                before.append(eqn)
        self.eqns[order[0] : order[-1] + 1] = [*before, whole, *after]
        return order[0]


# Which operations keep to one example: by name, `rule(op, shapes of arguments, shape of result,
# number of batch axes)`

Shape = tuple[int, ...]


def _broadcast(op: Any, shapes: Sequence[Shape], out: Shape, depth: int) -> bool:
    """Of each example; or of what has no batch, as no value of the group."""
    if shapes[0][:depth] != out[:depth]:
        return True
    return op.broadcast_dimensions[:depth] == tuple(range(depth))


def _product(op: Any, shapes: Sequence[Shape], out: Shape, depth: int) -> bool:
    (contracted, _), batch = op.dimension_numbers
    first = tuple(range(depth))
    if any(axes[:depth] != first for axes in batch):
        return False
    return math.prod(shapes[0][d] for d in contracted) <= LARGEST_SMALL


def _reduction(op: Any, shapes: Sequence[Shape], out: Shape, depth: int) -> bool:
    count = math.prod(shapes[0][d] for d in op.axes)
    return all(d >= depth for d in op.axes) and 0 < count <= LARGEST_SMALL**2


_ALONG: Final[dict[str, Callable[[Any, Sequence[Shape], Shape, int], bool]]] = {
    "broadcast_in_dim": _broadcast,
    "transpose": lambda op, shapes, out, depth: op.permutation[:depth] == tuple(range(depth)),
    "squeeze": lambda op, shapes, out, depth: all(d >= depth for d in op.dimensions),
    "reshape": lambda op, shapes, out, depth: shapes[0][:depth] == out[:depth],
    "slice": lambda op, shapes, out, depth: shapes[0][:depth] == out[:depth],
    "rev": lambda op, shapes, out, depth: all(d >= depth for d in op.dimensions),
    "concatenate": lambda op, shapes, out, depth: op.dimension >= depth,
    "iota": lambda op, shapes, out, depth: op.dimension >= depth,
    "dot_general": _product,
    **dict.fromkeys(
        ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"),
        _reduction,
    ),
}
