"""Taylor mode: every value carries the first coefficients of a power series in one variable.

A value is `x(s) = c[0] + c[1] s + … + c[n] s^n`; each operation gives the coefficients of its
result.  Linear operations act on each; for products and elementary functions there are recurrences
(Griewank and Walther, Evaluating Derivatives, chapter 13, `jet_rules`).  For any other operation
`y = f(x)`, its rule of forward mode gives `y' = f'(x) x'`, one order lower: an integral is left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.context import context
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Absent, Op, has_rule
from covector.ir.values import typeof
from covector.ops.custom import CustomVjpCall
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import Trace, Tracer, check_alive
from covector.transforms.custom import CustomCall
from covector.transforms.jet_rules import LINEAR, RULES, Series, scaled
from covector.transforms.tools import tools
from covector.transforms.under import run_under


class JetTracer(Tracer):
    """A series: its coefficients, of which those after the first may be None, for 0."""

    __slots__ = ("series",)

    def __init__(self, trace: JetTrace, series: Series) -> None:
        self.owner, self.series, self.aval = trace, series, typeof(series[0])

    def origin_message(self) -> str:
        """The user's line that made it, if that is known."""
        first = self.series[0]
        return first.origin_message() if isinstance(first, Tracer) else ""

    def __bool__(self) -> bool:
        """Of the value where the series starts."""
        check_alive(self)
        return bool(self.series[0])

    def __index__(self) -> int:
        check_alive(self)
        return self.series[0].__index__()

    def __repr__(self) -> str:
        return f"JetTracer({self.aval.str_short()}, order {len(self.series) - 1})"


class JetTrace(Trace):
    """Interprets an operation on series, by operations of the parent on their coefficients."""

    __slots__ = ("order",)

    def __init__(self, parent: Any, order: int) -> None:
        super().__init__(parent, "jet")
        self.order = order

    def process(self, op: Any, args: Any) -> Any:
        """The parent's meaning where all is constant; else the series of the results."""
        if isinstance(op, CustomCall) and op.kind is CustomVjpCall:  # its rule only goes back
            return list(op.fun(*args))
        given = [self.unwrap(x) for x in args]
        context.trace = self.parent
        try:
            if not any(map(_moves, given)):
                return op(*[c[0] for c in given])
            outs = propagate(op, given, self.order)
        finally:
            context.trace = self
        if op.multiple_results:
            return [self.wrap(c) for c in outs]
        return self.wrap(outs[0])

    def wrap(self, series: Series) -> Any:
        """A tracer, unless the series is constant."""
        return JetTracer(self, series) if _moves(series) else series[0]

    def unwrap(self, x: Any) -> Series:
        """The coefficients of a value."""
        if type(x) is JetTracer and x.owner is self:
            return x.series
        return [x] + [None] * self.order


def _moves(series: Series) -> bool:
    return any(c is not None for c in series[1:])


def jet_flat(fun: Callable[..., Sequence[Any]], args: Sequence[Series], order: int) -> list[Series]:
    """The series of the results of a function of flat values."""
    if not order:
        return [[y] for y in fun(*(c[0] for c in args))]
    trace = JetTrace(context.trace, order)
    return run_under(trace, fun, (trace.wrap(list(c)) for c in args))


def propagate(op: Op, args: list[Series], order: int) -> list[Series]:
    """The series of the results of one operation."""
    positions = _linear_in(op, args)
    if positions is not None:
        return _coefficients(op, positions, args, order)
    rule = RULES.get(op.name)
    if rule is not None:
        return [rule(op, args, order)]
    control = _CONTROL.get(op.name)
    if control is not None:
        return control(op, args, order)
    return _integrate(op, args, order)


def _linear_in(op: Op, args: list[Series]) -> Sequence[int] | None:
    """The arguments that `op` is linear in, if no others vary."""
    chosen = LINEAR.get(op.name)
    if chosen is None and isinstance(op, ops.families.LinearOp):
        chosen = slice(0, 1)
    if chosen is None:
        return None
    positions = range(len(args))[chosen]
    fixed = (k for k in range(len(args)) if k not in positions)
    return None if any(_moves(args[k]) for k in fixed) else positions


