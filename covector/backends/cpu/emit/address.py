"""Where an element is: indices linearised to base + step * lane + a vector of offsets.

The offset is summed level by level, as a chain of pointers, so that what belongs to an outer loop
is computed there; a constant part comes last, where addressing modes take it for free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.convert import convert
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import (
    ELEMENTS,
    I32,
    I64,
    PARTS,
    PTR,
    Element,
    element,
)  # fmt: skip
from covector.compiler.loops.program import Buffer
from covector.ir.index import Affine, Data, Quotient

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest


#: Bytes of a result from which its vectors are written past the caches: that spares reading each
#: line before it is written, a quarter to a third of the traffic, and nothing else is evicted.
STREAMED: Final = 16 << 20
#: Bytes of a cache line.
LINE: Final = 64


class Place(NamedTuple):
    """A pointer to lane 0, what to add per lane (a number, or a run-time i64), further offsets."""

    pointer: Value
    step: int | Value
    offsets: Value | None


class Memory:
    """A buffer in the function: its pointer, element type, strides (numbers or run-time values).

    `streams`: whole vectors are written past the caches; None: if it is as large when it is run.
    """

    __slots__ = (
        "align", "element", "forms", "home", "parts", "pointer", "streams", "strides", "written",
    )  # fmt: skip

    def __init__(
        self, buffer: Buffer, pointer: Value, strides: list[Any], align: int, written: bool
    ) -> None:
        self.parts = buffer.dtype in PARTS
        self.element: Element = element(PARTS.get(buffer.dtype, buffer.dtype))
        if self.parts:
            strides = [*(double(s) for s in strides), 1]
        self.pointer, self.strides, self.home = pointer, strides, buffer.home
        self.align, self.written = align or self.element.size, written
        self.streams = _streams(buffer)
        self.forms: dict[Any, Form] = {}


def _streams(buffer: Buffer) -> bool | None:
    """Whether a result is so large that it has left the caches before anybody reads it.

    Its memory then begins at a multiple of `LINE`: so does that of every slot of a program, and so
    do the rows of such a slot, if they are whole lines.
    """
    if buffer.home != "out" or buffer.strides is not None or buffer.dtype in PARTS:
        return False
    size = element(buffer.dtype).size
    for extent in buffer.shape:
        if extent.constant is None:
            return None if len(buffer.shape) == 1 else False
        size *= extent.constant
    return size >= STREAMED and size % LINE == 0


def streamable(memory: Memory, form: Form, env: Env) -> bool:
    """Whether a store of a whole vector at `form` may pass the caches: only if it is aligned."""
    lanes = env.lanes
    size = lanes * memory.element.size
    if memory.streams is False or not env.aligned or form.opaque or size < 16 or size & (size - 1):
        return False
    return form.const % lanes == 0 and all(
        (atom == env.vector and c == 1) or c % lanes == 0 for atom, c in form.terms
    )


def double(stride: Any) -> Any:
    """A stride over complex numbers as one over their parts."""
    return 2 * stride if isinstance(stride, int) else ("twice", stride)


class Form(NamedTuple):
    """An index linearised: const + sum of c * atom + sum of (affine * run-time stride)."""

    const: int
    terms: tuple[tuple[Any, int], ...]
    opaque: tuple[tuple[Affine, Value], ...]


def linearise(b: Builder, memory: Memory, index: tuple[Affine, ...]) -> Form:
    """The offset of `index`, in elements."""
    form = memory.forms.get(index)
    if form is None:
        total, opaque = Affine(), []
        for i, stride in zip(index, memory.strides, strict=True):
            if isinstance(stride, int):
                total = total + i * stride
            elif isinstance(stride, tuple):
                opaque.append((i * 2, stride[1]))
            else:
                opaque.append((i, stride))
        form = memory.forms[index] = Form(total.const, total.terms, tuple(opaque))
    return form


class _Sum:
    """Collects an offset: a constant, scalars of several levels, the step, vector offsets."""

    __slots__ = ("b", "const", "parts", "step", "vector")

    def __init__(self, b: Builder, const: int = 0) -> None:
        self.b, self.const = b, const
        self.parts: list[Value] = []
        self.step: int | Value = 0
        self.vector: Value | None = None

    def add(self, nest: Nest, env: Env, atom: Any, c: int, stride: Value | None = None) -> None:
        """Adds `c * atom (* stride)`."""
        b = self.b
        if isinstance(atom, str):
            value, more = env.axes[atom]
            if stride is None:
                self.const += c * more
                if value.op == "const":
                    self.const += c * value.extra
                else:
                    self.parts.append(b.mul(value, b.int(c)))
            else:
                self.parts.append(b.mul(b.add(value, b.int(more)), b.mul(stride, b.int(c))))
            if atom == env.vector:
                self._stretch(c if stride is None else b.mul(stride, b.int(c)))
            return
        value = atom_value(nest, atom, env)
        scale = b.int(c) if stride is None else b.mul(stride, b.int(c))
        part = b.mul(value, scale)
        if part.type.lanes == 1:
            self.parts.append(part)
        else:
            self.vector = part if self.vector is None else b.add(self.vector, part)

    def _stretch(self, step: int | Value) -> None:
        if isinstance(self.step, int) and isinstance(step, int):
            self.step += step
        else:
            lift = lambda s: self.b.int(s) if isinstance(s, int) else s  # noqa: E731
            self.step = self.b.add(lift(self.step), lift(step))

    @property
    def stretch(self) -> int:
        """The step of an index (not of an address: those may have run-time strides)."""
        assert isinstance(self.step, int)
        return self.step

    def scalar(self) -> Value:
        """The sum of what is not along the lanes."""
        total = self.b.int(0)
        for part in sorted(self.parts, key=_level):
            total = self.b.add(total, part)
        return self.b.add(total, self.b.int(self.const))


def _level(v: Value) -> int:
    return v.level


def _sum(nest: Nest, env: Env, index: Affine) -> _Sum:
    total = _Sum(nest.b, index.const)
    for atom, c in index.terms:
        total.add(nest, env, atom, c)
    return total


def locate(nest: Nest, memory: Memory, index: tuple[Affine, ...], env: Env) -> Place:
    """Where `memory[index]` is for this instance."""
    b = nest.b
    form = linearise(b, memory, index)
    total = _Sum(b, form.const)
    for atom, c in form.terms:
        total.add(nest, env, atom, c)
    for affine, stride in form.opaque:
        if affine.const:
            total.parts.append(b.mul(stride, b.int(affine.const)))
        for atom, c in affine.terms:
            total.add(nest, env, atom, c, stride)
    pointer, kind = memory.pointer, memory.element.memory
    parts = sorted(total.parts, key=_level)
    while parts:
        offset = parts.pop(0)
        while parts and parts[0].level == offset.level:
            offset = b.add(offset, parts.pop(0))
        if offset.op == "const":
            total.const += offset.extra
        else:
            pointer = b.put("gep", PTR, (pointer, offset), kind)
    if total.const:
        pointer = b.put("gep", PTR, (pointer, b.int(total.const)), kind)
    return Place(pointer, total.step, total.vector)


def along_lanes(nest: Nest, place: Place, lanes: int) -> Value:
    """The offset of every lane from the pointer, as i64."""
    b = nest.b
    if isinstance(place.step, int):
        steps = b.const(tuple(place.step * n for n in range(lanes)), I64.of(lanes))
        if place.offsets is None:
            return steps
        return place.offsets if place.step == 0 else b.add(place.offsets, steps)
    steps = b.mul(b.const(tuple(range(lanes)), I64.of(lanes)), place.step)
    return steps if place.offsets is None else b.add(place.offsets, steps)


def scalar_index(nest: Nest, index: Affine, env: Env) -> Value:
    """An index that is the same in all lanes (a loop bound), as i64."""
    total = _sum(nest, env, index)
    if total.vector is not None or total.step != 0:
        raise ValueError(f"loop bound {index} varies along the vector axis {env.vector}")
    return total.scalar()


def whole_index(nest: Nest, index: Affine, env: Env, to: Element) -> Value:
    """An index as a value of type `to`, a vector if it varies along the lanes."""
    b = nest.b
    total = _sum(nest, env, index)
    type = to.register if to.group in "su" else I64
    more = 0
    if total.stretch:  # vectors side by side differ in what is added to one splat
        more, total.const = total.const, 0
    value = b.cast("trunc", total.scalar(), type)
    if total.stretch:
        steps = tuple(more + total.stretch * n for n in range(env.lanes))
        value = b.add(b.splat(value, env.lanes), b.const(steps, type.of(env.lanes)))
    if total.vector is not None:
        value = b.add(value, b.cast("trunc", total.vector, type))
    return value if type is to.register else convert(b, value, ELEMENTS["int64"], to)


def atom_value(nest: Nest, atom: Any, env: Env) -> Value:
    """A `Quotient` or `Data` atom as i64, scalar or vector."""
    if isinstance(atom, Data):
        value = nest.value(atom.value, env)
        signed = element(atom.value.dtype).group == "s"
        return nest.b.cast("sext" if signed else "zext", value, I64)
    if isinstance(atom, Quotient):
        return _quotient(nest, atom, env)
    raise TypeError(f"an index has an atom of unknown kind: {atom!r}")


def _quotient(nest: Nest, q: Quotient, env: Env) -> Value:
    b, lanes = nest.b, env.lanes
    total = _sum(nest, env, q.index)
    base, n = total.scalar(), b.int(q.n)
    if total.vector is not None or total.stretch < 0:
        whole = total.vector if total.vector is not None else b.int(0)
        steps = b.const(tuple(total.stretch * k for k in range(lanes)), I64.of(lanes))
        whole = b.add(b.add(whole, steps), base)
        return b.bin("udiv" if q.kind == "div" else "urem", whole, n)
    div, mod = _scalar_divmod(b, base, q.n)
    if total.stretch == 0:
        return div if q.kind == "div" else mod
    # Only the remainder of lane 0 plus a few steps is left to divide: 32 bits, or a comparison.
    reach = total.stretch * (lanes - 1)
    type = I32 if q.n + reach < 1 << 31 else I64
    steps = b.const(tuple(total.stretch * k for k in range(lanes)), type.of(lanes))
    rest = b.add(b.cast("trunc", mod, type), steps)
    limit = b.const(q.n, type.of(lanes))
    if reach < q.n:
        wrap = b.cmp("icmp uge", rest, limit)
        if q.kind == "mod":
            zero = b.const(0, limit.type)
            return b.cast("zext", b.sub(rest, b.select(wrap, limit, zero)), I64)
        more = b.cast("zext", wrap, type)
    else:
        more = b.bin("udiv", rest, limit)
        if q.kind == "mod":
            return b.cast("zext", b.sub(rest, b.bin("mul", more, limit)), I64)
    return b.add(b.cast("zext", more, I64), div)


def _scalar_divmod(b: Builder, base: Value, n: int) -> tuple[Value, Value]:
    if base.op == "const":
        return b.int(base.extra // n), b.int(base.extra % n)
    div = b.bin("udiv", base, b.int(n))
    return div, b.sub(base, b.mul(div, b.int(n)))
