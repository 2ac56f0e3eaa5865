"""The price of a call: work so small that what is timed is the way to it and back."""

import numpy as np

from benchmarks.row import floats, row


@row(goal=0.10, inputs=lambda rng: (floats(rng),))
def jit_scalar(lib):
    """a compiled function of one scalar, x + 1"""
    return lib.jit(lambda x: x + 1)


@jit_scalar.numpy
def _(x):
    return x + 1


@row(goal=0.15, inputs=lambda rng: (floats(rng, 100), floats(rng, 100)))
def eager_add(lib):
    """v + w of 100 floats each, not compiled by the user"""
    return lambda v, w: v + w


@eager_add.numpy
def _(v, w):
    return v + w


@row(goal=0.05, inputs=lambda rng: (floats(rng, 100),))
def eager_index(lib):
    """v[3], not compiled by the user"""
    return lambda v: v[3]


@eager_index.numpy
def _(v):
    return v[3]


@row(goal=0.05, inputs=lambda rng: (floats(rng, 100),))
def eager_set(lib):
    """v.at[3].set(1.0), not compiled by the user; NumPy copies and assigns"""
    return lambda v: v.at[3].set(1.0)


@eager_set.numpy
def _(v):
    v = v.copy()
    v[3] = 1.0
    return v


@row(goal=0.3, inputs=lambda rng: (1.5,))
def eager_grad(lib):
    """grad of x * sin(x) at a Python scalar, traced afresh by each call"""
    return lib.grad(lambda x: x * lib.numpy.sin(x))


@eager_grad.numpy
def _(x):
    return np.sin(x) + x * np.cos(x)
