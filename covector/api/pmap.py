"""`pmap`: `shard_map` over one axis of devices, one index a device, compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from covector import ops, tree
from covector._base.boundary import api_boundary
from covector._base.containers import is_listed
from covector.api.arguments import (
    as_argnums,
    check_callable,
    check_values,
    flatten_axes,
    name_of,
)
from covector.api.arrays import as_array, with_sharding
from covector.api.jit import jit
from covector.api.shard_map import Call
from covector.api.vectorize import batch_size, canonical_axis, check_axes
from covector.ir.values import typeof
from covector.runtime.array import Array
from covector.runtime.device import devices as all_devices
from covector.sharding import Mesh, NamedSharding, PartitionSpec

#: The axis of a pmap that has no name.
UNNAMED = "<the axis of a pmap without axis_name>"


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """`fun`, compiled and run by as many devices as the mapped axis is long, one index each.

    Args:
      fun: the function of one device; collectives over `axis_name` let devices talk.
      axis_name: the name of the mapped axis.
      in_axes: which axis of each argument is mapped: an int, None (all devices get the argument),
        or a tuple with one entry, possibly a tree, for each argument.
      out_axes: where the mapped axis goes in results; None: devices have equal results.
      static_broadcasted_argnums: arguments that are Python values, known when tracing.
      devices, backend: which devices take part; by default the first of this process.
      axis_size: the size of the mapped axis, where no argument tells it.
      donate_argnums: arguments whose memory may be reused.

    Keyword arguments are mapped along axis 0.  Raises ValueError where there are too few devices,
    or sizes or axes do not fit.

    >>> import covector as cv
    >>> f = cv.pmap(lambda x: x / cv.lax.psum(x, 'i'), axis_name='i')
    >>> f(cv.numpy.array([3.0])).tolist()
    [1.0]
    """
    check_callable(fun, "pmap")
    if is_listed(in_axes):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, (int, tuple, type(None))):
        raise TypeError(
            "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments; got {in_axes!r}"
        )
    static = _numbers(static_broadcasted_argnums, "static_broadcasted_argnums")
    if isinstance(in_axes, tuple):
        in_axes = _without_static(cast("tuple[Any, ...]", in_axes), static)
    check_axes(in_axes, "in_axes", "pmap")
    check_axes(out_axes, "out_axes", "pmap")
    plan = _Plan(fun, axis_name, in_axes, out_axes, static, devices, backend, axis_size)
    donated = _numbers(donate_argnums, "donate_argnums")
    compiled = jit(plan.run, static_argnums=static, donate_argnums=donated)

    @api_boundary
    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return plan.placed(compiled(*args, **kwargs), args, kwargs)

    mapped.lower = compiled.lower  # type: ignore[attr-defined]
    mapped.trace = compiled.trace  # type: ignore[attr-defined]
    mapped.clear_cache = compiled.clear_cache  # type: ignore[attr-defined]
    return mapped


def _numbers(given: Any, what: str) -> tuple[int, ...]:
    return as_argnums(given if isinstance(given, int) else tuple(given), f"pmap: {what}")


def _places(static: Sequence[int], count: int) -> set[int]:
    """Of `count` arguments, those that are static."""
    return {n % count for n in static if -count <= n < count}


def _without_static(in_axes: tuple[Any, ...], static: Sequence[int]) -> tuple[Any, ...]:
    """The axes, with none for static arguments."""
    places = _places(static, len(in_axes))
    for n in places:
        if in_axes[n] not in (None, 0):
            raise ValueError(
                f"pmap: in_axes of the static argument {n} must be None; got {in_axes[n]!r}"
            )
    return tuple(None if n in places else a for n, a in enumerate(in_axes))


class _Plan:
    """What `pmap` was asked for, and how a call of it is done."""

    __slots__ = ("axis_size", "backend", "devices", "fun", "in_axes", "meshes", "name",
                 "out_axes", "run", "static")  # fmt: skip

    def __init__(self, fun: Any, axis_name: Any, in_axes: Any, out_axes: Any, *rest: Any) -> None:
        self.fun, self.in_axes, self.out_axes = fun, in_axes, out_axes
        self.name = UNNAMED if axis_name is None else axis_name
        self.static, self.devices, self.backend, self.axis_size = rest
        self.meshes: dict[Any, Mesh] = {}

        @functools.wraps(fun)
        def run(*args: Any, **kwargs: Any) -> Any:
            return self.call(args, kwargs)

        self.run = run

    def axes(self, args: Any, kwargs: Any) -> tuple[Any, list[Any], list[int | None], int]:
        """(dynamic arguments, their leaves, the mapped axis of each, its size)."""
        axes = self.in_axes
        static = _places(self.static, len(args))
        if isinstance(axes, tuple):
            each = cast("tuple[Any, ...]", axes)
            if len(each) != len(args):
                raise ValueError(
                    "pmap in_axes must be an int, None, or a tuple of entries corresponding to "
                    f"the positional arguments passed to the function, but got {len(each)} entries "
                    f"for {len(args)} arguments of {name_of(self.fun)}"
                )
            axes = tuple(a for n, a in enumerate(each) if n not in static)
        given = (tuple(x for n, x in enumerate(args) if n not in static), kwargs)
        leaves, in_tree = tree.flatten(given)
        check_values(leaves, given, f"an argument of pmap of {name_of(self.fun)}")
        dims = flatten_axes((axes, 0), in_tree, "pmap in_axes")
        dims = [canonical_axis(d, x, self.fun, "pmap") for d, x in zip(dims, leaves, strict=True)]
        size = batch_size(leaves, dims, self.axis_size, given, self.fun, "pmap")
        return given, leaves, dims, size

    def mesh(self, size: int) -> Mesh:
        """The devices that take part."""
        there = list(all_devices(self.backend) if self.devices is None else self.devices)
        if size > len(there):
            raise ValueError(
                f"pmap of {name_of(self.fun)} requires {size} devices, one for each index of the "
                f"mapped axis, but only {len(there)} devices are available; the option "
                "num_cpu_devices says how many CPU devices there are"
            )
        chosen = tuple(there[:size])
        found = self.meshes.get(chosen)
        if found is None:
            found = self.meshes[chosen] = Mesh(chosen, (self.name,))
        return found

    def call(self, args: Any, kwargs: Any) -> Any:
        """The function on each device, by `shard_map`."""
        given, leaves, dims, size = self.axes(args, kwargs)
        in_tree = tree.structure(given)
        fixed = {n: args[n] for n in _places(self.static, len(args))}
        found: dict[str, Any] = {}

        def one(*parts: Any) -> list[Any]:
            whole = [
                x if d is None else ops.shape.squeeze(as_array(x), (d,))
                for x, d in zip(parts, dims, strict=True)
            ]
            moving, options = tree.unflatten(in_tree, whole)
            rest = iter(moving)
            full = [fixed[n] if n in fixed else next(rest) for n in range(len(args))]
            result = self.fun(*full, **options)
            outs, found["tree"] = tree.flatten(result)
            check_values(outs, result, f"the result of pmap of {name_of(self.fun)}")
            places = flatten_axes(self.out_axes, found["tree"], "pmap out_axes")
            found["places"] = [
                _out_axis(p, typeof(x).ndim + 1, self.fun)
                for p, x in zip(places, outs, strict=True)
            ]
            return [
                as_array(x) if p is None else ops.shape.expand_dims(as_array(x), (p,))
                for x, p in zip(outs, found["places"], strict=True)
            ]

        one.__name__ = name_of(self.fun)
        call = Call(one, self.mesh(size), (), check=False, fresh=True)
        flat_tree = tree.structure((tuple(leaves), {}))
        outs = call(flat_tree, leaves, [self._spec(d) for d in dims], lambda: [
            self._spec(p) for p in found["places"]
        ])  # fmt: skip
        return tree.unflatten(found["tree"], outs)

    def _spec(self, axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, self.name)

    def _is_placed(self, x: Array) -> bool:
        sharding = x.sharding
        return isinstance(sharding, NamedSharding) and sharding.mesh in self.meshes.values()

    def placed(self, result: Any, args: Any, kwargs: Any) -> Any:
        """Concrete results as arrays spread over the devices."""
        leaves, structure = tree.flatten(result)
        if all(type(x) is not Array or self._is_placed(x) for x in leaves):
            return result
        mesh = self.mesh(self.axes(args, kwargs)[3])
        places = flatten_axes(self.out_axes, structure, "pmap out_axes")
        specs = [
            self._spec(_out_axis(p, typeof(x).ndim, self.fun))
            for x, p in zip(leaves, places, strict=True)
        ]
        return tree.unflatten(structure, [
            with_sharding(x, NamedSharding(mesh, spec)) if type(x) is Array else x
            for x, spec in zip(leaves, specs, strict=True)
        ])  # fmt: skip


def _out_axis(axis: int | None, ndim: int, fun: Any) -> int | None:
    if axis is None:
        return None
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"pmap of {name_of(fun)}: out_axes={axis} is out of bounds for a result of rank {ndim}"
        )
    return axis % ndim
