"""`python -m covector.debug.coverage`: which rules each primitive states, as a matrix.

`x` a rule of its own, `.` derived (through the decomposition), a letter: absent, with the reason
from the closed list in `ir.op.REASONS`; `!` missing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from covector.ir.op import NATIVE_RULES, REASONS, Absent, Op, has_rule

RULES = ("numpy", "jvp", "transpose", "batch", "native", "stablehlo", "samples")

#: reason -> its letter in the matrix.
LETTERS = {reason: letter for reason, letter in zip(REASONS, "ILDCOEABFG", strict=False)}


def mark(cls: type[Op], rule: str) -> str:
    """One cell of the matrix."""
    if rule == "native":
        stated = [r for r in NATIVE_RULES if has_rule(cls, r)]
        if stated:
            return {"decompose": "."}.get(stated[0], "x")
        absent = [getattr(cls, r) for r in NATIVE_RULES if isinstance(getattr(cls, r), Absent)]
        return LETTERS[absent[0].reason] if absent else "!"
    found = getattr(cls, rule)
    if isinstance(found, Absent):
        return LETTERS[found.reason]
    return "!" if found is None else "x"


def rows() -> list[tuple[str, list[str]]]:
    """(name, cells) of every primitive."""
    return [(name, [mark(cls, r) for r in RULES]) for name, cls in sorted(Op.registry.items())]


def report() -> Iterator[str]:
    """The matrix, the legend and the counts."""
    table = rows()
    width = max(len(name) for name, _ in table)
    yield f"{'primitive':{width}}  " + "  ".join(RULES)
    for name, cells in table:
        padded = [f"{c:^{len(r)}}" for c, r in zip(cells, RULES, strict=True)]
        yield f"{name:{width}}  " + "  ".join(padded)
    yield ""
    yield "x stated   . by decomposition   ! missing"
    yield from (f"{letter} absent: {reason}: {REASONS[reason]}" for reason, letter in LETTERS.items())
    counts = Counter(c for _, cells in table for c in cells)
    yield ""
    yield f"{len(table)} primitives, {len(table) * len(RULES)} rules: " + ", ".join(
        f"{counts[c]} {c}" for c in sorted(counts)
    )


def main() -> int:
    """Print the report; 1 if a rule is missing."""
    for line in report():
        print(line)
    return int(any("!" in cells for _, cells in rows()))


if __name__ == "__main__":
    sys.exit(main())
