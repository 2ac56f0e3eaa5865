"""Products of matrices, alone and with what surrounds them, and systems of linear equations."""

import numpy as np
import scipy.linalg

from benchmarks.row import Limit, floats, row


def square(n, batch=()):
    """Draws two matrices, or two batches of them."""
    return lambda rng: (floats(rng, *batch, n, n), floats(rng, *batch, n, n))


def matmul(name, n, count=None, limited=False, **how):
    """Registers the product of two n×n matrices, or `count` of them, with the machine's limit."""

    def build(lib):
        return lib.jit(lib.numpy.matmul)

    head = "product" if count is None else f"{count:,} products"
    build.__name__, build.__doc__ = name, f"{head} of two matrices, {n}×{n}"
    limit = Limit(multiply_adds=(count or 1) * n**3) if limited else None
    inputs = square(n) if count is None else square(n, (count,))
    row(inputs=inputs, rtol=1e-4, limit=limit, **how)(build).numpy(np.matmul)


matmul("matmul_1024", 1024, limited=True, goal=1.0, share=0.85)
matmul("matmul_256", 256, limited=True, goal=0.9)
matmul("matmul_64", 64, goal=0.6)
matmul("matmul_16", 16, goal=0.3)


def layer_inputs(rng):
    return floats(rng, 512, 512), floats(rng, 512, 512), floats(rng, 512)


@row(goal=0.85, inputs=layer_inputs, rtol=1e-4, limit=Limit(multiply_adds=512**3))
def linear_relu(lib):
    """relu(x @ w + b), 512 examples, 512 to 512"""
    return lib.jit(lambda x, w, b: lib.nn.relu(x @ w + b))


@linear_relu.numpy
def _(x, w, b):
    return np.maximum(x @ w + b, 0)


matmul("matmul_batched", 128, count=64, limited=True, goal=0.6)
matmul("matmul_tiny", 4, count=10_000, goal=0.2)


def attend(xp, softmax, q, k, v):
    scores = xp.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    return xp.einsum("bhqk,bkhd->bqhd", softmax(scores), v)


@row(goal=0.8, inputs=lambda rng: tuple(floats(rng, 8, 256, 8, 32) for _ in range(3)), rtol=1e-4)
def attention(lib):
    """attention by einsum: batch 8, 256 places, 8 heads of 32"""
    return lib.jit(lambda *qkv: attend(lib.numpy, lib.nn.softmax, *qkv))


@attention.numpy
def _(*qkv):
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    return attend(np, softmax, *qkv)


def positive(rng):
    a = floats(rng, 512, 512)
    return a @ a.T / np.float32(512) + np.eye(512, dtype=np.float32), floats(rng, 512)


@row(goal=1.0, inputs=positive, rtol=1e-3)
def cholesky_solve(lib):
    """a system of 512 equations with a positive definite matrix, by its Cholesky factor"""
    linalg = lib.scipy.linalg
    return lib.jit(lambda a, b: linalg.cho_solve(linalg.cho_factor(a, lower=True), b))


@cholesky_solve.numpy
def _(a, b):
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower=True), b)


def systems(n, count):
    """Draws well-conditioned matrices, and a right-hand side for each."""
    shift = 2 * n * np.eye(n, dtype=np.float32)
    return lambda rng: (floats(rng, count, n, n) + shift, floats(rng, count, n))


def solve(xp):
    return lambda a, b: xp.linalg.solve(a, b[..., None])[..., 0]


def solves(n, count, goal):
    """Registers the solution of `count` systems of n equations."""

    def build(lib):
        return lib.jit(solve(lib.numpy))

    build.__name__, build.__doc__ = f"solve_{n}x{n}", f"{count:,} systems of {n} equations"
    row(goal=goal, inputs=systems(n, count), rtol=1e-4)(build).numpy(solve(np))


solves(8, 1000, goal=0.5)
solves(3, 86_268, goal=0.1)


@row(goal=0.1, inputs=systems(3, 86_268), rtol=1e-4)
def solve_3x3_grad(lib):
    """gradient by matrices and right-hand sides of the solutions' sum of squares"""
    one = solve(lib.numpy)
    return lib.jit(lib.grad(lambda a, b: (one(a, b) ** 2).sum(), argnums=(0, 1)))


@solve_3x3_grad.numpy
def _(a, b):
    x = solve(np)(a, b)
    slope = solve(np)(np.swapaxes(a, 1, 2), 2 * x)
    return -slope[:, :, None] * x[:, None, :], slope


@row(goal=0.1, inputs=lambda rng: systems(3, 10_000)(rng)[:1], rtol=1e-4)
def inverse_3x3(lib):
    """inverses of 10,000 matrices, 3×3"""
    return lib.jit(lib.numpy.linalg.inv)


@inverse_3x3.numpy
def _(a):
    return np.linalg.inv(a)
