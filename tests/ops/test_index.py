"""Dynamic slices, gather and scatter: against the oracle, and kernels against NumPy."""

import itertools

import numpy as np
import pytest

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ir.op import Op
from covector.ops.gather import Gather, GatherDimensionNumbers, GatherScatterMode
from covector.ops.scatter import ScatterDimensionNumbers, ScatterOp
from covector.ops.slicing import DynamicSlice, DynamicUpdateSlice
from tests.ops.numpy_ask import run_kernel
from tests.oracle import given

lax = pytest.importorskip("jax.lax", reason="the oracle: pip install jax==0.10.2")

SCATTERS = ["scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"]
NAMES = ["dynamic_slice", "dynamic_update_slice", "gather", *SCATTERS]
SAMPLES = [s for name in NAMES for s in Op.registry[name].samples()]


def oracle(op, *args):
    """What JAX's primitive of the same name gives."""
    options = {"allow_negative_indices": False}
    if isinstance(op, DynamicSlice):
        return lax.dynamic_slice(args[0], args[1:], op.slice_sizes, **options)
    if isinstance(op, DynamicUpdateSlice):
        return lax.dynamic_update_slice(args[0], args[1], args[2:], **options)
    params = op.params
    params["mode"] = lax.GatherScatterMode[op.mode.name]
    if isinstance(op, Gather):
        params["dimension_numbers"] = lax.GatherDimensionNumbers(*op.dimension_numbers)
        return lax.gather(*args, **params)
    params["dimension_numbers"] = lax.ScatterDimensionNumbers(*op.dimension_numbers)
    return getattr(lax, op.name.replace("-", "_"))(*args, **params)


def concrete(sample, seed=0):
    """Arrays for the arguments of a sample: small whole numbers, exact in every dtype."""
    rng = np.random.default_rng(seed)
    out = []
    for a in sample.args:
        if isinstance(a, ShapedArray):
            numbers = rng.integers(0 if a.dtype.kind in "bu" else -3, 4, a.shape)
            a = np.asarray(numbers).astype(a.dtype)
        out.append(np.asarray(a))
    return out


def avals_of(arrays):
    return [ShapedArray(a.shape, a.dtype) for a in arrays]


def describe(sample):
    return f"{sample.op}"[:120]


def plain(x):
    """bfloat16 as float32: NumPy's comparison of the former knows no NaN."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def check(op, arrays, jax, kernel=True, compare=True):
    out = op.result(*avals_of(arrays))
    found = op.numpy(*arrays)
    assert out.shape == found.shape
    assert out.dtype == found.dtype
    if compare:
        with jax.enable_x64(True):
            wanted = np.asarray(given("ops", lambda: oracle(op, *arrays)))
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(plain(found), plain(wanted))
    if kernel or not compare:
        kernel_found = run_kernel(op, avals_of(arrays), arrays)
        np.testing.assert_array_equal(plain(kernel_found), plain(found))


@pytest.mark.parametrize("sample", SAMPLES, ids=describe)
def test_samples_equal_the_oracle(sample, jax):
    check(sample.op, concrete(sample), jax)


class Configuration:
    """Random valid dimension numbers: shapes of operand, indices and result of a gather."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        ndim = rng.integers(0, 5)
        self.operand = tuple(rng.integers(1, 5, ndim).tolist())
        roles = rng.choice(["window", "dropped", "batch"], ndim, p=[0.5, 0.3, 0.2])
        operand_batch = [d for d in range(ndim) if roles[d] == "batch"]
        dropped = [d for d in range(ndim) if roles[d] == "dropped"]
        window = [d for d in range(ndim) if roles[d] == "window"]
        indexed = [d for d in dropped + window if rng.random() < 0.7]
        rng.shuffle(indexed)
        free = rng.integers(1, 4, rng.integers(0, 3)).tolist()
        batch_axes = [*(self.operand[d] for d in operand_batch), *free]
        order = rng.permutation(len(batch_axes))
        self.batch = tuple(batch_axes[k] for k in order)
        indices_batch = [int(np.flatnonzero(order == k)[0]) for k in range(len(operand_batch))]
        out_ndim = len(self.batch) + len(window)
        offsets = sorted(rng.permutation(out_ndim)[: len(window)].tolist())
        self.numbers = tuple(map(tuple, (offsets, dropped, indexed, operand_batch, indices_batch)))
        self.sizes = tuple(
            int(rng.integers(0, n + 1)) if d in window and rng.random() < 0.6
            else n if d in window else 1
            for d, n in enumerate(self.operand)
        )  # fmt: skip
        shape, batch = [None] * out_ndim, iter(self.batch)
        for d, k in zip(offsets, window, strict=True):
            shape[d] = self.sizes[k]
        self.out = tuple(next(batch) if n is None else n for n in shape)
        dtype = rng.choice(["int32", "int64", "int8", "uint8", "uint32"])
        high = max(self.operand, default=1) + 2
        low = 0 if dtype[0] == "u" else -2
        self.indices = rng.integers(low, high, (*self.batch, len(indexed))).astype(dtype)
        self.mode = rng.choice([GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP])

    def array(self, shape, dtype="float32"):
        return self.rng.integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("seed", range(60))
