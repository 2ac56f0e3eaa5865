"""The function of two elements by which a reduction combines them, as users give it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import dtypes, ops, tree
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.trace.stage import trace_to_jaxpr

Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class Reduced(NamedTuple):
    """What is reduced, flat: operands of one shape, initial values, the structure of both, and
    the function of two lists of scalars.
    """

    leaves: list[Any]
    inits: list[Any]
    structure: Any
    combine: Combine


def reduced(who: str, operands: Any, init_values: Any, computation: Any, scalars: type) -> Reduced:
    """Arguments of the reduction `who`, checked; `scalars`: the error where a start is none."""
    leaves, structure = tree.flatten(operands)
    inits, init_structure = tree.flatten(init_values)
    if structure != init_structure:
        raise ValueError(
            f"{who}: operands and initial values must be trees of one structure; got {structure} "
            f"and {init_structure}"
        )
    if not leaves:
        raise ValueError(f"{who}: wanted at least one operand")
    avals, starts = [typeof(x) for x in leaves], [typeof(x) for x in inits]
    if any(a.shape for a in starts):
        raise scalars(
            f"{who}: initial values must be scalars; found a non-scalar initial value, shapes "
            f"{[a.shape for a in starts]}"
        )
    if any(a.shape != avals[0].shape for a in avals):
        raise TypeError(f"{who}: operands must have equal shapes; got {[a.shape for a in avals]}")
    for a, b, x in zip(avals, starts, inits, strict=True):
        if a.dtype != b.dtype and type(x) not in (bool, int, float):
            raise TypeError(
                f"{who}: operands and initial values must have the same dtypes; got "
                f"{a.str_short()} and {b.str_short()}"
            )

    def combine(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        out = computation(tree.unflatten(structure, xs), tree.unflatten(structure, ys))
        found, given = tree.flatten(out)
        if given != structure:
            raise ValueError(
                f"{who}: computation must give a tree like its arguments; got {given}, wanted "
                f"{structure}"
            )
        return [_fitting(who, x, a.dtype) for x, a in zip(found, avals, strict=True)]

    return Reduced(leaves, inits, structure, combine)


def _fitting(who: str, x: Any, dtype: Any) -> Any:
    """A scalar that the computation gave, of the dtype of what it combines."""
    aval = typeof(x)
    if aval.shape == () and aval.dtype == dtype:
        return x
    fits = aval.weak_type and dtypes.promote_types(aval.dtype, dtype) == dtype
    if aval.shape == () and fits:
        return ops.cast.convert_element_type(x, dtype, False)
    raise TypeError(
        f"{who}: computation must give scalars of the dtype that it takes; it takes "
        f"{ShapedArray((), dtype).str_short()} and gives {aval.str_short()}"
    )


def lone_operation(combine: Combine, leaves: Sequence[Any], who: str) -> str | None:
    """The name of the one operation, of both its arguments, that `combine` is, if it is one."""
    if len(leaves) != 1:
        return None
    scalar = ShapedArray((), typeof(leaves[0]).dtype)

    def combined(x: Any, y: Any) -> list[Any]:
        return combine([x], [y])

    jaxpr = trace_to_jaxpr(combined, [scalar, scalar], who).jaxpr
    if len(jaxpr.eqns) != 1:
        return None
    (eqn,) = jaxpr.eqns
    plain = {*eqn.invars} == {*jaxpr.invars} and [*eqn.outvars] == [*jaxpr.outvars]
    return eqn.op.name if plain else None
