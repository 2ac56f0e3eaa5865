"""Elementary functions of pairs (re, im), as real expressions.

After W. Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's sign
bit" (The State of the Art in Numerical Analysis, 1987): signs of zeros choose the side of a cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from covector.compiler.math import coefficients
from covector.compiler.math.complex_arithmetic import (
    Pair,
    add,
    divide,
    is_infinite,
    modulus,
    mul,
    over_i,
    times_i,
)
from covector.compiler.math.exponential import exp_parts
from covector.compiler.math.formats import (
    F32,
    absolute,
    at_least,
    at_most,
    div,
    eq,
    flip,
    format_of,
    gt,
    horner,
    lt,
    ne,
    sign_of,
    square_root,
    two_product,
    two_sum,
    with_sign,
)
from covector.compiler.math.logarithm import log_of_sum
from covector.ir.scalar import Expr, const, expr, fma, select


def _op(op: str, *args: Expr) -> Expr:
    return expr(op, args[0].dtype, *args)


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _one(like: Expr) -> Pair:
    return _number(1.0, like), _number(0.0, like)


# Exponentials and trigonometry


def _exp_parts(x: Expr) -> tuple[Expr, Expr]:
    """p and s with e**x = p s s, far beyond where that is finite: a sine may undo an overflow."""
    low, high = (-105.0, 175.0) if format_of(x) is F32 else (-747.0, 1400.0)
    p, s = exp_parts(at_least(at_most(x, high), low))
    return select(eq(x, math.inf), math.inf, p), s


def exp(x: Pair) -> Pair:
    re, im = x
    p, s = _exp_parts(re)
    return p * _op("cos", im) * s * s, select(eq(im, 0.0), im, p * _op("sin", im) * s * s)


def exp2(x: Pair) -> Pair:
    """As exp, of x log 2, where the angle's rounding error counts."""
    high, low = coefficients.LN2[x[1].dtype]
    angle, error = two_product(x[1], _number(high, x[1]))
    error = fma(x[1], low, error)
    sine, cosine, size = _op("sin", angle), _op("cos", angle), _op("exp2", x[0])
    im = size * fma(error, cosine, sine)
    return size * fma(-error, sine, cosine), select(eq(angle, 0.0), angle, im)


def expm1(x: Pair) -> Pair:
    """expm1(re) cos im - (1 - cos im), and the imaginary part of exp."""
    sine, cosine = _op("sin", x[1]), _op("cos", x[1])
    one = _number(1.0, cosine)
    rest = select(gt(cosine, 0.0), div(sine * sine, cosine + 1.0), one - cosine)
    grown = _op("expm1", x[0])
    near = fma(grown, cosine, -rest)
    re, im = exp(x)
    return select(gt(x[0], 40.0), re, near), im


def logistic(x: Pair) -> Pair:
    """1 / (1 + e**-x), or e**x / (1 + e**x) where that exponential is the smaller one."""
    left = lt(x[0], 0.0)
    y = select(left, x[0], -x[0]), select(left, x[1], -x[1])
    e, one = exp(y), _one(x[0])
    over = select(left, e[0], 1.0), select(left, e[1], 0.0)
    return divide(over, add(one, e))


def _sine_and_cosine(x: Pair, sine: Expr, cosine: Expr) -> tuple[Expr, Expr]:
    """(sine * cosh im, cosine * sinh im), which overflow only if they have to."""
    im = x[1]
    p, s = _exp_parts(absolute(im))
    p = p * 0.5
    small = div(0.25, p * s * s)  # e**-|im| / 2
    z = im * im
    near = fma(im * z, horner(z, coefficients.SINH[im.dtype]), im) * cosine
    far = flip(cosine * p * s * s - cosine * small, sign_of(im))
    return fma(sine, small, sine * p * s * s), select(lt(absolute(im), 1.0), near, far)


def sin(x: Pair) -> Pair:
    re = x[0]
    real, imag = _sine_and_cosine(x, _op("sin", re), _op("cos", re))
    return select(eq(re, 0.0), re, real), imag


def cos(x: Pair) -> Pair:
    """cos re cosh im - i sin re sinh im."""
    re, im = x
    real, imag = _sine_and_cosine(x, _op("cos", re), _op("sin", re))
    return real, -select(eq(re, 0.0), flip(re, sign_of(im)), imag)


def sinh(x: Pair) -> Pair:
    return over_i(sin(times_i(x)))


def cosh(x: Pair) -> Pair:
    return cos(times_i(x))


