"""SSA instructions and the scopes they live in.

A `Value` is one instruction (or constant, argument, phi).  Its `level` is the deepest open scope
it depends on, and there it is placed, once: hoisting and common subexpressions need no pass.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import Any, Final, final

from covector.backends.cpu.emit.types import I1, I64, PTR, Type

Body = Callable[["Value", list["Value"]], list["Value"]]


@final
class Value:
    """An instruction `op` of `args`; `extra` is what else its text needs; `ref` is its name."""

    __slots__ = ("args", "extra", "level", "op", "ref", "type")

    def __init__(
        self, op: str, type: Type, args: tuple[Value, ...], extra: Any, level: int, ref: str
    ) -> None:
        self.op, self.type, self.args, self.extra = op, type, args, extra
        self.level, self.ref = level, ref

    @property
    def typed(self) -> str:
        """Type and name, as an operand reads."""
        return f"{self.type.text} {self.ref}"

    def __repr__(self) -> str:
        return f"<{self.op} {self.typed} @{self.level}>"


@final
class Block:
    """A basic block: phis, instructions, and how it ends."""

    __slots__ = ("end", "lines", "name", "phis")

    def __init__(self, name: str) -> None:
        self.name = name
        self.phis: list[Value] = []
        self.lines: list[Value] = []
        self.end: tuple[Any, ...] = ()


@final
class Scope:
    """An open region of code.

    kind: 'top'; 'pre', what runs once before a loop that has at least one trip; 'loop', its body;
    'if', one side of a branch; 'rare', a side seldom run, out of which nothing is moved that would
    then run each time.  `sure`: (of a 'pre') it runs whenever its surroundings do.
    """

    __slots__ = ("block", "kind", "known", "sure")

    def __init__(self, block: Block, kind: str, sure: bool = False) -> None:
        self.block, self.kind, self.sure = block, kind, sure
        self.known: dict[Any, Value] = {}


@final
class Builder:
    """Builds one function's blocks."""

    __slots__ = ("_constants", "_count", "blocks", "entry", "f16c", "scopes")

    def __init__(self, f16c: bool = False) -> None:
        self._count = 0
        self.f16c = f16c  # whether half <-> float is an instruction of this machine
        self._constants: dict[Any, Value] = {}
        self.blocks: list[Block] = []
        self.scopes: list[Scope] = [Scope(self.block("entry"), "top", True)]
        self.entry = self.scopes[0].block

    # Names, constants

    def block(self, kind: str) -> Block:
        """A new block, placed after those made before."""
        self._count += 1
        self.blocks.append(Block(f"{kind}{self._count}"))
        return self.blocks[-1]

    def fresh(self) -> str:
        """A new name for a value."""
        self._count += 1
        return f"%v{self._count}"

    def argument(self, name: str, type: Type) -> Value:
        """A parameter of the function."""
        return Value("argument", type, (), None, 0, f"%{name}")

    def const(self, number: Any, type: Type) -> Value:
        """A literal: a Python number as `type`, or one number a lane (a tuple)."""
        key = (repr(number), type)
        found = self._constants.get(key)
        if found is None:
            found = Value("const", type, (), number, 0, _literal(number, type))
            self._constants[key] = found
        return found

    def int(self, number: int) -> Value:
        """An i64 literal."""
        return self.const(number, I64)

    # Instructions

    def put(
        self,
        op: str,
        type: Type,
        args: tuple[Value, ...],
        extra: Any = None,
        level: int | None = None,
        keep: bool = True,
    ) -> Value:
        """The instruction, at its level; with `keep`, the same object for the same request."""
        if level is None:
            level = 0
            for a in args:
                if a.level > level:
                    level = a.level
            below = level + 1
            while below < len(self.scopes) and self.scopes[below].kind == "rare":
                if keep and (op, type, extra, args) in self.scopes[level].known:
                    break
                level, below = below, below + 1
        scope = self.scopes[level]
        key = (op, type, extra, args)
        if keep:
            found = scope.known.get(key)
            if found is not None:
                return found
        self._count += 1
        value = Value(op, type, args, extra, level, f"%v{self._count}")
        scope.block.lines.append(value)
        if keep:
            scope.known[key] = value
        return value

    def local(self, type: Type, count: int) -> Value:
        """Memory on the stack, for the whole function."""
        place = Value("alloca", PTR, (), (type, count), 0, self.fresh())
        self.entry.lines.insert(0, place)
        return place

    def effect(self, op: str, type: Type, args: tuple[Value, ...], extra: Any = None) -> None:
        """An instruction run for its effect, here and now."""
        here = len(self.scopes) - 1
        self.scopes[here].block.lines.append(Value(op, type, args, extra, here, ""))

    def load_level(self, level: int) -> int:
        """The outermost scope, at least `level`, where a load that is safe here is safe too."""
        here = len(self.scopes) - 1
        while here > level:
            scope = self.scopes[here]
            if scope.kind == "loop" or (scope.kind == "pre" and scope.sure):
                here -= 1
            else:
                break
        return here

    def splat(self, v: Value, lanes: int) -> Value:
        """`v` in every lane."""
        if v.type.lanes == lanes:
            return v
        if v.op == "const":
            return self.const(v.extra, v.type.of(lanes))
        return self.put("splat", v.type.of(lanes), (v,))

    def bin(self, mnemonic: str, a: Value, b: Value) -> Value:
        """`mnemonic a, b`, both of one element type; a scalar meets a vector as a splat."""
        la, lb = a.type.lanes, b.type.lanes
        if la != lb:
            a, b = (a, self.splat(b, la)) if la > lb else (self.splat(a, lb), b)
        return self.put("bin", a.type, (a, b), mnemonic)

    def cmp(self, predicate: str, a: Value, b: Value) -> Value:
        """`predicate` is the whole mnemonic: 'icmp slt', 'fcmp uno'."""
        la, lb = a.type.lanes, b.type.lanes
        if la != lb:
            a, b = (a, self.splat(b, la)) if la > lb else (self.splat(a, lb), b)
        return self.put("bin", I1.of(a.type.lanes), (a, b), predicate)

    def select(self, c: Value, a: Value, b: Value) -> Value:
        """`a` where `c`, else `b`."""
        if a is b:
            return a
        if c.op == "const" and c.type.lanes == 1:
            return a if c.extra else b
        lanes = max(c.type.lanes, a.type.lanes, b.type.lanes)
        a, b = self.splat(a, lanes), self.splat(b, lanes)  # a scalar condition picks whole vectors
        return self.put("select", a.type, (c, a, b))

    def cast(self, mnemonic: str, a: Value, scalar: Type) -> Value:
        """`mnemonic a to scalar` (with the lanes of `a`); nothing if it has that type."""
        type = scalar.of(a.type.lanes)
        if a.type is type:
            return a
        whole = a.op == "const" and type is scalar and mnemonic in ("trunc", "sext", "zext")
        if whole and a.extra >= 0:
            return self.const(a.extra & ((1 << scalar.bits) - 1), scalar)
        return self.put("cast", type, (a,), mnemonic)

    def call(self, name: str, ret: Type, *args: Value, keep: bool = True) -> Value:
        """A pure intrinsic, by its full name without the `@`; scalars are splatted to `ret`."""
        if ret.lanes > 1:
            args = tuple(self.splat(a, ret.lanes) for a in args)
        return self.put("call", ret, args, name, keep=keep)

    def intrinsic(self, name: str, *args: Value, flags: tuple[Value, ...] = ()) -> Value:
        """`llvm.name` overloaded on the type of its arguments; `flags` stay scalar."""
        lanes = max(a.type.lanes for a in args)
        args = tuple(self.splat(a, lanes) for a in args)
        type = args[0].type
        return self.put("call", type, (*args, *flags), f"llvm.{name}.{type.suffix}")

    def shuffle(self, a: Value, b: Value | None, mask: Sequence[int]) -> Value:
        """Lanes picked from `a` and `b` by number."""
        args = (a,) if b is None else (a, b)
        return self.put("shuffle", a.type.of(len(mask)), args, tuple(mask))

    def extract(self, v: Value, lane: int) -> Value:
        """One lane."""
        return v if v.type.lanes == 1 else self.put("extract", v.type.scalar, (v,), lane)

    def insert(self, v: Value | None, x: Value, lane: int, lanes: int) -> Value:
        """`v` (None: nothing yet) with `x` in one lane."""
        args = (x,) if v is None else (x, v)
        return self.put("insert", x.type.of(lanes), args, lane)

    # Integer arithmetic that folds

    def add(self, a: Value, b: Value) -> Value:
        """`a + b`; literals fold."""
        if a.op == "const" and a.extra == 0 and a.type.lanes <= b.type.lanes:
            return b
        if b.op == "const" and b.extra == 0 and b.type.lanes <= a.type.lanes:
            return a
        if a.op == b.op == "const" and a.type.lanes == b.type.lanes == 1:
            return self.const(a.extra + b.extra, a.type)
        return self.bin("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """`a - b`; literals fold."""
        if b.op == "const" and b.type.lanes == 1:
            return self.add(a, self.const(-b.extra, b.type))
        return self.bin("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """`a * b`; literals fold."""
        for x, y in ((a, b), (b, a)):
            if x.op == "const" and x.type.lanes == 1:
                if x.extra == 1:
                    return y
                if x.extra == 0 and y.type.lanes == 1:
                    return x
                if y.op == "const" and y.type.lanes == 1:
                    return self.const(x.extra * y.extra, x.type)
        return self.bin("mul", a, b)

    # Control flow

    def loop(
        self, low: Value, high: Value, step: int, carried: list[Value], body: Body
    ) -> list[Value]:
        """`for i = low; i < high; i += step` with values carried from trip to trip."""
        known = low.op == high.op == "const"
        if known and low.extra >= high.extra:
            return carried
        if known and low.extra + step >= high.extra:
            return body(low, carried)  # one trip
        outer, here = self.scopes[-1], len(self.scopes) - 1
        guard, pre, inside, after = outer.block, self.block("pre"), self.block("loop"), None
        enter = None if known else self.cmp("icmp slt", low, high)
        self.scopes += [Scope(pre, "pre", known), Scope(inside, "loop")]
        level = here + 2
        i = Value("phi", I64, (), [], level, self.fresh())
        phis = [Value("phi", c.type, (), [], level, self.fresh()) for c in carried]
        new = body(i, list(phis))
        more = self.bin("add", i, self.int(step))
        again = self.cmp("icmp slt", more, high)
        latch = self.scopes[-1].block
        after = self.block("after")
        guard.end = ("br", pre) if enter is None else ("if", enter, pre, after)
        self.scopes[-2].block.end = ("br", inside)
        latch.end = ("if", again, inside, after)
        entry = self.scopes[-2].block
        for p, a, b in zip([i, *phis], [low, *carried], [more, *new], strict=True):
            p.extra += [(a, entry), (b, latch)]
        inside.phis = [i, *phis]
        del self.scopes[-2:]
        outer.block = after
        return self._merge(after, [*([] if known else [(carried, guard)]), (new, latch)])

    def repeat(
        self,
        carried: list[Value],
        test: Callable[[list[Value]], Value],
        body: Callable[[list[Value]], list[Value]],
    ) -> list[Value]:
        """While `test(values)` holds, `values = body(values)`; the last values."""
        outer, level = self.scopes[-1], len(self.scopes) + 1
        pre, head, inside, after = (self.block(k) for k in ("pre", "head", "inside", "after"))
        outer.block.end = ("br", pre)
        self.scopes += [Scope(pre, "pre"), Scope(head, "loop")]
        phis = [Value("phi", c.type, (), [], level, self.fresh()) for c in carried]
        head.phis = list(phis)
        going = test(list(phis))
        leaving = self.scopes[-1].block
        leaving.end = ("if", going, inside, after)
        self.scopes[-1].block = inside
        new = body(list(phis))
        latch, entry = self.scopes[-1].block, self.scopes[-2].block
        latch.end = entry.end = ("br", head)
        for p, first, again in zip(phis, carried, new, strict=True):
            p.extra += [(first, entry), (again, latch)]
        del self.scopes[-2:]
        outer.block = after
        return self._merge(after, [(list(phis), leaving)])

    def branch(
        self,
        condition: Value,
        body: Callable[[], list[Value]],
        orelse: Callable[[], list[Value]] | None = None,
        rare: bool = False,
    ) -> list[Value]:
        """Runs one of two bodies; their results (alike in number and type) meet after them.

        `rare`: the first is seldom run, and all its work belongs to it.
        """
        outer = self.scopes[-1]
        guard, here = outer.block, self.block("then")
        self.scopes.append(Scope(here, "rare" if rare else "if"))
        results = body()
        ends = [(results, self.scopes.pop().block)]
        other = None
        if orelse is not None:
            other = self.block("else")
            self.scopes.append(Scope(other, "if"))
            ends.append((orelse(), self.scopes[-1].block))
            self.scopes.pop()
        after = self.block("after")
        guard.end = ("if", condition, here, other or after)
        for _, block in ends:
            block.end = ("br", after)
        outer.block = after
        return self._merge(after, ends) if orelse is not None else []

    def leave_if(self, condition: Value, first: Callable[[], object]) -> None:
        """Returns from the function, here and now, where the condition holds, after `first`."""
        here = self.scopes[-1]
        out, after = self.block("leave"), self.block("after")
        here.block.end = ("if", condition, out, after)
        self.scopes.append(Scope(out, "rare"))
        first()
        self.scopes.pop().block.end = ("ret",)
        here.block = after

    def _merge(self, block: Block, ends: list[tuple[list[Value], Block]]) -> list[Value]:
        level, out = len(self.scopes) - 1, []
        for values in zip(*(values for values, _ in ends), strict=True):
            phi = Value("phi", values[0].type, (), [], level, self.fresh())
            phi.extra += [(v, b) for v, (_, b) in zip(values, ends, strict=True)]
            out.append(phi)
        block.phis = list(out)
        return out


def _literal(number: Any, type: Type) -> str:
    if isinstance(number, tuple):
        scalar = type.scalar
        return f"<{', '.join(f'{scalar.text} {_one(n, scalar)}' for n in number)}>"
    text = _one(number, type.scalar)
    return text if type.lanes == 1 else f"splat ({type.scalar.text} {text})"


def _one(number: Any, scalar: Type) -> str:
    if scalar.kind == "f":
        x = c_float(number).value if scalar.bits == 32 else float(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
    if scalar is I1:
        return "true" if number else "false"
    n = int(number) & ((1 << scalar.bits) - 1)
    return str(n - (1 << scalar.bits) if n >> (scalar.bits - 1) else n)


TRUE: Final = Value("const", I1, (), True, 0, "true")
