"""Special functions, by SciPy's names: those that are compositions of what `lax` and `nn` have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from covector import lax, nn
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.nn import logsumexp
from covector.numpy.convert import broadcast, operands, promote_inexact

__all__ = [
    "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammaln", "i0", "i0e", "i1",
    "i1e", "kl_div", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr",
    "ndtri", "polygamma", "rel_entr", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

_ROOT_HALF: Final = math.sqrt(0.5)


def _floats(who: str, *args: Any) -> tuple[Any, ...]:
    return promote_inexact(*operands(who, *args))


def digamma(x: Any) -> Any:
    """The derivative of `gammaln`."""
    return lax.digamma(*_floats("digamma", x))


def erf(x: Any) -> Any:
    """The error function.

    >>> from covector.scipy.special import erf
    >>> float(erf(0))
    0.0
    """
    return lax.erf(*_floats("erf", x))


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation."""
    return lax.erfc(*_floats("erfc", x))


def erfinv(x: Any) -> Any:
    """The inverse of `erf`."""
    return lax.erf_inv(*_floats("erfinv", x))


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x)), the inverse of `logit`."""
    return lax.logistic(*_floats("expit", x))


def gammaln(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return lax.lgamma(*_floats("gammaln", x))


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order `n`, an integer, of `digamma`; NaN for negative n.

    >>> from covector.scipy.special import polygamma
    >>> round(float(polygamma(1, 1.0)), 4)
    1.6449
    """
    n, x = operands("polygamma", n, x)
    if cnp.issubdtype(typeof(n).dtype, np.inexact):
        raise ValueError(f"polygamma: n must be an integer; got {typeof(n).dtype}")
    return lax.polygamma(*broadcast("polygamma", *_floats("polygamma", n, x)))


def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function: the sum of (q + k)^-x for k = 0, 1, …

    Riemann's is that of q = 1 (NotImplementedError for None).

    >>> from covector.scipy.special import zeta
    >>> round(float(zeta(2, 1)), 4)
    1.6449
    """
    if q is None:
        raise NotImplementedError("zeta: give q; Riemann's zeta function has q = 1")
    return lax.zeta(*broadcast("zeta", *_floats("zeta", x, q)))


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over `axis`, by default over all axes.

    >>> from covector.scipy.special import softmax
    >>> softmax(cnp.zeros((2, 2))).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return nn.softmax(x, axis)


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """log(softmax(x)) over `axis`, by default over all axes."""
    return nn.log_softmax(x, axis)


def i0e(x: Any) -> Any:
    """exp(-|x|) i0(x)."""
    return lax.bessel_i0e(*_floats("i0e", x))


def i1e(x: Any) -> Any:
    """exp(-|x|) i1(x)."""
    return lax.bessel_i1e(*_floats("i1e", x))


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    (x,) = _floats("i0", x)
    return cnp.exp(cnp.abs(x)) * i0e(x)


def i1(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 1."""
    (x,) = _floats("i1", x)
    return cnp.exp(cnp.abs(x)) * i1e(x)


