"""Linear algebra beyond the laws: equal values, gauges, second order, failure, loops, messages."""

from __future__ import annotations

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, ops
from covector.ops.linalg import parts
from covector.scipy import linalg as scipy_linalg

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _double():
    with cv.enable_x64(True):
        yield


def random(*shape, complex_=False):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if complex_ else x


def symmetric(n, complex_=False):
    x = random(n, n, complex_=complex_)
    return (x + np.conj(x.T)) / 2


def slope(fun, x, direction, step=1e-5):
    """The central difference of a function of one array."""
    return (np.asarray(fun(x + step * direction)) - np.asarray(fun(x - step * direction))) / (
        2 * step
    )


def check(fun, x, direction, rtol=1e-6):
    """Forward and reverse derivatives of a real function equal the slope."""
    wanted = slope(fun, x, direction)
    got = np.asarray(cv.jvp(fun, (x,), (direction,))[1])
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * max(1, np.abs(wanted).max()))
    if np.ndim(wanted) == 0:
        gradient = np.asarray(cv.grad(fun)(x))
        back = np.sum(np.real(gradient * direction))  # JAX's convention: no conjugate
        np.testing.assert_allclose(back, wanted, rtol=rtol, atol=rtol)


# Equal values


def turned(values, complex_=False):
    """A Hermitian matrix with these eigenvalues."""
    q, _ = np.linalg.qr(random(len(values), len(values), complex_=complex_))
    return (q * np.asarray(values)) @ np.conj(q.T)


def equal_singular(m, n):
    """A matrix with the singular values 2, 2, 1, ..."""
    k = min(m, n)
    u, v = np.linalg.qr(random(m, k))[0], np.linalg.qr(random(n, k))[0]
    return (u * np.array([2.0, 2.0, *[1.0] * (k - 2)])) @ v.T


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("make", [np.diag, turned])
def test_eigh_with_equal_values(make, complex_):
    """Results that don't depend on the basis of an eigenspace have their right derivative."""
    a = make([1.0, 1.0, 1.0, 3.0, 3.0]) + (0j if complex_ else 0)
    direction = symmetric(5, complex_)

    def spectral(x):
        w, _ = cnp.linalg.eigh(x)
        return cnp.sum(cnp.exp(w) + w**3)

    def projector(x):
        _, v = cnp.linalg.eigh(x)
        first = v[:, :3]
        return cnp.real(first @ cnp.conj(first.T)).ravel()

    for fun in (spectral, projector):
        check(fun, a, direction)
    back = cv.grad(lambda x: cnp.sum(projector(x) * np.arange(25.0)))(a)
    wanted = slope(lambda x: cnp.sum(projector(x) * np.arange(25.0)), a, direction)
    np.testing.assert_allclose(np.sum(np.real(np.asarray(back) * direction)), wanted, rtol=1e-6)


@pytest.mark.parametrize("complex_", [False, True])
def test_eigh_with_equal_values_to_second_order(complex_):
    a = turned([1.0, 1.0, 2.0, 4.0], complex_)
    first, second = symmetric(4, complex_), symmetric(4, complex_)

    def fun(x):
        w, v = cnp.linalg.eigh(x)
        low = cnp.real(v[:, :2] @ cnp.conj(v[:, :2].T))
        return cnp.sum(low**2 * np.arange(16.0).reshape(4, 4)) + cnp.sum(w)

    check(lambda x: cv.jvp(fun, (x,), (first,))[1], a, second, rtol=2e-5)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
def test_svd_with_equal_values_to_second_order(shape):
    a, first, second = equal_singular(*shape), random(*shape), random(*shape)

    def fun(x):
        u, s, vh = cnp.linalg.svd(x, full_matrices=False)
        both = u[:, :2] @ vh[:2]
        return cnp.sum(both**2 * np.arange(both.size).reshape(shape)) + cnp.sum(s)

    check(lambda x: cv.jvp(fun, (x,), (first,))[1], a, second, rtol=2e-5)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_svd_with_equal_values(shape):
    a, direction = equal_singular(*shape), random(*shape)

    def nuclear(x):
        return cnp.sum(cnp.linalg.svd(x, compute_uv=False))

    def row_space(x):
        _, _, vh = cnp.linalg.svd(x, full_matrices=False)
        return cnp.sum((vh[:2].T @ vh[:2]) * np.arange(shape[1] ** 2.0).reshape(2 * shape[1:]))

    check(nuclear, a, direction)
    check(row_space, a, direction)


