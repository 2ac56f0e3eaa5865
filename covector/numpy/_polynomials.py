"""Polynomials as arrays of coefficients, the highest power first."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._calculus import convolve
from covector.numpy._join import trim_zeros
from covector.numpy.convert import (
    array_operand,
    operands,
    promote,
    promote_inexact,
    promote_numeric,
    strong,
)
from covector.numpy.factors import eigvals

point = ops.pointwise


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value of the polynomial `p` at `x`, by Horner's rule.

    >>> import covector.numpy as cnp
    >>> cnp.polyval(cnp.array([1, 2, 3]), 2).tolist()
    11
    """
    del unroll  # the compiler sees one expression
    p, x = (as_array(v) for v in promote_numeric(*operands("polyval", p, x)))
    if p.ndim != 1:
        raise ValueError(f"polyval: coefficients must be 1-d; got shape {p.shape}")
    total = ops.shape.full(x.shape, 0, typeof(x).dtype)
    for c in ops.shape.unstack(p):
        total = point.add(point.mul(total, x), c)
    return total


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials.

    >>> import covector.numpy as cnp
    >>> cnp.polyadd(cnp.array([1, 2]), cnp.array([1, 2, 3])).tolist()
    [1, 3, 5]
    """
    return _sum("polyadd", point.add, a1, a2)


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials.

    >>> import covector.numpy as cnp
    >>> cnp.polysub(cnp.array([1, 2]), cnp.array([1, 2, 3])).tolist()
    [-1, -1, -1]
    """
    return _sum("polysub", point.sub, a1, a2)


def _sum(who: str, combine: Any, a1: Any, a2: Any) -> Any:
    x, y = (_coefficients(who, v) for v in promote(*operands(who, a1, a2)))
    n = max(x.size, y.size)
    x, y = (ops.shape.pad(v, 0, [(n - v.size, 0, 0)]) for v in (x, y))
    return combine(x, y)


def _coefficients(who: str, p: Any) -> Any:
    p = array_operand(who, p)
    if p.ndim > 1:
        raise ValueError(f"{who}: coefficients must be 1-d; got shape {p.shape}")
    return ops.shape.reshape(p, (p.size,))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials.

    >>> import covector.numpy as cnp
    >>> cnp.polymul(cnp.array([1, 2]), cnp.array([1, 3])).tolist()
    [1.0, 5.0, 6.0]
    """
    x, y = (_coefficients("polymul", v) for v in promote_inexact(*operands("polymul", a1, a2)))
    if trim_leading_zeros:
        x, y = (trim_zeros(v, "f") if v.size > 1 else v for v in (x, y))
    x, y = (v if v.size else ops.shape.full((1,), 0, v.dtype) for v in (x, y))
    return convolve(x, y)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """(quotient, remainder) of two polynomials; the remainder is as long as `u` unless trimmed.

    >>> import covector.numpy as cnp
    >>> [p.tolist() for p in cnp.polydiv(cnp.array([1.0, 2.0, 3.0]), cnp.array([1.0, 1.0]))]
    [[1.0, 1.0], [0.0, 0.0, 2.0]]
    """
    x, y = (_coefficients("polydiv", w) for w in promote_inexact(*operands("polydiv", u, v)))
    count = max(x.size - y.size + 1, 1)
    rest, leading = x, ops.shape.slice_along(y, 0, 0, 1)
    quotient = []
    for k in range(x.size - y.size + 1):
        term = point.div(ops.shape.slice_along(rest, 0, k, k + 1), leading)
        quotient.append(term)
        scaled = point.mul(ops.shape.broadcast_to(term, y.shape), y)
        rest = point.sub(rest, ops.shape.pad(scaled, 0, [(k, x.size - y.size - k, 0)]))
    out = ops.shape.concatenate(quotient, 0) if quotient else ops.shape.full((count,), 0, x.dtype)
    return out, trim_zeros(rest, "f") if trim_leading_zeros else rest


def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial.

    >>> import covector.numpy as cnp
    >>> cnp.polyder(cnp.array([1, 2, 3])).tolist()
    [2.0, 2.0]
    """
    (p,) = promote_inexact(*operands("polyder", p))
    p = _coefficients("polyder", p)
    m = operator.index(convert.concrete(m, "the argument `m` of polyder")[()])
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if not m:
        return p
    n = p.size
    powers = np.arange(n - 1, m - 1, -1)
    factors = np.ones(len(powers))
    for k in range(m):
        factors = factors * (powers - k)
    kept = ops.shape.slice_along(p, 0, 0, len(powers))
    return point.mul(kept, np.asarray(factors).astype(p.dtype))


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th integral of a polynomial, with the constants `k` (zeros by default).

    >>> import covector.numpy as cnp
    >>> cnp.polyint(cnp.array([2.0, 2.0])).tolist()
    [1.0, 2.0, 0.0]
    """
    m = operator.index(convert.concrete(m, "the argument `m` of polyint")[()])
    p, k = promote_inexact(*operands("polyint", p, 0 if k is None else k))
    p, k = _coefficients("polyint", p), _coefficients("polyint", k)
    if m < 0:
        raise ValueError("Order of integral must be positive")
    if k.size == 1:
        k = ops.shape.broadcast_to(k, (m,))
    if k.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if not m:
        return p
    n = p.size
    both = ops.shape.concatenate([strong(p, p.dtype), strong(k, p.dtype)], 0)
    # Coefficient j stands at power n - 1 + m - j, and was integrated min(m, …) times.
    divisors = np.ones(n + m)
    for j in range(n + m):
        power = n + m - 1 - j
        times = m if j < n else n + m - 1 - j
        for i in range(times):
            divisors[j] *= power - i
    return point.div(both, np.asarray(divisors).astype(p.dtype))


def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with the given zeros; of a square matrix its characteristic polynomial, whose
    zeros are the eigenvalues: complex.

    >>> import covector.numpy as cnp
    >>> cnp.poly(cnp.array([1.0, 2.0])).tolist()
    [1.0, -3.0, 2.0]
    """
    (zeros,) = promote_inexact(*operands("poly", seq_of_zeros))
    zeros = array_operand("poly", zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.size:
        zeros = eigvals(zeros)
    if zeros.ndim > 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not zeros.size:
        return ops.shape.full((), 1, zeros.dtype)
    zeros = ops.shape.reshape(zeros, (zeros.size,))
    out = ops.shape.full((1,), 1, zeros.dtype)
    for z in ops.shape.split(zeros, (1,) * zeros.size):
        shifted = ops.shape.pad(out, 0, [(0, 1, 0)])
        scaled = point.mul(ops.shape.broadcast_to(z, typeof(out).shape), out)
        out = point.sub(shifted, ops.shape.pad(scaled, 0, [(1, 0, 0)]))
    return out
