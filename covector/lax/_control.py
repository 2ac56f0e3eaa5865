"""Loops whose body is traced once: `while_loop` and `fori_loop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector.api.arguments import Flat, avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.ops.control import While
from covector.trace.stage import trace_to_jaxpr
from covector.tree_util import keystr


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """`val = init_val; while cond_fun(val): val = body_fun(val)`; both are traced once.

    `init_val`: a tree of arrays; `body_fun` must give one of the same structure, shapes and
    dtypes, `cond_fun` a boolean scalar.  Raises TypeError, with the parts that differ, otherwise.

    >>> from covector import lax
    >>> int(lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3))
    192
    """
    check_callable(cond_fun, "while_loop")
    check_callable(body_fun, "while_loop")
    leaves, in_tree = tree.flatten(init_val)
    check_values(leaves, init_val, "the start value of while_loop")
    call_tree = tree.structure(((init_val,), {}))
    leaves, avals, body = _fixed_point(body_fun, leaves, in_tree, call_tree, init_val)
    cond_flat = Flat(cond_fun, call_tree)
    cond = trace_to_jaxpr(cond_flat, avals, name_of(cond_fun))
    given = [a.strong().str_short() for a in cond.out_avals]
    if given != ["bool[]"]:
        raise TypeError(
            f"while_loop: cond_fun {name_of(cond_fun)} must return a boolean scalar; got {given}"
        )
    cond_jaxpr, cond_consts = _lift(cond)
    body_jaxpr, body_consts = _lift(body)
    loop = While(cond_jaxpr, body_jaxpr, len(cond_consts), len(body_consts))
    return tree.unflatten(in_tree, loop(*cond_consts, *body_consts, *leaves))


def _fixed_point(
    body_fun: Any, leaves: list[Any], in_tree: Any, call_tree: Any, init_val: Any
) -> tuple[list[Any], list[ShapedArray], ClosedJaxpr]:
    """The start values brought to the types that the body gives, where weak types yield."""
    while True:  # ends, since each value becomes strong at most once
        avals = list(avals_of(leaves))
        flat = Flat(body_fun, call_tree)
        body = trace_to_jaxpr(flat, avals, name_of(body_fun))
        if flat.out_tree != in_tree:
            raise TypeError(
                f"while_loop: body_fun {name_of(body_fun)} must return a value of the structure it "
                f"takes; it takes {in_tree} and returns {flat.out_tree}"
            )
        outs = body.out_avals
        if avals == outs:
            break
        for a, b in zip(avals, outs, strict=True):
            fits = a.weak_type and dtypes.promote_types(a.dtype, b.dtype) == b.dtype
            if a.shape != b.shape or (a.dtype != b.dtype and not fits):
                raise TypeError(_mismatch(body_fun, init_val, avals, outs))
        leaves = [
            x
            if a is b or (a.dtype == b.dtype and b.weak_type)
            else ops.cast.convert_element_type(x, b.dtype, False)
            for x, a, b in zip(leaves, avals, outs, strict=True)
        ]
        if avals_of(leaves) == tuple(avals):
            break
    return [as_array(x) for x in leaves], avals, body


def _mismatch(body_fun: Any, init_val: Any, avals: Any, outs: Any) -> str:
    paths = [keystr(path) or "the value" for path, _ in tree.flatten_with_path(init_val)[0]]
    lines = [
        f"  {p}: takes {a.str_short()}, returns {b.str_short()}"
        for p, a, b in zip(paths, avals, outs, strict=True)
        if a.strong() is not b.strong()
    ]
    return (
        f"while_loop: body_fun {name_of(body_fun)} must return a value of the types it takes:\n"
        + "\n".join(lines)
    )


def _lift(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    body = program.jaxpr
    lifted = body.replace(constvars=[], invars=[*body.constvars, *body.invars])
    return ClosedJaxpr(lifted), [as_array(c) for c in program.consts]


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: Any = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`; the body is traced once.

    Bounds may be traced integers.  `unroll` is a hint.  Errors as for `while_loop`.

    >>> from covector import lax
    >>> int(lax.fori_loop(0, 10, lambda i, total: total + i, 0))
    45
    """
    del unroll
    check_callable(body_fun, "fori_loop")
    for what, bound in (("lower", lower), ("upper", upper)):
        aval = typeof(bound)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"fori_loop: {what} must be an integer scalar; got {aval.str_short()}")
    dtype = dtypes.result_type(lower, upper)
    start, stop = (ops.cast.convert_element_type(as_array(b), dtype, False) for b in (lower, upper))

    def going(state: Any) -> Any:
        return ops.pointwise.lt(state[0], state[1])

    def step(state: Any) -> Any:
        i, last, value = state
        return ops.pointwise.add(i, dtype.type(1)), last, body_fun(i, value)

    step.__name__ = name_of(body_fun)
    return while_loop(going, step, (start, stop, init_val))[2]
