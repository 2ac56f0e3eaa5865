"""From what users pass to what operations take: arrays, promotion, broadcasting, axes.

Every function of `covector.numpy` begins here: `operands(name, ...)` refuses what is no array,
`promote(...)` brings dtypes together by the lattice, `broadcast(...)` shapes.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.exceptions import AxisError

from covector import dtypes, ops
from covector._base import errors
from covector._base.config import PerConfig, config
from covector.api.arrays import as_array, device_put
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.runtime.array import Array
from covector.trace.tracer import Tracer

SCALARS = (bool, int, float, complex)
_CONSTANTS = (*SCALARS, np.generic)
_VALUES = (Tracer, np.ndarray, *_CONSTANTS)


# What is an array


def check_arraylike(who: str, *args: Any) -> None:
    """Refuse lists, strings and other objects: TypeError naming the function and the position."""
    for k, x in enumerate(args):
        if type(x) is Array or isinstance(x, _VALUES) or hasattr(x, "__jax_array__"):
            continue
        hint = "; convert it with array(...) first" if isinstance(x, (list, tuple)) else ""
        raise TypeError(
            f"{who} requires ndarray or scalar arguments, got {type(x)} at position {k}{hint}."
        )


def operands(who: str, *args: Any) -> tuple[Any, ...]:
    """`args`, checked; NumPy arrays and scalars stay as they are until an operation reads them."""
    for x in args:
        if type(x) is not Array and not isinstance(x, _VALUES):
            check_arraylike(who, *args)
            return tuple([v.__jax_array__() if hasattr(v, "__jax_array__") else v for v in args])
    return args


def array_operand(who: str, x: Any) -> Any:
    """`x`, checked, as an Array or a tracer."""
    (x,) = operands(who, x)
    return as_array(x)


def array_operands(who: str, xs: Any) -> list[Any]:
    """The arrays in a sequence (an array counts as the sequence of its rows), checked."""
    if isinstance(xs, (Array, Tracer, np.ndarray)):
        if not xs.ndim:
            raise ValueError(f"{who}: needs a sequence of arrays; got an array of rank 0")
        return list(ops.shape.unstack(as_array(xs)))
    if isinstance(xs, (str, *_CONSTANTS)) or not hasattr(xs, "__iter__"):
        raise TypeError(f"{who}: needs a sequence of arrays; got {type(xs)}")
    return [as_array(x) for x in operands(who, *xs)]


def concrete(x: Any, what: str) -> np.ndarray:
    """The numbers of `x`, which decide a shape or the like; ConcretizationTypeError for a tracer.

    `what` completes the message: where the value is needed.
    """
    if isinstance(x, Tracer):
        raise errors.ConcretizationTypeError(x, f"It is needed for {what}.")
    return np.asarray(x)


def refuse_out(who: str, out: Any) -> None:
    """NumPy's `out=` has no meaning for immutable arrays."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to {who} is not supported.")


def placed(x: Any, device: Any = None, out_sharding: Any = None) -> Any:
    """`x` on a device or in a sharding, if one is given."""
    where = out_sharding if device is None else device
    return x if where is None else device_put(x, where)


# Dtypes


def promote(*args: Any) -> tuple[Any, ...]:
    """`args` brought to their common dtype; Python scalars stay or become scalars of it."""
    avals = tuple([typeof(x) for x in args])
    first = avals[0]
    for aval in avals:
        if aval.dtype is not first.dtype or aval.weak_type != first.weak_type:
            break
    else:
        # Booleans that met a Python number are weakly typed, but no boolean is a Python number.
        if not first.weak_type or len(args) == 1 or first.dtype != np.bool_:
            return args
    dtype, weak = _common_dtype(args, avals)
    return tuple([_cast(x, a, dtype, weak) for x, a in zip(args, avals, strict=True)])


#: Types of operands -> (their common dtype, whether it is weak), under the options of now.
_common: Final = PerConfig(dict[Any, tuple[Any, bool]])
#: Integers up to this are all numbers of these types.
_EXACT: Final = 1 << 24
_FLOATS: Final = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
#: Combinations of types remembered.
_KNOWN: Final = 4096


