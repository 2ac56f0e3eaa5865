"""Random numbers from a key, by distribution: `bits` and functions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax, ops
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.numpy import convert
from covector.ops import random_bits as bits_ops
from covector.random.keys import as_key, split


def _shape(shape: Any, who: str) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    out = tuple(int(n) for n in given)
    if any(n < 0 for n in out):
        raise ValueError(f"{who}: sizes must not be negative; got shape {out}")
    return out


def _float(dtype: Any, who: str) -> Any:
    wanted = dtypes.default_float() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if not dtypes.issubdtype(wanted, np.floating):
        raise ValueError(f"dtype argument to `{who}` must be a float dtype, got {wanted}")
    return wanted


def _joint(who: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """`shape`, or the broadcast shape of the parameters, which must fit into it."""
    common = convert.broadcast_shapes(who, *[typeof(p).shape for p in params])
    if shape is None:
        return common
    shape = _shape(shape, who)
    try:
        fits = convert.broadcast_shapes(who, shape, common) == shape
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{who} got parameters of shape {common}, which do not broadcast to shape {shape}"
        )
    return shape


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Uniform bits as unsigned integers of `dtype` (uint32 by default).

    >>> from covector import random
    >>> random.bits(random.key(0), (2,)).dtype.name
    'uint32'
    """
    del out_sharding
    keys, _ = as_key(key, "random.bits")
    default = np.uint64 if dtypes.default_int().itemsize == 8 else np.uint32
    wanted = np.dtype(default) if dtype is None else dtypes.canonicalize_dtype(dtype)
    if not dtypes.issubdtype(wanted, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {wanted}")
    return bits_ops.random_bits(keys, 8 * wanted.itemsize, _shape(shape, "random.bits"))


#: float dtype -> (bits drawn, mantissa bits, the bits of 1.0).
_MANTISSA = {
    "float16": (16, 10, 0x3C00),
    "bfloat16": (8, 7, 0x3F80),
    "float32": (32, 23, 0x3F800000),
    "float64": (64, 52, 0x3FF0000000000000),
}


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

    The mantissa is random bits, the exponent that of 1: all multiples of 2**-23 (float32) in [0, 1)
    are equally likely; they are scaled by one fused multiply-add.

    >>> from covector import random
    >>> x = random.uniform(random.key(0), (1000,))
    >>> bool((x >= 0).all() and (x < 1).all())
    True
    """
    del out_sharding
    keys, _ = as_key(key, "random.uniform")
    wanted = _float(dtype, "uniform")
    shape = _shape(shape, "random.uniform")
    low, high = (cnp.asarray(v, wanted) for v in (minval, maxval))
    low, high = (cnp.broadcast_to(v, shape) if v.ndim else v for v in (low, high))
    width, mantissa, one = _MANTISSA[wanted.name]
    drawn = bits_ops.random_bits(keys, width, shape)
    kept = lax.shift_right_logical(drawn, drawn.dtype.type(width - mantissa))
    if width < 8 * wanted.itemsize:
        kept = lax.convert_element_type(kept, np.uint16)
    raw = lax.bitcast_convert_type(kept | kept.dtype.type(one), wanted)
    unit = raw - wanted.type(1)
    if minval == 0.0 and maxval == 1.0 and isinstance(minval, float):
        return unit
    return cnp.maximum(low, _fma(unit, high - low, low))


def _fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once for float32 and float64; narrow types round both, as XLA's CPU does."""
    if typeof(x).dtype.itemsize < 4:
        return x * y + z
    return ops.pointwise.fma(x, *(cnp.broadcast_to(v, x.shape) for v in (y, z)))


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard normal numbers: sqrt(2) times the inverse error function of uniform ones.

    A complex `dtype` gives real and imaginary parts of variance 1/2 each.

    >>> from covector import random
    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)
    """
    del out_sharding
    wanted = dtypes.default_float() if dtype is None else dtypes.canonicalize_dtype(dtype)
    shape = _shape(shape, "random.normal")
    if dtypes.issubdtype(wanted, np.complexfloating):
        real = dtypes.to_real_dtype(wanted)
        one, two = (normal(k, shape, real) for k in split(as_key(key, "random.normal")[0]))
        return lax.complex(one, two) / wanted.type(np.sqrt(2))
    wanted = _float(wanted, "normal")
    low = np.nextafter(wanted.type(-1), wanted.type(0), dtype=wanted)
    u = uniform(key, shape, wanted, low, wanted.type(1))
    return wanted.type(np.sqrt(2)) * lax.erf_inv(u)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Standard normal numbers that lie in (lower, upper)."""
    del out_sharding
    wanted = _float(dtype, "truncated_normal")
    lower, upper = (cnp.asarray(v, wanted) for v in (lower, upper))
    shape = _joint("truncated_normal", shape, lower, upper)
    root = wanted.type(np.sqrt(2))
    a, b = lax.erf(lower / root), lax.erf(upper / root)
    out = root * lax.erf_inv(uniform(key, shape, wanted, a, b))
    inside_low = lax.nextafter(lax.stop_gradient(lower), wanted.type(np.inf))
    inside_high = lax.nextafter(lax.stop_gradient(upper), wanted.type(-np.inf))
    return cnp.clip(out, inside_low, inside_high)


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Uniform integers in [minval, maxval).

    Twice as many bits are drawn as the type has, so that the remainder by the span is uniform to
    2**-32 for 32-bit types.  Where minval >= maxval the result is minval.

    >>> from covector import random
    >>> x = random.randint(random.key(0), (100,), 3, 6)
    >>> sorted(set(x.tolist()))
    [3, 4, 5]
    """
    del out_sharding
    wanted = dtypes.default_int() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if not dtypes.issubdtype(wanted, np.integer):
        raise ValueError(f"randint only accepts integer dtypes, got {wanted}")
    for what, v in (("minval", minval), ("maxval", maxval)):
        if not dtypes.issubdtype(typeof(v).dtype, np.integer):
            raise ValueError(f"randint: {what} must be an integer, got {v!r}")
    keys, _ = as_key(key, "random.randint")
    shape = _shape(shape, "random.randint")
    info = np.iinfo(wanted)
    # Bounds beyond the type are clamped; a maxval just past the last number includes it.
    past = maxval > int(info.max) if _may_pass(maxval, info) else False
    low, high = (_clamped(v, info, wanted) for v in (minval, maxval))
    low, high = (cnp.broadcast_to(v, shape) for v in (low, high))
    unsigned = np.dtype(f"uint{8 * wanted.itemsize}")
    span = lax.convert_element_type(high - low, unsigned)
    span = cnp.where(high <= low, unsigned.type(1), span)
    span = cnp.where(cnp.logical_and(past, high > low), span + unsigned.type(1), span)
    upper, lower = (
        bits_ops.random_bits(k, 8 * wanted.itemsize, shape) for k in split(keys)
    )
    half = unsigned.type(1 << (4 * wanted.itemsize))
    factor = lax.rem(cnp.broadcast_to(half, shape), span)
    factor = lax.rem(factor * factor, span)
    offset = lax.rem(lax.rem(upper, span) * factor + lax.rem(lower, span), span)
    return low + lax.convert_element_type(offset, wanted)


def _may_pass(v: Any, info: Any) -> bool:
    if isinstance(v, int):
        return v > info.max
    return bool(np.iinfo(typeof(v).dtype).max > info.max)


def _clamped(v: Any, info: Any, wanted: Any) -> Any:
    if isinstance(v, int):
        return cnp.asarray(min(max(v, int(info.min)), int(info.max)), wanted)
    own = np.iinfo(typeof(v).dtype)
    low, high = max(int(info.min), int(own.min)), min(int(info.max), int(own.max))
    dtype = typeof(v).dtype
    return cnp.asarray(cnp.clip(cnp.asarray(v), dtype.type(low), dtype.type(high)), wanted)


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Any:
    """`x` (an array, or the numbers below an int) with its entries along `axis` shuffled.

    `independent`: each row along the axis is shuffled on its own.  Sorts by random bits, often
    enough that equal ones do not matter.

    >>> from covector import random
    >>> sorted(random.permutation(random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    del out_sharding
    keys, _ = as_key(key, "random.permutation")
    if isinstance(x, (int, np.integer)) or (
        np.ndim(x) == 0 and dtypes.issubdtype(typeof(x).dtype, np.integer)
    ):
        return _shuffle(keys, cnp.arange(x), 0)
    if np.ndim(x) == 0:
        raise TypeError("random.permutation: x must be an integer or at least 1-dimensional")
    x = cnp.asarray(x)
    axis = convert.canonical_axis(axis, x.ndim, "permutation")
    if independent or x.ndim == 1:
        return _shuffle(keys, x, axis)
    order = _shuffle(keys, cnp.arange(x.shape[axis]), 0)
    return cnp.take(x, order, axis)


def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """Rounds of sorting by 32 random bits: three logarithms of the size in all."""
    rounds = int(np.ceil(3 * np.log(max(1, x.size)) / np.log(np.iinfo(np.uint32).max)))
    for _ in range(rounds):
        key, subkey = split(key)
        drawn = bits_ops.random_bits(subkey, 32, x.shape)
        _, x = lax.sort((drawn, x), dimension=axis, num_keys=1)
    return x


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Any:
    """True with probability `p`.

    mode 'low': resolution of the dtype's mantissa; 'high': twice that near 0.

    >>> from covector import random
    >>> bool(random.bernoulli(random.key(0), 1.0))
    True
    """
    del out_sharding
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    p = cnp.asarray(p)
    dtype = dtypes.canonicalize_dtype(p.dtype)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}")
    shape = _joint("bernoulli", shape, p)
    if mode == "low":
        return uniform(key, shape, dtype) < p
    parts = uniform(key, (2, *shape), dtype)
    tiny = cnp.asarray(cnp.finfo(dtype).eps, dtype) / 2
    return parts[0] + tiny * parts[1] < p


def gumbel(
    key: Any, shape: Any = (), dtype: Any = None, mode: Any = None, *, out_sharding: Any = None
) -> Any:
    """Standard Gumbel numbers: -log(-log(u)).

    mode 'low' (the default): by uniform numbers in (0, 1); 'high': finer in the tail.
    """
    del out_sharding
    wanted = _float(dtype, "gumbel")
    shape = _shape(shape, "random.gumbel")
    if mode not in (None, "low", "high"):
        raise ValueError(f"gumbel: mode must be 'low' or 'high'; got {mode!r}")
    if mode == "high":
        parts = uniform(key, (2, *shape), wanted)
        tiny = wanted.type(dtypes.finfo(wanted).eps) / 2
        return -cnp.log(-cnp.log1p(-(parts[0] + tiny * parts[1])))
    small = dtypes.finfo(wanted).tiny
    return -cnp.log(-cnp.log(uniform(key, shape, wanted, wanted.type(small), wanted.type(1))))


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Positions along `axis`, drawn with probabilities softmax(logits).

    `shape`: of the result; it must end with the shape of `logits` without `axis`.  Without
    `replace` the leading axes of `shape` are one draw of different positions (the Gumbel top-k trick;
    Vieira 2014).

    >>> from covector import random
    >>> int(random.categorical(random.key(0), cnp.array([0.0, -cnp.inf])))
    0
    """
    del out_sharding
    logits = cnp.asarray(logits)
    axis = convert.canonical_axis(axis, logits.ndim, "categorical")
    batch = tuple(n for d, n in enumerate(logits.shape) if d != axis)
    shape = batch if shape is None else _joint("categorical", shape, cnp.empty(batch))
    lead = shape[: len(shape) - len(batch)]
    if replace:
        noise = gumbel(key, (*lead, *logits.shape), logits.dtype, mode)
        return cnp.argmax(noise + logits, axis=axis + len(lead))
    count = int(np.prod(lead))
    if count > logits.shape[axis]:
        raise ValueError(
            f"categorical: {count} draws without replacement of {logits.shape[axis]} positions"
        )
    noisy = cnp.moveaxis(logits + gumbel(key, logits.shape, logits.dtype, mode), axis, -1)
    _, chosen = lax.top_k(noisy, count)
    return cnp.moveaxis(chosen, -1, 0).reshape(shape)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: Any = None,
) -> Any:
    """Entries of `a` along `axis` (or numbers below an int), with probabilities `p`."""
    keys, _ = as_key(key, "random.choice")
    shape = _shape(shape, "random.choice")
    whole = isinstance(a, (int, np.integer)) or np.ndim(a) == 0
    size = int(a) if whole else np.shape(a)[axis]
    draws = int(np.prod(shape))
    if size <= 0 and draws:
        raise ValueError("choice: a must be greater than 0 unless no samples are taken")
    if not replace and draws > size:
        raise ValueError(
            f"choice: cannot take a larger sample ({draws}) than the population ({size}) when "
            "replace is False"
        )
    if p is None:
        if replace:
            places = randint(keys, shape, 0, size)
        else:
            places = permutation(keys, size)[:draws].reshape(shape)
    else:
        places = _weighted(keys, cnp.asarray(p), size, draws, shape, replace, mode)
    return places if whole else cnp.take(cnp.asarray(a), places, axis)


def _weighted(
    key: Any, p: Any, size: int, draws: int, shape: Any, replace: bool, mode: Any
) -> Any:
    if p.shape != (size,):
        raise ValueError(f"choice: p must have the shape ({size},) of a; got {p.shape}")
    if replace:
        total = cnp.cumsum(p)
        u = total[-1] * (1 - uniform(key, shape, dtype=total.dtype))
        return cnp.searchsorted(total, u)
    noisy = gumbel(key, (size,), p.dtype, mode) + cnp.log(p)
    return lax.top_k(noisy, draws)[1].reshape(shape)


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Exponential numbers of mean 1: -log1p(-u)."""
    del out_sharding
    return -cnp.log1p(-uniform(key, shape, _float(dtype, "exponential")))


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Laplace numbers."""
    del out_sharding
    wanted = _float(dtype, "laplace")
    low = wanted.type(-1 + dtypes.finfo(wanted).epsneg)
    u = uniform(key, shape, wanted, low, wanted.type(1))
    return cnp.sign(u) * cnp.log1p(-cnp.abs(u)) * wanted.type(-1)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard logistic numbers: log(u / (1 - u))."""
    del out_sharding
    wanted = _float(dtype, "logistic")
    u = uniform(key, shape, wanted, wanted.type(dtypes.finfo(wanted).eps), wanted.type(1))
    return cnp.log(u / (wanted.type(1) - u))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Cauchy numbers."""
    del out_sharding
    wanted = _float(dtype, "cauchy")
    u = uniform(key, shape, wanted, wanted.type(dtypes.finfo(wanted).eps), wanted.type(1))
    return cnp.tan(wanted.type(np.pi) * (u - wanted.type(0.5)))


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """-1 or 1, equally likely."""
    del out_sharding
    wanted = dtypes.default_int() if dtype is None else dtypes.canonicalize_dtype(dtype)
    heads = bernoulli(key, 0.5, _shape(shape, "random.rademacher"))
    return cnp.asarray(2 * heads - 1, wanted)

