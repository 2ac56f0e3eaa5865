"""Native: what the runtime uses (`covector.runtime.native.Native`), over the compiled code."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from covector import dtypes
from covector._base.context import quiet
from covector.ir.avals import ShapedArray
from covector.runtime.pool import exhausted

from . import structs, types
from .build import Code, ctypes_structure, numpy_data_offset
from .index import NativeIndex
from .types import FASTCALL, KEYWORDS, NONE, OBJECT, ONE, READ_ONLY, SIZE, Member, Method

#: Special methods with a native form: name -> (slots of the type, native functions, fallback).
_CONVERSIONS: Final = {
    "__float__": ("nb_float", "array_float", 2),
    "__int__": ("nb_int", "array_int", 3),
    "__index__": ("nb_index", "array_index", 4),
    "__bool__": ("nb_bool", "array_bool", 5),
}
_METHODS: Final = {
    "__array__": ("array_to_numpy", FASTCALL | KEYWORDS, 0),
    "item": ("array_item", FASTCALL, 1),
    "block_until_ready": ("array_ready", NONE, 6),
}
_OF_THE_AVAL: Final = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "weak_type")
_BINARY: Final = (
    ("add", "nb_add", "array_add"),
    ("sub", "nb_subtract", "array_subtract"),
    ("mul", "nb_multiply", "array_multiply"),
    ("mod", "nb_remainder", "array_remainder"),
    ("divmod", "nb_divmod", "array_divmod"),
    ("pow", "nb_power", "array_power"),
    ("lshift", "nb_lshift", "array_lshift"),
    ("rshift", "nb_rshift", "array_rshift"),
    ("and", "nb_and", "array_and"),
    ("xor", "nb_xor", "array_xor"),
    ("or", "nb_or", "array_or"),
    ("floordiv", "nb_floor_divide", "array_floor_divide"),
    ("truediv", "nb_true_divide", "array_true_divide"),
    ("matmul", "nb_matrix_multiply", "array_matrix_multiply"),
)
_COMPARISONS: Final = ("lt", "le", "eq", "ne", "gt", "ge")
_UNARY: Final = (
    ("neg", "nb_negative", "array_negative"),
    ("pos", "nb_positive", "array_positive"),
    ("abs", "nb_absolute", "array_absolute"),
    ("invert", "nb_invert", "array_invert"),
)

#: Operator -> its place in `Context.operators`.
PLACES: Final[dict[str, int]] = {
    **{f"__{name}__": i for i, (name, _, _) in enumerate(_BINARY)},
    **{f"__{name}__": structs.FIRST_COMPARISON + i for i, name in enumerate(_COMPARISONS)},
    **{f"__{name}__": structs.FIRST_UNARY + i for i, (name, _, _) in enumerate(_UNARY)},
    "__getitem__": structs.SUBSCRIPT,
}
#: Special method -> the place of its Python function in `Context.fallbacks`.
_FALLBACKS: Final[dict[str, int]] = {
    **{name: place for name, (_, _, place) in {**_CONVERSIONS, **_METHODS}.items()},
    **{name: structs.OPERATOR_FALLBACKS + 2 * place for name, place in PLACES.items()},
    **{
        f"__r{name}__": structs.OPERATOR_FALLBACKS + 2 * i + 1
        for i, (name, _, _) in enumerate(_BINARY)
    },
}


class NativeAllocator:
    """The native pool, as `runtime.pool` sees it."""

    def __init__(self, code: Code, limit: int) -> None:
        self.state = code.structure(structs.Pool, "pool")
        self.lists = (ctypes.c_uint64 * 256)()
        self.state.free = ctypes.addressof(self.lists)
        self.state.limit = limit
        self.state.advise = _madvise()
        self._trim = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("trim"))

    def stats(self) -> tuple[int, int, int]:
        """(bytes in use, bytes cached, peak of bytes in use)."""
        return self.state.in_use, self.state.cached, self.state.peak

    def trim(self, keep: int) -> int:
        """Gives cached blocks back until `keep` bytes remain; returns bytes freed."""
        return self._trim(keep)

    def set_limit(self, nbytes: int) -> None:
        """Bounds what is cached."""
        self.state.limit = nbytes
        self._trim(nbytes)


def _madvise() -> int:
    """Where madvise is, on Linux: only there does it know huge pages."""
    if sys.platform != "linux":
        return 0
    function = getattr(ctypes.CDLL(None), "madvise", None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


class NativeRuntime:
    """The compiled runtime of this process; there is one."""

    def __init__(self, code: Code, limit: int) -> None:
        types.for_ever(self)
        self.code = code
        self.context = code.structure(structs.Context, "context")
        self.allocator = NativeAllocator(code, limit)
        self.layouts: dict[ShapedArray, int] = {}
        self.kept: list[Any] = []  # what the context points at
        self.fallbacks = (ctypes.c_uint64 * structs.FALLBACKS)()
        self.operators = (ctypes.c_uint64 * structs.OPERATORS)()
        self.functions: dict[int, Any] = {}  # what `fallbacks` and `operators` point at
        self._fill_context()
        self.host: Callable[[Any], np.ndarray] = self._function("host", ONE)
        self.copy_in: Callable[..., Any] = self._function("copy_in", FASTCALL)
        #: The program that runs others in sequence, see `runtime.sequence`.
        self.run_sequence = code.address("run_sequence")
        #: Those for one row, see `runtime.rows`.
        self.read_row, self.write_row = code.address("read_row"), code.address("write_row")
        self.wrap: Callable[..., Any] = self._function("wrap", FASTCALL)
        self.replace_buffer: Callable[[Any, Any], None] = self._function("replace_buffer", FASTCALL)
        self.adopt: Callable[[np.ndarray, int], Any] = self._function("adopt", FASTCALL)

    def _function(self, name: str, flags: int) -> Any:
        return types.function(name, self.code.address(name), flags, f"native {name}")

    def _point(self, field: str, target: Any) -> None:
        """Makes a field of the context refer to an object, which is kept."""
        self.kept.append(target)
        setattr(self.context, field, id(target))

    def _fill_context(self) -> None:
        context = self.context
        context.quiet = ctypes.addressof(quiet)
        for field, target in (
            ("float_type", float), ("int_type", int), ("bool_type", bool),
            ("tuple_type", tuple), ("list_type", list), ("dict_type", dict), ("slice_type", slice),
            ("none", None),
            ("true", True), ("false", False), ("not_implemented", NotImplemented),
            ("buffer_error", BufferError), ("type_error", TypeError), ("exhausted", exhausted),
            ("array_class", np.ndarray), ("layouts", self.layouts),
            ("make_layout", self.make_layout),
        ):  # fmt: skip
            self._point(field, target)
        context.array_data = numpy_data_offset()
        context.fallbacks = ctypes.addressof(self.fallbacks)
        context.operators = ctypes.addressof(self.operators)
        self._point("buffer_type", self._buffer_type())

    def _buffer_type(self) -> type:
        members = [
            Member(b"address", SIZE, structs.Buffer.offset("address"), READ_ONLY, None),
            Member(b"nbytes", SIZE, structs.Buffer.offset("nbytes"), READ_ONLY, None),
            Member(b"owner", OBJECT, structs.Buffer.offset("owner"), READ_ONLY, None),
        ]
        return types.make_type(
            "covector.runtime.array.Buffer",
            structs.Buffer.size(),
            {"tp_dealloc": self.code.address("free_buffer")},
            members,
            flags=types.DISALLOW_INSTANTIATION,
        )

    # The types.

    def array_type(self, cls: type) -> type:
        """`cls` with C fields for its slots and native forms of conversions and operators."""
        slots = {"tp_dealloc": "free_array", "bf_getbuffer": "get_buffer"}
        slots |= {slot: function for slot, function, _ in _CONVERSIONS.values()}
        slots |= {slot: function for _, slot, function in (*_BINARY, *_UNARY)}
        slots |= {"tp_richcompare": "array_compare", "mp_subscript": "array_subscript"}
        methods = [
            Method(name.encode(), self.code.address(function), flags, None)
            for name, (function, flags, _) in _METHODS.items()
        ]
        offset = structs.Array.offset
        members = [
            Member(b"aval", OBJECT, offset("aval"), READ_ONLY, None),
            Member(b"buffer", OBJECT, offset("buffer"), READ_ONLY, None),
            Member(b"_sharding", OBJECT, offset("sharding"), 0, None),
            Member(b"__weaklistoffset__", SIZE, offset("weakrefs"), READ_ONLY, None),
        ]
        for name in (*_CONVERSIONS, *_METHODS):
            self.set_method(name, vars(cls)[name])
        made = types.make_type(
            f"{cls.__module__}.{cls.__qualname__}",
            structs.Array.size(),
            {slot: self.code.address(function) for slot, function in slots.items()},
            members,
            methods,
            [self._getter(name, vars(cls)[name]) for name in _OF_THE_AVAL],
            namespace=types.attributes(cls, frozenset((*_CONVERSIONS, *_METHODS, *_OF_THE_AVAL))),
        )
        self._point("array_type", made)
        return made

    def _getter(self, name: str, documented: Any) -> types.Property:
        """A property that reads an attribute of the aval."""
        interned = sys.intern(name)
        self.kept.append(interned)
        doc = (documented.__doc__ or "").encode()
        getter = self.code.address("attribute_of_aval")
        return types.Property(name.encode(), getter, None, doc, id(interned))

    def connect(self, resolve: Callable[[Any], Any], from_numpy: Callable[[Any], Any]) -> None:
        """What native code needs of Python: see `covector.runtime.native.Native`."""
        self._point("from_numpy", from_numpy)
        self._point("resolve", resolve)

    def set_method(self, name: str, method: Any) -> bool:
        """Takes the Python function behind a native special method; False if `name` is none."""
        place = _FALLBACKS.get(name)
        if place is None:
            return False
        self.functions[place] = method
        self.fallbacks[place] = id(method)
        return True

    def set_operator(self, name: str, entry: Any) -> None:
        """Puts an entry before the Python function of an operator."""
        place = PLACES[name]
        self.functions[-1 - place] = entry
        self.operators[place] = id(entry)

    def entry_type(self, cls: type) -> type:
        """`cls` as a type whose instances try their records first, then `fallback`."""
        offset = structs.Entry.offset
        method = vars(cls).get("fallback")
        members = [
            Member(b"_fallback" if method else b"fallback", OBJECT, offset("fallback"), 0, None),
            Member(b"_state", OBJECT, offset("state"), READ_ONLY, None),
            Member(b"__vectorcalloffset__", SIZE, offset("vectorcall"), READ_ONLY, None),
            Member(b"__dictoffset__", SIZE, offset("dict"), READ_ONLY, None),
            Member(b"__weaklistoffset__", SIZE, offset("weakrefs"), READ_ONLY, None),
        ]
        slots = {
            "tp_new": "entry_new", "tp_dealloc": "entry_free", "tp_traverse": "entry_traverse",
            "tp_clear": "entry_clear", "tp_descr_get": "entry_bind",
        }  # fmt: skip
        addresses = {slot: self.code.address(function) for slot, function in slots.items()}
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
        flags = types.HAVE_GC | types.HAVE_VECTORCALL | types.METHOD_DESCRIPTOR
        namespace = types.attributes(cls, frozenset({"__call__", "__get__", "__new__"}))
        if method is not None:
            namespace["_fallback_method"] = method
        return types.make_type(
            f"{cls.__module__}.{cls.__qualname__}",
            structs.Entry.size(),
            {**addresses, "tp_call": call or 0},
            members,
            properties=[types.attribute_dictionary()],
            flags=flags,
            namespace=namespace,
        )

    def helper_type(self, helper: type, update: type) -> Any:
        """`helper` and the making of `update` natively; the descriptor that gives helpers."""
        address = self.code.address
        made = types.make_type(
            f"{helper.__module__}.{helper.__qualname__}",
            structs.Helper.size(),
            {"tp_dealloc": address("helper_free"), "mp_subscript": address("helper_subscript")},
            [Member(b"array", OBJECT, structs.Helper.offset("array"), READ_ONLY, None)],
            flags=types.DISALLOW_INSTANTIATION,
            namespace=types.attributes(helper, frozenset({"__init__", "__getitem__"})),
        )
        self._point("helper_type", made)
        self._point("update_type", update)
        descriptor = types.make_type(
            f"{helper.__module__}.Descriptor",
            structs.Object.size(),
            {"tp_descr_get": address("at_get")},
            [],
            namespace={"__doc__": helper.__doc__},
        )
        return descriptor()

    def add_record(self, entry: Any, pattern: Any, record: Any, always: bool) -> None:
        """Files a record under a pattern; always: it serves whatever the quiet word says."""
        old = getattr(entry, "_state", None)
        new = (old or NativeIndex()).with_record(pattern, record)
        if new is not old:
            self._set_index(entry, new)
        ctypes_structure(structs.Entry).from_address(id(entry)).always = int(always)

    def clear_records(self, entry: Any) -> None:
        """Forgets all records of an entry."""
        self._set_index(entry, None)

    def swap_records(self, entry: Any, records: Any) -> Any:
        """Gives an entry other records (what this returned before, or None); returns its own."""
        old = getattr(entry, "_state", None)
        self._set_index(entry, records)
        return old

    def record_count(self, entry: Any) -> int:
        """How many records an entry has."""
        index = getattr(entry, "_state", None)
        return 0 if index is None else sum(len(p.records) for p in index.patterns)

    def _set_index(self, entry: Any, index: NativeIndex | None) -> None:
        """Makes an entry use an index; the old one goes when no running call needs it."""
        fields = ctypes_structure(structs.Entry).from_address(id(entry))
        old = getattr(entry, "_state", None)
        if index is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(index))
        fields.index = 0 if index is None else index.address
        fields.state = 0 if index is None else id(index)
        if old is not None:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))

    def set_scalars(
        self, weak_float: ShapedArray, weak_int: ShapedArray, strong_bool: ShapedArray, wide: bool
    ) -> None:
        """The avals of Python numbers under the current options."""
        self._point("weak_float", weak_float)
        self._point("weak_int", weak_int)
        self._point("strong_bool", strong_bool)
        self.context.wide = int(wide)

    # Layouts.

    def make_layout(self, aval: ShapedArray) -> int:
        """The address of what native code needs to know of `aval`; for ever."""
        dtype = dtypes.physical_dtype(aval.dtype)
        shape = aval.shape
        strides = _strides(shape, dtype.itemsize)
        extents = (ctypes.c_int64 * (2 * len(shape) + 1))(*shape, *strides)
        extended = isinstance(aval.dtype, dtypes.ExtendedDType)
        text = None if extended else _format(dtype)
        layout = ctypes_structure(structs.Layout)(
            kind=ord(dtype.kind) if dtype.isbuiltin == 1 and dtype.isnative else 0,
            itemsize=dtype.itemsize,
            ndim=len(shape),
            size=aval.size,
            nbytes=aval.size * dtype.itemsize,
            format=0 if text is None else ctypes.cast(text, ctypes.c_void_p).value,
            shape=ctypes.addressof(extents),
            strides=ctypes.addressof(extents) + 8 * len(shape),
            dtype=id(dtype),
            extended=int(extended),
        )
        self.kept.append((layout, extents, text, dtype))
        self.layouts[aval] = ctypes.addressof(layout)
        return self.layouts[aval]


def _strides(shape: Sequence[int], itemsize: int) -> list[int]:
    """Strides in bytes of a dense array in C order."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]


def _format(dtype: np.dtype) -> Any:
    """The buffer protocol's format of a dtype, as a C string, or None if it has none."""
    if dtype.isbuiltin != 1 or dtype.kind not in "biufc":
        return None
    prefix = "Z" if dtype.kind == "c" else ""
    char = dtype.char.lower() if dtype.kind == "c" else dtype.char
    return ctypes.create_string_buffer((prefix + char).encode())
