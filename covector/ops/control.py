"""Control flow as operations that hold programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import Absent, Op, Sample
from covector.ir.values import typeof


class While(Op):
    """`while cond(consts, carry): carry = body(consts, carry)`.

    Arguments: the constants of the condition, those of the body, the carry; result: the carry.
    Both programs have no constants of their own.
    """

    name = "while"
    multiple_results = True
    cond_jaxpr: ClosedJaxpr
    body_jaxpr: ClosedJaxpr
    cond_nconsts: int
    body_nconsts: int

    transpose = Absent("not linear")
    decompose = Absent("call")

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The types of the carry."""
        _, _, carry = self.parts(avals)
        body = self.body_jaxpr
        if [a.strong() for a in carry] != [a.strong() for a in body.out_avals]:
            raise TypeError(
                "while: the body must give a carry of the type it takes; it takes "
                f"{[a.str_short() for a in carry]} and gives "
                f"{[a.str_short() for a in body.out_avals]}"
            )
        return tuple(body.out_avals)

    def parts(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """(constants of the condition, constants of the body, carry)."""
        n, m = self.cond_nconsts, self.cond_nconsts + self.body_nconsts
        return list(args[:n]), list(args[n:m]), list(args[m:])

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """A Python loop."""
        cond_consts, body_consts, carry = self.parts(arrays)
        while evaluate(self.cond_jaxpr.jaxpr, [], [*cond_consts, *carry])[0]:
            carry = evaluate(self.body_jaxpr.jaxpr, [], [*body_consts, *carry])
        return carry

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A loop whose carry is the old one and the tangents of what moves."""
        cond_consts, body_consts, carry = self.parts(primals)
        _, const_tangents, carry_tangents = self.parts(tangents)
        moving_consts = [t is not None for t in const_tangents]
        moving = [t is not None for t in carry_tangents]
        while True:  # to the fixed point: what the body makes move, moves
            body, mask = tools.jvp_jaxpr(self.body_jaxpr, [*moving_consts, *moving])
            after = [a or b for a, b in zip(moving, mask, strict=True)]
            if after == moving:
                break
            moving = after
        body = _jvp_body(tools, self.body_jaxpr, moving_consts, moving)
        cond = _ignoring(tools, self.cond_jaxpr, sum(moving), carry, moving)
        started = [
            t if t is not None else _zeros(x)
            for t, x, m in zip(carry_tangents, carry, moving, strict=True)
            if m
        ]
        op = While(cond, body, self.cond_nconsts, self.body_nconsts + sum(moving_consts))
        given = [t for t in const_tangents if t is not None]
        outs = op(*cond_consts, *body_consts, *given, *carry, *started)
        rest = iter(outs[len(carry) :])
        return outs[: len(carry)], [next(rest) if m else None for m in moving]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """In lock step: a finished example keeps its carry until all have finished."""
        args = [
            a if d is None else ops.shape.move_axis(a, d, 0)
            for a, d in zip(args, dims, strict=True)
        ]
        batched = [d is not None for d in dims]
        cond_b, body_b, carry_b = self.parts(batched)
        cond_c, body_c, carry = self.parts(args)
        while True:
            _, mask = tools.batch_jaxpr(self.body_jaxpr, size, [*body_b, *carry_b])
            _, (varies,) = tools.batch_jaxpr(self.cond_jaxpr, size, [*cond_b, *carry_b])
            after = [a or b or varies for a, b in zip(carry_b, mask, strict=True)]
            if after == carry_b:
                break
            carry_b = after
        carry = [_spread(x, b, d, size) for x, b, d in
                 zip(carry, carry_b, self.parts(dims)[2], strict=True)]  # fmt: skip
        body, _ = tools.batch_jaxpr(self.body_jaxpr, size, [*body_b, *carry_b], carry_b)
        cond, _ = tools.batch_jaxpr(self.cond_jaxpr, size, [*cond_b, *carry_b])
        if varies:
            cond, body = _lock_step(tools, cond, body, len(cond_c), len(body_c))
            outs = While(cond, body, len(cond_c), len(cond_c) + len(body_c))(
                *cond_c, *cond_c, *body_c, *carry
            )
        else:
            outs = While(cond, body, len(cond_c), len(body_c))(*cond_c, *body_c, *carry)
        return outs, [0 if b else None for b in carry_b]

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.while with two regions."""
        return writer.while_loop(self, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """x doubles until it is past 100."""
        aval = ShapedArray((), "float32")
        x, y, z = Var(aval), Var(aval), Var(aval)
        p = Var(ShapedArray((), "bool"))
        limit, factor = (Literal(np.float32(v), aval) for v in (100, 2))
        cond = Jaxpr([], [x], [p], [Equation(ops.pointwise.lt, [x, limit], [p])])
        body = Jaxpr([], [y], [z], [Equation(ops.pointwise.mul, [y, factor], [z])])
        loop = While(ClosedJaxpr(cond), ClosedJaxpr(body), 0, 0)
        yield Sample(loop, (aval,), (1.0, 3.0), smooth=False)


def _jvp_body(tools: Any, body: ClosedJaxpr, consts: list[bool], moving: list[bool]) -> ClosedJaxpr:
    """The body's jvp, giving a tangent for just the carry that moves."""
    full, _ = tools.jvp_jaxpr(body, [*consts, *moving], True)
    count = len(moving)
    outs = full.jaxpr.outvars
    kept = [v for v, m in zip(outs[count:], moving, strict=True) if m]
    n = len(consts)
    # From (consts, carry, tangents of consts, tangents of carry) to (consts, their tangents, …).
    invars = full.jaxpr.invars
    split = n + count + sum(consts)
    order = [*invars[:n], *invars[n + count : split], *invars[n : n + count], *invars[split:]]
    return ClosedJaxpr(full.jaxpr.replace(invars=order, outvars=[*outs[:count], *kept]))


def _ignoring(
    tools: Any, cond: ClosedJaxpr, extra: int, carry: list[Any], moving: list[bool]
) -> ClosedJaxpr:
    """The condition, taking (and not reading) the tangents too."""
    more = [Var(typeof(x)) for x, m in zip(carry, moving, strict=True) if m]
    return ClosedJaxpr(cond.jaxpr.replace(invars=[*cond.jaxpr.invars, *more[:extra]]))


def _zeros(x: Any) -> Any:
    aval = typeof(x)
    return ops.shape.broadcast_in_dim(aval.dtype.type(0), aval.shape, ())


def _spread(x: Any, batched: bool, dim: Any, size: int) -> Any:
    if not batched or dim is not None:
        return x
    shape = typeof(x).shape
    return ops.shape.broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _lock_step(
    tools: Any, cond: ClosedJaxpr, body: ClosedJaxpr, cond_n: int, body_n: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """(any example goes on, those that go on step) of a batched condition and body."""

    def some(*args: Any) -> list[Any]:
        (going,) = _run(cond, args)
        return [ops.reduce.reduce_or(going, (0,))]

    def step(*args: Any) -> list[Any]:
        cond_consts, rest = args[:cond_n], args[cond_n:]
        carry = rest[body_n:]
        (going,) = _run(cond, [*cond_consts, *carry])
        outs = _run(body, rest)
        return [
            ops.pointwise.where(ops.shape.broadcast_in_dim(going, typeof(n).shape, (0,)), n, o)
            for n, o in zip(outs, carry, strict=True)
        ]

    cond_avals = cond.in_avals
    return (
        tools.trace(some, cond_avals, "some"),
        tools.trace(step, [*cond_avals[:cond_n], *body.in_avals], "step"),
    )


def _run(jaxpr: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    return ops.call.Jit(jaxpr, jaxpr.jaxpr.debug_name or "body")(*args)
