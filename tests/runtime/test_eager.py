"""Operators and functions that learn: the record gives what Python gave, bit for bit."""

import operator
import warnings

import ml_dtypes
import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector._base.config import config
from covector.ir.avals import ShapedArray
from covector.runtime import entry as entries
from covector.runtime import sequence
from covector.runtime.array import Array, from_numpy, host
from covector.runtime.eager import EagerFunction, eager
from covector.runtime.native import native

pytestmark = pytest.mark.skipif(native() is None, reason="records are native")

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.matmul, divmod, operator.lt, operator.le, operator.eq, operator.ne, operator.gt,
    operator.ge,
]  # fmt: skip
DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]


def make(shape, dtype, seed=0) -> Array:
    rng = np.random.default_rng(seed)
    elements = rng.integers(0, 5, shape) if "float" not in dtype else rng.normal(size=shape)
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return from_numpy(elements.astype(dtype), ShapedArray(shape, dtype))


def attempt(fun, *args):
    """What a call gives, in a form that compares: types and bytes, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fun(*args)
    except Exception as error:
        return type(error), str(error)
    parts = result if isinstance(result, tuple) else (result,)
    return [(x.aval, host(x).tobytes()) for x in parts]


def fresh(fun, *args):
    """The call as it is without anything learned."""
    entries.clear_caches()
    return attempt(fun, *args)


def agree(fun, *args) -> None:
    first = fresh(fun, *args)
    for _ in range(3):
        assert attempt(fun, *args) == first


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_binary_operators(op, dtype):
    x, y = make((3, 3), dtype), make((3, 3), dtype, 1)
    agree(op, x, y)
    if op is not operator.matmul:
        agree(op, x, make((3,), dtype, 1))
        for number in (2, 1.5, True, -1, 300):
            agree(op, x, number)
            agree(op, number, x)


@pytest.mark.parametrize("pair", [("int32", "float32"), ("uint8", "int8"), ("bfloat16", "float16"),
                                  ("bool", "float32"), ("float32", "complex64")])  # fmt: skip
def test_mixed_types(pair):
    x, y = make((4,), pair[0]), make((4,), pair[1], 1)
    for op in (operator.add, operator.mul, operator.lt, operator.truediv):
        agree(op, x, y)
        agree(op, y, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_operators(dtype):
    for op in (operator.neg, operator.pos, abs, operator.invert):
        agree(op, make((2, 3), dtype))


def test_the_third_call_runs_the_record(monkeypatch):
    x = make((5,), "float32")
    entries.clear_caches()
    assert attempt(operator.add, x, 2.5) == attempt(operator.add, x, 2.5)
    assert entries.operator_entry("__add__").record_count() == 1
    place = 8  # of `__add__` in the table of Python functions
    kept, runtime = [], native()
    before = runtime.functions[place]
    runtime.set_method("__add__", lambda *args: kept.append(args) or NotImplemented)
    try:
        for number in (2.5, 4.0):
            assert (host(x + number) == host(x) + np.float32(number)).all()
        assert not kept
    finally:
        runtime.set_method("__add__", before)


INDICES = [
    0, 3, -1, -4, 4, 100, -5, -100, (1,), (1, 2), (-1, -1), (9, 0), slice(1, 3), slice(None),
    slice(None, None, -1), slice(-2, None), (slice(1, None), 2), (slice(None), slice(0, 3, 2)),
    None, (None, 1), ..., (..., 1), (1, ...), True, False, [0, 2], 2**40,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_indexing(number):
    x = from_numpy(np.arange(20, dtype=np.float32).reshape(4, 5))
    index = INDICES[number]
    agree(lambda: x[index])
    mask = from_numpy(np.array([True, False, True, False]))
    agree(lambda: x[mask])
    where = from_numpy(np.array([3, 0]))
    agree(lambda: x[where])
    agree(lambda: x[where, index] if type(index) is int else x[where])


def test_one_record_serves_every_integer_index():
    x = from_numpy(np.arange(10, dtype=np.float32))
    entries.clear_caches()
    assert [float(x[i]) for i in range(-10, 10)] == [i % 10 for i in range(-10, 10)]
    assert entries.operator_entry("__getitem__").record_count() == 1


def test_slices_are_compared_by_their_bounds():
    x = from_numpy(np.arange(10, dtype=np.float32))
    entries.clear_caches()
    for _ in range(3):
        for start in range(5):
            assert x[start : start + 2].tolist() == [start, start + 1]
    assert entries.operator_entry("__getitem__").record_count() == 5


def test_weak_types_and_x64():
    x = from_numpy(2.0)
    agree(operator.mul, x, 3)
    agree(operator.mul, x, make((2,), "bfloat16"))
    config.update("enable_x64", True)
    try:
        y = from_numpy(np.arange(3.0))
        assert y.dtype == np.float64
        for _ in range(4):
            assert (y * 0.1).tolist() == (np.arange(3.0) * 0.1).tolist()
    finally:
        config.update("enable_x64", False)
    for _ in range(3):
        assert (from_numpy(np.arange(3.0)) * 0.1).dtype == np.float32


def test_operators_inside_transformations_are_staged():
    x = make((5,), "float32")
    for _ in range(3):
        x * x
    assert "mul" in str(cv.make_jaxpr(lambda v: v * x)(x))
    constant = from_numpy(np.float32(3))
    for _ in range(3):
        constant * constant
    assert float(cv.grad(lambda v: (constant * constant) * v)(1.0)) == 9
    assert "mul" in str(cv.make_jaxpr(lambda v: (constant * constant) * v)(x))


def test_operators_of_others_take_their_turn():
    class Other:
        def __radd__(self, x):
            return "reflected"

        def __add__(self, x):
            return "forward"

        def __eq__(self, x):
            return "equal"

        __hash__ = None

    x = make((2,), "float32")
    for _ in range(3):
        assert Other() + x == "forward"
        assert x + Other() == "reflected" or pytest.fail("not asked")


def test_functions_that_learn():
    calls = []

    @eager(arrays=2, named=("scale",))
    def combine(x, y, axis=None, *, scale=1.0, mode="sum"):
        """Documented."""
        calls.append(1)
        total = (x + y) * scale
        return {"sum": total, "pair": (total, x)}.get(mode, total) if axis is None else total[axis]

    assert isinstance(combine, EagerFunction)
    assert combine.__doc__ == "Documented."
    assert combine.__name__ == "combine"
    assert repr(combine).startswith("<function test_functions_that_learn")
    x, y = make((4,), "float32"), make((4,), "float32", 1)
    for args, names in [((x, y), {}), ((x, y), {"scale": 3.0}), ((x, y), {"mode": "pair"}),
                        ((x, y, 1), {}), ((x, 2.0), {"scale": y}), ((x, y, 2), {})]:  # fmt: skip
        agree(lambda args=args, names=names: combine(*args, **names))
        before = len(calls)
        combine(*args, **names)
        assert len(calls) == before
    assert float(combine(x, y, 3)) == float(x[3] + y[3])


def test_functions_of_values_stay_in_python():
    @eager
    def positive(x):
        return x if float(x.sum()) > 0 else -x

    one, minus = from_numpy(np.ones(3, np.float32)), from_numpy(-np.ones(3, np.float32))
    for _ in range(4):
        assert positive(one).tolist() == [1, 1, 1]
        assert positive(minus).tolist() == [1, 1, 1]
    assert positive.record_count() == 0


def test_settings_of_fresh_objects_are_not_collected():
    @eager
    def scaled(x, setting):
        return x * len(setting)

    x = make((2,), "float32")
    for i in range(5):
        assert scaled(x, [i + 1000] * 3).tolist() == (x * 3).tolist()
        assert scaled(x, "a long name " * i).shape == (2,)
    assert scaled.record_count() <= 1


def test_watchful_options_stop_learning():
    x = make((3,), "float32")
    config.update("debug_nans", True)
    try:
        entries.clear_caches()
        for _ in range(4):
            x + x
        assert entries.operator_entry("__add__").record_count() == 0
    finally:
        config.update("debug_nans", False)


def test_long_composites_stay_in_python():
    @eager
    def tall(x):
        for _ in range(sequence.LONGEST + 1):
            x = x + 1
        return x

    x = make((3,), "float32")
    for _ in range(4):
        tall(x)
    assert tall.record_count() == 0


def test_results_that_are_arguments_or_constants():
    @eager
    def odd(x):
        y = x + 1
        return x, y, y, cnp.ones(3), 2.0 * x

    x = make((3,), "float32")
    agree(odd, x)
    entries.clear_caches()
    for _ in range(3):
        result = odd(x)
    assert odd.record_count() == 1
    assert result[0] is not x


# Rows by a Python integer: records without a program.


def learned(function, *args):
    """The result of the third call, which a record serves."""
    for _ in range(3):
        result = function(*args)
    return np.asarray(result)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool"])
@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 0)])
def test_a_row_by_an_integer_at_any_place(dtype, shape):
    x = make(shape, dtype)
    values, n = np.asarray(x), shape[0]
    for i in (*range(-n, n), -n - 1, n, 10**6):
        expected = values[max(min(i, n - 1), -n)]
        np.testing.assert_array_equal(learned(lambda i=i: x[i]), expected)
    assert x[0].aval == x[-n - 1].aval
    assert x[True].shape == (1, *shape)


def test_a_known_row_is_read_only_where_it_may_be():
    x, longer = make((5, 2), "float32"), make((4, 2), "float32", 1)
    for array in (x, longer, make((5, 2), "int8"), x):  # several records behind one pattern
        for i in range(-array.shape[0], array.shape[0]):
            np.testing.assert_array_equal(learned(lambda a=array, i=i: a[i]), host(array)[i])
    np.testing.assert_array_equal(x[np.int64(1)], host(x)[1])
    np.testing.assert_array_equal(x[1 << 80], x[10**6])
    jitted = cv.jit(lambda x: x[1] + x[-1])
    np.testing.assert_allclose(jitted(x), host(x)[1] + host(x)[-1])
    assert cv.device_put(x, cv.devices()[0])[2].device == cv.devices()[0]
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x[1]


@pytest.mark.parametrize("value", [7, 7.0, np.float32(7), "row"])
def test_a_row_is_set_by_an_integer(value):
    x = make((4, 3) if value == "row" else (4,), "float32")
    y = make((3,), "float32", 1) if value == "row" else value
    for i in (0, 3, -1, -4, 4, -5, 1):
        expected = np.asarray(x).copy()
        if -4 <= i < 4:
            expected[i] = np.asarray(y)
        np.testing.assert_array_equal(learned(lambda i=i: x.at[i].set(y)), expected)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(make(x.shape, "float32")))


def test_updates_by_slices_and_with_options_learn_too():
    x = make((6,), "float32")
    expected = np.asarray(x).copy()
    expected[1:5:2] += 1
    np.testing.assert_array_equal(learned(lambda: x.at[1:5:2].add(1.0)), expected)
    assert learned(lambda: x.at[9].set(1.0, mode="clip"))[5] == 1
    assert learned(lambda: x.at[9].set(1.0))[5] == np.asarray(x)[5]


def test_at_is_the_same_on_arrays_and_tracers():
    x = make((4,), "float32")
    assert repr(x.at) == f"IndexHelper({x!r})"
    assert repr(x.at[1]) == f"IndexedUpdate({x!r}, 1)"
    assert (x.at[1].array is x, x.at[..., 1].index) == (True, (..., 1))
    traced = cv.jit(lambda x, i: x.at[i].set(0))(x, 2)
    np.testing.assert_array_equal(np.asarray(traced), np.asarray(x.at[2].set(0)))
    assert type(x).at.__get__(None, type(x)) is type(x).at


def test_a_shape_alone_is_no_step():
    x = make((2, 3), "float32")
    shaped = eager(lambda x: cv.numpy.expand_dims(cv.numpy.reshape(x * 2, (3, 2)), 0))
    np.testing.assert_array_equal(
        learned(shaped, x), np.asarray(x).reshape(1, 3, 2) * np.float32(2)
    )
    twice = eager(lambda x: (y := cv.numpy.reshape(x + 1, (6,)), y, cv.numpy.reshape(y, (2, 3))))
    first, second, third = map(np.asarray, [twice(x) for _ in range(3)][-1])
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(third, np.asarray(x) + 1)


def test_an_argument_that_is_the_result_is_not_copied():
    x = make((3,), "float32")
    assert all(cv.numpy.clip(x) is x for _ in range(4))
