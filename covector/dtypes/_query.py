"""Questions about the dtypes of values and of what users write for a dtype."""

from __future__ import annotations

import warnings
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from covector._base.config import config
from covector._base.source import user_stacklevel

from ._lattice import join, promote_dtypes
from ._types import (
    BY_NAME,
    ENTRIES,
    NARROWED,
    AnyDType,
    ExtendedDType,
    float0,
    foreign_categories,
    python_kinds,
)

finfo: Any = ml_dtypes.finfo  # its attributes are of unknown types
iinfo = ml_dtypes.iinfo
bfloat16: Final = ml_dtypes.bfloat16

#: For isinstance, without narrowing to `dtype[Unknown]`.
_DTYPES: Final[Any] = (np.dtype, ExtendedDType)
_PYTHON_WIDE: Final[dict[type, np.dtype[Any]]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
_PYTHON_NARROW: Final = {kind: NARROWED.get(d, d) for kind, d in _PYTHON_WIDE.items()}
_WEAK_TYPES: Final = frozenset({int, float, complex})


def python_scalar_dtype(kind: type) -> np.dtype[Any]:
    """The dtype that a Python ``bool``, ``int``, ``float`` or ``complex`` takes by itself."""
    return (_PYTHON_WIDE if config.enable_x64 else _PYTHON_NARROW)[kind]


def default_int() -> np.dtype[Any]:
    """``int32``, or ``int64`` under ``enable_x64``."""
    return python_scalar_dtype(int)


def default_float() -> np.dtype[Any]:
    """``float32``, or ``float64`` under ``enable_x64``."""
    return python_scalar_dtype(float)


def default_complex() -> np.dtype[Any]:
    """``complex64``, or ``complex128`` under ``enable_x64``."""
    return python_scalar_dtype(complex)


def canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype itself, or its 32-bit counterpart while ``enable_x64`` is off."""
    return dtype if config.enable_x64 else NARROWED.get(dtype, dtype)


def as_dtype(spec: Any) -> AnyDType:
    """What a user wrote for a dtype (a dtype, a scalar type, a name), as a dtype. 64 bits are kept.

    Raises TypeError if it names none.
    """
    if isinstance(spec, _DTYPES):
        return spec
    if isinstance(spec, str) and spec in BY_NAME:
        return BY_NAME[spec]
    own: Any = getattr(spec, "dtype", None)
    if isinstance(own, _DTYPES):
        return own
    return np.dtype(spec)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that arrays of the given dtype have: 64-bit types narrow unless ``enable_x64``.

    Raises ValueError for an extended dtype unless `allow_extended_dtype`, TypeError for what is no
    dtype at all.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    dtype = as_dtype(dtype)
    if isinstance(dtype, ExtendedDType):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype: {dtype} is an extended dtype, not a plain one")
        return dtype
    return canonical(dtype)


def is_supported(dtype: Any) -> bool:
    """Whether arrays can have this dtype: a plain one in native byte order, float0 or a key."""
    return dtype in ENTRIES or dtype == float0 or isinstance(dtype, ExtendedDType)


def check_user_dtype_supported(dtype: Any, fun_name: str | None = None) -> AnyDType:
    """The dtype to use where a user passed ``dtype=`` to a function.

    ``None`` means the default float. Python's ``int``, ``float`` and ``complex`` mean the default
    types. An explicit 64-bit dtype follows the option ``explicit_x64_dtypes`` while ``enable_x64``
    is off: ``"warn"`` narrows it and warns, ``"error"`` raises ValueError, ``"allow"`` keeps it.

    Raises TypeError for a dtype that arrays cannot have.
    """
    if dtype is None:
        return default_float()
    if isinstance(dtype, type) and dtype in _PYTHON_WIDE:
        return python_scalar_dtype(dtype)
    found = as_dtype(dtype)
    if not is_supported(found):
        where = f"{fun_name}: " if fun_name else ""
        raise TypeError(
            f"{where}arrays cannot have dtype {found!r}; they hold booleans, integers, floats, "
            "complex numbers (in native byte order) and random keys"
        )
    if found in NARROWED and not config.enable_x64:
        return _explicit_64_bits(found, fun_name)  # type: ignore[arg-type]
    return found


def _explicit_64_bits(dtype: np.dtype[Any], fun_name: str | None) -> np.dtype[Any]:
    mode = config.explicit_x64_dtypes
    if mode == "allow":
        return dtype
    asked = f"dtype {dtype}" + (f" asked for by {fun_name}" if fun_name else "")
    if mode == "error":
        raise ValueError(
            f"{asked} is not available while enable_x64 is off; set enable_x64, or "
            "explicit_x64_dtypes='allow'"
        )
    warnings.warn(
        f"{asked} is not available while enable_x64 is off and is truncated to "
        f"{NARROWED[dtype]}; to use 64-bit types call config.update('enable_x64', True) at "
        "startup or set COVECTOR_ENABLE_X64=1",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
    return NARROWED[dtype]


def is_weakly_typed(x: Any) -> bool:
    """Whether a value takes the type of what it meets: Python numbers (not bool), weak arrays."""
    if type(x) in _WEAK_TYPES:
        return True
    return bool(getattr(x, "weak_type", False))


def dtype(x: Any) -> AnyDType:
    """The dtype that a value has, or would have as an array.

    Raises TypeError if it cannot be one.
    """
    return _typed(x)[0]


def dtype_and_weak_type(x: Any) -> tuple[AnyDType, bool]:
    """The dtype of a value, and whether it is weak."""
    return _typed(x)


def _typed(x: Any) -> tuple[AnyDType, bool]:
    kind: Any = x.__class__
    if kind in _PYTHON_WIDE:
        return python_scalar_dtype(kind), kind is not bool
    own: Any = getattr(x, "dtype", None)
    if isinstance(x, (np.ndarray, np.generic)):
        if own in ENTRIES:
            return canonical(own), False
        if own == float0:
            return float0, False
        raise TypeError(
            f"{_abridged(x)} has dtype {own!r}, which arrays cannot have; they hold booleans, "
            "integers, floats and complex numbers in native byte order"
        )
    if isinstance(own, _DTYPES) and not isinstance(x, type):
        return own, bool(getattr(x, "weak_type", False))
    for python in (bool, int, float, complex):  # subclasses, such as members of an IntEnum
        if isinstance(x, python):
            return python_scalar_dtype(python), python is not bool
    raise TypeError(f"{_abridged(x)} of type {kind.__name__} is not an array and has no dtype")


def _abridged(x: Any) -> str:
    text = " ".join(repr(x).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _operand(x: Any) -> tuple[AnyDType, bool]:
    """(dtype, weak) of an argument, which is a value or a dtype."""
    kind: Any = x.__class__
    if kind in _PYTHON_WIDE:
        return python_scalar_dtype(kind), kind is not bool
    if x is None:
        return default_float(), False
    if isinstance(x, type):
        if x in _PYTHON_WIDE:
            return python_scalar_dtype(x), x is not bool
        return check_user_dtype_supported(x), False
    if isinstance(x, (str, np.dtype)):
        return check_user_dtype_supported(x), False
    if isinstance(x, ExtendedDType):
        return x, False
    return _typed(x)


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that an operation on the arguments (values or dtypes) gives.

    With ``return_weak_type_flag`` also whether the result is weak, that is made of Python scalars
    alone so far.

    Raises ValueError without arguments, TypePromotionError if the types do not mix, TypeError for
    an argument that has no dtype.

    >>> result_type(1, np.float16)
    dtype('float16')
    >>> result_type(np.int8, np.uint8)
    dtype('int16')
    """
    if not args:
        raise ValueError("result_type needs at least one array or dtype")
    operands = tuple([_operand(x) for x in args])
    found, weak = operands[0]
    if len(operands) > 1 or weak:
        found, weak = join(operands)  # type: ignore[arg-type]
    return (found, weak) if return_weak_type_flag else found


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The common dtype of two dtypes; Python's ``int``, ``float``, ``complex`` count as weak.

    A 64-bit operand gives a 64-bit result, whatever ``enable_x64`` says. Raises TypePromotionError
    if there is none, ValueError for dtypes that take no part in promotion.

    >>> promote_types("int32", "float16")
    dtype('float16')
    """
    try:
        return promote_dtypes(a, b)
    except (KeyError, TypeError, ValueError):
        pass
    nodes: list[Any] = [spec if spec in _WEAK_TYPES else as_dtype(spec) for spec in (a, b)]
    for node in nodes:
        if node not in _WEAK_TYPES and node not in ENTRIES:
            raise ValueError(f"promote_types: {node} takes no part in type promotion")
    return promote_dtypes(*nodes)


def to_inexact_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The float or complex type in which a function such as ``sin`` or ``mean`` of it works."""
    return _INEXACT.get(dtype, dtype) if config.enable_x64 else _INEXACT_32.get(dtype, dtype)


_INEXACT: Final = {
    d: np.dtype(np.float64 if e.bits == 64 else np.float32)
    for d, e in ENTRIES.items()
    if e.kind in "biu"
}
_INEXACT_32: Final = {d: NARROWED.get(f, f) for d, f in _INEXACT.items()}


def to_complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type whose parts hold values of this dtype."""
    wide = ENTRIES[dtype].bits == 64 and ENTRIES[dtype].kind != "c"
    found = np.dtype(np.complex128) if wide or dtype == np.complex128 else np.dtype(np.complex64)
    return canonical(found)


def to_real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the real and imaginary parts; other dtypes are their own."""
    return _REAL.get(dtype, dtype)


_REAL: Final = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}

