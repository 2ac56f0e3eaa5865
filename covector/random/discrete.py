"""Discrete draws: heads and tails, positions by weight, orders at random."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from covector import dtypes, lax
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.numpy import convert
from covector.ops.random_floats import unit_interval
from covector.random.arguments import int_dtype, joint_shape, placed, scalar, shape_of
from covector.random.distributions import gumbel
from covector.random.keys import as_key, split
from covector.random.uniform import coin, draw, randint


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Any:
    """True with probability `p`, a float or an array of them that broadcasts to `shape`.

    mode: 'low', which rounds p up to a multiple of 2**-23 (float32; the resolution of `uniform`);
    'high', to about 2**-46, for which twice as many bits are drawn.

    >>> from covector import random
    >>> bool(random.bernoulli(random.key(0), 1.0))
    True
    """
    keys, _ = as_key(key, "bernoulli")
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low'; got {mode!r}")
    (p,) = convert.operands("bernoulli", p)
    dtype = typeof(p).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}")
    p = scalar(p, dtype) if isinstance(p, float) else cnp.asarray(p)
    shape = joint_shape("bernoulli", shape, p)
    if mode == "low":
        return placed(unit_interval(keys, shape, dtype) < p, out_sharding)
    first, second = unit_interval(keys, (2, *shape), dtype)
    fine = scalar(dtypes.finfo(dtype).eps, dtype) * second
    return placed(fine < p - first, out_sharding)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """-1 or 1, equally likely, in `dtype` (the default integer).

    >>> from covector import random
    >>> sorted(set(random.rademacher(random.key(0), (50,)).tolist()))
    [-1, 1]
    """
    keys, _ = as_key(key, "rademacher")
    wanted = dtypes.default_int() if dtype is None else convert.user_dtype(dtype, "rademacher")
    heads = coin(keys, shape_of(shape, "rademacher"))
    return placed(cnp.asarray(2 * heads - 1, wanted), out_sharding)


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """How many trials of success probability `p` there are up to the first success: 1, 2, ….

    `dtype`: of integers; ValueError otherwise.

    >>> from covector import random
    >>> int(random.geometric(random.key(0), 1.0))
    1
    """
    keys, _ = as_key(key, "geometric")
    wanted = int_dtype(dtype, "geometric")
    (p,) = convert.promote_inexact(*convert.operands("geometric", p))
    p = cnp.asarray(p)
    if not dtypes.issubdtype(p.dtype, np.floating):
        raise TypeError(f"geometric: p must be real; got {p.dtype}")
    shape = joint_shape("geometric", shape, p)
    u = unit_interval(keys, shape, p.dtype)
    one = scalar(1, p.dtype)
    u = cnp.where(u == 0, one, u)
    return placed(cnp.asarray(cnp.floor(cnp.log(u) / cnp.log1p(-p)) + one, wanted), out_sharding)


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Any:
    """`x` (an array, or the numbers below an integer) with its entries along `axis` shuffled.

    `independent`: each row along the axis is shuffled on its own.  It is sorted by random bits,
    in as many rounds as make equal ones harmless.

    >>> from covector import random
    >>> sorted(random.permutation(random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    keys, _ = as_key(key, "permutation")
    (x,) = convert.operands("permutation", x)
    aval = typeof(x)
    axis = convert.canonical_axis(axis, aval.ndim or 1, "permutation")
    if not aval.ndim:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"permutation: x must be an integer or have an axis; got {x!r}")
        return placed(_shuffle(keys, _numbers_below(x, "permutation"), 0), out_sharding)
    x = cnp.asarray(x)
    if independent or x.ndim == 1:
        return placed(_shuffle(keys, x, axis), out_sharding)
    order = _shuffle(keys, _numbers_below(x.shape[axis], "permutation"), 0)
    return placed(_rows(x, order, axis), out_sharding)


def _numbers_below(n: Any, who: str) -> Any:
    return cnp.arange(int(convert.concrete(n, f"the size of {who}'s result")))


def _rows(x: Any, places: Any, axis: int) -> Any:
    return cnp.take(x, places, axis) if x.size else cnp.zeros_like(x)


def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """Rounds of sorting by 32 random bits: as many as make three logarithms of the size."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split(key)
        _, x = lax.sort((draw(subkey, 32, x.shape), x), dimension=axis, num_keys=1)
    return x


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

    shape: of the result; it must end with (or broadcast from) the shape of `logits` without
    `axis`, which is the default.  Without `replace` the leading axes of `shape` are one draw of
    different positions.  `mode`: as of `gumbel`.

    By Gumbel's trick: the greatest of logits plus Gumbel noise is distributed so, the k greatest
    like k draws without replacement (T. Vieira, "Gumbel-max trick and weighted reservoir
    sampling", 2014).

    >>> from covector import random
    >>> int(random.categorical(random.key(0), cnp.array([0.0, -cnp.inf])))
    0
    """
    keys, _ = as_key(key, "categorical")
    logits = convert.array_operand("categorical", logits)
    axis = convert.canonical_axis(axis, logits.ndim, "categorical")
    batch = tuple(n for d, n in enumerate(logits.shape) if d != axis)
    shape = batch if shape is None else shape_of(shape, "categorical")
    if len(shape) < len(batch) or convert.broadcast_shapes("categorical", shape, batch) != shape:
        raise ValueError(
            f"categorical: shape must end with {batch}, that of logits without axis {axis}; "
            f"got {shape}"
        )
    lead = shape[: len(shape) - len(batch)]
    if replace:
        inner = shape[len(lead) :]
        noise_shape = (*lead, *inner[:axis], logits.shape[axis], *inner[axis:])
        noise = gumbel(keys, noise_shape, logits.dtype, mode)
        return placed(cnp.argmax(noise + logits, axis=axis + len(lead)), out_sharding)
    count = math.prod(lead)
    if count > logits.shape[axis]:
        raise ValueError(
            f"categorical: cannot draw {count} of {logits.shape[axis]} positions without "
            f"replacement"
        )
    noisy = cnp.moveaxis(logits + gumbel(keys, logits.shape, logits.dtype, mode), axis, -1)
    _, chosen = lax.top_k(noisy, count)
    return placed(cnp.moveaxis(chosen, -1, 0).reshape(shape), out_sharding)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: Any = None,
) -> Any:
    """Entries of `a` along `axis` (or numbers below an integer), with probabilities `p`.

    shape: a sequence, which takes the place of `axis` in the result.  Without `replace` no entry
    is taken twice; ValueError if there are too few.  `mode`: as of `gumbel`, for weighted draws
    without replacement.

    >>> from covector import random
    >>> random.choice(random.key(0), cnp.array([5, 7]), (3,)).shape
    (3,)
    """
    keys, _ = as_key(key, "choice")
    a, *_ = convert.operands("choice", a, *([] if p is None else [p]))
    if isinstance(shape, (int, np.integer)):
        raise TypeError(f"choice: shape must be a sequence of integers; got {shape}")
    shape = shape_of(shape, "choice")
    whole = not typeof(a).ndim
    if whole:
        size = operator.index(convert.concrete(a, "the number of choices")[()])
    else:
        axis = convert.canonical_axis(axis, typeof(a).ndim, "choice")
        size = typeof(a).shape[axis]
    draws = math.prod(shape)
    if size <= 0 and draws:
        raise ValueError("choice: a must be greater than 0 unless no samples are taken")
    if not replace and draws > size:
        raise ValueError(
            f"choice: cannot take {draws} samples of {size} entries when replace is False"
        )
    if p is not None:
        places = _weighted(keys, p, size, shape, replace, mode)
    elif replace:
        places = randint(keys, shape, 0, size)
    elif whole or typeof(a).ndim == 1:
        return permutation(keys, a, axis)[:draws].reshape(shape)
    else:
        places = permutation(keys, size)[:draws].reshape(shape)
    return places if whole else _rows(cnp.asarray(a), places, axis)


def _weighted(key: Any, p: Any, size: int, shape: Any, replace: bool, mode: Any) -> Any:
    """Positions: where 1 - u falls among the sums of `p`; or the greatest of noisy logarithms."""
    (p,) = convert.promote_inexact(cnp.asarray(p))
    if p.shape != (size,):
        raise ValueError(f"choice: p must have the shape ({size},) of a; got {p.shape}")
    if replace:
        total = cnp.cumsum(p)
        u = unit_interval(key, shape, total.dtype)
        chosen = cnp.searchsorted(total, total[-1] * (scalar(1, total.dtype) - u))
    else:
        noisy = gumbel(key, (size,), p.dtype, mode) + cnp.log(p)
        chosen = lax.top_k(noisy, math.prod(shape))[1].reshape(shape)
    return cnp.asarray(chosen, dtypes.default_int())
