"""The C functions that native code calls: Python's, all of the stable ABI, and two of NumPy's."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from .language import Extern

Py_IncRef: Final = Extern("Py_IncRef", "vw")
Py_DecRef: Final = Extern("Py_DecRef", "vw")
PyObject_Malloc: Final = Extern("PyObject_Malloc", "ww")
PyObject_Free: Final = Extern("PyObject_Free", "vw")
PyObject_Init: Final = Extern("PyObject_Init", "www")
PyMem_RawMalloc: Final = Extern("PyMem_RawMalloc", "ww")
PyMem_RawFree: Final = Extern("PyMem_RawFree", "vw")
PyObject_ClearWeakRefs: Final = Extern("PyObject_ClearWeakRefs", "vw")
PyObject_GC_UnTrack: Final = Extern("PyObject_GC_UnTrack", "vw")
PyObject_GC_Del: Final = Extern("PyObject_GC_Del", "vw")
PyType_GenericAlloc: Final = Extern("PyType_GenericAlloc", "www")
PyObject_Vectorcall: Final = Extern("PyObject_Vectorcall", "wwwww")
PyObject_GetAttr: Final = Extern("PyObject_GetAttr", "www")
PyObject_GetAttrString: Final = Extern("PyObject_GetAttrString", "www")
PyMethod_New: Final = Extern("PyMethod_New", "www")
PyErr_NoMemory: Final = Extern("PyErr_NoMemory", "w")
PyErr_SetString: Final = Extern("PyErr_SetString", "vww")
PyErr_Clear: Final = Extern("PyErr_Clear", "v")
PyErr_Occurred: Final = Extern("PyErr_Occurred", "w")
PyEval_SaveThread: Final = Extern("PyEval_SaveThread", "w")
PyEval_RestoreThread: Final = Extern("PyEval_RestoreThread", "vw")
PyFloat_AsDouble: Final = Extern("PyFloat_AsDouble", "dw")
PyFloat_FromDouble: Final = Extern("PyFloat_FromDouble", "wd")
PyLong_AsLongLongAndOverflow: Final = Extern("PyLong_AsLongLongAndOverflow", "www")
PyLong_FromLongLong: Final = Extern("PyLong_FromLongLong", "ww")
PyLong_FromUnsignedLongLong: Final = Extern("PyLong_FromUnsignedLongLong", "ww")
PyDict_GetItemWithError: Final = Extern("PyDict_GetItemWithError", "www")
PyDict_Size: Final = Extern("PyDict_Size", "ww")
PyDict_New: Final = Extern("PyDict_New", "w")
PyDict_SetItem: Final = Extern("PyDict_SetItem", "iwww")
PyTuple_New: Final = Extern("PyTuple_New", "ww")
PyTuple_Size: Final = Extern("PyTuple_Size", "ww")
PyTuple_GetItem: Final = Extern("PyTuple_GetItem", "www")
PyTuple_SetItem: Final = Extern("PyTuple_SetItem", "iwww")
PyList_New: Final = Extern("PyList_New", "ww")
PyList_Size: Final = Extern("PyList_Size", "ww")
PyList_GetItem: Final = Extern("PyList_GetItem", "www")
PyList_SetItem: Final = Extern("PyList_SetItem", "iwww")
PySlice_Unpack: Final = Extern("PySlice_Unpack", "iwwww")
memmove: Final = Extern("memmove", "wwww")
PyArray_NewFromDescr: Final = Extern("PyArray_NewFromDescr", "wwwiwwwiw")
PyArray_SetBaseObject: Final = Extern("PyArray_SetBaseObject", "iww")

#: Index in the table of functions that NumPy publishes for C (numpy/__multiarray_api.h).
_NUMPY: Final = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}

EXTERNS: Final = tuple(x for x in list(globals().values()) if isinstance(x, Extern))


def address(name: str, numpy_table: int) -> int:
    """Where the function is in this process."""
    if name in _NUMPY:
        slot = numpy_table + 8 * _NUMPY[name]
        return ctypes.c_void_p.from_address(slot).value or 0
    function: Any = ctypes.memmove if name == "memmove" else getattr(ctypes.pythonapi, name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0
