"""Scalar expressions: what a kernel rule says about ONE element, as an interned, typed DAG.

Kernel rules of `ops` build them, the planner substitutes and costs them, the emitter turns them
into vector instructions, the loop interpreter evaluates them.  A dtype here is a plain name
('float32', 'bool', 'bfloat16', 'complex64', ...); a PRNG key element is a 'uint64'.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

BOOL = "bool"
INDEX = "int64"

#: Every operation, with its number of arguments.  Comparison results are 'bool'; shifts by
#: amounts >= the width give 0 (or the sign for `shift_right_arithmetic`); integer `div` and
#: `rem` truncate towards zero and are total (x / 0 = -1, x rem 0 = x, INT_MIN / -1 = INT_MIN);
#: `max`/`min` propagate NaN and order -0 below +0; float-to-integer `cast` saturates, NaN to 0.
#: `select_rare` means `select`; its second argument is costly and seldom wanted, so an emitter may
#: branch around it where no lane wants it (`compiler.math` writes it only on request).
ARITY = {
    "const": 0, "load": 0, "name": 0, "index": 0,
    "add": 2, "sub": 2, "mul": 2, "div": 2, "rem": 2, "neg": 1, "abs": 1, "sign": 1,
    "max": 2, "min": 2, "fma": 3, "sqrt": 1, "rsqrt": 1, "cbrt": 1, "square": 1,
    "floor": 1, "ceil": 1, "round_even": 1, "round_away": 1, "trunc": 1, "is_finite": 1,
    "and": 2, "or": 2, "xor": 2, "not": 1, "population_count": 1, "clz": 1,
    "shift_left": 2, "shift_right_logical": 2, "shift_right_arithmetic": 2,
    "mulhi": 2,
    "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2,
    "select": 3, "select_rare": 3, "cast": 1, "bitcast": 1,
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log1p": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2,
    "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
    "logistic": 1, "pow": 2, "erf": 1, "erfc": 1, "erf_inv": 1, "lgamma": 1, "digamma": 1,
    "nextafter": 2, "bessel_i0e": 1, "bessel_i1e": 1,
    "complex": 2, "real": 1, "imag": 1, "conj": 1,
}  # fmt: skip

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


class Expr:
    """A node: `op` of `args`, of element type `dtype`.  Equal nodes are one object.

    `extra` is the Python number of a 'const', the (buffer, index) of a 'load', the name of a
    'name', the Affine of an 'index'; None elsewhere.  `number` counts nodes as they
    are made.  Build nodes with `expr` and the helpers below, or with the operators
    `+ - * & | ^ ~` and unary `-`.
    """

    __slots__ = ("__weakref__", "args", "dtype", "extra", "number", "op")

    op: str
    dtype: str
    number: int
    args: tuple[Expr, ...]
    extra: Any

    def __repr__(self) -> str:
        return f"<{self.dtype} {self}>"

    def __str__(self) -> str:
        definitions, (text,) = texts([self])
        return "; ".join([*definitions, text])

    def __add__(self, other: Any) -> Expr:
        return expr("add", self.dtype, self, lift(other, self.dtype))

    def __sub__(self, other: Any) -> Expr:
        return expr("sub", self.dtype, self, lift(other, self.dtype))

    def __mul__(self, other: Any) -> Expr:
        return expr("mul", self.dtype, self, lift(other, self.dtype))

    def __and__(self, other: Any) -> Expr:
        return expr("and", self.dtype, self, lift(other, self.dtype))

    def __or__(self, other: Any) -> Expr:
        return expr("or", self.dtype, self, lift(other, self.dtype))

    def __xor__(self, other: Any) -> Expr:
        return expr("xor", self.dtype, self, lift(other, self.dtype))

    def __invert__(self) -> Expr:
        return expr("not", self.dtype, self)

    def __neg__(self) -> Expr:
        return expr("neg", self.dtype, self)


_numbers = itertools.count()
_interned: weakref.WeakValueDictionary[tuple[Any, ...], Expr] = weakref.WeakValueDictionary()


def expr(op: str, dtype: str, *args: Expr, extra: Any = None) -> Expr:
    """The node `op(*args)`; the same object for the same request."""
    # repr keeps 0.0 and -0.0, and True and 1, apart; NaN equal to itself.
    key = (op, dtype, args, repr(extra) if op == "const" else extra)
    node = _interned.get(key)
    if node is None:
        node = Expr()
        node.op, node.dtype, node.args, node.extra = op, dtype, args, extra
        node.number = next(_numbers)
        _interned[key] = node
    return node


def const(value: Any, dtype: str) -> Expr:
    """A literal; `value` is a Python bool, int, float or complex."""
    return expr("const", dtype, extra=value)


def number(value: Any, dtype: str) -> Expr:
    """The number `value` as a literal of `dtype`: 0 as 0.0 of floats."""
    kind = complex if "complex" in dtype else float if "float" in dtype else None
    return const(value if kind is None else kind(value), dtype)


def lift(value: Any, dtype: str) -> Expr:
    """`value` itself if it is a node, else a constant of `dtype`."""
    return value if isinstance(value, Expr) else const(value, dtype)


def compare(op: str, x: Expr, y: Any) -> Expr:
    """One of `COMPARISONS`; the result is a 'bool'."""
    return expr(op, BOOL, x, lift(y, x.dtype))


def select(condition: Expr, on_true: Any, on_false: Any) -> Expr:
    """`on_true` where `condition` holds, else `on_false`: both are evaluated."""
    dtype = on_true.dtype if isinstance(on_true, Expr) else on_false.dtype
    return expr("select", dtype, condition, lift(on_true, dtype), lift(on_false, dtype))


def cast(x: Expr, dtype: str) -> Expr:
    """The value of `x` as `dtype`; an integer that was widened comes back as it was."""
    if x.op == "cast" and x.args[0].dtype == dtype and _widens(dtype, x.dtype):
        return x.args[0]
    return x if x.dtype == dtype else expr("cast", dtype, x)


def _widens(narrow: str, wide: str) -> bool:
    sizes = [d.lstrip("u").removeprefix("int") for d in (narrow, wide)]
    return all(s.isdecimal() for s in sizes) and int(sizes[0]) < int(sizes[1])


def bitcast(x: Expr, dtype: str) -> Expr:
    """The bits of `x` read as `dtype` (same width)."""
    return x if x.dtype == dtype else expr("bitcast", dtype, x)


def fma(x: Expr, y: Any, z: Any) -> Expr:
    """`x * y + z`, rounded once."""
    return expr("fma", x.dtype, x, lift(y, x.dtype), lift(z, x.dtype))


def name(label: str, dtype: str) -> Expr:
    """A value bound by a statement: a fold's result, a `Let`, a carry."""
    return expr("name", dtype, extra=label)


