"""A row as one side runs it, inside a worker."""

import gc
import time
import timeit
from typing import Any

import numpy as np

from benchmarks.rows import ROWS

BATCHES = 3  # per turn; the best counts, as a disturbance only ever adds time


def leaves(value: Any) -> list[Any]:
    """The arrays in nested lists, tuples and dicts; dicts by sorted key."""
    match value:
        case dict():
            return [leaf for key in sorted(value) for leaf in leaves(value[key])]
        case list() | tuple():
            return [leaf for item in value for leaf in leaves(item)]
    return [value]


class Case:
    """The function of a row, built with one library, and its arguments there."""

    def __init__(self, name: str, library: Any) -> None:
        row = ROWS[name]
        self.library = None if library is np else library
        self.arguments = row.draw()
        if self.library is None:
            if row.by_hand is None:
                raise ValueError(f"row {name} has no NumPy version")
            self.function = row.by_hand
            return

        def place(leaf: Any) -> Any:
            return library.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf

        self.arguments = library.block_until_ready(library.tree.map(place, self.arguments))
        self.function = row.build(library)

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
        return min(self.timer.repeat(BATCHES, self.calls)) / self.calls
