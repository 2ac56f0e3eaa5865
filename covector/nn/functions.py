"""Activations and what classifiers end in: plain functions over `covector.numpy`."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.numpy.convert import canonical_axis, operands


def _inexact(who: str, x: Any) -> Any:
    (x,) = operands(who, x)
    return cnp.asarray(x, dtypes.to_inexact_dtype(typeof(x).dtype))


tanh = cnp.tanh


def identity(x: Any) -> Any:
    """`x` itself.

    >>> from covector import nn
    >>> float(nn.identity(3.0))
    3.0
    """
    return cnp.asarray(x)


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0; NaN stays NaN.

    >>> from covector import nn
    >>> nn.relu(cnp.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    x = cnp.asarray(x)
    return cnp.where(x <= 0, x.dtype.type(0), x)


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with derivative 0 at both ends."""
    x = _inexact("relu6", x)
    clipped = cnp.where(x <= 0, x.dtype.type(0), x)
    return cnp.where(x >= 6, x.dtype.type(6), clipped)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> from covector import nn
    >>> float(nn.sigmoid(0.0))
    0.5
    """
    return lax.logistic(_inexact("sigmoid", x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow.

    >>> from covector import nn
    >>> round(float(nn.softplus(0.0)), 4)
    0.6931
    """
    return cnp.logaddexp(x, 0)


def sparse_plus(x: Any) -> Any:
    """0 for x <= -1, (x + 1)² / 4 between, x for x >= 1."""
    x = _inexact("sparse_plus", x)
    return cnp.where(x <= -1, x.dtype.type(0), cnp.where(x >= 1, x, (x + 1) ** 2 / 4))


