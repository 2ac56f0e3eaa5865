"""Control flow: how the operands of an op of nested programs are laid out, and its nested programs.

Field names are those of the ops: `while` has cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts;
`scan` has jaxpr, length, reverse, num_consts, num_carry; `cond` has branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from covector.compiler.loops.graph import CONTROL
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Op

__all__ = ["CONTROL", "Layout", "hoist", "layout", "nested"]


@final
class Layout:
    """The operands of one control equation, by role (positions among its operands).

    consts: for each nested program, the operands that it reads and that stay as they are.
    carry: initial values.  xs: arrays that are read a row an iteration.  index: chooses a branch.
    """

    __slots__ = ("carry", "consts", "index", "xs")

    def __init__(
        self,
        consts: Sequence[Sequence[int]],
        carry: Sequence[int] = (),
        xs: Sequence[int] = (),
        index: int | None = None,
    ) -> None:
        self.consts = [list(c) for c in consts]
        self.carry, self.xs, self.index = list(carry), list(xs), index


def nested(op: Op) -> list[ClosedJaxpr]:
    """The programs of `op`: condition and body, body, or branches."""
    if op.name == "while":
        return [op.params["cond_jaxpr"], op.params["body_jaxpr"]]
    return [op.params["jaxpr"]] if op.name == "scan" else list(op.params["branches"])


def layout(op: Op, count: int) -> Layout:
    """The roles of the `count` operands of `op`."""
    p = op.params
    if op.name == "while":
        a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        return Layout([range(a), range(a, b)], range(b, count))
    if op.name == "scan":
        a, b = p["num_consts"], p["num_consts"] + p["num_carry"]
        return Layout([range(a)], range(a, b), range(b, count))
    return Layout([range(1, count)] * len(p["branches"]), index=0)


def hoist(
    eqn: Equation, programs: Sequence[ClosedJaxpr], constant: Callable[[Any, Any], Var]
) -> Equation:
    """The equation with these programs in place of its own, their constants as operands.

    constant(array, aval): the outer program's variable for a captured array.
    """
    roles = layout(eqn.op, len(eqn.invars))
    added: list[list[Atom]] = []
    opened: list[ClosedJaxpr] = []
    for closed in programs:
        inner = closed.jaxpr
        added.append(
            [constant(c, v.aval) for c, v in zip(closed.consts, inner.constvars, strict=True)]
        )
        opened.append(ClosedJaxpr(inner, []) if not inner.constvars else closed)
    if not any(added):
        return eqn.replace(op=_replaced(eqn.op, opened, [0] * len(opened)))
    if eqn.op.name == "cond":  # every branch takes every constant
        everything = [a for some in added for a in some]
        start = 0
        for k, closed in enumerate(opened):
            opened[k] = _widened(closed, everything, start)
            start += len(added[k])
        invars = [eqn.invars[0], *everything, *eqn.invars[1:]]
        return eqn.replace(op=_replaced(eqn.op, opened, [0] * len(opened)), invars=invars)
    opened = [_widened(c, some, 0) for c, some in zip(opened, added, strict=True)]
    rest = [v for k, v in enumerate(eqn.invars) if k not in {i for c in roles.consts for i in c}]
    invars = []
    for some, own in zip(added, roles.consts, strict=True):
        invars += [*some, *(eqn.invars[k] for k in own)]
    op = _replaced(eqn.op, opened, [len(some) for some in added])
    return eqn.replace(op=op, invars=[*invars, *rest])


def _widened(closed: ClosedJaxpr, given: Sequence[Atom], start: int) -> ClosedJaxpr:
    """`closed` with leading arguments for `given`, where its own constants begin at `start`."""
    j = closed.jaxpr
    leading = [Var(a.aval) for a in given]
    leading[start : start + len(j.constvars)] = j.constvars
    return ClosedJaxpr(Jaxpr([], [*leading, *j.invars], j.outvars, j.eqns, j.debug_name), [])


def _replaced(op: Op, programs: Sequence[ClosedJaxpr], more: Sequence[int]) -> Op:
    p = op.params
    if op.name == "while":
        return op.with_params(
            cond_jaxpr=programs[0],
            body_jaxpr=programs[1],
            cond_nconsts=p["cond_nconsts"] + more[0],
            body_nconsts=p["body_nconsts"] + more[1],
        )
    if op.name == "scan":
        return op.with_params(jaxpr=programs[0], num_consts=p["num_consts"] + more[0])
    return op.with_params(branches=tuple(programs))
