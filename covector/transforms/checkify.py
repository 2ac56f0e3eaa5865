"""Errors as values: a program becomes one that also gives the number of the first failure.

Each program is changed by itself: its own failures are numbered from 1, and the program that holds
it shifts the numbers.  The arguments of a failure (values in its message) are results beside the
number; they mean something only if that failure is the one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Literal
from covector.ir.op import Op, has_rule
from covector.ir.values import typeof
from covector.ops.call import Call, Jit
from covector.ops.check import (
    CHECK,
    DEBUG_CHECK,
    KINDS,
    Check,
    Failure,
    Table,
    first_failure,
)
from covector.ops.control import Cond, LinearSolve, Scan, While
from covector.ops.control.parts import cut, permuted
from covector.ops.custom import CustomJvpCall, CustomVjpCall, Forward
from covector.ops.custom_vmap import CustomVmapCall
from covector.ops.linear_call import Named
from covector.trace.stage import read_literal, trace_to_jaxpr
from covector.transforms.automatic_checks import NONE, Errors, after, before


class State:
    """The first failure so far: its number (None: nothing can have failed), arguments, table."""

    __slots__ = ("code", "table", "values")

    def __init__(self) -> None:
        self.code: Any = None
        self.values: list[Any] = []
        self.table: list[Failure] = []

    def add(self, code: Any, values: Sequence[Any], table: Sequence[Failure]) -> None:
        """What may have failed since: `code` counts from 1 in `table`."""
        if not table:
            return
        offset = np.int32(len(self.table))
        if self.code is None:
            self.code = code
        else:
            shifted = ops.pointwise.where(_failed(code), ops.pointwise.add(code, offset), NONE)
            self.code = ops.pointwise.where(_failed(self.code), self.code, shifted)
        self.values += values
        self.table += table

    def results(self) -> list[Any]:
        """[number, arguments…]: nothing if nothing can fail."""
        return [] if self.code is None else [self.code, *self.values]


def _failed(code: Any) -> Any:
    return ops.pointwise.ne(code, NONE)


class Checked(NamedTuple):
    """A program that gives [number, arguments…] of its first failure before its results; just
    these if the table is empty."""

    program: ClosedJaxpr
    table: Table

    @property
    def width(self) -> int:
        """How many results are the failure's."""
        return 1 + sum(f.arity for f in self.table) if self.table else 0

    @property
    def avals(self) -> list[ShapedArray]:
        """The types of these."""
        return [a.strong() for a in self.program.out_avals[: self.width]]


def checked(closed: ClosedJaxpr, errors: Errors) -> Checked:
    """The program with its failures as results; remembered on it, if it has no constants."""
    key = ("checkify", errors)
    found = closed.jaxpr.derived.get(key) if not closed.consts else None
    if found is None:
        tables: list[Table] = []

        def run(*args: Any) -> list[Any]:
            state, outs = evaluate(closed, args, errors)
            tables[:] = [tuple(state.table)]
            return [*state.results(), *outs]

        program = trace_to_jaxpr(run, closed.in_avals, closed.jaxpr.debug_name)
        found = Checked(program if tables[0] else closed, tables[0])
        if not closed.consts and not program.consts:
            closed.jaxpr.derived[key] = found
    return found


def evaluate(closed: ClosedJaxpr, args: Sequence[Any], errors: Errors) -> tuple[State, list[Any]]:
    """Binds every equation in the current trace, and collects what fails."""
    body, state = closed.jaxpr, State()
    env: dict[Any, Any] = dict(zip(body.constvars, closed.consts, strict=True))
    env.update(zip(body.invars, args, strict=True))

    def read(v: Any) -> Any:
        return read_literal(v) if isinstance(v, Literal) else env[v]

    outer = context.source
    try:
        for eqn in body.eqns:
            context.source = eqn.source or outer
            given = [read(v) for v in eqn.invars]
            outs = _apply(eqn.op, given, state, errors)
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        context.source = outer
    return state, [read(v) for v in body.outvars]