def tanh(x: Pair) -> Pair:
    """By t = tan im and s = sinh |re|; beyond 21 the real part is 1."""
    re, im = x
    f = format_of(re)
    a = absolute(re)
    t, s = _op("tan", im), _op("sinh", at_most(a, 22.0))
    beta, rho = fma(t, t, 1.0), square_root(fma(s, s, 1.0))
    under = fma(beta * s, s, 1.0)
    upright = gt(absolute(t), 2.0 ** (f.bias // 2))  # t**2 might overflow
    real = select(upright, div(rho, s), div(beta * rho * s, under))
    imag = select(upright, div(div(1.0, t), s * s), div(t, under))
    far = gt(a, 21.0)
    # sin(2 im) = 2 t / (1 + t**2)
    wave = select(upright, div(1.0, t), div(t, beta)) * _op("exp", a * -2.0) * 4.0
    tail = select(lt(a, math.inf), wave, flip(_number(0.0, im), sign_of(im)))
    limit = select(lt(a, math.inf) & ne(t, t), t, 1.0)
    real = with_sign(absolute(select(far, limit, real)), sign_of(re))
    return select(eq(a, 0.0), re, real), select(eq(im, 0.0), im, select(far, tail, imag))


def tan(x: Pair) -> Pair:
    return over_i(tanh(times_i(x)))


# Logarithms, roots, powers


def _log_of_size(re: Expr, im: Expr, re_low: Expr | None = None) -> Expr:
    """log |re + re_low + i im|: of the sum of squares to twice the precision, for sizes near 1."""
    f = format_of(re)
    a, b = absolute(re), absolute(im)
    size = select(gt(b, a), b, a)
    scale, shift = f.const(1.0), f.const(0.0)
    # squares of the greatest and least sizes are out of range
    half = f.bias // 2
    down, up = gt(size, 2.0 ** (half - 2)), lt(size, 2.0 ** -(half - 30))
    for far, by in ((down, -half - 2), (up, half)):
        scale = select(far, f.const(2.0**by), scale)
        shift = select(far, f.const(-by * math.log(2)), shift)
    u, v = a * scale, b * scale
    (uu, uu_low), (vv, vv_low) = two_product(u, u), two_product(v, v)
    total, error = two_sum(uu, vv)
    error = error + (uu_low + vv_low)
    if re_low is not None:
        error = fma(re * 2.0, re_low, error)
    y = fma(log_of_sum(total, error), 0.5, shift)
    y = select(_is_nan((a, b)), math.nan, select(eq(size, 0.0), -math.inf, y))
    return select(is_infinite((re, im)), math.inf, y)


def log(x: Pair) -> Pair:
    return _log_of_size(*x), _op("atan2", x[1], x[0])


def log1p(x: Pair) -> Pair:
    total, error = two_sum(x[0], 1.0)
    error = select(lt(absolute(x[0]), 2.0**30), error, 0.0)
    return _log_of_size(total, x[1], error), _op("atan2", x[1], total)


def sqrt(x: Pair) -> Pair:
    """t = sqrt((|re| + |x|) / 2) is one part, im / (2 t) the other."""
    re, im = x
    f = format_of(re)
    a, b = absolute(re), absolute(im)
    size = select(gt(b, a), b, a)
    big, small = gt(size, 2.0 ** (f.bias - 3)), lt(size, 2.0 ** -(f.bias - 30))
    up, down = 2.0 ** (f.fraction + 1 + (f.fraction + 1) % 2), 2.0**-4
    scale = select(big, f.const(down), select(small, f.const(up), 1.0))
    back = select(big, f.const(down**-0.5), select(small, f.const(up**-0.5), 1.0))
    u, v = a * scale, b * scale
    t = square_root((u + modulus((u, v))) * 0.5)
    other = div(v, t + t) * back
    t = t * back
    left = lt(f.bits(re), 0)
    real, imag = select(left, other, t), select(left, t, other)
    none, unbounded = eq(a, 0.0) & eq(b, 0.0), eq(b, math.inf)
    real = select(none, 0.0, select(unbounded, math.inf, real))
    imag = select(none, 0.0, select(unbounded, math.inf, imag))
    return real, with_sign(imag, sign_of(im))


def rsqrt(x: Pair) -> Pair:
    return divide(_one(x[0]), sqrt(x))


def pow(x: Pair, y: Pair) -> Pair:
    """e**(y log x), to about |y log x| ulps; 0**y is 0 for re y > 0, 1 for y = 0, else NaN."""
    re, im = exp(mul(y, log(x)))
    none = eq(x[0], 0.0) & eq(x[1], 0.0)
    unit = eq(y[0], 0.0) & eq(y[1], 0.0)
    at_zero = select(gt(y[0], 0.0), _number(0.0, re), math.nan)
    re, im = select(none, at_zero, re), select(none, at_zero, im)
    return select(unit, 1.0, re), select(unit, 0.0, im)


# Inverse functions


def _roots(x: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - x), sqrt(1 + x)."""
    one = _number(1.0, x[0])
    return sqrt((one - x[0], -x[1])), sqrt((x[0] + 1.0, x[1]))


def _cross(x: Pair, y: Pair) -> Expr:
    """The imaginary part of conj(x) y."""
    return x[0] * y[1] - x[1] * y[0]


def _is_nan(x: Pair) -> Expr:
    return ne(x[0], x[0]) | ne(x[1], x[1])


def _angle(y: Expr, x: Expr) -> Expr:
    """That of an infinite point: a multiple of 45 degrees; NaN if a part is."""
    near = [
        with_sign(select(eq(absolute(v), math.inf), _number(1.0, v), 0.0), sign_of(v))
        for v in (y, x)
    ]
    return select(_is_nan((x, y)), math.nan, _op("atan2", *near))


def _infinity(sign: Expr) -> Expr:
    return with_sign(_number(math.inf, sign), sign_of(sign))


def asin(x: Pair) -> Pair:
    minus, plus = _roots(x)
    real = _op("atan2", x[0], mul(minus, plus)[0])
    imag = _op("asinh", _cross(minus, plus))
    far = is_infinite(x)
    real = select(far, _angle(x[0], absolute(x[1])), real)
    return real, select(far, _infinity(x[1]), imag)


def acos(x: Pair) -> Pair:
    minus, plus = _roots(x)
    real, imag = _op("atan2", minus[0], plus[0]) * 2.0, _op("asinh", _cross(plus, minus))
    far = is_infinite(x)
    real = select(far, _angle(absolute(x[1]), x[0]), real)
    return real, select(far, -_infinity(x[1]), imag)


def acosh(x: Pair) -> Pair:
    minus, plus = sqrt((x[0] - 1.0, x[1])), sqrt((x[0] + 1.0, x[1]))
    real = _op("asinh", minus[0] * plus[0] + minus[1] * plus[1])
    imag = _op("atan2", minus[1], plus[0]) * 2.0
    far = is_infinite(x)
    return select(far, math.inf, real), select(far, _angle(x[1], x[0]), imag)


def asinh(x: Pair) -> Pair:
    return over_i(asin(times_i(x)))


def atanh(x: Pair) -> Pair:
    re, im = x
    f = format_of(re)
    a, b = absolute(re), absolute(im)
    least = 2.0 ** (2 - f.bias // 2)  # its square is normal
    gap, rise = f.const(1.0) - a, at_least(b, least)
    real = _op("log1p", div(a * 4.0, fma(gap, gap, rise * rise))) * 0.25
    imag = _op("atan2", b * 2.0, gap * (a + 1.0) - b * b) * 0.5
    # far from 0: 1 / x to first order, and a right angle
    far = gt(a, 1 / least) | gt(b, 1 / least)
    scale = select(far, f.const(least), 1.0)
    u, v = a * scale, b * scale
    limit = select(is_infinite(x), 0.0, div(u, fma(u, u, v * v)) * scale)
    real = select(far, limit, select(eq(a, 1.0) & eq(b, 0.0), math.inf, real))
    imag = select(far, math.pi / 2, imag)
    return with_sign(real, sign_of(re)), with_sign(imag, sign_of(im))


def atan(x: Pair) -> Pair:
    return over_i(atanh(times_i(x)))


Rule = Callable[..., Pair]
#: Exact enough in the width of the parts.
NATIVE_WIDTH: Final[dict[str, Rule]] = {
    "exp": exp, "sin": sin, "cos": cos, "sinh": sinh, "cosh": cosh, "log": log, "sqrt": sqrt,
}  # fmt: skip
#: With cancellations or wide ranges inside: done in float64.
WIDE: Final[dict[str, Rule]] = {
    "exp2": exp2, "expm1": expm1, "logistic": logistic, "tanh": tanh, "tan": tan, "log1p": log1p,
    "rsqrt": rsqrt, "pow": pow, "asin": asin, "acos": acos, "atan": atan, "asinh": asinh,
    "acosh": acosh, "atanh": atanh,
}  # fmt: skip
