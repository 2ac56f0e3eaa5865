"""Calls with a batching rule of their own: what `custom_vmap` binds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Sample
from covector.ir.values import typeof
from covector.ops.call import Call
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import tangent_aval

#: `(size, which are batched, values, batch axis first) -> (results, which are batched)`.
VmapRule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[list[Any], list[bool]]]


class CustomVmapCall(Call):
    """A call whose batching rule is `rule`, a VmapRule of the arguments but the first `num_consts`,
    the values that the function closed over.  None: the rule of any call.

    Its derivative has the derivative of the rule; what reverse mode makes of it is a plain call.
    """

    name = "custom_vmap_call"
    rule: Any
    num_consts: int

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A call of the program's jvp, batched by the jvp of the rule."""
        moving = [t is not None for t in tangents]
        if self.rule is None or any(moving[: self.num_consts]):
            return super().jvp(tools, primals, tangents)
        jaxpr, mask = tools.jvp_jaxpr(self.jaxpr, moving)
        rule = _moved_rule(tools, self.rule, moving[self.num_consts :], mask)
        call = CustomVmapCall(jaxpr, self.label, rule, self.num_consts)
        outs = call(*primals, *[t for t in tangents if t is not None])
        rest = iter(outs[len(mask) :])
        return outs[: len(mask)], [next(rest) if m else None for m in mask]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """What the rule says."""
        if self.rule is None:
            return super().batch(tools, size, args, dims)
        if any(d is not None for d in dims[: self.num_consts]):
            raise ValueError(
                f"custom_vmap of {self.label}: a value that the function closed over is batched by "
                "vmap, and its rule cannot see it: pass it as an argument"
            )
        moved = [
            x if d is None else ops.shape.move_axis(x, d, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        n = self.num_consts
        outs, batched = self.rule(size, [d is not None for d in dims[n:]], moved[n:])
        for k, (out, b, aval) in enumerate(zip(outs, batched, self.jaxpr.out_avals, strict=True)):
            wanted = (size, *aval.shape) if b else aval.shape
            given = typeof(out)
            if given.shape != wanted or given.dtype != aval.dtype:
                raise ValueError(
                    f"custom_vmap of {self.label}: the rule's result {k} must be "
                    f"{aval.update(shape=wanted).str_short()} (batched: {b}); "
                    f"got {given.str_short()}"
                )
        return outs, [0 if b else None for b in batched]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """sin(x) * y, without a rule."""

        def f(x: Any, y: Any) -> list[Any]:
            return [ops.pointwise.mul(ops.pointwise.sin(x), y)]

        for dtype in ("float32", "float64"):
            aval = ShapedArray((3,), dtype)
            body = trace_to_jaxpr(f, [aval] * 2, "f")
            yield Sample(CustomVmapCall(body, "f", None, 0), (aval, aval))


def _moved_rule(
    tools: Any, rule: VmapRule, moving: Sequence[bool], wanted: Sequence[bool]
) -> VmapRule:
    """The derivative of a rule: of values, then tangents of those that move."""
    places = [k for k, m in enumerate(moving) if m]

    def moved(
        size: int, batched: Sequence[bool], values: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        count = len(moving)
        primals, flags = list(values[:count]), list(batched[:count])
        tangents: list[Any] = [None] * count
        for k, t, b in zip(places, values[count:], batched[count:], strict=True):
            either = b or flags[k]
            dims = (0 if b else None), (0 if flags[k] else None)
            tangents[k], primals[k] = (
                ops.pieces.batch_axis_first(v, d, size) if either else v
                for v, d in zip((t, primals[k]), dims, strict=True)
            )
            flags[k] = either
        out_flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            outs, out_flags[:] = rule(size, flags, args)
            return outs

        outs, directions = tools.jvp(run, primals, tangents)
        given = [
            ops.shape.zeros(tangent_aval(typeof(x))) if t is None else t
            for x, t, w in zip(outs, directions, wanted, strict=True)
            if w
        ]
        return [*outs, *given], [*out_flags, *(b for b, w in zip(out_flags, wanted, strict=True)
                                               if w)]  # fmt: skip

    return moved
