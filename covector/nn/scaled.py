"""Products of matrices in micro-scaling formats: narrow elements, a scale for each block of them.

Quantising rounds the scale of a block up, so that its greatest element fits the element type.
Formats: OCP Microscaling Formats (MX) Specification 1.0 (mxfp8); NVIDIA's NVFP4, which has blocks
of 16 float4 elements, scales that are float8_e4m3fn numbers, and one float32 scale for all.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Final, Literal, final

import ml_dtypes
import numpy as np

from covector import dtypes, lax, ops
from covector import numpy as cnp
from covector._base.named_tuple import NamedTuple
from covector.api.custom_vjp import custom_vjp
from covector.lax.scaled import checked_dimensions, real_array, scaled
from covector.numpy.convert import user_dtype

_E8M0: Final = np.dtype(ml_dtypes.float8_e8m0fnu)
_FLOAT32: Final = np.dtype(np.float32)
_RESULTS: Final = tuple(map(np.dtype, (np.float32, ml_dtypes.bfloat16, np.float16)))


@final
@dataclasses.dataclass(slots=True)
class BlockScaleConfig:
    """How `scaled_dot_general` quantises one operand; made by `get_scaled_dot_general_config`.

    `mode`: the format's name.  `block_size`: elements that share a scale.  `data_type`,
    `scale_type`: the dtypes of both.  `global_scale`: one number that all scales are relative to,
    or None.  `infer_only` is not read, as in JAX.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


