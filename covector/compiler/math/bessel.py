"""Exponentially scaled modified Bessel functions i0e, i1e as basic operations.

A polynomial up to 8, one in 1 / x beyond (as in C. W. Clenshaw, "Chebyshev series for
mathematical functions", NPL Mathematical Tables 5, 1962).  float32 is done in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

from covector.compiler.math import coefficients
from covector.compiler.math.formats import (
    absolute,
    div,
    gt,
    horner,
    sign_of,
    square_root,
    with_sign,
)
from covector.ir.scalar import Expr, cast, fma, select

_Table = dict[str, Sequence[float]]


def _scaled(x: Expr, middle: _Table, tail: _Table, odd: bool) -> Expr:
    a = cast(absolute(x), "float64")
    near = horner(fma(a, 0.25, -1.0), middle[x.dtype])
    if odd:
        near = near * a
    q = div(1.0, a)
    far = horner(fma(q, 16.0, -1.0), tail[x.dtype]) * square_root(q)
    return cast(select(gt(a, 8.0), far, near), x.dtype)


def bessel_i0e(x: Expr) -> Expr:
    return _scaled(x, coefficients.BESSEL_I0E, coefficients.BESSEL_I0E_TAIL, odd=False)


def bessel_i1e(x: Expr) -> Expr:
    y = _scaled(x, coefficients.BESSEL_I1E, coefficients.BESSEL_I1E_TAIL, odd=True)
    return with_sign(y, sign_of(x))
