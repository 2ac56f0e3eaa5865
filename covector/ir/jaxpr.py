"""Jaxpr: the typed, first-order SSA form of a program.

Variables carry abstract values; equations bind operations; immutable, hashable by identity.
`ClosedJaxpr` pairs a Jaxpr with the arrays its `constvars` stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, final

from covector.ir.avals import ShapedArray
from covector.ir.op import Op


@final
class Var:
    """A variable: nothing but an identity and an abstract value."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


@final
class DropVar:
    """Stands where an equation's result is not wanted."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


@final
class Literal:
    """A scalar written into the program: a NumPy scalar (rank 0 array) and its aval."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val, self.aval = val, aval

    def __repr__(self) -> str:
        # An item prints with every digit, so that the text reads back equal.
        return f"{str(self.val.item()).replace(' ', '')}:{self.aval.str_short()}"


Atom = Var | Literal

#: The text form of a Jaxpr; `ir.text` puts its printer here.
printer: list[Callable[[Jaxpr], str]] = [object.__repr__]


_new: Callable[..., Any] = object.__new__


@final
class Equation:
    """`outvars = op(invars)`; `source` is the user's own line, `scope` the named scopes."""

    __slots__ = ("invars", "op", "outvars", "scope", "source")

    def __init__(
        self,
        op: Op,
        invars: Sequence[Atom],
        outvars: Sequence[Var | DropVar],
        source: Any = None,
        scope: tuple[str, ...] = (),
    ) -> None:
        self.op, self.invars, self.outvars = op, list(invars), list(outvars)
        self.source, self.scope = source, scope

    @staticmethod
    def of(
        op: Op, invars: list[Atom], outvars: list[Any], source: Any, scope: tuple[str, ...]
    ) -> Equation:
        """The equation of these lists, which are its own from now on."""
        eqn: Equation = _new(Equation)
        eqn.op, eqn.invars, eqn.outvars, eqn.source, eqn.scope = op, invars, outvars, source, scope
        return eqn

    @property
    def primitive(self) -> type[Op]:
        """The class of the operation."""
        return type(self.op)

    @property
    def params(self) -> dict[str, Any]:
        """The operation's parameters by name."""
        return self.op.params

    @property
    def effects(self) -> frozenset[str]:
        """The operation's side effects."""
        return self.op.effects

    def replace(self, **changes: Any) -> Equation:
        """This with some of op, invars, outvars, source, scope changed."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return Equation(**{**fields, **changes})

    def __repr__(self) -> str:
        return f"Equation({self.op})"


@final
class Jaxpr:
    """`constvars`, `invars` → `eqns` → `outvars`.  Not changed once made."""

    __slots__ = ("__weakref__", "constvars", "debug_name", "derived", "eqns", "invars", "outvars")

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Equation],
        debug_name: str = "",
    ) -> None:
        self.constvars, self.invars = list(constvars), list(invars)
        self.outvars, self.eqns = list(outvars), list(eqns)
        self.debug_name = debug_name
        self.derived: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[ShapedArray]:
        """Abstract values of the arguments (without the constants)."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """Abstract values of the results."""
        return [v.aval for v in self.outvars]

    @property
    def effects(self) -> frozenset[str]:
        """Every side effect of its equations."""
        return frozenset[str]().union(*(e.effects for e in self.eqns))

    def replace(self, **changes: Any) -> Jaxpr:
        """This with some of constvars, invars, outvars, eqns changed."""
        names = ("constvars", "invars", "outvars", "eqns", "debug_name")
        return Jaxpr(**{**{n: getattr(self, n) for n in names}, **changes})

    def __str__(self) -> str:
        return printer[0](self)

    __repr__ = __str__


@final
class ClosedJaxpr:
    """A Jaxpr with the values of its `constvars` (arrays, or tracers of an outer trace)."""

    __slots__ = ("__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        self.jaxpr, self.consts = jaxpr, list(consts)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """Abstract values of the arguments."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        """Abstract values of the results."""
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> list[Equation]:
        """The equations."""
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[str]:
        """Every side effect of its equations."""
        return self.jaxpr.effects

    @property
    def literals(self) -> list[Any]:
        """The constants, by JAX's older name."""
        return self.consts

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def holds_programs(op: Op) -> bool:
    """Whether a parameter of `op` is a program, or a tuple with programs in it."""
    for value in op.params.values():
        held = cast("tuple[Any, ...]", value) if type(value) is tuple else (value,)
        if any(type(x) is ClosedJaxpr for x in held):
            return True
    return False
