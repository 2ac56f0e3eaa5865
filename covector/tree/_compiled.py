"""Python code for one structure: taking its trees apart, and putting them together.

A structure that is used again and again (the arguments of a training step) gets two functions of
straight-line code, which cost about a dict access per child in place of an interpretation of the
structure. The source holds generated names only; types, keys and metadata are passed in as values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ._treedef import PyTreeDef

_MAX_DEPTH: Final = 40  # of nested expressions; the parser of Python has a limit

# Filled by the room of the registry: a function that tells whether types are known leaf types.
all_leaves_socket: Final[dict[str, Callable[[Any], bool]]] = {}


class Impossible(Exception):
    """A structure that cannot be matched by compiled code."""


class _Writer:
    """Source under construction, and the values that its names stand for."""

    __slots__ = ("count", "lines", "names")

    def __init__(self, **names: Any):
        self.names: Final[dict[str, Any]] = names
        self.lines: Final[list[str]] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def value(self, x: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = x
        return name

    def function(self, parameter: str) -> Callable[[Any], Any]:
        body = "\n".join(f"    {line}" for line in self.lines)
        exec(f"def function({parameter}):\n{body}", self.names)
        return self.names.pop("function")


def depth(treedef: PyTreeDef) -> int:
    """How many nodes lie on the longest way from the root to a leaf."""
    return 1 + max([depth(child) for child in treedef.child_defs], default=0)


def compile_match(treedef: PyTreeDef) -> Callable[[Any], list[Any] | None] | None:
    """A function from a tree to its leaves, or to None if it has not the given structure.

    It may answer None too for types of leaves that were never seen.
    """
    if depth(treedef) > _MAX_DEPTH:
        return None
    writer = _Writer(all_leaves=all_leaves_socket["all_leaves"], KeyError=KeyError, map=map,
                     type=type, len=len, str=str)  # fmt: skip
    leaves: list[str] = []
    try:
        _match(writer, treedef, "tree", leaves)
    except Impossible:
        return None
    lines = [
        "try:",
        *(f"    {line}" for line in writer.lines),
        "except KeyError:",
        "    return None",
    ]
    writer.lines[:] = lines
    writer.lines.append(f"out = [{', '.join(leaves)}]")
    writer.lines.append("return out if all_leaves(map(type, out)) else None")
    return writer.function("tree")


def _match(writer: _Writer, treedef: PyTreeDef, name: str, leaves: list[str]) -> None:
    node = treedef.node
    if node is None:
        leaves.append(name)
        return
    children = [writer.fresh() for _ in treedef.child_defs]
    node.write_match(writer, treedef, name, children)
    for child, child_name in zip(treedef.child_defs, children, strict=True):
        _match(writer, child, child_name, leaves)


def compile_build(treedef: PyTreeDef) -> Callable[[Any], Any] | None:
    """A function from a list of leaves, of the right length, to the tree."""
    if depth(treedef) > _MAX_DEPTH:
        return None
    writer = _Writer()
    leaves: list[str] = []
    tree = _build(writer, treedef, leaves)
    if leaves:
        writer.lines.append(f"{', '.join(leaves)}, = leaves")
    writer.lines.append(f"return {tree}")
    return writer.function("leaves")


def _build(writer: _Writer, treedef: PyTreeDef, leaves: list[str]) -> str:
    node = treedef.node
    if node is None:
        leaves.append(writer.fresh())
        return leaves[-1]
    children = [_build(writer, child, leaves) for child in treedef.child_defs]
    return node.write_build(writer, treedef, children)
