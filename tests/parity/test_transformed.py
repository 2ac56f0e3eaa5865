"""Functions of `numpy` and `nn` under `jit`, `vmap`, `grad`: consistent, gradients as in JAX.

Each line is a function of `a`, floats of shape (3, 4) without special values.
"""

import numpy as np
import pytest

import covector as cv
from tests.oracle import answer
from tests.parity.outcomes import lines, world

RNG = np.random.default_rng(0)
A = RNG.uniform(0.2, 1.7, (3, 4)).astype(np.float32)
BATCH = RNG.uniform(0.2, 1.7, (2, 3, 4)).astype(np.float32)

FUNCTIONS = lines("""
m.sin(a) * m.exp(-a) + m.log1p(a) ** 2
a ** 3 + a ** 0.5 + 2.0 ** a + a ** -1
m.arctan2(a, a + 1) + m.hypot(a, 2 * a) + m.logaddexp(a, 1.0)
m.where(a > 1, a, a * a)
m.clip(a, 0.5, 1.2)
m.maximum(a, 0.9) - m.minimum(a, a.T.ravel()[:4])
m.remainder(a, 0.7) + m.fmod(a, 0.4) + m.sinc(a) + m.i0(a)
m.nan_to_num(a) + m.copysign(a, -1.0) + m.fabs(-a) + m.square(a)
m.sum(a, axis=0), m.prod(a, axis=1), m.mean(a), m.max(a, axis=0), m.min(a)
m.var(a, axis=1), m.std(a), m.average(a, axis=0, weights=m.arange(3.0)), m.ptp(a, axis=1)
m.sum(a, where=a > 1), m.mean(a, axis=0, where=a > 0.5), m.nansum(a, axis=1), m.nanmean(a)
m.cumsum(a, axis=1), m.cumprod(a, axis=0), m.cumulative_sum(a, axis=0, include_initial=True)
a.reshape(2, 6), a.T, a.ravel(), m.swapaxes(a, 0, 1), a[None], m.expand_dims(a, -1)
a.reshape(6, 2, order='F')
m.concatenate([a, a * a], axis=1), m.stack([a, -a]), m.vstack([a, a[0]])
m.block([[a, a], [a, a]])
m.split(a, 2, axis=1), m.array_split(a, 2), m.unstack(a), m.append(a, a)
m.tile(a, (2, 1)), m.repeat(a, 2, axis=0), m.roll(a, 1), m.flip(a, 0), m.rot90(a)
m.resize(a, (5, 3))
m.pad(a, 1), m.pad(a, 2, 'reflect'), m.pad(a, 1, 'edge'), m.pad(a, (0, 5), 'wrap')
m.pad(a, 2, 'linear_ramp')
m.pad(a, 2, 'symmetric', reflect_type='odd'), m.pad(a, 1, 'mean'), m.pad(a, 1, 'maximum')
m.diag(a[0]), m.diag(a[:, :3]), m.diagonal(a, 1), m.trace(a), m.tril(a), m.triu(a, 1)
m.diagflat(a[0])
m.dot(a, a.T), a @ a[0], m.matmul(a[None], a.T), m.inner(a, a), m.outer(a, a[0])
m.tensordot(a, a, 2)
m.vdot(a, a), m.vecdot(a, a), m.matvec(a, a[0]), m.vecmat(a[:, 0], a), m.kron(a, a[:1])
m.cross(a[:, :3], a[:, 1:])
m.einsum('ij,kj->ik', a, a), m.einsum('ij->ji', a), m.einsum('ii->i', a[:, :3])
m.einsum('ij,ij,kj->k', a, a, a)
m.einsum('...j,j->...', a, a[0]), m.einsum('ij->', a), m.einsum('i,j->ij', a[0], a[:, 0])
m.linalg.norm(a), m.linalg.norm(a, axis=1), m.linalg.norm(a, 1), m.linalg.norm(a, m.inf, axis=0)
m.linalg.norm(a, 3, 1)
m.linalg.matrix_power(a[:, :3], 3), m.linalg.multi_dot([a, a.T, a])
m.linalg.vector_norm(a, axis=(0, 1), ord=3)
m.sort(a, axis=1), m.sort(a, axis=0, descending=True), m.partition(a, 1)[:, 1]
m.median(a), m.quantile(a, 0.3, axis=1), m.percentile(a, m.array([10.0, 50.0]), axis=0)
m.nanmedian(a, axis=0)
m.take(a, m.array([0, 5, 5])), m.take(a, 1, axis=1)
m.take_along_axis(a, m.array([[0, 2], [1, 1], [3, 0]]), 1)
a[1], a[:, 1:3], a[::-1, ::2], a[m.array([0, 2]), m.array([1, 1])]
a[..., m.array([[0, 1], [1, 0]])], a[1, m.array([0, 0])]
a[m.array([0, 1]), :2], a[m.array(1)], a[m.array([True, False, True])], a[None, :, None, 1]
a.at[0].set(a[1]), a.at[:, 1].add(a[:, 0]), a.at[m.array([0, 0])].add(a[1])
a.at[1, ::2].multiply(a[0, :2])
a.at[m.array([0, 1])].max(a[2]), a.at[0].min(a[1]), a.at[1].divide(a[0])
a.at[m.array([5])].set(a[0]), a.at[1:].set(2.0)
m.select([a < 0.5, a < 1], [a, a * 2], 3.0)
m.piecewise(a, [a < 1], [lambda x: x ** 2, lambda x: -x])
m.interp(a, m.array([0.0, 1.0, 2.0]), m.array([0.0, 5.0, 6.0])), m.diff(a), m.gradient(a)
m.trapezoid(a), m.ediff1d(a)
m.cov(a), m.corrcoef(a), m.convolve(a[0], a[1]), m.correlate(a[0], a[1, :2]), m.polyval(a[0], a)
m.vander(a[0])
m.polymul(a[0], a[1]), m.polyder(a[0]), m.polyint(a[0]), m.unwrap(5 * a)
m.polydiv(a[0], a[1, :2])
m.histogram(a, 4, weights=a * a)[0], m.bincount(m.array([0, 1, 1, 3]), a[0], length=4)
m.linspace(a[0], a[1], 3), m.broadcast_to(a, (2, 3, 4)), m.meshgrid(a[0], a[1])
m.squeeze(a[None]), m.moveaxis(a, 0, 1)
m.insert(a, 1, a[0], axis=0), m.delete(a, 1, axis=1)
m.compress(m.array([True, False, True]), a, axis=0)
m.apply_along_axis(lambda r: r / m.sum(r), 1, a), m.vectorize(lambda x, y: x * y)(a, a[0])
m.add.reduce(a), m.logaddexp.reduce(a), m.multiply.accumulate(a), m.subtract.outer(a[0], a[1])
m.maximum.reduce(a, axis=1)
nn.relu(a - 1), nn.gelu(a - 1), nn.gelu(a - 1, False), nn.silu(a), nn.elu(a - 1), nn.celu(a - 1)
nn.selu(a - 1)
nn.softmax(a), nn.log_softmax(a), nn.logsumexp(a, axis=1), nn.softmax(a, where=a > 0.5)
nn.standardize(a), nn.glu(a)
nn.softplus(a), nn.log_sigmoid(a), nn.mish(a), nn.squareplus(a), nn.hard_silu(a)
nn.leaky_relu(a - 1), nn.log1mexp(a)
nn.dot_product_attention(a.reshape(3, 2, 2), *(a.reshape(3, 2, 2),) * 2, is_causal=True)
""")


