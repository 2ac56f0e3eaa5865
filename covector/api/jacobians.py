"""`jacfwd`, `jacrev`, `hessian`: derivatives of array-valued functions, as arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.boundary import api_boundary
from covector.api.arguments import (
    Flat,
    as_argnums,
    avals_of,
    check_callable,
    check_values,
    name_of,
    select_arguments,
)
from covector.api.arrays import as_array
from covector.api.autodiff import zeros_of
from covector.api.vectorize import check_chunk
from covector.ir.avals import ShapedArray
from covector.ir.op import Linear
from covector.ir.values import typeof
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import tangent_aval
from covector.transforms.jvp import jvp_flat
from covector.transforms.partial import linearize_flat
from covector.transforms.tools import tools
from covector.transforms.transpose import backward_pass
from covector.transforms.vmap import batch_in_chunks


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian, column by column: forward mode, good for few inputs.

    Args:
      fun: a function of arrays or pytrees of them.
      argnums: the positional argument(s) to differentiate; a tuple gives a tuple of Jacobians.
      has_aux: `fun` returns (value, auxiliary data); the result is (Jacobian, auxiliary data).
      holomorphic: `fun` is complex and holomorphic.
      chunk: how many columns are computed at a time, so that memory is bounded (Covector's own).

    Returns a function of the same arguments.  Its result has the structure of the value, in the
    place of each leaf the structure of the argument, and there an array of shape (*shape of the
    value's leaf, *shape of the argument's leaf).  Raises TypeError for inputs that are not real,
    or with `holomorphic` not complex.

    >>> import covector as cv
    >>> cv.jacfwd(lambda x: x**2)(cv.numpy.arange(3.0)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]
    """
    check_callable(fun, "jacfwd")
    chunk = check_chunk(chunk, "jacfwd")

    @api_boundary
    @functools.wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        given = _Chosen("jacfwd", fun, argnums, has_aux, args, kwargs)
        for aval in given.avals:
            _check_forward_input(aval, holomorphic)
        flat = given.flat

        def push(*tangents: Any) -> list[Any]:
            outs, moved = jvp_flat(flat, given.leaves, tangents, tools)
            if holomorphic:
                _check_holomorphic_outputs(outs, "jacfwd")
            full = [
                zeros_of(_row_aval(typeof(x))) if t is None else t
                for x, t in zip(outs, moved, strict=True)
            ]
            return [*full, *outs]

        made, dims = _over_basis(push, given.avals, chunk)
        half = len(made) // 2
        blocks = [
            _columns(t, d, typeof(x), given.avals)
            for t, d, x in zip(made[:half], dims[:half], made[half:], strict=True)
        ]
        return given.finish(blocks)

    return _described(jacobian, fun, argnums, "Jacobian")


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    chunk: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian, row by row: reverse mode, good for few outputs.

    Arguments and result as for `jacfwd`; complex arguments of a real function are allowed, and,
    with `allow_int`, integers (whose Jacobian is zero).  Raises TypeError for outputs that are not
    real, or with `holomorphic` not complex.

    >>> import covector as cv
    >>> cv.jacrev(lambda x: x[:2] * x[2])(cv.numpy.arange(3.0)).tolist()
    [[2.0, 0.0, 0.0], [0.0, 2.0, 1.0]]
    """
    check_callable(fun, "jacrev")
    chunk = check_chunk(chunk, "jacrev")

    @api_boundary
    @functools.wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        given = _Chosen("jacrev", fun, argnums, has_aux, args, kwargs)
        for aval in given.avals:
            _check_reverse_input(aval, holomorphic, allow_int)
        varies = [dtypes.issubdtype(a.dtype, np.inexact) for a in given.avals]
        outs, moving, program = linearize_flat(given.flat, given.leaves, given.avals, varies, tools)
        out_avals = avals_of(outs)
        for aval in out_avals:
            _check_reverse_output(aval, holomorphic)
        body = program.jaxpr
        linear = [Linear(v.aval) for v in body.invars]

        def pull(*cts: Any) -> list[Any]:
            used = [ct for ct, m in zip(cts, moving, strict=True) if m]
            found = backward_pass(body, program.consts, linear, used, tools)
            return [zeros_of(x.aval) if ct is None else ct
                    for ct, x in zip(found, linear, strict=True)]  # fmt: skip

        made, dims = _over_basis(pull, out_avals, chunk)
        found = iter(zip(made, dims, strict=True))
        columns = [
            _rows(*next(found), a, out_avals) if v else _integer_zeros(a, out_avals)
            for a, v in zip(given.avals, varies, strict=True)
        ]
        return given.finish([list(row) for row in zip(*columns, strict=True)] if columns else [
            [] for _ in out_avals
        ])  # fmt: skip

    return _described(jacobian, fun, argnums, "Jacobian")


def jacobian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """As `jacrev`.

    >>> import covector as cv
    >>> float(cv.jacobian(lambda x: x**2)(3.0))
    6.0
    """
    return jacrev(fun, argnums, has_aux, holomorphic, allow_int)


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk: int | None = None,
) -> Callable[..., Any]:
    """The Hessian: `jacfwd` of `jacrev`, with their arguments and structures.

    >>> import covector as cv
    >>> cv.hessian(lambda x: (x**3).sum())(cv.numpy.arange(2.0)).tolist()
    [[0.0, 0.0], [0.0, 6.0]]
    """
    check_callable(fun, "hessian")
    chunk = check_chunk(chunk, "hessian")
    inner = jacrev(fun, argnums, has_aux, holomorphic)
    outer = jacfwd(inner, argnums, has_aux, holomorphic, chunk=chunk)
    return _described(outer, fun, argnums, "Hessian")


def _described(made: Any, fun: Any, argnums: Any, what: str) -> Any:
    name = name_of(fun)
    made.__doc__ = (
        f"{what} of {name} with respect to the positional argument(s) {argnums}; takes the "
        f"arguments of {name}."
    )
    return made


class _Chosen:
    """The differentiated arguments of one call, and the function of their leaves."""

    __slots__ = ("avals", "flat", "has_aux", "in_tree", "leaves", "single")

    def __init__(
        self, who: str, fun: Any, argnums: Any, has_aux: bool, args: Any, kwargs: Any
    ) -> None:
        for n in as_argnums(argnums, who):
            if not -len(args) <= n < len(args):
                raise ValueError(
                    f"{who} of {name_of(fun)}: argnums={argnums} names a positional argument that "
                    f"is not there; got {len(args)}"
                )
        partial, numbers = select_arguments(fun, argnums, args, who)
        chosen = tuple(args[n] for n in numbers)
        self.leaves, self.in_tree = tree.flatten(chosen)
        check_values(self.leaves, chosen, f"an argument of {who} of {name_of(fun)}")
        self.avals = avals_of(self.leaves)
        self.has_aux, self.single = has_aux, not isinstance(argnums, (tuple, list))

        def call(*values: Any) -> Any:
            return partial(values, kwargs)

        self.flat = Flat(call, tree.structure((chosen, {})), has_aux)
        self.flat.described = (fun, numbers, False)

    def finish(self, blocks: Sequence[Sequence[Any]]) -> Any:
        """Blocks by result leaf, then argument leaf, in the structure of result, then argument."""
        parts = [tree.unflatten(self.in_tree, [as_array(x) for x in row]) for row in blocks]
        if self.single:
            parts = [p[0] for p in parts]
        result = tree.unflatten(self.flat.out_tree, parts)
        return (result, self.flat.aux) if self.has_aux else result


def _over_basis(
    fun: Callable[..., list[Any]], avals: Sequence[ShapedArray], chunk: int | None
) -> tuple[list[Any], list[Any]]:
    """(results, their batch axes) of `fun` of every vector of the standard basis."""
    sizes = [a.size for a in avals]
    total = sum(sizes)
    basis = [_unit_vectors(total, sum(sizes[:k]), tangent_aval(a)) for k, a in enumerate(avals)]

    def trace(block: Callable[..., Any], types: Sequence[ShapedArray]) -> tuple[Any, list[bool]]:
        varies: list[bool] = []

        def outs(*values: Any) -> list[Any]:
            made, varies[:] = block(*values)
            return made

        return trace_to_jaxpr(outs, types, "jacobian"), varies

    return batch_in_chunks(
        fun, basis, [0] * len(basis), total, max(chunk or total, 1), tools, trace
    )


def _unit_vectors(total: int, start: int, aval: ShapedArray) -> Any:
    """The part of the unit matrix of size `total` that belongs to a leaf at place `start`."""
    shape = (total, aval.size)
    row = ops.shape.iota(np.dtype(np.int32), shape, 0)
    column = ops.shape.iota(np.dtype(np.int32), shape, 1)
    ones = ops.pointwise.eq(row, ops.pointwise.add(column, np.int32(start)))
    block = ops.cast.convert_element_type(ones, aval.dtype, aval.weak_type)
    return ops.shape.reshape(block, (total, *aval.shape))


def _row_aval(aval: ShapedArray) -> ShapedArray:
    """The type of a derivative of a result; integers have zeros of their own type here."""
    wanted = tangent_aval(aval)
    return aval if wanted.dtype == dtypes.float0 else wanted


def _columns(t: Any, dim: int | None, out: ShapedArray, avals: Sequence[ShapedArray]) -> list[Any]:
    """The blocks of one result, for each argument, from its tangents along the basis."""
    if dim is None:
        return [zeros_of(_row_aval(out).update(shape=(*out.shape, *a.shape))) for a in avals]
    last = ops.shape.move_axis(t, dim, out.ndim)
    blocks: list[Any] = []
    start = 0
    for a in avals:
        block = ops.pieces.slice_along(last, out.ndim, start, start + a.size)
        blocks.append(ops.shape.reshape(block, (*out.shape, *a.shape)))
        start += a.size
    return blocks


def _rows(ct: Any, dim: int | None, aval: ShapedArray, outs: Sequence[ShapedArray]) -> list[Any]:
    """The blocks of one argument, for each result, from its cotangents along the basis."""
    if dim is None:
        return [zeros_of(tangent_aval(aval).update(shape=(*o.shape, *aval.shape))) for o in outs]
    first = ops.shape.move_axis(ct, dim, 0)
    blocks: list[Any] = []
    start = 0
    for o in outs:
        block = ops.pieces.slice_along(first, 0, start, start + o.size)
        blocks.append(ops.shape.reshape(block, (*o.shape, *aval.shape)))
        start += o.size
    return blocks


def _integer_zeros(aval: ShapedArray, outs: Sequence[ShapedArray]) -> list[Any]:
    return [ops.shape.zeros(aval.update(shape=(*o.shape, *aval.shape))) for o in outs]


# What may be differentiated.


def _is(aval: ShapedArray, kind: Any) -> bool:
    return not isinstance(aval.dtype, dtypes.ExtendedDType) and dtypes.issubdtype(aval.dtype, kind)


def _check_forward_input(aval: ShapedArray, holomorphic: bool) -> None:
    if holomorphic and not _is(aval, np.complexfloating):
        raise TypeError(
            f"jacfwd with holomorphic=True requires inputs with complex dtype, but got {aval.dtype}"
        )
    if not holomorphic and not _is(aval, np.floating):
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {aval.dtype}. For holomorphic differentiation, pass holomorphic=True. For "
            "other functions of complex numbers or integers, use jvp"
        )


def _check_holomorphic_outputs(outs: Sequence[Any], who: str) -> None:
    for x in outs:
        if not _is(typeof(x), np.complexfloating):
            raise TypeError(
                f"{who} with holomorphic=True requires outputs with complex dtype, but got "
                f"{typeof(x).dtype}"
            )


def _check_reverse_input(aval: ShapedArray, holomorphic: bool, allow_int: bool) -> None:
    if holomorphic and not _is(aval, np.complexfloating):
        raise TypeError(
            f"jacrev with holomorphic=True requires inputs with complex dtype, but got {aval.dtype}"
        )
    if not allow_int and not _is(aval, np.inexact):
        raise TypeError(
            "jacrev requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {aval.dtype}. For boolean or integer inputs, use vjp, or set "
            "allow_int to True"
        )


def _check_reverse_output(aval: ShapedArray, holomorphic: bool) -> None:
    if holomorphic:
        if not _is(aval, np.complexfloating):
            raise TypeError(
                "jacrev with holomorphic=True requires outputs with complex dtype, but got "
                f"{aval.dtype}"
            )
    elif not _is(aval, np.floating):
        kind = "complex" if _is(aval, np.complexfloating) else "integer"
        hint = "For holomorphic differentiation, pass holomorphic=True. " * (kind == "complex")
        raise TypeError(
            "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {aval.dtype}. {hint}For functions with {kind} outputs, use vjp"
        )