def test_gather_with_random_dimension_numbers(seed, jax):
    c = Configuration(seed)
    op = Gather(GatherDimensionNumbers(*c.numbers), c.sizes, mode=c.mode)
    check(op, [c.array(c.operand), c.indices], jax, kernel=np.prod(c.out) <= 100)


@pytest.mark.parametrize("seed", range(60))
def test_scatter_with_random_dimension_numbers(seed, jax):
    c = Configuration(seed)
    kind = Op.registry[SCATTERS[seed % len(SCATTERS)]]
    op = kind(ScatterDimensionNumbers(*c.numbers), mode=c.mode)
    arrays = [c.array(c.operand), c.indices, c.array(c.out)]
    # XLA's rewriting of scatters without index components is wrong or fails.
    check(op, arrays, jax, np.prod(c.out) <= 60, compare=len(c.numbers[2]) > 0)


INDEX_PATTERNS = [
    ((4, 5), lambda x, i: x[i]),
    ((4, 5), lambda x, i: x[:, i]),
    ((4, 5), lambda x, i: x[i, i]),
    ((4, 5, 3), lambda x, i: x[i, :, i]),
    ((4, 5, 3), lambda x, i: x[1:3, i[:, None], i % 3]),
    ((4, 5, 3), lambda x, i: x[..., i, None]),
]


@pytest.mark.parametrize("mapped", [None, (0, 0), (None, 0), (0, None)], ids=str)
@pytest.mark.parametrize("pattern", range(len(INDEX_PATTERNS)))
def test_what_indexing_binds_in_the_oracle(pattern, mapped, jax):
    """The very gathers (and scatters, their transposes) that indexing gives, mapped or not."""
    shape, fun = INDEX_PATTERNS[pattern]
    index = np.array([0, 3, -1, 7, 2], np.int32)
    x = np.arange(2 * np.prod(shape), dtype=np.float32).reshape(2, *shape)
    mapped_index = np.stack([index, index[::-1]])
    if mapped is None:
        args, mapped_fun = (x[0], index), fun
    else:
        args = (x if mapped[0] == 0 else x[0], mapped_index if mapped[1] == 0 else index)
        mapped_fun = jax.vmap(fun, mapped)
    seen = set()

    def walk(jaxpr, consts, values):
        env = dict(zip(jaxpr.constvars + jaxpr.invars, [*consts, *values], strict=True))
        for eqn in jaxpr.eqns:
            ins = [v.val if hasattr(v, "val") else env[v] for v in eqn.invars]
            if eqn.primitive.name in ("jit", "pjit"):
                inner = eqn.params["jaxpr"]
                outs = walk(inner.jaxpr, inner.consts, ins)
            else:
                outs = eqn.primitive.bind(*ins, **eqn.params)
                outs = outs if eqn.primitive.multiple_results else [outs]
                if eqn.primitive.name in ("gather", "scatter-add"):
                    seen.add(eqn.primitive.name)
                    compare_with_equation(eqn, [np.asarray(i) for i in ins], np.asarray(outs[0]))
            env.update(zip(eqn.outvars, outs, strict=True))
        return [v.val if hasattr(v, "val") else env[v] for v in jaxpr.outvars]

    closed = jax.make_jaxpr(mapped_fun)(*args)
    (out,) = walk(closed.jaxpr, closed.consts, args)
    closed = jax.make_jaxpr(lambda x, i: jax.vjp(lambda x: mapped_fun(x, i), x)[1](out)[0])(*args)
    walk(closed.jaxpr, closed.consts, args)
    assert seen == {"gather", "scatter-add"}


