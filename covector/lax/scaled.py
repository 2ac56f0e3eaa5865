"""Products of operands that share scales by blocks, as the micro-scaling formats do.

`covector.nn.scaled` stands on this: it quantises, and multiplies what it made.
"""

from __future__ import annotations

from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.lax._arguments import as_array, integers, user_dtype
from covector.lax._contract import dot_general
from covector.lax._enums import DotDimensionNumbers

_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """``dot_general(lhs * lhs_scale, rhs * rhs_scale)``, a scale for each block of elements.

    Operands and scales are rounded to bfloat16, and so are their products, which is exact for the
    elements (float4, float6, float8) and scales (float8_e8m0fnu, float8_e4m3fn) of micro-scaling
    formats; products of these are summed in float32.

    Args:
      lhs, rhs: real arrays of the same rank, 2 or more.
      lhs_scale, rhs_scale: real arrays of the operand's rank and of its shape, save that the size
        of a contracting axis is divided by the length of a block there (2 or more).  None: 1.
      dimension_numbers: as for `dot_general`; by default the last axis of `lhs` is contracted with
        the last but one of `rhs`, for each index of the axes before these two.
      preferred_element_type: dtype of the result, by default bfloat16.

    TypeError for ranks, sizes and dtypes that do not fit.

    Source of the formats: OCP Microscaling Formats (MX) Specification 1.0, section 5.

    >>> from covector import lax, numpy as jnp
    >>> x = jnp.ones((2, 4), jnp.float8_e4m3fn)
    >>> scale = jnp.array([[1, 2], [4, 8]], jnp.float8_e8m0fnu)  # of blocks of 2
    >>> print(lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type=jnp.float32))
    [[ 6.  6.]
     [24. 24.]]
    """
    who = "scaled_dot"
    lhs, rhs = real_array(who, "lhs", lhs), real_array(who, "rhs", rhs)
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise TypeError(
            f"{who}: lhs and rhs must have the same rank, 2 or more; got {_short(lhs)} and "
            f"{_short(rhs)}"
        )
    if dimension_numbers is None:
        batch = tuple(range(lhs.ndim - 2))
        dimension_numbers = ((lhs.ndim - 1,), (lhs.ndim - 2,)), (batch, batch)
    numbers = checked_dimensions(who, dimension_numbers, lhs, rhs)
    parts: list[Any] = []
    for name, x, scale, axes in (
        ("lhs", lhs, lhs_scale, numbers[0][0]),
        ("rhs", rhs, rhs_scale, numbers[0][1]),
    ):
        if scale is not None:
            scale = real_array(who, f"{name}_scale", scale)
            _check_scale(f"{who}: {name}_scale", x, scale, axes)
        parts.append(scaled(x, scale, _BFLOAT16))
    wanted = _BFLOAT16 if preferred_element_type is None else preferred_element_type
    wanted = user_dtype(wanted, who)
    return dot_general(parts[0], parts[1], numbers, None, wanted)


def scaled(x: Any, scale: Any, dtype: Any) -> Any:
    """`x` times `scale` (None: 1) in `dtype`, each element of `scale` for one block of `x`."""
    x = ops.cast.convert_element_type(x, dtype, False)
    if scale is None or 0 in x.shape:
        return x
    scale = ops.cast.convert_element_type(scale, dtype, False)
    split = [s for n, m in zip(x.shape, scale.shape, strict=True) for s in (m, n // m)]
    spread = [s for m in scale.shape for s in (m, 1)]
    blocks, scale = ops.shape.reshape(x, tuple(split)), ops.shape.reshape(scale, tuple(spread))
    scale = ops.shape.broadcast_in_dim(scale, tuple(split), tuple(range(len(split))))
    return ops.shape.reshape(ops.pointwise.mul(blocks, scale), x.shape)


def real_array(who: str, argument: str, x: Any) -> Any:
    """`x` as an array; TypeError unless its numbers are real."""
    if isinstance(x, list | tuple):
        raise TypeError(f"{who}: {argument} must be an array; got {type(cast('Any', x))}")
    x = as_array(x)
    kinds = (np.floating, np.integer, np.bool_)
    if not any(dtypes.issubdtype(x.dtype, kind) for kind in kinds):
        raise TypeError(f"{who}: {argument} must have real numbers; got {_short(x)}")
    return x


def checked_dimensions(who: str, numbers: Any, lhs: Any, rhs: Any) -> Any:
    """Dimension numbers as tuples; TypeError naming the axes and sizes that do not fit."""
    try:
        (xc, yc), (xb, yb) = numbers
        contract, batch = (integers(xc), integers(yc)), (integers(xb), integers(yb))
    except (TypeError, ValueError):
        raise TypeError(
            f"{who}: dimension_numbers must be ((lhs contracting axes, rhs contracting axes), "
            f"(lhs batch axes, rhs batch axes)); got {numbers}"
        ) from None
    for k, (side, x) in enumerate((("lhs", lhs), ("rhs", rhs))):
        axes = (*contract[k], *batch[k])
        if any(not 0 <= d < x.ndim for d in axes) or len(set(axes)) != len(axes):
            raise TypeError(
                f"{who}: {side} contracting axes {contract[k]} and batch axes {batch[k]} must be "
                f"distinct axes of {_short(x)}, and not negative"
            )
    for what, (left, right) in (("contracting", contract), ("batch", batch)):
        sizes = tuple(lhs.shape[d] for d in left), tuple(rhs.shape[d] for d in right)
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"{who}: {what} axes must have equal sizes; got {sizes[0]} of {_short(lhs)} "
                f"(axes {left}) and {sizes[1]} of {_short(rhs)} (axes {right})"
            )
    return contract, batch


def _check_scale(what: str, x: Any, scale: Any, axes: tuple[int, ...]) -> None:
    """Refuse a scale that has not one element for each block of 2 or more along `axes`."""
    if scale.ndim == x.ndim and all(
        (m and n % m == 0 and n // m != 1) if d in axes else n == m
        for d, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True))
    ):
        return
    raise TypeError(
        f"{what} must have the shape of the operand {_short(x)}, but a size of 1/2, 1/3, … along "
        f"the contracting axes {axes}; got {_short(scale)}"
    )


def _short(x: Any) -> str:
    return typeof(x).str_short()
