"""Run-time errors from compiled programs: `checkify` gives them as a value beside the results.

>>> import covector as cv
>>> from covector.experimental import checkify
>>> @cv.jit
... @checkify.checkify
... def f(x):
...     checkify.check(x > 0, "x must be positive, it is {x}", x=x)
...     return 1 / x
>>> err, out = f(-2.0)
>>> print(err.get())
x must be positive, it is -2.0 (`check` failed) at ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np

from covector import ops, tree
from covector._base.boundary import api_boundary
from covector._base.named_tuple import NamedTuple
from covector._base.source import user_frame
from covector.api.arguments import Flat, check_callable, name_of
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.ops.check import (
    Check,
    CheckError,
    DivisionByZeroError,
    FailedCheckError,
    Failure,
    JaxRuntimeError,
    NaNError,
    OOBError,
    Table,
    describe,
)
from covector.runtime.array import Array
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import Tracer
from covector.transforms.checkify import evaluate
from covector.tree_util import register_pytree_node

ErrorCategory = type[CheckError]

#: Checks of the user, by `check`.
user_checks = frozenset({FailedCheckError})
#: Operations that make a NaN.
nan_checks = frozenset({NaNError})
#: Divisions by zero.
div_checks = frozenset({DivisionByZeroError})
#: Indices out of bounds.
index_checks = frozenset({OOBError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


@final
class Error:
    """What `checkify` gives beside the results: the first failure, or none.  It is a pytree.

    Of a function that is vmapped outside of `checkify` it holds a failure, or none, for each
    example.
    """

    __slots__ = ("_code", "_table", "_values")

    def __init__(self, code: Any, values: Any = (), table: Table = ()) -> None:
        self._code, self._values, self._table = code, tuple(values), table

    def get(self) -> str | None:
        """The message, or None if nothing failed."""
        failed = self.get_exception()
        return None if failed is None else str(failed)

    def get_exception(self) -> Exception | None:
        """The failure, as an exception of its kind; None if nothing failed."""
        if isinstance(self._code, Tracer):
            raise ValueError(
                "Error.get: the error is traced, so that it is not known whether there is one. "
                "Return it from the transformed function, or raise it inside with check_error"
            )
        codes = np.asarray(self._code)
        values = [as_array(v) for v in self._values]
        if not codes.ndim:
            return describe(self._table, int(codes), values)
        found: list[CheckError] = []
        for at in zip(*np.nonzero(codes), strict=True):
            one = describe(self._table, int(codes[at]), [v[at] for v in values])
            which = ",".join(map(str, at))
            found.append(type(one)(f"at mapped index {which}: {one}"))  # type: ignore[arg-type]
        if not found:
            return None
        return found[0] if len(found) == 1 else type(found[0])("\n".join(map(str, found)))

    def throw(self) -> None:
        """Raises JaxRuntimeError, with the message, if something failed.

        Inside a transformed function it is `check_error`.
        """
        check_error(self)

    def __repr__(self) -> str:
        if isinstance(self._code, Tracer):
            return f"Error({self._code!r})"
        return f"Error({self.get()})"


def _flatten(error: Error) -> tuple[tuple[Any, ...], Table]:
    return (error._code, *error._values), error._table


def _unflatten(table: Table, leaves: Any) -> Error:
    code, *values = leaves
    return Error(code, values, table)


register_pytree_node(Error, _flatten, _unflatten)

#: No error.
init_error = Error(np.int32(0))


class _Message(NamedTuple):
    """The text of a user's check, of its arguments."""

    text: str
    arguments: Any

    def __call__(self, values: Any) -> str:
        args, kwargs = tree.unflatten(self.arguments, values)
        return f"{self.text.format(*args, **kwargs)} (`check` failed)"


