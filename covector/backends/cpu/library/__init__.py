"""Native routines over whole buffers, by name: what a `LibraryCall` of a program becomes.

A routine writes its part of the driver: it is given a `Site` and emits calls into it.  The
addresses of what such code imports are found by `openblas`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covector.backends.cpu.library import blas, callback, convolution, eigen, lapack, sort, top_k
from covector.backends.cpu.library.site import Site

Routine = Callable[[Site], None]

ROUTINES: Final[dict[str, Routine]] = {
    "gemm": blas.gemm, "conv_rows": convolution.conv_rows, "conv_taps": convolution.conv_taps,
    "sort": sort.sort, "top_k": top_k.top_k, "host_call": callback.host_call,
    **lapack.ROUTINES, **eigen.ROUTINES,
}  # fmt: skip


def routine(name: str) -> Routine:
    """The routine called `name`; NotImplementedError if there is none."""
    found = ROUTINES.get(name)
    if found is None:
        raise NotImplementedError(
            f"the CPU backend has no library routine {name!r}; it has {', '.join(ROUTINES)}"
        )
    return found
