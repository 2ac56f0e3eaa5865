"""`debug_nans` and `debug_infs` in compiled programs: the test is compiled in, and costs little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector._base.context import Context
from covector.experimental import io_callback
from covector.ir.text import print_jaxpr
from covector.runtime import debug_values
from covector.runtime.debug_code import with_test

F32 = cv.ShapeDtypeStruct((), np.float32)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of operations whose results are looked at from outside."""
    found: list[str] = []
    look = debug_values.look

    def noted(op: Any, args: Any, outs: Any) -> None:
        found.append(op.name)
        look(op, args, outs)

    monkeypatch.setattr(debug_values, "look", noted)
    return found


@pytest.fixture
def everywhere() -> Iterator[None]:
    cv.config.update("debug_nans", True)
    try:
        yield
    finally:
        cv.config.update("debug_nans", False)


def raises(text: str = "invalid value") -> Any:
    return pytest.raises(FloatingPointError, match=text)


def test_a_program_looks_at_its_results_itself(looks: list[str]) -> None:
    f = cv.jit(lambda x: (cnp.log(x), cnp.arange(3), x.sum()))
    x, y = cnp.ones(100), -cnp.ones(100)
    with cv.debug_nans(True):
        f(x)
        assert looks == []
        with raises("log"):
            f(y)
    assert looks == ["jit"]


def test_the_text_of_the_test() -> None:
    f = cv.jit(lambda x, y: (x * 2, y, x > 1)).lower(cnp.ones(3), cnp.ones((), np.int32)).jaxpr
    tested = with_test(f, True, False)
    assert tested is not None
    assert [str(a) for a in tested.out_avals[-1:]] == ["ShapedArray(bool[])"]
    assert "debug_values" in print_jaxpr(tested.jaxpr)
    assert with_test(cv.jit(lambda x: x > 1).lower(1.0).jaxpr, True, True) is None


_BAD: dict[str, tuple[bool, bool]] = {"nan": (True, False), "inf": (False, True)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "float8_e4m3fn"])
@pytest.mark.parametrize("options", [(True, False), (False, True), (True, True)])
def test_kinds(dtype: str, options: tuple[bool, bool]) -> None:
    f = cv.jit(lambda x, y: (x, y[1:]))
    good = cnp.arange(9.0).astype(dtype)
    first = good.at[0].set(np.nan)
    bads = {kind: good.at[7].set(-float(kind)) for kind in _BAD}
    imaginary = good.at[3].set(complex(1, np.nan)) if dtype == "complex64" else None
    with cv.config.scoped(debug_nans=options[0], debug_infs=options[1]):
        f(good, good)
        f(good, first)
        for kind, (nan, inf) in _BAD.items():
            if kind == "inf" and dtype.startswith("float8"):
                continue
            if (nan and options[0]) or (inf and options[1]):
                with raises(rf"\({kind}\)"):
                    f(good, bads[kind])
            else:
                f(good, bads[kind])
    if imaginary is not None:
        with cv.debug_nans(True), raises():
            f(good, imaginary)


def test_results_that_are_arguments_literals_or_empty() -> None:
    f = cv.jit(lambda x: (x, x, 1.0, cnp.zeros((0, 2)), cnp.float32(np.nan) * 0 + x))
    with cv.debug_nans(True), raises():
        f(1.0)
    g = cv.jit(lambda x: (x, x, 1.0, cnp.zeros((0, 2))))
    with cv.debug_nans(True):
        g(1.0)
        with raises():
            g(np.float32(np.nan))


# Programs entered natively, while the option holds for the whole process.


