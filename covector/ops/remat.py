"""`checkpoint`: a call whose intermediate values are computed again in the backward pass.

Its linearisation keeps, of what the backward pass needs, the arguments and what the policy allows
to save; the rest is computed again there, behind a barrier, so that the compiler does not find it
to be what the forward pass computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from covector import ops
from covector._base.config import config
from covector._base.context import context
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import Linear, Op, Sample
from covector.ops.call import Call, Jit
from covector.ops.linear_call import run_or_bind
from covector.trace.stage import live_equations, trace_to_jaxpr

#: Calls that are replaced by their equations.  Those with a derivative of their own keep it, since
#: the known part may be differentiated once more.
OPENED = frozenset({"jit"})


class Offloadable(NamedTuple):
    """A policy's answer: save the value, in another kind of memory (here: where it is)."""

    src: str
    dst: str


@final
class _Answer:
    """A policy's answer, by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Saveable, Recompute = _Answer("Saveable"), _Answer("Recompute")


@final
class Policy:
    """A rule that says which values are saved; prints as its name."""

    __slots__ = ("allows",)

    def __init__(self, allows: Callable[..., Any] | None) -> None:
        self.allows = allows

    def __repr__(self) -> str:
        return getattr(self.allows, "__name__", "policy") if self.allows else "None"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.allows == other.allows

    def __hash__(self) -> int:
        return hash((Policy, self.allows))

    def saves(self, eqn: Equation) -> bool:
        """Whether the results of the equation are saved."""
        return self.answer(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params)

    def answer(self, prim: Any, *avals: Any, **params: Any) -> bool:
        """The rule's answer, as a bool."""
        if self.allows is None:
            return False
        answer: Any = self.allows(prim, *avals, **params)
        if answer is Recompute:
            return False
        if type(answer) in (bool, np.bool_):
            return bool(answer)
        if answer is Saveable or isinstance(answer, Offloadable):
            return True
        raise TypeError(
            f"checkpoint: the policy {self!r} must answer with a bool, Saveable, Recompute or "
            f"Offloadable(src, dst); for {prim.name} it gave {answer!r} of type {type(answer)}"
        )


