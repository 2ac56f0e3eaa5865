"""What things cost, in additions of one element: the numbers behind every choice of placement."""

from __future__ import annotations

from collections.abc import Iterable

#: What a scalar operation costs, in additions; 1 where not listed.
COST = {
    "const": 0, "name": 0, "index": 1, "load": 1, "select": 1,
    "div": 5, "rem": 8, "sqrt": 5, "rsqrt": 6, "cbrt": 20, "pow": 40,
    "exp": 15, "exp2": 12, "expm1": 20, "log": 15, "log1p": 20, "sin": 20, "cos": 20, "tan": 30,
    "asin": 20, "acos": 20, "atan": 20, "atan2": 30, "sinh": 25, "cosh": 20, "tanh": 20,
    "asinh": 30, "acosh": 30, "atanh": 25, "logistic": 20, "erf": 25, "erfc": 30, "erf_inv": 30,
    "lgamma": 60, "digamma": 60, "bessel_i0e": 40, "bessel_i1e": 40,
}  # fmt: skip
#: Where a sum of costs stops growing (a DAG's tree cost is exponential).
ENDLESS = 1_000_000
#: Writing and reading back one element, in additions.
MEMORY_COST, READ_COST = 8, 2
#: A reduction to a few numbers that a bigger domain then uses is a kernel of its own (it can be
#: spread over threads) beyond this many elements.
WHOLE_FOLD = 16 * 1024


def product(numbers: Iterable[int]) -> int:
    """The product."""
    out = 1
    for n in numbers:
        out *= n
    return out
