"""One compiled array operation each, over data larger than the nearer caches."""

import numpy as np

from benchmarks.row import floats, row

TEN_MILLION = 10_000_000
ROWS, COLUMNS = 4096, 1024


@row(goal=0.6, inputs=lambda rng: (floats(rng, TEN_MILLION), floats(rng, TEN_MILLION)))
def axpy(lib):
    """2.5 * x + y over 10 M floats"""
    return lib.jit(lambda x, y: 2.5 * x + y)


@axpy.numpy
def _(x, y):
    return 2.5 * x + y


@row(goal=0.6, inputs=lambda rng: (floats(rng, TEN_MILLION),))
def gelu(lib):
    """gelu (the tanh form) over 10 M floats"""
    return lib.jit(lib.nn.gelu)


@gelu.numpy
def _(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi, dtype=x.dtype) * (x + 0.044715 * x * x * x)))


@row(goal=0.8, inputs=lambda rng: (floats(rng, ROWS, COLUMNS, scale=3),))
def softmax(lib):
    """softmax of the rows of 4096×1024 floats"""
    return lib.jit(lib.nn.softmax)


@softmax.numpy
def _(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalise(xp, rsqrt, x, gain, bias):
    """Layer normalisation of the rows (Ba, Kiros, Hinton 2016, arXiv:1607.06450)."""
    mean = xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean((x - mean) ** 2, axis=1, keepdims=True)
    return (x - mean) * rsqrt(variance + 1e-5) * gain + bias


def normalise_inputs(rng):
    return floats(rng, ROWS, COLUMNS), floats(rng, COLUMNS), floats(rng, COLUMNS)


@row(goal=0.8, inputs=normalise_inputs)
def layernorm(lib):
    """layer normalisation of the rows of 4096×1024 floats, with gain and bias"""
    return lib.jit(lambda *args: normalise(lib.numpy, lib.lax.rsqrt, *args))


@layernorm.numpy
def _(*args):
    return normalise(np, lambda x: 1 / np.sqrt(x), *args)


@row(goal=0.4, inputs=lambda rng: (*normalise_inputs(rng), floats(rng, ROWS, COLUMNS)), rtol=1e-4)
def layernorm_grad(lib):
    """its gradient by input, gain and bias, for a given cotangent"""

    def weighted(x, gain, bias, ct):
        return lib.numpy.vdot(normalise(lib.numpy, lib.lax.rsqrt, x, gain, bias), ct)

    return lib.jit(lib.grad(weighted, argnums=(0, 1, 2)))


@layernorm_grad.numpy
def _(x, gain, bias, ct):
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
    unit = centred * scale
    d_unit = ct * gain
    along = (d_unit * unit).mean(axis=1, keepdims=True)
    d_x = scale * (d_unit - d_unit.mean(axis=1, keepdims=True) - unit * along)
    return d_x, (ct * unit).sum(axis=0), ct.sum(axis=0)


@row(goal=0.4, inputs=lambda rng: (floats(rng, 4096, 4096),))
def transpose_add(lib):
    """x.T + 1 of 4096×4096 floats"""
    return lib.jit(lambda x: x.T + 1)


@transpose_add.numpy
def _(x):
    return np.ascontiguousarray(x.T) + 1


@row(goal=0.3, inputs=lambda rng: (floats(rng, 1_000_000),), rtol=0)
def sort(lib):
    """sort of 1 M floats"""
    return lib.jit(lib.numpy.sort)


@sort.numpy
def _(x):
    return np.sort(x)
