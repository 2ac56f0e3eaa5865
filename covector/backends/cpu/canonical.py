"""A loop program as bytes that say all of it and nothing more: the key of compiled code.

Names are replaced by numbers in order of appearance, so kernels that differ in names alone share
one piece of machine code.  Expressions are written as the DAGs they are, each node once.
"""

from __future__ import annotations

from typing import Any

from covector.compiler.loops.program import (
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
)  # fmt: skip
from covector.ir.index import Affine, Data, Quotient
from covector.ir.scalar import Expr


def canonical(kernel: Kernel) -> bytes:
    """The text of a kernel, up to the names in it.

    >>> from covector.ir.index import Affine
    >>> from covector.compiler.loops.program import Buffer, Kernel
    >>> one = Kernel("f", {"x": Buffer("x", (Affine(3),), "float32", "in")}, [])
    >>> two = Kernel("g", {"y": Buffer("y", (Affine(3),), "float32", "in")}, [])
    >>> canonical(one) == canonical(two)
    True
    """
    return _Writer().kernel(kernel).encode()


class _Writer:
    __slots__ = ("lines", "names", "nodes")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[tuple[str, str], str] = {}
        self.nodes: dict[Expr, int] = {}

    def kernel(self, kernel: Kernel) -> str:
        for s in kernel.symbols:
            self.name("axis", s)
        for b in kernel.buffers.values():
            shape = ",".join(map(self.index, b.shape))
            strides = "" if b.strides is None else ",".join(map(self.index, b.strides))
            self.lines.append(
                f"{self.name('buffer', b.name)} {b.home} {b.dtype}[{shape}] {strides}"
            )
        self.lines.append(str(len(kernel.symbols)))
        self.statements(kernel.body)
        return "\n".join(self.lines)

    def name(self, kind: str, name: str) -> str:
        return self.names.setdefault((kind, name), f"{kind[0]}{len(self.names)}")

    def index(self, index: Affine) -> str:
        terms = [f"{c}*{self.atom(atom)}" for atom, c in index.terms]
        # Atoms are sorted by name; by number the order might differ, and it means nothing.
        return "+".join([str(index.const), *sorted(terms)])

    def atom(self, atom: Any) -> str:
        if isinstance(atom, str):
            return self.name("axis", atom)
        if isinstance(atom, Quotient):
            return f"({self.index(atom.index)}){atom.kind}{atom.n}"
        if isinstance(atom, Data):
            return f"[{self.expr(atom.value)}]"
        raise TypeError(f"an index has an atom of unknown kind: {atom!r}")

    def expr(self, root: Expr | None) -> str:
        """The number of a node, after writing what it consists of."""
        if root is None:
            return "-"
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self.nodes:
                continue
            if ready or not node.args:
                number = self.node(node)
                self.nodes[node] = number
            else:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args))
        return f"%{self.nodes[root]}"

    def node(self, node: Expr) -> int:
        args = " ".join(f"%{self.nodes[a]}" for a in node.args)
        if node.op == "const":
            extra = repr(node.extra)
        elif node.op == "name":
            extra = self.name("name", node.extra)
        elif node.op == "load":
            buffer, index = node.extra
            extra = f"{self.name('buffer', buffer)}[{','.join(map(self.index, index))}]"
        elif node.op == "index":
            extra = self.index(node.extra)
        else:
            extra = ""
        self.lines.append(f"{node.op}.{node.dtype} {args}{extra}")
        return len(self.lines) - 1

    def bounds(self, s: Any) -> str:
        return f"{self.name('axis', s.axis)} {self.index(s.low)} {self.index(s.high)}"

    def place(self, s: Any) -> str:
        index = ",".join(map(self.index, s.index))
        return f"{self.name('buffer', s.buffer)}[{index}] {self.expr(s.value)} {self.expr(s.where)}"

    def statements(self, statements: list[Statement]) -> None:
        """One line or more each; a body is closed by a line `end`."""
        for s in statements:
            self.lines.append(_WRITE[type(s)](self, s))
            for body in _bodies(s):
                self.statements(body)
                self.lines.append("end")
            if isinstance(s, Scan | Repeat):
                self.lines.append("next " + " ".join([self.expr(e) for e in s.next]))
            if isinstance(s, Fold):
                self.lines.append("results " + "; ".join([self.result(r) for r in s.results]))

    def result(self, r: Any) -> str:
        names = ",".join(self.name("name", n) for n in r.names)
        values = ",".join(self.expr(v) for v in r.values)
        return f"{names} {r.kind} {','.join(r.dtypes)} {values} {self.expr(r.init)}"

    def scan(self, s: Scan) -> str:
        start = ",".join(f"{self.name('name', n)}={self.expr(e)}:{e.dtype}" for n, e in s.carries)
        return f"scan {self.bounds(s)} {start} {s.reverse}"

    def repeat(self, s: Repeat) -> str:
        start = ",".join(f"{self.name('name', n)}={self.expr(e)}:{e.dtype}" for n, e in s.carries)
        return f"repeat {start} {self.expr(s.condition)}"

    def fold(self, s: Fold) -> str:
        loops = ",".join(f"{self.name('axis', a)} {self.index(low)} {self.index(high)}"
                         for a, low, high in s.loops)  # fmt: skip
        lanes = "-" if s.vector is None else self.name("axis", s.vector)
        return f"fold {loops} {lanes}*{s.unroll}{self.asks(s)}"

    def asks(self, s: For | Fold) -> str:
        return "".join(
            f" {self.name('buffer', buffer)}[{','.join(map(self.index, index))}]"
            for buffer, index in s.asks
        )


def _bodies(s: Statement) -> list[list[Statement]]:
    if isinstance(s, For | Scan | Repeat):
        return [s.body]
    if isinstance(s, If):
        return [s.body, s.orelse]
    return [s.stores] if isinstance(s, Fold) else []


_WRITE: dict[type, Any] = {
    Store: lambda w, s: f"store {w.place(s)}",
    Update: lambda w, s: f"update {s.kind} {w.place(s)}",
    Let: lambda w, s: f"let {w.name('name', s.name)} {w.expr(s.value)}",
    For: lambda w, s: f"for {w.bounds(s)} {s.mode}*{s.unroll} {s.ahead}{w.asks(s)}",
    If: lambda w, s: f"if {w.expr(s.condition)}",
    Scan: _Writer.scan,
    Repeat: _Writer.repeat,
    Fold: _Writer.fold,
}
