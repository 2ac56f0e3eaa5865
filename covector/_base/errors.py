"""The exceptions that Covector raises beside Python's own.

Names and base classes are those of ``jax.errors``, so that ``except`` clauses carry over. The
docstrings are the long form of each message: cause first, then the ways out.
"""

from __future__ import annotations

from typing import Any


def describe_tracer(tracer: Any) -> str:
    """What a user should read in place of a tracer's repr: ``traced array of type f32[3]``."""
    aval = getattr(tracer, "aval", None)
    if aval is None:
        return repr(tracer)
    short = getattr(aval, "str_short", None)
    return f"traced array of type {str(short()).rstrip('*') if callable(short) else aval}"


def tracer_origin(tracer: Any) -> str:
    """Where the tracer comes from, if it can say so (its optional method ``origin_message``)."""
    tell = getattr(tracer, "origin_message", None)
    return str(tell()) if callable(tell) else ""


def ways_out(tracer: Any) -> str:
    """What its user can do, in his own names (the tracer's optional method ``ways_out``)."""
    tell = getattr(tracer, "ways_out", None)
    return str(tell()) if callable(tell) else ""


def compose_message(headline: str, *details: str, advice: str = "", see: str = "") -> str:
    """Joins a headline, optional details, one piece of advice and a pointer into one message."""
    lines = [headline, *(detail for detail in details if detail)]
    if advice:
        lines.append(advice.rstrip())
    if see:
        lines.append(f"More: help(covector.errors.{see})")
    return "\n".join(lines)


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any] | None) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    if state:
        error.__dict__.update(state)
    return error


class _Pickles:
    """Pickles by its finished message: the constructors below take tracers, which do not pickle."""

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.__dict__ or None)  # type: ignore[attr-defined]


class JAXTypeError(_Pickles, TypeError):
    """Base of the ``TypeError`` subclasses below."""

    def __init__(self, message: str):
        super().__init__(message)


class JAXIndexError(_Pickles, IndexError):
    """Base of the ``IndexError`` subclasses below."""

    def __init__(self, message: str):
        super().__init__(message)


