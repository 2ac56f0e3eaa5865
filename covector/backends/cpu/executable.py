"""From loop programs to something callable: machine code of kernels, each text compiled once."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Final, final

from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import CompiledModule, link
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import Kernel

_lock = threading.Lock()
_images: Final[OrderedDict[str, bytes]] = OrderedDict()
#: Object files kept in memory, for programs that share kernels.
KEPT: Final = 512


@final
class CompiledKernel:
    """`void f(ptr buffers, ptr symbols)` at `address`; the code lives as long as this."""

    __slots__ = ("_module", "address")

    def __init__(self, module: CompiledModule, name: str) -> None:
        self._module = module
        self.address = module.address(name)


def compile_kernels(kernels: list[Kernel], target: Target | None = None) -> list[CompiledKernel]:
    """Machine code for each kernel; equal kernels (up to names) are compiled once."""
    target = target or host()
    made: dict[str, CompiledKernel] = {}
    out = []
    for kernel in kernels:
        name = kernel_name(kernel, target)
        if name not in made:
            made[name] = CompiledKernel(link(image(kernel, name, target), [name]), name)
        out.append(made[name])
    return out


def kernel_name(kernel: Kernel, target: Target) -> str:
    """The name of a kernel's function: a digest of all that its machine code depends on."""
    digest = hashlib.sha256(target.fingerprint.encode())
    digest.update(canonical(kernel))
    return "k" + digest.hexdigest()[:40]


def image(kernel: Kernel, name: str, target: Target) -> bytes:
    """The object file of a kernel, from memory if it was made before."""
    with _lock:
        found = _images.get(name)
        if found is not None:
            _images.move_to_end(name)
            return found
    text, declared = emit(kernel, target, name)
    made = assemble(module_text(target, [text], declared), target)
    with _lock:
        _images[name] = made
        while len(_images) > KEPT:
            _images.popitem(last=False)
    return made
