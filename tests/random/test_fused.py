"""`fma` rounds once: exactly, in NumPy and natively, in every float type."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import covector as cv
from covector.ops.fused import fma

#: significant bits, exponent of the least positive number, of the first power of two too large.
NARROW = {"float16": (11, -24, 16), "bfloat16": (8, -133, 128)}


def rounded(exact: Fraction, name: str) -> float:
    """The number of the format nearest to `exact`, ties to even."""
    bits, least, limit = NARROW[name]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    whole, rest = divmod(size, unit)
    whole += 2 * rest > unit or (2 * rest == unit and whole % 2 == 1)
    found = math.inf if whole * unit >= Fraction(2) ** limit else float(whole * unit)
    return math.copysign(found, exact)


def operands(dtype: Any, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Any bits; half of them so that the sum nearly cancels, or is nearly a tie."""
    rng = np.random.default_rng(0)
    x, y, z = (
        rng.integers(0, 1 << (8 * dtype.itemsize), count, f"u{dtype.itemsize}").view(dtype)
        for _ in range(3)
    )
    half = count // 2
    with np.errstate(all="ignore"):
        product = x[:half].astype(np.float64) * y[:half].astype(np.float64)
        factor = rng.choice([-1.0, -1.001, -0.999, 2.0**9, 2.0**12], half)
        z[:half] = (product * factor).astype(dtype)
    return x, y, z


def every_way(x: Any, y: Any, z: Any) -> dict[str, np.ndarray]:
    return {
        "numpy": fma.numpy(x, y, z),
        "at once": np.asarray(fma(x, y, z)),
        "compiled": np.asarray(cv.jit(fma)(x, y, z)),
    }


@pytest.mark.parametrize("name", NARROW)
def test_narrow(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x, y, z = operands(dtype, 4000)
    with np.errstate(invalid="ignore"):  # NaNs that signal are told of where they are converted
        finite = np.all([np.isfinite(v.astype(np.float64)) for v in (x, y, z)], axis=0)
    for way, found in every_way(x, y, z).items():
        for a, b, c, got in zip(*(v[finite].astype(float) for v in (x, y, z, found)), strict=True):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            assert exact == got == 0 or rounded(exact, name) == got, (way, a, b, c)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_wide(name: str) -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    kind = ctypes.c_float if name == "float32" else ctypes.c_double
    function = library.fmaf if name == "float32" else library.fma
    function.restype, function.argtypes = kind, [kind] * 3
    with cv.enable_x64(True):
        x, y, z = operands(np.dtype(name), 6000)
        wanted = [function(*map(float, args)) for args in zip(x, y, z, strict=True)]
        for found in every_way(x, y, z).values():
            np.testing.assert_array_equal(found, np.array(wanted, name))
            nan = np.isnan(found)
            np.testing.assert_array_equal(np.signbit(found)[~nan], np.signbit(wanted)[~nan])


def test_derivatives_and_batches() -> None:
    point = (2.0, 3.0, 5.0)
    assert [float(g) for g in cv.grad(fma, argnums=(0, 1, 2))(*point)] == [3.0, 2.0, 1.0]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = cv.vmap(fma, (1, None, 1))(x, np.float32(2), x)
    np.testing.assert_array_equal(found, 3 * x.T)
