"""LLVM text to object code: parsed, verified, compiled.  COVECTOR_DEBUG=4 and 5 show both forms."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

from covector._base import log
from covector.backends import cpu
from covector.backends.cpu import libllvm
from covector.backends.cpu.target import Target

#: Compilers that nobody uses, by kind, effort and machine.
_idle: Final[dict[tuple[Any, int, str], list[Any]]] = {}
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
    """Object code of a module's text.  Several threads may do so at once.

    `simplify`: run LLVM's own simplification first, which puts variables on the stack into
    registers, and unrolls; kernels need none, since they are emitted simple.  `quick`: the code
    does little itself, so that any will do.
    """
    log.show(4, "LLVM IR", text)
    packaged = simplify or log.wanted(5) or not libllvm.serves()
    with _compiler(packaged, QUICK if quick else OPTIMISATION, target, text) as compiler:
        return compiler.unrolled(text) if simplify else compiler.compiled(text)


def assembly(text: str, target: Target) -> str:
    """The machine's own text for a module, for people to read."""
    with _compiler(True, OPTIMISATION, target, text) as compiler:
        return compiler.assembly(text)


@contextlib.contextmanager
def _compiler(packaged: bool, effort: int, target: Target, text: str) -> Iterator[Any]:
    """A compiler for this thread alone; what LLVM refuses names the text."""
    kind = cpu.llvm.Compiler if packaged else libllvm.Compiler
    key = (kind, effort, target.fingerprint)
    with _lock:
        idle = _idle.setdefault(key, [])
        found = idle.pop() if idle else None
    compiler = found or kind(target.triple, target.cpu, target.features, effort)
    try:
        yield compiler
    except RuntimeError as error:
        raise CompileError(f"LLVM refused a module: {error}\n{text}") from None
    finally:
        with _lock:
            idle.append(compiler)
