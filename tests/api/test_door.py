"""The public door: every name it offers is there, and none besides."""

from __future__ import annotations

import pytest

import covector


def test_every_name_is_there() -> None:
    assert len(set(covector.__all__)) == len(covector.__all__)
    for name in dir(covector):
        assert getattr(covector, name) is not None


def test_other_names_are_refused_as_python_does() -> None:
    assert not hasattr(covector, "nonsense")
    with pytest.raises(AttributeError, match="module 'covector' has no attribute 'nonsense'"):
        _ = covector.nonsense


def test_every_scoped_option_is_a_context() -> None:
    with covector.enable_checks(True), covector.threefry_partitionable(False):
        assert covector.config.enable_checks is True
        assert covector.config.threefry_partitionable is False
    assert covector.config.threefry_partitionable is True
