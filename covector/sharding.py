"""How an array's elements are spread over devices, as plain values: meshes, specs, shardings.

An array is one buffer whatever its sharding; a sharding says which slices of it belong to whom.
"""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast, final

import numpy as np

from covector._base.containers import is_listed

Index = tuple[slice, ...]


@final
class AxisType(enum.Enum):
    """What a mesh axis is to a program: `Auto` here; the others are accepted and mean the same."""

    Auto = 1
    Explicit = 2
    Manual = 3

    def __repr__(self) -> str:
        return self.name


class DuplicateSpecError(ValueError):
    """A spec that uses a mesh axis twice."""


class _Unconstrained:
    """Stands in a spec for an axis that may be spread in any way."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"


@final
class PartitionSpec:
    """For each axis of an array, the mesh axis that it is cut along, a tuple of them, or None.

    Axes beyond the spec are not cut.

    >>> import covector as cv
    >>> cv.P('x', None, ('y', 'z'))
    P('x', None, ('y', 'z'))
    """

    UNCONSTRAINED = _Unconstrained()

    __slots__ = ("_partitions", "reduced", "unreduced")

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        self._partitions = tuple([_entry(p) for p in partitions])
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    def names(self) -> list[tuple[Any, ...]]:
        """The mesh axes of each array axis."""
        return [_names(p) for p in self._partitions]

    def update(self, **changes: Any) -> PartitionSpec:
        """This with some of partitions, unreduced, reduced changed."""
        partitions = changes.pop("partitions", self._partitions)
        fields = {"unreduced": self.unreduced, "reduced": self.reduced, **changes}
        return PartitionSpec(*partitions, **fields)

    def index(self, value: Any) -> int:
        """The first array axis whose entry is `value`."""
        return self._partitions.index(_entry(value))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, k: Any) -> Any:
        return self._partitions[k]

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return self._partitions == tuple(map(_entry, cast("tuple[Any, ...]", other)))
        return (
            isinstance(other, PartitionSpec)
            and self._partitions == other._partitions
            and (self.unreduced, self.reduced) == (other.unreduced, other.reduced)
        )

    def __hash__(self) -> int:
        return hash((self._partitions, self.unreduced, self.reduced))

    def __repr__(self) -> str:
        inside = [repr(p) for p in self._partitions]
        inside += [f"{k}={set(v)}" for k in ("unreduced", "reduced") if (v := getattr(self, k))]
        comma = "," if len(inside) == 1 else ""
        return f"P({', '.join(inside)}{comma})"

    def __reduce__(self) -> Any:
        return PartitionSpec, self._partitions


P = PartitionSpec


def _entry(p: Any) -> Any:
    """A tuple of one name is that name."""
    if not is_listed(p):
        return p
    names: tuple[Any, ...] = tuple(p)
    return names[0] if len(names) == 1 else names or None


def _names(p: Any) -> tuple[Any, ...]:
    if p is None or p is PartitionSpec.UNCONSTRAINED:
        return ()
    return cast("tuple[Any, ...]", p) if isinstance(p, tuple) else (p,)


class _MeshValue:
    """What meshes with and without devices share: axes by name."""

    __slots__ = ("axis_names", "axis_sizes", "axis_types")

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    def _set_axes(self, sizes: Sequence[int], names: Any, types: Any) -> None:
        names = tuple(names) if is_listed(names) else (names,)
        if len(set(names)) != len(names):
            raise ValueError(f"Mesh: axis_names must differ; got {names}")
        if types is None:
            types = AxisType.Auto
        types = tuple(types) if is_listed(types) else (types,) * len(names)
        if len(types) != len(names):
            raise ValueError(f"Mesh: one axis type for each of {names}; got {types}")
        self.axis_names, self.axis_types = names, types
        self.axis_sizes = tuple(int(n) for n in sizes)

    @property
    def shape(self) -> dict[Any, int]:
        """The size of each axis, by name."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs (name, size)."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    def _axes_text(self) -> str:
        axes = ", ".join(f"{k!r}: {n}" for k, n in self.shape_tuple)
        return f"{axes}{', ' if axes else ''}axis_types={self.axis_types}"


