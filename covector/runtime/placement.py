"""The parts of an array by device: what `addressable_shards` lists."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np


@final
class Shard:
    """What one device holds of an array.

    `index`: the slices of the whole that it is; `replica_id`: which copy, 0 for the first;
    `data`: the elements, an array on that device.
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Any, index: tuple[slice, ...], replica_id: int, data: Any) -> None:
        self.device: Final = device
        self.index: Final = index
        self.replica_id: Final = replica_id
        self.data: Final = data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={np.asarray(self.data)})"
        )


def on_one_device(x: Any) -> list[Shard]:
    """The shards of an array on one device: the whole of it."""
    return [Shard(x.device, (slice(None),) * x.ndim, 0, x)]
