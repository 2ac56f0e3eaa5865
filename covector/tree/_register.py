"""Making classes nodes of trees, and asking which are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import methodcaller
from typing import Any, TypeAlias, TypeVar

from ._functions import tree_flatten, tree_flatten_with_path
from ._nodes import CustomNode, DataclassNode, NamedTupleNode, nodes, register
from ._treedef import NodeType, PyTreeDef

T = TypeVar("T")
Typ = TypeVar("Typ", bound="type[Any]")
H = TypeVar("H", bound=Hashable)
_Children = TypeVar("_Children", bound="Iterable[Any]")
_AuxData = TypeVar("_AuxData", bound=Hashable)
KeyLeafPair: TypeAlias = "tuple[Any, Any]"
KeyLeafPairs: TypeAlias = "Iterable[KeyLeafPair]"


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[_Children, _AuxData]],
    unflatten_func: Callable[[_AuxData, _Children], T],
    flatten_with_keys_func: Callable[[T], tuple[KeyLeafPairs, _AuxData]] | None = None,
) -> None:
    """Makes instances of a class nodes of trees.

    Args:
      nodetype: the class. Instances of subclasses stay leaves.
      flatten_func: takes an instance, returns its children (iterable) and its metadata, which must
        be hashable and compare by value. Arrays belong to the children.
      unflatten_func: takes the metadata and a tuple of children, returns an instance. It is called
        with all kinds of children (tracers, None, placeholders), so it should not check them.
      flatten_with_keys_func: takes an instance, returns (key, child) pairs and the metadata.

    Raises TypeError if `nodetype` is no class, ValueError if it is registered.

    >>> class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    >>> register_pytree_node(Box, lambda b: ((b.content,), None), lambda _, c: Box(*c))
    >>> tree_flatten(Box(3))
    ([3], PyTreeDef(CustomNode(Box[None], [*])))
    """
    register(CustomNode(nodetype, flatten_func, unflatten_func, flatten_with_keys_func))


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[KeyLeafPair], _AuxData]],
    unflatten_func: Callable[[_AuxData, Iterable[Any]], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], _AuxData]] | None = None,
):
    """As `register_pytree_node`, where the children come with keys, for paths.

    Args:
      nodetype: the class.
      flatten_with_keys: takes an instance, returns (key, child) pairs and the metadata. Keys are
        `GetAttrKey`, `DictKey`, `SequenceKey`, or anything hashable that prints well.
      unflatten_func: takes the metadata and a tuple of children, returns an instance.
      flatten_func: the same without keys, if that can be had faster.
    """

    def without_keys(tree: Any) -> Any:
        pairs, aux = flatten_with_keys(tree)
        return [child for _, child in pairs], aux

    flatten = without_keys if flatten_func is None else flatten_func
    register(CustomNode(nodetype, flatten, unflatten_func, flatten_with_keys))


def register_pytree_node_class(cls: Typ) -> Typ:
    """A class decorator: instances become nodes, by the methods of the class.

    ``tree_flatten(self)`` returns children and metadata, the class method
    ``tree_unflatten(metadata, children)`` an instance.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten(self):
    ...         return (self.a, self.b), None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> tree_flatten(Pair(1, 2))[0]
    [1, 2]
    """
    register_pytree_node(cls, methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Typ) -> Typ:
    """A class decorator as `register_pytree_node_class`, for children with keys.

    The class has ``tree_flatten_with_keys(self)``, ``tree_unflatten`` and, if it likes,
    ``tree_flatten``.
    """
    flatten: Any = methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, methodcaller("tree_flatten_with_keys"), cls.tree_unflatten, flatten
    )
    return cls


def register_dataclass(
    nodetype: Typ,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Typ:
    """Makes instances of a dataclass nodes of trees; can be used as a decorator.

    Args:
      nodetype: the class. It may be another class too, if its constructor takes the fields as
        keyword arguments; the fields must be named then.
      data_fields: names of the attributes that are children.
      meta_fields: names of the attributes that are metadata: hashable, compared by value.
      drop_fields: names of the attributes that are neither; they get their defaults again when an
        instance is rebuilt.

    By default all fields are children, save those declared with `covector.tree.static`.

    Raises ValueError if the named fields are not those of the dataclass, TypeError if fields must
    be named and are not.

    >>> import dataclasses
    >>> from covector.tree import static
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = static(default="dense")
    >>> tree_flatten(Layer(2.0))
    ([2.0], PyTreeDef(CustomNode(Layer[('dense',)], [*])))
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields go together; got "
            f"data_fields={data_fields!r} and meta_fields={meta_fields!r}"
        )
    import dataclasses

    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                f"register_dataclass: {nodetype} is no dataclass, so data_fields and meta_fields "
                "must be given"
            )
        is_static = {f.name: bool(f.metadata.get("static")) for f in dataclasses.fields(nodetype)}
        data_fields = [name for name, static in is_static.items() if not static]
        meta_fields = [name for name, static in is_static.items() if static]
    data, meta = tuple(data_fields), tuple(meta_fields)
    both = sorted(set(data) & set(meta))
    if both:
        raise ValueError(f"register_dataclass: {both} are in both data_fields and meta_fields")
    if is_dataclass:
        _check_fields(nodetype, {*data, *meta}, set(drop_fields))
    register(DataclassNode(nodetype, data, meta))
    return nodetype


