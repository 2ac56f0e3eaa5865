"""`scan`: a loop of known length over the rows of arrays, with a carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Absent, Linear, Op, Sample
from covector.ir.values import typeof
from covector.ops.control.parts import (
    cut,
    either,
    leave,
    or_zeros,
    permuted,
    pick,
    read_row,
    spread_out,
    with_batch,
    write_row,
)
from covector.ops.control.products import products, with_operands
from covector.trace.stage import live_equations, trace_to_jaxpr
from covector.trace.tracer import tangent_aval


class Scan(Op):
    """`for k in range(length): carry, ys[k] = jaxpr(consts, carry, xs[k])`.

    Arguments: constants, the carry's start, arrays whose rows (first axis) each round reads;
    results: the carry's end, and arrays of the rows that the rounds give.  `reverse`: from the
    last row to the first.
    """

    name = "scan"
    multiple_results = True
    jaxpr: ClosedJaxpr
    length: int
    reverse: bool
    num_consts: int
    num_carry: int

    decompose = Absent("call")

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the body."""
        return self.jaxpr.effects

    # Types and meaning

    def parts(self, args: Sequence[Any]) -> list[list[Any]]:
        """[constants, carry, xs] of arguments."""
        return cut(args, self.num_consts, self.num_carry)

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The types of the carry and of the stacked rows."""
        _, carry, xs = self.parts(avals)
        body = self.jaxpr
        for x in xs:
            if not x.shape or x.shape[0] != self.length:
                raise ValueError(
                    f"scan of length {self.length} reads rows; got {x.str_short()}, whose first "
                    "axis has another size"
                )
        given = [*avals[: self.num_consts], *carry, *(row(x) for x in xs)]
        if [a.strong() for a in given] != [a.strong() for a in body.in_avals]:
            raise TypeError(
                f"scan: the body takes {_types(body.in_avals)}; got {_types(given)}, rows for xs"
            )
        outs = body.out_avals
        if [a.strong() for a in carry] != [a.strong() for a in outs[: self.num_carry]]:
            raise TypeError(
                "scan: the body must give a carry of the type it takes; it takes "
                f"{_types(carry)} and gives {_types(outs[: self.num_carry])}"
            )
        return (
            *outs[: self.num_carry],
            *(
                ShapedArray((self.length, *a.shape), a.dtype, a.weak_type)
                for a in outs[self.num_carry :]
            ),
        )

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """A Python loop."""
        consts, carry, xs = self.parts(arrays)
        outs = self.jaxpr.out_avals[self.num_carry :]
        ys = [np.zeros((self.length, *a.shape), _storage(a)) for a in outs]
        rounds = range(self.length)
        for k in reversed(rounds) if self.reverse else rounds:
            given = [*consts, *carry, *(x[k] for x in xs)]
            made = evaluate(self.jaxpr.jaxpr, self.jaxpr.consts, given)
            carry = made[: self.num_carry]
            for y, new in zip(ys, made[self.num_carry :], strict=True):
                y[k] = new
        return [*carry, *ys]

    def like(self, jaxpr: ClosedJaxpr, consts: int, carry: int) -> Scan:
        """The same loop around another body."""
        return Scan(jaxpr, self.length, self.reverse, consts, carry)

    # Transformations

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A scan whose carry, arguments and rows are the old ones and the tangents that move."""
        consts, carry, xs = self.parts([t is not None for t in tangents])
        n = self.num_carry
        while True:  # to the fixed point: what the body makes move, moves
            _, mask = tools.jvp_jaxpr(self.jaxpr, [*consts, *carry, *xs])
            if either(carry, mask[:n]) == carry:
                break
            carry = either(carry, mask[:n])
        wanted = [*carry, *(False for _ in mask[n:])]
        body, mask = tools.jvp_jaxpr(self.jaxpr, [*consts, *carry, *xs], wanted)
        counts = (len(consts), len(carry), len(xs), sum(consts), sum(carry))
        moved = sum(carry)
        body = permuted(
            body,
            lambda v: _interleaved(cut(v, *counts), 3),
            lambda v: _interleaved(cut(v, n, len(mask) - n, moved), 2),
        )
        given_c, given_carry, given_xs = self.parts(primals)
        t_consts, t_carry, t_xs = self.parts(tangents)
        started = or_zeros(t_carry, [tangent_aval(typeof(x)) for x in given_carry], carry)
        outs = self.like(body, len(consts) + sum(consts), n + moved)(
            *given_c, *pick(t_consts, consts), *given_carry, *started, *given_xs, *pick(t_xs, xs)
        )
        ends, t_ends, ys, t_ys = cut(outs, n, moved, len(mask) - n)
        return [*ends, *ys], spread_out([*t_ends, *t_ys], mask)

    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """Two scans: the known one also gives what the other needs of each round, as rows.

        What the other needs and no round changes is computed once, before.
        """
        consts, carry, xs = self.parts(unknown)
        n = self.num_carry
        count = len(self.jaxpr.out_avals)
        while True:
            wanted = [*carry, *([False] * (count - n))]
            known, staged, mask, residuals = tools.split_jaxpr(
                self.jaxpr, [*consts, *carry, *xs], wanted
            )
            if either(carry, mask[:n]) == carry:
                break
            carry = either(carry, mask[:n])
        given = self.parts(args)
        kept = [leave(g, u) for g, u in zip(given, (consts, carry, xs), strict=True)]
        context.trace = trace.parent
        try:
            outs, needed, fixed = self._known(known, len(residuals), kept)
        finally:
            context.trace = trace
        hidden = [pick(g, u) for g, u in zip(given, (consts, carry, xs), strict=True)]
        body = permuted(staged, lambda v: _residuals_placed(v, fixed, [len(h) for h in hidden]))
        scan = self.like(body, sum(fixed) + len(hidden[0]), len(hidden[1]))
        rest = trace.stage(
            scan,
            [*pick(needed, fixed), *hidden[0], *hidden[1], *leave(needed, fixed), *hidden[2]],
        )
        found, made = iter(outs), iter(rest)
        return [next(made) if m else next(found) for m in mask]

    def _known(
        self, known: ClosedJaxpr, residuals: int, given: Sequence[Sequence[Any]]
    ) -> tuple[list[Any], list[Any], list[bool]]:
        """(known results, residuals, which of these are the same in every round)."""
        consts, carry, xs = given
        body = known.jaxpr
        invars = cut(body.invars, len(consts), len(carry))
        wanted = body.outvars[len(body.outvars) - residuals :]
        results = list(body.outvars[: len(body.outvars) - residuals])
        # What a user's rule closed over are constants of the program.
        same = [*body.constvars, *invars[0]]
        fixed_vars, eqns = _unchanging(body, same)
        fixed = [not isinstance(v, Var) or v in fixed_vars for v in wanted]
        rows = dict(zip(invars[2], xs, strict=True))
        given_rows = {*rows, *results[len(carry) :]}
        stacked = [v for v, f in zip(wanted, fixed, strict=True) if not f and v not in given_rows]
        stacked = list(dict.fromkeys(stacked))
        outs: list[Any] = []
        if results or stacked:
            new = ClosedJaxpr(
                body.replace(
                    outvars=[*results, *stacked],
                    eqns=live_equations(body.eqns, [*results, *stacked]),
                ),
                known.consts,
            )
            outs = list(self.like(new, len(consts), len(carry))(*consts, *carry, *xs))
        rows |= zip(stacked, outs[len(results) :], strict=True)
        rows |= zip(body.outvars[len(carry) : len(results)], outs[len(carry) :], strict=False)
        once = _outside(same, [*known.consts, *consts], eqns, pick(wanted, fixed))
        needed = [once.pop(0) if f else rows[v] for v, f in zip(wanted, fixed, strict=True)]
        return outs[: len(results)], needed, fixed

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A scan the other way: its carry is the cotangents of the carry and of the constants."""
        n = self.num_carry
        linear = [isinstance(a, Linear) for a in args]
        consts, _, xs = self.parts(linear)
        ct_carry, ct_ys = cut(cts, n)
        body, mask = tools.transpose_jaxpr(
            self.jaxpr,
            [*consts, *([True] * n), *xs],
            [*([True] * n), *(ct is not None for ct in ct_ys)],
        )
        to_consts, to_carry, to_xs = cut(mask, sum(consts), n)
        terms = products(body, sum(to_consts))
        body = with_operands(body, terms)
        avals = self.parts(self.jaxpr.in_avals)
        carry_avals = [tangent_aval(a) for a in avals[1]]
        summed = pick(pick(avals[0], consts), to_consts)
        sums = [tangent_aval(a) for a, t in zip(summed, terms, strict=True) if t is None]
        given_ys = [ct for ct in ct_ys if ct is not None]
        given_c, _, given_x = self.parts(args)
        given_c, given_x = leave(given_c, consts), leave(given_x, xs)

        def back(*values: Any) -> list[Any]:
            fixed, total, ends, rows, others = cut(
                values, len(given_c), len(sums), n, len(given_ys)
            )
            made = tools.call(body, [*fixed, *others, *ends, *rows])
            more, to_start, rest = cut(made, len(sums), sum(to_carry))
            added = [ops.pointwise.add(a, b) for a, b in zip(total, more, strict=True)]
            return [*added, *or_zeros(spread_out(to_start, to_carry), carry_avals, [True] * n),
                    *rest]  # fmt: skip

        in_avals = [
            *leave(avals[0], consts), *sums, *carry_avals,
            *(tangent_aval(row(typeof(ct))) for ct in given_ys), *leave(avals[2], xs),
        ]  # fmt: skip
        program = trace_to_jaxpr(back, in_avals, self.jaxpr.jaxpr.debug_name)
        outs = Scan(program, self.length, not self.reverse, len(given_c), len(sums) + n)(
            *given_c, *(ops.shape.zeros(a) for a in sums),
            *or_zeros(ct_carry, carry_avals, [True] * n), *given_ys, *given_x,
        )  # fmt: skip
        totals, starts, cts_x, operands = cut(outs, len(sums), n, sum(to_xs))
        rest, pairs = iter(totals), iter(operands)
        cts_c = [next(rest) if t is None else t.summed(next(pairs), next(pairs)) for t in terms]
        is_linear = self.parts(linear)[1]
        return [
            *spread_out(spread_out(cts_c, to_consts), consts),
            *(ct if known else None for ct, known in zip(starts, is_linear, strict=True)),
            *spread_out(spread_out(cts_x, to_xs), xs),
        ]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A scan of the batched body; the batch axis of rows is their second."""
        consts, carry, xs = self.parts([d is not None for d in dims])
        n = self.num_carry
        while True:
            _, mask = tools.batch_jaxpr(self.jaxpr, size, [*consts, *carry, *xs])
            if either(carry, mask[:n]) == carry:
                break
            carry = either(carry, mask[:n])
        wanted = [*carry, *(False for _ in mask[n:])]
        body, mask = tools.batch_jaxpr(self.jaxpr, size, [*consts, *carry, *xs], wanted)
        axes = [*([0] * (len(consts) + n)), *([1] * len(xs))]
        moved = [
            with_batch(x, b, d, size, axis)
            for x, b, d, axis in zip(args, [*consts, *carry, *xs], dims, axes, strict=True)
        ]
        outs = self.like(body, len(consts), n)(*moved)
        return outs, [(0 if k < n else 1) if m else None for k, m in enumerate(mask)]

    # Other forms

    def as_while(self, *args: Any) -> list[Any]:
        """The same by `while`, with a counter and rows written one by one."""
        consts, carry, xs = self.parts(args)
        n, m = len(consts), len(carry)
        outs = self.jaxpr.out_avals[m:]
        ys = [ops.shape.zeros(ShapedArray((self.length, *a.shape), a.dtype)) for a in outs]
        if not self.length:
            return [*carry, *ys]
        count = np.int32(self.length)

        def going(*values: Any) -> list[Any]:
            return [ops.pointwise.lt(values[0], count)]

        def step(*values: Any) -> list[Any]:
            fixed, rows, (k,), state, stacked = cut(values, n, len(xs), 1, m)
            at = ops.pointwise.sub(np.int32(self.length - 1), k) if self.reverse else k
            made = ops.call.Jit(self.jaxpr, "body")(
                *fixed, *state, *(read_row(x, at) for x in rows)
            )
            new = [write_row(y, v, at) for y, v in zip(stacked, made[m:], strict=True)]
            return [ops.pointwise.add(k, np.int32(1)), *made[:m], *new]

        state = [np.int32(0), *carry, *ys]
        avals = [typeof(x) for x in state]
        fixed = [*consts, *xs]
        loop = ops.control.While(
            trace_to_jaxpr(going, avals, "going"),
            trace_to_jaxpr(step, [*(typeof(x) for x in fixed), *avals], "step"),
            0, len(fixed),
        )  # fmt: skip
        return loop(*fixed, *state)[1:]

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """As a while loop."""
        return writer.closed(trace_to_jaxpr(self.as_while, [x.aval for x in operands]), operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """A recurrence with a constant, rows read and rows given, both ways; a map; no rounds."""

        def step(a: Any, c: Any, x: Any) -> list[Any]:
            new = ops.pointwise.add(ops.pointwise.mul(a, ops.pointwise.sin(c)), x)
            return [new, ops.pointwise.mul(new, x)]

        for dtype, length, reverse in (
            ("float32", 4, False), ("float64", 3, True), ("float32", 0, False),
        ):  # fmt: skip
            aval = ShapedArray((2,), dtype)
            rows = ShapedArray((length, 2), dtype)
            body = trace_to_jaxpr(step, [aval] * 3, "step")
            yield Sample(Scan(body, length, reverse, 1, 1), (aval, aval, rows), scale=4.0)

        def square(x: Any) -> list[Any]:
            return [ops.pointwise.mul(x, x)]

        squares = trace_to_jaxpr(square, [ShapedArray((), "float32")], "square")
        yield Sample(Scan(squares, 5, False, 0, 0), (ShapedArray((5,), "float32"),))


def row(aval: ShapedArray) -> ShapedArray:
    """The type of a row."""
    return ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)


