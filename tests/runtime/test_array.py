"""`Array`: attributes, conversions, printing, pickling, state; with and without native parts."""

import copy
import ctypes
import gc
import operator
import pickle
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from covector import dtypes
from covector._base.errors import JaxRuntimeError
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime.array import Array, from_numpy
from covector.runtime.device import devices

NAMES = (
    "bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32",
    "complex64",
)  # fmt: skip
WIDE = ("int64", "uint64", "float64", "complex128")


def make(values, dtype=None, weak=False) -> Array:
    """An array that keeps the dtype given, 64 bits too."""
    elements = np.array(values, dtype)
    return from_numpy(elements, ShapedArray(elements.shape, elements.dtype, weak))


def key_array(*words) -> Array:
    elements = np.array(words, np.uint64)
    return from_numpy(elements, ShapedArray(elements.shape, dtypes.threefry_key))


def test_attributes():
    x = make([[1, 2, 3], [4, 5, 6]], "float32")
    assert x.aval is ShapedArray((2, 3), "float32")
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), 2, 6, 4, 24)
    assert x.dtype == np.float32
    assert x.weak_type is False
    assert len(x) == 2
    assert x.on_device_size_in_bytes() == 24
    assert x.is_fully_addressable
    assert x.is_fully_replicated
    assert x.__array_priority__ == 100
    with pytest.raises(AttributeError):
        x.shape = (6,)
    with pytest.raises(AttributeError, match="GPU"):
        _ = x.__cuda_array_interface__


def test_place():
    x = make([1.0], "float32")
    assert x.devices() == {devices()[0]}
    assert x.device == devices()[0]
    assert x.platform() == "cpu"
    assert not x.committed
    placed = arrays.like(x, x.buffer)
    placed._sharding = x.sharding
    assert placed.committed
    assert arrays.like(placed, x.buffer).committed


def test_shards():
    x = make([1.0, 2.0], "float32")
    (shard,) = x.addressable_shards
    assert shard.data is x
    assert x.addressable_data(0) is x
    assert len(x.global_shards) == 1
    index = "index=(slice(None, None, None),)"
    assert repr(shard) == f"Shard(device=CpuDevice(id=0), {index}, replica_id=0, data=[1. 2.])"


def test_no_constructor():
    with pytest.raises(TypeError, match="asarray"):
        Array([1, 2])
    with pytest.raises(TypeError):

        class Sub(Array):  # type: ignore[misc]
            pass


@pytest.mark.parametrize("name", NAMES + WIDE)
def test_numpy_round_trip(name):
    elements = np.array([[0, 1], [2, 100]]).astype(name)
    x = make(elements)
    view = np.asarray(x)
    assert view.dtype == elements.dtype
    assert view.shape == (2, 2)
    assert (view == elements).all()
    assert not view.flags.writeable
    assert view.flags.c_contiguous
    assert view.ctypes.data == x.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    scalar = make(elements[1, 1])
    assert scalar.item() == elements[1, 1].item()
    assert type(scalar.item()) is type(elements[1, 1].item())
    assert x.tolist() == elements.tolist()
    assert bool(scalar) is bool(elements[1, 1])
    if elements.dtype.kind in "iu":
        assert int(scalar) == operator.index(scalar) == 100
    if elements.dtype.kind != "c":
        assert float(scalar) == float(elements[1, 1])
    assert complex(scalar) == complex(elements[1, 1])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "uint4"])
def test_dtypes_beyond_numpy(name):
    elements = np.array([1, 2, 3]).astype(getattr(ml_dtypes, name))
    x = make(elements)
    assert np.asarray(x).dtype == elements.dtype
    assert (np.asarray(x) == elements).all()
    kind = int if "int" in name else float
    assert x.tolist() == [kind(1), kind(2), kind(3)]
    one = make(elements[1])
    assert one.item() == 2
    assert type(one.item()) is kind
    assert float(one) == 2.0
    assert bool(one)
    assert repr(x) == f"Array([1, 2, 3], dtype={name})"


