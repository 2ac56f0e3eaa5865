"""erf_inv as basic operations: the approximations of `ops.erf_inverse`."""

from __future__ import annotations

import math

from covector.compiler.math.formats import (
    absolute,
    eq,
    format_of,
    horner,
    lt,
    square_root,
)
from covector.compiler.math.logarithm import log1p
from covector.ir.scalar import Expr, expr, fma, select
from covector.ops.erf_inverse import PIECES, Piece


def erf_inv(x: Expr) -> Expr:
    f = format_of(x)
    # as a fused operation, so that nothing fuses the product with the sum that follows
    w = -log1p(-fma(x, x, -0.0))
    first, *tails = PIECES[f.dtype]
    root = square_root(w)

    def value(piece: Piece) -> Expr:
        t = (root if piece.root else w) - piece.centre
        return horner(t, piece.coefficients)

    far = value(tails[-1])
    for piece in tails[-2::-1]:
        far = select(lt(w, piece.end), value(piece), far)
    # |x| > 0.996: one in 300 of random numbers
    near = lt(w, first.end)
    y = expr("select_rare", f.dtype, ~near, far, value(first)) * x
    return select(eq(absolute(x), 1.0), x * math.inf, y)
