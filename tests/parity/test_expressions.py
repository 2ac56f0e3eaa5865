"""Hundreds of expressions of `numpy` and `nn` give what they give in JAX: values, dtypes, shapes,
weak types, or the class of the exception."""

import numpy as np
import pytest

import covector as cv
from tests.parity import (
    cases_arrays,
    cases_corners,
    cases_elements,
    cases_indexing,
    cases_products,
    cases_reductions,
    cases_shapes,
)
from tests.parity.outcomes import differences, lines, outcome, world

MODULES = (
    cases_arrays,
    cases_corners,
    cases_elements,
    cases_indexing,
    cases_products,
    cases_reductions,
    cases_shapes,
)
CASES = {theme: lines(text) for module in MODULES for theme, text in module.CASES.items()}
ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "v": np.array([1, 2, 3], np.float32),
    "t": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7,
    "f": np.array([1, np.nan, -np.inf, 0.0, -0.0, np.inf, 1], np.float32),
    "i8": np.array([3, -2, 5, -7], np.int8),
    "u8": np.array([3, 2, 5, 7], np.uint8),
    "b": np.array([True, False, True, True]),
    "h": np.array([0.5, -1.5, 3], np.float16),
    "z": np.array([1 + 2j, -1, 0.5j, 1 - 1j], np.complex64),
}


@pytest.mark.parametrize("theme", CASES)
def test_expressions(theme, jax):
    found = differences(CASES[theme], world(cv, **ARRAYS), world(jax, **ARRAYS))
    assert not found, "\n".join(found)


#: Where Covector differs on purpose: (expression, what it gives).
BETTER = [
    ("x[None, True]", (1, 1, 2, 3)),  # an axis for None, one for True, as in NumPy
    ("m.array([7]) ** m.array([-3])", (1,)),  # 0, not the inverse modulo 2**32
    ("m.spacing(np.float16([-2]))", (1,)),
    ("m.ix_(m.array([True, False]))[0]", (1,)),
    ("lib.jit(lambda i: m.delete(v, i))(1)", (2,)),
    ("nn.sigmoid(np.int32([0]))", (1,)),
]


@pytest.mark.parametrize(("expression", "shape"), BETTER)
def test_differs_on_purpose(expression, shape):
    found = outcome(expression, world(cv, **ARRAYS))
    assert found.type[1] == shape


def test_integers_to_negative_powers_are_truncated():
    assert cv.numpy.power(np.int32([7, 1, -1, -1]), np.int32([-3, -3, -3, -2])).tolist() == [
        0, 1, -1, 1,
    ]  # fmt: skip
