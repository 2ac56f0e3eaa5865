"""From a Jaxpr to a `Program`: the loop planner's steps, then their memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from covector import compiler, ops
from covector.compiler.loops.graph import Graph, Value, graph_of, literal
from covector.compiler.loops.partition import Partition, Step
from covector.compiler.memory import MemoryPlan
from covector.compiler.program import Program
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
    steps = Partition(graph, outputs).run()
    if ops.is_loaded("callback"):
        steps = compiler.callbacks.as_written(steps)
    values = [graph.values[v] for v in inputs]
    if not any(_calls_library(s) for s in steps):
        return MemoryPlan(values, outputs, steps, donated, places, plan_nested, {}).program(name)
    steps = compiler.prologue.ahead(compiler.epilogue.beside(steps))
    held = compiler.epilogue.held(steps)
    memory = MemoryPlan(values, outputs, steps, donated, places, plan_nested, held)
    return compiler.prologue.lead(compiler.epilogue.attach(memory.program(name)))


def _calls_library(step: Step) -> bool:
    """Whether kernels may be joined to the step."""
    return step.node is not None and step.kernel is None and step.node.library is not None


def _output(v: Any, graph: Graph) -> Value:
    return graph.constant(literal(v)) if isinstance(v, Literal) else graph.values[v]