def test_functions_of_matrices_have_derivatives_of_their_own():
    """Equal singular values are no obstacle to what doesn't depend on vectors at all."""
    q = np.linalg.qr(random(4, 4))[0]
    direction = random(4, 4)
    check(lambda x: cnp.linalg.pinv(x).ravel(), 2 * q, direction)
    check(lambda x: scipy_linalg.polar(x)[0].ravel(), 2 * q, direction)
    check(lambda x: scipy_linalg.polar(x, "left")[1].ravel(), 2 * q, direction)
    check(lambda x: cnp.real(scipy_linalg.sqrtm(x)).ravel(), np.eye(4), direction)
    check(lambda x: scipy_linalg.polar(x)[0].ravel(), random(5, 3), random(5, 3))
    check(lambda x: cnp.linalg.lstsq(x, np.arange(4.0))[0], 2 * q, direction)


def test_the_option_restores_the_quotient():
    def fun(x):
        _, v = cnp.linalg.eigh(x)
        return cnp.sum(v @ v.T)

    assert np.isfinite(np.asarray(cv.grad(fun)(np.eye(3)))).all()
    with cv.config.scoped(singular_derivatives="ieee"):
        assert not np.isfinite(np.asarray(cv.grad(fun)(np.eye(3)))).all()


# Complex vectors, whose phases are LAPACK's


def test_complex_eigenvectors_up_to_phase():
    a, direction = symmetric(4, True), symmetric(4, True)
    weights = random(4, 4)
    check(lambda x: cnp.sum(cnp.abs(cnp.linalg.eigh(x)[1]) ** 2 * weights), a, direction)
    general = random(4, 4, complex_=True)
    check(lambda x: cnp.sum(cnp.abs(cnp.linalg.eig(x)[1]) ** 2 * weights), general,
          random(4, 4, complex_=True))  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_complex_svd_rebuilds_its_tangent(shape):
    a, t = random(*shape, complex_=True), random(*shape, complex_=True)

    def rebuilt(x):
        u, s, vh = cnp.linalg.svd(x, full_matrices=False)
        return (u * s) @ vh

    np.testing.assert_allclose(np.asarray(cv.jvp(rebuilt, (a,), (t,))[1]), t, atol=1e-10)


# Systems


@pytest.mark.parametrize("complex_", [False, True])
def test_solve_by_the_matrix_to_second_order(complex_):
    a = random(4, 4, complex_=complex_) + 4 * np.eye(4)
    b = random(4, 2, complex_=complex_)
    first, second = random(4, 4, complex_=complex_), random(4, 4, complex_=complex_)

    def fun(x):
        return cnp.real(cnp.linalg.solve(x, b)).ravel()

    check(fun, a, first)
    check(lambda x: cv.jvp(fun, (x,), (first,))[1], a, second, rtol=1e-5)
    check(lambda x: cnp.sum(cnp.sin(cnp.real(cnp.linalg.inv(x)))), a, first)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_determinants(n):
    a, first, second = random(n, n), random(n, n), random(n, n)
    check(cnp.linalg.det, a, first)
    check(lambda x: cv.jvp(cnp.linalg.det, (x,), (first,))[1], a, second, rtol=1e-5)
    for method in ("lu", "qr"):
        fun = lambda x, m=method: cnp.linalg.slogdet(x, method=m)[1]  # noqa: E731
        check(fun, a, first)
        check(lambda x, f=fun: cv.jvp(f, (x,), (first,))[1], a, second, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(cnp.linalg.det(a)), np.linalg.det(a), rtol=1e-10)


def test_the_gradient_of_a_zero_determinant():
    for rank in (4, 3, 2):
        a = random(5, rank) @ random(rank, 5)
        a[:, 0] *= 0 if rank == 3 else 1
        gradient = np.asarray(cv.grad(cnp.linalg.det)(a))
        wanted = np.array([
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
             for j in range(5)] for i in range(5)
        ])  # fmt: skip
        np.testing.assert_allclose(gradient, wanted, atol=1e-9)
    complex_ = random(3, 4, complex_=True).T @ random(3, 4, complex_=True)
    assert np.isfinite(np.asarray(cv.grad(cnp.linalg.det, holomorphic=True)(complex_))).all()


