"""`NamedTuple` as in `typing`, declared in a twentieth of the time: a process loads dozens.

`typing` compiles each annotation, and `collections` the source of each class.  Here annotations
stay text, as the modules that declare classes have them (`from __future__ import annotations`), and
the constructors of all classes with as many fields are one piece of code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    import functools
    from collections import _tuplegetter
    from types import CodeType, FunctionType

    _make_tuple = tuple.__new__

    @functools.cache
    def _constructor(count: int) -> CodeType:
        names = "".join(f"_{n}, " for n in range(count))
        return eval(f"lambda _cls, {names}: _make_tuple(_cls, ({names}))").__code__

    def _new(name: str, annotations: dict[str, Any], defaults: dict[str, Any]) -> FunctionType:
        fields = tuple(annotations)
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: the fields with a default come last, got {fields}")
        code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields), co_name="__new__")
        new = FunctionType(code, globals(), "__new__", tuple(defaults.values()))
        new.__qualname__ = f"{name}.__new__"
        new.__annotations__ = dict(annotations)
        return new

    class _Declaration(type):
        """What a class statement with `NamedTuple` calls: it makes a class of `tuple` alone."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if "__annotate__" in body or "__annotate_func__" in body:  # from Python 3.14 on
                raise TypeError(f"{name}: its module is to import annotations from __future__")
            annotations = body.get("__annotations__", {})
            fields = tuple(annotations)
            defaults = {field: body[field] for field in fields if field in body}
            getters = {f: _tuplegetter(n, f"Field number {n}.") for n, f in enumerate(fields)}
            own = {
                "__doc__": f"{name}({', '.join(fields)})",
                "__match_args__": fields,
                "__new__": _new(name, annotations, defaults),
                "__slots__": (),
                "_field_defaults": defaults,
                "_fields": fields,
            }
            return type(name, (tuple,), {**_METHODS, **own, **body, **getters})

    def _make(cls: type, iterable: Iterable[Any]) -> Any:
        """A new one of a sequence or iterable with as many items as there are fields."""
        made = _make_tuple(cls, iterable)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changes: Any) -> Any:
        """A new one with other values of some fields."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self: Any) -> dict[str, Any]:
        """The values by the names of fields."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{f}={x!r}" for f, x in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({inside})"

    def __getnewargs__(self: Any) -> tuple[Any, ...]:
        """What `copy` and `pickle` make one of."""
        return tuple(self)

    _METHODS = {
        "__getnewargs__": __getnewargs__,
        "__replace__": _replace,
        "__repr__": __repr__,
        "_asdict": _asdict,
        "_make": classmethod(_make),
        "_replace": _replace,
    }
    NamedTuple = type.__new__(_Declaration, "NamedTuple", (), {})
