"""Making arrays: from Python values, from shapes, from ranges."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.numpy import _convert
from covector.numpy._convert import SCALARS, cast, operands
from covector.runtime.array import Array
from covector.runtime.interchange import from_numpy
from covector.trace.tracer import Tracer


def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array with the elements of `object`: an array, a scalar, or nested sequences of them.

    `dtype`: by default that of the elements; Python numbers alone give the default 32-bit types (a
    lone Python scalar is weakly typed).  `ndmin`: leading axes of size 1 are added up to that rank.
    Raises TypeError for what is no array, ValueError for ragged sequences.

    >>> import covector.numpy as cnp
    >>> cnp.array([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    del device, out_sharding
    _check_order(order)
    out = _as_array(object, dtype, copy)
    if ndmin > typeof(out).ndim:
        shape = (*(1,) * (ndmin - typeof(out).ndim), *typeof(out).shape)
        out = ops.shape.reshape(out, shape)
    return out


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
    del device, out_sharding
    _check_order(order)
    return _as_array(a, dtype, bool(copy))


def _check_order(order: str | None) -> None:
    if order not in (None, "K", "C", "A", "k", "c", "a"):
        raise NotImplementedError(f"only order 'C' (or None, 'K', 'A') is there; got {order!r}")


def user_dtype(dtype: Any, who: str) -> Any:
    """A dtype as users write it, canonical; None stays None."""
    if dtype is None:
        return None
    dtypes.check_user_dtype_supported(dtype, who)
    return dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def _as_array(x: Any, dtype: Any, copy: bool) -> Any:
    wanted = user_dtype(dtype, "array")
    if hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    if isinstance(x, (Array, Tracer)):
        out = x if wanted is None or typeof(x).dtype == wanted else cast(x, wanted)
        if wanted is not None and typeof(out).weak_type:
            out = ops.cast.convert_element_type(out, wanted, False)
        return ops.shape.copy(out) if copy and out is x and isinstance(x, Array) else out
    if isinstance(x, SCALARS):
        if wanted is None:
            return as_array(x)
        return from_numpy(_checked_scalar(x, wanted), ShapedArray((), wanted))
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(x), wanted)
    if isinstance(x, (list, tuple)) and _holds_tracers(x):
        return _stack(x, wanted)
    if x is None:
        raise TypeError("None is not a valid value for array")
    return _from_numpy(_python_array(x, wanted), wanted)


def _checked_scalar(x: Any, dtype: Any) -> np.ndarray:
    if isinstance(x, complex) and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"array: cannot convert the complex number {x} to {dtype}")
    with np.errstate(all="ignore"):
        if isinstance(x, int) and dtypes.issubdtype(dtype, np.integer):
            info = np.iinfo(dtype) if dtype.kind in "iu" else None
            if info is not None and not info.min <= x <= info.max:
                raise OverflowError(
                    f"Python integer {x} out of bounds for {dtype}: wanted {info.min} to {info.max}"
                )
        return np.asarray(x).astype(dtype)


def _from_numpy(x: np.ndarray, wanted: Any) -> Any:
    dtype = wanted if wanted is not None else dtypes.canonicalize_dtype(x.dtype)
    with np.errstate(all="ignore"):
        converted = x.astype(dtypes.physical_dtype(dtype), copy=False)
    return from_numpy(converted, ShapedArray(converted.shape, dtype))


def _python_array(x: Any, wanted: Any) -> np.ndarray:
    leaves = list(_leaves(x)) if isinstance(x, (list, tuple)) else []
    try:
        out = np.array([np.asarray(v) for v in leaves]).reshape(np.shape(_shape_probe(x))) \
            if leaves and any(isinstance(v, Array) for v in leaves) else np.array(x)
    except ValueError as error:
        raise ValueError(f"array: the nested sequences do not form an array: {error}") from None
    if out.dtype.kind not in "biufcV" or out.dtype == object:
        raise TypeError(
            f"array: {x!r} of type {type(x)} is not a valid array: its elements have dtype "
            f"{out.dtype}"
        )
    if wanted is None and leaves and all(isinstance(v, SCALARS) for v in leaves):
        return out.astype(dtypes.result_type(*{type(v) for v in leaves}))
    if wanted is None and leaves:
        return out.astype(dtypes.result_type(*leaves))
    if wanted is None and out.size == 0 and isinstance(x, (list, tuple)):
        return out.astype(dtypes.default_float())
    return out


def _leaves(x: Any) -> Any:
    for v in x:
        if isinstance(v, (list, tuple)):
            yield from _leaves(v)
        else:
            yield v


def _shape_probe(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_shape_probe(v) for v in x]
    return np.asarray(x) if isinstance(x, Array) else x


def _holds_tracers(x: Any) -> bool:
    return any(isinstance(v, (Tracer, Array)) for v in _leaves(x))


def _stack(x: Sequence[Any], wanted: Any) -> Any:
    """Nested sequences that hold arrays: stacked by operations."""
    if not any(isinstance(v, Tracer) for v in _leaves(x)):
        plain = [np.asarray(v) if isinstance(v, Array) else v for v in x]
        if all(not isinstance(v, (list, tuple)) for v in x):
            dtype = wanted or dtypes.result_type(*x)
            shapes = {np.shape(v) for v in plain}
            if len(shapes) == 1:
                return _from_numpy(np.array(plain, dtypes.physical_dtype(dtype)), dtype)
    parts = [_as_array(v, None, False) for v in x]
    dtype = wanted or dtypes.result_type(*[v for v in _leaves(x)])
    shapes = {typeof(v).shape for v in parts}
    if len(shapes) > 1:
        raise ValueError(f"array: the elements of a sequence have different shapes: {shapes}")
    rows = [ops.shape.expand_dims(_strong(v, dtype), (0,)) for v in parts]
    return ops.shape.concatenate(rows, 0)


def _strong(x: Any, dtype: Any) -> Any:
    aval = typeof(x)
    if aval.dtype == dtype and not aval.weak_type:
        return x
    return ops.cast.convert_element_type(x, dtype, False)


def _shape(shape: Any, who: str) -> tuple[int, ...]:
    given = shape if isinstance(shape, (tuple, list)) or np.ndim(shape) == 1 else (shape,)
    try:
        out = tuple(operator.index(n) for n in given)
    except TypeError as error:
        raise TypeError(
            f"{who}: shapes must be sequences of concrete integers; got {shape!r}: {error}"
        ) from None
    if any(n < 0 for n in out):
        raise ValueError(f"{who}: sizes must not be negative; got shape {out}")
    return out


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None,
         out_sharding: Any = None) -> Any:  # fmt: skip
    """An array of `shape` with every element `fill_value` (broadcast to it).

    >>> import covector.numpy as cnp
    >>> cnp.full((2,), 7)
    Array([7, 7], dtype=int32)
    """
    del device, out_sharding
    (value,) = operands("full", fill_value)
    wanted = user_dtype(dtype, "full")
    if wanted is None and isinstance(fill_value, SCALARS):
        return _fill(_shape(shape, "full"), fill_value, typeof(fill_value).dtype, True)
    return _fill(_shape(shape, "full"), value, wanted or typeof(value).dtype, False)


def _fill(shape: tuple[int, ...], value: Any, dtype: Any, weak: bool) -> Any:
    if isinstance(value, (*SCALARS, np.generic)):
        value = _checked_scalar(value, dtype)[()] if not weak else value
    elif typeof(value).dtype != dtype or typeof(value).weak_type:
        value = ops.cast.convert_element_type(value, dtype, False)
    given = typeof(value).shape
    return ops.shape.broadcast_in_dim(
        value, shape, tuple(range(len(shape) - len(given), len(shape)))
    )


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros; float32 by default.

    >>> import covector.numpy as cnp
    >>> cnp.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    del device, out_sharding
    wanted = user_dtype(dtype, "zeros") if dtype is not None else dtypes.default_float()
    return _fill(_shape(shape, "zeros"), wanted.type(0), wanted, False)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones; float32 by default.

    >>> import covector.numpy as cnp
    >>> cnp.ones(2)
    Array([1., 1.], dtype=float32)
    """
    del device, out_sharding
    wanted = user_dtype(dtype, "ones") if dtype is not None else dtypes.default_float()
    return _fill(_shape(shape, "ones"), wanted.type(1), wanted, False)


