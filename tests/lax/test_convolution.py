"""The public functions about convolutions: results, shapes, padding, errors as JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import lax
from tests.oracle import answer, given

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")

X = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("f")
W = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype("f")
NHWC = ("NHWC", "HWIO", "NHWC")


def outcome(call: Callable[[Any], Any], lib: Any) -> Any:
    """What a call gives, or the type of what it raises."""
    try:
        return given("lax", lambda: call(lib.lax)) if lib is jax else call(lib.lax)
    except Exception as error:
        return type(error)


SAME_RESULTS: list[Callable[[Any], Any]] = [
    lambda m: m.conv(X, W, (2, 1), "SAME"),
    lambda m: m.conv(X, W, (1, 1), [(0, 1), (2, 0)]),
    lambda m: m.conv_with_general_padding(X, W, (1, 2), [(0, 1), (2, 0)], (2, 1), (1, 2)),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "same_lower"),
    lambda m: m.conv_general_dilated(X.astype("i1"), W.astype("i1"), (1, 1), "SAME",
                                     preferred_element_type="int32"),
    lambda m: m.conv_general_dilated_patches(X, (2, 3), (2, 1), "SAME"),
    lambda m: m.conv_general_dilated_patches(X, (2, 3), (1, 1), [(1, 0), (0, 1)], (2, 1), (1, 2),
                                             NHWC),
    lambda m: m.conv_general_dilated_local(
        X, np.arange(4 * 12 * 4 * 3, dtype="f").reshape(4, 12, 4, 3), (2, 3), "VALID", (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(SAME_RESULTS)))
def test_results(case: int) -> None:
    ours, theirs = SAME_RESULTS[case](lax), answer("lax", lambda: SAME_RESULTS[case](jax.lax))
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


SAME_ERRORS: list[Callable[[Any], Any]] = [
    lambda m: m.conv_general_dilated(X, W.astype("f2"), (1, 1), "SAME"),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", preferred_element_type="int32"),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", preferred_element_type="float16"),
    lambda m: m.conv_general_dilated(X.astype("u1"), W.astype("u1"), (1, 1), "SAME",
                                     preferred_element_type="int32").dtype.name,
    lambda m: m.conv_general_dilated(X.astype("i1"), W.astype("i1"), (1, 1), "SAME",
                                     preferred_element_type="uint8"),
    lambda m: m.conv_general_dilated(X, W, (1,), "SAME"),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "FOO"),
    lambda m: m.conv_general_dilated(X, W, (1, 1), ((0, 0),)),
    lambda m: m.conv_general_dilated(X, W, (1, 1), ((0, 0), (0, 0, 0))),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", (2, 2)),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", None, (0, 1)),
    lambda m: m.conv_general_dilated(X, W, (1, 1), ((-5, -5), (-5, -5))),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", dimension_numbers=NHWC),
    lambda m: m.conv_general_dilated(X, W[0], (1, 1), "SAME"),
    lambda m: m.conv_general_dilated(X, W[:, :2], (1, 1), "SAME"),
    lambda m: m.conv_general_dilated(X, W[:, :1], (1, 1), "SAME", feature_group_count=3),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", feature_group_count=0),
    lambda m: m.conv_general_dilated(X, W, (1, 1), "SAME", batch_group_count=3),
    lambda m: m.conv_general_dilated(X, W[:3], (1, 1), "SAME", batch_group_count=2),
    *(lambda m, words=words: m.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), words)
      for words in (("NHW", *NHWC[1:]), ("NHHC", *NHWC[1:]), ("NXYC", *NHWC[1:]), 3, NHWC[:2],
                    ((0, 1, 2, 3),) * 3, ("BHWC", *NHWC[1:]))),
    lambda m: m.conv_dimension_numbers((1, 2, 3), (1, 2), None),
    lambda m: m.conv_general_permutations(("NHWC", "HWIO", "NHXC")),
    lambda m: m.conv_transpose(np.ones((1, 5, 5, 5, 5, 2)), np.ones((3, 3, 3, 3, 2, 4)),
                               (1,) * 4, "SAME"),
    lambda m: m.conv_transpose(np.ones((1, 5, 2), "f"), np.ones((3, 2, 4), "f"), (2,), "LOWER"),
    lambda m: m.conv_general_dilated_patches(X, (2,), (1, 1), "SAME"),
    lambda m: m.conv_general_dilated_local(
        X, np.ones((4, 12, 2, 2), "f"), (2, 3), "VALID", (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(SAME_ERRORS)))
def test_errors(case: int) -> None:
    ours, theirs = (outcome(SAME_ERRORS[case], lib) for lib in (cv, jax))
    assert ours == theirs


def test_a_message_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"lhs has 3 features .*times the 2 input features of rhs"):
        lax.conv(X, W[:, :2], (1, 1), "SAME")
    with pytest.raises(TypeError, match=r"float32, float16.*convert_element_type"):
        lax.conv(X, W.astype("f2"), (1, 1), "SAME")


def test_shapes() -> None:
    words = ("NHWC", "HWIO", "NWHC")
    for m in (lax, jax.lax):
        assert tuple(m.conv_dimension_numbers(X.shape, W.shape, words).out_spec) == (0, 3, 2, 1)
        assert m.conv_general_permutations(words) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 2, 1))
        assert m.conv_shape_tuple(X.shape, W.shape, (2, 1), "SAME", 2) == (1, 4, 4, 8)
        shapes = (2, 8, 8, 3), (3, 3, 3, 4), (2, 3)
        assert m.conv_general_shape_tuple(*shapes, "VALID", NHWC) == (2, 3, 2, 4)
        assert m.conv_transpose_shape_tuple(*shapes, "VALID", NHWC) == (2, 17, 24, 4)
        pairs = ((1, 1), (0, 2))
        assert m.conv_transpose_shape_tuple(*shapes, pairs, NHWC) == (2, 15, 22, 4)


def transposed() -> list[tuple[Any, ...]]:
    """(width, stride, dilation, padding, whether it is that of the convolution)."""
    grid = itertools.product((2, 5), (1, 3), (1, 2), ("SAME", "VALID", [(1, 2)]))
    cases = [(*case, False) for case in grid]
    return [*cases[::2], *((k, s, r, p, True) for k, s, r, p, _ in cases[2::9])]


def test_transposed_convolutions() -> None:
    x = np.random.default_rng(2).normal(size=(1, 5, 2)).astype("f")
    for k, stride, spread, padding, consistent in transposed():
        w = np.random.default_rng(3).normal(size=(k, 2, 3)).astype("f")

        def run(
            m: Any, w: Any = w, stride: int = stride, spread: int = spread, padding: Any = padding,
            consistent: bool = consistent,
        ) -> Any:  # fmt: skip
            return m.conv_transpose(
                x, w, (stride,), padding, rhs_dilation=(spread,),
                dimension_numbers=("NWC", "WIO", "NWC"), use_consistent_padding=consistent,
            )  # fmt: skip

        ours, theirs = (outcome(lambda m, run=run: run(m), lib) for lib in (cv, jax))
        if isinstance(theirs, type):
            assert ours is theirs
            continue
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_transposed_kernel_gives_the_derivative_of_a_convolution() -> None:
    x = np.random.default_rng(4).normal(size=(1, 6, 3)).astype("f")
    w = np.random.default_rng(5).normal(size=(4, 2, 3)).astype("f")
    words = ("NWC", "WIO", "NWC")

    def forward(y: Any) -> Any:
        return lax.conv_general_dilated(y, w, (2,), "SAME", dimension_numbers=words)

    (want,) = cv.vjp(forward, np.zeros((1, 12, 2), "f"))[1](x)
    got = lax.conv_transpose(x, w, (2,), "SAME", dimension_numbers=words, transpose_kernel=True)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_patches_keep_infinities_where_they_are() -> None:
    x = np.array([[[1, np.inf, 2]]], "f")
    got = lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
    np.testing.assert_array_equal(got, [[[1, np.inf], [np.inf, 2]]])