def compiled(text, lib):
    """The function of a line, giving one flat vector."""
    names = world(lib)

    def function(a):
        out = eval(text, {**names, "a": a})
        return lib.numpy.concatenate([lib.numpy.ravel(x) for x in flat(out)])

    return function


def flat(x):
    return [leaf for v in x for leaf in flat(v)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_transformed(text, jax, assert_close):
    ours, oracle = compiled(text, cv), compiled(text, jax)
    value = ours(cv.numpy.asarray(A))
    weights = np.cos(np.arange(value.size, dtype=np.float32))

    def loss(function):
        return lambda a: (function(a) * weights).sum()

    # One program of the oracle for both, since compiling it is what takes time here.
    wanted, wanted_slope = answer("parity", lambda a: (oracle(a), jax.grad(loss(oracle))(a)), A)
    assert_close(value, wanted, rtol=2e-5, atol=2e-5)
    assert_close(cv.jit(ours)(A), value, rtol=1e-5, atol=1e-5)
    rows = [ours(cv.numpy.asarray(x)) for x in BATCH]
    assert_close(cv.vmap(ours)(BATCH), cv.numpy.stack(rows), rtol=1e-5, atol=1e-5)
    slope = cv.grad(loss(ours))(A)
    assert_close(slope, wanted_slope, rtol=1e-3, atol=1e-3)
    assert_close(cv.jit(cv.grad(loss(ours)))(A), slope, rtol=1e-4, atol=1e-4)


SINGULAR = [
    ("m.linalg.norm(a)", 0.0, 0.0),
    ("m.std(a)", 3.0, 0.0),
    ("m.sum(m.abs(a))", 0.0, 0.0),
    ("m.sum(m.where(a > 0, m.sqrt(a), 0))", 0.0, 0.0),
    ("m.sum(m.where(a > 0, m.log(a), 0))", 0.0, 0.0),
    ("m.sum(m.hypot(a, a))", 0.0, 0.0),
    ("m.sum(m.sinc(a))", 0.0, 0.0),
    ("m.sum(nn.relu(a))", 0.0, 0.0),
]


@pytest.mark.parametrize(("text", "at", "slope"), SINGULAR)
def test_derivatives_at_singular_points_are_finite(text, at, slope):
    names = world(cv)
    found = cv.grad(lambda a: eval(text, {**names, "a": a}))(np.full(4, at, np.float32))
    np.testing.assert_allclose(found, np.full(4, slope), atol=1e-6)


def test_second_derivative_of_sinc():
    second = cv.grad(cv.grad(cv.numpy.sinc))(0.0)
    np.testing.assert_allclose(second, -(np.pi**2) / 3, rtol=1e-5)


def test_static_answers_need_no_values():
    """Shapes and dtypes decide: nothing here asks a tracer for its numbers."""
    text = "m.size(a), m.ndim(a), m.shape(a), m.result_type(a, 1), m.iscomplexobj(a), m.isscalar(a)"
    names = world(cv)
    seen = []
    cv.make_jaxpr(lambda a: seen.append(eval(text, {**names, "a": a})) or a)(A)
    assert seen == [(12, 2, (3, 4), np.float32, False, False)]
