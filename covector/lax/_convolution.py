"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.lax._arguments import as_array, integers, user_dtype
from covector.lax._contract import dot_general
from covector.lax._convolution_shapes import (
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    transposed_pads,
)
from covector.lax._enums import PrecisionLike, canonical_precision
from covector.lax._windows import pads_of
from covector.ops.convolution import ConvDimensionNumbers, ConvGeneralDilated
from covector.ops.windows import covered

Padding = str | Sequence[tuple[int, int]]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sums of products of `lhs` with the window `rhs`, which slides along the spatial axes.

    Args:
      lhs: an array of rank n + 2: batch, features, n spatial axes (any n, also 0).
      rhs: an array of the same rank and dtype: output features, input features, window.
      window_strides: how far the window moves each time, for each spatial axis.
      padding: 'VALID' (none), 'SAME' (ceil(size / stride) places), 'SAME_LOWER', or (low, high)
        for each spatial axis; negative: elements are cut off.
      lhs_dilation, rhs_dilation: how far elements of lhs, of the window, are apart.
      dimension_numbers: which axis is what: three words such as ('NHWC', 'HWIO', 'NHWC'), or a
        `ConvDimensionNumbers`; if not given NC…, OI…, NC….
      feature_group_count: groups of features that are convolved apart.
      batch_group_count: groups of the batch, each with its own part of the output features.
      precision: see `Precision`.
      preferred_element_type: dtype of the result; that of the operands if not given.

    The window is not reversed: this is what signal processing calls a correlation.  TypeError for
    dtypes, ValueError for sizes that do not fit.

    >>> from covector import lax, numpy as jnp
    >>> x = jnp.arange(5.0).reshape(1, 1, 5)
    >>> print(lax.conv_general_dilated(x, jnp.ones((1, 1, 2)), (1,), "VALID"))
    [[[1. 3. 5. 7.]]]
    """
    x, y = typeof(lhs), typeof(rhs)
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    rank = max(x.ndim - 2, 0)
    strides = integers(window_strides)
    dilation = (1,) * rank if lhs_dilation is None else integers(lhs_dilation)
    spread = (1,) * rank if rhs_dilation is None else integers(rhs_dilation)
    _check_lengths(rank, window_strides=strides, lhs_dilation=dilation, rhs_dilation=spread)
    sizes = [x.shape[d] for d in numbers.lhs_spec[2:]]
    window = [covered(y.shape[d], r) for d, r in zip(numbers.rhs_spec[2:], spread, strict=True)]
    if isinstance(padding, str) and any(d != 1 for d in dilation):
        raise ValueError(
            f"conv_general_dilated: padding={padding!r} has no meaning where lhs_dilation is not 1 "
            f"(got {dilation}): give pairs (low, high), or use conv_transpose"
        )
    op = ConvGeneralDilated(
        strides, tuple(pads_of("convolution", padding, sizes, window, strides)), dilation, spread,
        numbers,
        int(feature_group_count), int(batch_group_count), canonical_precision(precision),
        _preferred(x.dtype, y.dtype, preferred_element_type),
    )  # fmt: skip
    return op(lhs, rhs)


def _check_lengths(rank: int, **given: tuple[int, ...]) -> None:
    for name, numbers in given.items():
        if len(numbers) != rank:
            raise ValueError(
                f"conv_general_dilated: {name} must have one entry for each of the {rank} spatial "
                f"axes; got {numbers}"
            )
        if any(n < 1 for n in numbers):
            kind = ValueError if name == "window_strides" else TypeError
            raise kind(f"conv_general_dilated: {name} must be positive; got {numbers}")


def _preferred(x: Any, y: Any, wanted: Any) -> Any:
    """The dtype of the result, or None for that of the operands."""
    if x != y:
        raise TypeError(
            f"lax.conv_general_dilated requires arguments to have the same dtypes, got {x}, {y}. "
            "Convert one of them with convert_element_type or .astype."
        )
    if wanted is None:
        return None
    wanted = user_dtype(wanted, "conv_general_dilated")
    whole = [dtypes.issubdtype(d, np.integer) or d == np.bool_ for d in (x, wanted)]
    floating, imaginary = (
        [dtypes.issubdtype(d, kind) for d in (x, wanted)]
        for kind in (np.floating, np.complexfloating)
    )
    fits = all(imaginary) or all(whole) or (floating[1] and (floating[0] or whole[0]))
    if not fits:
        raise TypeError(
            f"conv_general_dilated: preferred_element_type={wanted} does not go with operands of "
            f"dtype {x}: integers give integers or floats, floats give floats, complex numbers "
            "complex numbers"
        )
    if np.dtype(wanted).itemsize < np.dtype(x).itemsize:
        raise TypeError(
            f"conv_general_dilated: preferred_element_type={wanted} must not be narrower than the "
            f"operands' {x}"
        )
    if dtypes.issubdtype(x, np.signedinteger) and dtypes.issubdtype(wanted, np.unsignedinteger):
        raise TypeError(
            f"conv_general_dilated: preferred_element_type={wanted} must be signed, as the "
            f"operands' {x} is"
        )
    return None if wanted == x else wanted


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution of operands in the order NC…, OI…: see `conv_general_dilated`.

    >>> from covector import lax, numpy as jnp
    >>> lax.conv(jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), (2, 2), "SAME").shape
    (2, 4, 4, 4)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution of operands in the order NC…, OI…, with padding and dilation.

    >>> from covector import lax, numpy as jnp
    >>> x, w = jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, w, (1,), [(1, 1)], (2,), None).shape
    (1, 1, 8)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


#: By spatial axes: what `conv_transpose` takes for `dimension_numbers` if they are not given.
_TRANSPOSED = (
    ("NC", "IO", "NC"), ("NHC", "HIO", "NHC"), ("NHWC", "HWIO", "NHWC"),
    ("NHWDC", "HWDIO", "NHWDC"),
)  # fmt: skip


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """A convolution of `lhs` with `strides - 1` zeros between its elements.

    With `transpose_kernel` it is the derivative of a convolution with these strides and this
    `rhs`, whose window is reversed and whose features are exchanged; else rhs is taken as it is.

    Args:
      lhs, rhs, rhs_dilation, precision, preferred_element_type: see `conv_general_dilated`.
      strides: how many places of the result there are for each element of lhs.
      padding: 'SAME' (the result is `strides` times as long as lhs), 'VALID' (as long as what a
        convolution without padding makes lhs of), or (low, high) for each axis: places added to
        the dilated lhs, or, with `use_consistent_padding`, the padding of that convolution.
      dimension_numbers: as for `conv_general_dilated`; if not given, features come last.

    >>> from covector import lax, numpy as jnp
    >>> x, w = jnp.array([1.0, 2.0]).reshape(1, 2, 1), jnp.array([1.0, 10.0]).reshape(2, 1, 1)
    >>> print(lax.conv_transpose(x, w, (2,), "SAME").ravel())
    [10.  1. 20.  2.]
    """
    x, y = typeof(lhs), typeof(rhs)
    rank = x.ndim - 2
    if dimension_numbers is None:
        if not 0 <= rank < len(_TRANSPOSED):
            raise ValueError(
                f"conv_transpose: dimension_numbers must be given for {rank} spatial axes; there "
                "are defaults for 0 to 3"
            )
        dimension_numbers = _TRANSPOSED[rank]
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    strides = integers(strides)
    spread = (1,) * rank if rhs_dilation is None else integers(rhs_dilation)
    _check_lengths(rank, window_strides=strides, rhs_dilation=spread)
    window = [covered(y.shape[d], r) for d, r in zip(numbers.rhs_spec[2:], spread, strict=True)]
    pads = transposed_pads(padding, window, strides)
    if use_consistent_padding and not isinstance(padding, str):
        pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(window, pads, strict=True)]
    if transpose_kernel:
        rhs = ops.shape.rev(as_array(rhs), tuple(numbers.rhs_spec[2:]))
        outputs, inputs, *spatial = numbers.rhs_spec
        numbers = ConvDimensionNumbers(
            numbers.lhs_spec, (inputs, outputs, *spatial), numbers.out_spec
        )
    return conv_general_dilated(
        lhs, rhs, (1,) * rank, pads, strides, spread, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """What a window of `filter_shape` sees at each place, as features.

    Of a lhs with c features the result has c * prod(filter_shape): of the first feature all places
    in the window, of the second, …  Elements are copied, not multiplied, so infinities and NaNs
    stay where they are.  Other arguments: see `conv_general_dilated`.

    >>> from covector import lax, numpy as jnp
    >>> x = jnp.arange(4.0).reshape(1, 1, 4)
    >>> print(lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")[0])
    [[0. 1. 2.]
     [1. 2. 3.]]
    """
    x = as_array(lhs)
    canonical_precision(precision)
    wanted = _preferred(x.dtype, x.dtype, preferred_element_type)
    filter_shape, strides = integers(filter_shape), integers(window_strides)
    numbers = conv_dimension_numbers(x.shape, (1, 1, *filter_shape), dimension_numbers)
    rank = x.ndim - 2
    dilation = (1,) * rank if lhs_dilation is None else integers(lhs_dilation)
    spread = (1,) * rank if rhs_dilation is None else integers(rhs_dilation)
    _check_lengths(rank, window_strides=strides, lhs_dilation=dilation, rhs_dilation=spread)
    x = ops.shape.transpose(x, tuple(numbers.lhs_spec))
    window = [covered(k, r) for k, r in zip(filter_shape, spread, strict=True)]
    pads = pads_of("convolution", padding, x.shape[2:], window, strides)
    config = [(0, 0, 0), (0, 0, 0)]
    config += [(*pad, d - 1) for pad, d in zip(pads, dilation, strict=True)]
    x = ops.pieces.pad(x, np.zeros((), x.dtype), config)
    for axis, (k, s, r) in enumerate(zip(filter_shape, strides, spread, strict=True)):
        # One axis after the other: [batch, features, places so far ..., rest ..., window so far]
        n = x.shape[axis + 2]
        count = max(0, (n - covered(k, r)) // s + 1)
        x = ops.shape.stack(
            [ops.pieces.slice_along(x, axis + 2, t * r, t * r + covered(count, s), s)
             for t in range(k)], x.ndim,
        )  # fmt: skip
    batch, features, *places = x.shape[: rank + 2]
    x = ops.shape.transpose(x, (0, 1, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2)))
    x = ops.shape.reshape(x, (batch, features * math.prod(filter_shape), *places))
    order = [numbers.out_spec.index(d) for d in range(rank + 2)]
    out = ops.shape.transpose(x, tuple(order))
    return out if wanted is None else ops.cast.convert_element_type(out, wanted)


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Any:
    """A convolution whose window differs from place to place.

    rhs has the rank of lhs: output features, input features times prod(filter_shape) (in the order
    of `conv_general_dilated_patches`), and for each spatial axis as many as the result has places.
    Other arguments: see `conv_general_dilated`.

    >>> from covector import lax, numpy as jnp
    >>> x, w = jnp.ones((1, 1, 4)), jnp.arange(6.0).reshape(1, 2, 3)
    >>> print(lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,)))
    [[[3. 5. 7.]]]
    """
    numbers = conv_dimension_numbers(typeof(lhs).shape, typeof(rhs).shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        ConvDimensionNumbers(numbers.lhs_spec, numbers.rhs_spec, numbers.lhs_spec), precision,
    )  # fmt: skip
    (_, features, *spatial), (_, inputs, *places) = numbers.lhs_spec, numbers.rhs_spec
    pairs = (((features,), (inputs,)), (tuple(spatial), tuple(places)))
    made = dot_general(patches, rhs, pairs, precision)  # [places ..., batch, output features]
    rank = len(spatial)
    order = [0] * (rank + 2)
    for d, source in zip(numbers.out_spec, (rank, rank + 1, *range(rank)), strict=True):
        order[d] = source
    return ops.shape.transpose(made, tuple(order))
