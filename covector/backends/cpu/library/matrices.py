"""What routines of LAPACK need: loops over a batch, matrices by columns, NaN where one failed.

LAPACK reads matrices by columns; buffers of programs have rows.  A `Desk` writes the calls for one
site: sizes are numbers, the batch is a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.types import F32, F64, I1, I8, I32, PTR, Type
from covector.backends.cpu.library.blas import copy_kernel
from covector.backends.cpu.library.product import LETTER
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store
from covector.ir.index import ZERO, Affine, affine
from covector.ir.scalar import load

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Operand, Site

#: LAPACKE's word for matrices by columns.
COLUMNS: Final = 102
#: Elements are moved as integers of their size.
_MOVED: Final = {4: "uint32", 8: "uint64"}


class Part(NamedTuple):
    """A buffer of as many pieces as there are examples; one piece has `nbytes` bytes."""

    pointer: Value
    nbytes: int


@final
class Desk:
    """Writes code for a site: its matrices' element type is that of `operand`."""

    __slots__ = ("_rooms", "b", "batch", "itemsize", "letter", "real", "site")

    def __init__(self, site: Site, operand: Operand, batch: Sequence[int]) -> None:
        self.site, self.b = site, site.host.b
        self.batch = math.prod(batch)
        self.letter, self.itemsize = LETTER[operand.dtype], operand.itemsize
        self.real: Type = F32 if self.letter in "sc" else F64
        self._rooms: list[Value] = []

    @property
    def complex(self) -> bool:
        """Whether elements are complex."""
        return self.letter in "cz"

    # Memory

    def room(self, nbytes: int) -> Part:
        """Memory for so many bytes of each example, until `close`."""
        return Part(self.allocate(max(nbytes * self.batch, 1)), nbytes)

    def single(self, nbytes: int) -> Value:
        """Memory that all examples use in turn, until `close`."""
        return self.allocate(max(nbytes, 1))

    def allocate(self, nbytes: int) -> Value:
        """Memory of the heap, until `close`."""
        here = len(self.b.scopes) - 1
        found = self.b.put("call", PTR, (self.b.int(nbytes),), "malloc", here, keep=False)
        self._rooms.append(found)
        return found

    def close(self) -> None:
        """Gives all memory back."""
        for pointer in self._rooms:
            self.b.effect("effect", PTR, (pointer,), "free")

    def part(self, operand: Operand, itemsize: int | None = None) -> Part:
        """An operand, as a buffer of examples."""
        count = math.prod(operand.shape) // max(self.batch, 1)
        return Part(operand.pointer, count * (itemsize or operand.itemsize))

    def copy(self, target: Value, source: Value, nbytes: int) -> None:
        """Moves bytes."""
        if nbytes:
            args = (target, source, self.b.int(nbytes), self.b.const(False, I1))
            self.b.effect("effect", PTR, args, "llvm.memmove.p0.p0.i64")

    def by_columns(self, source: Value, rows: int, columns: int) -> Part:
        """A copy of all matrices that LAPACK can read."""
        made = self.room(rows * columns * self.itemsize)
        self.turn(made.pointer, source, rows, columns)
        return made

    def by_rows(self, target: Value, source: Value, rows: int, columns: int) -> None:
        """The copy back."""
        self.turn(target, source, columns, rows)

    def turn(self, target: Value, source: Value, rows: int, columns: int) -> None:
        """Transposes matrices of rows x columns."""
        if rows * columns * self.batch == 0:
            return
        if rows == 1 or columns == 1:
            self.copy(target, source, rows * columns * self.itemsize * self.batch)
            return
        kernel = transposing(self.itemsize, self.batch, rows, columns)
        self.site.host.run_kernel(kernel, [source, target])

    # Code

    def each(self, parts: Sequence[Part], body: Callable[..., None]) -> None:
        """`body(*pointers)` for every example."""
        b = self.b

        def one(i: Value, carried: list[Value]) -> list[Value]:
            body(*(self.after(p.pointer, b.mul(i, b.int(p.nbytes))) for p in parts))
            return carried

        b.loop(b.int(0), b.int(self.batch), 1, [], one)

    def loop(self, low: int | Value, high: int | Value, body: Callable[[Value], None]) -> None:
        """`body(i)` for each number."""
        b = self.b
        lift = lambda x: b.int(x) if isinstance(x, int) else x  # noqa: E731

        def one(i: Value, carried: list[Value]) -> list[Value]:
            body(i)
            return carried

        b.loop(lift(low), lift(high), 1, [], one)

    def when(self, condition: Value, body: Callable[[], None],
             orelse: Callable[[], None] | None = None) -> None:  # fmt: skip
        """One of two bodies."""
        run = lambda f: lambda: f() or []  # noqa: E731
        self.b.branch(condition, run(body), None if orelse is None else run(orelse))

    def after(self, pointer: Value, nbytes: Value | int) -> Value:
        """A pointer so many bytes further on."""
        nbytes = self.b.int(nbytes) if isinstance(nbytes, int) else nbytes
        if nbytes.op == "const" and nbytes.extra == 0:
            return pointer
        return self.b.put("gep", PTR, (pointer, nbytes), I8)

    def at(self, pointer: Value, index: Value | int, type: Type) -> Value:
        """A pointer to element `index`."""
        index = self.b.int(index) if isinstance(index, int) else index
        return self.b.put("gep", PTR, (pointer, index), type)

    def load(self, pointer: Value, index: Value | int, type: Type) -> Value:
        """Reads an element, here and now."""
        b, place = self.b, self.at(pointer, index, type)
        return b.put("load", type, (place,), type.bits // 8, len(b.scopes) - 1, keep=False)

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        """Writes an element."""
        place = self.at(pointer, index, value.type)
        self.b.effect("store", value.type, (value, place), value.type.bits // 8)

    def call(self, name: str, *args: Value | int | str) -> Value:
        """LAPACKE's function `name` (without its letter) on matrices by columns; its word on
        success.  Numbers are 32 bits wide, a str is a letter."""
        b, full = self.b, f"scipy_LAPACKE_{self.letter}{name}"
        self.site.host.imports(full)
        given = tuple(self.argument(a) for a in (COLUMNS, *args))
        return b.put("call", I32, given, full, len(b.scopes) - 1, keep=False)

    def argument(self, x: Value | int | str) -> Value:
        """An argument of a C function."""
        if isinstance(x, str):
            return self.b.const(ord(x), I32)
        return self.b.const(x, I32) if isinstance(x, int) else x

    # Failure

    def fill_nan(self, pointer: Value, nbytes: int) -> None:
        """NaN in every part of every element."""
        nan = self.b.const(math.nan, self.real)
        self.loop(0, nbytes // (self.real.bits // 8), lambda i: self.store(pointer, i, nan))

    def check(self, info: Value, pieces: Sequence[tuple[Value, int]], negative: bool = False
              ) -> None:  # fmt: skip
        """NaN in the pieces (pointer, bytes) if LAPACK's word isn't 0 (or is negative)."""
        failed = self.b.cmp("icmp slt" if negative else "icmp ne", info, self.b.const(0, I32))
        self.when(failed, lambda: self._fill_all(pieces))

    def _fill_all(self, pieces: Sequence[tuple[Value, int]]) -> None:
        for pointer, nbytes in pieces:
            self.fill_nan(pointer, nbytes)

    def finite(self, pointer: Value, nbytes: int) -> Value:
        """Whether all elements are."""
        b = self.b
        zero = b.const(0.0, self.real)

        def one(i: Value, carried: list[Value]) -> list[Value]:
            x = self.load(pointer, i, self.real)
            return [b.bin("fadd", carried[0], b.bin("fmul", x, zero))]

        (total,) = b.loop(b.int(0), b.int(nbytes // (self.real.bits // 8)), 1, [zero], one)
        return b.cmp("fcmp oeq", total, zero)


def transposing(itemsize: int, batch: int, rows: int, columns: int) -> Kernel:
    """A loop program that transposes a batch of dense matrices."""
    shape = [batch, columns, rows]
    strides = [rows * columns, 1, columns]
    if itemsize not in _MOVED:
        return copy_kernel("complex128", shape, strides)
    dtype = _MOVED[itemsize]
    index = tuple(affine(f"i{d}") for d in range(3))
    extents = tuple(Affine(n) for n in shape)
    body: list[Statement] = [Store("y", index, load("x", index, dtype))]
    for d, mode in ((2, "serial"), (1, "tile"), (0, "serial")):
        body = [For(f"i{d}", ZERO, extents[d], body, mode)]
    source = Buffer("x", extents, dtype, "in", tuple(map(Affine, strides)))
    return Kernel("turn", {"x": source, "y": Buffer("y", extents, dtype, "out")}, body)
