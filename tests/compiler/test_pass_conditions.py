"""A pass that a program has nothing for (`Pass.when`) would have left it as it is."""

from typing import Any

import numpy as np
import pytest

import covector as cv
from benchmarks.rows import programs
from covector.compiler import pipeline
from covector.compiler.pipeline import PASSES
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.trace.stage import trace_to_jaxpr
from tests.laws.records import RECORDS, Record, needs_x64

CONDITIONAL = {p.name for p in PASSES if p.when is not pipeline._any}


def skipped(closed: ClosedJaxpr) -> set[str]:
    """The passes without work for the program, or for what earlier ones made of it."""
    names = set()
    for p in PASSES:
        made = p.apply(closed)
        if not any(map(p.when, closed.jaxpr.eqns)):
            names.add(p.name)
            assert str(made) == str(closed), p.name
        closed = made
    return names


def alone(record: Record) -> Any:
    """The program of one operation."""
    avals = [a if isinstance(a, ShapedArray) else typeof(a) for a in record.sample.args]

    def run(*xs: Any) -> list[Any]:
        out = record.op(*xs)
        return list(out) if record.op.multiple_results else [out]

    return trace_to_jaxpr(run, avals)


@pytest.mark.parametrize("part", range(8))
def test_single_operations(part):
    left = set(CONDITIONAL)
    for record in RECORDS[part::8]:
        with cv.enable_x64(needs_x64(record)):
            left -= skipped(alone(record))
    assert not left


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_training_steps(name):
    step = getattr(programs, f"{name}_step")(cv)
    inputs = {"mlp": programs.mlp_inputs(8), "transformer": programs.transformer_inputs}[name]
    assert "small_matrices" in skipped(step.trace(*inputs(np.random.default_rng(0))).jaxpr)
