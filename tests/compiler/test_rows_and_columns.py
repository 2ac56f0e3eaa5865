"""Which axis a nest of reductions goes along, what it keeps, what it has fetched early; NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

import covector as cv
from covector import nn
from covector import numpy as cnp


def array(*shape: int, dtype: str = "float32") -> cv.ShapeDtypeStruct:
    return cv.ShapeDtypeStruct(shape, dtype)


def kernels(function, *arguments) -> str:
    return cv.jit(function).lower(*arguments).as_text("kernels")


def test_the_dearest_loop_over_a_row_asks_for_the_next():
    text = kernels(nn.softmax, array(300, 1024))
    folds = [line.strip() for line in text.splitlines() if "fold" in line]
    assert folds == [
        "fold k0:vector*4 in 0 .. 1024",  # the maximum
        "fold k0:vector*4 in 0 .. 1024 asks x0[i0 + 1, k0]",  # exponentials and their sum
    ]


@pytest.mark.parametrize(("width", "rows"), [(64, 16), (100, 10), (512, 2), (4096, 1)])
def test_short_rows_are_asked_for_a_page_ahead(width, rows):
    text = kernels(lambda x: x.sum(axis=1), array(300, width))
    assert f"asks x0[i0 + {rows}, k0]" in text


@pytest.mark.parametrize("width", [32, 8192])
def test_rows_that_are_short_or_too_long_to_keep_are_not_asked_for(width):
    assert "asks" not in kernels(lambda x: x.sum(axis=1), array(300, width))


def test_nothing_is_asked_for_where_rows_are_read_shifted():
    assert "asks" not in kernels(lambda x: (x[:, 1:] * x[:, :-1]).sum(axis=1), array(300, 1024))


@pytest.mark.parametrize("shape", [(5, 1000), (37, 264), (3, 4, 300)])
def test_what_asks_computes_the_same(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    e = np.exp(x - x.max(-1, keepdims=True))
    got = cv.jit(nn.softmax)(x)
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_one_hot_rows_stay_rows():
    """The labels alone, one a row, do not make columns of rows."""

    def loss(x, labels):
        return -cnp.mean(cnp.sum(nn.one_hot(labels, 1024) * nn.log_softmax(x), axis=-1))

    text = kernels(cv.value_and_grad(loss), array(300, 1024), array(300, dtype="int32"))
    assert "r0[" not in text  # no panels of columns
    for line in re.findall(r"for i0.*", text):
        assert "vector" not in line or "0 .. 300" in line  # one number a row


def blocks(x):
    """Softmax of columns, by blocks of 16 rows."""
    z = x.reshape(-1, 16, x.shape[1])
    top = z.max(1, keepdims=True)
    e = cnp.exp(z - top)
    weight = cnp.exp(top - top.max(0, keepdims=True))
    total = (e.sum(1, keepdims=True) * weight).sum(0, keepdims=True)
    return (e * (weight / total)).reshape(x.shape)


def test_columns_of_blocks_of_rows_are_panels():
    text = kernels(blocks, array(256, 1024))
    assert "y0[i0i + 16*i0o, i1c" in text
    x = np.random.default_rng(0).standard_normal((256, 1024)).astype("float32")
    e = np.exp(x - x.max(0))
    np.testing.assert_allclose(cv.jit(blocks)(x), e / e.sum(0), rtol=1e-5)


def centred(x):
    y = cnp.where(x > 0, x * x - x, x * 3.0 + 1.0)
    mean = y.mean(0)
    return (y - mean) * ((y - mean) ** 2).sum(0)


def test_panels_keep_what_is_dear_alone():
    assert "scratch t0" not in kernels(centred, array(4096, 1024))
    assert "scratch t0" in kernels(lambda x: nn.softmax(x, axis=0), array(4096, 1024))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("function", [cnp.max, cnp.min])
@pytest.mark.parametrize("shape", [(40, 70), (9, 1024), (130, 3)])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_nan_anywhere_is_the_extreme(function, axis, shape, dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.01] = np.nan
    x[rng.random(shape) < 0.01] = np.inf
    x[rng.random(shape) < 0.01] = -np.inf
    want = {cnp.max: np.max, cnp.min: np.min}[function](x, axis=axis)
    np.testing.assert_array_equal(cv.jit(lambda v: function(v, axis=axis))(x), want)
    last = np.ones(shape, dtype)
    last[-1, -1] = np.nan
    assert np.isnan(cv.jit(lambda v: function(v))(last))
