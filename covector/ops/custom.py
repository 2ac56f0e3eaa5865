"""Calls with derivatives of their own: what `custom_jvp`, `custom_vjp`, `linear_call` bind.

A derivative rule is a program, or a function of flat values that is run when it is needed (it may
call the very function whose rule it is).  In flat rules None stands for a zero (co)tangent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final

import numpy as np

from covector import dtypes, ops
from covector._base.errors import UnexpectedTracerError
from covector._base.named_tuple import NamedTuple
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


class CallWithRule(Call):
    """A call with a `rule` for derivatives: a function of flat values, or what `flat_rule` makes
    one of.  The first `num_consts` arguments are values that the function closed over.
    """

    rule: Any
    num_consts: int

    def __call__(self, *args: Any) -> Any:
        return run_or_bind(self, args)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """What the rule says."""
        refuse_moving(self, tangents[: self.num_consts])
        return self.derive(tools, self.flat_rule(), self.label, primals, tangents)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call of the batched program, with the batched rule."""
        return _batched(self, tools, size, args, dims)

    def flat_rule(self) -> Any:
        """The rule as a function."""
        raise TypeError(f"{self.name} has no rule")

    @staticmethod
    def derive(
        tools: Any, rule: Any, label: str, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """(results, tangents) by the rule."""
        raise NotImplementedError


class CustomJvpCall(CallWithRule):
    """A call whose derivative is `rule`: a JvpRule, or a program of all primals, then the tangents
    of those that have some, to results, then their tangents.
    """

    name = "custom_jvp_call"

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

    @staticmethod
    def same_for_all(
        tools: Any, rule: Any, mapper: Mapper, size: int, avals: Sequence[ShapedArray],
        batched: Sequence[bool], same: Sequence[bool],
    ) -> list[bool]:  # fmt: skip
        """Of the results that are the `same` for all examples, those whose tangents are, too."""
        del tools
        moving = [_inexact(a) for a in avals]
        flags = [*batched, *(b for b, m in zip(batched, moving, strict=True) if m)]

        def run(*values: Any) -> list[Any]:
            rest = iter(values[len(avals) :])
            outs, moved = rule(values[: len(avals)], [next(rest) if m else None for m in moving])
            return [*outs, *(x if t is None else t for x, t in zip(outs, moved, strict=True))]

        tangents = [tangent_aval(a) for a, m in zip(avals, moving, strict=True) if m]
        dims = _dims_of(mapper, size, run, [*avals, *tangents], flags)
        if dims is None:
            return [False] * len(same)
        pairs = zip(same, dims, dims[len(same) :], strict=False)
        return [s and d is None and t is None for s, d, t in pairs]

    @staticmethod
    def batched_rule(
        rule: Any, mapper: Mapper, size: int, batched: Sequence[bool], common: Common
    ) -> JvpRule:
        """The rule, of arguments with a leading batch axis where `batched`, to results with one
        unless they are in `common`.
        """

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
            rest = iter(zip(made[len(mask) :], dims[len(mask) :], strict=True))
            pairs = [next(rest) if m else (None, None) for m in mask]
            if common.same is None:
                both = zip(dims, (d for _, d in pairs), strict=False)
                common.same = [d is None and e is None for d, e in both]
            outs = common.placed(made[: len(mask)], dims, size)
            return outs, common.placed([t for t, _ in pairs], [d for _, d in pairs], size)

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


class CustomVjpCall(CallWithRule):
    """A call whose reverse derivative is `rule`: a VjpRule, or a pair of programs.

    These are: arguments to results, then residuals; and residuals, then cotangents of the results
    to cotangents of the arguments (of those that have some).  Forward mode is the transpose of the
    way back: a linear call.
    """

    name = "custom_vjp_call"

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

    @staticmethod
    def same_for_all(
        tools: Any, rule: Any, mapper: Mapper, size: int, avals: Sequence[ShapedArray],
        batched: Sequence[bool], same: Sequence[bool],
    ) -> list[bool]:  # fmt: skip
        """Of the results that are the `same` for all examples, those whose way back is, too."""
        count = len(same)
        moving = [_inexact(a) for a in avals]

        def run(*values: Any) -> list[Any]:
            forward = rule(values, moving)
            has_ct = [_inexact(typeof(x)) for x in forward.outs]
            cts = [
                ops.shape.zeros(tangent_aval(typeof(x)))
                for x, f in zip(forward.outs, has_ct, strict=True) if f
            ]  # fmt: skip

            def back(*given: Any) -> list[Any]:
                rest = iter(given)
                made = forward.back(forward.residuals, [next(rest) if f else None for f in has_ct])
                return [ct for ct in made if ct is not None]

            shared = [s for s, f in zip(same, has_ct, strict=True) if f]
            ways = [ct if s else None for ct, s in zip(cts, shared, strict=True)]
            return [*forward.outs, *(t for t in tools.jvp(back, cts, ways)[1] if t is not None)]

        dims = _dims_of(mapper, size, run, avals, batched)
        if dims is None or any(d is not None for d in dims[count:]):
            return [False] * count
        return [s and d is None for s, d in zip(same, dims, strict=False)]

    @staticmethod
    def batched_rule(
        rule: Any, mapper: Mapper, size: int, batched: Sequence[bool], common: Common
    ) -> VjpRule:
        """The rule, of arguments with a leading batch axis where `batched`, to results with one
        unless they are in `common`.
        """

        def over_batch(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
            inner: list[Forward] = []

            def run(*values: Any) -> list[Any]:
                inner[:] = [rule(values, moving)]
                return [*inner[0].outs, *inner[0].residuals]

            made, dims = mapper(run, primals, [0 if b else None for b in batched])
            forward, count = inner[0], len(inner[0].outs)
            if common.same is None:
                common.same = [d is None for d in dims[:count]]
                if any(common.same) and not asking():
                    avals = [
                        example_aval(typeof(x), 0 if b else None)
                        for x, b in zip(primals, batched, strict=True)
                    ]
                    common.same = CustomVjpCall.same_for_all(
                        common.tools, rule, mapper, size, avals, batched, common.same
                    )
            same = common.same

            def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
                # What all examples share has one cotangent: the way back of the first takes it.
                cts = [
                    _of_first(ct, size) if s and ct is not None else ct
                    for ct, s in zip(cts, same, strict=True)
                ]
                axes = [*dims[count:], *(None if ct is None else 0 for ct in cts)]
                return pull_over_batch(forward.back, mapper, size, batched, residuals, cts, axes)

            return Forward(common.placed(made[:count], dims, size), made[count:], back)

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
) -> tuple[list[Any], list[int | None]]:
    """(results of the batched call, their batch axes)."""
    moved, batched = fronted(args, dims)
    mapper, rule = mapper_of(tools, size), op.flat_rule()
    jaxpr, mask = tools.batch_jaxpr(op.jaxpr, size, batched)
    same = [not m for m in mask]
    if any(same) and not asking():
        same = op.same_for_all(tools, rule, mapper, size, op.jaxpr.in_avals, batched, same)
        jaxpr, mask = tools.batch_jaxpr(op.jaxpr, size, batched, [not s for s in same])
    rule = Named(op.batched_rule(rule, mapper, size, batched, Common(tools, same)), "rule")
    outs = type(op)(jaxpr, op.label, rule, op.num_consts)(*moved)
    return outs, [0 if m else None for m in mask]


@final
class Common:
    """Which results of a batched call are the same for all examples; None: not known yet."""

    __slots__ = ("same", "tools")

    def __init__(self, tools: Any, same: list[bool] | None = None) -> None:
        self.tools, self.same = tools, same

    def placed(self, values: Sequence[Any], dims: Sequence[Any], size: int) -> list[Any]:
        """The values with a leading batch axis, unless they are common."""
        same = self.same or [False] * len(values)
        return [
            x if x is None or (s and d is None) else leading_axis(x, d, size)
            for x, d, s in zip(values, dims, same, strict=False)
        ]


def example_aval(aval: ShapedArray, dim: int | None) -> ShapedArray:
    """The type of one example of a batch."""
    if dim is None:
        return aval
    return aval.update(shape=aval.shape[:dim] + aval.shape[dim + 1 :])


def _of_first(ct: Any, size: int) -> Any:
    """`ct` as that of the first example, and zeros for the others."""
    aval = typeof(ct)
    shape = (size, *aval.shape)
    first = ops.pointwise.eq(ops.shape.iota("int32", shape, 0), np.int32(0))
    spread = ops.shape.broadcast_in_dim(ct, shape, tuple(range(1, len(shape))))
    return ops.pointwise.where(first, spread, ops.shape.zeros(aval.update(shape=shape)))


def _dims_of(
    mapper: Mapper, size: int, fun: Callable[..., list[Any]], avals: Sequence[ShapedArray],
    batched: Sequence[bool],
) -> list[Any] | None:  # fmt: skip
    """The batch axes of the results of `fun`, of arguments batched so; None if it fails."""
    found: list[Any] = []

    def run(*values: Any) -> list[Any]:
        made, found[:] = mapper(fun, values, [0 if b else None for b in batched])
        return made

    wide = [
        a.update(shape=(size, *a.shape)) if b else a for a, b in zip(avals, batched, strict=True)
    ]
    _asking.now = True
    try:
        trace_to_jaxpr(run, wide)
    except Exception:  # a rule that asks for values: nothing is known of it
        return None
    finally:
        _asking.now = False
    return found


#: Whether a rule is being traced to find what its results depend on (it may call its function).
_asking = threading.local()


def asking() -> bool:
    """Whether the question what a rule's results depend on is being answered: it isn't put again
    for the calls inside.
    """
    return getattr(_asking, "now", False)


def _sample_functions() -> tuple[Any, Any]:
    """(sin(x) * y, the same with its derivatives)."""
    mul, sin, cos = ops.pointwise.mul, ops.pointwise.sin, ops.pointwise.cos

    def body(x: Any, y: Any) -> list[Any]:
        return [mul(sin(x), y)]

    def slope(x: Any, y: Any) -> list[Any]:
        return [mul(sin(x), y), mul(cos(x), y), sin(x)]

    return body, slope
