"""`shard_map`, as users call it: one function, run by every device of a mesh on its part."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from covector import tree
from covector._base.boundary import api_boundary
from covector._base.containers import is_listed
from covector._base.context import context, current_trace
from covector.api.arguments import (
    Flat,
    check_callable,
    check_values,
    flatten_axes,
    name_of,
)
from covector.api.arrays import as_array, with_sharding
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.parallel.op import ShardMap, Spec, local_aval
from covector.parallel.propagate import meshes
from covector.parallel.region import Region
from covector.parallel.varying import Names, varying
from covector.runtime.array import Array
from covector.sharding import Mesh, NamedSharding, PartitionSpec, get_mesh
from covector.trace.cache import node_types, shared
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import AxisScope
from covector.tree_util import keystr


class _Infer:
    """In place of in_specs: as the arguments are."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f`, run by every device of a mesh on its part of the arguments.

    Args:
      f: a function of parts; collectives over the mesh's axis names let devices talk.  Left out,
        `shard_map(mesh=…, out_specs=…)` is a decorator.
      in_specs: for each argument a PartitionSpec (or a tree of them): the axes that the mesh cuts;
        along mesh axes that it doesn't name all devices get the same.  Left out: as arrays are
        sharded.
      out_specs: the same for results: how the parts are put together; along mesh axes that a spec
        doesn't name all devices must have the same result.
      mesh: the mesh; by default the one in force (`set_mesh`).
      axis_names: those mesh axes that `f` is to be run over; by default all.
      check_vma: whether to check that results are the same where specs say so.

    Raises ValueError where a size does not divide, a spec is too long, names what is no mesh axis,
    or asks for equal results that may differ.

    >>> import covector as cv
    >>> mesh = cv.make_mesh((1,), ('x',))
    >>> total = cv.shard_map(lambda x: cv.lax.psum(x.sum(), 'x'), mesh=mesh, in_specs=cv.P('x'),
    ...                      out_specs=cv.P())
    >>> int(total(cv.numpy.arange(4)))
    6
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
            check_vma=check_vma,
        )  # fmt: skip
    check_callable(f, "shard_map")
    if is_listed(in_specs):
        in_specs = tuple(in_specs)

    @api_boundary
    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        chosen = get_mesh() if mesh is None else mesh
        if chosen.empty:
            raise ValueError(
                "The context mesh cannot be empty: give shard_map a mesh, or use "
                "covector.set_mesh(mesh)"
            )
        call = Call(f, chosen, axis_names, check_vma)
        leaves, in_tree = tree.flatten((args, {}))
        check_values(leaves, args, f"an argument of shard_map of {name_of(f)}")
        if in_specs is Infer:
            specs = [_spec_of(x, chosen) for x in leaves]
        else:
            specs = _flat_specs((in_specs, {}), in_tree, "in_specs")
        return call(in_tree, leaves, specs, out_specs)

    return mapped


def _spec_of(x: Any, mesh: Any) -> PartitionSpec:
    sharding = getattr(x, "sharding", None) if type(x) is Array else None
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        return sharding.spec
    return PartitionSpec()


def _flat_specs(specs: Any, structure: Any, what: str) -> list[PartitionSpec]:
    found = flatten_axes(specs, structure, f"shard_map {what}")
    for spec in found:
        if spec is not None and not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"shard_map {what} must be a tree of PartitionSpec; got {spec!r} of type "
                f"{type(spec)}"
            )
    return [PartitionSpec() if spec is None else spec for spec in found]


