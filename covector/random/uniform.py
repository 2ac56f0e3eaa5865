"""Bits, and uniform numbers made of them: equal to JAX's bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax, ops
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.numpy import convert
from covector.ops import random_bits as bits_ops
from covector.ops.random_floats import between, unit_interval
from covector.random.arguments import (
    float_dtype,
    is_real,
    parameters,
    placed,
    scalar,
    shape_of,
)
from covector.random.keys import as_key, split


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Uniform bits, as unsigned integers of `dtype` (uint32; uint64 under `enable_x64`).

    Raises ValueError for another kind of dtype.

    >>> from covector import random
    >>> random.bits(random.key(0), (2,), "uint8").tolist()
    [167, 146]
    """
    keys, _ = as_key(key, "bits")
    default = np.dtype(np.uint64 if dtypes.default_int().itemsize == 8 else np.uint32)
    wanted = default if dtype is None else convert.user_dtype(dtype, "bits")
    if not dtypes.issubdtype(wanted, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {wanted}")
    if wanted not in _WORDS:
        raise TypeError(f"bits: only of 8, 16, 32 or 64 bits are there; got {wanted}")
    return placed(draw(keys, 8 * wanted.itemsize, shape_of(shape, "bits")), out_sharding)


_WORDS = frozenset(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64)))
#: Unsigned integers of `width` bits, of `shape`, from one key.
draw = bits_ops.random_bits


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Any:
    """Uniform numbers in [minval, maxval), of a float `dtype`.

    In [0, 1) they are the multiples of 2**-23 (float32) or 2**-52 (float64), all equally likely;
    one fused multiply-add scales them.  Where minval >= maxval the result is not below minval.

    minval, maxval: numbers, or arrays that broadcast to `shape`; ValueError if they do not.

    >>> from covector import random
    >>> x = random.uniform(random.key(0), (1000,), minval=-1.0)
    >>> bool((x >= -1).all() and (x < 1).all())
    True
    """
    keys, _ = as_key(key, "uniform")
    wanted = float_dtype(dtype, "uniform")
    shape = shape_of(shape, "uniform")
    low, high = (_fit(v, shape) for v in parameters("uniform", wanted, minval, maxval))
    unit = unit_interval(keys, shape, wanted)
    if all(isinstance(v, np.generic) for v in (low, high)) and low == 0 and high == 1:
        return placed(unit, out_sharding)
    return placed(between(unit, low, high), out_sharding)


def _fit(bound: Any, shape: tuple[int, ...]) -> Any:
    if not bound.ndim:
        return bound
    if convert.broadcast_shapes("uniform", bound.shape, shape) != shape:
        raise ValueError(f"uniform: a bound of shape {bound.shape} does not fit shape {shape}")
    return cnp.broadcast_to(bound, shape)


def coin(keys: Any, shape: tuple[int, ...]) -> Any:
    """True or False, equally likely."""
    dtype = dtypes.default_float()
    return unit_interval(keys, shape, dtype) < scalar(0.5, dtype)


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Uniform integers in [minval, maxval), of an integer `dtype`.

    Bounds beyond the type are clamped to it; with a maxval past its greatest number, that is
    included.  Where minval >= maxval the result is minval.  Twice as many bits are drawn as the
    span may have, so that the remainder by it is uniform to 2**-32 (2**-64 for 64-bit types).

    minval, maxval: integers (of floats the whole part), or arrays that broadcast to `shape`.
    Raises TypeError for another kind of dtype, OverflowError for a Python int beyond the default
    integer type, ValueError for bounds that do not broadcast to `shape`.

    >>> from covector import random
    >>> x = random.randint(random.key(0), (100,), 3, 6)
    >>> sorted(set(x.tolist()))
    [3, 4, 5]
    """
    keys, _ = as_key(key, "randint")
    wanted = dtypes.default_int() if dtype is None else convert.user_dtype(dtype, "randint")
    if not dtypes.issubdtype(wanted, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {wanted}")
    shape = shape_of(shape, "randint")
    low, high = (_whole(v) for v in convert.operands("randint", minval, maxval))
    if convert.broadcast_shapes("randint", shape, low.shape, high.shape) != shape:
        raise ValueError(
            f"randint: bounds of shapes {low.shape} and {high.shape} do not fit shape {shape}"
        )
    work = np.dtype(np.uint64 if wanted.itemsize == 8 else np.uint32)
    greatest = int(dtypes.iinfo(wanted).max)
    past = high > greatest if int(dtypes.iinfo(high.dtype).max) > greatest else None
    low, high = _clamped(low, wanted), _clamped(high, wanted)
    span = _as(high, work) - _as(low, work)  # modulo 2**width, so right for every pair
    if past is not None:
        span = cnp.where(past, span + work.type(1), span)  # 0 for the whole type
    span = cnp.where(high > low, span, work.type(1))
    offset = _below(keys, cnp.broadcast_to(span, shape), work)
    return placed(ops.cast.convert_element_type(_as(low, work) + offset, wanted), out_sharding)


def _below(keys: Any, span: Any, work: Any) -> Any:
    """Random numbers below `span`; any at all where it is 0: a remainder by 0 is the number."""
    width = 8 * work.itemsize
    upper, lower = (draw(k, width, span.shape) for k in split(keys))
    half = cnp.broadcast_to(work.type(1 << (width // 2)), span.shape)
    factor = lax.rem(half, span)
    factor = lax.rem(factor * factor, span)
    return lax.rem(lax.rem(upper, span) * factor + lax.rem(lower, span), span)


def _whole(bound: Any) -> Any:
    """A bound as integers."""
    dtype = typeof(bound).dtype
    if not is_real(dtype):
        raise TypeError(f"randint: bounds must be integers; got {bound!r}")
    bound = cnp.asarray(bound)
    return bound if dtypes.issubdtype(dtype, np.integer) else _as(bound, dtypes.default_int())


def _as(x: Any, dtype: Any) -> Any:
    return ops.cast.convert_element_type(x, dtype)


def _clamped(bound: Any, wanted: Any) -> Any:
    own, info = dtypes.iinfo(bound.dtype), dtypes.iinfo(wanted)
    low, high = max(int(own.min), int(info.min)), min(int(own.max), int(info.max))
    kind = bound.dtype.type
    if (low, high) != (int(own.min), int(own.max)):
        bound = cnp.clip(bound, kind(low), kind(high))
    return _as(bound, wanted)