class ConcretizationTypeError(JAXTypeError):
    """A concrete value was needed where only a traced one was at hand.

    While a function is being transformed (``jit``, ``vmap``, ``grad``, the body of a loop), its
    arrays are *tracers*: they have a shape and a dtype, but no numbers yet. Whatever Python needs
    a number for (a shape, an axis, the length of ``arange``, a static option) cannot take one.

    Ways out, from the most to the least common:

    * The value is a setting, not data: declare the argument static,
      ``jit(f, static_argnames="n")``, or close over it.
    * It is a shape in disguise: use ``x.shape[0]`` instead of ``len_as_array``; shapes are plain
      integers during tracing.
    * It is needed for a choice between values: ``covector.numpy.where(mask, a, b)`` chooses at run
      time.
    * It depends on constants alone: compute it with ``numpy`` instead of ``covector.numpy``.
    * It has to be looked at from Python: return it, or run under ``covector.disable_jit()``.
    """

    def __init__(self, tracer: Any, context: str = ""):
        super().__init__(
            compose_message(
                f"A concrete value is needed here, but this is a {describe_tracer(tracer)}: it has "
                "no value while the function is traced.",
                context,
                tracer_origin(tracer),
                advice=ways_out(tracer),
                see=type(self).__name__,
            )
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array was used as a Python truth value.

    ``if x > 0:``, ``while err > tol:``, ``assert``, ``and``, ``or``, ``not``, ``x in array`` and
    the three-way ``a < x < b`` all ask an array for one Python ``bool``. Inside a transformed
    function the array has no value yet, so there is no answer.

    Ways out:

    * An element-wise choice: ``covector.numpy.where(x > 0, a, b)``.
    * A choice between computations: do both, and choose between the results with ``where``.
    * A loop that ends on data: ``covector.lax.while_loop``.
    * ``and``, ``or``, ``not`` on arrays: ``&``, ``|``, ``~`` (mind the parentheses).
    * The argument is a flag, not data: make it static (``static_argnames``).
    """

    def __init__(self, tracer: Any):
        JAXTypeError.__init__(
            self,
            compose_message(
                f"The truth value of a {describe_tracer(tracer)} was asked for, and it has none "
                "while the function is traced.",
                tracer_origin(tracer),
                advice="Choose values with numpy.where, computations with lax.cond, loop with "
                "lax.while_loop. " + ways_out(tracer),
                see="TracerBoolConversionError",
            ),
        )


class TracerArrayConversionError(JAXTypeError):
    """A traced array was handed to something that wants a NumPy array.

    ``numpy.sin(x)``, ``numpy.asarray(x)``, a SciPy routine or indexing a NumPy array with a traced
    index all ask for numbers, which a tracer does not have.

    Ways out:

    * Use the function of the same name in ``covector.numpy``.
    * Index a NumPy array with a traced index after ``covector.numpy.asarray(array)``.
    * The argument is a constant, not data: make it static, or close over it.
    """

    def __init__(self, tracer: Any):
        super().__init__(
            compose_message(
                f"A {describe_tracer(tracer)} was asked for its numbers as a NumPy array; it has "
                "none while the function is traced.",
                tracer_origin(tracer),
                advice="Use the covector.numpy function of the same name. " + ways_out(tracer),
                see="TracerArrayConversionError",
            )
        )


class TracerIntegerConversionError(JAXTypeError):
    """A traced array was used as a Python integer.

    ``some_list[i]``, ``range(n)``, ``"ab" * n`` and shapes need a Python ``int``; a tracer has no
    value yet.

    Ways out:

    * Index an array instead of a list: ``covector.numpy.asarray(values)[i]``.
    * Loop with ``covector.lax.fori_loop`` instead of ``range``.
    * The integer is a setting: make it static (``static_argnums``).
    """

    def __init__(self, tracer: Any):
        super().__init__(
            compose_message(
                f"A {describe_tracer(tracer)} was used as a Python integer (__index__); it has no "
                "value while the function is traced.",
                tracer_origin(tracer),
                advice="Index an array rather than a list, loop with lax.fori_loop rather than "
                "range. " + ways_out(tracer),
                see="TracerIntegerConversionError",
            )
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index.

    The shape of ``x[mask]`` depends on how many entries of the mask are true, and shapes must be
    known while a function is traced.

    Ways out:

    * Keep the shape: ``numpy.where(mask, x, 0)``; reductions take ``where=mask``.
    * Assign through a mask: ``x.at[:].set(numpy.where(mask, new, x))``, or ``numpy.where``.
    * Bound the size: ``numpy.nonzero(mask, size=n, fill_value=0)`` and index with that.
    """

    def __init__(self, tracer: Any):
        super().__init__(
            compose_message(
                f"A boolean index must be concrete, because it decides the shape of the result; "
                f"this one is a {describe_tracer(tracer)}.",
                tracer_origin(tracer),
                advice="Use numpy.where(mask, x, fill), or numpy.nonzero(mask, size=n).",
                see="NonConcreteBooleanIndexError",
            )
        )


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after the transformation that made it had ended, or on another thread.

    The usual cause is a *leak*: a traced function stored an intermediate value in a global, an
    attribute, a list or a default argument, and later code picked it up.

    Ways out:

    * Return the value from the function instead of storing it.
    * Find the leak: the message says which line of the traced function made the value, and from
      which arguments.
    """

    def __init__(self, msg: str):
        super().__init__(msg)


class KeyReuseError(JAXTypeError):
    """One random key was consumed twice (looked for under the option ``debug_key_reuse``).

    Two draws with one key are equal or correlated. Every function of ``covector.random`` that
    draws, and ``split``, consumes its key; ``fold_in`` does not. The message names both places.

    Ways out:

    * Make a key for each use: ``key, sub = random.split(key)``.
    * In a loop: split in each round and carry the rest, scan over ``random.split(key, n)``, or
      ``random.fold_in(key, i)``.
    * The same numbers are meant: ``random.clone(key)``.
    """

    def __init__(self, message: str):
        super().__init__(message)


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions that holds for some sizes and fails for others."""


class JaxRuntimeError(RuntimeError):
    """A compiled program failed while it ran, or a device ran out of memory.

    ``RESOURCE_EXHAUSTED`` in the message says the latter. Ways out: smaller batches (``vmap`` with
    ``chunk=``, ``lax.map`` with ``batch_size=``), ``checkpoint``, donated arguments.
    """


class JaxprTypeError(TypeError):
    """A jaxpr breaks a typing rule: it was built wrongly, or rewritten wrongly."""


PUBLIC_ERRORS: tuple[type[Exception], ...] = (
    ConcretizationTypeError,
    InconclusiveDimensionOperation,
    JAXIndexError,
    JAXTypeError,
    JaxRuntimeError,
    JaxprTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

for _error in PUBLIC_ERRORS:
    # Tracebacks and pickles name the public door.
    _error.__module__ = "covector.errors"
