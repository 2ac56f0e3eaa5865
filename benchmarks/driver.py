"""Runs rows in alternating worker processes: A B C, A B C, …; compares results before any time."""

import contextlib
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.process import Process, WorkerError
from benchmarks.row import Kind, Row


@dataclass(frozen=True)
class Plan:
    """How to measure: which libraries, how often, with how many threads."""

    subject: str = "covector"
    reference: str = "jax"
    alternations: int = 5
    runs: int = 2
    threads: int = 1
    batch_seconds: float = 0.05

    def sides(self, row: Row) -> list[str]:
        """The libraries that run the row, each named by its place in the comparison."""
        sides = ["subject", "reference"]
        if row.by_hand is not None or row.kind is Kind.IMPORT:
            sides.append("numpy")
        if row.in_torch is not None and importlib.util.find_spec("torch") is not None:
            sides += ["torch", "torch.compile"]
        if row.limit is not None:
            sides.append("limit")
        return sides

    def library(self, side: str) -> str:
        named = {"subject": self.subject, "reference": self.reference, "limit": "machine"}
        return named.get(side, side)


@dataclass
class Measurement:
    """What was measured of one row: seconds by side, one list per run, one entry per turn."""

    row: Row
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)
    fault: str | None = None  # why there are no figures: an error, or a wrong result

    def add(self, side: str, run: int, seconds: float) -> None:
        runs = self.seconds.setdefault(side, [])
        while len(runs) <= run:
            runs.append([])
        runs[run].append(seconds)

    def ratios(self, other: str) -> list[list[float]]:
        """Subject / other, turn by turn, for each run; empty if `other` has no figures."""
        return [
            [mine / theirs for mine, theirs in zip(*pair, strict=True)]
            for pair in zip(
                self.seconds.get("subject", []), self.seconds.get(other, []), strict=False
            )
        ]

    def ratio(self, other: str) -> float | None:
        every = [ratio for run in self.ratios(other) for ratio in run]
        return median(every) if every and self.fault is None else None

    def typical(self, side: str) -> float | None:
        every = [seconds for run in self.seconds.get(side, []) for seconds in run]
        return median(every) if every else None

    def run_ratios(self) -> list[float]:
        """The ratio to the reference as each run alone would have it."""
        return [median(run) for run in self.ratios("reference") if run]

    def meets(self, side: str) -> bool | None:
        """Whether the goal of the ratio to one side is met; None without such a goal."""
        goal, ratio = self.row.goals().get(side), self.ratio(side)
        return None if goal is None else ratio is not None and ratio <= goal

    def met(self) -> bool | None:
        """Whether all goals are met; None without a goal."""
        verdicts = [self.meets(side) for side in self.row.goals()]
        return all(verdicts) if verdicts else None


class WrongResult(Exception):
    """Two sides computed different things, so their times mean nothing."""


def check_equal(
    row: Row, expected: list[np.ndarray], actual: list[np.ndarray], *, types: bool
) -> None:
    """WrongResult unless the leaves agree in shape, in value, and where asked for in type."""
    if len(expected) != len(actual):
        raise WrongResult(f"{len(actual)} arrays instead of {len(expected)}")
    for place, (e, a) in enumerate(zip(expected, actual, strict=True)):
        if e.shape != a.shape or (types and e.dtype != a.dtype):
            raise WrongResult(
                f"array {place} is {a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}"
            )
        if np.array_equal(e, a):
            continue
        e, a = e.astype(np.float64), a.astype(np.float64)
        scale, worst = np.max(np.abs(e)), np.max(np.abs(e - a))
        if not worst <= row.rtol * scale:
            raise WrongResult(
                f"array {place} differs by {worst:.3g} where its largest value is {scale:.3g}"
            )


def check_results(row: Row, results: dict[str, list[np.ndarray]]) -> None:
    for side in results:
        if side != "reference":
            try:
                check_equal(row, results["reference"], results[side], types=side == "subject")
            except WrongResult as error:
                raise WrongResult(f"{side} against reference: {error}") from None


