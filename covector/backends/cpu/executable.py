"""From loop programs to something callable.

A compiled program is a few object files: its driver, its kernels, library code (`bundle`).  Each
kernel is compiled once, whatever names it uses, and kept in memory and on disk by the digest of
its text.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from covector._base import log
from covector._base.digest import digest
from covector.backends.cpu import cache
from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.bundle import (
    CompiledKernel,
    CompiledProgram,
    compiled_program,
    linked_kernel,
)
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.driver import ENTRY, Driver
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import Kernel
from covector.compiler.program import Branch, KernelCall, Loop, Program
from covector.compiler.ranges import work

_lock = threading.Lock()
_images: Final[OrderedDict[str, bytes]] = OrderedDict()
#: Steps, and nanoseconds of a run, from which LLVM is to make do with a program that only calls
#: its kernels.
MANY_STEPS: Final = 100
LONG: Final = 20_000
#: Object files kept in memory, for programs that share kernels.
KEPT: Final = 512


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
    driver = Driver(program, target, lambda kernel: kernel_name(kernel, target))
    function, declared = driver.text()
    loops = any(isinstance(step, Loop | Branch) for step in program.steps)
    long = table["nanoseconds"] > LONG or len(program.steps) > MANY_STEPS
    text = module_text(target, [function], declared)
    images = [assemble(text, target, simplify=loops, quick=long and not loops)]
    images += [image(kernel, name, target) for name, kernel in driver.kernels.items()]
    images += [
        _object(code_key(name, target), source.make, target, source.quick)
        for name, source in driver.codes.items()
    ]
    table["imports"] = list(driver.imported)
    return compiled_program(table, images, symbols or {})


def is_lone_kernel(program: Program) -> bool:
    """Whether one kernel, given the program's own pointers, is all of the program: no driver."""
    if len(program.steps) != 1 or len(program.kernels) != 1:
        return False
    (step,) = program.steps
    given = (*program.inputs, *program.outputs)
    return isinstance(step, KernelCall) and not step.symbols and step.slots == given


def kernel_name(kernel: Kernel, target: Target) -> str:
    """The name of a kernel's function: a digest of all that its machine code depends on."""
    named = digest(target.fingerprint)
    named.update(canonical(kernel))
    return "k" + named.hexdigest()[:40]


def code_key(name: str, target: Target) -> str:
    """The key of a library function's object code."""
    return "c" + digest(f"{target.fingerprint}\n{name}").hexdigest()


def image(kernel: Kernel, name: str, target: Target) -> bytes:
    """The object file of a kernel: from memory, else from disk, else made now."""

    def make() -> str:
        text, declared = emit(kernel, target, name)
        return module_text(target, [text], declared)

    return _object(name, make, target)


def _object(name: str, make: Callable[[], str], target: Target, quick: bool = False) -> bytes:
    shown = log.wanted(4)  # then it is made again, to be looked at
    with _lock:
        found = None if shown else _images.get(name)
        if found is not None:
            _images.move_to_end(name)
            return found
    made = None if shown else cache.lookup(name)
    if made is None:
        made = assemble(make(), target, quick=quick)
        cache.store(name, made)
    with _lock:
        _images[name] = made
        while len(_images) > KEPT:
            _images.popitem(last=False)
    return made


def llvm_text(program: Program) -> str:
    """The LLVM text of a program's kernels as one module, for people to read."""
    made = [emit(k, host(), f"k{n}") for n, k in enumerate(program.kernels)]
    declared = {name for _, names in made for name in names}
    return module_text(host(), [text for text, _ in made], declared)
