"""Normal forms of single operations: one kernel for many shapes, right for each."""

import numpy as np
import pytest

from covector import dtypes, ops
from covector.compiler.eager import broadcasting, merged_axes, normal_form
from covector.compiler.loops.interpret import interpret
from covector.compiler.loops.verify import verify
from covector.compiler.math.evaluate import numpy_dtype
from covector.ir.avals import ShapedArray
from covector.ir.op import Op

point, shape, reduce = ops.pointwise, ops.shape, ops.reduce


def f32(*n):
    return ShapedArray(n, "float32")


def values(avals, domain=(-2.0, 2.0), seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for a in avals:
        if not isinstance(a, ShapedArray):
            out.append(np.asarray(a))
            continue
        dtype = np.dtype(dtypes.physical_dtype(a.dtype))
        x = rng.uniform(*domain, size=a.shape)
        out.append(
            np.asarray(x + 1j * x[::-1] if dtype.kind == "c" and x.ndim else x).astype(dtype)
        )
    return out


def run(form, op, avals, xs):
    """The kernel of `form` on `xs`."""
    out = op.result(*avals)
    y = np.zeros(out.shape, dtypes.physical_dtype(out.dtype))
    if form.base is not None:
        y[...] = xs[form.base]
    kernel = form.make()
    verify(kernel)
    buffers = [b for b in kernel.buffers.values() if b.home != "scratch"]
    arrays = []
    for b, x in zip(buffers, [*xs, y], strict=True):
        flat = y.reshape(-1) if x is y else np.ascontiguousarray(x).reshape(-1)
        arrays.append(flat.view(numpy_dtype(b.dtype)) if form.key[0] == "view" else flat)
    interpret(kernel, arrays, form.symbols, lanes=True)
    return y


def same(got, want):
    got, want = got.astype(complex), np.asarray(want).astype(complex)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-3)


SAMPLED = sorted(n for n, cls in Op.registry.items() if callable(cls.samples))


@pytest.mark.parametrize("name", SAMPLED)
def test_samples(name):
    """Where an op has a normal form, it computes what NumPy does."""
    done = set()
    for sample in Op.registry[name].samples():
        op = sample.op
        avals = [
            a if isinstance(a, ShapedArray) else ShapedArray(np.shape(a), np.asarray(a).dtype)
            for a in sample.args
        ]
        form = None if op.multiple_results else normal_form(op, avals)
        if form is None or form.key in done or len(done) > 6:
            continue
        done.add(form.key)
        xs = values(sample.args, sample.domain)
        with np.errstate(all="ignore"):
            want = op.numpy(*xs)
        same(run(form, op, avals, xs), want)


def test_a_new_shape_is_no_new_kernel():
    shapes = [(3,), (40, 50), (2, 3, 4)]
    assert len({normal_form(point.sin, [f32(*s)]).key for s in shapes}) == 1
    sums = [reduce.ReduceSum((1,)), reduce.ReduceSum((2,)), reduce.ReduceSum((1, 2))]
    cases = [(sums[0], (9, 50)), (sums[1], (3, 9, 50)), (sums[2], (9, 50, 3))]
    assert len({normal_form(op, [f32(*s)]).key for op, s in cases}) == 1


def test_short_rows_are_another_kernel():
    op = reduce.ReduceSum((1,))
    assert normal_form(op, [f32(90, 3)]).key != normal_form(op, [f32(90, 50)]).key


VIEWS = {
    "transpose": (shape.Transpose((1, 0)), (30, 40), ("view", "uint32", ("1", "s"), 0)),
    "rows and columns far apart": (
        shape.Transpose((2, 1, 0)), (20, 3, 30), ("view", "uint32", ("1", "s", "s"), 0),
    ),
    "merged": (shape.Transpose((0, 1, 2)), (2, 3, 4), ("view", "uint32", ("1",), None)),
    "column": (shape.BroadcastInDim((7, 9), (0,)), (7,), ("view", "uint32", ("s", "0"), None)),
    "row": (shape.BroadcastInDim((7, 9), (1,)), (9,), ("view", "uint32", ("0", "1"), None)),
    "backwards": (shape.Rev((0,)), (9,), ("view", "uint32", ("s",), None)),
    "reshape": (shape.Reshape((9, 4)), (6, 6), ("view", "uint32", ("1",), None)),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    op, given, key = VIEWS[name]
    aval = f32(*given)
    form = normal_form(op, [aval])
    assert form.key == key
    (x,) = values([aval])
    same(run(form, op, [aval], [x]), op.numpy(x))


@pytest.mark.parametrize(
    "shapes",
    [[(7, 9), (9,)], [(7, 9), (7, 1)], [(7, 1), (1, 9)], [(3, 7, 9), (7, 9)], [(5, 1, 4), (3, 1)]],
)
def test_broadcasting(shapes):
    avals = [f32(*s) for s in shapes]
    form = broadcasting(point.sub, avals)
    xs = values(avals)
    kernel = form.make()
    verify(kernel)
    want = xs[0] - xs[1]
    out = np.zeros(want.size, "float32")
    interpret(kernel, [*(x.reshape(-1) for x in xs), out], form.symbols, lanes=True)
    same(out.reshape(want.shape), want)


def test_no_normal_form():
    assert normal_form(point.sin, [f32(0, 3)]) is None
    assert normal_form(reduce.ReduceSum((0, 2)), [f32(3, 4, 5)]) is None


def test_merged_axes():
    assert merged_axes((2, 1, 3, 4), [(12, 5, 4, 1)]) == ([24], [(1,)])
    assert merged_axes((2, 3), [(3, 1), (0, 1)]) == ([2, 3], [(3, 0), (1, 1)])
