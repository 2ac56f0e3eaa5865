"""Element types as LLVM sees them: a register type, a memory type, and what arithmetic is meant."""

from __future__ import annotations

from typing import Final, final


@final
class Type:
    """An LLVM scalar or vector type; interned, so equality is identity."""

    __slots__ = ("bits", "kind", "lanes", "scalar", "suffix", "text", "wide")

    kind: str  # 'i', 'f' or 'p'
    bits: int
    lanes: int
    scalar: Type
    text: str
    suffix: str  # as in the name of an intrinsic: 'f32', 'v8i32'
    wide: dict[int, Type]

    def of(self, lanes: int) -> Type:
        """This element type, with so many lanes."""
        found = self.wide.get(lanes)
        return found if found is not None else _make(self, lanes)

    def __repr__(self) -> str:
        return self.text


_FLOATS = {16: "half", 32: "float", 64: "double"}


def _scalar(kind: str, bits: int) -> Type:
    t = Type()
    t.kind, t.bits, t.lanes, t.scalar = kind, bits, 1, t
    t.text = "ptr" if kind == "p" else _FLOATS[bits] if kind == "f" else f"i{bits}"
    t.suffix = "p0" if kind == "p" else f"{kind}{bits}"
    t.wide = {1: t}
    return t


def _make(scalar: Type, lanes: int) -> Type:
    t = Type()
    t.kind, t.bits, t.lanes, t.scalar = scalar.kind, scalar.bits, lanes, scalar.scalar
    t.text = f"<{lanes} x {scalar.scalar.text}>"
    t.suffix = f"v{lanes}{scalar.scalar.suffix}"
    t.wide = scalar.scalar.wide
    return t.wide.setdefault(lanes, t)


I1, I8, I16, I32, I64, I128 = (_scalar("i", n) for n in (1, 8, 16, 32, 64, 128))
F16, F32, F64 = (_scalar("f", n) for n in (16, 32, 64))
PTR = _scalar("p", 64)
INTS: Final = {t.bits: t for t in (I1, I8, I16, I32, I64, I128)}


@final
class Element:
    """What a dtype's name means: `register` and `memory` type, and `group`.

    group: 'b' bool, 's' signed, 'u' unsigned, 'f' float with arithmetic, 'h' half-width float
    (kept as its 16 bits; converted, moved, selected, never computed with).
    """

    __slots__ = ("group", "memory", "name", "register", "size")

    def __init__(self, name: str, register: Type, group: str, memory: Type | None = None) -> None:
        self.name, self.register, self.group = name, register, group
        self.memory = memory or register
        self.size = max(self.memory.bits // 8, 1)


ELEMENTS: Final = {
    e.name: e
    for e in (
        Element("bool", I1, "b", I8),
        *(Element(f"int{n}", INTS[n], "s") for n in (8, 16, 32, 64)),
        *(Element(f"uint{n}", INTS[n], "u") for n in (8, 16, 32, 64)),
        Element("float16", I16, "h"),
        Element("bfloat16", I16, "h"),
        Element("float32", F32, "f"),
        Element("float64", F64, "f"),
    )
}
#: A complex buffer is addressed as its parts, two along a further minor axis.
PARTS: Final = {"complex64": "float32", "complex128": "float64"}


def element(dtype: str) -> Element:
    """The element type called `dtype`."""
    found = ELEMENTS.get(dtype)
    if found is None:
        raise NotImplementedError(
            f"the CPU backend has no registers for elements of type {dtype}; "
            f"it has {', '.join(ELEMENTS)} (complex values are split into parts before)"
        )
    return found