def _common_dtype(args: Sequence[Any], avals: tuple[ShapedArray, ...]) -> tuple[Any, bool]:
    known = _common[config.current_key]
    found = known.get(avals)
    if found is None:
        if any(isinstance(a.dtype, dtypes.ExtendedDType) for a in avals):
            raise TypeError(
                f"the operation does not accept dtypes {', '.join(str(a.dtype) for a in avals)}: "
                "random keys are not numbers"
            )
        if len(known) >= _KNOWN:
            known.clear()
        found = known[avals] = dtypes.result_type(*args, return_weak_type_flag=True)
    return found


def promote_inexact(*args: Any) -> tuple[Any, ...]:
    """`args` brought to their common dtype, integers and booleans to a float."""
    avals = tuple([typeof(x) for x in args])
    dtype, weak = _common_dtype(args, avals)
    dtype = dtypes.to_inexact_dtype(dtype)
    return tuple([_cast(x, a, dtype, weak) for x, a in zip(args, avals, strict=True)])


def promote_numeric(*args: Any) -> tuple[Any, ...]:
    """`args` brought to their common dtype, booleans to int32."""
    args = promote(*args)
    if typeof(args[0]).dtype == np.bool_:
        return tuple([cast(x, np.dtype(np.int32)) for x in args])
    return args


def cast(x: Any, dtype: Any, weak: bool = False) -> Any:
    """`x` as `dtype`; a Python or NumPy scalar is converted at once."""
    return _cast(x, typeof(x), dtype, weak)


def _cast(x: Any, aval: ShapedArray, dtype: Any, weak: bool) -> Any:
    if aval.weak_type == weak and (aval.dtype is dtype or aval.dtype == dtype):
        return x
    if not isinstance(x, _CONSTANTS):
        return ops.cast.convert_element_type(x, dtype, weak)
    if weak:
        return dtypes.scalar_type_of(dtype)(x)
    # What is exact, or rounded once, without overflow or underflow, of which NumPy might speak.
    if type(x) is float and aval.dtype is dtype and 1e-30 < abs(x) < 1e30:
        return dtype.type(x)
    if type(x) is int and -_EXACT <= x <= _EXACT and dtype in _FLOATS:
        return dtype.type(x)
    if isinstance(x, int) and not isinstance(x, bool) and _fits(x, dtype):
        return dtype.type(x)
    if is_kind(dtype, np.integer) and is_kind(aval.dtype, np.floating):
        # NaN is 0, and what is too large the greatest, as when arrays are converted.
        return ops.cast.ConvertElementType(dtype).numpy(np.asarray(x, aval.dtype))[()]
    # An integer that does not fit wraps round; one beyond the default integer is refused.
    with np.errstate(all="ignore"):
        return np.asarray(x, aval.dtype).astype(dtype)[()]


def _fits(x: int, dtype: Any) -> bool:
    if not is_kind(dtype, np.integer):
        return False
    info = dtypes.iinfo(dtype)
    return info.min <= x <= info.max


def strong(x: Any, dtype: Any) -> Any:
    """`x` as an Array or tracer of `dtype`, not weakly typed."""
    return ops.cast.convert_element_type(as_array(x), dtype, False)


def user_dtype(dtype: Any, who: str) -> Any:
    """A dtype as users write it, canonical; None stays None."""
    if dtype is None:
        return None
    dtypes.check_user_dtype_supported(dtype, who)
    return dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def is_kind(x: Any, kind: Any) -> bool:
    """Whether the dtype of `x` (an array or a dtype) belongs to `kind`, such as np.integer."""
    dtype = x if isinstance(x, np.dtype) else typeof(x).dtype
    return dtypes.issubdtype(dtype, kind)


#: The number in the dtype of an array, weakly typed if the array is: `like(x, value)`.
like = ops.families.like


def number(x: Any, value: Any) -> Any:
    """The number `value` in the dtype of `x`, as a NumPy scalar."""
    return np.asarray(value).astype(typeof(x).dtype)[()]


# Shapes


class ShapeError(TypeError, ValueError):
    """Shapes that cannot be broadcast: JAX has TypeError for equal ranks, else ValueError."""


