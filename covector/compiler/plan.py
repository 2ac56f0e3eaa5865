"""From a Jaxpr to a `Program`: the loop planner's steps, then their memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from covector.compiler.callbacks import as_written
from covector.compiler.epilogue import attach, beside, held
from covector.compiler.loops.graph import Graph, Value, graph_of, literal
from covector.compiler.loops.partition import Partition
from covector.compiler.memory import MemoryPlan
from covector.compiler.program import Program
from covector.compiler.prologue import ahead, lead
from covector.ir.jaxpr import Jaxpr, Literal


def plan(jaxpr: Jaxpr, donated: Iterable[int] = (), name: str = "main") -> Program:
    """The program of `jaxpr`, whose equations must all have a native rule.

    donated: numbers of arguments whose memory the program may overwrite.
    """
    first = len(jaxpr.constvars)
    return _plan(jaxpr, {first + k for k in donated}, None, name)


def plan_nested(jaxpr: Jaxpr, places: Mapping[int, int]) -> Program:
    """The program of a loop's body or condition, or of a branch.

    Each result has memory of its own, or is in the place of the input that `places` (input ->
    result) allows to be overwritten.
    """
    return _plan(jaxpr, set(places), places, jaxpr.debug_name or "nested")


def _plan(jaxpr: Jaxpr, donated: set[int], places: Mapping[int, int] | None, name: str) -> Program:
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    graph = graph_of(inputs, jaxpr.eqns)
    outputs = [_output(v, graph) for v in jaxpr.outvars]
    steps = ahead(beside(as_written(Partition(graph, outputs).run())))
    values = [graph.values[v] for v in inputs]
    memory = MemoryPlan(values, outputs, steps, donated, places, plan_nested, held(steps))
    return lead(attach(memory.program(name)))


def _output(v: Any, graph: Graph) -> Value:
    return graph.constant(literal(v)) if isinstance(v, Literal) else graph.values[v]
