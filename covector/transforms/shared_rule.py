"""A user's reverse rule in a function under `shard_map` that knows what all devices share.

There each device holds a part of the cotangent of a value that all share, and the parts are summed
in the end.  A rule is given the sum, as it is written for one value; and if it gives all devices
the same cotangent of an argument they share, that is the whole of it, not a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.ops.collective import AxisIndex, Psum
from covector.ops.custom import Forward
from covector.trace.stage import eval_jaxpr, known_inputs, trace_to_jaxpr


def shared_rule(rule: Any, region: Any, args: Sequence[Any]) -> Any:
    """`rule`, a VjpRule, for these arguments."""
    try:
        given = [region.differs(x) for x in args]
    except NotImplementedError:  # nothing is known of them
        return rule

    def forward(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        inner: list[Forward] = []

        def run(*values: Any) -> list[Any]:
            inner[:] = [rule(values, moving)]
            return [*inner[0].outs, *inner[0].residuals]

        with known_inputs(primals):
            program = trace_to_jaxpr(run, [typeof(x) for x in primals])
        names = region.names_of(program, given)
        made = eval_jaxpr(program.jaxpr, program.consts, *primals)
        (found,), count = inner, len(inner[0].outs)

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            whole = [
                ct if ct is None or not (axes := region.same_along(n)) else Psum(axes, None)(ct)
                for ct, n in zip(cts, names, strict=False)
            ]
            return _back(region, found, [*residuals], whole, (names[count:], names, given))

        return Forward(made[:count], made[count:], back)

    return forward


def _back(
    region: Any, found: Forward, residuals: list[Any], cts: list[Any], known: tuple[Any, Any, Any]
) -> list[Any]:
    """The cotangents of the arguments; of those that are whole on each device, one device's."""
    of_residuals, of_outs, of_args = known
    has_ct = [ct is not None for ct in cts]
    has_result: list[bool] = []

    def run(*values: Any) -> list[Any]:
        rest = iter(values[len(residuals) :])
        made = found.back(values[: len(residuals)], [next(rest) if h else None for h in has_ct])
        has_result[:] = [ct is not None for ct in made]
        return [ct for ct in made if ct is not None]

    values = [*residuals, *(ct for ct in cts if ct is not None)]
    names = [*of_residuals, *(n for n, h in zip(of_outs, has_ct, strict=False) if h)]
    with known_inputs(values):
        program = trace_to_jaxpr(run, [typeof(x) for x in values])
    differs = iter(region.names_of(program, names))
    made = iter(eval_jaxpr(program.jaxpr, program.consts, *values))
    out: list[Any] = []
    for has, own in zip(has_result, of_args, strict=True):
        if not has:
            out.append(None)
            continue
        ct, names = next(made), next(differs)
        out.append(_of_one(ct, [a for a in region.same_along(own) if a not in names]))
    return out


def _of_one(ct: Any, axes: Sequence[Any]) -> Any:
    """`ct` on the first device along `axes`, zeros on the others."""
    for axis in axes:
        first = ops.pointwise.eq(AxisIndex(axis)(), np.int32(0))
        ct = ops.pointwise.where(first, ct, ops.shape.zeros(typeof(ct)))
    return ct
