"""Continuous distributions: functions of uniform numbers, by formulas that JAX's results show."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax
from covector import numpy as cnp
from covector.ops.random_floats import standard_normal, unit_interval
from covector.random.arguments import (
    float_dtype,
    inexact_dtype,
    joint_shape,
    parameters,
    placed,
    scalar,
    shape_of,
)
from covector.random.keys import as_key, split
from covector.random.uniform import coin, uniform

_ONE = np.float32(1.0)


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard normal numbers: sqrt(2) times the inverse error function of uniform ones.

    A complex `dtype` gives real and imaginary parts of variance 1/2 each.

    >>> from covector import random
    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)
    """
    keys, _ = as_key(key, "normal")
    wanted = inexact_dtype(dtype, "normal")
    shape = shape_of(shape, "normal")
    if dtypes.issubdtype(wanted, np.complexfloating):
        real = dtypes.to_real_dtype(wanted)
        first, second = (standard_normal(k, shape, real) for k in split(keys))
        out = lax.complex(first, second) / scalar(np.sqrt(2), wanted)
    else:
        out = standard_normal(keys, shape, wanted)
    return placed(out, out_sharding)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Standard normal numbers that lie in (lower, upper).

    lower, upper: numbers, or arrays that broadcast to `shape` (by default, as far as they need).

    >>> from covector import random
    >>> x = random.truncated_normal(random.key(0), -1.0, 2.0, (100,))
    >>> bool((x > -1).all() and (x < 2).all())
    True
    """
    keys, _ = as_key(key, "truncated_normal")
    wanted = float_dtype(dtype, "truncated_normal")
    lower, upper = parameters("truncated_normal", wanted, lower, upper)
    shape = joint_shape("truncated_normal", shape, lower, upper)
    root = scalar(np.sqrt(2), wanted)
    a, b = (lax.erf(v / root) for v in (lower, upper))
    out = root * lax.erf_inv(uniform(keys, shape, wanted, a, b))
    inside_low = lax.nextafter(lax.stop_gradient(lower), scalar(np.inf, wanted))
    inside_high = lax.nextafter(lax.stop_gradient(upper), scalar(-np.inf, wanted))
    return placed(cnp.clip(out, inside_low, inside_high), out_sharding)


def lognormal(
    key: Any,
    sigma: Any = _ONE,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """exp of normal numbers of mean 0 and standard deviation `sigma`.

    >>> from covector import random
    >>> bool((random.lognormal(random.key(0), 2.0, (10,)) > 0).all())
    True
    """
    keys, _ = as_key(key, "lognormal")
    wanted = inexact_dtype(dtype, "lognormal")
    (sigma,) = parameters("lognormal", wanted, sigma)
    shape = joint_shape("lognormal", shape, sigma)
    return placed(cnp.exp(normal(keys, shape, wanted) * sigma), out_sharding)


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Exponential numbers of mean 1: -log(1 - u).

    >>> from covector import random
    >>> bool((random.exponential(random.key(0), (10,)) >= 0).all())
    True
    """
    keys, _ = as_key(key, "exponential")
    wanted = float_dtype(dtype, "exponential")
    shape = shape_of(shape, "exponential")
    return placed(-cnp.log1p(-uniform(keys, shape, wanted)), out_sharding)


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Laplace numbers, of density exp(-|x|) / 2.

    >>> from covector import random
    >>> random.laplace(random.key(0), (2,)).shape
    (2,)
    """
    keys, _ = as_key(key, "laplace")
    wanted = float_dtype(dtype, "laplace")
    shape = shape_of(shape, "laplace")
    low = np.nextafter(scalar(-1, wanted), scalar(0, wanted))
    u = uniform(keys, shape, wanted, low, 1.0)
    return placed(cnp.sign(u) * cnp.log1p(-cnp.abs(u)), out_sharding)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard logistic numbers: log(u / (1 - u)).

    >>> from covector import random
    >>> random.logistic(random.key(0), (2,)).shape
    (2,)
    """
    keys, _ = as_key(key, "logistic")
    u = _positive(keys, shape_of(shape, "logistic"), float_dtype(dtype, "logistic"))
    return placed(cnp.log(u) - cnp.log1p(-u), out_sharding)


