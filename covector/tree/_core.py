"""Pytrees: which types are nodes, the structure of a tree, taking trees apart and together.

A type is a *node* (it has children) if it is registered, or a named tuple; everything else is a
*leaf*. What an instance is taken apart into is decided by its exact type, so that a subclass of
``list`` is a leaf until registered.

Flattening sits on the path of every call with structured arguments. Three things keep it fast in
Python: one dictionary look-up per object, C loops for nodes that have leaves only, and structures
that are shared: equal ones made of plain containers are, as a rule, one object.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr

IsLeaf: TypeAlias = "Callable[[Any], bool] | None"

_SHARED_LIMIT: Final = 8192
_LEAF_TYPES_LIMIT: Final = 4096
_STR: Final = frozenset({str})
# Metadata of these types is equal only if it is the same, and small: structures may share it.
_ATOMS: Final = frozenset({str, int, bool, bytes, type(None)})


class NodeType:
    """How nodes of one type come apart and together. Abstract; one subclass per kind of node."""

    __slots__ = ("flat", "type")

    def __init__(self, type_: type):
        self.type: Final = type_
        self.flat: Final[dict[Any, PyTreeDef]] = {}  # structures with leaves only

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        """The children of a node and its metadata."""
        raise NotImplementedError

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        """The same with the key of each child."""
        raise NotImplementedError

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        """The inverse of `explode`."""
        raise NotImplementedError

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        """The structure of a node; shared with equal ones where that is safe."""
        return _shared(self, aux, (), children)

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        """Appends the leaves of a node to `out`; returns its structure."""
        children, aux = self.explode(tree)
        return self.structure(aux, _walk_children(children, out))

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


class _TupleNode(NodeType):
    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tree, None

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(SequenceKey(i), x) for i, x in enumerate(tree)], None

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return tuple(children)

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        if _leaf_types.issuperset(map(type, tree)):
            out.extend(tree)
            n = len(tree)
            return self.flat.get(n) or self.flat.setdefault(n, _shared(self, None, (), (LEAF,) * n))
        return _shared(self, None, (), _walk_nested(tree, out))

    def show(self, aux: Any, children: list[str]) -> str:
        return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"

    def key_of_child(self, aux: Any, i: int) -> Any:
        return SequenceKey(i)


class _ListNode(_TupleNode):
    __slots__ = ()

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return list(children)

    def show(self, aux: Any, children: list[str]) -> str:
        return f"[{', '.join(children)}]"


class _NoneNode(NodeType):
    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return (), None

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return (), None

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return None

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        return NONE

    def show(self, aux: Any, children: list[str]) -> str:
        return "None"


def _sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError as error:
        kinds = sorted({type(key).__name__ for key in tree})
        raise ValueError(
            "the keys of a dict in a pytree must be comparable, because its values are taken in "
            f"the order of the sorted keys; got keys of types {', '.join(kinds)}: "
            f"{_abridged(list(tree))}"
        ) from error


class _DictNode(NodeType):
    """The metadata are the keys, sorted."""

    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        keys = _sorted_keys(tree)
        return tuple([tree[key] for key in keys]), keys

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        keys = _sorted_keys(tree)
        return [(DictKey(key), tree[key]) for key in keys], keys

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return dict(zip(aux, children, strict=True))

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        # Keys that are equal without being the same (1, True, members of an enum) share nothing.
        if _STR.issuperset(map(type, aux)):
            return _shared(self, aux, aux, children)
        return PyTreeDef(self, aux, tuple(children), False)

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        keys = _sorted_keys(tree)
        values = list(map(tree.__getitem__, keys))
        if not _leaf_types.issuperset(map(type, values)):
            return self.structure(keys, _walk_nested(values, out))
        out.extend(values)
        if not _STR.issuperset(map(type, keys)):
            return PyTreeDef(self, keys, (LEAF,) * len(keys), False)
        return self.flat.get(keys) or _remember(self.flat, keys, self, keys)

    def show(self, aux: Any, children: list[str]) -> str:
        items = (f"{key!r}: {child}" for key, child in zip(aux, children, strict=True))
        return f"{{{', '.join(items)}}}"

    def public_aux(self, aux: Any) -> Any:
        return list(aux)

    def key_of_child(self, aux: Any, i: int) -> Any:
        return DictKey(aux[i])


class _OrderedDictNode(_DictNode):
    """The metadata are the keys, in the order of the dict."""

    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tuple(tree.values()), tuple(tree)

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(DictKey(key), x) for key, x in tree.items()], tuple(tree)

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return OrderedDict(zip(aux, children, strict=True))

    walk = NodeType.walk
    show = NodeType.show
    public_aux = NodeType.public_aux


class _DefaultDictNode(NodeType):
    """The metadata are the factory of defaults and the sorted keys."""

    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        keys = _sorted_keys(tree)
        return tuple([tree[key] for key in keys]), (tree.default_factory, keys)

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        keys = _sorted_keys(tree)
        return [(DictKey(key), tree[key]) for key in keys], (tree.default_factory, keys)

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        factory, keys = aux
        return defaultdict(factory, zip(keys, children, strict=True))

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        return PyTreeDef(self, aux, tuple(children), False)

    def key_of_child(self, aux: Any, i: int) -> Any:
        return DictKey(aux[1][i])


class _NamedTupleNode(NodeType):
    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tuple(tree), None

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(self.key_of_child(None, i), x) for i, x in enumerate(tree)], None

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return self.type(*children)

    walk = _TupleNode.walk

    def title(self, aux: Any) -> str:
        return f"namedtuple[{self.type.__name__}]"

    def key_of_child(self, aux: Any, i: int) -> Any:
        fields = self.type._fields  # type: ignore[attr-defined]
        return GetAttrKey(fields[i]) if i < len(fields) else SequenceKey(i)


class _CustomNode(NodeType):
    """A registered type, taken apart by functions of the user."""

    __slots__ = ("from_children", "to_children", "to_keyed_children")

    def __init__(
        self,
        type_: type,
        to_children: Callable[[Any], Any],
        from_children: Callable[[Any, Any], Any],
        to_keyed_children: Callable[[Any], Any] | None,
    ):
        super().__init__(type_)
        self.to_children: Final = to_children
        self.from_children: Final = from_children
        self.to_keyed_children: Final = to_keyed_children

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        result = self.to_children(tree)
        try:
            children, aux = result
            return (children if type(children) is tuple else tuple(children)), aux
        except (TypeError, ValueError):
            self._refuse("flatten", "(children, metadata)", result)

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        if self.to_keyed_children is None:
            children, aux = self.explode(tree)
            return [(FlattenedIndexKey(i), x) for i, x in enumerate(children)], aux
        result = self.to_keyed_children(tree)
        try:
            pairs, aux = result
            return [(key, child) for key, child in pairs], aux
        except (TypeError, ValueError):
            self._refuse("flatten-with-keys", "((key, child) pairs, metadata)", result)

    def _refuse(self, what: str, expected: str, result: Any) -> NoReturn:
        raise ValueError(
            f"the {what} function of pytree node {self.type.__name__} must return {expected}, "
            f"the first of them iterable; got {_abridged(result)}"
        ) from None

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return self.from_children(aux, tuple(children))

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        if type(aux) in _ATOMS:
            return _shared(self, aux, (type(aux), aux), children)
        if type(aux) is tuple and _ATOMS.issuperset(map(type, aux)):
            return _shared(self, aux, (*map(type, aux), aux), children)
        return PyTreeDef(self, aux, tuple(children), False)


class DataclassNode(_CustomNode):
    """A class whose children and metadata are attributes."""

    __slots__ = ("data_fields",)

    def __init__(self, type_: type, data_fields: Sequence[str], meta_fields: Sequence[str]):
        data, meta = tuple(data_fields), tuple(meta_fields)
        keys = tuple(map(GetAttrKey, data))

        def to_children(x: Any) -> Any:
            return tuple([getattr(x, f) for f in data]), tuple([getattr(x, f) for f in meta])

        def to_keyed_children(x: Any) -> Any:
            pairs = [(key, getattr(x, key.name)) for key in keys]
            return pairs, tuple([getattr(x, f) for f in meta])

        def from_children(aux: Any, children: Any) -> Any:
            return type_(
                **dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True))
            )

        super().__init__(type_, to_children, from_children, to_keyed_children)
        self.data_fields: Final = data

    def key_of_child(self, aux: Any, i: int) -> Any:
        return GetAttrKey(self.data_fields[i])


class _Nodes(dict[type, "NodeType | None"]):
    """Type -> how it comes apart, or None for a leaf; types are classified when first seen."""

    def __missing__(self, type_: type) -> NodeType | None:
        if issubclass(type_, tuple) and hasattr(type_, "_fields"):
            return self.setdefault(type_, _NamedTupleNode(type_))
        if len(_leaf_types) >= _LEAF_TYPES_LIMIT:
            # Types made on the fly must not be kept alive without bound.
            for leaf_type in list(_leaf_types):
                _leaf_types.discard(leaf_type)
                self.pop(leaf_type, None)
        self[type_] = None
        _leaf_types.add(type_)
        return None


_leaf_types: Final[set[type]] = set()
nodes: Final = _Nodes()


def register(node: NodeType) -> None:
    """Makes a type a node; ValueError if it is one."""
    type_ = node.type
    if not isinstance(type_, type):
        raise TypeError(f"a pytree node must be a class; got {type_!r}")
    if nodes[type_] is not None:
        raise ValueError(f"{type_} is a pytree node already; a type can be registered once")
    # Out of the leaf types first: between the two steps the type is merely looked up slowly.
    _leaf_types.discard(type_)
    nodes[type_] = node


class PyTreeDef:
    """The structure of a tree: what is left when the leaves are taken out.

    Compares by value and is hashable (if its metadata are). Prints with ``*`` for each leaf.

    >>> from covector import tree
    >>> tree.structure({"a": 1, "b": (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
    """

    __slots__ = (
        "__weakref__", "_aux", "_children", "_hash", "_is_flat", "_is_shared", "_node",
        "num_leaves", "num_nodes",
    )  # fmt: skip

    num_leaves: int
    num_nodes: int

    def __init__(
        self, node: NodeType | None, aux: Any, children: tuple[PyTreeDef, ...], shared: bool
    ):
        # Not for users: structures come from flattening.
        self._node: Final = node
        self._aux: Final = aux
        self._children: Final = children
        self._is_shared: Final = shared
        self._hash: int | None = None
        if node is None:
            self.num_leaves, self.num_nodes, self._is_flat = 1, 1, False
            return
        self.num_leaves = sum([child.num_leaves for child in children])
        self.num_nodes = 1 + sum([child.num_nodes for child in children])
        self._is_flat = self.num_nodes == len(children) + 1 == self.num_leaves + 1

    # -- comparing --------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        if (
            self._node is not other._node
            or self.num_nodes != other.num_nodes
            or self.num_leaves != other.num_leaves
        ):
            return False
        try:
            return bool(self._aux == other._aux) and self._children == other._children
        except ValueError as error:
            raise ValueError(
                f"the metadata of pytree node {self._node and self._node.type.__name__} cannot be "
                f"compared ({error}); metadata must have a plain == and be hashable, so it cannot "
                "be, or hold, an array"
            ) from error

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            try:
                aux = hash(self._aux)
            except TypeError:
                aux = 0  # unhashable metadata still compare
            known = self._hash = hash((id(self._node), aux, self._children))
        return known

    def __repr__(self) -> str:
        return f"PyTreeDef({self._show()})"

    def _show(self) -> str:
        if self._node is None:
            return "*"
        return self._node.show(self._aux, [child._show() for child in self._children])

    def __reduce__(self) -> Any:
        if self._node is None:
            return _leaf, ()
        return _rebuild, (self._node.type, self._aux, self._children)

    def __copy__(self) -> PyTreeDef:
        return self

    def __deepcopy__(self, memo: Any) -> PyTreeDef:
        return self

    # -- looking inside ---------------------------------------------------------------------------

    def children(self) -> list[PyTreeDef]:
        """The structures of the children of the root."""
        return list(self._children)

    def node_data(self) -> tuple[type, Any] | None:
        """The type and the metadata of the root; None if it is a leaf."""
        node = self._node
        return None if node is None else (node.type, node.public_aux(self._aux))

    def is_leaf(self) -> bool:
        """Whether this is the structure of a single leaf."""
        return self._node is None

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The structure with the given root (see `node_data`) and children."""
        children = tuple(children)
        if node_data is None:
            if children:
                raise ValueError(f"a leaf has no children; got {len(children)}")
            return LEAF
        return _rebuild(*node_data, children)

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with `inner` in the place of each leaf."""
        if self._node is None:
            return inner
        return self._node.structure(self._aux, [c.compose(inner) for c in self._children])

    # -- putting together -------------------------------------------------------------------------

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with the given leaves; ValueError if their number is wrong."""
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = list(leaves)
        n = self.num_leaves
        if len(leaves) != n:
            raise ValueError(f"{_few_or_many(len(leaves), n)} leaves for {self}: it has {n}")
        if self._is_flat:
            return self._node.rebuild(self._aux, leaves)  # type: ignore[union-attr]
        return self._build(iter(leaves))

    def _build(self, leaves: Any) -> Any:
        node, children = self._node, self._children
        if node is None:
            return next(leaves)
        if self._is_flat:
            parts: Any = islice(leaves, len(children))
            return node.rebuild(self._aux, list(parts))
        parts = [next(leaves) if c is LEAF else c._build(leaves) for c in children]
        return node.rebuild(self._aux, parts)

    def from_iterable_tree(self, subtrees: Any) -> Any:
        """The tree made of nested iterables that follow this structure."""
        node = self._node
        if node is None:
            return subtrees
        parts = list(subtrees)
        if len(parts) != len(self._children):
            raise ValueError(f"{self} has {len(self._children)} children; got {len(parts)}")
        pairs = zip(self._children, parts, strict=True)
        return node.rebuild(self._aux, [c.from_iterable_tree(part) for c, part in pairs])

    def walk(
        self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Any
    ) -> Any:
        """Folds the tree of this structure and `leaves`, bottom up.

        ``f_node(values of the children, metadata)`` and ``f_leaf(leaf)`` give the values.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            n = self.num_leaves
            raise ValueError(f"{_few_or_many(len(leaves), n)} leaves for {self}: it has {n}")
        return self._fold(f_node, f_leaf, iter(leaves))

    def _fold(self, f_node: Any, f_leaf: Any, leaves: Any) -> Any:
        node = self._node
        if node is None:
            leaf = next(leaves)
            return leaf if f_leaf is None else f_leaf(leaf)
        values = tuple([c._fold(f_node, f_leaf, leaves) for c in self._children])
        return f_node(values, node.public_aux(self._aux))

    # -- taking apart -----------------------------------------------------------------------------

    def flatten_up_to(self, full_tree: Any) -> list[Any]:
        """The subtrees of a tree at the leaves of this structure, which must be a prefix of it.

        Raises ValueError with the path of the first difference.
        """
        out: list[Any] = []
        try:
            self._up_to(full_tree, out)
        except Mismatch as mismatch:
            raise ValueError(
                mismatch.message("flatten_up_to", "the structure", "the tree")
            ) from None
        return out

    def _mismatches(self, tree: Any, path: tuple[Any, ...]) -> list[Mismatch]:
        """All places where this structure is no prefix of a tree."""
        node = self._node
        if node is None:
            return []
        try:
            children = self._parts(tree)
        except Mismatch as mismatch:
            mismatch.path = path
            return [mismatch]
        pairs = enumerate(zip(self._children, children, strict=True))
        keys = [node.key_of_child(self._aux, i) for i in range(len(children))]
        return [m for i, (c, x) in pairs for m in c._mismatches(x, (*path, keys[i]))]

    def _parts(self, tree: Any) -> Sequence[Any]:
        """The children of a tree whose root must be as the root of this structure."""
        node = self._node
        assert node is not None
        if type(tree) is not node.type:
            raise Mismatch(self, tree)
        if node is TUPLE or node is LIST:
            children = tree
        else:
            children, aux = node.explode(tree)
            if aux is not self._aux and aux != self._aux:
                raise Mismatch(self, tree)
        if len(children) != len(self._children):
            raise Mismatch(self, tree)
        return children

    def _up_to(self, tree: Any, out: list[Any]) -> None:
        node = self._node
        if node is None:
            out.append(tree)
            return
        children = self._parts(tree)
        if self._is_flat:
            out.extend(children)
            return
        for i, (child, part) in enumerate(zip(self._children, children, strict=True)):
            if child is LEAF:
                out.append(part)
            else:
                try:
                    child._up_to(part, out)
                except Mismatch as mismatch:
                    mismatch.add_step(node.key_of_child(self._aux, i))
                    raise


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
        return f"{operation}: {prefix} and {full} differ {where}: {self.difference(prefix, full)}"

    def difference(self, prefix: str, full: str) -> str:
        """What differs, without the place."""
        expected, found = self.expected, self.found
        node = expected._node
        assert node is not None
        if type(found) is not node.type:
            text = (
                f"{prefix} has {_kind(node.type, len(expected._children))}, "
                f"{full} has {_kind_of(found)}"
            )
            if node is _NONE_NODE:
                text += (
                    ". None is a node without children; to treat it as a leaf, flatten with "
                    "is_leaf=lambda x: x is None"
                )
            return text
        children, aux = node.explode(found)
        if isinstance(node, _DictNode) and set(expected._aux) != set(aux):
            missing = [key for key in expected._aux if key not in aux]
            extra = [key for key in aux if key not in expected._aux]
            parts = [f"only {prefix} has {_keys(missing)}"] * bool(missing)
            parts += [f"only {full} has {_keys(extra)}"] * bool(extra)
            return f"the keys of the {node.type.__name__} are not the same: {', '.join(parts)}"
        if aux != expected._aux:
            return (
                f"both have a {node.type.__name__}, with different metadata: {prefix} has "
                f"{_abridged(expected._aux)}, {full} has {_abridged(aux)}"
            )
        return (
            f"both have a {node.type.__name__}, {prefix} with {len(expected._children)} children, "
            f"{full} with {len(children)}"
        )


def _keys(keys: list[Any]) -> str:
    return f"key{'s' * (len(keys) > 1)} {', '.join(map(repr, keys))}"


def _kind(type_: type, n: int) -> str:
    if type_ is type(None):
        return "None"
    return f"a {type_.__name__} of {n}" if type_ in (tuple, list, dict) else f"a {type_.__name__}"


def _kind_of(x: Any) -> str:
    if type(x) in (tuple, list, dict, type(None)):
        return _kind(type(x), len(x) if x is not None else 0)
    if nodes[type(x)] is not None:
        return f"a {type(x).__name__}"
    return f"the leaf {_abridged(x)} of type {type(x).__name__}"


def _few_or_many(given: int, wanted: int) -> str:
    return f"too {'few' if given < wanted else 'many'} ({given})"


def _abridged(x: Any) -> str:
    text = " ".join(repr(x).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


LEAF: Final = PyTreeDef(None, None, (), True)
TUPLE: Final = _TupleNode(tuple)
LIST: Final = _ListNode(list)
_NONE_NODE: Final = _NoneNode(type(None))
NONE: Final = PyTreeDef(_NONE_NODE, None, (), True)

for _node in (
    TUPLE, LIST, _NONE_NODE, _DictNode(dict), _OrderedDictNode(OrderedDict),
    _DefaultDictNode(defaultdict),
):  # fmt: skip
    register(_node)


def _leaf() -> PyTreeDef:
    return LEAF


def _rebuild(type_: type, aux: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    node = nodes[type_]
    if node is None:
        raise ValueError(f"{type_} is not a pytree node; register it first")
    if isinstance(node, _DictNode):
        aux = tuple(aux)
        if len(aux) != len(children):
            raise ValueError(f"a {type_.__name__} of {len(aux)} keys with {len(children)} children")
    if node is _NONE_NODE:
        return NONE
    return node.structure(aux, children)


# -- structures that are shared ---------------------------------------------------------------------

_shared_structures: Final[dict[Any, PyTreeDef]] = {}


def _shared(
    node: NodeType, aux: Any, aux_key: tuple[Any, ...], children: Sequence[PyTreeDef]
) -> PyTreeDef:
    """The structure, the same object each time while all below it is shared.

    Children are looked up by identity: the stored structure keeps them alive.
    """
    if not all([child._is_shared for child in children]):
        return PyTreeDef(node, aux, tuple(children), False)
    key = (node, aux_key, *map(id, children))
    found = _shared_structures.get(key)
    if found is not None:
        return found
    if len(_shared_structures) >= _SHARED_LIMIT:
        _forget_shared()
    return _shared_structures.setdefault(key, PyTreeDef(node, aux, tuple(children), True))


def _forget_shared() -> None:
    _shared_structures.clear()
    for node in list(nodes.values()):
        if node is not None:
            node.flat.clear()


def _remember(table: dict[Any, PyTreeDef], key: Any, node: NodeType, aux: Any) -> PyTreeDef:
    return table.setdefault(key, node.structure(aux, (LEAF,) * len(key)))


# -- flattening -------------------------------------------------------------------------------------


def _walk_nested(children: Iterable[Any], out: list[Any]) -> list[PyTreeDef]:
    structures: list[PyTreeDef] = []
    for child in children:
        node = nodes[type(child)]
        if node is None:
            out.append(child)
            structures.append(LEAF)
        else:
            structures.append(node.walk(child, out))
    return structures


def _walk_children(children: Sequence[Any], out: list[Any]) -> Sequence[PyTreeDef]:
    if _leaf_types.issuperset(map(type, children)):
        out.extend(children)
        return (LEAF,) * len(children)
    return _walk_nested(children, out)


def flatten(tree: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, in order, and its structure."""
    node = nodes[type(tree)]
    if node is None:
        return [tree], LEAF
    out: list[Any] = []
    return out, node.walk(tree, out)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    out: list[Any] = []
    _collect(tree, out)
    return out


def _collect(tree: Any, out: list[Any]) -> None:
    node = nodes[type(tree)]
    if node is None:
        out.append(tree)
        return
    children, _ = node.explode(tree)
    if _leaf_types.issuperset(map(type, children)):
        out.extend(children)
    else:
        for child in children:
            _collect(child, out)


def says_leaf(answer: Any) -> bool:
    """What an ``is_leaf`` function answered; ValueError if it was not a boolean."""
    if answer is True or answer is False:
        return answer
    if type(answer).__name__ in ("bool", "bool_"):  # NumPy's
        return bool(answer)
    raise ValueError(f"is_leaf must answer True or False; got {answer!r}")


def walk_until(tree: Any, out: list[Any], is_leaf: Callable[[Any], bool]) -> PyTreeDef:
    """As `NodeType.walk`, but `is_leaf` may end it early."""
    node = nodes[type(tree)]
    if says_leaf(is_leaf(tree)) or node is None:
        out.append(tree)
        return LEAF
    children, aux = node.explode(tree)
    return node.structure(aux, [walk_until(child, out, is_leaf) for child in children])


def walk_with_path(
    tree: Any, path: tuple[Any, ...], out: list[Any], is_leaf: Callable[[Any, Any], bool] | None
) -> PyTreeDef:
    """As `NodeType.walk`, with (path, leaf) pairs; `is_leaf` takes the path and the tree."""
    node = nodes[type(tree)]
    if node is None or (is_leaf is not None and says_leaf(is_leaf(path, tree))):
        out.append((path, tree))
        return LEAF
    pairs, aux = node.keyed(tree)
    return node.structure(
        aux, [walk_with_path(child, (*path, key), out, is_leaf) for key, child in pairs]
    )
