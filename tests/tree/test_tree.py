"""Pytrees: messages, sharing of structures, registration, compiled matchers."""

import copy
import dataclasses
import enum
import functools
import gc
import pickle
import threading
import weakref
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covector.tree as tree
from covector.tree import _nodes
from covector.tree._functions import broadcast_prefix, prefix_errors
from covector.tree._treedef import _COMPILE_AFTER, LEAF
from covector.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    default_registry,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    tree_structure,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

Point = namedtuple("Point", "x y")


class Tagged:
    def __repr__(self):  # test ids must not hold an address
        return f"Tagged({self.__dict__})"

    def __init__(self, x, tag):
        self.x, self.tag = x, tag


register_pytree_node(Tagged, lambda t: ((t.x,), t.tag), lambda tag, c: Tagged(*c, tag))

TREES = [
    1, None, (), [], {}, (1,), [1, 2], {"b": 1, "a": (2, [3, None])}, Point(1, {"q": 2}),
    OrderedDict(b=1, a=2), defaultdict(list, k=[1]), {1: 2, 0: 3}, Tagged((1, 2), "t"),
    Partial(max, 1, key=2), [[], {}, (), None], {"a": {"b": {"c": 1}}},
]  # fmt: skip


# -- structures


@pytest.mark.parametrize("value", TREES, ids=repr)
def test_structures_survive_copies_and_pickles(value):
    treedef = tree_structure(value)
    assert copy.deepcopy(treedef) is treedef
    restored = pickle.loads(pickle.dumps(treedef))
    assert restored == treedef
    assert hash(restored) == hash(treedef)
    again = PyTreeDef.from_node_data_and_children(
        default_registry, treedef.node_data(), treedef.children()
    )
    assert again == treedef


@pytest.mark.parametrize("value", TREES[:9], ids=repr)
def test_equal_structures_of_plain_containers_are_one_object(value):
    assert tree_structure(value) is tree_structure(tree.map(lambda x: [0][0], value))


def test_equal_metadata_that_differ_are_not_confused():
    class Color(enum.StrEnum):
        RED = "red"

    for one, other in (
        ({1: 0, 2: 0}, {True: 0, 2: 0}),
        ({"red": 0}, {Color.RED: 0}),
        ({"a": 0}, {np.str_("a"): 0}),
    ):
        for _ in range(_COMPILE_AFTER + 2):
            first, second = tree.map(str, [one, ()]), tree.map(str, [other, ()])
        assert type(next(iter(first[0]))) is type(next(iter(one)))
        assert type(next(iter(second[0]))) is type(next(iter(other)))
        assert tree_structure(one) == tree_structure(other)
    for tag, other in ((1, True), (0, False), (1, 1.0), ((1, "a"), (True, "a"))):
        assert repr(tree.map(str, Tagged(5, tag)).tag) == repr(tag)
        assert repr(tree.map(str, Tagged(5, other)).tag) == repr(other)


def test_structures_do_not_keep_metadata_alive():
    class Big:
        pass

    big = Big()
    alive = weakref.ref(big)
    tree.flatten((Tagged(1, big), [Tagged(2, big)]))
    del big
    gc.collect()
    assert alive() is None


def test_structure_with_metadata_is_shared_while_somebody_holds_it():
    function = functools.partial(max)
    held = tree_structure((Tagged(1, function), 2))
    assert tree_structure((Tagged(3, function), 4)) is held
    assert tree_structure((Tagged(3, min), 4)) != held


def test_unhashable_metadata():
    treedef = tree_structure(Tagged(1, {"a": [1]}))
    assert treedef == tree_structure(Tagged(2, {"a": [1]}))
    assert treedef != tree_structure(Tagged(2, {"a": [2]}))
    assert hash(treedef) == hash(tree_structure(Tagged(2, {"a": [1]})))


def test_arrays_as_metadata_are_refused_when_compared():
    first, second = (tree_structure(Tagged(1, np.ones(2))) for _ in range(2))
    with pytest.raises(ValueError, match="metadata of pytree node Tagged cannot be compared"):
        assert first == second


def test_table_of_shared_structures_is_bounded(monkeypatch):
    monkeypatch.setattr("covector.tree._treedef._SHARED_LIMIT", 16)
    node = _nodes.nodes[list]
    for n in range(100):
        value = [(i,) for i in range(n)]
        assert tree.structure(value).num_leaves == n
    assert len(node.shared) <= 101  # flat lists are found by length, nested ones are bounded


