"""Named tuples of our own: to whoever uses one, what `typing` makes."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from covector._base.named_tuple import NamedTuple


class Point(NamedTuple):
    """A place."""

    x: int
    y: tuple[int, ...]
    label: str = "a"

    @property
    def both(self):
        return self.x, self.y

    def __str__(self):
        return f"at {self.x}"


class Nothing(NamedTuple):
    pass


def test_it_is_a_tuple_with_names():
    p = Point(1, y=(2, 3))
    assert p == (1, (2, 3), "a")
    assert (p.x, p.y, p.label, p.both, str(p)) == (1, (2, 3), "a", (1, (2, 3)), "at 1")
    assert Point.__mro__ == (Point, tuple, object)
    assert (Point.__doc__, type(Point)) == ("A place.", type)
    assert Point._fields == Point.__match_args__ == ("x", "y", "label")
    assert Point._field_defaults == {"label": "a"}
    assert repr(p) == "Point(x=1, y=(2, 3), label='a')"
    assert p._replace(x=5) == Point._make([5, (2, 3), "a"])
    assert p._asdict() == {"x": 1, "y": (2, 3), "label": "a"}
    assert Nothing() == ()
    assert str(inspect.signature(Point)) == "(x: 'int', y: 'tuple[int, ...]', label: 'str' = 'a')"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies(again):
    p = Point(1, (2, 3), "b")
    assert again(p) == p
    assert type(again(p)) is Point


def test_nothing_can_be_added_or_changed():
    p = Point(1, ())
    with pytest.raises(AttributeError):
        p.x = 2
    with pytest.raises(AttributeError):
        p.other = 2


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Point(1), "missing 1 required positional argument: 'y'"),
    (lambda: Point(1, (), "a", 4), "takes from 3 to 4 positional arguments but 5 were given"),
    (lambda: Point(1, z=2), "unexpected keyword argument 'z'"),
    (lambda: Point._make([1]), "Expected 3 arguments, got 1"),
])  # fmt: skip
def test_wrong_arguments(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_wrong_names():
    with pytest.raises(ValueError, match="unexpected field names: \\['z'\\]"):
        Point(1, ())._replace(z=1)


def test_defaults_come_last():
    with pytest.raises(TypeError, match="the fields with a default come last"):

        class Wrong(NamedTuple):
            x: int = 1
            y: int
