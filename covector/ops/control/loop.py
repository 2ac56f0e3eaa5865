"""`while`: a loop that ends when its condition says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import Absent, Op, Sample
from covector.ir.values import typeof
from covector.ops.control.lockstep import lock_step
from covector.ops.control.parts import (
    cut,
    leave,
    or_zeros,
    over_batch,
    permuted,
    pick,
    silent,
    spread_out,
    with_batch,
)
from covector.ops.control.replay import Replay, cut_body, record
from covector.trace.tracer import tangent_aval


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

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the condition and of the body."""
        return self.cond_jaxpr.effects | self.body_jaxpr.effects

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
        cond, body = self.cond_jaxpr, self.body_jaxpr
        while evaluate(cond.jaxpr, cond.consts, [*cond_consts, *carry])[0]:
            carry = evaluate(body.jaxpr, body.consts, [*body_consts, *carry])
        return carry

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A loop whose carry is the old one and the tangents of what moves."""
        cond_consts, body_consts, carry = self.parts(primals)
        _, t_consts, t_carry = self.parts(tangents)
        consts, moving = [t is not None for t in t_consts], [t is not None for t in t_carry]
        while True:  # to the fixed point: what the body makes move, moves
            body, mask = tools.jvp_jaxpr(self.body_jaxpr, [*consts, *moving], moving)
            if mask == moving:
                break
            moving = mask
        n, m = len(consts), len(moving)
        body = permuted(body, lambda v: _interleaved(cut(v, n, m, sum(consts))))
        avals = [typeof(x) for x in carry]
        extra = [Var(tangent_aval(a)) for a in pick(avals, moving)]
        cond = permuted(self.cond_jaxpr, lambda v: [*v, *extra])
        op = While(cond, body, self.cond_nconsts, n + sum(consts))
        started = or_zeros(t_carry, [tangent_aval(a) for a in avals], moving)
        outs = op(*cond_consts, *body_consts, *pick(t_consts, consts), *carry, *started)
        return outs[:m], spread_out(outs[m:], moving)

    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """The known part runs, and keeps states; a `replay` of the rest is staged."""
        cond_unknown, consts, carry = self.parts(unknown)
        made = None
        if not any(cond_unknown):
            made = cut_body(tools, self.cond_jaxpr, self.body_jaxpr, consts, carry)
        if made is None:
            return trace.stage(self, args)
        cond_consts, body_consts, start = self.parts(args)
        known_consts, known_start = leave(body_consts, consts), leave(start, made.carry)
        n = len(known_start)
        cond = permuted(
            self.cond_jaxpr,
            lambda v: [*v[: len(cond_consts)], *leave(v[len(cond_consts) :], made.carry)],
        )

        def going(x: list[Any]) -> Any:
            return tools.call(cond, [*cond_consts, *x])[0]

        def step(x: list[Any]) -> list[Any]:
            return tools.call(made.known, [*known_consts, *x])[:n]

        context.trace = trace.parent
        try:
            ends, kept = record(going, step, known_start)
        finally:
            context.trace = trace
        replay = Replay(
            silent(made.known), silent(made.staged), len(known_consts), n, sum(made.carry)
        )
        rest = trace.stage(
            replay,
            [*known_consts, *known_start, *kept, *pick(body_consts, consts),
             *pick(start, made.carry)],
        )  # fmt: skip
        found, hidden = iter(ends), iter(rest)
        return [next(hidden) if c else next(found) for c in made.carry]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A loop of batched values; if examples may end at different times, a loop for each."""
        cond_consts, body_consts, carry = self.parts([d is not None for d in dims])
        while True:
            body, mask = tools.batch_jaxpr(self.body_jaxpr, size, [*body_consts, *carry], carry)
            cond, (varies,) = tools.batch_jaxpr(self.cond_jaxpr, size, [*cond_consts, *carry])
            if varies:
                if tools.mentions(self):
                    return lock_step(self, tools, size, args, dims)
                return over_batch(self, size, args, dims)
            if mask == carry:
                break
            carry = mask
        moved = [
            with_batch(x, b, d, size)
            for x, b, d in zip(args, [*cond_consts, *body_consts, *carry], dims, strict=True)
        ]
        outs = While(cond, body, len(cond_consts), len(body_consts))(*moved)
        return outs, [0 if b else None for b in carry]

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


def _interleaved(groups: list[list[Any]]) -> list[Any]:
    """From (consts, carry, tangents of consts, of carry): the tangents behind their primals."""
    consts, carry, t_consts, t_carry = groups
    return [*consts, *t_consts, *carry, *t_carry]
