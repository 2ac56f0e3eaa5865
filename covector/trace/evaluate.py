"""The trace at the bottom: operations on concrete values run at once, by the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from covector._base import errors
from covector.trace.tracer import Trace, Tracer, leak_message


class EvalTrace(Trace):
    """Interprets an operation by running it; `run(op, args)` is the runtime's."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[Any, Any], Any]) -> None:
        super().__init__(None)
        self.run = run

    def process(self, op: Any, args: Any) -> Any:
        """Run it.  A tracer here has outlived its trace: the runtime cannot type it."""
        for x in args:
            if isinstance(x, Tracer):
                raise errors.UnexpectedTracerError(leak_message(x))
        return self.run(op, args)
