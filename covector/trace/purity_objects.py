"""Looking at objects without running their code: what they are made of, what they may hide.

Used by the walk over what a function depends on (`purity_state`).
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from covector._base.named_tuple import NamedTuple


def _tell(same: Any, gone: Callable[[Any], None] | None) -> None:
    found = same()
    if found is not None and gone is not None:
        gone(found)


class Same:
    """Equal for one object only, which it does not keep alive (if the object allows that)."""

    __slots__ = ("__weakref__", "identity", "key", "reference")

    def __init__(self, x: Any, gone: Callable[[Same], None] | None = None) -> None:
        self.identity = id(x)
        #: The key that this is part of, for `gone`.
        self.key: Any = None
        try:
            me, tell = weakref.ref(self), _tell  # globals may be gone when the interpreter ends
            self.reference: Any = weakref.ref(x, lambda _: tell(me, gone))
        except TypeError:
            self.reference = lambda: x

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Same)
            and self.identity == other.identity
            and self.reference() is not None
            and self.reference() is other.reference()
        )

    def __hash__(self) -> int:
        return self.identity


#: Modules whose functions give equal results for equal arguments.  Their state, where they have
#: some, is part of every key by other ways (`config`).
PURE: Final = frozenset(
    ["covector", "numpy", "scipy", "ml_dtypes", "opt_einsum", "math", "cmath", "operator",
     "functools", "itertools", "collections", "_collections_abc", "typing", "dataclasses", "enum",
     "abc", "_abc", "numbers", "fractions", "types", "string", "re", "copy", "contextlib",
     "builtins", "_operator", "_functools", "_collections", "_struct", "struct", "statistics"]
)  # fmt: skip
MIXED: Final = ("numpy", "scipy")  # with parts that are not
_IMPURE: Final = ("numpy.random", "scipy.stats", "covector.debug")
#: Builtins that have an effect, or read what no walk sees.
EFFECTS: Final = frozenset(
    {"print", "input", "open", "globals", "locals", "vars", "dir", "eval", "exec", "compile",
     "__import__", "setattr", "delattr", "breakpoint", "id"}
)  # fmt: skip
#: Attributes of classes that say nothing about what its methods do.
DULL: Final = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__",
     "__slots__", "__match_args__", "__dataclass_fields__", "__dataclass_params__",
     "__abstractmethods__", "_abc_impl", "__firstlineno__", "__static_attributes__", "__hash__",
     "__parameters__", "__orig_bases__", "__annotate_func__", "__annotations_cache__",
     "__annotate__", "__classdictcell__", "__type_params__"}
)  # fmt: skip


class _Pair(NamedTuple):
    x: Any


#: `type`, whose result a type checker knows nothing of.
type_of: Final[Any] = type
#: What stands in a class for fields of its instances.
SLOTS: Final[tuple[type, ...]] = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    type_of(vars(_Pair)["x"]),
)


@functools.lru_cache(maxsize=4096)
def is_pure(module: Any) -> bool:
    """Whether functions of the module of this name need no look inside."""
    if not isinstance(module, str) or module.startswith(_IMPURE):
        return False
    return module.partition(".")[0] in PURE or module.startswith("namedtuple_")


def is_public(x: Any) -> bool:
    """Whether `x` is what a module of ours, or NumPy's, has under its name."""
    module: Any = getattr(x, "__module__", None)
    name: Any = getattr(x, "__qualname__", None) or getattr(x, "__name__", None)
    if not is_pure(module) or not isinstance(name, str):
        return False
    return getattr(sys.modules.get(module), name, None) is x


class Unset:
    """Stands for a name without a value."""


MISSING: Final = Unset()
_plain: Final[weakref.WeakKeyDictionary[type, bool]] = weakref.WeakKeyDictionary()
_NATIVE: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)


def is_plain(kind: type) -> bool:
    """Whether instances are their fields and nothing else, looked up the usual way."""
    found = _plain.get(kind)
    if found is None:
        found = _plain[kind] = (
            kind.__getattribute__ is object.__getattribute__
            and not hasattr(kind, "__getattr__")
            and all(c is object or is_python(c) for c in kind.__mro__)
        )
    return found


def is_python(cls: type) -> bool:
    """Whether a class was made by a class statement, so that no state hides behind it."""
    for name, member in vars(cls).items():
        if name in ("__dict__", "__weakref__"):
            continue
        if isinstance(member, _NATIVE) and member.__objclass__ is cls:
            return False
        if name == "__new__" and getattr(member, "__self__", None) is cls:
            return False
    return True


def fields_of(x: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields of an object."""
    yield from tuple(getattr(x, "__dict__", {}).items())
    for base in type(x).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    yield name, member.__get__(x)
                except AttributeError:
                    yield name, MISSING


def lookup(kind: type, name: str) -> Any:
    """What a class has under a name, itself or by inheritance; or MISSING."""
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return MISSING


def global_of(fun: types.FunctionType, name: str) -> Any:
    """What a global name means in a function."""
    found = fun.__globals__.get(name, MISSING)
    if found is not MISSING:
        return found
    builtins = fun.__builtins__  # type: ignore[attr-defined]
    return builtins.get(name, MISSING)


def content(cell: Any) -> Any:
    """The value of a variable that a function closes over."""
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return MISSING
