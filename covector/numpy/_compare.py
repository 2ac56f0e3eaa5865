"""Whether whole arrays are equal or close."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import ops
from covector.api.arrays import as_array
from covector.numpy import _reductions, convert
from covector.numpy._creation import asarray
from covector.numpy._numbers import isclose
from covector.numpy.convert import is_kind, promote

point = ops.pointwise


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close; see `isclose`.

    >>> import covector.numpy as cnp
    >>> cnp.allclose(cnp.ones(2), 1.0).tolist()
    True
    """
    return _reductions.all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether both have one shape and equal elements (NaN equal to NaN if `equal_nan`).

    >>> import covector.numpy as cnp
    >>> cnp.array_equal(cnp.ones(2), cnp.ones(3)).tolist()
    False
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return as_array(np.bool_(False))
    x, y = promote(a1, a2)
    same = point.eq(x, y)
    if equal_nan and is_kind(x, np.inexact):
        same = point.or_(same, point.and_(point.ne(x, x), point.ne(y, y)))
    return _reductions.all(same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether both can be broadcast to one shape and are equal then.

    >>> import covector.numpy as cnp
    >>> cnp.array_equiv(cnp.ones(2), 1.0).tolist()
    True
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        x, y = convert.broadcast_all("array_equiv", *promote(a1, a2))
    except ValueError:
        return as_array(np.bool_(False))
    return _reductions.all(point.eq(x, y))
