"""Programs over columns: what their panels keep, share and ask for ahead, and what they compute."""

import numpy as np
import pytest

import covector as cv
from covector import numpy as cnp
from covector.compiler.loops import columns

SHAPES = [(40, 50), (33, 700), (700, 300), (5, 1030)]


def drawn(shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def kernels(function, *args):
    return cv.jit(function).lower(*args).as_text("kernels")


def log_softmax(x):
    return cv.nn.log_softmax(x, axis=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_those_of_numpy(shape):
    x = drawn(shape)
    shifted = x - x.max(0)
    total = np.exp(shifted).sum(0)
    np.testing.assert_allclose(cv.jit(log_softmax)(x), shifted - np.log(total), 1e-5, 1e-5)
    softmax = cv.jit(lambda x: cv.nn.softmax(x, axis=0))(x)
    np.testing.assert_allclose(softmax, np.exp(shifted) / total, 1e-5)
    normal = cv.jit(lambda x: (x - cnp.mean(x, 0)) / (cnp.std(x, 0) + 1e-3))(x)
    np.testing.assert_allclose(normal, (x - x.mean(0)) / (x.std(0) + 1e-3), 1e-4, 1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_first_of_ties_and_nans(shape):
    x = np.round(drawn(shape))
    x[::7, ::5] = np.nan
    x[:, 3] = -np.inf
    for axis in range(2):
        for ours, theirs in ((cnp.argmax, np.argmax), (cnp.argmin, np.argmin)):
            got = cv.jit(lambda x, f=ours, axis=axis: f(x, axis=axis))(x)
            assert (np.asarray(got) == theirs(x, axis=axis)).all()


def test_what_all_rows_share_is_computed_once():
    text = kernels(log_softmax, drawn((700, 300)))
    (line,) = [line for line in text.splitlines() if "log(" in line]
    assert line.split("=")[0].strip().startswith("r")  # into a row, before the loop over rows


def test_rows_that_are_cut_are_asked_for_ahead():
    mark = f"ahead {columns.AHEAD}"
    narrow, wide = (
        kernels(lambda x: x.sum(0), drawn((100, n))) for n in (columns.WIDEST, 4 * columns.WIDEST)
    )
    assert mark not in narrow
    assert mark in wide
    text = cv.jit(lambda x: x.sum(0)).lower(drawn((100, 4 * columns.WIDEST))).as_text("llvm")
    assert "llvm.prefetch" in text


def test_panels_keep_a_bounded_amount():
    for rows in (100, 4000, 8000):
        text = kernels(lambda x: cv.nn.softmax(x, axis=0), drawn((rows, 1024)))
        (kept,) = [part for part in text.split(", ") if part.startswith("scratch t0:")]
        width = int(kept.split(",")[-1].split("]")[0])
        assert 64 <= width <= columns.KEEPING
        assert rows * width * 4 <= columns.PANEL_BYTES
    assert "scratch t0" not in kernels(lambda x: cv.nn.softmax(x, axis=0), drawn((20000, 1024)))
