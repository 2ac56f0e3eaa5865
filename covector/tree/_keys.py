"""Steps of a path through a tree: an index, a key or an attribute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

KeyEntry = TypeVar("KeyEntry")
KeyPath = tuple[KeyEntry, ...]


class _Step:
    """A step holds one value; it prints as Python would write the access, and compares by value."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def value(self) -> Any:
        """The index, key or name."""
        return getattr(self, self.__match_args__[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self.value()!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.value() == other.value()  # type: ignore[union-attr]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.value()))

    def __reduce__(self) -> Any:
        return type(self), (self.value(),)


class SequenceKey(_Step):
    """The step into item `idx` of a tuple or a list; prints as ``[idx]``."""

    __slots__ = ("idx",)
    __match_args__ = ("idx",)

    def __init__(self, idx: Any):
        if not isinstance(idx, int):
            raise TypeError(f"SequenceKey takes an integer; got {idx!r}")
        self.idx: Final[int] = idx

    def __str__(self) -> str:
        return f"[{self.idx}]"


class DictKey(_Step):
    """The step to the value of `key` in a dict; prints as ``['key']``."""

    __slots__ = ("key",)
    __match_args__ = ("key",)

    def __init__(self, key: Any):
        self.key: Final = key

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(_Step):
    """The step to attribute `name` of an object; prints as ``.name``."""

    __slots__ = ("name",)
    __match_args__ = ("name",)

    def __init__(self, name: Any):
        if not isinstance(name, str):
            raise TypeError(f"GetAttrKey takes a string; got {name!r}")
        self.name: Final[str] = name

    def __str__(self) -> str:
        return f".{self.name}"


class FlattenedIndexKey(_Step):
    """The step to child number `key` of a node registered without keys."""

    __slots__ = ("key",)
    __match_args__ = ("key",)

    def __init__(self, key: Any):
        if not isinstance(key, int):
            raise TypeError(f"FlattenedIndexKey takes an integer; got {key!r}")
        self.key: Final = key

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def keystr(keys: KeyPath[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text: as the expression that reads it or, if `simple`, as bare names.

    >>> path = (DictKey("a"), SequenceKey(0), GetAttrKey("w"))
    >>> keystr(path)
    "['a'][0].w"
    >>> keystr(path, simple=True, separator="/")
    'a/0/w'
    """
    steps: Iterable[Any] = keys
    if simple:
        steps = (key.value() if isinstance(key, _Step) else key for key in steps)
    return separator.join(map(str, steps))
