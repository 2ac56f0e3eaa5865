"""DLPack: to NumPy and back, every dtype, lifetimes, refusals."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.runtime import interchange
from covector.runtime.array import from_numpy, host
from covector.runtime.interchange import from_dlpack, to_dlpack
from covector.runtime.pool import block_size, pool

STANDARD = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip


def make(values, dtype):
    elements = np.array(values).astype(dtype)
    return from_numpy(elements, ShapedArray(elements.shape, elements.dtype))


@pytest.mark.parametrize("name", STANDARD)
def test_to_numpy_and_from_numpy(name):
    x = make([[0, 1, 2], [3, 4, 5]], name)
    theirs = np.from_dlpack(x)
    assert theirs.dtype == np.dtype(name)
    assert (theirs == host(x)).all()
    assert theirs.ctypes.data == x.unsafe_buffer_pointer()
    assert not theirs.flags.writeable
    ours = from_dlpack(theirs)
    assert ours.aval is x.aval
    assert (host(ours) == theirs).all()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_numpy_cannot_take(name):
    x = make([1, 2, 3], getattr(ml_dtypes, name))
    y = from_dlpack(x)
    assert y.dtype == x.dtype
    assert (host(y) == host(x)).all()


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
def test_versions(version):
    x = make([1, 2, 3], "float32")
    capsule = x.__dlpack__(max_version=version)
    wanted = "dltensor_versioned" if version and version[0] >= 1 else "dltensor"
    assert f'"{wanted}"' in repr(capsule)
    y = from_dlpack(capsule)
    assert y.tolist() == [1, 2, 3]
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    with pytest.raises(TypeError, match="nobody consumed"):
        from_dlpack(capsule)


def test_shared_memory_lives_as_long_as_anyone_needs_it():
    gc.collect()
    before = pool.stats().in_use
    x = make(range(1000), "float32")
    view, other = np.from_dlpack(x), from_dlpack(x)
    del x
    gc.collect()
    assert pool.stats().in_use == before + block_size(4000)
    assert view[999] == other.tolist()[999] == 999
    del view
    assert other.tolist()[5] == 5
    del other
    gc.collect()
    assert pool.stats().in_use == before
    assert not interchange._exports


def test_a_capsule_that_nobody_takes_is_released():
    gc.collect()
    before = pool.stats().in_use
    capsule = make(range(1000), "float32").__dlpack__()
    assert pool.stats().in_use > before
    del capsule
    gc.collect()
    assert pool.stats().in_use == before
    assert not interchange._exports


def test_copies():
    x = make(range(100), "float32")
    assert np.from_dlpack(x, copy=True).flags.writeable
    y = from_dlpack(x, copy=True)
    assert y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert from_dlpack(x, copy=False).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert from_dlpack(turned).tolist() == turned.tolist()
    with pytest.raises(ValueError, match="dense"):
        from_dlpack(turned, copy=False)


def test_strides_and_offsets_of_others_are_followed():
    base = np.arange(20, dtype=np.int32).reshape(4, 5)
    for view in (base[1:, ::2], base[::-1], base[2], base[:, 3]):
        assert from_dlpack(view).tolist() == view.tolist()
    assert from_dlpack(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert from_dlpack(np.array(2.5)).tolist() == 2.5
    assert from_dlpack(np.array(2.5)).dtype == np.float64


def test_refusals():
    x = make([1], "float32")
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="CPU"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack__(dl_device=(1, 0)) is not None
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="no type"):
        to_dlpack(make([1], ml_dtypes.int4))
    keys = from_numpy(np.zeros(2, np.uint64), ShapedArray((2,), dtypes.threefry_key))
    with pytest.raises(BufferError, match="no type"):
        keys.__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        from_dlpack([1, 2])
    capsule = x.__dlpack__()
    name = ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = interchange._Managed.from_address(name(capsule, b"dltensor"))
    managed.tensor.device_type = 2
    with pytest.raises(BufferError, match="host"):
        from_dlpack(capsule)


def test_with_the_oracle(jax):
    theirs = jax.numpy.arange(5.0)
    assert from_dlpack(theirs).tolist() == [0, 1, 2, 3, 4]
    back = jax.dlpack.from_dlpack(make([1, 2], "float32"))
    assert back.tolist() == [1, 2]
    half = jax.dlpack.from_dlpack(make([1, 2], ml_dtypes.bfloat16))
    assert half.dtype == ml_dtypes.bfloat16
    assert half.tolist() == [1, 2]
