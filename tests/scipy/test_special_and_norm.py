"""Special functions and the normal distribution beside SciPy, in both precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import covector as cv
from covector.scipy import special
from covector.scipy.stats import norm

X = np.linspace(-6, 6, 49)
P = np.concatenate([np.logspace(-30, -1, 40), np.linspace(0.1, 0.999, 30), [0, 1, 0.5]])
POSITIVE = np.linspace(0.1, 8, 30)
CASES: dict[str, tuple[Any, ...]] = {
    "ndtr": (X,), "log_ndtr": (np.concatenate([X, [-12.0, -25.0, -60.0]]),), "ndtri": (P,),
    "entr": (np.array([-1.0, 0.0, 0.3, 2.0]),), "logit": (P[40:70],), "i0": (X,), "i1": (X,),
    "betaln": (POSITIVE, POSITIVE[::-1]),
    "xlogy": (np.array([0.0, 0.0, 2.0]), np.array([0.0, 3, 3])),
    "xlog1py": (np.array([0.0, 0.0, 2.0]), np.array([-1.0, 3, 3])),
    "rel_entr": (np.array([0.0, 1, 2, -1, 1]), np.array([1.0, 2, 1, 1, 0])),
    "kl_div": (np.array([0.0, 1, 2, -1, 1]), np.array([1.0, 2, 1, 1, 0])),
    "expit": (X,), "gammaln": (POSITIVE,), "erfinv": (np.linspace(-0.99, 0.99, 21),),
}  # fmt: skip


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_special(name: str, wide: bool) -> None:
    dtype = np.float64 if wide else np.float32
    args = [a.astype(dtype) for a in CASES[name]]
    with cv.enable_x64(wide):
        found = np.asarray(getattr(special, name)(*args))
    assert found.dtype == dtype
    wanted = getattr(scipy.special, name)(*(a.astype(np.float64) for a in args))
    # The series of log_ndtr has three terms, as the signature that it has says.
    rtol = {"log_ndtr": 1e-7}.get(name, 1e-12) if wide else 2e-5
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-6 if not wide else 1e-13)


@pytest.mark.parametrize("name", norm.__all__)
def test_norm(name: str) -> None:
    x = np.array([0.02, 0.3, 0.6, 0.97])
    with cv.enable_x64(True):
        found = getattr(norm, name)(x, 0.3, 1.7)
    wanted = getattr(scipy.stats.norm, name)(x, 0.3, 1.7)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def test_derivatives() -> None:
    np.testing.assert_allclose(cv.vmap(cv.grad(special.ndtr))(X), norm.pdf(X), rtol=2e-5)
    inner = cv.vmap(cv.grad(special.log_ndtr))(np.array([-60.0, -12.0, -1.0, 2.0], "f"))
    wanted = np.exp(scipy.stats.norm.logpdf([-60, -12, -1, 2]) -
                    scipy.stats.norm.logcdf([-60, -12, -1, 2]))  # fmt: skip
    np.testing.assert_allclose(inner, wanted, rtol=2e-4)
    assert float(cv.grad(lambda x: special.xlogy(x, 0.0))(0.0)) == 0
    with pytest.raises(ValueError, match="from 0 to 30"):
        special.log_ndtr(0.0, series_order=31)


WHOLE = np.array([1, 2, 3, 7])
MATRIX = np.arange(6.0).reshape(2, 3)
OF_ANY_DTYPE: dict[str, tuple[Any, ...]] = {
    "softmax": (MATRIX,), "log_softmax": (MATRIX,), "polygamma": (1, POSITIVE),
    "zeta": (WHOLE + 1, 1), "digamma": (WHOLE,), "gammaln": (WHOLE,), "erf": (WHOLE,),
    "erfc": (WHOLE,), "erfinv": (np.array([0, 1]),), "expit": (WHOLE,), "i0e": (WHOLE,),
    "i1e": (WHOLE,), "xlogy": (np.array([0.0, 1]), np.array([np.nan, 2])),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ANY_DTYPE)
def test_integers_and_defaults(name: str) -> None:
    args = OF_ANY_DTYPE[name]
    found = np.asarray(getattr(special, name)(*args))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, getattr(scipy.special, name)(*args), rtol=2e-5, atol=1e-6)


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="n must be an integer; got float32"):
        special.polygamma(1.5, 2.0)
    with pytest.raises(NotImplementedError, match="give q"):
        special.zeta(2.0)
    with pytest.raises(TypeError, match="positional"):
        special.softmax(MATRIX, 0)  # pyright: ignore[reportCallIssue]
