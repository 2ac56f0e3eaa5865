"""Computes the polynomial coefficients of the vector math library.

    python tools/math_coefficients.py            # rewrites covector/compiler/math/coefficients.py
    python tools/math_coefficients.py exp erf    # only prints these entries

Method.  Each polynomial is the weighted minimax approximation of a function on an interval, found
by Remez' second algorithm (E. W. Cheney, "Introduction to Approximation Theory", 1966, ch. 3) on a
dense grid of Chebyshev points, in 100-digit arithmetic (mpmath).  Its coefficients are rounded to
the format all together, as a closest-vector problem in a lattice (N. Brisebarre, S. Chevillard,
"Efficient polynomial L-infinity approximations", ARITH 2007), so that they make up for each other.
The weight is that of the error which counts: nearly always the relative error of the result.
"""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import mp, mpf

mp.dps = 100
Function = Callable[[Any], Any]
MANTISSA = {"float32": 24, "float64": 53}
OUTPUT = pathlib.Path(__file__).parent.parent / "covector/compiler/math/coefficients.py"


def rounded(x: Any, dtype: str) -> Any:
    """`x` rounded to the nearest number of the format (as an mpf)."""
    if x == 0:
        return mpf(0)
    mantissa, exponent = mpmath.frexp(x)
    scale = mpf(2) ** MANTISSA[dtype]
    return mpmath.nint(mantissa * scale) / scale * mpf(2) ** exponent


def parts(x: Any, dtype: str, count: int, bits: int = 0) -> tuple[Any, ...]:
    """`x` as an unevaluated sum of `count` numbers; all but the last have `bits` bits."""
    found = []
    for i in range(count):
        part = rounded(x, dtype)
        if bits and i < count - 1:
            mantissa, exponent = mpmath.frexp(x)
            part = mpmath.floor(mantissa * mpf(2) ** bits) / mpf(2) ** bits * mpf(2) ** exponent
        found.append(part)
        x -= part
    return tuple(found)


def polynomial(coefficients: list[Any], x: Any) -> Any:
    """Its value; the coefficients are lowest order first."""
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


class Grid:
    """Sample points of a weighted approximation problem, with the values that never change."""

    def __init__(self, f: Function, weight: Function, low: Any, high: Any, count: int) -> None:
        low, high = mpf(low), mpf(high)
        middle, half = (low + high) / 2, (high - low) / 2
        self.x = [middle - half * mpmath.cos(mp.pi * i / (count - 1)) for i in range(count)]
        weights = [abs(weight(x)) for x in self.x]
        least = max(weights) * mpf(10) ** -20  # nearly 0: at a removable singularity
        self.x = [x for x, w in zip(self.x, weights, strict=True) if w > least]
        self.f = [f(x) for x in self.x]
        self.weight = [w for w in weights if w > least]

    def remez(self, powers: list[int], fixed: list[Any]) -> tuple[list[Any], Any]:
        """Coefficients of x**p for p in `powers`, given those fixed in `fixed`; and the error."""
        n, size = len(powers), len(self.x)
        left = [f - polynomial(fixed, x) for x, f in zip(self.x, self.f, strict=True)]
        basis = [[x**p for p in powers] for x in self.x]
        if n == 0:
            return [], max(abs(e * w) for e, w in zip(left, self.weight, strict=True))
        at = [round(i * (size - 1) / n) for i in range(n + 1)]
        for _ in range(60):
            rows = [[*basis[i], (-1) ** j / self.weight[i]] for j, i in enumerate(at)]
            solution = list(mpmath.lu_solve(mpmath.matrix(rows), [left[i] for i in at]))
            coefficients, level = solution[:n], abs(solution[n])
            error = [
                (target - mpmath.fdot(coefficients, row)) * w
                for target, row, w in zip(left, basis, self.weight, strict=True)
            ]
            worst = max(map(abs, error))
            if worst <= level * mpf("1.001"):
                break
            at = _exchange(error, n + 1)
        return coefficients, worst


