"""How single operations act on truncated power series.

With `x(s) = sum x[k] s^k`: where `y = f(x)` satisfies an equation that is linear in `y'`, comparing
coefficients of `s^(k-1)` gives `k y[k]` from lower ones (Griewank and Walther, Evaluating
Derivatives, 2nd edition, SIAM 2008, table 13.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.ops.families import like
from covector.trace.tracer import is_concrete

#: Known exponents up to here are powers by repeated squaring.
WHOLE = 64

#: Coefficients; after the first, None stands for 0.
Series = list[Any]

_ALL, _FIRST = slice(None), slice(0, 1)

#: Operations that are linear in these of their arguments, taken together.
LINEAR: dict[str, slice] = {
    "neg": _ALL, "real": _ALL, "imag": _ALL, "conj": _ALL, "complex": _ALL, "pad": _ALL,
    "concatenate": _ALL, "optimization_barrier": _ALL, "split": _FIRST, "name": _FIRST,
    "select_n": slice(1, None), "dynamic_slice": _FIRST, "dynamic_update_slice": slice(0, 2),
    "scatter": slice(0, None, 2), "scatter-add": slice(0, None, 2),
    "scatter-sub": slice(0, None, 2),
}  # fmt: skip


def scaled(x: Any, factor: float) -> Any:
    """`x * factor`."""
    if x is None or factor == 1:
        return x
    return ops.pointwise.mul(x, like(x, factor))


def plus(x: Any, y: Any) -> Any:
    """`x + y`."""
    if x is None or y is None:
        return y if x is None else x
    return ops.pointwise.add(x, y)


def minus(x: Any, y: Any) -> Any:
    """`x - y`."""
    if y is None:
        return x
    return ops.pointwise.neg(y) if x is None else ops.pointwise.sub(x, y)


def times(x: Any, y: Any) -> Any:
    """`x * y`."""
    return None if x is None or y is None else ops.pointwise.mul(x, y)


def over(x: Any, y: Any) -> Any:
    """`x / y`."""
    return None if x is None else ops.pointwise.div(x, y)


def product(x: Series, y: Series, k: int, low: int = 0, high: int | None = None) -> Any:
    """The coefficient `k` of a product: the sum of `x[j] y[k - j]`, `j` from `low` to `high`."""
    total = None
    for j in range(low, (k if high is None else high) + 1):
        total = plus(total, times(x[j], y[k - j]))
    return total


def weighted(x: Series, y: Series, k: int, high: int | None = None) -> Any:
    """The sum of `j x[j] y[k - j] / k`, `j` from 1 to `high`: of `y x'`, integrated."""
    total = None
    for j in range(1, (k if high is None else high) + 1):
        total = plus(total, scaled(times(x[j], y[k - j]), j / k))
    return total


def _bilinear(op: Any, args: list[Series], order: int) -> Series:
    """Leibniz' rule."""
    x, y = args
    out = [op(x[0], y[0])]
    for k in range(1, order + 1):
        total = None
        for j in range(k + 1):
            if x[j] is not None and y[k - j] is not None:
                total = plus(total, op(x[j], y[k - j]))
        out.append(_shaped(total, out[0]))
    return out


def _shaped(x: Any, out: Any) -> Any:
    """`x`, repeated to the shape of the result: an argument may be a scalar."""
    return None if x is None else ops.shape.broadcast_to(x, typeof(out).shape)


def _sum(combine: Callable[[Any, Any], Any]) -> Any:
    def rule(op: Any, args: list[Series], order: int) -> Series:
        """Coefficient by coefficient."""
        x, y = args
        first = op(x[0], y[0])
        return [first, *(_shaped(combine(a, b), first) for a, b in zip(x[1:], y[1:], strict=True))]

    return rule


def _full(args: list[Series]) -> list[Series]:
    """Arguments of one shape: scalars repeated."""
    shape = max((typeof(c[0]).shape for c in args), key=len)
    return [[None if x is None else ops.shape.broadcast_to(x, shape) for x in c] for c in args]