def test_leaf_types_are_bounded(monkeypatch):
    monkeypatch.setattr(_nodes, "_LEAF_TYPES_LIMIT", len(_nodes._leaf_types) + 5)
    for i in range(20):
        kind = type(f"Leaf{i}", (), {})
        assert tree.flatten([kind()])[1] == tree_structure([0])
    assert len(_nodes._leaf_types) <= _nodes._LEAF_TYPES_LIMIT


def test_numbers_of_nodes_and_leaves():
    treedef = tree_structure((1, [2, None], {}))
    assert (treedef.num_leaves, treedef.num_nodes) == (2, 6)
    assert treedef_is_leaf(tree_structure(1))
    assert not treedef_is_leaf(tree_structure((1,)))
    assert treedef_children(treedef) == [LEAF, tree_structure([0, None]), tree_structure({})]
    assert treedef_tuple([LEAF, LEAF]) is tree_structure((0, 0))
    with pytest.raises(TypeError, match="treedef_tuple takes PyTreeDefs; got 3"):
        treedef_tuple([3])


def test_walk_folds_from_below():
    treedef = tree_structure({"a": (1, 2), "b": 3})
    seen = treedef.walk(lambda children, aux: (aux, children), str, [1, 2, 3])
    assert seen == (["a", "b"], ((None, ("1", "2")), "3"))
    with pytest.raises(ValueError, match="too many leaves"):
        treedef.walk(lambda *_: None, None, [1, 2, 3, 4])


def test_from_iterable_tree():
    treedef = tree_structure({"a": [1, 2], "b": 3})
    assert treedef.from_iterable_tree([(1, 2), 3]) == {"a": [1, 2], "b": 3}
    with pytest.raises(ValueError, match="has 2 children; got 1"):
        treedef.from_iterable_tree([(1, 2)])


@pytest.mark.parametrize("value", [Point(1, 2), OrderedDict(a=1), {1: 2}], ids=repr)
def test_only_plain_containers_become_bytes(value):
    with pytest.raises(ValueError, match="can be serialized, not"):
        tree_structure([value]).serialize_using_proto()


@given(st.binary(max_size=40))
def test_foreign_bytes_are_refused_or_understood(data):
    try:
        treedef = PyTreeDef.deserialize_using_proto(default_registry, data)
    except ValueError:
        return
    again = treedef.serialize_using_proto()
    assert PyTreeDef.deserialize_using_proto(default_registry, again) == treedef


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "holds 0 trees"),
        (b"\n\x02\x10\x01\n\x02\x10\x01", "holds 2 trees"),
        (b"\n\x02\x10\x09", "no node kind 9"),
        (b"\n\x04\x08\x02\x10\x04", "more children than precede"),
        (b"\n\x02\x10\x01\n\x04\x08\x01\x10\x01", "a leaf has children"),
        (b"\n\x02\x10\x01\n\x04\x08\x01\x10\x03", "None has children"),
        (b"\n\x02\x10\x01\n\x04\x08\x01\x10\x05", "keys of a dict do not match"),
        (b"\n\x05\x10\x01", "cut off"),
        (b"\n\x02\x10\xff", "an integer is cut off"),
        (b"xyz", "wire type|cut off"),
        (b"\x08\x01", "an integer stands where bytes belong"),
        (b"\n\x03\x12\x01a", "bytes stand where an integer belongs"),
    ],
)
def test_damaged_bytes_are_refused(data, why):
    with pytest.raises(ValueError, match=f"no serialized PyTreeDef: .*({why})"):
        PyTreeDef.deserialize_using_proto(default_registry, data)


# -- errors


@pytest.mark.parametrize(
    ("prefix", "full", "message"),
    [
        ((1, 2), [1, 2], "at the root: the first tree has a tuple of 2, tree 2 has a list of 2"),
        ([1, (2, 3)], [1, 5], r"at \[1\]: .* a tuple of 2, tree 2 has the leaf 5 of type int"),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, r"at \['a'\]: the keys of the dict are not the same: "
         "only the first tree has key 'b', only tree 2 has key 'c'"),
        ({"a": 1}, {"a": 1, "b": 2, "c": 3}, "only tree 2 has keys 'b', 'c'"),
        ({"x": [1, 2]}, {"x": [1, 2, 3]}, r"at \['x'\]: both have a list, the first tree with 2 "
         "children, tree 2 with 3"),
        ((None, 1), (2, 1), r"at \[0\]: the first tree has None, tree 2 has the leaf 2 of type "
         "int. None is a node without children; to treat it as a leaf"),
        (Point(1, (2,)), Point(1, 2), r"differ at \.y"),
        (Tagged(1, "s"), Tagged(1, "t"), "both have a Tagged, with different metadata: the first "
         "tree has 's', tree 2 has 't'"),
        (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), r"metadata: .* \('a', 'b'\), tree 2 has"),
        (defaultdict(list, a=1), defaultdict(list, b=1), "keys of the defaultdict are not the"),
        (Tagged((1,), "s"), Tagged([1], "s"), r"differ at \[<flat index 0>\]"),
    ],
    ids=str,
)  # fmt: skip
def test_mismatches_name_the_place(prefix, full, message):
    with pytest.raises(ValueError, match=f"^tree_map: .*{message}"):
        tree.map(lambda *xs: xs, prefix, full)
    with pytest.raises(ValueError, match="differ at"):
        tree_structure(prefix).flatten_up_to(full)
    with pytest.raises(ValueError, match=r"^tree_map: the first tree and tree 3 differ"):
        tree.map(lambda *xs: xs, prefix, prefix, full)


