"""Traced programs of `jit`: the operation, its executable, what it captured, what it takes over."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, final

from covector._base import log
from covector._base.source import user_frame, user_stacklevel
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from covector.ops.call import Jit
from covector.runtime import array, deferred, dispatch
from covector.runtime.array import Array
from covector.runtime.backend import backends
from covector.runtime.donation import Donating


class Program:
    """A traced function, whoever it captured: the operation to bind, and its executable.

    labels: what the flat arguments are called in messages.  donated: numbers of those given up.
    """

    __slots__ = ("_executable", "_lock", "_said", "donated", "in_tree", "labels", "name", "op",
                 "out_tree", "unusable")  # fmt: skip

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        in_tree: Any,
        out_tree: Any,
        labels: Sequence[str],
        donated: Sequence[int] = (),
    ) -> None:
        self.op: Any = Jit(_lift_constants(closed), name)
        self.name, self.in_tree, self.out_tree = name, in_tree, out_tree
        self.labels = list(labels)
        self.donated = tuple(donated)
        #: Donated arguments that no result can take over.
        self.unusable: tuple[int, ...] = ()
        self._said = False
        self._executable: Any = None
        self._lock = threading.Lock()
        if donated:
            self.donated, self.unusable = _usable(closed, donated)

    def executable(self) -> Any:
        """The compiled program, made when first wanted."""
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    self._executable = self._compile()
        return self._executable

    def _compile(self) -> Any:
        start = time.perf_counter()
        avals = tuple(self.op.jaxpr.in_avals)
        made = None
        if self.donated and not dispatch.REFERENCE_ONLY:
            hidden = len(avals) - len(self.labels)
            try:
                made = backends.get("cpu").compile(
                    self.op.jaxpr, [hidden + n for n in self.donated]
                )
            except NotImplementedError:  # it runs step by step then
                made = None
        made = made or dispatch.executable(self.op, avals)
        log.compiles("compiled %s in %.6f s", self.name, time.perf_counter() - start)
        return made

    @property
    def taken(self) -> dict[int, int]:
        """The number of a result -> that of the argument, captured ones before, whose memory it
        takes over; of a compiled program.
        """
        made = self._executable
        return made.taken if isinstance(made, Donating) else {}

    def warn_of_unusable(self) -> None:
        """Warn of donated arguments whose memory no result can use."""
        if self.unusable and not self._said:
            avals = self.op.jaxpr.in_avals[-len(self.labels) :]
            listed = ", ".join(f"{self.labels[n]}: {avals[n].str_short()}" for n in self.unusable)
            warnings.warn(
                f"Some donated buffers were not usable: {listed}. {self.name} has no result of the "
                "same shape and dtype for them, or does not use them; they are not deleted.",
                stacklevel=user_stacklevel(),
            )
            self._said = True

    def run_donating(
        self, captured: Sequence[Any], arrays: Sequence[Array], name: str
    ) -> list[Array]:
        """Runs it on flat arguments, of which those donated are deleted."""
        _refuse_twice(self, captured, arrays)
        self.warn_of_unusable()
        executable = self.executable()
        by = Taker(name, user_frame())
        everything = [*captured, *arrays]
        if isinstance(executable, Donating):
            return deferred.run(executable, everything, by)
        outs = executable.run(everything)
        for n in self.donated:
            array.replace_buffer(arrays[n], array.Deleted(by))
        return outs


@final
class Taker:
    """The call that took donated arrays; its line is looked up when somebody asks.

    later: any call but the first, by an entry point, which does not see where it is called from.
    """

    __slots__ = ("later", "name", "source")

    def __init__(self, name: str, source: Any, later: bool = False) -> None:
        self.name, self.source, self.later = name, source, later

    def __str__(self) -> str:
        if self.later:
            return f"donated to a call of {self.name}, first called at {self.source}"
        return f"donated to the call of {self.name} at {self.source}"


def _refuse_twice(program: Program, captured: Sequence[Any], arrays: Sequence[Array]) -> None:
    uses = Counter(id(x) for x in (*captured, *arrays))
    for n in program.donated:
        if uses[id(arrays[n])] > 1:
            raise ValueError(
                f"jit of {program.name}: argument {program.labels[n]} is donated, and the same "
                "array is passed or captured a second time: the program would read what it "
                "overwrites. Pass a copy, x.copy()"
            )


def _usable(closed: ClosedJaxpr, donated: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(donated arguments that a result can take the place of, the others)."""
    body = closed.jaxpr
    read = {v for eqn in body.eqns for v in eqn.invars if isinstance(v, Var)}
    read.update(v for v in body.outvars if isinstance(v, Var))
    free = Counter((a.shape, a.dtype) for a in closed.out_avals)
    usable: list[int] = []
    for n in donated:
        var = body.invars[n]
        kind = (var.aval.shape, var.aval.dtype)
        if var in read and free[kind] > 0:
            free[kind] -= 1
            usable.append(n)
    return tuple(usable), tuple(n for n in donated if n not in usable)


def _lift_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The captured constants as leading arguments."""
    body = program.jaxpr
    if not body.constvars:
        return program
    invars = [*body.constvars, *body.invars]
    return ClosedJaxpr(Jaxpr([], invars, body.outvars, body.eqns, body.debug_name), [])


class Found:
    """A program as one function has it: what that captured, what it read when traced.

    patterns: structures of arguments that the entry point has a record of.  snapshot: of the
    purity guard, or None.
    """

    __slots__ = ("captured", "patterns", "program", "snapshot")

    def __init__(self, program: Program, captured: list[Any], snapshot: Any = None) -> None:
        self.program, self.captured, self.snapshot = program, captured, snapshot
        self.patterns: set[Any] = set()
