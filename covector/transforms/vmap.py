"""Vectorisation: every value may carry a batch axis, and every operation states how it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from covector import ops
from covector._base.context import context
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import has_rule
from covector.ir.values import typeof
from covector.ops.collective import Collective
from covector.trace.tracer import Argument, Trace, Tracer, made_of, told
from covector.transforms.under import run_under


class BatchTracer(Tracer):
    """An array seen as a batch along axis `dim`: its aval is that of one example."""

    __slots__ = ("dim", "made", "val")

    def __init__(self, trace: BatchTrace, val: Any, dim: int, made: Any = None) -> None:
        self.owner, self.val, self.dim, self.made = trace, val, dim, made
        aval = typeof(val)
        shape = aval.shape[:dim] + aval.shape[dim + 1 :]
        self.aval = ShapedArray(shape, aval.dtype, aval.weak_type)

    def origin_message(self) -> str:
        """The user's line that made it, and the arguments that it depends on."""
        if self.made is not None:
            return told(self.made, self.owner)
        return self.val.origin_message() if isinstance(self.val, Tracer) else ""

    def ways_out(self) -> str:
        """Those of the batch, and that there are many values."""
        size = cast("BatchTrace", self.owner).size
        inner = self.val.ways_out() if isinstance(self.val, Tracer) else ""
        return f"Under vmap it stands for {size} values, one for each example. {inner}"

    def __repr__(self) -> str:
        return f"BatchTracer({self.aval.str_short()}, batch axis {self.dim} of {self.val!r})"


class BatchTrace(Trace):
    """Interprets an operation by its `batch` rule, under the parent trace."""

    __slots__ = ("axis_name", "size", "tools")

    def __init__(
        self, parent: Any, size: int, tools: Any, axis_name: Any = None, fun: Any = None
    ) -> None:
        super().__init__(parent, "vmap", fun)
        self.size, self.tools, self.axis_name = size, tools.of_axis(axis_name), axis_name
        if axis_name is not None:
            self.axes = (*self.axes, (axis_name, size))

    def process(self, op: Any, args: Any) -> Any:
        """Unbatched: the parent's meaning.  Batched: the rule.

        An operation that names the axis is interpreted here even if no argument is batched.
        """
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
            named = self.axis_name is not None and self.tools.mentions(op)
            if not batched and not named:
                return op(*values)
            if named and isinstance(op, Collective):
                out, out_dim = op.named(self.tools, self.size, values, dims)
            elif not has_rule(op, "batch"):
                raise NotImplementedError(f"{op.name} has no batching rule: it cannot be vmapped")
            else:
                out, out_dim = op.batch(self.tools, self.size, values, dims)
        finally:
            context.trace = self
        if op.multiple_results:
            return [self._made(o, d, args) for o, d in zip(out, out_dim, strict=True)]
        return self._made(out, out_dim, args)

    def _made(self, value: Any, dim: int | None, args: Any) -> Any:
        """As `wrap`, with the line; a tracer within knows it already."""
        if dim is None:
            return value
        made = None if isinstance(value, Tracer) else made_of(args, self)
        return BatchTracer(self, value, dim, made)

    def wrap(self, value: Any, dim: int | None, number: int | None = None) -> Any:
        """A tracer, unless there is no batch axis; `number`: of which argument."""
        if dim is None:
            return value
        return BatchTracer(self, value, dim, None if number is None else Argument(self.fun, number))

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
    trace = BatchTrace(context.trace, size, tools, axis_name, fun)
    given = enumerate(zip(args, dims, strict=True))
    pairs = run_under(trace, fun, (trace.wrap(x, d, n) for n, (x, d) in given))
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


def batch_in_chunks(
    fun: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    chunk: int,
    tools: Any,
    trace: Callable[[Callable[..., Any], Sequence[ShapedArray]], Any],
) -> tuple[list[Any], list[int | None]]:
    """As `batch_flat`, `chunk` examples at a time: a loop over blocks, then what is left over.

    `trace(block, avals)`: the program of a block, which gives (results, which depend on the
    example), and the latter, so that the caller may remember both.
    """
    if chunk >= size:
        return batch_flat(fun, args, dims, size, tools)
    whole, rest = divmod(size, chunk)
    batched = [d is not None for d in dims]
    fixed = [x for x, b in zip(args, batched, strict=True) if not b]
    rows = [ops.shape.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True) if d is not None]

    def some(*values: Any, count: int = chunk) -> tuple[list[Any], list[int | None]]:
        kept, moving = iter(values[: len(fixed)]), iter(values[len(fixed) :])
        given = [next(moving) if b else next(kept) for b in batched]
        return batch_flat(fun, given, [0 if b else None for b in batched], count, tools)

    def block(*values: Any) -> tuple[list[Any], list[bool]]:
        outs, out_dims = some(*values)
        moved = [x if d is None else ops.shape.move_axis(x, d, 0)
                 for x, d in zip(outs, out_dims, strict=True)]  # fmt: skip
        return moved, [d is not None for d in out_dims]

    shapes = [typeof(x).shape[1:] for x in rows]
    starts = [ops.pieces.slice_along(x, 0, 0, whole * chunk) for x in rows]
    blocks = [ops.shape.reshape(x, (whole, chunk, *s)) for x, s in zip(starts, shapes, strict=True)]
    avals = [typeof(x).update(shape=(chunk, *s)) for x, s in zip(rows, shapes, strict=True)]
    program, varies = trace(block, [*map(typeof, fixed), *avals])
    body = program.jaxpr
    lifted = ClosedJaxpr(body.replace(constvars=[], invars=[*body.constvars, *body.invars]))
    held = [*program.consts, *fixed]
    outs = ops.control.Scan(lifted, whole, False, len(held), 0)(*held, *blocks)
    first = [ops.shape.squeeze(ops.pieces.slice_along(y, 0, 0, 1), (0,)) if not v else
             ops.shape.reshape(y, (whole * chunk, *typeof(y).shape[2:]))
             for y, v in zip(outs, varies, strict=True)]  # fmt: skip
    if rest:
        ends = [ops.pieces.slice_along(x, 0, whole * chunk, size) for x in rows]
        last, last_dims = some(*fixed, *ends, count=rest)
        first = [
            ops.pieces.concatenate([x, place_axis(y, d, 0, rest)], 0) if v else x
            for x, y, d, v in zip(first, last, last_dims, varies, strict=True)
        ]
    return first, [0 if v else None for v in varies]
