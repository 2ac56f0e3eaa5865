"""Native: a call's arguments into leaves and integers, and Python numbers into memory."""

from __future__ import annotations

from .capi import (
    PyDict_GetItemWithError,
    PyDict_Size,
    PyErr_Clear,
    PyFloat_AsDouble,
    PyList_GetItem,
    PyList_Size,
    PyLong_AsLongLongAndOverflow,
    PySlice_Unpack,
    PyTuple_GetItem,
    PyTuple_Size,
)
from .language import load32, stack, store8, store_f32, store_f64, word
from .pool_code import context
from .structs import (
    ARGUMENT,
    DICT,
    INTEGER,
    LEAF,
    LIST,
    NAMED,
    NONE,
    SAME,
    SLICE,
    TUPLE,
    Object,
    Pattern,
)

INT64_MIN = -(1 << 63)
INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1


def scalar(x: Object, where: word) -> word:
    """Writes a Python number to memory and gives its aval; 0 if it is none, or does not fit."""
    kind = x.type
    if context.quiet[0] != 0:  # this thread may see other scalar types than the process
        return 0
    if kind == context.float_type:
        value = PyFloat_AsDouble(x)
        if context.wide:
            store_f64(where, value)
        else:
            store_f32(where, value)
        return context.weak_float
    if kind == context.int_type:
        number = small_integer(x)
        if number == INT64_MIN or (context.wide == 0 and not fits_32(number)):
            return 0
        where[0] = number
        return context.weak_int
    if kind == context.bool_type:
        store8(where, 1 if x == context.true else 0)
        return context.strong_bool
    return 0


def fits_32(number: word) -> word:
    """Whether a word is a 32-bit integer."""
    return number >= INT32_MIN and number <= INT32_MAX


def small_integer(x: word) -> word:
    """The value of a Python int; INT64_MIN if it has more than 63 bits."""
    overflow = stack(1)
    value = PyLong_AsLongLongAndOverflow(x, overflow)
    if load32(overflow) != 0:
        return INT64_MIN
    return value


def match(pattern: Pattern, args: word, leaves: word, integers: word) -> word:
    """Takes the arguments apart into leaves and integers; 0 if the structure is another.

    Runs no Python code (keys are exact strings or ints), so references may be borrowed.
    """
    pending = integers + 8 * pattern.integers
    top = 0
    step = pattern.program
    end = step + 24 * pattern.steps
    leaf = 0
    integer = 0
    while step < end:
        kind = step[0]
        n = step[1]
        where = step[2]
        step = step + 24
        if kind == ARGUMENT:
            pending[top] = args[n]
            top += 1
            continue
        top -= 1
        x = Object(pending[top])
        if kind == LEAF:
            leaves[leaf] = x
            leaf += 1
        elif kind == TUPLE:
            if x.type != context.tuple_type or PyTuple_Size(x) != n:
                return 0
            top = push_tuple(x, n, pending, top)
        elif kind == LIST:
            if x.type != context.list_type or PyList_Size(x) != n:
                return 0
            i = n
            while i > 0:
                i -= 1
                pending[top] = PyList_GetItem(x, i)
                top += 1
        elif kind == DICT:
            if x.type != context.dict_type or PyDict_Size(x) != n:
                return 0
            i = n
            while i > 0:
                i -= 1
                value = PyDict_GetItemWithError(x, where[i])
                if value == 0:
                    PyErr_Clear()
                    return 0
                pending[top] = value
                top += 1
        elif kind == NAMED:
            if x.type != where or PyTuple_Size(x) != n:
                return 0
            top = push_tuple(x, n, pending, top)
        elif kind == NONE:
            if x != context.none:
                return 0
        elif kind == SAME:
            if x != where:
                return 0
        elif kind == SLICE:
            if same_slice(x, where) == 0:
                return 0
        elif kind == INTEGER:
            if x.type != context.int_type:
                return 0
            number = small_integer(x)
            if number == INT64_MIN:
                return 0
            integers[integer] = number
            integer += 1
    return 1


def same_slice(x: word, wanted: word) -> word:
    """Whether x is a slice with these parts; each is None or an exact int, so no code runs."""
    if Object(x).type != context.slice_type:
        return 0
    i = 0
    while i < 3:
        part = Object((x + 16)[i])
        if part != context.none and part.type != context.int_type:
            return 0
        i += 1
    parts = stack(3)
    if PySlice_Unpack(x, parts, parts + 8, parts + 16) < 0:
        PyErr_Clear()
        return 0
    return parts[0] == wanted[0] and parts[1] == wanted[1] and parts[2] == wanted[2]


def push_tuple(x: word, n: word, pending: word, top: word) -> word:
    """Pushes the items of a tuple, the first on top; the new height."""
    i = n
    while i > 0:
        i -= 1
        pending[top] = PyTuple_GetItem(x, i)
        top += 1
    return top
