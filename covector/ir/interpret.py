"""The meaning of a Jaxpr, in NumPy: every equation by its operation's `numpy` rule.

The oracle of every other way to run a program, and the reference backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from covector import dtypes
from covector.ir.jaxpr import Atom, Jaxpr, Literal, Var

#: Integers of less than a byte.
_PARTS_OF_A_BYTE: Final = frozenset(map(dtypes.as_dtype, ("int2", "uint2", "int4", "uint4")))


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[np.ndarray]:
    """Results of `jaxpr`, as NumPy arrays."""
    env: dict[Var, Any] = {}

    def write(v: Any, x: Any) -> None:
        env[v] = np.asarray(x)

    def read(v: Atom) -> Any:
        return np.asarray(v.val) if isinstance(v, Literal) else env[v]

    for v, x in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True):
        write(v, x)
    for eqn in jaxpr.eqns:
        outs = apply(eqn.op, *[read(v) for v in eqn.invars])
        for v, x in zip(eqn.outvars, outs, strict=True):
            # NumPy computes in a whole byte where an element has less.
            write(v, physical(x, v.aval) if v.aval.dtype in _PARTS_OF_A_BYTE else x)
    return [read(v) for v in jaxpr.outvars]


def apply(op: Any, *arrays: Any) -> list[np.ndarray]:
    """`op` on NumPy arrays: always a list; floating-point warnings are off."""
    with np.errstate(all="ignore"):
        out = op.numpy(*arrays)
    return [np.asarray(x) for x in out] if op.multiple_results else [np.asarray(out)]


def physical(x: Any, aval: Any) -> np.ndarray:
    """`x` as the NumPy array that stands for a value of `aval`."""
    return np.asarray(x, dtypes.physical_dtype(aval.dtype))
