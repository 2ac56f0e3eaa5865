"""A function of flat values, run under the trace of a transformation, which is over then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from covector import trace as tracing
from covector._base.config import config
from covector._base.context import current_trace
from covector.trace.tracer import Tracer


def run_under(trace: Any, fun: Callable[..., Sequence[Any]], inputs: Iterable[Any]) -> list[Any]:
    """What `trace` finds in the results of `fun`, each by its `unwrap`.

    `inputs` must be held by nobody else, or the check for leaks finds them.
    """
    try:
        with current_trace(trace):
            outputs = fun(*inputs)
        found = [trace.unwrap(x) for x in outputs]
    finally:
        trace.alive = False
    if config.check_tracer_leaks:
        del inputs, outputs
        tracing.purity_leaks.check_leaks([trace], Tracer)
    return found