@final
class AbstractMesh(_MeshValue):
    """A mesh without devices: the names and sizes of its axes.

    >>> import covector as cv
    >>> cv.sharding.AbstractMesh((4, 2), ('x', 'y')).size
    8
    """

    __slots__ = ()

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: Any = None,
    ) -> None:
        del abstract_device
        names = tuple(axis_names) if is_listed(axis_names) else (axis_names,)
        if len(axis_sizes) != len(names):
            raise ValueError(
                f"AbstractMesh: one size for each axis; got the sizes {tuple(axis_sizes)} for "
                f"{names}"
            )
        self._set_axes(axis_sizes, names, axis_types)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and (self.shape_tuple, self.axis_types) == (
            other.shape_tuple,
            other.axis_types,
        )

    def __hash__(self) -> int:
        return hash((AbstractMesh, self.shape_tuple, self.axis_types))

    def __repr__(self) -> str:
        return f"AbstractMesh({self._axes_text()})"


class _Current(threading.local):
    """The meshes that are in force in a thread, innermost last."""

    stack: tuple[Any, ...] = ()


current = _Current()


@final
class Mesh(_MeshValue):
    """An array of devices whose axes have names.

    Usable as a context manager: `shard_map` without a mesh takes the one in force.

    >>> import covector as cv
    >>> mesh = cv.sharding.Mesh(cv.devices()[:1], ('x',))
    >>> mesh.shape
    {'x': 1}
    """

    __slots__ = ("devices",)

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        grid = np.empty(np.shape(devices), object)
        grid[...] = devices
        names = tuple(axis_names) if is_listed(axis_names) else (axis_names,)
        if grid.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        if len(set(grid.flat)) != grid.size:
            raise ValueError("Mesh: a device must not come twice")
        grid.flags.writeable = False
        self.devices = grid
        self._set_axes(grid.shape, names, axis_types)

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' numbers."""
        return np.array([d.id for d in self.devices.flat], np.int64).reshape(self.devices.shape)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The same axes, without devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def local_devices(self) -> list[Any]:
        """Those of this process."""
        return list(self.devices.flat)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of other processes take part."""
        return len({d.process_index for d in self.devices.flat}) > 1

    def __enter__(self) -> Mesh:
        current.stack = (*current.stack, self)
        return self

    def __exit__(self, *exc: object) -> None:
        current.stack = current.stack[:-1]

    def _key(self) -> Any:
        return (tuple(self.devices.flat), self.shape_tuple, self.axis_types)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __str__(self) -> str:
        return f"Mesh({self._axes_text()})"

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


class Sharding:
    """How arrays are spread over devices: which slices of a whole each device has."""

    __slots__ = ()

    @property
    def device_list(self) -> list[Any]:
        """The devices, in order."""
        raise NotImplementedError

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """For each device, the slices of an array of this shape that it has."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part on each device."""
        raise NotImplementedError

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        return set(self.device_list)

    @property
    def num_devices(self) -> int:
        """How many there are."""
        return len(self.device_list)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process reaches all of them."""
        return True

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process reaches any of them."""
        return True

    @property
    def addressable_devices(self) -> set[Any]:
        """Those that this process reaches."""
        return self.device_set

    @property
    def memory_kind(self) -> str:
        """The devices' memory that is meant."""
        return "device"

    def with_memory_kind(self, kind: str) -> Any:
        """Itself: devices have one kind of memory.  ValueError for another one."""
        if kind not in ("device", "unpinned_host"):
            raise ValueError(f"devices have the memory 'device'; got {kind!r}")
        return self

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """`devices_indices_map`, of the devices that this process reaches."""
        return self.devices_indices_map(global_shape)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether every device has the same elements of arrays of `ndim` axes."""
        if self.device_list != other.device_list:
            return False
        shape = (math.lcm(self.num_devices, 1),) * ndim
        return self.devices_indices_map(shape) == other.devices_indices_map(shape)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """ValueError where arrays of this shape cannot be spread so."""
        self.shard_shape(aval_shape)


@final
class SingleDeviceSharding(Sharding):
    """All elements on one device.

    >>> import covector as cv
    >>> cv.numpy.ones(2).sharding.num_devices
    1
    """

    __slots__ = ("_device",)

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        del memory_kind
        self._device = device

    @property
    def device_list(self) -> list[Any]:
        """The device."""
        return [self._device]

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all elements."""
        return True

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The whole."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """All of it."""
        return {self._device: (slice(None),) * len(global_shape)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device == other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind=device)"


@final
class NamedSharding(Sharding):
    """A mesh, and for each array axis the mesh axes that it is cut along.

    Raises ValueError for a mesh axis that is not there, DuplicateSpecError for one used twice.

    >>> import covector as cv
    >>> mesh = cv.make_mesh((1,), ('x',))
    >>> cv.NamedSharding(mesh, cv.P('x')).shard_shape((8, 4))
    (8, 4)
    """

    __slots__ = ("mesh", "spec")

    def __init__(self, mesh: Any, spec: Any, *, memory_kind: str | None = None) -> None:
        del memory_kind
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding: spec must be a PartitionSpec; got {spec!r}")
        check_spec(spec, mesh.axis_names, "NamedSharding")
        self.mesh, self.spec = mesh, spec

    def update(self, **changes: Any) -> NamedSharding:
        """This with mesh or spec changed."""
        return NamedSharding(changes.get("mesh", self.mesh), changes.get("spec", self.spec))

    @property
    def device_list(self) -> list[Any]:
        """The mesh's devices."""
        return list(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all elements."""
        return all(self._cuts(len(self.spec))[d] == 1 for d in range(len(self.spec)))

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which devices have the same elements."""
        used = {name for names in self.spec.names() for name in names}
        return frozenset(name for name in self.mesh.axis_names if name not in used)

    def _cuts(self, ndim: int) -> list[int]:
        """How many pieces each array axis is cut into."""
        sizes = self.mesh.shape
        found = [math.prod(sizes[k] for k in names) for names in self.spec.names()]
        return found + [1] * (ndim - len(found))

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Each axis divided by the sizes of its mesh axes; ValueError where it does not divide."""
        shape = tuple(global_shape)
        if len(self.spec) > len(shape):
            raise ValueError(
                f"{self!r} is for arrays with at least {len(self.spec)} axes; got one of shape "
                f"{shape}"
            )
        cuts = self._cuts(len(shape))
        for axis, (n, cut) in enumerate(zip(shape, cuts, strict=True)):
            if n % cut:
                raise ValueError(
                    f"Sharding spec {self.spec} implies that array axis {axis} is partitioned "
                    f"{cut} times, but does not evenly divide the dimension size {n}. Got shape: "
                    f"{shape} and sharding {self!r}"
                )
        return tuple(n // cut for n, cut in zip(shape, cuts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """For each device, the slices of an array of this shape that it has."""
        part = self.shard_shape(global_shape)
        sizes, cuts, names = self.mesh.shape, self._cuts(len(part)), self.spec.names()
        found: dict[Any, Index] = {}
        for place in np.ndindex(*self.mesh.axis_sizes):
            at = dict(zip(self.mesh.axis_names, place, strict=True))
            index: list[slice] = []
            for axis, n in enumerate(part):
                number = 0
                for name in names[axis] if axis < len(names) else ():
                    number = number * sizes[name] + at[name]
                whole = cuts[axis] == 1
                index.append(slice(None) if whole else slice(number * n, (number + 1) * n))
            found[self.mesh.devices[place]] = tuple(index)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (
            other.mesh,
            other.spec,
        )

    def __hash__(self) -> int:
        return hash((NamedSharding, self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec!r}, memory_kind=device)"


def check_spec(spec: PartitionSpec, axis_names: Sequence[Any], what: str) -> None:
    """Refuse a mesh axis that is not there, or is used twice."""
    used: set[Any] = set()
    for names in spec.names():
        for name in names:
            if name not in axis_names:
                raise ValueError(
                    f"{what}: Resource axis: {name} of {spec!r} is not found in mesh: "
                    f"{tuple(axis_names)}."
                )
            if name in used:
                raise DuplicateSpecError(
                    f"{what}: a mesh axis can be used for one array axis, but {spec!r} has "
                    f"duplicate entries for `{name}`"
                )
            used.add(name)


@final
class set_mesh:
    """The mesh in force: from now on, or in a `with` block.  None: none.

    >>> import covector as cv
    >>> with cv.set_mesh(cv.make_mesh((1,), ('x',))) as mesh:
    ...     cv.sharding.get_mesh().axis_names
    ('x',)
    """

    __slots__ = ("mesh", "previous")

    def __init__(self, mesh: Mesh | None) -> None:
        self.mesh, self.previous = mesh, current.stack
        current.stack = (*current.stack, mesh)

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *exc: object) -> None:
        current.stack = self.previous


use_abstract_mesh = set_mesh


def get_mesh() -> Any:
    """The mesh in force; an empty one if there is none."""
    mesh = current.stack[-1] if current.stack else None
    return Mesh(np.empty((), object), ()) if mesh is None else mesh


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh in force."""
    mesh = current.stack[-1] if current.stack else None
    return AbstractMesh((), ()) if mesh is None else mesh.abstract_mesh
