"""The little language's programs, parsed: structures, constants, functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .language import Extern


class Source:
    """The parsed files of a program: structures, constants, functions."""

    def __init__(self, files: Iterable[tuple[str, str]], externs: Iterable[Extern]) -> None:
        self.functions: dict[str, ast.FunctionDef] = {}
        self.instances: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        self.structs: dict[str, dict[str, str]] = {"Struct": {}}
        self.externs = {e.name: e for e in externs}
        self.api = list(self.externs)  # order of the table of addresses
        for name, code in files:
            for node in ast.parse(code, name).body:
                self._take(node)

    def _take(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef():
                self.functions[node.name] = node
            case ast.ClassDef(bases=[ast.Name(base)]) if base in self.structs:
                own = {
                    n.target.id: ast.unparse(n.annotation)
                    for n in node.body
                    if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
                }
                self.structs[node.name] = {**self.structs[base], **own}
            case ast.AnnAssign(ast.Name(name), _, ast.Call(ast.Name("instance"), [ast.Name(kind)])):
                self.instances[name] = kind
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                constant = _constant(value, self.constants)
                if constant is not None:
                    self.constants[name] = constant

    def offset(self, struct: str, field: str) -> int:
        return 8 * list(self.structs[struct]).index(field)


def _constant(node: ast.expr | None, known: dict[str, int]) -> int | None:
    """The value of a constant integer expression, or None."""
    try:
        code = compile(ast.Expression(node), "<constant>", "eval")  # type: ignore[arg-type]
        value = eval(code, {"__builtins__": {}}, known)
    except (NameError, TypeError, SyntaxError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
