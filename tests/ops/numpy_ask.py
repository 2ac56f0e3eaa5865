"""Kernel and push rules run over NumPy, one element at a time: what the compiler must reproduce.

Every index is a constant, so that `piece` and `divmod` have one answer and bounds can be checked.
"""

import itertools

import numpy as np

from covector import dtypes
from covector.compiler.math.evaluate import evaluate, numpy_dtype
from covector.ir.index import affine
from covector.ir.scalar import cast, const, load

COMBINE = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": np.maximum,
    "min": np.minimum,
    "set": lambda a, b: b,
}


def element_name(dtype):
    """The name kernels know a dtype by."""
    return dtypes.physical_dtype(dtype).name


class NumpyAsk:
    """An `Ask` for arguments that are NumPy arrays."""

    def __init__(self, arrays, out_avals):
        self.arrays = arrays
        self.shapes = tuple(tuple(map(affine, a.shape)) for a in arrays)
        self.dtypes = tuple(a.dtype.name for a in arrays)
        self.out_shapes = tuple(tuple(map(affine, a.shape)) for a in out_avals)
        self.out_dtypes = tuple(element_name(a.dtype) for a in out_avals)

    def at(self, k, index):
        index = tuple(affine(i) for i in index)
        self.place(self.arrays[k], index)
        return load(str(k), index, self.dtypes[k])

    def piece(self, i, lengths):
        start = 0
        for which, n in enumerate(lengths):
            n = affine(n).constant
            if affine(i).constant < start + n:
                return which, affine(start)
            start += n
        return len(lengths), affine(start)

    def divmod(self, i, n):
        return tuple(map(affine, divmod(affine(i).constant, affine(n).constant)))

    def data(self, value):
        return affine(int(self.value(value)))

    def index(self, i, dtype):
        return cast(const(affine(i).constant, "int64"), dtype)

    def place(self, array, index):
        """The index as numbers, which must be in bounds."""
        where = tuple(affine(i).constant for i in index)
        assert len(where) == array.ndim
        assert all(0 <= i < n for i, n in zip(where, array.shape, strict=True)), (
            where,
            array.shape,
        )
        return where

    def value(self, expression):
        def leaf(node):
            buffer, index = node.extra
            array = self.arrays[int(buffer)]
            return array[self.place(array, index)]

        return evaluate(expression, {}, leaf)


def run_kernel(op, avals, arrays):
    """The result of the `kernel` or `push` rule of a single-result op."""
    out = op.result(*avals)
    ask = NumpyAsk(arrays, [out])
    result = np.empty(out.shape, numpy_dtype(ask.out_dtypes[0]))
    if op.kernel is not None:
        for index in np.ndindex(*out.shape):
            value = ask.value(op.kernel(ask, tuple(map(affine, index))))
            assert value.dtype == result.dtype
            result[index] = value
        return result
    push = op.push(ask)
    result[...] = arrays[push.base]
    extents = [affine(n).constant for n in push.extents]
    for u in itertools.product(*map(range, extents)):
        index, value, kind, where = push.body(tuple(map(affine, u)))
        if where is not None and not ask.value(where):
            continue
        at = ask.place(result, index)
        with np.errstate(all="ignore"):
            result[at] = COMBINE[kind](result[at], ask.value(value))
    return result
