"""Arguments for samples: numbers of every kind of dtype, from a sample's domain."""

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ops import _check


def fill(sample, seed=0):
    """The sample's arguments as NumPy arrays; those given as avals are drawn."""
    rng = np.random.default_rng(seed)
    return [draw(a, sample.domain, rng) if isinstance(a, ShapedArray) else a for a in sample.args]


def draw(aval, domain, rng):
    """Numbers of `domain`, rounded to the dtype; bits for keys."""
    dtype, kind = dtypes.physical_dtype(aval.dtype), _check.kind(aval.dtype)
    low, high = domain
    if kind == "k":
        return rng.integers(0, 2**64, aval.shape, np.uint64)
    if kind == "b":
        return np.asarray(rng.integers(0, 2, aval.shape)).astype(bool)
    if kind in "iu":
        low = max(low * 4, 0) if kind == "u" else low * 4
        return np.asarray(rng.integers(int(low), int(high * 4) + 1, aval.shape)).astype(dtype)
    x = np.asarray(rng.uniform(low, high, aval.shape))
    if kind == "c":
        x = x + 1j * rng.uniform(low, high, aval.shape)
    return x.astype(dtype)


def avals(arrays, sample):
    """The abstract values of the arguments."""
    return [
        a if isinstance(a, ShapedArray) else ShapedArray(x.shape, x.dtype)
        for a, x in zip(sample.args, arrays, strict=True)
    ]


def describe(sample):
    """A test's name."""
    args = [a.str_short() if isinstance(a, ShapedArray) else "array" for a in sample.args]
    return f"{sample.op}({','.join(args)})".replace(" ", "")
