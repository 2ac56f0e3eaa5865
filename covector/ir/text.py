"""The text form of a Jaxpr: printing, and reading back what was printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from covector.ir import jaxpr as ir
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var


class Names:
    """a, b, …, z, ba, bb, …: one name per variable, in order of first appearance."""

    def __init__(self) -> None:
        self.known: dict[Any, str] = {}

    def __getitem__(self, v: Any) -> str:
        if isinstance(v, ir.DropVar):
            return "_"
        found = self.known.get(v)
        if found is None:
            found = self.known[v] = letters(len(self.known))
        return found


def letters(n: int) -> str:
    """The n-th variable name."""
    text = ""
    while True:
        n, rest = divmod(n, 26)
        text = chr(ord("a") + rest) + text
        if n == 0:
            return text


def print_jaxpr(jaxpr: Jaxpr, indent: str = "") -> str:
    """`{ lambda consts ; args. let equations in (results,) }`, one equation a line."""
    names = Names()
    head = f"{{ lambda {_binders(jaxpr.constvars, names)}; {_binders(jaxpr.invars, names)}. let"
    body = [f"{indent}    {line}" for e in jaxpr.eqns for line in _equation(e, names, indent)]
    outs = ", ".join(_atom(v, names) for v in jaxpr.outvars)
    tail = f"{indent}  in ({outs}{',' if len(jaxpr.outvars) == 1 else ''}) }}"
    return "\n".join([head, *body, tail])


def _binders(variables: list[Var], names: Names) -> str:
    return "".join(f"{names[v]}:{v.aval.str_short()} " for v in variables)


def _atom(v: Atom, names: Names) -> str:
    return repr(v) if isinstance(v, Literal) else names[v]


def _equation(eqn: Equation, names: Names, indent: str) -> Iterator[str]:
    operands = " ".join(_atom(v, names) for v in eqn.invars)
    outs = " ".join(f"{names[v]}:{v.aval.str_short()}" for v in eqn.outvars)
    yield f"{outs} = {eqn.op.name}{_params(eqn.params, indent + '    ')} {operands}".rstrip()


def _params(params: dict[str, Any], indent: str) -> str:
    if not params:
        return ""
    simple = {k: _param(v, indent + "  ") for k, v in params.items()}
    if not any("\n" in v for v in simple.values()):
        return "[" + " ".join(f"{k}={v}" for k, v in simple.items()) + "]"
    inner = "\n".join(f"{indent}  {k}={v}" for k, v in simple.items())
    return f"[\n{inner}\n{indent}]"


def _param(value: Any, indent: str) -> str:
    if isinstance(value, ClosedJaxpr):
        return print_jaxpr(value.jaxpr, indent)
    if isinstance(value, Jaxpr):
        return print_jaxpr(value, indent)
    if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
        return "(" + ", ".join(_param(v, indent) for v in value) + ")"
    return str(value)


ir.printer[0] = print_jaxpr
