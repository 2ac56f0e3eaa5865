"""Calls of Python from compiled programs: numbered here, put in order, called by the driver.

`lift` takes the Python functions out of a program and leaves numbers, so that its text, by which
machine code is kept on disk, says nothing of this process.  `in_order` threads a token through all
that calls, so that what the planner sees as data is what keeps calls in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.compiler.control import CONTROL, nested
from covector.compiler.program import ALIGNMENT, Program
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var, holds_programs
from covector.ir.op import Library, Op
from covector.ops.callback import Callback
from covector.ops.collective import AxisIndex, axis_names

if TYPE_CHECKING:
    from covector.compiler.loops.partition import Step

#: The effects of callbacks.
EFFECTS: Final = frozenset({"io", "debug"})
_TOKEN: Final = ShapedArray((), "bool")
_START: Final = Literal(np.bool_(False), _TOKEN)


class HostCall(Op, registered=False):
    """Calls the program's callback `number`.

    effect: '' if it has none.  token: whether the first argument and result are a token, which
    says nothing but what comes after what.
    """

    name = "host_call"
    multiple_results = True
    number: int
    result_avals: tuple[ShapedArray, ...]
    effect: str
    token: bool

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """As the callback's."""
        return frozenset({self.effect} if self.effect else ())

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The declared types."""
        return (_TOKEN, *self.result_avals) if self.token else self.result_avals

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call for each example: of a compiled program, these are devices."""
        return ops.control.over_batch(self, size, args, dims)

    def library(self, *avals: ShapedArray) -> Library:
        """The routine that calls."""
        return Library("host_call", (self.number, self.token))


class Site(NamedTuple):
    """A callback of a program, and what it is called with."""

    op: Any
    in_avals: tuple[ShapedArray, ...]


class OnEach(Op, registered=False):
    """`op` on each device by itself, though all may have the same arguments.

    The last `axes` arguments are the device's places along the axes of the mesh, which differ.
    """

    name = "on_each"
    multiple_results = True
    op: Op
    axes: int

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """The operation's."""
        return self.op.effects

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The operation's."""
        return tuple(self.op.result(*avals[: -self.axes]))

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """One after another."""
        return ops.control.over_batch(self, size, args, dims)

    def decompose(self, *args: Any) -> Any:
        """The operation."""
        return self.op(*args[: -self.axes])


def lift(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Site]]:
    """(the program with numbers in place of Python functions, what these numbers mean)."""
    lifting = _Lifting()
    jaxpr = lifting.program(closed.jaxpr, ())
    if jaxpr is closed.jaxpr:
        return closed, []
    return ClosedJaxpr(jaxpr, closed.consts), [Site(*key) for key in lifting.sites]


@final
class _Lifting:
    """One program's callbacks so far, and the nested programs that are done.

    axes: the names of the axes over which the devices lie that run a nested program.
    """

    __slots__ = ("done", "sites")

    def __init__(self) -> None:
        self.sites: dict[tuple[Op, tuple[ShapedArray, ...]], int] = {}
        #: Holds what it is keyed by, so that ids stay their own.
        self.done: dict[Any, tuple[Jaxpr, Jaxpr]] = {}

    def program(self, jaxpr: Jaxpr, axes: tuple[Any, ...]) -> Jaxpr:
        """The program with numbers; itself if nothing in it calls."""
        key = id(jaxpr), axes
        if key not in self.done:
            eqns = [self.equation(e, axes) for e in jaxpr.eqns]
            same = all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True))
            if axes and not same:
                eqns = _on_each_device(eqns, axes)
            self.done[key] = jaxpr, jaxpr if same else jaxpr.replace(eqns=eqns)
        return self.done[key][1]

    def equation(self, eqn: Equation, axes: tuple[Any, ...]) -> Equation:
        """The equation with numbers."""
        op = eqn.op
        if isinstance(op, Callback):
            avals = tuple(v.aval for v in eqn.invars)
            number = self.sites.setdefault((op, avals), len(self.sites))
            (effect,) = op.effects or ("",)
            return eqn.replace(op=HostCall(number, op.result_avals, effect, False))
        if not holds_programs(op):
            return eqn
        params = op.params
        if op.name in CONTROL:
            axes = ()  # it is run on each device as a whole
        axes = (*axes, *(name for name, _ in params.get("mesh_axes", ())))
        new = {k: self.field(v, axes) for k, v in params.items()}
        if all(new[k] is v for k, v in params.items()):
            return eqn
        return eqn.replace(op=op.with_params(**new))

    def field(self, value: Any, axes: tuple[Any, ...]) -> Any:
        """A parameter, with numbers in the programs that it holds."""
        if isinstance(value, ClosedJaxpr):
            inner = self.program(value.jaxpr, axes)
            return value if inner is value.jaxpr else ClosedJaxpr(inner, value.consts)
        if type(value) is tuple and any(isinstance(x, ClosedJaxpr) for x in value):
            new = tuple(self.field(x, axes) for x in value)
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value


def _on_each_device(eqns: Sequence[Equation], axes: tuple[Any, ...]) -> list[Equation]:
    """The equations, those with effects as `OnEach`; those that wait for other devices as they are:
    with the same arguments for all, these call once.
    """
    places = [Var(ShapedArray((), "int32")) for _ in axes]
    out = [Equation(AxisIndex(a), [], [v]) for a, v in zip(axes, places, strict=True)]
    for eqn in eqns:
        op = eqn.op
        if op.effects & EFFECTS and op.name in _WITH_TOKEN and not axis_names(op):
            eqn = eqn.replace(op=OnEach(op, len(axes)), invars=[*eqn.invars, *places])
        out.append(eqn)
    return out


