"""What a Python value is to the system: its abstract value, and its form in NumPy.

Array and tracer classes register themselves here, so that low rooms can type any value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes
from covector._base.config import config
from covector.ir.avals import ShapedArray

#: type -> function giving the aval of a value of that type.
typers: dict[Any, Callable[[Any], ShapedArray]] = {}


def typeof(x: Any) -> ShapedArray:
    """The abstract value of an array, tracer, NumPy array or Python scalar.

    Raises TypeError for anything else (a list, a string, an object array).
    """
    typer = typers.get(type(x))
    if typer is None:
        typer = _find_typer(x)
    return typer(x)


def is_value(x: Any) -> bool:
    """Whether `x` can be an argument of an operation."""
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def _find_typer(x: Any) -> Callable[[Any], ShapedArray]:
    for base in type(x).__mro__[1:]:
        if base in typers:
            typers[type(x)] = typers[base]
            return typers[base]
    raise TypeError(
        f"Value {_short(x)} with type {type(x)} is not a valid array type: wanted an array, "
        f"a NumPy array or a Python scalar"
    )


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 80 else text[:77] + "..."


def _numpy_aval(x: Any) -> ShapedArray:
    return ShapedArray(x.shape, dtypes.canonical(x.dtype))


def _python_scalar(kind: type) -> Callable[[Any], ShapedArray]:
    known: dict[bool, ShapedArray] = {}

    def typer(x: Any) -> ShapedArray:
        found = known.get(config.enable_x64)
        if found is None:
            dtype = dtypes.python_scalar_dtype(kind)
            found = known[config.enable_x64] = ShapedArray((), dtype, kind is not bool)
        return found

    return typer


typers.update({t: _python_scalar(t) for t in (bool, int, float, complex)})
typers[np.ndarray] = _numpy_aval
typers[np.generic] = _numpy_aval


def as_numpy(x: Any, aval: ShapedArray | None = None) -> np.ndarray:
    """`x` (NumPy array, NumPy or Python scalar) as a NumPy array of its canonical dtype."""
    aval = aval or typeof(x)
    return np.asarray(x, dtypes.physical_dtype(aval.dtype))