def test_prefix_errors_finds_all():
    errors = prefix_errors({"a": (1, 2), "b": [3]}, {"a": (1, 2, 3), "b": 4})
    texts = [str(error("in_axes")) for error in errors]
    assert len(texts) == 2
    assert texts[0].startswith("in_axes: the prefix and the full tree differ at ['a']")
    assert "['b']" in texts[1]
    assert prefix_errors({"a": 1}, {"a": (1, 2)}) == []


def test_broadcast_prefix():
    assert broadcast_prefix((1, None), ((2, 3), None)) == [1, 1]
    assert broadcast_prefix(None, (3, 4), is_leaf=lambda x: x is None) == [None, None]
    with pytest.raises(ValueError, match="tree_broadcast: the prefix tree and the full"):
        tree.broadcast((1, 2), (3,))


@pytest.mark.parametrize(("leaves", "word"), [([1], "few"), ([1, 2, 3], "many")])
def test_wrong_number_of_leaves(leaves, word):
    for value in ((0, 0), [(0,), 0]):
        treedef = tree_structure(value)
        with pytest.raises(ValueError, match=f"too {word} leaves: PyTreeDef.* has 2, got"):
            treedef.unflatten(leaves)


def test_keys_that_do_not_sort():
    with pytest.raises(ValueError, match=r"must be comparable.*int, str: \[1, 'a'\]"):
        tree.flatten([{"x": {1: 0, "a": 0}}])


def test_is_leaf_must_answer_with_a_boolean():
    with pytest.raises(ValueError, match="is_leaf must answer True or False; got 'yes'"):
        tree.flatten([1], is_leaf=lambda _: "yes")
    assert tree.leaves([[1], 2], is_leaf=lambda x: np.bool_(x == [1])) == [[1], 2]


