"""What users do with trees: flatten, map, reduce, transpose, broadcast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from ._keys import KeyPath
from ._nodes import TUPLE, flatten, nodes, says_leaf, walk_until, walk_with_path
from ._treedef import LEAF, Mismatch, PyTreeDef

T = TypeVar("T")
Leaf: TypeAlias = Any


class Unspecified:
    """The type of an argument that was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unspecified>"


_unspecified = Unspecified()


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Leaf], PyTreeDef]:
    """Takes a tree apart into its leaves and its structure.

    Tuples, lists, dicts (in the order of their sorted keys), None, named tuples and registered
    classes are nodes; everything else is a leaf. `is_leaf`, called on every subtree, may stop
    earlier.

    Raises ValueError for a dict with keys that cannot be sorted.

    >>> tree_flatten({"b": 2, "a": (1, None)})
    ([1, 2], PyTreeDef({'a': (*, None), 'b': *}))
    """
    if is_leaf is None:
        return flatten(tree)
    out: list[Any] = []
    return out, walk_until(tree, out, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Leaf]) -> Any:
    """Puts a tree together: the inverse of `tree_flatten`.

    Raises ValueError if the number of leaves is wrong.

    >>> tree_unflatten(tree_structure([0, (0,)]), "ab")
    ['a', ('b',)]
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Leaf]:
    """The leaves of a tree, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of the given structures."""
    given: list[Any] = list(treedefs)
    for treedef in given:
        if not isinstance(treedef, PyTreeDef):
            raise TypeError(f"treedef_tuple takes PyTreeDefs; got {treedef!r}")
    return TUPLE.structure(None, given)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the root."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure has no children: a leaf, or an empty container such as None."""
    return treedef.num_nodes == 1


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all items are leaves.

    >>> all_leaves([1, 2]), all_leaves([1, None])
    (True, False)
    """
    return all(
        nodes[type(item)] is None or (is_leaf is not None and says_leaf(is_leaf(item)))
        for item in iterable
    )


def _flatten_others(operation: str, treedef: PyTreeDef, others: tuple[Any, ...]) -> list[list[Any]]:
    """Flattens trees that have `treedef` as a prefix; the error names operation, tree and path."""
    return [
        treedef.flatten_prefix(operation, "the first tree", f"tree {i}", other)
        for i, other in enumerate(others, 2)
    ]


def tree_map(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Applies a function to each leaf of a tree, giving a tree of the same structure.

    Args:
      f: takes a leaf and, with more trees, the subtrees of them at the same place.
      tree: the tree that decides the structure.
      *rest: more trees; the structure of the first must be a prefix of theirs.
      is_leaf: may stop earlier.

    Raises ValueError, with the path, where the trees do not match.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    flat, treedef = tree_flatten(tree, is_leaf)
    if rest:
        return treedef.unflatten(list(map(f, flat, *_flatten_others("tree_map", treedef, rest))))
    return treedef.unflatten(list(map(f, flat)))


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath[Any], Any]], PyTreeDef]:
    """As `tree_flatten`, with (path, leaf) pairs. See `keystr` for paths as text.

    With `is_leaf_takes_path`, `is_leaf` is called with path and subtree.

    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    stop = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        stop = _ignoring_path(is_leaf)
    out: list[Any] = []
    return out, walk_with_path(tree, (), out, stop)


