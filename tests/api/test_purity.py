"""The purity guard: what a traced function reads and changes outside itself is noticed."""

from __future__ import annotations

import builtins
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import config, jit, lax
from covector.errors import PurityError, PurityWarning

g = 0.0
table: dict[str, Any] = {}


def impure(x: Any) -> Any:
    """Adds a global."""
    return x + g


def helper(x: Any) -> Any:
    return x * g


@pytest.fixture
def warned() -> Iterator[Callable[[], list[str]]]:
    """Under the guard 'warn': the warnings since the last call, as text."""
    with config.scoped(purity_guard="warn"), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")

        def text() -> list[str]:
            assert all(w.category is PurityWarning for w in found)
            said = [str(w.message) for w in found]
            found.clear()
            return said

        yield text


def line_of(fun: Any, part: str) -> str:
    """'line 3 of f' of the line of a function that contains `part`."""
    lines = inspect.getsource(fun).splitlines()
    nth = next(n for n, line in enumerate(lines, 1) if part in line)
    return f"line {nth} of {fun.__name__} (test_purity.py:{fun.__code__.co_firstlineno + nth - 1})"


# The tutorials' two examples, under each setting.


@pytest.mark.parametrize("mode", ["off", "warn", "error", "retrace"])
def test_a_global_that_changes(mode: str) -> None:
    global g
    g = 0.0
    f = jit(impure)
    with config.scoped(purity_guard=mode):
        assert f(4.0) == 4.0
        assert f(5.0) == 5.0
        g = 10.0
        said = f"`g` was 0.0 when traced, is 10.0 now; {line_of(impure, 'x + g')}"
        if mode == "off":
            assert f(5.0) == 5.0
        elif mode == "warn":
            with pytest.warns(PurityWarning) as found:
                assert f(5.0) == 5.0
            assert str(found[0].message) == f"jit of impure is not pure:\n  {said}"
            assert found[0].filename == __file__
        elif mode == "error":
            with pytest.raises(PurityError) as error:
                f(5.0)
            assert said in str(error.value)
        else:
            assert f(5.0) == 15.0
            assert f(6.0) == 16.0
        np.testing.assert_array_equal(f(cnp.array([4.0])), [14.0])
    g = 0.0


@pytest.mark.parametrize("mode", ["off", "warn", "error", "retrace"])
def test_an_iterator_that_is_consumed(mode: str) -> None:
    def loop() -> Any:
        iterator = iter(range(10))
        return lax.fori_loop(0, 10, lambda i, x: x + next(iterator), 0)

    array = cnp.arange(10)
    with config.scoped(purity_guard=mode):
        assert lax.fori_loop(0, 10, lambda i, x: x + array[i], 0) == 45
        said = r"`iterator`, an iterator, was advanced while tracing.*line 1 of <lambda> \(test_pu"
        if mode == "off":
            assert loop() == 0
        elif mode == "error":
            with pytest.raises(PurityError, match=said):
                loop()
        else:
            with pytest.warns(PurityWarning, match=said):
                assert loop() == 0


# What was read.


def test_nothing_is_said_of_pure_functions(warned: Any) -> None:
    offset = 3.0

    @jit
    def f(x: Any) -> Any:
        total = [x]
        total.append(x * offset)
        for k in range(3):
            total[0] = total[0] + np.float32(k)
        return lax.scan(lambda c, v: (c + v, None), sum(total), cnp.arange(3.0))[0]

    for _ in range(3):
        assert f(1.0) == 10.0
    assert cv.grad(f)(1.0) == 4.0
    np.testing.assert_array_equal(cv.vmap(f)(cnp.arange(2.0)), [6, 10])
    assert warned() == []


def test_every_kind_of_place_is_named(warned: Any) -> None:
    class Model:
        rate = 1.0

        def __init__(self) -> None:
            self.w = 2.0

        def apply(self, x: Any) -> Any:
            return x * self.w + self.rate

    model, pair, cell = Model(), [1.0, 2.0], 1.0

    def f(x: Any, k: float = 1.0) -> Any:
        return model.apply(x) + pair[0] + cell + table["x"] + helper(x) * k

    global g
    g, table["x"] = 1.0, 0.0
    call = jit(f)
    assert call(1.0) == 6.0
    assert warned() == []
    model.w, Model.rate, pair[0], cell, table["x"], g = 3.0, 2.0, 5.0, 7.0, 9.0, 0.0
    assert call(1.0) == 6.0
    (text,) = warned()
    for said in (
        f"`self.w` was 2.0 when traced, is 3.0 now; {line_of(Model.apply, 'self.w')}",
        "`self.rate` was 1.0 when traced, is 2.0 now",
        f"`pair` was [1.0, 2.0] when traced, is [5.0, 2.0] now; {line_of(f, 'pair[0]')}",
        "`cell` was 1.0 when traced, is 7.0 now",
        "`table` was {'x': 0.0} when traced, is {'x': 9.0} now",
        f"`g` was 1.0 when traced, is 0.0 now; {line_of(helper, 'x * g')}",
    ):
        assert said.replace("of apply", "of Model.apply") in text or said in text
    assert len(text.splitlines()) == 7


def test_arrays_count_by_identity(warned: Any) -> None:
    w = cnp.ones(3)
    f = jit(lambda x: x * w)
    f(1.0)
    f(1.0)
    assert warned() == []
    w = cnp.zeros(3)
    np.testing.assert_array_equal(f(1.0), [1, 1, 1])
    assert "`w` was another f32[3] array when traced" in warned()[0]
    with config.scoped(purity_guard="retrace"):
        f(1.0)
        w = cnp.full(3, 5.0)
        np.testing.assert_array_equal(f(1.0), [5, 5, 5])


