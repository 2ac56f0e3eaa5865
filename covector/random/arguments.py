"""What the samplers share: dtypes, shapes and parameters as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.numpy import convert
from covector.ops.random_floats import number

shape_of = convert.shape_of
scalar = number


def _dtype(dtype: Any, default: Any, who: str, kinds: tuple[Any, ...], wanted: str) -> Any:
    found = default if dtype is None else convert.user_dtype(dtype, who)
    if not any(dtypes.issubdtype(found, kind) for kind in kinds):
        raise ValueError(f"dtype argument to `{who}` must be {wanted} dtype, got {found}")
    return found


def float_dtype(dtype: Any, who: str) -> Any:
    """`dtype`, which must be of floats; None means the default."""
    return _dtype(dtype, dtypes.default_float(), who, (np.floating,), "a float")


def inexact_dtype(dtype: Any, who: str) -> Any:
    """`dtype`, which must be of floats or complex numbers; None means the default float."""
    kinds = (np.floating, np.complexfloating)
    return _dtype(dtype, dtypes.default_float(), who, kinds, "a float or complex")


def int_dtype(dtype: Any, who: str) -> Any:
    """`dtype`, which must be of integers; None means the default."""
    return _dtype(dtype, dtypes.default_int(), who, (np.integer,), "an int")


def parameters(who: str, dtype: Any, *values: Any) -> list[Any]:
    """Real parameters in `dtype`: arrays, or NumPy scalars of Python's and NumPy's numbers.

    TypeError for lists and the like, TypePromotionError for complex numbers.
    """
    out = []
    for x in convert.operands(who, *values):
        aval = typeof(x)
        if not is_real(aval.dtype):
            raise dtypes.TypePromotionError(
                f"{who}: parameters must be real numbers; got {aval.str_short()}"
            )
        out.append(scalar(x, dtype) if isinstance(x, _SCALARS) else cnp.asarray(x, dtype))
    return out


_SCALARS = (bool, int, float, np.generic)


def is_real(dtype: Any) -> bool:
    """Whether `dtype` is of booleans, integers or floats."""
    return any(dtypes.issubdtype(dtype, kind) for kind in (np.bool_, np.integer, np.floating))


def joint_shape(who: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """`shape`, to which the parameters must broadcast; None means just as far as they need."""
    common = convert.broadcast_shapes(who, *[typeof(p).shape for p in params])
    if shape is None:
        return common
    shape = shape_of(shape, who)
    try:
        fits = convert.broadcast_shapes(who, shape, common) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{who} got parameters of shape {common}, which do not broadcast to shape {shape}"
        )
    return shape


def placed(x: Any, out_sharding: Any) -> Any:
    """`x`, in a sharding if one is asked for."""
    return x if out_sharding is None else convert.placed(x, None, out_sharding)