class Driver:
    """Measures rows by a plan; `say` gets one line of progress per row and run."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.versions: dict[str, str] = {}

    def measure(self, rows: list[Row]) -> list[Measurement]:
        measurements = [Measurement(row) for row in rows]
        for run in range(self.plan.runs):
            with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as cache:
                steady: dict[str, Process] = {}
                for measurement in measurements:
                    if measurement.fault is not None:
                        continue
                    try:
                        if measurement.row.kind is Kind.STEADY:
                            self.steady(measurement, run, steady, stack, Path(cache))
                        else:
                            self.in_new_processes(measurement, run)
                    except (WorkerError, WrongResult) as error:
                        measurement.fault = str(error).strip()
                        # A worker may have died or be out of step: all start afresh.
                        steady.clear()
                    self.say(self.progress(measurement, run))
        return measurements

    def progress(self, measurement: Measurement, run: int) -> str:
        if measurement.fault is not None:
            return f"run {run + 1}  {measurement.row.name}: {measurement.fault.splitlines()[-1]}"
        return f"run {run + 1}  {measurement.row.name}: {measurement.run_ratios()[run]:.3f}"

    def turns(self, sides: list[str]) -> Iterator[str]:
        """The sides in turn, so that a slow drift of the machine meets all of them."""
        for _ in range(self.plan.alternations):
            yield from sides

    def start(self, side: str, cache: Path, kind: Kind) -> Process:
        library = self.plan.library(side)
        return Process(library, self.plan.threads, cache, reads_cache=kind is Kind.WARM)

    def greet(self, process: Process) -> dict[str, Any]:
        hello = process.ask("hello")
        self.versions[process.library] = hello["version"]
        return hello

    def steady(
        self,
        measurement: Measurement,
        run: int,
        processes: dict[str, Process],
        stack: contextlib.ExitStack,
        cache: Path,
    ) -> None:
        row, sides = measurement.row, self.plan.sides(measurement.row)
        for side in sides:
            if side not in processes:
                process = stack.enter_context(self.start(side, self.folder(cache, side), row.kind))
                self.greet(process)
                processes[side] = process
        computing = [side for side in sides if side != "limit"]
        check_results(row, {side: processes[side].ask("first", row.name)[1] for side in computing})
        if "limit" in sides:
            processes["limit"].ask("limit", row.name)
        for side in sides:
            processes[side].ask("prepare", self.plan.batch_seconds)
        for side in self.turns(sides):
            measurement.add(side, run, processes[side].ask("time"))

    def folder(self, parent: Path, side: str) -> Path:
        """An own folder for a side's cache, which only the user may read."""
        folder = parent / side
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def in_new_processes(self, measurement: Measurement, run: int) -> None:
        row, sides = measurement.row, self.plan.sides(measurement.row)
        with tempfile.TemporaryDirectory() as parent:
            caches = {side: self.folder(Path(parent), side) for side in sides}
            if row.kind is not Kind.COLD:
                for side in sides:  # fills the caches: the library's, and Python's own of bytecode
                    self.one_process(row, side, caches[side])
            if row.kind is Kind.WARM:
                self.check_filled({side: caches[side] for side in ("subject", "reference")})
            results: dict[str, list[np.ndarray]] = {}
            for turn, side in enumerate(self.turns(sides)):
                cache = caches[side]
                if row.kind is Kind.COLD:
                    cache = self.folder(Path(parent), f"{side}{turn}")
                seconds, results[side] = self.one_process(row, side, cache)
                measurement.add(side, run, seconds)
            check_results(row, results)

    def one_process(self, row: Row, side: str, cache: Path) -> tuple[float, list[np.ndarray]]:
        """Seconds of the first call, or of the import, in a process that ends with it."""
        with self.start(side, cache, row.kind) as process:
            hello = self.greet(process)
            if row.kind is Kind.IMPORT:
                return hello["import_seconds"], []
            return process.ask("first", row.name)

    def check_filled(self, caches: dict[str, Path]) -> None:
        for side, cache in caches.items():
            if not any(path.is_file() for path in cache.rglob("*")):
                raise WrongResult(f"{self.plan.library(side)} wrote nothing to its cache")
