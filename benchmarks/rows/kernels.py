"""One compiled array operation each, over data larger than the nearer caches."""

import math

import numpy as np
import scipy.special

from benchmarks.row import Limit, floats, row

MILLION, TEN_MILLION = 1_000_000, 10_000_000
ROWS, COLUMNS = 4096, 1024
TWO_VECTORS = Limit(bytes=3 * 4 * TEN_MILLION)
# What gelu is worth in multiply-adds: a cubic 4, an exponential 10, a quotient 8, the rest 3.
ONE_VECTOR = Limit(bytes=2 * 4 * TEN_MILLION, multiply_adds=25 * TEN_MILLION)


@row(
    goal=0.4,
    inputs=lambda rng: (floats(rng, TEN_MILLION), floats(rng, TEN_MILLION)),
    limit=TWO_VECTORS,
    share=0.85,
)
def axpy(lib):
    """2.5 * x + y over 10 M floats"""
    return lib.jit(lambda x, y: 2.5 * x + y)


@axpy.numpy
def _(x, y):
    return 2.5 * x + y


@row(goal=0.4, inputs=lambda rng: (floats(rng, TEN_MILLION),), limit=ONE_VECTOR, share=0.85)
def gelu(lib):
    """gelu (the tanh form) over 10 M floats"""
    return lib.jit(lib.nn.gelu)


@gelu.numpy
def _(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi, dtype=x.dtype) * (x + 0.044715 * x * x * x)))


@gelu.torch
def _(torch):
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh")


def options(rng):
    spot, strike = (rng.uniform(80, 120, MILLION).astype(np.float32) for _ in range(2))
    return spot, strike, rng.uniform(0.5, 2, MILLION).astype(np.float32)


def call_price(xp, erf, spot, strike, years, rate=0.02, volatility=0.3):
    """What a European call is worth (Black, Scholes 1973)."""

    def normal(x):
        return 0.5 * (1 + erf(x * math.sqrt(0.5)))

    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return spot * normal(d1) - strike * xp.exp(-rate * years) * normal(d1 - spread)


@row(goal=0.6, inputs=options, rtol=1e-4)
def black_scholes(lib):
    """prices and gradients (by spot, strike, time) of 1 M options: value_and_grad under vmap"""

    def price(*args):
        return call_price(lib.numpy, lib.lax.erf, *args)

    return lib.jit(lib.vmap(lib.value_and_grad(price, argnums=(0, 1, 2))))


@black_scholes.numpy
def _(spot, strike, years):
    rate, volatility = np.float32(0.02), np.float32(0.3)
    value = call_price(np, scipy.special.erf, spot, strike, years)
    root = np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * root)
    d2 = d1 - volatility * root
    below = scipy.special.ndtr(d1), scipy.special.ndtr(d2)
    discounted = np.exp(-rate * years)
    density = np.exp(-d1 * d1 / 2) / np.float32(math.sqrt(2 * math.pi))
    by_years = spot * density * volatility / (2 * root) + rate * strike * discounted * below[1]
    return value, (below[0], -discounted * below[1], by_years)


@row(goal=0.6, inputs=lambda rng: (rng.uniform(0.1, 10, MILLION).astype(np.float32),))
def sin_cos_log(lib):
    """sin(x) * cos(2x) + log(x) over 1 M floats"""
    xp = lib.numpy
    return lib.jit(lambda x: xp.sin(x) * xp.cos(2 * x) + xp.log(x))


@sin_cos_log.numpy
def _(x):
    return np.sin(x) * np.cos(2 * x) + np.log(x)


@row(goal=0.6, inputs=lambda rng: (floats(rng, ROWS, COLUMNS, scale=3),))
def softmax(lib):
    """softmax of the rows of 4096×1024 floats"""
    return lib.jit(lib.nn.softmax)


@softmax.numpy
def _(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@softmax.torch
def _(torch):
    return lambda x: torch.softmax(x, 1)


@row(goal=0.6, inputs=lambda rng: (floats(rng, ROWS, COLUMNS, scale=3),))
def softmax_columns(lib):
    """softmax of the columns of 4096×1024 floats"""
    return lib.jit(lambda x: lib.nn.softmax(x, axis=0))


@softmax_columns.numpy
def _(x):
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def normalise(xp, rsqrt, x, gain, bias):
    """Layer normalisation of the rows (Ba, Kiros, Hinton 2016, arXiv:1607.06450)."""
    mean = xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean((x - mean) ** 2, axis=1, keepdims=True)
    return (x - mean) * rsqrt(variance + 1e-5) * gain + bias


def normalise_inputs(rng):
    return floats(rng, ROWS, COLUMNS), floats(rng, COLUMNS), floats(rng, COLUMNS)


@row(goal=0.6, inputs=normalise_inputs)
def layernorm(lib):
    """layer normalisation of the rows of 4096×1024 floats, with gain and bias"""
    return lib.jit(lambda *args: normalise(lib.numpy, lib.lax.rsqrt, *args))


@layernorm.numpy
def _(*args):
    return normalise(np, lambda x: 1 / np.sqrt(x), *args)


@row(goal=0.2, inputs=lambda rng: (*normalise_inputs(rng), floats(rng, ROWS, COLUMNS)), rtol=1e-4)
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


@row(goal=0.3, inputs=lambda rng: (floats(rng, ROWS, COLUMNS),))
def variance_argmax(lib):
    """variance and place of the largest of each row of 4096×1024 floats"""
    return lib.jit(lambda x: (x.var(axis=1), x.argmax(axis=1)))


@variance_argmax.numpy
def _(x):
    return x.var(axis=1), x.argmax(axis=1)


@row(goal=0.15, inputs=lambda rng: (floats(rng, 4096, 4096),))
def transpose_add(lib):
    """x.T + 1 of 4096×4096 floats"""
    return lib.jit(lambda x: x.T + 1)


@transpose_add.numpy
def _(x):
    return np.ascontiguousarray(x.T) + 1


@row(goal=0.4, inputs=lambda rng: (floats(rng, TEN_MILLION),), rtol=1e-3)
def cumsum(lib):
    """running sum of 10 M floats"""
    return lib.jit(lib.numpy.cumsum)


@cumsum.numpy
def _(x):
    return np.cumsum(x)


@row(goal=0.5, inputs=lambda rng: (floats(rng, 2000, 16),))
def distances(lib):
    """distances between all pairs of 2,000 points in 16 dimensions, by differences"""
    xp = lib.numpy
    return lib.jit(lambda x: xp.sqrt(xp.sum((x[:, None] - x[None]) ** 2, axis=-1)))


@distances.numpy
def _(x):
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1))


def smoothed(x):
    return 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


@row(goal=0.2, inputs=lambda rng: (floats(rng, 2048, 2048),))
def stencil(lib):
    """mean of the four neighbours in 2048×2048 floats, by slices"""
    return lib.jit(smoothed)


@stencil.numpy
def _(x):
    return smoothed(x)
