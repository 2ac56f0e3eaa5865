"""Our own linker: images of object files, placed anywhere, and what it leaves to LLVM."""

import ctypes
import os

import pytest

from covector.backends.cpu import link as linking
from covector.backends.cpu import processor, target
from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.image import PAGE, SUPPORTED, Image, Placed, Unknown, linked
from covector.backends.cpu.target import host
from tests.backends.processes import said

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="LLVM links here")

CALLS = """
@table = internal constant [2 x ptr] [ptr @twice, ptr @given]
@count = global i64 5
@zeros = internal global [4 x i64] zeroinitializer
@hidden = internal constant [3 x double] [double 1.0, double 2.0, double 4.0]
declare i64 @given(i64)
declare i64 @other(i64)
define i64 @twice(i64 %x) { %y = shl i64 %x, 1
  ret i64 %y }
define i64 @through(i64 %n, i64 %x) {
  %at = getelementptr ptr, ptr @table, i64 %n
  %f = load ptr, ptr %at
  %y = call i64 %f(i64 %x)
  ret i64 %y }
define i64 @counted(i64 %x) {
  %old = load i64, ptr @count
  %new = add i64 %old, %x
  store i64 %new, ptr @count
  %place = getelementptr i64, ptr @zeros, i64 2
  %sum = load i64, ptr %place
  %more = add i64 %sum, %x
  store i64 %more, ptr %place
  %y = call i64 @other(i64 %more)
  %z = add i64 %y, %new
  ret i64 %z }
define double @constant(i64 %n) {
  %at = getelementptr double, ptr @hidden, i64 %n
  %x = load double, ptr %at
  ret double %x }
define ptr @whose() { ret ptr @given }
"""
OTHER = """
define i64 @other(i64 %x) { %y = mul i64 %x, 100
  ret i64 %y }
"""
NAMES = ["through", "counted", "constant", "whose", "count"]


def objects(*texts):
    return [assemble(module_text(host(), [text], ()), host()) for text in texts]


def function(address, result, *args):
    return ctypes.CFUNCTYPE(result, *args)(address)


@pytest.fixture(scope="module")
def image():
    return linked(objects(CALLS, OTHER), NAMES)


def test_an_image_runs_wherever_it_is(image):
    seven = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x + 7)
    given = ctypes.cast(seven, ctypes.c_void_p).value
    kept = Image(image.content, *image.table())
    word = ctypes.c_int64
    for placed in (Placed(image, {"given": given}), Placed(kept, {"given": given})):
        at = {name: placed.address + offset for name, offset in kept.exports.items()}
        through = function(at["through"], word, word, word)
        assert (through(0, 21), through(1, 21)) == (42, 28)
        counted = function(at["counted"], word, word)
        assert counted(1) == 100 + 6
        assert counted(2) == 300 + 8  # its own data, of this place alone
        assert word.from_address(at["count"]).value == 8
        constant = function(at["constant"], ctypes.c_double, word)
        assert [constant(n) for n in range(3)] == [1.0, 2.0, 4.0]
        assert function(at["whose"], ctypes.c_void_p)() == given


def test_what_an_image_says_of_itself(image):
    assert list(image.imports) == ["given"]
    assert sorted(image.exports) == sorted(NAMES)
    assert image.fixed % PAGE == 0
    assert image.exports["through"] < image.fixed <= image.exports["count"]
    assert image.size >= len(image.content)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@x = thread_local global i64 3\ndefine ptr @f() { ret ptr @x }", "section"),
        ("@x = external constant i8\n@y = constant ptr getelementptr (i8, ptr @x, i64 3)\n"
         "define ptr @f() { ret ptr @y }", "an address within x"),
        ("define void @g() { ret void }", "not all of"),
    ],
)  # fmt: skip
def test_what_it_does_not_know_is_left_to_llvm(text, said):
    with pytest.raises(Unknown, match=said):
        linked(objects(text), ["f"])


def test_equal_names_are_refused_and_weak_ones_are_not():
    weak = OTHER.replace("define", "define weak").replace("100", "9")
    with pytest.raises(Unknown, match="two symbols other"):
        linked(objects(OTHER, OTHER), ["other"])
    for texts in ((weak, OTHER), (OTHER, weak)):
        placed = Placed(made := linked(objects(*texts), ["other"]), {})
        call = function(placed.address + made.exports["other"], ctypes.c_int64, ctypes.c_int64)
        assert call(3) == 300


def test_llvm_links_the_same(monkeypatch):
    monkeypatch.setattr(linking, "SUPPORTED", False)
    code = linking.loadable(objects(CALLS, OTHER), NAMES)
    assert "image" not in code.table
    module = linking.load(linking.unpacked(code.packed()), {"given": 1})
    assert function(module.address("counted"), ctypes.c_int64, ctypes.c_int64)(1) == 106


def test_llvm_links_the_code_of_workers_which_calls_itself_by_name(monkeypatch):
    monkeypatch.setattr(linking, "SUPPORTED", False)
    text = "define void @covector_parallel() { ret void }"
    code = linking.loadable(objects(text), ["covector_parallel"])
    assert code.table["helpers"] == []


def test_an_unknown_import_is_named():
    with pytest.raises(RuntimeError, match="given"):
        linking.link(objects(CALLS, OTHER), NAMES)


def test_packed_code_is_whole_or_nothing():
    data = linking.loadable(objects(OTHER), ["other"]).packed()
    assert linking.unpacked(data).table["image"][2] == {"other": 0}
    assert linking.unpacked(data[:-1]) is None
    assert linking.unpacked(b"") is None


def test_the_machine_is_known_without_llvm(monkeypatch):
    assert processor.identity() == processor.identity()
    assert int(processor.identity().split()[0], 16) >= 1  # the highest leaf
    asked = target.cpu.llvm.describe()
    monkeypatch.setattr(target, "_state", {})
    assert [*map(str, target._described())] == asked
    monkeypatch.setattr(target, "_state", {})
    monkeypatch.setattr(processor, "identity", lambda: None)  # where nobody can say
    assert target._key() is None
    assert target._described() == asked


def test_every_core_says_that_it_is_the_same_machine():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("threads cannot be bound to cores")
    cores = os.sched_getaffinity(0)
    try:
        said = set()
        for core in cores:
            os.sched_setaffinity(0, {core})
            said.add(processor.identity())
    finally:
        os.sched_setaffinity(0, cores)
    assert len(said) == 1


def test_the_answers_of_the_processor_are_those_of_its_features():
    words = processor.identity().split()
    # Leaf 0 is four words, then what the system saves, then leaf 1: eax, ecx, edx.
    ecx, edx = int(words[6], 16), int(words[7], 16)
    assert edx >> 26 & 1  # SSE2, which every x86-64 processor has
    features = target.host().features.split(",")
    assert ecx >> 28 & 1 == ("+avx" in features)


def test_a_process_with_nothing_to_compile_does_not_load_llvm(tmp_path):
    program = (
        "import sys, covector as cv, covector.numpy as jnp\n"
        "print(float(cv.jit(lambda x: x * jnp.sin(x) + jnp.cumsum(jnp.ones(3))[1])(1.5)))\n"
        "print('llvmlite' in sys.modules, 'covector.compiler.pipeline' in sys.modules)\n"
    )
    first, second = said(program, tmp_path), said(program, tmp_path)
    assert first[0] == second[0]
    assert second[1:] == [b"False", b"False"]
