"""Activations: plain functions over `covector.numpy`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import dtypes, lax
from covector import numpy as cnp
from covector.numpy.convert import array_operand, canonical_axis, cast, strong

tanh = cnp.tanh


def _inexact(who: str, x: Any, weak: bool = False) -> Any:
    """`x` as an array of floats (or complex numbers); weak: integers become weakly typed ones, as
    they do beside a Python float."""
    x = array_operand(who, x)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    return cast(x, dtype, x.weak_type or (weak and dtype != x.dtype))


def _number(x: Any, value: float) -> Any:
    return np.asarray(value, x.dtype)[()]


def identity(x: Any) -> Any:
    """`x` itself.

    >>> from covector import nn
    >>> float(nn.identity(3.0))
    3.0
    """
    return array_operand("identity", x)


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0; NaN stays NaN.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> nn.relu(cnp.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    x = array_operand("relu", x)
    return cnp.where(x <= 0, 0, x)


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with derivative 0 at both ends.

    >>> from covector import nn
    >>> float(nn.relu6(7.0))
    6.0
    """
    x = _inexact("relu6", x, weak=True)
    return cnp.where(x >= 6, 6, cnp.where(x <= 0, 0, x))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> from covector import nn
    >>> float(nn.sigmoid(0.0))
    0.5
    """
    return lax.logistic(_inexact("sigmoid", x))


def sparse_sigmoid(x: Any) -> Any:
    """0 for x <= -1, (x + 1) / 2 between, 1 for x >= 1: the derivative of `sparse_plus`.

    >>> from covector import nn
    >>> float(nn.sparse_sigmoid(0.0))
    0.5
    """
    x = _inexact("sparse_sigmoid", x, weak=True)
    return 0.5 * cnp.clip(x + 1.0, 0.0, 2.0)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow.

    >>> from covector import nn
    >>> round(float(nn.softplus(0.0)), 4)
    0.6931
    """
    return cnp.logaddexp(_inexact("softplus", x), 0)


def sparse_plus(x: Any) -> Any:
    """0 for x <= -1, (x + 1)² / 4 between, x for x >= 1.

    >>> from covector import nn
    >>> float(nn.sparse_plus(0.0))
    0.25
    """
    x = _inexact("sparse_plus", x, weak=True)
    return cnp.where(x <= -1, 0, cnp.where(x >= 1, x, (x + 1.0) ** 2 / 4))


def soft_sign(x: Any) -> Any:
    """x / (|x| + 1).

    >>> from covector import nn
    >>> float(nn.soft_sign(1.0))
    0.5
    """
    x = _inexact("soft_sign", x)
    return x / (cnp.abs(x) + 1)


def silu(x: Any) -> Any:
    """x * sigmoid(x); also named swish.

    >>> from covector import nn
    >>> float(nn.silu(0.0))
    0.0
    """
    x = _inexact("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: Any) -> Any:
    """x * tanh(softplus(x)) (D. Misra, 2019).

    >>> from covector import nn
    >>> float(nn.mish(0.0))
    0.0
    """
    x = _inexact("mish", x)
    return x * cnp.tanh(softplus(x))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow.

    >>> from covector import nn
    >>> round(float(nn.log_sigmoid(0.0)), 4)
    -0.6931
    """
    return -softplus(-_inexact("log_sigmoid", x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha * (exp(x) - 1) (Clevert et al., 2015).

    >>> from covector import nn
    >>> float(nn.elu(2.0))
    2.0
    """
    x = _inexact("elu", x, weak=True)
    return cnp.where(x > 0, x, alpha * cnp.expm1(cnp.where(x > 0, 0, x)))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha * (exp(x / alpha) - 1) (J. T. Barron, 2017).

    >>> from covector import nn
    >>> float(nn.celu(2.0))
    2.0
    """
    x = _inexact("celu", x, weak=True)
    return cnp.where(x > 0, x, alpha * cnp.expm1(cnp.where(x > 0, 0, x) / alpha))


def selu(x: Any) -> Any:
    """A multiple of elu that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> from covector import nn
    >>> round(float(nn.selu(1.0)), 4)
    1.0507
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where it is >= 0, else negative_slope * x.

    >>> from covector import nn
    >>> float(nn.leaky_relu(-2.0, 0.5))
    -1.0
    """
    x = _inexact("leaky_relu", x, weak=True)
    return cnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: Any) -> Any:
    """x clipped to [-1, 1], with derivative 1 at both ends.

    >>> from covector import nn
    >>> float(nn.hard_tanh(3.0))
    1.0
    """
    x = array_operand("hard_tanh", x)
    return cnp.where(x > 1, 1, cnp.where(x < -1, -1, x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    >>> from covector import nn
    >>> float(nn.hard_sigmoid(0.0))
    0.5
    """
    return relu6(_inexact("hard_sigmoid", x, weak=True) + 3.0) / 6.0


def hard_silu(x: Any) -> Any:
    """x * hard_sigmoid(x); also named hard_swish.

    >>> from covector import nn
    >>> float(nn.hard_silu(3.0))
    3.0
    """
    x = _inexact("hard_silu", x, weak=True)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function of x (Hendrycks & Gimpel, 2016).

    `approximate`: by tanh(sqrt(2 / pi) * (x + 0.044715 x³)), else by erf.

    >>> from covector import nn
    >>> float(nn.gelu(0.0))
    0.0
    """
    x = _inexact("gelu", x)
    if approximate:
        # (1 + tanh u) / 2 = sigmoid 2 u: cheaper, and right where tanh u is nearly -1
        return x * sigmoid(_number(x, np.sqrt(8 / np.pi)) * (x + 0.044715 * (x * x * x)))
    return 0.5 * x * lax.erfc(-x * _number(x, np.sqrt(0.5)))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along `axis` times the sigmoid of the second half.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> nn.glu(cnp.array([3.0, 0.0])).tolist()
    [1.5]
    """
    x = _inexact("glu", x)
    size = x.shape[canonical_axis(axis, x.ndim, "glu")]
    if size % 2:
        raise ValueError(f"glu: axis {axis} must have an even size; got shape {x.shape}")
    first, second = cnp.split(x, 2, axis)
    return first * sigmoid(second)


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x² + b)) / 2 (J. T. Barron, 2021).

    >>> from covector import nn
    >>> float(nn.squareplus(0.0))
    1.0
    """
    x = _inexact("squareplus", x)
    return 0.5 * (x + cnp.sqrt(cnp.square(x) + b))


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0, accurate near 0 and far from it (M. Mächler, 2012).

    >>> from covector import nn
    >>> round(float(nn.log1mexp(1.0)), 4)
    -0.4587
    """
    x = _inexact("log1mexp", x)
    near = x < np.log(2.0)
    small = cnp.log(-cnp.expm1(cnp.where(near, -x, -1.0)))
    return cnp.where(near, small, cnp.log1p(-cnp.exp(cnp.where(near, -1.0, -x))))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """An axis of `num_classes` with 1 where its position equals `x`, else 0.

    Numbers outside [0, num_classes) give zeros.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> nn.one_hot(cnp.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    count = operator.index(num_classes)
    x = cnp.asarray(x)
    place = canonical_axis(axis, x.ndim + 1, "one_hot")
    wanted = dtypes.default_float() if dtype is None else dtypes.canonicalize_dtype(dtype)
    full = (*x.shape[:place], count, *x.shape[place:])
    given = x.dtype if cnp.issubdtype(x.dtype, np.number) else np.dtype(np.int32)
    classes = lax.broadcasted_iota(given, full, place)
    return strong(cnp.expand_dims(strong(x, given), place) == classes, wanted)
