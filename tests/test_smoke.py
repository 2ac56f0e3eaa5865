"""The shortest look at the whole: the transformations compose and give the right numbers."""

import subprocess
import sys

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp

W = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]], dtype=np.float32)
X = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]], dtype=np.float32)


def energy(w, x):
    """A scalar for one x of shape (3,)."""
    return cnp.sum(cnp.tanh(x @ w) ** 2)


def energy_slope(w, x):
    """Its derivative by w, by hand."""
    t = np.tanh(x @ w)
    return np.outer(x, 2 * t * (1 - t**2))


def test_eager():
    np.testing.assert_allclose(energy(W, X[0]), (np.tanh(X[0] @ W) ** 2).sum(), rtol=1e-5)


def test_jit_of_vmap_of_grad():
    slopes = cv.jit(cv.vmap(cv.grad(energy), in_axes=(None, 0)))(W, X)
    assert slopes.shape == (2, 3, 2)
    assert slopes.dtype == np.float32
    np.testing.assert_allclose(slopes, [energy_slope(W, x) for x in X], rtol=1e-4, atol=1e-6)


def test_grad_of_grad():
    second = cv.grad(cv.grad(lambda x: x**3 * cnp.sin(x)))(1.25)
    x = 1.25
    expected = 6 * x * np.sin(x) + 6 * x**2 * np.cos(x) - x**3 * np.sin(x)
    np.testing.assert_allclose(second, expected, rtol=1e-4)


def test_a_bad_call_says_what_is_wrong():
    with pytest.raises(TypeError, match="3"):
        cnp.ones((2, 3)) @ cnp.ones((2, 3))


def test_import_alone_is_silent():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import covector"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
