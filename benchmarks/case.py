"""A row as one side runs it, inside a worker."""

import gc
import time
import timeit
from typing import Any

import numpy as np

from benchmarks.rows import ROWS

BATCHES = 3  # per turn; the best counts, as a disturbance only ever adds time
LONG = 0.25  # seconds of a batch above which a turn has only one


def leaves(value: Any) -> list[Any]:
    """The arrays in nested lists, tuples and dicts; dicts by sorted key."""
    match value:
        case dict():
            return [leaf for key in sorted(value) for leaf in leaves(value[key])]
        case list() | tuple():
            return [leaf for item in value for leaf in leaves(item)]
    return [value]


def replaced(value: Any, change: Any) -> Any:
    """Nested lists, tuples and dicts with `change(array)` in the place of each NumPy array."""
    match value:
        case dict():
            return {key: replaced(item, change) for key, item in value.items()}
        case list() | tuple():
            return type(value)(replaced(item, change) for item in value)
    return change(value) if isinstance(value, np.ndarray) else value


class Case:
    """The function of a row, built with one library, and its arguments there.

    A library is known by its name: `numpy`, `torch` and `torch.compile` have their own versions of
    a row; all others have the API of the row's `build`.
    """

    def __init__(self, row_name: str, name: str, module: Any) -> None:
        row = ROWS[row_name]
        self.library = None if name in ("numpy", "torch", "torch.compile") else module
        self.arguments = row.draw()
        if name == "numpy":
            self.function = self.wanted(row.by_hand, row_name, name)
        elif self.library is None:
            self.arguments = replaced(self.arguments, module.from_numpy)
            self.function = self.wanted(row.in_torch, row_name, name)(module)
            if name == "torch.compile":
                self.function = module.compile(self.function)
        else:
            placed = replaced(self.arguments, module.numpy.asarray)
            self.arguments = module.block_until_ready(placed)
            self.function = row.build(module)

    def wanted(self, version: Any, row_name: str, name: str) -> Any:
        if version is None:
            raise ValueError(f"row {row_name} has no version for {name}")
        return version

    def call(self) -> Any:
        result = self.function(*self.arguments)
        return result if self.library is None else self.library.block_until_ready(result)

    def first(self) -> tuple[float, list[np.ndarray]]:
        """The seconds of the first call, and its result as NumPy arrays."""
        began = time.perf_counter()
        result = self.call()
        seconds = time.perf_counter() - began
        return seconds, [np.asarray(leaf) for leaf in leaves(result)]

    def prepare(self, batch_seconds: float) -> None:
        """Write the loop that is timed, and choose the number of calls that fills a batch."""
        names = [f"a{i}" for i in range(len(self.arguments))]
        call = f"function({', '.join(names)})"
        if hasattr(self.call(), "block_until_ready"):
            call += ".block_until_ready()"
        elif self.library is not None:
            call = f"block({call})"
        scope = dict(zip(names, self.arguments, strict=True), function=self.function, gc=gc)
        scope["block"] = getattr(self.library, "block_until_ready", None)
        # The garbage collector stays on, as in the programs that people run.
        self.timer = timeit.Timer(call, setup="gc.enable()", globals=scope)
        self.calls, seconds = 1, self.timer.timeit(1)
        while seconds < batch_seconds / 2:
            growth = batch_seconds / max(seconds, batch_seconds / 100)
            self.calls = max(2 * self.calls, int(growth * self.calls))
            seconds = self.timer.timeit(self.calls)

    def time(self) -> float:
        """Seconds per call: the best of a few batches."""
        first = self.timer.timeit(self.calls)
        others = self.timer.repeat(BATCHES - 1, self.calls) if first < LONG else []
        return min(first, *others) / self.calls if others else first / self.calls
