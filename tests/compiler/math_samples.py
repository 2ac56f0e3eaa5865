"""Sample arguments, exact references and error measures for the tests of the math library."""

import mpmath
import numpy as np
import scipy.special


def ulps(got: np.ndarray, want: list | np.ndarray, dtype: str) -> np.ndarray:
    """Errors in units in the last place of the exact `want`; inf for a wrong kind of value."""
    f = np.finfo(dtype)
    errors = np.empty(len(got))
    for i, (g, w) in enumerate(zip(got.tolist(), want, strict=True)):
        errors[i] = _error(g, w, f)
    return errors


def _error(g: float, w, f: np.finfo) -> float:
    if mpmath.isnan(w) or g != g:
        return 0.0 if mpmath.isnan(w) and g != g else np.inf
    w = mpmath.mpf(w) if not isinstance(w, mpmath.mpf) else w
    limit = mpmath.mpf(2) ** f.maxexp
    if abs(w) >= limit or np.isinf(g):
        # a result within an ulp of the overflow threshold may go either way
        beyond = abs(w) >= limit * (1 - mpmath.mpf(2) ** -(f.nmant + 1))
        right = (g > 0) == (w > 0) and (np.isinf(g) == (abs(w) >= limit) or beyond)
        return 0.0 if right else np.inf
    exponent = max(mpmath.frexp(w)[1] - 1, f.minexp) if w != 0 else f.minexp
    return float(abs(mpmath.mpf(g) - w) / mpmath.mpf(2) ** (exponent - f.nmant))


def exact(function):
    """`function` of mpmath on an array, 40 digits; NaN where it is not real."""

    def values(*args: np.ndarray) -> list:
        out = []
        with mpmath.workdps(40):
            for point in zip(*(a.tolist() for a in args), strict=True):
                try:
                    y = function(*map(mpmath.mpf, point))
                except (ValueError, ZeroDivisionError):
                    y = mpmath.nan
                out.append(mpmath.nan if isinstance(y, mpmath.mpc) and y.imag != 0 else y.real)
        return out

    return values


def double(function):
    """`function` of NumPy or SciPy in double precision: exact enough for float32."""

    def values(*args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(a.astype(np.float64) for a in args)))

    return values


def lgamma(x):
    if x <= 0 and x == int(x):
        return mpmath.inf
    return mpmath.loggamma(x).real


def digamma(x):
    return mpmath.nan if x <= 0 and x == int(x) else mpmath.psi(0, x)


def scipy_digamma(x):
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, scipy.special.digamma(x))


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def double_logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e / (1 + e), 1 / (1 + e))


def real_log(x):
    return -mpmath.inf if x == 0 else mpmath.log(x)


def log1p(x):
    return -mpmath.inf if x == -1 else mpmath.log1p(x)


def rsqrt(x):
    return mpmath.inf if x == 0 else 1 / mpmath.sqrt(x)


def atanh(x):
    return mpmath.inf * x if abs(x) == 1 else mpmath.atanh(x)


def scaled_bessel(n):
    return lambda x: mpmath.besseli(n, x) * mpmath.exp(-abs(x))


def pow_(x, y):
    return mpmath.power(x, y)


