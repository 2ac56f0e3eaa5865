"""`custom_lin`: a linear function with its own transpose, and what rules of flat values share.

In flat rules None stands for a zero (co)tangent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Linear, Op, Sample
from covector.ir.values import typeof
from covector.ops.control.parts import with_batch
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import tangent_aval

#: `(residuals, cotangents) -> cotangents of the arguments`.
Pullback = Callable[[Sequence[Any], Sequence[Any]], list[Any]]
#: Runs a flat function on values with batch axes: `(fun, args, dims) -> (results, their dims)`.
Mapper = Callable[
    [Callable[..., list[Any]], Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]
]


class LinearCall(Op):
    """A linear function of all arguments but the first `num_residuals`, with its own transpose.

    `callee`: residuals, arguments to results; `transposed`: residuals, cotangents of the results
    to those of the arguments.  Each is a program, or a function of these two lists (the callee is a
    Side then).
    """

    name = "custom_lin"
    multiple_results = True
    callee: Any
    transposed: Any
    num_residuals: int

    def __call__(self, *args: Any) -> Any:
        return run_or_bind(self, args)

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The callee's result types."""
        return tuple(self.callee.out_avals)

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The callee, evaluated in NumPy."""
        callee = self.callee
        if not isinstance(callee, ClosedJaxpr):
            callee = trace_to_jaxpr(self.decompose, [typeof(x) for x in arrays], self.name)
        return evaluate(callee.jaxpr, callee.consts, arrays)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The same call of the tangents, unless a residual varies too."""
        n = self.num_residuals
        if any(t is not None for t in tangents[:n]):
            return tools.jvp(self.decompose, primals, tangents)
        given = [
            ops.shape.zeros(tangent_aval(typeof(x))) if t is None else t
            for x, t in zip(primals[n:], tangents[n:], strict=True)
        ]
        return self(*primals), self(*primals[:n], *given)

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """What the other function says."""
        n = self.num_residuals
        if any(isinstance(a, Linear) for a in args[:n]):
            raise NotImplementedError(f"{self.name}: it is not linear in its residuals")
        made = call_linear(self.transposed, args[:n], cts, self.callee.out_avals)
        wanted = [isinstance(a, Linear) for a in args[n:]]
        return [None] * n + [ct if w else None for ct, w in zip(made, wanted, strict=True)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call of both functions batched; all results are batched."""
        n = self.num_residuals
        moved, mask = fronted(args, dims)
        mapper = mapper_of(tools, size)
        outs = self.callee.out_avals
        axes = [0 if m else None for m in mask]

        def back(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            def inner(res: Sequence[Any], given: Sequence[Any]) -> list[Any]:
                return call_linear(self.transposed, res, given, outs)

            places = [*axes[:n], *(None if ct is None else 0 for ct in cts)]
            return pull_over_batch(inner, mapper, size, mask[n:], residuals, cts, places)

        def forth(residuals: Sequence[Any], given: Sequence[Any]) -> list[Any]:
            made, found = mapper(self.decompose, [*residuals, *given], axes)
            return [leading_axis(x, d, size) for x, d in zip(made, found, strict=True)]

        wide = [ShapedArray((size, *a.shape), a.dtype, a.weak_type) for a in outs]
        kinds = [typeof(x) for x in moved]
        callee = Side(forth, kinds[:n], kinds[n:], wide)
        made = LinearCall(callee, Named(back, "transposed"), n)(*moved)
        return made, [0] * len(made)

    def decompose(self, *args: Any) -> list[Any]:
        """The callee's own operations."""
        n = self.num_residuals
        return call_linear(self.callee, args[:n], args[n:], ())

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """The callee, inlined."""
        program = trace_to_jaxpr(self.decompose, [x.aval for x in operands], self.name)
        return writer.closed(program, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """r * t."""

        def scaled(r: Any, t: Any) -> list[Any]:
            return [ops.pointwise.mul(t, ops.pointwise.sin(r))]

        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            times = trace_to_jaxpr(scaled, [aval] * 2, "times")
            yield Sample(LinearCall(times, times, 1), (aval, aval))


@final
class Named:
    """A rule that prints as a name: what a compiled program does, does not depend on it."""

    __slots__ = ("fun", "name")

    def __init__(self, fun: Any, name: str) -> None:
        self.fun, self.name = fun, name

    def __call__(self, *args: Any) -> Any:
        return self.fun(*args)

    def __repr__(self) -> str:
        return self.name


@final
class Side:
    """The callee of a linear call: a function of (residuals, values), and its types."""

    __slots__ = ("_text", "fun", "given", "out_avals", "residuals")

    def __init__(
        self,
        fun: Pullback,
        residuals: Sequence[ShapedArray],
        given: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
    ) -> None:
        self.fun, self.out_avals = fun, out_avals
        self.residuals, self.given = residuals, given
        self._text = ""

    def __call__(self, residuals: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        return self.fun(residuals, values)

    def __repr__(self) -> str:
        """Its program: compiled code is found again by the text of what it was made from."""
        if not self._text:
            n = len(self.residuals)
            try:
                program = trace_to_jaxpr(
                    lambda *v: self.fun(v[:n], v[n:]), [*self.residuals, *self.given]
                )
                self._text = str(program)
            except Exception:  # printing must not fail: a text that no other program has
                self._text = f"callee_{os.urandom(16).hex()}"
        return self._text


def call_linear(
    fun: Any, residuals: Sequence[Any], values: Sequence[Any], avals: Sequence[ShapedArray]
) -> list[Any]:
    """A side of a linear call; a program is given zeros, of types `avals`, for None."""
    if isinstance(fun, ClosedJaxpr):
        given = [v if v is not None else ops.shape.zeros(avals[k]) for k, v in enumerate(values)]
        return eval_jaxpr(fun.jaxpr, fun.consts, *residuals, *given)
    return fun(residuals, values)


def or_zero(x: Any, aval: ShapedArray) -> Any:
    """`x`, or zeros of this type for None."""
    return ops.shape.zeros(aval) if x is None else x


def leading_axis(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its batch axis first, repeated if it has none."""
    return with_batch(x, True, dim, size)


def fronted(args: Sequence[Any], dims: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """(arguments with their batch axis first, which of them have one)."""
    moved = [
        x if d is None else ops.shape.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)
    ]
    return moved, [d is not None for d in dims]


def mapper_of(tools: Any, size: int) -> Mapper:
    return lambda fun, args, dims: tools.batch(fun, args, dims, size)


def pull_over_batch(
    back: Pullback, mapper: Mapper, size: int, batched: Sequence[bool],
    residuals: Sequence[Any], cts: Sequence[Any], axes: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """`back` of each example; what comes to an argument without a batch axis is summed.

    `axes`: of residuals, then cotangents.
    """
    n, given = len(residuals), [ct is not None for ct in cts]
    mask: list[bool] = []

    def run(*values: Any) -> list[Any]:
        rest = iter(values[n:])
        made = back(values[:n], [next(rest) if g else None for g in given])
        mask[:] = [ct is not None for ct in made]
        return [ct for ct in made if ct is not None]

    values = [*residuals, *(ct for ct in cts if ct is not None)]
    dims = [*axes[:n], *(a for a, g in zip(axes[n:], given, strict=True) if g)]
    made, found = mapper(run, values, dims)
    pairs = iter(zip(made, found, strict=True))
    out: list[Any] = []
    for m, b in zip(mask, batched, strict=True):
        if not m:
            out.append(None)
            continue
        x, d = next(pairs)
        x = leading_axis(x, d, size)
        out.append(x if b else ops.reduce.reduce_sum(x, (0,)))
    return out


def run_or_bind(op: Op, args: Sequence[Any]) -> list[Any]:
    """At the bottom: operation by operation, since a fresh program is not worth compiling."""
    trace = context.trace
    return op.decompose(*args) if trace.parent is None else trace.process(op, args)
