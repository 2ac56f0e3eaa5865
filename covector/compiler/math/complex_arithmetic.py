"""Arithmetic of pairs (re, im), as real expressions."""

from __future__ import annotations

import math

from covector.compiler.math.formats import (
    absolute,
    div,
    eq,
    format_of,
    gt,
    lt,
    ne,
    sign_of,
    square_root,
    with_sign,
)
from covector.ir.scalar import Expr, const, fma, select

Pair = tuple[Expr, Expr]


def neg(x: Pair) -> Pair:
    return -x[0], -x[1]


def conj(x: Pair) -> Pair:
    return x[0], -x[1]


def add(x: Pair, y: Pair) -> Pair:
    return x[0] + y[0], x[1] + y[1]


def sub(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]


def mul(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def square(x: Pair) -> Pair:
    """Its real part as a product, which overflows only if it has to."""
    re, im = x
    half = re * im
    return (re - im) * (re + im), half + half


def multiply_add(x: Pair, y: Pair, z: Pair) -> Pair:
    return add(mul(x, y), z)


def times_i(x: Pair) -> Pair:
    return -x[1], x[0]


def over_i(x: Pair) -> Pair:
    return x[1], -x[0]


def _scale(size: Expr) -> Expr:
    """A power of two that brings a size to [1, 2), or as near as a normal number can."""
    f = format_of(size)
    exponent = f.bits(size) & (((2 << (f.width - f.fraction - 2)) - 1) << f.fraction)
    greatest = const(2 * f.bias << f.fraction, f.integer)
    bits = greatest - exponent
    least = const(1 << f.fraction, f.integer)
    return f.from_bits(select(lt(bits, least), least, bits))


def _dot(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """a b + c d to about an ulp, whatever cancels (W. Kahan)."""
    product = c * d
    return fma(a, b, product) + fma(c, d, -product)


def divide(x: Pair, y: Pair) -> Pair:
    """With the divisor scaled to about 1; infinities and zeros as in C99, G.5.1."""
    (a, b), (c, d) = x, y
    ac, ad = absolute(c), absolute(d)
    s = _scale(select(gt(ad, ac), ad, ac)) * 0.25
    cs, ds = c * s, d * s
    size = fma(cs, cs, ds * ds)
    re, im = div(_dot(a, cs, b, ds) * s, size), div(_dot(b, cs, -a, ds) * s, size)
    infinite = is_infinite(x)
    limit = is_infinite(y)
    # an infinite numerator over a finite divisor; a finite one over 0; a finite one over infinity
    unit = select(infinite, const(math.inf, a.dtype), 0.0)
    a1, b1 = _unit(a, infinite), _unit(b, infinite)
    c1, d1 = _unit(c, limit), _unit(d, limit)
    lost = infinite & ~limit & is_finite(y) | limit & is_finite(x)
    re = select(lost, unit * (a1 * c1 + b1 * d1), re)
    im = select(lost, unit * (b1 * c1 - a1 * d1), im)
    none = eq(c, 0.0) & eq(d, 0.0)
    pole = with_sign(const(math.inf, c.dtype), sign_of(c))
    return select(none, pole * a, re), select(none, pole * b, im)


def _unit(x: Expr, boxed: Expr) -> Expr:
    """Where `boxed`, an infinity becomes 1 and all else 0, with the sign."""
    size = select(eq(absolute(x), math.inf), const(1.0, x.dtype), 0.0)
    return select(boxed, with_sign(size, sign_of(x)), x)


def is_infinite(x: Pair) -> Expr:
    return eq(absolute(x[0]), math.inf) | eq(absolute(x[1]), math.inf)


def is_finite(x: Pair) -> Expr:
    return lt(absolute(x[0]), math.inf) & lt(absolute(x[1]), math.inf)


def modulus(x: Pair) -> Expr:
    """sqrt(re**2 + im**2) without overflow; infinite if a part is, though the other be NaN."""
    a, b = absolute(x[0]), absolute(x[1])
    s = _scale(select(gt(b, a), b, a))
    u, v = a * s, b * s
    size = div(square_root(fma(u, u, v * v)), s)
    return select(is_infinite(x), const(math.inf, a.dtype), size)


def sign(x: Pair) -> Pair:
    s = _scale(select(gt(absolute(x[1]), absolute(x[0])), absolute(x[1]), absolute(x[0])))
    u, v = x[0] * s, x[1] * s
    size = square_root(fma(u, u, v * v))
    none = eq(x[0], 0.0) & eq(x[1], 0.0)
    return select(none, x[0], div(u, size)), select(none, x[1], div(v, size))


def equal(x: Pair, y: Pair) -> Expr:
    return eq(x[0], y[0]) & eq(x[1], y[1])


def not_equal(x: Pair, y: Pair) -> Expr:
    return ne(x[0], y[0]) | ne(x[1], y[1])
