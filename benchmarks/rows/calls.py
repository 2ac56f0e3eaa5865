"""The price of a call: work so small that what is timed is the way to it and back."""

import numpy as np

from benchmarks.row import floats, row


@row(goal=0.05, inputs=lambda rng: (floats(rng),))
def jit_scalar(lib):
    """a compiled function of one scalar, x + 1"""
    return lib.jit(lambda x: x + 1)


@jit_scalar.numpy
def _(x):
    return x + 1


@row(goal=0.10, inputs=lambda rng: tuple(floats(rng) for _ in range(10)))
def jit_ten(lib):
    """a compiled function of ten scalars, their sum"""
    return lib.jit(lambda *xs: sum(xs[1:], xs[0]))


@jit_ten.numpy
def _(*xs):
    return sum(xs[1:], xs[0])


def fifty_leaves(rng):
    return ([{"w": floats(rng, 4, 4), "b": floats(rng, 4)} for _ in range(25)],)


@row(goal=0.15, inputs=fifty_leaves)
def jit_tree(lib):
    """a compiled function of a list of 25 dicts of two small arrays, which gives such a list"""
    return lib.jit(lambda tree: lib.tree.map(lambda leaf: 0.9 * leaf, tree))


@row(goal=0.10, inputs=lambda rng: (1.5,))
def jit_python_scalar(lib):
    """a compiled function of one Python float, x + 1"""
    return lib.jit(lambda x: x + 1)


@row(goal=0.10, inputs=lambda rng: (floats(rng), floats(rng)))
def jit_keyword(lib):
    """a compiled function of two scalars, one given by keyword"""
    scaled = lib.jit(lambda x, *, scale: x * scale)
    return lambda x, y: scaled(x, scale=y)


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 100), floats(rng, 100)))
def eager_add(lib):
    """v + w of 100 floats each, not compiled by the user"""
    return lambda v, w: v + w


@eager_add.numpy
def _(v, w):
    return v + w


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 100),))
def eager_sin(lib):
    """sin of 100 floats, not compiled by the user"""
    return lib.numpy.sin


@eager_sin.numpy
def _(v):
    return np.sin(v)


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 100),))
def eager_index(lib):
    """v[3], not compiled by the user"""
    return lambda v: v[3]


@eager_index.numpy
def _(v):
    return v[3]


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 100),))
def eager_slice(lib):
    """v[10:60], not compiled by the user"""
    return lambda v: v[10:60]


@eager_slice.numpy
def _(v):
    return v[10:60]


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 100),))
def eager_set(lib):
    """v.at[3].set(1.0), not compiled by the user; NumPy copies and assigns"""
    return lambda v: v.at[3].set(1.0)


@eager_set.numpy
def _(v):
    v = v.copy()
    v[3] = 1.0
    return v


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 64, 64),))
def eager_mean(lib):
    """mean of 64×64 floats along axis 0, not compiled by the user"""
    return lambda m: m.mean(axis=0)


@eager_mean.numpy
def _(m):
    return m.mean(axis=0)


@row(numpy_goal=1.5, inputs=lambda rng: (floats(rng, 64, 64), floats(rng, 64, 64)))
def eager_matmul(lib):
    """m @ n of 64×64 floats each, not compiled by the user"""
    return lambda m, n: m @ n


@eager_matmul.numpy
def _(m, n):
    return m @ n


@row(goal=0.1, inputs=lambda rng: (1.5,))
def eager_grad(lib):
    """grad of x * sin(x) at a Python scalar, traced afresh by each call"""
    return lib.grad(lambda x: x * lib.numpy.sin(x))


@eager_grad.numpy
def _(x):
    return np.sin(x) + x * np.cos(x)
