"""`jet`: the derivatives of a function along a curve, to any order, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.boundary import api_boundary
from covector._base.containers import is_listed
from covector.api.arguments import check_callable, name_of
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.transforms.jet import jet_flat
from covector.transforms.jet_rules import scaled

__all__ = ["jet"]


@api_boundary
def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Any],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """The value of `fun` and its derivatives along a curve: Taylor mode.

    Args:
      fun: a function of arrays, or trees of them.
      primals: its arguments, where the curve starts.
      series: for each argument, a list with its derivatives along the curve: the first, the
        second, …; all lists have one length.
      factorial_scaled: whether series are of derivatives; if False, of the coefficients of Taylor
        series, which are the derivatives divided by the factorials of their orders.

    Returns the value, and the like for the result: a tree in which each leaf is the list of its
    derivatives.  Raises ValueError where numbers of arguments or lengths differ, and
    NotImplementedError for an operation without derivative.

    Source: Griewank and Walther, Evaluating Derivatives, chapter 13.

    >>> from covector import numpy as jnp
    >>> from covector.experimental.jet import jet
    >>> value, derivatives = jet(jnp.sin, (0.0,), ([1.0, 0.0, 0.0],))
    >>> [float(d) for d in derivatives]
    [1.0, 0.0, -1.0]
    """
    check_callable(fun, "jet")
    if not is_listed(primals) or not is_listed(series) or len(primals) != len(series):
        raise ValueError(
            f"jet of {name_of(fun)}: primals and series must be sequences of equal lengths; got "
            f"{primals!r} and {series!r}"
        )
    leaves, in_tree = tree.flatten(tuple(primals))
    columns: list[Any] = []
    for k, (primal, terms) in enumerate(zip(primals, series, strict=True)):
        columns.append(_terms(primal, terms, f"jet of {name_of(fun)}: argument {k}"))
    lengths = {len(c) for group in columns for c in group}
    if len(lengths) > 1:
        raise ValueError(
            f"jet of {name_of(fun)}: all series must have one length; got {sorted(lengths)}"
        )
    order = max(lengths, default=0)
    args = [
        _start(x, c, factorial_scaled)
        for x, c in zip(leaves, [c for group in columns for c in group], strict=True)
    ]
    out_tree: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        found, structure = tree.flatten(fun(*tree.unflatten(in_tree, values)))
        out_tree[:] = [structure]
        return found

    outs = jet_flat(flat, args, order)
    results = [as_array(c[0]) for c in outs]
    ends = [_end(x, c, factorial_scaled) for x, c in zip(results, outs, strict=True)]
    return tree.unflatten(out_tree[0], results), tree.unflatten(out_tree[0], ends)


def _terms(primal: Any, terms: Any, who: str) -> list[list[Any]]:
    """For each leaf of an argument, its terms: given as a list of trees, or as a tree of lists."""
    leaves, structure = tree.flatten(primal)
    try:
        columns = structure.flatten_up_to(terms)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{who}: its series must be a tree like the argument, of lists of terms; got {terms!r}"
        ) from error
    found: list[list[Any]] = []
    for x, column in zip(leaves, columns, strict=True):
        if not is_listed(column):
            raise ValueError(f"{who}: its series must be a list of terms; got {column!r}")
        for t in column:
            if typeof(t).shape != typeof(x).shape:
                raise ValueError(
                    f"{who}: a term of its series must have the shape of the argument, "
                    f"{typeof(x).shape}; got {typeof(t).shape}"
                )
        found.append(list(column))
    return found


def _start(x: Any, terms: list[Any], factorial_scaled: bool) -> list[Any]:
    """Taylor coefficients of an argument."""
    aval = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return [x] + [None] * len(terms)
    out: list[Any] = [x]
    for k, t in enumerate(terms, 1):
        if typeof(t).dtype != aval.dtype:
            t = ops.cast.ConvertElementType(aval.dtype)(t)
        out.append(scaled(as_array(t), 1 / math.factorial(k) if factorial_scaled else 1.0))
    return out


def _end(x: Any, coefficients: list[Any], factorial_scaled: bool) -> list[Any]:
    """What is told of a result."""
    zero = ops.shape.zeros(typeof(x).strong())
    return [
        zero if c is None else scaled(c, float(math.factorial(k)) if factorial_scaled else 1.0)
        for k, c in enumerate(coefficients[1:], 1)
    ]
