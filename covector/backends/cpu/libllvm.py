"""LLVM's library, called without llvmlite's Python package and without its lock.

The package takes five times as long to load as the library itself, and its lock lets one thread
of a process into LLVM at a time.  Compiling needs a dozen functions of the library; the tests
compare their declarations here with the installed package's.  LLVM itself may be used by several
threads at once, as long as none shares a context or a target machine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Final, final

import llvmlite

#: Releases of llvmlite whose functions these are.  (llvmlite 0.46 to 0.50: the same.)
OLDEST: Final = (0, 46)
NEWEST: Final = (0, 50)

_ERROR: Final = POINTER(c_char_p)
#: Name, what it returns, what it takes.
DECLARATIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "InitializeNativeTarget": (c_int, ()),
    "InitializeNativeAsmPrinter": (c_int, ()),
    "SetCommandLine": (None, (c_char_p, c_char_p)),
    "GetTargetFromTriple": (c_void_p, (c_char_p, _ERROR)),
    "CreateTargetMachine": (
        c_void_p,
        (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "DisposeTargetMachine": (None, (c_void_p,)),
    "ContextCreate": (c_void_p, ()),
    "ContextDispose": (None, (c_void_p,)),
    "ParseAssembly": (c_void_p, (c_void_p, c_char_p, _ERROR)),
    "VerifyModule": (c_bool, (c_void_p, _ERROR)),
    "DisposeModule": (None, (c_void_p,)),
    "TargetMachineEmitToMemory": (c_void_p, (c_void_p, c_void_p, c_int, _ERROR)),
    "GetBufferStart": (c_void_p, (c_void_p,)),
    "GetBufferSize": (c_size_t, (c_void_p,)),
    "DisposeMemoryBuffer": (None, (c_void_p,)),
    "DisposeString": (None, (c_char_p,)),
}

_NAMES: Final = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}
_lock = threading.Lock()
_state: Final[dict[str, Any]] = {}


def serves() -> bool:
    """Whether the installed llvmlite is one of those whose functions are known."""
    release = tuple(int(x) for x in llvmlite.__version__.split(".")[:2] if x.isdigit())
    return OLDEST <= release <= NEWEST and _path() is not None


@final
class Compiler:
    """One target machine; to be used by one thread at a time."""

    __slots__ = ("_call", "_emit", "_machine")

    def __init__(self, triple: str, cpu: str, features: str, effort: int) -> None:
        self._call, self._emit = _functions()
        texts = [text.encode() for text in (triple, cpu, features)]
        error = c_char_p()
        target = self._call["GetTargetFromTriple"](texts[0], byref(error))
        if not target:
            raise RuntimeError(self._said(error))
        self._machine = self._call["CreateTargetMachine"](
            target, *texts, effort, b"pic", b"small", 0, 0, b""
        )
        if not self._machine:
            raise RuntimeError(f"LLVM has no machine for {triple}, {cpu}")

    def __del__(self) -> None:
        if getattr(self, "_machine", None):
            self._call["DisposeTargetMachine"](self._machine)

    def compiled(self, text: str) -> bytes:
        """Object code of a module's text; RuntimeError if LLVM refuses it."""
        call, error = self._call, c_char_p()
        context, module = call["ContextCreate"](), None
        try:
            module = call["ParseAssembly"](context, text.encode(), byref(error))
            broken = not module or call["VerifyModule"](module, byref(error))
            said = self._said(error)  # of a module that is right, an empty text
            if broken:
                raise RuntimeError(said)
            buffer = self._emit(self._machine, module, 1, byref(error))
            if not buffer:
                raise RuntimeError(self._said(error))
            try:
                start, size = call["GetBufferStart"](buffer), call["GetBufferSize"](buffer)
                return ctypes.string_at(start, size)
            finally:
                call["DisposeMemoryBuffer"](buffer)
        finally:
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)

    def _said(self, error: c_char_p) -> str:
        text = (error.value or b"").decode(errors="replace")
        self._call["DisposeString"](error)
        error.value = None
        return text


def options() -> list[str]:
    """What LLVM is told, once; it holds for the whole process."""
    # Addresses are already what loop strength reduction would make of them, and it is a fifth of
    # the compile time.  Numba's code needs the pass.
    return [] if "numba" in sys.modules else ["-disable-lsr"]


def initialize() -> None:
    """Makes LLVM ready for this machine; once, whoever asks first."""
    _functions()


def _functions() -> tuple[dict[str, Any], Any]:
    """The library's functions, which keep the interpreter's lock, and the one that takes long,
    which does not: to get the lock back takes a thread milliseconds while another one works."""
    with _lock:
        if "functions" not in _state:
            path = str(_path())
            held, free = ctypes.PyDLL(path), ctypes.CDLL(path)
            call = {name: _declared(held, name) for name in DECLARATIONS}
            call["InitializeNativeTarget"]()
            call["InitializeNativeAsmPrinter"]()
            for option in options():
                call["SetCommandLine"](b"covector", option.encode())
            _state["functions"] = call, _declared(free, "TargetMachineEmitToMemory")
        return _state["functions"]


def _declared(library: ctypes.CDLL, name: str) -> Any:
    function = library[f"LLVMPY_{name}"]
    function.restype, function.argtypes = DECLARATIONS[name]
    return function


@functools.cache
def _path() -> str | None:
    """Where the library is; None if not beside the package's modules."""
    name = _NAMES.get(sys.platform, "libllvmlite.so")
    path = os.path.join(os.path.dirname(llvmlite.__file__), "binding", name)
    return path if os.path.isfile(path) else None
