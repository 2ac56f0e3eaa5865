"""Elementwise functions of every kind of dtype: values, dtypes and refusals as in JAX."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import covector as cv
from tests.parity.outcomes import describe, differences, words, world

VALUES = {
    "b": np.array([True, False]),
    "i8": np.array([3, -2], np.int8),
    "u8": np.array([3, 7], np.uint8),
    "i32": np.array([5, -3], np.int32),
    "u32": np.array([5, 3], np.uint32),
    "f16": np.array([0.5, -2], np.float16),
    "bf16": np.array([0.5, -2], ml_dtypes.bfloat16),
    "f32": np.array([0.5, -2], np.float32),
    "special": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32),
    "c64": np.array([0.5 + 1j, -2], np.complex64),
    "pb": True,
    "pi": 3,
    "pf": 1.5,
    "pc": 1j,
    "a_list": [1.0],
    "none": None,
    "empty": np.zeros((0, 3), np.float32),
}
UNARY = words("""
abs angle bitwise_count bitwise_not cbrt ceil conj deg2rad rad2deg exp exp2 expm1 fabs floor frexp
i0 imag isfinite isinf isnan isneginf isposinf iscomplex isreal log log1p log2 log10 logical_not
modf nan_to_num negative positive real reciprocal rint round sign signbit sin cos tan arcsin arccos
arctan sinh cosh tanh arcsinh arccosh arctanh sinc sqrt square trunc
""")
BINARY = words("""
add subtract multiply divide floor_divide power float_power maximum minimum fmax fmin arctan2
copysign nextafter equal not_equal less greater_equal bitwise_and bitwise_or bitwise_xor left_shift
right_shift logical_and logical_or logical_xor logaddexp isclose ldexp
""")
# Not hypot, heaviside, gcd, lcm, logaddexp2: their weak types depend on the order of arguments.
OPERANDS = [k for k in VALUES if k not in ("special", "none", "empty", "u32")]
#: Integers to negative powers; 0 here, see docs/differences.md.
DIFFERENT = {("power", x, y) for x in ("i8", "u8", "i32", "pi") for y in ("i8", "i32")}


def names(lib):
    return {**world(lib), **VALUES}


@pytest.mark.parametrize("function", UNARY)
def test_unary(function, jax):
    expressions = [f"m.{function}({k})" for k in VALUES]
    found = differences(expressions, names(cv), names(jax))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("function", BINARY)
def test_binary(function, jax):
    shifted = OPERANDS[4:] + OPERANDS[:4]
    pairs = [*zip(OPERANDS, OPERANDS, strict=True), *zip(OPERANDS, shifted, strict=True)]
    pairs = [p for p in pairs if (function, *p) not in DIFFERENT]
    found = differences([f"m.{function}({x}, {y})" for x, y in pairs], names(cv), names(jax))
    assert not found, "\n".join(found)


REMAINDERS = ["remainder", "fmod", "floor_divide", "divmod"]


@pytest.mark.parametrize("function", REMAINDERS)
def test_remainders_of_every_sign(function, jax):
    expressions = []
    for dtype in ("int8", "uint8", "int32", "float32", "float16"):
        values = "[7, -7, 0, 5]" if dtype[0] != "u" else "[7, 6, 0, 5]"
        divisors = "[3, -3, 2, 5, 0]" if dtype[0] != "u" else "[3, 4, 2, 5, 0]"
        x, y = f"np.array({values}, '{dtype}')[:, None]", f"np.array({divisors}, '{dtype}')"
        expressions.append(f"m.{function}({x}, {y})")
    expressions.append(f"m.{function}(special[:, None], special)")
    found = differences(expressions, names(cv), names(jax))
    assert not found, "\n".join(found)


def test_integer_powers(jax):
    pairs = itertools.product(("int8", "uint8", "int32"), (0, 1, 2, 3, 7))
    expressions = [f"m.power(np.array([0, 1, 2, 3, 7], '{d}'), {n})" for d, n in pairs]
    expressions += [
        "m.power(np.int32([[2], [3]]), np.int32([0, 1, 5]))",
        "m.power(2.0, np.int8([3, -3]))",
    ]
    found = differences(expressions, names(cv), names(jax))
    assert not found, "\n".join(found)


def test_scaling_by_powers_of_two_is_exact():
    for dtype in (np.float16, np.float32):
        info = np.finfo(dtype)
        x = np.array([1, -1.5, info.max, info.tiny, info.smallest_subnormal, 0, np.inf], dtype)
        n = np.arange(-300, 301, 7, dtype=np.int32)[:, None]
        with np.errstate(all="ignore"):
            expected = np.ldexp(x, n)
        np.testing.assert_array_equal(np.asarray(cv.numpy.ldexp(x, n)), expected)
        mantissa, exponent = cv.numpy.frexp(x)
        expected_mantissa, expected_exponent = np.frexp(x)
        np.testing.assert_array_equal(np.asarray(mantissa), expected_mantissa)
        finite = np.isfinite(x)
        np.testing.assert_array_equal(np.asarray(exponent)[finite], expected_exponent[finite])


def test_round_trip_of_description():
    assert describe(cv.numpy.ones(2)) == describe(cv.numpy.ones(2))
    assert describe(cv.numpy.ones(2)) != describe(cv.numpy.zeros(2))