def test_transpose_refuses_other_structures():
    outer, inner = tree_structure([0, 0]), tree_structure((0, 0))
    with pytest.raises(TypeError, match=r"(?s)must have the structure.*but has"):
        tree.transpose(outer, inner, [(1, 2, 3), (4, 5, 6)])
    assert tree.transpose(outer, None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    assert tree.transpose(tree_structure([0]), tree_structure(()), [()]) == ()
    assert tree.transpose(tree_structure([]), inner, []) == ([], [])
    with pytest.raises(ValueError, match="does not tell the inner one"):
        tree.transpose(tree_structure([]), None, [])


def test_reductions_of_nothing():
    with pytest.raises(TypeError, match="needs an initializer"):
        tree.reduce(max, {})
    with pytest.raises(TypeError, match="needs an identity"):
        tree.reduce_associative(max, [])
    assert tree.reduce(max, {}, 3) == 3
    assert tree.all([])


# -- keys


def test_keys_print_compare_and_pickle():
    keys = [SequenceKey(1), DictKey("a"), GetAttrKey("b"), FlattenedIndexKey(2)]
    assert list(map(str, keys)) == ["[1]", "['a']", ".b", "[<flat index 2>]"]
    assert pickle.loads(pickle.dumps(keys)) == keys
    assert len({*keys, SequenceKey(1)}) == 4
    assert SequenceKey(1) != FlattenedIndexKey(1)
    assert keystr(keys) == "[1]['a'].b[<flat index 2>]"
    match keys[0]:
        case SequenceKey(idx):
            assert idx == 1
    for key, wrong in ((SequenceKey, "a"), (GetAttrKey, 1), (FlattenedIndexKey, "a")):
        with pytest.raises(TypeError, match=f"{key.__name__} takes"):
            key(wrong)


def test_paths_may_decide_what_is_a_leaf():
    pairs = tree.leaves_with_path(
        {"a": (1, (2,)), "b": (3,)},
        is_leaf=lambda path, _: path == (DictKey("b"),),
        is_leaf_takes_path=True,
    )
    assert [(keystr(path), x) for path, x in pairs] == [
        ("['a'][0]", 1), ("['a'][1][0]", 2), ("['b']", (3,)),
    ]  # fmt: skip


# -- registration


def test_registering_twice_or_no_class():
    with pytest.raises(ValueError, match="is a pytree node already"):
        register_pytree_node(Tagged, lambda t: ((), None), lambda _, c: None)
    with pytest.raises(ValueError, match="is a pytree node already"):
        register_static(tuple)
    with pytest.raises(TypeError, match="must be a class; got 3"):
        register_pytree_node(3, lambda t: ((), None), lambda _, c: None)


def test_type_seen_as_a_leaf_can_be_registered():
    class Late:
        def __init__(self, x):
            self.x = x

    assert tree.leaves([Late(1)])[0].x == 1
    register_pytree_node(Late, lambda late: ((late.x,), None), lambda _, c: Late(*c))
    assert tree.leaves([Late(1)]) == [1]


def test_flatten_functions_are_checked():
    class Bad:
        def __init__(self, result):
            self.result = result

    register_pytree_node(Bad, lambda b: b.result, lambda _, c: Bad(c))
    for result in (3, (1, 2, 3), (5, None)):
        with pytest.raises(ValueError, match=r"node Bad must return \(children, metadata\)"):
            tree.flatten(Bad(result))
    assert tree.leaves(Bad(((x for x in "ab"), None))) == ["a", "b"]

    class BadKeys(Bad):
        pass

    register_pytree_with_keys(BadKeys, lambda b: b.result, lambda _, c: Bad(c))
    with pytest.raises(ValueError, match=r"must return \(\(key, child\) pairs, metadata\)"):
        tree.flatten_with_path(BadKeys(([1], None)))


def test_errors_inside_flatten_functions_pass():
    class Explodes:
        pass

    def explode(_):
        raise TypeError("from the user")

    register_pytree_node(Explodes, explode, lambda _, c: Explodes())
    with pytest.raises(TypeError, match="from the user"):
        tree.flatten(Explodes())


def test_class_decorators():
    @register_pytree_node_class
    class Plain:
        def __init__(self, a):
            self.a = a

        def tree_flatten(self):
            return (self.a,), "m"

        @classmethod
        def tree_unflatten(cls, metadata, children):
            assert metadata == "m"
            return cls(*children)

    @register_pytree_with_keys_class
    class WithKeys(Plain):
        def tree_flatten_with_keys(self):
            return ((GetAttrKey("a"), self.a),), "m"

    for cls, path in ((Plain, "[<flat index 0>]"), (WithKeys, ".a")):
        assert tree.map(lambda x: x + 1, cls(1)).a == 2
        assert keystr(tree.leaves_with_path(cls(1))[0][0]) == path


def test_dataclasses():
    @register_dataclass
    @dataclasses.dataclass
    class Model:
        w: float
        name: str = tree.static(default="n", metadata={"unit": "m"})

    leaves, treedef = tree.flatten(Model(1.0, "m"))
    assert (leaves, repr(treedef)) == ([1.0], "PyTreeDef(CustomNode(Model[('m',)], [*]))")
    assert tree.map(lambda x: x * 2, Model(2.0, "m")) == Model(4.0, "m")
    assert dataclasses.fields(Model)[1].metadata == {"static": True, "unit": "m"}
    assert keystr(tree.leaves_with_path(Model(1.0))[0][0]) == ".w"
    with pytest.raises(ValueError, match="different metadata"):
        tree.map(max, Model(1.0, "a"), Model(1.0, "b"))


def test_dataclass_fields_are_checked():
    @dataclasses.dataclass
    class Two:
        a: int
        b: int = 0

    cases = [
        ({"data_fields": ["a"]}, TypeError, "go together"),
        ({"data_fields": ["a"], "meta_fields": []}, ValueError, r"missing: \['b'\]"),
        ({"data_fields": ["a", "z"], "meta_fields": ["b"]}, ValueError, r"takes: \['z'\]"),
        ({"data_fields": ["a", "b"], "meta_fields": ["b"]}, ValueError, r"\['b'\] are in both"),
    ]
    for fields, error, message in cases:
        with pytest.raises(error, match=message):
            register_dataclass(Two, **fields)
    with pytest.raises(TypeError, match="no dataclass"):
        register_dataclass(object)
    register_dataclass(Two, data_fields=["a"], meta_fields=[], drop_fields=["b"])
    assert tree.map(lambda x: x, Two(1, 5)) == Two(1, 0)


def test_static_classes():
    @register_static
    @dataclasses.dataclass(frozen=True)
    class Setting:
        value: int

    assert tree.leaves((Setting(1), 2)) == [2]
    assert tree_structure(Setting(1)) == tree_structure(Setting(1))
    assert tree_structure(Setting(1)) != tree_structure(Setting(2))
    assert tree.map(str, (Setting(1), 2)) == (Setting(1), "2")


def test_one_level():
    assert flatten_one_level({"b": 1, "a": (2,)}) == (((2,), 1), ("a", "b"))
    assert flatten_one_level_with_keys(Point(1, 2)) == (
        ((GetAttrKey("x"), 1), (GetAttrKey("y"), 2)),
        Point,
    )
    with pytest.raises(ValueError, match="is a leaf"):
        flatten_one_level(3)
    assert default_registry.flatten_one_level(3) is None
    assert is_tree_node(Point)
    assert not is_tree_node(3)
    assert all_leaves([1, "a"])
    assert not all_leaves([1, {}])
    assert all_leaves([(1,)], is_leaf=lambda x: x == (1,))


# -- Partial


def test_partial():
    def power(base, exponent, scale=1):
        return scale * base**exponent

    square = Partial(power, exponent=2)
    assert square(3) == 9
    cube = Partial(Partial(power, 2), 3, scale=10)
    assert cube() == 80
    assert tree.leaves(cube) == [3, 10]
    assert tree.map(lambda x: x + 1, cube)() == 11 * 2**4
    assert tree_structure(Partial(power, 1)) == tree_structure(Partial(power, 2))
    assert tree_structure(Partial(power, 1)) != tree_structure(Partial(max, 2))
    assert tree_structure(Partial(functools.partial(power, 1), 2)).num_leaves == 1
    assert repr(Partial(max, 1)).endswith("Partial(<built-in function max>, 1)")
    with pytest.raises(TypeError):
        Partial(3)


# -- compiled matchers

NESTED = [
    ((1, 2), {}),
    {f"layer{i}": {"w": i, "b": [i, (i, None)]} for i in range(5)},
    Point((1, 2), [Point(3, None), OrderedDict(b=1, a=2), defaultdict(list, z=(1,))]),
    (Tagged((1, 2), "tag"), {"x": (Partial(max, 1),)}),
    ([1], {0: 2, 3: (4,)}),
]


@pytest.mark.parametrize("value", NESTED, ids=repr)
def test_compiled_code_does_what_the_walk_does(value):
    leaves, treedef = tree.flatten(value)
    for _ in range(_COMPILE_AFTER + 2):
        again, found = tree.flatten(value)
        assert again == leaves
        assert found == treedef
        assert tree.flatten(found.unflatten(leaves)) == (leaves, treedef)
    assert tree.flatten(found.unflatten(list("abcdefghijklmnopqrst")[: len(leaves)]))[1] == treedef


def test_compiled_matcher_is_exact():
    value = {"a": (1, [2]), "b": {"c": 3}}
    for _ in range(_COMPILE_AFTER + 2):
        treedef = tree.structure(value)
    assert treedef.match(value) == [1, 2, 3]
    for other in (
        {"a": (1, [2]), "b": {"d": 3}},
        {"a": (1, (2,)), "b": {"c": 3}},
        {"a": (1, [2, 2]), "b": {"c": 3}},
        {"a": (1, [2]), "b": {"c": (3,)}},
        {"a": (1, [2]), "b": {"c": None}},
        {"a": (1, [2]), "b": {"c": 3, "d": 4}},
        {"a": (1, [2])},
        OrderedDict(a=(1, [2]), b={"c": 3}),
        (1, 2),
        None,
    ):
        assert treedef.match(other) is None
        assert tree.structure(other) != treedef
    with pytest.raises(ValueError, match=r"differ at \['b'\]"):
        tree.map(max, value, {"a": (1, [2]), "b": 3})
    assert tree.map(lambda a, b: b, value, {"a": (1, [(2,)]), "b": {"c": 3}})["a"][1] == [(2,)]


def test_deep_trees_are_not_compiled_but_work():
    value = functools.reduce(lambda inner, _: (inner,), range(200), 1)
    for _ in range(_COMPILE_AFTER + 2):
        leaves, treedef = tree.flatten(value)
    assert leaves == [1]
    assert treedef.unflatten([1]) == value
    assert treedef.num_nodes == 201


def test_threads_agree():
    value = {"w": (1, [2, {"x": 3}]), "b": (4, 5)}
    results = []

    def work():
        results.extend(tree.flatten(value) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 800
    assert all(result == results[0] for result in results)