class Checkpoint(Call):
    """A call that is computed again in the backward pass, except what `policy` saves.

    `differentiated`: this is that second computation, and what follows from it.
    """

    name = "checkpoint"
    policy: Any
    prevent_cse: bool
    differentiated: bool

    def __call__(self, *args: Any) -> Any:
        if self.differentiated and config.debug_key_reuse:
            return context.trace.process(self, args)  # whole: it may draw again from its keys
        return run_or_bind(self, args)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A checkpoint of the program's jvp."""
        moving = [t is not None for t in tangents]
        jaxpr, mask = tools.jvp_jaxpr(self.jaxpr, moving)
        outs = self.around(jaxpr)(*primals, *[t for t in tangents if t is not None])
        rest = iter(outs[len(mask) :])
        return outs[: len(mask)], [next(rest) if m else None for m in mask]

    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """The known part with what is saved; staged, the rest, which computes again what is not."""
        known, staged, mask, residuals = tools.split_jaxpr(self.jaxpr, unknown)
        known = opened(known)
        parts = cut(known.jaxpr, len(residuals), staged, self.policy)
        given = [*known.consts, *(a for a, u in zip(args, unknown, strict=True) if not u)]
        hidden = [a for a, u in zip(args, unknown, strict=True) if u]
        context.trace = trace.parent
        try:
            outs: list[Any] = self.around(parts.known)(*given) if parts.known.out_avals else []
        finally:
            context.trace = trace
        count = len(known.out_avals) - len(residuals)
        kept = [given[k] for k in parts.arguments]
        op = (
            self.with_params(jaxpr=parts.staged, differentiated=True)
            if parts.recomputes
            else Jit(parts.staged, self.label)
        )
        rest = iter(trace.stage(op, [*kept, *outs[count:], *hidden]))
        found = iter(outs[:count])
        return [next(rest) if m else next(found) for m in mask]

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A checkpoint of the program's transpose."""
        linear = [isinstance(a, Linear) for a in args]
        jaxpr, mask = tools.transpose_jaxpr(self.jaxpr, linear, [ct is not None for ct in cts])
        given = [a for a, is_linear in zip(args, linear, strict=True) if not is_linear]
        outs = iter(self.around(jaxpr)(*given, *[ct for ct in cts if ct is not None]))
        found = iter([next(outs) if m else None for m in mask])
        return [next(found) if is_linear else None for is_linear in linear]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A checkpoint of the batched program."""
        jaxpr, mask = tools.batch_jaxpr(self.jaxpr, size, [d is not None for d in dims])
        moved = [
            a if d is None else ops.shape.move_axis(a, d, 0)
            for a, d in zip(args, dims, strict=True)
        ]
        return self.around(jaxpr)(*moved), [0 if m else None for m in mask]

    def around(self, jaxpr: ClosedJaxpr) -> Op:
        """The same of another program."""
        return self.with_params(jaxpr=jaxpr)

    def decompose(self, *args: Any) -> list[Any]:
        """The program's operations, behind a barrier if it computes something again."""
        if self.differentiated and self.prevent_cse and args:
            args = tuple(ops.select.optimization_barrier(*args))
        return Call.decompose(self, *args)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """The operations, inlined."""
        program = trace_to_jaxpr(self.decompose, [x.aval for x in operands], self.label)
        return writer.closed(program, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """sin(sin(x) * y), as a first and as a second computation."""
        mul, sin = ops.pointwise.mul, ops.pointwise.sin

        def twice(x: Any, y: Any) -> list[Any]:
            return [sin(mul(sin(x), y))]

        for dtype, again in (("float32", True), ("float64", False)):
            aval = ShapedArray((3,), dtype)
            body = trace_to_jaxpr(twice, [aval, aval], "f")
            yield Sample(Checkpoint(body, "f", None, True, again), (aval, aval))


class Name(Op):
    """The identity; policies see `label`."""

    name = "name"
    arity = 1
    label: str

    def result(self, x: ShapedArray) -> ShapedArray:
        """The argument's."""
        return x

    @staticmethod
    def numpy(x: Any) -> Any:
        """The identity."""
        return x

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The primal alone has the name."""
        return self(*primals), tangents[0]

    @staticmethod
    def transpose(tools: Any, ct: Any, x: Any) -> list[Any]:
        """The identity."""
        return [ct]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The same name."""
        return self(*args), dims[0]

    def decompose(self, x: Any) -> Any:
        """The argument itself."""
        return x

    @staticmethod
    def stablehlo(writer: Any, x: Any) -> Any:
        """The operand itself."""
        return x

    @staticmethod
    def samples() -> Iterable[Sample]:
        """A float, an integer."""
        yield Sample(Name("kept"), (ShapedArray((3,), "float32"),))
        yield Sample(Name("kept"), (ShapedArray((3,), "int32"),))


# The cut.


class Parts(NamedTuple):
    """A checkpoint's program in two.

    known: known arguments -> known results, saved values.  staged: the arguments numbered
    `arguments`, saved values, unknown arguments -> unknown results.  recomputes: whether the
    latter computes something again.
    """

    known: ClosedJaxpr
    staged: ClosedJaxpr
    arguments: list[int]
    recomputes: bool


def cut(body: Jaxpr, residuals: int, staged: ClosedJaxpr, policy: Any) -> Parts:
    """Move what the policy does not save from `body`, whose last results are residuals, into
    `staged`, which takes these first."""
    count = len(body.outvars) - residuals
    wanted = body.outvars[count:]
    saveable = {v for eqn in body.eqns for v in saved_results(eqn, policy)}
    needed = {v for v in wanted if isinstance(v, Var)}
    again: list[Equation] = []
    for eqn in reversed(body.eqns):
        if any(v in needed and v not in saveable for v in eqn.outvars):
            again.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    again.reverse()
    made = {v for eqn in body.eqns for v in eqn.outvars}
    saved = [
        v for eqn in body.eqns for v in eqn.outvars
        if isinstance(v, Var) and v in needed and v in saveable
    ]  # fmt: skip
    arguments = [k for k, v in enumerate(body.invars) if v in needed and v not in made]
    outs = [*body.outvars[:count], *saved]
    first = body.replace(outvars=outs, eqns=live_equations(body.eqns, outs))
    # What is saved is an argument of the second part, not made again by an equation of it.
    fresh = {v: Var(v.aval) for v in saved}
    env: dict[Any, Atom] = dict(fresh)
    eqns: list[Equation] = []
    _copy(again, env, eqns)
    inner: dict[Any, Atom] = dict(
        zip(staged.jaxpr.invars, [_read(v, env) for v in wanted], strict=False)
    )
    rest = staged.jaxpr.invars[residuals:]
    _copy(staged.jaxpr.eqns, inner, eqns)
    invars = [*(body.invars[k] for k in arguments), *fresh.values(), *rest]
    second = Jaxpr(
        [], invars, [_read(v, inner) for v in staged.jaxpr.outvars], eqns, body.debug_name
    )
    return Parts(ClosedJaxpr(first), ClosedJaxpr(second), arguments, bool(again))


def opened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with calls' equations in the place of calls, its constants as arguments too."""
    body = closed.jaxpr
    constants = dict(zip(body.constvars, closed.consts, strict=True))
    env: dict[Any, Atom] = {}
    eqns: list[Equation] = []
    _copy(body.eqns, env, eqns, constants)
    outvars = [_read(v, env) for v in body.outvars]
    lifted = Jaxpr([], [*constants, *body.invars], outvars, eqns, body.debug_name)
    return ClosedJaxpr(lifted, list(constants.values()))


def _copy(
    source: Sequence[Equation],
    env: dict[Any, Atom],
    out: list[Equation],
    constants: dict[Var, Any] | None = None,
) -> None:
    """Write equations to `out`, for other variables where `env` says so; new ones are made.

    Into calls, if `constants` is given, which their constants are added to.
    """
    for eqn in source:
        invars = [_read(v, env) for v in eqn.invars]
        if constants is not None and eqn.op.name in OPENED:
            called: ClosedJaxpr = eqn.op.params["jaxpr"]
            body = called.jaxpr
            inner: dict[Any, Atom] = dict(zip(body.invars, invars, strict=True))
            for v, c in zip(body.constvars, called.consts, strict=True):
                inner[v] = Var(v.aval)
                constants[inner[v]] = c  # type: ignore[index]
            _copy(body.eqns, inner, out, constants)
            env.update(zip(eqn.outvars, [_read(v, inner) for v in body.outvars], strict=True))
            continue
        outvars: list[Any] = []
        for v in eqn.outvars:
            # A saved value keeps its own variable: what the equation gives beside it is new.
            outvars.append(type(v)(v.aval))
            if isinstance(v, Var) and v not in env:
                env[v] = outvars[-1]
        out.append(eqn.replace(invars=invars, outvars=outvars))


def _read(v: Atom, env: dict[Any, Atom]) -> Atom:
    return v if isinstance(v, Literal) else env.get(v, v)


def saved_results(eqn: Equation, policy: Any) -> list[Any]:
    """The results of an equation that the policy saves; of loops and branches, those that come
    from an equation inside that it saves."""
    if policy is None or policy.allows is None:
        return []
    if policy.saves(eqn):
        return list(eqn.outvars)
    found: list[Any] = []
    for program in _nested(eqn.op):
        inner = opened(program).jaxpr
        kept = {v for e in inner.eqns for v in saved_results(e, policy)}
        found += [v for v, w in zip(eqn.outvars, inner.outvars, strict=True) if w in kept]
    return list(dict.fromkeys(found))


def _nested(op: Op) -> Sequence[ClosedJaxpr]:
    """Programs whose results are the operation's."""
    if op.name == "while":
        return [op.params["body_jaxpr"]]
    if op.name in ("scan", "checkpoint", "custom_jvp_call", "custom_vjp_call"):
        return [op.params["jaxpr"]]
    return op.params["branches"] if op.name == "cond" else ()
