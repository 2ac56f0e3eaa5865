"""Runs a planned program over NumPy arrays, slowly: the oracle for backends and for the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from covector.compiler.loops.interpret import interpret
from covector.compiler.math.evaluate import numpy_dtype
from covector.compiler.program import Copy, KernelCall, Program

Routine = Callable[..., Sequence[np.ndarray]]


def run(
    program: Program,
    inputs: Sequence[np.ndarray],
    library: Mapping[str, Routine] | None = None,
    *,
    lanes: bool = False,
) -> list[np.ndarray]:
    """The program's results.  Inputs are copied; library: `routine(attributes, *arrays)`."""
    arena = np.full(program.arena, 0xFF, np.uint8)  # what is never written shows as NaN
    arrays: list[Any] = []
    given = dict(zip(program.inputs, inputs, strict=True))
    for n, slot in enumerate(program.slots):
        dtype = numpy_dtype(slot.dtype)
        if n in given:
            arrays.append(np.array(given[n], dtype, order="C").reshape(slot.shape))
        elif slot.home == "temp":
            at = slot.offset or 0
            arrays.append(arena[at : at + slot.nbytes].view(dtype).reshape(slot.shape))
        else:
            fresh = np.full(slot.nbytes, 0xFF, np.uint8)
            arrays.append(fresh.view(dtype).reshape(slot.shape))
    for step in program.steps:
        if isinstance(step, KernelCall):
            kernel = program.kernels[step.kernel]
            interpret(kernel, [arrays[s] for s in step.slots], step.symbols, lanes=lanes)
        elif isinstance(step, Copy):
            arrays[step.target].reshape(-1)[...] = arrays[step.source].reshape(-1)
        else:
            shaped = [
                arrays[s].reshape(shape)
                for s, shape in zip((*step.inputs, *step.outputs), step.shapes, strict=True)
            ]
            given, made = shaped[: len(step.inputs)], shaped[len(step.inputs) :]
            for out, result in zip(
                made, (library or {})[step.name](step.attributes, *given), strict=True
            ):
                out[...] = result
    return [arrays[n] for n in program.outputs]