def test_the_entry_point_serves_and_falls_back(
    everywhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = cv.jit(lambda x: cnp.log(x))
    g = cv.jit(lambda x: {"a": cnp.sqrt(x), "b": (x, x > 0)})
    x = cnp.ones(5)
    f(x)
    g(x)
    assert f.record_count() == g.record_count() == 1
    entered: list[Any] = []
    fallback = debug_values.watched
    monkeypatch.setattr(Context.trace, "process", lambda *a: (entered.append(a), fallback(*a))[1])
    for _ in range(3):
        assert f(x).tolist() == [0] * 5
        assert g(x)["b"][1].tolist() == [True] * 5
    assert not entered
    for h, name in ((f, "log"), (g, "sqrt"), (f, "log")):
        with raises(f"encountered in {name}"):
            h(-x)
    assert f(x).tolist() == [0] * 5
    assert f(np.ones(5, "f")).tolist() == [0] * 5
    with raises("log"):
        f(-np.ones(5, "f"))


def test_records_are_of_their_options(everywhere: None) -> None:
    f = cv.jit(lambda x: cnp.log(x))
    f(1.0)
    cv.config.update("debug_nans", False)
    assert np.isnan(f(-1.0))
    assert np.isnan(f(-1.0))
    cv.config.update("debug_nans", True)
    with raises():
        f(-1.0)


def test_without_the_native_runtime() -> None:
    code = """
import covector as cv, covector.numpy as cnp
cv.config.update("debug_nans", True)
f = cv.jit(lambda x: cnp.log(x))
print(float(f(1.0)), float(f(1.0)), f.record_count())
try:
    f(-1.0)
except FloatingPointError as error:
    print(str(error).split(" at ")[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "COVECTOR_NATIVE_RUNTIME": "0"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["0.0 0.0 1", "invalid value (nan) encountered in log"]


# The second run.


@pytest.mark.parametrize("ahead", [False, True])
def test_donated_arguments_are_kept_for_it(ahead: bool) -> None:
    f: Any = cv.jit(lambda x: cnp.log(x - 1), donate_argnums=0)
    x, bad = cnp.ones(4), cnp.zeros(4)
    if ahead:
        f = f.lower(x).compile()
    with cv.debug_nans(True):
        y = f(x * 2)
        assert y.tolist() == [0] * 4
        for _ in range(2):
            with raises("encountered in log"):
                f(bad)
        assert not bad.is_deleted()


def test_callbacks_are_called_once(capsys: pytest.CaptureFixture[str]) -> None:
    @cv.jit
    def f(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            cv.debug.print("round {}", i)
            return cnp.sqrt(x - 1)

        cv.debug.print("start {}", x)
        return lax.fori_loop(0, 3, body, x)

    with cv.debug_nans(True), raises("sqrt(.|\n)*in round 2 of a"):
        f(3.0)
    assert capsys.readouterr().out.splitlines() == ["start 3.0", "round 0", "round 1", "round 2"]


def test_a_callback_with_a_result_and_effects_is_not_called_again() -> None:
    calls: list[float] = []

    @cv.jit
    def f(x: Any) -> Any:
        y = io_callback(lambda x: (calls.append(float(x)), np.asarray(x))[1], F32, x)
        return cnp.log(y)

    with cv.debug_nans(True), raises("io_callback cannot be called a second time"):
        f(-1.0)
    assert calls == [-1]


def test_a_pure_callback_that_makes_it() -> None:
    f = cv.jit(lambda x: cv.pure_callback(lambda x: np.float32(np.nan), F32, x) * 2)
    with cv.debug_nans(True), raises("encountered in pure_callback at"):
        f(-1.0)


def test_forward_and_backward_of_a_network() -> None:
    def loss(w: Any, x: Any) -> Any:
        h = cnp.tanh(x @ w)
        return cnp.sum(cnp.log(h))

    step = cv.jit(lambda w, x: w - 0.1 * cv.grad(loss)(w, x))
    w, x = cnp.ones((3, 4)), cnp.ones((2, 3))
    bad = x.at[0, 0].set(np.nan)
    with cv.debug_nans(True):
        assert np.isfinite(np.asarray(step(w, x))).all()
        with raises("encountered in dot_general at(.|\n)*compiled function"):
            step(w, bad)
