"""The kinds of nodes, the registry of types, and walking over trees.

A type is a *node* (it has children) if it is registered, or a named tuple; everything else is a
*leaf*. The exact type decides, so that a subclass of ``list`` is a leaf until it is registered.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NoReturn

from ._compiled import Impossible, all_leaves_socket
from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey
from ._treedef import LEAF, NodeType, PyTreeDef, abridged, plug

_LEAF_TYPES_LIMIT: Final = 4096
_ORDERS_LIMIT: Final = 4096

# Types of metadata that are equal only if they are the same, and never big.
_ATOMS: Final = frozenset({str, int, bool, bytes, type(None)})

_leaf_types: Final[set[type]] = set()
_all_leaves: Final = _leaf_types.issuperset
_all_strings: Final = frozenset({str}).issuperset
_all_atoms: Final = _ATOMS.issuperset
all_leaves_socket["all_leaves"] = _all_leaves


def _next(leaves: Any, n: int) -> tuple[Any, ...]:
    return tuple(islice(leaves, n))


class _TupleNode(NodeType):
    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tree, None

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(SequenceKey(i), x) for i, x in enumerate(tree)], None

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        if _all_leaves(map(type, tree)):
            out.extend(tree)
            return self.shared.get(len(tree)) or self.flat_structure(len(tree))
        return self.structure(None, walk_nested(tree, out))

    def flat_structure(self, n: int) -> PyTreeDef:
        """The structure with `n` leaves, found by number."""
        return self.shared.setdefault(n, self.structure(None, (LEAF,) * n))

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return tuple(children)

    def take(self, aux: Any, leaves: Any, n: int) -> Any:
        return _next(leaves, n)

    def aux_key(self, aux: Any) -> Any:
        return ()

    def write_match(self, writer: Any, treedef: PyTreeDef, name: str, children: list[str]) -> None:
        type_ = writer.value(self.type)
        writer.lines.append(
            f"if type({name}) is not {type_} or len({name}) != {len(children)}: return None"
        )
        if children:
            writer.lines.append(f"{', '.join(children)}, = {name}")

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        return f"({''.join(f'{child}, ' for child in children)})"

    def show(self, aux: Any, children: list[str]) -> str:
        return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"

    def key_of_child(self, aux: Any, i: int) -> Any:
        return SequenceKey(i)

    def describe(self, n: int) -> str:
        return f"a {self.type.__name__} of {n}"


class _ListNode(_TupleNode):
    __slots__ = ()

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return list(children)

    def take(self, aux: Any, leaves: Any, n: int) -> Any:
        return list(_next(leaves, n))

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        return f"[{', '.join(children)}]"

    def show(self, aux: Any, children: list[str]) -> str:
        return f"[{', '.join(children)}]"


class NamedTupleNode(_TupleNode):
    __slots__ = ()

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(self.key_of_child(None, i), x) for i, x in enumerate(tree)], None

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return self.type(*children)

    def take(self, aux: Any, leaves: Any, n: int) -> Any:
        return self.type(*_next(leaves, n))

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        return f"{writer.value(self.type)}({', '.join(children)})"

    def show(self, aux: Any, children: list[str]) -> str:
        return f"CustomNode(namedtuple[{self.type.__name__}], [{', '.join(children)}])"

    def key_of_child(self, aux: Any, i: int) -> Any:
        fields: tuple[str, ...] = getattr(self.type, "_fields", ())
        return GetAttrKey(fields[i]) if i < len(fields) else SequenceKey(i)

    describe = NodeType.describe


class _NoneNode(NodeType):
    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return (), None

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return (), None

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        return NONE

    def structure(self, aux: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
        return NONE

    def aux_key(self, aux: Any) -> Any:
        return ()

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return None

    def write_match(self, writer: Any, treedef: PyTreeDef, name: str, children: list[str]) -> None:
        writer.lines.append(f"if {name} is not None: return None")

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        return "None"

    def show(self, aux: Any, children: list[str]) -> str:
        return "None"

    def describe(self, n: int) -> str:
        return "None"


def _sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError as error:
        kinds = sorted({type(key).__name__ for key in tree})
        raise ValueError(
            "the keys of a dict in a pytree must be comparable, because its values are taken in "
            f"the order of the sorted keys; got keys of types {', '.join(kinds)}: "
            f"{abridged(list(tree))}"
        ) from error


def _picker(keys: tuple[Any, ...]) -> Callable[[Any], Sequence[Any]]:
    """A function from a dict to the tuple of its values at the keys."""
    if len(keys) > 1:
        return itemgetter(*keys)
    return lambda tree: tuple([tree[key] for key in keys])


class _DictNode(NodeType):
    """The metadata are the keys, sorted."""

    # Keys in the order of the dict -> the keys sorted, a getter of the values, and the structure
    # with leaves only. For keys that are strings.
    __slots__ = ("orders",)

    def __init__(self, type_: type):
        super().__init__(type_)
        self.orders: Final[dict[tuple[str, ...], tuple[Any, Any, PyTreeDef]]] = {}

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        if not _all_strings(map(type, tree)):
            keys = _sorted_keys(tree)
            return tuple([tree[key] for key in keys]), keys
        order = tuple(tree)
        keys, pick, _ = self.orders.get(order) or self.learn(order)
        return pick(tree), keys

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        keys = _sorted_keys(tree)
        return [(DictKey(key), tree[key]) for key in keys], keys

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        if not _all_strings(map(type, tree)):
            values, keys = self.explode(tree)
            return self.structure(keys, walk_children(values, out))
        order = tuple(tree)
        keys, pick, flat = self.orders.get(order) or self.learn(order)
        values = pick(tree)
        if _all_leaves(map(type, values)):
            out.extend(values)
            return flat
        return self.structure(keys, walk_nested(values, out))

    def learn(self, order: tuple[str, ...]) -> tuple[Any, Any, PyTreeDef]:
        """Sorts keys that were not seen in this order."""
        keys = tuple(sorted(order))
        if len(self.orders) >= _ORDERS_LIMIT:
            self.orders.clear()
        flat = self.structure(keys, (LEAF,) * len(keys))
        return self.orders.setdefault(order, (keys, _picker(keys), flat))

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return dict(zip(aux, children))  # noqa: B905 (as long as each other; strict= is slow)

    def take(self, aux: Any, leaves: Any, n: int) -> Any:
        return dict(zip(aux, leaves))  # noqa: B905 (ends with the keys)

    def aux_key(self, aux: Any) -> Any:
        # Keys that are equal without being the same: 1 and True, a string and a member of an enum.
        return aux if _all_strings(map(type, aux)) else None

    def checked_aux(self, aux: Any, n: int) -> Any:
        if len(aux) != n:
            raise ValueError(f"a {self.type.__name__} of {len(aux)} keys cannot have {n} children")
        return tuple(aux)

    def write_match(self, writer: Any, treedef: PyTreeDef, name: str, children: list[str]) -> None:
        if self.aux_key(treedef.aux) is None:
            raise Impossible
        writer.lines.append(
            f"if type({name}) is not {writer.value(self.type)} or len({name}) != {len(children)}: "
            "return None"
        )
        if children:
            # As long as one key is a plain string we take it that all are.
            writer.lines += [f"for key in {name}: break", "if type(key) is not str: return None"]
        for child, key in zip(children, treedef.aux, strict=True):
            writer.lines.append(f"{child} = {name}[{writer.value(key)}]")

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        pairs = zip(treedef.aux, children, strict=True)
        return f"{{{', '.join(f'{writer.value(key)}: {child}' for key, child in pairs)}}}"

    def show(self, aux: Any, children: list[str]) -> str:
        items = (f"{key!r}: {child}" for key, child in zip(aux, children, strict=True))
        return f"{{{', '.join(items)}}}"

    def public_aux(self, aux: Any) -> Any:
        return list(aux)

    def key_of_child(self, aux: Any, i: int) -> Any:
        return DictKey(aux[i])

    def mismatch(self, expected: PyTreeDef, tree: Any, prefix: str, full: str) -> str:
        return _key_mismatch(self, expected.aux, tree, prefix, full) or super().mismatch(
            expected, tree, prefix, full
        )

    def describe(self, n: int) -> str:
        return f"a {self.type.__name__} of {n}"


def _key_mismatch(node: NodeType, keys: Any, tree: Any, prefix: str, full: str) -> str:
    missing = [key for key in keys if key not in tree]
    extra = [key for key in tree if key not in keys]
    if not missing and not extra:
        return ""
    parts = [f"only {prefix} has {_show_keys(missing)}"] * bool(missing)
    parts += [f"only {full} has {_show_keys(extra)}"] * bool(extra)
    return f"the keys of the {node.type.__name__} are not the same: {', '.join(parts)}"


def _show_keys(keys: list[Any]) -> str:
    return f"key{'s' * (len(keys) > 1)} {', '.join(map(repr, keys))}"


class _OrderedDictNode(NodeType):
    """The metadata are the keys, in the order of the dict."""

    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tuple(tree.values()), tuple(tree)

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        return [(DictKey(key), x) for key, x in tree.items()], tuple(tree)

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        return self.structure(tuple(tree), walk_children(tuple(tree.values()), out))

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return OrderedDict(zip(aux, children, strict=True))

    aux_key = _DictNode.aux_key
    checked_aux = _DictNode.checked_aux
    key_of_child = _DictNode.key_of_child

    def mismatch(self, expected: PyTreeDef, tree: Any, prefix: str, full: str) -> str:
        return _key_mismatch(self, expected.aux, tree, prefix, full) or super().mismatch(
            expected, tree, prefix, full
        )


class _DefaultDictNode(NodeType):
    """The metadata are the factory of defaults and the sorted keys."""

    __slots__ = ()

    def explode(self, tree: Any) -> tuple[Sequence[Any], Any]:
        keys = _sorted_keys(tree)
        return tuple([tree[key] for key in keys]), (tree.default_factory, keys)

    def keyed(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        keys = _sorted_keys(tree)
        return [(DictKey(key), tree[key]) for key in keys], (tree.default_factory, keys)

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        values, aux = self.explode(tree)
        return self.structure(aux, walk_children(values, out))

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        factory, keys = aux
        return defaultdict(factory, zip(keys, children, strict=True))

    def aux_key(self, aux: Any) -> Any:
        return None  # the factory may be anything

    def key_of_child(self, aux: Any, i: int) -> Any:
        return DictKey(aux[1][i])

    def mismatch(self, expected: PyTreeDef, tree: Any, prefix: str, full: str) -> str:
        return _key_mismatch(self, expected.aux[1], tree, prefix, full) or super().mismatch(
            expected, tree, prefix, full
        )


class CustomNode(NodeType):
    """A registered type, taken apart by functions of the user."""

    __slots__ = ("from_children", "to_children", "to_keyed_children")

    has_len = False

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
        children: Any
        try:
            children, aux = result
            if children.__class__ is not tuple:
                children = _listed(children)
        except (TypeError, ValueError):
            self._refuse("flatten", "(children, metadata)", result)
        return children, aux

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
            f"the first of them iterable; got {abridged(result)}"
        ) from None

    def walk(self, tree: Any, out: list[Any]) -> PyTreeDef:
        children, aux = self.explode(tree)
        return self.structure(aux, walk_children(children, out))

    def rebuild(self, aux: Any, children: Sequence[Any]) -> Any:
        return self.from_children(aux, tuple(children))

    def aux_key(self, aux: Any) -> Any:
        kind = aux.__class__
        if kind is tuple:
            return (*map(type, aux), aux) if _all_atoms(map(type, aux)) else None
        return (kind, aux) if kind in _ATOMS else None

    def write_build(self, writer: Any, treedef: PyTreeDef, children: list[str]) -> str:
        rebuild, aux = writer.value(self.from_children), writer.value(treedef.aux)
        return f"{rebuild}({aux}, ({''.join(f'{child}, ' for child in children)}))"

    def key_of_child(self, aux: Any, i: int) -> Any:
        return FlattenedIndexKey(i)


def _listed(children: Iterable[Any]) -> tuple[Any, ...]:
    # Not tuple(children): a TypeError from inside a generator of the user is none of ours.
    iterator = iter(children)
    return tuple(iterator)


class DataclassNode(CustomNode):
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
            fields = dict(zip(data, children, strict=True))
            fields.update(zip(meta, aux, strict=True))
            return type_(**fields)

        super().__init__(type_, to_children, from_children, to_keyed_children)
        self.data_fields: Final = data

    def key_of_child(self, aux: Any, i: int) -> Any:
        return GetAttrKey(self.data_fields[i])


# -- the registry


def _is_namedtuple(type_: Any) -> bool:
    return hasattr(type_, "_fields") and issubclass(type_, tuple)


class _Nodes(dict[type, "NodeType | None"]):
    """Type -> how it comes apart, or None for a leaf; types are classified when first seen."""

    def __missing__(self, type_: Any) -> NodeType | None:
        if _is_namedtuple(type_):
            return self.setdefault(type_, NamedTupleNode(type_))
        if len(_leaf_types) >= _LEAF_TYPES_LIMIT:
            # Types made on the fly must not be kept alive without bound.
            for leaf_type in list(_leaf_types):
                _leaf_types.discard(leaf_type)
                self.pop(leaf_type, None)
        self[type_] = None
        _leaf_types.add(type_)
        return None


nodes: Final = _Nodes()
plug(lookup=nodes.__getitem__)


def register(node: NodeType) -> None:
    """Makes a type a node; TypeError if it is no class, ValueError if it is a node already."""
    type_: Any = node.type
    if not isinstance(type_, type):
        raise TypeError(f"a pytree node must be a class; got {type_!r}")
    if nodes[type_] is not None:
        raise ValueError(f"{type_} is a pytree node already; a type can be registered once")
    # Out of the leaf types first: between the two steps the type is merely looked up slowly.
    _leaf_types.discard(type_)
    nodes[type_] = node


TUPLE: Final = _TupleNode(tuple)
_NONE_NODE: Final = _NoneNode(type(None))
NONE: Final = PyTreeDef(_NONE_NODE, None, (), True)

for _node in (
    TUPLE, _ListNode(list), _NONE_NODE, _DictNode(dict), _OrderedDictNode(OrderedDict),
    _DefaultDictNode(defaultdict),
):  # fmt: skip
    register(_node)


# -- walking


def flatten(tree: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, in order, and its structure."""
    node = nodes[type(tree)]
    if node is None:
        return [tree], LEAF
    guesses = node.guesses
    if guesses:
        guess = guesses.get(len(tree) if node.has_len else -1)
        treedef = guess and guess()
        if treedef is not None:
            found = treedef.match(tree)
            if found is not None:
                return found, treedef
    out: list[Any] = []
    treedef = node.walk(tree, out)
    if not treedef.is_flat:
        treedef.count_use()
    return out, treedef


def walk_nested(children: Iterable[Any], out: list[Any]) -> list[PyTreeDef]:
    """Walks over each child."""
    structures: list[PyTreeDef] = []
    for child in children:
        node = nodes[type(child)]
        if node is None:
            out.append(child)
            structures.append(LEAF)
        else:
            structures.append(node.walk(child, out))
    return structures


def walk_children(children: Sequence[Any], out: list[Any]) -> Sequence[PyTreeDef]:
    """As `walk_nested`, quick if all children are leaves."""
    if _all_leaves(map(type, children)):
        out.extend(children)
        return (LEAF,) * len(children)
    return walk_nested(children, out)


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
