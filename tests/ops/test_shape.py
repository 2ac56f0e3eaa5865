"""Rules of the ops that rearrange, cut and join: against the oracle, and kernel against NumPy."""

import numpy as np
import pytest

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent
from tests.ops.numpy_ask import run_kernel
from tests.oracle import given

lax = pytest.importorskip("jax.lax", reason="the oracle: pip install jax==0.10.2")

ORACLE = {
    "transpose": lambda op, x: lax.transpose(x, op.permutation),
    "broadcast_in_dim": lambda op, x: lax.broadcast_in_dim(x, op.shape, op.broadcast_dimensions),
    "reshape": lambda op, x: lax.reshape(x, op.new_sizes),
    "squeeze": lambda op, x: lax.squeeze(x, op.dimensions),
    "rev": lambda op, x: lax.rev(x, op.dimensions),
    "copy": lambda op, x: lax.rev(x, ()),
    "iota": lambda op: lax.broadcasted_iota(op.dtype, op.shape, op.dimension),
    "slice": lambda op, x: lax.slice(x, op.start_indices, op.limit_indices, op.strides),
    "pad": lambda op, x, v: lax.pad(x, v, op.padding_config),
    "concatenate": lambda op, *xs: lax.concatenate(xs, op.dimension),
    "split": lambda op, x: lax.split(x, op.sizes, op.axis),
}
OPS = {name: ops.shape.Op.registry[name] for name in ORACLE}
SAMPLES = [s for op in OPS.values() for s in op.samples()]


def filled(aval, seed=0):
    """An array of `aval` with every element different, where the dtype has as many values."""
    rng = np.random.default_rng(seed)
    dtype = dtypes.physical_dtype(aval.dtype)
    numbers = rng.permutation(aval.size).reshape(aval.shape) - aval.size // 3
    if dtype.kind == "b":
        return rng.integers(0, 2, aval.shape).astype(bool)
    if dtype.kind == "c":
        return (numbers + 1j * numbers[..., ::-1] if aval.ndim else numbers).astype(dtype)
    return np.asarray(numbers).astype(dtype)


def describe(sample):
    return f"{sample.op}{[a.str_short() for a in sample.args]}"


@pytest.mark.parametrize("sample", SAMPLES, ids=describe)
def test_result_and_numpy_equal_the_oracle(sample, jax):
    arrays = [filled(a, k) for k, a in enumerate(sample.args)]
    found, out = sample.op.numpy(*arrays), sample.op.result(*sample.args)
    with jax.enable_x64(True):
        wanted = given("ops", lambda: ORACLE[sample.op.name](sample.op, *arrays))
    if not sample.op.multiple_results:
        found, out, wanted = [found], [out], [wanted]
    assert len(found) == len(out) == len(wanted)
    for x, aval, y in zip(found, out, wanted, strict=True):
        assert aval.shape == x.shape == y.shape
        assert aval.dtype == x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op.kernel is not None], ids=describe)
def test_kernel_equals_numpy(sample):
    arrays = [filled(a, k) for k, a in enumerate(sample.args)]
    np.testing.assert_array_equal(
        run_kernel(sample.op, sample.args, arrays), sample.op.numpy(*arrays)
    )


@pytest.mark.parametrize("name", ORACLE)
def test_every_rule_is_there(name):
    op = OPS[name]
    for rule in ("numpy", "jvp", "transpose", "batch", "stablehlo", "samples"):
        assert getattr(op, rule) is not None, rule
    assert (op.kernel is None) == (op.decompose is not None)
    assert name == "iota" or not isinstance(op.transpose, Absent)


KEYS = ShapedArray((2, 3), dtypes.threefry_key)
KEY_CASES = [
    ops.shape.Transpose((1, 0)),
    ops.shape.BroadcastInDim((4, 2, 3), (1, 2)),
    ops.shape.Reshape((6,)),
    ops.shape.Rev((1,)),
    ops.shape.Slice((0, 1), (2, 3)),
    ops.shape.Copy(),
]


