"""Tracers: the values a traced function sees in place of arrays.

A tracer belongs to one trace, an interpreter of operations; once that trace has ended the tracer
is dead, and touching it is an error that says so.  Operators and array methods are installed by
`_wiring`, the same ones as on concrete arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from covector import dtypes
from covector import trace as tracing
from covector._base import errors
from covector._base.context import context
from covector._base.source import user_frame
from covector.ir.avals import ShapedArray
from covector.ir.values import typers


class Trace:
    """An interpreter of operations.

    `process(op, args)` gives a meaning to `op` on values of this trace, mostly by binding other
    operations with `parent` current.  `alive` is False once the traced function has returned.
    `axes`: the named axes in force, outermost first, as pairs (name, size).  `region`: the scope
    that knows which values are the same on all devices (`parallel.region`), if one is in force.
    `fun`: the traced function, for messages; it may have a `name`, and a `label(k)` that says what
    its k-th flat argument is called.
    """

    __slots__ = ("alive", "axes", "fun", "parent", "region", "what")

    def __init__(self, parent: Any, what: str = "", fun: Any = None) -> None:
        self.parent, self.alive, self.what, self.fun = parent, True, what, fun
        self.axes: tuple[tuple[Any, int], ...] = () if parent is None else parent.axes
        self.region: Any = None if parent is None else parent.region

    def __str__(self) -> str:
        """What it is, for messages: ``derivative of f``."""
        name = getattr(self.fun, "name", "")
        return f"{self.what or 'transformation'} of {name}" if name else self.what

    def process(self, op: Any, args: Any) -> Any:
        """Interpret `op(*args)`."""
        raise TypeError(f"{type(self).__name__} does not interpret operations")


class AxisScope(Trace):
    """Names axes for what is traced above it; operations mean what they mean in the parent."""

    __slots__ = ()

    def __init__(self, parent: Any, axes: Iterable[tuple[Any, int]]) -> None:
        super().__init__(parent, "named axes")
        self.axes, self.region = (*self.axes, *axes), None

    def process(self, op: Any, args: Any) -> Any:
        """The parent's meaning."""
        context.trace = self.parent
        try:
            return op(*args)
        finally:
            context.trace = self


#: How many arguments a message names.
_NAMED: Final = 4
#: What an array has and a tracer cannot, since it holds no memory.
OF_BUFFERS: Final = frozenset(
    ["addressable_shards", "devices", "tobytes", "unsafe_buffer_pointer", "addressable_data",
     "global_shards", "on_device_size_in_bytes"]
)  # fmt: skip


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

    def ways_out(self) -> str:
        """What its user can do instead of asking for its value, for messages."""
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
        try:
            return format(repr(self), spec)
        except ValueError:  # a format of numbers
            self._refuse(f"format {spec!r}")
            raise

    def __reduce__(self) -> Any:
        self._refuse("function pickle.dumps")

    def __getattr__(self, name: str) -> Any:
        if name in OF_BUFFERS:
            self._refuse(f"attribute `.{name}`")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _refuse(self, what: str) -> NoReturn:
        check_alive(self)
        raise errors.ConcretizationTypeError(self, f"The {what} was used on it.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


typers[Tracer] = operator.attrgetter("aval")


class Argument:
    """An argument of a traced function; what it is called is looked up when somebody asks."""

    __slots__ = ("fun", "inputs", "number")

    def __init__(self, fun: Any, number: int) -> None:
        self.fun, self.number, self.inputs = fun, number, 1 << number

    def __str__(self) -> str:
        label = getattr(self.fun, "label", None)
        return str(label(self.number)) if callable(label) else ""


class Made:
    """How a value came about: the user's line, and which of its trace's arguments are in it."""

    __slots__ = ("inputs", "source")

    def __init__(self, source: Any, inputs: int) -> None:
        self.source, self.inputs = source, inputs


def made_of(args: Iterable[Any], trace: Trace) -> Made:
    """Of what is made now from these values, some of them tracers of `trace`.

    To be called by its `process`, or one call further down: who called that is no user.
    """
    inputs = 0
    for x in args:
        if isinstance(x, Tracer) and x.owner is trace:
            how: Any = getattr(x, "made", None)
            if how is not None:
                inputs |= how.inputs
    return Made(context.source or user_frame(4), inputs)


def told(how: Made | Argument | None, trace: Trace) -> str:
    """`how` as a sentence; empty if nothing is known."""
    if isinstance(how, Argument):
        label = str(how)
        return f"It is {label}." if label else ""
    if how is None:
        return ""
    numbers = [n for n in range(how.inputs.bit_length()) if how.inputs >> n & 1]
    return computed(how.source, [Argument(trace.fun, n) for n in numbers])


def computed(source: Any, arguments: Sequence[Any]) -> str:
    """That a value was computed at a line, from so many arguments."""
    names = [name for name in map(str, arguments[:_NAMED]) if name]
    if len(arguments) > _NAMED:
        names.append(f"{len(arguments) - _NAMED} others")
    if source is None and not names:
        return ""
    where = "" if source is None else f" at {source}"
    return f"It was computed{where}{' from ' if names else ''}{', '.join(names)}."


def check_alive(tracer: Tracer) -> None:
    """Raise UnexpectedTracerError if the trace of `tracer` has ended."""
    if not tracer.owner.alive:
        raise errors.UnexpectedTracerError(leak_message(tracer))


def check_not_inside(tracer: Tracer, trace: Trace) -> None:
    """Raise UnexpectedTracerError if the trace of `tracer` runs above `trace`."""
    below = tracer.owner.parent
    while below is not None:
        if below is trace:
            raise errors.UnexpectedTracerError(leak_message(tracer))
        below = below.parent


def leak_message(tracer: Tracer) -> str:
    """What a leaked tracer is, and what to do."""
    if tracer.owner.alive:
        return (
            f"Encountered an unexpected tracer: a value of type {tracer.aval.str_short()} that a "
            f"{tracer.owner} follows was used outside of it. Detected "
            "differentiation of a custom_jvp or custom_vjp function with respect to a closed-over "
            "value: the function, or its rule, closes over a value that is being differentiated. "
            "The rule says only how to differentiate with respect to the arguments: pass the "
            "value as an argument, and adapt the rule"
        )
    frame = user_frame()
    where = f" at {frame}" if frame else ""
    kept = tracing.purity_leaks.kept_in(tracer)
    return (
        f"Encountered an unexpected tracer: a value of type {tracer.aval.str_short()} was used"
        f"{where} after the {tracer.owner} that made it had ended. "
        f"{' '.join(filter(None, (tracer.origin_message(), kept)))} "
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
