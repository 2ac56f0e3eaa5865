"""How the results of a computation on sharded arrays are spread: by what each operation does to
axes.

Nothing is moved for it: an array is one buffer, and a sharding says whose the slices are.  An axis
of a result is cut as the axis of an operand that it comes from; where operands differ, it is not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal
from covector.ir.op import Op
from covector.ops.cumulative import Cumulative
from covector.ops.families import Pointwise
from covector.ops.reduce import Reduction
from covector.runtime.device import devices
from covector.sharding import Mesh, NamedSharding, PartitionSpec

#: For each axis of an array the mesh axes that it is cut along.
Spec = tuple[tuple[Any, ...], ...]
Rule = Callable[[Any, Sequence[ShapedArray], Sequence[Spec], Sequence[ShapedArray]], list[Any]]

#: The mesh that the last `shard_map` over axes of such names and sizes was over.
meshes: dict[tuple[tuple[Any, int], ...], Mesh] = {}


def shardings(op: Op, avals: Sequence[ShapedArray], given: Sequence[Any], outs: Any) -> Any:
    """The shardings of the results of `op`; None if nobody chose one.

    given: the shardings of the arguments, None where nobody chose one.  outs: result types.
    """
    chosen = [s for s in given if s is not None]
    mesh = next((s.mesh for s in chosen if isinstance(s, NamedSharding)), None)
    if mesh is None:
        axes = _mesh_axes(op)
        mesh = None if axes is None else _mesh_of(axes)
        if mesh is None:
            return (chosen[0],) * len(outs) if chosen else None
    specs = [_spec(s, mesh, a) for s, a in zip(given, avals, strict=True)]
    found = _results(op, avals, specs, outs, dict(mesh.shape_tuple))
    return tuple(_sharding(mesh, spec) for spec in found)


def _mesh_of(axes: tuple[tuple[Any, int], ...]) -> Mesh | None:
    """A mesh of such axes; None if there are too few devices for it."""
    found = meshes.get(axes)
    if found is None:
        sizes = [n for _, n in axes]
        some = devices()[: math.prod(sizes)]
        if len(some) < math.prod(sizes):
            return None
        names = tuple(name for name, _ in axes)
        found = meshes[axes] = Mesh(np.array(some, dtype=object).reshape(sizes), names)
    return found


def _mesh_axes(op: Op) -> Any:
    """The axes of the first `shard_map` that `op` is or holds; None if there is none."""
    if op.name == "shard_map":
        return op.params["mesh_axes"]
    for program in _programs(op):
        body = program.jaxpr
        if "mesh axes" not in body.derived:
            found = (_mesh_axes(eqn.op) for eqn in body.eqns)
            body.derived["mesh axes"] = next((a for a in found if a is not None), None)
        if body.derived["mesh axes"] is not None:
            return body.derived["mesh axes"]
    return None


def _programs(op: Op) -> list[ClosedJaxpr]:
    params = op.params
    if not params:
        return []
    values = params.values()
    return [v for v in (*values, *params.get("branches", ())) if isinstance(v, ClosedJaxpr)]


def _spec(sharding: Any, mesh: Mesh, aval: ShapedArray) -> Spec:
    cut: list[tuple[Any, ...]] = []
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        cut = sharding.spec.names()
    return (*map(tuple, cut), *((),) * (aval.ndim - len(cut)))


@functools.lru_cache(maxsize=512)
def _sharding(mesh: Mesh, spec: Spec) -> NamedSharding:
    """One object for equal ones: entry points compare them by identity."""
    last = max((k + 1 for k, names in enumerate(spec) if names), default=0)
    entries = [names[0] if len(names) == 1 else names or None for names in spec[:last]]
    return NamedSharding(mesh, PartitionSpec(*entries))


def _results(
    op: Op, avals: Sequence[ShapedArray], specs: Sequence[Spec], outs: Sequence[ShapedArray],
    sizes: dict[Any, int],
) -> list[Spec]:  # fmt: skip
    """The specs of an operation's results, that fit their shapes."""
    rule = _RULES.get(op.name)
    if rule is not None:
        found = rule(op, avals, specs, outs)
    elif isinstance(op, Pointwise):
        found = [_merged(avals, specs, outs[0])] * len(outs)
    elif isinstance(op, Reduction) or op.name in ("argmax", "argmin"):
        axes = op.params["axes"]
        found = [[n for d, n in enumerate(specs[0]) if d not in axes]] * len(outs)
    elif isinstance(op, Cumulative):
        found = [[() if d == op.axis else n for d, n in enumerate(specs[0])]] * len(outs)
    else:
        programs = _programs(op)
        if programs and len(programs[0].in_avals) == len(avals):
            found = _of_program(programs[0].jaxpr, specs, sizes)
        else:
            found = [()] * len(outs)
    return [_fitting(spec, a, sizes) for spec, a in zip(found, outs, strict=True)]


