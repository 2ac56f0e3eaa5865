"""The command: `python -m benchmarks`, from the root of the repository."""

import argparse
import os
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.driver import Driver, Plan
from benchmarks.row import Row
from benchmarks.rows import ROWS

HERE = Path(__file__).resolve().parent


def chosen_rows(names: str | None) -> list[Row]:
    if names is None:
        return list(ROWS.values())
    unknown = [name for name in names.split(",") if name not in ROWS]
    if unknown:
        sys.exit(f"no row called {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in names.split(",")]


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare Covector with JAX and NumPy in one run."
    )
    add = parser.add_argument
    add("--rows", metavar="A,B,…", help="only these rows (default: all)")
    add("--list", action="store_true", help="say which rows there are, and stop")
    add("--alternations", type=int, default=5, help="turns of each side in a run (%(default)s)")
    add("--runs", type=int, default=2, help="repetitions of the whole (%(default)s)")
    add("--threads", type=int, default=cores(), help="for each side (%(default)s: all cores)")
    add("--quick", action="store_true", help="shorter turns, one run: a look, not a result")
    add("--output", type=Path, help="folder for RESULTS.md and results.json (all rows: here)")
    libraries = ("covector", "jax")
    add("--subject", choices=libraries, default="covector", help="the library that is measured")
    add("--reference", choices=libraries, default="jax", help="the library it is compared with")
    options = parser.parse_args(argv)
    if options.alternations < 1 or options.runs < 1:
        parser.error("--alternations and --runs must be at least 1")
    if not 1 <= options.threads <= cores():
        parser.error(f"--threads must be from 1 to {cores()}")
    if options.threads != cores() and not hasattr(os, "sched_setaffinity"):
        parser.error("this system can't bind a process to fewer cores: leave --threads out")
    return options


def main(argv: list[str] | None = None) -> int:
    """0 if every row could be measured; missed goals are in the table, not in the exit code."""
    options = parse(argv)
    rows = chosen_rows(options.rows)
    if options.list:
        for row in rows:
            print(f"{row.name}: {row.what}{report.goals(row)}")
        return 0
    plan = Plan(
        subject=options.subject,
        reference=options.reference,
        alternations=options.alternations,
        runs=1 if options.quick else options.runs,
        threads=options.threads,
        batch_seconds=0.02 if options.quick else 0.05,
    )
    facts = machine.describe(plan.threads)
    measurements = Driver(plan, lambda line: print(line, file=sys.stderr, flush=True)).measure(rows)
    facts["load at the end"] = machine.load()

    print(report.text_table(plan, measurements))
    print("\n".join(report.torch_lines(measurements)))
    print(f"Goals: {report.summary(measurements)}.")
    for measurement in measurements:
        if measurement.fault is not None:
            print(f"\n{measurement.row.name}:\n{measurement.fault}", file=sys.stderr)
    # A part, a quick look, or another pair of libraries must not replace the published results.
    complete = options.rows is None and not options.quick
    standard = complete and (plan.subject, plan.reference) == ("covector", "jax")
    folder = options.output or (HERE if standard else None)
    if folder is not None:
        report.write(folder, plan, measurements, facts)
        print(f"Written: {folder / 'RESULTS.md'}, {folder / 'results.json'}")
    return int(any(measurement.fault is not None for measurement in measurements))


if __name__ == "__main__":
    sys.exit(main())
