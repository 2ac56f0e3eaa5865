"""From loop programs to something callable, and back from disk.

A compiled program is a few object files (its driver, its kernels, library code) and a small
table; as bytes it is a *bundle*, which loads without emitting or parsing anything.  Each kernel is
compiled once, whatever names it uses, and kept in memory and on disk by the digest of its text.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, final

from covector._base import log
from covector.backends.cpu import cache, library
from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.driver import ENTRY, Driver
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import CompiledModule, link
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import Kernel
from covector.compiler.program import Branch, KernelCall, Loop, Program

_lock = threading.Lock()
_images: Final[OrderedDict[str, bytes]] = OrderedDict()
#: Object files kept in memory, for programs that share kernels.
KEPT: Final = 512
MAGIC: Final = b"covector-bundle-1\n"


@final
class CompiledKernel:
    """`void f(ptr buffers, ptr symbols)` at `address`; the code lives as long as this."""

    __slots__ = ("__weakref__", "_module", "address")

    def __init__(self, module: CompiledModule, name: str) -> None:
        self._module = module
        self.address = module.address(name)


@final
class CompiledProgram:
    """`void program(ptr buffers, ptr symbols)` at `address`, over inputs, outputs, arena.

    `arena`: bytes it needs.  `bundle`: itself as bytes, for `load_program`.  `meta`: what its
    maker wrote beside it.  The code lives as long as this object.
    """

    __slots__ = ("_module", "address", "arena", "bundle", "code_bytes", "meta")

    def __init__(self, bundle: bytes, table: dict[str, Any], images: list[bytes]) -> None:
        symbols = library.resolve(table["imports"])
        self._module = link(images, [table["entry"]], symbols)
        self.address = self._module.address(table["entry"])
        self.arena: int = table["arena"]
        self.meta: Any = table["meta"]
        self.bundle = bundle
        self.code_bytes = sum(map(len, images))


_linked: Final[weakref.WeakValueDictionary[str, CompiledKernel]] = weakref.WeakValueDictionary()


def compile_kernels(kernels: list[Kernel], target: Target | None = None) -> list[CompiledKernel]:
    """Machine code for each kernel; equal kernels (up to names) are compiled once."""
    target = target or host()
    out = []
    for kernel in kernels:
        name = kernel_name(kernel, target)
        found = _linked.get(name)
        if found is None:
            found = CompiledKernel(link([image(kernel, name, target)], [name]), name)
            found = _linked.setdefault(name, found)
        out.append(found)
    return out


def compile_program(
    program: Program, meta: Any = None, target: Target | None = None
) -> CompiledProgram:
    """Machine code of a planned program.  `meta`: plain data to travel in its bundle."""
    target = target or host()
    table: dict[str, Any] = {"arena": program.arena, "imports": [], "meta": meta, "entry": ENTRY}
    if is_lone_kernel(program):
        (kernel,) = program.kernels
        table["entry"] = kernel_name(kernel, target)
        images = [image(kernel, table["entry"], target)]
        return CompiledProgram(_packed(table, images), table, images)
    driver = Driver(program, target, lambda kernel: kernel_name(kernel, target))
    function, declared = driver.text()
    loops = any(isinstance(step, Loop | Branch) for step in program.steps)
    images = [assemble(module_text(target, [function], declared), target, simplify=loops)]
    images += [image(kernel, name, target) for name, kernel in driver.kernels.items()]
    images += [_object(code_key(name, target), make, target) for name, make in driver.codes.items()]
    table["imports"] = list(driver.imported)
    return CompiledProgram(_packed(table, images), table, images)


def is_lone_kernel(program: Program) -> bool:
    """Whether one kernel, given the program's own pointers, is all of the program: no driver."""
    if len(program.steps) != 1 or len(program.kernels) != 1:
        return False
    (step,) = program.steps
    given = (*program.inputs, *program.outputs)
    return isinstance(step, KernelCall) and not step.symbols and step.slots == given


def load_program(bundle: bytes) -> CompiledProgram | None:
    """A compiled program from its bundle; None if these bytes are not one of this version."""
    if not bundle.startswith(MAGIC):
        return None
    end = bundle.index(b"\n", len(MAGIC))
    table = json.loads(bundle[len(MAGIC) : end])
    images, at = [], end + 1
    for size in table["sizes"]:
        images.append(bundle[at : at + size])
        at += size
    if at != len(bundle):
        return None
    return CompiledProgram(bundle, table, images)


def program_key(text: str, target: Target | None = None) -> str:
    """A key for the disk cache: of whatever names a program, for this machine and version."""
    digest = hashlib.sha256((target or host()).fingerprint.encode())
    digest.update(text.encode())
    return "p" + digest.hexdigest()


def _packed(table: dict[str, Any], images: list[bytes]) -> bytes:
    head = json.dumps({**table, "sizes": list(map(len, images))}, separators=(",", ":"))
    return b"".join([MAGIC, head.encode(), b"\n", *images])


def kernel_name(kernel: Kernel, target: Target) -> str:
    """The name of a kernel's function: a digest of all that its machine code depends on."""
    digest = hashlib.sha256(target.fingerprint.encode())
    digest.update(canonical(kernel))
    return "k" + digest.hexdigest()[:40]


def code_key(name: str, target: Target) -> str:
    """The key of a library function's object code."""
    return "c" + hashlib.sha256(f"{target.fingerprint}\n{name}".encode()).hexdigest()


def image(kernel: Kernel, name: str, target: Target) -> bytes:
    """The object file of a kernel: from memory, else from disk, else made now."""

    def make() -> str:
        text, declared = emit(kernel, target, name)
        return module_text(target, [text], declared)

    return _object(name, make, target)


def _object(name: str, make: Callable[[], str], target: Target) -> bytes:
    shown = log.wanted(4)  # then it is made again, to be looked at
    with _lock:
        found = None if shown else _images.get(name)
        if found is not None:
            _images.move_to_end(name)
            return found
    made = None if shown else cache.lookup(name)
    if made is None:
        made = assemble(make(), target)
        cache.store(name, made)
    with _lock:
        _images[name] = made
        while len(_images) > KEPT:
            _images.popitem(last=False)
    return made


def kernel_texts(kernels: Iterable[Kernel], target: Target | None = None) -> str:
    """The LLVM text of some kernels as one module, for people to read."""
    target = target or host()
    functions, declared = [], set()
    for n, kernel in enumerate(kernels):
        text, needs = emit(kernel, target, f"{kernel.name}.{n}")
        functions.append(text)
        declared |= needs
    return module_text(target, functions, declared)
