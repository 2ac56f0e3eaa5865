"""Worker threads: every range once, from any thread, in any number; forks; what is spread."""

import ctypes
import os
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest

from covector.backends.cpu import workers
from covector.backends.cpu.assemble import assemble
from covector.backends.cpu.emit import spread
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import call, link, load_pool
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import Accumulator, Fold, For, Kernel, Store, Update
from covector.ir.index import Affine
from covector.ir.scalar import const, expr, name
from covector.runtime import threads
from tests.backends.harness import at, blank, buffer, buffers, check, i, machine_code

ZERO = Affine()
COUNT = """
define void @count(ptr %b, ptr %s, i64 %low, i64 %high) {
entry:
  %some = icmp slt i64 %low, %high
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [%low, %entry], [%next, %loop]
  %p = getelementptr i32, ptr %b, i64 %i
  %v = load i32, ptr %p
  %w = add i32 %v, 1
  store i32 %w, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def pool():
    """(covector_parallel, a function that counts how often each index was done)."""
    code = link([assemble(COUNT, host())], ["count"])
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
    run = signature(workers.address(load_pool))

    def count(array, quantum=1, low=0):
        run(code.address("count"), array.ctypes.data, 0, low, array.size, quantum)

    yield count
    assert code is not None


@pytest.fixture
def number():
    before = threads.num_threads()
    yield threads.set_num_threads
    threads.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_range_once(pool, number, count):
    number(count)
    for n in (1, 2, 3, 7, 64, 1000, 100_003):
        for quantum in (1, 16, 1000):
            done = np.zeros(n, np.int32)
            for _ in range(20):
                pool(done, quantum)
            assert (done == 20).all()


def test_from_several_threads_at_once(pool, number):
    number(3)
    failed = []

    def go():
        done = np.zeros(5000, np.int32)
        for _ in range(300):
            pool(done)
        if not (done == 300).all():
            failed.append(done)

    team = [threading.Thread(target=go) for _ in range(4)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not failed


def test_sleeping_workers_wake(pool, number):
    number(2)
    done = np.zeros(1000, np.int32)
    for _ in range(5):
        threading.Event().wait(0.02)
        pool(done)
    assert (done == 5).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_fork_starts_without_workers(pool, number):
    number(2)
    pool(np.zeros(1000, np.int32))
    child = os.fork()
    if child == 0:
        done = np.zeros(1000, np.int32)
        pool(done)
        workers.address(load_pool)
        pool(done)
        os._exit(0 if (done == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def mild(*shape):
    return np.random.default_rng(2).random(shape, np.float32)


def rows(mode, m, n):
    """Softmax without the maximum, by rows: folds and scratch inside the spread loop."""
    e = expr("exp", "float32", at("x", "i", "j"))
    fold = Fold(
        [("j", ZERO, n)],
        [Accumulator(("s",), "sum", ("float32",), (e,))],
        [Store("t", (i("j"),), e)],
        "j",
        2,
    )
    value = expr("div", "float32", at("t", "j"), name("s", "float32"))
    last = For("j", ZERO, n, [Store("y", (i("i"), i("j")), value)], "vector", 2)
    items = buffers(
        buffer("x", [m, n], "float32", "in"),
        buffer("y", [m, n], "float32", "out"),
        buffer("t", [n], "float32", "scratch"),
    )
    return Kernel("f", items, [For("i", ZERO, m, [fold, last], mode)])


@pytest.mark.parametrize("count", [1, 3])
def test_kernels_whose_loops_are_spread(number, monkeypatch, count):
    number(count)
    monkeypatch.setattr(spread, "WORTH", 0)
    monkeypatch.setattr(spread, "QUANTUM", 1)
    m, n = 37, 45
    kernel = rows("parallel", Affine(m), Affine(n))
    assert workers.SYMBOL in emit(kernel, host())[0]
    check(kernel, [mild(m, n), blank([m, n], "float32")], rtol=1e-5)
    for symbolic in (False, True):
        for size in (0, 1, 8, 100, 1003):
            extent = i("n") if symbolic else Affine(size)
            items = buffers(
                buffer("x", [extent], "float32", "in"), buffer("y", [extent], "float32", "out")
            )
            body = [
                For("i", ZERO, extent, [Store("y", (i("i"),), at("x", "i") + 1.0)], "vector", 3)
            ]
            kernel = Kernel("f", items, body, ("n",) if symbolic else ())
            check(kernel, [mild(size), blank([size], "float32")], [size][:symbolic])
    items = buffers(buffer("x", [n, m], "float32", "in"), buffer("y", [m, n], "float32", "out"))
    inner = For("j", ZERO, Affine(n), [Store("y", (i("i"), i("j")), at("x", "j", "i"))], "vector")
    kernel = Kernel("f", items, [For("i", ZERO, Affine(m), [inner], "tile")])
    check(kernel, [mild(n, m), blank([m, n], "float32")])


def test_loops_that_must_not_be_spread(monkeypatch):
    monkeypatch.setattr(spread, "WORTH", 0)
    n = Affine(100)
    x, y = buffer("x", [100], "float32", "in"), buffer("y", [100], "float32", "inout")
    place = (i("i"),)
    shared = For("i", ZERO, n, [Update("y", (ZERO,), "sum", at("x", "i"))], "vector")
    shifted = For("i", ZERO, Affine(99), [Store("y", place, at("y", i("i") + 1))], "vector")
    fold = Fold([("k", ZERO, n)], [Accumulator(("s",), "sum", ("float32",), (at("x", "k"),))])
    named = For("i", ZERO, n, [Store("y", place, name("s", "float32"))], "vector")
    scratch = buffer("t", [100], "float32", "scratch")
    fill = For("i", ZERO, n, [Store("t", place, at("x", "i"))], "vector")
    use = For("i", ZERO, n, [Store("y", place, at("t", "i"))], "vector")
    for body in ([shared], [shifted], [fold, named], [fill, use]):
        assert spread.loops(Kernel("f", buffers(x, y, scratch), body)) == []
    own = For("i", ZERO, n, [Store("y", place, at("y", "i") + at("x", "i"))], "vector")
    assert spread.loops(Kernel("f", buffers(x, y), [own])) == [own]


def test_small_loops_stay_whole():
    kernel = rows("parallel", Affine(10), Affine(10))
    assert workers.SYMBOL not in emit(kernel, host())[0]
    assert workers.SYMBOL in emit(rows("parallel", Affine(1000), Affine(1000)), host())[0]


def test_results_do_not_depend_on_the_number_of_threads(number, monkeypatch):
    monkeypatch.setattr(spread, "WORTH", 0)
    m, n = 300, 1001
    code = machine_code(rows("parallel", Affine(m), Affine(n)))
    x, outs = mild(m, n), []
    for count in (1, 2, 3):
        number(count)
        y = blank([m, n], "float32")
        call(code.address("f"), [x.ctypes.data, y.ctypes.data])
        outs.append(y)
    assert (outs[0] == outs[1]).all()
    assert (outs[0] == outs[2]).all()
    assert const(1, "int32").op == "const"


@pytest.mark.parametrize(
    "triple", ["x86_64-pc-windows-msvc", "arm64-apple-darwin23", "aarch64-unknown-linux-gnu"]
)
def test_the_text_is_whole_for_other_systems(triple):
    """The functions that each system has for it are declared as they are called."""
    text = workers.module(Target(triple, "generic", ""))
    llvm.parse_assembly(text).verify()