def test_the_source_may_change_afterwards():
    elements = np.arange(10_000, dtype=np.float32)
    x = from_numpy(elements)
    elements[:] = 0
    assert x.tolist()[:3] == [0, 1, 2]


def test_memory_given_away_is_kept_not_copied():
    raw = np.empty(5000 + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    elements = raw[start : start + 5000]
    elements[:] = 3
    x = from_numpy(elements, give=True)
    assert x.unsafe_buffer_pointer() == elements.ctypes.data
    crooked = from_numpy(elements[1:], give=True)
    assert crooked.unsafe_buffer_pointer() % 64 == 0
    assert crooked.size == 4999
    turned = from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3)), give=True)
    assert turned.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_64_bits_narrow_by_default():
    assert from_numpy(np.arange(3)).dtype == np.int32
    assert from_numpy(np.arange(3.0)).dtype == np.float32
    x = from_numpy(1.5)
    assert x.aval is ShapedArray((), "float32", True)
    assert from_numpy(True).aval is ShapedArray((), "bool")
    with pytest.raises(ValueError, match=r"f32\[2\]"):
        from_numpy(np.ones(3), ShapedArray((2,), "float32"))
    with pytest.raises(TypeError):
        from_numpy("text")


def test_array_protocol():
    x = make([1.5, 2.5], "float32")
    assert x.__array__().ctypes.data == x.unsafe_buffer_pointer()
    assert np.array(x).flags.writeable
    assert np.asarray(x, np.int32).tolist() == [1, 2]
    assert x.__array__(np.float64).dtype == np.float64
    assert np.array(x, copy=False).ctypes.data == x.unsafe_buffer_pointer()
    fresh = np.array(x, copy=True)
    fresh[0] = 7
    assert x.tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, np.int32, copy=False)
    assert np.sin(x).dtype == np.float32
    with pytest.raises(TypeError, match="key_data"):
        np.asarray(key_array(1, 2))


@pytest.mark.skipif(arrays._native is None, reason="needs the native type")
def test_buffer_protocol():
    x = make([[1, 2, 3]], "int16")
    view = memoryview(x)
    assert (view.format, view.shape, view.strides, view.readonly) == ("h", (1, 3), (6, 2), True)
    assert view.tolist() == [[1, 2, 3]]
    x.delete()
    assert view.tolist() == [[1, 2, 3]]
    with pytest.raises(RuntimeError, match="deleted"):
        memoryview(x)
    with pytest.raises(BufferError, match="lacks this dtype"):
        memoryview(make([1], ml_dtypes.bfloat16))
    with pytest.raises((BufferError, TypeError), match=r"writable|read-only"):
        (ctypes.c_int16 * 3).from_buffer(make([1, 2, 3], "int16"))
    assert bytes(memoryview(make(1 + 2j, "complex64"))) == np.complex64(1 + 2j).tobytes()


def test_bytes():
    x = make([1, 2], "int16")
    assert x.tobytes() == bytes(x) == b"\x01\x00\x02\x00"
    y = make([[1, 2], [3, 4]], "int8")
    assert y.tobytes("F") == b"\x01\x03\x02\x04"


ONE_ELEMENT = {
    "float vector": (float, [1.0, 2.0], TypeError, "ndim=1"),
    "int of one-element vector": (int, [1.0], TypeError, "ndim=1"),
    "complex matrix": (complex, [[1.0]], TypeError, "ndim=2"),
    "float of complex": (float, 1j, TypeError, "complex"),
    "int of complex": (int, 1j, TypeError, "complex"),
    "bool of two": (bool, [1, 2], ValueError, "more than one element"),
    "bool of none": (bool, [], ValueError, "empty array"),
    "index of float": (operator.index, 1.0, TypeError, "integer scalar"),
    "index of vector": (operator.index, [1], TypeError, "integer scalar"),
    "index of bool": (operator.index, True, TypeError, "integer scalar"),
    "len of scalar": (len, 1.0, TypeError, "unsized"),
    "iteration over scalar": (iter, 1.0, TypeError, "0-d"),
    "item of two": (Array.item, [1, 2], ValueError, "size 1"),
    "hash": (hash, 1.0, TypeError, "unhashable"),
}


