"""The printer: a function's blocks as LLVM text.  The only place where text is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from covector.backends.cpu.emit.ssa import Block, Value


def function_body(blocks: Iterable[Block], pooled: bool = False) -> tuple[str, set[str]]:
    """(the text between the braces, the declarations it needs).

    `pooled`: constant vectors that arithmetic reads stand in memory as they are, where an
    instruction can take them from; else LLVM spends an instruction and a register on each.
    """
    lines: list[str] = []
    declared: set[str] = set()
    for block in blocks:
        lines.append(f"{block.name}:")
        lines += [f"  {v.ref} = phi {v.type.text} {_incoming(v)}" for v in block.phis]
        for v in block.lines:
            if pooled and v.type.lanes > 1 and v.args[-1:] and _takes_memory(v):
                v = _pooled(v, lines, declared)
            lines.append(_PRINT[v.op](v))
            if v.op in _CALLS:
                declared.add(_declaration(v))
        lines.append(_END[block.end[0]](*block.end[1:]))
    return "\n".join(lines), declared


_FLOAT_ARITHMETIC: Final = ("fadd contract", "fsub contract", "fmul contract", "fadd", "fsub")


def _takes_memory(v: Value) -> bool:
    """Whether the last operand of an instruction is one number in every lane, and may be read."""
    last = v.args[-1]
    if last.op != "const" or isinstance(last.extra, tuple):
        return False
    if v.op == "bin":
        return v.extra in _FLOAT_ARITHMETIC
    return v.op == "call" and v.extra.startswith("llvm.fma.")


def _pooled(v: Value, lines: list[str], declared: set[str]) -> Value:
    last = v.args[-1]
    bytes_ = last.type.bits * last.type.lanes // 8
    bits = last.ref.split()[-1].rstrip(")")
    name = f"@constant.{last.type.suffix}.{bits}"
    declared.add(
        f"{name} = private unnamed_addr constant {last.type.text} {last.ref}, align {bytes_}"
    )
    read = Value("load", last.type, (), None, last.level, f"{v.ref}.c")
    lines.append(f"  {read.ref} = load {last.type.text}, ptr {name}, align {bytes_}")
    return Value(v.op, v.type, (*v.args[:-1], read), v.extra, v.level, v.ref)


def _incoming(v: Value) -> str:
    return ", ".join(f"[{x.ref}, %{block.name}]" for x, block in v.extra)


def _bin(v: Value) -> str:
    a, b = v.args
    return f"  {v.ref} = {v.extra} {a.type.text} {a.ref}, {b.ref}"


def _select(v: Value) -> str:
    c, a, b = v.args
    return f"  {v.ref} = select {c.typed}, {a.typed}, {b.typed}"


def _cast(v: Value) -> str:
    return f"  {v.ref} = {v.extra} {v.args[0].typed} to {v.type.text}"


def _unary(v: Value) -> str:
    return f"  {v.ref} = {v.extra} {v.args[0].typed}"


def _splat(v: Value) -> str:
    (x,) = v.args
    vector = v.type.text
    return (
        f"  {v.ref}.1 = insertelement {vector} poison, {x.typed}, i64 0\n"
        f"  {v.ref} = shufflevector {vector} {v.ref}.1, {vector} poison,"
        f" <{v.type.lanes} x i32> zeroinitializer"
    )


def _shuffle(v: Value) -> str:
    a = v.args[0]
    b = v.args[1].ref if len(v.args) > 1 else "poison"
    mask = ", ".join(f"i32 {m}" if m >= 0 else "i32 poison" for m in v.extra)
    return (
        f"  {v.ref} = shufflevector {a.typed}, {a.type.text} {b}, <{len(v.extra)} x i32> <{mask}>"
    )


def _extract(v: Value) -> str:
    return f"  {v.ref} = extractelement {v.args[0].typed}, i64 {v.extra}"


def _insert(v: Value) -> str:
    base = v.args[1].ref if len(v.args) == 2 else "poison"
    return f"  {v.ref} = insertelement {v.type.text} {base}, {v.args[0].typed}, i64 {v.extra}"


def _gep(v: Value) -> str:
    p, i = v.args
    return f"  {v.ref} = getelementptr {v.extra.text}, {p.typed}, {i.typed}"


def _load(v: Value) -> str:
    return f"  {v.ref} = load {v.type.text}, {v.args[0].typed}, align {v.extra}"


def _store(v: Value) -> str:
    x, p = v.args
    return f"  store {x.typed}, {p.typed}, align {v.extra}"


def _stream(v: Value) -> str:
    x, p = v.args
    return f"  store {x.typed}, {p.typed}, align {v.extra}, !nontemporal !0"


def _fence(v: Value) -> str:
    return "  fence seq_cst"


def _call(v: Value) -> str:
    args = ", ".join(a.typed for a in v.args)
    return f"  {v.ref} = call {v.type.text} @{v.extra}({args})"


def _effect(v: Value) -> str:
    args = ", ".join(a.typed for a in v.args)
    return f"  call void @{v.extra}({args})"


def _alloca(v: Value) -> str:
    element, count = v.extra
    return f"  {v.ref} = alloca {element.text}, i64 {count}, align 64"


def _declaration(v: Value) -> str:
    ret = "void" if v.op == "effect" else v.type.text
    return f"declare {ret} @{v.extra}({', '.join(a.type.text for a in v.args)})"


_PRINT: Final[dict[str, Callable[[Value], str]]] = {
    "bin": _bin, "select": _select, "cast": _cast, "unary": _unary, "splat": _splat,
    "shuffle": _shuffle, "extract": _extract, "insert": _insert, "gep": _gep, "load": _load,
    "store": _store, "stream": _stream, "fence": _fence, "call": _call, "effect": _effect,
    "alloca": _alloca,
}  # fmt: skip
_CALLS: Final = frozenset({"call", "effect"})
_END: Final[dict[str, Callable[..., str]]] = {
    "br": lambda to: f"  br label %{to.name}",
    "if": lambda c, a, b: f"  br i1 {c.ref}, label %{a.name}, label %{b.name}",
    "ret": lambda: "  ret void",
    "give": lambda v: f"  ret {v.typed}",
}
