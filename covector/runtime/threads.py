"""How many threads compiled programs and BLAS may use: COVECTOR_NUM_THREADS, or all CPUs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final


def available_cpus() -> int:
    """CPUs this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _initial() -> int:
    given = os.environ.get("COVECTOR_NUM_THREADS")
    if given is None:
        return available_cpus()
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"COVECTOR_NUM_THREADS takes a number of threads; got {given!r}")
    return int(given)


_count = _initial()
#: Called with the new number: the thread pool, BLAS.
followers: Final[list[Callable[[int], None]]] = []


def num_threads() -> int:
    """How many threads one program may use."""
    return _count


def set_num_threads(n: int) -> None:
    """Changes how many threads one program may use.  Results do not depend on it.

    Raises ValueError for less than one, TypeError for what is no integer.
    """
    global _count
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads takes an integer; got {n!r}")
    if n < 1:
        raise ValueError(f"set_num_threads: at least one thread is needed; got {n}")
    _count = n
    for follow in tuple(followers):
        follow(n)


def follow(change: Callable[[int], None]) -> None:
    """Calls `change` now and whenever the number of threads changes."""
    followers.append(change)
    change(_count)
