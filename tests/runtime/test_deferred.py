"""Long programs return at once: who waits, who runs them, errors, interrupts, forks, the end."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import covector as cv
import covector.numpy as jnp
from covector._base.errors import JaxRuntimeError
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime import deferred
from covector.runtime.array import from_numpy
from covector.runtime.backend import NativeCode
from covector.runtime.native import native

AVAL = ShapedArray((3,), "float32")
VALUES = np.array([1.0, 2.0, 3.0], np.float32)


class Gated:
    """An executable that begins, and then waits until it is let go."""

    code = NativeCode(0, nanoseconds=1e9)
    in_avals, out_avals = (AVAL,), (AVAL,)

    def __init__(self, result=lambda x: x + 1):
        self.begun, self.gate, self.result = threading.Event(), threading.Event(), result
        self.threads = []

    def run(self, args):
        self.threads.append(threading.get_ident())
        self.begun.set()
        assert self.gate.wait(30)
        return [from_numpy(self.result(arrays.host(args[0])))]

    def start(self, x=None):
        """The result of a run that has begun on the other thread."""
        (y,) = deferred.run(self, [from_numpy(VALUES) if x is None else x])
        assert self.begun.wait(30)
        return y


@pytest.fixture
def gated():
    made = Gated()
    yield made
    made.gate.set()
    deferred.executor.drain()


@pytest.fixture
def everything(monkeypatch):
    """Programs of any length are deferred."""
    monkeypatch.setattr(deferred, "LONG", -1)


@pytest.fixture
def at_once():
    """A function that turns deferring off."""
    yield lambda: cv.config.update("jax_cpu_enable_async_dispatch", False)
    cv.config.update("jax_cpu_enable_async_dispatch", True)


def later(gated, seconds=0.05):
    threading.Timer(seconds, gated.gate.set).start()


USES = {
    "float": lambda y: float(y[0]) == 2.0,
    "asarray": lambda y: np.asarray(y).tolist() == [2, 3, 4],
    "ready": lambda y: y.block_until_ready() is y,
    "block_until_ready": lambda y: cv.block_until_ready([y])[0].tolist() == [2, 3, 4],
    "index": lambda y: int(y[jnp.argmax(y)]) == 4,
    "slice": lambda y: y[1:].tolist() == [3, 4],
    "iteration": lambda y: [float(v) for v in y] == [2, 3, 4],
    "printing": lambda y: (
        repr(y) == "Array([2., 3., 4.], dtype=float32)" and str(y) == "[2. 3. 4.]"
    ),
    "eager": lambda y: (y * 2 + y).tolist() == [6, 9, 12],
    "reduction": lambda y: float(y.sum()) == 9.0,
    "update": lambda y: y.at[0].set(7).tolist() == [7, 3, 4],
    "row update": lambda y: y[None].at[0].set(y).tolist() == [[2, 3, 4]],
    "jit": lambda y: cv.jit(lambda v: v - 1)(y).tolist() == [1, 2, 3],
    "captured": lambda y: cv.jit(lambda s: s * y)(2.0).tolist() == [4, 6, 8],
    "gradient": lambda y: cv.grad(lambda v: (v * v).sum())(y).tolist() == [4, 6, 8],
    "vmap": lambda y: cv.vmap(lambda v: v + 1)(y).tolist() == [3, 4, 5],
    "donated": lambda y: cv.jit(lambda v: v + 1, donate_argnums=0)(y).tolist() == [3, 4, 5],
    "pickle": lambda y: pickle.loads(pickle.dumps(y)).tolist() == [2, 3, 4],
    "copy": lambda y: copy.copy(y).tolist() == [2, 3, 4],
    "dlpack": lambda y: np.from_dlpack(y).tolist() == [2, 3, 4],
    "buffer": lambda y: memoryview(y).tolist() == [2, 3, 4],
    "device_put": lambda y: cv.device_put(y).tolist() == [2, 3, 4],
    "callback": lambda y: cv.pure_callback(lambda v: v * 2, AVAL, y).tolist() == [4, 6, 8],
    "key": lambda y: cv.random.uniform(cv.random.key(y[0].astype("int32")), (2,)).shape == (2,),
    "scan": lambda y: float(cv.lax.scan(lambda c, v: (c + v, None), 0.0, y)[0]) == 9.0,
}


if native() is None:
    del USES["buffer"]  # the buffer protocol is one of the native parts


@pytest.mark.parametrize("use", USES)
def test_whoever_wants_elements_waits(gated, use):
    y = gated.start()
    assert not y.is_ready()
    assert (y.shape, y.dtype, y.ndim, len(y), y.nbytes) == ((3,), "float32", 1, 3, 12)
    assert not y.is_deleted()
    later(gated)
    assert USES[use](y)
    assert y.is_deleted() or y.is_ready()


def test_a_long_program_returns_at_once_and_python_goes_on():
    w = np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32) / 16
    run = cv.jit(lambda x: cv.lax.fori_loop(0, 2500, lambda i, c: jnp.tanh(c @ w), x))
    wanted = np.asarray(run(w)).copy()
    shares = []
    for _ in range(3):
        start = time.perf_counter()
        y = run(w)
        taken = time.perf_counter() - start
        assert not y.is_ready()
        done = 0
        while not y.is_ready():  # NumPy's work overlaps: neither waits for the other
            np.sort(w, axis=None)
            done += 1
        shares.append(taken / (time.perf_counter() - start))
        np.testing.assert_array_equal(y, wanted)
        assert done > 3
    assert min(shares) < 0.1  # of the whole: on a busy machine both take longer


def test_programs_follow_each_other(everything, at_once):
    f = cv.jit(lambda x, y: (jnp.sin(x) + y, x - y))
    x, y = np.float32(0.3), np.arange(4, dtype=np.float32)
    pair, wanted = (x, y), (x, y)
    for _ in range(100):
        pair = f(*pair)
    at_once()
    for _ in range(100):
        wanted = f(*wanted)
    for a, b in zip(pair, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_who_waits_runs_what_has_not_begun():
    gated = Gated()
    gated.gate.set()
    with deferred.executor.lock:  # so that the other thread does not get at it
        (y,) = deferred.run(gated, [from_numpy(VALUES)])
        assert y.tolist() == [2, 3, 4]
    assert gated.threads == [threading.get_ident()]


def test_arguments_may_go_meanwhile(gated):
    first, second = from_numpy(VALUES), from_numpy(VALUES)
    y = gated.start(first)
    (z,) = deferred.run(gated, [second])
    (last,) = deferred.run(gated, [y])
    first.delete()
    taken = cv.jit(lambda v: v * 10, donate_argnums=0)(second)
    y.delete()
    assert taken.tolist() == [10, 20, 30]
    gated.gate.set()
    assert z.tolist() == [2, 3, 4]
    assert last.tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="deleted"):
        deferred.run(gated, [first])


def test_numpy_arguments_are_read_before_it_returns(everything):
    f = cv.jit(lambda x: x * 2)
    for n in (3, 100_000):
        x = np.ones(n, np.float32)
        f(x)
        y = f(x)
        x[:] = 7
        assert (np.asarray(y) == 2).all()


@pytest.mark.parametrize("error", [JaxRuntimeError("no memory"), ZeroDivisionError("nought")])
def test_errors_come_at_the_first_use(error):
    def fail(x):
        raise error

    gated = Gated(fail)
    y = gated.start()
    (z,) = deferred.run(gated, [y])
    gated.gate.set()
    for use in (np.asarray, lambda v: v + 1, lambda v: float(v[0]), cv.block_until_ready):
        for x in (y, z):
            with pytest.raises(JaxRuntimeError, match=str(error)) as caught:
                use(x)
    chain = caught.value
    while chain.__cause__ is not None:
        chain = chain.__cause__
    assert chain is error
    names, step = [], chain.__traceback__
    while step is not None:
        names.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    assert "fail" in names  # where it happened


def test_the_option(at_once):
    gated = Gated()
    gated.gate.set()
    at_once()
    (y,) = deferred.run(gated, [from_numpy(VALUES)])
    assert type(y.buffer) is not arrays.Pending
    assert gated.threads == [threading.get_ident()]


def test_other_threads_run_their_own(gated):
    y = gated.start()
    other = Gated()
    other.gate.set()
    seen = []

    def work():
        seen.append(deferred.run(other, [from_numpy(VALUES)])[0].tolist())
        seen.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert seen[0] == [2, 3, 4]
    assert other.threads == seen[1:]
    assert not y.is_ready()


def test_a_program_in_a_program_is_not_deferred():
    inner = Gated()
    inner.gate.set()

    def nested(x):
        return arrays.host(deferred.run(inner, [from_numpy(x)])[0]) * 2

    outer = Gated(nested)
    outer.gate.set()
    assert outer.start().tolist() == [4, 6, 8]
    assert inner.threads == outer.threads


def test_donated_arguments_are_gone_at_once(everything):
    step = cv.jit(lambda x, y: (x * 2, y + x), donate_argnums=(0, 1))
    big = np.arange(50_000, dtype=np.float32)
    x, y = jnp.asarray(big), jnp.asarray(big)
    seen = np.asarray(y)  # somebody looks at its memory, which stays as it was
    used = []
    for n in range(30):
        gone = x, y
        x, y = step(x, y)
        assert all(v.is_deleted() for v in gone)
        if n % 10 == 9:
            cv.block_until_ready((x, y))
            used.append(cv.devices()[0].memory_stats()["bytes_in_use"])
    np.testing.assert_array_equal(x, big * 2.0**30)
    np.testing.assert_array_equal(y, big * 2.0**30)
    np.testing.assert_array_equal(seen, big)
    assert used[2] <= used[1] + big.nbytes
    with pytest.raises(RuntimeError, match=r"deleted.*donated to the call"):
        gone[0].tolist()


@pytest.mark.skipif(native() is None, reason="needs counts of references")
def test_a_donating_program_in_flight(gated, everything):
    y = gated.start()
    step = cv.jit(lambda x: x * 2, donate_argnums=0)
    (z,) = deferred.run(gated, [y])
    wanted = step(z)
    assert z.is_deleted()
    assert not y.is_deleted()
    later(gated)
    assert (wanted.tolist(), y.tolist()) == ([6, 8, 10], [2, 3, 4])


def test_so_many_are_in_flight(gated, monkeypatch):
    monkeypatch.setattr(deferred, "MOST", 2)
    x = gated.start()
    for _ in range(2):
        (x,) = deferred.run(gated, [x])
    start = time.perf_counter()  # before the thread starts that will let go
    later(gated)
    (x,) = deferred.run(gated, [x])
    assert time.perf_counter() - start > 0.02
    assert x.tolist() == [5, 6, 7]


def test_effects_are_in_order_and_done_at_return(everything):
    seen = []

    @cv.jit
    def f(x):
        cv.debug.callback(lambda v: seen.append(float(v)), x)
        return jnp.sin(x)

    pure = cv.jit(lambda x: x + 1)
    x = 0.0
    for n in range(5):
        x = pure(x)
        f(x)
        assert seen == [float(k + 1) for k in range(n + 1)]
    cv.effects_barrier()


def test_callbacks_may_call_programs(everything):
    inner = cv.jit(lambda v: v * 2)
    f = cv.jit(lambda x: cv.pure_callback(lambda v: np.asarray(inner(inner(v))), AVAL, x) + 1)
    assert f(f(VALUES)).tolist() == [21, 37, 53]


def test_nan_checks_raise_at_the_call(everything):
    with cv.debug_nans(True), pytest.raises(FloatingPointError):
        cv.jit(jnp.log)(-1.0)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_waiting_can_be_interrupted(gated):
    y = gated.start()
    pid = os.getpid()
    timer = threading.Timer(0.05, os.kill, [pid, signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        float(y[0])
    timer.join()
    gated.gate.set()
    assert y.tolist() == [2, 3, 4]


def test_an_interrupted_program_is_run_again():
    def interrupted(x, times=[]):  # noqa: B006
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return x + 1

    gated = Gated(interrupted)
    gated.gate.set()
    with deferred.executor.lock:
        (y,) = deferred.run(gated, [from_numpy(VALUES)])
        with pytest.raises(KeyboardInterrupt):
            y.tolist()
    assert y.tolist() == [2, 3, 4]


def test_pmap_and_sharded_programs(everything):
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    y = cv.pmap(lambda v: v * 2)(x)
    assert cv.pmap(lambda v: v + 1)(y).tolist() == [[1, 3, 5, 7]]
    mesh = cv.make_mesh((1,), ("i",))
    placed = cv.device_put(x, cv.NamedSharding(mesh, cv.P(None, "i")))
    out = cv.jit(lambda v: v * 3)(placed)
    assert out.sharding.is_equivalent_to(placed.sharding, 2)
    assert cv.jit(lambda v: v - 1)(out).tolist() == [[-1, 2, 5, 8]]


def test_ahead_of_time(everything):
    compiled = cv.jit(lambda x: x + 1).lower(VALUES).compile()
    assert compiled(compiled(VALUES)).tolist() == [3, 4, 5]


PROGRAM = """
import atexit, os, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import covector as cv, covector.numpy as jnp

w = np.eye(128, dtype=np.float32)
run = cv.jit(lambda x: cv.lax.fori_loop(0, 1000, lambda i, c: jnp.tanh(c @ w), x))
atexit.register(lambda: print("late", float(run(y).sum()) > 0))
y = run(run(w))
if "fork" in sys.argv:
    for stage in range(2):
        child = os.fork()
        if child == 0:
            z = run(y)
            print("child", not z.is_ready(), float(z.sum()) > 0, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        y = run(y)
atexit.register(lambda: print("end", float(y.sum()) > 0))
z = run(y)
"""


@pytest.mark.parametrize("how", ["fork", "exit"])
def test_forks_and_the_end_of_the_process(how):
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("needs fork")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = ["end True", "late True"]
    assert done.stdout.splitlines() == ["child True True"] * 2 * (how == "fork") + lines
