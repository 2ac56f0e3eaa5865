"""Index expressions: const + sum of coefficient * atom, in a normal form where equality is meaning.

An atom is the name of a loop axis or of a run-time extent (a str), a `Quotient` that no
re-factoring of the domain removed, or `Data`, an index that is read from memory (a gather).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from covector.ir.scalar import Expr


class Affine:
    """`const + sum(c * atom for atom, c in terms)`; immutable, hashable, ordered terms."""

    __slots__ = ("_hash", "const", "terms")

    const: int
    terms: tuple[tuple[Any, int], ...]

    def __init__(self, const: int = 0, terms: tuple[tuple[Any, int], ...] = ()) -> None:
        self.const, self.terms = const, terms
        self._hash = hash((const, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Affine):
            return self.const == other.const and self.terms == other.terms
        return isinstance(other, int) and not self.terms and self.const == other

    def __add__(self, other: Any) -> Affine:
        other = affine(other)
        if not other.terms:
            return Affine(self.const + other.const, self.terms)
        if not self.terms:
            return Affine(self.const + other.const, other.terms)
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        return Affine(self.const + other.const, _normal(total))

    __radd__ = __add__

    def __mul__(self, n: int) -> Affine:
        return Affine(self.const * n, tuple((a, c * n) for a, c in self.terms)) if n else ZERO

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Affine:
        return self + affine(other) * -1

    def __rsub__(self, other: Any) -> Affine:
        return affine(other) - self

    def __neg__(self) -> Affine:
        return self * -1

    def __str__(self) -> str:
        return self.spelled({})

    __repr__ = __str__

    def spelled(self, known: Mapping[Expr, str]) -> str:
        """Its text; `known`: what expressions that are read from memory are called."""
        text = [(_spelled(a, known), c) for a, c in self.terms]
        shown = [a if c == 1 else f"{c}*{a}" for a, c in text]
        return " + ".join(shown + [str(self.const)] * (self.const != 0 or not shown))

    def data(self) -> list[Expr]:
        """The expressions of the data-dependent atoms, also of those within quotients."""
        out: list[Expr] = []
        for atom, _ in self.terms:
            if type(atom) is str:  # the name of an axis, as most are
                continue
            if isinstance(atom, Data):
                out.append(atom.value)
            elif isinstance(atom, Quotient):
                out += atom.index.data()
        return out

    @property
    def constant(self) -> int | None:
        """The number this always is, or None if it depends on an atom."""
        return None if self.terms else self.const

    def sure(self) -> bool:
        """Whether this is >= 0 whatever the atoms (all of them >= 0) are."""
        return self.const >= 0 and all(c >= 0 for _, c in self.terms)

    def over(self, box: Mapping[Any, tuple[Any, Any]]) -> tuple[Affine, Affine]:
        """(least, greatest) when each axis in `box` runs over its half-open (low, high)."""
        least = greatest = Affine(self.const)
        for atom, c in self.terms:
            if atom in box:
                low, high = affine(box[atom][0]), affine(box[atom][1]) - 1
            else:
                low = high = Affine(0, ((atom, 1),))
            least = least + (low if c > 0 else high) * c
            greatest = greatest + (high if c > 0 else low) * c
        return least, greatest

    def substitute(self, mapping: Mapping[Any, Any]) -> Affine:
        """With every atom in `mapping` replaced by its Affine."""
        if not any(atom in mapping for atom, _ in self.terms):
            return self
        total = Affine(self.const)
        for atom, c in self.terms:
            total = total + affine(mapping.get(atom, atom)) * c
        return total


class Quotient:
    """`index div n` or `index mod n`, left over where the domain could not be re-factored."""

    __slots__ = ("index", "kind", "n")

    def __init__(self, kind: str, index: Affine, n: int) -> None:
        self.kind, self.index, self.n = kind, index, n

    def __hash__(self) -> int:
        return hash((self.kind, self.index, self.n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and (self.kind, self.index, self.n) == (
            other.kind,
            other.index,
            other.n,
        )

    def __str__(self) -> str:
        return f"({self.index} {self.kind} {self.n})"

    __repr__ = __str__


class Data:
    """An index whose value is computed from data: `value` is an integer expression, in bounds."""

    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(("data", self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.value is other.value

    def __str__(self) -> str:
        return f"[{self.value}]"

    __repr__ = __str__


def affine(x: Any) -> Affine:
    """`x` (an Affine, an int, or an atom) as an Affine."""
    if isinstance(x, Affine):
        return x
    if isinstance(x, int):
        return Affine(x)
    return Affine(0, ((x, 1),))


def atoms(index: Iterable[Affine]) -> set[Any]:
    """Every atom of a tuple of index expressions (not looking inside Quotient or Data)."""
    return {atom for i in index for atom, _ in i.terms}


def _spelled(atom: Any, known: Mapping[Expr, str]) -> str:
    if isinstance(atom, Quotient):
        return f"({atom.index.spelled(known)} {atom.kind} {atom.n})"
    if isinstance(atom, Data) and atom.value in known:
        return f"[{known[atom.value]}]"
    return str(atom)


def _normal(total: dict[Any, int]) -> tuple[tuple[Any, int], ...]:
    terms = [(a, c) for a, c in total.items() if c]
    if len(terms) > 1:
        # Names are in order of the alphabet, behind what else there is.
        terms.sort(key=None if all(type(a) is str for a in total) else _term_rank)
    return tuple(terms)


def _term_rank(term: tuple[Any, int]) -> tuple[Any, ...]:
    return _rank(term[0])


def _rank(atom: Any) -> tuple[Any, ...]:
    """Where an atom stands in a sum.  No texts: an index may hold an index that holds an index."""
    if isinstance(atom, Quotient):
        terms = tuple([(_rank(a), c) for a, c in atom.index.terms])
        return (0, atom.kind, atom.n, atom.index.const, terms)
    if isinstance(atom, Data):
        return (1, atom.value.number)
    return (2, atom)


ZERO = Affine()
