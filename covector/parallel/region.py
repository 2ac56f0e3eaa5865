"""The scope of a `shard_map` that knows which values of its function are the same on all devices.

A derivative taken in there is that of the value all devices share: its cotangent is one, not one a
device, and that of an argument that all have is summed over them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

from covector._base.context import context
from covector.ir.jaxpr import ClosedJaxpr
from covector.ops.collective import PVary
from covector.parallel.varying import NONE, Names, spread, varying
from covector.trace.stage import StagedTracer, StageTrace
from covector.trace.tracer import AxisScope
from covector.transforms.jvp import JVPTracer
from covector.transforms.vmap import BatchTracer


@final
class _Known:
    """What is known of the values of one staged program: where each differs."""

    __slots__ = ("consts", "done", "values")

    def __init__(self, invars: Sequence[Any], given: Sequence[Names]) -> None:
        self.values: dict[Any, Names] = dict(zip(invars, given, strict=True))
        self.done = self.consts = 0


@final
class Inputs:
    """Those of the body of a loop or a branch that is about to be traced under `parent`."""

    __slots__ = ("given", "parent", "region", "used")

    def __init__(self, region: Region, parent: Any, given: Sequence[Names]) -> None:
        self.region, self.parent, self.given = region, parent, tuple(given)
        #: Whether a derivative in the body depends on them.
        self.used = False

    def widened(self, body: ClosedJaxpr, carry: Sequence[Any]) -> list[Any] | None:
        """The carry's start values, that differ wherever the body makes them differ; None if they
        do, or if nothing depends on it.
        """
        if not self.used:
            return None
        consts = [self.region.differs(c) for c in body.consts]
        made = varying(body.jaxpr, self.given, consts)
        more = [a - b for a, b in zip(made[: len(carry)], self.given, strict=False)]
        if not any(more):
            return None
        return [
            PVary(tuple(n for n, _ in self.region.mesh_axes if n in names), None)(x) if names else x
            for x, names in zip(carry, more, strict=True)
        ]


@final
class Region(AxisScope):
    """Names axes; `given`: along which of them each argument of the traced function differs."""

    __slots__ = ("_bodies", "_known", "_outside", "given", "mesh_axes")

    def __init__(
        self, parent: Any, axes: Iterable[tuple[Any, int]], given: Sequence[Names]
    ) -> None:
        self.mesh_axes = tuple(axes)
        super().__init__(parent, self.mesh_axes)
        self.region, self.given = self, tuple(given)
        self._known: dict[Any, _Known] = {}
        self._bodies: tuple[Inputs, ...] = ()
        self._outside: set[Any] = set()
        while parent is not None:
            self._outside.add(parent)
            parent = parent.parent

    def replicated(self, x: Any) -> tuple[tuple[Any, int], ...]:
        """The axes, with their sizes, along which a value is the same."""
        differs = self.differs(x)
        return tuple((name, size) for name, size in self.mesh_axes if name not in differs)

    @contextlib.contextmanager
    def body(self, values: Sequence[Any]) -> Iterator[Inputs]:
        """While a body is traced whose inputs are, at first, these values (or rows of them)."""
        inputs = Inputs(self, context.trace, [self._or_all(x) for x in values])
        before = self._bodies
        self._bodies = (*before, inputs)
        try:
            yield inputs
        finally:
            self._bodies = before

    def _or_all(self, x: Any) -> Names:
        """Of what nothing is known: it may differ along all axes, should somebody ask."""
        try:
            return self.differs(x)
        except NotImplementedError:
            return frozenset(name for name, _ in self.mesh_axes)

    def differs(self, x: Any) -> Names:
        """The axes along which a value may differ."""
        while isinstance(x, (JVPTracer, BatchTracer)):
            if x.owner in self._outside:
                return NONE
            x = x.primal if isinstance(x, JVPTracer) else x.val
        if not isinstance(x, StagedTracer) or x.owner in self._outside:
            return NONE
        trace: Any = x.owner
        known = self._known.get(trace)
        if known is None:
            known = self._known[trace] = _Known(trace.invars, self._given_to(trace))
        if trace.parent is not self:
            for v, c in list(zip(trace._const_vars.values(), trace.consts, strict=True))[
                known.consts :
            ]:
                known.values[v] = self.differs(c)
            known.consts = len(trace.consts)
        spread(trace.eqns[known.done :], known.values)
        known.done = len(trace.eqns)
        return known.values.get(x.variable, NONE)

    def names_of(self, program: ClosedJaxpr, given: Sequence[Names]) -> list[Names]:
        """The axes along which the results of `program` may differ, where its arguments do so."""
        return varying(program.jaxpr, given, [self._or_all(c) for c in program.consts])

    def same_along(self, names: Names) -> tuple[Any, ...]:
        """The axes that are not in `names`."""
        return tuple(name for name, _ in self.mesh_axes if name not in names)

    def _given_to(self, trace: StageTrace) -> Sequence[Names]:
        if trace.parent is self:
            return self.given
        for inputs in reversed(self._bodies):
            if inputs.parent is trace.parent and len(inputs.given) == len(trace.invars):
                inputs.used = True
                return inputs.given
        raise NotImplementedError(
            "a reverse derivative in a function that is traced by itself under shard_map: whether "
            "its values are the same on all devices is not known there. Pass check_vma=False to "
            "shard_map, by which each device takes the derivative of its own result (sum with psum "
            "where needed)"
        )