def _types(avals: Sequence[ShapedArray]) -> list[str]:
    return [a.str_short() for a in avals]


def _storage(aval: ShapedArray) -> Any:
    return object if aval.dtype.kind == "k" else aval.dtype


def _interleaved(groups: list[list[Any]], count: int) -> list[Any]:
    """Of groups a, b, …, then a', b', …: a, a', b, b', …"""
    return [v for k in range(count) for v in (*groups[k], *groups[count + k])]


def _residuals_placed(
    invars: Sequence[Any], fixed: Sequence[bool], counts: Sequence[int]
) -> list[Any]:
    """From (residuals, constants, carry, xs): those that stay before the constants, rows before
    the xs."""
    residuals, consts, carry, xs = cut(invars, len(fixed), counts[0], counts[1])
    return [*pick(residuals, fixed), *consts, *carry, *leave(residuals, fixed), *xs]


def _unchanging(body: Jaxpr, consts: Sequence[Var]) -> tuple[set[Any], list[Equation]]:
    """The variables that depend on constants alone, and the equations that compute them."""
    found: set[Any] = set(consts)
    eqns: list[Equation] = []
    for eqn in body.eqns:
        if not eqn.effects and all(not isinstance(v, Var) or v in found for v in eqn.invars):
            found.update(eqn.outvars)
            eqns.append(eqn)
    return found, eqns


def _outside(
    consts: Sequence[Var], values: Sequence[Any], eqns: Sequence[Equation], wanted: Sequence[Any]
) -> list[Any]:
    """The values of variables that depend on constants alone, computed here."""
    known = dict(zip(consts, values, strict=True))
    if all(v in known for v in wanted):
        return [known[v] for v in wanted]
    program = Jaxpr([], list(consts), list(wanted), live_equations(eqns, wanted), "unchanging")
    return list(ops.call.Jit(ClosedJaxpr(program), "unchanging")(*values))
