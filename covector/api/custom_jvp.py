"""`custom_jvp`: a function whose forward derivative the user states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from covector import dtypes, ops, tree
from covector._base.boundary import api_boundary
from covector.api.arguments import avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.api.custom_rules import (
    SymbolicZero,
    WithRule,
    by_position,
    check_like_function,
    merged,
    pair_of,
    path_in,
    run,
    shorts,
    zero_from_primal,
    zero_of,
)
from covector.ir.values import typeof
from covector.ops.custom import CustomJvpCall
from covector.trace.tracer import Tracer, tangent_aval
from covector.transforms.custom import CustomCall


@final
class custom_jvp(WithRule):
    """A function with its own rule for the derivative; the rule also serves reverse mode.

    Args:
      fun: a function of arrays or pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated; the rule gets them
        first, in order, before the primals and tangents of the others.

    Set the rule by `defjvp` or `defjvps`; without one a call raises AttributeError.

    >>> import covector as cv
    >>> @cv.custom_jvp
    ... def f(x):
    ...     return cv.numpy.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return f(x), 2 * dx
    >>> float(cv.grad(f)(1.0))
    2.0
    """

    def _without_rule(self) -> None:
        self.jvp: Any = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `jvp(*nondiff, primals, tangents) -> (result, its tangent)`.

        Tangents have the structure, shapes and dtypes of the primals (float0 for integers); those
        that are zero are zeros, or, with `symbolic_zeros`, of class SymbolicZero.  Returns `jvp`,
        so that it serves as a decorator.
        """
        check_callable(jvp, "defjvp")
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: `jvps[k](tangent, result, *primals)` is its contribution
        to the result's tangent; None for an argument without one.

        >>> import covector as cv
        >>> f = cv.custom_jvp(lambda x, y: x * y)
        >>> f.defjvps(lambda dx, out, x, y: dx * y, lambda dy, out, x, y: x * dy)
        >>> float(cv.grad(f)(2.0, 3.0))
        3.0
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")
        for rule in jvps:
            if rule is not None:
                check_callable(rule, "defjvps")

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise TypeError(
                    f"defjvps of {name_of(self.fun)} was given {len(jvps)} rules, but the "
                    f"function was called with {len(primals)} arguments; give None for an "
                    "argument without a derivative"
                )
            result = self(*primals)
            parts = [
                rule(t, result, *primals)
                for t, rule in zip(tangents, jvps, strict=True)
                if rule is not None
            ]
            if not parts:
                return result, tree.map(zero_from_primal, result)
            return result, tree.map(_total, *parts)

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function; under a derivative, the rule."""
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp."
            )
        every = by_position(self.fun, args, kwargs, "custom_jvp")
        places, moving = self._nondiff.split(every, self.fun, "custom_jvp")
        leaves, in_tree = tree.flatten(tuple(moving))
        check_values(leaves, tuple(moving), f"an argument of custom_jvp of {name_of(self.fun)}")
        fixed = [tree.map(_stopped, every[k]) for k in places]
        call = _Call(self, places, fixed, in_tree)
        op = CustomCall(CustomJvpCall, call.value, call.rule, name_of(self.fun))
        outs = op(*map(as_array, leaves))
        return tree.unflatten(call.out_tree, outs)


def _stopped(leaf: Any) -> Any:
    """A nondiff argument has no derivative, even if it is an array that is differentiated."""
    if isinstance(leaf, Tracer) and dtypes.issubdtype(leaf.dtype, np.inexact):
        return ops.select.stop_gradient(leaf)
    return leaf


def _total(*parts: Any) -> Any:
    given = [p for p in parts if typeof(p).dtype != dtypes.float0]
    if not given:
        return parts[0]
    total = as_array(given[0])
    for part in given[1:]:
        total = total + part
    return total


class _Call:
    """One call: function and rule as functions of flat values."""

    __slots__ = ("fixed", "in_tree", "of", "out_avals", "out_tree", "places")

    def __init__(
        self, of: custom_jvp, places: Sequence[int], fixed: Sequence[Any], in_tree: Any
    ) -> None:
        self.of, self.places, self.fixed, self.in_tree = of, places, fixed, in_tree
        #: The structure and types of the result, once known.
        self.out_tree: Any = None
        self.out_avals: Any = None

    def value(self, *leaves: Any) -> list[Any]:
        """The function."""
        fun = self.of.fun
        args = merged(self.places, self.fixed, tree.unflatten(self.in_tree, leaves))
        result = run(fun, *args)
        outs, self.out_tree = tree.flatten(result)
        check_values(outs, result, f"the result of custom_jvp function {name_of(fun)}")
        self.out_avals = avals_of(outs)
        return outs

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The rule; a None is shown to it as zeros, and a symbolic zero it gives is None."""
        of = self.of
        given = [
            zero_of(tangent_aval(typeof(x)), of.symbolic_zeros) if t is None else as_array(t)
            for x, t in zip(primals, tangents, strict=True)
        ]
        shown = [tree.unflatten(self.in_tree, values) for values in (primals, given)]
        made = run(of.jvp, *self.fixed, *shown)
        title = f"Custom JVP rule {name_of(of.jvp)} for function {name_of(of.fun)}"
        result, tangent = pair_of(
            made,
            f"{title} must produce a pair (list or tuple of length two) representing primal and "
            "tangent outputs",
        )
        outs, out_tree = tree.flatten(result)
        moved, moved_tree = tree.flatten(tangent)
        if out_tree != moved_tree:
            raise TypeError(
                f"{title} must produce primal and tangent outputs with equal container (pytree) "
                f"structures, but got {out_tree} and {moved_tree} respectively."
            )
        check_values(outs, result, f"the primal output of {title}")
        avals = avals_of(outs)
        if self.out_avals is not None:
            check_like_function(title, of.fun, (out_tree, avals), (self.out_tree, self.out_avals))
        self.out_tree = out_tree
        pairs = enumerate(zip(moved, avals, strict=True))
        return outs, [self._checked(k, t, a, result) for k, (t, a) in pairs]

    def _checked(self, k: int, tangent: Any, aval: Any, result: Any) -> Any:
        """A tangent that fits its primal; None if it is zero."""
        wanted = tangent_aval(aval)
        if isinstance(tangent, SymbolicZero):
            return None
        given = typeof(tangent)
        if given.shape != wanted.shape or given.dtype != wanted.dtype:
            where = path_in(result, k)
            raise TypeError(
                f"Custom JVP rule {name_of(self.of.jvp)} for function {name_of(self.of.fun)} must "
                "produce primal and tangent outputs with corresponding shapes and dtypes. Expected "
                f"{shorts([wanted])} (tangent type of {shorts([aval])}) but got {shorts([given])}"
                f"{f' at {where}' if where else ''}."
            )
        return None if wanted.dtype == dtypes.float0 else as_array(tangent)
