"""Abstract values: what is known of an array before it exists.  Interned: equality is identity."""

from __future__ import annotations

import threading
from typing import Any, Final, final

import numpy as np

from covector import dtypes


@final
class ShapedArray:
    """Shape, dtype, weak type of an array.

    `ShapedArray((3,), 'float32')` twice is one object: compare with `is`.  `weak_type` is True
    for values that began as Python scalars and yield to the dtype of what they meet.
    """

    __slots__ = ("__weakref__", "dtype", "ndim", "shape", "short_text", "size", "weak_type")

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    short_text: str

    def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False) -> ShapedArray:
        key = (shape, dtype, weak_type)
        try:
            found = _interned.get(key)
        except TypeError:  # an unhashable shape, such as a list
            found = None
        return found if found is not None else _intern(shape, dtype, weak_type)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return dtypes.physical_dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array."""
        return self.size * self.itemsize

    def update(self, **changes: Any) -> ShapedArray:
        """This with some of shape, dtype, weak_type changed."""
        fields: dict[str, Any] = {
            "shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type
        }  # fmt: skip
        return ShapedArray(**{**fields, **changes})

    def strong(self) -> ShapedArray:
        """This without a weak type."""
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def str_short(self) -> str:
        """As in a printed Jaxpr: `f32[3,4]`, `i32[]*` if weakly typed."""
        if not self.short_text:  # there is one object of each, printed many times
            dims = ",".join(map(str, self.shape))
            weak = "*" if self.weak_type else ""
            self.short_text = f"{dtypes.short_name(self.dtype)}[{dims}]{weak}"
        return self.short_text

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short().rstrip('*')}{weak})"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)


_interned: Final[dict[Any, ShapedArray]] = {}
_lock = threading.Lock()


def _intern(shape: Any, dtype: Any, weak_type: bool) -> ShapedArray:
    shape = tuple(int(n) for n in shape)
    if not isinstance(dtype, dtypes.ExtendedDType):
        dtype = np.dtype(dtype)
    key = (shape, dtype, bool(weak_type))
    with _lock:
        found = _interned.get(key)
        if found is None:
            found = object.__new__(ShapedArray)
            found.shape, found.dtype, found.weak_type = key
            found.ndim, found.short_text = len(shape), ""
            size = 1
            for n in shape:
                size *= n
            found.size = size
            _interned[key] = found
    return found
