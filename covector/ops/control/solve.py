"""`linear_solve`: a linear system solved by programs of the user, differentiated by its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Linear, Op, Sample
from covector.ops.control.parts import cut, or_zeros, permuted, pick, with_batch
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import tangent_aval


class LinearSolve(Op):
    """The x of `matvec(x) = b`, by `solve(b)`; its derivatives are solves of the same system.

    Arguments: the constants of `matvec`, `solve` and `transpose_solve`, then b; results: x, then
    what else `solve` gives (its last `num_aux` results), which has no derivative.
    """

    name = "linear_solve"
    multiple_results = True
    matvec: ClosedJaxpr
    solve: ClosedJaxpr
    transpose_solve: ClosedJaxpr | None
    counts: tuple[int, int, int]
    num_aux: int

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """Those of `solve`."""
        return self.solve.effects

    def parts(self, args: Sequence[Any]) -> list[list[Any]]:
        """[constants of the three programs, b]."""
        return cut(args, *self.counts)

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """What `solve` gives, whose x must be what `matvec` takes and b what it gives."""
        b = self.parts(avals)[3]
        for what, given, wanted in (
            ("matvec gives", self.matvec.out_avals, b),
            ("solve gives", self.solve.out_avals[: len(b)], b),
        ):
            if [a.strong() for a in given] != [a.strong() for a in wanted]:
                raise TypeError(
                    f"linear_solve: {what} {[a.str_short() for a in given]}; b is "
                    f"{[a.str_short() for a in wanted]}"
                )
        return tuple(a.strong() for a in self.solve.out_avals)

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """`solve`, evaluated in NumPy."""
        _, consts, _, b = self.parts(arrays)
        return evaluate(self.solve.jaxpr, self.solve.consts, [*consts, *b])

    def decompose(self, *args: Any) -> list[Any]:
        """`solve`."""
        _, consts, _, b = self.parts(args)
        return list(ops.call.Jit(self.solve, "solve")(*consts, *b))

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """matvec(dx) = db - d(matvec)(x)."""
        consts, _, _, b = self.parts(primals)
        d_consts, _, _, d_b = self.parts(tangents)
        outs = self(*primals)
        x, n = outs[: len(b)], len(b)
        avals = [tangent_aval(a) for a in self.matvec.out_avals]
        right = or_zeros(d_b, avals, [True] * n)
        moving = [t is not None for t in d_consts]
        if any(moving):
            program, _ = tools.jvp_jaxpr(self.matvec, [*moving, *([False] * n)], [True] * n)
            made = tools.call(program, [*consts, *x, *pick(d_consts, moving)])[n:]
            right = [ops.pointwise.sub(r, m) for r, m in zip(right, made, strict=True)]
        elif all(t is None for t in d_b):
            return outs, [None] * len(outs)
        dx = self._bare()(*primals[: sum(self.counts)], *right)
        return outs, [*dx, *([None] * self.num_aux)]

    def _bare(self) -> LinearSolve:
        """Without auxiliary results."""
        count = len(self.solve.out_avals) - self.num_aux
        solve = permuted(self.solve, tuple, lambda v: v[:count]) if self.num_aux else self.solve
        return LinearSolve(self.matvec, solve, self.transpose_solve, self.counts, 0)

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A solve of the transposed system."""
        consts, solve_consts, transpose_consts, b = self.parts(args)
        if self.transpose_solve is None:
            raise TypeError(
                "custom_linear_solve: the reverse derivative needs transpose_solve (or "
                "symmetric=True), which was not given"
            )
        n = len(b)
        linear = [*([False] * len(consts)), *([True] * n)]
        turned, _ = tools.transpose_jaxpr(self.matvec, linear, [True] * n, [True] * n)
        bare = self._bare()
        a, s, t = self.counts
        op = LinearSolve(turned, self.transpose_solve, bare.solve, (a, t, s), 0)
        avals = [tangent_aval(x) for x in self.matvec.out_avals]
        given = or_zeros(cts[:n], avals, [True] * n)
        outs = op(*consts, *transpose_consts, *solve_consts, *given)
        known = [None] * sum(self.counts)
        return [*known, *(ct if isinstance(x, Linear) else None for ct, x in
                          zip(outs, b, strict=True))]  # fmt: skip

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """All programs batched, over batches of systems or of right sides."""
        *masks, b = self.parts([d is not None for d in dims])
        every = [True] * len(b)

        def batched(program: ClosedJaxpr | None, mask: list[bool]) -> Any:
            if program is None:
                return None
            wanted = [True] * len(program.out_avals)
            return tools.batch_jaxpr(program, size, [*mask, *every], wanted)[0]

        programs = (self.matvec, self.solve, self.transpose_solve)
        op = LinearSolve(
            *(batched(p, m) for p, m in zip(programs, masks, strict=True)),
            self.counts, self.num_aux,
        )  # fmt: skip
        flags = [*(m for mask in masks for m in mask), *every]
        moved = [with_batch(x, f, d, size) for x, f, d in zip(args, flags, dims, strict=True)]
        outs = op(*moved)
        return outs, [0] * len(outs)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """`solve`."""
        _, consts, _, b = self.parts(operands)
        return writer.closed(self.solve, [*consts, *b])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """A diagonal system."""

        def matvec(d: Any, x: Any) -> list[Any]:
            return [ops.pointwise.mul(d, x)]

        def solve(d: Any, b: Any) -> list[Any]:
            return [ops.pointwise.div(b, d)]

        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            product, quotient = (
                trace_to_jaxpr(f, [aval, aval], f.__name__) for f in (matvec, solve)
            )
            op = LinearSolve(product, quotient, quotient, (1, 1, 1), 0)
            diagonal = np.array([1.5, -2.0, 3.0], dtype)
            yield Sample(op, (diagonal, diagonal, diagonal, aval))
