"""Loops: small operations repeated many times, recurrences, simulations, and their derivatives."""

import numpy as np

from benchmarks.row import floats, row


def one_number(rng):
    return (np.float32(rng.uniform(0.5, 1.5)),)


@row(goal=0.7, inputs=one_number, rtol=1e-4)
def fori_scalar(lib):
    """fori_loop of a million steps on one float"""

    def step(i, x):
        return x * 0.999 + lib.numpy.float32(1e-3) * (i % 7)

    return lib.jit(lambda x: lib.lax.fori_loop(0, 1_000_000, step, x))


@row(goal=0.4, inputs=lambda rng: (floats(rng, 3) + 1,), rtol=2e-2)
def lorenz(lib):
    """Lorenz's system, 100,000 steps of fourth-order Runge-Kutta, by scan"""
    xp = lib.numpy
    dt = 1e-4  # so short a way that rounding has not decided where it leads

    def slope(s):
        x, y, z = s
        return xp.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(s, _):
        k1 = slope(s)
        k2 = slope(s + dt / 2 * k1)
        k3 = slope(s + dt / 2 * k2)
        k4 = slope(s + dt * k3)
        return s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lib.jit(lambda s: lib.lax.scan(step, s, None, length=100_000)[0])


def filter_inputs(rng):
    turn = np.eye(3) * 0.9 + rng.normal(size=(3, 3)) * 0.02
    return turn, np.eye(3) * 0.1, np.eye(3)


def covariance(lib):
    """P = A P A' + Q, 100,000 times."""

    def last(a, q, p):
        return lib.lax.scan(lambda p, _: (a @ p @ a.T + q, None), p, None, length=100_000)[0]

    return last


def wide(lib, fun):
    """`fun` in double precision."""
    compiled = lib.jit(fun)

    def call(*args):
        with lib.enable_x64(True):
            return compiled(*args)

    return call


@row(goal=0.2, inputs=filter_inputs)
def scan_3x3(lib):
    """scan with a float64 3x3 carry, 100,000 steps of two small products"""
    return wide(lib, covariance(lib))


@row(goal=0.2, inputs=filter_inputs)
def scan_3x3_grad(lib):
    """its gradient"""
    last = covariance(lib)
    return wide(lib, lib.grad(lambda a, q, p: last(a, q, p).sum()))


def rnn_inputs(rng):
    return floats(rng, 64, 64, scale=0.1), floats(rng, 1000, 64)


def rnn_states(lib):
    def run(w, xs):
        def step(h, x):
            h = lib.numpy.tanh(h @ w + x)
            return h, h

        return lib.lax.scan(step, xs[0], xs)[1]

    return run


@row(goal=0.8, inputs=rnn_inputs, rtol=1e-4)
def rnn(lib):
    """a recurrent layer, 64 units, 1,000 steps, by scan"""
    return lib.jit(rnn_states(lib))


@row(goal=0.8, inputs=rnn_inputs, rtol=1e-3)
def rnn_grad(lib):
    """its gradient by the weights"""
    run = rnn_states(lib)
    return lib.jit(lib.grad(lambda w, xs: (run(w, xs) ** 2).sum()))


def plane(rng):
    y, x = np.mgrid[-1.5:1.5:512j, -2:1:512j]
    return ((x + 1j * y).astype(np.complex64),)


@row(goal=0.4, inputs=plane, rtol=0.02)
def mandelbrot(lib):
    """escape times of 512x512 points, up to 100 rounds, by while_loop under vmap"""
    xp = lib.numpy

    def rounds(c):
        def going(state):
            i, z = state
            return (i < 100) & (xp.real(z) ** 2 + xp.imag(z) ** 2 < 4)

        def step(state):
            i, z = state
            return i + 1, z * z + c

        return lib.lax.while_loop(going, step, (0, xp.zeros_like(c)))[0]

    return lib.jit(lib.vmap(lib.vmap(rounds)))


@row(goal=0.3, inputs=lambda rng: (floats(rng, 256, 3), floats(rng, 256, 3)), rtol=1e-3)
def nbody(lib):
    """256 bodies, 50 steps of leapfrog, by scan"""
    xp = lib.numpy

    def pull(x):
        d = x[None] - x[:, None]
        r2 = xp.sum(d * d, -1) + 1e-2
        return xp.sum(d / (r2 * xp.sqrt(r2))[..., None], 1)

    def step(state, _):
        x, v = state
        v = v + 1e-3 * pull(x)
        return (x + 1e-3 * v, v), None

    return lib.jit(lambda x, v: lib.lax.scan(step, (x, v), None, length=50)[0])


@row(goal=0.4, inputs=lambda rng: (np.exp(rng.uniform(-20, 60, 100_000)).astype(np.float32),),
     rtol=1e-4)  # fmt: skip
def newton(lib):
    """square roots of 100,000 numbers by Newton's method, while_loop under vmap"""
    xp = lib.numpy

    def root(a):
        def going(x):
            return xp.abs(x * x - a) > 1e-6 * a

        return lib.lax.while_loop(going, lambda x: 0.5 * (x + a / x), a)

    return lib.jit(lib.vmap(root))


def net_inputs(rng):
    return floats(rng, 8 * 16 + 16, scale=0.3), floats(rng, 32, 8)


@row(goal=0.8, inputs=net_inputs, rtol=1e-3)
def hessian(lib):
    """of a small dense network by its 144 parameters, batch 32"""
    xp = lib.numpy

    def loss(w, xs):
        hidden = xp.tanh(xs @ w[:128].reshape(8, 16))
        return xp.mean((hidden @ w[128:]) ** 2)

    return lib.jit(lib.hessian(loss))
