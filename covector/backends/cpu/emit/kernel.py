"""The door of the emitter: a loop program as an LLVM function.

Machine code has one shape, `void name(ptr buffers, ptr symbols)`: two arrays, of pointers and of
i64.  It unpacks them for a body whose pointers are `noalias` (unless updated in place).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covector.backends.cpu.emit.address import Memory, scalar_index
from covector.backends.cpu.emit.env import Env
from covector.backends.cpu.emit.nest import Nest
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.statements import emit_body
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import I8, I64, PARTS, PTR, element
from covector.compiler.loops.program import (
    Buffer,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Scan,
    Statement,
    Store,
    Update,
)  # fmt: skip
from covector.ir.index import Affine
from covector.ir.scalar import Expr, walk

if TYPE_CHECKING:
    from covector.backends.cpu.target import Target

#: Scratch beyond this many bytes comes from the heap: threads may have small stacks.
STACK: Final = 32 * 1024
ALIGN: Final = 64


def emit(kernel: Kernel, target: Target, name: str | None = None) -> tuple[str, set[str]]:
    """(the text of two functions, the declarations they need); `name`: other than the kernel's."""
    nest = Nest(target, lanes_of(kernel, target))
    name = name or kernel.name
    arguments = _arguments(kernel)
    axes = {s: (nest.b.argument(f"s{n}", I64), 0) for n, s in enumerate(kernel.symbols)}
    env = Env(axes, {})
    heap = _place_buffers(nest, kernel, env)
    emit_body(nest, kernel.body, [env])
    for pointer in heap:
        nest.b.effect("effect", PTR, (pointer,), "free")
    nest.b.scopes[-1].block.end = ("ret",)
    body, declared = function_body(nest.b.blocks)
    text = f"define internal void @{name}.body({arguments}) nounwind {{\n{body}\n}}\n" + _entry(
        kernel, name, arguments
    )
    return text, declared


def lanes_of(kernel: Kernel, target: Target) -> int:
    """The width of the kernel's vector loops: its widest elements fill a register."""
    sizes = {element(d).size for d in _dtypes(kernel)}
    return target.lanes(max(sizes, default=4))


def _dtypes(kernel: Kernel) -> set[str]:
    found = {PARTS.get(b.dtype, b.dtype) for b in kernel.buffers.values()}
    for e in walk(*expressions(kernel.body)):
        if e.op not in ("index", "const"):
            found.add(e.dtype)
    return found


def expressions(statements: list[Statement]) -> list[Expr]:
    """Every expression of some statements, inner ones included (not those within indices)."""
    out: list[Expr] = []
    for s in statements:
        if isinstance(s, Store | Update):
            out += [s.value, *([] if s.where is None else [s.where])]
        elif isinstance(s, Let):
            out.append(s.value)
        elif isinstance(s, If):
            out += [s.condition, *expressions(s.body), *expressions(s.orelse)]
        elif isinstance(s, For):
            out += expressions(s.body)
        elif isinstance(s, Scan):
            out += [*(e for _, e in s.carries), *s.next, *expressions(s.body)]
        elif isinstance(s, Fold):
            out += [e for r in s.results for e in (*r.values, *([r.init] if r.init else []))]
            out += expressions(s.stores)
    return out


def _written(statements: list[Statement]) -> set[str]:
    out: set[str] = set()
    for s in statements:
        if isinstance(s, Store | Update):
            out.add(s.buffer)
        elif isinstance(s, For | Scan):
            out |= _written(s.body)
        elif isinstance(s, If):
            out |= _written(s.body) | _written(s.orelse)
        elif isinstance(s, Fold):
            out |= _written(s.stores)
    return out


def arguments_of(kernel: Kernel) -> list[Buffer]:
    """The buffers that are passed, in the order of their pointers."""
    return [b for b in kernel.buffers.values() if b.home != "scratch"]


def _arguments(kernel: Kernel) -> str:
    pointers = [
        f"ptr {'' if b.home == 'inout' else 'noalias '}%b{n}"
        for n, b in enumerate(arguments_of(kernel))
    ]
    return ", ".join([*pointers, *(f"i64 %s{n}" for n in range(len(kernel.symbols)))])


def _place_buffers(nest: Nest, kernel: Kernel, env: Env) -> list[Value]:
    """Pointers and strides of all buffers; returns what must be freed."""
    b, heap = nest.b, []
    written = _written(kernel.body)
    room, numbers = STACK, {x.name: n for n, x in enumerate(arguments_of(kernel))}
    for buffer in kernel.buffers.values():
        strides = [_number(nest, s, env) for s in buffer.strides] if buffer.strides else _dense(
            nest, buffer, env)  # fmt: skip
        if buffer.home != "scratch":
            pointer = b.argument(f"b{numbers[buffer.name]}", PTR)
        else:
            size = _bytes(buffer)
            if size <= room:
                room -= size
                pointer = b.put("alloca", PTR, (), (I8, max(size, 1)), 0, keep=False)
            else:
                raw, pointer = _allocate(b, size)
                heap.append(raw)
        nest.memory[buffer.name] = Memory(buffer, pointer, strides, 0, buffer.name in written)
    return heap


def _bytes(buffer: Buffer) -> int:
    size = element(PARTS.get(buffer.dtype, buffer.dtype)).size * (2 if buffer.dtype in PARTS else 1)
    for extent in buffer.shape:
        if extent.constant is None:
            raise ValueError(f"scratch {buffer.name} has the run-time extent {extent}")
        size *= extent.constant
    return size


def _allocate(b: Builder, size: int) -> tuple[Value, Value]:
    raw = b.put("call", PTR, (b.int(size + ALIGN),), "malloc", 0, keep=False)
    address = b.cast("ptrtoint", raw, I64)
    up = b.bin("and", b.bin("add", address, b.int(ALIGN - 1)), b.int(-ALIGN))
    return raw, b.put("gep", PTR, (raw, b.bin("sub", up, address)), I8)


def _number(nest: Nest, x: Affine, env: Env) -> Any:
    """A stride: a Python number, or a value in the function."""
    return x.const if x.constant is not None else scalar_index(nest, x, env)


def _dense(nest: Nest, buffer: Buffer, env: Env) -> list[Any]:
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(buffer.shape):
        strides.insert(0, step)
        n = _number(nest, extent, env)
        if isinstance(step, int) and isinstance(n, int):
            step = step * n
        else:
            lift = lambda x: nest.b.int(x) if isinstance(x, int) else x  # noqa: E731
            step = nest.b.mul(lift(step), lift(n))
    return strides


def _entry(kernel: Kernel, name: str, arguments: str) -> str:
    """Unpacks the two arrays."""
    lines, passed = [], []
    for n, buffer in enumerate(arguments_of(kernel)):
        lines += [f"  %p{n} = getelementptr ptr, ptr %buffers, i64 {n}",
                  f"  %b{n} = load ptr, ptr %p{n}, align 8"]  # fmt: skip
        noalias = "" if buffer.home == "inout" else "noalias "
        passed.append(f"ptr {noalias}%b{n}")
    for k in range(len(kernel.symbols)):
        lines += [f"  %q{k} = getelementptr i64, ptr %symbols, i64 {k}",
                  f"  %s{k} = load i64, ptr %q{k}, align 8"]  # fmt: skip
        passed.append(f"i64 %s{k}")
    return "\n".join(
        [f"define void @{name}(ptr %buffers, ptr %symbols) nounwind {{", *lines,
         f"  call void @{name}.body({', '.join(passed)})", "  ret void", "}", ""]
    )  # fmt: skip
