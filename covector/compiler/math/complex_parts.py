"""Complex expressions as pairs of real ones.

`split_complex` goes before `expand_all`.  complex64 functions with cancellations or wide ranges
inside are done in float64 and rounded.  Zeros keep their signs, so branch cuts are those of C99
(Annex G) and NumPy.  Formulas: W. Kahan, "Branch cuts for complex elementary functions", 1987.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from covector.compiler.math import complex_arithmetic as arithmetic
from covector.compiler.math import complex_functions as functions
from covector.compiler.math.complex_arithmetic import Pair
from covector.compiler.math.formats import ne
from covector.ir.index import Affine
from covector.ir.scalar import Expr, cast, const, expr, load, name, select, walk

PART: Final = {"complex64": "float32", "complex128": "float64"}


def is_complex(x: Expr) -> bool:
    return x.dtype in PART


def parts_of_leaf(node: Expr) -> Pair:
    """(re, im) of a 'load' (a further minor axis of extent 2) or a 'name' (`.re`, `.im`)."""
    part = PART[node.dtype]
    if node.op == "load":
        buffer, index = node.extra
        re, im = (load(buffer, (*index, Affine(i)), part) for i in (0, 1))
    else:
        re, im = (name(f"{node.extra}.{which}", part) for which in ("re", "im"))
    return re, im


def split_complex(
    roots: Iterable[Expr], leaf: Callable[[Expr], Pair] = parts_of_leaf
) -> list[Expr | Pair]:
    """Each root without complex nodes: an expression, or (re, im) for a complex one.

    `leaf` gives the parts of a complex 'load' or 'name'.

    >>> z = name("z", "complex64")
    >>> print(split_complex([expr("real", "float32", z * z)])[0])
    sub(mul(z.re, z.re), mul(z.im, z.im))
    """
    roots = list(roots)
    done: dict[Expr, Expr | Pair] = {}
    for node in walk(*roots):
        args = tuple(done[a] for a in node.args)
        if is_complex(node) or any(isinstance(a, tuple) for a in args):
            done[node] = _split(node, args, leaf)
        else:
            real = [a for a in args if isinstance(a, Expr)]
            done[node] = expr(node.op, node.dtype, *real, extra=node.extra)
    return [done[root] for root in roots]


def _split(node: Expr, args: tuple[Expr | Pair, ...], leaf: Callable[[Expr], Pair]) -> Expr | Pair:
    if node.op in ("load", "name"):
        return leaf(node)
    if node.op == "index":
        return expr("index", PART[node.dtype], extra=node.extra), const(0.0, PART[node.dtype])
    if node.op == "const":
        value = complex(node.extra)
        return const(value.real, PART[node.dtype]), const(value.imag, PART[node.dtype])
    if node.op == "cast":
        return _cast(args[0], node.dtype)
    if node.op in STRUCTURE:
        return STRUCTURE[node.op](*args)
    pairs = [a if isinstance(a, tuple) else (a, const(0.0, a.dtype)) for a in args]
    if node.op in NATIVE_WIDTH:
        return NATIVE_WIDTH[node.op](*pairs)
    if node.op not in WIDE:
        raise NotImplementedError(f"split_complex: {node.op} has no meaning for {node.dtype}")
    narrow = pairs[0][0].dtype
    wide = [(cast(re, "float64"), cast(im, "float64")) for re, im in pairs]
    re, im = WIDE[node.op](*wide)
    return cast(re, narrow), cast(im, narrow)


def _cast(x: Expr | Pair, dtype: str) -> Expr | Pair:
    if dtype in PART:
        re, im = x if isinstance(x, tuple) else (x, const(0.0, PART[dtype]))
        return cast(re, PART[dtype]), cast(im, PART[dtype])
    assert isinstance(x, tuple)
    if dtype == "bool":
        return ne(x[0], 0.0) | ne(x[1], 0.0)
    return cast(x[0], dtype)


def _select(condition: Expr | Pair, x: Expr | Pair, y: Expr | Pair) -> Pair:
    assert isinstance(condition, Expr)
    assert isinstance(x, tuple)
    assert isinstance(y, tuple)
    return select(condition, x[0], y[0]), select(condition, x[1], y[1])


#: On pairs and what else there is, whatever the width.
STRUCTURE: Final[dict[str, Callable[..., Expr | Pair]]] = {
    "complex": lambda re, im: (re, im),
    "real": lambda x: x[0],
    "imag": lambda x: x[1],
    "select": _select,
    "select_rare": _select,
}
#: On pairs, in the width of their parts.
NATIVE_WIDTH: Final[dict[str, Callable[..., Expr | Pair]]] = {
    "add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul, "div": arithmetic.divide,
    "neg": arithmetic.neg, "conj": arithmetic.conj, "fma": arithmetic.multiply_add,
    "square": arithmetic.square, "abs": arithmetic.modulus, "sign": arithmetic.sign,
    "eq": arithmetic.equal, "ne": arithmetic.not_equal, "is_finite": arithmetic.is_finite,
    **functions.NATIVE_WIDTH,
}  # fmt: skip
#: On pairs of float64.
WIDE: Final[dict[str, Callable[..., Pair]]] = functions.WIDE
