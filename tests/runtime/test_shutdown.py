"""The end of the interpreter: arrays that outlive the modules must still find the runtime."""

import os
import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
import covector as cv
from covector.runtime.array import from_numpy

class Late:
    "Dies after the modules of the package, and uses arrays then."
    def __init__(self):
        self.arrays = [from_numpy(np.ones(n, np.float32)) for n in range(1, 3000, 7)]
        self.f = cv.jit(lambda x: x + 1)
        self.f(self.arrays[0])
        self.cycle = self

    def __del__(self):
        del self.arrays[::2]
        self.arrays.extend(self.f(x) for x in self.arrays[:1] for _ in range(200))
        self.arrays.clear()

sys.late = Late()
sys.modules["late"] = Late()
keep = [Late() for _ in range(5)]
"""


def test_arrays_may_be_the_last_to_go():
    env = {**os.environ, "MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
