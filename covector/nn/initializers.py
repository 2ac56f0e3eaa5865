"""Initializers: makers of functions `(key, shape, dtype) -> array`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from covector import dtypes, random
from covector import numpy as cnp


class Initializer(Protocol):
    """A function of a key, a shape and a dtype that makes an array."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """The array."""
        ...


def _dtype(dtype: Any, default: Any) -> Any:
    return dtypes.canonicalize_dtype(
        dtype if dtype is not None else dtypes.default_float() if default is None else default
    )


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros, whatever the key.

    >>> from covector import nn, random
    >>> nn.initializers.zeros(random.key(0), (2,)).tolist()
    [0.0, 0.0]
    """
    del key, out_sharding
    return cnp.zeros(shape, _dtype(dtype, None))


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones, whatever the key."""
    del key, out_sharding
    return cnp.ones(shape, _dtype(dtype, None))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that fills with `value`.

    >>> from covector import nn, random
    >>> nn.initializers.constant(3.0)(random.key(0), (2,)).tolist()
    [3.0, 3.0]
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        del key, out_sharding
        return cnp.full(shape, value, _dtype(dtype, default))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of uniform numbers in [0, scale)."""
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        del out_sharding
        wanted = _dtype(dtype, default)
        return random.uniform(key, shape, wanted) * cnp.asarray(scale, wanted)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of normal numbers of mean 0 and standard deviation `stddev`."""
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        del out_sharding
        wanted = _dtype(dtype, default)
        return random.normal(key, shape, wanted) * cnp.asarray(stddev, wanted)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer of normal numbers cut off at `lower` and `upper`, times `stddev`."""
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        del out_sharding
        wanted = _dtype(dtype, default)
        drawn = random.truncated_normal(key, lower, upper, shape, wanted)
        return drawn * cnp.asarray(stddev, wanted)

    return init


#: The standard deviation of a standard normal distribution cut off at -2 and 2.
_CUT_OFF = 0.87962566103423978
_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose variance is `scale` over the number of inputs, outputs or their mean.

    mode: 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'; distribution: 'truncated_normal',
    'normal' or 'uniform'.  The fans are the sizes of `in_axis` and `out_axis` times those of the
    receptive field, the axes that are neither these nor `batch_axis`.

    >>> from covector import nn, random
    >>> init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> init(random.key(0), (3, 4)).shape
    (3, 4)
    """
    if mode not in _MODES:
        raise ValueError(f"variance_scaling: mode must be one of {_MODES}; got {mode!r}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(
            "variance_scaling: distribution must be 'truncated_normal', 'normal' or 'uniform'; got "
            f"{distribution!r}"
        )
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        del out_sharding
        wanted = _dtype(dtype, default)
        fan_in, fan_out = _fans(tuple(shape), in_axis, out_axis, batch_axis)
        fan = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }[mode]
        variance = cnp.asarray(scale / fan, wanted)
        return _draw(key, shape, wanted, variance, distribution)

    return init


def _draw(key: Any, shape: Any, dtype: Any, variance: Any, distribution: str) -> Any:
    if distribution == "normal":
        return random.normal(key, shape, dtype) * cnp.sqrt(variance)
    if distribution == "uniform":
        return random.uniform(key, shape, dtype, -1) * cnp.sqrt(3 * variance)
    deviation = cnp.sqrt(variance) / cnp.asarray(_CUT_OFF, dtype)
    return random.truncated_normal(key, -2, 2, shape, dtype) * deviation


def _fans(
    shape: tuple[int, ...],
    in_axis: int | Sequence[int],
    out_axis: int | Sequence[int],
    batch_axis: int | Sequence[int],
) -> tuple[float, float]:
    if len(shape) < 2:
        raise ValueError(
            "Can't compute input and output sizes of a 1-dimensional weights tensor. Must be at "
            f"least 2D; got shape {shape}"
        )
    sizes = [_product(shape, axes) for axes in (in_axis, out_axis, batch_axis)]
    field = math.prod(shape) / max(math.prod(sizes), 1)
    return sizes[0] * field, sizes[1] * field


def _product(shape: tuple[int, ...], axes: int | Sequence[int]) -> int:
    given = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    return math.prod(shape[a] for a in given)


def _scaled(name: str, scale: float, mode: str, distribution: str, what: str) -> Any:
    def maker(
        in_axis: int | Sequence[int] = -2,
        out_axis: int | Sequence[int] = -1,
        batch_axis: int | Sequence[int] = (),
        dtype: Any = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    maker.__name__ = maker.__qualname__ = name
    maker.__doc__ = f"""{what}

    `variance_scaling({scale}, {mode!r}, {distribution!r})`; arguments as there.

    >>> from covector import nn, random
    >>> nn.initializers.{name}()(random.key(0), (3, 4)).shape
    (3, 4)
    """
    return maker


glorot_uniform = _scaled(
    "glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot and Bengio, 2010, uniform numbers."
)
glorot_normal = _scaled(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot and Bengio, 2010, normal numbers."
)
lecun_uniform = _scaled(
    "lecun_uniform", 1.0, "fan_in", "uniform", "LeCun et al., 1998, uniform numbers."
)
lecun_normal = _scaled(
    "lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun et al., 1998, normal numbers."
)
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "He et al., 2015, uniform numbers.")
he_normal = _scaled(
    "he_normal", 2.0, "fan_in", "truncated_normal", "He et al., 2015, normal numbers."
)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal

__all__ = [
    "Initializer",
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
