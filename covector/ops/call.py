"""Calls of programs, as operations: `Call`, the family, and `Jit`, what `jit` binds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Linear, Op, Sample
from covector.ops.families import rule
from covector.trace.stage import eval_jaxpr


class Call(Op):
    """Calls `jaxpr`, which has no constants: what the function captured are leading arguments.

    Members restate the rules in which they are more than a call.
    """

    multiple_results = True
    jaxpr: ClosedJaxpr
    label: str

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the program."""
        return self.jaxpr.effects

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The program's result types."""
        wanted = self.jaxpr.in_avals
        if len(avals) != len(wanted):
            raise TypeError(
                f"{self.name} of {self.label} takes {len(wanted)} values; got {len(avals)}"
            )
        for k, (given, want) in enumerate(zip(avals, wanted, strict=True)):
            if given.shape != want.shape or given.dtype != want.dtype:
                raise TypeError(
                    f"{self.name} of {self.label}: argument {k} must be {want.str_short()}; "
                    f"got {given.str_short()}"
                )
        return tuple(self.jaxpr.out_avals)

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The program, evaluated in NumPy."""
        return evaluate(self.jaxpr.jaxpr, self.jaxpr.consts, arrays)

    @rule
    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A call of the program's jvp."""
        moving = [t is not None for t in tangents]
        jaxpr, mask = tools.jvp_jaxpr(self.jaxpr, moving)
        outs = Jit(jaxpr, self.label)(*primals, *[t for t in tangents if t is not None])
        rest = iter(outs[len(mask) :])
        return outs[: len(mask)], [next(rest) if m else None for m in mask]

    @rule
    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """Call the known part; stage a call of the rest with the residuals."""
        known, staged, mask, residuals = tools.split_jaxpr(self.jaxpr, unknown)
        context.trace = trace.parent
        try:
            given = [a for a, u in zip(args, unknown, strict=True) if not u]
            outs: list[Any] = Jit(known, self.label)(*given) if known.jaxpr.outvars else []
        finally:
            context.trace = trace
        count = len(outs) - len(residuals)
        hidden = [a for a, u in zip(args, unknown, strict=True) if u]
        rest = iter(trace.stage(Jit(staged, self.label), [*outs[count:], *hidden]))
        found = iter(outs[:count])
        return [next(rest) if m else next(found) for m in mask]

    @rule
    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A call of the program's transpose."""
        linear = [isinstance(a, Linear) for a in args]
        jaxpr, mask = tools.transpose_jaxpr(self.jaxpr, linear, [ct is not None for ct in cts])
        given = [a for a, is_linear in zip(args, linear, strict=True) if not is_linear]
        outs = iter(Jit(jaxpr, self.label)(*given, *[ct for ct in cts if ct is not None]))
        found = iter([next(outs) if m else None for m in mask])
        return [next(found) if is_linear else None for is_linear in linear]

    @rule
    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call of the batched program."""
        batched = [d is not None for d in dims]
        jaxpr, mask = tools.batch_jaxpr(self.jaxpr, size, batched)
        moved = [
            a if d is None else ops.shape.move_axis(a, d, 0)
            for a, d in zip(args, dims, strict=True)
        ]
        return Jit(jaxpr, self.label)(*moved), [0 if m else None for m in mask]

    def decompose(self, *args: Any) -> list[Any]:
        """The program's own equations."""
        return eval_jaxpr(self.jaxpr.jaxpr, self.jaxpr.consts, *args)

    @rule
    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """func.call of a function of its own."""
        return writer.call(self.jaxpr, operands, self.label)


class Jit(Call):
    """A call, and nothing but that."""

    name = "jit"

    @staticmethod
    def samples() -> Iterable[Sample]:
        """sin(x) * y."""
        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            x, y, s, z = (Var(aval) for _ in range(4))
            eqns = [
                Equation(ops.pointwise.sin, [x], [s]),
                Equation(ops.pointwise.mul, [s, y], [z]),
            ]
            body = ClosedJaxpr(Jaxpr([], [x, y], [z], eqns, "f"), [])
            yield Sample(Jit(body, "f"), (aval, aval))
