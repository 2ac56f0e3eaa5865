"""The meaning of a scalar expression, in NumPy: every op of `ARITY`, for every dtype.

The slow, plain interpreter of the expressions in `ir/scalar.py`: an oracle for the emitters, the
test bench of the expansions beside this file, the inner part of the loop programs' interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from covector.compiler.math.formats import NARROW_FLOATS, numpy_dtype
from covector.ir.scalar import COMPARISONS, Expr, walk
from covector.ops.arithmetic import nextafter_numpy
from covector.ops.families import scipy_special

Leaf = Callable[[Expr], Any]

_EXACT_IN_NARROW = frozenset(
    {"const", "load", "name", "index", "select", "select_rare", "cast", "bitcast", "nextafter"}
)
_SIGNED_OF = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED_OF = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def evaluate(root: Expr, env: Mapping[str, Any], leaf: Leaf | None = None) -> np.ndarray:
    """The value of `root` where each 'name' has its array in `env`; arrays broadcast.

    `leaf` gives the value of a 'load' or an 'index', and of a 'name' that `env` lacks.

    >>> from covector.ir.scalar import fma, name
    >>> x = name("x", "float32")
    >>> evaluate(fma(x, x, 1.0), {"x": np.float32([1, 2])}).tolist()
    [2.0, 5.0]
    """
    return evaluate_all([root], env, leaf)[0]


def evaluate_all(
    roots: list[Expr], env: Mapping[str, Any], leaf: Leaf | None = None
) -> list[np.ndarray]:
    """As `evaluate`, of several expressions at once: what they share is computed once."""
    values: dict[Expr, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in walk(*roots):
            values[node] = _value(node, [values[a] for a in node.args], env, leaf)
    return [values[root] for root in roots]


def _value(node: Expr, args: list[Any], env: Mapping[str, Any], leaf: Leaf | None) -> np.ndarray:
    dtype = numpy_dtype(node.dtype)
    if node.op == "const":
        return _literal(node.extra, dtype)
    if node.op in ("name", "load", "index"):
        if node.op == "name" and node.extra in env:
            return np.asarray(env[node.extra], dtype)
        if leaf is None:
            raise KeyError(f"evaluate: no value for {node.op} {node}: give one in env or by leaf")
        return np.asarray(leaf(node), dtype)
    if node.op == "cast":
        return _cast(args[0], dtype)
    if node.op == "bitcast":
        return np.asarray(args[0]).view(dtype)
    kind = node.args[0].dtype
    if kind in NARROW_FLOATS and node.op not in _EXACT_IN_NARROW:
        args = [a.astype(np.float32) if a.dtype.name == kind else a for a in args]
    function = _rule(node.op, args[0].dtype)
    return _cast(np.asarray(function(*args)), dtype)


def _literal(value: Any, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        bits = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        return np.array(bits, _UNSIGNED_OF[dtype.itemsize]).view(dtype)
    return np.array(value).astype(dtype)


def _rule(op: str, dtype: np.dtype) -> Callable[..., Any]:
    if op in _ANY:
        return _ANY[op]
    kind = {"b": _BOOL, "i": _INTEGER, "u": _INTEGER, "c": _COMPLEX}.get(dtype.kind, _FLOAT)
    if op in kind:
        return kind[op]
    if dtype.kind in "fc" and op in _WIDE:
        return _rounded(_WIDE[op])
    raise NotImplementedError(f"{op} has no meaning for elements of type {dtype.name}")


def _cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = (x != 0) if dtype.kind == "b" else np.real(x)
    if dtype.kind == "b":
        return x != 0
    if _is_float(x.dtype) and dtype.kind in "iu":
        return _float_to_integer(x, dtype)
    if dtype.name in NARROW_FLOATS and x.dtype != np.float32:
        x = x.astype(np.float32)  # rounds twice, as machines (and XLA) do
    return x.astype(dtype)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name in NARROW_FLOATS


def _float_to_integer(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype) if dtype.name.endswith("int4") else np.iinfo(dtype)
    x = x.astype(np.float64)
    low, high = float(info.min), float(info.max)  # high may round up to a power of two
    fits = (x >= low) & (x < high)
    inside = np.where(fits, x, 0).astype(dtype)
    out = np.where(x >= high, np.array(info.max, dtype), inside)
    return np.where(x < low, np.array(info.min, dtype), out)


# Integers and booleans


def _bits_of(x: np.ndarray) -> np.ndarray:
    return x.view(_UNSIGNED_OF[x.dtype.itemsize])


def _integer_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wraps = _wraps(x, y)
    q = np.where(y == 0, 1, np.where(wraps, 1, y)).astype(y.dtype)
    quotient = np.floor_divide(x, q)
    inexact = quotient * q != x
    if x.dtype.kind == "i":  # from floor to truncation
        quotient = quotient + (inexact & ((x < 0) != (q < 0))).astype(x.dtype)
    return np.where(y == 0, np.array(-1).astype(x.dtype), np.where(wraps, x, quotient))


def _integer_rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, x, (x - _integer_div(x, y) * y).astype(x.dtype))


def _wraps(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind == "u":
        return np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    return (y == -1) & (x == np.iinfo(x.dtype).min)


def _shift(kind: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def function(x: np.ndarray, by: np.ndarray) -> np.ndarray:
        width = 8 * x.dtype.itemsize
        unsigned, signed = _UNSIGNED_OF[x.dtype.itemsize], _SIGNED_OF[x.dtype.itemsize]
        amount = by.view(_UNSIGNED_OF[by.dtype.itemsize])
        over = amount >= width
        amount = np.where(over, width - 1, amount).astype(unsigned)
        if kind == "arithmetic":
            return np.right_shift(x.view(signed), amount.view(signed)).view(x.dtype)
        shift = np.left_shift if kind == "left" else np.right_shift
        return np.where(over, unsigned(0), shift(x.view(unsigned), amount)).view(x.dtype)

    return function


def _mulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    if width < 64:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        product = x.astype(wide) * y.astype(wide)
        return (product >> wide(width)).astype(x.dtype)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = x.view(np.uint64), y.view(np.uint64)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    cross = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> shift) + (cross >> shift)
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return high.view(x.dtype)


def _count_leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = _bits_of(x).astype(np.uint64)
    count = np.full(bits.shape, 8 * x.dtype.itemsize, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >> np.uint64(shift)
        count = np.where(high != 0, count - shift, count)
        bits = np.where(high != 0, high, bits)
    return (count - (bits != 0)).astype(x.dtype)


def _integer_power(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    result = np.ones(np.broadcast_shapes(x.shape, n.shape), x.dtype)
    base, left = x, n
    for _ in range(8 * n.dtype.itemsize - (n.dtype.kind == "i")):
        result = np.where(left & 1 != 0, result * base, result)
        base, left = base * base, left >> 1
    return np.where(n < 0, np.zeros_like(result), result) if n.dtype.kind == "i" else result


# Floats


def _round_to_odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The float64 `total` of total + error, moved to an odd last bit if `error` is not 0."""
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    even = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    return np.where(even, bits + step, bits).view(np.float64)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    split = 134217729.0  # Veltkamp: 2**27 + 1
    a1 = a * split - (a * split - a)
    b1 = b * split - (b * split - b)
    a0, b0 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c rounded once (Boldo and Melquiond 2008: round to odd, then to nearest)."""
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b.astype(np.float64)  # exact
        return _round_to_odd(*_two_sum(product, c.astype(np.float64))).astype(np.float32)
    return _fma64(*np.broadcast_arrays(a, b, c))


def _fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    plain = a * b + c
    # Scale to significands in [1/2, 1), and c alike: as small as can matter, or too big for a * b.
    (a1, ea), (b1, eb), (c1, ec) = np.frexp(a), np.frexp(b), np.frexp(c)
    shift = (ea + eb).astype(np.int64)
    c2 = np.ldexp(c1, np.clip(ec - shift, -200, 200))
    high, low = _two_product(a1, b1)
    sum_high, sum_low = _two_sum(c2, low)
    top, top_low = _two_sum(high, sum_high)
    total = top + _round_to_odd(*_two_sum(sum_low, top_low))
    result = np.array(np.ldexp(total, shift))
    simple = ~np.isfinite(a1 + b1 + c1) | (a == 0) | (b == 0)
    result = np.where(simple, plain, np.where((ec - shift >= 200) & (c != 0), c, result))
    for at in zip(*np.nonzero((np.abs(result) < 3e-308) & ~simple & (total != 0)), strict=True):
        result[at] = _exact_fma(float(a[at]), float(b[at]), float(c[at]))  # denormal: rounds twice
    return result


def _exact_fma(a: float, b: float, c: float) -> float:
    if a == 0 or b == 0:
        return a * b + c
    from fractions import Fraction  # for the reference alone

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _extremum(pick: Any, zero_sign: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        both = (np.signbit(x) | np.signbit(y)) if zero_sign else (np.signbit(x) & np.signbit(y))
        zero = np.where(both, x.dtype.type(-0.0), x.dtype.type(0.0))
        return np.where((x == 0) & (y == 0), zero, pick(x, y))

    return function


def _round_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    step = np.where(np.abs(x - whole) >= 0.5, np.copysign(x.dtype.type(1), x), x.dtype.type(0))
    return np.copysign(whole + step, x)


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def _rounded(function: Any) -> Callable[..., np.ndarray]:
    """`function` in double precision, rounded to the arguments' own."""

    def rounded(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        wide = np.complex128 if dtype.kind == "c" else np.float64
        return np.asarray(function(*(a.astype(wide) for a in args))).astype(dtype)

    return rounded


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _digamma(x: np.ndarray) -> np.ndarray:
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole, np.nan, scipy_special("digamma")(np.where(pole, 1.0, x)))


