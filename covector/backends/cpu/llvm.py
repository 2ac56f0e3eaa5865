"""LLVM through llvmlite's package: what it says of the machine, its passes, and its linker.

Loaded where code is to be simplified or shown, or where neither our own linker nor the library
itself (`libllvm.py`) serves.
"""

from __future__ import annotations

import itertools
import platform
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import llvmlite
import llvmlite.binding as llvm

from covector._base import log
from covector.backends.cpu import libllvm

#: Libraries that one engine of LLVM's links.  It forgets their memory when they die, but the room
#: for their names only when it dies itself, after the last of them.
LIBRARIES: Final = 128

_lock = threading.Lock()
_linking = threading.Lock()
_state: Final[dict[str, Any]] = {}
_count = itertools.count()


def initialize() -> None:
    """Makes LLVM ready for this machine; once, whoever asks first."""
    if libllvm.serves():
        libllvm.initialize()
        return
    with _lock:
        if "ready" not in _state:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            for option in libllvm.options():
                llvm.set_option("covector", option)
            _state["ready"] = True


def describe() -> list[str]:
    """What LLVM says: its version; the machine's triple, CPU and features."""
    initialize()
    version = [llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info))]
    return [
        "\n".join(version),
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    ]


def machine(triple: str, cpu: str, features: str, effort: int) -> Any:
    """A new LLVM TargetMachine."""
    initialize()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=effort, reloc="pic", codemodel="small"
    )


@final
class Compiler:
    """As `libllvm.Compiler`, by the package: it is under its lock, and can do more."""

    __slots__ = ("_machine",)

    def __init__(self, triple: str, cpu: str, features: str, effort: int) -> None:
        self._machine = machine(triple, cpu, features, effort)

    def compiled(self, text: str) -> bytes:
        """Object code of a module's text; RuntimeError if LLVM refuses it."""
        return self._object(_parsed(text))

    def unrolled(self, text: str) -> bytes:
        """The same after LLVM's own simplification, which puts variables on the stack into
        registers, and unrolls."""
        module = _parsed(text)
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._machine, options)
        manager = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, builder)
        log.show(4, "simplified LLVM IR", module)
        return self._object(module)

    def assembly(self, text: str) -> str:
        """The machine's own text for a module."""
        return self._machine.emit_assembly(_parsed(text))

    def _object(self, module: Any) -> bytes:
        if log.wanted(5):
            log.show(5, "assembly", self._machine.emit_assembly(module))
        return self._machine.emit_object(module)


def _parsed(text: str) -> Any:
    # In the context of all: the collector may take a module's own one away before the module.
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def simplified(text: str, machine: Any) -> bytes:
    """Object code of a module's text, which is written plainly: functions that say so are put
    into their callers, variables into registers.

    These few passes, and the code that they leave, take a third of the time of LLVM's own
    pipeline of the lowest level, which inlines much more; the code is as fast.
    """
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    inline = llvm.create_new_module_pass_manager()
    inline.add_always_inliner_pass()
    inline.run(module, builder)
    simplify = llvm.create_new_function_pass_manager()
    simplify.add_sroa_pass()
    simplify.add_simplify_cfg_pass()
    simplify.add_instruction_combine_pass()
    simplify.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            simplify.run(function, builder)
    return machine.emit_object(module)


def library(
    images: Iterable[bytes],
    names: Iterable[str],
    symbols: Mapping[str, int],
    triple: tuple[str, str, str],
) -> tuple[Any, dict[str, int]]:
    """Object files in this process, linked by LLVM: (what keeps them, addresses of `names`)."""
    with _linking:
        builder = llvm.JITLibraryBuilder()
        for image in images:
            builder.add_object_img(image)
        for name, address in symbols.items():  # each takes memory and time
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        number = next(_count)
        tracker = builder.link(_engine(number, triple), f"covector{number}")
        return tracker, {name: tracker[name] for name in names}


def _engine(number: int, triple: tuple[str, str, str]) -> Any:
    if number % LIBRARIES == 0:
        # JITLink puts code and its constants side by side.  The older linker, which Windows still
        # needs, may not, in a process that has much memory: farther than an instruction reaches.
        near = platform.system() != "Windows"
        _state["engine"] = llvm.create_lljit_compiler(machine(*triple, 2), use_jit_link=near)
    return _state["engine"]
