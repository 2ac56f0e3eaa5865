"""Empty arrays, and elements of few bits: what random programs beside the oracle found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, nn

NONE = np.zeros(0, np.int32)
FLAT, ROWS, COLUMNS = np.zeros(0, "f"), np.zeros((0, 3), "f"), np.zeros((2, 0), "f")

#: Of arrays without elements, the shape that comes out.
EMPTY: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "index": (lambda: cnp.asarray(FLAT)[NONE], (0,)),
    "rows": (lambda: cnp.asarray(ROWS)[NONE], (0, 3)),
    "pairs": (lambda: cnp.asarray(ROWS)[NONE, NONE], (0,)),
    "grid": (lambda: cnp.asarray(COLUMNS)[:, NONE[:, None]], (2, 0, 1)),
    "sorted": (lambda: cnp.asarray(FLAT)[cnp.argsort(FLAT)], (0,)),
    "take": (lambda: cnp.take(COLUMNS, NONE, 1), (2, 0)),
    "take_clip": (lambda: cnp.take(COLUMNS, NONE, 1, mode="clip"), (2, 0)),
    "take_along_axis": (lambda: cnp.take_along_axis(ROWS, np.zeros((0, 3), int), 0), (0, 3)),
    "get": (lambda: cnp.asarray(FLAT).at[NONE].get(mode="fill"), (0,)),
    "repeat": (lambda: cnp.repeat(ROWS, NONE, axis=0), (0, 3)),
    "repeat_total": (lambda: cnp.repeat(FLAT, NONE, total_repeat_length=3), (0,)),
    "grad": (lambda: cv.grad(lambda x: cnp.sum(x[NONE]))(FLAT), (0,)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_is_read_of_what_is_empty(name: str) -> None:
    make, shape = EMPTY[name]
    assert make().shape == shape
    assert cv.jit(make)().shape == shape


@pytest.mark.parametrize("make", [
    lambda: cnp.asarray(COLUMNS) @ cnp.asarray(ROWS),
    lambda: cnp.einsum("ij,jk->ki", COLUMNS, ROWS),
    lambda: cnp.linalg.slogdet(np.zeros((0, 0), "f"))[1],
])  # fmt: skip
def test_a_sum_of_nothing_is_positive_zero(make: Callable[[], Any]) -> None:
    for found in (make(), cv.jit(make)()):
        assert not np.signbit(found).any()
        assert not np.asarray(found).any()


def test_counts_end_where_the_next_element_starts() -> None:
    x = np.array([5, 1, 1, 3, 3, 3, 9])
    for size, counts in ((1, [2]), (2, [2, 3]), (4, [2, 3, 1, 1]), (6, [2, 3, 1, 1, 0, 0])):
        assert cnp.unique_counts(x, size=size).counts.tolist() == counts


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_products_of_few_bits_wrap(dtype: str) -> None:
    x = np.array([[3, 1], [2, 0]]).astype(getattr(ml_dtypes, dtype))
    wide = x.astype(int)
    for f in (lambda v: v @ v, cv.jit(lambda v: v @ v)):
        np.testing.assert_array_equal(f(cnp.asarray(x)), (wide @ wide).astype(x.dtype))
    window = lax.conv_general_dilated(x[None, :1], x[None, :1, :1], (1,), "SAME")
    np.testing.assert_array_equal(window[0, 0], (wide[0] * wide[0, 0]).astype(x.dtype))


SMALL = ["int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float4_e2m1fn"]


@pytest.mark.parametrize("dtype", SMALL)
def test_elements_of_few_bits_are_ordered(dtype: str) -> None:
    x = np.array([3, 1, 4, 0, 2]).astype(getattr(ml_dtypes, dtype))
    for run in (lambda f: f, cv.jit):
        assert run(cnp.sort)(x).astype(float).tolist() == [0, 1, 2, 3, 4]
        assert run(cnp.argsort)(x).tolist() == [3, 1, 4, 0, 2]
        assert run(lambda v: lax.top_k(v, 2)[1])(x).tolist() == [2, 0]
        assert float(run(cnp.max)(x)) == 4
        assert float(run(cnp.nanmin)(x)) == 0
        window = run(lambda v: lax.reduce_window(v, v[3], lax.max, (2,), (2,), ((1, 0),)))(x)
        assert window.astype(float).tolist() == [3, 4, 2]


def test_exponents_alone_have_no_sign() -> None:
    x = np.array([1, 4, 2, 0.25]).astype(ml_dtypes.float8_e8m0fnu)
    assert lax.top_k(x, 2)[1].tolist() == [1, 2]


def test_quantiles_have_the_type_of_the_array() -> None:
    for dtype, wanted in (("bfloat16", "bfloat16"), ("float32", "float32"), ("int8", "float32")):
        for q in ("float32", "bfloat16"):
            assert cnp.quantile(cnp.ones(3, dtype), cnp.array([0.5], q)).dtype == wanted
    x = cnp.arange(1001.0) / 1000
    assert abs(cnp.quantile(x.astype("bfloat16"), np.float32(0.1234)) - 0.1234) < 1e-3


def test_neighbours_are_of_the_type_itself() -> None:
    for dtype in ("bfloat16", "float16"):
        x = cnp.array([1.0, -1.0, 0.0], dtype)
        eps = float(cnp.finfo(dtype).eps)
        up = cv.jit(cnp.nextafter)(x, cnp.array(9, dtype))
        assert up[:2].astype(float).tolist() == [1 + eps, -1 + eps / 2]
        assert float(up[2]) == float(cnp.finfo(dtype).smallest_subnormal)
        assert float(cnp.spacing(x)[0]) == eps


def test_weak_types_survive_activations_and_scans() -> None:
    for name in ("relu6", "elu", "selu", "celu", "leaky_relu", "hard_sigmoid", "hard_silu"):
        assert getattr(nn, name)(cnp.ones(2, "int8")).weak_type, name
        assert not getattr(nn, name)(cnp.ones(2)).weak_type, name
    weak = cnp.broadcast_to(cnp.asarray(2.0), (3,))
    assert lax.map(lambda y: y * 2, weak).weak_type
    assert lax.scan(lambda c, _: (c, 1.0), 0.0, cnp.ones(2))[1].weak_type


def test_attention_refuses_masks_and_dtypes_that_do_not_fit() -> None:
    x = np.ones((1, 2, 2, 4), "f")
    for mask in (np.ones((1, 1, 2, 2), "f"), np.ones((1, 1, 2, 2), int)):
        with pytest.raises(ValueError, match="mask must be bool; got"):
            nn.dot_product_attention(x, x, x, mask=mask)
    with pytest.raises(ValueError, match="must have one dtype; got float32, float32 and float16"):
        nn.dot_product_attention(x, x, x.astype("float16"))


@pytest.mark.parametrize("n", [3, 6])
def test_a_row_that_is_filled_on_the_way_of_a_fold_reads_only_what_is_there(n: int) -> None:
    """The median's places are rows too, which a fold over another row must find filled."""

    def spread(x: Any) -> Any:
        bits = lax.bitcast_convert_type(cnp.nanmedian(x, axis=-1), np.int16)
        return nn.standardize(cnp.maximum(bits, x), axis=2)

    x = np.random.default_rng(n).normal(size=(n, n, n)).astype(ml_dtypes.bfloat16)
    found, wanted = cv.jit(spread)(x), spread(cnp.asarray(x))
    np.testing.assert_allclose(found.astype("f"), wanted.astype("f"), rtol=1e-2, atol=1e-2)