def test_tridiagonal_system_by_its_diagonals():
    n, b = 5, random(5, 2)
    given = random(3, 5) + np.array([[0.0], [6.0], [0.0]])

    def fun(x):
        return cnp.sin(lax.linalg.tridiagonal_solve(x[0], x[1], x[2], b)).sum()

    check(fun, given, random(3, n))
    full = np.diag(given[1]) + np.diag(given[0][1:], -1) + np.diag(given[2][:-1], 1)
    found = lax.linalg.tridiagonal_solve(*map(cnp.asarray, given), cnp.asarray(b))
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(full, b), rtol=1e-10)


def test_one_triangle_for_many_right_sides():
    """The matrix is not copied for each example."""
    a, b = np.tril(random(4, 4)) + 4 * np.eye(4), random(3, 4)
    solve = lambda y: lax.linalg.triangular_solve(a, y, left_side=True, lower=True)  # noqa: E731
    program = str(cv.make_jaxpr(cv.vmap(solve))(b))
    assert "f64[3,4,4]" not in program
    found = np.asarray(cv.vmap(solve)(b))
    np.testing.assert_allclose(found, np.linalg.solve(a, b.T).T, rtol=1e-10)
    rows = random(2, 5, 4)
    right = lambda y: lax.linalg.triangular_solve(a, y, lower=True)  # noqa: E731
    found = np.asarray(cv.vmap(right, 1)(rows))
    np.testing.assert_allclose(found, np.swapaxes(rows, 0, 1) @ np.linalg.inv(a), rtol=1e-9)


# In loops and branches


def test_routines_inside_loops_and_branches():
    a, b = random(3, 3) + 4 * np.eye(3), random(3)

    @cv.jit
    def refine(a, b):
        def body(x, _):
            x = cnp.linalg.solve(a, x) * 3
            return x, cnp.linalg.svd(a * x[0], compute_uv=False)

        return lax.scan(body, b, None, length=4)

    x, rows = b, []
    for _ in range(4):
        x = np.linalg.solve(a, x) * 3
        rows.append(np.linalg.svd(a * x[0], compute_uv=False))
    found = refine(a, b)
    np.testing.assert_allclose(np.asarray(found[0]), x, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(found[1]), rows, rtol=1e-9)

    @cv.jit
    def until(a):
        return lax.while_loop(
            lambda m: cnp.linalg.det(m) < 1e6, lambda m: cnp.linalg.cholesky(m @ m.T) + m, a
        )

    @cv.jit
    def choose(flag, a):
        return lax.cond(flag, lambda m: cnp.linalg.eigh(m)[0], lambda m: cnp.diagonal(m), a)

    assert np.isfinite(np.asarray(until(a))).all()
    s = a + a.T
    np.testing.assert_allclose(np.asarray(choose(True, s)), np.linalg.eigvalsh(s), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(choose(False, s)), np.diag(s))


def test_the_gradient_of_a_loop_of_systems():
    a, b = random(3, 3) + 5 * np.eye(3), random(3)

    def fun(m):
        return lax.scan(lambda x, _: (cnp.linalg.solve(m, x), None), b, None, length=3)[0].sum()

    check(fun, a, random(3, 3))


# Failure


def test_failure_is_nan_of_that_matrix_alone():
    good, bad = np.eye(3), -np.eye(3)
    found = np.asarray(cnp.linalg.cholesky(np.stack([good, bad])))
    np.testing.assert_array_equal(found[0], good)
    assert np.isnan(found[1][np.tril_indices(3)]).all()
    np.testing.assert_array_equal(np.triu(found[1], 1), 0)
    bad = np.full((3, 3), np.nan)
    for special in (bad, np.where(good > 0, np.inf, 0)):
        both = np.stack([good, special])
        for fun in (cnp.linalg.eigh, cnp.linalg.eig, cnp.linalg.svd, cnp.linalg.svdvals,
                    scipy_linalg.schur):  # fmt: skip
            outs = fun(both)
            for x in outs if isinstance(outs, tuple) else (outs,):
                assert np.isfinite(np.asarray(x)[0]).all(), fun
                assert not np.isfinite(np.asarray(x)[1]).any(), fun


def test_singular_systems():
    x = np.asarray(cnp.linalg.solve(np.ones((2, 2)), np.array([1.0, 2.0])))
    assert not np.isfinite(x).any()
    sign, logs = cnp.linalg.slogdet(np.zeros((2, 2)))
    assert (float(sign), float(logs)) == (0.0, -np.inf)
    zero = np.zeros(2)
    x = lax.linalg.tridiagonal_solve(*map(cnp.asarray, (zero, zero, zero, np.ones((2, 1)))))
    assert np.isnan(np.asarray(x)).all()


