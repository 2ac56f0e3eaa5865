"""The door of the emitter: a loop program as an LLVM function.

Machine code has one shape, `void name(ptr buffers, ptr symbols)`: two arrays, of pointers and of
i64.  Loops that may run on several threads are functions of a range of iterations beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from covector.backends.cpu.emit import spread
from covector.backends.cpu.emit.address import Memory, scalar_index
from covector.backends.cpu.emit.env import Env
from covector.backends.cpu.emit.nest import Nest
from covector.backends.cpu.emit.outline import often_used
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.statements import emit_body
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import I8, I64, PARTS, PTR, element
from covector.compiler import math
from covector.compiler.loops.program import (
    Buffer,
    Fold,
    For,
    Kernel,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)  # fmt: skip
from covector.compiler.loops.transform import all_statements, expressions
from covector.ir.index import Affine
from covector.ir.scalar import Expr, walk

if TYPE_CHECKING:
    from covector.backends.cpu.target import Target

ARGUMENTS: Final = "ptr %buffers, ptr %symbols"
#: Scratch beyond this many bytes comes from the heap: threads may have small stacks.
STACK: Final = 32 * 1024
ALIGN: Final = 64
#: The symbols of a kernel that runs a range.
BOUNDS: Final = ("first", "last")
#: Expression nodes of a kernel up to which its caller takes it over, …
INLINED: Final = 200
#: … and how often its innermost statements may run.
ROUNDS: Final = 64


def emit(kernel: Kernel, target: Target, name: str | None = None) -> tuple[str, set[str]]:
    """(the text of its functions, the declarations they need); `name`: other than the kernel's."""
    name = name or kernel.name
    lanes = lanes_of(kernel, target)
    worth = [s for s in spread.loops(kernel) if _worth(kernel, s, target, lanes)]
    parts = {s: f"{name}.{n}" for n, s in enumerate(worth)}
    texts, declared = [], set()
    functions: dict[str, str] = {}
    often = often_used(e for s in all_statements(kernel.body) for e in expressions(s))

    def state() -> Nest:
        nest = Nest(target, lanes)
        nest.outlined, nest.functions, nest.declared = often, functions, declared
        nest.prefix = name
        return nest

    for loop, label in parts.items():
        nest = state()
        nest.ranged = (loop, nest.b.argument("first", I64), nest.b.argument("last", I64))
        head = f"define internal void @{label}({ARGUMENTS}, i64 %first, i64 %last) nounwind"
        texts.append(_function(nest, kernel, [loop], head, declared))
    nest = state()
    nest.calls = parts
    head = f"define void @{name}({ARGUMENTS}) nounwind"
    texts.append(_function(nest, kernel, kernel.body, head, declared))
    # What is defined here, or called without worker threads in sight, needs no declaration.
    made = [f"@{label}(" for label in (*parts.values(), *functions)]
    return "".join([*functions.values(), *texts]), {
        d for d in declared if not any(m in d for m in made)
    }


def emit_range(kernel: Kernel, target: Target, name: str) -> tuple[str, set[str]]:
    """As `emit`, of a kernel that ends in a loop: the symbols are the bounds between which this
    runs, and it runs on the thread that calls."""
    *before, loop = kernel.body
    assert isinstance(loop, For)
    mode = "serial" if loop.mode == "parallel" else loop.mode
    low, high = (Affine(0, ((s, 1),)) for s in BOUNDS)
    part = For(loop.axis, low, high, loop.body, mode, loop.unroll, loop.ahead)
    kernel = Kernel(kernel.name, kernel.buffers, [*before, part], BOUNDS)
    nest = Nest(target, lanes_of(kernel, target))
    nest.outlined = often_used(e for s in all_statements(kernel.body) for e in expressions(s))
    nest.prefix = name
    head = f"define void @{name}({ARGUMENTS}) nounwind"
    text = _function(nest, kernel, kernel.body, head, nest.declared)
    made = [f"@{label}(" for label in nest.functions]
    declared = {d for d in nest.declared if not any(m in d for m in made)}
    return "".join([*nest.functions.values(), text]), declared


def _worth(kernel: Kernel, loop: For, target: Target, lanes: int) -> bool:
    """Whether a loop may be work enough for several threads, as far as its extents are known."""
    nest = Nest(target, lanes)
    env = Env({s: (nest.b.argument("n", I64), 0) for s in kernel.symbols}, {})
    low, high = (scalar_index(nest, x, env) for x in (loop.low, loop.high))
    total = nest.b.mul(nest.b.sub(high, low), spread.work(nest, loop, env))
    return total.op != "const" or total.extra >= spread.WORTH


