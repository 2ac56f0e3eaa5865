"""`check`: an error of a program as a value; `checkify` collects it, outside it can only be raised.

A failure is known by its number in a table; 0 is none.  Its arguments (the values in its message)
are arrays beside the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Op, Sample
from covector.ir.text import register_value_class
from covector.ir.values import typeof

#: The effects of a check that must be collected, and of one that may be left out.
CHECK, DEBUG_CHECK = "check", "debug_check"


class JaxRuntimeError(ValueError):
    """What a check that failed raises."""


class CheckError(Exception):
    """A kind of failure; sets of these say what `checkify` looks for."""


class FailedCheckError(CheckError):
    """A `check` of the user whose predicate does not hold."""


class NaNError(CheckError):
    """An operation made a NaN."""


class DivisionByZeroError(CheckError):
    """A division by zero."""


class OOBError(CheckError):
    """An index is out of bounds."""


#: The kinds by name.
KINDS: dict[str, type[CheckError]] = {
    kind.__name__: kind for kind in (FailedCheckError, NaNError, DivisionByZeroError, OOBError)
}


@register_value_class
class Text(NamedTuple):
    """A message without values."""

    text: str

    def __call__(self, values: Sequence[Any]) -> str:
        return self.text


@register_value_class
class Failure(NamedTuple):
    """A place of the program that may fail.

    kind: a key of `KINDS`.  message: of the values of the `arity` arguments, the text.  source:
    the user's line.
    """

    kind: str
    message: Callable[[Sequence[Any]], str]
    arity: int
    source: Any

    def text(self, values: Sequence[Any]) -> str:
        """What is said if it fails with these values."""
        where = "" if self.source is None else f" at {self.source}"
        return f"{self.message(values).rstrip()}{where}"


#: What may fail, by number - 1.
Table = tuple[Failure, ...]


def describe(table: Table, code: int, values: Sequence[Any]) -> CheckError | None:
    """The failure of that number, of which `values` holds the arguments after all others'."""
    if not code:
        return None
    failure = table[code - 1]
    start = sum(f.arity for f in table[: code - 1])
    return KINDS[failure.kind](failure.text(values[start : start + failure.arity]))


class Check(Op):
    """Raises failure number `code` of a table, unless it is 0.

    Arguments: `code`, an int32 array, then the arguments of all failures, each with the axes of
    `code` before its own: the first failure in C order counts.  `debug`: of no effect outside
    `checkify`.
    """

    name = "check"
    multiple_results = True
    table: Table
    debug: bool

    transpose = Absent("not linear")

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """It is neither removed nor moved."""
        return frozenset({DEBUG_CHECK if self.debug else CHECK})

    def result(self, code: ShapedArray, *values: ShapedArray) -> tuple[ShapedArray, ...]:
        """Nothing."""
        if len(values) != sum(f.arity for f in self.table):
            raise TypeError(f"check: the failures' arguments are missing; got {len(values)}")
        return ()

    def numpy(self, code: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
        """Raises what failed."""
        if self.debug or not code.any():
            return []
        at = np.unravel_index(int((code != 0).argmax()), code.shape)
        failed = describe(self.table, int(code[at]), [v[at] for v in values])
        raise JaxRuntimeError(str(failed))

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The check."""
        return self(*primals), []

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """One check of all examples."""
        moved = [ops.pieces.batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True)]
        return self(*moved), []

    def decompose(self, *args: Any) -> list[Any]:
        """Nothing, if it may be left out."""
        self._refuse_staged()
        return []

    def stablehlo(self, writer: Any, *operands: Any) -> list[Any]:
        """Nothing, if it may be left out."""
        self._refuse_staged()
        return []

    def _refuse_staged(self) -> None:
        if not self.debug:
            raise NotImplementedError("a check has no native form: checkify collects it")

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Nothing fails; of the kind that may be left alone."""
        table = (Failure("FailedCheckError", Text("wrong"), 1, None),)
        yield Sample(Check(table, True), (np.int32(0), ShapedArray((2,), "float32")), smooth=False)


def first_failure(code: Any, values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """(code, arguments) of the first failure of an array of codes."""
    shape = typeof(code).shape
    if not shape:
        return code, list(values)
    count = int(np.prod(shape))
    if not count:
        kinds = [typeof(v) for v in values]
        empty = [ops.shape.zeros(ShapedArray(a.shape[len(shape) :], a.dtype)) for a in kinds]
        return ops.shape.full((), 0, np.int32), empty
    flat = ops.shape.reshape(code, (count,))
    failed = ops.pointwise.ne(flat, np.int32(0))
    at = ops.reduce.argmax(failed, 0, np.int32)
    return _row(flat, at), [
        _row(ops.shape.reshape(v, (count, *typeof(v).shape[len(shape) :])), at) for v in values
    ]


def _row(x: Any, at: Any) -> Any:
    shape = typeof(x).shape
    starts = [at, *([np.int32(0)] * (len(shape) - 1))]
    return ops.shape.reshape(ops.slicing.dynamic_slice(x, starts, (1, *shape[1:])), shape[1:])