def _div(op: Any, args: list[Series], order: int) -> Series:
    """`x = y z`, so `x[k] = sum y[j] z[k - j]`."""
    x, z = _full(args)
    y: Series = [op(x[0], z[0])]
    for k in range(1, order + 1):
        y.append(over(minus(x[k], product(y, z, k, 0, k - 1)), z[0]))
    return y


def _square(op: Any, args: list[Series], order: int) -> Series:
    (x,) = args
    return [op(x[0]), *(product(x, x, k) for k in range(1, order + 1))]


def _exp(op: Any, args: list[Series], order: int) -> Series:
    """`y' = y x'`."""
    (x,) = args
    y: Series = [op(x[0])]
    for k in range(1, order + 1):
        y.append(weighted(x, y, k))
    return y


def _exp2(op: Any, args: list[Series], order: int) -> Series:
    """`y' = log(2) y x'`."""
    (x,) = args
    return _exp(op, [[x[0], *(scaled(c, float(np.log(2.0))) for c in x[1:])]], order)


def _expm1(op: Any, args: list[Series], order: int) -> Series:
    """As `exp`, but for the first coefficient."""
    (x,) = args
    return [op(x[0]), *_exp(ops.pointwise.exp, [x], order)[1:]]


def _log_of(x: Series, first: Any, order: int) -> Series:
    """`x y' = x'`."""
    y: Series = [first]
    for k in range(1, order + 1):
        known = None
        for j in range(1, k):
            known = plus(known, scaled(times(y[j], x[k - j]), j / k))
        y.append(over(minus(x[k], known), x[0]))
    return y


def _log(op: Any, args: list[Series], order: int) -> Series:
    (x,) = args
    return _log_of(x, op(x[0]), order)


def _log1p(op: Any, args: list[Series], order: int) -> Series:
    (x,) = args
    return _log_of([ops.pointwise.add(x[0], like(x[0], 1)), *x[1:]], op(x[0]), order)


def _pair(which: int, first: Any, second: Any, sign: int) -> Any:
    """One of two: `u' = v x'`, `v' = sign u x'`."""

    def rule(op: Any, args: list[Series], order: int) -> Series:
        (x,) = args
        u: Series = [first(x[0])]
        v: Series = [second(x[0])]
        for k in range(1, order + 1):
            new = weighted(x, v, k)
            v.append(scaled(weighted(x, u, k), sign))
            u.append(new)
        return (u, v)[which]

    return rule


_CIRCULAR = (ops.pointwise.sin, ops.pointwise.cos, -1)
_HYPERBOLIC = (ops.pointwise.sinh, ops.pointwise.cosh, 1)


def _slope_of(y: Series, k: int, sign: int) -> Any:
    """The coefficient `k` of `1 + sign y^2`."""
    square = scaled(product(y, y, k), sign)
    return plus(square, like(y[0], 1)) if not k else square


def _tangent(sign: int) -> Any:
    """`y' = (1 + sign y^2) x'`."""

    def rule(op: Any, args: list[Series], order: int) -> Series:
        (x,) = args
        y: Series = [op(x[0])]
        slope: Series = []
        for k in range(1, order + 1):
            slope.append(_slope_of(y, k - 1, sign))
            y.append(_integral(slope, x, k))
        return y

    return rule


def _integral(slope: Series, x: Series, k: int) -> Any:
    """The coefficient `k` of the integral of `slope x'`."""
    total = None
    for j in range(1, k + 1):
        total = plus(total, scaled(times(slope[k - j], x[j]), j / k))
    return total


def _logistic(op: Any, args: list[Series], order: int) -> Series:
    """`y' = (y - y^2) x'`."""
    (x,) = args
    y: Series = [op(x[0])]
    slope: Series = []
    for k in range(1, order + 1):
        slope.append(minus(y[k - 1], product(y, y, k - 1)))
        y.append(_integral(slope, x, k))
    return y


