"""Matrix products through BLAS: any contraction of dense operands as batches of `gemm` or `gemv`.

The axes of an operand fall in three groups: batch, own, contracted.  Where own and contracted
axes each collapse to one stride, and one of them is 1, BLAS reads the operand as it is; else it is
first copied to that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.assemble import module_text
from covector.backends.cpu.emit.types import I8, I64, PTR
from covector.backends.cpu.library import contraction, product
from covector.backends.cpu.library.site import Operand, Site
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import load

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value


#: Bytes of a line of the caches.
LINE: Final = 64


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
    """`dot_general` of two operands of one type; the attribute is its dimension numbers.

    By our own tiles where they are as fast; else by BLAS, and then what follows.
    """
    ((contract, batch),) = site.attributes
    x, y = site.inputs
    shape = contraction.product_of(x.dtype, [x.shape, y.shape], contract, batch)
    if contraction.suits(shape, site.host.target):
        contraction.call(site, shape)
        return
    for f in site.leaders:
        site.host.run_kernel(f.kernel, f.pointers)
    _by_blas(site, contract, batch)
    for f in site.followers:
        site.host.run_kernel(f.kernel, f.pointers)


def _by_blas(site: Site, contract: Any, batch: Any) -> None:
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
    rows, columns, depth = sides[0].own[0], sides[1].own[0], sides[0].contracted[0]
    if max(rows, columns, depth, *(s for side in sides for s in (side.own[1], side.contracted[1]))
           ) >= 1 << 31:  # fmt: skip
        raise NotImplementedError(f"gemm of {x.shape} and {y.shape}: BLAS counts in 32 bits")
    sizes = [x.shape[d] for d in batch[0]]
    steps = [[s * out.itemsize for s in side.batch] for side in sides]
    steps.append(_dense(sizes, rows * columns * out.itemsize))
    kind = "gemv" if rows == 1 or columns == 1 else "gemm"
    cut = product.cut(kind, sizes[-1] if sizes else 1, rows, columns, depth)
    inner = [0, 0, 0]
    if cut.along == product.BATCH:
        sizes.pop()
        inner = [step.pop() for step in steps]
    call = _gemv if kind == "gemv" else _gemm

    def body(pointers: list[Value]) -> None:
        call(site, cut, pointers, sides, inner)

    _over_batches(b, sizes, steps, [sides[0].pointer, sides[1].pointer, out.pointer], body)
    for pointer in freed:
        b.effect("effect", PTR, (pointer,), "free")


def _over_batches(
    b: Builder, sizes: list[int], steps: list[list[int]], pointers: list[Value],
    body: Callable[[list[Value]], None],
) -> None:  # fmt: skip
    """Runs `body` for each index of the batch axes; `steps` are in bytes."""
    if not sizes:
        body(pointers)
        return

    def one(i: Value, carried: list[Value]) -> list[Value]:
        moved = [
            b.put("gep", PTR, (p, b.mul(i, b.int(step[0]))), I8)
            for p, step in zip(pointers, steps, strict=True)
        ]
        _over_batches(b, sizes[1:], [s[1:] for s in steps], moved, body)
        return carried

    b.loop(b.int(0), b.int(sizes[0]), 1, [], one)


def _gemm(
    site: Site, cut: product.Cut, pointers: list[Value], sides: list[Side], batch: list[int]
) -> None:
    x, y = (_layout(side) for side in sides)
    m, n, k = x.own, y.own, x.contracted
    steps = {
        product.BATCH: batch, product.ROWS: [x.step, 0, n], product.COLUMNS: [0, y.step, 1],
    }[cut.along]  # fmt: skip
    # As the right operand, contracted axes are rows.
    numbers = [_flag(x.transposed), _flag(not y.transposed), m, n, k, x.lead, y.lead, n]
    _call(site, "gemm", cut, cut.along, pointers, numbers, steps)


def _gemv(
    site: Site, cut: product.Cut, pointers: list[Value], sides: list[Side], batch: list[int]
) -> None:
    """The operand that is a matrix, times the other's vector."""
    which = 1 if sides[0].own[0] == 1 else 0
    matrix, vector = _layout(sides[which]), sides[1 - which]
    pointers = [pointers[which], pointers[1 - which], pointers[2]]
    along, steps = product.BATCH, [batch[which], batch[1 - which], batch[2]]
    if cut.along != product.BATCH:
        along = product.COLUMNS if matrix.transposed else product.ROWS
        steps = [matrix.step, 0, 1]
    shape = (matrix.own, matrix.contracted)
    stride = max(vector.contracted[1], 1) if matrix.contracted > 1 else 1
    numbers = [_flag(matrix.transposed), *(shape[::-1] if matrix.transposed else shape),
               matrix.lead, stride]  # fmt: skip
    _call(site, "gemv", cut, along, pointers, numbers, steps)


def _call(
    site: Site, kind: str, cut: product.Cut, along: int, pointers: list[Value],
    numbers: list[int], steps: list[int],
) -> None:  # fmt: skip
    """Calls the function of `product.text`; `steps` are in bytes for a batch, else in elements."""
    dtype, itemsize, stride = site.outputs[0].dtype, site.outputs[0].itemsize, 1
    if along != product.BATCH:
        stride, steps = cut.quantum, [s * itemsize for s in steps]
    name, b = f"{kind}.{dtype}", site.host.b

    def text() -> str:
        function, declared = product.text(name, kind, dtype)
        return module_text(site.host.target, [function], declared)

    site.host.code(name, text)
    site.host.imports(product.routine(kind, dtype))
    places = [b.local(PTR, len(pointers)), b.local(I64, len(numbers) + 2 + len(steps))]
    for place, given in zip(
        places, (pointers, [b.int(n) for n in (*numbers, along, stride, *steps)]), strict=True
    ):
        for n, v in enumerate(given):
            at = b.put("gep", PTR, (place, b.int(n)), I64)
            b.effect("store", v.type, (v, at), 8)
    b.effect("effect", PTR, (*places, b.int(cut.units), b.int(cut.quantum)), name)


class _Layout(NamedTuple):
    """A matrix as BLAS reads it; `step` is that of its own axis, in elements."""

    own: int
    contracted: int
    lead: int
    transposed: bool

    @property
    def step(self) -> int:
        return 1 if self.transposed else self.lead


def _layout(side: Side) -> _Layout:
    """Rows are `own`, unless the matrix lies transposed."""
    (n, own), (k, contracted) = side.own, side.contracted
    if contracted == 1 or k == 1:
        return _Layout(n, k, max(own if n > 1 else k, k, 1), False)
    return _Layout(n, k, max(contracted, n, 1), True)


def _flag(transposed: bool) -> int:
    """CBLAS's word for a transposed operand, or not."""
    return 112 if transposed else 111


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
    """An order of the contracted axes in which as few elements as possible are copied."""
    pairs = range(len(contract[0]))
    candidates = [list(pairs), *(sorted(pairs, key=lambda n, c=c: c[n]) for c in contract)]

    def copies(order: list[int]) -> int:
        return sum(
            math.prod(v.shape) * (_view(v, [c[n] for n in order], bt) is None)
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
    given = (b.const(max(total * v.itemsize, 1) + LINE, I64),)
    made = b.put("call", PTR, given, "malloc", len(b.scopes) - 1, keep=False)
    freed.append(made)
    # Large results of kernels are written past the caches, line by line.
    number = b.bin("and", b.add(b.cast("ptrtoint", made, I64), b.int(LINE - 1)), b.int(-LINE))
    room = b.cast("inttoptr", number, PTR)
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