@pytest.mark.parametrize("case", ONE_ELEMENT)
def test_refused_conversions(case):
    convert, value, error, words = ONE_ELEMENT[case]
    with pytest.raises(error, match=words):
        convert(make(value))


def test_int_truncates_and_nan_is_true():
    assert int(make(-2.7, "float32")) == -2
    assert bool(make([[2.0]]))
    assert bool(make(float("nan"), "float32"))
    assert not bool(make(-0.0, "float32"))
    assert int(make(2**63 + 5, "uint64")) == 2**63 + 5
    assert int(make(-(2**63), "int64")) == -(2**63)
    with pytest.raises(OverflowError):
        int(make(float("inf"), "float32"))
    with pytest.raises(ValueError, match="NaN"):
        int(make(float("nan"), "float32"))
    assert hex(make(255, "int32")) == "0xff"
    assert [10, 20, 30][make(1, "int8")] == 20


def test_item_with_indices():
    x = make([[1, 2], [3, 4]], "int32")
    assert x.item(3) == x.item(1, 1) == x.item((1, 1)) == 4
    with pytest.raises(IndexError):
        x.item(4)


def test_iteration():
    x = make([[1, 2], [3, 4]], "int32")
    rows = list(x)
    assert [r.aval for r in rows] == [ShapedArray((2,), "int32")] * 2
    assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
    assert [float(v) for v in make([1.5, 2.5], "float32")] == [1.5, 2.5]
    assert [r.tolist() for r in reversed(x)] == [[3, 4], [1, 2]]
    assert list(make(np.zeros((0, 3)))) == []


def test_no_assignment():
    x = make([1.0, 2.0])
    with pytest.raises(TypeError, match=r"\.at\[\w+\]\.set\(y\)"):
        x[0] = 1


REPR = [
    (lambda: make([1.0, 2.0], "float32"), "Array([1., 2.], dtype=float32)"),
    (lambda: from_numpy(2.0), "Array(2., dtype=float32, weak_type=True)"),
    (lambda: make(np.zeros((0, 3)), "float32"), "Array([], shape=(0, 3), dtype=float32)"),
    (lambda: make([True, False]), "Array([ True, False], dtype=bool)"),
    (lambda: make([[1, 2], [3, 4]], "int32"),
     "Array([[1, 2],\n       [3, 4]], dtype=int32)"),
    (lambda: make(np.arange(17), "int32"),
     "Array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16],\n"
     "      dtype=int32)"),
    (lambda: key_array(), "Array((0,), dtype=key<fry>) overlaying:\n[]"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REPR)))
def test_repr(number):
    array, text = REPR[number]
    assert repr(array()) == text


@pytest.mark.parametrize(
    "value",
    [1.5, 3, True, 1 + 2j, [1.0, 2.5], [[1, 2], [3, 4]], [], np.zeros((2, 0)), np.arange(2000),
     np.linspace(0, 1, 9), [1e-10, 1e10], [[True, False]]],
)  # fmt: skip
def test_printing_is_that_of_the_oracle(jax, value):
    ours, theirs = from_numpy(np.asarray(value)), jax.numpy.asarray(np.asarray(value))
    assert repr(ours).split() == repr(theirs).split()
    assert str(ours) == str(theirs)
    assert format(ours) == format(theirs)


def test_format():
    assert f"{make(1.5, 'float32'):.2f}" == "1.50"
    assert f"{make(3, 'int32'):>4}" == "   3"
    with pytest.raises(TypeError):
        format(make([1.0]), ".2f")


