"""The structure of a tree, and what a kind of node must be able to do.

Structures made of plain containers are shared: equal ones are, as a rule, one object, so that
comparing them costs nothing and what is learned about one (see `_compiled`) is not lost.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import is_
from typing import Any, Final

from covector import tree

from ._compiled import compile_build, compile_match
from ._keys import FlattenedIndexKey, keystr

_SHARED_LIMIT: Final = 8192  # structures kept per kind of node
_COMPILE_AFTER: Final = 32  # uses
_COMPILE_LIMIT: Final = 2000  # nodes


class NodeType:
    """How nodes of one type come apart and together. Abstract; one subclass per kind of node."""

    __slots__ = ("guesses", "last", "shared", "type")

    has_len = True  # whether len() of a node is the number of its children

    def __init__(self, type_: type):
        self.type: Final = type_
        self.shared: Final[dict[Any, PyTreeDef]] = {}
        # By number of children, weakly: the latest structure that is not shared, and the latest
        # with a compiled matcher.
        self.last: Final[dict[int, weakref.ref[PyTreeDef]]] = {}
        self.guesses: Final[dict[int, weakref.ref[PyTreeDef]]] = {}

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        """The children of a node and its metadata."""
        raise NotImplementedError

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        """The same with the key of each child."""
        raise NotImplementedError

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        """Appends the leaves of a node to `out`; returns its structure."""
        raise NotImplementedError

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        """The inverse of `explode`."""
        raise NotImplementedError

    def take(self, aux: Any, leaves: Any, n: int) -> Any:
        """A node whose `n` children are the next of an iterator."""
        return self.rebuild(aux, list(islice(leaves, n)))

    def aux_key(self, aux: Any) -> Any:
        """Metadata as a dictionary key by which a structure can be shared, or None if it cannot.

        Metadata that are equal without being the same (1 and True) must have different keys, and
        the key must keep nothing big alive.
        """
        raise NotImplementedError

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        """The structure of a node; the same object each time where that is safe."""
        aux_key = self.aux_key(aux)
        # A stored structure keeps its children alive, so their identities are not reused.
        key = (aux_key, *map(id, children))
        found = self.shared.get(key)
        if found is not None:
            return found
        if aux_key is None or not all([child.is_shared for child in children]):  # noqa: C419
            return self._latest(aux, children)
        if len(self.shared) >= _SHARED_LIMIT:
            self.shared.clear()
        return self.shared.setdefault(key, PyTreeDef(self, aux, tuple(children), True))

    def _latest(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        reference = self.last.get(len(children))
        latest = reference and reference()
        if (
            latest is not None
            and _is_same(latest.aux, aux)
            and all(map(is_, latest.child_defs, children))
        ):
            return latest
        made = PyTreeDef(self, aux, tuple(children), False)
        self.last[len(children)] = weakref.ref(made)
        return made

    def same_aux(self, a: Any, b: Any) -> bool:
        """Whether metadata are the same, not only equal."""
        if _is_same(a, b):
            return True
        key = self.aux_key(a)
        return key is not None and key == self.aux_key(b)

    def checked_aux(self, aux: Any, n: int) -> Any:
        """Metadata given from outside, for a node with `n` children."""
        return aux

    def write_match(self, writer: Any, treedef: PyTreeDef, name: str, children: list[str]) -> None:
        """Code that leaves the function if `name` is no such node, else sets its children."""
        explode, same = writer.value(self.explode), writer.value(self.same_aux)
        type_, aux = writer.value(self.type), writer.value(treedef.aux)
        writer.lines += [
            f"if type({name}) is not {type_}: return None",
            f"parts, aux = {explode}({name})",
            f"if len(parts) != {len(children)} or not {same}(aux, {aux}): return None",
        ]
        if children:
            writer.lines.append(f"{', '.join(children)}, = parts")

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        """An expression for the node with the given children."""
        rebuild, aux = writer.value(self.rebuild), writer.value(treedef.aux)
        return f"{rebuild}({aux}, ({''.join(f'{child}, ' for child in children)}))"

    def show(self, aux: Any, children: list[str]) -> str:
        """The text of a structure, from that of its children."""
        return f"CustomNode({self.title(aux)}, [{', '.join(children)}])"

    def title(self, aux: Any) -> str:
        """Type and metadata, as shown."""
        return f"{self.type.__name__}[{aux}]"

    def public_aux(self, aux: Any) -> Any:
        """The metadata as `PyTreeDef.node_data` gives it."""
        return aux

    def key_of_child(self, aux: Any, i: int) -> Any:
        """The path step to child `i`, without a value at hand."""
        return FlattenedIndexKey(i)

    def mismatch(self, expected: PyTreeDef, tree: Any, prefix: str, full: str) -> str:
        """How a node of this type differs from what was expected, in metadata or children."""
        children, aux = self.explode(tree)
        name = self.type.__name__
        if aux != expected.aux:
            return (
                f"both have a {name}, with different metadata: {prefix} has "
                f"{abridged(expected.aux)}, {full} has {abridged(aux)}"
            )
        return (
            f"both have a {name}, {prefix} with {len(expected.child_defs)} children, "
            f"{full} with {len(children)}"
        )

    def describe(self, n: int) -> str:
        """A node with `n` children, in an error message."""
        return f"a {self.type.__name__}"


def _is_same(a: Any, b: Any) -> bool:
    if a.__class__ is tuple and b.__class__ is tuple:
        return len(a) == len(b) and all(map(is_, a, b))
    return a is b


class PyTreeDef:
    """The structure of a tree: what is left when the leaves are taken out.

    Compares by value and is hashable. Prints with ``*`` for each leaf.

    >>> from covector import tree
    >>> tree.structure({"a": 1, "b": (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
    """

    __slots__ = (
        "__weakref__", "_build", "_hash", "_match", "_uses", "aux", "child_defs", "is_flat",
        "is_shared", "node", "num_leaves", "num_nodes",
    )  # fmt: skip

    node: NodeType | None  # the kind of the root; None for a leaf
    aux: Any  # its metadata
    child_defs: tuple[PyTreeDef, ...]
    num_leaves: int
    num_nodes: int
    is_flat: bool  # the children are leaves
    is_shared: bool  # equal structures are this object

    def __init__(
        self, node: NodeType | None, aux: Any, children: tuple[PyTreeDef, ...], shared: bool
    ):
        # Not for users: structures come from flattening.
        self.node = node
        self.aux = aux
        self.child_defs = children
        self.is_shared = shared
        self._hash: int | None = None
        self._uses = 0
        self._match: Callable[[Any], list[Any] | None] | None = None
        self._build: Callable[[Any], Any] | None = None
        if node is None:
            self.num_leaves, self.num_nodes, self.is_flat = 1, 1, False
            return
        self.num_leaves = sum([child.num_leaves for child in children])
        self.num_nodes = 1 + sum([child.num_nodes for child in children])
        self.is_flat = self.num_nodes == len(children) + 1 == self.num_leaves + 1

    # -- comparing and showing --------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        if (
            self.node is not other.node
            or self.num_nodes != other.num_nodes
            or self.num_leaves != other.num_leaves
        ):
            return False
        try:
            return bool(self.aux == other.aux) and self.child_defs == other.child_defs
        except ValueError as error:
            raise ValueError(
                f"the metadata of pytree node {self.node and self.node.type.__name__} cannot be "
                f"compared ({error}); metadata must have a plain == and be hashable, so it cannot "
                "be, or hold, an array"
            ) from error

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            try:
                aux = hash(self.aux)
            except TypeError:
                aux = 0  # unhashable metadata still compare
            known = self._hash = hash((id(self.node), aux, self.child_defs))
        return known

    def __repr__(self) -> str:
        return f"PyTreeDef({self._show()})"

    def _show(self) -> str:
        if self.node is None:
            return "*"
        return self.node.show(self.aux, [child._show() for child in self.child_defs])

    def __reduce__(self) -> Any:
        node_data = None if self.node is None else (self.node.type, self.aux)
        return _rebuild, (node_data, self.child_defs)

    def __copy__(self) -> PyTreeDef:
        return self

    def __deepcopy__(self, memo: Any) -> PyTreeDef:
        return self

    # -- looking inside ---------------------------------------------------------------------------

    def children(self) -> list[PyTreeDef]:
        """The structures of the children of the root."""
        return list(self.child_defs)

    def node_data(self) -> tuple[type, Any] | None:
        """The type and the metadata of the root; None if it is a leaf."""
        node = self.node
        return None if node is None else (node.type, node.public_aux(self.aux))

    def is_leaf(self) -> bool:
        """Whether this is the structure of a single leaf."""
        return self.node is None

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The structure with the given root (see `node_data`) and children."""
        return _rebuild(node_data, tuple(children))

    def serialize_using_proto(self) -> bytes:
        """The structure as bytes; for tuples, lists, None and dicts with string keys only."""
        return tree._wire.serialize(self)  # pyright: ignore[reportPrivateUsage]

    @staticmethod
    def deserialize_using_proto(registry: Any, data: bytes) -> PyTreeDef:
        """The inverse of `serialize_using_proto`; ValueError for other bytes."""
        return tree._wire.deserialize(data)  # pyright: ignore[reportPrivateUsage]

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with `inner` in the place of each leaf."""
        if self.node is None:
            return inner
        return self.node.structure(self.aux, [c.compose(inner) for c in self.child_defs])

    # -- putting together -------------------------------------------------------------------------

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with the given leaves; ValueError if their number is wrong."""
        flat: Any = leaves
        if flat.__class__ is not list and flat.__class__ is not tuple:
            flat = list(leaves)
        if len(flat) != self.num_leaves:
            raise self._wrong_number(len(flat))
        if self._build is not None:
            return self._build(flat)
        node = self.node
        if node is None:
            return flat[0]
        if self.is_flat:
            return node.rebuild(self.aux, flat)
        self.count_use()
        return self._assemble(iter(flat))

    def _assemble(self, leaves: Any) -> Any:
        node, children = self.node, self.child_defs
        assert node is not None
        if self.is_flat:
            return node.take(self.aux, leaves, len(children))
        parts = [next(leaves) if c is LEAF else c._assemble(leaves) for c in children]
        return node.rebuild(self.aux, parts)

    def _wrong_number(self, given: int) -> ValueError:
        few = "few" if given < self.num_leaves else "many"
        return ValueError(f"too {few} leaves: {self} has {self.num_leaves}, got {given}")

    def from_iterable_tree(self, subtrees: Any) -> Any:
        """The tree made of nested iterables that follow this structure."""
        node = self.node
        if node is None:
            return subtrees
        parts = list(subtrees)
        if len(parts) != len(self.child_defs):
            raise ValueError(f"{self} has {len(self.child_defs)} children; got {len(parts)}")
        pairs = zip(self.child_defs, parts, strict=True)
        return node.rebuild(self.aux, [c.from_iterable_tree(part) for c, part in pairs])

    def walk(
        self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Any
    ) -> Any:
        """Folds the tree of this structure and `leaves`, bottom up.

        ``f_node(values of the children, metadata)`` and ``f_leaf(leaf)`` give the values.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise self._wrong_number(len(leaves))
        return self._fold(f_node, f_leaf, iter(leaves))

    def _fold(self, f_node: Any, f_leaf: Any, leaves: Any) -> Any:
        node = self.node
        if node is None:
            leaf = next(leaves)
            return leaf if f_leaf is None else f_leaf(leaf)
        values = tuple([c._fold(f_node, f_leaf, leaves) for c in self.child_defs])
        return f_node(values, node.public_aux(self.aux))

    # -- taking apart -----------------------------------------------------------------------------

    def match(self, tree: Any) -> list[Any] | None:
        """The leaves of a tree of exactly this structure, if that can be told fast; else None."""
        return None if self._match is None else self._match(tree)

    def flatten_up_to(self, full_tree: Any) -> list[Any]:
        """The subtrees of a tree at the leaves of this structure, which must be a prefix of it.

        Raises ValueError with the path of the first difference.
        """
        return self.flatten_prefix("flatten_up_to", "the structure", "the tree", full_tree)

    def flatten_prefix(self, operation: str, prefix: str, full: str, full_tree: Any) -> list[Any]:
        """As `flatten_up_to`, with the names of the operation and the two trees for the error."""
        if self._match is not None:
            found = self._match(full_tree)
            if found is not None:
                return found
        out: list[Any] = []
        try:
            self._up_to(full_tree, out)
        except Mismatch as mismatch:
            raise ValueError(mismatch.message(operation, prefix, full)) from None
        return out

    def _up_to(self, tree: Any, out: list[Any]) -> None:
        node = self.node
        if node is None:
            out.append(tree)
            return
        children = self._parts(tree)
        if self.is_flat:
            out.extend(children)
            return
        for i, (child, part) in enumerate(zip(self.child_defs, children, strict=True)):
            if child is LEAF:
                out.append(part)
            else:
                try:
                    child._up_to(part, out)
                except Mismatch as mismatch:
                    mismatch.add_step(node.key_of_child(self.aux, i))
                    raise

    def _parts(self, tree: Any) -> Sequence[Any]:
        """The children of a tree whose root must be as the root of this structure."""
        node = self.node
        assert node is not None
        if type(tree) is not node.type:
            raise Mismatch(self, tree)
        children, aux = node.explode(tree)
        if (aux is not self.aux and aux != self.aux) or len(children) != len(self.child_defs):
            raise Mismatch(self, tree)
        return children

    def mismatches(self, tree: Any, path: tuple[Any, ...] = ()) -> list[Mismatch]:
        """All places where this structure is no prefix of a tree."""
        node = self.node
        if node is None:
            return []
        try:
            children = self._parts(tree)
        except Mismatch as mismatch:
            mismatch.path = path
            return [mismatch]
        found: list[Mismatch] = []
        for i, (child, part) in enumerate(zip(self.child_defs, children, strict=True)):
            found += child.mismatches(part, (*path, node.key_of_child(self.aux, i)))
        return found

    # -- what is used often is compiled -----------------------------------------------------------

    def count_use(self) -> None:
        """Counts the uses of a nested structure, and compiles it when they are many."""
        self._uses += 1
        if self._uses == _COMPILE_AFTER and self.num_nodes <= _COMPILE_LIMIT:
            self._match = compile_match(self)
            self._build = compile_build(self)
            assert self.node is not None
            key = len(self.child_defs) if self.node.has_len else -1
            self.node.guesses[key] = weakref.ref(self)


LEAF: Final = PyTreeDef(None, None, (), True)
_socket: dict[str, Callable[..., Any]] = {}


def plug(**functions: Callable[..., Any]) -> None:
    """Gives this module, which knows no node types, what needs them."""
    _socket.update(functions)


def _rebuild(node_data: tuple[type, Any] | None, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    if node_data is None:
        if children:
            raise ValueError(f"a leaf has no children; got {len(children)}")
        return LEAF
    type_, aux = node_data
    node = _socket["lookup"](type_)
    if node is None:
        raise ValueError(f"{type_} is not a pytree node; register it first")
    return node.structure(node.checked_aux(aux, len(children)), children)


class Mismatch(Exception):
    """A tree does not have a structure as its prefix; collects the path to the place."""

    def __init__(self, expected: PyTreeDef, found: Any):
        super().__init__()
        self.expected: Final = expected
        self.found: Final = found
        self.path: tuple[Any, ...] = ()

    def add_step(self, key: Any) -> None:
        """Puts a step before the path so far."""
        self.path = (key, *self.path)

    def message(self, operation: str, prefix: str, full: str) -> str:
        """What differs, and where; `prefix` and `full` are the names of the two trees."""
        where = f"at {keystr(self.path)}" if self.path else "at the root"
        return f"{operation}: {prefix} and {full} differ {where}: {self._difference(prefix, full)}"

    def _difference(self, prefix: str, full: str) -> str:
        expected, found = self.expected, self.found
        node = expected.node
        assert node is not None
        if type(found) is node.type:
            return node.mismatch(expected, found, prefix, full)
        other = _socket["lookup"](type(found))
        there = (
            f"the leaf {abridged(found)} of type {type(found).__name__}"
            if other is None
            else other.describe(len(other.explode(found)[0]))
        )
        text = f"{prefix} has {node.describe(len(expected.child_defs))}, {full} has {there}"
        if node.type is type(None):
            text += (
                ". None is a node without children; to treat it as a leaf, flatten with "
                "is_leaf=lambda x: x is None"
            )
        return text


def abridged(x: Any) -> str:
    """A repr on one line, of bounded length."""
    text = " ".join(repr(x).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
