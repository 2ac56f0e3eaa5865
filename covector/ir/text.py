"""The text form of a Jaxpr: `print_jaxpr` writes it, `parse_jaxpr` reads back what was written.

    { lambda a:f32[3] ; b:f32[]. let
        c:f32[3] = mul a b
        d:f32[] = reduce_sum[axes=(0,)] c
      in (d,) }

Constants stand before the semicolon, arguments after it; a literal is written with its type
(`2.0:f32[]`); a parameter as a Python literal, a dtype by name, a value class as its constructor,
a nested program in braces.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from typing import Any, TypeVar, cast

import numpy as np

from covector import dtypes
from covector.ir import jaxpr as ir
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, DropVar, Equation, Jaxpr, Literal, Var
from covector.ir.op import Op

#: Value classes (named tuples, enums) that parameters may hold, by name: filled on printing's
#: demand by `register_value_class`.
value_classes: dict[str, Any] = {}
_C = TypeVar("_C", bound=type[Any])


def register_value_class(cls: _C) -> _C:
    """Make a named tuple or an enum readable in parameters (usable as a decorator)."""
    value_classes[cls.__name__] = cls
    return cls


class Names(dict[Any, str]):
    """a, b, …, z, ba, bb, …: one name per variable, in order of first appearance."""

    def __missing__(self, v: Any) -> str:
        if type(v) is DropVar:
            return "_"
        found = self[v] = letters(len(self))
        return found


@functools.lru_cache(maxsize=4096)
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
    body = [f"{indent}    {_equation(e, names, indent)}" for e in jaxpr.eqns]
    outs = ", ".join(_atom(v, names) for v in jaxpr.outvars)
    tail = f"{indent}  in ({outs}{',' if len(jaxpr.outvars) == 1 else ''}) }}"
    return "\n".join([head.replace(" . let", ". let"), *body, tail])


def _binders(variables: list[Var], names: Names) -> str:
    return "".join(f"{names[v]}:{v.aval.str_short()} " for v in variables)


def _atom(v: Atom, names: Names) -> str:
    return repr(v) if type(v) is Literal else names[v]


def _equation(eqn: Equation, names: Names, indent: str) -> str:
    operands = " ".join([repr(v) if type(v) is Literal else names[v] for v in eqn.invars])
    outs = " ".join([f"{names[v]}:{v.aval.str_short()}" for v in eqn.outvars])
    return f"{outs} = {_operation(eqn.op, indent)} {operands}".rstrip()


def _operation(op: Op, indent: str) -> str:
    """Its name and parameters; remembered where they hold no program, which is indented."""
    found = op.__dict__.get("_text")
    if found is None:
        found = op.name + _params(op.params, indent + "    ")
        if "\n" not in found:
            op.__dict__["_text"] = found
    return found


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
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return _tuple(cast("tuple[Any, ...]", value), indent)
    if isinstance(value, np.generic):
        return repr(cast("Any", value).item())
    if _is_scalar_type(value):
        return np.dtype(value).name
    return repr(value) if isinstance(value, (str, bool, int, float, complex)) else str(value)


def _is_scalar_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, np.generic)


def _tuple(value: tuple[Any, ...], indent: str) -> str:
    fields = getattr(value, "_fields", None)
    if fields is not None:
        inside = ", ".join(f"{f}={_param(getattr(value, f), indent)}" for f in fields)
        return f"{type(value).__name__}({inside})"
    inside = ", ".join(_param(v, indent) for v in value)
    return f"({inside}{',' if len(value) == 1 else ''})"


ir.printer[0] = print_jaxpr


# Reading.

_SHORT: dict[str, Any] = {
    **{dtypes.short_name(d): d for d in dtypes.all_dtypes()},
    dtypes.short_name(dtypes.threefry_key): dtypes.threefry_key,
}
_BINDER = r"(\w+):([\w<>]+)\[([\d,]*)\](\*?)"


def parse_jaxpr(text: str) -> Jaxpr:
    """The program whose text this is.  Raises ValueError naming the place where it is none."""
    reader = _Reader(text)
    jaxpr = reader.jaxpr()
    reader.end()
    return jaxpr


class _Reader:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, wanted: str) -> ValueError:
        line = self.text.count("\n", 0, self.at) + 1
        near = self.text[self.at : self.at + 30].split("\n")[0]
        return ValueError(f"line {line} of the program: wanted {wanted}; got {near!r}")

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def end(self) -> None:
        self.skip()
        if self.at < len(self.text):
            raise self.fail("the end")

    def accept(self, word: str) -> bool:
        self.skip()
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fail(repr(word))

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skip()
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def jaxpr(self) -> Jaxpr:
        self.expect("{")
        self.expect("lambda")
        env: dict[str, Var] = {}
        consts = self.binders(env)
        self.expect(";")
        invars = self.binders(env)
        self.expect(".")
        self.expect("let")
        eqns: list[Equation] = []
        while not self.accept("in ("):
            eqns.append(self.equation(env))
        outvars: list[Atom] = []
        while not self.accept(")"):
            outvars.append(self.atom(env, r"[^,)]+"))
            self.accept(",")
        self.expect("}")
        return Jaxpr(consts, invars, outvars, eqns)

    def binders(self, env: dict[str, Var]) -> list[Any]:
        out: list[Any] = []
        while found := self.match(re.compile(_BINDER)):
            name, *aval = found.groups()
            v = DropVar(_aval(*aval)) if name == "_" else Var(_aval(*aval))
            if name != "_":
                env[name] = v  # type: ignore[assignment]
            out.append(v)
        return out

    def equation(self, env: dict[str, Var]) -> Equation:
        own = dict(env)
        outs = self.binders(own)
        self.expect("=")
        name = self.match(re.compile(r"[\w-]+"))
        if name is None or name.group() not in Op.registry:
            raise self.fail("the name of an operation")
        op = Op.registry[name.group()](**self.params())
        invars: list[Atom] = []
        while not re.compile(r"[ ]*(\n|$)").match(self.text, self.at):
            invars.append(self.atom(env, r"[^\s]+"))
        env.update(own)
        return Equation(op, invars, outs)

    def atom(self, env: dict[str, Var], pattern: str) -> Atom:
        found = self.match(re.compile(pattern))
        if found is None:
            raise self.fail("a variable or a literal")
        word = found.group()
        if ":" not in word:
            if word not in env:
                raise ValueError(f"the program reads {word!r}, which it does not define")
            return env[word]
        value, _, kind = word.partition(":")
        binder = re.match(_BINDER, "x:" + kind)
        if binder is None:
            raise self.fail("the type of a literal")
        aval = _aval(*binder.groups()[1:])
        return Literal(np.asarray(_number(value), dtypes.physical_dtype(aval.dtype))[()], aval)

    def params(self) -> dict[str, Any]:
        if not self.text.startswith("[", self.at):
            return {}
        self.at += 1
        params: dict[str, Any] = {}
        while not self.accept("]"):
            name = self.match(re.compile(r"(\w+)="))
            if name is None:
                raise self.fail("a parameter")
            params[name.group(1)] = self.value()
        return params

    def value(self) -> Any:
        if self.text.startswith("{", self.at):
            return ClosedJaxpr(self.jaxpr())
        if re.compile(r"\(\s*\{").match(self.text, self.at):
            return self.programs()
        start, depth, quote = self.at, 0, ""
        while self.at < len(self.text):
            c = self.text[self.at]
            if quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            elif c in "([":
                depth += 1
            elif c in ")]" and depth:
                depth -= 1
            elif (c.isspace() or c == "]") and not depth:
                break
            self.at += 1
        return _literal(ast.parse(self.text[start : self.at], mode="eval").body)

    def programs(self) -> tuple[ClosedJaxpr, ...]:
        """A tuple of programs."""
        self.accept("(")
        found: list[ClosedJaxpr] = []
        while not self.accept(")"):
            found.append(ClosedJaxpr(self.jaxpr()))
            self.accept(",")
        return tuple(found)


def _aval(dtype: str, dims: str, weak: str) -> ShapedArray:
    shape = tuple(int(n) for n in dims.split(",") if n)
    return ShapedArray(shape, _SHORT[dtype], bool(weak))


def _number(text: str) -> Any:
    return {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(text) or _literal(
        ast.parse(text, mode="eval").body
    )


def _literal(node: ast.AST) -> Any:
    """The value of a parameter's syntax tree; nothing is executed."""
    match node:
        case ast.Tuple(elts=items):
            return tuple(_literal(n) for n in items)
        case ast.Name(id=name):
            special = {"inf": np.inf, "nan": np.nan}
            return special[name] if name in special else dtypes.BY_NAME[name]
        case ast.Attribute(value=ast.Name(id=cls), attr=member):
            return value_classes[cls][member]
        case ast.Call(func=ast.Name(id=cls), keywords=fields):
            return value_classes[cls](**{f.arg: _literal(f.value) for f in fields if f.arg})
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -np.inf
        case _:
            return ast.literal_eval(node)
