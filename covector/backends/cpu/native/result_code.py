"""Native: a result's structure around a program's outputs."""

from __future__ import annotations

from .array_code import ON_STACK, release
from .capi import (
    Py_DecRef,
    Py_IncRef,
    PyDict_New,
    PyDict_SetItem,
    PyErr_NoMemory,
    PyList_New,
    PyList_SetItem,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
)
from .language import stack, word
from .pool_code import context
from .structs import DICT, LEAF, LIST, NAMED, NONE, Record


def drop(objects: word, count: word) -> None:
    """Releases so many references."""
    i = 0
    while i < count:
        Py_DecRef(objects[i])
        i += 1


def build(record: Record, outputs: word) -> word:
    """The result's structure around the outputs: a new reference, or 0 with an exception."""
    words = record.result_steps + 2
    if words <= ON_STACK:
        return build_in(record, outputs, stack(words))
    room = PyMem_RawMalloc(8 * words)
    if room == 0:
        return PyErr_NoMemory()
    result = build_in(record, outputs, room)
    PyMem_RawFree(room)
    return result


def build_in(record: Record, outputs: word, values: word) -> word:
    """As `build`; `values` is room for the parts."""
    argument = values + 8 * record.result_steps + 8
    top = 0
    step = record.result
    end = step + 24 * record.result_steps
    while step < end:
        kind = step[0]
        n = step[1]
        where = step[2]
        step = step + 24
        made = context.none
        if kind == LEAF:
            made = outputs[n]
            Py_IncRef(made)
        elif kind == NONE:
            Py_IncRef(made)
        else:
            top = top - n
            if kind == LIST:
                made = build_list(values + 8 * top, n)
            elif kind == DICT:
                made = build_dict(values + 8 * top, n, where)
            else:
                made = build_tuple(values + 8 * top, n)
                if kind == NAMED and made != 0:
                    items = made
                    argument[0] = items
                    made = PyObject_Vectorcall(where, argument, 1, 0)
                    Py_DecRef(items)
        if made == 0:
            drop(values, top)
            return 0
        values[top] = made
        top += 1
    return values[0]


def build_tuple(values: word, n: word) -> word:
    """A tuple of n values; takes over their references, also if it fails."""
    made = PyTuple_New(n)
    if made == 0:
        drop(values, n)
        return 0
    i = 0
    while i < n:
        PyTuple_SetItem(made, i, values[i])
        i += 1
    return made


def build_list(values: word, n: word) -> word:
    """A list of n values; takes over their references, also if it fails."""
    made = PyList_New(n)
    if made == 0:
        drop(values, n)
        return 0
    i = 0
    while i < n:
        PyList_SetItem(made, i, values[i])
        i += 1
    return made


def build_dict(values: word, n: word, keys: word) -> word:
    """A dict of n keys and values; takes over the values' references, also if it fails."""
    made = PyDict_New()
    failed = made == 0
    i = 0
    while i < n and failed == 0:
        failed = PyDict_SetItem(made, keys[i], values[i]) != 0
        i += 1
    drop(values, n)
    if failed != 0:
        release(made)
        return 0
    return made
