"""Batches of small matrices: straight-line kernels beside LAPACK's results."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.linalg

import covector
import covector.numpy as cnp
from covector import lax
from covector.compiler import libraries
from covector.ops.linalg.lu import Lu

CASES = [(1, "float32"), (2, "float32"), (3, "float32"), (3, "float64"), (5, "float64"),
         (8, "float32")]  # fmt: skip
#: An odd number of blocks of all lanes, and some that are left over.
COUNT = 203


def draw(n, dtype, batch=(COUNT,), columns=None, seed=0):
    rng = np.random.default_rng(seed)
    shape = (*batch, n, n if columns is None else columns)
    return rng.uniform(-2, 2, shape).astype(dtype)


def program(f, *args):
    return covector.jit(f).lower(*args).as_text("kernels")


def is_one_kernel(text):
    return "library" not in text and text.count("call k") == 1


def x64(dtype):
    return covector.enable_x64(dtype == "float64")


def check_backward(a, x, b, factor=40):
    """The residual of a backward stable solution: |a x - b| within n eps (|a| |x| + |b|)."""
    eps, n = np.finfo(a.dtype).eps, a.shape[-1]
    a, x, b = (v.astype(np.float64) for v in (a, x, b))
    size = np.abs(a) @ np.abs(x) + np.abs(b)
    assert (np.abs(a @ x - b) <= factor * n * eps * size.max((-1, -2), keepdims=True)).all()


@pytest.mark.parametrize(("n", "dtype"), CASES)
def test_lu_has_the_pivots_of_lapack(n, dtype):
    a = draw(n, dtype)
    with x64(dtype):
        assert is_one_kernel(program(lax.linalg.lu, a))
        factors, pivots, order = map(np.asarray, covector.jit(lax.linalg.lu)(a))
    wanted = Lu().numpy(a)
    np.testing.assert_array_equal(pivots, wanted[1])
    np.testing.assert_array_equal(order, wanted[2])
    eps = np.finfo(dtype).eps
    low = np.tril(factors, -1) + np.eye(n)
    size = np.abs(low) @ np.abs(np.triu(factors))
    moved = np.take_along_axis(a, order[..., None], -2)
    assert (np.abs(low @ np.triu(factors) - moved) <= 4 * n * eps * size + eps).all()


@pytest.mark.parametrize("shape", [(37, 5, 3), (37, 2, 6)])
def test_lu_of_tall_and_wide_matrices(shape):
    a = np.random.default_rng(1).normal(size=shape).astype("float32")
    assert is_one_kernel(program(lax.linalg.lu, a))
    for found, wanted in zip(covector.jit(lax.linalg.lu)(a), Lu().numpy(a), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("n", "dtype"), CASES)
def test_solve_and_inverse(n, dtype):
    a, b = draw(n, dtype), draw(n, dtype, columns=2, seed=1)
    with x64(dtype):
        text = program(lambda a, b: (cnp.linalg.solve(a, b), cnp.linalg.solve(a.mT, b)), a, b)
        assert "library" not in text
        x, inverse = covector.jit(lambda a, b: (cnp.linalg.solve(a, b), cnp.linalg.inv(a)))(a, b)
    check_backward(a, np.asarray(x), b)
    check_backward(a, np.asarray(inverse), np.broadcast_to(np.eye(n, dtype=dtype), a.shape))


@pytest.mark.parametrize("batch", [(16,), (1, 16), (4, 5), (3, 1, 30), (64,), (129,)])
def test_shapes_of_batches(batch):
    a, b = draw(3, "float32", batch) + 4 * np.eye(3, dtype="float32"), draw(3, "float32", batch)
    assert is_one_kernel(program(cnp.linalg.solve, a, b))
    found = covector.jit(cnp.linalg.solve)(a, b)
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [(), (1,), (7,), (2, 3), (0,), (0, 20)])
def test_few_matrices_are_as_many(batch):
    a, b = draw(3, "float32", batch, seed=2), draw(3, "float32", batch, seed=3)
    a = (a + 4 * np.eye(3)).astype("float32")
    found = covector.jit(cnp.linalg.solve)(a, b)
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-5, atol=1e-5)


def test_no_rows():
    a = np.zeros((40, 0, 0), np.float32)
    assert covector.jit(cnp.linalg.inv)(a).shape == (40, 0, 0)


def test_factors_that_another_program_made():
    """What solves with them has only their numbers."""
    a, b = draw(4, "float32"), draw(4, "float32", columns=2, seed=4)
    x, pull = covector.vjp(lambda b: cnp.linalg.solve(a, b), b)
    assert is_one_kernel(program(pull, b))
    (back,) = covector.jit(pull)(b)
    check_backward(a, np.asarray(x), b)
    check_backward(np.swapaxes(a, 1, 2), np.asarray(back), b)
    x, tangent = covector.linearize(lambda b: cnp.linalg.solve(a, b), b)
    check_backward(a, np.asarray(covector.jit(tangent)(b)), b)


def test_ties_take_the_first_row_as_lapack_does():
    a = np.random.default_rng(5).integers(-1, 2, (COUNT, 3, 3)).astype("float32")  # all is exact
    _, pivots, order = covector.jit(lax.linalg.lu)(a)
    wanted = Lu().numpy(a)
    np.testing.assert_array_equal(pivots, wanted[1])
    np.testing.assert_array_equal(order, wanted[2])


def test_singular_matrices_give_no_numbers():
    a = draw(3, "float32")
    a[::2, 2] = a[::2, 1]
    a[1::4] = 0
    found = np.asarray(covector.jit(cnp.linalg.inv)(a))
    assert not np.isfinite(found[1::4]).any()
    assert (~np.isfinite(found[::2]) | (np.abs(found[::2]) > 1e4)).any((-1, -2)).all()
    check_backward(a[3::4], found[3::4], np.broadcast_to(np.eye(3, dtype="float32"), (50, 3, 3)))


def test_one_matrix_of_nan_leaves_the_others():
    a = draw(3, "float32") + 5 * np.eye(3, dtype="float32")
    bad = a.copy()
    bad[[0, 77, COUNT - 1], 1, 1] = np.nan, np.inf, np.nan
    inverse = covector.jit(cnp.linalg.inv)
    clean, found = np.asarray(inverse(a)), np.asarray(inverse(bad))
    rest = np.setdiff1d(np.arange(COUNT), [0, 77, COUNT - 1])
    np.testing.assert_array_equal(found[rest], clean[rest])
    assert np.isnan(found[[0, COUNT - 1]]).any((-1, -2)).all()


def test_ill_conditioned_matrices():
    """Backward stable: the residual is small whatever the condition (here up to 1e10)."""
    hilbert = scipy.linalg.hilbert(8).astype("float32")
    rng = np.random.default_rng(6)
    a = (hilbert * rng.uniform(0.5, 2, (COUNT, 8, 1))).astype("float32")
    b = draw(8, "float32", columns=1, seed=7)
    check_backward(a, np.asarray(covector.jit(cnp.linalg.solve)(a, b)), b)


@pytest.mark.parametrize(("n", "dtype"), CASES)
def test_cholesky(n, dtype):
    x = draw(n, dtype)
    a = (x @ np.swapaxes(x, 1, 2) + np.eye(n)).astype(dtype)
    a[5, n - 1, n - 1], a[7, 0, 0] = -1, np.nan
    with x64(dtype):
        assert is_one_kernel(program(lax.linalg.cholesky, a))
        low = np.asarray(covector.jit(lax.linalg.cholesky)(a))
    good = np.setdiff1d(np.arange(COUNT), [5, 7])
    wanted = np.linalg.cholesky(a[good].astype(np.float64))
    np.testing.assert_allclose(low[good], wanted, rtol=1e3 * np.finfo(dtype).eps, atol=1e-5)
    inside = np.tril(np.ones((n, n), bool))
    assert np.isnan(low[[5, 7]][:, inside]).all()
    assert (low[:, ~inside] == 0).all()


@pytest.mark.parametrize("flags", range(16))
def test_triangular_solve(flags):
    left, lower, transpose, unit = (bool(flags >> k & 1) for k in range(4))
    a = draw(3, "float32") + 4 * np.eye(3, dtype="float32")
    b = draw(3, "float32", seed=8)[..., :2] if left else draw(3, "float32", seed=8)[:, :2]
    solve = functools.partial(
        lax.linalg.triangular_solve, left_side=left, lower=lower, transpose_a=transpose,
        unit_diagonal=unit,
    )  # fmt: skip
    assert is_one_kernel(program(solve, a, b))
    x = np.asarray(covector.jit(solve)(a, b))
    full = np.tril(a) if lower else np.triu(a)
    if unit:
        full = full * (1 - np.eye(3)) + np.eye(3)
    full = np.swapaxes(full, 1, 2) if transpose else full
    np.testing.assert_allclose(full @ x if left else x @ full, b, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_solution_is_one_kernel():
    a = draw(3, "float64") + 4 * np.eye(3)
    b = draw(3, "float64", columns=1, seed=9)
    loss = lambda a, b: (cnp.linalg.solve(a, b) ** 2).sum()  # noqa: E731
    with x64("float64"):
        gradient = covector.grad(loss, argnums=(0, 1))
        assert is_one_kernel(program(gradient, a, b))
        da, db = covector.jit(gradient)(a, b)
        hessian = covector.jit(covector.grad(lambda a: (gradient(a, b)[0] ** 2).sum()))(a)
        eps = 1e-6
        up = [(np.asarray(gradient(a + s * eps * a, b)[0]) ** 2).sum((-1, -2)) for s in (1, -1)]
    x = np.linalg.solve(a, b)
    slope = np.linalg.solve(np.swapaxes(a, 1, 2), 2 * x)
    np.testing.assert_allclose(db, slope, rtol=1e-10)
    np.testing.assert_allclose(da, -slope @ np.swapaxes(x, 1, 2), rtol=1e-10)
    numeric = (up[0] - up[1]) / (2 * eps)
    np.testing.assert_allclose((np.asarray(hessian) * a).sum((-1, -2)), numeric, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 4, 6])
def test_determinants(n):
    a = draw(n, "float64")
    with x64("float64"):
        assert "library" not in program(cnp.linalg.slogdet, a)
        det = covector.jit(cnp.linalg.det)(a)
        sign, logs = covector.jit(cnp.linalg.slogdet)(a)
    np.testing.assert_allclose(det, np.linalg.det(a), rtol=1e-9, atol=1e-11)
    wanted = np.linalg.slogdet(a)
    np.testing.assert_array_equal(sign, wanted.sign)
    np.testing.assert_allclose(logs, wanted.logabsdet, rtol=1e-9, atol=1e-11)


def test_what_needs_the_whole_batch_stands_between_two_kernels():
    a = draw(3, "float32") + 5 * np.eye(3, dtype="float32")
    b = draw(3, "float32", columns=1, seed=10)

    def both(a, b):
        x = cnp.linalg.solve(a, b)
        return cnp.linalg.solve(a, b * x.sum()) + x

    assert "library" not in program(both, a, b)
    x = np.linalg.solve(a.astype(np.float64), b)
    np.testing.assert_allclose(covector.jit(both)(a, b), x * (1 + x.sum()), rtol=1e-3, atol=1e-4)


def test_neighbours_join():
    """Products, masks, sums over rows and other arithmetic on the same matrices are one kernel."""
    a, c = draw(3, "float32") + 5 * np.eye(3, dtype="float32"), draw(3, "float32", seed=11)

    def f(a, c):
        low = lax.linalg.cholesky(a @ a.mT + cnp.eye(3))
        x = lax.linalg.triangular_solve(low, cnp.exp(c), left_side=True, lower=True)
        return cnp.tril(x @ c).sum(1) + 1

    assert is_one_kernel(program(f, a, c))
    wide = a.astype(np.float64)
    low = np.linalg.cholesky(wide @ np.swapaxes(wide, 1, 2) + np.eye(3))
    wanted = np.tril(np.linalg.solve(low, np.exp(c)) @ c).sum(1) + 1
    np.testing.assert_allclose(covector.jit(f)(a, c), wanted, rtol=1e-4, atol=1e-4)


def test_what_all_matrices_share_is_not_copied():
    a, b = draw(5, "float32"), draw(5, "float32", columns=1, seed=14)
    shared = draw(5, "float32", ())

    def f(a, b, shared, t):
        return cnp.linalg.solve(a + 9 * cnp.eye(5) + shared, b * t) / t

    text = program(f, a, b, shared, 2.0)
    assert "library" not in text
    assert f"temp float32[{COUNT}" not in text
    wanted = np.linalg.solve(a + 9 * np.eye(5, dtype="float32") + shared, b)
    np.testing.assert_allclose(covector.jit(f)(a, b, shared, 2.0), wanted, rtol=1e-4, atol=1e-5)


def test_loops_hold_them_too():
    a = draw(3, "float32") + 5 * np.eye(3, dtype="float32")
    b = draw(3, "float32", columns=1, seed=12)

    def steps(a, b):
        return lax.fori_loop(0, 3, lambda _, x: cnp.linalg.solve(a, x), b)

    assert "library" not in program(steps, a, b)
    wanted = np.linalg.solve(a, np.linalg.solve(a, np.linalg.solve(a, b)))
    np.testing.assert_allclose(covector.jit(steps)(a, b), wanted, rtol=1e-4, atol=1e-5)


def test_effects_keep_their_order():
    a = draw(3, "float32") + 5 * np.eye(3, dtype="float32")
    b = draw(3, "float32", columns=1, seed=13)
    seen = []

    def f(a, b):
        x = cnp.linalg.solve(a, b)
        covector.debug.callback(lambda v: seen.append(("first", float(v))), x[0, 0, 0])
        y = cnp.linalg.solve(a, x)
        covector.debug.callback(lambda v: seen.append(("second", float(v))), y[0, 0, 0])
        return y

    y = np.asarray(covector.jit(f)(a, b))
    covector.effects_barrier()
    assert [name for name, _ in seen] == ["first", "second"]
    x = np.linalg.solve(a, b)
    np.testing.assert_allclose([v for _, v in seen], [x[0, 0, 0], y[0, 0, 0]], rtol=1e-4)


def random_program(seed):
    """Systems and what stands between them, in an order that the seed chooses."""

    def f(a, b):
        rng = np.random.default_rng(seed)
        shift = 6 * cnp.eye(2)
        matrices, vectors, numbers = [a], [b], [b.sum() * 0.01]
        steps = [
            lambda: vectors.append(cnp.linalg.solve(pick(matrices) + shift, pick(vectors))),
            lambda: vectors.append(cnp.linalg.solve(pick(matrices).mT + shift, pick(vectors))),
            lambda: matrices.append(cnp.linalg.inv(pick(matrices) + shift)),
            lambda: matrices.append(pick(matrices) @ pick(matrices).mT * 0.1),
            lambda: matrices.append(cnp.sin(pick(matrices)) - pick(numbers)),
            lambda: vectors.append(pick(vectors) * pick(numbers) + 1),
            lambda: vectors.append(cnp.tril(pick(matrices)) @ pick(vectors)),
            lambda: numbers.append(cnp.mean(pick(vectors)) + pick(numbers)),
            lambda: matrices.append(lax.linalg.cholesky(pick(matrices) * 0.1 + shift)),
            lambda: matrices.append(cnp.concatenate([pick(vectors), pick(vectors)], 2)),
            lambda: vectors.append(pick(matrices)[::-1][:, :, 1:]),
        ]

        def pick(items):
            return items[rng.integers(len(items))]

        for _ in range(14):
            steps[rng.integers(len(steps))]()
        return [*matrices[1:], *vectors[1:], *numbers[1:]][::2]

    return f


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_are_as_with_lapack(seed, monkeypatch):
    a, b = draw(2, "float32", (19,)), draw(2, "float32", (19,), columns=1, seed=1)
    found = covector.jit(random_program(seed))(a, b)
    monkeypatch.setattr(libraries, "FEWEST_SMALL", 1000)
    with covector.config.scoped(enable_compilation_cache=False):  # which knows the program
        wanted = covector.jit(lambda a, b: random_program(seed)(a, b))(a, b)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)


def complex_draw(n, columns=None, seed=0):
    parts = (draw(n, "float64", columns=columns, seed=seed + k) for k in (0, 100))
    real, imag = parts
    return real + 1j * imag


@pytest.mark.parametrize("n", [1, 3, 4])
def test_complex_matrices(n):
    a, b = complex_draw(n), complex_draw(n, 2, seed=1)
    h = a @ np.conj(np.swapaxes(a, 1, 2)) + np.eye(n)
    h[3, 0, 0] = -1

    def f(a, b, h):
        x, pull = covector.vjp(lambda b: cnp.linalg.solve(a, b), b)
        y = lax.linalg.triangular_solve(a, b, left_side=True, transpose_a=True, conjugate_a=True)
        return lax.linalg.lu(a), x, pull(b)[0], cnp.linalg.inv(a), lax.linalg.cholesky(h), y

    with x64("float64"):
        assert "library" not in program(f, a, b, h)
        found = covector.jit(f)(a, b, h)
        lu, x, back, inverse, low, y = covector.tree_util.tree_map(np.asarray, found)
    wanted = Lu().numpy(a)
    np.testing.assert_array_equal(lu[1], wanted[1])
    np.testing.assert_array_equal(lu[2], wanted[2])
    np.testing.assert_allclose(lu[0], wanted[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a @ x, b, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.swapaxes(a, 1, 2) @ back, b, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(a @ inverse, np.eye(n) + 0 * a, rtol=1e-8, atol=1e-9)
    upper = np.conj(np.swapaxes(np.triu(a), 1, 2))
    np.testing.assert_allclose(upper @ y, b, rtol=1e-7, atol=1e-7)
    good = np.arange(COUNT) != 3
    np.testing.assert_allclose(low[good], np.linalg.cholesky(h[good]), atol=1e-10)
    assert np.isnan(low[3][np.tril_indices(n)]).all()
    assert (low[3][np.triu_indices(n, 1)] == 0).all()
