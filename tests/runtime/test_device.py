"""Devices and platforms, and how many threads programs use."""

import os
import pickle
import subprocess
import sys

import pytest

from covector._base.config import config
from covector.runtime import device, threads
from covector.runtime.device import Platform, Platforms


def test_devices():
    (cpu,) = device.devices()
    assert repr(cpu) == "CpuDevice(id=0)"
    assert str(cpu) == "cpu:0"
    assert (cpu.id, cpu.platform, cpu.device_kind, cpu.process_index) == (0, "cpu", "cpu", 0)
    assert (cpu.host_id, cpu.local_hardware_id) == (0, 0)
    stats = cpu.memory_stats()
    assert 0 <= stats["bytes_in_use"] <= stats["peak_bytes_in_use"] < stats["bytes_limit"]
    assert stats["bytes_in_use"] <= stats["pool_bytes"]
    assert cpu.client.device_count() == 1
    assert device.devices("cpu") == device.local_devices() == [cpu]
    assert device.device_count() == device.local_device_count() == 1
    assert device.default_backend() == "cpu"
    assert (device.process_index(), device.process_count()) == (0, 1)
    assert pickle.loads(pickle.dumps(cpu)) is cpu
    assert {cpu: 1}[cpu] == 1


def test_unknown_platforms_and_processes():
    with pytest.raises(RuntimeError, match=r"Unknown backend gpu.*cpu"):
        device.devices("gpu")
    with pytest.raises(ValueError, match="process_index 3"):
        device.local_devices(process_index=3)
    with pytest.raises(ValueError, match="devices 0 to 0"):
        device.platforms.get().device(1)


def test_default_device():
    cpu = device.devices()[0]
    assert device.default_device() is cpu
    with config.scoped(default_device="cpu"):
        assert device.default_device() is cpu
    with config.scoped(default_device=cpu):
        assert device.default_device() is cpu


def test_platforms_keep_their_devices_when_they_grow():
    known = Platforms()
    known.add(Platform("toy", 2, process_index=1))
    toy = known.get("toy")
    first = toy.devices
    toy.grow(4)
    assert toy.devices[:2] == first
    assert [d.id for d in toy.devices] == [0, 1, 2, 3]
    assert repr(toy.device(3)) == "ToyDevice(id=3)"
    assert "4 device(s)" in repr(toy)


@pytest.mark.parametrize(
    "variables",
    [{"XLA_FLAGS": "--xla_other=1 --xla_force_host_platform_device_count=3"},
     {"COVECTOR_NUM_CPU_DEVICES": "3"}],
)  # fmt: skip
def test_number_of_devices_from_the_environment(variables):
    program = "from covector.runtime.device import devices; print(devices())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=2)]"


def test_number_of_threads(monkeypatch):
    before = threads.num_threads()
    seen = []
    threads.follow(seen.append)
    try:
        threads.set_num_threads(3)
        assert threads.num_threads() == 3
        assert seen == [before, 3]
        for wrong, error in (
            (0, ValueError),
            (-1, ValueError),
            (2.0, TypeError),
            (True, TypeError),
        ):
            with pytest.raises(error, match="set_num_threads"):
                threads.set_num_threads(wrong)
        assert threads.num_threads() == 3
    finally:
        threads.set_num_threads(before)
        threads.followers.remove(seen.append)
    monkeypatch.setenv("COVECTOR_NUM_THREADS", "5")
    assert threads._chosen() == 5
    monkeypatch.setenv("COVECTOR_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="COVECTOR_NUM_THREADS"):
        threads._chosen()
    monkeypatch.delenv("COVECTOR_NUM_THREADS")
    assert threads._chosen() is None
    monkeypatch.setattr(threads, "_count", None)
    assert threads.num_threads() == threads.available_cpus() >= 1
