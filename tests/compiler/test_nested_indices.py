"""Indices that are read at places that are read: planned, written and printed in linear time."""

import time

import numpy as np

import covector as cv
import covector.numpy as cnp


def chase(n):
    """Follows links `n` times; each step uses where it was twice."""

    def follow(links, start):
        at = start
        for _ in range(n):
            at = (links[at] + at) % links.shape[0]
        return at

    return follow


def test_a_chain_of_lookups_compiles_and_is_right():
    links = np.random.default_rng(0).integers(0, 50, 50).astype(np.int32)
    start = np.arange(50, dtype=np.int32)
    begin = time.perf_counter()
    compiled = cv.jit(chase(40)).lower(links, start).compile()
    got = compiled(links, start)
    assert time.perf_counter() - begin < 60  # two to the 40th is more
    np.testing.assert_array_equal(got, chase(40)(links, start))
    text = cv.jit(chase(40)).lower(links, start).as_text("kernels")
    assert len(text) < 20_000


def test_a_search_in_many_elements():
    rng = np.random.default_rng(1)
    a, v = np.sort(rng.normal(size=100_000)).astype("f"), rng.normal(size=1000).astype("f")
    np.testing.assert_array_equal(cv.jit(cnp.searchsorted)(a, v), np.searchsorted(a, v))


def test_an_index_may_be_computed_by_anything():
    """Also by what is expanded, or split into parts, before it is emitted."""
    x = np.arange(20, dtype=np.float32)

    def waves(x):
        return x[(cnp.abs(cnp.sin(x)) * 19).astype(int)]

    def turns(x):
        z = cnp.exp(1j * x)
        return x[cnp.where(z > z[::-1], 3, 7)]

    for function in (waves, turns):
        np.testing.assert_array_equal(cv.jit(function)(x), function(x))
