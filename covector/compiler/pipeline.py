"""The compiler in one list: the passes from a Jaxpr to the program that backends run.

Each pass maps a program to a program; between two of them one hook dumps, checks and times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from covector._base import log
from covector._base.config import config
from covector._base.errors import JaxprTypeError
from covector.compiler.callbacks import in_order, lift, without_token
from covector.compiler.loops.verify import InvalidKernel
from covector.compiler.loops.verify import verify as verify_kernel
from covector.compiler.passes.contract import absorb_transposes
from covector.compiler.passes.cse import common_subexpressions
from covector.compiler.passes.dce import dead_code
from covector.compiler.passes.elementwise_loops import elementwise_loops
from covector.compiler.passes.expand import expand, open_barriers
from covector.compiler.passes.fold_constants import fold_constants
from covector.compiler.passes.nested import prepare_nested
from covector.compiler.passes.simplify import simplify
from covector.compiler.passes.sink_views import sink_views
from covector.compiler.passes.small_matrices import small_matrices
from covector.compiler.passes.split_reductions import split_reductions
from covector.compiler.passes.split_scatters import split_scatters
from covector.compiler.passes.widen import widen_products
from covector.compiler.plan import plan
from covector.compiler.program import Program
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr
from covector.ir.verify import verify as verify_jaxpr


class Pass(NamedTuple):
    """A named step of the pipeline, and why it stands where it does."""

    name: str
    apply: Callable[[Any], Any]
    reason: str


def _inside(function: Callable[[Jaxpr], Jaxpr]) -> Callable[[ClosedJaxpr], ClosedJaxpr]:
    def apply(closed: ClosedJaxpr) -> ClosedJaxpr:
        return ClosedJaxpr(function(closed.jaxpr), closed.consts)

    return apply


def _nested(closed: ClosedJaxpr) -> ClosedJaxpr:
    return prepare_nested(closed, prepare)


PASSES: Final = (
    Pass("expand", expand, "first: every later pass sees only ops it knows, across calls"),
    Pass(
        "fold_constants", _inside(fold_constants), "before simplify, whose rules look for numbers"
    ),
    Pass("simplify", _inside(simplify), "before cse: equal views become equal equations"),
    Pass("absorb_results", _inside(absorb_transposes), "before sink_views moves them away"),
    Pass("sink_views", _inside(sink_views), "views are merged before they move, and again after"),
    Pass("simplify_again", _inside(simplify), "views that sinking brought together"),
    Pass("split_reductions", _inside(split_reductions), "after simplify, which would merge them"),
    Pass("split_scatters", _inside(split_scatters), "beside it: views of parts are its last ones"),
    Pass("absorb_transposes", _inside(absorb_transposes), "after simplify merged transposes"),
    Pass("widen_products", _inside(widen_products), "before cse: an operand is converted once"),
    Pass("cse", _inside(common_subexpressions), "last to add uses: the planner shares what is one"),
    Pass("open_barriers", _inside(open_barriers), "after cse, which must not see through them"),
    Pass("dce", _inside(dead_code), "the passes before leave unused equations behind"),
    Pass("small_matrices", _inside(small_matrices), "after dce: only live equations are joined"),
    Pass("nested", _nested, "late: only live loops and branches are prepared, each as a program"),
    Pass("elementwise_loops", _inside(elementwise_loops), "last: bodies have been simplified"),
)

#: Called after each pass with (its name, what it made, seconds).
hooks: Final[list[Callable[[str, Any, float], None]]] = []


def prepare(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with every pass over Jaxprs applied."""
    for p in PASSES:
        start = time.perf_counter()
        made = p.apply(closed)
        _after(p.name, closed, made, time.perf_counter() - start)
        closed = made
    return closed


def compile_program(closed: ClosedJaxpr, donated: Iterable[int] = ()) -> tuple[Program, list[Any]]:
    """(the planned program, the constants that are its first inputs)."""
    closed = prepare(lift(closed)[0])
    start = time.perf_counter()
    name = closed.jaxpr.debug_name or "main"
    ordered = in_order(closed.jaxpr)
    if ordered is None:
        program = plan(closed.jaxpr, donated, name)
    else:
        program = without_token(plan(ordered, donated, name))
    _after("plan", closed, program, time.perf_counter() - start)
    return program, closed.consts


def _after(name: str, given: Any, made: Any, seconds: float) -> None:
    for hook in hooks:
        hook(name, made, seconds)
    if config.enable_checks:
        _verify(name, made)
    if log.wanted(3):
        text = str(made)
        body = "(unchanged)" if text == str(given) else text
        log.show(3, f"after {name}, {seconds * 1e3:.2f} ms", body)


def _verify(name: str, made: ClosedJaxpr | Program) -> None:
    try:
        if isinstance(made, ClosedJaxpr):
            verify_jaxpr(made)
        else:
            for kernel in made.kernels:
                verify_kernel(kernel)
    except (JaxprTypeError, InvalidKernel) as error:
        raise type(error)(f"after {name}: {error}") from None
