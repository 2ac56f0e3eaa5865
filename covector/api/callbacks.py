"""Python functions called from inside programs: `pure_callback`, `io_callback`, `debug.print`."""

from __future__ import annotations

import logging
import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, tree
from covector.api.arguments import check_callable, check_values
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.ops.callback import VMAP_METHODS, DebugCallback, IoCallback, PureCallback
from covector.runtime.array import from_numpy

_logger = logging.getLogger("covector.debug")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """`callback(*args, **kwargs)`, a Python function without side effects, inside a program.

    The function gets arrays and must return a tree of arrays like `result_shape_dtypes` (whose
    leaves have a shape and a dtype).  It may be called more or less often than the program says.
    `vmap_method`: what vmap does: 'sequential' calls for each example, 'expand_dims' and
    'broadcast_all' call once, with a leading axis on every argument, of size 1 where it is not
    mapped, or repeated.  It has no derivative; give the function around it a custom rule.  Raises
    ValueError for an unknown method, RuntimeError for results of other types.

    >>> import covector as cv, numpy as np
    >>> shape = cv.ShapeDtypeStruct((2,), np.float32)
    >>> cv.jit(lambda x: cv.pure_callback(lambda x: np.sort(x), shape, x))(
    ...     np.float32([2, 1])).tolist()
    [1.0, 2.0]
    """
    check_callable(callback, "pure_callback")
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"pure_callback: vmap_method must be one of {', '.join(VMAP_METHODS)}; got "
            f"{vmap_method!r}"
        )
    flat = _Flat(callback, result_shape_dtypes, args, kwargs, "pure_callback")
    return flat.bind(PureCallback(flat, flat.avals, vmap_method))


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """`callback(*args, **kwargs)`, a Python function with side effects, inside a program.

    It is called each time the program gets there, in the program's order.  Otherwise as
    `pure_callback`.

    >>> import covector as cv
    >>> from covector.experimental import io_callback
    >>> seen = []
    >>> cv.jit(lambda x: io_callback(lambda x: seen.append(float(x)), None, x))(2.0)
    >>> seen
    [2.0]
    """
    check_callable(callback, "io_callback")
    flat = _Flat(callback, result_shape_dtypes, args, kwargs, "io_callback")
    return flat.bind(IoCallback(flat, flat.avals, bool(ordered)))


def debug_callback(
    callback: Callable[..., None] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls `callback(*args, **kwargs)` with values, each time the program gets there.

    It takes part in no derivative; under vmap it is called for each example.

    >>> import covector as cv
    >>> seen = []
    >>> def f(x):
    ...     cv.debug.callback(lambda x: seen.append(float(x)), x)
    ...     return x * 2
    >>> float(cv.jit(cv.grad(f))(3.0)), seen
    (2.0, [3.0])
    """
    if callback is None:

        def decorated(function: Callable[..., None]) -> Callable[..., None]:
            def call(*args: Any, **kwargs: Any) -> None:
                debug_callback(function, *args, ordered=ordered, **kwargs)

            return call

        return decorated
    check_callable(callback, "debug.callback")
    flat = _Flat(callback, None, args, kwargs, "debug.callback", ignore_result=True)
    flat.bind(DebugCallback(flat, ()))
    return None


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints `fmt.format(*args, **kwargs)` with values, each time the program gets there.

    Raises ValueError or KeyError where fields of `fmt` and arguments do not fit.

    >>> import covector as cv
    >>> @cv.jit
    ... def f(x):
    ...     cv.debug.print("x is {x}, twice that {}", 2 * x, x=x)
    ...     return x
    >>> _ = f(3)
    x is 3, twice that 6
    """
    if fmt is None:
        fmt = " ".join(["{}"] * len(args) + [f"{k}={{{k}}}" for k in kwargs])
    if not skip_format_check:
        _Checker().check(fmt, args, kwargs)
    text = fmt

    def show(*values: Any, **named: Any) -> None:
        line = text.format(*values, **named)
        if _use_logging:
            _logger.info(line)
        else:
            print(line)
            sys.stdout.flush()

    return debug_callback(show, *args, ordered=ordered, **kwargs)


def debug_log(fmt: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """As `print`, to the logger "covector.debug"."""
    return debug_print(fmt, *args, _use_logging=True, **kwargs)


def effects_barrier() -> None:
    """Waits for effects of programs that were started.  They are done when a call returns."""


class _Checker(string.Formatter):
    """Refuses a format whose fields and arguments do not fit, before the program runs."""

    def check(self, fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.vformat(fmt, args, kwargs)

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        unused = [a for k, a in enumerate(args) if k not in used_args]
        unused_names = [k for k in kwargs if k not in used_args]
        if unused or unused_names:
            raise ValueError(
                f"debug.print: the format has no field for {len(unused)} of the values and for the "
                f"names {unused_names}; it is not an f-string, whose fields would be filled while "
                "tracing"
            )

    def format_field(self, value: Any, format_spec: str) -> str:
        """Values are not there yet."""
        return ""


def _given(x: np.ndarray) -> Any:
    """What a program gives a callback, as an array: nobody writes to its memory any more."""
    return from_numpy(x, typeof(x), give=True)


class _Flat:
    """A callback as a function of flat arrays, that gives flat arrays."""

    def __init__(
        self, callback: Any, results: Any, args: Any, kwargs: Any, who: str,
        ignore_result: bool = False,
    ) -> None:  # fmt: skip
        self.callback, self.who, self.ignore_result = callback, who, ignore_result
        leaves, self.in_tree = tree.flatten((args, kwargs))
        self.fixed = {k: x for k, x in enumerate(leaves) if isinstance(x, str)}
        values = [x for x in leaves if not isinstance(x, str)]
        check_values(values, values, f"the arguments of {who}")
        self.leaves = [as_array(x) for x in values]
        wanted, self.out_tree = tree.flatten(results)
        self.avals = tuple(
            ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype)) for x in wanted
        )

    def bind(self, op: Any) -> Any:
        """The results, as a tree."""
        leaves, self.leaves = self.leaves, []  # an operation must not keep arrays alive
        return tree.unflatten(self.out_tree, op(*leaves))

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        leaves: list[Any] = [_given(np.asarray(x)) for x in arrays]
        for k, text in self.fixed.items():  # in order of their places
            leaves.insert(k, text)
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        out = self.callback(*args, **kwargs)
        if self.ignore_result:
            return []
        outs, out_tree = tree.flatten(out)
        if out_tree != self.out_tree:
            raise RuntimeError(
                f"{self.who}: the callback must return the structure {self.out_tree}, as declared; "
                f"it returned {out_tree}"
            )
        return [
            np.asarray(x, a.dtype) if isinstance(x, (bool, int, float, complex)) else np.asarray(x)
            for x, a in zip(outs, self.avals, strict=True)
        ]
