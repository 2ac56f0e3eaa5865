"""Native routines over whole buffers, by name: what a `LibraryCall` of a program becomes.

A routine writes its part of the driver: it is given a `Site` and emits calls into it.  The
addresses of what such code imports are found by `openblas`.  What writes a routine is loaded with
the first program that calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covector._base.lazy import lazily as _lazily
from covector.backends import cpu
from covector.backends.cpu.library.site import Site

with _lazily(globals()):
    from covector.backends.cpu.library import blas as blas
    from covector.backends.cpu.library import callback as callback
    from covector.backends.cpu.library import convolution as convolution
    from covector.backends.cpu.library import eigen as eigen
    from covector.backends.cpu.library import lapack as lapack
    from covector.backends.cpu.library import sort as sort
    from covector.backends.cpu.library import top_k as top_k

Routine = Callable[[Site], None]

#: Where the function of a routine's name is.
ROUTINES: Final[dict[str, str]] = {
    "gemm": "blas", "conv_rows": "convolution", "conv_taps": "convolution", "sort": "sort",
    "top_k": "top_k", "host_call": "callback",
    "cholesky": "lapack", "triangular_solve": "lapack", "lu": "lapack", "permutation": "lapack",
    "geqrf": "lapack", "orgqr": "lapack", "ormqr": "lapack", "tridiagonal_solve": "lapack",
    "svd": "eigen", "eigh": "eigen", "eig": "eigen", "schur": "eigen", "hessenberg": "eigen",
    "tridiagonal": "eigen",
}  # fmt: skip


def routine(name: str) -> Routine:
    """The routine called `name`; NotImplementedError if there is none."""
    module = ROUTINES.get(name)
    if module is None:
        raise NotImplementedError(
            f"the CPU backend has no library routine {name!r}; it has {', '.join(ROUTINES)}"
        )
    return getattr(getattr(cpu.library, module), name)
