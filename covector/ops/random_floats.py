"""Uniform and normal numbers as compositions of operations, of one key or of many.

They are equal to JAX's bit for bit (uniform) or to some ulp (normal).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof


def number(x: Any, dtype: Any) -> Any:
    """A number as a NumPy scalar of `dtype`."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)[()]


def unit_interval(keys: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Numbers in [0, 1), of `shape` for each key: random significands with 1's exponent, less 1."""
    point, convert = ops.pointwise, ops.cast.convert_element_type
    width, fraction = dtypes.itemsize_bits(dtype), int(dtypes.finfo(dtype).nmant)
    if width not in (8, 16, 32, 64):
        raise TypeError(f"uniform: only floats of 8, 16, 32 or 64 bits are there; got {dtype}")
    drawn_width = 8 if fraction < 8 else width
    drawn = ops.random_bits.random_bits(keys, drawn_width, shape)
    kept = point.shift_right_logical(drawn, typeof(drawn).dtype.type(drawn_width - fraction))
    kept = convert(kept, np.dtype(f"uint{width}"))
    one = np.ones((), dtype).view(typeof(kept).dtype)[()]
    with_exponent = ops.cast.bitcast_convert_type(point.or_(kept, one), dtype)
    return point.sub(with_exponent, number(1, dtype))


def between(unit: Any, low: Any, high: Any) -> Any:
    """`unit`, in [0, 1), moved to [low, high): numbers, or arrays of its shape, of its dtype."""
    point = ops.pointwise
    scalars = all(isinstance(v, np.generic) for v in (low, high))
    with np.errstate(all="ignore"):
        width = high - low if scalars else point.sub(high, low)
    if typeof(unit).dtype.itemsize < 4:  # rounded twice in narrow types, as XLA does on a CPU
        scaled = point.add(point.mul(unit, width), low)
    else:
        scaled = point.fma(unit, width, low)
    return point.max_(low, scaled)


def standard_normal(keys: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Normal numbers of `shape` for each key: sqrt(2) erf_inv of uniform ones in (-1, 1)."""
    point = ops.pointwise
    low = np.nextafter(number(-1, dtype), number(0, dtype))
    u = between(unit_interval(keys, shape, dtype), low, number(1, dtype))
    return point.mul(number(np.sqrt(2), dtype), point.erf_inv(u))
