"""The normal distribution, of mean `loc` and standard deviation `scale`."""

from __future__ import annotations

import math
from typing import Any

from covector import numpy as cnp
from covector.numpy.convert import operands, promote_inexact
from covector.scipy import special

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _standard(who: str, x: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    """(x in standard deviations from the mean, the scale)."""
    x, loc, scale = promote_inexact(*operands(who, x, loc, scale))
    return (x - loc) / scale, scale


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at `x`.

    >>> from covector.scipy.stats import norm
    >>> round(float(norm.logpdf(0.0)), 4)
    -0.9189
    """
    z, scale = _standard("norm.logpdf", x, loc, scale)
    return -0.5 * (z * z + math.log(2 * math.pi)) - cnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at `x`."""
    return cnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to `x`."""
    return special.ndtr(_standard("norm.cdf", x, loc, scale)[0])


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Its logarithm, also where it is too small to be a number."""
    return special.log_ndtr(_standard("norm.logcdf", x, loc, scale)[0])


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above `x`."""
    return special.ndtr(-_standard("norm.sf", x, loc, scale)[0])


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Its logarithm, also where it is too small to be a number."""
    return special.log_ndtr(-_standard("norm.logsf", x, loc, scale)[0])


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value that is not exceeded with probability `q`; NaN where that is none."""
    q, loc, scale = promote_inexact(*operands("norm.ppf", q, loc, scale))
    return special.ndtri(q) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value that is exceeded with probability `q`."""
    q, loc, scale = promote_inexact(*operands("norm.isf", q, loc, scale))
    return loc - special.ndtri(q) * scale
