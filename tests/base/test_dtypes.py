"""Dtypes: messages, warnings, keys, and what JAX is not asked about."""

import copy
import enum
import pickle
import threading
import warnings

import numpy as np
import pytest

import covector.dtypes as cd
from covector._base.config import config


class Weak:
    """As an array of a tracer: it has a dtype and may be weak."""

    def __init__(self, dtype, weak_type):
        self.dtype, self.weak_type = np.dtype(dtype), weak_type


def test_explicit_64_bits_warn_at_the_users_line():
    for ask in (
        lambda: cd.result_type(np.float64),
        lambda: cd.check_user_dtype_supported("int64", "zeros"),
    ):
        with pytest.warns(UserWarning, match="is not available while enable_x64 is off") as caught:
            ask()
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="dtype int64 asked for by zeros .* truncated to int32"):
        assert cd.check_user_dtype_supported(np.int64, "zeros") == np.int32


def test_no_warning_without_an_explicit_request():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cd.check_user_dtype_supported(float) == np.float32
        assert cd.check_user_dtype_supported(None) == np.float32
        assert cd.result_type(np.ones(2), 1.0, np.float64(1)) == np.float32
        assert cd.canonicalize_dtype("float64") == np.float32
        with config.scoped(enable_x64=True):
            assert cd.check_user_dtype_supported(np.float64) == np.float64


def test_explicit_64_bits_as_error():
    with config.scoped(explicit_x64_dtypes="error"), pytest.raises(ValueError, match="not avail"):
        cd.check_user_dtype_supported(np.float64)
    with config.scoped(explicit_x64_dtypes="allow"):
        assert cd.check_user_dtype_supported(np.float64) == np.float64


@pytest.mark.parametrize("spec", ["O", "S3", "datetime64[s]", ">f4", [("a", "i4")], np.longdouble])
def test_unsupported_dtypes(spec):
    if np.dtype(spec) == np.float64:  # long double is double on some platforms
        pytest.skip("a plain dtype here")
    with pytest.raises(TypeError, match="zeros: arrays cannot have dtype"):
        cd.check_user_dtype_supported(spec, "zeros")
    assert not cd.is_supported(np.dtype(spec))


@pytest.mark.parametrize(
    "value", ["text", [1, 2], object(), np.array(["a"]), np.ones(2, ">f4"), np.datetime64("2020")]
)
def test_values_that_cannot_be_arrays(value):
    with pytest.raises(TypeError):
        cd.dtype(value)
    with pytest.raises(TypeError):
        cd.result_type(value, 1)


def test_dtype_of_values():
    class Number(enum.IntEnum):
        ONE = 1

    for value, expected, weak in (
        (True, np.bool_, False),
        (1, np.int32, True),
        (1.0, np.float32, True),
        (1j, np.complex64, True),
        (Number.ONE, np.int32, True),
        (np.float64(1), np.float32, False),
        (np.zeros(2, np.int64), np.int32, False),
        (np.zeros(2, cd.float0), cd.float0, False),
        (Weak("float16", True), np.float16, True),
    ):
        assert cd.dtype_and_weak_type(value) == (expected, weak)
        assert cd.dtype(value) == expected
        assert cd.is_weakly_typed(value) == (weak and type(value) is not Number)
    with config.scoped(enable_x64=True):
        assert cd.dtype(1) == np.int64
        assert cd.dtype(np.float64(1)) == np.float64
        assert (cd.default_int(), cd.default_float()) == (np.int64, np.float64)
        assert cd.default_complex() == np.complex128


def test_result_type_errors():
    with pytest.raises(ValueError, match="at least one"):
        cd.result_type()
    with pytest.raises(cd.TypePromotionError, match=r"float8_e5m2 and int4 do not promote to a co"):
        cd.result_type("float8_e5m2", "int4")
    with pytest.raises(cd.TypePromotionError, match=r"Python float and int4 .* fewer than 8 bits"):
        cd.result_type(1.0, "int4")
    with pytest.raises(cd.TypePromotionError, match=r"8 bits or fewer .*x.astype\('float32'\)"):
        cd.result_type("float8_e5m2", "float16")
    with (
        config.scoped(numpy_dtype_promotion="strict"),
        pytest.raises(cd.TypePromotionError, match=r"int32 .* numpy_dtype_promotion='strict'"),
    ):
        cd.result_type(np.int32(1), np.float32(1))
    for other in (np.float32, 1, cd.float0):
        with pytest.raises(ValueError, match="takes no part in type promotion"):
            cd.result_type(cd.threefry_key, other)
    with pytest.raises(ValueError, match="takes no part"):
        cd.promote_types("float32", "O")


