"""A `while` whose examples end at different times, in lock-step, for the sake of collectives.

Elsewhere each example has a loop of its own (`over_batch`); a collective over the batch needs all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covector import ops
from covector.ir.values import typeof
from covector.ops.control.parts import cut, with_batch
from covector.trace.stage import trace_to_jaxpr


def lock_step(op: Any, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    """The batch rule of `op`, a While: goes on while any example does; those that are through keep
    their carry, and still take part in collectives.
    """
    batched = [d is not None for d in dims]
    of_cond, of_body, carry = cut(batched, op.cond_nconsts, op.body_nconsts)
    n, m = len(of_cond), len(of_body)
    all_of_them = [True] * len(carry)
    body, _ = tools.batch_jaxpr(op.body_jaxpr, size, [*of_body, *all_of_them], all_of_them)
    cond, _ = tools.batch_jaxpr(op.cond_jaxpr, size, [*of_cond, *all_of_them], [True])
    moved = [
        with_batch(x, b, d, size)
        for x, b, d in zip(args, [*of_cond, *of_body, *all_of_them], dims, strict=True)
    ]

    def going(*values: Any) -> list[Any]:
        (each,) = tools.call(cond, values)
        return [ops.reduce.reduce_or(each, (0,))]

    def step(*values: Any) -> list[Any]:
        cond_consts, body_consts, old = cut(values, n, m)
        (each,) = tools.call(cond, [*cond_consts, *old])
        new = tools.call(body, [*body_consts, *old])
        return [_where(each, a, b) for a, b in zip(new, old, strict=True)]

    avals = [typeof(x) for x in moved]
    fixed, start = cut(moved, n + m)
    loop = ops.control.While(
        trace_to_jaxpr(going, [*avals[:n], *avals[n + m :]], "going"),
        trace_to_jaxpr(step, avals, op.body_jaxpr.jaxpr.debug_name),
        n, n + m,
    )  # fmt: skip
    return loop(*fixed[:n], *fixed, *start), [0] * len(start)


def _where(each: Any, new: Any, old: Any) -> Any:
    return ops.pointwise.where(ops.shape.broadcast_in_dim(each, typeof(new).shape, (0,)), new, old)
