"""Devices: what `devices()` lists.  A process has N CPU devices that share one memory.

How many there are is said by the option `num_cpu_devices`, before or after they are first used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, final

from covector._base.config import config
from covector.runtime.pool import pool


@final
class Device:
    """One place where programs run.  Interned: equal devices are one object."""

    __slots__ = ("__weakref__", "device_kind", "id", "local_hardware_id", "platform",
                 "process_index")  # fmt: skip

    def __init__(self, platform: str, number: int, kind: str, process_index: int = 0) -> None:
        self.platform: Final = platform
        self.id: Final = number
        self.device_kind: Final = kind
        self.process_index: Final = process_index
        self.local_hardware_id: Final = number

    @property
    def host_id(self) -> int:
        """The process that owns the device (an older name of `process_index`)."""
        return self.process_index

    @property
    def client(self) -> Platform:
        """The platform this device belongs to."""
        return platforms.get(self.platform)

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes in arrays, and kept for new ones, or None where the platform does not know.

        Of CPU devices, which share one memory: `bytes_in_use`, the most that were
        (`peak_bytes_in_use`), `pool_bytes` (in use and kept), the bound of what is kept
        (`bytes_reservable_limit`) and the machine's memory (`bytes_limit`).

        >>> import covector as cv
        >>> x = cv.numpy.ones(1000)
        >>> cv.devices()[0].memory_stats()["bytes_in_use"] >= x.nbytes
        True
        """
        return self.client.memory_stats()

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> Any:
        return _find, (self.platform, self.id)


def _find(platform: str, number: int) -> Device:
    return platforms.get(platform).device(number)


class Platform:
    """The devices of one kind of hardware."""

    def __init__(
        self,
        name: str,
        count: int,
        kind: str = "",
        process_index: int = 0,
        statistics: Callable[[], dict[str, int]] | None = None,
    ) -> None:
        self.name: Final = name
        self.statistics: Final = statistics
        self.platform: Final = name
        self.process_index: Final = process_index
        self.devices: tuple[Device, ...] = ()
        self.kind = kind or name
        self.grow(count)

    def grow(self, count: int) -> None:
        """Has the devices up to `count`; the old ones stay the same objects."""
        have = self.devices[:count]
        new = (Device(self.name, n, self.kind, self.process_index) for n in range(len(have), count))
        self.devices = (*have, *new)

    def device(self, number: int) -> Device:
        """The device with this id."""
        if 0 <= number < len(self.devices):
            return self.devices[number]
        raise ValueError(f"{self.name} has devices 0 to {len(self.devices) - 1}; got {number}")

    def device_count(self) -> int:
        """How many there are."""
        return len(self.devices)

    def memory_stats(self) -> dict[str, int] | None:
        """What it knows of its devices' memory; see `Device.memory_stats`."""
        return None if self.statistics is None else self.statistics()

    def __repr__(self) -> str:
        return f"<platform {self.name}: {len(self.devices)} device(s)>"


class Platforms:
    """The platforms of this process, by name; backends add theirs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, Platform] = {}

    def get(self, name: str | None = None) -> Platform:
        """A platform by name; the default one for None."""
        if not self.known:
            self.add(Platform("cpu", cpu_device_count(), statistics=pool.statistics))
        if name is None:
            return self.known[default_backend()]
        found = self.known.get(name)
        if found is None:
            raise RuntimeError(
                f"Unknown backend {name}: the platforms of this process are {list(self.known)}"
            )
        return found

    def add(self, platform: Platform) -> None:
        """Makes a platform known, or replaces it."""
        with self.lock:
            self.known[platform.name] = platform


platforms: Final = Platforms()


def cpu_device_count() -> int:
    """How many CPU devices the process has: option `num_cpu_devices` (also set by the environment
    variable COVECTOR_NUM_CPU_DEVICES), or the flag that XLA reads, or one.
    """
    wanted = getattr(config, "num_cpu_devices", -1)
    if wanted is not None and wanted > 0:
        return wanted
    for word in os.environ.get("XLA_FLAGS", "").split():
        name, _, value = word.partition("=")
        if name == "--xla_force_host_platform_device_count" and value.isdigit():
            return max(1, int(value))
    return 1


def _follow(option: Any, event: str) -> None:
    """The option may change at any time: devices share one memory, and hold nothing."""
    cpu = platforms.known.get("cpu")
    if option.name == "num_cpu_devices" and cpu is not None:
        cpu.grow(cpu_device_count())


config.on_change(_follow)


def default_backend() -> str:
    """The name of the platform that serves where nothing else is said: 'cpu' as a rule."""
    wanted = (config.platforms or config.platform_name or "").split(",")[0]
    known = platforms.known
    return wanted if wanted in known else next(iter(known), "cpu")


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a platform, over all processes.

    Raises RuntimeError for a platform this process does not have.

    >>> devices("cpu")[0]
    CpuDevice(id=0)
    """
    return list(platforms.get(backend).devices)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process (default: this one)."""
    wanted = host_id if process_index is None else process_index
    here = platforms.get(backend)
    if wanted is not None and not 0 <= wanted < process_count():
        raise ValueError(f"Unknown process_index {wanted}: there are {process_count()}")
    index = here.process_index if wanted is None else wanted
    return [d for d in here.devices if d.process_index == index]


def device_count(backend: str | None = None) -> int:
    """How many devices a platform has."""
    return platforms.get(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """How many devices of a platform belong to this process."""
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among those that run the program together."""
    return platforms.get(backend).process_index


def process_count(backend: str | None = None) -> int:
    """How many processes run the program together."""
    return 1 + max(d.process_index for d in platforms.get(backend).devices)


def default_device() -> Device:
    """Where an array goes that nothing else places: option `default_device`, or the first."""
    wanted = config.default_device
    if wanted is None:
        return platforms.get().devices[0]
    return platforms.get(wanted).devices[0] if isinstance(wanted, str) else wanted
