"""`grad` and its kin, as users call them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from covector import dtypes, ops, tree
from covector._base.boundary import api_boundary
from covector._base.context import context
from covector.api.arguments import (
    Flat,
    avals_of,
    check_callable,
    check_values,
    name_of,
    select_arguments,
)
from covector.api.arrays import as_array
from covector.api.jit import jit
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.ir.op import Linear
from covector.ir.values import typeof
from covector.trace.stage import eval_jaxpr
from covector.trace.tracer import tangent_aval
from covector.transforms.jvp import jvp_flat
from covector.transforms.partial import linearize_flat
from covector.transforms.tools import tools
from covector.transforms.transpose import backward_pass
from covector.tree_util import register_pytree_node, treedef_tuple

_NO_KEYWORDS: Final = tree.structure({})
_LEAF: Final = tree.structure(0)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar-valued function.

    Args:
      fun: a function of arrays (or pytrees of them) whose result is a real scalar.
      argnums: the positional argument(s) to differentiate; a tuple gives a tuple of gradients.
      has_aux: `fun` returns (value, auxiliary data); so does the gradient function.
      holomorphic: `fun` is complex and holomorphic.
      allow_int: integer arguments are allowed; their gradient is of dtype float0.

    Returns a function of the same arguments, whose result has the structure, shapes and dtypes of
    the differentiated arguments.  Raises TypeError if the result of `fun` is no real scalar, or
    if a differentiated argument is not of an inexact dtype.

    >>> import covector as cv
    >>> float(cv.grad(lambda w, x: w * x)(13.0, 42.0))
    42.0
    """
    check_callable(fun, "grad")
    _no_reduce_axes(reduce_axes, "grad")
    inner = _evaluated(fun, argnums, has_aux, holomorphic, allow_int)

    @api_boundary
    @functools.wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = inner(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The value and the gradient of a scalar-valued function; arguments as for `grad`.

    >>> import covector as cv
    >>> value, gradient = cv.value_and_grad(lambda x: x**2)(3.0)
    >>> float(value), float(gradient)
    (9.0, 6.0)
    """
    check_callable(fun, "grad")
    _no_reduce_axes(reduce_axes, "grad")
    inner = _evaluated(fun, argnums, has_aux, holomorphic, allow_int)
    return api_boundary(functools.wraps(fun)(inner))


def _evaluated(
    fun: Callable[..., Any], argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool
) -> Callable[..., Any]:
    """What `value_and_grad` computes, without the border around it."""

    def evaluated(*args: Any, **kwargs: Any) -> Any:
        partial, numbers = select_arguments(fun, argnums, args, "grad")
        chosen = tuple(args[n] for n in numbers)
        leaves, in_tree = tree.flatten((chosen,))
        check_values(leaves, chosen, f"an argument of grad of {name_of(fun)}")
        avals = avals_of(leaves)
        for leaf, aval in zip(leaves, avals, strict=True):
            _check_input(aval, leaf, holomorphic, allow_int)
        at_once = context.trace.parent is None
        if at_once:  # else each operation makes an array of the number anew
            leaves = [as_array(x) if type(x) is float else x for x in leaves]

        def call(c: Any) -> Any:
            return partial(c, kwargs)

        flat = Flat(call, _call_tree(in_tree), has_aux)
        flat.described = (fun, numbers, True)
        varies = [dtypes.issubdtype(a.dtype, np.inexact) for a in avals]
        outs, moving, program = linearize_flat(flat, leaves, avals, varies, tools)
        value = _check_output(outs, flat.out_tree, fun, holomorphic)
        one = _one(value)
        cts = [as_array(one) if at_once else one] if moving[0] else []
        linear = [Linear(v.aval) for v in program.jaxpr.invars]
        found = iter(backward_pass(program.jaxpr, program.consts, linear, cts, tools))
        gradients = [
            _gradient(next(found) if v else None, a) for a, v in zip(avals, varies, strict=True)
        ]
        result = tree.unflatten(in_tree, gradients)[0]
        if not isinstance(argnums, (tuple, list)):
            result = result[0]
        value_out = as_array(outs[0])
        return ((value_out, flat.aux), result) if has_aux else (value_out, result)

    return evaluated


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `fun` at `primals` and its derivative in the direction `tangents`.

    `primals`, `tangents`: tuples or lists, one entry per argument, of equal structure, shapes and
    dtypes (the tangent of an integer array is of dtype float0).  Returns (value, tangent), or
    (value, tangent, aux) with `has_aux`.  Raises TypeError where they do not match.

    >>> import covector as cv
    >>> value, tangent = cv.jvp(lambda x: x**2, (3.0,), (1.0,))
    >>> float(tangent)
    6.0
    """
    check_callable(fun, "jvp")
    for what, given in (("primal", primals), ("tangent", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"{what} arguments to jvp must be a tuple or list; found {type(given).__name__}"
            )
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    directions, tangent_tree = tree.flatten((tuple(tangents), {}))
    if in_tree != tangent_tree:
        raise TypeError(
            "primal and tangent arguments to jvp must have the same tree structure; "
            f"primals have {in_tree} whereas tangents have {tangent_tree}"
        )
    check_values(leaves, primals, "a primal argument of jvp")
    avals = avals_of(leaves)
    directions = [_tangent(t, a, "jvp") for t, a in zip(directions, avals, strict=True)]
    flat = Flat(fun, in_tree, has_aux)
    outs, out_tangents = jvp_flat(flat, leaves, directions, tools)
    full = [_gradient(t, typeof(o)) for t, o in zip(out_tangents, outs, strict=True)]
    value = tree.unflatten(flat.out_tree, [as_array(x) for x in outs])
    tangent = tree.unflatten(flat.out_tree, full)
    return (value, tangent, flat.aux) if has_aux else (value, tangent)


class _Residuals:
    """A linear program and the residuals it reads: what is common to both directions."""

    __slots__ = ("consts", "in_avals", "in_tree", "jaxpr", "moving", "out_avals", "out_tree")

    def __init__(self, *fields: Any) -> None:
        (self.consts, self.jaxpr, self.in_tree, self.out_tree) = fields[:4]
        self.in_avals, self.out_avals, self.moving = fields[4:]

    def static(self) -> tuple[Any, ...]:
        """All but the residuals."""
        return (self.jaxpr, self.in_tree, self.out_tree, self.in_avals, self.out_avals, self.moving)


@final
class LinearFunction(_Residuals):
    """The derivative of a function at a point: a linear function, and a pytree of residuals."""

    __slots__ = ()

    @api_boundary
    def __call__(self, *tangents: Any) -> Any:
        """The tangent of the result, for tangents of the arguments."""
        leaves, given = tree.flatten((tangents, {}))
        if given != self.in_tree:
            raise TypeError(
                f"the linearized function takes tangents of structure {self.in_tree}; got {given}"
            )
        leaves = [
            _tangent(t, a, "the linearized function", ValueError)
            for t, a in zip(leaves, self.in_avals, strict=True)
        ]
        used = [
            ops.shape.zeros(tangent_aval(a)) if t is None else t
            for t, a in zip(leaves, self.in_avals, strict=True)
            if dtypes.issubdtype(a.dtype, np.inexact)
        ]
        found = iter(eval_jaxpr(self.jaxpr, self.consts, *used))
        outs = [
            _gradient(next(found) if m else None, a)
            for m, a in zip(self.moving, self.out_avals, strict=True)
        ]
        return tree.unflatten(self.out_tree, outs)


@final
class VjpFunction(_Residuals):
    """The transposed derivative: cotangents of the results to those of the arguments."""

    __slots__ = ()

    @api_boundary
    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        """A tuple with a cotangent for each argument, given that of the result."""
        if len(cotangents) != 1:
            raise TypeError(
                f"a function returned by vjp takes one argument, the cotangent of the one value "
                f"that the differentiated function returns, even if that is a tuple; got "
                f"{len(cotangents)}. Pass a tuple: pullback((ct1, ct2))"
            )
        leaves, given = tree.flatten(cotangents[0])
        if given != self.out_tree:
            raise ValueError(
                "the vjp function wants a cotangent of the structure of the function's result, "
                f"{self.out_tree}; got {given}"
            )
        cts = [_cotangent(ct, aval) for ct, aval in zip(leaves, self.out_avals, strict=True)]
        cts = [ct for ct, m in zip(cts, self.moving, strict=True) if m]
        linear = [Linear(v.aval) for v in self.jaxpr.invars]
        found = iter(backward_pass(self.jaxpr, self.consts, linear, cts, tools))
        outs = [
            _gradient(next(found) if dtypes.issubdtype(a.dtype, np.inexact) else None, a)
            for a in self.in_avals
        ]
        args, _ = tree.unflatten(self.in_tree, outs)
        return args


def _rebuild(cls: type[_Residuals]) -> Callable[..., Any]:
    def rebuild(static: Any, consts: Any) -> Any:
        return cls(list(consts), *static)

    return rebuild


for _cls in (LinearFunction, VjpFunction):
    register_pytree_node(_cls, lambda f: (f.consts, f.static()), _rebuild(_cls))


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(value of `fun` at `primals`, its derivative there as a linear function of tangents).

    With `has_aux`, the auxiliary data as third result.

    >>> import covector as cv
    >>> value, derivative = cv.linearize(lambda x: x**3, 2.0)
    >>> float(derivative(1.0))
    12.0
    """
    return _linear(fun, primals, has_aux, LinearFunction, "linearize")


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """(value of `fun` at `primals`, function from its cotangent to a tuple of the arguments').

    With `has_aux`, the auxiliary data as third result.

    >>> import covector as cv
    >>> value, pullback = cv.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> [float(ct) for ct in pullback(1.0)]
    [5.0, 2.0]
    """
    _no_reduce_axes(reduce_axes, "vjp")
    return _linear(fun, primals, has_aux, VjpFunction, "vjp")


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two passes of reverse mode as two functions, compiled each for itself if `jitted`.

    `fwd(*args)` gives (value, residuals), or (value, residuals, aux) with `has_aux`;
    `bwd(residuals, cotangent)` gives the cotangents of the arguments numbered `argnums` (of one, if
    it is an int).

    >>> import covector as cv
    >>> fwd, bwd = cv.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> value, residuals = fwd(2.0, 3.0)
    >>> [float(ct) for ct in bwd(residuals, 1.0)]
    [3.0, 2.0]
    """
    check_callable(fun, "fwd_and_bwd")

    def fwd(*args: Any, **kwargs: Any) -> Any:
        partial, numbers = select_arguments(fun, argnums, args, "fwd_and_bwd")
        chosen = [args[n] for n in numbers]
        return vjp(lambda *c: partial(c, kwargs), *chosen, has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found if isinstance(argnums, (tuple, list)) else found[0]

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def _linear(
    fun: Callable[..., Any], primals: Any, has_aux: bool, kind: type[_Residuals], who: str
) -> Any:
    check_callable(fun, who)
    leaves, in_tree = tree.flatten((primals, {}))
    check_values(leaves, primals, f"an argument of {who} of {name_of(fun)}")
    avals = avals_of(leaves)
    varies = [dtypes.issubdtype(a.dtype, np.inexact) for a in avals]
    flat = Flat(fun, in_tree, has_aux)
    outs, moving, program = linearize_flat(flat, leaves, avals, varies, tools)
    out_avals = avals_of(outs)
    derivative = kind(
        program.consts, _open(program), in_tree, flat.out_tree, avals, out_avals, tuple(moving)
    )
    value = tree.unflatten(flat.out_tree, [as_array(x) for x in outs])
    return (value, derivative, flat.aux) if has_aux else (value, derivative)


def _no_reduce_axes(reduce_axes: Any, who: str) -> None:
    if reduce_axes:
        raise NotImplementedError(f"reduce_axes argument to {who} is deprecated")


def _open(program: ClosedJaxpr) -> Jaxpr:
    return program.jaxpr


def _call_tree(in_tree: Any) -> Any:
    """The structure ((chosen,), {}) from that of (chosen,)."""
    return treedef_tuple((in_tree, _NO_KEYWORDS))


def _check_input(aval: ShapedArray, leaf: Any, holomorphic: bool, allow_int: bool) -> None:
    complex_ = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if holomorphic:
        if not complex_:
            raise TypeError(
                "grad with holomorphic=True requires inputs with complex dtype, but got "
                f"{aval.dtype.name}"
            )
        return
    if isinstance(aval.dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(
        aval.dtype, np.inexact
    ):
        if allow_int:
            return
        raise TypeError(
            "grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {aval.dtype}. To differentiate through integers, pass them as "
            "floats, or use allow_int=True, which gives a trivial gradient"
        )


def _check_output(outs: list[Any], out_tree: Any, fun: Any, holomorphic: bool) -> Any:
    if len(outs) != 1 or out_tree != _LEAF:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. The output of {name_of(fun)} "
            f"was a tree: {out_tree}"
        )
    aval = typeof(outs[0])
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output of {name_of(fun)} had "
            f"shape: {aval.shape}. Reduce it to a scalar, e.g. with .sum(), or use jacrev"
        )
    wanted = np.complexfloating if holomorphic else np.floating
    if not dtypes.issubdtype(aval.dtype, wanted):
        kind = "complex" if holomorphic else "real"
        hint = "" if holomorphic else (
            " For holomorphic differentiation, pass holomorphic=True; for functions with complex "
            "or integer outputs, use vjp"
        )  # fmt: skip
        raise TypeError(
            f"grad requires {kind}-valued outputs (output dtype that is a sub-dtype of "
            f"np.{wanted.__name__}), but got {aval.dtype}.{hint}"
        )
    return aval


def _one(aval: ShapedArray) -> Any:
    if not aval.weak_type:
        return aval.dtype.type(1)
    return 1.0 + 0j if dtypes.issubdtype(aval.dtype, np.complexfloating) else 1.0


def _gradient(ct: Any, aval: ShapedArray) -> Any:
    """The (co)tangent as an array; zeros where it is None, float0 for integers."""
    if ct is not None:
        return as_array(ct)
    wanted = tangent_aval(aval)
    if wanted.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros_of(wanted)


def zeros_of(aval: ShapedArray) -> Any:
    """An array of zeros, weakly typed if `aval` is."""
    if aval.weak_type:
        python = 0j if dtypes.issubdtype(aval.dtype, np.complexfloating) else 0.0
        if typeof(python).dtype == aval.dtype:
            return as_array(ops.shape.broadcast_in_dim(as_array(python), aval.shape, ()))
    return as_array(ops.shape.zeros(aval))


def _tangent(t: Any, aval: ShapedArray, who: str, wrong_dtype: type[Exception] = TypeError) -> Any:
    """A user's tangent, checked against the primal's type; None for float0.

    ValueError for another shape, `wrong_dtype` for another dtype.
    """
    wanted = tangent_aval(aval)
    if wanted.dtype == dtypes.float0:
        given = getattr(t, "dtype", None)
        if given != dtypes.float0:
            raise wrong_dtype(
                f"{who}: the tangent of an input of type {aval.str_short()} must have dtype "
                f"float0; got {t!r}"
            )
        return None
    given = typeof(t)
    error = ValueError if given.shape != wanted.shape else wrong_dtype
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        raise error(
            f"{who}: primal and tangent arguments do not match: the tangent of a primal of type "
            f"{aval.str_short()} must be of the same type; got {given.str_short()}"
        )
    return t


def _cotangent(ct: Any, aval: ShapedArray) -> Any:
    wanted = tangent_aval(aval)
    if wanted.dtype == dtypes.float0:
        return None
    given = typeof(ct)
    if given.shape != wanted.shape or (given.dtype != wanted.dtype and not given.weak_type):
        raise ValueError(
            "unexpected cotangent: the result of the function is of type "
            f"{aval.str_short()}, so its cotangent must be; got {given.str_short()}"
        )
    return ct if given.dtype == wanted.dtype else np.asarray(ct, wanted.dtype)[()]


__all__ = ["fwd_and_bwd", "grad", "jvp", "linearize", "value_and_grad", "vjp", "zeros_of"]
