"""From loop programs to something callable.

A compiled program is a few object files (`objects`): its driver, its kernels, library code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.bundle import (
    CompiledKernel,
    CompiledProgram,
    compiled_program,
    linked_kernel,
)
from covector.backends.cpu.driver import ENTRY, Driver
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.objects import Objects, image, kernel_name
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import Kernel
from covector.compiler.program import Branch, KernelCall, Loop, Program
from covector.compiler.ranges import work

#: Steps, and nanoseconds of a run, from which LLVM is to make do with a program that only calls
#: its kernels.
MANY_STEPS: Final = 100
LONG: Final = 20_000


def compile_kernels(kernels: list[Kernel], target: Target | None = None) -> list[CompiledKernel]:
    """Machine code for each kernel; equal kernels (up to names) are compiled once."""
    target = target or host()
    out = []
    for kernel in kernels:
        name = kernel_name(kernel, target)
        out.append(linked_kernel(name, functools.partial(image, kernel, name, target)))
    return out


def compile_program(
    program: Program,
    meta: Any = None,
    target: Target | None = None,
    symbols: Mapping[str, int] | None = None,
) -> CompiledProgram:
    """Machine code of a planned program.

    `meta`: plain data to travel in its bundle.  `symbols`: functions of this run's own that the
    code imports, by address, which is not kept.
    """
    target = target or host()
    table: dict[str, Any] = {
        "arena": program.arena, "imports": [], "meta": meta, "entry": ENTRY,
        "nanoseconds": work(program) // 1000,
    }  # fmt: skip
    if is_lone_kernel(program):
        (kernel,) = program.kernels
        table["entry"] = kernel_name(kernel, target)
        images = [image(kernel, table["entry"], target)]
        return compiled_program(table, images, {})
    long = table["nanoseconds"] > LONG or len(program.steps) > MANY_STEPS
    with Objects(target) as objects:
        driver = Driver(program, target, objects)
        function, declared = driver.text()
        loops = any(isinstance(step, Loop | Branch) for step in program.steps)
        text = module_text(target, [function], declared)
        objects.own(text, simplify=loops, quick=long and not loops)
    table["imports"] = list(driver.imported)
    return compiled_program(table, objects.images(), symbols or {})


def is_lone_kernel(program: Program) -> bool:
    """Whether one kernel, given the program's own pointers, is all of the program: no driver."""
    if len(program.steps) != 1 or len(program.kernels) != 1:
        return False
    (step,) = program.steps
    given = (*program.inputs, *program.outputs)
    return isinstance(step, KernelCall) and not step.symbols and step.slots == given


def llvm_text(program: Program) -> str:
    """The LLVM text of a program's kernels as one module, for people to read."""
    made = [emit(k, host(), f"k{n}") for n, k in enumerate(program.kernels)]
    declared = {name for _, names in made for name in names}
    return module_text(host(), [text for text, _ in made], declared)
