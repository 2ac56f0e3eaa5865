"""The memory pool: classes, reuse, the bound, alignment, huge pages."""

import gc
import os

import numpy as np
import pytest

from covector.runtime import pool as pools
from covector.runtime.array import from_numpy
from covector.runtime.native import native
from covector.runtime.pool import PythonAllocator, block_size, pool

needs_native = pytest.mark.skipif(native() is None, reason="without the native runtime")


def floats(n):
    return from_numpy(np.ones(n, np.float32))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 512, 513, 640, 641, 1000, 1 << 20, (1 << 20) + 1])
def test_size_classes(n):
    size = block_size(n)
    assert size >= max(n, 64)
    assert size % 64 == 0
    assert size <= max(64, n + max(63, n // 4))
    assert block_size(size) == size


def test_blocks_come_back_and_are_used_again():
    gc.collect()
    pool.trim()
    gc.collect()
    before = pool.stats().in_use
    x = floats(1000)
    address = x.unsafe_buffer_pointer()
    assert address % 64 == 0
    assert pool.stats().in_use == before + block_size(4000)
    del x
    assert pool.stats().in_use == before
    assert pool.stats().cached >= 4000
    assert floats(1000).unsafe_buffer_pointer() == address


def test_a_view_keeps_the_memory_when_the_array_is_gone():
    gc.collect()
    before = pool.stats().in_use
    view = np.asarray(floats(1000))
    other = [floats(1000) for _ in range(3)]
    assert (view == 1).all()
    assert pool.stats().in_use == before + 4 * block_size(4000)
    del view, other
    assert pool.stats().in_use == before


def test_delete_waits_for_views():
    x = floats(1000)
    view = np.asarray(x)
    gc.collect()
    before = pool.stats().in_use
    x.delete()
    assert pool.stats().in_use == before
    del view
    assert pool.stats().in_use == before - block_size(4000)


def test_trim_and_limit():
    gc.collect()  # what other tests left in cycles, to be freed now and not halfway
    blocks = [floats(5000) for _ in range(4)]
    del blocks
    cached = pool.stats().cached
    assert cached >= 4 * 20000
    assert pool.trim() == cached
    assert pool.stats().cached == 0
    limit = pool.limit
    try:
        pool.set_limit(50_000)
        blocks = [floats(5000) for _ in range(4)]
        del blocks
        assert pool.stats().cached <= 50_000
        floats(100_000)
        assert pool.stats().cached <= 50_000
    finally:
        pool.set_limit(limit)
    with pytest.raises(ValueError, match="0 or more"):
        pool.set_limit(-1)


def test_peak_is_remembered():
    gc.collect()
    x = floats(300_000)
    assert pool.stats().peak >= pool.stats().in_use >= x.nbytes


@needs_native
def test_large_blocks_are_aligned_for_huge_pages():
    x = floats(3 << 20)
    assert x.unsafe_buffer_pointer() % pools.HUGE_PAGE == 0
    assert float(np.asarray(x)[-1]) == 1
    y = from_numpy(np.asarray(x) * 2)
    assert (np.asarray(y) == 2).all()


def test_python_allocator():
    own = PythonAllocator(limit=10_000)
    block = own.allocate(100)
    address = block.address
    assert address % 64 == 0
    view = np.asarray(block)
    view[:] = 7
    del block
    assert own.stats() == (128, 0, 128)
    del view
    assert own.stats() == (0, 128, 128)
    again = own.allocate(120)
    assert again.address == address
    del again
    big = own.allocate(20_000)
    del big
    assert own.stats().cached == 128
    assert own.trim(0) == 128


def test_limit_from_the_environment(monkeypatch):
    monkeypatch.setenv("COVECTOR_POOL_LIMIT", "1234")
    assert pools.default_limit() == 1234
    monkeypatch.setenv("COVECTOR_POOL_LIMIT", "a lot")
    with pytest.raises(ValueError, match="COVECTOR_POOL_LIMIT"):
        pools.default_limit()
    monkeypatch.delenv("COVECTOR_POOL_LIMIT")
    assert pools.default_limit() == pools.physical_memory() // 4
    if hasattr(os, "sysconf"):
        assert pools.physical_memory() > 1 << 26
