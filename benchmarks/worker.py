"""The process of one side: imports one library, builds rows with it, times them when told to.

Answers pickled requests on its standard streams (see process.py). Above the library's import, which
is timed, it imports nothing but the standard library.
"""

import importlib
import os
import pickle
import sys
import time
import traceback
from typing import Any

# Sides whose name is not that of the module to import. All others but NumPy have JAX's API.
MODULES = {"torch": "torch", "torch.compile": "torch", "machine": "benchmarks.limits"}


def import_timed(name: str) -> tuple[Any, float]:
    """The module and its `numpy`, and the seconds that both took."""
    alike = name != "numpy" and name not in MODULES
    began = time.perf_counter()
    library = importlib.import_module(MODULES.get(name, name))
    if alike:
        importlib.import_module(f"{name}.numpy")
    seconds = time.perf_counter() - began
    for room in ("lax", "nn", "random", "scipy.linalg") if alike else ():
        importlib.import_module(f"{name}.{room}")
    return library, seconds


class Worker:
    """Each public method answers the request of its name. Holds one case at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.library, self.import_seconds = import_timed(name)
        self.cases = importlib.import_module("benchmarks.case")
        self.case: Any = None

    def hello(self) -> dict[str, Any]:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        version = getattr(self.library, "__version__", "unknown")
        return {"import_seconds": self.import_seconds, "version": version, "cores": cores}

    def first(self, row: str) -> tuple[float, list[Any]]:
        self.case = None  # frees the previous row's arrays before this one's are made
        self.case = self.cases.Case(row, self.name, self.library)
        return self.case.first()

    def limit(self, row: str) -> None:
        """Before `prepare`, where the machine itself is the side: there is no first call."""
        self.case = self.library.LimitCase(row)

    def prepare(self, batch_seconds: float) -> None:
        self.case.prepare(batch_seconds)

    def time(self) -> float:
        return self.case.time()


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    # What a library prints must not mix with the answers: descriptor 1 becomes standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    worker: Worker | None = None
    while True:
        try:
            request, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            worker = worker or Worker(name)
            answer = ("ok", getattr(worker, request)(*arguments))
        except Exception:
            answer = ("error", traceback.format_exc())
        pickle.dump(answer, answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    main()
