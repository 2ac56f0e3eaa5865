"""Initial weights: functions that make initializers, `init(key, shape, dtype)`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from covector import dtypes, random
from covector import numpy as cnp

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

Axes = int | Sequence[int]


class Initializer(Protocol):
    """What every function here (but `zeros` and `ones`, which are initializers) returns."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """Weights of `shape`."""


def _dtype(given: Any, default: Any) -> Any:
    chosen = default if given is None else given
    return dtypes.default_float() if chosen is None else dtypes.canonicalize_dtype(chosen)


def _check(who: str, dtype: Any, *kinds: Any) -> None:
    if not any(dtypes.issubdtype(dtype, kind) for kind in kinds):
        wanted = "float" if len(kinds) == 1 else "float or complex"
        raise ValueError(f"dtype argument to `{who}` must be a {wanted} dtype, got {dtype}")


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer: zeros.

    >>> from covector.nn import initializers
    >>> initializers.zeros(None, (2,)).tolist()
    [0.0, 0.0]
    """
    return cnp.zeros(shape, _dtype(dtype, None), out_sharding=out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer: ones.

    >>> from covector.nn import initializers
    >>> initializers.ones(None, (2,)).tolist()
    [1.0, 1.0]
    """
    return cnp.ones(shape, _dtype(dtype, None), out_sharding=out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Every weight is `value` (broadcast).

    >>> from covector.nn import initializers
    >>> initializers.constant(3.0)(None, (2,)).tolist()
    [3.0, 3.0]
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        return cnp.full(shape, value, _dtype(dtype, default), out_sharding=out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Uniform in [0, scale).

    >>> from covector import random
    >>> from covector.nn import initializers
    >>> initializers.uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        wanted = _dtype(dtype, default)
        _check("uniform", wanted, np.floating)
        return random.uniform(key, shape, wanted) * np.asarray(scale, wanted)[()]

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal with mean 0 and the given standard deviation.

    >>> from covector import random
    >>> from covector.nn import initializers
    >>> initializers.normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        wanted = _dtype(dtype, default)
        _check("normal", wanted, np.floating, np.complexfloating)
        return random.normal(key, shape, wanted) * np.asarray(stddev, wanted)[()]

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Normal, cut off at `lower` and `upper` standard deviations.

    >>> from covector import random
    >>> from covector.nn import initializers
    >>> initializers.truncated_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        wanted = _dtype(dtype, default)
        _check("truncated_normal", wanted, np.floating)
        draw = random.truncated_normal(key, lower, upper, shape, wanted)
        return draw * np.asarray(stddev, wanted)[()]

    return init


def _fans(shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> Any:
    """(fan in, fan out): how many weights lead to, and from, a unit."""
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."
        )

    def size(axes: Axes) -> int:
        return math.prod(shape[d] for d in ([axes] if isinstance(axes, int) else axes))

    inputs, outputs = size(in_axis), size(out_axis)
    field = math.prod(shape) / inputs / outputs / size(batch_axis)
    return inputs * field, outputs * field


_MODES = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: math.sqrt(inputs * outputs),
}
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")

#: Standard deviations of the normal distribution cut off at 2, real and complex.
_TRUNCATED, _COMPLEX_TRUNCATED = 0.87962566103423978, 0.95311164380491208


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Weights with mean 0 and variance scale / fan.

    mode: the fan, 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'.  distribution:
    'truncated_normal' (at 2 standard deviations), 'normal', 'uniform'.  in_axis, out_axis: the
    axes of inputs and outputs; batch_axis: those of independent examples; all others are the
    receptive field.

    >>> from covector import random
    >>> from covector.nn import initializers
    >>> init = initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> init(random.key(0), (2, 3)).shape
    (2, 3)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        wanted = _dtype(dtype, default)
        if mode not in _MODES:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution}"
            )
        _check("variance_scaling", wanted, np.floating, np.complexfloating)
        inputs, outputs = _fans(tuple(shape), in_axis, out_axis, batch_axis)
        variance = np.asarray(scale / _MODES[mode](inputs, outputs), dtypes.to_real_dtype(wanted))
        return _draw(key, tuple(shape), wanted, variance, distribution)

    return init


def _draw(key: Any, shape: tuple[int, ...], dtype: Any, variance: Any, distribution: str) -> Any:
    is_real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "normal":
        return random.normal(key, shape, dtype) * np.sqrt(variance)
    if distribution == "uniform" and is_real:
        return random.uniform(key, shape, dtype, -1) * np.sqrt(3 * variance)
    if distribution == "truncated_normal" and is_real:
        stddev = np.sqrt(variance) / np.asarray(_TRUNCATED, variance.dtype)
        return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
    real = dtypes.to_real_dtype(dtype)
    key_r, key_theta = random.split(key)
    share = random.uniform(key_r, shape, real)
    angle = 2 * cnp.pi * random.uniform(key_theta, shape, real)
    if distribution == "uniform":  # in the disk
        size = cnp.sqrt(share) * np.sqrt(2 * variance)
    else:  # the radius of a complex normal number, cut off at 2
        size = cnp.sqrt(-cnp.log(1 - (1 - np.exp(np.asarray(-4, real))) * share))
        size = size * (np.sqrt(variance) / np.asarray(_COMPLEX_TRUNCATED, real))
    return (size * cnp.exp(1j * angle)).astype(dtype)


def _scaled(scale: float, mode: str, distribution: str, what: str) -> Any:
    """Declare a variance scaling with fixed scale, fan and distribution."""

    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    name = f"{what.split()[0].lower()}_{distribution.replace('truncated_', '')}"
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{what}: `variance_scaling({scale}, {mode!r}, {distribution!r})`.

    >>> from covector import random
    >>> from covector.nn import initializers
    >>> initializers.{name}()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return make


glorot_uniform = xavier_uniform = _scaled(
    1.0, "fan_avg", "uniform", "Glorot and Bengio (2010), also named after Xavier"
)
glorot_normal = xavier_normal = _scaled(
    1.0, "fan_avg", "truncated_normal", "Glorot and Bengio (2010), also named after Xavier"
)
lecun_uniform = _scaled(1.0, "fan_in", "uniform", "LeCun et al. (1998)")
lecun_normal = _scaled(1.0, "fan_in", "truncated_normal", "LeCun et al. (1998)")
he_uniform = kaiming_uniform = _scaled(
    2.0, "fan_in", "uniform", "He et al. (2015), also named after Kaiming"
)
he_normal = kaiming_normal = _scaled(
    2.0, "fan_in", "truncated_normal", "He et al. (2015), also named after Kaiming"
)
