"""`covector.Array`, the type to test for and to annotate with: concrete arrays and tracers."""

from __future__ import annotations

import functools
from typing import Any

from covector.runtime import array
from covector.trace.tracer import Tracer


class _ArrayType(type):
    """Makes `isinstance(x, Array)` hold for arrays and for the tracers that stand for them."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (array.Array, Tracer))

    def __subclasscheck__(cls, kind: Any) -> bool:
        return kind is cls or issubclass(kind, (array.Array, Tracer))

    def __getattr__(cls, name: str) -> Any:
        """A method or property of any array: `Array.sum` is a function of one."""
        found = None if name in _NOT_OF_THE_TYPE else getattr(array.Array, name, None)
        if found is None:
            raise AttributeError(f"type object 'Array' has no attribute {name!r}")
        if not callable(found):
            return found

        @functools.wraps(found)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self, name)(*args, **kwargs)

        return method


#: By these others would take the type itself for an array.
_NOT_OF_THE_TYPE = (
    "__array__", "__array_interface__", "__array_priority__", "__array_ufunc__", "__dlpack__",
    "__jax_array__", "aval", "dtype",
)  # fmt: skip


class Array(metaclass=_ArrayType):
    """Any array: a concrete one, or a tracer while a function is traced.

    >>> import covector as cv
    >>> isinstance(cv.numpy.ones(3), cv.Array)
    True
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Array cannot be made directly: use covector.numpy.array or asarray")
