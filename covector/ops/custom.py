"""Calls with derivatives of their own: what `custom_jvp`, `custom_vjp`, `linear_call` bind.

A derivative rule is a program, or a function of flat values that is run when it is needed (it may
call the very function whose rule it is).  In flat rules None stands for a zero (co)tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from covector import dtypes, ops
from covector._base.errors import UnexpectedTracerError
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Sample
from covector.ir.values import typeof
from covector.ops.call import Call
from covector.ops.linear_call import (
    LinearCall,
    Mapper,
    Named,
    Pullback,
    Side,
    fronted,
    leading_axis,
    mapper_of,
    or_zero,
    pull_over_batch,
    run_or_bind,
)
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import tangent_aval

#: `(primals, tangents) -> (results, their tangents)`.
JvpRule = Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]


class Forward(NamedTuple):
    """What the forward rule of a `custom_vjp` gives: results, residuals, and how to go back."""

    outs: list[Any]
    residuals: list[Any]
    back: Pullback


#: `(primals, which of them vary) -> Forward`.
VjpRule = Callable[[Sequence[Any], Sequence[bool]], Forward]


class CustomJvpCall(Call):
    """A call whose derivative is `rule`: a JvpRule, or a program of all primals, then the tangents
    of those that have some, to results, then their tangents.

    The first `num_consts` arguments are values that the function closed over.
    """

    name = "custom_jvp_call"
    rule: Any
    num_consts: int

    def __call__(self, *args: Any) -> Any:
        return run_or_bind(self, args)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """What the rule says."""
        refuse_moving(self, tangents[: self.num_consts])
        return self.derive(tools, self.flat_rule(), self.label, primals, tangents)

    def flat_rule(self) -> JvpRule:
        """The rule as a function."""
        if not isinstance(self.rule, ClosedJaxpr):
            return self.rule
        return _jvp_by_program(self.rule, len(self.jaxpr.out_avals))

    @staticmethod
    def derive(
        tools: Any, rule: Any, label: str, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """(results, tangents) by the rule."""
        del tools, label
        return rule(primals, tangents)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call of the batched program, with the batched rule; all results are batched."""
        moved, mask, jaxpr = _batched(self, tools, size, args, dims)
        rule = self.batched_rule(self.flat_rule(), mapper_of(tools, size), size, mask)
        outs = CustomJvpCall(jaxpr, self.label, Named(rule, "rule"), self.num_consts)(*moved)
        return outs, [0] * len(outs)

    @staticmethod
    def batched_rule(rule: Any, mapper: Mapper, size: int, batched: Sequence[bool]) -> JvpRule:
        """The rule, of arguments with a leading batch axis where `batched`; so all its results."""

        def over_batch(
            primals: Sequence[Any], tangents: Sequence[Any]
        ) -> tuple[list[Any], list[Any]]:
            given = [t is not None for t in tangents]
            mask: list[bool] = []

            def run(*values: Any) -> list[Any]:
                rest = iter(values[len(primals) :])
                outs, moved = rule(
                    values[: len(primals)], [next(rest) if g else None for g in given]
                )
                mask[:] = [t is not None for t in moved]
                return [*outs, *(t for t in moved if t is not None)]

            flags = [*batched, *(b for b, g in zip(batched, given, strict=True) if g)]
            values = [*primals, *(t for t in tangents if t is not None)]
            made, dims = mapper(run, values, [0 if b else None for b in flags])
            made = [leading_axis(x, d, size) for x, d in zip(made, dims, strict=True)]
            found = iter(made[len(mask) :])
            return made[: len(mask)], [next(found) if m else None for m in mask]

        return over_batch

    @staticmethod
    def samples() -> Iterable[Sample]:
        """sin(x) * y, with a rule that is its derivative."""
        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            body, slope = _sample_functions()

            def rule(x: Any, y: Any, dx: Any, dy: Any, slope: Any = slope) -> list[Any]:
                out, in_x, in_y = slope(x, y)
                moved = ops.pointwise.add(ops.pointwise.mul(in_x, dx), ops.pointwise.mul(in_y, dy))
                return [out, moved]

            programs = trace_to_jaxpr(body, [aval] * 2, "f"), trace_to_jaxpr(rule, [aval] * 4, "g")
            yield Sample(CustomJvpCall(programs[0], "f", programs[1], 0), (aval, aval))


