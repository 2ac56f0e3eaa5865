"""A pretty-printer: documents that choose their own line breaks.

A document is text, a break (a space, or a new line), or a combination. A *group* is laid out on
one line if it fits the width, otherwise all breaks that belong to it directly become new lines.
After P. Wadler, "A prettier printer" (2003), in the linear form of C. Lindig, "Strictly Pretty"
(2000). Layout uses a stack of its own, so deep documents do not exhaust Python's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias


class Doc:
    """A document. Documents add up: ``text("a") + brk() + text("b")``."""

    __slots__ = ()

    def __add__(self, other: Doc | str) -> Doc:
        return concat((self, other))

    def __radd__(self, other: str) -> Doc:
        return concat((other, self))

    def format(self, width: int = 100) -> str:
        """The laid-out text, with lines of at most `width` characters where possible."""
        return _layout(self, width)

    def __str__(self) -> str:
        return self.format()


class _Text(Doc):
    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text: Final = text


class _Break(Doc):
    __slots__ = ("flat", "hard")

    def __init__(self, flat: str, hard: bool):
        self.flat: Final = flat
        self.hard: Final = hard


class _Concat(Doc):
    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Doc]):
        self.parts: Final = tuple(parts)


class _Nest(Doc):
    __slots__ = ("amount", "body")

    def __init__(self, amount: int, body: Doc):
        self.amount: Final = amount
        self.body: Final = body


class _Group(Doc):
    __slots__ = ("body",)

    def __init__(self, body: Doc):
        self.body: Final = body


_SPACE: Final = _Break(" ", hard=False)
_EMPTY_BREAK: Final = _Break("", hard=False)
_HARD: Final = _Break("", hard=True)
_NIL: Final = _Concat(())


def text(s: str) -> Doc:
    """Plain text. Line ends in it are kept, at the indentation of the place."""
    if "\n" not in s:
        return _Text(s)
    return join(_HARD, map(_Text, s.split("\n")))


def brk(flat: str = " ") -> Doc:
    """A place where a line may end; `flat` stands there if it does not."""
    return _SPACE if flat == " " else _Break(flat, hard=False) if flat else _EMPTY_BREAK


def hard_break() -> Doc:
    """An unconditional line end; no group around it stays on one line."""
    return _HARD


def nil() -> Doc:
    """Nothing."""
    return _NIL


def _doc(part: Doc | str) -> Doc:
    return text(part) if isinstance(part, str) else part


def concat(parts: Iterable[Doc | str]) -> Doc:
    """Documents one after the other."""
    return _Concat([_doc(part) for part in parts])


def join(separator: Doc | str, parts: Iterable[Doc | str]) -> Doc:
    """Documents with a separator between them."""
    separator = _doc(separator)
    pieces: list[Doc] = []
    for part in parts:
        if pieces:
            pieces.append(separator)
        pieces.append(_doc(part))
    return _Concat(pieces)


def nest(amount: int, body: Doc | str) -> Doc:
    """A document whose new lines are indented `amount` further."""
    return _Nest(amount, _doc(body))


def group(body: Doc | str) -> Doc:
    """A document on one line if it fits, with all its own breaks taken if not."""
    return _Group(_doc(body))


def bracket(opening: str, body: Doc | str, closing: str, *, indent: int = 2) -> Doc:
    """A body between brackets, on one line or indented between two."""
    inner = _Nest(indent, _Concat((_EMPTY_BREAK, _doc(body))))
    return _Group(_Concat((_Text(opening), inner, _EMPTY_BREAK, _Text(closing))))


def sequence(opening: str, items: Iterable[Doc | str], closing: str, *, indent: int = 2) -> Doc:
    """Items with commas between brackets."""
    return bracket(opening, join(_Concat((_Text(","), _SPACE)), items), closing, indent=indent)


_Pending: TypeAlias = "tuple[int, bool, Doc]"  # indentation, flat, document


def _fits(room: int, first: _Pending, rest: list[_Pending]) -> bool:
    """Whether `first`, and what follows up to the next possible line end, fits in `room`."""
    pending = [first]
    following = len(rest)
    while room >= 0:
        if not pending:
            if following == 0:
                return True
            following -= 1
            pending.append(rest[following])
        indent, flat, doc = pending.pop()
        if isinstance(doc, _Text):
            room -= len(doc.text)
        elif isinstance(doc, _Break):
            if doc.hard:
                # Inside the group under test it forbids one line; after it, it ends the line.
                return not flat
            if not flat:
                return True
            room -= len(doc.flat)
        elif isinstance(doc, _Concat):
            pending.extend((indent, flat, part) for part in reversed(doc.parts))
        else:
            pending.append((indent, flat, doc.body))  # type: ignore[attr-defined]
    return False


def _layout(doc: Doc, width: int) -> str:
    out: list[str] = []
    column = 0
    pending: list[_Pending] = [(0, False, doc)]
    while pending:
        indent, flat, doc = pending.pop()
        if isinstance(doc, _Text):
            out.append(doc.text)
            column += len(doc.text)
        elif isinstance(doc, _Break):
            if flat and not doc.hard:
                out.append(doc.flat)
                column += len(doc.flat)
            else:
                _end_line(out)
                out.append("\n" + " " * indent)
                column = indent
        elif isinstance(doc, _Concat):
            pending.extend((indent, flat, part) for part in reversed(doc.parts))
        elif isinstance(doc, _Nest):
            pending.append((indent + doc.amount, flat, doc.body))
        elif isinstance(doc, _Group):
            flat = flat or _fits(width - column, (indent, True, doc.body), pending)
            pending.append((indent, flat, doc.body))
    _end_line(out)
    return "".join(out)


def _end_line(out: list[str]) -> None:
    """Removes blanks before a line end."""
    while out:
        kept = out[-1].rstrip(" ")
        if kept:
            out[-1] = kept
            return
        out.pop()
