"""Sums over the rounds of a loop whose terms are products: one contraction after the loop.

In reverse, every round of a scan adds to the cotangent of a constant.  Where the term is the outer
product of two small arrays (that of a weight: the layer's input and its output's cotangent), the
loop gives these as rows, and one contraction over all rounds gives the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from covector._base.named_tuple import NamedTuple
from covector.ir.jaxpr import ClosedJaxpr, Equation, Var


class Product(NamedTuple):
    """A term: `views` of the `dot_general` of two variables of the body."""

    operands: tuple[Var, Var]
    dot: Any
    views: tuple[Any, ...]

    def summed(self, lhs: Any, rhs: Any) -> Any:
        """The sum of the terms, of rows of both operands."""
        (lc, rc), (lb, rb) = self.dot.dimension_numbers
        contracted = tuple((0, *(d + 1 for d in dims)) for dims in (lc, rc))
        batch = tuple(tuple(d + 1 for d in dims) for dims in (lb, rb))
        out = self.dot.with_params(dimension_numbers=(contracted, batch))(lhs, rhs)
        for view in reversed(self.views):
            out = view(out)
        return out


def products(body: ClosedJaxpr, count: int) -> list[Product | None]:
    """For each of the first `count` results, the product that it is, if its operands are smaller
    than it."""
    makers = {v: eqn for eqn in body.eqns for v in eqn.outvars}
    return [_product(v, makers) for v in body.jaxpr.outvars[:count]]


def _product(v: Any, makers: dict[Any, Equation]) -> Product | None:
    size = math.prod(v.aval.shape)
    views: list[Any] = []
    while (eqn := makers.get(v)) is not None and eqn.op.name == "transpose":
        views.append(eqn.op)
        v = eqn.invars[0]
    if eqn is None or eqn.op.name != "dot_general":
        return None
    lhs, rhs = eqn.invars
    if not isinstance(lhs, Var) or not isinstance(rhs, Var):
        return None
    if math.prod(lhs.aval.shape) + math.prod(rhs.aval.shape) >= size:
        return None
    return Product((lhs, rhs), eqn.op, tuple(views))


def with_operands(body: ClosedJaxpr, found: Sequence[Product | None]) -> ClosedJaxpr:
    """The body that gives, instead of its first results that are products, their operands; these
    come last."""
    outvars = body.jaxpr.outvars
    kept = [v for v, p in zip(outvars, found, strict=False) if p is None]
    operands = [v for p in found if p is not None for v in p.operands]
    return ClosedJaxpr(
        body.jaxpr.replace(outvars=[*kept, *outvars[len(found) :], *operands]), body.consts
    )
