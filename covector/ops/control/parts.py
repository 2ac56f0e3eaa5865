"""What the operations of this folder share: zeros, permuted programs, a map over a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, cast

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, DropVar, Equation
from covector.ir.values import typeof
from covector.trace.stage import trace_to_jaxpr


def or_zeros(
    given: Sequence[Any], avals: Sequence[ShapedArray], wanted: Sequence[bool]
) -> list[Any]:
    """Those that are wanted; zeros of type `avals` stand in for None."""
    return [
        ops.shape.zeros(a) if x is None else x
        for x, a, w in zip(given, avals, wanted, strict=True)
        if w
    ]


def either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    """Which of them holds, place by place."""
    return [x or y for x, y in zip(a, b, strict=True)]


def spread_out(some: Iterable[Any], mask: Sequence[bool]) -> list[Any]:
    """The values at the places of the mask, None elsewhere."""
    rest = iter(some)
    return [next(rest) if m else None for m in mask]


def cut(values: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """`values` in pieces of these sizes, and the rest."""
    out: list[list[Any]] = []
    start = 0
    for n in sizes:
        out.append(list(values[start : start + n]))
        start += n
    return [*out, list(values[start:])]


def pick(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The values where the mask holds."""
    return list(compress(values, mask))


def leave(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The values where the mask does not hold."""
    return [v for v, m in zip(values, mask, strict=True) if not m]


def lifted(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """(the program with its constants as leading arguments, the constants)."""
    body = program.jaxpr
    whole = body.replace(constvars=[], invars=[*body.constvars, *body.invars])
    return ClosedJaxpr(whole), program.consts


def read_row(x: Any, k: Any) -> Any:
    """Row `k` of `x`, an int32 scalar."""
    shape = typeof(x).shape
    part = ops.slicing.dynamic_slice(x, _starts(k, len(shape)), (1, *shape[1:]))
    return ops.shape.reshape(part, shape[1:])


def write_row(x: Any, new: Any, k: Any) -> Any:
    """`x` with `new` as its row `k`."""
    shape = typeof(x).shape
    part = ops.shape.reshape(new, (1, *shape[1:]))
    return ops.slicing.dynamic_update_slice(x, part, _starts(k, len(shape)))


def _starts(k: Any, rank: int) -> list[Any]:
    return [k, *([np.int32(0)] * (rank - 1))]


def permuted(
    closed: ClosedJaxpr,
    invars: Callable[[Sequence[Any]], Sequence[Any]],
    outvars: Callable[[Sequence[Any]], Sequence[Any]] = tuple,
) -> ClosedJaxpr:
    """The program with its arguments and results in another order."""
    body = closed.jaxpr
    return ClosedJaxpr(
        body.replace(invars=list(invars(body.invars)), outvars=list(outvars(body.outvars))),
        closed.consts,
    )


def silent(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without what is there for its effects alone: what is run again has had them."""
    if not closed.effects:
        return closed
    eqns: list[Equation] = []
    for eqn in closed.eqns:
        if eqn.effects and all(isinstance(v, DropVar) for v in eqn.outvars):
            continue
        if eqn.effects:
            inner = {k: silent_parts(v) for k, v in eqn.params.items()}
            eqn = eqn.replace(op=eqn.op.with_params(**inner))
        eqns.append(eqn)
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def silent_parts(field: Any) -> Any:
    """A field of an operation, with `silent` applied to the programs it holds."""
    if isinstance(field, ClosedJaxpr):
        return silent(field)
    if isinstance(field, tuple):
        items = cast("tuple[Any, ...]", field)
        if any(isinstance(x, ClosedJaxpr) for x in items):
            return tuple(silent_parts(x) for x in items)
    return cast("Any", field)


def with_batch(x: Any, batched: bool, dim: Any, size: int, axis: int = 0) -> Any:
    """`x` with its batch axis at `axis`, if it is to have one."""
    if not batched:
        return x
    if dim is not None:
        return ops.shape.move_axis(x, dim, axis)
    shape = typeof(x).shape
    full = (*shape[:axis], size, *shape[axis:])
    return ops.shape.broadcast_in_dim(x, full, tuple(d for d in range(len(full)) if d != axis))


def over_batch(op: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    """The batch rule of an operation whose examples go different ways: a loop over them.

    It is a `scan` without a carry, whose body is the operation itself, of one example.
    """
    batched = [d is not None for d in dims]
    rows = [ops.shape.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True) if d is not None]
    fixed = leave(args, batched)

    def one(*values: Any) -> list[Any]:
        kept, moving = iter(values[: len(fixed)]), iter(values[len(fixed) :])
        return op(*(next(moving) if b else next(kept) for b in batched))

    row_avals = [ShapedArray(a.shape[1:], a.dtype) for a in map(typeof, rows)]
    body = trace_to_jaxpr(one, [*map(typeof, fixed), *row_avals], op.name)
    outs = ops.control.Scan(body, size, False, len(fixed), 0)(*fixed, *rows)
    return outs, [0] * len(outs)
