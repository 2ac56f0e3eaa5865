"""The vector math library: every math operation as branch-free scalar IR (float32 and float64).

`split_complex` and `expand_all` rewrite what a kernel computes, so that it vectorises on any
machine without a call into a C library; `evaluate.py` is the meaning that tests compare with.

Errors are at most 2 ulp over the whole domain (denormals, huge angles, signed zeros, infinities
and NaN as in IEEE 754 and C), most about 1.5; but erfc in float64 2.3, bessel_i0e and bessel_i1e
in float64 4.5, lgamma and digamma in float64 3 and 4 for x > 0, for x < 0 small beside 1 only;
erf_inv is as JAX's.  Complex functions: 3 eps of the result's size.  `tests/compiler` has a table.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.compiler.math import bessel as bessel
    from covector.compiler.math import complex_parts as complex_parts
    from covector.compiler.math import erf_inverse as erf_inverse
    from covector.compiler.math import error_function as error_function
    from covector.compiler.math import exponential as exponential
    from covector.compiler.math import gamma as gamma
    from covector.compiler.math import integers as integers
    from covector.compiler.math import inverse_trigonometry as inverse_trigonometry
    from covector.compiler.math import logarithm as logarithm
    from covector.compiler.math import power as power
    from covector.compiler.math import rounding as rounding
    from covector.compiler.math import trigonometry as trigonometry
    from covector.compiler.math.complex_parts import split_complex

from covector.compiler.math.expand import BASIC, expand, expand_all, real_parts

__all__ = ["BASIC", "expand", "expand_all", "real_parts", "split_complex"]
