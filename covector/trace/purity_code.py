"""What a code object reads and writes beside its own variables, found in its bytecode by `dis`.

Globals, cells of outer functions and the attributes read off them, with lines; the trace cache and
the purity guard look up the values (`purity_state`).  Holds for CPython 3.11 to 3.14.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, Final, cast

from covector._base.named_tuple import NamedTuple


class Place(NamedTuple):
    """A chain of names that a function reads: `kind` of the first, the attributes, the line.

    kind: 'global', 'cell' (of an outer function) or 'argument' (the first one, of a method).
    """

    kind: str
    name: str
    attributes: tuple[str, ...]
    line: int

    def __str__(self) -> str:
        return ".".join((self.name, *self.attributes))


class Code(NamedTuple):
    """What a code object reads and writes, the functions inside it included.

    reads: places whose values are used.  writes: places that are set: a global, a variable of an
    outer function, an attribute (last of `attributes`) of an object from outside.  items: places
    whose elements are set.  imports: modules that are imported when it runs.
    """

    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    items: tuple[Place, ...]
    imports: tuple[str, ...]


#: Code objects remembered; beyond that all are forgotten.
KEPT: Final = 8192
_known: Final[dict[int, tuple[CodeType, Code]]] = {}
_lock: Final = threading.Lock()

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_LOCALS: Final = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_FAST_AND_CLEAR"}
)
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
#: Stand between the parts of one expression without changing what it is.
_IGNORED: Final = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "NOT_TAKEN"})
#: Instructions that push exactly one value and take none.
_PUSHES: Final = _GLOBALS | _LOCALS | frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})


def code_of(code: CodeType) -> Code:
    """What `code` reads and writes."""
    found = _known.get(id(code))
    if found is None:
        found = (code, _read(code))
        with _lock:
            if len(_known) >= KEPT:
                _known.clear()
            _known[id(code)] = found  # keeps the code object, so that its id stays its own
    return found[1]


def _read(code: CodeType) -> Code:
    reads: dict[tuple[Any, ...], Place] = {}
    writes: list[Place] = []
    items: list[Place] = []
    imports: list[str] = []
    steps = _instructions(code)
    first = _first_argument(code, steps)
    for place, end in _chains(code, steps, first):
        if end.opname in ("STORE_ATTR", "DELETE_ATTR"):
            place = place._replace(attributes=(*place.attributes, str(end.argval)))
            writes.append(place)
        elif end.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            items.append(place)
        reads.setdefault(place[:3], place)
    if "__class__" in code.co_freevars:  # `super()` reads both without an instruction
        for place in (Place("cell", "__class__", (), 0), Place("argument", first or "", (), 0)):
            if place.kind == "cell" or first is not None:
                reads.setdefault(place[:3], place)
    for step in steps:
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            writes.append(Place("global", str(step.argval), (), _line(step)))
        elif step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
            writes.append(Place("cell", str(step.argval), (), _line(step)))
        elif step.opname == "IMPORT_NAME":
            imports.append(str(step.argval))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = code_of(inner)
            for place in _outside(found.reads, code, first):
                reads.setdefault(place[:3], place)
            writes += _outside(found.writes, code, first)
            items += _outside(found.items, code, first)
            imports += found.imports
    return Code(tuple(reads.values()), tuple(writes), tuple(items), tuple(imports))


def _outside(places: Sequence[Place], code: CodeType, first: str | None) -> list[Place]:
    """The places of an inner function that are outside `code` too, or on its first argument."""
    found: list[Place] = []
    for place in places:
        if place.kind == "global" or (place.kind == "cell" and place.name in code.co_freevars):
            found.append(place)
        elif place.kind == "cell" and place.name == first:
            found.append(place._replace(kind="argument"))
    return found


def _line(step: Any) -> int:
    positions = step.positions
    return (positions.lineno if positions else None) or 0


def _instructions(code: CodeType) -> list[Any]:
    # Any: what `argval` is depends on the instruction.
    return [i for i in dis.get_instructions(code) if i.opname not in _IGNORED]


def _chains(code: CodeType, steps: Sequence[Any], first: str | None) -> Iterator[tuple[Place, Any]]:
    """Each chain of names that is read, and the instruction that uses its value."""
    for at, step in enumerate(steps):
        for place in _roots(step, code, first):
            attributes: list[str] = []
            k = at + 1
            # Several loads in one instruction: only the last of them is followed by attributes.
            last = _names(step)[-1] == place.name
            while last and k < len(steps) and steps[k].opname in _ATTRIBUTES:
                attributes.append(str(steps[k].argval))
                k += 1
            end = _user(steps, k)
            yield place._replace(attributes=tuple(attributes)), end


def _user(steps: Sequence[Any], k: int) -> Any:
    """What uses the value that is on top before step `k`: looks over a plain subscript."""
    end = steps[min(k, len(steps) - 1)]
    after = steps[min(k + 1, len(steps) - 1)]
    if end.opname == "COPY" and after.opname == "LOAD_ATTR":  # x.a += …
        return after._replace(opname="STORE_ATTR")
    if end.opname in _PUSHES:
        if after.opname == "COPY":  # x[i] += …
            return after._replace(opname="STORE_SUBSCR")
        if after.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            return after
    return end


def _first_argument(code: CodeType, steps: Sequence[Any]) -> str | None:
    """The name of the first argument, if it keeps its value."""
    if not code.co_argcount:
        return None
    name = code.co_varnames[0]
    stores = ("STORE_FAST", "STORE_DEREF", "DELETE_FAST")
    for step in steps:
        if step.opname.startswith(stores) and name in _names(step):
            return None
    return name


def _roots(step: Any, code: CodeType, first: str | None) -> list[Place]:
    """The places that an instruction begins to read."""
    name = step.argval
    if step.opname in _GLOBALS:
        return [Place("global", str(name), (), _line(step))]
    if step.opname in _CELLS and name in code.co_freevars:
        return [Place("cell", str(name), (), _line(step))]
    if first is None or not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return []
    return [Place("argument", first, (), _line(step))] if first in _names(step) else []


def _names(step: Any) -> tuple[Any, ...]:
    """The names in an instruction: since 3.13 some have two."""
    found: Any = step.argval
    return cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
