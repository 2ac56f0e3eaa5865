"""Types for annotations: what functions take as an array or as a dtype."""

from __future__ import annotations

from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from covector.api.public_array import Array


@runtime_checkable
class SupportsDType(Protocol):
    """Has a `dtype`."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""
        ...


#: An array of this library or NumPy's, or a scalar; while tracing, a tracer stands for an array.
ArrayLike = Union[  # noqa: UP007  (a union that `isinstance` and older tools accept alike)
    Array, np.ndarray, np.bool_, np.number, bool, int, float, complex
]
#: What names a dtype.
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007

__all__ = ["ArrayLike", "DTypeLike"]