def test_a_function_that_was_defined_again(warned: Any) -> None:
    def one(x: Any) -> Any:
        return x + 1

    def two(x: Any) -> Any:
        return x + 2

    part = one
    f = jit(lambda x: part(x))
    f(1.0)
    part = two
    assert f(1.0) == 2.0
    assert "`part` was the function one" in warned()[0]
    with config.scoped(purity_guard="retrace"):
        assert f(1.0) == 3.0


def test_a_nested_jit_is_looked_through() -> None:
    global g
    g = 1.0
    inner = jit(lambda x: x * g)
    outer = jit(lambda x: inner(x) + 1)
    with config.scoped(purity_guard="retrace"):
        assert outer(2.0) == 3.0
        g = 5.0
        assert outer(2.0) == 11.0
    g = 0.0


def test_a_method_and_a_static_self() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = 2.0

        def plain(self, x: Any) -> Any:
            return x * self.w

        compiled = jit(plain, static_argnums=0)

    layer = Layer()
    bound = jit(layer.plain)
    with config.scoped(purity_guard="retrace"):
        for call in (bound, layer.compiled):
            layer.w = 2.0
            assert call(3.0) == 6.0
            layer.w = 4.0
            assert call(3.0) == 12.0


def test_it_can_be_set_for_the_process() -> None:
    global g
    g = 1.0
    f = jit(lambda x: x + g)
    assert f(1.0) == 2.0
    config.update("purity_guard", "retrace")
    try:
        g = 2.0
        assert f(1.0) == 3.0
        g = 3.0
        assert f(1.0) == 4.0
    finally:
        config.update("purity_guard", "off")
    assert f(1.0) == 2.0  # what was traced without the guard is as it was
    g = 0.0


# What was changed.


def test_every_change_is_told_with_its_line(
    warned: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    class Counter:
        def __init__(self) -> None:
            self.calls, self.best = 0, None

    counter, log, names, seen, last = Counter(), [], {}, set(), 0.0

    @jit
    def f(x: Any) -> Any:
        global g
        nonlocal last
        print("hello")
        log.append(1)
        names["x"] = 2
        seen.add(3)
        counter.calls += 1
        counter.best = 4
        g = 5.0
        last = 6.0
        return x

    f(1.0)
    (text,) = warned()
    assert capsys.readouterr().out == "hello\n"
    for said, part in (
        ("`print` runs when the function is traced", 'print("hello")'),
        ("`log`, a list from outside, was changed by `append` while tracing", "log.append"),
        ("`names`, a dict from outside, was changed while tracing", "names["),
        ("`seen`, a set from outside, was changed by `add` while tracing", "seen.add"),
        ("the attribute `counter.calls` was set while tracing", "counter.calls"),
        ("the attribute `counter.best` was set while tracing", "counter.best"),
        ("the global variable `g` was set while tracing", "g = 5.0"),
        ("the variable of an outer function `last` was set while tracing", "last = 6.0"),
    ):
        (line,) = [line for line in text.splitlines() if said in line]
        assert line.endswith(line_of(f.__wrapped__, part))
    assert len(text.splitlines()) == 9
    assert (last, len(log)) == (6.0, 1)


def test_a_branch_that_was_not_taken_changes_nothing(warned: Any) -> None:
    log: list[Any] = []

    @jit
    def f(x: Any, loud: Any = None) -> Any:
        if loud is not None:
            print(x)
            log.append(x)
        return x

    f(1.0)
    assert warned() == []


def test_iterators_of_all_kinds(warned: Any) -> None:
    def numbers() -> Iterator[float]:
        yield 1.0
        yield 2.0

    for made in (numbers(), iter([1.0, 2.0]), iter((1.0, 2.0)), map(float, [1, 2]),
                 zip([1.0], [2.0], strict=True), enumerate([1.0])):  # fmt: skip
        jit(lambda x, it=made: [x for _ in it])  # a default is no outer variable
        f = jit(lambda x: [x for _ in made])  # noqa: B023
        f(1.0)
        assert "`made`, an iterator, was advanced" in warned()[0]
    untouched = iter([1.0])
    jit(lambda x: x if untouched is not None else None)(1.0)
    assert warned() == []


def test_changes_inside_a_loop_body_are_told_once(warned: Any) -> None:
    log: list[Any] = []

    @jit
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            log.append(1)
            return c + 1

        return lax.fori_loop(0, 3, body, x)

    f(1.0)
    (text,) = warned()
    assert text.count("`log`") == 1
    assert "line 2 of body" in text


def test_the_error_is_raised_where_the_function_was_called() -> None:
    @jit
    def f(x: Any) -> Any:
        builtins.print(end="")
        return x

    with config.scoped(purity_guard="error"), pytest.raises(PurityError, match="line 3 of f"):
        f(1.0)


def test_a_profiler_that_runs_is_left_alone(warned: Any) -> None:
    events: list[str] = []
    log: list[int] = []

    @jit
    def f(x: Any) -> Any:
        log.append(1)
        return x

    def profiler(frame: Any, event: str, arg: Any) -> None:
        events.append(event)

    sys.setprofile(profiler)
    try:
        f(1.0)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert events
    assert "`log`, a list from outside, was changed" in warned()[0]


def test_a_random_generator_of_python(warned: Any) -> None:
    rng = random.Random(0)
    f = jit(lambda x: x + rng.random())
    assert f(0.0) == f(0.0)
    rng = random.Random(1)
    f(0.0)
    assert "`rng" in warned()[0]
