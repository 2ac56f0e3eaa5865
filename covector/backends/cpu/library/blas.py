"""Matrix products through BLAS: any contraction of dense operands as batches of `gemm` or `gemv`.

The axes of an operand fall in three groups: batch, own, contracted.  Where own and contracted
axes each collapse to one stride, and one of them is 1, BLAS reads the operand as it is; else it is
first copied to that order.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from covector.backends.cpu.emit.types import F32, F64, I8, I32, I64, PTR
from covector.backends.cpu.library.site import Operand, Site
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import load
from covector.runtime import threads

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value

_LETTER: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
_lock = threading.Lock()
_library: Final[list[Any]] = []


def address(name: str) -> int:
    """Where a BLAS function is; loads the library at the first call."""
    function = getattr(_blas(), name, None)
    if function is None:
        raise RuntimeError(f"scipy-openblas32 has no function {name}: is its version too old?")
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _blas() -> Any:
    with _lock:
        if not _library:
            _library.append(_load())
            threads.follow(_library[0].scipy_openblas_set_num_threads)
    return _library[0]


def _load() -> Any:
    import scipy_openblas32

    folder = Path(scipy_openblas32.get_lib_dir())
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    found = sorted(p for p in folder.iterdir() if "openblas" in p.name and p.suffix == suffix)
    if not found:
        raise RuntimeError(f"scipy-openblas32: no library *openblas*{suffix} in {folder}")
    return ctypes.CDLL(str(found[0]))


@final
class Side:
    """One operand of a product, seen as batch x own x contracted.

    `own` and `contracted` are (size, stride); `batch` has a stride for each batch axis.
    """

    __slots__ = ("batch", "contracted", "own", "pointer")

    def __init__(
        self, pointer: Value, batch: list[int], own: tuple[int, int], contracted: tuple[int, int]
    ) -> None:
        self.pointer, self.batch, self.own, self.contracted = pointer, batch, own, contracted


def gemm(site: Site) -> None:
    """`dot_general` of two operands of one type; the attribute is its dimension numbers."""
    ((contract, batch),) = site.attributes
    x, y = site.inputs
    (out,) = site.outputs
    b = site.host.b
    if 0 in out.shape:
        return
    freed: list[Value] = []
    order = _contraction_order(x, y, contract, batch)
    sides = [
        _side(site, v, [c[n] for n in order], bt, freed)
        for v, c, bt in ((x, contract[0], batch[0]), (y, contract[1], batch[1]))
    ]
    sizes = [x.shape[d] for d in batch[0]]
    rows, columns, depth = sides[0].own[0], sides[1].own[0], sides[0].contracted[0]
    if max(rows, columns, depth, *(s for side in sides for s in (side.own[1], side.contracted[1]))
           ) >= 1 << 31:  # fmt: skip
        raise NotImplementedError(f"gemm of {x.shape} and {y.shape}: BLAS counts in 32 bits")
    steps = [side.batch for side in sides] + [_dense(sizes, rows * columns)]
    starts = [sides[0].pointer, sides[1].pointer, out.pointer]

    def product(pointers: list[Value]) -> None:
        _product(site, out.dtype, pointers, sides, rows, columns, depth)

    _over_batches(b, sizes, steps, starts, out.itemsize, product)
    for pointer in freed:
        b.effect("effect", PTR, (pointer,), "free")


def _over_batches(
    b: Builder, sizes: list[int], steps: list[list[int]], pointers: list[Value], itemsize: int,
    body: Any,
) -> None:  # fmt: skip
    if not sizes:
        body(pointers)
        return

    def one(i: Value, carried: list[Value]) -> list[Value]:
        moved = [
            b.put("gep", PTR, (p, b.mul(i, b.int(step[0] * itemsize))), I8)
            for p, step in zip(pointers, steps, strict=True)
        ]
        _over_batches(b, sizes[1:], [s[1:] for s in steps], moved, itemsize, body)
        return carried

    b.loop(b.int(0), b.int(sizes[0]), 1, [], one)


def _product(
    site: Site, dtype: str, pointers: list[Value], sides: list[Side], m: int, n: int, k: int
) -> None:
    b, letter = site.host.b, _LETTER[dtype]
    if m == 1 or n == 1:
        # The operand that is a matrix, times the other's vector.
        which = 1 if m == 1 else 0
        matrix, vector = sides[which], sides[1 - which]
        name = f"scipy_cblas_{letter}gemv"
        rows, columns, lead, flag = _layout(matrix)
        wide = b.const(1, I32)
        step = b.const(max(vector.contracted[1], 1) if k > 1 else 1, I32)
        args = (_flag(b, _ROW_MAJOR), flag_value(b, flag), b.const(rows, I32),
                b.const(columns, I32), _scalar(site, dtype, 1.0), pointers[which],
                b.const(lead, I32), pointers[1 - which], step, _scalar(site, dtype, 0.0),
                pointers[2], wide)  # fmt: skip
    else:
        name = f"scipy_cblas_{letter}gemm"
        _, _, lead_x, flag_x = _layout(sides[0])
        # As the right operand, contracted axes are rows.
        _, _, lead_y, flag_y = _layout(sides[1])
        args = (_flag(b, _ROW_MAJOR), flag_value(b, flag_x), flag_value(b, not flag_y),
                b.const(m, I32), b.const(n, I32), b.const(k, I32), _scalar(site, dtype, 1.0),
                pointers[0], b.const(lead_x, I32), pointers[1], b.const(lead_y, I32),
                _scalar(site, dtype, 0.0), pointers[2], b.const(n, I32))  # fmt: skip
    site.host.imports(name)
    b.effect("effect", args[0].type, args, name)


def _layout(side: Side) -> tuple[int, int, int, bool]:
    """(rows, columns, leading dimension, whether own x contracted is its transpose)."""
    (n, own), (k, contracted) = side.own, side.contracted
    if contracted == 1 or k == 1:
        return n, k, max(own if n > 1 else k, k, 1), False
    return k, n, max(contracted, n, 1), True


def _flag(b: Builder, number: int) -> Value:
    return b.const(number, I32)


def flag_value(b: Builder, transposed: bool) -> Value:
    """CBLAS's word for a transposed operand, or not."""
    return b.const(_TRANSPOSED if transposed else _PLAIN, I32)


