"""The compiler in one list: the passes from a Jaxpr to the program that backends run.

Each pass maps a program to a program; between two of them one hook dumps, checks and times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

from covector import compiler, ir, ops
from covector._base import log
from covector._base.config import config
from covector._base.errors import JaxprTypeError
from covector._base.named_tuple import NamedTuple
from covector.compiler import loops, passes
from covector.compiler.loops.graph import CONTROL
from covector.compiler.plan import plan
from covector.compiler.program import Program
from covector.ir.jaxpr import ClosedJaxpr, Equation, Literal
from covector.ir.op import has_rule


def _any(eqn: Equation) -> bool:
    return True


def _named(*names: str) -> Callable[[Equation], bool]:
    """Operations with these names, or names that begin so."""
    return lambda eqn: eqn.op.name.startswith(names)


def _of_numbers(eqn: Equation) -> bool:
    return bool(eqn.invars) and all(isinstance(v, Literal) for v in eqn.invars)


def _controls(eqn: Equation) -> bool:
    return eqn.op.name in CONTROL


def _on_matrices(eqn: Equation) -> bool:
    return has_rule(eqn.op, "per_matrix")


class Pass(NamedTuple):
    """A named step of the pipeline, and why it stands where it does.

    when: the equations of which a program has one at least, or else stays as it is; what the pass
    is made of is loaded with the first such program.
    """

    name: str
    apply: Callable[[Any], Any]
    reason: str
    when: Callable[[Equation], bool] = _any


def _whole(function: str) -> Callable[[ClosedJaxpr], ClosedJaxpr]:
    """A pass over a program and its constants, by module and name."""
    find = attrgetter(function)
    return lambda closed: find(passes)(closed)


def _inside(function: str) -> Callable[[ClosedJaxpr], ClosedJaxpr]:
    """A pass over a Jaxpr, by module and name."""
    find = attrgetter(function)
    return lambda closed: ClosedJaxpr(find(passes)(closed.jaxpr), closed.consts)


def _nested(closed: ClosedJaxpr) -> ClosedJaxpr:
    return passes.nested.prepare_nested(closed, prepare)


_VIEWS: Final = _named("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose")
_PRODUCTS: Final = _named("dot_general")

PASSES: Final = (
    Pass(
        "expand", _whole("expand.expand"),
        "first: every later pass sees only ops it knows, across calls",
    ),
    Pass(
        "fold_constants", _inside("fold_constants.fold_constants"),
        "before simplify, whose rules look for numbers", _of_numbers,
    ),
    Pass(
        "simplify", _inside("simplify.simplify"),
        "before cse: equal views become equal equations",
    ),
    Pass(
        "absorb_results", _inside("contract.absorb_transposes"),
        "before sink_views moves them away", _PRODUCTS,
    ),
    Pass(
        "sink_views", _inside("sink_views.sink_views"),
        "views are merged before they move, and again after", _VIEWS,
    ),
    Pass(
        "simplify_again", _inside("simplify.simplify"),
        "views that sinking brought together",
    ),
    Pass(
        "split_reductions", _inside("split_reductions.split_reductions"),
        "after simplify, which would merge them", _named("reduce_"),
    ),
    Pass(
        "split_scatters", _inside("split_scatters.split_scatters"),
        "beside it: views of parts are its last ones", _named("scatter"),
    ),
    Pass(
        "absorb_transposes", _inside("contract.absorb_transposes"),
        "after simplify merged transposes", _PRODUCTS,
    ),
    Pass(
        "widen_products", _inside("widen.widen_products"),
        "before cse: an operand is converted once", _PRODUCTS,
    ),
    Pass(
        "cse", _inside("cse.common_subexpressions"),
        "last to add uses: the planner shares what is one",
    ),
    Pass(
        "open_barriers", _inside("expand.open_barriers"),
        "after cse, which must not see through them", _named("optimization_barrier"),
    ),
    Pass(
        "dce", _inside("dce.dead_code"),
        "the passes before leave unused equations behind",
    ),
    Pass(
        "small_matrices", _inside("small_matrices.small_matrices"),
        "after dce: only live equations are joined", _on_matrices,
    ),
    Pass(
        "nested", _nested,
        "late: only live loops and branches are prepared, each as a program", _controls,
    ),
    Pass(
        "elementwise_loops", _inside("elementwise_loops.elementwise_loops"),
        "last: bodies have been simplified", _named("scan"),
    ),
)  # fmt: skip

#: Called after each pass with (its name, what it made, seconds).
hooks: Final[list[Callable[[str, Any, float], None]]] = []


def prepare(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with every pass over Jaxprs applied that has something to do."""
    for p in PASSES:
        start = time.perf_counter()
        made = p.apply(closed) if any(map(p.when, closed.jaxpr.eqns)) else closed
        _after(p.name, closed, made, time.perf_counter() - start)
        closed = made
    return closed


def compile_program(closed: ClosedJaxpr, donated: Iterable[int] = ()) -> tuple[Program, list[Any]]:
    """(the planned program, the constants that are its first inputs)."""
    if ops.is_loaded("callback"):
        closed = compiler.callbacks.lift(closed)[0]
    closed = prepare(closed)
    start = time.perf_counter()
    name = closed.jaxpr.debug_name or "main"
    ordered = compiler.callbacks.in_order(closed.jaxpr) if ops.is_loaded("callback") else None
    if ordered is None:
        program = plan(closed.jaxpr, donated, name)
    else:
        program = compiler.callbacks.without_token(plan(ordered, donated, name))
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
            ir.verify.verify(made)
        else:
            for kernel in made.kernels:
                loops.verify.verify(kernel)
    except (JaxprTypeError, loops.verify.InvalidKernel) as error:
        raise type(error)(f"after {name}: {error}") from None
