"""Tracers stand for arrays: whatever an array has, they have."""

from __future__ import annotations

import numpy as np

import covector as cv
from covector.numpy.methods import array_methods
from covector.trace.tracer import Tracer


def _kinds(cls: type) -> set[type]:
    return {cls}.union(*map(_kinds, cls.__subclasses__()))


def test_no_slot_of_a_tracer_hides_an_array_method() -> None:
    for kind in _kinds(Tracer):
        hidden = set(getattr(kind, "__slots__", ())) & set(array_methods())
        assert hidden == set(), kind


def test_methods_on_tracers() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.allclose(cv.jit(lambda x: x.var(1))(x), x.var(1))
    assert np.allclose(cv.vmap(lambda x: x.var())(x), x.var(1))
    assert np.allclose(cv.grad(lambda x: x.var())(x), (x - x.mean()) / 3, atol=1e-6)
