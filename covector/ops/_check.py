"""Checks shared by `result` rules: refuse wrong arguments, naming operation, argument, values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray

#: `np.where` for rules, whose arguments are of type Any: NumPy's overloads say nothing of those.
np_where: Any = np.where

#: Letters for kinds of dtypes, as rules state what they accept.
KINDS = {
    "b": "bool",
    "i": "signed integer",
    "u": "unsigned integer",
    "f": "floating point",
    "c": "complex",
    "k": "PRNG key",
}


def kind(dtype: Any) -> str:
    """The letter of KINDS for `dtype`."""
    found = _kinds.get(dtype)
    if found is None:
        found = _kinds[dtype] = dtypes.kind_of(dtypes.as_dtype(dtype))
    return found


_kinds: dict[Any, str] = {}


def is_narrow(dtype: Any) -> bool:
    """Whether `dtype` (or its name) is a float whose sums are accumulated in float32."""
    dtype = dtypes.as_dtype(dtype)
    return kind(dtype) == "f" and dtype.itemsize < 4


def accumulator(dtype: Any) -> Any:
    """The dtype in which elements of `dtype` are summed: wider where they have few bits."""
    if is_narrow(dtype):
        return np.dtype(np.float32)
    few = dtype.kind == "V" and kind(dtype) in "iu"  # those that NumPy doesn't know
    return np.dtype(np.int32) if few else dtype


def describe(accepts: str) -> str:
    """'floating point or complex' for 'fc'."""
    return " or ".join(KINDS[letter] for letter in accepts)


def check_kind(op: str, argument: int | str, aval: ShapedArray, accepts: str) -> None:
    """Refuse a dtype that is not one of the kinds `accepts`."""
    if kind(aval.dtype) not in accepts:
        raise TypeError(
            f"{op}: argument {argument} must have a {describe(accepts)} dtype; "
            f"got {aval.str_short()}"
        )


def check_count(op: str, given: Sequence[Any], wanted: int) -> None:
    """Refuse a wrong number of arguments."""
    if len(given) != wanted:
        raise TypeError(f"{op} takes {wanted} arguments; got {len(given)}")


def same_dtype(op: str, avals: Sequence[ShapedArray]) -> Any:
    """The one dtype of `avals`."""
    first = avals[0].dtype
    for aval in avals:
        if aval.dtype != first:
            raise TypeError(
                f"{op} requires arguments to have equal dtypes, got "
                f"{', '.join(str(a.dtype) for a in avals)}. Convert one of them with "
                f"convert_element_type or .astype."
            )
    return first


def same_shape(op: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The one shape of `avals`, of which those of rank 0 are broadcast."""
    shape: tuple[int, ...] = ()
    for aval in avals:
        if aval.shape:
            if shape and aval.shape != shape:
                raise TypeError(
                    f"{op}: arguments have incompatible shapes "
                    f"{', '.join(str(a.shape) for a in avals)}: wanted equal shapes or scalars"
                )
            shape = aval.shape
    return shape


def check_axes(op: str, axes: Sequence[int], ndim: int, what: str = "axes") -> None:
    """Refuse axes that are out of range or repeated (negative ones included)."""
    if any(not 0 <= a < ndim for a in axes):
        raise ValueError(f"{op}: {what}={tuple(axes)} out of range for an array of rank {ndim}")
    if len(set(axes)) != len(axes):
        raise ValueError(f"{op}: {what}={tuple(axes)} has repeated entries")
