"""The operators and methods that the wiring installs on arrays and tracers.

What they call is loaded with the first call.  Binary operators return NotImplemented for foreign
operands, so that Python asks the other side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, final

import numpy as np

from covector import dtypes, ops
from covector import numpy as cnp
from covector.runtime import array as arrays
from covector.runtime.array import Array
from covector.trace.tracer import Tracer

#: Editions of the array API standard (data-apis.org) that the functions follow.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
_OPERANDS = (Array, Tracer, np.ndarray, np.generic, bool, int, float, complex)


@final
class Later:
    """A method or property of classes that is found when first wanted, and then takes its place."""

    __slots__ = ("find", "name")

    def __init__(self, name: str, find: Callable[[], Any]) -> None:
        self.name, self.find = name, find

    def __get__(self, x: Any, cls: type) -> Any:
        found = self.find()
        for kind in cls.__mro__:
            if vars(kind).get(self.name) is self:
                setattr(kind, self.name, found)
        return found.__get__(x, cls)


def _named(function: str) -> Callable[[], Any]:
    """What gives this function of the room, without its learning: operators learn themselves."""
    find = attrgetter(function)

    def plain() -> Any:
        found = find(cnp)
        return getattr(found, "__wrapped__", found)

    return plain


def _forward(function: str, name: str) -> Any:
    find = _named(function)

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, _OPERANDS):
            return find()(self, other)
        if hasattr(other, "__jax_array__"):
            return find()(self, other.__jax_array__())
        return NotImplemented

    operator.__name__ = operator.__qualname__ = name
    return operator


def _reflected(function: str, name: str) -> Any:
    find = _named(function)

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, _OPERANDS):
            return find()(other, self)
        if hasattr(other, "__jax_array__"):
            return find()(other.__jax_array__(), self)
        return NotImplemented

    operator.__name__ = operator.__qualname__ = name
    return operator


def _unary(function: str, name: str) -> Any:
    find = _named(function)

    def operator(self: Any) -> Any:
        return find()(self)

    operator.__name__ = operator.__qualname__ = name
    return operator


_ARITHMETIC = {
    "add": "_elementwise.add",
    "sub": "_elementwise.subtract",
    "mul": "_elementwise.multiply",
    "truediv": "_elementwise.divide",
    "floordiv": "_arithmetic.floor_divide",
    "mod": "_arithmetic.remainder",
    "divmod": "_arithmetic.divmod",
    "pow": "_arithmetic.power",
    "matmul": "_products.matmul",
    "and": "_elementwise.bitwise_and",
    "or": "_elementwise.bitwise_or",
    "xor": "_elementwise.bitwise_xor",
    "lshift": "_elementwise.left_shift",
    "rshift": "_elementwise.right_shift",
}
_COMPARISONS = {
    "eq": "_elementwise.equal",
    "ne": "_elementwise.not_equal",
    "lt": "_elementwise.less",
    "le": "_elementwise.less_equal",
    "gt": "_elementwise.greater",
    "ge": "_elementwise.greater_equal",
}
_UNARY = {
    "neg": "_elementwise.negative",
    "pos": "_elementwise.positive",
    "abs": "_elementwise.abs",
    "invert": "_elementwise.bitwise_not",
}
#: Methods that are functions of the room under the same name.
_FUNCTIONS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "conj", "conjugate",
    "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp",
    "ravel", "repeat", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes",
    "take", "trace", "var",
)  # fmt: skip


def _equality(function: str, name: str) -> Any:
    compare = _forward(function, name)

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, (list, tuple, set, dict)):
            # Python would say False; who compares with a list means its elements.
            raise TypeError(
                f"unsupported operand types for ==: an array and {type(other).__name__}; convert "
                "it with array(...) first"
            )
        return compare(self, other)

    operator.__name__ = operator.__qualname__ = name
    return operator


def _getitem(self: Any, item: Any) -> Any:
    return cnp._indexing.getitem(self, item)


def _setitem(self: Any, i: Any, x: Any) -> None:
    raise TypeError(
        "arrays are immutable and do not support item assignment. Instead of `x[idx] = y`, use "
        "`x = x.at[idx].set(y)` or another method of x.at."
    )


def _iter(self: Any) -> Any:
    if not self.ndim:
        raise TypeError("iteration over a 0-d array")
    return iter(_rows(self))


def _reversed(self: Any) -> Any:
    return iter(_rows(self)[::-1])


def _rows(x: Any) -> list[Any]:
    """The slices along the first axis; of a concrete array without an operation."""
    if isinstance(x, Tracer):
        return list(ops.shape.unstack(x))
    aval = x.aval.update(shape=x.shape[1:])
    return [arrays.wrap(aval, arrays.copy_in(row)) for row in arrays.host(x)]


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on a device or in a sharding."""
    if stream is not None:
        raise NotImplementedError("to_device: the argument `stream` is not supported")
    return cnp.convert.placed(self, device)