def compare_with_equation(eqn, arrays, wanted):
    op = Op.registry[eqn.primitive.name]
    params = {k: v for k, v in eqn.params.items() if k in op._fields}
    kind = ScatterDimensionNumbers if issubclass(op, ScatterOp) else GatherDimensionNumbers
    params["dimension_numbers"] = kind(*map(tuple, eqn.params["dimension_numbers"]))
    params["mode"] = GatherScatterMode[eqn.params["mode"].name]
    op = op(**params)
    assert op.result(*avals_of(arrays)).shape == wanted.shape
    np.testing.assert_array_equal(op.numpy(*arrays), wanted)


def test_keys_are_gathered_and_sliced():
    aval = ShapedArray((3,), dtypes.threefry_key)
    keys = np.array([5, 6, 7], np.uint64)
    index = np.array([[2], [5]], np.int32)
    numbers = GatherDimensionNumbers((), (0,), (0,))
    for mode, last in ((GatherScatterMode.CLIP, 7), (GatherScatterMode.FILL_OR_DROP, 2**64 - 1)):
        op = Gather(numbers, (1,), mode=mode)
        assert op.result(aval, avals_of([index])[0]).dtype == dtypes.threefry_key
        assert op.numpy(keys, index).tolist() == [7, last]
        found = run_kernel(op, (aval, avals_of([index])[0]), [keys, index])
        assert found.tolist() == [7, last]
    start = np.int32(1)
    op = DynamicSlice((2,))
    assert op.result(aval, I0).dtype == dtypes.threefry_key
    assert op.numpy(keys, start).tolist() == [6, 7]


def test_of_duplicate_updates_the_last_stays():
    op = Op.registry["scatter"](ScatterDimensionNumbers((), (0,), (0,)))
    arrays = [np.zeros(3, "f"), np.array([[1], [1], [1]]), np.array([7, 8, 9], "f")]
    assert op.numpy(*arrays).tolist() == [0, 9, 0]
    assert run_kernel(op, avals_of(arrays), arrays).tolist() == [0, 9, 0]


