"""The same random numbers by the oracle and by Covector, and how far they are apart."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.random as ours
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
theirs: Any = jax.random

Draw = Callable[[Any, Any], Any]


@contextlib.contextmanager
def wide(x64: bool) -> Iterator[None]:
    """`enable_x64` of both."""
    with jax.enable_x64(x64), cv.enable_x64(x64):
        yield


def ask(draw: Callable[..., Any], *args: Any) -> Any:
    """The oracle's answer; compiled whole and in haste, which takes half of the time."""
    return answer("random", draw, *args, xla_backend_optimization_level=0)


def ask_exactly(draw: Callable[..., Any], *args: Any) -> Any:
    """Not in haste, so that a product and a sum are fused into one operation, as in ours."""
    return answer("random", draw, *args)


def keys(seed: int, legacy: bool = False) -> tuple[Any, Any]:
    """The same key: the oracle's, and ours."""
    return tuple(r.PRNGKey(seed) if legacy else r.key(seed) for r in (theirs, ours))  # type: ignore[return-value]


def plain(x: Any) -> np.ndarray:
    """The elements, those of keys as words."""
    if "key<" in str(x.dtype):
        x = (ours if type(x).__module__.startswith("covector") else theirs).key_data(x)
    return np.asarray(x)


def same_type(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


def assert_equal(found: Any, wanted: Any) -> None:
    """Equal in type and in every bit (but NaN is NaN)."""
    found, wanted = plain(found), plain(wanted)
    same_type(found, wanted)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
    else:
        double = np.complex128 if wanted.dtype.kind == "c" else np.float64
        np.testing.assert_array_equal(found.astype(double), wanted.astype(double))


def assert_near(found: Any, wanted: Any, ulps: float, floor: float = 0.0) -> None:
    """Equal in type, and to so many units in the last place.

    floor: the size below which the units do not shrink any more, for functions with a zero where
    their argument is only known to a rounding.
    """
    found, wanted = plain(found), plain(wanted)
    same_type(found, wanted)
    if wanted.dtype.kind == "c":
        found, wanted = found.view(found.real.dtype), wanted.view(wanted.real.dtype)
    special = ~np.isfinite(wanted.astype(np.float64))
    np.testing.assert_array_equal(
        found[special].astype(np.float64), wanted[special].astype(np.float64)
    )
    unit = np.spacing(np.maximum(np.abs(wanted), wanted.dtype.type(floor))).astype(np.float64)
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))[~special]
    worst = np.max(apart / unit[~special], initial=0.0)
    assert worst <= ulps, f"{worst} ulp apart"