class Call:
    """A function to be run over a mesh, with what is asked of its results."""

    __slots__ = ("check", "fresh", "fun", "label", "mesh", "mesh_axes")

    def __init__(
        self, fun: Callable[..., Any], mesh: Any, axis_names: Any, check: bool, fresh: bool = False
    ) -> None:
        """`fresh`: trace the function even if an equal one was traced."""
        names = frozenset(axis_names) or frozenset(mesh.axis_names)
        unknown = [n for n in names if n not in mesh.axis_names]
        if unknown:
            raise ValueError(
                f"shard_map: axis_names={sorted(map(str, names))} names {unknown}, which the mesh "
                f"{mesh.shape} has not"
            )
        self.fun, self.mesh, self.label = fun, mesh, name_of(fun)
        self.check, self.fresh = check, fresh
        self.mesh_axes = tuple((n, size) for n, size in mesh.shape_tuple if n in names)
        if isinstance(mesh, Mesh):
            meshes[self.mesh_axes] = mesh

    def __call__(
        self, in_tree: Any, leaves: Sequence[Any], in_specs: Sequence[PartitionSpec], out_specs: Any
    ) -> Any:
        """The results, sharded as `out_specs` says."""
        sizes = dict(self.mesh_axes)
        avals: list[ShapedArray] = []
        for k, (x, spec) in enumerate(zip(leaves, in_specs, strict=True)):
            aval = typeof(x)
            where = keystr(tree.flatten_with_path(tree.unflatten(in_tree, leaves)[0])[0][k][0])
            self._check_argument(f"args{where}", aval, spec)
            avals.append(local_aval(aval, _as_tuples(spec), sizes))
        differ = tuple(frozenset(n for names in s.names() for n in names) for s in in_specs)
        program, out_tree = self.trace(in_tree, avals, differ)
        flat_out: list[PartitionSpec]
        if callable(out_specs):  # they depend on what the function returned
            flat_out = cast("Any", out_specs)()
        else:
            flat_out = _flat_specs(out_specs, out_tree, "out_specs")
        for aval, spec in zip(program.out_avals, flat_out, strict=True):
            self._check_result(aval, spec)
        body, consts = _lifted(program)
        specs = (*((),) * len(consts), *map(_as_tuples, in_specs))
        if self.check:
            self._check_equal(body, specs, flat_out)
        op = ShardMap(body, self.mesh_axes, specs, tuple(map(_as_tuples, flat_out)))
        outs = op(*consts, *leaves)
        return tree.unflatten(
            out_tree,
            [with_sharding(as_array(x), NamedSharding(self.mesh, spec)) if type(x) is Array else x
             for x, spec in zip(outs, flat_out, strict=True)],
        )  # fmt: skip

    def trace(
        self, in_tree: Any, avals: Sequence[ShapedArray], differ: tuple[Names, ...]
    ) -> tuple[ClosedJaxpr, Any]:
        """(the program of a device, the structure of its result); traced once for equal ones.

        `differ`: the axes along which each argument differs.
        """

        def now() -> tuple[ClosedJaxpr, Any]:
            flat = Flat(self.fun, in_tree)
            scope: Any = AxisScope(context.trace, self.mesh_axes)
            if self.check:
                scope = Region(context.trace, self.mesh_axes, differ)
            with current_trace(scope):
                return trace_to_jaxpr(flat, avals, self.label), flat.out_tree

        if self.fresh:
            return now()
        key = ("shard_map", in_tree, tuple(avals), self.mesh_axes, differ if self.check else None)
        return shared(self.fun, key, now, degrade=True, also=node_types(in_tree))

    def _check_names(self, what: str, spec: PartitionSpec) -> None:
        names = [n for names in spec.names() for n in names]
        known = [n for n, _ in self.mesh_axes]
        wrong = [n for n in names if n not in known]
        if wrong:
            raise ValueError(
                f"shard_map {what} argument must refer to mesh axes that the function is run "
                f"over, {tuple(known)}, but {spec!r} refers to {wrong[0]!r}"
            )
        if len(set(names)) != len(names):
            raise ValueError(f"shard_map {what}: {spec!r} uses a mesh axis for two array axes")

    def _check_argument(self, where: str, aval: ShapedArray, spec: PartitionSpec) -> None:
        self._check_names("in_specs", spec)
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function {self.label!r} was given an in_specs entry "
                "which is too long to be compatible with the corresponding input value from the "
                f"function: in_specs is {spec!r}, of length {len(spec)}, but {where} is "
                f"{aval.str_short()}, of rank {aval.ndim}"
            )
        sizes = dict(self.mesh_axes)
        for axis, names in enumerate(spec.names()):
            cut = 1
            for name in names:
                cut *= sizes[name]
            if aval.shape[axis] % cut:
                shown = names[0] if len(names) == 1 else names
                raise ValueError(
                    f"shard_map applied to the function {self.label!r} was given argument arrays "
                    "with axis sizes that are not evenly divisible by the corresponding mesh axis "
                    f"sizes: the mesh has the axes {sizes}; {where}, of type {aval.str_short()}, "
                    f"corresponds to in_specs of value {spec!r}, which maps array axis {axis} (of "
                    f"size {aval.shape[axis]}) to mesh axis {shown!r} (of size {cut}), but {cut} "
                    f"does not evenly divide {aval.shape[axis]}"
                )

    def _check_result(self, aval: ShapedArray, spec: PartitionSpec) -> None:
        self._check_names("out_specs", spec)
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function {self.label!r} was given an out_specs entry "
                "which is too long to be compatible with the corresponding output value from the "
                f"function: out_specs is {spec!r}, of length {len(spec)}, but the result of each "
                f"device is {aval.str_short()}, of rank {aval.ndim}. For scalars use P()"
            )

    def _check_equal(
        self, body: ClosedJaxpr, in_specs: Sequence[Spec], out_specs: Sequence[PartitionSpec]
    ) -> None:
        given = [frozenset(n for names in spec for n in names) for spec in in_specs]
        own = frozenset(n for n, _ in self.mesh_axes)
        found = varying(body.jaxpr, given)
        for k, (names, spec) in enumerate(zip(found, out_specs, strict=True)):
            said = frozenset(n for names in spec.names() for n in names)
            wrong = sorted(map(str, (names & own) - said))
            if wrong:
                raise ValueError(
                    f"shard_map applied to the function {self.label!r} was given out_specs which "
                    "require replication which can't be statically inferred given the mesh "
                    f"{dict(self.mesh_axes)}: out_specs of result {k} is {spec!r}, which implies "
                    f"that it is the same along the mesh axes {wrong}, but it may differ there. "
                    "Name these axes in out_specs, make the result the same (psum, pmax, …), or "
                    "pass check_vma=False if it is the same for a reason that is not visible"
                )


