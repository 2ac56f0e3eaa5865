"""Native: from source to machine code in this process, and a first test that it works here."""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy._core import _multiarray_umath

from covector.backends.cpu.link import CompiledModule, link
from covector.backends.cpu.target import Target, host

from . import capi, language

#: The files of the program, in the order of reading.
FILES: Final = ("structs", "pool_code", "array_code", "entry_code", "operator_code")
#: Bumped when the language's compiler changes.
VERSION: Final = "1"


def supported() -> bool:
    """CPython with the interpreter lock, 64 bits, and the object layout that the code assumes."""
    return (
        platform.python_implementation() == "CPython"
        and sys.maxsize > 2**32
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and object.__basicsize__ == 16
        and not hasattr(sys, "getobjects")  # a build that traces references has a longer head
    )


class Code:
    """The native runtime's machine code: addresses of its functions and its own memory."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        texts = [(f"{name}.py", (here / f"{name}.py").read_text("utf-8")) for name in FILES]
        source = language.Source(texts, capi.EXTERNS)
        names = [*source.functions, *source.instances, "api"]
        image = compile_image(source, host())
        self.module: CompiledModule = link(image, names)
        self._fill_api(source)

    def _fill_api(self, source: language.Source) -> None:
        table = (ctypes.c_uint64 * len(source.api)).from_address(self.module.address("api"))
        numpy_table = _numpy_table()
        for i, name in enumerate(source.api):
            table[i] = capi.address(name, numpy_table)

    def address(self, name: str) -> int:
        """Where a function or a structure is."""
        return self.module.address(name)

    def structure(self, kind: type[language.Struct], name: str) -> Any:
        """One of the program's own structures, as a ctypes structure over its memory."""
        return ctypes_structure(kind).from_address(self.address(name))


def compile_image(source: language.Source, target: Target) -> bytes:
    """The program's object code."""
    import llvmlite.binding as llvm

    text = language.compile_source(source, target.triple)
    module = llvm.parse_assembly(text)
    module.verify()
    machine = target.machine(2)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


def _numpy_table() -> int:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return get(_multiarray_umath._ARRAY_API, None) or 0


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
