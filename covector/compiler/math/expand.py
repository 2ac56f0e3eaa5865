"""Rewriting of scalar expressions into the operations that a machine has.

`expand_all` is run on what a kernel computes, before it is emitted.  What is left is branch-free:
arithmetic, comparisons, selects, bit operations, conversions; and what the emitter calls native.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from covector.compiler.math import (
    erf_inverse,
    exponential,
    inverse_trigonometry,
    logarithm,
    power,
    trigonometry,
)
from covector.compiler.math.evaluate import NARROW_FLOATS
from covector.ir.scalar import COMPARISONS, Expr, cast, expr, walk

#: What every backend has, for float32, float64, integers and (where it makes sense) booleans.
#: `select_rare` is not among them: where it isn't native it becomes a plain select.
BASIC: Final = COMPARISONS | {
    "const", "load", "name", "index", "add", "sub", "mul", "div", "neg", "abs", "fma", "sqrt",
    "floor", "round_even", "and", "or", "xor", "not", "select", "cast", "bitcast",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
}  # fmt: skip

Rule = Callable[..., Expr]

#: On float32 and float64.
FLOAT_RULES: Final[dict[str, Rule]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "logistic": exponential.logistic,
    "tanh": exponential.tanh,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "asin": inverse_trigonometry.asin,
    "acos": inverse_trigonometry.acos,
    "atan": inverse_trigonometry.atan,
    "atan2": inverse_trigonometry.atan2,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "rsqrt": power.rsqrt,
    "pow": power.pow,
    "cbrt": power.cbrt,
    "erf_inv": erf_inverse.erf_inv,
}
#: On integers.
INTEGER_RULES: Final[dict[str, Rule]] = {}

#: Done on a narrow float's bits, or whatever the type.
_ANY_WIDTH = frozenset(
    {"const", "load", "name", "index", "select", "select_rare", "bitcast", "neg", "abs"}
)


def expand(node: Expr, native: frozenset[str]) -> Expr:
    """`node`, whose arguments are expanded, in terms of `BASIC` and `native` operations.

    Errors: NotImplementedError for a complex operation (`split_complex` goes first) and for an
    operation that has no meaning for the type.
    """
    if not node.args:
        return node
    op, kind = node.op, node.args[-1].dtype
    if kind in NARROW_FLOATS or node.dtype in NARROW_FLOATS:
        return _narrow(node, native)
    if op == "select_rare" and op not in native:
        return expr("select", node.dtype, *node.args)
    if op in BASIC or op in native or op == "select_rare":
        return node
    rules = FLOAT_RULES if kind in ("float32", "float64") else INTEGER_RULES
    rule = rules.get(op)
    if rule is None or kind.startswith("complex"):
        raise NotImplementedError(
            f"expand: {op} of {kind} has no expansion"
            + (" (split complex values into parts first)" if kind.startswith("complex") else "")
        )
    return _plain(rule(*node.args), native)


def _plain(root: Expr, native: frozenset[str]) -> Expr:
    """`root` without `select_rare`, unless that is native; and with nothing that isn't."""
    return expand_all([root], native)[0]


def _narrow(node: Expr, native: frozenset[str]) -> Expr:
    """An operation on 8- or 16-bit floats: in float32, rounded after each (as XLA's CPU does)."""
    if node.op in _ANY_WIDTH:
        return node
    if node.op == "cast":
        source = node.args[0]
        return node if "float32" in (source.dtype, node.dtype) else cast(
            cast(source, "float32"), node.dtype
        )
    args = [cast(a, "float32") if a.dtype in NARROW_FLOATS else a for a in node.args]
    result = node.dtype if node.dtype not in NARROW_FLOATS else "float32"
    return cast(expand(expr(node.op, result, *args), native), node.dtype)


def expand_all(roots: Iterable[Expr], native: frozenset[str] = frozenset()) -> list[Expr]:
    """`roots`, expanded: a worklist over the DAG, what they share stays shared.

    >>> from covector.ir.scalar import name
    >>> x = name("x", "float32")
    >>> print(expand_all([expr("rsqrt", "float32", x)])[0])
    div(1.0, sqrt(x))
    """
    roots = list(roots)
    done: dict[Expr, Expr] = {}
    for node in walk(*roots):
        args = tuple(done[a] for a in node.args)
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        done[node] = expand(node if same else expr(node.op, node.dtype, *args), native)
    return [done[root] for root in roots]