def _power(x: Series, first: Any, exponent: float | Any, order: int) -> Series:
    """`x y' = r y x'`, of a constant `r` (a number, or an array)."""
    y: Series = [first]
    for k in range(1, order + 1):
        total = None
        for j in range(1, k + 1):
            term = times(x[j], y[k - j])
            if term is None:
                continue
            if isinstance(exponent, float):
                term = scaled(term, (exponent * j - (k - j)) / k)
            else:
                factor = minus(scaled(exponent, j / k), like(exponent, (k - j) / k))
                term = times(term, factor)
            total = plus(total, term)
        y.append(over(total, x[0]))
    return y


def _root(exponent: float) -> Any:
    def rule(op: Any, args: list[Series], order: int) -> Series:
        (x,) = args
        return _power(x, op(x[0]), exponent, order)

    return rule


def _pow(op: Any, args: list[Series], order: int) -> Series:
    """Of a constant exponent, as above; else `exp(y log x)`."""
    x, y = args
    first = op(x[0], y[0])
    if all(c is None for c in y[1:]):
        whole = _whole(y[0])
        if whole is not None:
            return [_shaped(c, first) for c in [first, *_repeated(x, whole, order)[1:]]]
        exponent = y[0]
        if not dtypes.issubdtype(typeof(exponent).dtype, np.inexact):
            exponent = ops.cast.ConvertElementType(typeof(x[0]).dtype)(exponent)
        return _power([_shaped(c, first) for c in x], first, _shaped(exponent, first), order)
    x, y = _full(args)
    log = _log_of(x, ops.pointwise.log(x[0]), order)
    inside = _bilinear(ops.pointwise.mul, [y, log], order)
    out: Series = [first]
    for k in range(1, order + 1):
        out.append(weighted(inside, out, k))
    return out


def _whole(exponent: Any) -> int | None:
    """A known, small, whole exponent: powers of it have a series at 0 too."""
    if not is_concrete(exponent) or typeof(exponent).shape:
        return None
    value = np.asarray(exponent)
    if value.dtype.kind == "c":
        return None
    number = float(value)
    return int(number) if number.is_integer() and abs(number) <= WHOLE else None


def _integer_pow(op: Any, args: list[Series], order: int) -> Series:
    (x,) = args
    return [op(x[0]), *_repeated(x, op.y, order)[1:]]


def _repeated(x: Series, exponent: int, order: int) -> Series:
    """By repeated squaring, which is right at 0 too."""
    n = abs(exponent)
    one: Series = [like(x[0], 1)] + [None] * order
    out: Series | None = None
    power = x
    while n:
        if n & 1:
            out = power if out is None else _bilinear(ops.pointwise.mul, [out, power], order)
        n >>= 1
        if n:
            power = _bilinear(ops.pointwise.mul, [power, power], order)
    if out is None:
        return one
    if exponent < 0:
        out = _div(ops.pointwise.div, [one, out], order)
    return out


#: name -> `rule(op, series of the arguments, order)`: the series of the result.
RULES: dict[str, Callable[[Any, list[Series], int], Series]] = {
    "add": _sum(plus),
    "add_any": _sum(plus),
    "sub": _sum(minus),
    "mul": _bilinear,
    "scale_tangent": _bilinear,
    "scale_tangents": _bilinear,
    "dot_general": _bilinear,
    "conv_general_dilated": _bilinear,
    "div": _div,
    "square": _square,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "sin": _pair(0, *_CIRCULAR),
    "cos": _pair(1, *_CIRCULAR),
    "sinh": _pair(0, *_HYPERBOLIC),
    "cosh": _pair(1, *_HYPERBOLIC),
    "tan": _tangent(1),
    "tanh": _tangent(-1),
    "logistic": _logistic,
    "sqrt": _root(0.5),
    "rsqrt": _root(-0.5),
    "cbrt": _root(1 / 3),
    "pow": _pow,
    "integer_pow": _integer_pow,
}
