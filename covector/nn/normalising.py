"""What sums to one, or has mean zero: softmax and its kin, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax, ops
from covector import numpy as cnp
from covector.numpy.convert import array_operand, cast


def _inexact(who: str, x: Any) -> Any:
    x = array_operand(who, x)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    return cast(x, dtype, x.weak_type)


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

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> round(float(nn.logsumexp(cnp.zeros(4))), 4)
    1.3863
    """
    a = _inexact("logsumexp", a)
    if b is not None:
        b = array_operand("logsumexp", b)
        dtype = dtypes.to_inexact_dtype(cnp.result_type(a, b))
        a, b = cnp.broadcast_arrays(a.astype(dtype), b.astype(dtype))
        a = cnp.where(b != 0, a, -np.inf)
    if where is not None:
        a = cnp.where(where, a, -np.inf)
    top = cnp.max(cnp.real(a), axis, keepdims=True, initial=-np.inf)
    top = ops.select.stop_gradient(cnp.where(cnp.isfinite(top), top, 0))
    terms = cnp.exp(a - top)
    if b is not None:
        terms = b * terms
    total = cnp.sum(terms, axis, keepdims=keepdims)
    top = top if keepdims else cnp.reshape(top, total.shape)
    if not return_sign:
        return cnp.log(total) + top.astype(total.dtype)
    sign = cnp.sign(total)
    return cnp.log(cnp.abs(total)) + top, sign


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) over `axis`, without overflow.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> float(nn.logmeanexp(cnp.zeros(4)))
    0.0
    """
    x = _inexact("logmeanexp", x)
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    ones = cnp.ones_like(cnp.real(x))
    count = cnp.sum(ones, axis, where=where, keepdims=keepdims)
    return total - cnp.log(count)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over `axis` (an int, a tuple, or None for all), without overflow.

    `where`: which elements count; the others give 0.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> nn.softmax(cnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    x = _inexact("softmax", x)
    terms = cnp.exp(_shifted(x, axis, where))
    if where is None:
        return terms / cnp.sum(terms, axis, keepdims=True)
    terms = cnp.where(where, terms, 0)
    total = cnp.sum(terms, axis, keepdims=True)
    return cnp.where(where, terms / total, 0)


def _shifted(x: Any, axis: Any, where: Any) -> Any:
    """`x` less its greatest element over `axis`, through which no derivative flows."""
    bounded = where is not None or not x.size
    top = cnp.max(x, axis, keepdims=True, where=where, initial=-np.inf if bounded else None)
    if where is None:
        return x - ops.select.stop_gradient(top)
    # Where nothing counts, the maximum is not finite.
    top = cnp.where(cnp.isfinite(top), top, 0)
    return cnp.where(where, x, 0) - ops.select.stop_gradient(top)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """log(softmax(x)), without overflow; -inf where `where` does not hold.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> round(float(nn.log_softmax(cnp.zeros(4))[0]), 4)
    -1.3863
    """
    x = _inexact("log_softmax", x)
    shifted = _shifted(x, axis, where)
    total = cnp.sum(cnp.exp(shifted), axis, keepdims=True, where=where)
    out = shifted - cnp.log(total)
    return out if where is None else cnp.where(where, out, -np.inf)


def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over `axis`.

    algorithm: the variance as the mean of squares less the square of the mean ('fast'), or as the
    mean of the squared distances ('stable').

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> [round(v, 2) for v in nn.standardize(cnp.array([1.0, 3.0])).tolist()]
    [-1.0, 1.0]
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm {algorithm!r}. Expected 'fast' or 'stable'.")
    x = _inexact("standardize", x)
    if mean is None:
        mean = cnp.mean(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "fast":
        mean_square = cnp.mean(cnp.square(x), axis, keepdims=True, where=where)
        variance = cnp.clip(mean_square - cnp.square(mean), 0)
    elif variance is None:
        variance = cnp.var(x, axis, keepdims=True, where=where, mean=mean)
    return (x - mean) * lax.rsqrt(cnp.asarray(variance + epsilon, x.dtype))


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Any = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query · keyᵀ * scale + bias) · value (Vaswani et al., 2017).

    Shapes: query (B, T, N, H); key and value (B, S, K, H), each of whose K heads serves N / K
    query heads; without B, one example.  bias and mask: broadcast to (B, N, T, S); where the mask
    is False, nothing is attended to.  scale: 1 / sqrt(H) by default.  is_causal: no position
    attends to a later one.  …_seq_lengths: how many positions of each example count, int32 of
    shape (B,).  local_window_size: attend to so many positions to the left and right, or a pair of
    numbers.  return_residual: also log(sum(exp(logits))), of shape (B, T, N).  ValueError, naming
    the argument, for ranks, shapes and dtypes that do not fit.

    >>> import covector.numpy as cnp
    >>> from covector import nn
    >>> x = cnp.ones((1, 2, 1, 4))
    >>> nn.dot_product_attention(x, x, x).shape
    (1, 2, 1, 4)
    """
    if implementation not in (None, "xla"):
        raise ValueError(f"dot_product_attention: unsupported implementation {implementation!r}")
    q, k, v = (_inexact("dot_product_attention", x) for x in (query, key, value))
    single = q.ndim == 3
    if single:
        q, k, v = q[None], k[None], v[None]
    _check_attention(q, k, v)
    batch, length, heads, width = q.shape
    queries = _lengths("query_seq_lengths", query_seq_lengths, batch)
    keys = _lengths("key_value_seq_lengths", key_value_seq_lengths, batch)
    sources, groups = k.shape[1], k.shape[2]
    scale = 1 / np.sqrt(width) if scale is None else scale
    grouped = cnp.reshape(q, (batch, length, groups, heads // groups, width))
    wide = cnp.promote_types(q.dtype, np.float32)
    logits = cnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide)
    logits = cnp.reshape(logits, (batch, heads, length, sources)) * scale
    if bias is not None:
        logits = logits + _added("bias", bias)
    allowed = _allowed(mask, is_causal, queries, keys, local_window_size, logits.shape)
    if allowed is not None:
        logits = cnp.where(allowed, logits, 0.7 * float(cnp.finfo(logits.dtype).min))
    weights = softmax(logits).astype(k.dtype)
    weights = cnp.reshape(weights, (batch, groups, heads // groups, length, sources))
    out = cnp.einsum("bkgts,bskh->btkgh", weights, v)
    out = cnp.reshape(out, (batch, length, heads, v.shape[-1]))
    if queries is not None:
        valid = cnp.arange(length)[None, :] < queries[:, None]
        out = cnp.where(valid[:, :, None, None], out, 0)
    out = out[0] if single else out
    if not return_residual:
        return out
    residual = cnp.transpose(logsumexp(logits, axis=-1), (0, 2, 1)).astype(k.dtype)
    return out, residual[0] if single else residual


def _check_attention(q: Any, k: Any, v: Any) -> None:
    shapes = f"query {q.shape}, key {k.shape}, value {v.shape}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"dot_product_attention: all must have rank 4 (or 3); got {shapes}")
    if not q.shape[0] == k.shape[0] == v.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"dot_product_attention: batches and widths must agree; got {shapes}")
    if k.shape[:3] != v.shape[:3] or not k.shape[2] or q.shape[2] % k.shape[2]:
        raise ValueError(
            f"dot_product_attention: key and value must have as many positions and heads, and "
            f"these divide the query heads; got {shapes}"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"dot_product_attention: query, key and value must have one dtype; got {q.dtype}, "
            f"{k.dtype} and {v.dtype}"
        )


def _lengths(name: str, lengths: Any, batch: int) -> Any:
    """How many positions of each example count, checked; None for all of them."""
    if lengths is None:
        return None
    lengths = cnp.asarray(lengths)
    if lengths.shape != (batch,) or lengths.dtype != np.int32:
        raise ValueError(
            f"dot_product_attention: {name} must be int32 numbers of shape ({batch},), one for "
            f"each example; got {lengths.dtype} of shape {lengths.shape}"
        )
    return lengths


def _added(name: str, x: Any) -> Any:
    """What broadcasts to (B, N, T, S)."""
    x = array_operand("dot_product_attention", x)
    if x.ndim > 4:
        raise ValueError(
            f"dot_product_attention: {name} must broadcast to (B, N, T, S); got shape {x.shape}"
        )
    return x


def _allowed(
    mask: Any, is_causal: bool, queries: Any, sources: Any, window: Any, shape: Any
) -> Any:
    """Where attention is allowed, broadcast to (B, N, T, S), or None for everywhere."""
    rows = lax.broadcasted_iota(np.int32, shape[2:], 0)
    columns = lax.broadcasted_iota(np.int32, shape[2:], 1)
    parts = []
    if mask is not None:
        mask = _added("mask", mask)
        if mask.dtype != np.bool_:
            raise ValueError(f"dot_product_attention: mask must be bool; got {mask.dtype}")
        parts.append(mask)
    if is_causal:
        parts.append(rows >= columns)
    if window is not None:
        left, right = (window, window) if isinstance(window, (int, np.integer)) else window
        parts.append((columns >= rows - left) & (columns <= rows + right))
    for lengths, places in ((queries, rows), (sources, columns)):
        if lengths is not None:
            parts.append((places < lengths[:, None, None])[:, None])
    out = None
    for part in parts:
        out = part if out is None else out & part
    return out
