"""The native runtime's language: what its statements mean, and what it refuses."""

import ctypes

import pytest

from covector.backends.cpu.native import translate
from covector.backends.cpu.native.source import Source
from covector.backends.cpu.native.structs import Array, Buffer
from tests.runtime.harness import compiled


def run(text, *args):
    kinds = [ctypes.c_double if isinstance(a, float) else ctypes.c_int64 for a in args]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(compiled(text)[0])(*args)


def test_loops_and_arithmetic():
    text = """
def f(a: word, b: word) -> word:
    while b != 0:
        rest = a % b
        a = b
        b = rest
    return a
"""
    assert run(text, 84, 36) == 12


def test_break_continue_and_constants():
    text = """
LIMIT = 3 * 4

def f(n: word) -> word:
    total = 0
    i = 0
    while True:
        i += 1
        if i > n or i >= LIMIT:
            break
        if i & 1:
            continue
        total += i
    return total
"""
    assert run(text, 5) == 6
    assert run(text, 100) == 2 + 4 + 6 + 8 + 10


@pytest.mark.parametrize(("a", "b"), [(-1, 1), (1, -1), (0, 0), (2**62, -(2**62))])
def test_comparisons_are_signed_and_shortcuts_short(a, b):
    text = """
def f(a: word, b: word) -> word:
    if a < b and not (a == b):
        return 1
    elif a == b or b[0] == 77:
        return 2
    return 3
"""
    if a <= b:  # else `b[0]` is read, at an address that is none
        assert run(text, a, b) == (1 if a < b else 2)


def test_memory():
    text = """
def f(p: word) -> word:
    store8(p, 200)
    store16(p + 2, -2)
    store32(p + 4, -3)
    p[1] = -4
    store_f32(p + 16, 1.5)
    store_f64(p + 24, load_f32(p + 16) * 2.0)
    return load8(p) + signed8(p) + load16(p + 2) + signed16(p + 2) + signed32(p + 4) + p[1]
"""
    memory = (ctypes.c_uint8 * 64)()
    assert run(text, ctypes.addressof(memory)) == 200 - 56 + 65534 - 2 - 3 - 4
    assert ctypes.c_double.from_address(ctypes.addressof(memory) + 24).value == 3.0


def test_structures_and_instances():
    text = """
class Pair(Struct):
    first: word
    other: Pair

kept: Pair = instance(Pair)

def f(p: word) -> word:
    pair = Pair(p)
    pair.other = kept
    kept.first = pair.first + sizeof(Pair)
    return pair.other.first
"""
    memory = (ctypes.c_int64 * 2)(5, 0)
    assert run(text, ctypes.addressof(memory)) == 21


def test_calls_by_address_and_frames():
    text = """
def twice(x: word) -> word:
    return 2 * x

def f(n: word) -> word:
    room = stack(n)
    i = 0
    while i < n:
        room[i] = call(address_of(twice), i)
        i += 1
    return room[n - 1]
"""
    assert run(text, 9) == 16


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(a: word) -> word:\n    return missing", "unknown name"),
        ("def f(a: word) -> word:\n    return g(a)", "unknown function"),
        ("def f(a: word) -> word:\n    for i in a:\n        pass", "no such statement"),
        ("def f(a: word) -> word:\n    return a.field", "no such field"),
        ("def f(a: word) -> word:\n    x = 1\n    x = 1.5\n    return x", "word and a double"),
    ],
)
def test_refusals_name_function_and_line(text, why):
    source = Source([("test", text)], ())
    with pytest.raises(SyntaxError, match=rf"f, line \d.*{why}"):
        translate.compile_source(source, "")


def test_layout_of_structures():
    assert Buffer.offset("address") == 16
    assert Array.offset("aval") == 16
    assert Array.size() == 48
