"""Compiling: by the library directly or by llvmlite's package, by several threads, with errors."""

import ctypes
import gc
import threading
import time

import llvmlite.binding as llvm
import numpy as np
import pytest

import covector as cv
import covector.numpy as jnp
from covector.backends.cpu import assemble as assembling
from covector.backends.cpu import cache, libllvm
from covector.backends.cpu.assemble import CompileError, assemble
from covector.backends.cpu.crew import Crew
from covector.backends.cpu.image import SUPPORTED
from covector.backends.cpu.link import link
from covector.backends.cpu.target import host
from tests.backends.processes import said

TRIPLE = """
define i64 @triple(i64 %x) {
  %double = add i64 %x, %x
  %y = add i64 %double, %x
  ret i64 %y
}
"""


def called(image):
    code = link([image], ["triple"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("triple"))(14)


def plain(kind):
    """A declared type of llvmlite's, as ours: pointers to what is opaque are addresses."""
    if kind in (None, ctypes.c_int, ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p):
        return kind
    if kind in (ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)):
        return kind
    assert kind.__name__.startswith("LP_LLVM"), kind
    return ctypes.c_void_p


@pytest.mark.skipif(not libllvm.serves(), reason="a release whose functions are not known")
@pytest.mark.parametrize("name", libllvm.DECLARATIONS)
def test_functions_are_declared_as_by_the_package(name):
    returns, takes = libllvm.DECLARATIONS[name]
    theirs = getattr(llvm.ffi.lib, f"LLVMPY_{name}")
    if theirs.argtypes is not None:
        assert [*map(plain, theirs.argtypes)] == list(takes)
    # What returns nothing is not always declared; ctypes then says that it is an int.
    assert plain(theirs.restype) in (returns, ctypes.c_int)


@pytest.mark.parametrize("known", [True, False])
def test_both_ways_make_the_same_code(known, monkeypatch):
    if known and not libllvm.serves():
        pytest.skip("a release whose functions are not known")
    monkeypatch.setattr(libllvm, "serves", lambda: known)
    image = assemble(TRIPLE, host())
    assert called(image) == 42
    packaged = assembling.cpu.llvm.Compiler
    target = host()
    made = packaged(target.triple, target.cpu, target.features, assembling.OPTIMISATION)
    assert made.compiled(TRIPLE) == image


@pytest.mark.parametrize("version", ["0.45.1", "0.51.0", "1.0.0", "0.dev"])
def test_releases_that_are_not_known_are_left_to_the_package(version, monkeypatch):
    monkeypatch.setattr(libllvm.llvmlite, "__version__", version)
    assert not libllvm.serves()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define i64 @f() { ret i32 0 }", "value doesn't match function result type"),
        ("define void @f() {\n  br label %b\nb:\n  %x = phi i32 [ 0, %b ]\n  ret void\n}", "PHI"),
        ("nonsense", "expected top-level entity"),
    ],
)  # fmt: skip
def test_what_llvm_refuses_is_said_with_the_text(text, message, known, monkeypatch):
    if known and not libllvm.serves():
        pytest.skip("a release whose functions are not known")
    monkeypatch.setattr(libllvm, "serves", lambda: known)
    with pytest.raises(CompileError) as caught:
        assemble(text, host())
    assert message in str(caught.value)
    assert text in str(caught.value)
    assert called(assemble(TRIPLE, host())) == 42  # and the compiler still works


def test_threads_make_the_same_code():
    texts = [TRIPLE.replace("%x, %x", f"%x, {n}") for n in range(40)]
    wanted = [assemble(text, host()) for text in texts]
    made = {}

    def several(first):
        for k in range(first, first + 40):
            made[first, k % 40] = assemble(texts[k % 40], host())

    threads = [threading.Thread(target=several, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 160
    assert all(image == wanted[k] for (_, k), image in made.items())


def test_a_compile_loads_the_library_alone(tmp_path):
    if not libllvm.serves():
        pytest.skip("a release whose functions are not known")
    program = (
        "import sys, covector as cv, covector.numpy as jnp\n"
        "print(float(cv.jit(lambda x: x * jnp.sin(x) + {})(1.5)))\n"
        "print('covector.backends.cpu.libllvm' in sys.modules, 'llvmlite.binding' in sys.modules)\n"
    )
    for k in range(2):  # the first process makes the native runtime too
        value, *loaded = said(program.format(k), tmp_path)
        assert float(value) == pytest.approx(1.49624 + k, rel=1e-5)
    if SUPPORTED:  # elsewhere LLVM links
        assert loaded == [b"True", b"False"]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_threads_options_hold_for_those_that_compile_for_it(enabled, tmp_path, monkeypatch):
    stored = []
    monkeypatch.setattr(cache.DiskCache, "store", lambda self, key, data: stored.append(self._path))
    folder = str(tmp_path)
    x = np.ones((64, 64), np.float32)
    with cv.config.scoped(compilation_cache_dir=folder, enable_compilation_cache=enabled):
        cv.jit(lambda x: (x @ x) * 2.5 + jnp.sort(x @ (x + enabled), axis=0))(x)
    assert len(stored) > 2 if enabled else not stored
    assert all(path.startswith(folder) for path in stored)


# The crew


def at_work():
    return [t for t in threading.enumerate() if t.name == "covector compiles"]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_crew_does_all_tasks(size):
    done = []
    with Crew(size) as crew:
        for n in range(100):
            crew.start(lambda n=n: done.append(n))
    assert sorted(done) == [*range(100)]
    if size == 1:
        assert done == [*range(100)]


def test_tasks_are_done_while_others_are_handed_out():
    started, go = threading.Event(), threading.Event()
    with Crew(2) as crew:
        crew.start(lambda: started.set() or go.wait(10))
        crew.start(int)
        assert started.wait(10)
        go.set()


def test_one_task_needs_no_thread_and_a_crew_leaves_none():
    here = []
    with Crew(8) as crew:
        crew.start(lambda: here.append(threading.current_thread()))
        assert not at_work()
    assert here == [threading.current_thread()]
    with Crew(8) as crew:
        for _ in range(50):
            crew.start(int)
        assert at_work()
    assert not at_work()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_first_error_is_raised_and_what_was_not_begun_is_dropped(size):
    done, failed = [], threading.Event()

    def fails():
        failed.set()
        raise ZeroDivisionError("here")

    def run():
        with Crew(size) as crew:
            crew.start(fails)
            crew.start(int)
            assert failed.wait(10)
            for _ in range(10_000):
                if crew._tasks.errors:  # a moment after it failed
                    break
                time.sleep(0.001)
            crew.start(lambda: done.append(1))

    with pytest.raises(ZeroDivisionError, match="here"):
        run()
    assert not done


def test_an_error_beside_the_tasks_ends_the_crew():
    def run():
        with Crew(3) as crew:
            for _ in range(50):
                crew.start(int)
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert not at_work()


def test_a_crew_that_nobody_ends_leaves_no_thread():
    crew = Crew(3)
    for _ in range(50):
        crew.start(int)
    threads = at_work()
    assert threads
    del crew
    gc.collect()
    for thread in threads:
        thread.join(10)
    assert not at_work()
