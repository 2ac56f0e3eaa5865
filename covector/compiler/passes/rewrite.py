"""What passes over Jaxprs share: substitution of variables while equations are written anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var


@final
class Writer:
    """Equations written so far, and what stands for each variable of the old program."""

    __slots__ = ("env", "eqns")

    def __init__(self) -> None:
        self.env: dict[Any, Atom] = {}
        self.eqns: list[Equation] = []

    def read(self, v: Atom) -> Atom:
        """What stands for `v` now."""
        return v if isinstance(v, Literal) else self.env.get(v, v)

    def reads(self, vs: Iterable[Atom]) -> list[Atom]:
        """`read` of each."""
        get = self.env.get
        return [v if isinstance(v, Literal) else get(v, v) for v in vs]

    def copy(self, eqn: Equation, invars: Sequence[Atom]) -> None:
        """Write `eqn` with these operands."""
        same = all(a is b for a, b in zip(invars, eqn.invars, strict=True))
        self.eqns.append(eqn if same else eqn.replace(invars=invars))

    def emit(self, op: Any, invars: Sequence[Atom], like: Equation) -> Var:
        """Write a new equation with one result, for the user's line of `like`."""
        var = Var(op.result(*[v.aval for v in invars]))
        self.eqns.append(Equation(op, invars, [var], like.source, like.scope))
        return var

    def finish(self, jaxpr: Jaxpr) -> Jaxpr:
        """`jaxpr` with the new equations."""
        return jaxpr.replace(eqns=self.eqns, outvars=self.reads(jaxpr.outvars))


@final
class Constants:
    """The constants of a program, to which those of inner programs come, each once."""

    __slots__ = ("known", "values", "variables")

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.variables, self.values = list(closed.jaxpr.constvars), list(closed.consts)
        self.known = {id(c): v for v, c in zip(self.variables, self.values, strict=True)}

    def variable(self, value: Any, aval: ShapedArray) -> Var:
        """What stands for `value`."""
        name = id(value)
        if name not in self.known:
            self.known[name] = Var(aval)
            self.variables.append(self.known[name])
            self.values.append(value)
        return self.known[name]
