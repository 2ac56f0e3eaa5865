"""Arrays from and to other libraries through DLPack, by its C structures."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import ml_dtypes
import numpy as np

from covector.dtypes import ExtendedDType
from covector.ir.avals import ShapedArray
from covector.runtime import array as arrays
from covector.runtime.array import Array, from_numpy
from covector.runtime.pool import ALIGNMENT

# DLPack (dmlc.github.io/dlpack): the structures of dlpack.h, versions 0.8 and 1.x.


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """What a capsule named `dltensor` points at."""


class _Versioned(ctypes.Structure):
    """What a capsule named `dltensor_versioned` points at."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (
    ("tensor", _Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", ctypes.c_void_p),
)
_Versioned._fields_ = (
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", ctypes.c_void_p),
    ("flags", ctypes.c_uint64),
    ("tensor", _Tensor),
)
_READ_ONLY: Final = 1
_CPU: Final = 1
#: Device types whose memory the host reads: CPU, and the host memory of CUDA and ROCm.
_HOST: Final = (1, 3, 11)

# (code, bits) of a DLDataType -> dtype.
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_ML: Final = {
    (4, 16): "bfloat16",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
_NAMES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_FROM_DLPACK: Final[dict[tuple[int, int], np.dtype]] = {
    (_CODES[d.kind], 8 * d.itemsize): d for d in map(np.dtype, _NAMES)
} | {
    code: np.dtype(getattr(ml_dtypes, name))
    for code, name in _ML.items()
    if hasattr(ml_dtypes, name)
}
_TO_DLPACK: Final = {dtype: code for code, dtype in _FROM_DLPACK.items()}

_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)
# By address, for the destructor: the capsule is dying, ctypes must not count references to it.
_pointer_raw = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid_raw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)


