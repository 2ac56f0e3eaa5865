"""Native: from source to machine code in this process, and a first test that it works here."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from covector._base.digest import digest
from covector._base.named_tuple import NamedTuple
from covector.backends import cpu
from covector.backends.cpu import cache, native
from covector.backends.cpu.link import CompiledModule, Loadable, load, loadable, unpacked
from covector.backends.cpu.target import Target, host

from . import capi, language

if TYPE_CHECKING:
    from .source import Source

#: The files of the program, in the order of reading.
FILES: Final = (
    "structs", "pool_code", "array_code", "match_code", "result_code", "entry_code",
    "entry_type_code", "operator_code", "sequence_code", "at_code",
)  # fmt: skip


def supported() -> bool:
    """CPython with the interpreter lock, 64 bits, and the object layout that the code assumes."""
    return (
        sys.implementation.name == "cpython"
        and sys.maxsize > 2**32
        and "free-threading" not in sys.version
        and object.__basicsize__ == 16
        and _slice_parts() == (7, 8, 9)
        and not hasattr(sys, "getobjects")  # a build that traces references has a longer head
    )


def _slice_parts() -> tuple[Any, ...]:
    """What native code takes for start, stop and step of `slice(7, 8, 9)`."""
    probe = slice(7, 8, 9)
    words = (ctypes.c_uint64 * 3).from_address(id(probe) + object.__basicsize__)
    known = {id(x): x for x in (probe.start, probe.stop, probe.step)}
    return tuple(known.get(w) for w in words)


class Code:
    """The native runtime's machine code: addresses of its functions and its own memory."""

    def __init__(self) -> None:
        program = stored_program() or make_program()
        self.module: CompiledModule = load(program.code)
        table = (ctypes.c_uint64 * len(program.api)).from_address(self.module.address("api"))
        numpy_table = _numpy_table()
        for i, name in enumerate(program.api):
            table[i] = capi.address(name, numpy_table)

    def address(self, name: str) -> int:
        """Where a function or a structure is."""
        return self.module.address(name)

    def structure(self, kind: type[language.Struct], name: str) -> Any:
        """One of the program's own structures, as a ctypes structure over its memory."""
        return ctypes_structure(kind).from_address(self.address(name))


class Program(NamedTuple):
    """The compiled runtime: its code, and the C functions it calls."""

    code: Loadable
    api: list[str]


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), encoding="utf-8") as file:
        return file.read()


def _cache_key() -> str:
    # The fingerprint speaks of the source files too.
    text = f"{host().fingerprint}\n{sys.implementation.cache_tag}"
    return f"native runtime {digest(text).hexdigest()}"


def stored_program() -> Program | None:
    """The program from the cache on disk, or None."""
    stored = cache.lookup(_cache_key())
    if stored is None:
        return None
    code = unpacked(stored)
    return None if code is None else Program(code, code.table["api"])


def make_program() -> Program:
    """The program compiled from its source, and stored for the next process."""
    source = native.source.Source([(f"{name}.py", _read(name)) for name in FILES], capi.EXTERNS)
    names = [*source.functions, *source.instances, "api"]
    code = loadable([compile_image(source, host())], names)
    code = Loadable({**code.table, "api": source.api}, code.code)
    cache.store(_cache_key(), code.packed())
    return Program(code, source.api)


def compile_image(source: Source, target: Target) -> bytes:
    """The program's object code."""
    text = native.translate.compile_source(source, target.triple)
    return cpu.llvm.simplified(text, target.machine(2))


def _numpy_table() -> int:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    return get(core._ARRAY_API, None) or 0


_structures: Final[dict[type, Any]] = {}


def ctypes_structure(kind: type[language.Struct]) -> Any:
    """The ctypes form of a structure."""
    if kind not in _structures:
        fields = [(name, ctypes.c_uint64) for name in kind.fields]
        _structures[kind] = type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})
    return _structures[kind]


def numpy_data_offset() -> int:
    """Where NumPy's array object keeps the address of its elements; 0 if not found."""
    probe = np.empty(3)
    address = probe.__array_interface__["data"][0]
    for offset in range(object.__basicsize__, 64, 8):
        if ctypes.c_uint64.from_address(id(probe) + offset).value == address:
            return offset
    return 0
