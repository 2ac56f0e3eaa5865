"""Random trees, taken apart and put together by Covector and by JAX."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covector.tree_util as ours

theirs = pytest.importorskip("jax.tree_util")

Point = namedtuple("Point", "x y")
Alone = namedtuple("Alone", "only")


class Box:
    """A node with metadata, registered without keys."""

    def __init__(self, children, tag):
        self.children, self.tag = tuple(children), tag

    def __eq__(self, other):
        return type(other) is type(self) and (self.children, self.tag) == (
            other.children,
            other.tag,
        )

    def __hash__(self):
        return hash(self.tag)

    def __repr__(self):
        return f"Box({self.children}, {self.tag})"


@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = "dense"


class Keyed(Box):
    """A node whose children have keys."""


for library in (ours, theirs):
    library.register_pytree_node(Box, lambda b: (b.children, b.tag), lambda tag, c: Box(c, tag))
    library.register_pytree_with_keys(
        Keyed,
        lambda b, lib=library: (
            [(lib.GetAttrKey(f"child{i}"), c) for i, c in enumerate(b.children)],
            b.tag,
        ),
        lambda tag, c: Keyed(c, tag),
    )
    library.register_dataclass(Layer, data_fields=["weight", "bias"], meta_fields=["name"])


def nested(inner):
    keys = st.text("abc", max_size=3)
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.integers(0, 9), inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.dictionaries(keys, inner, max_size=3).map(lambda d: defaultdict(list, d)),
        st.builds(Point, inner, inner),
        st.builds(Alone, inner),
        st.builds(Box, st.lists(inner, max_size=3), st.sampled_from(["a", 1, None])),
        st.builds(Keyed, st.lists(inner, max_size=2), st.just("k")),
        st.builds(Layer, inner, inner, st.sampled_from(["dense", "conv"])),
    )


leaf = st.one_of(st.integers(0, 9), st.floats(0, 1), st.text("xyz", max_size=2))
trees = st.recursive(st.one_of(leaf, st.none()), nested, max_leaves=12)
many = settings(max_examples=150, deadline=None)


def path_text(path, library):
    return [(type(key).__name__, str(key)) for key in path], library.keystr(path)


@given(trees)
@many
def test_flatten_and_unflatten(tree):
    leaves, treedef = ours.tree_flatten(tree)
    expected, their_treedef = theirs.tree_flatten(tree)
    assert leaves == expected == ours.tree_leaves(tree)
    assert repr(treedef) == repr(their_treedef)
    assert (treedef.num_leaves, treedef.num_nodes) == (
        their_treedef.num_leaves,
        their_treedef.num_nodes,
    )
    assert treedef.node_data() == their_treedef.node_data()
    assert [repr(c) for c in treedef.children()] == [repr(c) for c in their_treedef.children()]
    rebuilt = treedef.unflatten(leaves)
    assert rebuilt == theirs.tree_unflatten(their_treedef, expected)
    assert repr(rebuilt) == repr(theirs.tree_unflatten(their_treedef, expected))
    assert ours.tree_structure(rebuilt) == treedef


@given(trees)
@many
def test_paths(tree):
    pairs, treedef = ours.tree_flatten_with_path(tree)
    their_pairs = theirs.tree_leaves_with_path(tree)
    assert [(path_text(p, ours), x) for p, x in pairs] == [
        (path_text(p, theirs), x) for p, x in their_pairs
    ]
    assert treedef == ours.tree_structure(tree)
    for (mine, _), (path, _) in zip(pairs, their_pairs, strict=True):
        assert ours.keystr(mine, simple=True, separator="/") == theirs.keystr(
            path, simple=True, separator="/"
        )


@given(trees, st.sampled_from([list, tuple, dict, Point, Box, type(None)]))
@many
def test_is_leaf(tree, kind):
    def stop(x):
        return isinstance(x, kind)

    leaves, treedef = ours.tree_flatten(tree, is_leaf=stop)
    expected, their_treedef = theirs.tree_flatten(tree, is_leaf=stop)
    assert leaves == expected
    assert repr(treedef) == repr(their_treedef)
    with_path = ours.tree_leaves_with_path(tree, is_leaf=stop)
    assert [x for _, x in with_path] == expected


@given(trees, trees)
@many
def test_equality_and_prefixes(a, b):
    mine = ours.tree_structure(a), ours.tree_structure(b)
    other = theirs.tree_structure(a), theirs.tree_structure(b)
    assert (mine[0] == mine[1]) == (other[0] == other[1])
    if mine[0] == mine[1]:
        assert hash(mine[0]) == hash(mine[1])
    try:
        expected = other[0].flatten_up_to(b)
    except ValueError:
        with pytest.raises(ValueError, match="differ"):
            mine[0].flatten_up_to(b)
    else:
        assert mine[0].flatten_up_to(b) == expected


@given(trees, trees)
@many
def test_compose_and_transpose(outer, inner):
    composed = ours.tree_structure(outer).compose(ours.tree_structure(inner))
    expected = theirs.tree_structure(outer).compose(theirs.tree_structure(inner))
    assert repr(composed) == repr(expected)
    tree = ours.tree_map(lambda _: inner, outer)
    if ours.tree_leaves(outer) and ours.tree_leaves(inner):
        mine = ours.tree_transpose(ours.tree_structure(outer), ours.tree_structure(inner), tree)
        other = theirs.tree_transpose(
            theirs.tree_structure(outer), theirs.tree_structure(inner), tree
        )
        assert mine == other


@given(trees)
@many
def test_map_reduce_broadcast(tree):
    def double(*xs):
        return [str(x) for x in xs]

    assert ours.tree_map(double, tree) == theirs.tree_map(double, tree)
    assert ours.tree_map(double, tree, tree) == theirs.tree_map(double, tree, tree)
    wider = ours.tree_map(lambda x: (x, [x]), tree)
    assert ours.tree_map(double, tree, wider) == theirs.tree_map(double, tree, wider)
    assert ours.tree_broadcast(tree, wider) == theirs.tree_broadcast(tree, wider)

    def pair(x, y):
        return f"({x}{y})"

    assert ours.tree_reduce(pair, tree, "") == theirs.tree_reduce(pair, tree, "")
    assert ours.tree_reduce_associative(pair, tree, identity="") == theirs.tree_reduce_associative(
        pair, tree, identity=""
    )


@given(trees)
@many
def test_one_level(tree):
    mine = ours.is_tree_node(type(tree))
    assert mine == theirs.is_tree_node(type(tree))
    if mine:
        children, aux = ours.flatten_one_level(tree)
        expected, their_aux = theirs.flatten_one_level(tree)
        assert (list(children), aux) == (list(expected), their_aux)


plain = st.recursive(
    st.one_of(st.just(0), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=4),
    ),
    max_leaves=20,
)


@given(plain)
@many
def test_bytes(tree):
    treedef = ours.tree_structure(tree)
    data = treedef.serialize_using_proto()
    assert data == theirs.tree_structure(tree).serialize_using_proto()
    assert ours.PyTreeDef.deserialize_using_proto(ours.default_registry, data) == treedef


def test_signatures_are_those_of_jax():
    import inspect

    import covector.tree

    jax_tree = pytest.importorskip("jax.tree")
    for mine, other in ((ours, theirs), (covector.tree, jax_tree)):
        for name in dir(other):
            member = getattr(other, name)
            if name.startswith("_") or not inspect.isfunction(member):
                continue
            mine_parameters = inspect.signature(getattr(mine, name)).parameters
            parameters = inspect.signature(member).parameters
            assert [(p.name, p.kind) for p in mine_parameters.values()] == [
                (p.name, p.kind) for p in parameters.values()
            ], name
