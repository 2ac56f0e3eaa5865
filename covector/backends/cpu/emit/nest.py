"""The state of one kernel's emission: its builder, its buffers, and the values of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from covector.backends.cpu.emit import outline
from covector.backends.cpu.emit.address import Memory, whole_index
from covector.backends.cpu.emit.arith import NATIVE, apply
from covector.backends.cpu.emit.convert import literal
from covector.backends.cpu.emit.env import Env
from covector.backends.cpu.emit.memory import load
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import I1, PARTS, element
from covector.compiler.math import expand_all, real_parts
from covector.ir.scalar import Expr, below

if TYPE_CHECKING:
    from covector.backends.cpu.target import Target
    from covector.compiler.loops.program import For


@final
class Nest:
    """What every part of the emitter shares.

    `lanes` is the width of every vector loop.  `ranged`: a loop of which only the iterations
    between two values are done here.  `calls`: loops that are functions of their own, by name.
    `outlined`: operations that are called; `functions`: what they call, whose names begin with
    `prefix`; `declared`: what those functions need.
    """

    __slots__ = (
        "_expanded", "_settled", "_unstable", "b", "calls", "declared", "functions", "lanes",
        "memory", "outlined", "prefix", "ranged", "target",
    )  # fmt: skip

    def __init__(self, target: Target, lanes: int, builder: Builder | None = None) -> None:
        self.target, self.lanes = target, lanes
        self.b = builder or Builder(target.f16c)
        self.memory: dict[str, Memory] = {}
        self.ranged: tuple[For, Value, Value] | None = None
        self.calls: dict[For, str] = {}
        self.outlined: frozenset[str] = frozenset()
        self.functions: dict[str, str] = {}
        self.declared: set[str] = set()
        self.prefix = ""
        self._expanded: dict[Expr, list[Expr]] = {}
        self._settled: set[Expr] = set()
        self._unstable: set[Expr] = set()

    def value(self, root: Expr, env: Env) -> Value:
        """The value of an expression for this instance: a scalar, or a vector of `env.lanes`."""
        (plain,) = self.plain(root)
        return self._value(plain, env)

    def plain(self, root: Expr) -> list[Expr]:
        """`root` in real operations that there are instructions for: one, or (re, im)."""
        found = self._expanded.get(root)
        if found is None:
            found = expand_all(real_parts([root]), NATIVE | self.outlined)
            self._expanded[root] = found
        return found

    def parts(self, root: Expr, env: Env) -> tuple[Value, Value]:
        """The real and the imaginary part of a complex expression."""
        re, im = self.plain(root)
        return self._value(re, env), self._value(im, env)

    def _value(self, root: Expr, env: Env) -> Value:
        memo, fresh = env.memo, env.fresh
        found = memo.get(root) or fresh.get(root)
        if found is not None:
            return found
        self._compute(root, [env])
        return memo[root] if root in memo else fresh[root]

    def together(self, root: Expr, envs: list[Env]) -> None:
        """Computes `root` for several instances, node by node: their chains of dependent
        instructions lie side by side, as a core that looks a few hundred ahead can use them."""
        if len(envs) > 1:  # for a single one, whoever asks for it computes it
            for part in self.plain(root):
                self._compute(part, envs)

    def _compute(self, root: Expr, envs: list[Env]) -> None:
        self._settle(root)
        first, *others = envs
        memo, fresh, unstable = first.memo, first.fresh, self._unstable
        stack = [root]
        while stack:
            node = stack[-1]
            if node in memo or node in fresh:
                stack.pop()
                continue
            # A rare value is computed behind a branch, what it shares with others before.
            inside = node.args[::2] if node.op == "select_rare" else self._inside(node)
            waiting = [c for c in inside if c not in memo and c not in fresh]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            (fresh if node in unstable else memo)[node] = self._node(node, first)
            for env in others:
                self._value(node, env)
            stack.pop()

    def lifted(self, root: Expr, env: Env) -> Value:
        """As `value`, with all the lanes of this instance."""
        return self.b.splat(self.value(root, env), env.lanes)

    def all_lifted(self, root: Expr, env: Env) -> list[Value]:
        """As `lifted`; two values for a complex expression."""
        return [self.b.splat(self._value(e, env), env.lanes) for e in self.plain(root)]

    def _node(self, node: Expr, env: Env) -> Value:
        op = node.op
        if op == "load":
            return load(self, node.extra[0], node.extra[1], env)
        if op == "const":
            return literal(self.b, node.extra, element(node.dtype))
        if op == "name":
            return env.names[node.extra]
        if op == "index":
            return whole_index(self, node.extra, env, element(node.dtype))
        if op == "select_rare":
            return self._rarely(node, env)
        memo, fresh, unstable = env.memo, env.fresh, self._unstable
        args = [fresh[a] if a in unstable else memo[a] for a in node.args]
        if op in self.outlined and element(node.args[0].dtype).group == "f":
            return outline.call(self, node, args, self._beside)
        return apply(self.b, op, element(node.dtype), element(node.args[0].dtype), args)

    def _beside(self) -> Nest:
        """The state in which a function that this one calls is emitted."""
        nest = Nest(self.target, self.lanes)
        nest.declared = self.declared
        return nest

    def function_of(self, root: Expr, names: dict[str, Value], lanes: int) -> Value:
        """The value of `root`, a function of names alone."""
        return self.value(root, Env({}, names, lanes=lanes))

    def _rarely(self, node: Expr, env: Env) -> Value:
        """`select(condition, rare, usual)`, where `rare` is computed only if some lane needs it."""
        b, (condition, rare, usual) = self.b, node.args
        when, value = self._value(condition, env), self._value(usual, env)
        lanes = max(when.type.lanes, value.type.lanes)
        value = b.splat(value, lanes)
        some = when
        if when.type.lanes > 1:
            some = b.put("call", I1, (when,), f"llvm.vector.reduce.or.{when.type.suffix}")

        def inside() -> list[Value]:
            inner = env.fork()
            other = b.splat(self._value(rare, inner), lanes)
            return [b.select(when, other, value)]

        return b.branch(some, inside, lambda: [value], rare=True)[0]

    def _inside(self, node: Expr) -> Sequence[Expr]:
        """What `node` is made of, in operations that there are instructions for."""
        if node.op in ("load", "index"):
            return [part for value in below(node) for part in self.plain(value)]
        return node.args

    def _settle(self, root: Expr) -> None:
        """Finds which nodes below `root` read memory that the kernel writes; each node once."""
        settled, unstable = self._settled, self._unstable
        stack = [root]
        while stack:
            node = stack[-1]
            if node in settled:
                stack.pop()
                continue
            inside = self._inside(node)
            waiting = [c for c in inside if c not in settled]
            if waiting:
                stack.extend(waiting)
                continue
            settled.add(node)
            written = node.op == "load" and self.memory[node.extra[0]].written
            if written or any(c in unstable for c in inside):
                unstable.add(node)
            stack.pop()


def part_names(name: str, dtype: str) -> list[str]:
    """The names that stand for a name: of its parts, if it is complex."""
    return [f"{name}.re", f"{name}.im"] if dtype in PARTS else [name]
