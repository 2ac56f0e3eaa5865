"""Callbacks from compiled programs: nothing is interpreted, order is kept, exceptions come out."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.backends.cpu import backend, cache
from covector.experimental import io_callback
from covector.runtime import dispatch

F32 = cv.ShapeDtypeStruct((), np.float32)


@pytest.fixture(autouse=True)
def nothing_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, closed: Any) -> None:
        raise AssertionError(f"interpreted: {closed}")

    monkeypatch.setattr(dispatch.StepByStep, "__init__", refuse)


@pytest.fixture
def three_devices() -> Iterator[None]:
    cv.config.update("num_cpu_devices", 3)
    yield
    cv.config.update("num_cpu_devices", -1)


class Log:
    """Notes what callbacks are called with."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def io(self, mark: str, *values: Any, ordered: bool = False) -> None:
        io_callback(lambda *v: self.note(mark, *v), None, *values, ordered=ordered)

    def debug(self, mark: str, *values: Any) -> None:
        cv.debug.callback(lambda *v: self.note(mark, *v), *values)

    def note(self, mark: str, *values: Any) -> None:
        self.lines.append((mark, *(np.asarray(v).tolist() for v in values)))


def test_order_in_a_line() -> None:
    log = Log()

    @cv.jit
    def f(x: Any) -> Any:
        log.io("a", x, ordered=True)
        y = cnp.sin(x)
        log.debug("b", x + 1)
        log.io("c")
        log.io("d", y * 0, ordered=True)
        return y

    for _ in range(3):
        f(1.0)
    assert log.lines == [("a", 1.0), ("b", 2.0), ("c",), ("d", 0.0)] * 3


def test_order_in_loops_and_branches(jax: Any) -> None:
    def program(call: Callable[..., None]) -> Callable[..., Any]:
        def inner(i: Any, x: Any) -> Any:
            call("inner", i)
            return x + 1

        def step(carry: Any, x: Any) -> Any:
            call("step", x)
            carry = lax.fori_loop(0, x, inner, carry)
            lax.cond(x > 1, lambda c: call("large", c), lambda c: None, carry)
            return carry, carry

        def f(xs: Any) -> Any:
            call("start")
            end, rows = lax.scan(step, 0, xs)
            call("end", end)
            return lax.while_loop(lambda c: c < 100, lambda c: (call("w", c), c * 5)[1], end), rows

        return f

    log, wanted = Log(), Log()
    xs = np.array([1, 0, 2], np.int32)

    def theirs(mark: str, *values: Any) -> None:
        jax.experimental.io_callback(lambda *v: wanted.note(mark, *v), None, *values, ordered=True)

    def their_program(call: Any) -> Any:
        jl = jax.lax

        def step(carry: Any, x: Any) -> Any:
            call("step", x)
            carry = jl.fori_loop(0, x, lambda i, c: (call("inner", i), c + 1)[1], carry)
            jl.cond(x > 1, lambda c: call("large", c), lambda c: None, carry)
            return carry, carry

        def f(xs: Any) -> Any:
            call("start")
            end, rows = jl.scan(step, 0, xs)
            call("end", end)
            return jl.while_loop(lambda c: c < 100, lambda c: (call("w", c), c * 5)[1], end), rows

        return f

    ours = cv.jit(program(lambda m, *v: log.io(m, *v, ordered=True)))(xs)
    want = jax.jit(their_program(theirs))(xs)
    jax.effects_barrier()
    assert [np.asarray(x).tolist() for x in ours] == [np.asarray(x).tolist() for x in want]
    assert log.lines == wanted.lines
    debug = Log()
    cv.jit(program(debug.debug))(xs)
    assert debug.lines == log.lines


def test_calls_and_computations_are_in_the_order_of_the_program() -> None:
    @cv.jit
    def f(x: Any) -> Any:
        cv.debug.print("before")
        y = lax.fori_loop(0, 3, lambda i, x: cnp.sin(x), x)
        cv.debug.print("between")
        z = lax.while_loop(lambda x: x < 3, lambda x: x * 2, y)
        cv.debug.print("after")
        return y, z

    text = f.lower(1.0).as_text("kernels")
    steps = [line.strip() for line in text.splitlines() if "library host_call" in line
             or line.startswith("    loop")]  # fmt: skip
    assert ["loop" in s.split()[0] for s in steps] == [False, True, False, True, False]