def test_symmetrize_input():
    lower = np.array([[4.0, 100.0], [2.0, 5.0]])
    read = lax.linalg.cholesky(lower, symmetrize_input=False)
    np.testing.assert_allclose(np.asarray(read), [[2, 0], [1, 2]])
    mean = np.array([[4.0, 1.0], [3.0, 5.0]])
    np.testing.assert_allclose(np.asarray(lax.linalg.cholesky(mean)), [[2, 0], [1, 2]])
    upper = np.array([[2.0, 7.0], [1.0, 3.0]])
    for uplo in ("L", "U"):
        found = cnp.linalg.eigvalsh(upper, uplo, symmetrize_input=False)
        np.testing.assert_allclose(np.asarray(found), np.linalg.eigvalsh(upper, uplo))


# Messages


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: lax.linalg.cholesky(cnp.ones((2, 3))), ValueError, r"cholesky.*\(2, 3\)"),
        (lambda: cnp.linalg.inv(cnp.ones((2, 3))), ValueError, r"inv .*\(2, 3\)"),
        (lambda: cnp.linalg.solve(cnp.eye(3), cnp.ones(2)), ValueError, r"b must be .* 3 rows"),
        (lambda: cnp.linalg.cholesky(cnp.eye(2, dtype="float16")),
         NotImplementedError, r"f16\[2,2\]"),
        (lambda: lax.linalg.qr(cnp.ones((2, 2), "int32")), TypeError, r"i32\[2,2\]"),
        (lambda: lax.linalg.triangular_solve(cnp.eye(2), cnp.ones((3, 2)), left_side=True),
         TypeError, "b must have 2 rows"),
        (lambda: lax.linalg.triangular_solve(cnp.eye(2), cnp.ones((2, 2), "float32")),
         TypeError, "dtypes"),
        (lambda: lax.linalg.ormqr(cnp.ones((3, 2)), cnp.ones(3), cnp.ones((3, 1))),
         ValueError, "at most 2 elements"),
        (lambda: lax.linalg.svd(cnp.eye(2), subset_by_index=(0, 1)), ValueError, "subset_by_index"),
        (lambda: cv.grad(lambda x: lax.linalg.qr(x)[0].sum())(cnp.ones((3, 2))),
         NotImplementedError, "full_matrices=False"),
        (lambda: cv.grad(lambda x: lax.linalg.svd(x)[0].sum())(cnp.ones((3, 2))),
         NotImplementedError, "full_matrices=False"),
        (lambda: cv.grad(lambda x: lax.linalg.schur(x)[0].sum())(cnp.eye(2)),
         NotImplementedError, "schur has no derivative"),
        (lambda: cnp.linalg.qr(cnp.eye(2), mode="bad"), ValueError, "'bad'"),
        (lambda: cnp.linalg.eigh(cnp.eye(2), "X"), ValueError, "UPLO"),
    ],
)  # fmt: skip
def test_messages(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_equal_values_are_told_by_their_gap():
    """Gaps of rounding errors count as none; real ones don't."""
    w = np.array([1.0, 1.0 + 4e-16, 1.0 + 1e-9])
    found = np.asarray(parts.inverse_gaps(cnp.asarray(w)))
    assert found[0, 1] == found[1, 0] == 0
    np.testing.assert_allclose(found[0, 2], 1e9, rtol=1e-6)
    assert ops.linalg.parts is parts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_matrices_have_the_factors_of_large_ones(dtype):
    """Own code for up to 32 rows and columns: LAPACK's pivots, its factors up to rounding."""
    for m, n in ((1, 1), (2, 2), (3, 5), (8, 8), (7, 9), (17, 4), (4, 17), (32, 32), (33, 33)):
        x = rng.standard_normal((2, m, n)).astype(dtype)
        found = [np.asarray(y) for y in lax.linalg.lu(x)]
        wanted = ops.linalg.lu.Lu().numpy(x)
        np.testing.assert_array_equal(found[1], wanted[1])
        np.testing.assert_array_equal(found[2], wanted[2])
        tolerance = 1e-3 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(found[0], wanted[0], rtol=tolerance, atol=tolerance)
    tiny = np.array([[1e-310, 0], [1e-310, 1.0]])
    found = np.asarray(lax.linalg.lu(tiny)[0])
    np.testing.assert_array_equal(found, [[1e-310, 0], [1, 1]])
    zero = np.array([[0.0, 1.0], [0.0, 2.0]])
    np.testing.assert_array_equal(np.asarray(lax.linalg.lu(zero)[0]), zero)
