"""What transformations offer to rules of operations that hold programs (`jit`, loops, …).

Results are cached on the program itself, so that a body is transformed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops
from covector._base.errors import UnexpectedTracerError
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Linear
from covector.ir.values import typeof
from covector.ops.collective import axis_names
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import Tracer, tangent_aval
from covector.transforms.jvp import jvp_flat
from covector.transforms.partial import split_jaxpr
from covector.transforms.transpose import backward_pass
from covector.transforms.vmap import batch_flat, place_axis


class Tools:
    """What is handed to every rule: `tools`, or, where a vmap names its axis, one that knows it."""

    __slots__ = ("axis",)

    def __init__(self, axis: Any = None) -> None:
        #: The name of the axis that `batch_jaxpr` maps over.
        self.axis = axis

    def of_axis(self, axis: Any) -> Tools:
        """These for a vmap whose axis has this name (None: no name)."""
        return self if axis == self.axis else tools if axis is None else Tools(axis)

    def mentions(self, op: Any) -> bool:
        """Whether `op` is, or holds, a collective over the axis that is mapped over."""
        return self.axis is not None and self.axis in axis_names(op)

    def trace(
        self, fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str = ""
    ) -> ClosedJaxpr:
        """The program of a function of flat values."""
        return trace_to_jaxpr(fun, avals, name)

    def call(self, jaxpr: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a program: each of its operations is bound here."""
        return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)

    def jvp(
        self, fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Results and their tangents of a function of flat values."""
        return jvp_flat(fun, primals, tangents, self.of_axis(None))

    def batch(
        self, fun: Callable[..., Sequence[Any]], args: Sequence[Any], dims: Sequence[Any], size: int
    ) -> tuple[list[Any], list[Any]]:
        """Results and their batch axes of a function of flat values."""
        return batch_flat(fun, args, dims, size, self, self.axis)

    def transpose(
        self,
        fun: Callable[..., Sequence[Any]],
        known: Sequence[Any],
        avals: Sequence[ShapedArray],
        cts: Sequence[Any],
    ) -> list[Any]:
        """Cotangents of those arguments of `fun(*known, *linear)` that it is linear in."""
        program = trace_to_jaxpr(fun, [*map(typeof, known), *avals])
        args = [*known, *map(Linear, avals)]
        rest = self.of_axis(None)
        return backward_pass(program.jaxpr, program.consts, args, cts, rest)[len(known) :]

    def jvp_jaxpr(
        self, jaxpr: ClosedJaxpr, moving: Sequence[bool], wanted: Sequence[bool] | None = None
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """(program of primals then moving tangents -> results then moving tangents, mask).

        `wanted`: results that must have a tangent, zero if need be.
        """
        key = ("jvp", tuple(moving), None if wanted is None else tuple(wanted))

        def make() -> tuple[ClosedJaxpr, list[bool]]:
            mask: list[bool] = []

            def fun(*args: Any) -> list[Any]:
                primals, rest = args[: len(moving)], iter(args[len(moving) :])
                tangents = [next(rest) if m else None for m in moving]
                run = _runner(jaxpr)
                outs, out_tangents = jvp_flat(run, primals, tangents, self.of_axis(None))
                out_tangents = [
                    ops.shape.zeros(tangent_aval(a)) if t is None and w else t
                    for t, a, w in zip(
                        out_tangents, jaxpr.out_avals, wanted or [False] * len(outs), strict=True
                    )
                ]
                mask[:] = [t is not None for t in out_tangents]
                return outs + [t for t in out_tangents if t is not None]

            avals = jaxpr.in_avals
            tangents = [tangent_aval(a) for a, m in zip(avals, moving, strict=True) if m]
            return self.trace(fun, [*avals, *tangents], jaxpr.jaxpr.debug_name), mask

        return _cached(jaxpr, key, make)

    def batch_jaxpr(
        self,
        jaxpr: ClosedJaxpr,
        size: int,
        batched: Sequence[bool],
        out_batched: Sequence[bool] | None = None,
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """(the program with a leading batch axis on the batched arguments, mask of results).

        `out_batched`: results that must have one; others have one where they depend on a batch.
        """
        wanted = None if out_batched is None else tuple(out_batched)
        key = ("batch", self.axis, size, tuple(batched), wanted)

        def make() -> tuple[ClosedJaxpr, list[bool]]:
            mask: list[bool] = []

            def fun(*args: Any) -> list[Any]:
                dims = [0 if b else None for b in batched]
                outs, out_dims = batch_flat(_runner(jaxpr), args, dims, size, self, self.axis)
                must = out_batched or [False] * len(outs)
                mask[:] = [d is not None or w for d, w in zip(out_dims, must, strict=True)]
                return [
                    place_axis(x, d, 0, size) if m else x
                    for x, d, m in zip(outs, out_dims, mask, strict=True)
                ]

            avals = [
                ShapedArray((size, *a.shape), a.dtype, a.weak_type) if b else a
                for a, b in zip(jaxpr.in_avals, batched, strict=True)
            ]
            return self.trace(fun, avals, jaxpr.jaxpr.debug_name), mask

        return _cached(jaxpr, key, make)

    def split_jaxpr(
        self, jaxpr: ClosedJaxpr, unknown: Sequence[bool], wanted: Sequence[bool] | None = None
    ) -> Any:
        """See `partial.split_jaxpr`."""
        key = ("split", tuple(unknown), None if wanted is None else tuple(wanted))
        return _cached(jaxpr, key, lambda: split_jaxpr(jaxpr, unknown, self.of_axis(None), wanted))

    def transpose_jaxpr(
        self,
        jaxpr: ClosedJaxpr,
        linear: Sequence[bool],
        cts_given: Sequence[bool],
        wanted: Sequence[bool] | None = None,
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """(program: non-linear arguments then given cotangents -> non-zero cotangents, mask).

        The mask tells, for each linear argument, whether its cotangent is there (not zero); those
        that are `wanted` are, zero if need be.
        """
        key = (
            "transpose",
            tuple(linear),
            tuple(cts_given),
            None if wanted is None else tuple(wanted),
        )

        def make() -> tuple[ClosedJaxpr, list[bool]]:
            mask: list[bool] = []

            def fun(*args: Any) -> list[Any]:
                rest = iter(args)
                full = [
                    Linear(a) if is_linear else next(rest)
                    for a, is_linear in zip(jaxpr.in_avals, linear, strict=True)
                ]
                cts = [next(rest) if given else None for given in cts_given]
                out = backward_pass(jaxpr.jaxpr, jaxpr.consts, full, cts, self.of_axis(None))
                out = [ct for ct, is_linear in zip(out, linear, strict=True) if is_linear]
                if wanted is not None:
                    types = [a for a, is_linear in zip(jaxpr.in_avals, linear, strict=True)
                             if is_linear]  # fmt: skip
                    out = [
                        ops.shape.zeros(tangent_aval(a)) if ct is None and w else ct
                        for ct, a, w in zip(out, types, wanted, strict=True)
                    ]
                mask[:] = [ct is not None for ct in out]
                return [ct for ct in out if ct is not None]

            avals = [a for a, is_linear in zip(jaxpr.in_avals, linear, strict=True)
                     if not is_linear]  # fmt: skip
            cts = [
                tangent_aval(a)
                for a, given in zip(jaxpr.out_avals, cts_given, strict=True)
                if given
            ]
            return self.trace(fun, [*avals, *cts], jaxpr.jaxpr.debug_name), mask

        return _cached(jaxpr, key, make)


def _runner(jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    return lambda *args: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


def _cached(jaxpr: ClosedJaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """`make()`, remembered on the program unless its constants belong to a running trace."""
    if jaxpr.consts:
        return make()
    cache = jaxpr.jaxpr.derived
    if key not in cache:
        made = make()
        for program in made[:2]:
            if isinstance(program, ClosedJaxpr):
                _refuse_traced(program)
        cache[key] = made
    return cache[key]


def _refuse_traced(program: ClosedJaxpr) -> None:
    """A program that is held by an operation must not hold a value of a running trace."""
    for const in program.consts:
        if isinstance(const, Tracer):
            raise UnexpectedTracerError(
                f"a rule of a custom_jvp or custom_vjp function, used in {program.jaxpr.debug_name}"
                f", closes over a traced value of type {const.aval.str_short()} that the function "
                "itself does not use. Pass the value as an argument of the function, and adapt "
                "the rule"
            )


tools = Tools()