def test_keys_and_float0_mix_with_their_own_kind():
    assert cd.result_type(cd.threefry_key, cd.threefry_key) is cd.threefry_key
    assert cd.result_type(cd.float0, cd.float0) == cd.float0
    assert cd.result_type(cd.threefry_key) is cd.threefry_key


def test_key_types():
    key = cd.threefry_key
    assert cd.key_type("threefry2x32") is key
    assert (str(key), key.name, key.itemsize) == ("key<fry>", "key<fry>", 8)
    assert key.physical == cd.physical_dtype(key) == np.uint64
    assert cd.physical_dtype(np.dtype("f4")) == np.float32
    assert cd.key_type("rbg").itemsize == 16
    assert pickle.loads(pickle.dumps(key)) is key
    assert copy.deepcopy(key) is key
    assert key != cd.key_type("rbg")
    assert hash(key) == hash(cd.KeyType("threefry2x32", "fry", 2))
    assert cd.register_key_type("threefry2x32", "fry", 2) is key
    with pytest.raises(ValueError, match="has key type key<fry> of 2 words already"):
        cd.register_key_type("threefry2x32", "other", 2)
    with pytest.raises(ValueError, match="unknown random generator 'dice'; there are 'threefry2"):
        cd.key_type("dice")


def test_key_words_are_little_endian():
    words = np.array([[1, 2], [3, 4]], "<u4")
    stored = words.view(np.dtype(cd.threefry_key.physical).newbyteorder("<"))
    assert stored.ravel().tolist() == [1 + (2 << 32), 3 + (4 << 32)]


def test_queries_about_kinds():
    assert [cd.kind_of(d) for d in map(np.dtype, ("?", "i1", "u8", "f2", "c8"))] == list("biufc")
    assert cd.kind_of(np.dtype(cd.bfloat16)) == "f"
    assert cd.kind_of(cd.threefry_key) == "k"
    assert cd.kind_of(cd.float0) == "0"
    assert cd.kind_of(np.dtype("O")) == "?"
    assert cd.itemsize_bits("int4") == 4
    for other in (cd.threefry_key, cd.float0):
        with pytest.raises(ValueError, match="itemsize_bits"):
            cd.itemsize_bits(other)
    with pytest.raises(ValueError, match="extended dtype"):
        cd.canonicalize_dtype(cd.threefry_key)
    assert cd.canonicalize_dtype(cd.threefry_key, allow_extended_dtype=True) is cd.threefry_key
    with pytest.raises(TypeError, match="no Python type"):
        cd.scalar_type_of(cd.float0)


def test_parts_and_complexes():
    assert cd.to_real_dtype(np.dtype("c8")) == np.float32
    assert cd.to_real_dtype(np.dtype("i4")) == np.int32
    assert cd.to_complex_dtype(np.dtype("f4")) == np.complex64
    assert cd.to_complex_dtype(np.dtype("f8")) == np.complex64
    with config.scoped(enable_x64=True):
        assert cd.to_complex_dtype(np.dtype("f8")) == np.complex128
        assert cd.to_complex_dtype(np.dtype("i8")) == np.complex128
        assert cd.to_complex_dtype(np.dtype("c8")) == np.complex64
        assert cd.to_complex_dtype(np.dtype(cd.bfloat16)) == np.complex64


def test_supports_inf():
    assert cd.supports_inf("float32")
    assert cd.supports_inf("bfloat16")
    assert cd.supports_inf("float8_e5m2")
    assert not cd.supports_inf("float8_e4m3fn")
    assert not cd.supports_inf("int32")


def test_machine_limits():
    assert cd.finfo("bfloat16").bits == 16
    assert cd.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert (cd.iinfo("int4").min, cd.iinfo("int4").max) == (-8, 7)


def test_issubdtype_with_unhashable_argument():
    with pytest.raises(TypeError):
        cd.issubdtype([1, 2], np.floating)
    assert cd.issubdtype(Weak("float16", False), np.floating)


def test_dtypes_of_objects_that_have_one():
    class Float(type):
        dtype = np.dtype("float16")

    scalar = Float("half", (), {})
    assert cd.as_dtype(scalar) == np.float16
    assert cd.result_type(scalar, 1) == np.float16


def test_promotion_from_threads():
    def work():
        with config.scoped(enable_x64=True):
            results.append(cd.result_type(np.int8, np.uint64(1)))

    results = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [np.dtype(np.float64)] * 4
    with pytest.warns(UserWarning, match="uint64"):
        assert cd.result_type(np.int8, np.uint64) == np.int32
