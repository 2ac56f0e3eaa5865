"""Vectorisation: every value may carry a batch axis, and every operation states how it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops
from covector._base.context import context, current_trace
from covector.ir.avals import ShapedArray
from covector.ir.op import has_rule
from covector.ir.values import typeof
from covector.trace.tracer import Trace, Tracer


class BatchTracer(Tracer):
    """An array seen as a batch along axis `dim`: its aval is that of one example."""

    __slots__ = ("dim", "val")

    def __init__(self, trace: BatchTrace, val: Any, dim: int) -> None:
        self.owner, self.val, self.dim = trace, val, dim
        aval = typeof(val)
        shape = aval.shape[:dim] + aval.shape[dim + 1 :]
        self.aval = ShapedArray(shape, aval.dtype, aval.weak_type)

    def __repr__(self) -> str:
        return f"BatchTracer({self.aval.str_short()}, batch axis {self.dim} of {self.val!r})"


class BatchTrace(Trace):
    """Interprets an operation by its `batch` rule, under the parent trace."""

    __slots__ = ("axis_name", "size", "tools")

    def __init__(self, parent: Any, size: int, tools: Any, axis_name: Any = None) -> None:
        super().__init__(parent, "vmap")
        self.size, self.tools, self.axis_name = size, tools, axis_name

    def process(self, op: Any, args: Any) -> Any:
        """Unbatched: the parent's meaning.  Batched: the rule."""
        values: list[Any] = []
        dims: list[int | None] = []
        batched = False
        for x in args:
            if type(x) is BatchTracer and x.owner is self:
                values.append(x.val)
                dims.append(x.dim)
                batched = True
            else:
                values.append(x)
                dims.append(None)
        context.trace = self.parent
        try:
            if not batched:
                return op(*values)
            if not has_rule(op, "batch"):
                raise NotImplementedError(f"{op.name} has no batching rule: it cannot be vmapped")
            out, out_dim = op.batch(self.tools, self.size, values, dims)
        finally:
            context.trace = self
        if op.multiple_results:
            return [self.wrap(o, d) for o, d in zip(out, out_dim, strict=True)]
        return self.wrap(out, out_dim)

    def wrap(self, value: Any, dim: int | None) -> Any:
        """A tracer, unless there is no batch axis."""
        return value if dim is None else BatchTracer(self, value, dim)

    def unwrap(self, x: Any) -> tuple[Any, int | None]:
        """(value, batch axis or None) of a result."""
        if type(x) is BatchTracer and x.owner is self:
            return x.val, x.dim
        return x, None


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    tools: Any,
    axis_name: Any = None,
) -> tuple[list[Any], list[int | None]]:
    """Results and their batch axes of a function of flat values."""
    trace = BatchTrace(context.trace, size, tools, axis_name)
    inputs = [trace.wrap(x, d) for x, d in zip(args, dims, strict=True)]
    try:
        with current_trace(trace):
            outputs = fun(*inputs)
        pairs = [trace.unwrap(x) for x in outputs]
    finally:
        trace.alive = False
    return [v for v, _ in pairs], [d for _, d in pairs]


def place_axis(x: Any, dim: int | None, wanted: int | None, size: int) -> Any:
    """`x` with its batch axis at `wanted`: moved, or made by repeating an unbatched `x`."""
    if dim is None:
        shape = typeof(x).shape
        wanted = wanted or 0
        full = (*shape[:wanted], size, *shape[wanted:])
        kept = tuple(d for d in range(len(full)) if d != wanted)
        return ops.shape.broadcast_in_dim(x, full, kept)
    return x if wanted is None else ops.shape.move_axis(x, dim, wanted)