_scalar_classes: Final[dict[Any, type]] = {}
_subtypes: Final[dict[tuple[Any, Any], bool]] = {}


def _scalar_class(spec: Any) -> type:
    if isinstance(spec, type) and issubclass(spec, np.generic):
        return cast("type", spec)
    found = np.dtype(np.float64) if spec is None else as_dtype(spec)
    return found.type


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype `a` is `b` or belongs to the category `b`.

    As ``numpy.issubdtype``, but it knows the place of bfloat16, float8, int4 and random keys.

    >>> issubdtype("bfloat16", np.floating)
    True
    """
    try:
        return _subtypes[a, b]
    except KeyError:
        pass
    except TypeError:  # unhashable: an array, say
        return _issubdtype(a, b)
    return _subtypes.setdefault((a, b), _issubdtype(a, b))


def _issubdtype(a: Any, b: Any) -> bool:
    below, above = _scalar_class(a), _scalar_class(b)
    if issubclass(below, above):
        return True
    category = foreign_categories.get(below)
    return category is not None and issubclass(category, above)


def scalar_type_of(x: Any) -> type:
    """The Python type (bool, int, float or complex) that goes with a value or a dtype.

    >>> scalar_type_of(np.int8)
    <class 'int'>
    """
    found = _operand(x)[0]
    kind = python_kinds.get(found)  # type: ignore[arg-type]
    if kind is None:
        raise TypeError(f"scalar_type_of: no Python type goes with dtype {found}")
    return kind


def supports_inf(dtype: Any) -> bool:
    """Whether the float type has infinities: several of the 8-bit types have none."""
    found = as_dtype(dtype)
    entry = ENTRIES.get(found)  # type: ignore[arg-type]
    if entry is None or entry.kind not in "fc":
        return False
    return entry.bits > 8 or bool(np.isinf(found.type(np.inf)))  # type: ignore[call-arg]
