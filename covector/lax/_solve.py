"""Roots and linear systems whose derivatives follow from what is solved, not from how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops, tree
from covector.api.arguments import Flat, avals_of, check_callable, check_values, name_of, split_aux
from covector.api.arrays import as_array
from covector.api.autodiff import jvp
from covector.api.custom_jvp import custom_jvp
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.lax._carry import lift
from covector.ops.control import LinearSolve
from covector.trace.stage import trace_to_jaxpr
from covector.transforms.tools import tools

Solve = Callable[[Callable[[Any], Any], Any], Any]


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solve,
    transpose_solve: Solve | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x of `matvec(x) = b`, by `solve(matvec, b)`; derivatives are solves of the same system.

    `matvec`: a linear function of trees like `b`; what it captures may be differentiated.
    `transpose_solve(vecmat, b)` solves the transposed system, for the reverse derivative; a
    `symmetric` system needs none.  `has_aux`: `solve` returns (x, auxiliary data), and so does
    this.  Raises TypeError where structures, shapes or dtypes do not fit.

    >>> from covector import lax, numpy as cnp
    >>> d = cnp.array([2.0, 4.0])
    >>> lax.custom_linear_solve(lambda x: d * x, cnp.ones(2), lambda f, b: b / d).tolist()
    [0.5, 0.25]
    """
    for f in (matvec, solve, *((transpose_solve,) if transpose_solve is not None else ())):
        check_callable(f, "custom_linear_solve")
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    leaves, b_tree = tree.flatten(b)
    check_values(leaves, b, "b of custom_linear_solve")
    leaves = [as_array(x) for x in leaves]
    avals = [a.strong() for a in avals_of(leaves)]
    product, product_consts, _ = _traced("matvec", matvec, b_tree, avals)

    def forward(x: Any) -> Any:
        return _applied(product, product_consts, x, b_tree)

    def backward(x: Any) -> Any:
        n = len(product_consts)
        turned, _ = tools.transpose_jaxpr(
            product, [False] * n + [True] * len(avals), [True] * len(avals), [True] * len(avals)
        )
        return _applied(turned, product_consts, x, b_tree)

    def run(b: Any) -> Any:
        return solve(forward, b)

    solved, solve_consts, aux_tree = _traced("solve", run, b_tree, avals, has_aux)
    turned_solve, turned_consts = None, []
    if transpose_solve is not None:
        given, vecmat = transpose_solve, forward if symmetric else backward

        def turn(b: Any) -> Any:
            return given(vecmat, b)

        turned_solve, turned_consts, _ = _traced(
            "transpose_solve", turn, b_tree, avals, has_aux, keep_aux=False
        )
    counts = (len(product_consts), len(solve_consts), len(turned_consts))
    aux = len(solved.out_avals) - len(avals)
    op = LinearSolve(product, solved, turned_solve, counts, aux)
    outs = op(*product_consts, *solve_consts, *turned_consts, *leaves)
    x = tree.unflatten(b_tree, outs[: len(avals)])
    return (x, tree.unflatten(aux_tree, outs[len(avals) :])) if has_aux else x


def _traced(
    what: str, fun: Any, b_tree: Any, avals: Sequence[ShapedArray], has_aux: bool = False,
    keep_aux: bool = True,
) -> tuple[ClosedJaxpr, list[Any], Any]:  # fmt: skip
    """(the program, what it captured, structure of its auxiliary results)."""

    def run(x: Any) -> Any:
        if not has_aux:
            return fun(x), ()
        out, aux = split_aux(fun(x))
        return out, aux if keep_aux else ()

    args = (tree.unflatten(b_tree, [object()] * b_tree.num_leaves),)
    flat = Flat(run, tree.structure((args, {})))
    program, consts = lift(trace_to_jaxpr(flat, avals, name_of(fun)))
    x_tree, aux_tree = flat.out_tree.children()
    found = program.out_avals[: len(avals)]
    if x_tree != b_tree:
        raise TypeError(
            f"custom_linear_solve: {what} must return the structure of b, {b_tree}; it returns "
            f"{x_tree}"
        )
    if [a.strong() for a in found] != list(avals):
        raise TypeError(
            f"custom_linear_solve: {what} must return arrays like b, "
            f"{[a.str_short() for a in avals]}; it returns {[a.str_short() for a in found]}"
        )
    return program, consts, aux_tree