class _Export:
    """One exported tensor: what its C structure points at, and the memory behind it."""

    __slots__ = ("extents", "managed", "memory", "name")

    def __init__(self, memory: np.ndarray, dtype: np.dtype, versioned: bool, copied: bool) -> None:
        code = _TO_DLPACK.get(dtype)
        if code is None:
            raise BufferError(f"DLPack has no type for elements of dtype {dtype}")
        n = memory.ndim
        steps = [s // dtype.itemsize for s in memory.strides]
        self.memory = memory
        self.extents = (ctypes.c_int64 * (2 * n + 1))(*memory.shape, *steps)
        self.managed = managed = _Versioned() if versioned else _Managed()
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        tensor: Any = managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = memory.ctypes.data, _CPU, n
        tensor.dtype = _Type(code[0], code[1], 1)
        tensor.shape = ctypes.cast(self.extents, ctypes.POINTER(ctypes.c_int64))
        stride = ctypes.addressof(self.extents) + 8 * n
        tensor.strides = ctypes.cast(stride, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = ctypes.cast(_release, ctypes.c_void_p).value
        if versioned:
            managed.major, managed.minor, managed.flags = 1, 0, (2 if copied else _READ_ONLY)


_exports: Final[dict[int, _Export]] = {}


@_Deleter
def _release(managed: int) -> None:
    """What the consumer calls when it has done with a tensor of ours, from any thread."""
    _exports.pop(managed, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule: int) -> None:
    """A capsule dies: if nobody consumed it, its tensor is ours to release."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid_raw(capsule, name):
            _exports.pop(_pointer_raw(capsule, name), None)


def to_dlpack(
    x: Array,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the memory of `x` (`x.__dlpack__`); without a copy unless asked.

    Raises BufferError if the consumer wants another device, or DLPack lacks the dtype.
    """
    if stream is not None:
        raise BufferError(f"__dlpack__: arrays on the CPU have no stream; got stream={stream!r}")
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != (_CPU, 0):
        raise BufferError(f"__dlpack__: the array is on the CPU; got dl_device={dl_device}")
    if isinstance(x.dtype, ExtendedDType):
        raise BufferError(f"DLPack has no type for elements of dtype {x.dtype}")
    view = arrays.host(x)
    memory = np.array(view) if copy else view
    versioned = max_version is not None and max_version[0] >= 1
    export = _Export(memory, view.dtype, versioned, bool(copy))
    address = ctypes.addressof(export.managed)
    _exports[address] = export
    return _new_capsule(address, export.name, ctypes.cast(_drop_capsule, ctypes.c_void_p))


class _Import:
    """A tensor of another library: calls its deleter when we have done with it."""

    __slots__ = ("address", "deleter", "interface")

    def __init__(self, capsule: Any) -> None:
        self.deleter = 0  # nothing is ours yet
        versioned = bool(_is_valid(capsule, b"dltensor_versioned"))
        name = b"dltensor_versioned" if versioned else b"dltensor"
        if not _is_valid(capsule, name):
            raise TypeError(f"from_dlpack: a capsule that nobody consumed is wanted; got {capsule}")
        self.address = address = _pointer(capsule, name)
        managed = (_Versioned if versioned else _Managed).from_address(address)
        self.interface = _interface(managed.tensor)
        self.deleter = managed.deleter
        # From here on the tensor is ours; the name must outlive the capsule, so it is a constant.
        _rename(capsule, _USED_VERSIONED if versioned else _USED)

    def __del__(self) -> None:
        if self.deleter:
            _Deleter(self.deleter)(self.address)


_USED: Final = b"used_dltensor"
_USED_VERSIONED: Final = b"used_dltensor_versioned"


def _interface(tensor: _Tensor) -> tuple[tuple[int, ...], np.dtype, int, tuple[int, ...] | None]:
    """(shape, dtype, address, strides in bytes) of a tensor in host memory."""
    if tensor.device_type not in _HOST:
        raise BufferError(f"from_dlpack: memory of device type {tensor.device_type} is not host's")
    code = (tensor.dtype.code, tensor.dtype.bits)
    dtype = _FROM_DLPACK.get(code)
    if dtype is None or tensor.dtype.lanes != 1:
        raise TypeError(f"from_dlpack: no dtype for DLPack type code {code}")
    n = tensor.ndim
    shape = tuple(tensor.shape[:n])
    strides = tuple(s * dtype.itemsize for s in tensor.strides[:n]) if tensor.strides else None
    return shape, dtype, (tensor.data or 0) + tensor.byte_offset, strides


class _Window:
    """Memory at an address as NumPy understands it; keeps its owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, shape: Any, itemsize: int, address: int, strides: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": f"|V{itemsize}",
            "data": (address, True),
            "strides": strides,
        }


def from_dlpack(external: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An Array over the memory of another library's array, through the DLPack protocol.

    external: has `__dlpack__` and `__dlpack_device__`, or is a DLPack capsule.
    copy: None shares the memory where it is dense and aligned, True always copies, False raises
    ValueError where a copy would be needed.

    >>> from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    tensor = _Import(_capsule_of(external))
    shape, dtype, address, strides = tensor.interface
    if not all(shape) or not address:
        return from_numpy(np.empty(shape, dtype), ShapedArray(shape, dtype), give=True)
    elements = np.asarray(_Window(tensor, shape, dtype.itemsize, address, strides)).view(dtype)
    shares = elements.flags.c_contiguous and address % ALIGNMENT == 0
    if copy is False and not shares:
        raise ValueError(
            f"from_dlpack: copy=False, but an array of shape {shape} with strides {strides} at "
            f"address {address:#x} is not dense in C order at a multiple of {ALIGNMENT} bytes"
        )
    aval = ShapedArray(shape, dtype)
    keep = shares and not copy
    return arrays.wrap(aval, arrays.keep(elements) if keep else arrays.copy_in(elements))


def _capsule_of(external: Any) -> Any:
    if type(external).__name__ == "PyCapsule":
        return external
    if not hasattr(external, "__dlpack__"):
        raise TypeError(
            f"from_dlpack: an object with __dlpack__ is wanted; got {type(external).__name__}"
        )
    try:
        return external.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer older than DLPack 1.0
        return external.__dlpack__()


def dlpack_device(x: Array) -> tuple[int, int]:
    """(kDLCPU, 0): `x.__dlpack_device__`."""
    return _CPU, 0