@pytest.mark.parametrize("op", KEY_CASES, ids=repr)
def test_keys_move_like_other_elements(op):
    array = filled(ShapedArray(KEYS.shape, dtypes.physical_dtype(KEYS.dtype)))
    assert op.result(KEYS).dtype == KEYS.dtype
    found = run_kernel(op, (KEYS,), [array])
    np.testing.assert_array_equal(found, op.numpy(array))


F = "float32"
X = ShapedArray((3, 4), F)
REFUSED = [
    (TypeError, ops.shape.Slice((0, 0), (4, 4)), (X,)),
    (TypeError, ops.shape.Slice((-1, 0), (1, 4)), (X,)),
    (TypeError, ops.shape.Slice((2, 0), (1, 4)), (X,)),
    (TypeError, ops.shape.Slice((0, 0), (1, 4), (1,)), (X,)),
    (TypeError, ops.shape.Slice((0, 0), (1, 4), (0, 1)), (X,)),
    (ValueError, ops.shape.Pad(((1, 1, 0),)), (X, ShapedArray((), F))),
    (TypeError, ops.shape.Pad(((1, 1, 0),) * 2), (X, ShapedArray((), "int32"))),
    (ValueError, ops.shape.Pad(((1, 1, 0),) * 2), (X, ShapedArray((2,), F))),
    (ValueError, ops.shape.Pad(((1, 1, -1),) * 2), (X, ShapedArray((), F))),
    (ValueError, ops.shape.Pad(((-3, -1, 0),) * 2), (X, ShapedArray((), F))),
    (ValueError, ops.shape.Concatenate(0), ()),
    (TypeError, ops.shape.Concatenate(2), (X, X)),
    (TypeError, ops.shape.Concatenate(0), (X, ShapedArray((4,), F))),
    (TypeError, ops.shape.Concatenate(0), (X, ShapedArray((3, 2), F))),
    (TypeError, ops.shape.Concatenate(0), (X, ShapedArray((3, 4), "int32"))),
    (TypeError, ops.shape.Rev((0, 0)), (X,)),
    (TypeError, ops.shape.Rev((2,)), (X,)),
    (TypeError, ops.shape.Rev((-1,)), (X,)),
    (ValueError, ops.shape.Squeeze((0,)), (X,)),
    (ValueError, ops.shape.Squeeze((5,)), (X,)),
    (TypeError, ops.shape.Iota(np.dtype(bool), (3,), 0), ()),
    (ValueError, ops.shape.Iota(np.dtype(int), (3,), 1), ()),
    (TypeError, ops.shape.Iota(np.dtype(int), (-3,), 0), ()),
    (ValueError, ops.shape.Split((1, 1), 1), (X,)),
    (ValueError, ops.shape.Split((1, 1), 3), (X,)),
    (ValueError, ops.shape.Split((-1, 5), 1), (X,)),
    (TypeError, ops.shape.Transpose((0, 0)), (X,)),
    (TypeError, ops.shape.Reshape((5,)), (X,)),
    (TypeError, ops.shape.Reshape((6, -2)), (X,)),
    (TypeError, ops.shape.BroadcastInDim((3, 5), (0, 1)), (X,)),
    (TypeError, ops.shape.BroadcastInDim((3,), (0, 1)), (X,)),
    (TypeError, ops.shape.BroadcastInDim((2, 3, 4), (0,)), (X,)),
]


@pytest.mark.parametrize(("kind", "op", "avals"), REFUSED, ids=lambda v: str(v)[:60])
def test_wrong_arguments_are_refused_by_name(kind, op, avals):
    with pytest.raises(kind, match=f"^{op.name}"):
        op.result(*avals)


def test_weak_types_are_kept_unless_a_strong_operand_joins():
    weak, strong = ShapedArray((2,), F, True), ShapedArray((2,), F)
    scalar = ShapedArray((), F, True)
    assert ops.shape.Rev((0,)).result(weak).weak_type
    assert ops.shape.Pad(((1, 0, 0),)).result(weak, scalar).weak_type
    assert not ops.shape.Pad(((1, 0, 0),)).result(strong, scalar).weak_type
    assert ops.shape.Concatenate(0).result(weak, weak).weak_type
    assert not ops.shape.Concatenate(0).result(weak, strong).weak_type
