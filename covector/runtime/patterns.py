"""The structure of a call's arguments and of its result, as small programs of steps.

Native code takes arguments apart and puts results together by them (`runtime.entry`); the
methods here are their plain meaning, and serve where there is no native code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from covector.runtime.array import Array

#: (kind, number, operand)
Step = tuple[str, int, Any]


@final
class Pattern:
    """How the arguments of a call nest, down to leaves: arrays and numbers.

    `steps` takes the arguments apart on a stack: (ARGUMENT, i) pushes one; LEAF, NONE, INTEGER
    pop one; TUPLE, LIST, DICT, NAMED pop a container and push its items; SAME pops the very
    object given, SLICE a slice of these three numbers.  None where every argument is a leaf.
    Leaves come in the order of pytrees.
    """

    __slots__ = ("arguments", "depth", "hash", "integers", "keywords", "leaves", "steps")

    def __init__(
        self, arguments: int, keywords: tuple[str, ...], steps: tuple[Step, ...] | None
    ) -> None:
        self.arguments, self.keywords, self.steps = arguments, keywords, steps
        kinds = ["LEAF"] * arguments if steps is None else [kind for kind, _, _ in steps]
        self.leaves: int = kinds.count("LEAF")
        self.integers: int = kinds.count("INTEGER")
        self.depth: int = _depth(steps or ())
        self.hash = hash((arguments, keywords, _key(steps)))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Pattern)
            and self.arguments == other.arguments
            and self.keywords == other.keywords
            and _key(self.steps) == _key(other.steps)
        )

    def __repr__(self) -> str:
        steps = "" if self.steps is None else " ".join(kind for kind, _, _ in self.steps)
        return f"Pattern({self.arguments}, {self.keywords}, {steps or 'leaves'})"

    def match(
        self, args: Sequence[Any], names: Mapping[str, Any]
    ) -> tuple[list[Any], list[int]] | None:
        """The leaves and run-time integers of a call, or None if it has another structure."""
        if len(args) != self.arguments or tuple(names) != self.keywords:
            return None
        if self.steps is None:
            return list(args), []
        pending: list[Any] = []
        leaves: list[Any] = []
        integers: list[int] = []
        given = (*args, *names.values())
        for kind, n, operand in self.steps:
            if kind == "ARGUMENT":
                pending.append(given[n])
                continue
            x = pending.pop()
            if kind == "LEAF":
                leaves.append(x)
            elif kind == "INTEGER" and type(x) is int:
                integers.append(x)
            else:
                items = _items(kind, n, operand, x)
                if items is None:
                    return None
                pending.extend(reversed(items))
        return leaves, integers

    def fill(
        self, args: Sequence[Any], names: Mapping[str, Any], leaves: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call that matches, with other leaves."""
        given = (*args, *names.values())
        if self.steps is None:
            return list(leaves), {}
        new = list(given)
        steps, rest = iter(self.steps), iter(leaves)
        for kind, n, _ in steps:
            assert kind == "ARGUMENT"
            new[n] = _refill(given[n], steps, rest)
        positional = new[: self.arguments]
        return positional, dict(zip(self.keywords, new[self.arguments :], strict=True))


def _refill(x: Any, steps: Iterator[Step], leaves: Iterator[Any]) -> Any:
    """A value with its leaves replaced, by the steps that take it apart."""
    kind, _, operand = next(steps)
    if kind == "LEAF":
        return next(leaves)
    if kind == "DICT":
        new = {k: _refill(x[k], steps, leaves) for k in operand}
        return {k: new[k] for k in x}
    if kind in ("TUPLE", "LIST", "NAMED"):
        items = [_refill(item, steps, leaves) for item in x]
        return type(x)._make(items) if kind == "NAMED" else type(x)(items)
    return x


_CONTAINERS: Final = {"TUPLE": tuple, "LIST": list, "DICT": dict}


def _items(kind: str, n: int, operand: Any, x: Any) -> Sequence[Any] | None:
    """The items of a container that is as a step wants it, else None."""
    if kind == "NONE":
        return () if x is None else None
    if kind == "SAME":
        return () if x is operand else None
    if kind == "SLICE":
        # By type too: True and 1 are equal.
        same = type(x) is slice and (x.start, x.stop, x.step) == operand
        return () if same and not any(type(p) is bool for p in (x.start, x.stop, x.step)) else None
    wanted = operand if kind == "NAMED" else _CONTAINERS.get(kind)
    if type(x) is not wanted or len(x) != n:
        return None
    if kind != "DICT":
        return x
    return [x[k] for k in operand] if all(k in x for k in operand) else None


def _key(steps: tuple[Step, ...] | None) -> Any:
    """What two programs of steps are compared by: operands by identity, keys by value."""
    if steps is None:
        return None
    by_value = ("DICT", "SLICE")
    return tuple((kind, n, x if kind in by_value else id(x)) for kind, n, x in steps)


_GROWTH: Final = {
    "ARGUMENT": 1, "LEAF": -1, "NONE": -1, "SAME": -1, "INTEGER": -1, "SLICE": -1
}  # fmt: skip


def _depth(steps: Sequence[Step]) -> int:
    """The most that is on the stack at once."""
    height = deepest = 0
    for kind, n, _ in steps:
        height += _GROWTH.get(kind, n - 1)
        deepest = max(deepest, height)
    return deepest


