"""Making arrays from Python values, and arrays full of one value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from covector import dtypes, ops, runtime
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy.convert import SCALARS, operands, placed, shape_of, strong, user_dtype
from covector.runtime.array import Array, from_numpy
from covector.trace.tracer import Tracer


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array with the elements of `object`: an array, a scalar, or nested sequences of them.

    `dtype`: by default that of the elements; Python numbers alone give the default 32-bit types (a
    lone Python scalar is weakly typed).  `ndmin`: leading axes of size 1 are added up to that rank.
    Raises TypeError for what is no array, ValueError for ragged sequences, OverflowError for
    integers that do not fit.

    >>> import covector.numpy as cnp
    >>> cnp.array([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    for name, value in zip(("copy", "order", "ndmin"), args, strict=False):
        copy = value if name == "copy" else copy
        order = value if name == "order" else order
        ndmin = value if name == "ndmin" else ndmin
    _check_order(order)
    out = _as_array(object, dtype, copy)
    if ndmin > typeof(out).ndim:
        shape = (*(1,) * (ndmin - typeof(out).ndim), *typeof(out).shape)
        out = ops.shape.reshape(out, shape)
    return placed(out, device, out_sharding)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`a` as an array; itself if it is one of this dtype.  See `array`.

    >>> import covector.numpy as cnp
    >>> cnp.asarray(2.5)
    Array(2.5, dtype=float32, weak_type=True)
    """
    if type(a) is Array and dtype is None and not copy and device is None and out_sharding is None:
        return a
    _check_order(order)
    return placed(_as_array(a, dtype, bool(copy)), device, out_sharding)


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of `a`; see `array`.

    >>> import covector.numpy as cnp
    >>> cnp.copy(cnp.ones(2)).tolist()
    [1.0, 1.0]
    """
    operands("copy", a)
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """`x` in another dtype; complex to real warns and drops the imaginary part.

    >>> import covector.numpy as cnp
    >>> cnp.astype(cnp.array([1.5, 2.5]), int).tolist()
    [1, 2]
    """
    x = convert.array_operand("astype", x)
    wanted = dtypes.default_float() if dtype is None else user_dtype(dtype, "astype")
    given = x.dtype
    if isinstance(wanted, dtypes.ExtendedDType) or isinstance(given, dtypes.ExtendedDType):
        if wanted != given:
            raise TypeError(f"astype: cannot convert an array of {given} to {wanted}")
        return placed(x, device)
    if convert.is_kind(given, np.complexfloating) and not convert.is_kind(
        wanted, np.complexfloating
    ):
        if convert.is_kind(wanted, np.bool_):
            x = ops.pointwise.ne(x, convert.number(x, 0))
        else:
            x = ops.pointwise.real(x)
    out = strong(x, wanted)
    return placed(ops.shape.copy(out) if copy and out is x else out, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array with the elements of an object that exports them by DLPack.

    >>> import numpy as np
    >>> import covector.numpy as cnp
    >>> cnp.from_dlpack(np.arange(3, dtype=np.int32)).tolist()
    [0, 1, 2]
    """
    return placed(runtime.interchange.from_dlpack(x, None, copy), device)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """A 1-d array of the bytes of an object with the buffer interface; see `numpy.frombuffer`.

    >>> import covector.numpy as cnp
    >>> cnp.frombuffer(b"ab", dtype="uint8").tolist()
    [97, 98]
    """
    return array(np.frombuffer(buffer, _plain_dtype(dtype), count, offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """A 1-d array of the numbers written in a text, separated by `sep`.

    >>> import covector.numpy as cnp
    >>> cnp.fromstring("1 2", dtype=int, sep=" ").tolist()
    [1, 2]
    """
    return array(np.fromstring(string, _plain_dtype(dtype), count, sep=sep))


def _plain_dtype(dtype: Any) -> Any:
    """A dtype as users write it, such as NumPy knows."""
    return dtypes.physical_dtype(dtypes.as_dtype(dtype))


# From Python values


def _check_order(order: str | None) -> None:
    if order is not None and order not in "KCAkca":
        raise NotImplementedError(f"only order 'C' (or None, 'K', 'A') is there; got {order!r}")


def _as_array(x: Any, dtype: Any, copied: bool) -> Any:
    wanted = user_dtype(dtype, "array")
    if isinstance(x, (Array, Tracer)):
        out = x if wanted is None else _in_dtype(x, wanted)
        return ops.shape.copy(x) if copied and out is x and isinstance(x, Array) else out
    if type(x) in SCALARS:
        return as_array(x) if wanted is None else _from_numpy(_scalar(x, wanted), wanted)
    if hasattr(x, "__jax_array__"):
        return _as_array(x.__jax_array__(), dtype, copied)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(x), wanted)
    if x is None:
        raise ValueError("None is not a valid value for array")
    if not isinstance(x, (list, tuple)):
        return _from_numpy(_foreign(x), wanted)
    leaves = list(_leaves(x))
    if any(isinstance(v, (Array, Tracer)) or hasattr(v, "__jax_array__") for v in leaves):
        dtype = wanted or dtypes.result_type(*leaves)
        if isinstance(dtype, dtypes.ExtendedDType) or any(isinstance(v, Tracer) for v in leaves):
            return _stack(x, dtype)
        return _from_numpy(_on_host(x, dtype), dtype)
    return _from_numpy(_nested(x, leaves, wanted), wanted)


def _on_host(x: Any, dtype: Any) -> np.ndarray:
    """Nested sequences that hold concrete arrays."""
    if isinstance(x, (list, tuple)):
        parts = [_on_host(v, dtype) for v in x]
        _check_shapes({v.shape for v in parts})
        return np.stack(parts) if parts else np.zeros(0, dtype)
    return np.asarray(_in_dtype(_as_array(x, None, False), dtype))


def _check_shapes(shapes: set[tuple[int, ...]]) -> None:
    if len(shapes) > 1:
        raise TypeError(f"array: the elements of a sequence have different shapes: {shapes}")


def _in_dtype(x: Any, wanted: Any) -> Any:
    aval = typeof(x)
    if aval.dtype == wanted and not aval.weak_type:
        return x
    if isinstance(wanted, dtypes.ExtendedDType):
        raise TypeError(f"array: cannot convert an array of {aval.dtype} to {wanted}")
    return strong(x, wanted)


def _scalar(x: Any, dtype: Any) -> np.ndarray:
    """A Python scalar in a dtype, by Python's own rules for what can be one."""
    if isinstance(x, bool) or convert.is_kind(dtype, np.bool_):
        return np.asarray(bool(x)).astype(dtype)
    if convert.is_kind(dtype, np.integer):
        info, x = dtypes.iinfo(dtype), int(x)
        if not info.min <= x <= info.max:
            raise OverflowError(
                f"Python integer {x} out of bounds for {dtype}: wanted {info.min} to {info.max}"
            )
    elif convert.is_kind(dtype, np.floating):
        x = float(x)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


def _from_numpy(x: np.ndarray, wanted: Any) -> Any:
    if x.dtype == object or x.dtype.kind in "USMm":
        raise TypeError(
            f"array: elements of dtype {x.dtype} are not numbers; got {type(x).__name__} {x!r:.80}"
        )
    dtype = wanted if wanted is not None else dtypes.canonicalize_dtype(x.dtype)
    if not dtypes.is_supported(dtypes.canonicalize_dtype(x.dtype)):
        raise TypeError(f"array: arrays cannot have dtype {x.dtype}")
    if convert.is_kind(x.dtype, np.complexfloating) and not convert.is_kind(
        dtype, np.complexfloating
    ):
        x = np.real(x)
    with np.errstate(all="ignore"):
        converted = x.astype(dtypes.physical_dtype(dtype), copy=False)
    return from_numpy(converted, ShapedArray(converted.shape, dtype))


def _foreign(x: Any) -> np.ndarray:
    """An object that NumPy can read, such as one with `__array__` or the buffer interface."""
    out = np.asarray(x)
    if out.dtype == object or out.dtype.kind in "USMm":
        raise TypeError(
            f"array: {x!r:.80} of type {type(x).__name__} is not a valid array: wanted numbers, "
            "arrays or nested sequences of them"
        )
    return out


def _leaves(x: Any) -> Iterator[Any]:
    for v in x:
        if isinstance(v, (list, tuple)):
            yield from _leaves(v)
        elif v is None:
            raise ValueError("None is not a valid value for array")
        else:
            yield v


def _nested(x: Any, leaves: list[Any], wanted: Any) -> np.ndarray:
    """Nested sequences that hold no arrays of ours."""
    out = np.array(x)
    if not leaves:
        return out.astype(wanted or dtypes.default_float())
    if out.dtype == object or out.dtype.kind in "USMm":
        raise TypeError(f"array: {x!r:.80} is not a valid array: its elements are not numbers")
    kinds = {type(v) for v in leaves}
    plain = kinds <= set(SCALARS)
    dtype = wanted or dtypes.result_type(*(kinds if plain else leaves))
    if plain and convert.is_kind(dtype, np.integer):
        _check_range(np.trunc(out) if out.dtype.kind == "f" else out, dtype)
    if plain and out.dtype.kind == "c" and not convert.is_kind(dtype, np.complexfloating):
        raise TypeError(f"array: complex numbers cannot be converted to {dtype}")
    return out.astype(dtype)


def _check_range(numbers: np.ndarray, dtype: Any) -> None:
    info = dtypes.iinfo(dtype)
    if np.isnan(numbers).any():
        raise ValueError(f"array: cannot convert float NaN to integer ({dtype})")
    wrong = (numbers < info.min) | (numbers > info.max)
    if wrong.any():
        raise OverflowError(
            f"Python integer {numbers[wrong][0]} out of bounds for {dtype}: wanted {info.min} to "
            f"{info.max}"
        )


def _stack(x: Any, dtype: Any) -> Any:
    """Nested sequences that hold arrays of ours: stacked by operations."""
    if not isinstance(x, (list, tuple)):
        return _in_dtype(_as_array(x, None, False), dtype)
    if not len(x):
        return _from_numpy(np.zeros(0), dtype)
    parts = [_stack(v, dtype) for v in x]
    _check_shapes({typeof(v).shape for v in parts})
    return ops.shape.stack(parts)


# Full of one value


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of `shape` with every element `fill_value` (broadcast to it).

    >>> import covector.numpy as cnp
    >>> cnp.full((2,), 7, dtype="int32")
    Array([7, 7], dtype=int32)
    """
    (value,) = operands("full", fill_value)
    aval = typeof(value)
    wanted = user_dtype(dtype, "full")
    weak = wanted is None and aval.weak_type
    out = _filled(shape_of(shape, "full"), value, wanted or aval.dtype, weak)
    return placed(out, device, out_sharding)


def _filled(shape: tuple[int, ...], value: Any, dtype: Any, weak: bool = False) -> Any:
    if isinstance(dtype, dtypes.KeyType) and typeof(value).dtype != dtype:
        words = _filled((*shape, dtype.words), value, np.dtype(np.uint32))
        return ops.random_bits.random_wrap(words, dtype.impl)
    if isinstance(value, SCALARS):
        if convert.is_kind(dtype, np.floating):
            if isinstance(value, complex):
                raise TypeError(f"full: {value} is no number of dtype {dtype}")
            value = float(value)  # integers beyond the default one, too
        value = convert.cast(value, dtype, weak)
    if typeof(value).dtype != dtype or typeof(value).weak_type != weak:
        value = ops.cast.convert_element_type(value, dtype, weak)
    if convert.broadcast_shapes("full", typeof(value).shape, shape) != shape:
        raise ValueError(
            f"full: Incompatible shapes for broadcasting: {typeof(value).shape} to {shape}"
        )
    return as_array(convert.broadcast_to(value, shape))


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros; float32 by default.

    >>> import covector.numpy as cnp
    >>> cnp.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return _constant("zeros", shape, 0, dtype, device, out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones; float32 by default.

    >>> import covector.numpy as cnp
    >>> cnp.ones(2)
    Array([1., 1.], dtype=float32)
    """
    return _constant("ones", shape, 1, dtype, device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros: there is no uninitialised memory to be seen.

    >>> import covector.numpy as cnp
    >>> cnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _constant("empty", shape, 0, dtype, device, out_sharding)


def _constant(who: str, shape: Any, value: int, dtype: Any, device: Any, out_sharding: Any) -> Any:
    wanted = dtypes.default_float() if dtype is None else user_dtype(dtype, who)
    return placed(_filled(shape_of(shape, who), value, wanted), device, out_sharding)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`full` with the shape and dtype of `a` where they are not given.

    >>> import covector.numpy as cnp
    >>> cnp.full_like(cnp.zeros(2), 3)
    Array([3., 3.], dtype=float32)
    """
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Zeros of the shape and dtype of `a`.

    >>> import covector.numpy as cnp
    >>> cnp.zeros_like(cnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Ones of the shape and dtype of `a`.

    >>> import covector.numpy as cnp
    >>> cnp.ones_like(cnp.array([1, 2]))
    Array([1, 1], dtype=int32)
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and dtype of `prototype`.

    >>> import covector.numpy as cnp
    >>> cnp.empty_like(cnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return _like("empty_like", prototype, 0, dtype, shape, device, None)


def _like(
    who: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any, out_sharding: Any
) -> Any:
    aval = _aval_like(a, who)
    wanted = aval.dtype if dtype is None else user_dtype(dtype, who)
    size = aval.shape if shape is None else shape_of(shape, who)
    (value,) = operands(who, value)
    weak = dtype is None and aval.weak_type
    return placed(_filled(size, value, wanted, weak), device, out_sharding)


def _aval_like(a: Any, who: str) -> ShapedArray:
    if hasattr(a, "shape") and hasattr(a, "dtype") and not isinstance(a, (Array, Tracer)):
        return ShapedArray(tuple(a.shape), dtypes.canonicalize_dtype(a.dtype, True))
    return typeof(operands(who, a)[0])