def betaln(a: Any, b: Any) -> Any:
    """The logarithm of the beta function."""
    a, b = _floats("betaln", a, b)
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the gamma function of `d` dimensions."""
    (a,) = _floats("multigammaln", a)
    terms = [gammaln(a - j / 2) for j in range(d)]
    return sum(terms, cnp.zeros_like(a)) + d * (d - 1) / 4 * math.log(math.pi)


def logit(x: Any) -> Any:
    """log(x / (1 - x)).

    >>> from covector.scipy.special import logit
    >>> float(logit(0.5))
    0.0
    """
    (x,) = _floats("logit", x)
    return cnp.log(x) - cnp.log1p(-x)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), 0 where x is 0 and y a number.

    >>> from covector.scipy.special import xlogy
    >>> float(xlogy(0.0, 0.0))
    0.0
    """
    x, y = _floats("xlogy", x, y)
    zero = (x == 0) & (y == y)
    return cnp.where(zero, cnp.zeros_like(x), x * cnp.log(cnp.where(zero, cnp.ones_like(y), y)))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 where x is 0 and y a number."""
    x, y = _floats("xlog1py", x, y)
    zero = (x == 0) & (y == y)
    return cnp.where(zero, cnp.zeros_like(x), x * cnp.log1p(cnp.where(zero, cnp.ones_like(y), y)))


def entr(x: Any) -> Any:
    """-x log(x), 0 at 0, -inf below."""
    (x,) = _floats("entr", x)
    return cnp.where(x < 0, -cnp.inf, -xlogy(x, cnp.where(x > 0, x, cnp.ones_like(x))))


def rel_entr(p: Any, q: Any) -> Any:
    """p log(p / q), 0 where p is 0 and q is not negative, else inf where they are not positive."""
    p, q = _floats("rel_entr", p, q)
    both, zero = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    one = cnp.ones_like(p)
    value = xlogy(cnp.where(both, p, one), cnp.where(both, p, one) / cnp.where(both, q, one))
    return cnp.where(both, value, cnp.where(zero, cnp.zeros_like(p), cnp.inf))


def kl_div(p: Any, q: Any) -> Any:
    """p log(p / q) - p + q, where both are not negative, else inf."""
    p, q = _floats("kl_div", p, q)
    return rel_entr(p, q) - p + q


def ndtr(x: Any) -> Any:
    """The distribution function of the standard normal distribution.

    >>> from covector.scipy.special import ndtr
    >>> float(ndtr(0.0))
    0.5
    """
    (x,) = _floats("ndtr", x)
    return 0.5 * erfc(-x * _ROOT_HALF)


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The logarithm of `ndtr`, also where that is too small to be a number.

    Far below 0 by the asymptotic series, with `series_order` terms (Abramowitz and Stegun,
    "Handbook of Mathematical Functions", 26.2.12).

    >>> from covector.scipy.special import log_ndtr
    >>> round(float(log_ndtr(-100.0)), 3)
    -5005.524
    """
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr: series_order must be from 0 to 30; got {series_order}")
    (x,) = _floats("log_ndtr", x)
    low = -10.0 if typeof(x).dtype != np.float64 else -20.0
    far = x < low
    z = cnp.where(far, x, low)
    total, term = cnp.ones_like(x), cnp.ones_like(x)
    for n in range(1, series_order + 1):
        term = term * (1 - 2 * n) / (z * z)
        total = total + term
    tail = -0.5 * z * z - cnp.log(-z) - 0.5 * math.log(2 * math.pi) + cnp.log(total)
    near = cnp.where(far, low, x)
    upper = cnp.log1p(-0.5 * erfc(cnp.maximum(near, 0.0) * _ROOT_HALF))
    lower = cnp.log(0.5 * erfc(-cnp.minimum(near, 0.0) * _ROOT_HALF))
    return cnp.where(far, tail, cnp.where(near > 0, upper, lower))


# M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
# Statistics 37 (1988): three ratios of polynomials, highest powers last.
_CENTRE: Final = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_TAIL: Final = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL: Final = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def _ratio(x: Any, pair: Sequence[Sequence[float]]) -> Any:
    values: list[Any] = []
    for coefficients in pair:
        total = cnp.full_like(x, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total * x + c
        values.append(total)
    return values[0] / values[1]


def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`: -inf at 0, inf at 1, NaN outside.

    >>> from covector.scipy.special import ndtri
    >>> round(float(ndtri(0.975)), 3)
    1.96
    """
    (p,) = _floats("ndtri", p)
    q = p - 0.5
    central = cnp.abs(q) <= 0.425
    inner = cnp.where(central, q, 0.0)
    centre = inner * _ratio(0.180625 - inner * inner, _CENTRE)
    tail = cnp.where(q < 0, p, 1 - p)
    inside = ~central & (tail > 0)
    r = cnp.sqrt(-cnp.log(cnp.where(inside, tail, 0.01)))
    size = cnp.where(
        r <= 5, _ratio(cnp.minimum(r, 5.0) - 1.6, _TAIL),
        _ratio(cnp.maximum(r, 5.0) - 5.0, _FAR_TAIL),
    )  # fmt: skip
    size = cnp.where(inside, size, cnp.where(tail == 0, cnp.inf, cnp.nan))
    return cnp.where(central, centre, cnp.where(q < 0, -size, size))