# Order.


def in_order(jaxpr: Jaxpr) -> Jaxpr | None:
    """The program with one more result, the last token; None if nothing in it calls.

    Calls without effects too are put in order: a loop around one gets a carry then, and what has
    a carry is never spread over threads.
    """
    if not any(_calls(e.op) for e in jaxpr.eqns):
        return None
    eqns, token = _threaded(jaxpr.eqns, _START)
    return jaxpr.replace(eqns=eqns, outvars=[*jaxpr.outvars, token])


def without_token(program: Program) -> Program:
    """The planned program without its last result, which becomes temporary memory."""
    slot = program.slots[program.outputs[-1]]
    slot.home, slot.offset = "temp", program.arena
    program.arena += ALIGNMENT
    program.outputs = program.outputs[:-1]
    return program


def as_written(steps: list[Step]) -> list[Step]:
    """The steps of a program that calls, in its own order as far as their loads allow: who prints
    before a long loop wants to see that before it.
    """
    if not any(s.node is not None and _calls(s.node.op) for s in steps):
        return steps
    maker = {v: s for s in steps for v in s.makes}
    waits = {s: {maker[v] for v in s.loads if v in maker} for s in steps}
    users: dict[Step, list[Step]] = {s: [] for s in steps}
    for s, before in waits.items():
        for b in before:
            users[b].append(s)
    place = {s: (min(v.position for v in s.makes), k) for k, s in enumerate(steps)}
    ready = [(*place[s], s) for s in steps if not waits[s]]
    heapq.heapify(ready)
    out: list[Step] = []
    while ready:
        step = heapq.heappop(ready)[-1]
        out.append(step)
        for user in users[step]:
            waits[user].remove(step)
            if not waits[user]:
                heapq.heappush(ready, (*place[user], user))
    return out


def _calls(op: Op) -> bool:
    """Whether the operation calls, or holds a program that does."""
    if op.name == "host_call":
        return True
    if op.name not in _WITH_TOKEN:
        return bool(op.effects & EFFECTS)
    return any(_calls(e.op) for closed in nested(op) for e in closed.eqns)


def _threaded(eqns: Sequence[Equation], token: Atom) -> tuple[list[Equation], Atom]:
    """The equations, each that calls after the one before it; the last token."""
    out: list[Equation] = []
    for eqn in eqns:
        if _calls(eqn.op):
            after, threads = Var(_TOKEN), _WITH_TOKEN.get(eqn.op.name)
            if threads is None:
                raise NotImplementedError(f"{eqn.op.name}: callbacks in it are run by the host")
            op, at = threads(eqn.op)
            invars = [*eqn.invars[:at], token, *eqn.invars[at:]]
            eqn = eqn.replace(op=op, invars=invars, outvars=[after, *eqn.outvars])
            token = after
        out.append(eqn)
    return out, token


def _program(closed: ClosedJaxpr, at: int, results: Callable[..., Sequence[Atom]]) -> ClosedJaxpr:
    """A nested program with a token among its arguments; results(token, results)."""
    before = Var(_TOKEN)
    body = closed.jaxpr
    eqns, after = _threaded(body.eqns, before)
    invars = [*body.invars[:at], before, *body.invars[at:]]
    outvars = list(results(after, body.outvars))
    return ClosedJaxpr(body.replace(invars=invars, eqns=eqns, outvars=outvars), closed.consts)


def _first(token: Atom, outvars: Sequence[Atom]) -> list[Atom]:
    return [token, *outvars]


def _call(op: Any) -> tuple[Op, int]:
    return op.with_params(token=True), 0


def _branch(op: Any) -> tuple[Op, int]:
    branches = tuple(_program(b, 0, _first) for b in op.branches)
    return op.with_params(branches=branches), 1


def _scan(op: Any) -> tuple[Op, int]:
    n = op.num_consts
    body = _program(op.jaxpr, n, _first)
    return op.with_params(jaxpr=body, num_carry=op.num_carry + 1), n


def _while(op: Any) -> tuple[Op, int]:
    n, m = op.cond_nconsts, op.body_nconsts
    body = _program(op.body_jaxpr, m, _first)
    cond = _program(op.cond_jaxpr, n, lambda token, outvars: [*outvars, token])
    return op.with_params(body_jaxpr=body, cond_jaxpr=_test(cond)), n + m


def _test(cond: ClosedJaxpr) -> ClosedJaxpr:
    """A condition that gives (whether to go on, its last token), as one value that needs both."""
    body = cond.jaxpr
    going, token = body.outvars
    if token in body.invars:  # nothing in it calls
        return ClosedJaxpr(body.replace(outvars=[going]), cond.consts)
    both = Var(_TOKEN)  # a token is False
    eqn = Equation(ops.pointwise.or_, [going, token], [both])
    return ClosedJaxpr(body.replace(eqns=[*body.eqns, eqn], outvars=[both]), cond.consts)


#: name of an operation -> (itself with a token, the place of that among its arguments).
_WITH_TOKEN: Final[dict[str, Callable[[Any], tuple[Op, int]]]] = {
    "host_call": _call, "cond": _branch, "scan": _scan, "while": _while,
}  # fmt: skip
