"""The little language of the native runtime: typed Python functions, compiled to machine code.

The files `*_code.py` are written in it.  Every value is a 64-bit word (an integer or an address)
or a double.  A `Struct` is a view of memory at an address: `x = Array(word)`; `x.aval` reads the
field, `x.aval = v` writes it, `p[i]` is the i-th word at `p`.  Statements: assignment, `if`,
`while`, `return`, `break`, `continue`, calls.  Nothing else is needed, so nothing else is there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    word = Any
    double = Any
else:
    word = double = object


class Struct:
    """Memory at an address; the annotations of a subclass are its fields, a word each.

    A field annotated with another Struct is the address of one.
    """

    fields: ClassVar[dict[str, str]] = {}  # name -> annotation

    def __init__(self, address: word) -> None:
        raise TypeError("a Struct exists in native code only")

    def __init_subclass__(cls) -> None:
        own = {k: str(v) for k, v in inspect.get_annotations(cls).items()}
        cls.fields = {**cls.fields, **own}

    @classmethod
    def offset(cls, field: str) -> int:
        """The distance of a field from the start, in bytes."""
        return 8 * list(cls.fields).index(field)

    @classmethod
    def size(cls) -> int:
        """Bytes of the whole."""
        return 8 * len(cls.fields)


def instance(kind: type[Struct]) -> Any:
    """At module level, `name: Kind = instance(Kind)`: a zeroed structure of the program itself."""


class Extern:
    """A C function of the process: kinds of its result and arguments, one letter each.

    w: word; i: C int; d: double; v: nothing.  Called through a table of addresses, so that the
    compiled code refers to nothing outside itself.
    """

    def __init__(self, name: str, kinds: str) -> None:
        self.name: Final = name
        self.result, self.args = kinds[0], kinds[1:]

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.name} is called from native code only")


# Names that the compiler knows; bodies are machine instructions.
load8: Any = None  # unsigned
load16: Any = None
load32: Any = None
signed8: Any = None
signed16: Any = None
signed32: Any = None
load_f32: Any = None
load_f64: Any = None
store8: Any = None
store16: Any = None
store32: Any = None
store_f32: Any = None
store_f64: Any = None
to_double: Any = None
leading_zeros: Any = None
stack: Any = None  # stack(n): n words of the current call's frame
sizeof: Any = None  # sizeof(Kind): bytes of a structure
text: Any = None  # text("..."): the address of a C string
address_of: Any = None  # address_of(function)
call: Any = None  # call(address, *words): any C function of words, giving a word


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