def _lgamma(x: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(x), np.inf, scipy_special("gammaln")(x))


def _float_pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return np.power(x.astype(wide), y.astype(wide)).astype(x.dtype)


def _complex_sign(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, x, x / np.abs(x))


def _complex(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    re, im = np.broadcast_arrays(re, im)
    out = np.empty(re.shape, np.complex64 if re.dtype == np.float32 else np.complex128)
    out.real, out.imag = re, im
    return out


#: Ops whose NumPy spelling is the same for all element types.
_ANY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "square": lambda x: x * x,
    "select": np.where,
    "select_rare": np.where,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "complex": _complex,
    "fma": _fma,
}
_BOOL: dict[str, Callable[..., Any]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "max": np.logical_or,
    "min": np.logical_and,
    "sub": np.logical_xor,
}
_INTEGER: dict[str, Callable[..., Any]] = {
    "sub": np.subtract,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "div": _integer_div,
    "rem": _integer_rem,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": _shift("left"),
    "shift_right_logical": _shift("logical"),
    "shift_right_arithmetic": _shift("arithmetic"),
    "mulhi": _mulhi,
    "population_count": lambda x: np.bitwise_count(_bits_of(x)),
    "clz": _count_leading_zeros,
    "pow": _integer_power,
}
_FLOAT: dict[str, Callable[..., Any]] = {
    "sub": np.subtract,
    "neg": np.negative,
    "abs": np.abs,
    "sign": _sign,
    "div": np.divide,
    "rem": np.fmod,
    "max": _extremum(np.maximum, zero_sign=False),
    "min": _extremum(np.minimum, zero_sign=True),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_even": np.rint,
    "round_away": _round_away,
    "trunc": np.trunc,
    "is_finite": np.isfinite,
    "nextafter": nextafter_numpy,
    "real": lambda x: x,
    "imag": np.zeros_like,
    "conj": lambda x: x,
    "pow": _float_pow,
}
_COMPLEX: dict[str, Callable[..., Any]] = {
    "sub": np.subtract,
    "neg": np.negative,
    "abs": np.abs,
    "sign": _complex_sign,
    "div": np.divide,
    "is_finite": np.isfinite,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conjugate,
    "pow": _float_pow,
}
#: Evaluated in double precision and rounded: within about an ulp for float64, half for the rest.
_WIDE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "logistic": _logistic,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "erf": scipy_special("erf"),
    "erfc": scipy_special("erfc"),
    "erf_inv": scipy_special("erfinv"),
    "lgamma": _lgamma,
    "digamma": _digamma,
    "bessel_i0e": scipy_special("i0e"),
    "bessel_i1e": scipy_special("i1e"),
}

#: Every op this file gives a meaning to.
EVALUATED = (
    frozenset({"const", "load", "name", "index", "cast", "bitcast"})
    | _ANY.keys()
    | _BOOL.keys()
    | _INTEGER.keys()
    | _FLOAT.keys()
    | _COMPLEX.keys()
    | _WIDE.keys()
    | COMPARISONS
)
