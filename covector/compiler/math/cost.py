"""What scalar operations cost, in additions of the same width: for the planner's decisions.

Counted from the float32 expansions: a division or root is 8 additions, float64 inside counts
twice, what stands under a `select_rare` not at all.  A test holds the table to the expansions.
"""

from __future__ import annotations

from typing import Final

from covector.compiler.math.expand import expand_all
from covector.compiler.math.formats import NARROW_FLOATS
from covector.ir.scalar import ARITY, Expr, expr, name

#: On floats; 1 where not listed.
COST: Final[dict[str, int]] = {
    "const": 0, "name": 0, "index": 1, "load": 1, "bitcast": 0, "complex": 0, "real": 0, "imag": 0,
    "div": 8, "sqrt": 8, "rsqrt": 16, "cbrt": 53, "pow": 108, "rem": 27,
    "max": 6, "min": 6, "ceil": 1, "trunc": 1, "round_away": 8, "is_finite": 2, "sign": 5,
    "nextafter": 17,
    "exp": 19, "exp2": 18, "expm1": 23, "log": 30, "log1p": 45, "logistic": 37,
    "sin": 22, "cos": 22, "tan": 41, "asin": 27, "acos": 32, "atan": 30, "atan2": 44,
    "sinh": 38, "cosh": 28, "tanh": 37, "asinh": 69, "acosh": 50, "atanh": 44,
    "erf": 34, "erfc": 82, "erf_inv": 65, "lgamma": 313, "digamma": 307,
    "bessel_i0e": 93, "bessel_i1e": 97,
}  # fmt: skip
#: On integers, where it differs.
INTEGER_COST: Final[dict[str, int]] = {
    "div": 12, "rem": 14, "max": 1, "min": 1, "sign": 3, "mulhi": 4, "population_count": 8,
    "clz": 8, "mul": 2, "pow": 120,
}  # fmt: skip
#: Real operations for each complex one: most functions need two and a product.
_COMPLEX_FACTOR = 4
_CONVERSION = 4
_WEIGHT = {"div": 8, "sqrt": 8, "bitcast": 0, "const": 0, "name": 0}


def cost(node: Expr) -> int:
    """The cost of `node` itself, without its arguments'."""
    kind = node.args[0].dtype if node.args else node.dtype
    if "int" in kind or kind == "bool":
        return INTEGER_COST.get(node.op, COST.get(node.op, 1) if node.op in _FREE else 1)
    base = COST.get(node.op, 1)
    if kind.startswith("complex"):
        return base * _COMPLEX_FACTOR
    narrow = kind in NARROW_FLOATS and node.op not in _FREE
    return base + _CONVERSION if narrow else base


_FREE = frozenset(op for op, c in COST.items() if c == 0) | {"load", "index"}


def counted(op: str, dtype: str) -> int:
    """The cost of a float operation as its expansion says it."""
    args = [name(label, dtype) for label in ("x", "y", "z")[: ARITY[op]]]
    out = "bool" if op == "is_finite" else dtype
    seen: set[Expr] = set()
    stack = expand_all([expr(op, out, *args)], frozenset({"select_rare"}))
    total = 0
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            wide = dtype == "float32" and "float64" in (node.dtype, *(a.dtype for a in node.args))
            total += _WEIGHT.get(node.op, 1) * (1 + wide)
            stack.extend(node.args[::2] if node.op == "select_rare" else node.args)
    return total
