"""Tracers: the values a traced function sees in place of arrays.

A tracer belongs to one trace, an interpreter of operations; once that trace has ended the tracer
is dead, and touching it is an error that says so.  Operators and array methods are installed by
`_wiring`, the same ones as on concrete arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes
from covector._base import errors
from covector._base.source import user_frame
from covector.ir.avals import ShapedArray
from covector.ir.values import typers


class Trace:
    """An interpreter of operations.

    `process(op, args)` gives a meaning to `op` on values of this trace, mostly by binding other
    operations with `parent` current.  `alive` is False once the traced function has returned.
    """

    __slots__ = ("alive", "parent", "what")

    def __init__(self, parent: Any, what: str = "") -> None:
        self.parent, self.alive, self.what = parent, True, what

    def process(self, op: Any, args: Any) -> Any:
        """Interpret `op(*args)`."""
        raise TypeError(f"{type(self).__name__} does not interpret operations")


class Tracer:
    """A traced value: knows its trace and its abstract value."""

    __slots__ = ("__weakref__", "aval", "owner")

    owner: Trace
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether it yields to the dtype of what it meets."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.nbytes

    def origin_message(self) -> str:
        """Where it comes from, for messages."""
        return ""

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    def __bool__(self) -> bool:
        check_alive(self)
        if self.aval.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous: "
                f"got shape {self.aval.shape}; use .any() or .all()"
            )
        raise errors.TracerBoolConversionError(self)

    def __int__(self) -> int:
        check_alive(self)
        raise errors.ConcretizationTypeError(self, "The `int()` function was applied to it.")

    def __float__(self) -> float:
        check_alive(self)
        raise errors.ConcretizationTypeError(self, "The `float()` function was applied to it.")

    def __complex__(self) -> complex:
        check_alive(self)
        raise errors.ConcretizationTypeError(self, "The `complex()` function was applied to it.")

    def __index__(self) -> int:
        check_alive(self)
        raise errors.TracerIntegerConversionError(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        check_alive(self)
        raise errors.TracerArrayConversionError(self)

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    def item(self, *args: Any) -> Any:
        """Not possible while tracing."""
        check_alive(self)
        raise errors.ConcretizationTypeError(self, "The method `.item()` was called on it.")

    def tolist(self) -> Any:
        """Not possible while tracing."""
        check_alive(self)
        raise errors.ConcretizationTypeError(self, "The method `.tolist()` was called on it.")

    def block_until_ready(self) -> Any:
        """Itself: there is nothing to wait for."""
        return self

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec) if spec else repr(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _aval(x: Tracer) -> ShapedArray:
    return x.aval


typers[Tracer] = _aval


def check_alive(tracer: Tracer) -> None:
    """Raise UnexpectedTracerError if the trace of `tracer` has ended."""
    if not tracer.owner.alive:
        raise errors.UnexpectedTracerError(leak_message(tracer))


def leak_message(tracer: Tracer) -> str:
    """What a leaked tracer is, and what to do."""
    frame = user_frame()
    where = f" at {frame}" if frame else ""
    trace = tracer.owner
    return (
        f"Encountered an unexpected tracer: a value of type {tracer.aval.str_short()} was used"
        f"{where} after the {trace.what or 'transformation'} that made it had ended. "
        f"{tracer.origin_message()} "
        "A traced function must return its results; it must not leave them in a global, an "
        "attribute of an outer object or a closure (a side effect). Return the value."
    )


def is_concrete(x: Any) -> bool:
    """Whether `x` holds a value (is not a tracer)."""
    return not isinstance(x, Tracer)


def tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents of arrays of `dtype`: itself, or float0 for integers and booleans."""
    return dtype if dtypes.issubdtype(dtype, np.inexact) else dtypes.float0


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The abstract value of tangents of `aval`."""
    return ShapedArray(aval.shape, tangent_dtype(aval.dtype), aval.weak_type)