def _exchange(error: list[Any], count: int) -> list[int]:
    """Indices of `count` extrema of alternating sign, the greatest included."""
    extrema: list[int] = []
    for i, e in enumerate(error):
        if extrema and (e >= 0) == (error[extrema[-1]] >= 0):
            if abs(e) > abs(error[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > count:
        if len(extrema) == count + 1:
            ends = (0, -1) if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else (-1, 0)
            del extrema[ends[0]]
        else:  # drop the neighbours whose smaller one is smallest
            pairs = range(len(extrema) - 1)
            i = min(pairs, key=lambda k: max(abs(error[extrema[k]]), abs(error[extrema[k + 1]])))
            del extrema[i : i + 2]
    if len(extrema) < count:
        raise ArithmeticError("Remez: too few alternations; use a denser grid")
    return extrema


def _reduced(rows: list[list[int]]) -> list[list[int]]:
    """An LLL-reduced basis of the lattice of integer `rows` (H. Cohen, "A Course in Computational
    Algebraic Number Theory", 1993, algorithm 2.6.3)."""
    rows = [list(row) for row in rows]
    n = len(rows)
    norm, mu = [mpf(0)] * n, [[mpf(0)] * n for _ in range(n)]
    star: list[list[Any]] = []

    def orthogonalise(k: int) -> None:
        vector = [mpf(v) for v in rows[k]]
        for j in range(k):
            mu[k][j] = mpmath.fdot(vector, star[j]) / norm[j]
            vector = [v - mu[k][j] * s for v, s in zip(vector, star[j], strict=True)]
        star.append(vector)
        norm[k] = mpmath.fdot(vector, vector)

    def shorten(k: int, j: int) -> None:
        q = int(mpmath.nint(mu[k][j]))
        if q:
            rows[k] = [a - q * b for a, b in zip(rows[k], rows[j], strict=True)]
            for i in range(j):
                mu[k][i] -= q * mu[j][i]
            mu[k][j] -= q

    def swap(k: int) -> None:
        rows[k - 1], rows[k] = rows[k], rows[k - 1]
        for j in range(k - 1):
            mu[k - 1][j], mu[k][j] = mu[k][j], mu[k - 1][j]
        m = mu[k][k - 1]
        total = norm[k] + m * m * norm[k - 1]
        mu[k][k - 1] = m * norm[k - 1] / total
        norm[k], norm[k - 1] = norm[k - 1] * norm[k] / total, total
        for i in range(k + 1, n):
            t = mu[i][k]
            mu[i][k] = mu[i][k - 1] - m * t
            mu[i][k - 1] = t + mu[k][k - 1] * mu[i][k]

    for k in range(n):
        orthogonalise(k)
    k = 1
    while k < n:
        shorten(k, k - 1)
        if norm[k] < (mpf("0.99") - mu[k][k - 1] ** 2) * norm[k - 1]:
            swap(k)
            k = max(k - 1, 1)
        else:
            for j in range(k - 2, -1, -1):
                shorten(k, j)
            k += 1
    return rows


def _nearest(basis: list[list[int]], target: list[int]) -> list[int]:
    """A lattice vector near `target`, by Babai's nearest planes (1986)."""
    star: list[list[Any]] = []
    for row in basis:
        vector = [mpf(v) for v in row]
        for s in star:
            c = mpmath.fdot(row, s) / mpmath.fdot(s, s)
            vector = [v - c * w for v, w in zip(vector, s, strict=True)]
        star.append(vector)
    left = list(target)
    for row, s in zip(basis[::-1], star[::-1], strict=True):
        q = int(mpmath.nint(mpmath.fdot(left, s) / mpmath.fdot(s, s)))
        left = [a - q * b for a, b in zip(left, row, strict=True)]
    return [t - a for t, a in zip(target, left, strict=True)]


def fit(
    f: Function,
    interval: tuple[Any, Any],
    terms: int,
    dtype: str,
    weight: Function | None = None,
    fixed: tuple[Any, ...] = (),
) -> tuple[list[float], float]:
    """Coefficients, lowest order first, of a polynomial of `terms` terms, and its error.

    The first of them may be `fixed`.  `weight` defaults to that of the relative error, 1 / f.
    """
    weight = weight or (lambda x: 1 / f(x))
    done, known = [mpf(c) for c in fixed], len(fixed)

    def rest(x: Any) -> Any:
        return (f(x) - polynomial(done, x)) / x**known

    grid = Grid(rest if known else f, lambda x: weight(x) * x**known, *interval, 24 * terms + known)
    ideal, error = grid.remez(list(range(terms - known)), [])
    print(f"    before rounding {float(error):.2e}", file=sys.stderr)
    found = _round_together(grid, ideal, dtype)
    _, error = grid.remez([], found)
    return [float(c) for c in done + found], float(error)


def _round_together(grid: Grid, ideal: list[Any], dtype: str) -> list[Any]:
    """`ideal` rounded so that the whole polynomial stays close (Brisebarre, Chevillard 2007)."""
    ulps = [mpf(2) ** (mpmath.frexp(c)[1] - MANTISSA[dtype]) for c in ideal]
    n = len(ideal)
    count = 2 * n
    sample = [round(i * (len(grid.x) - 1) / (count - 1)) for i in range(count)]
    scale = mpf(2) ** 160

    def row(i: int, at: list[int]) -> list[int]:
        values = (ulps[i] * grid.x[k] ** i * grid.weight[k] * scale for k in at)
        return [int(mpmath.nint(v)) for v in values]

    # Each row carries its coordinates, too small to count, to read them off the result.
    rows = [row(i, sample) + [int(i == j) for j in range(n)] for i in range(n)]
    target = [
        int(sum(c / u * r[k] for c, u, r in zip(ideal, ulps, rows, strict=True)))
        for k in range(count)
    ]
    basis = _reduced(rows)
    digits = _nearest(basis, target + [0] * n)[count:]
    moves = [r[count:] for r in basis]

    def worst(steps: list[int]) -> Any:
        return grid.remez([], [d * u for d, u in zip(steps, ulps, strict=True)])[1]

    best, improved = worst(digits), True
    while improved:
        improved = False
        for move in moves:
            for sign in (1, -1):
                trial = [d + sign * m for d, m in zip(digits, move, strict=True)]
                error = worst(trial)
                if error < best * mpf("0.9999"):
                    digits, best, improved = trial, error, True
    return [d * u for d, u in zip(digits, ulps, strict=True)]


def taylor_ratio(f: Function, limit: Any) -> Function:
    """`f`, whose formula cancels near 0, in enough digits; `limit` at 0 itself."""

    def safe(x: Any) -> Any:
        if abs(x) < mpf(10) ** -25:
            return mpf(limit)
        with mp.workdps(140):
            return f(mpf(x))

    return safe


LN2 = mpmath.log(2)
#: name -> a number, how many parts it is split into, and bits of all but the last
CONSTANTS: dict[str, tuple[Any, ...]] = {
    "LN2": (LN2, 2),
    "PI": (mp.pi(), 3),
    "LN2_SHORT": (LN2, 2, 42),  # its first part times an exponent is exact in float64
}
#: How often each of these bits of 1 / (2 pi) meets 24 bits of x exactly: 7 parts of 29 bits.
TURN_PARTS = parts(1 / (2 * mp.pi), "float64", 7, 29)


def turn_words(count: int) -> list[int]:
    """64 zero bits, then the bits of 1 / (2 pi) behind the point; as signed words of 64 bits."""
    with mp.workprec(64 * count + 64):
        bits = int(mpmath.floor(mpf(2) ** (64 * (count - 1)) / (2 * mp.pi)))
    words = [bits >> 64 * (count - 1 - i) & (1 << 64) - 1 for i in range(count)]
    return [w - (w >> 63 << 64) for w in words]


#: name -> function of a dtype that gives the coefficients and their error
TABLE: dict[str, Callable[[str], tuple[list[float], float]]] = {}


def entry(function: Callable[[str], tuple[list[float], float]]) -> Any:
    TABLE[function.__name__] = function
    return function


def pick(dtype: str, single: Any, double: Any) -> Any:
    return single if dtype == "float32" else double


@entry
def exp(dtype: str) -> Any:
    """e**r for |r| <= log 2: one factor 2**m on either side makes 2**(2 m)."""
    return fit(mpmath.exp, (-LN2 * 1.0001, LN2 * 1.0001), pick(dtype, 8, 14), dtype, fixed=(1,))


@entry
def exp_narrow(dtype: str) -> Any:
    """e**r for |r| <= log(2) / 2."""
    end = LN2 / 2 * mpf("1.0001")
    return fit(mpmath.exp, (-end, end), pick(dtype, 7, 12), dtype, fixed=(1,))


@entry
def exp2(dtype: str) -> Any:
    """2**r for |r| <= 1."""
    return fit(lambda r: mpf(2) ** r, (-1, 1), pick(dtype, 8, 14), dtype, fixed=(1,))


@entry
def expm1(dtype: str) -> Any:
    """(e**r - 1 - r) / r**2 for |r| <= log(2) / 2."""
    f = taylor_ratio(lambda r: (mpmath.exp(r) - 1 - r) / r**2, 0.5)
    end = LN2 / 2 * mpf("1.0001")
    weight = taylor_ratio(lambda r: r**2 / mpmath.expm1(r), 0)
    return fit(f, (-end, end), pick(dtype, 5, 10), dtype, weight)


@entry
def log(dtype: str) -> Any:
    """float32: (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2).

    float64: (log((1 + s) / (1 - s)) - 2 s) / s**3 as a function of s**2, s = f / (2 + f).
    """
    if dtype == "float32":
        f = taylor_ratio(lambda f: (mpmath.log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3)
        weight = taylor_ratio(lambda f: f**3 / mpmath.log1p(f), 0)
        return fit(f, (mpmath.sqrt(0.5) - 1, mpmath.sqrt(2) - 1), 9, dtype, weight)
    return _atanh(dtype, (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1), 7)


def _atanh(dtype: str, end: Any, terms: int) -> Any:
    def f(z: Any) -> Any:
        s = mpmath.sqrt(z)
        return 2 * (mpmath.atanh(s) - s) / s**3

    weight = taylor_ratio(lambda z: z / (2 * mpmath.atanh(mpmath.sqrt(z)) / mpmath.sqrt(z)), 0)
    return fit(taylor_ratio(f, mpf(2) / 3), (0, end**2), terms, dtype, weight)


@entry
def sin(dtype: str) -> Any:
    """(sin r - r) / r**3 as a function of r**2, |r| <= pi / 2."""
    return odd_fit(mpmath.sin, -mpf(1) / 6, mp.pi / 2 * mpf("1.00005"), pick(dtype, 4, 8), dtype)


def odd_fit(f: Function, slope: Any, end: Any, terms: int, dtype: str) -> Any:
    """An odd function near x + slope * x**3: the rest past x, over x**3, in x**2; |x| <= end."""

    def rest(z: Any) -> Any:
        x = mpmath.sqrt(z)
        return (f(x) / x - 1) / z

    weight = taylor_ratio(lambda z: z * mpmath.sqrt(z) / f(mpmath.sqrt(z)), 0)
    return fit(taylor_ratio(rest, slope), (0, mpf(end) ** 2), terms, dtype, weight)


@entry
def tan(dtype: str) -> Any:
    """(tan x - x) / x**3 as a function of x**2, |x| <= pi / 4."""
    return odd_fit(mpmath.tan, mpf(1) / 3, mp.pi / 4 * mpf("1.0001"), pick(dtype, 7, 15), dtype)


@entry
def tanh(dtype: str) -> Any:
    """(tanh x - x) / x**3 as a function of x**2, |x| <= 0.6."""
    return odd_fit(mpmath.tanh, -mpf(1) / 3, mpf("0.6"), pick(dtype, 5, 11), dtype)


@entry
def sinh(dtype: str) -> Any:
    """(sinh x - x) / x**3 as a function of x**2, |x| <= 1."""
    return odd_fit(mpmath.sinh, mpf(1) / 6, 1, pick(dtype, 4, 7), dtype)


@entry
def asin(dtype: str) -> Any:
    """(asin x - x) / x**3 as a function of x**2, |x| <= 1/2."""
    return odd_fit(mpmath.asin, mpf(1) / 6, mpf(0.5), pick(dtype, 5, 13), dtype)


@entry
def atan(dtype: str) -> Any:
    """(atan x - x) / x**3 as a function of x**2, |x| <= 1 or (float64) 1/2."""
    return odd_fit(mpmath.atan, -mpf(1) / 3, pick(dtype, 1, mpf(0.5)), pick(dtype, 9, 12), dtype)


@entry
def atanh(dtype: str) -> Any:
    """(atanh x - x) / x**3 as a function of x**2, |x| <= 0.36."""
    return odd_fit(mpmath.atanh, mpf(1) / 3, mpf("0.36"), pick(dtype, 5, 11), dtype)


def _erfcx(t: Any, end: Any) -> Any:
    x = 2 * (1 - t) / (1 + t) if t > -1 else mpf(end)
    return mpmath.erfc(x) * mpmath.exp(x * x) * (x + 2)


@entry
def erfcx(dtype: str) -> Any:
    """(x + 2) erfc(x) e**(x**2) as a function of t = 4 / (x + 2) - 1, as far as erfc x > 0.

    For float32, too, it is evaluated in float64.
    """
    end = pick(dtype, mpf("10.1"), mpf("27.3"))
    low = 4 / (end + 2) - 1
    terms = pick(dtype, 12, 26)
    return fit(lambda t: _erfcx(t, end), (low, mpf(1)), terms, "float64")


@entry
def erfcx_slope(dtype: str) -> Any:
    """1 + (1 + t) f'(t) / f(t) for the f of `erfcx`, to some bits: for corrections only."""
    if dtype == "float32":
        return None

    def f(t: Any) -> Any:
        with mp.workdps(40):
            x = 2 * (1 - t) / (1 + t)
            y = mpmath.erfc(x) * mpmath.exp(x * x)
            # by dy/dx = 2 x y - 2 / sqrt(pi), dx/dt = -4 / (1 + t)**2, f = y (x + 2)
            return -(x + 2) * (2 * x * y - 2 / mpmath.sqrt(mp.pi)) / y

    return fit(f, (4 / mpf("29.3") - 1, mpf(1)), 4, dtype, lambda t: mpf(1))


@entry
def log2_of_ratio(dtype: str) -> Any:
    """log2((1 + s) / (1 - s)) / s as a function of s**2, to 38 bits: for pow of float32."""
    if dtype == "float32":
        return None  # evaluated in float64 only

    def f(z: Any) -> Any:
        s = mpmath.sqrt(z)
        return mpmath.log((1 + s) / (1 - s), 2) / s

    end = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)
    return fit(taylor_ratio(f, 2 / LN2), (0, end**2), 5, "float64")


@entry
def exp2_short(dtype: str) -> Any:
    """2**r for |r| <= 1/2, to 29 bits: for pow of float32."""
    if dtype == "float32":
        return None
    return fit(lambda r: mpf(2) ** r, (mpf(-0.5), mpf(0.5)), 7, "float64")


@entry
def log_of_ratio(dtype: str) -> Any:
    """(log((1 + s) / (1 - s)) / (2 s) - 1 - s**2 / 3) / s**4 as a function of s**2, for pow."""
    if dtype == "float32":
        return None

    def f(z: Any) -> Any:
        s = mpmath.sqrt(z)
        return (mpmath.atanh(s) / s - 1 - z / 3) / z**2

    end = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)
    weight = taylor_ratio(lambda z: z**2, 0)
    return fit(taylor_ratio(f, mpf(1) / 5), (0, end**2), 7, dtype, weight)


@entry
def cbrt(dtype: str) -> Any:
    """A start for the cube root of 1 <= m < 2: to 10 or 20 bits."""
    return fit(mpmath.cbrt, (1, 2), pick(dtype, 3, 6), dtype)


@entry
def lgamma(dtype: str) -> Any:
    """lgamma(x) / ((x - 1) (x - 2)) as a function of x - 27/16, 0.75 <= x <= 2.65; in float64."""

    def f(t: Any) -> Any:
        with mp.workdps(90):
            x = t + mpf(27) / 16
            if x in (1, 2):
                return -mpmath.psi(0, 1) if x == 1 else mpmath.psi(0, 2)
            return mpmath.loggamma(x) / ((x - 1) * (x - 2))

    interval = (mpf("-0.9376"), mpf("0.963"))
    return fit(f, interval, pick(dtype, 16, 32), "float64")


@entry
def lgamma_series(dtype: str) -> Any:
    """(lgamma x - (x - 1/2) log x + x - log(2 pi) / 2) x as a function of x**-2, x >= 8."""

    def f(z: Any) -> Any:
        if z < mpf(10) ** -20:
            return mpf(1) / 12 - z / 360
        with mp.workdps(140):
            x = 1 / mpmath.sqrt(z)
            half = mpf(0.5)
            rest = mpmath.loggamma(x) - (x - half) * mpmath.log(x) + x
            return (rest - mpmath.log(2 * mp.pi) / 2) * x

    return fit(f, (0, mpf(1) / 64), pick(dtype, 3, 6), "float64", lambda z: mpf(1))


with mp.workdps(60):
    DIGAMMA_ROOT = mpmath.findroot(lambda x: mpmath.psi(0, x), 1.46163)


@entry
def digamma(dtype: str) -> Any:
    """digamma(x) / (x - its root) as a function of x - 3/2, 1 <= x <= 2; in float64."""

    def f(t: Any) -> Any:
        with mp.workdps(60):
            x = t + mpf(1.5)
            if abs(x - DIGAMMA_ROOT) < mpf(10) ** -20:
                return mpmath.psi(1, DIGAMMA_ROOT)
            return mpmath.psi(0, x) / (x - DIGAMMA_ROOT)

    return fit(f, (mpf(-0.5), mpf(0.5)), pick(dtype, 11, 22), "float64")


@entry
def digamma_series(dtype: str) -> Any:
    """(log x - 1 / (2 x) - digamma x) x**2 as a function of x**-2, x >= 8; in float64."""

    def f(z: Any) -> Any:
        if z < mpf(10) ** -20:
            return mpf(1) / 12 - z / 120
        with mp.workdps(140):
            x = 1 / mpmath.sqrt(z)
            return (mpmath.log(x) - 1 / (2 * x) - mpmath.psi(0, x)) * x * x

    return fit(f, (0, mpf(1) / 64), pick(dtype, 3, 7), "float64", lambda z: mpf(1))


def _bessel(n: int, dtype: str) -> Any:
    def f(t: Any) -> Any:
        with mp.workdps(45):
            x = 4 * (t + 1)
            if x < mpf(10) ** -25:
                return mpf(1) if n == 0 else mpf(0.5)
            return mpmath.exp(-x) * mpmath.besseli(n, x) / x**n

    return fit(f, (-1, 1), pick(dtype, 18, 29), "float64")


def _bessel_tail(n: int, dtype: str) -> Any:
    def f(t: Any) -> Any:
        with mp.workdps(45):
            u = (t + 1) / 16
            if u < mpf(10) ** -9:
                return (1 + u * (mpf(1) / 8 if n == 0 else -mpf(3) / 8)) / mpmath.sqrt(2 * mp.pi)
            return mpmath.exp(-1 / u) * mpmath.besseli(n, 1 / u) / mpmath.sqrt(u)

    return fit(f, (-1, 1), pick(dtype, 7, 24), "float64")


@entry
def bessel_i0e(dtype: str) -> Any:
    """i0(x) e**-x as a function of x / 4 - 1, 0 <= x <= 8; in float64."""
    return _bessel(0, dtype)


@entry
def bessel_i0e_tail(dtype: str) -> Any:
    """i0(x) e**-x sqrt(x) as a function of 16 / x - 1, x >= 8; in float64."""
    return _bessel_tail(0, dtype)


@entry
def bessel_i1e(dtype: str) -> Any:
    """i1(x) e**-x / x as a function of x / 4 - 1, 0 <= x <= 8; in float64."""
    return _bessel(1, dtype)


@entry
def bessel_i1e_tail(dtype: str) -> Any:
    """i1(x) e**-x sqrt(x) as a function of 16 / x - 1, x >= 8; in float64."""
    return _bessel_tail(1, dtype)


@entry
def erf(dtype: str) -> Any:
    """-log(erfc x) / x where erf x < 1, as c + polynomial: erf x = -expm1(-x times it)."""
    slope = 2 / mpmath.sqrt(mp.pi)
    first = rounded(slope, dtype)  # its rounding error would count in full: the next makes it up
    f = taylor_ratio(lambda x: -mpmath.log(mpmath.erfc(x)) / x - first, slope - first)
    weight = taylor_ratio(lambda x: mpmath.erfc(x) * x / mpmath.erf(x), 1 / slope)
    terms = pick(dtype, 9, 24)
    found, error = fit(f, (0, pick(dtype, mpf("3.95"), 6)), terms, dtype, weight)
    return [float(first), *found], error


def main(names: list[str]) -> None:
    lines = [
        '"""Polynomial coefficients, lowest order first; made by tools/math_coefficients.py."""',
        "",
        "# A comment states the weighted (mostly relative) error of the fit, roundings included.",
    ]
    for name, number in CONSTANTS.items():
        if names and name not in names:
            continue
        lines += ["", f"{name} = {{  # an unevaluated sum"]
        for dtype in MANTISSA if len(number) == 2 else ["float64"]:
            text = ", ".join(repr(float(part)) for part in parts(number[0], dtype, *number[1:]))
            lines.append(f'    "{dtype}": ({text}),')
        lines.append("}")
    if not names:
        root = parts(DIGAMMA_ROOT, "float64", 2)
        lines += ["", f"DIGAMMA_ROOT = ({float(root[0])!r}, {float(root[1])!r})"]
    if not names or "TURNS" in names:
        lines += ["", "TURNS = {  # 1 / (2 pi) as an unevaluated sum of numbers of 29 bits"]
        lines += ['    "float64": (', *(f"        {float(p)!r}," for p in TURN_PARTS)]
        lines += ["    ),", "}"]
        lines += ["", "TURN_WORDS = (  # 64 zero bits, then those of 1 / (2 pi) behind the point"]
        lines += [*(f"    {word}," for word in turn_words(20)), ")"]
    for name in [name for name in names if name in TABLE] if names else TABLE:
        lines += ["", f"{name.upper()} = {{"]
        for dtype in MANTISSA:
            found = TABLE[name](dtype)
            if found is None:
                continue
            coefficients, error = found
            lines.append(f'    "{dtype}": (  # {error:.2e} = 2**{math.log2(error):.1f}')
            lines += [f"        {c!r}," for c in coefficients]
            lines.append("    ),")
            print(name, dtype, len(coefficients), f"{error:.2e}", file=sys.stderr, flush=True)
        lines.append("}")
    text = "\n".join(lines) + "\n"
    if names:
        print(text)
    else:
        OUTPUT.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
