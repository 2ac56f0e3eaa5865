"""Native: `x.at` and `x.at[index]`, which are made for one use each."""

from __future__ import annotations

from .array_code import release
from .capi import (
    Py_DecRef,
    Py_IncRef,
    PyErr_NoMemory,
    PyObject_Free,
    PyObject_Init,
    PyObject_Malloc,
    PyTuple_SetItem,
    PyType_GenericAlloc,
)
from .language import sizeof, word
from .pool_code import context
from .structs import Helper


def at_get(self: word, x: word, owner: word) -> word:
    """tp_descr_get of the descriptor `at`: a helper for an array; itself for the class."""
    if x == 0 or x == context.none:
        Py_IncRef(self)
        return self
    memory = PyObject_Malloc(sizeof(Helper))
    if memory == 0:
        return PyErr_NoMemory()
    helper = Helper(PyObject_Init(memory, context.helper_type))
    Py_IncRef(x)
    helper.array = x
    return helper


def helper_free(self: word) -> None:
    """tp_dealloc of the helper."""
    helper = Helper(self)
    kind = helper.type
    release(helper.array)
    PyObject_Free(self)
    Py_DecRef(kind)


def helper_subscript(self: word, index: word) -> word:
    """mp_subscript of the helper: the named tuple (array, index)."""
    made = PyType_GenericAlloc(context.update_type, 2)
    if made == 0:
        return 0
    x = Helper(self).array
    Py_IncRef(x)
    PyTuple_SetItem(made, 0, x)
    Py_IncRef(index)
    PyTuple_SetItem(made, 1, index)
    return made
