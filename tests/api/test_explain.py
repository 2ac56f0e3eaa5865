"""Why a function was traced again: `explain`, `log_compiles`, `explain_cache_misses`."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit


@jit
def f(params: Any, x: Any, **options: Any) -> Any:
    return params["w"] * x + options.get("shift", 0)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    f.clear_cache()


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_it_tells_every_trace_and_why() -> None:
    x = cnp.ones((3,), "float32")
    assert f.explain() == "f was not traced yet"
    f({"w": 1.0}, x)
    first = lines(f.explain())
    assert first[0] == "f was traced once:"
    assert first[1].startswith("1. (params['w']: f32[] (weakly typed), x: f32[3]), called at test_")
    f({"w": 1.0}, x[:2])
    f({"w": cnp.float32(1)}, x[:2])
    f({"w": cnp.float32(1)}, cnp.arange(2))
    f({"w": cnp.float32(1)}, x[:2], shift=1)
    with cv.enable_x64(True):
        f({"w": cnp.float32(1)}, x[:2], shift=cnp.int32(1))
    told = lines(f.explain())
    assert told[0] == "f was traced 6 times:"
    wanted = [
        "x was f32[3], now f32[2]",
        "params['w'] was f32[] (weakly typed), now f32[]",
        "x was f32[2], now i32[2]",
        "shift: new",
        "shift was i32[] (weakly typed), now i32[]; option enable_x64 was False, now True",
    ]
    for line, why in zip(told[2:], wanted, strict=True):
        assert line.endswith(f": {why}")


def test_it_compares_with_the_trace_that_is_most_like() -> None:
    f({"w": 1.0}, cnp.ones(3))
    f({"w": 1.0}, cnp.ones((2, 2)), shift=cnp.ones(2))
    f({"w": 1.0}, cnp.ones(4))
    assert lines(f.explain())[-1].endswith("x was f32[3], now f32[4]")


def test_it_foretells_a_call() -> None:
    f({"w": 1.0}, cnp.ones(3))
    assert f.explain({"w": 1.0}, cnp.ones(3)).startswith(
        "f would run the program traced for (params['w']: f32[] (weakly typed), x: f32[3])"
    )
    assert f.explain({"w": 1.0}, np.ones(2)) == "f would be traced: x was f32[3], now f32[2]"
    assert f.explain({"w": 1.0, "b": 2.0}, cnp.ones(3)) == "f would be traced: params['b']: new"
    assert len(lines(f.explain())) == 2  # asking does not trace


def test_what_an_equal_function_traced_is_no_trace() -> None:
    def make() -> Any:
        return jit(lambda x: x * 3 + 7)

    first, second = make(), make()
    first(cnp.ones(3))
    second(cnp.ones(3))
    assert lines(first.explain())[0] == "<lambda> was traced once:"
    told = lines(second.explain())
    assert told[0] == "<lambda> was not traced, but shares the programs of equal functions:"
    assert told[1].startswith("- (x: f32[3]), called at test_explain.py")
    second(cnp.ones(4))
    told = lines(second.explain())
    assert told[0] == "<lambda> was traced once:"
    assert told[2].startswith("1. (x: f32[4])")
    assert told[2].endswith(": x was f32[3], now f32[4]")


def test_static_values_and_structures() -> None:
    g = jit(lambda n, x: x, static_argnums=0)
    g(2, 1.0)
    g(3, 1.0)
    assert lines(g.explain())[-1].endswith("static argument 0 was 2, now 3")
    assert g.explain(3.0, 1.0) == "<lambda> would be traced: static argument 0 was 3, now 3.0"
    h = jit(lambda x: x)
    h((1.0, 2.0))
    h([1.0, 2.0])
    assert "the structure of the arguments was PyTreeDef((" in h.explain()


def test_a_cleared_cache_is_a_reason() -> None:
    g = jit(lambda x: x)
    g(1.0)
    g._traces.clear()
    g(1.0)
    cv.clear_caches()
    assert g.explain() == "<lambda> was not traced yet"


def test_misses_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "covector"), cv.explain_cache_misses(True):
        f({"w": 1.0}, cnp.ones(3))
        f({"w": 1.0}, cnp.ones(2))
        f({"w": 1.0}, cnp.ones(2))
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 2
    assert said[0].endswith("it was not traced before")
    assert said[1].startswith("jit of f is traced for (params['w']: f32[] (weakly typed), x: f32[2")
    assert "test_explain.py" in said[1]
    assert said[1].endswith("x was f32[3], now f32[2]")


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "covector"), cv.log_compiles(True):
        f({"w": 1.0}, cnp.ones(5))
        f({"w": 1.0}, cnp.ones(5))
    said = [r.getMessage() for r in caplog.records]
    assert [s.split(" in ")[0] for s in said] == ["traced f", "compiled f"]
    caplog.clear()
    f({"w": 1.0}, cnp.ones(6))
    assert not caplog.records
