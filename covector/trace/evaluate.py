"""The trace at the bottom: operations on concrete values run at once, by the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from covector.trace.tracer import Trace


class EvalTrace(Trace):
    """Interprets an operation by running it: `process(op, args)` is the runtime's `run` itself.

    It refuses tracers: one that gets here has outlived its trace.
    """

    # A slot hides the method of the base class: one call less on the way of every operation.
    __slots__ = ("process",)

    def __init__(self, run: Callable[[Any, Any], Any]) -> None:
        super().__init__(None)
        self.process = run  # type: ignore[method-assign]
