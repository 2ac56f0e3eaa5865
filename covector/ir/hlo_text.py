"""How StableHLO text spells types, attributes and numbers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray

#: Element types whose short name is not MLIR's.
_TYPES = {"bool": "i1", "complex64": "complex<f32>", "complex128": "complex<f64>"}


def element_type(dtype: Any) -> str:
    """MLIR's name of an element type: `f32`, `ui8`, `i1`, `complex<f32>`, `f8E4M3FN`."""
    dtype = dtypes.physical_dtype(dtype)
    if dtype.name in _TYPES:
        return _TYPES[dtype.name]
    short = dtypes.short_name(dtype)
    if short.startswith("u"):
        return f"ui{short[1:]}"
    return "f" + short[1:].replace("_", "").upper() if "_" in short else short


def tensor_type(aval: ShapedArray) -> str:
    """`tensor<3x4xf32>`."""
    return f"tensor<{''.join(f'{n}x' for n in aval.shape)}{element_type(aval.dtype)}>"


def attribute(value: Any) -> str:
    """An attribute: an int is an i64, a tuple of ints or bools an array, a str MLIR text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return f"{int(cast('Any', value))} : i64"
    items: list[Any] = list(value)
    kind = "i1" if items and isinstance(items[0], (bool, np.bool_)) else "i64"
    inside = ", ".join(attribute(bool(v)) if kind == "i1" else str(int(v)) for v in items)
    return f"array<{kind}: {inside}>" if items else f"array<{kind}>"


def in_range(value: Any, dtype: Any) -> Any:
    """A constant, as an element: integers wrap around."""
    if dtypes.kind_of(dtype) not in "iu":
        return value
    bits = 8 * dtype.itemsize
    unsigned = np.asarray(int(value) & ((1 << bits) - 1), f"uint{bits}")
    return unsigned.view(f"int{bits}") if dtypes.kind_of(dtype) == "i" else unsigned


def element(x: np.ndarray) -> str:
    """A number as MLIR writes it; floats that are not finite by their bits."""
    if x.dtype == np.bool_:
        return "true" if x else "false"
    if x.dtype.kind in "iu":
        return str(int(x))
    if x.dtype.kind == "c":
        return f"({element(np.real(x))}, {element(np.imag(x))})"
    if dtypes.kind_of(x.dtype) in "iu":
        return str(int(x))
    if np.isfinite(x):
        text = repr(float(x))
        return text if "." in text or "e" in text else f"{text}.0"
    bits = int(x.reshape(1).view(f"uint{8 * x.dtype.itemsize}")[0])
    return f"0x{bits:0{2 * x.dtype.itemsize}X}"


def elements(array: np.ndarray) -> str:
    """The numbers of an array, in nested brackets."""
    if array.ndim == 0:
        return element(array)
    return f"[{', '.join(elements(part) for part in array)}]"
