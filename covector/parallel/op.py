"""`shard_map` as an operation: one program, run by every device of a mesh on its part of arrays.

Here all devices are computed together: the mesh axes become batch axes of the program, whose
collectives are then sums, shifts, … along these.  So nothing can wait for anything, and the whole
is one program for the compiler.  Loops between collectives are left apart (apart.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.context import context, current_trace
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Linear, Op, Sample
from covector.ir.values import typeof
from covector.ops.collective import Psum
from covector.parallel.apart import set_apart
from covector.parallel.samples import programs
from covector.parallel.spmd import run_everywhere
from covector.parallel.varying import varying
from covector.trace.stage import eval_jaxpr, trace_to_jaxpr
from covector.trace.tracer import AxisScope
from covector.transforms.tools import tools as plain_tools
from covector.transforms.vmap import batch_flat, place_axis

#: For each axis of an array, the names of the mesh axes it is cut along.
Spec = tuple[tuple[Any, ...], ...]


class ShardMap(Op):
    """`jaxpr` on each device of a mesh whose axes are `mesh_axes`, pairs (name, size).

    An argument is cut along the mesh axes in its spec, and the same on all devices along the
    others; so are results, where a device's neighbours along the others have equal ones.
    """

    name = "shard_map"
    multiple_results = True
    jaxpr: ClosedJaxpr
    mesh_axes: tuple[tuple[Any, int], ...]
    in_specs: tuple[Spec, ...]
    out_specs: tuple[Spec, ...]

    @property
    def sizes(self) -> dict[Any, int]:
        """The size of each mesh axis."""
        return dict(self.mesh_axes)

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """What the program gives, put together."""
        for k, (aval, wanted) in enumerate(zip(avals, self.jaxpr.in_avals, strict=True)):
            part = local_aval(aval, self.in_specs[k], self.sizes)
            if part.strong() is not wanted.strong():
                raise TypeError(
                    f"shard_map: the program takes {wanted.str_short()} as argument {k}; the part "
                    f"of {aval.str_short()} on each device is {part.str_short()}"
                )
        outs = zip(self.jaxpr.out_avals, self.out_specs, strict=True)
        return tuple(global_aval(a, spec, self.sizes) for a, spec in outs)

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Every equation on every device, one after another."""
        return run_everywhere(self, arrays)

    # Transformations

    def like(self, jaxpr: ClosedJaxpr, in_specs: Iterable[Spec], out_specs: Iterable[Spec]) -> Any:
        """The same mesh around another program."""
        return ShardMap(jaxpr, self.mesh_axes, tuple(in_specs), tuple(out_specs))

    def inside(self) -> Any:
        """A context in which the mesh axes are named: a program may hold rules yet to be run."""
        return current_trace(AxisScope(context.trace, self.mesh_axes))

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The program's jvp; tangents are cut as their primals are."""
        moving = [t is not None for t in tangents]
        with self.inside():
            jaxpr, mask = tools.jvp_jaxpr(self.jaxpr, moving)
        call = self.like(
            jaxpr,
            [*self.in_specs, *_where(self.in_specs, moving)],
            [*self.out_specs, *_where(self.out_specs, mask)],
        )
        outs = call(*primals, *(t for t in tangents if t is not None))
        rest = iter(outs[len(mask) :])
        return outs[: len(mask)], [next(rest) if m else None for m in mask]

    def partial(self, tools: Any, trace: Any, unknown: Sequence[bool], args: Sequence[Any]) -> Any:
        """Two programs; what one needs of the other is cut along the axes that it differs along."""
        with self.inside():
            known, staged, mask, residuals = tools.split_jaxpr(self.jaxpr, unknown)
        hidden = [not u for u in unknown]
        known_specs, staged_specs = _where(self.in_specs, hidden), _where(self.in_specs, unknown)
        differs = varying(known.jaxpr, [_used(spec) for spec in known_specs])
        count = len(known.out_avals) - len(residuals)
        names = [
            tuple(name for name, _ in self.mesh_axes if name in found) for found in differs[count:]
        ]

        def first(*values: Any) -> list[Any]:
            outs = tools.call(known, values)
            kept = zip(outs[count:], names, strict=True)
            return [*outs[:count], *(ops.shape.expand_dims(x, (0,)) if n else x for x, n in kept)]

        def second(*values: Any) -> list[Any]:
            kept = zip(values, names, strict=False)
            given = [ops.shape.squeeze(x, (0,)) if n else x for x, n in kept]
            return tools.call(staged, [*given, *values[len(names) :]])

        before = tools.trace(first, known.in_avals, known.jaxpr.debug_name)
        stacked = before.out_avals[count:]
        after = tools.trace(second, [*stacked, *staged.in_avals[len(names) :]], "staged")
        specs: list[Spec] = [(n,) if n else () for n in names]
        known_outs = _where(self.out_specs, [not m for m in mask])
        context.trace = trace.parent
        try:
            given = _where(args, hidden)
            outs: list[Any] = []
            if before.out_avals:
                outs = self.like(before, known_specs, [*known_outs, *specs])(*given)
        finally:
            context.trace = trace
        rest = iter(trace.stage(
            self.like(after, [*specs, *staged_specs], _where(self.out_specs, mask)),
            [*outs[count:], *_where(args, unknown)],
        ))  # fmt: skip
        found = iter(outs[:count])
        return [next(rest) if m else next(found) for m in mask]

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """The program's transpose.

        Of a replicated result each device gets its share of the cotangent; that of a replicated
        argument is the sum of the devices'.
        """
        linear = [isinstance(a, Linear) for a in args]
        given = [ct is not None for ct in cts]
        with self.inside():
            jaxpr, mask = tools.transpose_jaxpr(self.jaxpr, linear, given)
        known = len(linear) - sum(linear)
        out_specs = _where(self.out_specs, given)
        ct_specs = _where(_where(self.in_specs, linear), mask)
        shares = [math.prod(self.sizes[n] for n in self._missing(s)) for s in out_specs]

        def back(*values: Any) -> list[Any]:
            parts = [_divided(ct, n) for ct, n in zip(values[known:], shares, strict=True)]
            outs = tools.call(jaxpr, [*values[:known], *parts])
            missing = map(self._missing, ct_specs)
            return [Psum(m, None)(x) if m else x for x, m in zip(outs, missing, strict=True)]

        program = tools.trace(back, jaxpr.in_avals, jaxpr.jaxpr.debug_name)
        known_specs = _where(self.in_specs, [not is_linear for is_linear in linear])
        call = self.like(program, [*known_specs, *out_specs], ct_specs)
        values = [a for a in args if not isinstance(a, Linear)]
        outs = iter(call(*values, *(ct for ct in cts if ct is not None)))
        found = iter([next(outs) if m else None for m in mask])
        return [next(found) if is_linear else None for is_linear in linear]

    def _missing(self, spec: Spec) -> tuple[Any, ...]:
        """The mesh axes that a spec doesn't use."""
        used = _used(spec)
        return tuple(name for name, _ in self.mesh_axes if name not in used)

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batched program; the batch axis, first, is not cut."""
        if tools.axis in self.sizes:
            tools = tools.of_axis(None)  # the mesh axis of that name is the nearer one
        batched = [d is not None for d in dims]
        with self.inside():
            jaxpr, mask = tools.batch_jaxpr(self.jaxpr, size, batched)
        moved = [
            x if d is None else ops.shape.move_axis(x, d, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        call = self.like(jaxpr, _in_front(self.in_specs, batched), _in_front(self.out_specs, mask))
        return call(*moved), [0 if m else None for m in mask]

    # Other forms

    def decompose(self, *args: Any) -> list[Any]:
        """The program with the mesh axes as batch axes, its collectives along these."""
        pieces = [self._cut(x, spec) for x, spec in zip(args, self.in_specs, strict=True)]
        outs = self._over(0, pieces)
        return [self._join(x, spec) for x, spec in zip(outs, self.out_specs, strict=True)]

    def _over(self, level: int, values: Sequence[Any]) -> list[Any]:
        """The program over the mesh axes from `level` on, which are the values' first axes."""
        if level == len(self.mesh_axes):
            body = set_apart(self.jaxpr.jaxpr, self.mesh_axes)
            return eval_jaxpr(body, self.jaxpr.consts, *values)
        name, size = self.mesh_axes[level]
        dims = [0 if name in _used(spec) else None for spec in self.in_specs]
        outs, out_dims = batch_flat(
            lambda *xs: self._over(level + 1, xs), values, dims, size, plain_tools, name
        )
        return [
            place_axis(x, d, 0, size) if name in _used(spec) else _one_of(x, d)
            for x, d, spec in zip(outs, out_dims, self.out_specs, strict=True)
        ]

    def _split(self, spec: Spec, ndim: int) -> tuple[list[int], list[int]]:
        """Of an array cut along its spec: where its named axes are, in mesh order; the others."""
        place: dict[Any, int] = {}
        local: list[int] = []
        at = 0
        for names in (*spec, *((),) * (ndim - len(spec))):
            for name in names:
                place[name], at = at, at + 1
            local.append(at)
            at += 1
        return [place[name] for name, _ in self.mesh_axes if name in place], local

    def _cut(self, x: Any, spec: Spec) -> Any:
        """The named axes first, in the order of the mesh, then the device's part."""
        shape: list[int] = []
        full = (*spec, *((),) * (typeof(x).ndim - len(spec)))
        for n, names in zip(typeof(x).shape, full, strict=True):
            cuts = [self.sizes[name] for name in names]
            shape += [*cuts, n // math.prod(cuts)]
        named, local = self._split(spec, typeof(x).ndim)
        return ops.shape.transpose(ops.shape.reshape(x, shape), [*named, *local])

    def _join(self, x: Any, spec: Spec) -> Any:
        """The other way round."""
        ndim = typeof(x).ndim - len(_used(spec))
        named, local = self._split(spec, ndim)
        order = [*named, *local]
        back = sorted(range(len(order)), key=order.__getitem__)
        part = typeof(x).shape[len(named) :]
        cuts = cuts_of(spec, self.sizes, ndim)
        return ops.shape.reshape(
            ops.shape.transpose(x, back), [n * m for n, m in zip(part, cuts, strict=True)]
        )

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """As the decomposition says."""
        program = trace_to_jaxpr(self.decompose, [x.aval for x in operands], "shard_map")
        return writer.closed(program, operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every collective, over one axis and over two, in groups; specs of every kind."""
        for fun, axes, in_specs, out_specs, avals in programs():
            sizes = dict(axes)
            parts = [local_aval(a, spec, sizes) for a, spec in zip(avals, in_specs, strict=True)]
            body = trace_to_jaxpr(fun, parts, fun.__name__)
            yield Sample(ShardMap(body, axes, in_specs, out_specs), avals, scale=4.0)


def cuts_of(spec: Spec, sizes: dict[Any, int], ndim: int) -> list[int]:
    """How many pieces each axis is cut into."""
    cuts = [math.prod(sizes[name] for name in names) for names in spec]
    return cuts + [1] * (ndim - len(cuts))


def local_aval(aval: ShapedArray, spec: Spec, sizes: dict[Any, int]) -> ShapedArray:
    """The type of a device's part; ValueError where a size does not divide."""
    cuts = cuts_of(spec, sizes, aval.ndim)
    for axis, (n, m) in enumerate(zip(aval.shape, cuts, strict=True)):
        if n % m:
            raise ValueError(
                f"shard_map: axis {axis} of {aval.str_short()} is to be cut into {m} pieces along "
                f"{spec[axis]}, but {m} does not evenly divide {n}"
            )
    return aval.update(shape=tuple(n // m for n, m in zip(aval.shape, cuts, strict=True)))


def global_aval(aval: ShapedArray, spec: Spec, sizes: dict[Any, int]) -> ShapedArray:
    """The type of the whole, of a device's part."""
    cuts = cuts_of(spec, sizes, aval.ndim)
    return aval.update(shape=tuple(n * m for n, m in zip(aval.shape, cuts, strict=True)))


def _where(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [v for v, m in zip(values, mask, strict=True) if m]


def _used(spec: Spec) -> frozenset[Any]:
    return frozenset(name for names in spec for name in names)


def _in_front(specs: Sequence[Spec], batched: Sequence[bool]) -> list[Spec]:
    return [((), *spec) if b else spec for spec, b in zip(specs, batched, strict=True)]


def _one_of(x: Any, dim: int | None) -> Any:
    """A result that is to be the same for all: that of the first."""
    if dim is None:
        return x
    return ops.shape.squeeze(ops.pieces.slice_along(x, dim, 0, 1), (dim,))


def _divided(ct: Any, count: int) -> Any:
    if count == 1:
        return ct
    return ops.pointwise.mul(ct, ops.families.like(ct, 1 / count))
