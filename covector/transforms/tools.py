"""What transformations offer to rules of operations that hold programs (`jit`, loops, …).

Results are cached on the program itself, so that a body is transformed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Linear
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import tangent_aval
from covector.transforms.jvp import jvp_flat
from covector.transforms.partial import split_jaxpr
from covector.transforms.transpose import backward_pass
from covector.transforms.vmap import batch_flat, place_axis


class Tools:
    """Stateless: one instance, `tools`, is handed to every rule."""

    __slots__ = ()

    def trace(
        self, fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str = ""
    ) -> ClosedJaxpr:
        """The program of a function of flat values."""
        return trace_to_jaxpr(fun, avals, name)

    def call(self, jaxpr: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a program: each of its operations is bound here."""
        return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)

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
                outs, out_tangents = jvp_flat(run, primals, tangents, self)
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
        key = ("batch", size, tuple(batched), None if out_batched is None else tuple(out_batched))

        def make() -> tuple[ClosedJaxpr, list[bool]]:
            mask: list[bool] = []

            def fun(*args: Any) -> list[Any]:
                dims = [0 if b else None for b in batched]
                outs, out_dims = batch_flat(_runner(jaxpr), args, dims, size, self)
                wanted = out_batched or [False] * len(outs)
                mask[:] = [d is not None or w for d, w in zip(out_dims, wanted, strict=True)]
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
        return _cached(jaxpr, key, lambda: split_jaxpr(jaxpr, unknown, self, wanted))

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
                out = backward_pass(jaxpr.jaxpr, jaxpr.consts, full, cts, self)
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
        cache[key] = make()
    return cache[key]


tools = Tools()