def test_the_type_of_arrays_has_their_members() -> None:
    x = cnp.arange(6.0).reshape(2, 3)
    assert cv.Array.sum(x, axis=1).tolist() == [3, 12]
    assert cv.jit(cv.Array.mean)(x) == 2.5
    assert cv.vmap(cv.Array.__mul__)(x, x).shape == (2, 3)
    assert all(hasattr(cv.Array, n) for n in ("T", "at", "to_device", "__array_namespace__"))
    assert not hasattr(cv.Array, "__array__")
    with pytest.raises(AttributeError, match="'Array' has no attribute 'sums'"):
        _ = cv.Array.sums


@pytest.mark.parametrize("lengths", [np.int16([1, 2]), np.int32([1]), np.int32([[1, 2]]), 2])
def test_attention_names_the_lengths_that_do_not_fit(lengths: Any) -> None:
    x = np.ones((2, 3, 1, 4), "f")
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        with pytest.raises(ValueError, match=f"{name} must be int32 numbers of shape .2,."):
            nn.dot_product_attention(x, x, x, **{name: lengths})


@pytest.mark.parametrize("name", ["frexp", "ldexp", "signbit", "copysign"])
def test_floats_of_a_byte_have_signs_and_exponents(name: str) -> None:
    values = np.array([0.5, -1.5, -0.0, 6.0])
    x = values.astype(ml_dtypes.float8_e4m3fn)
    args = {"ldexp": (np.int32([1, -2, 3, 4]),), "copysign": (-x,)}.get(name, ())
    wanted = getattr(np, name)(values, *(np.asarray(a).astype(values.dtype if name != "ldexp"
                                                              else int) for a in args))  # fmt: skip
    found = getattr(cnp, name)(x, *args)
    pairs = zip(found, wanted, strict=True) if name == "frexp" else [(found, wanted)]
    for got, value in pairs:
        np.testing.assert_array_equal(np.asarray(got).astype(float), value)
