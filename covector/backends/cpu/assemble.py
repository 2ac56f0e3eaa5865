"""LLVM text to object code: parsed, verified, compiled.  COVECTOR_DEBUG=4 and 5 show both forms."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

import llvmlite.binding as llvm

from covector._base import log
from covector.backends.cpu.target import Target

_machines: Final[dict[tuple[int, str], Any]] = {}
_lock = threading.Lock()
#: How much the code generator tries; measured alike from 1 to 3 on code that is already vectors.
OPTIMISATION: Final = 2
#: Of code that only calls: there is nothing to choose.
QUICK: Final = 0


class CompileError(RuntimeError):
    """LLVM refused the text: a fault of the emitter, never of the user's program."""


def module_text(target: Target, functions: Iterable[str], declared: Iterable[str]) -> str:
    """A whole module."""
    return "\n".join(
        [f'target triple = "{target.triple}"', *functions, *sorted(declared), "!0 = !{i32 1}", ""]
    )


def assemble(text: str, target: Target, simplify: bool = False, quick: bool = False) -> bytes:
    """Object code of a module's text.

    `simplify`: run LLVM's own simplification first, which puts variables on the stack into
    registers, and unrolls; kernels need none, since they are emitted simple.  `quick`: the code
    does little itself, so that any will do.
    """
    machine = _machine(target, QUICK if quick else OPTIMISATION)
    log.show(4, "LLVM IR", text)
    with _lock:  # a target machine is not to be used by two threads at once
        module = _parse(text)
        if simplify:
            _simplify(module, machine)
        if log.wanted(5):
            log.show(5, "assembly", machine.emit_assembly(module))
        return machine.emit_object(module)


def _simplify(module: Any, machine: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)
    log.show(4, "simplified LLVM IR", str(module))


def assembly(text: str, target: Target) -> str:
    """The machine's own text for a module, for people to read."""
    with _lock:
        return _machine_unlocked(target).emit_assembly(_parse(text))


def _parse(text: str) -> Any:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refused a module: {error}\n{text}") from None
    return module


def _machine(target: Target, effort: int = OPTIMISATION) -> Any:
    with _lock:
        return _machine_unlocked(target, effort)


def _machine_unlocked(target: Target, effort: int = OPTIMISATION) -> Any:
    key = (effort, target.fingerprint)
    if key not in _machines:
        _machines[key] = target.machine(effort)
    return _machines[key]