def _as_tuples(spec: PartitionSpec) -> Spec:
    found = spec.names()
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _lifted(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """(the program with its constants as leading arguments, the constants)."""
    body = program.jaxpr
    found = body.derived.get("lifted")
    if found is None:
        lifted = body.replace(constvars=[], invars=[*body.constvars, *body.invars])
        found = body.derived.setdefault("lifted", ClosedJaxpr(lifted))
    return found, [as_array(c) for c in program.consts]


def smap(
    f: Callable[..., Any] | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any
) -> Any:
    """`shard_map` over one axis of the mesh in force, with axes as numbers in place of specs.

    in_axes, out_axes: which array axis is cut, or None; as in `vmap`.

    >>> import covector as cv
    >>> with cv.set_mesh(cv.make_mesh((1,), ('x',))):
    ...     f = cv.smap(lambda x: 2 * x, in_axes=0, out_axes=0, axis_name='x')
    ...     f(cv.numpy.arange(3)).tolist()
    [0, 2, 4]
    """

    def spec(axis: Any) -> Any:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return axes if axes is Infer else tree.map(spec, axes, is_leaf=lambda x: x is None)

    return shard_map(
        f, in_specs=specs(in_axes), out_specs=specs(out_axes), axis_names=frozenset((axis_name,))
    )
