"""One instance of a loop body: what each axis and name is there, and what was already computed.

Unroll-and-jam is done by emitting a statement for a list of these.
"""

from __future__ import annotations

from typing import Any, final

from covector.backends.cpu.emit.ssa import Value
from covector.ir.scalar import Expr


@final
class Env:
    """`axes`: axis -> (scalar i64, a further constant).  `vector`: the axis that has the lanes.

    `mask`: the active lanes, or None for all.  `aligned`: the vectors of a loop follow each other,
    from a multiple of `lanes`.  `memo` holds values of expressions, `fresh` of those that read
    memory the kernel writes (forgotten at every statement).  `tile`: see tile.py.  `ahead`: (the
    axis of the loop around that asks for what it reads so many iterations before, how many).
    """

    __slots__ = (
        "ahead", "aligned", "axes", "fresh", "lanes", "mask", "memo", "names", "tile", "vector",
    )  # fmt: skip

    def __init__(
        self,
        axes: dict[str, tuple[Value, int]],
        names: dict[str, Value],
        vector: str | None = None,
        lanes: int = 1,
        mask: Value | None = None,
        tile: Any = None,
        aligned: bool = False,
        ahead: tuple[str, int] | None = None,
    ) -> None:
        self.axes, self.names, self.ahead = axes, names, ahead
        self.vector, self.lanes, self.mask, self.tile = vector, lanes, mask, tile
        self.aligned = aligned
        self.memo: dict[Expr, Value] = {}
        self.fresh: dict[Expr, Value] = {}

    def bind(self, axis: str, value: Value, more: int = 0) -> Env:
        """With `axis` at `value + more`."""
        axes = {**self.axes, axis: (value, more)}
        return self._with(axes)

    def _with(self, axes: dict[str, tuple[Value, int]]) -> Env:
        return Env(
            axes, dict(self.names), self.vector, self.lanes, self.mask, self.tile, self.aligned,
            self.ahead,
        )  # fmt: skip

    def spread(
        self,
        axis: str,
        value: Value,
        more: int,
        lanes: int,
        mask: Value | None = None,
        aligned: bool = False,
    ) -> Env:
        """With lanes along `axis`, the first at `value + more`; one lane is no vector at all."""
        axes = {**self.axes, axis: (value, more)}
        vector = axis if lanes > 1 else None
        return Env(axes, dict(self.names), vector, lanes, mask, self.tile, aligned, self.ahead)

    def fork(self) -> Env:
        """The same, for a body that may not run: what it computes is forgotten after it."""
        env = self._with(self.axes)
        env.memo = dict(self.memo)
        return env

    def define(self, name: str, value: Value) -> None:
        """Binds a name for the statements that follow."""
        if name in self.names:
            self.memo.clear()
        self.names[name] = value