def _positive(keys: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform numbers, the least normal number instead of 0."""
    return lax.max(unit_interval(keys, shape, dtype), _tiny(dtype))


def _tiny(dtype: Any) -> Any:
    return scalar(dtypes.finfo(dtype).tiny, dtype)


def gumbel(
    key: Any, shape: Any = (), dtype: Any = None, mode: Any = None, *, out_sharding: Any = None
) -> Any:
    """Standard Gumbel numbers: -log(-log(u)).

    mode: 'low' (the default), with u a multiple of 2**-23 (float32), so that no number exceeds 16;
    'high', with 1 - u finer than that near 0, and twice as many bits drawn.

    >>> from covector import random
    >>> random.gumbel(random.key(0), (2,)).shape
    (2,)
    """
    keys, _ = as_key(key, "gumbel")
    wanted = float_dtype(dtype, "gumbel")
    shape = shape_of(shape, "gumbel")
    if mode not in (None, "low", "high"):
        raise ValueError(f"gumbel: mode must be 'low' or 'high'; got {mode!r}")
    if mode == "high":
        first, second = unit_interval(keys, (2, *shape), wanted)
        fine = first + scalar(dtypes.finfo(wanted).eps, wanted) * second
        rest = cnp.where(first >= scalar(0.5, wanted), first, fine)
        inner = cnp.log1p(-lax.max(rest, _tiny(wanted)))
    else:
        inner = cnp.log(_positive(keys, shape, wanted))
    return placed(-cnp.log(-inner), out_sharding)


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Cauchy numbers: tan(pi (u - 1/2)).

    >>> from covector import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    keys, _ = as_key(key, "cauchy")
    wanted = float_dtype(dtype, "cauchy")
    shape = shape_of(shape, "cauchy")
    u = uniform(keys, shape, wanted, dtypes.finfo(wanted).eps, 1.0)
    out = cnp.tan(scalar(np.pi, wanted) * (u - scalar(0.5, wanted)))
    return placed(out, out_sharding)


def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Pareto numbers of shape parameter `b`: P(x > t) = t**-b for t >= 1.

    >>> from covector import random
    >>> bool((random.pareto(random.key(0), 2.0, (10,)) >= 1).all())
    True
    """
    keys, _ = as_key(key, "pareto")
    wanted = float_dtype(dtype, "pareto")
    (b,) = parameters("pareto", wanted, b)
    shape = joint_shape("pareto", shape, b)
    return placed(cnp.exp(exponential(keys, shape, wanted) / b), out_sharding)


def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Rayleigh numbers: `scale` times the length of a standard normal vector in the plane.

    >>> from covector import random
    >>> bool((random.rayleigh(random.key(0), 2.0, (10,)) >= 0).all())
    True
    """
    keys, _ = as_key(key, "rayleigh")
    wanted = float_dtype(dtype, "rayleigh")
    (scale,) = parameters("rayleigh", wanted, scale)
    shape = joint_shape("rayleigh", shape, scale)
    u = unit_interval(keys, shape, wanted)
    return placed(scale * cnp.sqrt(cnp.log(u) * scalar(-2, wanted)), out_sharding)


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """Weibull numbers, of density c/s (x/s)**(c-1) exp(-(x/s)**c): s `scale`, c `concentration`.

    The result has the shape that `shape` and those of the parameters broadcast to; the parameters
    do not vary the random numbers drawn for `shape`.

    >>> from covector import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (3,)).shape
    (3,)
    """
    keys, _ = as_key(key, "weibull_min")
    wanted = float_dtype(dtype, "weibull_min")
    scale, power = parameters("weibull_min", wanted, scale, _inverse(concentration))
    u = unit_interval(keys, shape_of(shape, "weibull_min"), wanted)
    return cnp.power(-cnp.log1p(-u), power) * scale


def _inverse(x: Any) -> Any:
    return np.float64(1) / x if isinstance(x, (int, float)) and x else 1.0 / cnp.asarray(x)


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Maxwell numbers of scale 1: the length of a standard normal vector in space.

    >>> from covector import random
    >>> bool((random.maxwell(random.key(0), (10,)) >= 0).all())
    True
    """
    keys, _ = as_key(key, "maxwell")
    wanted = float_dtype(dtype, "maxwell")
    parts = normal(keys, (*shape_of(shape, "maxwell"), 3), wanted)
    return placed(cnp.sqrt(cnp.sum(parts * parts, -1)), out_sharding)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers of random sign, times `scale`, plus `loc`.

    The result has the shape `shape` (that of the parameters, if it is empty) followed by the one
    that `loc` and `scale` broadcast to.

    >>> from covector import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (3,)).shape
    (3,)
    """
    keys, _ = as_key(key, "double_sided_maxwell")
    wanted = float_dtype(dtype, "double_sided_maxwell")
    loc, scale = parameters("double_sided_maxwell", wanted, loc, scale)
    inner = joint_shape("double_sided_maxwell", None, loc, scale)
    shape = (*(shape_of(shape, "double_sided_maxwell") or inner), *inner)
    for_size, for_sign = split(keys)
    size = maxwell(for_size, shape, wanted)
    sign = cnp.where(coin(for_sign, shape), scalar(1, wanted), scalar(-1, wanted))
    return size * sign * scale + loc


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Numbers in [left, right) whose density rises linearly to `mode` and falls from there.

    >>> from covector import random
    >>> x = random.triangular(random.key(0), 0.0, 0.5, 1.0, (10,))
    >>> bool((x >= 0).all() and (x <= 1).all())
    True
    """
    keys, _ = as_key(key, "triangular")
    wanted = float_dtype(dtype, "triangular")
    left, mode, right = parameters("triangular", wanted, left, mode, right)
    shape = joint_shape("triangular", shape, left, mode, right)
    left, mode, right = (cnp.broadcast_to(v, shape) for v in (left, mode, right))
    u = unit_interval(keys, shape, wanted)
    width, rise, fall = right - left, mode - left, right - mode
    below = left + cnp.sqrt(u * width * rise)
    above = right - cnp.sqrt((scalar(1, wanted) - u) * width * fall)
    return placed(cnp.where(u < rise / width, below, above), out_sharding)


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Wald (inverse Gaussian) numbers of this mean and scale 1.

    J. Michael, W. Schucany, R. Haas, "Generating random variates using transformations with
    multiple roots", The American Statistician 30 (1976).

    >>> from covector import random
    >>> bool((random.wald(random.key(0), 2.0, (10,)) > 0).all())
    True
    """
    keys, _ = as_key(key, "wald")
    wanted = float_dtype(dtype, "wald")
    (mean,) = parameters("wald", wanted, mean)
    shape = joint_shape("wald", shape, mean)
    mean = cnp.broadcast_to(mean, shape)
    for_root, for_choice = split(keys)
    v, z = normal(for_root, shape, wanted), unit_interval(for_choice, shape, wanted)
    y, square = v * v, mean * mean
    half, four = scalar(2, wanted), scalar(4, wanted)
    # the smaller root of the two that y has
    x = mean + square * y / half - mean / half * cnp.sqrt(four * mean * y + square * (y * y))
    return placed(cnp.where(z <= mean / (mean + x), x, square / x), out_sharding)
