"""`fma`, the fused multiply-add x * y + z: rounded once, whatever the machine has.

For bits that must not depend on whether a compiler fuses a product with a sum.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from covector.ir.op import Absent
from covector.ir.scalar import Expr, bitcast, cast, compare, const, expr, select
from covector.ops import _check
from covector.ops._check import np_where
from covector.ops.families import Pointwise, Tangent3, samples_of, scale

#: Narrow floats take the sum by way of float64, with this many bits of its fraction kept: two and
#: more beyond their own, so that rounding again is harmless, and few enough that float32, through
#: which conversions go, holds them even where it is denormal.
_KEPT = 13
_CUT = 52 - _KEPT


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b and its rounding error (Knuth, TAOCP volume 2, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b and its rounding error (Dekker 1971, with Veltkamp's splitting)."""
    product = a * b
    split = 134217729.0  # 2**27 + 1
    a1, b1 = a * split - (a * split - a), b * split - (b * split - b)
    a0, b0 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _to_odd(total: Any, error: Any) -> Any:
    """The float64 `total` of total + error, one step towards the truth if inexact and even."""
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    even = (error != 0) & (bits & 1 == 0) & np.isfinite(total) & (total != 0)
    return np_where(even, bits + step, bits).view(np.float64)


def _double(x: Any, y: Any, z: Any) -> Any:
    """Of float64: the exact product plus z, rounded to odd, then to nearest.

    S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd", IEEE Transactions on Computers 57 (2008).  The numbers are scaled so that
    nothing on the way overflows or is denormal.
    """
    finite = np.isfinite(x) & np.isfinite(y)
    plain = np_where(finite & ~np.isfinite(z), z, x * y + z)
    (x1, ex), (y1, ey), (z1, ez) = np.frexp(x), np.frexp(y), np.frexp(z)
    shift = (ex + ey).astype(np.int64)
    scaled = np.ldexp(z1, np.clip(ez - shift, -200, 200))  # beyond that only its sign matters
    high, low = _two_product(x1, y1)
    middle, middle_low = _two_sum(scaled, low)
    top, top_low = _two_sum(high, middle)
    total = top + _to_odd(*_two_sum(middle_low, top_low))
    simple = ~finite | ~np.isfinite(z) | (x == 0) | (y == 0)
    out = np.ldexp(total, shift)
    out = np_where(simple, plain, np_where((ez - shift >= 200) & (z != 0), z, out))
    small = (np.abs(out) < 2.0**-1021) & ~simple & (total != 0)  # `ldexp` has rounded again
    from fractions import Fraction  # for few values, and few programs

    for k in np.flatnonzero(small):
        exact = Fraction(x.flat[k]) * Fraction(y.flat[k]) + Fraction(z.flat[k])
        out.flat[k] = float(exact) or np.copysign(0.0, total.flat[k])
    return out


def _fma_numpy(x: Any, y: Any, z: Any) -> Any:
    x, y, z = np.broadcast_arrays(x, y, z)
    dtype = x.dtype
    with np.errstate(all="ignore"):
        if dtype == np.float64:
            return _double(x, y, z)
        x, y, z = (v.astype(np.float64) for v in (x, y, z))
        total = _to_odd(*_two_sum(np.asarray(x * y), z))  # the product is exact
        if dtype == np.float32:
            return total.astype(dtype)
        bits = total.view(np.int64)
        low = bits & ((1 << _CUT) - 1)
        kept = (bits - low) | np.where(low != 0, 1 << _CUT, 0)
        kept = np_where(np.isfinite(total), kept, bits).view(np.float64)
        return kept.astype(np.float32).astype(dtype)


def _sticky(total: Expr, error: Expr) -> Expr:
    """total + error with `_KEPT` bits of fraction, the last one 1 if that is inexact."""
    bits = bitcast(total, "int64")
    # an error of the other sign: the exact sum begins below `total`
    below = compare("ne", error, 0.0) & expr(
        "xor", "bool", compare("gt", error, 0.0), compare("gt", total, 0.0)
    )
    bits = bits - select(below, const(1, "int64"), const(0, "int64"))
    low = bits & ((1 << _CUT) - 1)
    inexact = compare("ne", low, 0) | compare("ne", error, 0.0)
    kept = (bits - low) | select(inexact, const(1 << _CUT, "int64"), const(0, "int64"))
    plain = compare("eq", error, 0.0) & compare("eq", low, 0)
    fine = compare("lt", expr("abs", "float64", total), float("inf"))
    return select(fine & ~plain, bitcast(kept, "float64"), total)


def _fma_expr(dtype: str, x: Expr, y: Expr, z: Expr) -> Expr:
    return expr("fma", dtype, x, y, z)


class Fma(Pointwise):
    """x * y + z, rounded once."""

    name = "fma"
    arity = 3
    accepts = "f"
    numpy = staticmethod(_fma_numpy)
    derivatives: ClassVar[tuple[Tangent3, Tangent3, Tangent3]] = (
        lambda t, out, x, y, z: scale(t, y),
        lambda t, out, x, y, z: scale(t, x),
        lambda t, out, x, y, z: t,
    )
    transpose = Absent("not linear")
    samples = staticmethod(samples_of("fma", "f", 3, (-2.0, 2.0)))

    def element(self, dtype: str, *args: Expr) -> Expr:
        """One instruction; for narrow floats the sum in float64, where the product is exact."""
        if not _check.is_narrow(dtype):
            return expr("fma", dtype, *args)
        x, y, z = (cast(v, "float64") for v in args)
        total, error = _two_sum(x * y, z)
        return cast(cast(_sticky(total, error), "float32"), dtype)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """A product and a sum, which XLA contracts where the machine can."""
        shape = writer.out_avals[0].shape
        whole = [writer.broadcast_to(v, shape) for v in operands]
        return writer.scalar(_fma_expr, whole)


fma = Fma()
