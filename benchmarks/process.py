"""Starts the worker processes and speaks to them; makes sure that both sides run alike."""

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Where each library keeps compiled code between processes, and what makes it keep everything.
CACHES = {
    "jax": {
        "JAX_COMPILATION_CACHE_DIR": "{}",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    },
    "covector": {"COVECTOR_COMPILATION_CACHE_DIR": "{}", "COVECTOR_CACHE_DIR": "{}"},
}
# JAX keeps a cache only where a variable asks for it, and its first call is faster without, since
# it has nothing to write: so it gets one only for the rows that read it.
CACHES_UNASKED = ("covector",)


class WorkerError(Exception):
    """A side could not do what it was asked to; the message is its traceback."""


def environment(library: str, threads: int, cache: Path, *, reads_cache: bool) -> dict[str, str]:
    """The user's environment, with the same threads for every library, and a cache of our own."""
    ours = {name for variables in CACHES.values() for name in variables}
    result = {name: value for name, value in os.environ.items() if name not in ours}
    result["JAX_PLATFORMS"] = "cpu"
    # An installed package has its bytecode; that of a checkout is written by its first import.
    result.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "COVECTOR_NUM_THREADS"):
        result[name] = str(threads)
    if reads_cache or library in CACHES_UNASKED:
        variables = CACHES.get(library, {})
        result |= {name: value.format(cache) for name, value in variables.items()}
    return result


class Process:
    """One worker of one library. Use as a context: it is stopped at the end."""

    def __init__(
        self, library: str, threads: int, cache: Path, *, reads_cache: bool = False
    ) -> None:
        self.library = library
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", library, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(library, threads, cache, reads_cache=reads_cache),
        )

    def ask(self, request: str, *arguments: Any) -> Any:
        """The answer to a request; WorkerError if it raised there, or if the worker died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            pickle.dump((request, arguments), self.process.stdin)
            self.process.stdin.flush()
            status, answer = pickle.load(self.process.stdout)
        except (EOFError, OSError) as error:
            code = self.process.wait()
            raise WorkerError(f"the worker of {self.library} died, exit code {code}") from error
        if status != "ok":
            raise WorkerError(answer)
        return answer

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):  # it may have died with a message of ours unread
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
