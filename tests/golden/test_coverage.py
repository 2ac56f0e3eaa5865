"""The count of primitives and rules: it changes only on purpose, and no rule is missing."""

from __future__ import annotations

import subprocess
import sys

from covector.debug import coverage
from covector.ir.op import REASONS, Op

# Importing the package declares the primitives.
import covector  # noqa: F401  isort: skip

#: To change with the primitives: one that is added adds eight rules, or reasons why not.
PRIMITIVES = 178
COUNTS = {
    "integer": 34,
    "not linear": 110,
    "derived": 0,
    "call": 3,
    "host": 6,
    "collective": 40,
    "stated": 1211,
    "decomposed": 20,
    "missing": 0,
}


def test_the_counts() -> None:
    rows = coverage.matrix()
    assert coverage.counts(rows) == COUNTS
    assert len(rows) == PRIMITIVES
    assert sum(COUNTS.values()) == PRIMITIVES * len(coverage.RULES)


def test_every_reason_has_its_own_letter() -> None:
    assert list(coverage.LETTERS) == list(REASONS)
    marks = [*coverage.LETTERS.values(), coverage.STATED, coverage.DECOMPOSED, coverage.MISSING]
    assert len(set(marks)) == len(marks)


def test_a_missing_rule_is_seen() -> None:
    class Bare(Op, registered=False):
        name = "bare"

    class Said(Bare, registered=False):
        def kernel(self) -> None:
            """Stated."""

    assert [coverage.mark(Bare, rule) for rule in coverage.RULES] == [coverage.MISSING] * 8
    assert coverage.mark(Said, "native") == coverage.STATED
    assert "bare" not in Op.registry


def test_the_command_prints_the_matrix() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "covector.debug.coverage"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["primitive", *coverage.RULES]
    assert lines[-1].startswith(f"{PRIMITIVES} primitives, {8 * PRIMITIVES} rules: ")
    assert ["sin", "x", "x", "x", "N", "x", "x", "x", "x"] in [line.split() for line in lines]
