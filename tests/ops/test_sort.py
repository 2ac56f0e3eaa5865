"""Sorting and the greatest elements: equal to the oracle, exactly."""

import numpy as np
import pytest

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Op
from tests.ops.filling import avals, describe, fill
from tests.oracle import given

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
lax = jax.lax

ORACLE = {
    "sort": lambda op, *xs: lax.sort(xs, op.dimension, op.is_stable, op.num_keys),
    "top_k": lambda op, x: lax.top_k(x, op.k, axis=op.axis),
}


@pytest.mark.parametrize("name", ORACLE)
def test_result_and_numpy_equal_the_oracle(name):
    for sample in Op.registry[name].samples():
        arrays = fill(sample)
        outs = sample.op.result(*avals(arrays, sample))
        found = sample.op.numpy(*arrays)
        with jax.enable_x64(True):
            wanted = given("ops", lambda op=sample.op, xs=arrays: ORACLE[name](op, *xs))
        for x, aval, y in zip(found, outs, wanted, strict=True):
            assert x.shape == aval.shape == y.shape, describe(sample)
            assert x.dtype == aval.dtype == y.dtype, describe(sample)
            np.testing.assert_array_equal(x, y, describe(sample))
            if x.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(x), np.signbit(y), describe(sample))


@pytest.mark.parametrize(
    ("op", "args", "error"),
    [
        (ops.sort.Sort(1), (ShapedArray((3,), "float32"),), ValueError),
        (ops.sort.Sort(0), (ShapedArray((), "float32"),), ValueError),
        (ops.sort.Sort(0, True, 2), (ShapedArray((3,), "float32"),), ValueError),
        (ops.sort.Sort(0), (ShapedArray((3,), "f4"), ShapedArray((4,), "f4")), TypeError),
        (ops.sort.TopK(4, 0), (ShapedArray((3,), "float32"),), ValueError),
        (ops.sort.TopK(1, 1), (ShapedArray((3,), "float32"),), ValueError),
        (ops.sort.TopK(1, 0), (ShapedArray((3,), "complex64"),), ValueError),
    ],
)
def test_wrong_arguments(op, args, error):
    with pytest.raises(error, match=op.name):
        op.result(*args)
