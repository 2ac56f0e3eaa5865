"""The vector math library: every math operation as branch-free scalar IR (float32 and float64).

`expand_all` rewrites what a kernel computes, so that it vectorises on any machine without a call
into a C library; `evaluate` is the meaning that the tests compare with.
"""

from covector.compiler.math.complex_parts import split_complex
from covector.compiler.math.cost import COST, cost
from covector.compiler.math.evaluate import evaluate, evaluate_all, numpy_dtype
from covector.compiler.math.expand import BASIC, expand, expand_all

__all__ = [
    "BASIC",
    "COST",
    "cost",
    "evaluate",
    "evaluate_all",
    "expand",
    "expand_all",
    "numpy_dtype",
    "split_complex",
]
