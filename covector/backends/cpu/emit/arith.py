"""Scalar operations as instructions, for scalars and vectors alike: one small rule per (op, group).

What needs a polynomial is expanded before (compiler.math); what is here is exact or correctly
rounded.  Integer division never traps: its operands are made harmless first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from covector.backends.cpu.emit.convert import convert, reinterpret
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import F64, I1, INTS, Element

Rule = Callable[..., Value]


def apply(b: Builder, op: str, to: Element, of: Element, args: list[Value]) -> Value:
    """`op` of `args`, whose element type is `of` (of the last argument), giving type `to`."""
    if op == "cast":
        return convert(b, args[0], of, to)
    if op == "bitcast":
        return reinterpret(b, args[0], to)
    if op == "select":
        return b.select(*args)
    rule = RULES.get((op, of.group))
    if rule is None:
        raise NotImplementedError(
            f"the CPU backend has no instruction for {op} of {of.name}: expand it before emission"
        )
    return rule(b, *args)


def _binary(mnemonic: str) -> Rule:
    return lambda b, x, y: b.bin(mnemonic, x, y)


def _compare(predicate: str) -> Rule:
    return lambda b, x, y: b.cmp(predicate, x, y)


def _call(name: str) -> Rule:
    return lambda b, *args: b.intrinsic(name, *args)


def _flagged(name: str) -> Rule:
    return lambda b, x: b.intrinsic(name, x, flags=(b.const(False, I1),))


def _like(b: Builder, x: Value, number: Any) -> Value:
    return b.const(number, x.type)


# Integers


def _int_neg(b: Builder, x: Value) -> Value:
    return b.bin("sub", _like(b, x, 0), x)


def _int_not(b: Builder, x: Value) -> Value:
    return b.bin("xor", x, _like(b, x, -1))


def _int_sign(b: Builder, x: Value) -> Value:
    negative = b.bin("ashr", x, _like(b, x, x.type.bits - 1))
    positive = b.cast("zext", b.cmp("icmp sgt", x, _like(b, x, 0)), x.type.scalar)
    return b.bin("or", negative, positive)


def _uint_sign(b: Builder, x: Value) -> Value:
    return b.cast("zext", b.cmp("icmp ne", x, _like(b, x, 0)), x.type.scalar)


def _shift(mnemonic: str) -> Rule:
    """Amounts as large as the width give 0, or copies of the sign."""

    def rule(b: Builder, x: Value, n: Value) -> Value:
        width = x.type.bits
        if n.op == "const" and n.type.lanes == 1:
            if 0 <= n.extra < width:
                return b.bin(mnemonic, x, n) if n.extra else x
            return (
                b.bin("ashr", x, _like(b, x, width - 1)) if mnemonic == "ashr" else _like(b, x, 0)
            )
        fits = b.cmp("icmp ult", n, _like(b, n, width))
        if mnemonic == "ashr":
            return b.bin("ashr", x, b.select(fits, n, _like(b, n, width - 1)))
        safe = b.bin("and", n, _like(b, n, width - 1))
        return b.select(fits, b.bin(mnemonic, x, safe), _like(b, x, 0))

    return rule


def _mulhi(extend: str) -> Rule:
    def rule(b: Builder, x: Value, y: Value) -> Value:
        bits = x.type.bits
        wide = INTS[2 * bits]
        product = b.bin("mul", b.cast(extend, x, wide), b.cast(extend, y, wide))
        high = b.bin("lshr", product, _like(b, product, bits))
        return b.cast("trunc", high, x.type.scalar)

    return rule


def _divisor(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value | None]:
    """(a divisor that cannot trap, where `y` was 0)."""
    if y.op == "const" and not isinstance(y.extra, tuple) and y.extra not in (0, -1):
        return y, None
    zero = b.cmp("icmp eq", y, _like(b, y, 0))
    bad = zero
    if signed:
        least = b.cmp("icmp eq", x, _like(b, x, -(1 << (x.type.bits - 1))))
        bad = b.bin("or", zero, b.bin("and", least, b.cmp("icmp eq", y, _like(b, y, -1))))
    return b.select(bad, _like(b, y, 1), y), zero


def _quotient(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    lanes = max(x.type.lanes, y.type.lanes)
    if lanes == 1 or x.type.bits > 32 or y.op == "const":
        return b.bin("sdiv" if signed else "udiv", x, y)
    # A vector of divisions is done one by one; in double it is exact up to 32 bits, and faster.
    up, down = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    quotient = b.bin("fdiv", b.cast(up, x, F64), b.cast(up, y, F64))
    return b.cast(down, quotient, x.type.scalar)


def _division(signed: bool, remainder: bool) -> Rule:
    def rule(b: Builder, x: Value, y: Value) -> Value:
        safe, zero = _divisor(b, x, y, signed)
        quotient = _quotient(b, x, safe, signed)
        if not remainder:
            return quotient if zero is None else b.select(zero, _like(b, x, -1), quotient)
        rest = b.bin("sub", x, b.bin("mul", quotient, safe))
        return rest if zero is None else b.select(zero, x, rest)

    return rule


# Floats


def _float_neg(b: Builder, x: Value) -> Value:
    return b.put("unary", x.type, (x,), "fneg")


def _float_sign(b: Builder, x: Value) -> Value:
    """-1, 1, or `x` itself where it is a zero or NaN."""
    other = b.cmp("fcmp ueq", x, _like(b, x, 0.0))
    return b.select(other, x, b.intrinsic("copysign", _like(b, x, 1.0), x))


def _is_finite(b: Builder, x: Value) -> Value:
    return b.cmp("fcmp one", b.intrinsic("fabs", x), _like(b, x, float("inf")))


def _rsqrt(b: Builder, x: Value) -> Value:
    return b.bin("fdiv", _like(b, x, 1.0), b.intrinsic("sqrt", x))


def _square(mnemonic: str) -> Rule:
    return lambda b, x: b.bin(mnemonic, x, x)


# Half-width floats are moved and sign-flipped, never computed with


def _half_neg(b: Builder, x: Value) -> Value:
    return b.bin("xor", x, _like(b, x, 0x8000))


def _half_abs(b: Builder, x: Value) -> Value:
    return b.bin("and", x, _like(b, x, 0x7FFF))


def _same(b: Builder, x: Value) -> Value:
    return x


_INTEGER: Final[dict[str, Rule]] = {
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "neg": _int_neg,
    "and": _binary("and"), "or": _binary("or"), "xor": _binary("xor"), "not": _int_not,
    "square": _square("mul"), "population_count": _call("ctpop"), "clz": _flagged("ctlz"),
    "shift_left": _shift("shl"), "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift("ashr"),
    "eq": _compare("icmp eq"), "ne": _compare("icmp ne"),
}  # fmt: skip
_SIGNED: Final[dict[str, Rule]] = {
    **_INTEGER, "abs": _flagged("abs"), "sign": _int_sign, "mulhi": _mulhi("sext"),
    "max": _call("smax"), "min": _call("smin"),
    "div": _division(True, False), "rem": _division(True, True),
    "lt": _compare("icmp slt"), "le": _compare("icmp sle"),
    "gt": _compare("icmp sgt"), "ge": _compare("icmp sge"),
}  # fmt: skip
_UNSIGNED: Final[dict[str, Rule]] = {
    **_INTEGER, "abs": _same, "sign": _uint_sign, "mulhi": _mulhi("zext"),
    "max": _call("umax"), "min": _call("umin"),
    "div": _division(False, False), "rem": _division(False, True),
    "lt": _compare("icmp ult"), "le": _compare("icmp ule"),
    "gt": _compare("icmp ugt"), "ge": _compare("icmp uge"),
}  # fmt: skip
_BOOL: Final[dict[str, Rule]] = {
    "and": _binary("and"), "or": _binary("or"), "xor": _binary("xor"), "not": _int_not,
    "add": _binary("or"), "mul": _binary("and"), "sub": _binary("xor"),
    "max": _binary("or"), "min": _binary("and"),
    "eq": _compare("icmp eq"), "ne": _binary("xor"),
    "lt": _compare("icmp ult"), "le": _compare("icmp ule"),
    "gt": _compare("icmp ugt"), "ge": _compare("icmp uge"),
}  # fmt: skip
_FLOAT: Final[dict[str, Rule]] = {
    "add": _binary("fadd contract"), "sub": _binary("fsub contract"),
    "mul": _binary("fmul contract"), "div": _binary("fdiv"),
    "square": _square("fmul contract"), "neg": _float_neg, "abs": _call("fabs"),
    "sign": _float_sign, "sqrt": _call("sqrt"), "rsqrt": _rsqrt, "fma": _call("fma"),
    "rem": _binary("frem"), "max": _call("maximum"), "min": _call("minimum"),
    "floor": _call("floor"), "ceil": _call("ceil"), "trunc": _call("trunc"),
    "round_even": _call("roundeven"), "round_away": _call("round"), "is_finite": _is_finite,
    "eq": _compare("fcmp oeq"), "ne": _compare("fcmp une"),
    "lt": _compare("fcmp olt"), "le": _compare("fcmp ole"),
    "gt": _compare("fcmp ogt"), "ge": _compare("fcmp oge"),
}  # fmt: skip
_HALF: Final[dict[str, Rule]] = {"neg": _half_neg, "abs": _half_abs}

RULES: Final[dict[tuple[str, str], Rule]] = {
    (op, group): rule
    for group, rules in (
        ("s", _SIGNED), ("u", _UNSIGNED), ("b", _BOOL), ("f", _FLOAT), ("h", _HALF)
    )
    for op, rule in rules.items()
}  # fmt: skip
#: What is left as it is when an expression is expanded, besides what every backend has.
NATIVE: Final = frozenset(
    {"rem", "max", "min", "sign", "rsqrt", "square", "ceil", "trunc", "round_away", "is_finite",
     "population_count", "clz", "mulhi", "select_rare"}
)  # fmt: skip