def _applied(program: ClosedJaxpr, consts: Sequence[Any], x: Any, structure: Any) -> Any:
    leaves = [as_array(v) for v in tree.leaves(x)]
    return tree.unflatten(structure, tools.call(program, [*consts, *leaves]))


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Solve,
    tangent_solve: Solve,
    has_aux: bool = False,
) -> Any:
    """The x of `f(x) = 0`, by `solve(f, initial_guess)`; differentiated as an implicit function.

    `f` gives a tree like the one it takes; what it captures may be differentiated, the guess is
    not.  `tangent_solve(g, y)` gives the x of `g(x) = y` for linear g.  `has_aux`: `solve` returns
    (x, auxiliary data), and so does this.  Raises TypeError where structures or types do not fit.

    >>> import covector as cv
    >>> from covector import lax
    >>> def root(a):  # of x**2 - a, by Newton's method
    ...     def newton(f, x):
    ...         return lax.fori_loop(0, 20, lambda i, x: x - f(x) / (2 * x), x)
    ...     return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> round(float(cv.grad(root)(4.0)), 4)  # 1 / (2 sqrt(a))
    0.25
    """
    for fun in (f, solve, tangent_solve):
        check_callable(fun, "custom_root")
    leaves, structure = tree.flatten(initial_guess)
    check_values(leaves, initial_guess, "the initial guess of custom_root")
    guess = [ops.select.stop_gradient(as_array(x)) for x in leaves]
    avals = [a.strong() for a in avals_of(guess)]
    program, consts, _ = _traced_like(f, structure, avals)
    aux_tree: list[Any] = []

    def function(consts: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda x: _applied(program, consts, x, structure)

    @custom_jvp
    def root(consts: list[Any], guess: list[Any]) -> Any:
        out = solve(function(consts), tree.unflatten(structure, guess))
        x, aux = split_aux(out) if has_aux else (out, ())
        if tree.structure(x) != structure:
            raise TypeError(
                f"custom_root: solve must return the structure of the guess, {structure}; it "
                f"returns {tree.structure(x)}"
            )
        aux_tree[:] = [tree.structure(aux)]
        return [as_array(v) for v in tree.leaves(x)], [as_array(v) for v in tree.leaves(aux)]

    @root.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        consts, guess = primals
        x, aux = root(consts, guess)
        whole = tree.unflatten(structure, x)

        def residual(c: Any) -> Any:
            return function(c)(whole)

        _, moved = jvp(residual, (consts,), (tangents[0],))
        right = tree.map(ops.pointwise.neg, moved)

        def linear(v: Any) -> Any:
            return jvp(function(consts), (whole,), (v,))[1]

        dx = tree.leaves(tangent_solve(linear, right))
        return (x, aux), (dx, [ops.shape.zeros(a) for a in avals_of(aux)])

    x, aux = root(consts, guess)
    out = tree.unflatten(structure, x)
    return (out, tree.unflatten(aux_tree[0], aux)) if has_aux else out


def _traced_like(
    f: Any, structure: Any, avals: Sequence[ShapedArray]
) -> tuple[ClosedJaxpr, list[Any], Any]:
    args = (tree.unflatten(structure, [object()] * structure.num_leaves),)
    flat = Flat(f, tree.structure((args, {})))
    program, consts = lift(trace_to_jaxpr(flat, avals, name_of(f)))
    if flat.out_tree != structure or [a.strong() for a in program.out_avals] != list(avals):
        raise TypeError(
            f"custom_root: f must return what it takes, {[a.str_short() for a in avals]} in "
            f"{structure}; it returns {[a.str_short() for a in program.out_avals]} in "
            f"{flat.out_tree}"
        )
    return program, consts, flat.out_tree
