"""Single operations for eager use: one kernel serves every shape; sizes are run-time numbers."""

from __future__ import annotations

import threading
from typing import Any, Final, final

from covector._base import log
from covector._base.digest import digest
from covector.backends import cpu
from covector.backends.cpu import cache
from covector.backends.cpu.bundle import CompiledKernel, linked_kernel
from covector.backends.cpu.link import CompiledModule, link
from covector.backends.cpu.target import host
from covector.compiler.eager import NormalForm, normal_form
from covector.ir.avals import ShapedArray
from covector.ir.op import Op
from covector.runtime.backend import NativeCode
from covector.runtime.entry import Compiled

_lock: Final = threading.Lock()
#: Machine code by the key of a normal form.
_made: Final[dict[Any, CompiledKernel | Copied]] = {}


@final
class Copied:
    """A kernel that starts from a copy of an argument."""

    __slots__ = ("_kernel", "_module", "address")

    def __init__(self, module: CompiledModule, kernel: CompiledKernel) -> None:
        self._module, self._kernel = module, kernel
        self.address = module.address("copied")


def compile_eager(op: Op, avals: tuple[ShapedArray, ...]) -> Compiled | None:
    """`op` on arguments of these types, by the kernel of its normal form; None if it has none."""
    form = normal_form(op, avals)
    if form is None:
        return None
    code = _code(form, op)
    symbols = form.symbols
    if form.base is not None:
        symbols = (*symbols, avals[form.base].nbytes)
    out = op.result(*avals)
    outs = tuple(out) if op.multiple_results else (out,)
    return Compiled(NativeCode(code.address, symbols=symbols, keep=code), avals, outs)


def _code(form: NormalForm, op: Op) -> CompiledKernel | Copied:
    with _lock:
        found = _made.get(form.key)
    if found is None:
        made, inputs, symbols = _kernel(form, op)
        base = form.base
        found = made if base is None else _after_copy(made, base, inputs, symbols)
        with _lock:
            found = _made.setdefault(form.key, found)
    return found


def _kernel(form: NormalForm, op: Op) -> tuple[CompiledKernel, int, int]:
    """(the form's kernel, how many buffers and how many numbers it takes before the result's).

    The disk cache knows the kernel's name by the form, and its code by the name: where both are
    there, no kernel is planned.
    """
    key = _key(form, op)
    known = None if key is None else cache.lookup(key)
    if known is not None:
        name, *counts = known.decode().split()
        inputs, symbols = map(int, counts)
        image = cache.lookup(name)
        if image is not None:
            log.debug(1, "load %s for every size from the cache on disk", op)
            return linked_kernel(name, lambda: image), inputs, symbols
    log.debug(1, "compile %s for every size", op)
    kernel = form.make()
    inputs = sum(b.home != "scratch" for b in kernel.buffers.values()) - 1
    symbols = len(kernel.symbols)
    made = cpu.executable.compile_kernels([kernel])[0]
    if key is not None:
        name = cpu.objects.kernel_name(kernel, host())
        cache.store(key, f"{name} {inputs} {symbols}".encode())
    return made, inputs, symbols


def _key(form: NormalForm, op: Op) -> str | None:
    """What the disk cache calls a form; None where its text may not say all of it."""
    if log.wanted(3) or not type(op).__module__.startswith("covector."):
        return None
    text = f"{host().fingerprint}\n{type(op).__qualname__}\n{form.key}"
    return "n" + digest(text).hexdigest()


def _after_copy(kernel: CompiledKernel, base: int, out: int, size: int) -> Copied:
    """Copies argument `base` into the result, as many bytes as the last number says, before."""
    text = f"""
declare void @kernel(ptr, ptr)
declare ptr @memcpy(ptr, ptr, i64)
define void @copied(ptr %buffers, ptr %symbols) {{
  %source.at = getelementptr ptr, ptr %buffers, i64 {base}
  %source = load ptr, ptr %source.at
  %target.at = getelementptr ptr, ptr %buffers, i64 {out}
  %target = load ptr, ptr %target.at
  %size.at = getelementptr i64, ptr %symbols, i64 {size}
  %size = load i64, ptr %size.at
  call ptr @memcpy(ptr %target, ptr %source, i64 %size)
  call void @kernel(ptr %buffers, ptr %symbols)
  ret void
}}
"""
    target = host()
    key = "e" + digest(f"{target.fingerprint}\n{text}").hexdigest()
    image = cache.lookup(key)
    if image is None:
        text = cpu.assemble.module_text(target, [text], ())
        image = cpu.assemble.assemble(text, target)
        cache.store(key, image)
    return Copied(link([image], ["copied"], {"kernel": kernel.address}), kernel)