def load(buffer: str, index: tuple[Any, ...], dtype: str) -> Expr:
    """The element of `buffer` at `index` (a tuple of `Affine`)."""
    return expr("load", dtype, extra=(buffer, index))


_args: Final[Callable[[Expr], tuple[Expr, ...]]] = operator.attrgetter("args")


def walk(*roots: Expr) -> list[Expr]:
    """Every node reachable from `roots`, arguments before users, each once (no recursion)."""
    return _ordered(roots, _args)


def walk_deep(*roots: Expr) -> list[Expr]:
    """As `walk`, also through the indices of loads: what is read from memory to find a place."""
    return _ordered(roots, below)


def _ordered(roots: Sequence[Expr], parts_of: Callable[[Expr], Sequence[Expr]]) -> list[Expr]:
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[Any] = [*reversed(roots)]
    while stack:
        node = stack.pop()
        if node is None:  # what the next one is made of has been seen to
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            parts = parts_of(node)
            if parts:
                stack += (node, None)
                stack += [a for a in reversed(parts) if a not in seen]
            else:
                order.append(node)
    return order


def below(node: Expr) -> Sequence[Expr]:
    """What a node is made of: its arguments, or what its index is read from."""
    op = node.op
    if op != "load" and op != "index":
        return node.args
    if op == "load":
        return [e for i in node.extra[1] if i.terms for e in i.data()]
    return node.extra.data()


#: A node whose text would be longer than this gets a line of its own.
_LONG = 160


def texts(roots: Sequence[Expr]) -> tuple[list[str], list[str]]:
    """(definitions, the texts of `roots` in terms of them).  A node that is used several times is
    defined once, as `%n = ...`: the text of a DAG is no longer than the DAG."""
    order = walk_deep(*roots)
    uses: dict[Expr, int] = {}
    for e in (a for node in order for a in below(node)):
        uses[e] = uses.get(e, 0) + 1
    for e in roots:
        uses[e] = uses.get(e, 0) + 1
    text: dict[Expr, str] = {}
    definitions: list[str] = []
    ends = {e for e in roots if uses[e] == 1}
    for e in order:
        line = _line(e, text)
        if e.args and e not in ends and (uses[e] > 1 or len(line) > _LONG):
            text[e] = f"%{len(definitions)}"
            definitions.append(f"{text[e]} = {line}")
        else:
            text[e] = line
    return definitions, [text[e] for e in roots]


def _line(e: Expr, text: dict[Expr, str]) -> str:
    if e.op in ("const", "name"):
        return f"{e.extra}"
    if e.op == "index":
        return e.extra.spelled(text)
    if e.op == "load":
        buffer, index = e.extra
        return f"{buffer}[{', '.join([i.spelled(text) for i in index])}]"
    suffix = f".{e.dtype}" if e.op in ("cast", "bitcast") else ""
    return f"{e.op}{suffix}({', '.join([text[a] for a in e.args])})"