class CustomVjpCall(Call):
    """A call whose reverse derivative is `rule`: a VjpRule, or a pair of programs.

    These are: arguments to results, then residuals; and residuals, then cotangents of the results
    to cotangents of the arguments (of those that have some).  Forward mode is the transpose of the
    way back.  The first `num_consts` arguments are values that the function closed over.
    """

    name = "custom_vjp_call"
    rule: Any
    num_consts: int

    def __call__(self, *args: Any) -> Any:
        return run_or_bind(self, args)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The forward rule, and a linear call whose transpose is the way back."""
        refuse_moving(self, tangents[: self.num_consts])
        return self.derive(tools, self.flat_rule(), self.label, primals, tangents)

    def flat_rule(self) -> VjpRule:
        """The rule as a function."""
        rule: Any = self.rule
        if type(rule) is not tuple:
            return rule
        forward, backward = cast("tuple[ClosedJaxpr, ClosedJaxpr]", rule)
        return _vjp_by_programs(forward, backward, len(self.jaxpr.out_avals))

    @staticmethod
    def derive(
        tools: Any, rule: Any, label: str, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """(results, tangents) by the rule."""
        moving = [t is not None for t in tangents]
        outs, residuals, back = rule(primals, moving)
        has_tangent = [_inexact(typeof(x)) for x in outs]
        given = [tangent_aval(typeof(x)) for x, m in zip(primals, moving, strict=True) if m]
        wanted = [tangent_aval(typeof(x)) for x, f in zip(outs, has_tangent, strict=True) if f]
        if not wanted:
            return outs, [None] * len(outs)

        def pull(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            rest = iter(cts)
            made = back(res, [next(rest) if f else None for f in has_tangent])
            return [ct for ct, m in zip(made, moving, strict=True) if m]

        push = _pushforward(pull, given, wanted, tools, label)
        kinds = [typeof(x) for x in residuals]
        linear = LinearCall(
            Side(push, kinds, given, wanted), Named(pull, f"{label}_bwd"), len(residuals)
        )
        found = iter(linear(*residuals, *[t for t in tangents if t is not None]))
        return outs, [next(found) if f else None for f in has_tangent]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call of the batched program, with the batched rule; all results are batched."""
        moved, mask, jaxpr = _batched(self, tools, size, args, dims)
        rule = self.batched_rule(self.flat_rule(), mapper_of(tools, size), size, mask)
        outs = CustomVjpCall(jaxpr, self.label, Named(rule, "rule"), self.num_consts)(*moved)
        return outs, [0] * len(outs)

    @staticmethod
    def batched_rule(rule: Any, mapper: Mapper, size: int, batched: Sequence[bool]) -> VjpRule:
        """The rule, of arguments with a leading batch axis where `batched`; so all its results."""

        def over_batch(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
            inner: list[Forward] = []

            def run(*values: Any) -> list[Any]:
                inner[:] = [rule(values, moving)]
                return [*inner[0].outs, *inner[0].residuals]

            made, dims = mapper(run, primals, [0 if b else None for b in batched])
            forward, count = inner[0], len(inner[0].outs)
            outs = [leading_axis(x, d, size) for x, d in zip(made, dims[:count], strict=False)]

            def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
                axes = [*dims[count:], *(None if ct is None else 0 for ct in cts)]
                return pull_over_batch(forward.back, mapper, size, batched, residuals, cts, axes)

            return Forward(outs, made[count:], back)

        return over_batch

    @staticmethod
    def samples() -> Iterable[Sample]:
        """sin(x) * y, with the derivative's factors as residuals."""
        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            body, slope = _sample_functions()

            def back(a: Any, b: Any, ct: Any) -> list[Any]:
                return [ops.pointwise.mul(a, ct), ops.pointwise.mul(b, ct)]

            programs = (
                trace_to_jaxpr(slope, [aval] * 2, "forward"),
                trace_to_jaxpr(back, [aval] * 3, "back"),
            )
            call = trace_to_jaxpr(body, [aval] * 2, "f")
            yield Sample(CustomVjpCall(call, "f", programs, 0), (aval, aval))


# Rules as functions.


def _jvp_by_program(program: ClosedJaxpr, count: int) -> JvpRule:
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        given = [
            or_zero(t, tangent_aval(typeof(x)))
            for x, t in zip(primals, tangents, strict=True)
            if _inexact(typeof(x))
        ]
        made = eval_jaxpr(program.jaxpr, program.consts, *primals, *given)
        found = iter(made[count:])
        kinds = program.out_avals[:count]
        return made[:count], [next(found) if _inexact(a) else None for a in kinds]

    return rule


def _vjp_by_programs(forward: ClosedJaxpr, backward: ClosedJaxpr, count: int) -> VjpRule:
    def rule(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        made = eval_jaxpr(forward.jaxpr, forward.consts, *primals)
        outs = forward.out_avals[:count]

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            given = [
                or_zero(ct, tangent_aval(a)) for ct, a in zip(cts, outs, strict=True) if _inexact(a)
            ]
            found = iter(eval_jaxpr(backward.jaxpr, backward.consts, *residuals, *given))
            return [next(found) if _inexact(typeof(x)) else None for x in primals]

        return Forward(made[:count], made[count:], back)

    return rule


def _pushforward(
    pull: Pullback, given: Sequence[ShapedArray], wanted: Sequence[ShapedArray], tools: Any,
    label: str,
) -> Pullback:  # fmt: skip
    """Forward mode of a function with only a reverse rule: the transpose of the way back."""

    def push(residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        n = len(residuals)

        def back(*values: Any) -> list[Any]:
            cts = pull(values[:n], values[n:])
            return [or_zero(ct, a) for ct, a in zip(cts, given, strict=True)]

        try:
            made = tools.transpose(back, residuals, wanted, tangents)
        except NotImplementedError as error:
            raise TypeError(
                f"can't apply forward-mode autodiff (jvp) to a custom_vjp function: the tangents "
                f"of {label} are found by transposing its bwd rule, which is not linear in the "
                f"cotangents ({error}). Use reverse mode (grad, vjp, jacrev), or custom_jvp"
            ) from None
        return [or_zero(t, a) for t, a in zip(made, wanted, strict=True)]

    return push


# What the rules share.


def _inexact(aval: ShapedArray) -> bool:
    return dtypes.issubdtype(aval.dtype, np.inexact)


def refuse_moving(op: Any, tangents: Sequence[Any]) -> None:
    """Raise if a value that the function closed over has a tangent."""
    if any(t is not None for t in tangents):
        kind = op.name.removesuffix("_call")
        raise UnexpectedTracerError(
            f"Detected differentiation of the {kind} function {op.label} with respect to a "
            f"closed-over value. The rule says only how to differentiate with respect to the "
            f"arguments: pass the value as an argument of {op.label}, and adapt the rule"
        )


def _batched(
    op: Any, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]
) -> tuple[list[Any], list[bool], ClosedJaxpr]:
    moved, mask = fronted(args, dims)
    jaxpr, _ = tools.batch_jaxpr(op.jaxpr, size, mask, [True] * len(op.jaxpr.out_avals))
    return moved, mask, jaxpr


def _sample_functions() -> tuple[Any, Any]:
    """(sin(x) * y, the same with its derivatives)."""
    mul, sin, cos = ops.pointwise.mul, ops.pointwise.sin, ops.pointwise.cos

    def body(x: Any, y: Any) -> list[Any]:
        return [mul(sin(x), y)]

    def slope(x: Any, y: Any) -> list[Any]:
        return [mul(sin(x), y), mul(cos(x), y), sin(x)]

    return body, slope
