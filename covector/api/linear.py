"""Linear functions and closures: `linear_transpose`, `linear_call`, `closure_convert`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from covector import ops, tree
from covector._base.boundary import api_boundary
from covector.api.arguments import Flat, avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.api.inspect import abstract
from covector.ir.avals import ShapedArray
from covector.ir.op import Linear
from covector.ir.values import typeof
from covector.ops.linear_call import LinearCall, Named, Side
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import Tracer
from covector.transforms.tools import tools
from covector.transforms.transpose import backward_pass


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()
) -> Callable[..., Any]:
    """The transpose of a linear function, without evaluating it.

    `primals`: arrays, or anything with a shape and a dtype, that tell the types of the arguments.
    Returns a function from a cotangent, of the structure and types of the result of `fun`, to a
    tuple of cotangents of the arguments.  Raises NotImplementedError, when called, if `fun` is not
    linear; TypeError for a cotangent that does not match.

    >>> import covector as cv
    >>> transposed = cv.linear_transpose(lambda x, y: 0.5 * x - 0.5 * y, 1.0, 2.0)
    >>> [float(ct) for ct in transposed(1.0)]
    [0.5, -0.5]
    """
    check_callable(fun, "linear_transpose")
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to linear_transpose is deprecated")
    leaves, in_tree = tree.flatten((primals, {}))
    avals = [_abstract(x, fun) for x in leaves]
    flat = Flat(fun, in_tree)
    program = trace_to_jaxpr(flat, avals, name_of(fun))
    out_avals, out_tree = program.out_avals, flat.out_tree

    @api_boundary
    def transposed(cotangent: Any) -> tuple[Any, ...]:
        cts, given = tree.flatten(cotangent)
        if given != out_tree:
            raise TypeError(
                f"cotangent tree does not match function output, expected {out_tree} but got "
                f"{given}"
            )
        check_values(cts, cotangent, "a cotangent")
        for ct, aval in zip(avals_of(cts), out_avals, strict=True):
            if ct.shape != aval.shape or ct.dtype != aval.dtype:
                raise TypeError(
                    f"cotangent type does not match function output, expected "
                    f"{aval.str_short()} but got {ct.str_short()}"
                )
        linear = [Linear(a) for a in avals]
        found = backward_pass(program.jaxpr, program.consts, linear, cts, tools)
        outs = [
            as_array(ops.shape.zeros(a) if ct is None else ct)
            for ct, a in zip(found, avals, strict=True)
        ]
        return tree.unflatten(in_tree, outs)[0]

    return transposed


def _abstract(x: Any, fun: Any) -> ShapedArray:
    try:
        return abstract(x)
    except TypeError:
        check_values([x], x, f"an argument of linear_transpose of {name_of(fun)}")
        raise


@api_boundary
def linear_call(
    fun: Callable[..., Any],
    fun_transpose: Callable[..., Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """`fun(residual_args, linear_args)`, a linear function of the second, with its own transpose.

    `fun_transpose(residual_args, cotangent)` gives the cotangent of `linear_args`.  Each of the
    two arguments is a pytree of arrays.

    >>> import covector as cv
    >>> from covector.custom_derivatives import linear_call
    >>> def divide(x, y):
    ...     return linear_call(lambda r, t: t / r, lambda r, ct: ct / r, y, x)
    >>> float(cv.grad(divide)(1.0, 4.0))
    0.25
    """
    residuals, residual_tree = tree.flatten(residual_args)
    leaves, linear_tree = tree.flatten(linear_args)
    check_values(residuals, residual_args, "a residual of linear_call")
    check_values(leaves, linear_args, "a linear argument of linear_call")
    in_avals = avals_of(leaves)

    def forth(res: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        result = fun(tree.unflatten(residual_tree, res), tree.unflatten(linear_tree, values))
        return tree.leaves(result)

    def back(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        given = [
            ops.shape.zeros(a) if ct is None else ct for ct, a in zip(cts, out_avals, strict=True)
        ]
        made, made_tree = tree.flatten(
            fun_transpose(tree.unflatten(residual_tree, res), tree.unflatten(out_tree, given))
        )
        if made_tree != linear_tree:
            raise TypeError(
                f"linear_call: {name_of(fun_transpose)} must give cotangents of the structure of "
                f"the linear arguments, {linear_tree}; got {made_tree}"
            )
        return made

    flat = Flat(fun, tree.structure(((residual_args, linear_args), {})))
    shape = trace_to_jaxpr(flat, [*avals_of(residuals), *in_avals], name_of(fun))
    out_avals, out_tree = shape.out_avals, flat.out_tree
    callee = Side(forth, avals_of(residuals), in_avals, out_avals)
    call = LinearCall(callee, Named(back, name_of(fun_transpose)), len(residuals))
    return tree.unflatten(out_tree, call(*map(as_array, residuals), *map(as_array, leaves)))


@api_boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """(function that takes what `fun` closes over as further arguments, these values).

    `fun` is traced with arguments of the types of `example_args`; the converted function takes
    arguments of these types, then the values.  What is taken out are the traced arrays that `fun`
    closes over, with respect to which a derivative may be wanted; constants stay in.

    >>> import covector as cv
    >>> def slope(y):
    ...     converted, values = cv.closure_convert(lambda x: x * y, 1.0)
    ...     return converted(3.0, *values)
    >>> float(cv.grad(slope)(2.0))
    3.0
    """
    check_callable(fun, "closure_convert")
    leaves, in_tree = tree.flatten((example_args, {}))
    check_values(leaves, example_args, f"an example argument of closure_convert of {name_of(fun)}")
    flat = Flat(fun, in_tree)
    program = trace_to_jaxpr(flat, avals_of(leaves), name_of(fun))
    taken = [isinstance(c, Tracer) for c in program.consts]
    hoisted = [c for c, t in zip(program.consts, taken, strict=True) if t]
    kept = [None if t else c for c, t in zip(program.consts, taken, strict=True)]
    count, avals, out_tree = len(example_args), avals_of(leaves), flat.out_tree

    @functools.wraps(fun)
    def converted(*args: Any) -> Any:
        given, given_tree = tree.flatten((args[:count], {}))
        if given_tree != in_tree or len(args) != count + len(hoisted):
            raise TypeError(
                f"the function converted from {name_of(fun)} takes {count} arguments of the "
                f"structure {in_tree} and {len(hoisted)} values it closed over; got "
                f"{len(args)} arguments: {given_tree}"
            )
        for k, (x, wanted) in enumerate(zip(given, avals, strict=True)):
            have = typeof(x)
            if have.shape != wanted.shape or have.dtype != wanted.dtype:
                raise TypeError(
                    f"the function converted from {name_of(fun)}: argument {k} must be of the "
                    f"type it was traced with, {wanted.str_short()}; got {have.str_short()}"
                )
        rest = iter(args[count:])
        consts = [next(rest) if t else c for c, t in zip(kept, taken, strict=True)]
        return tree.unflatten(out_tree, eval_jaxpr(program.jaxpr, consts, *given))

    return converted, hoisted