#: mode -> block size, dtype of elements, dtype of scales.
_MODES: Final[dict[str, tuple[int, Any, Any]]] = {
    "mxfp8": (32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu),
    "nvfp4": (16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn),
}


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: Any = None
) -> BlockScaleConfig:
    """How `scaled_dot_general` is to quantise an operand.

    Args:
      mode: 'mxfp8' (blocks of 32 float8_e4m3fn, scales that are powers of two) or 'nvfp4' (blocks
        of 16 float4_e2m1fn, scales that are float8_e4m3fn; its gradients are not quantised).
      global_scale: for 'nvfp4', a number, or an array of one, that all scales are relative to: the
        greatest element / 2688 uses their range best.  Default 1.

    ValueError for another mode, TypeError for more than one number.

    >>> from covector import nn
    >>> nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    who = "get_scaled_dot_general_config"
    if mode not in _MODES:
        raise ValueError(f"{who}: mode must be one of {', '.join(_MODES)}; got {mode!r}")
    if mode == "mxfp8":
        global_scale = None
    elif global_scale is None:
        global_scale = cnp.ones(1, _FLOAT32)
    elif cnp.size(global_scale) != 1:
        raise TypeError(f"{who}: global_scale must be one number; got {global_scale}")
    return BlockScaleConfig(mode, *_MODES[mode], global_scale, False)


def scaled_matmul(
    lhs: Any,
    rhs: Any,
    lhs_scales: Any,
    rhs_scales: Any,
    preferred_element_type: Any = np.float32,
) -> Any:
    """``einsum('bmk,bnk->bmn', lhs * lhs_scales, rhs * rhs_scales)``, scales given by blocks.

    The product is computed in float32.

    Args:
      lhs: real array of shape (B, M, K).  rhs: of shape (B, N, K).
      lhs_scales: of shape (B, M, K / block), where `block` is any divisor of K: each is the scale
        of as many elements in a row.  rhs_scales: of shape (B, N, K / block), its block may differ.
      preferred_element_type: dtype of the result, which has shape (B, M, N).

    ValueError for shapes that do not fit, TypeError for what is no real array.

    >>> from covector import nn, numpy as jnp
    >>> x = jnp.ones((1, 2, 4), jnp.float8_e4m3fn)
    >>> scales = jnp.array([[[1, 2], [4, 8]]], jnp.float8_e8m0fnu)
    >>> print(nn.scaled_matmul(x, x, scales, jnp.ones((1, 2, 2))))
    [[[ 6.  6.]
      [24. 24.]]]
    """
    who = "scaled_matmul"
    given = {"lhs": lhs, "rhs": rhs, "lhs_scales": lhs_scales, "rhs_scales": rhs_scales}
    a, b, s, u = (real_array(who, name, x) for name, x in given.items())
    _check_shapes(a.shape, b.shape, s.shape, u.shape)
    if preferred_element_type is None:
        raise ValueError(f"{who}: preferred_element_type must be a dtype; got None")
    return _matmul(a, b, s, u, user_dtype(preferred_element_type, who))


def _check_shapes(a: Any, b: Any, s: Any, u: Any) -> None:
    shapes = f"lhs {a}, rhs {b}, lhs_scales {s}, rhs_scales {u}"
    if {len(a), len(b), len(s), len(u)} != {3}:
        raise ValueError(f"scaled_matmul: all arguments must have rank 3; got {shapes}")
    if a[0] != b[0] or a[2] != b[2]:
        raise ValueError(
            f"scaled_matmul: lhs (B, M, K) and rhs (B, N, K) must agree in B and K; got {shapes}"
        )
    for name, x, scale in (("lhs", a, s), ("rhs", b, u)):
        if scale[:2] != x[:2] or (x[2] % scale[2] if scale[2] else x[2]):
            raise ValueError(
                f"scaled_matmul: {name}_scales must have the shape of {name}, but a divisor of "
                f"its last size; got {shapes}"
            )
    if s[2] != u[2]:
        raise ValueError(
            "scaled_matmul: lhs_scales and rhs_scales must have as many blocks, the last size of "
            f"both; got {s[2]} and {u[2]} ({shapes})"
        )


def _matmul(a: Any, b: Any, a_scales: Any, b_scales: Any, out: Any) -> Any:
    numbers = ((2,), (2,)), ((0,), (0,))
    parts = scaled(a, a_scales, _FLOAT32), scaled(b, b_scales, _FLOAT32)
    total = ops.contract.dot_general(*parts, numbers, lax.Precision.HIGHEST)
    return ops.cast.convert_element_type(total, out, False)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: list[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Any:
    """`lax.dot_general` of operands that are quantised by blocks along the contracting axes.

    Derivatives are straight-through: those of the product of the operands as they were, where
    these and the cotangent are quantised for the products that give the gradients, unless the
    third config is 'nvfp4'; then elements beyond the range of 'nvfp4' have no gradient.  A last
    block of a row may be shorter than others.  Infinities and NaNs make their block NaN in
    'mxfp8'; in 'nvfp4' infinities are saturated.

    Args:
      lhs, rhs: real arrays; quantised in float32.
      dimension_numbers: as for `lax.dot_general`.  Several contracting axes count as one, the
        last one fastest, in the order of `lhs`'s axes.
      preferred_element_type: float32, bfloat16 or float16, the dtype of the result.
      configs: of `lhs`, of `rhs`, of cotangents, each by `get_scaled_dot_general_config`.
        None: nothing is quantised; this is `lax.dot_general`.
      implementation: not read, as in JAX.

    TypeError for dimension numbers, dtypes or configs that do not fit.

    >>> import covector as cv
    >>> from covector import nn, numpy as jnp
    >>> config = nn.get_scaled_dot_general_config("mxfp8")
    >>> x, y = jnp.full((2, 32), 1.1), jnp.ones((3, 32))
    >>> print(nn.scaled_dot_general(x, y, (((1,), (1,)), ((), ())), configs=[config] * 3))
    [[36. 36. 36.]
     [36. 36. 36.]]
    """
    if configs is None:
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    who = "scaled_dot_general"
    lhs, rhs = real_array(who, "lhs", lhs), real_array(who, "rhs", rhs)
    numbers = checked_dimensions(who, dimension_numbers, lhs, rhs)
    out = preferred_element_type
    out = None if out is None else dtypes.check_user_dtype_supported(out, who)
    if out not in _RESULTS:
        raise TypeError(
            f"{who}: preferred_element_type must be float32, bfloat16 or float16 where configs "
            f"are given; got {out}"
        )
    formats, factors = _read_configs(configs)
    (xc, yc), (xb, yb) = numbers
    order = sorted(range(len(xc)), key=lambda k: xc[k])
    a, a_free = _as_matrices(lhs, tuple(xc[k] for k in order), xb)
    b, b_free = _as_matrices(rhs, tuple(yc[k] for k in order), yb)
    total = _product(formats, a, b, factors)
    shape = tuple(lhs.shape[d] for d in xb) + a_free + b_free
    return ops.cast.convert_element_type(ops.shape.reshape(total, shape), out, False)


def _as_matrices(x: Any, contract: Any, batch: Any) -> tuple[Any, tuple[int, ...]]:
    """`x` with its axes as three, (batch, others, contracting), and the sizes of the others."""
    if not cnp.issubdtype(x.dtype, np.floating):
        x = ops.cast.convert_element_type(x, _FLOAT32, False)
    others = tuple(d for d in range(x.ndim) if d not in contract and d not in batch)
    groups = [tuple(x.shape[d] for d in axes) for axes in (batch, others, contract)]
    x = ops.shape.transpose(x, (*batch, *others, *contract))
    return ops.shape.reshape(x, tuple(int(np.prod(g, dtype=int)) for g in groups)), groups[1]


class _Format(NamedTuple):
    """What is static of a config."""

    block: int
    element: Any
    scale: Any
    exact: bool  # whether gradients are products of what was not quantised


def _read_configs(configs: Any) -> tuple[tuple[_Format, ...], tuple[Any, ...]]:
    """The static parts of the configs, and their global scales."""
    if not isinstance(configs, (list, tuple)) or len(configs) != 3:
        raise TypeError(
            f"scaled_dot_general: configs must be three, of lhs, rhs and cotangents; got {configs}"
        )
    for config in configs:
        if not isinstance(config, BlockScaleConfig):
            raise TypeError(
                f"scaled_dot_general: configs must come from get_scaled_dot_general_config; got "
                f"{config!r}"
            )
    formats = [
        _Format(int(c.block_size), np.dtype(c.data_type), np.dtype(c.scale_type), c.mode == "nvfp4")
        for c in configs
    ]
    factors = [
        None if c.global_scale is None else cnp.asarray(c.global_scale, _FLOAT32).reshape(())
        for c in configs
    ]
    return tuple(formats), tuple(factors)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _product(formats: Any, a: Any, b: Any, factors: Any) -> Any:
    """Of (B, M, K) and (B, N, K), quantised along K: (B, M, N) in float32."""
    return _quantised_product(formats[:2], a, b, factors[:2])


def _forward(formats: Any, a: Any, b: Any, factors: Any) -> Any:
    return _product(formats, a, b, factors), (a, b, factors)


def _backward(formats: Any, kept: Any, ct: Any) -> Any:
    a, b, factors = kept
    turned = cnp.swapaxes(ct, 1, 2)
    return (
        _gradient(formats, factors, ct, b, 1, a, 0),
        _gradient(formats, factors, turned, a, 0, b, 1),
        None,
    )


def _gradient(formats: Any, factors: Any, ct: Any, y: Any, of_y: int, x: Any, of_x: int) -> Any:
    """Of `x`: the product of the cotangent (B, its rows, rows of `y`) with the other operand `y`.

    The straight-through estimator (Bengio, Leonard, Courville 2013, "Estimating or propagating
    gradients through stochastic neurons"): rounding counts as the identity.  Where the product is
    exact it is the clipped form (Hubara et al. 2016, "Quantized neural networks"): an element in
    the range of a format that saturates has derivative 1, one beyond it 0.
    """
    turned, config = cnp.swapaxes(y, 1, 2), formats[2]
    if not config.exact:
        pair = (config, formats[of_y]), (factors[2], factors[of_y])
        return _quantised_product(pair[0], ct, turned, pair[1]).astype(x.dtype)
    numbers = ((2,), (2,)), ((0,), (0,))
    grad = ops.contract.dot_general(ct, turned.astype(_FLOAT32), numbers, lax.Precision.HIGHEST)
    if formats[of_x].scale != _E8M0:  # powers of two reach as far as float32 does
        grad = cnp.where(_in_range(x, formats[of_x], factors[of_x]), grad, 0)
    return grad.astype(x.dtype)


def _in_range(x: Any, form: _Format, factor: Any) -> Any:
    """Whether the format reaches each element of `x`, so that quantising it does not saturate.

    Both of its parts at their greatest are 6 * 448 in NVFP4, relative to `factor`: divided by it as
    `_quantise` does, so that this asks what happened there.  NaN is in no range.  The greatest of
    a block may also be cut a little, where the block's scale is rounded down: that is rounding.
    """
    x = x.astype(_FLOAT32)
    relative = x if factor is None else x / factor
    return cnp.abs(relative) <= _greatest(form.element) * _greatest(form.scale)


_product.defvjp(_forward, _backward)


def _quantised_product(formats: Any, a: Any, b: Any, factors: Any) -> Any:
    block = max(f.block for f in formats)
    pad = (0, 0), (0, 0), (0, -a.shape[2] % block)
    parts = [
        _quantise(cnp.pad(x, pad), form, factor)
        for x, form, factor in zip((a, b), formats, factors, strict=True)
    ]
    # Quantised once, not again for each element of the product.
    (a, a_scales), (b, b_scales) = lax.optimization_barrier(parts)
    total = _matmul(a, b, a_scales, b_scales, _FLOAT32)
    for factor in factors:
        total = total if factor is None else total * factor
    return total


def _quantise(x: Any, form: _Format, factor: Any) -> tuple[Any, Any]:
    """The elements of `x` and the scales of the blocks of its last axis."""
    blocks = x.astype(_FLOAT32).reshape(*x.shape[:-1], -1, form.block)
    if factor is not None:
        blocks = blocks / factor
    top = cnp.max(cnp.abs(blocks), axis=-1, keepdims=True)
    most = _greatest(form.element)
    power = form.scale == _E8M0
    scale, inverse = (_power_of_two if power else _rounded)(top, most, form.scale)
    elements = cnp.clip(blocks * inverse, -most, most).astype(form.element)
    return elements.reshape(x.shape), scale.astype(form.scale)[..., 0]


def _greatest(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).max)


def _power_of_two(top: Any, most: float, kind: Any) -> tuple[Any, Any]:
    """The least power of two, from 2^-127 on, by which `top` becomes `most` or less; 1 over it.

    By the bits of float32 numbers: 8 of exponent, 23 of fraction.
    """
    of_most = int(np.float32(most).view(np.int32))
    bits = lax.bitcast_convert_type(top, np.int32)
    carry = (bits & 0x7FFFFF) > (of_most & 0x7FFFFF)
    power = cnp.maximum((bits >> 23) - (of_most >> 23) + carry.astype(np.int32), -127)
    code = cnp.where(cnp.isfinite(top), power + 127, 255).astype(np.uint8)
    return lax.bitcast_convert_type(code, kind), lax.bitcast_convert_type(
        (127 - power) << 23, _FLOAT32
    )


def _rounded(top: Any, most: float, kind: Any) -> tuple[Any, Any]:
    """`top / most` as the scales' type has it, saturated."""
    scale = cnp.minimum(top / most, _greatest(kind)).astype(kind).astype(_FLOAT32)
    return scale, cnp.where(scale > 0, 1 / scale, 0)
