"""What is legal in a loop program: checked after planning in tests, before emission in debug runs.

Names and buffers exist, 'in' is not written and 'out' not read, element types agree, every index
is in bounds over the loops around it, and every scratch read is covered by an earlier fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from covector.compiler.loops.program import (
    COMBINE,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.ir.index import ZERO, Affine, Quotient, atoms
from covector.ir.scalar import ARITY, COMPARISONS, Expr, walk_deep

Box = tuple[tuple[Affine, Affine], ...]
_SAME_TYPE = frozenset({
    "add", "sub", "mul", "div", "rem", "max", "min", "fma", "and", "or", "xor", "pow", "atan2",
    "nextafter", "mulhi", "neg", "abs", "sign", "sqrt", "rsqrt", "cbrt", "square", "exp", "exp2",
    "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil",
})  # fmt: skip


class InvalidKernel(AssertionError):
    """A loop program breaks a rule: a fault of the compiler."""


def verify(kernel: Kernel) -> None:
    """Raise InvalidKernel, with the kernel's text, where a rule is broken."""
    _Checker(kernel).run()


@final
class _Checker:
    __slots__ = ("box", "facts", "kernel", "names", "typed")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.box: dict[Any, tuple[Affine, Affine]] = {}
        self.names: dict[str, str] = {}
        #: Parts of scratch that are filled at this point.
        self.facts: list[tuple[str, Box]] = []
        self.typed: set[Expr] = set()

    def run(self) -> None:
        for b in self.kernel.buffers.values():
            unknown = atoms(b.shape) - set(self.kernel.symbols)
            self.check(not unknown, f"{b.name} has extents {unknown} that are no symbols")
            self.check(b.home in ("in", "out", "inout", "scratch"), f"{b.name}: home {b.home}")
        self.body(self.kernel.body)

    def check(self, holds: bool, message: str, *about: Any) -> None:
        """Raise unless it `holds`; texts of expressions are made only then (they may be long)."""
        if not holds:
            raise InvalidKernel(f"{message.format(*about)}\n{self.kernel}")

    # Ranges

    def range_of(self, i: Affine) -> tuple[Affine, Affine]:
        for atom, _ in i.terms:
            if isinstance(atom, Quotient) and atom not in self.box:
                least, most = self.range_of(atom.index)
                if atom.kind == "mod":
                    self.box[atom] = (ZERO, Affine(atom.n))
                elif not least.terms and not most.terms:
                    self.box[atom] = (
                        Affine(least.const // atom.n),
                        Affine(most.const // atom.n + 1),
                    )
        least, most = i.over(self.box)
        # Bounds of inner loops may name outer axes.
        while any(a in self.box for a in atoms([least])):
            least = least.over(self.box)[0]
        while any(a in self.box for a in atoms([most])):
            most = most.over(self.box)[1]
        return least, most

    def empty(self) -> bool:
        return any(
            isinstance(a, str) and not h.terms and not lo.terms and h.const <= lo.const
            for a, (lo, h) in self.box.items()
        )

    def open(self, axis: str, low: Affine, high: Affine) -> None:
        taken = axis in self.box or axis in self.kernel.symbols
        self.check(not taken, f"axis {axis} is an outer loop's, or a symbol, already")
        self.index_known(low)
        self.index_known(high)
        self.box[axis] = (low, high)

    def close(self, axis: str, facts: int) -> None:
        """Leave a loop: what it filled is known for all of its range."""
        low, high = self.box.pop(axis)
        for atom in [a for a in self.box if isinstance(a, Quotient) and axis in atoms([a.index])]:
            del self.box[atom]
        kept = []
        for name, box in self.facts[facts:]:
            wide = _widened(box, axis, low, high)
            if wide is not None:
                kept.append((name, wide))
        self.facts[facts:] = kept

    # Statements

    def body(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        if isinstance(s, (Store, Update)):
            self.write(s)
        elif isinstance(s, For):
            self.check(s.mode in ("serial", "vector", "tile", "parallel"), f"loop mode {s.mode}")
            names, facts = dict(self.names), len(self.facts)
            self.open(s.axis, s.low, s.high)
            self.body(s.body)
            self.close(s.axis, facts)
            self.names = names
        elif isinstance(s, Fold):
            self.fold(s)
        elif isinstance(s, Scan):
            self.scan(s)
        elif isinstance(s, Repeat):
            self.repeat(s)
        elif isinstance(s, Let):
            self.value(s.value)
            self.define(s.name, s.value.dtype)
        elif isinstance(s, If):
            self.value(s.condition)
            self.check(s.condition.dtype == "bool", "condition {} is no 'bool'", s.condition)
            for part in (s.body, s.orelse):
                names, facts = dict(self.names), len(self.facts)
                self.body(part)
                self.names = names
                del self.facts[facts:]

    def define(self, name: str, dtype: str) -> None:
        self.check(name not in self.names, f"name {name} is defined twice")
        self.names[name] = dtype

    def write(self, s: Store | Update) -> None:
        buffer = self.kernel.buffers.get(s.buffer)
        self.check(buffer is not None, f"no buffer {s.buffer}")
        assert buffer is not None
        self.value(s.value)
        if s.where is not None:
            self.value(s.where)
            self.check(s.where.dtype == "bool", "condition {} is no 'bool'", s.where)
        self.check(buffer.home != "in", f"{s.buffer} is written, but an input")
        self.check(
            s.value.dtype == buffer.dtype, f"{s.buffer} holds {buffer.dtype}, not {s.value.dtype}"
        )
        self.access(s.buffer, s.index)
        if isinstance(s, Update):
            self.check(s.kind in COMBINE, f"update kind {s.kind}")
            if buffer.home == "scratch":
                self.covered(s.buffer, s.index)
        elif buffer.home == "scratch" and s.where is None:
            box = tuple((i, i) for i in s.index)
            before = next((b for name, b in reversed(self.facts) if name == s.buffer), None)
            self.facts.append((s.buffer, box))
            joined = _joined(before, box) if before is not None else None
            if joined is not None:
                self.facts.append((s.buffer, joined))

    def fold(self, s: Fold) -> None:
        names, facts = dict(self.names), len(self.facts)
        for r in s.results:
            if r.init is not None:
                self.value(r.init)
        for axis, low, high in s.loops:
            self.open(axis, low, high)
        self.check(s.vector is None or s.vector in self.box, f"fold over no axis {s.vector}")
        self.body(s.stores)
        for r in s.results:
            self.check(r.kind in COMBINE, f"fold kind {r.kind}")
            for v, d in zip(r.values, r.dtypes, strict=True):
                self.value(v)
                self.check(v.dtype == d, f"{r.names} is {d}, but combines {v.dtype}")
        for axis, _, _ in reversed(s.loops):
            self.close(axis, facts)
        self.names = names
        for r in s.results:
            for n, d in zip(r.names, r.dtypes, strict=True):
                self.define(n, d)

    def scan(self, s: Scan) -> None:
        facts = len(self.facts)
        for _, e in s.carries:
            self.value(e)
        before = dict(self.names)
        for n, e in s.carries:
            self.define(n, e.dtype)
        carried = dict(self.names)
        self.open(s.axis, s.low, s.high)
        self.body(s.body)
        for (n, _), e in zip(s.carries, s.next, strict=True):
            self.value(e)
            self.check(e.dtype == carried[n], f"carry {n} is {carried[n]}, but next is {e.dtype}")
        self.close(s.axis, facts)
        self.names = carried if s.carries else before

    def repeat(self, s: Repeat) -> None:
        for _, e in s.carries:
            self.value(e)
        for n, e in s.carries:
            self.define(n, e.dtype)
        carried = dict(self.names)
        self.value(s.condition)
        self.check(s.condition.dtype == "bool", "condition {} is no 'bool'", s.condition)
        self.check(all(isinstance(t, Repeat) for t in s.body), "a repeat holds other loops only")
        self.body(s.body)
        for (n, _), e in zip(s.carries, s.next, strict=True):
            self.value(e)
            self.check(e.dtype == carried[n], f"carry {n} is {carried[n]}, but next is {e.dtype}")
        self.names = carried

    # Values and places

    def value(self, root: Expr) -> None:
        for e in walk_deep(root):
            if e.op == "load":
                buffer = self.kernel.buffers.get(e.extra[0])
                self.check(buffer is not None, "no buffer {} in {}", e.extra[0], e)
                assert buffer is not None
                self.check(buffer.home != "out", f"{buffer.name} is read, but an output")
                self.check(buffer.dtype == e.dtype, "{} is {}, not {}", e, e.dtype, buffer.dtype)
                self.access(buffer.name, e.extra[1])
                if buffer.home == "scratch":
                    self.covered(buffer.name, e.extra[1])
            elif e.op == "name":
                self.check(self.names.get(e.extra) == e.dtype, "name {} is not defined here", e)
            elif e.op == "index":
                self.index_known(e.extra)
            elif e not in self.typed:
                self.typed.add(e)
                self.types(e)

    def types(self, e: Expr) -> None:
        given = [a.dtype for a in e.args]
        self.check(ARITY.get(e.op) == len(given), "{} of {} arguments in {}", e.op, len(given), e)
        if e.op in COMPARISONS:
            good = e.dtype == "bool" and given[0] == given[1]
        elif e.op == "select":
            good = given == ["bool", e.dtype, e.dtype]
        elif e.op in _SAME_TYPE:
            good = all(g == e.dtype for g in given) or e.op in ("abs", "pow")
        else:
            good = True
        self.check(good, "{} to {} of {}: {}", e.op, e.dtype, given, e)

    def index_known(self, i: Affine) -> None:
        known = self.box.keys() | set(self.kernel.symbols)
        for atom, _ in i.terms:
            if isinstance(atom, Quotient):
                self.index_known(atom.index)
            elif isinstance(atom, str):
                self.check(atom in known, f"index {i}: no axis or symbol {atom} here")

    def access(self, name: str, index: Sequence[Affine]) -> None:
        shape = self.kernel.buffers[name].shape
        self.check(len(index) == len(shape), f"{name} of rank {len(shape)} at {list(index)}")
        for i, n in zip(index, shape, strict=True):
            self.index_known(i)
            if i.data() or self.empty():
                continue  # in bounds by the contract of `data`
            least, most = self.range_of(i)
            inside = least.sure() and (n - 1 - most).sure()
            self.check(inside, "{}: index {} in {} .. {}, extent {}", name, i, least, most, n)

    def covered(self, name: str, index: Sequence[Affine]) -> None:
        if self.empty():
            return
        for filled, box in reversed(self.facts):
            if filled == name and all(
                self.range_of(i - low)[0].sure() and self.range_of(high - i)[0].sure()
                for i, (low, high) in zip(index, box, strict=True)
            ):
                return
        self.check(False, "scratch {}{} is read, but not surely filled before", name, list(index))


def _widened(box: Box, axis: str, low: Affine, high: Affine) -> Box | None:
    """The part of scratch filled by all iterations of a loop, from that filled by one."""
    uses = [k for k, (a, b) in enumerate(box) if axis in atoms([a]) or axis in atoms([b])]
    if not uses:
        return box if (high - low - 1).sure() else None
    if len(uses) > 1:
        return None
    a, b = box[uses[0]]
    step, width = dict(a.terms).get(axis, 0), (b - a).constant
    if step < 1 or dict(b.terms).get(axis) != step or (step > 1 and (width or 0) + 1 < step):
        return None  # with gaps, or not in order
    wide = (a.substitute({axis: low}), b.substitute({axis: high - 1}))
    return tuple(wide if k == uses[0] else pair for k, pair in enumerate(box))


def _joined(first: Box, second: Box) -> Box | None:
    """Both as one, where they differ along one axis only, and the second begins there next to the
    end of the first: rows that are filled one by one."""
    apart = [k for k, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    if len(apart) != 1:
        return None
    (k,) = apart
    if second[k][0] - first[k][1] != 1:
        return None
    return (*first[:k], (first[k][0], second[k][1]), *first[k + 1 :])
