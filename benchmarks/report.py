"""The table, as text for the terminal, as Markdown for RESULTS.md, and all figures as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.driver import Measurement, Plan
from benchmarks.row import Row

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (0.0, "ns"))
SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9}


def show_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    unit = next(unit for least, unit in UNITS if seconds >= least)
    return f"{seconds * SCALE[unit]:.3g} {unit}"


def show_ratio(measurement: Measurement, side: str) -> str:
    """The ratio beside its goal, if it has one: `0.250 ≤ 0.30`, or `0.350 > 0.30` if missed."""
    ratio, goal = measurement.ratio(side), measurement.row.goals().get(side)
    if ratio is None or goal is None:
        return "–" if ratio is None else f"{ratio:.3f}"
    sign = "≤" if measurement.meets(side) else ">"
    return f"{ratio:.3f} {sign} {goal:.2f}"


def show_share(measurement: Measurement) -> str:
    """How much of what the machine could do was done, beside its goal: `87% ≥ 85%`."""
    ratio, goal = measurement.ratio("limit"), measurement.row.share
    if ratio is None or goal is None:
        return "–" if ratio is None else f"{1 / ratio:.0%}"
    sign = "≥" if measurement.meets("limit") else "<"
    return f"{1 / ratio:.0%} {sign} {goal:.0%}"


def goals(row: Row) -> str:
    """All goals of a row, in words."""
    words = {
        "of JAX's time": row.goal,
        "of NumPy's time": row.numpy_goal,
        "of the machine's limit": row.share,
    }
    said = [f"{goal} {of}" for of, goal in words.items() if goal is not None]
    return f" (goal: {', '.join(said)})" if said else ""


def verdict(measurement: Measurement) -> str:
    if measurement.fault is not None:
        return "FAULT"
    return {None: "–", True: "pass", False: "miss"}[measurement.met()]


def agreement(measurement: Measurement) -> str:
    """By how much the higher run's ratio exceeds the lower one's."""
    runs = measurement.run_ratios()
    if len(runs) < 2 or measurement.fault is not None:
        return "–"
    return f"{max(runs) / min(runs) - 1:.0%}"


def cells(measurement: Measurement) -> list[str]:
    good = measurement.fault is None
    times = [
        show_seconds(measurement.typical(side) if good else None)
        for side in ("subject", "reference", "numpy")
    ]
    return [
        measurement.row.name,
        *times,
        show_ratio(measurement, "reference"),
        show_ratio(measurement, "numpy"),
        show_share(measurement),
        verdict(measurement),
        agreement(measurement),
    ]


def heading(plan: Plan) -> list[str]:
    return [
        "row", plan.subject, plan.reference, "numpy", f"/ {plan.reference}", "/ numpy", "limit",
        "goals", "runs differ",
    ]  # fmt: skip


TORCH = ("torch", "torch.compile")


def torch_lines(measurements: Sequence[Measurement]) -> list[str]:
    """Beside PyTorch, where it was there and a row has a version for it."""
    return [
        f"`{m.row.name}`: {m.ratio(side):.3f} of {side}'s time, {show_seconds(m.typical(side))}"
        for m in measurements
        for side in TORCH
        if m.ratio(side) is not None
    ]


def text_table(plan: Plan, measurements: Sequence[Measurement]) -> str:
    lines = [heading(plan), *map(cells, measurements)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def align(line: list[str]) -> str:
        name, *figures = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join([name, *figures])

    return "\n".join(map(align, lines))


def summary(measurements: Sequence[Measurement]) -> str:
    verdicts = [verdict(measurement) for measurement in measurements]
    return ", ".join(
        f"{verdicts.count(word)} {label}"
        for word, label in (("pass", "met"), ("miss", "missed"), ("FAULT", "at fault"))
    )


MARKDOWN = """\
# Results

Made by `make bench`; do not edit. How it is measured: [README.md](README.md).
A ratio is a time of {subject}'s over the other's: below 1, {subject} is faster. "Runs differ": the
whole measurement was made {runs} times with new processes; by how much their ratios differ.

{table}

Goals: {summary}. "limit" is the share of what the machine can do: memory copied, or multiply-adds,
whichever takes longer for what a call must move and compute; both measured in turn with the rows.
{torch}

{rows}

## Measured on

{facts}
"""


def markdown(plan: Plan, measurements: Sequence[Measurement], facts: dict[str, str]) -> str:
    def line(row: list[str]) -> str:
        return f"| {' | '.join(row)} |"

    head = heading(plan)
    rule = [":--", *["--:"] * (len(head) - 1)]
    return MARKDOWN.format(
        subject=plan.subject,
        runs=plan.runs,
        table="\n".join(map(line, [head, rule, *map(cells, measurements)])),
        summary=summary(measurements),
        torch="".join(f"\n- {line}" for line in torch_lines(measurements)),
        rows="\n".join(f"- `{m.row.name}`: {m.row.what}" for m in measurements),
        facts="\n".join(f"- {name}: {value}" for name, value in facts.items()),
    )


def as_json(plan: Plan, measurements: Sequence[Measurement], facts: dict[str, str]) -> str:
    def record(measurement: Measurement) -> dict[str, Any]:
        return {
            "row": measurement.row.name,
            "what": measurement.row.what,
            "kind": measurement.row.kind.name.lower(),
            "goals": measurement.row.goals(),
            "verdict": verdict(measurement),
            "fault": measurement.fault,
            "ratio": measurement.ratio("reference"),
            "ratios": {side: measurement.ratio(side) for side in measurement.seconds},
            "ratio_by_run": measurement.run_ratios(),
            "seconds": measurement.seconds,
        }

    plan_facts = {
        "subject": plan.subject,
        "reference": plan.reference,
        "alternations": plan.alternations,
        "runs": plan.runs,
    }
    content = {"plan": plan_facts, "machine": facts, "rows": list(map(record, measurements))}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write(
    folder: Path, plan: Plan, measurements: Sequence[Measurement], facts: dict[str, str]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text(markdown(plan, measurements, facts), encoding="utf-8")
    (folder / "results.json").write_text(as_json(plan, measurements, facts), encoding="utf-8")