F = ShapedArray((3, 4), "float32")
I1 = ShapedArray((3, 1), "int32")
I0 = ShapedArray((), "int32")
G, S = GatherDimensionNumbers, ScatterDimensionNumbers
ADD = Op.registry["scatter-add"](S((1,), (0,), (0,)))
REFUSED = [
    (TypeError, Gather(G((1,), (0,), (0,)), (2, 4)), (F, I1)),
    (TypeError, Gather(G((1,), (0,), (0,)), (1, 5)), (F, I1)),
    (TypeError, Gather(G((1,), (0,), (0, 1)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1,), (0,), (2,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1,), (0, 1), (0,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1,), (5,), (0,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((3,), (0,), (0,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1, 1), (), (0,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1, 0), (), (0,)), (1, 4)), (F, I1)),
    (TypeError, Gather(G((1,), (0,), (0,)), (1,)), (F, I1)),
    (TypeError, Gather(G((1,), (0,), (0,)), (1, 4)), (F, I0)),
    (ValueError, Gather(G((1,), (0,), (0,)), (1, 4)), (F, ShapedArray((3, 1), "float32"))),
    (TypeError, Gather(G((), (1,), (0,), (0,), (0,)), (1, 1)), (F, I1)),
    (TypeError, Gather(G((), (1,), (1,), (0,), ()), (1, 1)), (F, I1)),
    (TypeError, Gather(G((), (1,), (1,), (0,), (1,)), (1, 1)), (F, I1)),
    (TypeError, Gather(G((), (1,), (1,), (0,), (0,)), (1, 1)), (F, ShapedArray((2, 1), "int32"))),
    (TypeError, Gather(G((1,), (), (1,), (0,), (0,)), (2, 4)), (F, I1)),
    (TypeError, ADD, (F, I1, ShapedArray((3, 4), "int32"))),
    (TypeError, ADD, (F, I1, ShapedArray((2, 4), "float32"))),
    (TypeError, ADD, (F, I1, ShapedArray((3, 5), "float32"))),
    (TypeError, ADD, (F, I1, ShapedArray((3,), "float32"))),
    (TypeError, Op.registry["scatter-add"](S((1,), (), (0,))), (F, I1, F)),
    (TypeError, Op.registry["scatter-add"](S((3,), (0,), (0,))), (F, I1, F)),
    (TypeError, Op.registry["scatter-add"](S((1,), (3,), (0,))), (F, I1, F)),
    (TypeError, Op.registry["scatter-add"](S((1,), (0,), (0, 1))), (F, I1, F)),
    (TypeError, Op.registry["scatter-add"](S((1,), (0,), (3,))), (F, I1, F)),
    (ValueError, ADD, (F, ShapedArray((3, 1), "bool"), F)),
    (TypeError, DynamicSlice((4, 4)), (F, I0, I0)),
    (TypeError, DynamicSlice((2,)), (F, I0, I0)),
    (ValueError, DynamicSlice((2, 2)), (F, I0)),
    (TypeError, DynamicSlice((2, 2)), (F, I0, ShapedArray((), "int8"))),
    (TypeError, DynamicSlice((2, 2)), (F, ShapedArray((), "bool"), ShapedArray((), "bool"))),
    (TypeError, DynamicSlice((2, 2)), (F, ShapedArray((1,), "int32"), I0)),
    (TypeError, DynamicSlice((-1, 2)), (F, I0, I0)),
    (TypeError, DynamicUpdateSlice(), (F, ShapedArray((4, 2), "float32"), I0, I0)),
    (TypeError, DynamicUpdateSlice(), (F, ShapedArray((2,), "float32"), I0, I0)),
    (TypeError, DynamicUpdateSlice(), (F, ShapedArray((2, 2), "int32"), I0, I0)),
    (ValueError, DynamicUpdateSlice(), (F, ShapedArray((2, 2), "float32"), I0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "op", "avals"), REFUSED, ids=lambda v: str(v)[:60])
def test_wrong_arguments_are_refused_by_name(kind, op, avals):
    with pytest.raises(kind, match=f"^{op.name}"):
        op.result(*avals)


def test_modes_by_name():
    modes = GatherScatterMode
    names = {None: modes.FILL_OR_DROP, "fill": modes.FILL_OR_DROP, "clip": modes.CLIP}
    assert all(modes.from_any(name) is mode for name, mode in names.items())
    with pytest.raises(ValueError, match="Unknown gather mode"):
        modes.from_any("wrap")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_extreme_indices_of_every_dtype(dtype, jax):
    info = np.iinfo(dtype)
    index = np.array([[info.min], [info.max], [info.max // 2], [4]], dtype)
    for mode, extent in itertools.product(list(GatherScatterMode)[:2], (5, 300)):
        op = Gather(GatherDimensionNumbers((), (0,), (0,)), (1,), mode=mode)
        # JAX tests int64 indices for the fill modulo 2**32; we do not.
        compare = dtype != "int64" or mode is GatherScatterMode.CLIP
        check(op, [np.arange(extent, dtype=np.float32), index], jax, compare=compare)