empty = zeros


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *,
              device: Any = None) -> Any:  # fmt: skip
    """`full` with the shape and dtype of `a` where they are not given.

    >>> import covector.numpy as cnp
    >>> cnp.full_like(cnp.zeros(2), 3)
    Array([3., 3.], dtype=float32)
    """
    del device
    aval = _like(a, "full_like")
    weak = dtype is None and aval.weak_type
    wanted = aval.dtype if dtype is None else user_dtype(dtype, "full_like")
    size = aval.shape if shape is None else _shape(shape, "full_like")
    (value,) = operands("full_like", fill_value)
    out = _fill(size, value, wanted, False)
    return ops.cast.convert_element_type(out, wanted, True) if weak else out


def _like(a: Any, who: str) -> ShapedArray:
    if hasattr(a, "shape") and hasattr(a, "dtype") and not isinstance(a, (Array, Tracer)):
        return ShapedArray(tuple(a.shape), dtypes.canonicalize_dtype(a.dtype, True))
    return typeof(operands(who, a)[0])


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
               out_sharding: Any = None) -> Any:  # fmt: skip
    """Zeros of the shape and dtype of `a`.

    >>> import covector.numpy as cnp
    >>> cnp.zeros_like(cnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return full_like(a, 0, dtype, shape)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
              out_sharding: Any = None) -> Any:  # fmt: skip
    """Ones of the shape and dtype of `a`.

    >>> import covector.numpy as cnp
    >>> cnp.ones_like(cnp.array([1, 2]))
    Array([1, 1], dtype=int32)
    """
    return full_like(a, 1, dtype, shape)


empty_like = zeros_like


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *,
           device: Any = None, out_sharding: Any = None) -> Any:  # fmt: skip
    """Numbers from `start` (0 if alone) up to, not including, `stop`, `step` apart.

    All three must be concrete, since they decide the shape.

    >>> import covector.numpy as cnp
    >>> cnp.arange(3)
    Array([0, 1, 2], dtype=int32)
    """
    del device, out_sharding
    for what, x in (("start", start), ("stop", stop), ("step", step)):
        if x is not None and np.ndim(x) != 0:
            raise ValueError(f"arange: argument {what} must be a scalar; got shape {np.shape(x)}")
        if isinstance(x, Tracer):
            x.__array__()
    given = [x for x in (start, stop, step) if x is not None]
    wanted = user_dtype(dtype, "arange") or dtypes.result_type(*given)
    low, high = (0, start) if stop is None else (start, stop)
    by = 1 if step is None else step
    values = [np.asarray(x)[()] for x in (low, high, by)]
    if values[2] == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    if by == 1 and low == 0 and dtypes.issubdtype(wanted, np.integer):
        count = max(int(np.ceil(values[1])), 0)
        return ops.shape.iota(wanted, (count,), 0)
    return _from_numpy(np.arange(*[v.item() for v in values], dtype=wanted), wanted)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop` (included if `endpoint`).

    Arrays as ends give an axis of them at `axis`.  With `retstep`, (numbers, step).

    >>> import covector.numpy as cnp
    >>> cnp.linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    del device
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: number of samples, {num}, must be non-negative")
    start, stop = operands("linspace", start, stop)
    wanted = user_dtype(dtype, "linspace") or dtypes.to_inexact_dtype(
        dtypes.result_type(start, stop)
    )
    inner = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, wanted))
    start, stop = (cast(x, inner) for x in (start, stop))
    start, stop = (ops.cast.convert_element_type(x, inner, False) for x in (start, stop))
    shape = _convert.broadcast_shapes("linspace", typeof(start).shape, typeof(stop).shape)
    start, stop = (_convert.broadcast_to(x, shape) for x in (start, stop))
    p = ops.pointwise
    count = num - 1 if endpoint else num
    step = p.div(p.sub(stop, start), inner.type(count)) if count > 0 else \
        ops.shape.full_like(start, np.nan)
    out = _spaced(start, stop, num, count, endpoint, inner)
    if dtypes.issubdtype(wanted, np.integer) and not dtypes.issubdtype(inner, np.integer):
        out = p.floor(out)
    out = ops.cast.convert_element_type(out, wanted, False)
    place = _convert.canonical_axis(axis, len(shape) + 1, "linspace")
    out = ops.shape.move_axis(out, 0, place)
    return (out, step) if retstep else out


def _spaced(start: Any, stop: Any, num: int, count: int, endpoint: bool, dtype: Any) -> Any:
    """start * (1 - k / count) + stop * (k / count), with `stop` itself at the end."""
    p = ops.pointwise
    shape = typeof(start).shape
    if num == 0:
        return ops.shape.broadcast_in_dim(dtype.type(0), (0, *shape), ())
    real = dtypes.to_real_dtype(dtype)
    k = ops.shape.iota(real, (num - 1 if endpoint else num, *(1,) * len(shape)), 0)
    if endpoint and num == 1:
        return ops.shape.expand_dims(start, (0,))
    weight = ops.cast.convert_element_type(p.div(k, real.type(count)), dtype, False)
    full = (typeof(k).shape[0], *shape)
    weight = _convert.broadcast_to(weight, full)
    left, right = (_convert.broadcast_to(x, full) for x in (start, stop))
    out = p.add(p.mul(left, p.sub(dtype.type(1), weight)), p.mul(right, weight))
    if not endpoint:
        return out
    return ops.shape.concatenate([out, ops.shape.expand_dims(stop, (0,))], 0)


def eye(N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *,
        device: Any = None) -> Any:  # fmt: skip
    """Ones on the `k`-th diagonal of an N × M array, zeros elsewhere.

    >>> import covector.numpy as cnp
    >>> cnp.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    del device
    shape = _shape((N, N if M is None else M), "eye")
    wanted = user_dtype(dtype, "eye") or dtypes.default_float()
    rows, columns = (ops.shape.iota(np.dtype(np.int32), shape, d) for d in (0, 1))
    (k,) = operands("eye", k)
    rows = ops.pointwise.add(rows, cast(k, np.dtype(np.int32)))
    return ops.cast.convert_element_type(ops.pointwise.eq(rows, columns), wanted, False)


def identity(n: int, dtype: Any = None) -> Any:
    """The n × n identity matrix.

    >>> import covector.numpy as cnp
    >>> cnp.identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below the `k`-th diagonal, zeros above.

    >>> import covector.numpy as cnp
    >>> cnp.tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    shape = _shape((N, N if M is None else M), "tri")
    wanted = user_dtype(dtype, "tri") or dtypes.default_float()
    rows, columns = (ops.shape.iota(np.dtype(np.int32), shape, d) for d in (0, 1))
    below = ops.pointwise.ge(ops.pointwise.add(rows, np.int32(k)), columns)
    return ops.cast.convert_element_type(below, wanted, False)