def _coefficients(op: Op, positions: Sequence[int], args: list[Series], order: int) -> list[Series]:
    """`op` of each coefficient."""
    outs = [_listed(op, op(*[c[0] for c in args]))]
    for k in range(1, order + 1):
        if all(args[p][k] is None for p in positions):
            outs.append([None] * len(outs[0]))
            continue
        given = [c[0] for c in args]
        for p in positions:
            c = args[p][k]
            given[p] = ops.shape.zeros(typeof(args[p][0]).strong()) if c is None else c
        outs.append(_listed(op, op(*given)))
    return [_inexact([row[j] for row in outs]) for j in range(len(outs[0]))]


def _inexact(series: Series) -> Series:
    """Integers do not move."""
    if dtypes.issubdtype(typeof(series[0]).dtype, np.inexact):
        return series
    return [series[0]] + [None] * (len(series) - 1)


def _listed(op: Op, out: Any) -> list[Any]:
    return list(out) if op.multiple_results else [out]


def _integrate(op: Op, args: list[Series], order: int) -> list[Series]:
    """By the rule of forward mode, on series of one order less."""
    if isinstance(op, CustomCall):
        derive = functools.partial(op.kind.derive, tools, op.rule, op.label)
    elif has_rule(op, "jvp"):
        derive = functools.partial(op.jvp, tools)
    else:
        absent = op.jvp
        if isinstance(absent, Absent) and absent.reason == "integer":
            outs = _listed(op, op(*[c[0] for c in args]))
            return [[y] + [None] * order for y in outs]
        raise NotImplementedError(
            f"jet: there is no rule for {op.name}: it states no derivative, by which its Taylor "
            "series could be found"
        )
    n = len(args)

    def slope(*both: Any) -> list[Any]:
        tangents: list[Any] = [None] * n
        for k, t in zip(varying, both[n:], strict=True):
            tangents[k] = t
        out, moved = derive(list(both[:n]), tangents)
        outs, moved = _listed(op, out), _listed(op, moved)
        mask[:] = [t is not None for t in moved]
        return [*outs, *(t for t in moved if t is not None)]

    mask: list[bool] = []
    varying = [k for k, c in enumerate(args) if _moves(c)]
    rates = [_rate(args[k]) for k in varying]
    found = jet_flat(slope, [*(c[:order] for c in args), *rates], order - 1)
    outs, rest = found[: len(mask)], iter(found[len(mask) :])
    return [_from_rate(y[0], next(rest) if m else None, order)
            for y, m in zip(outs, mask, strict=True)]  # fmt: skip


def _rate(c: Series) -> Series:
    """The series' derivative."""
    rate = [scaled(x, k) for k, x in enumerate(c) if k]
    if rate[0] is None:
        rate[0] = ops.shape.zeros(typeof(c[0]).strong())
    return rate


def _from_rate(start: Any, rate: Series | None, order: int) -> Series:
    if rate is None:
        return [start] + [None] * order
    return [start, *(scaled(t, 1 / (k + 1)) for k, t in enumerate(rate))]


# Operations that hold programs


def _program(
    closed: ClosedJaxpr,
    order: int,
    moving: Sequence[Sequence[bool]],
    sizes: Sequence[int],
    wanted: Sequence[bool] | None = None,
) -> tuple[ClosedJaxpr, list[bool]]:
    """(the program on coefficients, which results move; those `wanted` do).

    Arguments come in groups as in `moving`, results in groups of these `sizes`: of each group the
    first coefficients, then for those that move the others.
    """
    key = ("jet", order, *map(tuple, moving), None if wanted is None else tuple(wanted))
    cache = closed.jaxpr.derived
    if not closed.consts and key in cache:
        return cache[key]
    mask: list[bool] = []

    def fun(*values: Any) -> list[Any]:
        rest = iter(values)
        args = [c for group in moving for c in _gathered(rest, group, order)]
        outs = jet_flat(lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), args, order)
        must = wanted or [False] * len(outs)
        mask[:] = [_moves(c) or w for c, w in zip(outs, must, strict=True)]
        return _spread(outs, mask, sizes)

    avals: list[Any] = []
    types = iter(closed.in_avals)
    for group in moving:
        mine = [next(types) for _ in group]
        avals += mine
        avals += [a.strong() for a, m in zip(mine, group, strict=True) if m for _ in range(order)]
    made = trace_to_jaxpr(fun, avals, closed.jaxpr.debug_name), mask
    if not closed.consts:
        cache[key] = made
    return made


