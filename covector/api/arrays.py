"""Values at the door: to arrays of ours, from them, waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, tree
from covector.ir.values import as_numpy, typeof
from covector.runtime.array import Array, default_sharding, from_numpy, like, memory
from covector.sharding import NamedSharding, PartitionSpec, Sharding, get_mesh
from covector.trace.tracer import Tracer


def as_array(x: Any) -> Any:
    """`x` as an Array (itself if it is one, or a tracer)."""
    if type(x) is Array or isinstance(x, Tracer):
        return x
    aval = typeof(x)
    return from_numpy(as_numpy(x, aval), aval)


def block_until_ready(x: Any) -> Any:
    """Wait until every array in the tree `x` is computed; returns `x`.

    >>> import covector as cv
    >>> float(cv.block_until_ready(cv.numpy.ones(())))
    1.0
    """
    for leaf in tree.leaves(x):
        wait: Callable[[], Any] | None = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return x


def device_get(x: Any) -> Any:
    """The tree `x` with every array as a NumPy array of its own; random keys stay as they are.

    >>> import covector as cv
    >>> cv.device_get({"a": cv.numpy.arange(3)})
    {'a': array([0, 1, 2], dtype=int32)}
    """
    return tree.map(_get, x)


def _get(leaf: Any) -> Any:
    if not isinstance(leaf, Array) or isinstance(leaf.dtype, dtypes.ExtendedDType):
        return leaf
    return np.array(leaf)


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: Any = None
) -> Any:
    """The tree `x` with every leaf as an Array, on `device` if one is given.

    `device`: a Device, a Sharding, or a PartitionSpec for the mesh in force; or a tree of them that
    is a prefix of `x`.  NumPy arrays are copied: changing them later changes nothing here.  Raises
    ValueError where an array cannot be spread so.

    >>> import covector as cv
    >>> cv.device_put({"a": 1})
    {'a': Array(1, dtype=int32, weak_type=True)}
    """
    del src, donate, may_alias

    def put(where: Any, part: Any) -> Any:
        def one(leaf: Any) -> Any:
            return _put(leaf, where)

        return tree.map(one, part)

    return tree.map(put, device, x, is_leaf=lambda d: d is None)


def _put(x: Any, device: Any) -> Any:
    out = as_array(x)
    if device is None or isinstance(out, Tracer):
        return out
    if isinstance(device, PartitionSpec):
        device = NamedSharding(get_mesh(), device)
    if not isinstance(device, Sharding):
        device = default_sharding[0](device)
    device.check_compatible_aval(out.shape)
    return with_sharding(out, device)


def with_sharding(x: Array, sharding: Any) -> Array:
    """The same elements, in the same memory, as an array that is spread so."""
    placed = like(x, memory(x))
    placed._sharding = sharding
    return placed
