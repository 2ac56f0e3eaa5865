"""The pretty-printer."""

from hypothesis import given
from hypothesis import strategies as st

from covector._base.pretty import (
    brk,
    concat,
    group,
    hard_break,
    join,
    nest,
    nil,
    sequence,
    text,
)


def call(name, *arguments):
    return text(name) + sequence("(", arguments, ")")


def test_fits_on_one_line():
    assert call("f", "a", call("g", "b")).format(20) == "f(a, g(b))"


def test_breaks_the_outer_group_first():
    doc = call("f", "alpha", call("g", "b", "c"))
    assert doc.format(10) == "f(\n  alpha,\n  g(b, c)\n)"
    assert doc.format(6) == "f(\n  alpha,\n  g(\n    b,\n    c\n  )\n)"


def test_what_follows_a_group_counts():
    doc = group(text("aaa") + brk() + "bbb") + text("cccc") + brk() + "d"
    assert doc.format(10) == "aaa\nbbbcccc\nd"
    assert doc.format(11) == "aaa bbbcccc\nd"


def test_hard_breaks_break_their_groups():
    doc = group(concat(["a", brk(), group(concat(["b", hard_break(), "c"])), brk(), "d"]))
    assert doc.format(80) == "a\nb\nc\nd"


def test_nesting_and_line_ends_in_text():
    assert nest(2, text("{") + hard_break() + text("x\ny")).format() == "{\n  x\n  y"
    assert str("a" + nil() + text("b")) == "ab"


def test_no_blanks_at_line_ends():
    doc = group(concat(["a ", brk(), "b  "]))
    assert doc.format(2) == "a\nb"
    assert concat(["x", "  ", hard_break(), "  ", hard_break(), "y"]).format() == "x\n\ny"


def test_deep_documents():
    doc = text("x")
    for _ in range(5000):
        doc = group(nest(1, text("(") + doc + ")"))
    assert doc.format(20) == "(" * 5000 + "x" + ")" * 5000


words = st.text("abc", min_size=1, max_size=4)
docs = st.recursive(
    words.map(text),
    lambda inner: st.lists(inner, min_size=1, max_size=4).map(lambda xs: sequence("[", xs, "]")),
    max_leaves=20,
)


@given(docs, st.integers(1, 40))
def test_layout_changes_blanks_only(doc, width):
    wide, narrow = doc.format(10_000), doc.format(width)
    assert "\n" not in wide
    assert "".join(narrow.split()) == "".join(wide.split())
    if len(wide) <= width:
        assert narrow == wide
    for line in narrow.split("\n"):
        # A line that is too long holds nothing that could have been broken.
        assert len(line) <= width or not set(line.strip(" ,[]")) & set(" ,[")


@given(st.lists(words), st.integers(1, 30))
def test_join(items, width):
    doc = group(join(concat([",", brk()]), items))
    assert doc.format(10_000) == ", ".join(items)
    assert doc.format(width) in (", ".join(items), ",\n".join(items))
