"""The parts of an array by device: what `addressable_shards` lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

Index = tuple[slice, ...]

#: What tells the shardings of an operation's results: (op, argument types, their shardings or
#: None, result types) -> as many, or None if nobody chose one.  The wiring puts it here.
spread: list[Callable[[Any, Any, Any, Any], Any]] = []


def shardings_of(op: Any, args: Any, avals: Any, outs: Any) -> tuple[Any, Any]:
    """(the shardings of `args`, those of the results `outs` of `op`); None where none is set."""
    given = tuple([getattr(x, "_sharding", None) for x in args])
    return given, spread[0](op, avals, given, outs)


@final
class Shard:
    """What one device holds of an array.

    `index`: the slices of the whole that it is; `replica_id`: which copy, 0 for the first;
    `data`: the elements, an array on that device.
    """

    __slots__ = ("_data", "_part", "device", "index", "replica_id")

    def __init__(
        self, device: Any, index: Index, replica_id: int, part: Callable[[Index, Any], Any]
    ) -> None:
        self.device: Final = device
        self.index: Final = index
        self.replica_id: Final = replica_id
        self._part: Final = part
        self._data: Any = None

    @property
    def data(self) -> Any:
        """The elements: in the array's own memory, or a copy of a part, made when first wanted."""
        if self._data is None:
            self._data = self._part(self.index, self.device)
        return self._data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={np.asarray(self.data)})"
        )


def by_device(x: Any, part: Callable[[Index, Any], Any]) -> list[Shard]:
    """The shards of `x`, one a device; equal parts are numbered as copies.

    `part(index, device)`: these elements as an array on that device.
    """
    copies: dict[Any, int] = {}
    found: list[Shard] = []
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        key = tuple((s.start, s.stop) for s in index)
        copies[key] = number = copies.get(key, -1) + 1
        found.append(Shard(device, index, number, part))
    return found
