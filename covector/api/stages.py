"""Ahead of time: a jitted function traced, lowered, compiled, each stage to look at."""

from __future__ import annotations

from typing import Any

from covector import tree
from covector.api.arguments import avals_of, check_values
from covector.api.arrays import as_array
from covector.compiler.math.expand import expand_all
from covector.ir.hlo_scalar import ELEMENTWISE
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.scalar import Expr
from covector.ir.stablehlo import module_text
from covector.runtime.backend import MemoryStats, backends
from covector.transforms.tools import tools

#: What `as_text` shows, in the order of the way of a program.
STAGES = ("jaxpr", "stablehlo", "simplified", "kernels", "llvm", "assembly")
_IN_STABLEHLO = frozenset(ELEMENTWISE)


class Lowered:
    """A traced function, ready to be compiled: `jit(f).lower(*args)`."""

    def __init__(self, traced: Any, name: str) -> None:
        self.traced, self.name = traced, name
        self._executable: Any = None

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; what the function captured are its first arguments."""
        return self.traced.op.jaxpr

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """The types of the flat arguments."""
        return tuple(self.jaxpr.in_avals[len(self.traced.captured) :])

    @property
    def out_info(self) -> Any:
        """The result's structure, with types as leaves."""
        return tree.unflatten(self.traced.out_tree, self.jaxpr.out_avals)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program at a stage: one of 'jaxpr', 'stablehlo' (the default), 'simplified',
        'kernels', 'llvm', 'assembly'.

        >>> import covector as cv
        >>> print(cv.jit(cv.lax.sin).lower(1.0).as_text("jaxpr"))
        { lambda ; a:f32[]*. let
            b:f32[]* = sin a
          in (b,) }
        """
        del debug_info
        stage = dialect or "stablehlo"
        if stage not in STAGES:
            raise ValueError(f"as_text: the stages are {', '.join(STAGES)}; got {dialect!r}")
        if stage == "jaxpr":
            return str(self.jaxpr)
        if stage == "stablehlo":
            return module_text(self.jaxpr, f"jit_{self.name}", tools, _in_stablehlo)
        return self._compiled().text(stage)

    def _compiled(self) -> Any:
        if self._executable is None:
            self._executable = backends.get("cpu").compile(self.jaxpr)
        return self._executable

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Machine code for these types."""
        del compiler_options
        return Compiled(self, self._compiled())


def _in_stablehlo(node: Expr) -> Expr:
    """A scalar operation that StableHLO lacks, by the compiler's own expansion."""
    return expand_all([node], _IN_STABLEHLO)[0]


class Compiled:
    """A compiled function: takes arguments of the types it was lowered for, and no others."""

    def __init__(self, lowered: Lowered, executable: Any) -> None:
        self._lowered, self._executable = lowered, executable

    def as_text(self, stage: str = "assembly") -> str:
        """The program at a stage, see `Lowered.as_text`."""
        return self._lowered.as_text(stage)

    @property
    def out_info(self) -> Any:
        """The result's structure, with types as leaves."""
        return self._lowered.out_info

    def memory_analysis(self) -> MemoryStats:
        """Bytes that it needs."""
        return self._executable.memory

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it.  Raises TypeError if structure or types are not those it was compiled for."""
        traced = self._lowered.traced
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != traced.in_tree:
            raise TypeError(
                f"compiled {self._lowered.name} takes arguments of the structure "
                f"{traced.in_tree}; got {in_tree}"
            )
        check_values(leaves, (args, kwargs), "an argument")
        for k, (given, wanted) in enumerate(
            zip(avals_of(leaves), self._lowered.in_avals, strict=True)
        ):
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                raise TypeError(
                    f"compiled {self._lowered.name}: argument {k} must be of type "
                    f"{wanted.str_short()}; got {given.str_short()}"
                )
        arrays = [*traced.captured, *map(as_array, leaves)]
        return tree.unflatten(traced.out_tree, self._executable.run(arrays))
