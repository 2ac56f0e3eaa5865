"""Scalar types such as `float32`, and questions about dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from covector import dtypes
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.runtime.array import Array
from covector.trace.tracer import Tracer


class _ScalarType(type):
    """The type of scalar types.  Calling one makes an array; it stands for its dtype anywhere."""

    dtype: np.dtype

    def __call__(cls, x: Any = 0) -> Any:
        return cnp.array(x, dtype=cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return other is cls or cls.dtype.type == other or cls.dtype == other

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'covector.numpy.{cls.__name__}'>"

    def __reduce__(cls) -> str:
        return cls.__name__


def _scalar_type(name: str) -> Any:
    dtype = dtypes.as_dtype(name)
    shown = "bool_" if name == "bool" else name
    doc = f"""The dtype {name}; calling it makes an array of that dtype.

    >>> import covector.numpy as cnp
    >>> cnp.dtype(cnp.{shown}).name
    {name!r}
    """
    body = {"dtype": dtype, "__doc__": doc, "__module__": "covector.numpy"}
    return _ScalarType(shown, (), body)


bool_ = _scalar_type("bool")
int2, int4, int8, int16, int32, int64 = (_scalar_type(f"int{n}") for n in (2, 4, 8, 16, 32, 64))
uint2, uint4, uint8, uint16, uint32, uint64 = (
    _scalar_type(f"uint{n}") for n in (2, 4, 8, 16, 32, 64)
)
float16, bfloat16, float32, float64 = map(
    _scalar_type, ("float16", "bfloat16", "float32", "float64")
)
complex64, complex128 = map(_scalar_type, ("complex64", "complex128"))
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

#: The dtypes that some releases of ml_dtypes lack.
narrow: dict[str, Any] = {
    name: _scalar_type(name)
    for name in (
        "int1", "uint1", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4",
        "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu",
    )
    if hasattr(ml_dtypes, name)
}  # fmt: skip


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a dtype (or the dtype of an array) can be cast to another by NumPy's rules.

    >>> import covector.numpy as cnp
    >>> cnp.can_cast("int32", "int8")
    False
    """
    given = from_.dtype if isinstance(from_, (Array, Tracer)) else dtypes.as_dtype(from_)
    return np.can_cast(given, dtypes.as_dtype(to), casting)  # type: ignore[arg-type]


_KINDS = {
    "bool": (np.bool_,),
    "signed integer": (np.signedinteger,),
    "unsigned integer": (np.unsignedinteger,),
    "integral": (np.integer,),
    "real floating": (np.floating,),
    "complex floating": (np.complexfloating,),
    "numeric": (np.number,),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name of a kind, or one of a tuple of them.

    Names: 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating',
    'complex floating', 'numeric'.

    >>> import covector.numpy as cnp
    >>> cnp.isdtype(cnp.float32, "real floating")
    True
    """
    given = dtypes.as_dtype(dtype)
    for option in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(option, str) and option in _KINDS:
            if any(dtypes.issubdtype(given, k) for k in _KINDS[option]):
                return True
        elif isinstance(option, str):
            raise ValueError(f"Unrecognized kind {option!r}; expected one of {list(_KINDS)}")
        elif isinstance(option, type) and issubclass(option, np.generic):
            if dtypes.issubdtype(given, option):
                return True
        elif given == dtypes.as_dtype(option):
            return True
    return False


def result_type(*args: Any) -> Any:
    """The dtype that an operation on the arguments (arrays, scalars, dtypes) gives.

    >>> import covector.numpy as cnp
    >>> cnp.result_type(1, cnp.float16)
    dtype('float16')
    """
    return dtypes.result_type(*args)


def promote_types(a: Any, b: Any) -> Any:
    """The common dtype of two dtypes.

    >>> import covector.numpy as cnp
    >>> cnp.promote_types("int32", "float16")
    dtype('float16')
    """
    return dtypes.promote_types(a, b)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is another or belongs to a category such as `floating`.

    >>> import covector.numpy as cnp
    >>> cnp.issubdtype(cnp.bfloat16, cnp.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex.

    >>> import covector.numpy as cnp
    >>> cnp.iscomplexobj(1j)
    True
    """
    if x is None:
        return False
    if isinstance(x, (list, tuple)):
        return np.iscomplexobj(x)
    return cnp.convert.is_kind(x, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    >>> import covector.numpy as cnp
    >>> cnp.isrealobj(1j)
    False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether it is a scalar: a Python or NumPy one, or an array of rank 0.

    >>> import covector.numpy as cnp
    >>> cnp.isscalar(cnp.array(3)), cnp.isscalar(cnp.ones(3))
    (True, False)
    """
    if isinstance(element, (np.ndarray, Array, Tracer)):
        return typeof(element).ndim == 0
    return np.isscalar(element)
