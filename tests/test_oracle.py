"""The oracle's answers on record are those that it gives, and none is taken for another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import oracle

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
X = np.float32([1, 2, 3])


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Books of this test alone; asks, and tells whether the answer was on record."""
    monkeypatch.setattr(oracle, "BOOKS", tmp_path)
    monkeypatch.setattr(oracle, "MODE", "add")
    oracle.opened.cache_clear()

    def ask(fun: Any, *args: Any, how: Any = oracle.answer) -> tuple[Any, bool]:
        result = how("book", fun, *args)
        fresh = any(tmp_path.glob("*.notes"))
        oracle.bind()
        oracle.opened.cache_clear()
        return result, not fresh

    yield ask
    oracle.opened.cache_clear()


@pytest.mark.parametrize("how", [oracle.answer, oracle.given])
def test_what_was_asked_is_on_record(asked: Any, how: Any) -> None:
    def fun(x: Any) -> Any:
        x = jax.numpy.asarray(x)
        return {"y": x * 2, "n": 7, "z": [x[0] * 0 + 3.0, jax.numpy.sin(1.0), x > 1]}

    for known in (False, True):
        found, recorded = asked(fun, X, how=how)
        assert recorded is known
        assert found["n"] == 7
        for got, wanted in ((found["y"], X * 2), (found["z"][2], X > 1)):
            assert (got.dtype, got.weak_type) == (wanted.dtype, False)
            np.testing.assert_array_equal(got, wanted)
        assert [x.weak_type for x in found["z"]] == [False, True, False]


def test_another_question_is_another(asked: Any) -> None:
    """Another argument, type, constant, operation."""
    c = np.float32([1, 0, 0])
    questions = [
        (lambda x: x + 1, X), (lambda x: x + 1, X + 1), (lambda x: x + 1, X.astype("i4")),
        (lambda x: x + 2, X), (lambda x: x - 1, X), (lambda x: x + c, X), (lambda x: x + 2 * c, X),
    ]  # fmt: skip
    for _ in range(2):
        for fun, x in questions:
            found, _ = asked(fun, x)
            np.testing.assert_array_equal(found, fun(x))


def test_which_argument_is_used_is_part_of_the_question(asked: Any) -> None:
    for _ in range(2):
        for fun in (lambda x, y: x + 1, lambda x, y: y + 1):
            found, _ = asked(fun, X, 3 * X)
            np.testing.assert_array_equal(found, fun(X, 3 * X))


def test_keys_and_narrow_types(asked: Any) -> None:
    for _ in range(2):
        key, _ = asked(jax.random.fold_in, jax.random.key(3), 5)
        wanted = jax.random.key_data(jax.random.fold_in(jax.random.key(3), 5))
        np.testing.assert_array_equal(key, wanted)
        narrow, _ = asked(lambda x: x.astype("float8_e4m3fn"), X)
        assert narrow.dtype.name == "float8_e4m3fn"
        np.testing.assert_array_equal(np.asarray(narrow, "f"), X)


def test_what_cannot_be_one_program_is_run(asked: Any) -> None:
    found, _ = asked(lambda x: float(jax.numpy.sum(x)), X)
    assert found == 6.0
    with pytest.raises(TypeError, match="shape"):
        asked(lambda x: jax.numpy.add(x, X[:2]), X)


def test_a_share_is_asked_in_any_case(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is wrong is believed, but of the share that is asked anew."""
    key = oracle.key_of("program", [X])
    oracle.keep("book", key, [X + 1])
    oracle.bind()
    monkeypatch.setattr(oracle, "MODE", "record")
    types = [jax.ShapeDtypeStruct((3,), "float32")]
    for share, wanted in ((1, None), (2**32 + 1, X + 1)):
        monkeypatch.setattr(oracle, "ANEW", share)
        found = oracle.on_record("book", key, types)
        assert (found is None) == (wanted is None)
        if found is not None:
            np.testing.assert_array_equal(found[0], wanted)