def _gathered(rest: Any, moving: Sequence[bool], order: int) -> list[Series]:
    """The series of a group of values."""
    first = [next(rest) for _ in moving]
    return [
        [x, *([next(rest) for _ in range(order)] if m else [None] * order)]
        for x, m in zip(first, moving, strict=True)
    ]


def _spread(series: Sequence[Series], moving: Sequence[bool], sizes: Sequence[int]) -> list[Any]:
    """The values of groups of series."""
    out: list[Any] = []
    start = 0
    for n in sizes:
        group, mine = series[start : start + n], moving[start : start + n]
        out += [c[0] for c in group]
        out += [
            ops.shape.zeros(typeof(c[0]).strong()) if x is None else x
            for c, m in zip(group, mine, strict=True)
            if m
            for x in c[1:]
        ]
        start += n
    return out


def _call(op: Any, args: list[Series], order: int) -> list[Series]:
    """A call of the program on coefficients."""
    moving = [_moves(c) for c in args]
    body, mask = _program(op.jaxpr, order, [moving], [len(op.jaxpr.out_avals)])
    outs = ops.call.Jit(body, op.label)(*_spread(args, moving, [len(args)]))
    return _gathered(iter(outs), mask, order)


def _cond(op: Any, args: list[Series], order: int) -> list[Series]:
    """A choice between the branches' programs on coefficients."""
    index, operands = args[0][0], args[1:]
    moving, n = [_moves(c) for c in operands], len(op.branches[0].out_avals)
    masks = [_program(b, order, [moving], [n])[1] for b in op.branches]
    wanted = [any(column) for column in zip(*masks, strict=True)]
    branches = tuple(_program(b, order, [moving], [n], wanted)[0] for b in op.branches)
    outs = ops.control.Cond(branches)(index, *_spread(operands, moving, [len(operands)]))
    return _gathered(iter(outs), wanted, order)


def _scan(op: Any, args: list[Series], order: int) -> list[Series]:
    """A scan of coefficients; what the body makes move, moves from the start."""
    n, m = op.num_consts, op.num_carry
    consts, carry, xs = args[:n], args[n : n + m], args[n + m :]
    still, rows = [_moves(c) for c in consts], [_moves(c) for c in xs]
    moving, outs = [_moves(c) for c in carry], len(op.jaxpr.out_avals) - m
    while True:
        wanted = [*moving, *[False] * outs]
        body, mask = _program(op.jaxpr, order, [still, moving, rows], [m, outs], wanted)
        if mask[:m] == moving:
            break
        moving = mask[:m]
    given = _spread(args, [*still, *moving, *rows], [n, m, len(xs)])
    scan = op.like(body, n + sum(still) * order, m + sum(moving) * order)
    rest = iter(scan(*given))
    return [*_gathered(rest, moving, order), *_gathered(rest, mask[m:], order)]


def _while(op: Any, args: list[Series], order: int) -> list[Series]:
    """A loop of coefficients; its condition sees the first ones."""
    n, m = op.cond_nconsts, op.body_nconsts
    consts, carry = args[n : n + m], args[n + m :]
    still, moving = [_moves(c) for c in consts], [_moves(c) for c in carry]
    while True:
        body, mask = _program(op.body_jaxpr, order, [still, moving], [len(carry)], moving)
        if mask == moving:
            break
        moving = mask
    values = _spread([*consts, *carry], [*still, *moving], [m, len(carry)])
    count = m + sum(still) * order
    condition = op.cond_jaxpr
    heads = [typeof(c[0]) for c in args[:n]]

    def test(*xs: Any) -> list[Any]:
        return eval_jaxpr(condition.jaxpr, condition.consts, *xs[: n + len(carry)])

    cond = trace_to_jaxpr(test, [*heads, *map(typeof, values[count:])], "cond")
    loop = ops.control.While(cond, body, n, count)
    outs = loop(*(c[0] for c in args[:n]), *values)
    return _gathered(iter(outs), moving, order)


#: Calls whose meaning is their program, loops and choices.
_CONTROL: dict[str, Callable[[Any, list[Series], int], list[Series]]] = {
    "jit": _call,
    "checkpoint": _call,
    "custom_vjp_call": _call,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
