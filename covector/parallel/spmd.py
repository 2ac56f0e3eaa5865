"""The meaning of a program over devices, in NumPy: every equation on every device, in turn.

A value is one array whose first axes are the mesh, then each device's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector.ir.interpret import apply
from covector.ir.jaxpr import Jaxpr, Literal
from covector.ops.call import Call
from covector.ops.collective import Collective


def run_everywhere(op: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of `op`, a ShardMap."""
    mesh = op.mesh_axes
    parts = [_given(np.asarray(x), spec, mesh) for x, spec in zip(arrays, op.in_specs, strict=True)]
    outs = _run(op.jaxpr.jaxpr, parts, mesh)
    return [_whole(x, spec, mesh) for x, spec in zip(outs, op.out_specs, strict=True)]


def _index(place: Sequence[int], spec: Any, mesh: Any, shape: Sequence[int]) -> tuple[slice, ...]:
    """The slices of the whole that the device at `place` has a part of `shape` for."""
    at = {name: (k, size) for k, (name, size) in zip(place, mesh, strict=True)}
    index: list[slice] = []
    for names, n in zip((*spec, *((),) * (len(shape) - len(spec))), shape, strict=True):
        number = 0
        for name in names:
            number = number * at[name][1] + at[name][0]
        index.append(slice(number * n, (number + 1) * n))
    return tuple(index)


def _cuts(spec: Any, mesh: Any, ndim: int) -> list[int]:
    sizes = dict(mesh)
    cuts = [math.prod(sizes[name] for name in names) for names in spec]
    return cuts + [1] * (ndim - len(cuts))


def _given(x: np.ndarray, spec: Any, mesh: Any) -> np.ndarray:
    part = [n // m for n, m in zip(x.shape, _cuts(spec, mesh, x.ndim), strict=True)]
    sizes = [size for _, size in mesh]
    out = np.empty((*sizes, *part), x.dtype)
    for place in np.ndindex(*sizes):
        out[place] = x[_index(place, spec, mesh, part)]
    return out


def _whole(parts: np.ndarray, spec: Any, mesh: Any) -> np.ndarray:
    sizes = [size for _, size in mesh]
    part = parts.shape[len(sizes) :]
    cuts = _cuts(spec, mesh, len(part))
    out = np.empty([n * m for n, m in zip(part, cuts, strict=True)], parts.dtype)
    for place in reversed(list(np.ndindex(*sizes))):  # of equal ones the first is last
        out[_index(place, spec, mesh, part)] = parts[place]
    return out


def _run(jaxpr: Jaxpr, args: Sequence[np.ndarray], mesh: Any) -> list[np.ndarray]:
    sizes = [size for _, size in mesh]
    env: dict[Any, np.ndarray] = dict(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> np.ndarray:
        return np.broadcast_to(v.val, sizes) if isinstance(v, Literal) else env[v]

    for eqn in jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        if isinstance(eqn.op, Collective):
            outs = [_collective(eqn.op, given, mesh)]
        elif isinstance(eqn.op, Call):
            outs = _run(eqn.op.jaxpr.jaxpr, given, mesh)
        else:
            each = [apply(eqn.op, *(x[k] for x in given)) for k in np.ndindex(*sizes)]
            outs = [
                np.stack(list(results)).reshape(*sizes, *results[0].shape)
                for results in zip(*each, strict=True)
            ]
        env.update(zip(eqn.outvars, outs, strict=True))  # pyright: ignore[reportArgumentType]
    return [read(v) for v in jaxpr.outvars]


def _collective(op: Any, given: Sequence[np.ndarray], mesh: Any) -> np.ndarray:
    """Those who take part along axis 0, by themselves for every place along the other axes."""
    names, sizes = [name for name, _ in mesh], [size for _, size in mesh]
    x = given[0] if given else np.zeros(sizes, np.int32)
    axes = [names.index(name) for name in op.axis_names]
    others = [k for k in range(len(names)) if k not in axes]
    local = list(range(len(names), x.ndim))
    order = [*others, *axes, *local]
    moved = x.transpose(order)
    rest = [sizes[k] for k in others]
    members = math.prod(sizes[k] for k in axes)
    flat = moved.reshape(math.prod(rest), members, *x.shape[len(names) :])
    out = np.stack([op.spmd(stack) for stack in flat])
    out = out.reshape(*rest, *(sizes[k] for k in axes), *out.shape[2:])
    mesh_order = [*others, *axes]
    back = sorted(range(len(mesh_order)), key=mesh_order.__getitem__)
    return out.transpose([*back, *range(len(names), out.ndim)])
