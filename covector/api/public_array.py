"""`covector.Array`, the type to test for and to annotate with: concrete arrays and tracers."""

from __future__ import annotations

from typing import Any

from covector.runtime import array
from covector.trace.tracer import Tracer


class _ArrayType(type):
    """Makes `isinstance(x, Array)` hold for arrays and for the tracers that stand for them."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (array.Array, Tracer))

    def __subclasscheck__(cls, kind: Any) -> bool:
        return kind is cls or issubclass(kind, (array.Array, Tracer))


class Array(metaclass=_ArrayType):
    """Any array: a concrete one, or a tracer while a function is traced.

    >>> import covector as cv
    >>> isinstance(cv.numpy.ones(3), cv.Array)
    True
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Array cannot be made directly: use covector.numpy.array or asarray")
