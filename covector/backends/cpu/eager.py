"""Single operations for eager use: one kernel serves every shape; sizes are run-time numbers."""

from __future__ import annotations

import hashlib
import threading
from typing import Any, Final, final

from covector._base import log
from covector.backends.cpu import cache
from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.executable import CompiledKernel, compile_kernels
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
        log.debug(1, "compile %s for every size", op)
        kernel = form.make()
        made = compile_kernels([kernel])[0]
        count = sum(b.home != "scratch" for b in kernel.buffers.values())
        base = form.base
        found = made if base is None else _after_copy(made, base, count - 1, len(kernel.symbols))
        with _lock:
            found = _made.setdefault(form.key, found)
    return found


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
    key = "e" + hashlib.sha256(f"{target.fingerprint}\n{text}".encode()).hexdigest()
    image = cache.lookup(key)
    if image is None:
        image = assemble(module_text(target, [text], ()), target)
        cache.store(key, image)
    return Copied(link([image], ["copied"], {"kernel": kernel.address}), kernel)
