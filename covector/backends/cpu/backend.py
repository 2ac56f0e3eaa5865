"""The CPU backend: what the runtime asks to compile programs, through our own compiler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from covector._base import log
from covector.backends.cpu import cache, executable
from covector.backends.cpu.assemble import assembly, module_text
from covector.backends.cpu.eager import compile_eager
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.target import host
from covector.compiler import pipeline
from covector.compiler.program import Program
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Op
from covector.ops.check import DEBUG_CHECK
from covector.runtime.backend import NativeCode
from covector.runtime.dispatch import as_array
from covector.runtime.donation import Donating
from covector.runtime.entry import Compiled


class CpuBackend:
    """Compiles for the machine it runs on."""

    name = "cpu"
    platform = "cpu"

    def compile(self, program: ClosedJaxpr, donated: Sequence[int] = ()) -> Any:
        """Machine code of a program, from the disk cache if it was made before.

        donated: arguments that it may overwrite, and that are deleted by each run.
        NotImplementedError for what has no native rule.
        """
        effects = program.effects - {DEBUG_CHECK}
        if effects:
            raise NotImplementedError(
                f"a program with the effects {sorted(effects)} is run on the host"
            )
        # Who wants to see the passes wants them to run.
        if program.consts or log.wanted(3):
            compiled, consts = _compile(program, donated)
        else:
            compiled, consts = _from_disk(program, donated)
        code = NativeCode(
            compiled.address,
            hidden=[as_array(c) for c in consts],
            arena=compiled.arena,
            keep=compiled,
            stages=_stages(program),
        )
        made = Compiled(code, program.in_avals, program.out_avals)
        if not donated:
            return made
        taken = {out: given - len(consts) for out, given in compiled.meta or ()}
        return Donating(made, donated, taken)

    def compile_op(self, op: Op, avals: tuple[ShapedArray, ...]) -> Compiled:
        """Machine code of one operation: for every size where it has a normal form."""
        found = compile_eager(op, avals)
        if found is not None:
            return found
        invars = [Var(a) for a in avals]
        out = op.result(*avals)
        outvars = [Var(a) for a in (out if op.multiple_results else (out,))]
        body = Jaxpr([], invars, outvars, [Equation(op, invars, outvars)], op.name)
        return self.compile(ClosedJaxpr(body))


def _from_disk(
    closed: ClosedJaxpr, donated: Sequence[int]
) -> tuple[executable.CompiledProgram, list[Any]]:
    """By the program's text: everything from planning to machine code is a function of it."""
    name = closed.jaxpr.debug_name
    text = f"{closed}donated {list(donated)}" if donated else str(closed)
    key = executable.program_key(text)
    bundle = cache.lookup(key)
    found = None if bundle is None else executable.load_program(bundle)
    if found is not None:
        log.debug(1, "load %s from the cache on disk", name)
        return found, []
    compiled, consts = _compile(closed, donated)
    if not consts:
        cache.store(key, compiled.bundle)
    return compiled, consts


def _compile(
    closed: ClosedJaxpr, donated: Sequence[int]
) -> tuple[executable.CompiledProgram, list[Any]]:
    start = time.perf_counter()
    program, consts = pipeline.compile_program(closed, donated)
    taken = [(out, given) for out, given in enumerate(program.taken()) if given is not None]
    compiled = executable.compile_program(program, taken or None)
    log.debug(1, "compile %s: kernels: %d, %.1f ms", program.name, len(program.kernels),
              (time.perf_counter() - start) * 1e3)  # fmt: skip
    return compiled, consts


def _stages(closed: ClosedJaxpr) -> dict[str, Callable[[], str]]:
    """Each stage's text, made again when somebody wants to see it."""

    def program() -> Program:
        return pipeline.compile_program(closed)[0]

    return {
        "jaxpr": lambda: str(closed),
        "simplified": lambda: str(pipeline.prepare(closed)),
        "kernels": lambda: str(program()),
        "llvm": lambda: _llvm(program()),
        "assembly": lambda: assembly(_llvm(program()), host()),
    }


def _llvm(program: Program) -> str:
    made: list[tuple[str, Any]] = [emit(k, host(), f"k{n}") for n, k in enumerate(program.kernels)]
    declared = {name for _, names in made for name in names}
    return module_text(host(), [text for text, _ in made], declared)
