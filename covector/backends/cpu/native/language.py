"""The little language of the native runtime: typed Python functions, compiled to machine code.

The files `*_code.py` are written in it.  Every value is a 64-bit word (an integer or an address)
or a double.  A `Struct` is a view of memory at an address: `x = Array(word)`; `x.aval` reads the
field, `x.aval = v` writes it, `p[i]` is the i-th word at `p`.  Statements: assignment, `if`,
`while`, `return`, `break`, `continue`, calls.  Nothing else is needed, so nothing else is there.
"""

from __future__ import annotations

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
        own = {k: str(v) for k, v in cls.__annotations__.items()}
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