def test_in_the_condition_of_a_loop() -> None:
    log = Log()

    def going(x: Any) -> Any:
        log.io("cond", x, ordered=True)
        return x < 3

    def body(x: Any) -> Any:
        log.debug("body", x)
        return x + 1

    assert int(cv.jit(lambda x: lax.while_loop(going, body, x))(1)) == 3
    assert log.lines == [("cond", 1), ("body", 1), ("cond", 2), ("body", 2), ("cond", 3)]
    value = cv.jit(
        lambda x: lax.while_loop(
            lambda x: cv.pure_callback(lambda x: np.bool_(x < 5), cv.ShapeDtypeStruct((), bool), x),
            lambda x: x + 1, x,
        )
    )  # fmt: skip
    assert int(value(0)) == 5


def test_eager_loops() -> None:
    log = Log()
    lax.fori_loop(0, 3, lambda i, x: (log.debug("i", i), x)[1], 0.0)
    assert log.lines == [("i", k) for k in range(3)]


@pytest.mark.parametrize(
    "x",
    [
        np.arange(12.0, dtype="f").reshape(3, 4), np.zeros((0, 3), "f"), np.float64(3),
        np.array([True, False]), np.arange(300, dtype=np.int8), np.complex64(1 + 2j),
        np.arange(3).astype(cv.numpy.bfloat16), np.arange(1000.0, dtype="f"),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)  # fmt: skip
def test_types(x: Any) -> None:
    seen: list[Any] = []

    def twice(x: Any, y: Any) -> Any:
        seen.append((x, y))
        # not in C order, and not of the program's memory
        return np.asarray(x, order="F"), np.asarray(y)

    like = cv.ShapeDtypeStruct(x.shape, cnp.asarray(x).dtype)

    def f(x: Any) -> Any:
        return cv.pure_callback(twice, (like, like), x, x ^ x if x.dtype == bool else x * 2)

    first, second = cv.jit(f)(x)
    want = cnp.asarray(x)
    assert first.dtype == second.dtype == like.dtype
    np.testing.assert_array_equal(np.asarray(first), np.asarray(want))
    np.testing.assert_array_equal(np.asarray(second), np.asarray(x ^ x if x.dtype == bool
                                                                 else want * 2))  # fmt: skip
    assert all(isinstance(v, cv.Array) for v in seen[0])


def test_what_a_callback_keeps_stays_as_it_was() -> None:
    kept: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        cv.debug.callback(kept.append, x)
        return x * 0 + i + 1.0

    cv.jit(lambda x: lax.fori_loop(0, 4, body, x))(cnp.zeros(1000))
    assert [float(x[0]) for x in kept] == [0, 1, 2, 3]
    assert all(bool((x == x[0]).all()) for x in kept)


# Exceptions.


def fails_at(limit: float) -> Any:
    def check(x: Any) -> Any:
        if float(x) >= limit:
            raise KeyError(f"at {float(x)}")
        return x

    return check


def test_an_exception_ends_the_program_at_once() -> None:
    log = Log()

    @cv.jit
    def f(x: Any) -> Any:
        def body(x: Any) -> Any:
            y = cv.pure_callback(fails_at(3), F32, x)
            log.debug("after", y)
            return y + 1

        # Never ends, once the callback gave nothing.
        end = lax.while_loop(lambda x: x < 1e9, body, x)
        log.debug("never", end)
        return lax.while_loop(lambda x: x != 5.0, lambda x: x, end)

    for _ in range(2):
        log.lines.clear()
        with pytest.raises(KeyError, match=r"at 3\.0") as caught:
            f(1.0)
        assert log.lines == [("after", 1.0), ("after", 2.0)]
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "check"
        assert frames[-1].line == 'raise KeyError(f"at {float(x)}")'


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_of_every_kind(kind: type[BaseException]) -> None:
    def stop(x: Any) -> None:
        raise kind

    f = cv.jit(lambda x: (cv.debug.callback(stop, x), x)[1])
    with pytest.raises(kind):
        f(1.0)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_the_program_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python notices it as the callback begins, before anything of ours can catch it.
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    log = Log()

    @cv.jit
    def f(x: Any, n: Any) -> Any:
        log.debug("start")
        y = lax.fori_loop(0, n, lambda i, x: cnp.sin(x) + 1e-3, x)
        log.debug("end", y)
        return y

    f(1.0, 10)
    for _ in range(2):
        log.lines.clear()
        timer = threading.Timer(0.1, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            f(1.0, 20_000_000)
        timer.join()
        assert log.lines == [("start",)]
    assert len(ignored) <= 2
    assert f(1.0, 0) == 1


def test_an_exception_in_a_branch_a_scan_and_a_batch() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x > 2, lambda x: cv.pure_callback(
            fails_at(0), F32, x, vmap_method="sequential"), lambda x: x, x)  # fmt: skip

    assert float(cv.jit(f)(1.0)) == 1
    for g, x in ((cv.jit(f), 3.0), (cv.jit(cv.vmap(f)), cnp.array([1.0, 4.0])),
                 (cv.jit(lambda xs: lax.map(f, xs)), cnp.array([1.0, 5.0]))):  # fmt: skip
        with pytest.raises(KeyError):
            g(x)


def test_a_callback_that_runs_a_failing_program() -> None:
    inner = cv.jit(lambda x: cv.pure_callback(fails_at(2), F32, x))

    def careful(x: Any) -> Any:
        try:
            return inner(x)
        except KeyError:
            return np.float32(-1)

    outer = cv.jit(lambda x: cv.pure_callback(careful, F32, x) + 10)
    assert [float(outer(x)) for x in (1.0, 2.0)] == [11, 9]
    through = cv.jit(lambda x: cv.pure_callback(inner, F32, x))
    with pytest.raises(KeyError, match=r"at 2\.0"):
        through(2.0)
    assert float(through(1.0)) == 1


def test_a_function_that_calls_itself() -> None:
    @cv.jit
    def factorial(n: Any) -> Any:
        return lax.cond(
            n <= 1, lambda n: n * 0 + 1,
            lambda n: n * cv.pure_callback(lambda n: factorial(n), F32, n - 1), n,
        )  # fmt: skip

    assert float(factorial(5.0)) == 120


# Around it.


def test_threads() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            return cv.pure_callback(lambda x: np.asarray(x) + np.float32(1), F32, x)

        y = lax.fori_loop(0, 50, body, x)
        return cv.pure_callback(fails_at(100), F32, y)

    g = cv.jit(f)
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(5):
            try:
                results[k] = float(g(cnp.float32(10 * k)))
            except KeyError as error:
                results[k] = str(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == {k: 10.0 * k + 50 if k < 5 else f"'at {10.0 * k + 50}'" for k in range(8)}


def test_a_callback_that_needs_the_worker_threads() -> None:
    big = cnp.ones((400, 400))

    def product(x: Any) -> Any:
        return np.asarray((big * x @ big).sum() / 400, np.float32)

    def body(i: Any, x: Any) -> Any:
        return x + cv.pure_callback(product, F32, x) * 0 + (big @ big)[0, 0] / 400

    assert float(cv.jit(lambda x: lax.fori_loop(0, 20, body, x))(1.0)) == 21


def test_a_batch_of_calls_stays_in_one_thread() -> None:
    threads: set[int] = set()

    def note(x: Any) -> Any:
        threads.add(threading.get_ident())
        return x

    def one(x: Any) -> Any:
        y = lax.fori_loop(0, 2000, lambda i, y: cnp.sin(y) @ x, x[0])  # worth several threads
        like = cv.ShapeDtypeStruct(y.shape, y.dtype)
        return cv.pure_callback(note, like, y, vmap_method="sequential")

    cv.jit(cv.vmap(one))(cnp.ones((40, 16, 16)))
    assert threads == {threading.get_ident()}


def test_derivatives_and_batches(capsys: pytest.CaptureFixture[str]) -> None:
    @cv.checkpoint
    def f(x: Any) -> Any:
        cv.debug.print("x {}", x)
        return cnp.sin(x) ** 2

    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    second = f"x {float(cnp.sin(0.5) ** 2)}"
    for g, x in ((loop, 0.5), (cv.grad(loop), 0.5), (cv.vmap(cv.grad(loop)), cnp.array([0.5]))):
        for run in (g, cv.jit(g)):
            capsys.readouterr()
            run(x)
            lines = capsys.readouterr().out.splitlines()
            assert lines[0] == "x 0.5"
            assert lines[1].startswith(second[:8])


def test_donated_arguments() -> None:
    f = cv.jit(
        lambda x: cv.pure_callback(lambda v: np.asarray(v) + 1, cv.ShapeDtypeStruct((3,), "f"), x),
        donate_argnums=0,
    )
    x = cnp.arange(3.0)
    assert f(x).tolist() == [1, 2, 3]
    assert x.is_deleted()


def test_ahead_of_time() -> None:
    f = cv.jit(lambda x: (cv.debug.callback(lambda x: None, x), cnp.sin(x))[1])
    compiled = f.lower(cnp.ones(3)).compile()
    assert compiled(cnp.zeros(3)).tolist() == [0, 0, 0]
    assert compiled.memory_analysis().output_size_in_bytes == 12
    assert "debug_callback" in compiled.as_text("jaxpr")
    assert "host_call" in compiled.as_text("kernels")
    assert compiled.cost_analysis()["bytes accessed"] > 0


# Code on disk.


def test_no_address_is_in_code_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: dict[str, list[bytes]] = {}

    def store(key: str, data: bytes) -> None:
        if key.startswith("p"):
            stored.setdefault(key, []).append(bytes(data))

    monkeypatch.setattr(cache, "store", store)
    monkeypatch.setattr(cache, "lookup", lambda key: None)
    seen: list[Any] = []

    def program(k: int) -> Any:
        def body(i: Any, x: Any) -> Any:
            cv.debug.callback(lambda x: seen.append((k, float(x))), x)
            return x + k

        return cv.jit(lambda x: lax.fori_loop(0, 2, body, x))

    for k in (1, 1):
        program(k)(1.0)
    ((first, second),) = stored.values()
    assert first == second
    assert seen == [(1, 1.0), (1, 2.0)] * 2


def test_the_disk_cache_serves_other_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(cache, "store", kept.__setitem__)
    monkeypatch.setattr(cache, "lookup", kept.get)
    seen: list[str] = []

    def program(mark: str) -> Any:
        return cv.jit(lambda x: (cv.debug.callback(lambda x: seen.append(mark), x), x + 7)[1])

    program("a")(1.0)
    monkeypatch.setattr(backend, "_compile", None)  # it is not called again
    assert float(program("b")(2.0)) == 9
    assert seen == ["a", "b"]


def test_without_the_native_runtime() -> None:
    code = """
import covector as cv, numpy as np
from covector import lax
like = cv.ShapeDtypeStruct((), np.float32)
def bad(x):
    if float(x) > 3: raise KeyError("large")
    return x
def body(x):
    return cv.pure_callback(bad, like, x) + 1
f = cv.jit(lambda x: lax.while_loop(lambda x: x < 9, body, x))
try:
    f(1.0)
except KeyError as error:
    print(error)
cv.jit(lambda x: cv.debug.print("x {}", x))(2.0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "COVECTOR_NATIVE_RUNTIME": "0"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["'large'", "x 2.0"]


def test_calls_are_entered_natively_and_hold_their_arguments() -> None:
    given: list[Any] = []

    def drop(x: Any) -> None:
        given.pop().delete()
        for _ in range(20):  # memory that is free is used again
            (cnp.ones(5000) * 3).block_until_ready()

    @cv.jit
    def f(x: Any) -> Any:
        cv.debug.callback(drop, x[0])
        return x + 1

    for _ in range(3):
        x = cnp.zeros(5000)
        given.append(x)
        y = f(x)
        assert x.is_deleted()
        del x
        assert float(y.max()) == 1
    assert f.record_count() == 1
    g = cv.jit(lambda x: cv.pure_callback(fails_at(2), F32, x))
    assert float(g(1.0)) == 1
    for _ in range(3):
        with pytest.raises(KeyError, match=r"at 3\.0"):
            g(3.0)
        assert float(g(1.5)) == 1.5
    assert g.record_count() == 1


@pytest.mark.parametrize("method", [None, "expand_dims"])
def test_devices_call_one_after_another(three_devices: None, method: Any) -> None:
    log = Log()

    def one(x: Any) -> Any:
        log.debug("at", x)
        y = cv.pure_callback(lambda x: np.asarray(x) + 1, F32, x, vmap_method=method)
        return lax.psum(y, "i")

    out = cv.pmap(one, axis_name="i")(cnp.arange(3.0))
    assert log.lines == [("at", float(k)) for k in range(3)]
    assert out.tolist() == [6] * 3


def test_every_device_calls_though_all_know_the_same(three_devices: None) -> None:
    log = Log()

    def one(x: Any) -> Any:
        log.debug("hello")
        total = lax.psum(x, "i")
        log.io("sum", total)
        cv.jit(lambda: log.debug("inner"))()
        lax.fori_loop(0, 2, lambda i, c: (log.debug("round", i), c)[1], 0)
        lax.cond(x > 0, lambda: log.debug("positive", x), lambda: None)

        def step(c: Any, _: Any) -> Any:
            log.debug("together")  # with a collective beside it
            return lax.psum(c, "i"), None

        return lax.scan(step, total, None, length=1)[0]

    out = cv.pmap(one, axis_name="i")(cnp.arange(3.0))
    assert out.tolist() == [9] * 3
    assert log.lines == [
        *[("hello",)] * 3, *[("sum", 3.0)] * 3, *[("inner",)] * 3,
        *[("round", 0), ("round", 1)] * 3, ("positive", 1.0), ("positive", 2.0), ("together",),
    ]  # fmt: skip


def test_what_is_done_at_once_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.CpuBackend, "compile", None)
    log = Log()
    for k in range(3):
        log.debug("k", k)
        log.io("io", k)
    assert log.lines == [(m, k) for k in range(3) for m in ("k", "io")]