def broadcast_shapes(who: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape by NumPy's rule; ShapeError naming the shapes if there is none."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[int] = []
    for d in range(-rank, 0):
        sizes = {s[d] for s in shapes if len(s) >= -d} - {1}
        if len(sizes) > 1:
            raise ShapeError(
                f"{who}: Incompatible shapes for broadcasting: "
                f"{', '.join(str(tuple(s)) for s in shapes)}"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def broadcast(who: str, *args: Any) -> tuple[Any, ...]:
    """`args` with one shape; scalars stay scalars (operations broadcast them)."""
    shapes = [typeof(x).shape for x in args]
    wanted: tuple[int, ...] = ()
    for s in shapes:
        if s and s != wanted:
            if wanted:
                break
            wanted = s
    else:
        return args
    if config.numpy_rank_promotion != "allow":
        _check_rank_promotion(who, shapes)
    shape = broadcast_shapes(who, *shapes)
    return tuple([broadcast_to(x, shape) if s else x for x, s in zip(args, shapes, strict=True)])


def broadcast_all(who: str, *args: Any) -> tuple[Any, ...]:
    """`args` with one shape, scalars too."""
    shape = broadcast_shapes(who, *[typeof(x).shape for x in args])
    return tuple([broadcast_to(x, shape) for x in args])


def _check_rank_promotion(who: str, shapes: Sequence[tuple[int, ...]]) -> None:
    if len({len(s) for s in shapes if s}) < 2:
        return
    message = (
        f"Following NumPy automatic rank promotion for {who} on shapes "
        f"{' '.join(map(str, shapes))}. Set the option numpy_rank_promotion to 'allow' to allow it."
    )
    if config.numpy_rank_promotion == "raise":
        raise ValueError(message)
    warnings.warn(message, stacklevel=4)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` broadcast to `shape` by NumPy's rule; itself if it has that shape."""
    return x if typeof(x).shape == tuple(shape) else ops.shape.broadcast_to(x, shape)


def select(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, else `y`: of one dtype, broadcast to one shape."""
    shape = broadcast_shapes("where", *(typeof(v).shape for v in (condition, x, y)))
    return ops.pointwise.where(*(broadcast_to(v, shape) for v in (condition, x, y)))


def shape_of(shape: Any, who: str) -> tuple[int, ...]:
    """A shape as users write it: an int, or a sequence of them."""
    given = shape if isinstance(shape, (tuple, list)) or np.ndim(shape) == 1 else (shape,)
    for n in given:
        if isinstance(n, Tracer):
            raise TypeError(
                f"{who}: Shapes must be 1D sequences of concrete values of integer type, got "
                f"{shape}. If this is a traced value, make the argument static"
            )
    try:
        out = tuple(map(operator.index, given))
    except TypeError as error:
        raise TypeError(
            f"{who}: Shapes must be 1D sequences of concrete values of integer type, got "
            f"{shape!r}: {error}"
        ) from None
    if any(n < 0 for n in out):
        raise TypeError(f"{who}: sizes must not be negative; got shape {out}")
    return out


# Axes


def canonical_axis(axis: Any, ndim: int, who: str = "") -> int:
    """`axis` in [0, ndim); AxisError naming it otherwise, TypeError if it is no integer."""
    try:
        n = operator.index(axis)
    except TypeError as error:
        if isinstance(axis, Tracer):
            what = f"It is needed for the axis of {who or 'an operation'}."
            raise errors.ConcretizationTypeError(axis, what) from None
        raise TypeError(f"{who}: axis must be an integer; got {axis!r}: {error}") from None
    if not -ndim <= n < ndim:
        # Both a ValueError and an IndexError.
        raise AxisError(f"{who}: axis {n} is out of bounds for array of dimension {ndim}")
    return n % ndim


def canonical_axes(axis: Any, ndim: int, who: str = "") -> tuple[int, ...]:
    """None (all axes), an int or a sequence of ints, as a tuple in [0, ndim) without repeats."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(canonical_axis(a, ndim, who) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{who}: duplicate value in 'axis': {axis}")
    return axes
