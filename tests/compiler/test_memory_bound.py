"""The arena of a plan is near what is alive at once; `memory_analysis` reports both."""

import numpy as np
import pytest

import covector as cv
import covector.numpy as jnp
from covector.compiler.memory import _by_size, _rounded
from covector.compiler.pipeline import compile_program
from covector.compiler.program import Slot


def zeros(*shape):
    return jnp.zeros(shape, "float32")


def mlp_loss(params, x, y):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def mlp_step(params, x, y):
    grads = cv.grad(mlp_loss)(params, x, y)
    return cv.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def layernorm(x, scale, shift):
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale + shift


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
    return jnp.einsum("bhqk,bkhd->bqhd", cv.nn.softmax(scores), v)


def block(x, p):
    h = layernorm(x, p["s"], p["t"])
    q, k, v = (jnp.reshape(h @ p[n], (4, 64, 4, 16)) for n in "qkv")
    x = x + jnp.reshape(attention(q, k, v), (4, 64, 64)) @ p["o"]
    return x + cv.nn.gelu(layernorm(x, p["s"], p["t"]) @ p["up"]) @ p["down"]


def transformer_step(p, x):
    def loss(p):
        return jnp.mean(block(block(x, p), p) ** 2)

    return cv.tree.map(lambda w, g: w - 0.1 * g, p, cv.grad(loss)(p))


def stencil(x):
    return x[1:-1, 1:-1] - 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def rnn_loss(w, xs):
    last, _ = cv.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), zeros(8, 32), xs)
    return jnp.sum(last**2)


def convolution_loss(k, x):
    y = cv.nn.relu(cv.lax.conv_general_dilated(x, k, (1, 1), "SAME"))
    return jnp.sum(cv.lax.conv_general_dilated(y, k, (1, 1), "SAME") ** 2)


SIZES = ((64, 128), (128, 96), (96, 10))
PARAMS = [(zeros(m, n), zeros(n)) for m, n in SIZES]
BLOCK = {n: zeros(64, 64) for n in "qkvo"} | {
    "s": zeros(64), "t": zeros(64), "up": zeros(64, 256), "down": zeros(256, 64)
}  # fmt: skip
PROGRAMS = {
    "mlp step": (mlp_step, PARAMS, zeros(32, 64), zeros(32, 10)),
    "per-example gradients": (
        cv.vmap(cv.grad(mlp_loss), (None, 0, 0)), PARAMS, zeros(16, 64), zeros(16, 10)
    ),
    "transformer step": (transformer_step, BLOCK, zeros(4, 64, 64)),
    "layernorm gradient": (
        cv.grad(lambda *a: jnp.sum(layernorm(*a) ** 2), (0, 1, 2)), zeros(64, 256), zeros(256),
        zeros(256),
    ),
    "attention": (attention, *[zeros(2, 64, 4, 32)] * 3),
    "attention gradient": (
        cv.grad(lambda *a: jnp.sum(attention(*a) ** 2), (0, 1, 2)), *[zeros(2, 64, 4, 32)] * 3
    ),
    "three stencils": (lambda x: stencil(stencil(stencil(x))), zeros(200, 200)),
    "stencil gradient": (cv.grad(lambda x: jnp.sum(stencil(x) ** 2)), zeros(200, 200)),
    "scan gradient": (cv.grad(rnn_loss), zeros(32, 32), zeros(50, 8, 32)),
    "convolution gradient": (cv.grad(convolution_loss), zeros(8, 8, 3, 3), zeros(2, 8, 28, 28)),
    "sort and gather": (lambda x: jnp.cumsum(jnp.sort(x)[jnp.argsort(x)]), zeros(5000)),
    "matrix chain": (
        lambda a, b, c, d: ((a @ b) @ (c @ d)) + (a @ (b @ c)) @ d,
        zeros(50, 200), zeros(200, 30), zeros(30, 100), zeros(100, 70),
    ),
    "solve": (lambda a, b: jnp.linalg.solve(a @ a.T, b).T @ a, zeros(64, 64), zeros(64, 8)),
    "hessian-vector product": (
        lambda x, v: cv.jvp(cv.grad(lambda x: jnp.sum(jnp.sin(x @ x) ** 2)), (x,), (v,))[1],
        zeros(60, 60), zeros(60, 60),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_arena_is_near_the_lower_bound(name):
    fun, *args = PROGRAMS[name]
    program, _ = compile_program(cv.jit(fun).trace(*args).jaxpr)
    assert program.peak <= program.arena <= 1.1 * program.peak


def test_the_peak_is_reported():
    x = zeros(128, 128)
    compiled = cv.jit(lambda x: jnp.tanh(x @ x) @ x).lower(x).compile()
    stats = compiled.memory_analysis()
    assert stats.temp_size_in_bytes >= x.nbytes
    assert stats.peak_memory_in_bytes == 2 * x.nbytes + stats.temp_size_in_bytes
    assert stats.generated_code_size_in_bytes > 0


def test_largest_first_fills_holes():
    rng = np.random.default_rng(4)
    better = 0
    for _ in range(30):
        blocks = []
        for _ in range(40):
            first = int(rng.integers(0, 50))
            slot = Slot((), "uint8", int(rng.integers(1, 5000)), "temp")
            blocks.append((slot, first, first + int(rng.integers(0, 10))))
        alive = max(sum(_rounded(b) for b, f, to in blocks if f <= t <= to) for t in range(60))
        needed = _by_size(blocks, 1 << 30)
        assert alive <= needed <= 1.35 * alive
        better += needed <= 1.1 * alive
        assert needed == max(b.offset + _rounded(b) for b, _, _ in blocks)
        for k, (a, af, at) in enumerate(blocks):
            for b, bf, bt in blocks[:k]:
                apart = a.offset + _rounded(a) <= b.offset or b.offset + _rounded(b) <= a.offset
                assert apart or at < bf or bt < af
    assert better >= 20


def test_worse_places_are_not_taken():
    slot = Slot((), "uint8", 640, "temp")
    slot.offset = 64
    assert _by_size([(slot, 0, 1)], 640) == 640
    assert slot.offset == 64
