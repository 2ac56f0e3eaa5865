"""Gamma numbers, and the distributions made of them."""

from __future__ import annotations

from typing import Any

from covector import numpy as cnp
from covector.api.jit import jit
from covector.ops import random_bits as bits_ops
from covector.ops.random_gamma import RandomGamma
from covector.random.arguments import (
    float_dtype,
    joint_shape,
    parameters,
    placed,
    scalar,
    shape_of,
)
from covector.random.distributions import exponential, normal
from covector.random.keys import as_key, split
from covector.random.uniform import coin

#: Compiled at once: the op is a loop, and slow step by step.
_SAMPLERS = {log_space: jit(RandomGamma(log_space).bind) for log_space in (False, True)}


def _sample(keys: Any, a: Any, shape: tuple[int, ...], log_space: bool) -> Any:
    """Of one key: every number has a key of its own."""
    own = bits_ops.random_split(keys, shape)
    return _SAMPLERS[log_space](own, cnp.broadcast_to(a, shape))


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Gamma numbers of shape parameter `a` > 0 and scale 1; differentiable in `a`.

    a: a number, or an array that broadcasts to `shape` (by default, its own).  By rejection
    (Marsaglia and Tsang 2000), each number with a key of its own.  Small `a` make numbers that
    underflow: see `loggamma`.

    >>> from covector import random
    >>> bool((random.gamma(random.key(0), 2.0, (10,)) > 0).all())
    True
    """
    keys, _ = as_key(key, "gamma")
    wanted = float_dtype(dtype, "gamma")
    (a,) = parameters("gamma", wanted, a)
    return placed(_sample(keys, a, joint_shape("gamma", shape, a), False), out_sharding)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Logarithms of gamma numbers, exact also where these underflow.

    >>> from covector import random
    >>> random.loggamma(random.key(0), 0.001, (3,)).shape
    (3,)
    """
    keys, _ = as_key(key, "loggamma")
    wanted = float_dtype(dtype, "loggamma")
    (a,) = parameters("loggamma", wanted, a)
    return placed(_sample(keys, a, joint_shape("loggamma", shape, a), True), out_sharding)


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Chi-square numbers with `df` degrees of freedom: twice a gamma number of df / 2.

    >>> from covector import random
    >>> bool((random.chisquare(random.key(0), 3.0, (10,)) > 0).all())
    True
    """
    keys, _ = as_key(key, "chisquare")
    wanted = float_dtype(dtype, "chisquare")
    (df,) = parameters("chisquare", wanted, df)
    shape = joint_shape("chisquare", shape, df)
    return placed(_chisquare(keys, df, shape, wanted), out_sharding)


def _chisquare(keys: Any, df: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    two = scalar(2, dtype)
    return two * cnp.exp(_sample(keys, df / two, shape, True))


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """F numbers: the ratio of two chi-square numbers, each over its degrees of freedom.

    >>> from covector import random
    >>> bool((random.f(random.key(0), 3.0, 5.0, (10,)) > 0).all())
    True
    """
    keys, _ = as_key(key, "f")
    wanted = float_dtype(dtype, "f")
    dfnum, dfden = parameters("f", wanted, dfnum, dfden)
    shape = joint_shape("f", shape, dfnum, dfden)
    for_den, for_num = split(keys)
    over = _chisquare(for_num, dfnum, shape, wanted) / dfnum
    return placed(over / (_chisquare(for_den, dfden, shape, wanted) / dfden), out_sharding)


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Student's t numbers with `df` degrees of freedom.

    >>> from covector import random
    >>> random.t(random.key(0), 3.0, (10,)).shape
    (10,)
    """
    keys, _ = as_key(key, "t")
    wanted = float_dtype(dtype, "t")
    (df,) = parameters("t", wanted, df)
    shape = joint_shape("t", shape, df)
    for_normal, for_gamma = split(keys)
    half = df / scalar(2, wanted)
    size = _sample(for_gamma, half, shape, False)
    return placed(normal(for_normal, shape, wanted) * cnp.sqrt(half / size), out_sharding)


def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Beta numbers, in [0, 1]: x / (x + y) of gamma numbers x and y of `a` and `b`.

    >>> from covector import random
    >>> x = random.beta(random.key(0), 2.0, 3.0, (10,))
    >>> bool((x >= 0).all() and (x <= 1).all())
    True
    """
    keys, _ = as_key(key, "beta")
    wanted = float_dtype(dtype, "beta")
    a, b = parameters("beta", wanted, a, b)
    shape = joint_shape("beta", shape, a, b)
    for_a, for_b = split(keys)
    log_x, log_y = _sample(for_a, a, shape, True), _sample(for_b, b, shape, True)
    greatest = cnp.maximum(log_x, log_y)
    x, y = cnp.exp(log_x - greatest), cnp.exp(log_y - greatest)
    return placed(x / (x + y), out_sharding)


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Dirichlet vectors: positive numbers of sum 1, along the last axis, as long as `alpha`'s.

    shape: of the result without that axis; the leading axes of `alpha` must broadcast to it.
    Raises ValueError for an `alpha` without axes.

    >>> from covector import random
    >>> x = random.dirichlet(random.key(0), cnp.ones(3), (10,))
    >>> x.shape, bool(abs(x.sum(-1) - 1).max() < 1e-5)
    ((10, 3), True)
    """
    keys, _ = as_key(key, "dirichlet")
    wanted = float_dtype(dtype, "dirichlet")
    (alpha,) = parameters("dirichlet", wanted, alpha)
    if not alpha.ndim:
        raise ValueError("dirichlet: alpha must have an axis; got a scalar")
    lead = cnp.empty(alpha.shape[:-1], wanted)
    shape = (*joint_shape("dirichlet", shape, lead), alpha.shape[-1])
    logs = _sample(keys, alpha, shape, True)
    parts = cnp.exp(logs - cnp.max(logs, -1, keepdims=True))
    return placed(parts / cnp.sum(parts, -1, keepdims=True), out_sharding)


def generalized_normal(
    key: Any, p: float, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Numbers of density proportional to exp(-|x|**p).

    >>> from covector import random
    >>> random.generalized_normal(random.key(0), 3.0, (4,)).shape
    (4,)
    """
    keys, _ = as_key(key, "generalized_normal")
    wanted = float_dtype(dtype, "generalized_normal")
    shape = shape_of(shape, "generalized_normal")
    for_size, for_sign = split(keys)
    power = scalar(1 / p, wanted)
    size = _sample(for_size, power, shape, False) ** power
    sign = cnp.where(coin(for_sign, shape), scalar(1, wanted), scalar(-1, wanted))
    return placed(sign * size, out_sharding)


def ball(
    key: Any,
    d: int,
    p: float = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Points uniform in the unit ball of the p-norm in `d` dimensions, along the last axis.

    F. Barthe, O. Guédon, S. Mendelson, A. Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball", Annals of Probability 33 (2005).

    >>> from covector import random
    >>> x = random.ball(random.key(0), 3, shape=(10,))
    >>> bool((cnp.linalg.norm(x, axis=-1) <= 1).all())
    True
    """
    keys, _ = as_key(key, "ball")
    wanted = float_dtype(dtype, "ball")
    shape = shape_of(shape, "ball")
    (d,) = shape_of(d, "ball")
    for_direction, for_depth = split(keys)
    x = generalized_normal(for_direction, p, (*shape, d), wanted)
    depth = exponential(for_depth, shape, wanted)
    total = cnp.sum(cnp.abs(x) ** scalar(p, wanted), -1) + depth
    return placed(x / (total ** scalar(1 / p, wanted))[..., None], out_sharding)
