"""Reverse mode through `while`: states are kept sparsely on the way forward, and recomputed.

How many rounds there will be is not known, and memory is bounded.  Forward, every `stride`-th state
is kept; when the places are full, every other one is dropped and the stride doubles (Q. Wang,
P. Moin, G. Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady adjoint
calculation", SIAM J. Sci. Comput. 31, 2009, in its simplest form).  In reverse, the places are a
stack: a state that is missing is recomputed from the last one kept, which leaves others halfway
(A. Griewank, A. Walther, "Evaluating Derivatives", 2008, chapter 12).  A loop of n rounds and c
places costs up to about log2(n / c) / 2 more evaluations of each round; one of at most c rounds,
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr, Var
from covector.ir.op import Linear, Op, Sample
from covector.ir.values import typeof
from covector.ops.control.parts import (
    cut,
    leave,
    lifted,
    or_zeros,
    pick,
    read_row,
    spread_out,
    write_row,
)
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import tangent_aval

#: Places for states: as many as fit so many bytes, between a least and a most.
BYTES, LEAST, MOST = 1 << 16, 64, 512
#: What a loop's condition and body are, of its carry.
_Going = Callable[[list[Any]], Any]
_Step = Callable[[list[Any]], list[Any]]
ZERO, ONE, TWO = np.int32(0), np.int32(1), np.int32(2)


def slots(avals: Sequence[ShapedArray]) -> int:
    """How many states are kept."""
    nbytes = sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)
    return min(max(LEAST, BYTES // max(nbytes, 1)), MOST) // 2 * 2


class Cut(NamedTuple):
    """A loop's body in two: `known` (constants, carry) -> (carry, residuals), and `staged`
    (residuals, constants, carry) -> carry, of what is unknown."""

    known: ClosedJaxpr
    staged: ClosedJaxpr
    consts: list[bool]
    carry: list[bool]


def cut_body(
    tools: Any, cond: ClosedJaxpr, body: ClosedJaxpr, consts: list[bool], carry: list[bool]
) -> Cut | None:
    """The body cut by which constants and carries are unknown; None if the condition is, too."""
    while True:  # to the fixed point: what depends on an unknown value is unknown
        known, staged, mask, _ = tools.split_jaxpr(body, [*consts, *carry], carry)
        if mask == carry:
            break
        carry = mask
    inner = cond.jaxpr
    unknown = set(pick(inner.invars[len(inner.invars) - len(carry) :], carry))
    read = {v for eqn in inner.eqns for v in eqn.invars if isinstance(v, Var)}
    if unknown & {*read, *inner.outvars}:
        return None
    return Cut(known, staged, consts, carry)


def record(going: _Going, step: _Step, carry: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """`while going(carry): carry = step(carry)` -> (the carry, [rounds, stride, kept states…])."""
    avals = [typeof(x) for x in carry]
    count = slots(avals)
    n = len(carry)
    kept = [ops.shape.zeros(ShapedArray((count + 1, *a.shape), a.dtype)) for a in avals]

    def more(x: list[Any], *limits: tuple[Any, Any]) -> Any:
        out = going(x)
        for value, limit in limits:
            out = ops.pointwise.and_(out, ops.pointwise.lt(value, limit))
        return out

    def stretch(state: list[Any]) -> list[Any]:
        """Keeps the state, and goes on for `stride` rounds."""
        i, stride, *rest = state
        x, places = cut(rest, n)
        at = ops.pointwise.div(i, stride)
        places = [write_row(p, v, at) for p, v in zip(places, x, strict=True)]
        last = ops.pointwise.add(i, stride)
        i, _, *x = _while(
            lambda s: more(s[2:], (s[0], s[1])),
            lambda s: [ops.pointwise.add(s[0], ONE), s[1], *step(s[2:])],
            [i, last, *x],
        )
        return [i, stride, *x, *places]

    def fill(state: list[Any]) -> list[Any]:
        """Until the places are full; then half of them are given up."""
        room = np.int32(count)
        state = _while(
            lambda s: more(s[2 : 2 + n], (s[0], ops.pointwise.mul(s[1], room))), stretch, state
        )
        i, stride = state[:2]
        full = ops.pointwise.ge(i, ops.pointwise.mul(stride, room))
        return _if(full, lambda s: [s[0], ops.pointwise.mul(s[1], TWO), *s[2 : 2 + n],
                                    *map(_halved, s[2 + n :])], state)  # fmt: skip

    state = [ops.shape.full((), 0, np.int32), ops.shape.full((), 1, np.int32), *carry, *kept]
    i, stride, *rest = _while(lambda s: more(s[2 : 2 + n]), fill, state)
    ends, places = cut(rest, n)
    return ends, [i, stride, *places]


class Replay(Op):
    """The unknown part of a `while` loop, linear in it; the loop itself has been run by `record`.

    Arguments: known constants, the known carry's start, [rounds, stride, kept states…], unknown
    constants, the unknown carry; result: the unknown carry.
    """

    name = "replay"
    multiple_results = True
    known: ClosedJaxpr
    staged: ClosedJaxpr
    num_consts: int
    num_carry: int
    num_unknown: int

    def parts(self, args: Sequence[Any]) -> list[list[Any]]:
        """[known constants, start, record, unknown constants, unknown carry]."""
        n, m = self.num_consts, self.num_carry
        known, start, kept, rest = cut(args, n, m, 2 + m)
        consts = len(rest) - self.num_unknown
        return [known, start, kept, rest[:consts], rest[consts:]]

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The types of the unknown carry."""
        carry = self.parts(avals)[4]
        if [a.strong() for a in carry] != [a.strong() for a in self.staged.out_avals]:
            raise TypeError(
                f"replay: the carry is {[a.str_short() for a in self.staged.out_avals]}; got "
                f"{[a.str_short() for a in carry]}"
            )
        return tuple(a.strong() for a in carry)

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The decomposition, evaluated in NumPy."""
        program = self._program([typeof(x) for x in arrays])
        return evaluate(program.jaxpr, program.consts, arrays)

    def _program(self, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        return trace_to_jaxpr(self.decompose, avals, "replay")

    def decompose(self, *args: Any) -> list[Any]:
        """Both parts, once more, for as many rounds."""
        consts, start, kept, unknown, carry = self.parts(args)
        n = self.num_carry

        def step(state: list[Any]) -> list[Any]:
            x, t = cut(state[2:], n)
            x, residuals = cut(_call(self.known, [*consts, *x]), n)
            t = _call(self.staged, [*residuals, *unknown, *t])
            return [ops.pointwise.add(state[0], ONE), state[1], *x, *t]

        zero = ops.shape.full((), 0, np.int32)
        out = _while(lambda s: ops.pointwise.lt(s[0], s[1]), step, [zero, kept[0], *start, *carry])
        return out[2 + n :]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Of the decomposition; of the unknown arguments alone, it is linear."""
        moving = [t is not None for t in tangents]
        first = self.num_consts + 2 * self.num_carry + 2
        if not any(moving[:first]):
            avals = [tangent_aval(typeof(x)) for x in primals[first:]]
            given = or_zeros(tangents[first:], avals, [True] * len(avals))
            return self(*primals), self(*primals[:first], *given)
        jaxpr, mask = tools.jvp_jaxpr(self._program([typeof(x) for x in primals]), moving)
        outs = tools.call(jaxpr, [*primals, *(t for t in tangents if t is not None)])
        return outs[: len(mask)], spread_out(outs[len(mask) :], mask)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A loop over the batch: each example has its own number of rounds."""
        if tools.mentions(self):
            return tools.batch(self.decompose, args, dims, size)
        return ops.control.over_batch(self, size, args, dims)

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """`replay_back`, of the cotangents of the carry."""
        consts, start, kept, unknown, carry = self.parts(args)
        linear = tuple(isinstance(a, Linear) for a in unknown)
        every = [*linear, *([True] * len(carry))]
        residuals = len(self.staged.in_avals) - len(every)
        pulled, _ = tools.transpose_jaxpr(
            self.staged, [*([False] * residuals), *every], [True] * len(cts), [True] * sum(every)
        )
        counts = (self.num_consts, self.num_carry, self.num_unknown)
        back = ReplayBack(self.known, self.staged, pulled, *counts, linear)
        avals = [tangent_aval(a) for a in self.staged.out_avals]
        ends = or_zeros(cts, avals, [True] * len(cts))
        outs = back(*consts, *start, *kept, *leave(unknown, linear), *ends)
        m = sum(linear)
        return [
            *([None] * (len(args) - len(unknown) - len(carry))),
            *spread_out(outs[:m], linear),
            *(ct if isinstance(a, Linear) else None for a, ct in zip(carry, outs[m:], strict=True)),
        ]

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """The decomposition."""
        return writer.closed(self._program([x.aval for x in operands]), operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """t -> t * cos(x) + c over rounds x -> sin(x), five of them, recorded at stride 1."""

        def onward(x: Any) -> list[Any]:
            return [ops.pointwise.sin(x), ops.pointwise.cos(x)]

        def linear(r: Any, c: Any, t: Any) -> list[Any]:
            return [ops.pointwise.add(ops.pointwise.mul(t, r), c)]

        scalar = ShapedArray((), "float32")
        known = trace_to_jaxpr(onward, [scalar], "known")
        staged = trace_to_jaxpr(linear, [scalar] * 3, "staged")
        states = [np.float32(0.7)]
        for _ in range(4):
            states.append(np.sin(states[-1]))
        kept = np.zeros(slots([scalar]) + 1, np.float32)
        kept[:5] = states
        given = (np.float32(0.7), np.int32(5), np.int32(1), kept)
        yield Sample(Replay(known, staged, 0, 1, 1), (*given, scalar, scalar), scale=4.0)


class ReplayBack(Op):
    """The transpose of `replay`: the rounds from the last to the first, each at its state.

    Arguments: as of `replay`, but of the unknown constants only those that are not `linear`, and
    instead of the carry the cotangents of its end.  Results: the cotangents of the linear
    constants, and of the carry's start.  `back` is the transpose of `staged`.
    """

    name = "replay_back"
    multiple_results = True
    known: ClosedJaxpr
    staged: ClosedJaxpr
    back: ClosedJaxpr
    num_consts: int
    num_carry: int
    num_unknown: int
    linear: tuple[bool, ...]

    def _forward(self) -> Replay:
        return Replay(self.known, self.staged, self.num_consts, self.num_carry, self.num_unknown)

    def _types(self) -> tuple[list[ShapedArray], list[ShapedArray]]:
        """(of the linear constants' cotangents, of the carry's)."""
        avals = self.staged.in_avals
        n, m = len(self.linear), self.num_unknown
        consts = pick(avals[len(avals) - m - n : len(avals) - m], self.linear)
        return [tangent_aval(a) for a in consts], [tangent_aval(a) for a in self.staged.out_avals]

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """Those types."""
        consts, carry = self._types()
        given = self._forward().parts(avals)[4]
        if [a.strong() for a in given] != [a.strong() for a in carry]:
            raise TypeError(
                f"replay_back: the cotangents are {[a.str_short() for a in carry]}; got "
                f"{[a.str_short() for a in given]}"
            )
        return tuple(a.strong() for a in (*consts, *carry))

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The decomposition, evaluated in NumPy."""
        program = trace_to_jaxpr(self.decompose, [typeof(x) for x in arrays], self.name)
        return evaluate(program.jaxpr, program.consts, arrays)

    def decompose(self, *args: Any) -> list[Any]:
        """Loops, over states kept or recomputed."""
        consts, _, kept, others, ends = self._forward().parts(args)
        totals = [ops.shape.zeros(a) for a in self._types()[0]]
        m = len(totals)

        def step(x: list[Any]) -> list[Any]:
            return _call(self.known, [*consts, *x])[: self.num_carry]

        def pull(x: list[Any], state: list[Any]) -> list[Any]:
            total, ct = cut(state, m)
            found = _call(self.known, [*consts, *x])[self.num_carry :]
            made = _call(self.back, [*found, *others, *ct])
            return [*(ops.pointwise.add(a, b) for a, b in zip(total, made, strict=False)),
                    *made[m:]]  # fmt: skip

        return reverse(step, pull, kept[0], kept[1], kept[2:], [*totals, *ends])

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Of the decomposition; of the cotangents alone, it is linear."""
        m = self.num_unknown
        moving = [t is not None for t in tangents]
        if not any(moving[: len(moving) - m]):
            ends = or_zeros(tangents[len(tangents) - m :], self._types()[1], [True] * m)
            return self(*primals), self(*primals[: len(primals) - m], *ends)
        program = trace_to_jaxpr(self.decompose, [typeof(x) for x in primals], self.name)
        jaxpr, mask = tools.jvp_jaxpr(program, moving)
        made = tools.call(jaxpr, [*primals, *(t for t in tangents if t is not None)])
        return made[: len(mask)], spread_out(made[len(mask) :], mask)

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """`replay`."""
        consts, start, kept, others, ends = self._forward().parts(args)
        to_consts, to_carry = self._types()
        given = or_zeros(cts, [*to_consts, *to_carry], [True] * len(cts))
        linear, carry = cut(given, len(to_consts))
        rest, moved = iter(others), iter(linear)
        unknown = [next(moved) if is_linear else next(rest) for is_linear in self.linear]
        outs = self._forward()(*consts, *start, *kept, *unknown, *carry)
        return [
            *([None] * (len(args) - len(ends))),
            *(ct if isinstance(a, Linear) else None for a, ct in zip(ends, outs, strict=True)),
        ]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A loop over the batch: each example has its own number of rounds."""
        if tools.mentions(self):
            return tools.batch(self.decompose, args, dims, size)
        return ops.control.over_batch(self, size, args, dims)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """The decomposition."""
        program = trace_to_jaxpr(self.decompose, [x.aval for x in operands], self.name)
        return writer.closed(program, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """The transpose of the sample of `replay`."""

        def pulled(r: Any, ct: Any) -> list[Any]:
            return [ct, ops.pointwise.mul(ct, r)]

        (sample,) = Replay.samples()
        op: Any = sample.op
        pull = trace_to_jaxpr(pulled, [ShapedArray((), "float32")] * 2, "back")
        back = ReplayBack(op.known, op.staged, pull, 0, 1, 1, (True,))
        yield Sample(back, (*sample.args[:4], sample.args[-1]), scale=4.0)


def reverse(
    step: _Step,
    pull: Callable[[list[Any], list[Any]], list[Any]],
    rounds: Any,
    stride: Any,
    kept: Sequence[Any],
    cts: Sequence[Any],
) -> list[Any]:
    """`for k in reversed(range(rounds)): cts = pull(state k, cts)`, of states that `record` kept.

    The places are a stack, each with the number of its state.
    """
    places = typeof(kept[0]).shape[0] if kept else 1
    room, n = np.int32(places - 1), len(kept)
    numbers = ops.pointwise.mul(ops.shape.iota(np.int32, (places,), 0), _spread(stride, places))
    last = ops.pointwise.sub(ops.pointwise.add(rounds, stride), ONE)
    depth = ops.pointwise.div(last, stride)

    def one(state: list[Any]) -> list[Any]:
        k, depth, numbers, *rest = state
        stack, cts = cut(rest, n)
        (depth, *_) = _while(
            lambda s: ops.pointwise.gt(read_row(s[1], ops.pointwise.sub(s[0], ONE)), s[2]),
            lambda s: [ops.pointwise.sub(s[0], ONE), *s[1:]],
            [depth, numbers, k],
        )
        top = ops.pointwise.sub(depth, ONE)
        i, x = read_row(numbers, top), [read_row(p, top) for p in stack]

        def advance(s: list[Any]) -> list[Any]:
            """Halfway to k, or all the way if no place is free; leaves the state there."""
            i, k, depth, numbers, *rest = s
            x, stack = cut(rest, n)
            half = ops.pointwise.max_(ops.pointwise.div(ops.pointwise.sub(k, i), TWO), ONE)
            free = ops.pointwise.lt(depth, room)
            to = ops.pointwise.select_n(free, k, ops.pointwise.add(i, half))
            i, _, *x = _while(
                lambda s: ops.pointwise.lt(s[0], s[1]),
                lambda s: [ops.pointwise.add(s[0], ONE), s[1], *step(s[2:])],
                [i, to, *x],
            )
            numbers = write_row(numbers, i, depth)
            stack = [write_row(p, v, depth) for p, v in zip(stack, x, strict=True)]
            pushed = ops.pointwise.and_(free, ops.pointwise.lt(i, k))
            depth = ops.pointwise.add(depth, ops.cast.convert_element_type(pushed, np.int32, False))
            return [i, k, depth, numbers, *x, *stack]

        _, _, depth, numbers, *rest = _while(
            lambda s: ops.pointwise.lt(s[0], s[1]), advance, [i, k, depth, numbers, *x, *stack]
        )
        x, stack = cut(rest, n)
        return [ops.pointwise.sub(k, ONE), depth, numbers, *stack, *pull(x, cts)]

    state = [ops.pointwise.sub(rounds, ONE), depth, numbers, *kept, *cts]
    return _while(lambda s: ops.pointwise.ge(s[0], ZERO), one, state)[3 + n :]


# A little language for the loops above


def _while(going: _Going, step: _Step, state: Sequence[Any]) -> list[Any]:
    """`while going(state): state = step(state)`; what both capture becomes constants."""
    avals = [typeof(x) for x in state]
    cond = lifted(trace_to_jaxpr(_flat(lambda s: [going(s)]), avals, "going"))
    body = lifted(trace_to_jaxpr(_flat(step), avals, "step"))
    loop = ops.control.While(cond[0], body[0], len(cond[1]), len(body[1]))
    return list(loop(*cond[1], *body[1], *state))


def _if(pred: Any, then: _Step, state: Sequence[Any]) -> list[Any]:
    """`then(state) if pred else state`."""
    avals = [typeof(x) for x in state]
    branches = (
        trace_to_jaxpr(_flat(list), avals, "as_it_is"),
        trace_to_jaxpr(_flat(then), avals, "then"),
    )
    index = ops.cast.convert_element_type(pred, np.int32, False)
    return list(ops.control.Cond(branches)(index, *state))


def _flat(step: _Step) -> Callable[..., list[Any]]:
    return lambda *state: step(list(state))


def _call(program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    return list(ops.call.Jit(program, program.jaxpr.debug_name or "body")(*args))


def _halved(places: Any) -> Any:
    """Every other one, at the front."""
    shape = typeof(places).shape
    half = (shape[0] - 1) // 2
    ends = (2 * half, *shape[1:])
    even = ops.shape.slice_(places, (0,) * len(shape), ends, (2, *([1] * (len(shape) - 1))))
    rest = ops.shape.slice_(places, (half, *([0] * (len(shape) - 1))), shape, (1,) * len(shape))
    return ops.shape.concatenate([even, rest], 0)


def _spread(x: Any, size: int) -> Any:
    return ops.shape.broadcast_in_dim(x, (size,), ())