def _scalar(site: Site, dtype: str, number: float) -> Value:
    """alpha or beta: by value, or by address for complex types."""
    b = site.host.b
    if dtype in ("float32", "float64"):
        return b.const(number, F32 if dtype == "float32" else F64)
    part = F32 if dtype == "complex64" else F64
    place = b.local(part, 2)
    for n, x in enumerate((number, 0.0)):
        at = b.put("gep", PTR, (place, b.int(n)), part)
        b.effect("store", part, (b.const(x, part), at), part.bits // 8)
    return place


# Axes


def _dense(shape: Sequence[int], step: int = 1) -> list[int]:
    out: list[int] = []
    for n in reversed(shape):
        out.insert(0, step)
        step *= n
    return out


def _collapse(axes: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """(size, stride) of some (size, stride) axes as one, or None."""
    total: tuple[int, int] | None = None
    for n, stride in axes:
        if n == 1:
            continue
        if total is None:
            total = (n, stride)
        elif total[1] == n * stride:
            total = (total[0] * n, stride)
        else:
            return None
    return total or (1, 1)


def _contraction_order(x: Operand, y: Operand, contract: Any, batch: Any) -> list[int]:
    """An order of the contracted axes in which as many operands as possible need no copy."""
    pairs = range(len(contract[0]))
    candidates = [list(pairs), *(sorted(pairs, key=lambda n, c=c: c[n]) for c in contract)]

    def copies(order: list[int]) -> int:
        return sum(
            _view(v, [c[n] for n in order], bt) is None
            for v, c, bt in ((x, contract[0], batch[0]), (y, contract[1], batch[1]))
        )

    return min(candidates, key=copies)


def _own(v: Operand, contracted: Sequence[int], batch: Sequence[int]) -> list[int]:
    return [d for d in range(len(v.shape)) if d not in contracted and d not in batch]


def _view(
    v: Operand, contracted: Sequence[int], batch: Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """(own, contracted) as (size, stride) pairs that BLAS can read, or None."""
    strides = _dense(v.shape)
    groups = []
    for axes in (_own(v, contracted, batch), contracted):
        one = _collapse([(v.shape[d], strides[d]) for d in axes])
        if one is None:
            return None
        groups.append(one)
    (n, own), (k, depth) = groups
    readable = own == 1 or depth == 1 or n == 1 or k == 1
    return (groups[0], groups[1]) if readable else None


def _side(
    site: Site, v: Operand, contracted: Sequence[int], batch: Sequence[int], freed: list[Value]
) -> Side:
    strides = _dense(v.shape)
    seen = _view(v, contracted, batch)
    if seen is not None:
        own, depth = seen
        # An axis of one element may be given the stride that suits.
        if own[0] > 1 and depth[0] > 1 and own[1] != 1 and depth[1] != 1:
            raise AssertionError("unreadable view")
        if depth[0] == 1:
            depth = (1, 1)
        elif own[0] == 1 and depth[1] != 1:
            own = (1, 1)
        return Side(v.pointer, [strides[d] for d in batch], own, depth)
    axes = [*batch, *_own(v, contracted, batch), *contracted]
    shape = [v.shape[d] for d in axes]
    total = 1
    for n in shape:
        total *= n
    b = site.host.b
    room = b.put(
        "call",
        PTR,
        (b.const(max(total * v.itemsize, 1), I64),),
        "malloc",
        len(b.scopes) - 1,
        keep=False,
    )
    freed.append(room)
    site.host.run_kernel(copy_kernel(v.dtype, shape, [strides[d] for d in axes]),
                         [v.pointer, room])  # fmt: skip
    split = len(batch)
    cut = split + len(axes) - split - len(contracted)
    inner = _dense(shape)
    own = _collapse(list(zip(shape[split:cut], inner[split:cut], strict=True)))
    depth = _collapse(list(zip(shape[cut:], inner[cut:], strict=True)))
    assert own is not None
    assert depth is not None
    return Side(room, inner[:split], own, depth)


def copy_kernel(dtype: str, shape: Sequence[int], strides: Sequence[int]) -> Kernel:
    """A loop program that copies a strided array to a dense one."""
    if dtype == "complex64":
        dtype = "uint64"  # bits are bits
    elif dtype == "complex128":
        dtype, shape, strides = "float64", [*shape, 2], [*(2 * s for s in strides), 1]
    axes = [f"i{d}" for d in range(len(shape))]
    index = tuple(affine(a) for a in axes)
    extents = tuple(Affine(n) for n in shape)
    body: list[Statement] = [Store("y", index, load("x", index, dtype))]
    for a, n in reversed(list(zip(axes, extents, strict=True))):
        body = [For(a, ZERO, n, body, "vector" if a == axes[-1] else "serial")]
    source = Buffer("x", extents, dtype, "in", tuple(Affine(s) for s in strides))
    return Kernel("copy", {"x": source, "y": Buffer("y", extents, dtype, "out")}, body)
