"""The Hurwitz zeta function and the polygamma functions: the derivatives of digamma."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Sample
from covector.ir.scalar import Expr, cast, compare, const, expr, select
from covector.ops._check import np_where
from covector.ops.arithmetic import add, mul, neg
from covector.ops.families import Pointwise, Tangent2, like, scale, scipy_special, wide

#: B(2k) / (2k)! for k = 1, 2, …: coefficients of the Euler-Maclaurin formula.
BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
)  # fmt: skip
TERMS = 10


def zeta_element(x: Expr, q: Expr) -> Expr:
    """sum of (q + k)^-x, k = 0, 1, …: ten terms, then the Euler-Maclaurin formula (DLMF 25.11.7).

    For x > 1; NaN below, infinite at 1 and at poles, for which q is 0, -1, -2, …
    """
    dtype = x.dtype

    def power(base: Expr) -> Expr:
        return expr("pow", dtype, base, expr("neg", dtype, x))

    total = power(q)
    for k in range(1, TERMS):
        total = total + power(q + float(k))
    a = q + float(TERMS)
    last = power(a)
    inverse = expr("div", dtype, const(1.0, dtype), a)
    tail = expr("div", dtype, last * a, x - 1.0) + last * 0.5
    factor, square = x * inverse, inverse * inverse
    for k, b in enumerate(BERNOULLI):
        tail = tail + last * factor * b
        factor = factor * (x + (2.0 * k + 1)) * (x + (2.0 * k + 2)) * square
    pole = compare("le", q, 0) & compare("eq", q, expr("floor", dtype, q))
    total = select(pole, float("inf"), total + tail)
    total = select(compare("eq", x, 1), float("inf"), total)
    negative = compare("lt", q, 0) & compare("ne", x, expr("floor", dtype, x))
    unknown = compare("ne", x, x) | compare("ne", q, q)
    return select(compare("lt", x, 1) | negative | unknown, float("nan"), total)


_polygamma = scipy_special("polygamma")


def _polygamma_numpy(m: Any, x: Any) -> Any:
    return np_where(m < 0, np.nan, _polygamma(m, x))


class Zeta(Pointwise):
    """The Hurwitz zeta function: the sum of (q + k)^-x for k = 0, 1, …"""

    name = "zeta"
    arity = 2
    accepts = "f"
    numpy = staticmethod(wide(scipy_special("zeta")))
    derivatives: ClassVar[tuple[None, Tangent2]] = (
        None,
        lambda t, out, x, q: scale(t, mul(neg(x), zeta(add(x, like(x, 1)), q))),
    )
    transpose = Absent("not linear")

    def element(self, dtype: str, *args: Expr) -> Expr:
        """Half precision through float32."""
        work = dtype if dtype in ("float32", "float64") else "float32"
        return cast(zeta_element(*(cast(a, work) for a in args)), dtype)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Moderate orders, in every float dtype."""
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            q = ShapedArray((3, 5), dtype)
            order = np.full((3, 5), 3).astype(dtype)  # in which there is no derivative
            yield Sample(zeta, (order, q), (0.5, 3.0), smooth=False, scale=16.0)


zeta = Zeta()


class Polygamma(Pointwise):
    """The m-th derivative of digamma, for a whole number m >= 0 that is given as a float."""

    name = "polygamma"
    arity = 2
    accepts = "f"
    numpy = staticmethod(wide(_polygamma_numpy))
    derivatives: ClassVar[tuple[None, Tangent2]] = (
        None,
        lambda t, out, m, x: scale(t, polygamma(add(m, like(m, 1)), x)),
    )
    transpose = Absent("not linear")

    def element(self, dtype: str, *args: Expr) -> Expr:
        """(-1)^(m + 1) m! zeta(m + 1, x), or digamma for m = 0."""
        work = dtype if dtype in ("float32", "float64") else "float32"
        m, x = (cast(a, work) for a in args)
        half = m * 0.5
        odd = compare("ne", half, expr("floor", work, half))
        gamma = expr("exp", work, expr("lgamma", work, m + 1.0))
        size = gamma * zeta_element(m + 1.0, x)
        value = select(odd, size, expr("neg", work, size))
        return cast(select(compare("eq", m, 0), expr("digamma", work, x), value), dtype)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """The first orders, in every float dtype."""
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            for m in (0, 1, 2):
                order = np.full((7,), m).astype(dtype)
                x = ShapedArray((7,), dtype)
                yield Sample(polygamma, (order, x), (0.5, 3.0), smooth=False, scale=32.0)


polygamma = Polygamma()
