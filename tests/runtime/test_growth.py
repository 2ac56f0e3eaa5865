"""Functions called with ever new shapes: caches have limits, and what they drop is really gone."""

import os
import subprocess
import sys

import pytest

# The limits are lowered, so that they are soon reached.
PROGRAM = """
import gc, sys
import numpy as np
import covector as cv, covector.numpy as jnp
import covector.api.jit as jits
from covector.backends.cpu import llvm, objects
from covector.runtime import dispatch, eager, entry
from covector.trace import cache

jits.TRACES = jits.RECORDS = cache.KEPT = dispatch.TYPES = eager.KEPT = 48
objects.KEPT = llvm.LIBRARIES = 16
f = cv.jit(lambda x: x + 1)

def step(n):
    x = np.zeros(n, np.float32)
    if sys.argv[1] == "jit":
        f(x), f(x)
        return
    x = jnp.asarray(x)
    for _ in range(3):
        y = (x + 1) * x
        y.sum(), jnp.sin(y), y[0]

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

first, more = int(sys.argv[2]), int(sys.argv[3])
for n in range(1, first):
    step(n)
before = resident()
for n in range(first, first + more):
    step(n)
grown = resident() - before
programs = sum(type(x) is entry.Compiled for x in gc.get_objects())
held = sum(type(x).__name__ == "NativeRecord" for x in gc.get_objects())
del step, f
cv.clear_caches()
print(grown, programs, held)
"""


@pytest.mark.skipif(not os.path.isfile("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize(("kind", "first", "more"), [("jit", 80, 100), ("eager", 120, 240)])
def test_new_shapes_take_no_memory_once_the_caches_are_full(kind, first, more):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(first), str(more)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    grown, _, held = map(int, done.stdout.split())
    # 50 MB for ten thousand; half a megabyte is the heap's own unrest.
    assert grown < 5000 * more + (1 << 19)
    assert held < 4 * 48 + 500
