"""The comparison that other tests rely on refuses what it should."""

import ml_dtypes
import numpy as np
import pytest

FLOAT0 = np.dtype([("float0", "V")])
F32 = np.array([1, -2], np.float32)
BF16 = np.array([1, 3], ml_dtypes.bfloat16)


def test_equal_structures_pass(assert_close):
    value = {"a": [F32, (np.zeros(3, FLOAT0), BF16)], "b": np.array([True])}
    assert_close(value, value)
    assert_close(F32 * np.float32(1.001), F32, rtol=1e-2)
    assert_close(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert_close(np.array([1 + 2j]), np.array([1 + 2.000001j]))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (F32, F32.astype(np.float64)),
        (F32, F32[None]),
        (F32, [F32, F32]),
        (F32 * np.float32(1.001), F32),
        (np.array([1]), np.array([2])),
        (np.zeros(3, FLOAT0), np.zeros(4, FLOAT0)),
        (np.zeros(3, FLOAT0), np.zeros(3, bool)),
        (BF16, BF16 * ml_dtypes.bfloat16(1.01)),
        (np.array([1 + 2j]), np.array([1 + 2.1j])),
    ],
)
def test_differences_are_refused(assert_close, actual, expected):
    with pytest.raises(AssertionError):
        assert_close(actual, expected)