def pattern_of(
    args: Sequence[Any],
    names: Mapping[str, Any] | None = None,
    *,
    static: Collection[int | str] = (),
    constant: Collection[int | str] = (),
    integers: Collection[int | str] = (),
) -> Pattern | None:
    """The pattern of a call, or None for a structure that entries cannot take apart.

    static: arguments (positions, names) compared by identity.  constant: arguments of settings,
    small values such as an axis, a name, a shape, compared one by one.  integers: arguments whose
    Python integers are run-time values.  Containers are tuples, lists, dicts with str or int keys
    and named tuples; custom nodes of pytrees are not known here.
    """
    names = names or {}
    if not names and not static and not constant and not integers and all(map(_is_leaf, args)):
        return Pattern(len(args), (), None)
    keys = sorted(names)
    order = [*range(len(args)), *keys]
    positions = {name: len(args) + i for i, name in enumerate(names)}
    steps: list[Step] = []
    for which in order:
        x = names[which] if isinstance(which, str) else args[which]
        steps.append(("ARGUMENT", positions[which] if isinstance(which, str) else which, None))
        if which in static:
            steps.append(("SAME", 0, x))
            continue
        atom = _constant if which in constant else _integer if which in integers else _leaf
        if not _take_apart(x, steps, atom):
            return None
    return Pattern(len(args), tuple(names), tuple(steps))


#: Python's numbers: leaves, of a weak type.
NUMBERS: Final = (float, int, bool)


def _is_leaf(x: Any) -> bool:
    return type(x) in _LEAVES


_LEAVES: Final = frozenset({Array, np.ndarray, *NUMBERS})


# What to do with a value that is no container: the kind of its step, or None to give up.


def _leaf(x: Any) -> str | None:
    return "LEAF" if _is_leaf(x) else "SAME" if x is Ellipsis else None


def _integer(x: Any) -> str | None:
    return "INTEGER" if type(x) is int else _leaf(x)


def _constant(x: Any) -> str | None:
    # Small integers, short names and booleans are one object each; others may be equal without
    # being the same, and would fill the table.
    kind = type(x)
    if kind is int:
        return "SAME" if -5 <= x <= 256 else None
    return "SAME" if kind in _ATOMS or isinstance(x, (type, np.dtype)) else None


_ATOMS: Final = (bool, str, type(Ellipsis))


def _take_apart(x: Any, steps: list[Step], atom: Callable[[Any], str | None]) -> bool:
    """Appends the steps for one value; False if there are none."""
    kind = type(x)
    if x is None:
        steps.append(("NONE", 0, None))
        return True
    if kind is dict:
        if not all(type(k) in (str, int) for k in x) or len({type(k) for k in x}) > 1:
            return False
        keys = tuple(sorted(x))
        steps.append(("DICT", len(x), keys))
        return all(_take_apart(x[k], steps, atom) for k in keys)
    if kind is tuple or kind is list:
        steps.append(("TUPLE" if kind is tuple else "LIST", len(x), None))
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        steps.append(("NAMED", len(x), kind))
    elif kind is slice:
        parts = (x.start, x.stop, x.step)
        if not all(p is None or (type(p) is int and abs(p) < 1 << 62) for p in parts):
            return False
        steps.append(("SLICE", 0, parts))
        return True
    else:
        wanted = atom(x)
        if wanted is None:
            return False
        steps.append((wanted, 0, x if wanted == "SAME" else None))
        return True
    return all(_take_apart(item, steps, atom) for item in x)


def result_steps(example: Any) -> tuple[Step, ...] | None:
    """How a result is built around its outputs.

    example: the result's structure with output numbers (ints) for leaves.  None stands for a
    single output.  Raises TypeError for a custom node: use `built_by`.
    """
    if type(example) is int:
        return None if example == 0 else (("LEAF", example, None),)
    steps: list[Step] = []
    _put_together(example, steps)
    return tuple(steps)


def built_by(build: Callable[..., Any], outputs: int) -> tuple[Step, ...]:
    """Steps that call `build(*outputs)`: for results with custom nodes."""
    leaves = (("LEAF", i, None) for i in range(outputs))
    return (*leaves, ("NAMED", outputs, lambda items: build(*items)))


_new_tuple: Final[Any] = tuple.__new__


def _put_together(x: Any, steps: list[Step]) -> None:
    kind = type(x)
    if kind is int:
        steps.append(("LEAF", x, None))
    elif x is None:
        steps.append(("NONE", 0, None))
    elif kind is dict:
        for value in x.values():
            _put_together(value, steps)
        steps.append(("DICT", len(x), tuple(x)))
    elif kind is tuple or kind is list or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        for item in x:
            _put_together(item, steps)
        if kind in (tuple, list):
            steps.append(("TUPLE" if kind is tuple else "LIST", len(x), None))
        else:
            steps.append(("NAMED", len(x), functools.partial(_new_tuple, kind)))
    else:
        raise TypeError(f"result_steps: no steps for a {kind.__name__}")


def build_result(steps: tuple[Step, ...] | None, outputs: Sequence[Array]) -> Any:
    """The result that `steps` describe."""
    if steps is None:
        return outputs[0]
    values: list[Any] = []
    for kind, n, operand in steps:
        if kind == "LEAF":
            values.append(outputs[n])
            continue
        items = values[len(values) - n :]
        del values[len(values) - n :]
        if kind == "NONE":
            values.append(None)
        elif kind == "DICT":
            values.append(dict(zip(operand, items, strict=True)))
        elif kind == "NAMED":
            values.append(operand(tuple(items)))
        else:
            values.append(tuple(items) if kind == "TUPLE" else items)
    return values[0]


def as_list(outputs: int) -> tuple[Step, ...]:
    """Steps for a list of all outputs."""
    return (*(("LEAF", i, None) for i in range(outputs)), ("LIST", outputs, None))