def _contains(self: Any, other: Any) -> Any:
    if self.ndim != 1:
        raise ValueError(
            f"`in` asks a 1-d array for an element; got shape {self.shape}: use any(x == y)"
        )
    return cnp.any(cnp.equal(self, other))


def _array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module of functions for this array (the Python array API standard)."""
    if api_version is not None and api_version not in API_VERSIONS:
        raise ValueError(
            f"api_version={api_version!r} is not available; wanted one of {API_VERSIONS}"
        )
    return sys.modules["covector.numpy"]


def _round(self: Any, ndigits: int | None = None) -> Any:
    out = cnp.round(self, ndigits or 0)
    # Without a number of digits Python's round gives an integer.
    if ndigits is None and cnp.convert.is_kind(self, np.floating):
        return cnp.convert.strong(out, dtypes.default_int())
    return out


# Methods whose arguments differ from those of the function of the same name.


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype."""
    return cnp.astype(self, dtype, copy=copy, device=device)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """The elements within [min, max]."""
    return cnp.clip(self, min, max)


def _copy(self: Any) -> Any:
    """A copy of the array."""
    return cnp.array(self, copy=True)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as one axis."""
    return cnp.ravel(self, order, out_sharding=out_sharding)


def _reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """The same elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    shape = args[0] if len(args) == 1 else args
    return cnp.convert.placed(cnp._shape.reshaped(self, shape, order), None, out_sharding)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes reversed, or in the given order: `x.transpose(1, 0)`, `x.transpose((1, 0))`."""
    if not args or args == (None,):
        return cnp.transpose(self)
    axes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    return cnp.transpose(self, axes)


def _compress(
    self: Any,
    condition: Any,
    axis: int | None = None,
    *,
    out: Any = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """The slices along `axis` where the condition holds."""
    return cnp.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def _view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """The same bits as another dtype; the last axis grows or shrinks if the widths differ."""
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    wanted = dtypes.default_float() if dtype is None else cnp.convert.user_dtype(dtype, "view")
    x = cnp.convert.strong(self, self.dtype)
    if x.dtype == wanted:
        return x
    if x.dtype == np.bool_:
        x = cnp.convert.cast(x, np.dtype(np.uint8))
    if wanted == np.bool_:
        return cnp.not_equal(_view(x, np.uint8), 0)
    if cnp.convert.is_kind(x, np.complexfloating) or cnp.convert.is_kind(
        wanted, np.complexfloating
    ):
        return _complex_view(x, wanted)
    return _bit_view(x, wanted)


def _bit_view(x: Any, wanted: Any) -> Any:
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(wanted)
    if old == new:
        return ops.cast.bitcast_convert_type(x, wanted)
    if not x.ndim:
        raise ValueError("view: an array of rank 0 cannot change the width of its element")
    if old > new:
        out = ops.cast.bitcast_convert_type(x, wanted)
        return ops.shape.reshape(out, (*x.shape[:-1], x.shape[-1] * (old // new)))
    if x.shape[-1] * old % new:
        raise ValueError(
            f"view: the last axis, of {x.shape[-1] * old} bits, is not a multiple of the {new} "
            f"bits of {wanted}"
        )
    pieces = ops.shape.reshape(x, (*x.shape[:-1], x.shape[-1] * old // new, new // old))
    return ops.cast.bitcast_convert_type(pieces, wanted)


def _complex_view(x: Any, wanted: Any) -> Any:
    """Complex numbers are pairs of (real part, imaginary part)."""
    if cnp.convert.is_kind(x, np.complexfloating):
        point = ops.pointwise
        pairs = ops.shape.stack([point.real(x), point.imag(x)], x.ndim)
        flat = ops.shape.reshape(pairs, (*x.shape[:-1], 2 * x.shape[-1] if x.ndim else 2))
        return _view(flat, wanted)
    parts = _view(x, dtypes.to_real_dtype(wanted))
    halves = [cnp._indexing.getitem(parts, (..., slice(k, None, 2))) for k in (0, 1)]
    return ops.pointwise.complex_(*halves)


def _byteswap(self: Any) -> Any:
    """The bytes of every element in reverse order."""
    x = self
    if x.dtype.itemsize == 1:
        return _copy(x)
    parts = ops.cast.bitcast_convert_type(_real_bits(x), np.dtype(np.uint8))
    swapped = ops.shape.rev(parts, (parts.ndim - 1,))
    bits = ops.cast.bitcast_convert_type(swapped, _real_bits(x).dtype)
    return _view(bits, x.dtype)


def _real_bits(x: Any) -> Any:
    return _view(x, dtypes.to_real_dtype(x.dtype)) if cnp.convert.is_kind(
        x, np.complexfloating) else x  # fmt: skip


def _all_reversed(self: Any) -> Any:
    """The axes reversed."""
    return cnp.transpose(self)


def _matrix_transpose(self: Any) -> Any:
    """The last two axes swapped."""
    if self.ndim < 2:
        raise ValueError("Only two-dimensional or larger arrays have mT")
    return cnp.swapaxes(self, -1, -2)


def _real(self: Any) -> Any:
    """The real part."""
    return cnp.real(self)


def _imag(self: Any) -> Any:
    """The imaginary part."""
    return cnp.imag(self)


def _flat(self: Any) -> Any:
    """The elements as one axis."""
    return cnp.ravel(self)


def _at() -> property:
    return property(cnp._at.IndexHelper, doc="Functional updates: `x.at[i].set(y)` and its kin.")


def _methods() -> dict[str, Any]:
    return {
        **{name: Later(name, partial(getattr, cnp, name)) for name in _FUNCTIONS},
        "astype": _astype,
        "byteswap": _byteswap,
        "clip": _clip,
        "compress": _compress,
        "copy": _copy,
        "flatten": _flatten,
        "reshape": _reshape,
        "to_device": _to_device,
        "transpose": _transpose,
        "view": _view,
        "T": property(_all_reversed),
        "mT": property(_matrix_transpose),
        "real": property(_real),
        "imag": property(_imag),
        "flat": property(_flat),
        "at": Later("at", _at),
    }


def array_methods() -> dict[str, Any]:
    """Operators, methods and properties by name, for arrays and tracers."""
    out: dict[str, Any] = {"__array_priority__": 100}
    for name, function in _ARITHMETIC.items():
        out[f"__{name}__"] = _forward(function, f"__{name}__")
        out[f"__r{name}__"] = _reflected(function, f"__r{name}__")
    for name, function in _COMPARISONS.items():
        declare = _equality if name in ("eq", "ne") else _forward
        out[f"__{name}__"] = declare(function, f"__{name}__")
    for name, function in _UNARY.items():
        out[f"__{name}__"] = _unary(function, f"__{name}__")
    out.update(
        __getitem__=_getitem,
        __setitem__=_setitem,
        __iter__=_iter,
        __reversed__=_reversed,
        __contains__=_contains,
        __round__=_round,
        __array_namespace__=_array_namespace,
    )
    return {**out, **_methods()}