@pytest.mark.parametrize(
    "x",
    [
        lambda: make([1.0, 2.0], "float32"), lambda: from_numpy(2.0), lambda: make(1, "int64"),
        lambda: make([1, 2], ml_dtypes.bfloat16), lambda: key_array(5, 6),
        lambda: make(np.zeros((0, 3))),
    ],
)  # fmt: skip
def test_copies_and_pickles(x):
    original = x()
    for other in (
        pickle.loads(pickle.dumps(original)),
        pickle.loads(pickle.dumps(original, protocol=5)),
        copy.copy(original),
        copy.deepcopy(original),
        original.clone(),
    ):
        assert other is not original
        assert other.aval is original.aval
        assert (arrays.host(other) == arrays.host(original)).all()
        if original.size:
            assert other.unsafe_buffer_pointer() != original.unsafe_buffer_pointer()


def test_delete():
    x = make([1.0, 2.0], "float32")
    assert not x.is_deleted()
    x.delete()
    x.delete()
    assert x.is_deleted()
    assert x.shape == (2,)
    for use in (np.asarray, repr, str, list, arrays.host, Array.block_until_ready, Array.tolist):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[2\]"):
            use(x)
    y = make(1.0, "float32")
    y.delete()
    for use in (float, int, bool, Array.item, operator.index):
        with pytest.raises((RuntimeError, TypeError)):
            use(y)


def test_a_failed_array_raises_its_error():
    x = arrays.wrap(ShapedArray((), "float32"), arrays.Failed(ZeroDivisionError("by nought")))
    for use in (float, np.asarray, Array.block_until_ready):
        with pytest.raises(JaxRuntimeError, match="by nought") as caught:
            use(x)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_pending_array_is_waited_for():
    pending = arrays.Pending()
    x = arrays.wrap(ShapedArray((), "float32"), pending)
    assert not x.is_ready()
    ready = make(2.5, "float32")
    threading.Timer(0.05, pending.fulfil, [ready.buffer]).start()
    assert float(x) == 2.5
    assert x.is_ready()
    assert x.block_until_ready() is x
    failing = arrays.Pending()
    y = arrays.wrap(ShapedArray((), "float32"), failing)
    failing.fulfil(arrays.Failed(ValueError("no")))
    with pytest.raises(JaxRuntimeError, match="no"):
        y.item()


def test_weak_references_and_collection():
    x = make([1.0])
    ref = weakref.ref(x)
    assert ref() is x
    del x
    assert ref() is None


def test_install_methods():
    had = arrays.Array.__dict__.get("a_test_method")
    assert had is None
    arrays.install_methods({"a_test_method": lambda x: x.shape})
    try:
        assert make([1.0, 2.0]).a_test_method() == (2,)
    finally:
        delattr(Array, "a_test_method")


def test_conversions_do_not_leak():
    x, y = make([1.0, 2.0], "float32"), make(2.5, "float32")
    gone = make(1.0)
    gone.delete()

    def work():
        float(y), bool(y), y.item(), int(y), x.tolist(), np.asarray(x), np.array(x), repr(y)
        list(x), pickle.dumps(y)
        for use in (lambda: float(x), lambda: bool(x), lambda: x.item(), lambda: float(gone)):
            with pytest.raises((TypeError, ValueError, RuntimeError)):
                use()

    work()
    gc.collect()
    own = [x, y, x.aval, y.aval, x.buffer, y.buffer]
    watched = [*own, x.dtype, None, True, float]
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(300):
        work()
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    changes = [b - a for a, b in zip(before, after, strict=True)]
    # Of what everyone uses, others may let go meanwhile; nothing may gain one for each round.
    assert all(abs(c) < 100 for c in changes[: len(own)]), changes
    assert all(c < 100 for c in changes), changes