def sparse_sigmoid(x: Any) -> Any:
    """0 for x <= -1, (x + 1) / 2 between, 1 for x >= 1."""
    return 0.5 * cnp.clip(_inexact("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def soft_sign(x: Any) -> Any:
    """x / (|x| + 1)."""
    x = _inexact("soft_sign", x)
    return x / (cnp.abs(x) + 1)


def silu(x: Any) -> Any:
    """x * sigmoid(x); also named swish."""
    x = _inexact("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: Any) -> Any:
    """x * tanh(softplus(x)) (D. Misra, 2019)."""
    x = _inexact("mish", x)
    return x * cnp.tanh(softplus(x))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-_inexact("log_sigmoid", x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha * (exp(x) - 1) (Clevert et al., 2015)."""
    x = _inexact("elu", x)
    positive = x > 0
    return cnp.where(positive, x, alpha * cnp.expm1(cnp.where(positive, x.dtype.type(0), x)))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0) (J. T. Barron, 2017)."""
    x = _inexact("celu", x)
    return cnp.maximum(x, 0.0) + alpha * cnp.expm1(cnp.minimum(x, 0.0) / alpha)


def selu(x: Any) -> Any:
    """Scaled elu with the constants of Klambauer et al., 2017."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where it is >= 0, else negative_slope * x."""
    x = _inexact("leaky_relu", x)
    return cnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: Any) -> Any:
    """x clipped to [-1, 1]."""
    x = _inexact("hard_tanh", x)
    return cnp.where(x > 1, x.dtype.type(1), cnp.where(x < -1, x.dtype.type(-1), x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return relu6(x + 3.0) / 6.0


def hard_silu(x: Any) -> Any:
    """x * hard_sigmoid(x); also named hard_swish."""
    x = _inexact("hard_silu", x)
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
        c = x.dtype.type(np.sqrt(2 / np.pi))
        return x * (0.5 * (1.0 + cnp.tanh(c * (x + 0.044715 * (x * x * x)))))
    half = x.dtype.type(np.sqrt(0.5))
    return 0.5 * x * (1.0 + lax.erf(x * half))


def glu(x: Any, axis: int = -1) -> Any:
    """First half along `axis` times the sigmoid of the second half."""
    x = _inexact("glu", x)
    size = x.shape[axis]
    if size % 2:
        raise ValueError(f"glu: axis {axis} must have an even size; got shape {x.shape}")
    first, second = cnp.split(x, 2, axis)
    return first * sigmoid(second)


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x² + b)) / 2 (J. T. Barron, 2021)."""
    x = _inexact("squareplus", x)
    return (x + cnp.sqrt(x * x + b)) / 2


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) over `axis`, without overflow.

    `b`: factors (may be negative: NaN where the sum is, unless `return_sign`, which gives
    (log of the absolute value, sign)).  `where`: which elements count.

    >>> from covector import nn
    >>> round(float(nn.logsumexp(cnp.zeros(4))), 4)
    1.3863
    """
    a = _inexact("logsumexp", a)
    if b is not None:
        a, b = cnp.broadcast_arrays(a, cnp.asarray(b))
        a = cnp.where(b != 0, a, -np.inf)
    if where is not None:
        a = cnp.where(where, a, -np.inf)
    top = cnp.max(a.real, axis, keepdims=True, initial=-np.inf)
    top = lax.stop_gradient(cnp.where(cnp.isfinite(top), top, 0))
    terms = cnp.exp(a - top)
    if b is not None:
        terms = b * terms
    total = cnp.sum(terms, axis, keepdims=keepdims)
    top = top if keepdims else cnp.reshape(top, total.shape)
    if return_sign:
        sign = cnp.sign(total)
        return cnp.log(cnp.abs(total)) + top, sign
    return cnp.log(total) + top


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) over `axis`, without overflow.

    >>> from covector import nn
    >>> float(nn.logmeanexp(cnp.zeros(4)))
    0.0
    """
    x = _inexact("logmeanexp", x)
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    if where is None:
        count = cnp.asarray(x.size / max(total.size, 1), x.dtype)
    else:
        count = cnp.sum(cnp.broadcast_to(where, x.shape), axis, x.dtype, keepdims=keepdims)
    return total - cnp.log(count)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over `axis` (an int or a tuple), without overflow.

    `where`: which elements count; the others give 0.

    >>> from covector import nn
    >>> nn.softmax(cnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    x = _inexact("softmax", x)
    if where is not None:
        x = cnp.where(where, x, -np.inf)
    top = cnp.max(x, axis, keepdims=True, initial=-np.inf if 0 in x.shape else None)
    terms = cnp.exp(x - lax.stop_gradient(top))
    if where is not None:
        terms = cnp.where(where, terms, 0)
    return terms / cnp.sum(terms, axis, keepdims=True)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """log(softmax(x)), without overflow; -inf where `where` does not hold.

    >>> from covector import nn
    >>> round(float(nn.log_softmax(cnp.zeros(4))[0]), 4)
    -1.3863
    """
    x = _inexact("log_softmax", x)
    if where is not None:
        x = cnp.where(where, x, -np.inf)
    top = cnp.max(x, axis, keepdims=True)
    shifted = x - lax.stop_gradient(top)
    terms = cnp.exp(shifted)
    if where is not None:
        terms = cnp.where(where, terms, 0)
    out = shifted - cnp.log(cnp.sum(terms, axis, keepdims=True))
    return out if where is None else cnp.where(where, out, -np.inf)


def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over `axis`."""
    x = _inexact("standardize", x)
    if mean is None:
        mean = cnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = cnp.mean(cnp.square(x), axis, keepdims=True, where=where) - cnp.square(mean)
    return (x - mean) / cnp.sqrt(variance + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """An axis of `num_classes` with 1 where its position equals `x`, else 0.

    Numbers outside [0, num_classes) give zeros.

    >>> from covector import nn
    >>> nn.one_hot(cnp.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x = cnp.asarray(x)
    place = canonical_axis(axis, x.ndim + 1, "one_hot")
    dtype = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    shape = [1] * (x.ndim + 1)
    shape[place] = num_classes
    classes = cnp.arange(num_classes, dtype=x.dtype).reshape(shape)
    return cnp.asarray(cnp.expand_dims(x, place) == classes, dtype)


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, accurate near 0 and far from it (M. Mächler, 2012)."""
    x = _inexact("log1mexp", x)
    near = x < np.log(2.0)
    small = cnp.log(-cnp.expm1(cnp.where(near, -x, -1.0)))
    large = cnp.log1p(-cnp.exp(cnp.where(near, -1.0, -x)))
    return cnp.where(near, small, large)
