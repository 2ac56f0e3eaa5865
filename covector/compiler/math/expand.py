"""Rewriting of scalar expressions into the operations that a machine has.

`expand_all` is run on what a kernel computes, before it is emitted.  What is left is branch-free:
arithmetic, comparisons, selects, bit operations, conversions; and what the emitter calls native.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from covector.compiler import math
from covector.compiler.math.formats import NARROW_FLOATS
from covector.ir.scalar import COMPARISONS, Expr, cast, expr, walk

#: What every backend has, for float32, float64, integers and (where it makes sense) booleans:
#: shifts by less than the width, integer division by what cannot trap, saturating casts.
#: `select_rare` is not among them: where it isn't native it becomes a plain select.
BASIC: Final = COMPARISONS | {
    "const", "load", "name", "index", "add", "sub", "mul", "div", "neg", "abs", "fma", "sqrt",
    "floor", "round_even", "and", "or", "xor", "not", "select", "cast", "bitcast",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
}  # fmt: skip

Rule = Callable[..., Expr]

#: On float32 and float64: where the function is, which is loaded with the first that needs it.
FLOAT_RULES: Final[dict[str, tuple[str, str]]] = {
    f: (module, f)
    for module, functions in (
        ("exponential", "exp exp2 expm1 logistic tanh sinh cosh"),
        ("logarithm", "log log1p asinh acosh atanh"),
        ("trigonometry", "sin cos tan"),
        ("inverse_trigonometry", "asin acos atan atan2"),
        ("power", "pow cbrt rsqrt"),
        ("error_function", "erf erfc"),
        # of the accuracy that JAX's has, not better: random.normal must give the same numbers
        ("erf_inverse", "erf_inv"),
        ("gamma", "lgamma digamma"),
        ("bessel", "bessel_i0e bessel_i1e"),
        ("rounding", "ceil trunc round_away is_finite sign square nextafter rem"),
    )
    for f in functions.split()
} | {"max": ("rounding", "maximum"), "min": ("rounding", "minimum")}
#: On integers: the name of the function in `integers`.
INTEGER_RULES: Final[dict[str, str]] = {
    **{f: f for f in ("sign", "square", "population_count", "clz", "mulhi", "div", "rem", "pow")},
    "max": "maximum",
    "min": "minimum",
}
_SHIFTS = frozenset({"shift_left", "shift_right_logical", "shift_right_arithmetic"})

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
    op, kind = node.op, node.args[0 if node.op == "pow" else -1].dtype
    if kind in NARROW_FLOATS or node.dtype in NARROW_FLOATS:
        return _narrow(node, native)
    if op == "select_rare" and op not in native:
        return expr("select", node.dtype, *node.args)
    if kind in ("float32", "float64"):
        # `rem` is nobody's instruction: LLVM would call the C library, lane by lane
        rule = None if op in native and op != "rem" else _float_rule(op)
    else:
        rule = None if op in native else _integer_rule(node)
    if rule is not None:
        return _expand_above(rule(*node.args), node.args, native)
    if op in BASIC or op in native:
        return node
    hint = " (split complex values into parts first)" if kind.startswith("complex") else ""
    raise NotImplementedError(f"expand: {op} of {kind} has no expansion{hint}")


def _expand_above(root: Expr, known: tuple[Expr, ...], native: frozenset[str]) -> Expr:
    """`root`, expanded, in terms of `known`, which are and have whole programs below them."""
    done: dict[Expr, Expr] = {node: node for node in known}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [a for a in node.args if a not in done]
        if node in done or not missing:
            stack.pop()
            if node not in done:
                done[node] = expand(_with_args(node, done), native)
        else:
            stack.extend(reversed(missing))
    return done[root]


def _with_args(node: Expr, done: dict[Expr, Expr]) -> Expr:
    args = tuple(done[a] for a in node.args)
    same = all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else expr(node.op, node.dtype, *args)


def _float_rule(op: str) -> Rule | None:
    place = FLOAT_RULES.get(op)
    return None if place is None else getattr(getattr(math, place[0]), place[1])


def _integer_rule(node: Expr) -> Rule | None:
    if node.op in _SHIFTS:
        integers = math.integers
        if integers.is_plain_shift(node.args[1], integers.width_of(node.args[0])):
            return None
        return partial(integers.shift, node.op)
    name = INTEGER_RULES.get(node.op)
    if name is None or (name == "div" and math.integers.is_guarded(*node.args)):
        return None
    return getattr(math.integers, name)


def _narrow(node: Expr, native: frozenset[str]) -> Expr:
    """An operation on 8- or 16-bit floats: in float32, rounded after each (as XLA's CPU does)."""
    if node.op in _ANY_WIDTH:
        return node
    if node.op == "nextafter":  # the neighbour in the type itself
        return _expand_above(math.rounding.nextafter(*node.args), node.args, native)
    if node.op == "cast":
        source = node.args[0]
        return (
            node
            if "float32" in (source.dtype, node.dtype)
            else cast(cast(source, "float32"), node.dtype)
        )
    args = [cast(a, "float32") if a.dtype in NARROW_FLOATS else a for a in node.args]
    result = node.dtype if node.dtype not in NARROW_FLOATS else "float32"
    return cast(expand(expr(node.op, result, *args), native), node.dtype)


def real_parts(roots: Iterable[Expr]) -> list[Expr]:
    """`roots` without complex nodes: of a complex one, the real and the imaginary part."""
    roots = list(roots)
    if not any(node.dtype.startswith("complex") for node in walk(*roots)):
        return roots
    parts = math.split_complex(roots)
    return [x for part in parts for x in (part if isinstance(part, tuple) else (part,))]


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
        done[node] = expand(_with_args(node, done), native)
    return [done[root] for root in roots]
