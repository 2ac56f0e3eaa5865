"""numpy.linalg, scipy.linalg and lax.linalg against the oracle: values, types, gradients."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import covector as cv
from covector.scipy import linalg as scipy_linalg
from tests.oracle import answer, given

rng = np.random.default_rng(11)
A, B, TALL, WIDE = (rng.standard_normal(s) for s in ((4, 4), (4, 4), (5, 3), (3, 5)))
SPD = A @ A.T + np.eye(4)
BATCH = rng.standard_normal((2, 3, 4, 4))
V, C = rng.standard_normal(4), A + 1j * B

#: Expressions that NumPy and SciPy have too: `m` numpy.linalg, `s` scipy.linalg.
VALUES = """
m.cholesky(SPD)
m.cholesky(SPD, upper=True)
m.cholesky(I)
m.cond(A)
m.cond(BATCH, 1)
m.cond(A, 'fro')
m.cond(A, -2)
m.det(BATCH)
m.det(C)
m.det(I)
m.det(A[:3, :3])
m.eigvalsh(SPD)
m.inv(BATCH)
m.inv(C)
m.lstsq(TALL, V5, rcond=None)[0]
m.lstsq(WIDE, V[:3], rcond=None)[0]
m.matrix_power(A, -3)
m.matrix_rank(TALL @ WIDE)
m.matrix_rank(V)
m.matrix_rank(SPD, hermitian=True)
m.matrix_rank(A, tol=100.0)
m.norm(A, 2)
m.norm(BATCH, 'nuc', axis=(2, 3))
m.norm(BATCH, -2, axis=(0, 1), keepdims=True)
m.pinv(TALL)
m.pinv(WIDE)
m.pinv(SPD, hermitian=True)
m.pinv(BATCH, 0.5)
m.slogdet(A)
m.slogdet(C)
m.slogdet(I)
m.solve(A, V)
m.solve(BATCH, V)
m.solve(A, BATCH)
m.svdvals(BATCH)
m.svd(SPD, hermitian=True, compute_uv=False)
m.tensorinv(T, ind=1)
m.tensorsolve(T.reshape(2, 2, 4), A[:2, :2])
m.qr(TALL)
m.qr(WIDE, mode='complete')
m.qr(TALL, mode='r')
m.qr(C)
m.qr(TALL, mode='raw')
s.cholesky(SPD)
s.cho_solve(s.cho_factor(SPD), V)
s.cho_solve(s.cho_factor(SPD, lower=True), A)
s.solve_triangular(SPD, V)
s.solve_triangular(C, A, trans='C', lower=True)
s.solve_triangular(SPD, V, trans=1, unit_diagonal=True)
s.lu(A)
s.lu(TALL)
s.lu(WIDE, permute_l=True)
s.lu_factor(A)
s.lu_solve(s.lu_factor(A), V)
s.lu_solve(s.lu_factor(C), V + 0j, trans=1)
s.lu_solve(s.lu_factor(C), V + 0j, trans=2)
s.qr(TALL, mode='economic')
s.qr(A, pivoting=True)
s.qr(WIDE, mode='r')
s.qr_multiply(A, B)
s.svd(A, compute_uv=False)
s.eigh(SPD, eigvals_only=True)
s.eigh(A + A.T, SPD, eigvals_only=True)
s.expm(A)
s.expm(BATCH)
s.expm(C * 10)
s.expm_frechet(A, B)
s.solve(SPD, V, assume_a='pos')
s.block_diag(A, 1.0, V)
s.block_diag()
s.polar(A)
s.polar(TALL)
s.polar(A, side='left')
s.polar(WIDE, side='left')
s.sqrtm(C)
s.solve_sylvester(A, SPD, B)
s.hessenberg(A, calc_q=True)
s.toeplitz(V)
s.toeplitz(V, V[:2])
""".strip().splitlines()

#: Expressions that the oracle alone has, or whose types are its own; `x` is lax.linalg.
ORACLE = """
m.cholesky(A, symmetrize_input=False)
m.eigvalsh(A, 'U', symmetrize_input=False)
m.lstsq(TALL, V5)
m.lstsq(WIDE, V[:3], numpy_resid=True)
m.matrix_rank(V)
m.slogdet(BATCH, method='qr')
m.solve(A.astype('float32'), V.astype('complex64'))
s.cho_factor(SPD)
s.schur(SPD)
s.sqrtm(SPD)
x.cholesky_update(s.cholesky(SPD), V)
x.symmetric_product(A, B, alpha=2.0, beta=3.0)
x.triangular_solve(SPD, A, left_side=True, lower=True)
x.triangular_solve(C, C, transpose_a=True, conjugate_a=True)
x.lu(WIDE)
x.lu_pivots_to_permutation(P, 5)
x.qr(A, pivoting=True)
x.householder_product(TALL, V[:3])
x.ormqr(TALL, V[:3], TALL, transpose=True)
x.ormqr(TALL, V[:3], WIDE, left=False)
x.hessenberg(A)
x.tridiagonal(SPD)
x.tridiagonal_solve(V, V + 9, V, A)
x.schur(SPD, compute_schur_vectors=False)
""".strip().splitlines()

#: Expressions that fail in the same way.
FAILURES = """
m.inv(TALL)
m.cholesky(TALL)
m.eigh(A, 'X')
m.qr(A, 'bad')
m.slogdet(A, method='bad')
m.solve(A, V5)
m.slogdet(TALL)
m.matrix_power(A, 1.5)
m.lstsq(BATCH, V)
m.cond(V)
m.norm(A, 'bad')
m.cholesky(A.astype('float16'))
m.tensorinv(T, ind=0)
s.qr(A, mode='raw')
s.solve(A, V, assume_a='bad')
s.solve_triangular(A, V, trans=5)
s.lu_solve(s.lu_factor(A), V, trans=3)
s.polar(A, side='up')
x.qr(P)
x.triangular_solve(A, BATCH)
x.svd(A, subset_by_index=(0, 2))
""".strip().splitlines()


@pytest.fixture(autouse=True)
def _double(jax):
    with cv.enable_x64(True), jax.enable_x64(True):
        yield


def names(array, numpy, scipy, lax=None):
    own = {
        "A": A, "B": B, "TALL": TALL, "WIDE": WIDE, "SPD": SPD, "BATCH": BATCH, "V": V, "C": C,
        "V5": np.arange(5.0), "I": np.array([[4, 1], [1, 3]]), "P": np.array([2, 2, 4], np.int32),
        "T": np.eye(4).reshape(4, 2, 2) * 2,
    }  # fmt: skip
    return {"m": numpy, "s": scipy, "x": lax, **{k: array(v) for k, v in own.items()}}


def both(jax):
    """(the names here, the oracle's)."""
    import jax.scipy.linalg as oracle

    return (
        names(cv.numpy.asarray, cv.numpy.linalg, scipy_linalg, cv.lax.linalg),
        names(jax.numpy.asarray, jax.numpy.linalg, oracle, jax.lax.linalg),
    )


@pytest.mark.parametrize("expression", VALUES)
def test_values(expression):
    """NumPy's and SciPy's numbers."""
    import scipy.linalg

    ours = eval(expression, names(cv.numpy.asarray, cv.numpy.linalg, scipy_linalg))
    theirs = eval(expression, names(np.asarray, np.linalg, scipy.linalg))
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    ours, theirs = ((x if isinstance(x, tuple) else (x,)) for x in (ours, theirs))
    for got, wanted in zip(ours, theirs, strict=True):
        assert np.shape(got) == np.shape(wanted)
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("expression", ORACLE)
def test_values_of_the_oracle(expression, jax, assert_close):
    here, there = both(jax)
    ours = eval(expression, here)
    theirs = given("numpy", lambda: eval(expression, there))
    if isinstance(theirs, list):
        theirs = tuple(theirs)
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    assert_close(ours, theirs, rtol=1e-4 if "float32" in expression else 1e-8, atol=1e-9)


@pytest.mark.parametrize("expression", FAILURES)
def test_failures(expression, jax):
    own, oracle = both(jax)
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        eval(expression, oracle)
    with pytest.raises(Exception) as ours:  # noqa: PT011
        eval(expression, own)
    kinds = [kind.__name__ for kind in type(ours.value).__mro__]
    assert type(theirs.value).__name__ in kinds, (type(theirs.value), type(ours.value))


#: Real functions of matrices that don't depend on the signs of vectors.
GRADIENTS = {
    "cholesky": lambda m, x, p: p.sum(m.cholesky(x @ x.T + p.eye(4)) ** 3),
    "qr": lambda m, x, p: p.sum(m.qr(x)[0] ** 3) + p.sum(m.qr(x)[1] ** 2 * p.arange(4.0)),
    "svd": lambda m, x, p: sum(p.sum(y**4) for y in m.svd(x, full_matrices=False)),
    "eigh": lambda m, x, p: sum(p.sum(y**4) for y in m.eigh(x)),
    "determinants": lambda m, x, p: m.slogdet(x)[1] ** 2 + p.sin(m.det(x)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, jax):
    fun = GRADIENTS[name]
    ours = cv.grad(lambda x: fun(cv.numpy.linalg, x, cv.numpy))(A)
    theirs = answer("numpy", jax.grad(lambda x: fun(jax.numpy.linalg, x, jax.numpy)), A)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-7, atol=1e-8)


def test_vectors_rebuild_their_matrix():
    m = cv.numpy.linalg
    for x in (A, C, BATCH, TALL, WIDE):
        u, s, vh = map(np.asarray, m.svd(x, full_matrices=False))
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, x, atol=1e-12)
        square = x @ np.conj(np.swapaxes(x, -1, -2))
        w, v = map(np.asarray, m.eigh(square))
        np.testing.assert_allclose(square @ v, v * w[..., None, :], atol=1e-11)
    for x in (A, C, BATCH):
        w, v = map(np.asarray, m.eig(x))
        np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=1e-11)
        values, left, _ = map(np.asarray, cv.lax.linalg.eig(x))
        np.testing.assert_allclose(
            np.conj(np.swapaxes(left, -1, -2)) @ x,
            values[..., :, None] * np.conj(np.swapaxes(left, -1, -2)), atol=1e-11,
        )  # fmt: skip
        t, z = map(np.asarray, scipy_linalg.schur(x, output="complex"))
        np.testing.assert_allclose(z @ t @ np.conj(np.swapaxes(z, -1, -2)), x, atol=1e-11)
    w, v = map(np.asarray, scipy_linalg.eigh(A + A.T, SPD))
    np.testing.assert_allclose((A + A.T) @ v, SPD @ v * w, atol=1e-11)


def test_subsets_of_values():
    u, s, vh = cv.numpy.linalg.svd(A, full_matrices=False, subset_by_index=(1, 3))
    assert (u.shape, s.shape, vh.shape) == ((4, 2), (2,), (2, 4))
    v, w = cv.lax.linalg.eigh(SPD, subset_by_index=(0, 2))
    np.testing.assert_allclose(np.asarray(w), np.linalg.eigvalsh(SPD)[:2])
    assert v.shape == (4, 2)


def test_signatures(jax):
    """Parameters have the oracle's names and kinds."""
    import jax.scipy.linalg as oracle

    modules = ((jax.lax.linalg, cv.lax.linalg), (oracle, scipy_linalg))
    listed = lambda f: [(p.name, p.kind) for p in inspect.signature(f).parameters.values()]  # noqa: E731
    for theirs, ours in modules:
        for name in ours.__all__:
            if inspect.isfunction(getattr(ours, name)):
                assert listed(getattr(ours, name)) == listed(getattr(theirs, name)), name