def _apply(op: Op, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    for kind, rule in _RULES:
        if isinstance(op, kind):
            return rule(op, args, state, errors)
    if op.name == "shard_map":  # a room above
        return _shard_map(op, args, state, errors)
    if op.effects & {CHECK, DEBUG_CHECK}:
        return _opened(op, args, state, errors)
    for found in before(op, args, errors):
        state.add(*found)
    out = op(*args)
    outs = out if op.multiple_results else [out]
    for found in after(op, outs, errors):
        state.add(*found)
    return outs


# Operations that hold programs.


def _check(op: Check, args: list[Any], state: State, errors: Errors) -> list[Any]:
    """Failures that are looked for are collected; others stay checks."""
    code, values = first_failure(args[0], args[1:])
    wanted = [KINDS[f.kind] in errors for f in op.table]
    if all(wanted):
        state.add(code, values, op.table)
    elif not any(wanted):
        op(*args)
    else:
        mask = np.array([False, *wanted])
        is_wanted = ops.pointwise.ne(code, code)
        for k in np.flatnonzero(mask):
            is_wanted = ops.pointwise.or_(is_wanted, ops.pointwise.eq(code, np.int32(k)))
        state.add(ops.pointwise.where(is_wanted, code, NONE), values, op.table)
        op(ops.pointwise.where(is_wanted, NONE, code), *values)
    return []


def _call(op: Call, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    made = checked(op.jaxpr, errors)
    if not made.table:
        return op(*args)
    if isinstance(op, CustomVmapCall):  # its rule does not know of failures
        op = Jit(op.jaxpr, op.label)
    code, values, outs = _split(op.with_params(jaxpr=made.program)(*args), made)
    state.add(code, values, made.table)
    return outs


def _split(outs: Sequence[Any], made: Checked) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    return outs[0], outs[1 : made.width], outs[made.width :]


def _custom_jvp(op: Any, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    made = checked(op.jaxpr, errors)
    if not made.table:
        return op(*args)
    rule = op.flat_rule()

    def checked_rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        outs, moved = rule(primals, tangents)
        failed = Jit(made.program, op.label)(*primals)[: made.width]
        return [*failed, *outs], [*[None] * made.width, *moved]

    call = CustomJvpCall(made.program, op.label, Named(checked_rule, "rule"), op.num_consts)
    code, values, outs = _split(call(*args), made)
    state.add(code, values, made.table)
    return outs


def _custom_vjp(op: Any, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    made = checked(op.jaxpr, errors)
    if not made.table:
        return op(*args)
    rule = op.flat_rule()

    def checked_rule(primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        forward = rule(primals, moving)
        failed = Jit(made.program, op.label)(*primals)[: made.width]

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return forward.back(residuals, cts[made.width :])

        return Forward([*failed, *forward.outs], forward.residuals, back)

    call = CustomVjpCall(made.program, op.label, Named(checked_rule, "rule"), op.num_consts)
    code, values, outs = _split(call(*args), made)
    state.add(code, values, made.table)
    return outs


def _cond(op: Cond, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """Every branch gives the arguments of all branches' failures, zeros for those of others."""
    made = [checked(b, errors) for b in op.branches]
    table = [f for m in made for f in m.table]
    if not table:
        return op(*args)
    kinds = [m.avals[1:] for m in made]

    def branch(k: int) -> ClosedJaxpr:
        offset = sum(len(m.table) for m in made[:k])

        def run(*operands: Any) -> list[Any]:
            outs = Jit(made[k].program, "branch")(*operands)
            own: Sequence[Any] = []
            code, rest = ops.shape.full((), 0, np.int32), outs
            if made[k].table:
                code, own, rest = _split(outs, made[k])
                moved = ops.pointwise.add(code, np.int32(offset))
                code = ops.pointwise.where(_failed(code), moved, NONE)
            values = [own if n == k else [ops.shape.zeros(a) for a in avals]
                      for n, avals in enumerate(kinds)]  # fmt: skip
            return [code, *(v for some in values for v in some), *rest]

        return _lifted(trace_to_jaxpr(run, op.branches[k].in_avals, "branch"))

    outs = Cond(tuple(branch(k) for k in range(len(made))))(*args)
    count = 1 + sum(map(len, kinds))
    state.add(outs[0], outs[1:count], table)
    return outs[count:]


def _scan(op: Scan, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """The first failure of the rounds is a part of the carry."""
    made = checked(op.jaxpr, errors)
    if not made.table:
        return op(*args)
    n, m, k = op.num_consts, op.num_carry, made.width

    def step(*values: Any) -> list[Any]:
        consts, before, rest = cut(values, n, k)
        outs = Jit(made.program, "body")(*consts, *rest)
        return [*_earlier(before, outs[:k]), *outs[k:]]

    avals = op.jaxpr.in_avals
    body = _lifted(trace_to_jaxpr(step, [*avals[:n], *made.avals, *avals[n:]], "body"))
    start = [ops.shape.zeros(a) for a in made.avals]
    outs = op.like(body, n, k + m)(*args[:n], *start, *args[n:])
    code, values, rest = _split(outs, made)
    state.add(code, values, made.table)
    return rest


def _while(op: While, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """The carry holds the first failure, and, if the condition may fail, its last answer."""
    body, cond = checked(op.body_jaxpr, errors), checked(op.cond_jaxpr, errors)
    if not body.table and not cond.table:
        return op(*args)
    cond_consts, body_consts, carry = op.parts(args)
    n, k, j = len(cond_consts), body.width, cond.width
    avals = [typeof(x) for x in args]
    fixed, state_avals = (
        avals[: n + len(body_consts)],
        [a.strong() for a in op.body_jaxpr.out_avals],
    )
    answer = [ShapedArray((), "bool")] if j else []
    extra = [*body.avals, *cond.avals, *answer]

    def going(*values: Any) -> list[Any]:
        if j:
            return [values[k + j]]
        consts, _, now = cut(values, n, k)
        return [Jit(cond.program, "cond")(*consts, *now)[0]]

    def step(*values: Any) -> list[Any]:
        of_cond, of_body, before, asked, _, now = cut(
            values, n, len(body_consts), k, j, len(answer)
        )
        outs = Jit(body.program, "body")(*of_body, *now)
        made, now = _earlier(before, outs[:k]), outs[k:]
        if not j:
            return [*made, *now]
        *found, more = Jit(cond.program, "cond")(*of_cond, *now)
        return [*made, *_earlier(asked, found), more, *now]

    start: list[Any] = [ops.shape.zeros(a) for a in body.avals]
    if j:
        start += Jit(cond.program, "cond")(*cond_consts, *carry)
    of_going = [*extra, *state_avals] if j else [*fixed[:n], *extra, *state_avals]
    loop = While(
        _lifted(trace_to_jaxpr(going, of_going, "cond")),
        _lifted(trace_to_jaxpr(step, [*fixed, *extra, *state_avals], "body")),
        0 if j else n, len(fixed),
    )  # fmt: skip
    outs = loop(*([] if j else cond_consts), *cond_consts, *body_consts, *start, *carry)
    for made, some in ((body, outs[:k]), (cond, outs[k : k + j])):
        if made.table:
            state.add(some[0], some[1:], made.table)
    return outs[k + j + len(answer) :]


def _shard_map(op: Any, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """Every device gives its failure; the first device's counts."""
    with op.inside():
        made = checked(op.jaxpr, errors)
        if not made.table:
            return op(*args)

        def run(*values: Any) -> list[Any]:
            outs = Jit(made.program, "body")(*values)
            failed = [ops.shape.expand_dims(x, (0,)) for x in outs[: made.width]]
            return [*failed, *outs[made.width :]]

        body = _lifted(trace_to_jaxpr(run, op.jaxpr.in_avals, "body"))
    everywhere = (tuple(name for name, _ in op.mesh_axes),)
    out_specs = [*[everywhere] * made.width, *op.out_specs]
    codes, values, outs = _split(op.like(body, op.in_specs, out_specs)(*args), made)
    state.add(*first_failure(codes, values), made.table)
    return outs


def _linear_solve(op: LinearSolve, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """Failures of `solve` are auxiliary results."""
    made = checked(op.solve, errors)
    if not made.table:
        return op(*args)
    k = made.width
    solve = permuted(made.program, tuple, lambda v: [*v[k:], *v[:k]])
    outs = op.with_params(solve=solve, num_aux=op.num_aux + k)(*args)
    at = len(outs) - k
    state.add(outs[at], outs[at + 1 :], made.table)
    return outs[:at]


def _opened(op: Op, args: list[Any], state: State, errors: Errors) -> Sequence[Any]:
    """An operation without a rule of its own, by its decomposition."""
    if not has_rule(op, "decompose"):
        raise NotImplementedError(
            f"checkify: a check inside {op.name} cannot be collected: it has neither a rule for "
            "that nor a decomposition"
        )

    def run(*values: Any) -> list[Any]:
        out = op.decompose(*values)
        return list(out) if op.multiple_results else [out]

    inner, outs = evaluate(trace_to_jaxpr(run, [typeof(x) for x in args], op.name), args, errors)
    if inner.table:
        state.add(inner.code, inner.values, inner.table)
    return outs


def _earlier(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """Of two failures, [number, arguments…], the first one."""
    if not before:
        return []
    failed = _failed(before[0])
    return [
        ops.pointwise.where(ops.shape.broadcast_in_dim(failed, typeof(a).shape, ()), a, b)
        for a, b in zip(before, now, strict=True)
    ]


def _lifted(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program, whose constants must be none: what it was made of has none."""
    if program.consts:
        raise NotImplementedError("checkify: the body of a control flow operation has constants")
    return program


_RULES: tuple[tuple[Any, Callable[..., Sequence[Any]]], ...] = (
    (Check, _check),
    (CustomJvpCall, _custom_jvp),
    (CustomVjpCall, _custom_vjp),
    (Call, _call),
    (Cond, _cond),
    (Scan, _scan),
    (While, _while),
    (LinearSolve, _linear_solve),
)