def _check_fields(nodetype: type, given: set[str], dropped: set[str]) -> None:
    import dataclasses

    wanted = {f.name for f in dataclasses.fields(nodetype) if f.init} - dropped
    if given == wanted:
        return
    complaint = f"register_dataclass: the fields given are not those of {nodetype.__name__}"
    if missing := sorted(wanted - given):
        complaint += f"; missing: {missing} (name them in drop_fields to leave them out)"
    if extra := sorted(given - wanted):
        complaint += f"; not among the fields that its constructor takes: {extra}"
    raise ValueError(complaint)


def register_static(cls: type[H]) -> type[H]:
    """Makes instances of a class nodes without children: they are metadata altogether.

    An instance given to a compiled function is a static argument. It must be hashable and compare
    by value. Can be used as a decorator.

    >>> @register_static
    ... class Flag(str):
    ...     pass
    >>> tree_flatten(Flag("on"))
    ([], PyTreeDef(CustomNode(Flag[on], [])))
    """
    register(CustomNode(cls, lambda x: ((), x), lambda aux, _: aux, lambda x: ((), x)))
    return cls


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` treats as metadata.

    Takes the arguments of ``dataclasses.field``.
    """
    import dataclasses

    metadata: dict[Any, Any] = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def is_tree_node(typ: Any) -> bool:
    """Whether instances of a type are nodes: containers, None, named tuples, registered classes."""
    return isinstance(typ, type) and nodes[typ] is not None


def _node_of(tree: Any) -> NodeType:
    node = nodes[type(tree)]
    if node is None:
        raise ValueError(f"{type(tree)} is a leaf: there is nothing to flatten")
    return node


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """The children of the root of a tree and its metadata; ValueError for a leaf.

    >>> flatten_one_level({"b": 1, "a": (2,)})
    (((2,), 1), ('a', 'b'))
    """
    node = _node_of(tree)
    children, aux = node.explode(tree)
    return children, _outer_aux(node, aux)


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[KeyLeafPair], Hashable]:
    """The children of the root of a tree with their keys, and its metadata."""
    node = _node_of(tree)
    pairs, aux = node.keyed(tree)
    return tuple(pairs), _outer_aux(node, aux)


def _outer_aux(node: NodeType, aux: Any) -> Any:
    # For named tuples the type is what is needed to put them together again.
    return node.type if isinstance(node, NamedTupleNode) else aux


class PyTreeRegistry:
    """The node types as an object; there is one, `default_registry`."""

    __slots__ = ()

    def flatten(self, tree: Any, leaf_predicate: Any = None) -> tuple[list[Any], PyTreeDef]:
        """As `tree_flatten`."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_with_path(self, tree: Any, leaf_predicate: Any = None) -> Any:
        """As `tree_flatten_with_path`."""
        return tree_flatten_with_path(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Hashable] | None:
        """As `flatten_one_level`, but None for a leaf."""
        return flatten_one_level(tree) if self.is_node(type(tree)) else None

    def flatten_one_level_with_keys(self, tree: Any) -> Any:
        """As `flatten_one_level_with_keys`, but None for a leaf."""
        return flatten_one_level_with_keys(tree) if self.is_node(type(tree)) else None

    def is_node(self, typ: Any) -> bool:
        """As `is_tree_node`."""
        return is_tree_node(typ)

    def register_node(
        self, nodetype: Any, to_iterable: Any, from_iterable: Any, to_iterable_with_keys: Any = None
    ) -> None:
        """As `register_pytree_node`."""
        register_pytree_node(nodetype, to_iterable, from_iterable, to_iterable_with_keys)

    def register_dataclass_node(self, nodetype: Any, data_fields: Any, meta_fields: Any) -> None:
        """As `register_dataclass`, without checks of the fields."""
        register(DataclassNode(nodetype, data_fields, meta_fields))


default_registry = PyTreeRegistry()
