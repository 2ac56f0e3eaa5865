"""Kernel and cumulate rules run over NumPy, all elements at once; folds keep their axes in front.

The complement of `numpy_ask`: for rules that fold or carry, over arrays that are not tiny.
"""

import numpy as np

from covector import dtypes
from covector.compiler.math.evaluate import evaluate, evaluate_all, numpy_dtype
from covector.ir import scalar
from covector.ir.index import Affine, Data, affine

COMBINE = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
IDENTITY = {"sum": 0, "prod": 1, "or": 0, "xor": 0, "and": -1}


def element_name(dtype):
    """The name kernels know a dtype by."""
    return dtypes.physical_dtype(dtype).name


class VectorAsk:
    """An `Ask` whose axes are names of index arrays in `env`."""

    def __init__(self, arrays, out_avals):
        self.arrays = [np.asarray(a) for a in arrays]
        self.shapes = tuple(tuple(map(affine, a.shape)) for a in self.arrays)
        self.dtypes = tuple(a.dtype.name for a in self.arrays)
        self.out_shapes = tuple(tuple(map(affine, a.shape)) for a in out_avals)
        self.out_dtypes = tuple(element_name(a.dtype) for a in out_avals)
        self.env = {}
        self.kept = []  # expressions are interned weakly: the names bound here must live
        self.rank = max((len(a.shape) for a in out_avals), default=0)

    def axes(self, shape):
        """A name for each axis, bound to its indices."""
        names = [f"i{d}" for d in range(len(shape))]
        for d, (label, n) in enumerate(zip(names, shape, strict=True)):
            self.env[label] = np.arange(n).reshape([-1 if e == d else 1 for e in range(len(shape))])
        return tuple(map(affine, names))

    def at(self, k, index):
        assert len(index) == self.arrays[k].ndim
        return scalar.load(str(k), tuple(affine(i) for i in index), self.dtypes[k])

    def index(self, i, dtype):
        return scalar.cast(scalar.expr("index", "int64", extra=affine(i)), dtype)

    def bind(self, value, dtype):
        label = f"v{len(self.kept)}"
        self.env[label] = value
        self.kept.append(scalar.name(label, dtype))
        return self.kept[-1]

    def fold(self, kind, extents, body, init=None):
        sizes = [affine(n).constant for n in extents]
        labels = [f"k{len(self.env)}_{d}" for d in range(len(sizes))]
        self.rank += 1
        grids = np.indices(sizes).reshape(len(sizes), -1)
        for label, grid in zip(labels, grids, strict=True):
            self.env[label] = grid.reshape(-1, *[1] * (self.rank - 1))
        found = body(tuple(map(affine, labels)))
        pair = isinstance(found, tuple)
        values = evaluate_all(list(found) if pair else [found], self.env, self.leaf)
        self.rank -= 1
        shape = np.broadcast_shapes(*(v.shape for v in values), (grids.shape[1], *[1] * self.rank))
        values = [np.broadcast_to(v, shape) for v in values]
        if not pair:
            return self.bind(reduce(kind, values[0], found.dtype), found.dtype)
        keys = values[0].astype(np.float64) if values[0].dtype.kind not in "biuf" else values[0]
        place = (np.argmax if kind == "argmax" else np.argmin)(keys, 0)[None]
        return tuple(
            self.bind(np.take_along_axis(v, place, 0)[0], e.dtype)
            for v, e in zip(values, found, strict=True)
        )

    def number(self, i):
        total = np.asarray(affine(i).const)
        for atom, c in affine(i).terms:
            value = self.value(atom.value) if isinstance(atom, Data) else self.env[atom]
            total = total + c * value
        return total

    def leaf(self, node):
        if node.op == "index":
            return self.number(node.extra)
        if node.op == "name":
            return self.env[node.extra]
        buffer, index = node.extra
        where = tuple(self.number(i) for i in index)
        array = self.arrays[int(buffer)]
        for i, n in zip(where, array.shape, strict=True):
            assert np.all((i >= 0) & (i < n))
        return array[where]

    def value(self, expression):
        return evaluate(expression, self.env, self.leaf)


def reduce(kind, values, dtype):
    """The fold of `values` along the first axis."""
    if not len(values):
        start = IDENTITY.get(kind)
        if start is None and kind in ("max", "min"):
            info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
            low, high = (info.min, info.max) if info else (-np.inf, np.inf)
            start = low if kind == "max" else high
        return np.full(values.shape[1:], start).astype(numpy_dtype(dtype))
    return COMBINE[kind].reduce(values, 0, dtype=numpy_dtype(dtype))


def run_kernel(op, arrays, out_avals):
    """The results of the `kernel` rule; all have one shape."""
    ask = VectorAsk(arrays, out_avals)
    found = op.kernel(ask, ask.axes(out_avals[0].shape))
    exprs = found if isinstance(found, tuple) else (found,)
    values = []
    for e, aval in zip(exprs, out_avals, strict=True):
        assert e.dtype == element_name(aval.dtype), (e.dtype, aval)
        with np.errstate(all="ignore"):
            values.append(np.broadcast_to(ask.value(e), aval.shape))
    return values


def run_cumulate(op, arrays, out_avals):
    """The results of the `cumulate` rule."""
    ask = VectorAsk(arrays, out_avals)
    plan = op.cumulate(ask)
    shape = out_avals[0].shape
    outs = [np.empty(shape, numpy_dtype(element_name(a.dtype))) for a in out_avals]
    inner = tuple(1 if d == plan.axis else n for d, n in enumerate(shape))
    carries = [ask.bind(np.broadcast_to(ask.value(e), inner), e.dtype) for e in plan.start]
    places = range(shape[plan.axis])
    for i in reversed(places) if plan.reverse else places:
        index = list(ask.axes(inner))
        index[plan.axis] = Affine(i)
        new, values = plan.step(carries, tuple(index))
        where = tuple(slice(i, i + 1) if d == plan.axis else slice(None) for d in range(len(shape)))
        for out, value in zip(outs, values, strict=True):
            out[where] = ask.value(value)
        carries = [
            ask.bind(np.broadcast_to(ask.value(e), inner), c.dtype)
            for e, c in zip(new, carries, strict=True)
        ]
    return outs