def _function(
    nest: Nest, kernel: Kernel, body: list[Statement], head: str, declared: set[str]
) -> str:
    b = nest.b
    given = b.argument("symbols", PTR)
    axes = {}
    for n, symbol in enumerate(kernel.symbols):
        place = b.put("gep", PTR, (given, b.int(n)), I64) if n else given
        axes[symbol] = (b.put("load", I64, (place,), 8, 0), 0)
    env = Env(axes, {})
    heap = _place_buffers(nest, kernel, body, env)
    emit_body(nest, body, [env])
    for pointer in heap:
        b.effect("effect", PTR, (pointer,), "free")
    if any(v.op == "stream" for block in b.blocks for v in block.lines):
        b.effect("fence", PTR, ())  # what passed the caches is in memory before anybody is told
    b.scopes[-1].block.end = ("ret",)
    text, needs = function_body(b.blocks, nest.target.pooled)
    declared |= needs
    return f"{head} {{\n{text}\n}}\n"


def inlines(kernel: Kernel, again: bool) -> bool:
    """Whether a kernel is so little work that its caller takes its statements over.

    `again`: the caller runs it in a loop; then LLVM unrolls its loops, if they are short.
    """
    statements = list(all_statements(kernel.body))
    if any(isinstance(s, Scan | Repeat) for s in statements):
        return False
    loops = any(isinstance(s, For | Fold) for s in statements)
    if loops and not (again and _rounds(kernel.body) <= ROUNDS):
        return False
    return sum(len(walk(*expressions(s))) for s in statements) <= INLINED


def _rounds(body: Sequence[Statement]) -> int:
    """How often the innermost statements run, all together; a run-time number counts as many."""
    total = 0
    for s in body:
        inner = [
            *(s.body if isinstance(s, For) else ()),
            *(s.stores if isinstance(s, Fold) else ()),
        ]
        loops = [(s.low, s.high)] if isinstance(s, For) else []
        loops += [(low, high) for _, low, high in s.loops] if isinstance(s, Fold) else []
        rounds = max(_rounds(inner), 1)
        for low, high in loops:
            rounds *= max(high.const - low.const, 0) if not low.terms + high.terms else ROUNDS + 1
        total += rounds
    return total


def emit_inline(
    b: Builder, kernel: Kernel, target: Target, pointers: list[Value], symbols: Sequence[int]
) -> None:
    """Emits the statements of a kernel where its caller stands; nothing is known of its memory."""
    nest = Nest(target, 1, b)
    env = Env({s: (b.int(n), 0) for s, n in zip(kernel.symbols, symbols, strict=True)}, {})
    given = iter(pointers)
    for buffer in kernel.buffers.values():
        strides = _strides(nest, buffer, env)
        own = buffer.home == "scratch"
        pointer = b.local(I8, max(_bytes(buffer), 1)) if own else next(given)
        nest.memory[buffer.name] = Memory(buffer, pointer, strides, 0, True)
    emit_body(nest, kernel.body, [env])


def lanes_of(kernel: Kernel, target: Target) -> int:
    """The width of the kernel's vector loops: the widest elements of vectors fill a register."""
    sizes = {element(d).size for d in _dtypes(kernel)}
    return target.lanes(max(sizes, default=4))


def _dtypes(kernel: Kernel) -> set[str]:
    """The element types of what may differ from lane to lane: not those of one number for all."""
    many = [b.dtype for b in kernel.buffers.values() if b.shape or b.home != "in"]
    found = {PARTS.get(d, d) for d in many}
    varies: set[Expr] = set()
    for e in walk(*(e for s in all_statements(kernel.body) for e in expressions(s))):
        if e.op == "load":
            differs = any(i.terms for i in e.extra[1])
        else:
            differs = e.op in ("index", "name") or not varies.isdisjoint(e.args)
        if not differs:
            continue
        varies.add(e)
        if e.dtype in PARTS and e.op in math.complex_parts.WIDE:
            found.add("float64")
        elif e.op != "index":
            found.add(PARTS.get(e.dtype, e.dtype))
    return found


def _written(statements: list[Statement]) -> set[str]:
    return {s.buffer for s in all_statements(statements) if isinstance(s, Store | Update)}


def _place_buffers(nest: Nest, kernel: Kernel, body: list[Statement], env: Env) -> list[Value]:
    """Pointers and strides of all buffers; returns what must be freed.

    Scratch is made where it is used: a loop that is a function of its own has its own.
    """
    b, heap = nest.b, []
    written = _written(kernel.body)
    used = spread.touched([s for s in body if s not in nest.calls])
    room, n = STACK, 0
    for buffer in kernel.buffers.values():
        strides = _strides(nest, buffer, env)
        if buffer.home != "scratch":
            place = b.put("gep", PTR, (b.argument("buffers", PTR), b.int(n)), PTR)
            pointer = b.put("load", PTR, (place,), 8, 0)
            n += 1
        elif buffer.name not in used:
            continue
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


def _strides(nest: Nest, buffer: Buffer, env: Env) -> list[Any]:
    if buffer.strides is not None:
        return [_number(nest, s, env) for s in buffer.strides]
    return _dense(nest, buffer, env)


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
