"""How many threads compiled programs and BLAS may use: COVECTOR_NUM_THREADS, or all CPUs.

The number is the process's, since the threads are: jobs of several callers share them.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Generator
from typing import Final


def available_cpus() -> int:
    """CPUs this process may use: those that its affinity allows, and no more than its quota.

    A container's quota (cgroup) is a share of time; of one and a half CPUs it says two.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity is not None else _windows_cpus() or os.cpu_count() or 1
    return max(1, min(allowed, cgroup_cpus() or allowed))


def _windows_cpus() -> int:
    """CPUs in the affinity mask of the process, on Windows; 0 elsewhere."""
    kernel32 = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    if kernel32 is None:
        return 0
    mine, system = ctypes.c_size_t(0), ctypes.c_size_t(0)
    process = ctypes.c_void_p(-1)  # this one
    found = kernel32.GetProcessAffinityMask(process, ctypes.byref(mine), ctypes.byref(system))
    return bin(mine.value).count("1") if found else 0


def cgroup_cpus(root: str | os.PathLike[str] = "/") -> int | None:
    """CPUs that the quota of the process's control group gives, rounded up; None without one.

    `root`: where the system's files are.  Both versions of cgroups; a parent's quota holds too.
    """
    found: list[int] = []
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 2 has no controllers there; in a container the path may be the host's.
        tops = (controllers, "cpu") if controllers else ("", "unified")
        for top in tops:
            parts = path.strip("/").split("/")
            for n in range(len(parts), -1, -1):
                folder = os.path.join(root, "sys/fs/cgroup", top, *parts[:n])
                quota = _quota(folder, version=1 if controllers else 2)
                if quota is not None:
                    found.append(quota)
    return min(found, default=None)


def _quota(folder: str, version: int) -> int | None:
    """ceil(quota / period) of one control group, if it has a quota."""
    if version == 1:
        words = [_read(os.path.join(folder, f"cpu.cfs_{name}_us")) for name in ("quota", "period")]
    else:
        words = _read(os.path.join(folder, "cpu.max")).split()
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", no such file, or one of another form
        return None
    return max(1, -(-quota // period)) if quota > 0 and period > 0 else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _chosen() -> int | None:
    given = os.environ.get("COVECTOR_NUM_THREADS")
    if given is None:
        return None
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"COVECTOR_NUM_THREADS takes a number of threads; got {given!r}")
    return int(given)


#: None: nobody has chosen; as many as there are CPUs then, which only the first kernel that runs on
#: several wants to know.
_count = _chosen()
_cpus = functools.cache(available_cpus)
#: Called with the new number: the thread pool, BLAS.
followers: Final[list[Callable[[int], None]]] = []


_lock: Final = threading.RLock()


def num_threads() -> int:
    """How many threads one program may use.

    At first the environment variable COVECTOR_NUM_THREADS, or as many as there are CPUs that the
    process may use by its affinity and, in a container, its quota.

    >>> import covector as cv
    >>> cv.num_threads() >= 1
    True
    """
    return _cpus() if _count is None else _count


def set_num_threads(n: int) -> None:
    """Changes how many threads one program may use, for the whole process.

    Results do not depend on it.  Raises ValueError for less than one, TypeError for what is no
    integer.

    >>> import covector as cv
    >>> cv.set_num_threads(cv.num_threads())
    """
    global _count
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads takes an integer; got {n!r}")
    if n < 1:
        raise ValueError(f"set_num_threads: at least one thread is needed; got {n}")
    with _lock:
        _count = n
        for follow in tuple(followers):
            follow(n)


@contextlib.contextmanager
def limit_threads(n: int) -> Generator[None]:
    """`with limit_threads(n):` has programs use `n` threads meanwhile; also a decorator.

    For the whole process, as `set_num_threads`: of what other Python threads run too.  Where two
    of them do this at once, the number set last holds.

    >>> import covector as cv
    >>> before = cv.num_threads()
    >>> with cv.limit_threads(1):
    ...     assert cv.num_threads() == 1
    >>> cv.num_threads() == before
    True
    """
    before = num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


def follow(change: Callable[[int], None]) -> None:
    """Calls `change` now and whenever the number of threads changes."""
    with _lock:
        followers.append(change)
        change(num_threads())