def _of_program(body: Jaxpr, specs: Sequence[Spec], sizes: dict[Any, int]) -> list[Spec]:
    known: dict[Any, Spec] = dict(zip(body.invars, specs, strict=True))

    def read(v: Any) -> Spec:
        found = None if isinstance(v, Literal) else known.get(v)
        return ((),) * v.aval.ndim if found is None else found

    for eqn in body.eqns:
        avals = [v.aval for v in eqn.invars]
        outs = [v.aval for v in eqn.outvars]
        made = _results(eqn.op, avals, [read(v) for v in eqn.invars], outs, sizes)
        known.update(zip(eqn.outvars, made, strict=True))
    return [read(v) for v in body.outvars]


def _fitting(spec: Any, aval: ShapedArray, sizes: dict[Any, int]) -> Spec:
    """The spec, without what the mesh hasn't, what was used before, or what doesn't divide."""
    used: set[Any] = set()
    out: list[tuple[Any, ...]] = []
    for names, n in zip((*spec, *((),) * (aval.ndim - len(spec))), aval.shape, strict=True):
        fits = all(name in sizes and name not in used for name in names)
        fits = fits and n % math.prod(sizes.get(name, 1) for name in names) == 0
        out.append(names if fits else ())
        used.update(out[-1])
    return tuple(out)


def _merged(avals: Sequence[ShapedArray], specs: Sequence[Spec], out: ShapedArray) -> list[Any]:
    """Of operands whose axes are the result's: cut as those that are cut, if these agree."""
    found: list[tuple[Any, ...]] = []
    full = [s for a, s in zip(avals, specs, strict=True) if a.ndim == out.ndim]
    for d in range(out.ndim):
        cuts = {s[d] for s in full if s[d]}
        found.append(cuts.pop() if len(cuts) == 1 else ())
    return found


def _transpose(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    return [[specs[0][d] for d in op.permutation]]


def _broadcast(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    place = {d: k for k, d in enumerate(op.broadcast_dimensions)}
    return [[
        specs[0][place[d]] if d in place and avals[0].shape[place[d]] == n else ()
        for d, n in enumerate(op.shape)
    ]]  # fmt: skip


def _reshape(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    """Axes that together become other axes: the first of these is cut as the first of those."""
    old, new = avals[0].shape, outs[0].shape
    out: list[Any] = [()] * len(new)
    i = j = 0
    while i < len(old) and j < len(new):
        start, first = j, i
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(old):
                left, i = left * old[i], i + 1
            elif right < left and j < len(new):
                right, j = right * new[j], j + 1
            else:
                break
        # Axes of one element are nowhere: look past them.
        source = next((d for d in range(first, i) if old[d] != 1), None)
        target = next((d for d in range(start, j) if new[d] != 1), None)
        whole = source is not None and all(not specs[0][d] for d in range(source + 1, i))
        if source is not None and target is not None and whole:
            out[target] = specs[0][source]
    return [out]


def _squeeze(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    gone = {d % avals[0].ndim for d in op.dimensions}
    return [[n for d, n in enumerate(specs[0]) if d not in gone]]


def _kept(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    """Axes that are of the same size are cut as before."""
    return [
        [
            names if n == m else ()
            for names, n, m in zip(specs[0], avals[0].shape, out.shape, strict=True)
        ]
        for out in outs
    ]


def _concatenate(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    return [_merged(avals, specs, outs[0])]


def _gather(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    """Axes of the operand that are taken whole."""
    numbers = op.dimension_numbers
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [d for d in range(avals[0].ndim) if d not in gone]
    out: list[Any] = [()] * outs[0].ndim
    for place, d in zip(numbers.offset_dims, window, strict=True):
        if op.slice_sizes[d] == avals[0].shape[d]:
            out[place] = specs[0][d]
    return [out]


def _dot_general(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    (left, right), (left_batch, right_batch) = op.dimension_numbers
    x, y = specs
    batch = [x[a] or y[b] for a, b in zip(left_batch, right_batch, strict=True)]
    free_x = [n for d, n in enumerate(x) if d not in (*left, *left_batch)]
    free_y = [n for d, n in enumerate(y) if d not in (*right, *right_batch)]
    return [[*batch, *free_x, *free_y]]


def _shard_map(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    return list(op.out_specs)


def _cond(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    """As the operands of the same shape, if these agree."""
    alike = [[k for k, a in enumerate(avals) if a.shape == out.shape] for out in outs]
    return [
        _merged([avals[k] for k in some], [specs[k] for k in some], out)
        for some, out in zip(alike, outs, strict=True)
    ]


def _carried(op: Any, avals: Any, specs: Any, outs: Any) -> list[Any]:
    """Of a loop: the carry as it starts; rows are not cut along the rounds."""
    carry = op.parts(specs)[2 if op.name == "while" else 1]
    ys = [((),) * o.ndim for o in outs[len(carry) :]]
    return [*carry, *ys]


_RULES: dict[str, Rule] = {
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "rev": _kept,
    "copy": _kept,
    "slice": _kept,
    "dynamic_slice": _kept,
    "dynamic_update_slice": _kept,
    "scatter": _kept,
    "scatter_add": _kept,
    "pad": _kept,
    "split": _kept,
    "sort": _kept,
    "concatenate": _concatenate,
    "gather": _gather,
    "dot_general": _dot_general,
    "shard_map": _shard_map,
    "cond": _cond,
    "while": _carried,
    "scan": _carried,
}
