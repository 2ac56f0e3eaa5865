"""Functions that a kernel uses many times: each is emitted once, and called.

A sine is some fifty instructions; a kernel of a hundred of them takes LLVM seconds, and a core more
room than its instruction cache has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from covector.backends.cpu.emit.ssa import Value
from covector.backends.cpu.emit.text import function_body
from covector.backends.cpu.emit.types import element
from covector.compiler.loops.costs import COST
from covector.compiler.math import real_parts
from covector.ir.scalar import Expr, expr, name, walk_deep

if TYPE_CHECKING:
    from collections.abc import Callable

    from covector.backends.cpu.emit.nest import Nest

#: A kernel with more uses of a function than this calls it.
OFTEN: Final = 12
#: Operations that cost at least so much (see `COST`) are functions.
LONG: Final = 12


def often_used(roots: Iterable[Expr]) -> frozenset[str]:
    """The operations under `roots` that are better called than written out at each use."""
    uses = Counter(e.op for e in walk_deep(*real_parts(roots)) if COST.get(e.op, 1) >= LONG)
    return frozenset(op for op, count in uses.items() if count > OFTEN)


def call(nest: Nest, node: Expr, args: list[Value], inside: Callable[[], Nest]) -> Value:
    """The value of `node` by a call; `inside`: makes the state in which the function is emitted."""
    lanes = max(a.type.lanes for a in args)
    args = [nest.b.splat(a, lanes) for a in args]
    of = [a.dtype for a in node.args]
    label = f"{nest.prefix}.{node.op}.{'.'.join(of)}.{lanes}"
    kind = element(node.dtype).register.of(lanes)
    if label not in nest.functions:
        nest.functions[label] = ""  # not again, should it come to itself
        nest.functions[label] = _function(inside(), label, node, of, lanes)
    return nest.b.put("call", kind, tuple(args), label)


def _function(nest: Nest, label: str, node: Expr, of: list[str], lanes: int) -> str:
    b = nest.b
    given = {f"a{n}": b.argument(f"a{n}", element(d).register.of(lanes)) for n, d in enumerate(of)}
    root = expr(node.op, node.dtype, *(name(n, d) for n, d in zip(given, of, strict=True)))
    result = b.splat(nest.function_of(root, given, lanes), lanes)
    b.scopes[-1].block.end = ("give", result)
    text, needs = function_body(b.blocks, nest.target.pooled)
    nest.declared |= needs
    parameters = ", ".join(v.typed for v in given.values())
    return f"define internal {result.type.text} @{label}({parameters}) nounwind {{\n{text}\n}}\n"
