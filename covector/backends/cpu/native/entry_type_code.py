"""Native: the type of entries: made, bound as methods, visited by the collector, freed."""

from __future__ import annotations

from .array_code import release
from .capi import (
    Py_DecRef,
    Py_IncRef,
    PyErr_Clear,
    PyMethod_New,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyObject_GetAttrString,
    PyType_GenericAlloc,
)
from .entry_code import call_entry
from .language import address_of, call, stack, text, word
from .pool_code import context
from .structs import Entry, Index


def entry_new(kind: word, args: word, names: word) -> word:
    """tp_new."""
    self = PyType_GenericAlloc(kind, 0)
    if self != 0:
        entry = Entry(self)
        entry.vectorcall = address_of(call_entry)
        # A class with a method `fallback` has it here too (`NativeRuntime.entry_type`).
        method = PyObject_GetAttrString(kind, text("_fallback_method"))
        if method != 0:
            entry.fallback = method
            entry.is_method = 1
        else:
            PyErr_Clear()
            Py_IncRef(context.none)
            entry.fallback = context.none
    return self


def entry_bind(self: word, instance: word, owner: word) -> word:
    """tp_descr_get: an entry in a class is a method."""
    if instance == 0 or instance == context.none:
        Py_IncRef(self)
        return self
    return PyMethod_New(self, instance)


def entry_traverse(self: word, visit: word, argument: word) -> word:
    """tp_traverse."""
    entry = Entry(self)
    fields = stack(4)
    fields[0] = entry.type
    fields[1] = entry.fallback
    fields[2] = entry.state
    fields[3] = entry.dict
    i = 0
    while i < 4:
        if fields[i] != 0:
            stop = call(visit, fields[i], argument) & 0xFFFFFFFF
            if stop != 0:
                return stop
        i += 1
    return 0


def entry_clear(self: word) -> word:
    """tp_clear."""
    entry = Entry(self)
    entry.index = Index(0)
    fallback = entry.fallback
    state = entry.state
    attributes = entry.dict
    Py_IncRef(context.none)
    entry.fallback = context.none
    entry.state = 0
    entry.dict = 0
    release(fallback)
    release(state)
    release(attributes)
    return 0


def entry_free(self: word) -> None:
    """tp_dealloc."""
    PyObject_GC_UnTrack(self)
    entry = Entry(self)
    kind = entry.type
    if entry.weakrefs != 0:
        PyObject_ClearWeakRefs(self)
    entry.index = Index(0)
    release(entry.fallback)
    release(entry.state)
    release(entry.dict)
    PyObject_GC_Del(self)
    Py_DecRef(kind)
