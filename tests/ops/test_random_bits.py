"""Random keys and bits: equal to the oracle bit for bit, by the NumPy rule and by the kernel."""

import numpy as np
import pytest

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Op
from tests.ops.filling import avals, describe, fill
from tests.ops.vector_ask import run_kernel
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
pytest.importorskip("jax.extend.random")

R = ops.random_bits
NAMES = "threefry2x32 random_wrap random_unwrap random_seed random_fold_in random_split random_bits"
SEEDS = [0, 1, -1, 7, 2**31, 2**32 - 1, 2**32, 2**40 + 5, -(2**40), 2**63 - 1, -(2**63)]


def words(keys):
    """Our keys as the oracle shows them."""
    return R.random_unwrap.numpy(np.asarray(keys))


def key_pair(seed, shape=()):
    """The same keys, ours and the oracle's."""
    theirs = jax.random.key(seed)
    if shape:
        theirs = jax.random.split(theirs, shape)
    return R.RandomWrap().numpy(np.asarray(jax.random.key_data(theirs))), theirs


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_seed(seed, x64):
    with jax.enable_x64(x64):
        wanted = jax.random.key_data(jax.random.key(seed))
        narrow = np.int64(seed) if x64 else np.int64(seed).astype(np.int32)
    np.testing.assert_array_equal(words(R.RandomSeed().numpy(narrow)), wanted)


@pytest.mark.parametrize("number", [0, 1, 5, 2**31, 2**32 - 1])
def test_fold_in(number):
    ours, theirs = key_pair(42)
    wanted = jax.random.key_data(jax.random.fold_in(theirs, number))
    np.testing.assert_array_equal(words(R.RandomFoldIn().numpy(ours, np.uint32(number))), wanted)


@pytest.mark.parametrize("shape", [(2,), (5,), (2, 3), (), (1000,)])
def test_split(shape):
    ours, theirs = key_pair(3)
    wanted = jax.random.key_data(jax.random.split(theirs, shape))
    np.testing.assert_array_equal(words(R.RandomSplit(shape).numpy(ours)), wanted)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("shape", [(), (1,), (37,), (3, 5), (2, 0), (7, 1, 11)])
def test_bits(width, shape):
    ours, theirs = key_pair(2024)
    with jax.enable_x64(True):
        wanted = answer("ops", lambda key: jax.random.bits(key, shape, f"uint{width}"), theirs)
    found = R.RandomBits(width, shape).numpy(ours)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_bits_of_many_keys():
    ours, theirs = key_pair(5, (2, 3))
    wanted = jax.vmap(jax.vmap(lambda k: jax.random.bits(k, (4,))))(theirs)
    np.testing.assert_array_equal(R.RandomBits(32, (4,)).numpy(ours), wanted)


@pytest.mark.parametrize("name", NAMES.split())
def test_kernel_equals_numpy(name):
    for sample in Op.registry[name].samples():
        arrays = fill(sample)
        out = sample.op.result(*avals(arrays, sample))
        wanted = sample.op.numpy(*arrays)
        outs, wanteds = (out, wanted) if sample.op.multiple_results else ((out,), (wanted,))
        found = run_kernel(sample.op, arrays, outs)
        for x, y, aval in zip(found, wanteds, outs, strict=True):
            y = np.asarray(y)
            assert x.shape == y.shape == aval.shape, describe(sample)
            assert x.dtype == y.dtype == dtypes.physical_dtype(aval.dtype), describe(sample)
            np.testing.assert_array_equal(x, y, describe(sample))


def test_counters_beyond_32_bits():
    """The high word of a counter counts: the kernel at an index past 2**32."""
    from covector.compiler.math.evaluate import evaluate_all
    from covector.ir import scalar

    parts = [scalar.name(n, "uint32") for n in "abcd"]
    outs = R.threefry2x32.element("uint32", *parts)
    big = 2**32 + 12345
    values = {"a": 1, "b": 2, "c": big >> 32, "d": big & 0xFFFFFFFF}
    found = evaluate_all(list(outs), {k: np.uint32(v) for k, v in values.items()})
    wanted = jax.extend.random.threefry_2x32(
        np.uint32([1, 2]), np.uint32([big >> 32, big & 0xFFFFFFFF])
    )
    np.testing.assert_array_equal(np.stack(found), wanted)


@pytest.mark.parametrize(
    ("op", "args", "error"),
    [
        (R.RandomUnwrap(), (ShapedArray((2,), "uint32"),), TypeError),
        (R.RandomWrap(), (ShapedArray((3,), "uint32"),), TypeError),
        (R.RandomWrap(), (ShapedArray((2,), "int32"),), TypeError),
        (R.RandomSeed(), (ShapedArray((), "float32"),), TypeError),
        (R.RandomBits(12, ()), (ShapedArray((), dtypes.threefry_key),), TypeError),
        (R.RandomBits(32, (-1,)), (ShapedArray((), dtypes.threefry_key),), ValueError),
        (R.RandomFoldIn(), (ShapedArray((), dtypes.threefry_key),) * 2, TypeError),
    ],
)
def test_wrong_arguments(op, args, error):
    with pytest.raises(error, match=op.name):
        op.result(*args)
