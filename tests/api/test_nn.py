"""`covector.nn`: initial weights as in JAX, attention, and what is particular to derivatives."""

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import nn, random
from tests.oracle import answer, given

MAKERS = [
    "zeros", "ones", "constant(3.0)", "normal()", "normal(2.0, 'float16')", "uniform()",
    "truncated_normal()", "truncated_normal(1.0, lower=-1.0, upper=1.0)", "glorot_normal()",
    "glorot_uniform()", "he_normal()", "he_uniform()", "lecun_normal()", "lecun_uniform()",
    "xavier_normal(in_axis=0, out_axis=1)", "kaiming_uniform(dtype='bfloat16')",
    "variance_scaling(1.5, 'fan_avg', 'normal')", "variance_scaling(1.0, 'fan_geo_avg', 'uniform')",
    "variance_scaling(2.0, 'fan_out', 'truncated_normal', dtype='complex64')",
    "variance_scaling(2.0, 'fan_out', 'uniform', dtype='complex64')",
]  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_initializers(maker, jax, assert_close):
    ours = eval(f"i.{maker}", {"i": nn.initializers})(random.key(3), (3, 4))
    make = eval(f"i.{maker}", {"i": jax.nn.initializers})
    theirs = given("api", lambda: make(jax.random.key(3), (3, 4)))
    narrow = ours.dtype.itemsize == 2
    assert_close(ours, theirs, rtol=1e-2 if narrow else 1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("maker", "shape", "dtype"),
    [
        ("variance_scaling(1.0, 'foo', 'normal')", (3, 4), None),
        ("variance_scaling(1.0, 'fan_in', 'foo')", (3, 4), None),
        ("he_normal()", (3,), None),
        ("uniform()", (3,), "complex64"),
        ("normal()", (3,), "int32"),
    ],
)
def test_wrong_initializers(maker, shape, dtype):
    with pytest.raises(ValueError, match=r"scaling|sizes|dtype"):
        eval(f"i.{maker}", {"i": nn.initializers})(random.key(0), shape, dtype)


def attention_arguments(rng, heads=2):
    q = rng.normal(size=(2, 3, 4, 8)).astype(np.float32)
    k, v = (rng.normal(size=(2, 5, heads, 8)).astype(np.float32) for _ in range(2))
    return q, k, v


OPTIONS = [
    {},
    {"scale": 0.5, "is_causal": True},
    {"bias": np.linspace(0, 1, 15, dtype=np.float32).reshape(1, 1, 3, 5)},
    {"mask": (np.arange(15).reshape(1, 1, 3, 5) % 4 > 0)},
    {"query_seq_lengths": np.int32([2, 3]), "key_value_seq_lengths": np.int32([4, 2])},
    {"local_window_size": (1, 2)},
    {"return_residual": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_attention(options, jax, assert_close):
    arguments = attention_arguments(np.random.default_rng(0))
    ours = nn.dot_product_attention(*arguments, **options)
    theirs = answer(
        "api", lambda *xs: jax.nn.dot_product_attention(*xs, **options), *arguments
    )  # fmt: skip
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_attention_refuses_what_does_not_fit():
    q, k, v = attention_arguments(np.random.default_rng(0), heads=3)
    with pytest.raises(ValueError, match="divide the query heads"):
        nn.dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="implementation"):
        nn.dot_product_attention(q, q, q, implementation="cudnn")


def test_activations_have_finite_derivatives_everywhere():
    special = np.float32([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 88.0, -88.0, 1e4, -1e4])
    names = [
        "relu", "relu6", "sigmoid", "silu", "gelu", "elu", "celu", "selu", "softplus", "mish",
        "log_sigmoid", "soft_sign", "hard_tanh", "hard_sigmoid", "hard_silu", "squareplus",
        "sparse_plus", "sparse_sigmoid", "leaky_relu",
    ]  # fmt: skip
    for name in names:
        slopes = cv.vmap(cv.grad(getattr(nn, name)))(special)
        assert np.isfinite(np.asarray(slopes)).all(), name


def test_softmax_of_masked_rows():
    x = cnp.array([[1.0, 2.0], [3.0, cnp.nan]])
    mask = cnp.array([[False, False], [True, False]])
    assert nn.softmax(x, where=mask).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    slope = cv.grad(lambda a: nn.softmax(a, where=mask)[1, 0])(x)
    assert np.isfinite(np.asarray(slope)).all()
    assert nn.log_softmax(x, where=mask)[1, 0] == 0.0


def test_softmax_is_stable():
    x = cnp.array([1e30, 1e38, -1e38])
    assert nn.softmax(x).tolist() == [0.0, 1.0, 0.0]
    assert float(nn.logsumexp(cnp.array([1000.0, 1000.0]))) == pytest.approx(1000 + np.log(2))
