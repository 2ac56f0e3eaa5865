"""Programs for the entry points' tests, written in the native runtime's own little language."""

import functools

from covector.backends.cpu.link import link
from covector.backends.cpu.native import build
from covector.backends.cpu.native.source import Source
from covector.backends.cpu.target import host
from covector.ir.avals import ShapedArray
from covector.runtime.backend import NativeCode

# out[i] = first[i] + second[i]; symbols: the number of elements.
ADD = """
def f(buffers: word, symbols: word) -> None:
    i = 0
    while i < symbols[0]:
        a = load_f32(buffers[0] + 4 * i)
        b = load_f32(buffers[1] + 4 * i)
        store_f32(buffers[2] + 4 * i, a + b)
        i += 1
"""
# out = vector[index]; symbols: the index.
PICK = """
def f(buffers: word, symbols: word) -> None:
    store_f32(buffers[1], load_f32(buffers[0] + 4 * symbols[0]))
"""
# Sums of pairs: (hidden + first, first + second, their sum by way of the arena).
THREE = """
def f(buffers: word, symbols: word) -> None:
    hidden = load_f32(buffers[0])
    a = load_f32(buffers[1])
    b = load_f32(buffers[2])
    store_f32(buffers[3], hidden + a)
    store_f32(buffers[4], a + b)
    arena = buffers[6]
    store_f32(arena, hidden + a + a + b)
    store_f32(buffers[5], load_f32(arena))
"""
# Output i = argument i, for so many of them as the symbol says.
COPY_ALL = """
def f(buffers: word, symbols: word) -> None:
    i = 0
    while i < symbols[0]:
        store_f32(buffers[symbols[0] + i], load_f32(buffers[i]))
        i += 1
"""
# out = first + second, in double precision.
ADD_WIDE = """
def f(buffers: word, symbols: word) -> None:
    store_f64(buffers[2], load_f64(buffers[0]) + load_f64(buffers[1]))
"""
# Integers of 32 bits: out = first + second.
ADD_INT = """
def f(buffers: word, symbols: word) -> None:
    store32(buffers[2], load32(buffers[0]) + load32(buffers[1]))
"""
# Waits until the second word of the first argument is set, then copies the first.
WAIT = """
def f(buffers: word, symbols: word) -> None:
    flag = symbols[0]
    while flag[0] == 0:
        flag[1] = 1
    store_f32(buffers[1], load_f32(buffers[0]))
"""


@functools.lru_cache
def compiled(text: str, name: str = "f"):
    """(address of the function, what keeps its code)."""
    source = Source([("test", text)], ())
    module = link([build.compile_image(source, host())], [name])
    return module.address(name), module


def code(text: str, **fields) -> NativeCode:
    """A program as a backend would hand it over."""
    address, module = compiled(text)
    return NativeCode(address, keep=module, **fields)


def f32(*shape, weak=False) -> ShapedArray:
    return ShapedArray(shape, "float32", weak)