@api_boundary
def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """`f`, giving (error, result): the first thing that failed in it, of the kinds `errors`.

    Unlike an exception of Python's the error is a value, so that `f` may be, and hold, anything
    that is transformed: jit, grad, vmap, scan, while_loop, cond.  `f` goes on after a failure; its
    result then means nothing.  `errors`: `user_checks` (calls of `check`), `nan_checks`,
    `div_checks`, `index_checks`, or unions of these: `float_checks`, `automatic_checks`,
    `all_checks`.  Raises TypeError if `f` cannot be called.

    >>> import covector as cv
    >>> from covector.experimental import checkify
    >>> f = checkify.checkify(lambda x, i: x[i], errors=checkify.index_checks)
    >>> err, _ = cv.jit(f)(cv.numpy.arange(3), 5)
    >>> print(err.get())
    out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with ...
    >>> err, out = f(cv.numpy.arange(3), 2)
    >>> err.get() is None, int(out)
    (True, 2)
    """
    check_callable(f, "checkify")
    kinds = frozenset(errors)

    @functools.wraps(f)
    @api_boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, in_tree = tree.flatten((args, kwargs))
        flat = Flat(f, in_tree)
        closed = trace_to_jaxpr(flat, [typeof(x) for x in leaves], name_of(f))
        state, outs = evaluate(closed, leaves, kinds)
        code = np.int32(0) if state.code is None else state.code
        code, *found = [x if isinstance(x, Tracer) else as_array(x) for x in (code, *outs)]
        error = Error(code, state.values, tuple(state.table))
        return error, tree.unflatten(flat.out_tree, found)

    return checked


@api_boundary
def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Fails with the message `msg.format(*fmt_args, **fmt_kwargs)` unless `pred` holds.

    `pred` is a boolean scalar; the arguments are pytrees of arrays.  Inside a function transformed
    by `checkify` the failure becomes its error; elsewhere JaxRuntimeError is raised at once, and
    ValueError inside of `jit` or a loop, since these cannot raise.  Raises TypeError for a `pred`
    or arguments that are something else.

    >>> from covector.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x != 0, "x must not be {}", x)
    ...     return 1 / x
    >>> err, _ = checkify.checkify(f)(0.0)
    >>> print(err.get())
    x must not be 0.0 (`check` failed) at ...
    """
    who = "debug_check" if debug else "check"
    if not _is_predicate(pred):
        raise TypeError(f"{who} takes a scalar pred as argument, got {pred}")
    leaves, arguments = tree.flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not isinstance(x, (Array, Tracer, np.ndarray, np.generic)):
            raise TypeError(
                f"Formatting arguments to checkify.{who} need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}."
            )
    failure = Failure(
        FailedCheckError.__name__, _Message(msg, arguments), len(leaves), user_frame()
    )
    code = ops.cast.convert_element_type(ops.pointwise.not_(pred), np.dtype(np.int32), False)
    Check((failure,), debug)(code, *leaves)


def _is_predicate(x: Any) -> bool:
    if type(x) is bool:
        return True
    if not isinstance(x, (Array, Tracer, np.ndarray, np.generic)):
        return False
    aval = typeof(x)
    return not aval.shape and aval.dtype == np.dtype(bool)


@api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """As `check`, and does nothing outside of `checkify`.

    >>> import covector as cv
    >>> from covector.experimental import checkify
    >>> @cv.jit
    ... def f(x):
    ...     checkify.debug_check(x > 0, "x must be positive")
    ...     return x + 1
    >>> float(f(-1.0))
    0.0
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


@api_boundary
def check_error(error: Error) -> None:
    """Fails if `error` holds a failure: a `check` with its message.

    Raises JaxRuntimeError at once, or becomes the error of the `checkify` around it.

    >>> from covector.experimental import checkify
    >>> def f(x):
    ...     err, out = checkify.checkify(lambda x: 1 / x, errors=checkify.div_checks)(x)
    ...     checkify.check_error(err)
    ...     return out
    >>> err, _ = checkify.checkify(f, errors=checkify.div_checks)(0.0)
    >>> print(err.get())
    division by zero at ...
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    if error._table:
        Check(error._table, False)(error._code, *error._values)


__all__ = [
    "DivisionByZeroError",
    "Error",
    "ErrorCategory",
    "FailedCheckError",
    "JaxRuntimeError",
    "NaNError",
    "OOBError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
