"""`python -m covector.debug.coverage`: which rules each primitive states, as a matrix.

A cell is `x` where the primitive states the rule, `.` where it has no native one but that of its
decomposition, a letter where the rule cannot exist (with the reason, from the closed list
`ir.op.REASONS`), and `!` where it is missing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from covector._base.named_tuple import NamedTuple
from covector.ir.op import NATIVE_RULES, REASONS, Absent, Op, primitives

#: The columns; `native` is whichever of `NATIVE_RULES` the primitive states.
RULES: Final = (
    "result", "numpy", "jvp", "transpose", "batch", "native", "stablehlo", "samples",
)  # fmt: skip

#: reason -> its letter in the matrix.
LETTERS: Final = {
    "integer": "I", "not linear": "N", "derived": "D", "call": "C", "host": "H",
    "collective": "S",
}  # fmt: skip
STATED: Final = "x"
DECOMPOSED: Final = "."
MISSING: Final = "!"


class Row(NamedTuple):
    """A primitive and its cell in each column."""

    name: str
    cells: tuple[str, ...]


def mark(cls: type[Op], rule: str) -> str:
    """One cell of the matrix."""
    if rule != "native":
        return _cell(cls, rule)
    cells = {r: _cell(cls, r) for r in NATIVE_RULES}
    stated = [r for r, cell in cells.items() if cell == STATED]
    if stated:
        return DECOMPOSED if stated == ["decompose"] else STATED
    return next((cell for cell in cells.values() if cell != MISSING), MISSING)


def _cell(cls: type[Op], rule: str) -> str:
    found = getattr(cls, rule)
    if isinstance(found, Absent):
        return LETTERS[found.reason]
    return MISSING if found is None or found is vars(Op)[rule] else STATED


def matrix() -> list[Row]:
    """Every primitive, by name."""
    return [Row(name, tuple(mark(cls, r) for r in RULES)) for name, cls in primitives().items()]


def counts(rows: list[Row]) -> dict[str, int]:
    """How many cells hold each mark; reasons by their own words."""
    words = {letter: reason for reason, letter in LETTERS.items()}
    words |= {STATED: "stated", DECOMPOSED: "decomposed", MISSING: "missing"}
    found = Counter(words[c] for row in rows for c in row.cells)
    return {word: found[word] for word in words.values()}


def report(rows: list[Row]) -> Iterator[str]:
    """The matrix, the legend and the counts."""
    width = max(len(row.name) for row in rows)
    yield f"{'primitive':{width}}  " + "  ".join(RULES)
    for row in rows:
        cells = [f"{c:^{len(r)}}" for c, r in zip(row.cells, RULES, strict=True)]
        yield f"{row.name:{width}}  {'  '.join(cells)}".rstrip()
    yield ""
    yield f"{STATED} stated   {DECOMPOSED} by decomposition   {MISSING} missing"
    yield from (f"{LETTERS[reason]} {reason}: {words}" for reason, words in REASONS.items())
    yield ""
    found = counts(rows)
    yield f"{len(rows)} primitives, {len(rows) * len(RULES)} rules: " + ", ".join(
        f"{n} {word}" for word, n in found.items()
    )


def main() -> int:
    """Print the report; 1 if a rule is missing."""
    rows = matrix()
    print("\n".join(report(rows)))
    return int(any(MISSING in row.cells for row in rows))


if __name__ == "__main__":
    sys.exit(main())