def _ignoring_path(is_leaf: Callable[..., bool]) -> Callable[[Any, Any], bool]:
    return lambda _, tree: is_leaf(tree)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath[Any], Any]]:
    """The (path, leaf) pairs of a tree, in order."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As `tree_map`; the function takes the path of the leaf first.

    >>> from covector.tree_util import keystr
    >>> tree_map_with_path(lambda path, x: keystr(path) + x, ["a", ("b",)])
    ['[0]a', ('[1][0]b',)]
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    paths = [path for path, _ in pairs]
    flat = [leaf for _, leaf in pairs]
    others = _flatten_others("tree_map_with_path", treedef, rest)
    return treedef.unflatten(list(map(f, paths, flat, *others)))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turns a tree of trees inside out: structure `outer` of `inner` becomes `inner` of `outer`.

    With ``inner_treedef=None`` the inner structure is that of the first subtree. Raises TypeError
    if the tree does not have that structure.

    >>> outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    >>> tree_transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    flat, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not subtrees:
            raise ValueError(
                "tree_transpose: an outer structure without leaves does not tell the inner one"
            )
        inner_treedef = tree_structure(subtrees[0])
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected:
        raise TypeError(
            f"tree_transpose: the tree must have the structure\n  {expected}\nbut has\n  {treedef}"
        )
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    if not inner or not outer:
        return inner_treedef.unflatten([outer_treedef.unflatten([]) for _ in range(inner)])
    return inner_treedef.unflatten([outer_treedef.unflatten(flat[i::inner]) for i in range(inner)])


def tree_reduce(
    function: Callable[[T, Any], T],
    tree: Any,
    initializer: T | Unspecified = _unspecified,
    is_leaf: Callable[[Any], bool] | None = None,
) -> T:
    """Folds the leaves of a tree from the left.

    Raises TypeError for a tree without leaves if there is no initial value.

    >>> tree_reduce(lambda total, x: total + x, (1, {"a": 2}), 10)
    13
    """
    flat = tree_leaves(tree, is_leaf)
    if isinstance(initializer, Unspecified):
        if not flat:
            raise TypeError("tree_reduce: a tree without leaves needs an initializer")
        return functools.reduce(function, flat)
    return functools.reduce(function, flat, initializer)


def tree_reduce_associative(
    operation: Callable[[T, T], T],
    tree: Any,
    *,
    identity: T | Unspecified = _unspecified,
    is_leaf: Callable[[Any], bool] | None = None,
) -> T:
    """Folds the leaves of a tree pairwise, to a depth of about the logarithm of their number.

    The operation must be associative; it is not applied to `identity`, which is the result for a
    tree without leaves. Raises TypeError if that is needed and not given.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcd"))
    '((ab)(cd))'
    """
    flat = tree_leaves(tree, is_leaf)
    if not flat:
        if isinstance(identity, Unspecified):
            raise TypeError("tree_reduce_associative: a tree without leaves needs an identity")
        return identity

    def fold(low: int, high: int) -> T:
        if high - low == 1:
            return flat[low]
        middle = low + (high - low) // 2
        return operation(fold(low, middle), fold(middle, high))

    return fold(0, len(flat))


def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all({"a": True, "b": (1, None)})
    True
    """
    return all(tree_leaves(tree, is_leaf))


def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Repeats each leaf of a prefix over the subtree of the full tree at its place.

    Raises ValueError, with the path, if the one is not a prefix of the other.

    >>> tree_broadcast({"a": 0, "b": 1}, {"a": (5, 6), "b": 7})
    {'a': (0, 0), 'b': 1}
    """
    repeated = broadcast_prefix(prefix_tree, full_tree, is_leaf, operation="tree_broadcast")
    return tree_structure(full_tree, is_leaf).unflatten(repeated)


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
    *,
    operation: str = "broadcast_prefix",
) -> list[Any]:
    """The leaves of `tree_broadcast`: one for each leaf of the full tree."""
    flat, treedef = tree_flatten(prefix_tree, is_leaf)
    if treedef is LEAF:
        return flat * tree_structure(full_tree, is_leaf).num_leaves
    subtrees = treedef.flatten_prefix(operation, "the prefix tree", "the full tree", full_tree)
    repeated: list[Any] = []
    for leaf, subtree in zip(flat, subtrees, strict=True):
        repeated += [leaf] * tree_structure(subtree, is_leaf).num_leaves
    return repeated


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], ValueError]]:
    """Why a tree is no prefix of another: functions that make the error, given a name for it.

    Empty if it is one. Every mismatch is found, not only the first.
    """
    treedef = tree_structure(prefix_tree, is_leaf)
    return [
        functools.partial(_prefix_error, mismatch) for mismatch in treedef.mismatches(full_tree)
    ]


def _prefix_error(mismatch: Mismatch, name: str) -> ValueError:
    return ValueError(mismatch.message(name, "the prefix", "the full tree"))
