"""Elementwise elementary functions: exponentials, logarithms, circular and hyperbolic functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector.ir.scalar import Expr, const, expr
from covector.ops.arithmetic import add, div, mul, neg, reciprocal, sub
from covector.ops.families import binary, like, scale, unary, wide
from covector.ops.power import rsqrt

LOG_2 = 0.6931471805599453


def _one_minus_square(x: Any) -> Any:
    return mul(sub(like(x, 1), x), add(like(x, 1), x))


def _one_plus_square(x: Any) -> Any:
    return add(like(x, 1), mul(x, x))


def _exp2_hlo(self: Any, writer: Any, x: Any) -> Any:
    return writer.emit("stablehlo.power", [writer.full(writer.aval(x), 2), x])


def _logistic_numpy(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


exp = unary("exp", "fc", wide(np.exp), lambda t, y, x: scale(t, y), hlo="exponential")
exp2 = unary(
    "exp2",
    "fc",
    wide(np.exp2),
    lambda t, y, x: scale(t, mul(y, like(y, LOG_2))),
    stablehlo=_exp2_hlo,
)
expm1 = unary(
    "expm1",
    "fc",
    wide(np.expm1),
    lambda t, y, x: scale(t, add(y, like(y, 1))),
    hlo="exponential_minus_one",
)
log = unary(
    "log",
    "fc",
    wide(np.log),
    lambda t, y, x: scale(t, reciprocal(x)),
    hlo="log",
    domain=(0.1, 3.0),
)
log1p = unary(
    "log1p",
    "fc",
    wide(np.log1p),
    lambda t, y, x: scale(t, reciprocal(add(x, like(x, 1)))),
    hlo="log_plus_one",
    domain=(-0.8, 3.0),
)
logistic = unary(
    "logistic",
    "fc",
    wide(_logistic_numpy),
    lambda t, y, x: scale(t, mul(y, sub(like(y, 1), y))),
    hlo="logistic",
)

sin: Any = unary("sin", "fc", wide(np.sin), lambda t, y, x: scale(t, cos(x)), hlo="sine")
cos: Any = unary("cos", "fc", wide(np.cos), lambda t, y, x: scale(t, neg(sin(x))), hlo="cosine")
tan = unary(
    "tan",
    "fc",
    wide(np.tan),
    lambda t, y, x: scale(t, _one_plus_square(y)),
    hlo="tan",
    domain=(-1.2, 1.2),
)
asin = unary(
    "asin",
    "fc",
    wide(np.arcsin),
    lambda t, y, x: scale(t, rsqrt(_one_minus_square(x))),
    hlo="chlo.asin",
    domain=(-0.9, 0.9),
)
acos = unary(
    "acos",
    "fc",
    wide(np.arccos),
    lambda t, y, x: scale(t, neg(rsqrt(_one_minus_square(x)))),
    hlo="chlo.acos",
    domain=(-0.9, 0.9),
)
atan = unary(
    "atan",
    "fc",
    wide(np.arctan),
    lambda t, y, x: scale(t, reciprocal(_one_plus_square(x))),
    hlo="chlo.atan",
)


def _atan2_numpy(y: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.arctan2(y, x)
    # -i log((x + i y) / sqrt(x^2 + y^2))
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _atan2_element(self: Any, dtype: str, y: Expr, x: Expr) -> Expr:
    if not dtype.startswith("complex"):
        return expr("atan2", dtype, y, x)
    size = expr("sqrt", dtype, x * x + y * y)
    log = expr("log", dtype, expr("div", dtype, x + y * const(1j, dtype), size))
    return log * const(-1j, dtype)


def _inverse_square(x: Any, y: Any) -> Any:
    return reciprocal(add(mul(x, x), mul(y, y)))


atan2 = binary(
    "atan2",
    "fc",
    wide(_atan2_numpy),
    (
        lambda t, out, y, x: scale(t, mul(x, _inverse_square(x, y))),
        lambda t, out, y, x: scale(t, mul(neg(y), _inverse_square(x, y))),
    ),
    hlo="atan2",
    real_hlo=True,
    element=_atan2_element,
    domain=(0.2, 2.0),
)

sinh: Any = unary("sinh", "fc", wide(np.sinh), lambda t, y, x: scale(t, cosh(x)), hlo="chlo.sinh")
cosh: Any = unary("cosh", "fc", wide(np.cosh), lambda t, y, x: scale(t, sinh(x)), hlo="chlo.cosh")
tanh = unary(
    "tanh", "fc", wide(np.tanh), lambda t, y, x: scale(t, _one_minus_square(y)), hlo="tanh"
)
asinh = unary(
    "asinh",
    "fc",
    wide(np.arcsinh),
    lambda t, y, x: scale(t, rsqrt(_one_plus_square(x))),
    hlo="chlo.asinh",
)
acosh = unary(
    "acosh",
    "fc",
    wide(np.arccosh),
    # two roots, not the root of the product, for the branch cut of complex arguments
    lambda t, y, x: scale(t, mul(rsqrt(sub(x, like(x, 1))), rsqrt(add(x, like(x, 1))))),
    hlo="chlo.acosh",
    domain=(1.1, 3.0),
)
atanh = unary(
    "atanh",
    "fc",
    wide(np.arctanh),
    lambda t, y, x: scale(t, div(like(x, 1), _one_minus_square(x))),
    hlo="chlo.atanh",
    domain=(-0.9, 0.9),
)
