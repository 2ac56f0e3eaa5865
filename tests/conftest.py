"""The strictest settings for every test: a cache of its own, fixed examples, the oracle.

Warnings are errors by pyproject.toml. Set up at import, before any test module imports Covector.
"""

import gc
import os
import shutil
import signal
import tempfile
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests import oracle

# One fresh kernel cache for the run, shared by its xdist workers (which inherit the variables): no
# test sees what an earlier run compiled, and the user's own cache stays untouched. `mkdtemp` also
# makes the folder private to the user, as the cache demands.
CACHE_VARIABLES = ("COVECTOR_COMPILATION_CACHE_DIR", "COVECTOR_CACHE_DIR")
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:
    os.environ.update(dict.fromkeys(CACHE_VARIABLES, tempfile.mkdtemp(prefix="covector-tests-")))

# Every program is verified after every pass, so that a fault is reported where it was made.
os.environ.setdefault("COVECTOR_ENABLE_CHECKS", "1")

# The oracle computes on the CPU, whatever else the machine has, and says nothing about it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# `ci`: the same examples on every run and machine, no clock. `fuzz` (make fuzz): many, fresh ones.
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile(
    "fuzz", deadline=None, max_examples=2000, database=None, print_blob=True
)
hypothesis.settings.load_profile("ci")

FLOAT0 = np.dtype([("float0", "V")])


def pytest_collection_finish() -> None:
    # Twenty thousand tests and the oracle's modules stay to the end: look at them less often.
    gc.set_threshold(10_000, 20, 100)


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(os.environ[CACHE_VARIABLES[0]], ignore_errors=True)
        oracle.bind()


@pytest.fixture(scope="session")
def jax():
    """The oracle, as a black box; tests that compare with it are skipped where it is missing."""
    return pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")


def flatten(value: Any) -> list[Any]:
    match value:
        case dict():
            return [leaf for key in sorted(value) for leaf in flatten(value[key])]
        case list() | tuple():
            return [leaf for item in value for leaf in flatten(item)]
    return [value]


def compare(actual: Any, expected: Any, *, rtol: float = 1e-5, atol: float = 0.0) -> None:
    """AssertionError unless the arrays in two nested structures agree in type, shape and value.

    Integers and booleans must be equal; a float0, the tangent of those, has a shape and no value.
    """
    left, right = flatten(actual), flatten(expected)
    assert len(left) == len(right), f"{len(left)} arrays instead of {len(right)}"
    for a, e in zip(map(np.asarray, left), map(np.asarray, right), strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        if e.dtype == FLOAT0:
            continue
        if e.dtype.kind in "biu":
            np.testing.assert_array_equal(a, e)
        else:  # wide enough for the small floats, whose own comparisons would round
            wide = np.complex128 if e.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), e.astype(wide), rtol=rtol, atol=atol)


@pytest.fixture(scope="session")
def assert_close():
    """`assert_close(actual, expected, rtol=1e-5, atol=0)`; see `compare`."""
    return compare


@pytest.fixture
def interruptible():
    """As for a program that a user started: what a shell started beside itself ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