#: op -> (exact reference, double reference, bound in ulps for float32, for float64, (low, high)
#: of the arguments that matter most)
FUNCTIONS = {
    "exp": (mpmath.exp, np.exp, 1.6, 1.6, (-750, 712)),
    "exp2": (lambda x: mpmath.mpf(2) ** x, np.exp2, 1.3, 1.3, (-1080, 1030)),
    "expm1": (mpmath.expm1, np.expm1, 1.6, 1.6, (-40, 90)),
    "log": (real_log, np.log, 1.0, 1.0, (0, 4)),
    "log1p": (log1p, np.log1p, 1.1, 1.1, (-1, 4)),
    "sin": (mpmath.sin, np.sin, 1.8, 1.8, (-400, 400)),
    "cos": (mpmath.cos, np.cos, 1.8, 1.8, (-400, 400)),
    "tan": (mpmath.tan, np.tan, 1.8, 1.8, (-400, 400)),
    "asin": (mpmath.asin, np.arcsin, 2.0, 2.0, (-1, 1)),
    "acos": (mpmath.acos, np.arccos, 1.4, 1.4, (-1, 1)),
    "atan": (mpmath.atan, np.arctan, 1.4, 1.7, (-5, 5)),
    "sinh": (mpmath.sinh, np.sinh, 2.0, 2.0, (-90, 90)),
    "cosh": (mpmath.cosh, np.cosh, 1.7, 2.0, (-90, 90)),
    "tanh": (mpmath.tanh, np.tanh, 1.5, 1.6, (-20, 20)),
    "asinh": (mpmath.asinh, np.arcsinh, 1.4, 1.4, (-9, 9)),
    "acosh": (mpmath.acosh, np.arccosh, 1.6, 1.8, (1, 9)),
    "atanh": (atanh, np.arctanh, 2.0, 2.0, (-1, 1)),
    "logistic": (logistic, double_logistic, 1.9, 1.9, (-750, 100)),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt, 0.6, 0.6, (-9, 9)),
    "rsqrt": (rsqrt, lambda x: 1 / np.sqrt(x), 1.6, 1.6, (0, 9)),
    "erf": (mpmath.erf, scipy.special.erf, 1.8, 2.0, (-7, 7)),
    "erfc": (mpmath.erfc, scipy.special.erfc, 1.0, 2.3, (-7, 28)),
    "lgamma": (lgamma, scipy.special.gammaln, 1.0, 3.0, (0, 30)),
    "digamma": (digamma, scipy_digamma, 1.0, 4.0, (0, 30)),
    "bessel_i0e": (scaled_bessel(0), scipy.special.i0e, 1.0, 4.5, (-60, 60)),
    "bessel_i1e": (scaled_bessel(1), scipy.special.i1e, 1.0, 4.5, (-60, 60)),
    "pow": (pow_, np.power, 0.6, 1.7, (0, 9)),
    "atan2": (mpmath.atan2, np.arctan2, 1.8, 1.8, (-9, 9)),
}  # fmt: skip
#: Mere powers or reflections of these are large or slow in mpmath beyond such a size.
_LARGEST = {"bessel_i0e": 1e5, "bessel_i1e": 1e5, "erf": 50, "erfc": 50, "lgamma": 1e200,
            "digamma": 1e200}  # fmt: skip
POSITIVE = {"lgamma", "digamma"}


def arguments(op: str, dtype: str, n: int) -> np.ndarray:
    """Dense where it matters, of all exponents, near special points, and the specials."""
    rng = np.random.default_rng(sum(map(ord, op)))
    f = np.finfo(dtype)
    low, high = FUNCTIONS[op][4]
    bits = rng.integers(0, 1 << f.bits - 1, n, np.uint64).astype(f"u{f.bits // 8}").view(dtype)
    bits = bits[np.isfinite(bits)]
    powers = np.exp2(rng.uniform(-30, 9, n)) * rng.choice([-1, 1], n)
    near = np.concatenate([c + np.exp2(-rng.uniform(2, f.nmant, n // 8)) * s
                           for c in (1, -1, 0.5, np.pi / 2, np.pi) for s in (1, -1)])  # fmt: skip
    ends = np.array([0.0, f.tiny, f.smallest_subnormal, f.max, 1.0, 2.0, 0.5, 1 - f.eps / 2])
    with np.errstate(over="ignore"):
        usual = rng.uniform(low, high, n).astype(dtype)
        x = np.concatenate([usual, powers.astype(dtype), near.astype(dtype), bits, -bits,
                            ends.astype(dtype), -ends.astype(dtype)])  # fmt: skip
    if op in POSITIVE:
        x = np.abs(x)
    return x[np.abs(x) <= np.array(_LARGEST.get(op, np.inf)).astype(np.float64)]
