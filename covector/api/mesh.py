"""Meshes of this process's devices, and arrays put together from parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes
from covector.api.arrays import as_array, with_sharding
from covector.runtime.array import Array
from covector.runtime.device import devices as all_devices
from covector.sharding import Mesh


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the first devices there are, with axes of these sizes and names.

    Raises ValueError where there are too few devices.

    >>> import covector as cv
    >>> cv.make_mesh((1, 1), ('x', 'y')).shape
    {'x': 1, 'y': 1}
    """
    shape = tuple(int(n) for n in axis_shapes)
    given = list(all_devices() if devices is None else devices)
    wanted = math.prod(shape)
    if wanted > len(given):
        raise ValueError(
            f"Number of devices {len(given)} must be >= the product of mesh_shape {shape}; the "
            "option num_cpu_devices says how many CPU devices there are"
        )
    grid = np.empty(wanted, object)
    grid[:] = given[:wanted]
    return Mesh(grid.reshape(shape), axis_names, axis_types)


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """An array of which `data_callback(index)` gives the part of each device.

    `index`: a tuple of slices.

    >>> import covector as cv, numpy as np
    >>> where = cv.sharding.SingleDeviceSharding(cv.devices()[0])
    >>> cv.make_array_from_callback((4,), where, lambda index: np.arange(4)[index]).tolist()
    [0, 1, 2, 3]
    """
    places = sharding.devices_indices_map(tuple(shape))
    part = sharding.shard_shape(tuple(shape))
    whole: Any = None
    known: dict[Any, Any] = {}
    for index in places.values():
        key = tuple((s.start, s.stop) for s in index)
        if key in known:
            continue
        known[key] = data = np.asarray(data_callback(index), dtype)
        if data.shape != part:
            raise ValueError(
                f"make_array_from_callback: the part at {index} must be of shape {part}; got "
                f"{data.shape}"
            )
        if whole is None:
            whole = np.empty(tuple(shape), dtypes.canonicalize_dtype(data.dtype))
        whole[index] = data
    return with_sharding(as_array(whole), sharding)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """An array whose parts, one a device in the order of the sharding, are `arrays`.

    >>> import covector as cv
    >>> where = cv.sharding.SingleDeviceSharding(cv.devices()[0])
    >>> cv.make_array_from_single_device_arrays((2,), where, [cv.numpy.ones(2)]).tolist()
    [1.0, 1.0]
    """
    places = list(sharding.devices_indices_map(tuple(shape)).values())
    if len(places) != len(arrays):
        raise ValueError(
            f"make_array_from_single_device_arrays: one array for each of the {len(places)} "
            f"devices; got {len(arrays)}"
        )
    parts = iter(arrays)
    given = {tuple((s.start, s.stop) for s in index): next(parts) for index in places}

    def part(index: Any) -> Any:
        return given[tuple((s.start, s.stop) for s in index)]

    return make_array_from_callback(shape, sharding, part, dtype)
