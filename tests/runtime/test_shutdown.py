"""The end of the interpreter: arrays that outlive the modules must still find the runtime."""

import os
import subprocess
import sys

# What operators have learned holds arrays (constants), and goes with the runtime itself.
PROGRAM = """
import codecs
import numpy as np
import covector as cv
from covector.runtime.array import from_numpy

f = cv.jit(lambda x: x + 1)
arrays = [from_numpy(np.ones(n, np.float32)) for n in range(1, 3000, 7)]
for dtype in ("int8", "int16", "int32", "uint8", "float32"):
    x = from_numpy(np.arange(1, 5).astype(dtype))
    for _ in range(3):
        f(x), x % x, x // x, divmod(x, x), abs(x), x ** 3, x[1:3]

class Late:
    def __init__(self, arrays, f):
        self.arrays, self.f = arrays, f

    def __del__(self):
        for _ in range(300):
            self.arrays.append(self.f(self.arrays[0]))
        del self.arrays[::2]

# The interpreter forgets its codecs after it has cleared the modules.
def search(name, late=Late(arrays, f)):
    return None

codecs.register(search)
del arrays, f, search, x
"""


def test_arrays_may_be_the_last_to_go():
    env = {**os.environ, "MALLOC_PERTURB_": "165"}  # freed memory is overwritten (glibc)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
