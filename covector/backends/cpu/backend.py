"""The CPU backend: what the runtime asks to compile programs, through our own compiler."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from covector import compiler, ops, runtime
from covector._base import log
from covector.backends import cpu
from covector.backends.cpu import cache
from covector.backends.cpu.target import host
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Op
from covector.runtime.backend import NativeCode
from covector.runtime.dispatch import as_array
from covector.runtime.entry import Compiled

if TYPE_CHECKING:
    from covector.backends.cpu.bundle import CompiledProgram
    from covector.compiler.program import Program


class CpuBackend:
    """Compiles for the machine it runs on."""

    name = "cpu"
    platform = "cpu"

    def compile(self, program: ClosedJaxpr, donated: Sequence[int] = ()) -> Any:
        """Machine code of a program, from the disk cache if it was made before.

        donated: arguments that it may overwrite, and that are deleted by each run.
        NotImplementedError for what has no native rule.
        """
        calls_python = ops.is_loaded("callback")
        effects = program.effects and program.effects - {ops.check.DEBUG_CHECK}
        if effects and (not calls_python or effects - compiler.callbacks.EFFECTS):
            raise NotImplementedError(
                f"a program with the effects {sorted(effects)} is run on the host"
            )
        stages = _stages(program)
        sites: list[Any] = []
        if calls_python:
            program, sites = compiler.callbacks.lift(program)
        calls, symbols = None, dict[str, int]()
        if sites:
            donated = ()  # a call that fails must leave its arguments whole
            made = [(s.op.numpy, s.in_avals, s.op.result_avals) for s in sites]
            calls = runtime.callbacks.trampoline(made)
            symbols = {cpu.library.callback.SYMBOL: ctypes.cast(calls, ctypes.c_void_p).value or 0}
        # Who wants to see the passes wants them to run.
        if program.consts or log.wanted(3):
            compiled, consts = _compile(program, donated, symbols)
        else:
            compiled, consts = _from_disk(program, donated, symbols)
        code = NativeCode(
            compiled.address,
            hidden=[as_array(c) for c in consts],
            arena=compiled.arena,
            nanoseconds=compiled.nanoseconds,
            size=compiled.code_bytes,
            keep=(compiled, calls),
            stages=stages,
            after=runtime.callbacks.raise_error if sites else None,
        )
        whole = Compiled(code, program.in_avals, program.out_avals)
        if not donated:
            return whole
        taken = {out: given - len(consts) for out, given in compiled.meta or ()}
        return runtime.donation.Donating(whole, donated, taken)

    def compile_op(self, op: Op, avals: tuple[ShapedArray, ...]) -> Compiled:
        """Machine code of one operation: for every size where it has a normal form."""
        if ops.is_loaded("callback") and isinstance(op, ops.callback.Callback):
            raise NotImplementedError("at once, Python is called by Python")
        found = cpu.eager.compile_eager(op, avals)
        if found is not None:
            return found
        invars = [Var(a) for a in avals]
        out = op.result(*avals)
        outvars = [Var(a) for a in (out if op.multiple_results else (out,))]
        body = Jaxpr([], invars, outvars, [Equation(op, invars, outvars)], op.name)
        return self.compile(ClosedJaxpr(body))


def _from_disk(
    closed: ClosedJaxpr, donated: Sequence[int], symbols: Mapping[str, int]
) -> tuple[CompiledProgram, list[Any]]:
    """By the program's text: everything from planning to machine code is a function of it."""
    name = closed.jaxpr.debug_name
    text = f"{closed}donated {list(donated)}" if donated else str(closed)
    key = cpu.bundle.program_key(text)
    bundle = cache.lookup(key)
    found = None if bundle is None else cpu.bundle.load_program(bundle, symbols)
    if found is not None:
        log.debug(1, "load %s from the cache on disk", name)
        return found, []
    compiled, consts = _compile(closed, donated, symbols)
    if not consts:
        cache.store(key, compiled.bundle)
    return compiled, consts


def _compile(
    closed: ClosedJaxpr, donated: Sequence[int], symbols: Mapping[str, int]
) -> tuple[CompiledProgram, list[Any]]:
    start = time.perf_counter()
    program, consts = compiler.pipeline.compile_program(closed, donated)
    taken = [(out, given) for out, given in enumerate(program.taken()) if given is not None]
    compiled = cpu.executable.compile_program(program, taken or None, symbols=symbols)
    log.debug(1, "compile %s: kernels: %d, %.1f ms", program.name, len(program.kernels),
              (time.perf_counter() - start) * 1e3)  # fmt: skip
    return compiled, consts


def _stages(closed: ClosedJaxpr) -> dict[str, Callable[[], str]]:
    """Each stage's text, made again when somebody wants to see it."""

    def program() -> Program:
        return compiler.pipeline.compile_program(closed)[0]

    return {
        "jaxpr": lambda: str(closed),
        "simplified": lambda: str(compiler.pipeline.prepare(closed)),
        "kernels": lambda: str(program()),
        "llvm": lambda: cpu.executable.llvm_text(program()),
        "assembly": lambda: cpu.assemble.assembly(cpu.executable.llvm_text(program()), host()),
    }
