"""Types of results where 64-bit types are on, of weakly typed booleans, of updates of another
type: what random programs beside the oracle found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax

YES = np.array([True, False])
LITTLE = np.array([-1, 1], np.int8)
GRID = np.arange(10).reshape(5, 2)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: cnp.floor_divide(YES, YES), "int32"),
        (lambda: cnp.remainder(YES, YES), "int32"),
        (lambda: cnp.fmod(YES, YES), "int32"),
        (lambda: cnp.power(YES, YES), "int32"),
        (lambda: cnp.square(YES), "int32"),
        (lambda: cnp.left_shift(YES, YES), "int32"),
        (lambda: cnp.tri(2), "float32"),
        (lambda: cnp.angle(LITTLE), "float64"),
    ],
)
def test_where_64_bits_are_on(make: Callable[[], Any], dtype: str) -> None:
    with cv.config.scoped(enable_x64=True):
        assert make().dtype == dtype


@pytest.mark.parametrize("last", [-1, np.array([-1]), slice(-1, None)])
def test_positions_of_uint64_beside_signed_ones(last: Any) -> None:
    """They have no integer type in common."""
    with cv.config.scoped(enable_x64=True):
        first = np.array([4, 2**64 - 1], np.uint64)
        picked = lambda x, i: x.at[i, last].get(mode="fill", fill_value=-7)  # noqa: E731
        for function in (picked, cv.jit(picked)):
            assert function(cnp.asarray(GRID), first).ravel().tolist() == [9, -7]
            assert function(cnp.asarray(GRID), first[0]).ravel().tolist() == [9]


def test_no_boolean_is_a_python_number() -> None:
    weak = cnp.asarray(1) == 1.5
    assert weak.weak_type
    for strong in (
        weak & weak, weak == weak, cnp.logical_and(weak, weak), cnp.all(weak), cnp.any(weak),
        cnp.stack([weak, weak]), cnp.array_equal(weak, weak), cnp.dot(weak, weak),
    ):  # fmt: skip
        assert strong.dtype == bool
        assert not strong.weak_type


def test_arrays_stay_weakly_typed() -> None:
    x = cnp.asarray(2.0) * cnp.ones(3, "int8")
    for y in (x.at[0].set(1.0), x.at[np.array([0])].add(1), cnp.pad(x, 1), cnp.pad(x, (1, 2)),
              cnp.pad(x, 1, constant_values=(0, 1))):  # fmt: skip
        assert (y.dtype, y.weak_type) == (x.dtype, True)


@pytest.mark.filterwarnings("ignore:.*incompatible types:FutureWarning")
@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: x.at[np.array([0, 0, 0])].add(np.float32(0.5)), ("int8", [3, 2])),
        (lambda x: (x > 1).at[np.array([0, 0])].add(2), ("bool", [True, True])),
        (lambda x: (x > 1).at[0].subtract(1), ("bool", [False, True])),
        (lambda x: (x > 1).at[0].multiply(0.5), ("bool", [True, True])),
        (lambda x: (x > 1).at[1].divide(2), ("float32", [1.0, 1.0])),
        (lambda x: (x > 1).at[1].power(2), ("int32", [1, 1])),
        (lambda x: (x - 2.0).astype("float16").at[np.array([0, 0, 0])].add(
            np.array([2048, 1, 1], "f")), ("float16", [2050.0, 0.0])),
    ],
)  # fmt: skip
def test_updates_of_another_type_meet_in_the_common_one(
    make: Callable[[Any], Any], wanted: tuple[str, list[Any]]
) -> None:
    x = np.array([2, 2], np.int8)
    for function in (make, cv.jit(make)):
        found = function(cnp.asarray(x))
        assert (str(found.dtype), found.tolist()) == wanted


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_elements_of_few_bits_in_loops(dtype: str) -> None:
    """What NumPy computes in a whole byte is cut to the bits that there are in loops as well."""
    x = cnp.asarray(np.array([1, 2, 3, 0], np.uint8)).astype(dtype)

    def f(v: Any) -> list[Any]:
        return [w.astype("float32") for w in (-v, ~v, v + v - v, lax.sign(v))]

    looped = cv.jit(lambda x: lax.scan(lambda c, v: (c, f(v)), 0, x)[1])(x)
    for got, want in zip(looped, f(x), strict=True):
        assert got.tolist() == want.tolist()
