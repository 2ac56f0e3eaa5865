"""Functions whose work is shared out, one after the other: each is called for ranges of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.statements import SYMBOL

#: Wanted pieces of work, if they are large enough to be worth it.
PIECES: Final = 32
#: Operations of the least piece: some ten microseconds of one core.
LEAST: Final = 1 << 19
PARAMETERS: Final = {"pointers": "p", "unused": "p", "low": "n", "high": "n"}


class Phase(NamedTuple):
    """A function whose work is shared out: its name, units of work, the least piece."""

    name: str
    units: int
    quantum: int


def entry(name: str, nbytes: int, phases: Sequence[Phase]) -> str:
    """The function that is called: `pointers` are lhs, rhs, result, and room for scratch."""
    calls = [
        f"  call void @{SYMBOL}(ptr @{p.name}, ptr %pointers, ptr %pointers, i64 0, i64 {p.units}, "
        f"i64 {p.quantum})"
        if p.quantum < p.units
        else f"  call void @{p.name}(ptr %pointers, ptr %pointers, i64 0, i64 {p.units})"
        for p in phases
    ]
    return "\n".join(
        [
            f"define void @{name}(ptr %pointers) nounwind {{",
            f"  %given = call ptr @malloc(i64 {nbytes + 64})",
            "  %number = ptrtoint ptr %given to i64",
            "  %after = add i64 %number, 63",
            "  %aligned = and i64 %after, -64",
            "  %room = inttoptr i64 %aligned to ptr",
            "  %place = getelementptr ptr, ptr %pointers, i64 3",
            "  store ptr %room, ptr %place, align 8",
            *calls,
            "  call void @free(ptr %given)",
            "  ret void",
            "}",
        ]
    )


DECLARED: Final = (
    f"declare void @{SYMBOL}(ptr, ptr, ptr, i64, i64, i64)",
    "declare ptr @malloc(i64)",
    "declare void @free(ptr)",
)
