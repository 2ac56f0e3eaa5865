"""How an array's elements are spread over devices, as plain values."""

from __future__ import annotations

from typing import Any


class SingleDeviceSharding:
    """All elements on one device.

    >>> import covector as cv
    >>> cv.numpy.ones(2).sharding.num_devices
    1
    """

    __slots__ = ("_device",)

    def __init__(self, device: Any) -> None:
        self._device = device

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        return {self._device}

    @property
    def num_devices(self) -> int:
        """How many there are."""
        return 1

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process reaches all of them."""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all elements."""
        return True

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part on each device."""
        return tuple(global_shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device == other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r})"
