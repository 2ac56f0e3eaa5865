"""Large scatters: shared out among threads without changing what is computed."""

import numpy as np
import pytest

import covector as cv
from covector import numpy as cnp
from covector.runtime import threads

#: Kinds of `.at[]`, what they are in NumPy.
KINDS = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}
ROWS, WIDTH, COUNT = 1500, 128, 2048


def program(function, *args):
    jitted = cv.jit(function)
    return np.asarray(jitted(*args)), jitted.lower(*args).as_text("kernels")


@pytest.mark.parametrize("kind", [*KINDS, "set"])
@pytest.mark.parametrize("width", [WIDTH, 100])
def test_rows(kind, width):
    """Columns are parts for threads, whole vectors are updated; each element in order: exact."""
    rng = np.random.default_rng(width)
    x = rng.normal(size=(ROWS, width)).astype(np.float32)
    updates = rng.uniform(0.9, 1.1, (COUNT, width)).astype(np.float32)
    places = rng.integers(-ROWS - 5, ROWS + 5, COUNT).astype(np.int32)
    got, text = program(lambda x, i, u: getattr(x.at[i], kind)(u), x, places, updates)
    kept = (places >= -ROWS) & (places < ROWS)
    want = x.copy()
    for row, update in zip(places[kept], updates[kept], strict=True):
        want[row] = update if kind == "set" else KINDS[kind](want[row], update)
    assert (got == want).all()
    assert ("u1o:parallel in 0 .. 2" in text) == (width == WIDTH)


@pytest.mark.parametrize("kind", KINDS)
def test_many_into_few(kind):
    rng = np.random.default_rng(2)
    n = (1 << 17) + 3
    x = rng.uniform(1, 2, 100).astype(np.float32)
    updates = (1 + rng.normal(size=n) * 1e-4).astype(np.float32)
    places = rng.integers(-120, 120, n).astype(np.int32)
    got, text = program(lambda x, i, u: getattr(x.at[i], kind)(u), x, places, updates)
    kept = (places >= -100) & (places < 100)
    want = x.astype(np.float64)
    KINDS[kind].at(want, places[kept], updates[kept])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert "u0:parallel in 0 .. 16" in text


def test_parts_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(3)
    updates = rng.normal(size=1 << 18).astype(np.float32)
    places = rng.integers(0, 300, 1 << 18).astype(np.int32)
    count = cv.jit(lambda i, u: cnp.zeros(300, u.dtype).at[i].add(u))
    before, results = threads.num_threads(), []
    try:
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            results.append(np.asarray(count(places, updates)))
    finally:
        threads.set_num_threads(before)
    assert all((r == results[0]).all() for r in results)
    np.testing.assert_allclose(results[0], np.bincount(places, updates, 300), atol=1e-3)


def test_integers_wrap_in_parts_as_in_whole():
    places = np.arange(1 << 17, dtype=np.int32) % 7
    got = cv.jit(lambda i: cnp.zeros(7, np.int8).at[i].add(np.int8(3)))(places)
    want = np.zeros(7, np.int8)
    np.add.at(want, places, np.int8(3))
    assert (np.asarray(got) == want).all()


def test_an_update_within_a_driver_goes_to_its_own_place():
    """The element's place is counted from where the memory lies, not from the arena's start."""

    def f(x):
        whole = cnp.sort(x)  # lies at the arena's start, as long as the other does
        one = cnp.zeros(1).at[cnp.argsort(x[:1] * 2)].add(1.0, mode="drop")
        return cnp.sort(one) * (whole + whole[::-1])

    assert cv.jit(f)(np.arange(16, dtype=np.float32)).tolist() == [15.0] * 16
