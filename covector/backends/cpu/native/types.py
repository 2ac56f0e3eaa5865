"""Native: Python types with native parts, made with `PyType_FromSpec` from ordinary classes.

A class states its Python methods; the type made from it has them, C fields where the class had
slots, and native functions for some special methods.  Only the stable ABI is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

# typeslots.h
SLOTS: Final = {
    "bf_getbuffer": 1, "mp_subscript": 5, "nb_absolute": 6, "nb_add": 7, "nb_and": 8,
    "nb_bool": 9, "nb_divmod": 10, "nb_float": 11, "nb_floor_divide": 12, "nb_index": 13,
    "nb_int": 26, "nb_invert": 27, "nb_lshift": 28, "nb_multiply": 29, "nb_negative": 30,
    "nb_or": 31, "nb_positive": 32, "nb_power": 33, "nb_remainder": 34, "nb_rshift": 35,
    "nb_subtract": 36, "nb_true_divide": 37, "nb_xor": 38, "tp_call": 50, "tp_clear": 51,
    "tp_dealloc": 52, "tp_descr_get": 54, "tp_methods": 64, "tp_new": 65, "tp_richcompare": 67,
    "tp_traverse": 71, "tp_members": 72, "tp_getset": 73, "nb_matrix_multiply": 75,
}  # fmt: skip

# object.h
DEFAULT: Final = 1 << 18  # Py_TPFLAGS_HAVE_VERSION_TAG, what Py_TPFLAGS_DEFAULT has since 3.8
HAVE_GC: Final = 1 << 14
HAVE_VECTORCALL: Final = 1 << 11
DISALLOW_INSTANTIATION: Final = 1 << 7
METHOD_DESCRIPTOR: Final = 1 << 17

# descrobject.h: kinds of members.
OBJECT: Final = 16  # Py_T_OBJECT_EX
SIZE: Final = 19  # Py_T_PYSSIZET
READ_ONLY: Final = 1

# methodobject.h
FASTCALL: Final = 0x80
KEYWORDS: Final = 0x02
NONE: Final = 0x04  # METH_NOARGS
ONE: Final = 0x08  # METH_O


class Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Property(ctypes.Structure):
    """PyGetSetDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


def attribute_dictionary() -> Property:
    """`__dict__`, for a type that has a field for it."""
    api = ctypes.pythonapi
    accessors = (api.PyObject_GenericGetDict, api.PyObject_GenericSetDict)
    return Property(b"__dict__", *(ctypes.cast(f, ctypes.c_void_p) for f in accessors), None, None)


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(
    ("PyType_FromSpec", ctypes.pythonapi)
)
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(Method), ctypes.c_void_p, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))

_add_reference = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def for_ever(x: Any) -> Any:
    """Keeps an object until the process ends.

    Native code refers to it, and runs as long as there are arrays: while the interpreter shuts
    down it clears modules, and what they alone kept is gone before the last array is.
    """
    _add_reference(x)
    return x


#: What types and functions refer to.
_kept: Final[list[Any]] = for_ever([])


def function(name: str, address: int, flags: int, doc: str) -> Any:
    """A builtin function over native code."""
    definition = Method(name.encode(), address, flags, doc.encode())
    _kept.append(definition)
    return _new_function(ctypes.byref(definition), None, None)


def make_type(
    name: str,
    size: int,
    slots: Mapping[str, int],
    members: list[Member],
    methods: Sequence[Method] = (),
    properties: Sequence[Property] = (),
    flags: int = 0,
    namespace: Mapping[str, Any] | None = None,
) -> type:
    """A heap type of `size` bytes with native `slots` (name -> address), members and so on.

    namespace: Python attributes to set on it, such as the methods of a class.
    """
    arrays = {
        "tp_members": (Member * (len(members) + 1))(*members),
        "tp_methods": (Method * (len(methods) + 1))(*methods),
        "tp_getset": (Property * (len(properties) + 1))(*properties),
    }
    entries = [(SLOTS[slot], address) for slot, address in slots.items()]
    entries += [(SLOTS[slot], ctypes.addressof(array)) for slot, array in arrays.items()]
    slot_array = (_Slot * (len(entries) + 1))(*(_Slot(*entry) for entry in entries))
    spec = _Spec(name.encode(), size, 0, DEFAULT | flags, slot_array)
    _kept.append((arrays, slot_array, spec))
    made = _from_spec(ctypes.byref(spec))
    for key, value in (namespace or {}).items():
        setattr(made, key, value)
    return made


#: What a class has of itself, and a type made from it has of its own.
_OWN: Final = frozenset({"__dict__", "__weakref__", "__slots__", "__module__", "__qualname__"})


def attributes(cls: type, without: frozenset[str]) -> dict[str, Any]:
    """What to take over from a class: all but its slots and `without`."""
    slots = cls.__dict__.get("__slots__", ())
    skipped = _OWN | without | set((slots,) if isinstance(slots, str) else slots)
    return {k: v for k, v in vars(cls).items() if k not in skipped}
