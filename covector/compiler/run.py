"""Runs a planned program over NumPy arrays, slowly: the oracle for backends and for the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from covector.compiler.loops.interpret import interpret
from covector.compiler.math.formats import numpy_dtype
from covector.compiler.program import Branch, Copy, KernelCall, LibraryCall, Loop, Program

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
        _RUN[type(step)](program, step, arrays, library or {}, lanes)
    return [arrays[n] for n in program.outputs]


def _kernel(p: Program, s: KernelCall, arrays: list[Any], library: Any, lanes: bool) -> None:
    interpret(p.kernels[s.kernel], [arrays[n] for n in s.slots], s.symbols, lanes=lanes)


def _copy(p: Program, s: Copy, arrays: list[Any], library: Any, lanes: bool) -> None:
    arrays[s.target].reshape(-1)[...] = arrays[s.source].reshape(-1)


def _library(p: Program, s: LibraryCall, arrays: list[Any], library: Any, lanes: bool) -> None:
    for f in s.leaders:
        interpret(p.kernels[f.kernel], [arrays[n] for n in f.slots], lanes=lanes)
    shaped = [
        arrays[n].reshape(shape) for n, shape in zip((*s.inputs, *s.outputs), s.shapes, strict=True)
    ]
    given, made = shaped[: len(s.inputs)], shaped[len(s.inputs) :]
    for out, result in zip(made, library[s.name](s.attributes, *given), strict=True):
        out[...] = result
    for f in s.followers:
        interpret(p.kernels[f.kernel], [arrays[n] for n in f.slots], lanes=lanes)


def _loop(p: Program, s: Loop, arrays: list[Any], library: Any, lanes: bool) -> None:
    body = p.programs[s.body]
    consts = [arrays[n] for n in s.body_consts]
    tests = [arrays[n] for n in s.condition_consts]
    carry = [arrays[n] for n in s.carry]
    rounds = iter(range(s.length or 0)[:: -1 if s.reverse else 1])
    while True:
        if s.condition is not None:
            if not run(p.programs[s.condition], [*tests, *carry], library, lanes=lanes)[0]:
                break
            row = None
        else:
            row = next(rounds, None)
            if row is None:
                break
        rows = [arrays[n][row] for n in s.xs]
        new = run(body, [*consts, *carry, *rows], library, lanes=lanes)
        carry = new[: len(carry)]
        for n, y in zip(s.ys, new[len(carry) :], strict=True):
            arrays[n][row] = y.reshape(arrays[n].shape[1:])
    for n, last in zip(s.carry, carry, strict=True):
        arrays[n].reshape(-1)[...] = np.array(last).reshape(-1)


def _branch(p: Program, s: Branch, arrays: list[Any], library: Any, lanes: bool) -> None:
    which = int(np.clip(int(arrays[s.index].reshape(-1)[0]), 0, len(s.programs) - 1))
    inputs = [arrays[n] for n in s.inputs]
    results = run(p.programs[s.programs[which]], inputs, library, lanes=lanes)
    for n, result in zip(s.outputs, results, strict=True):
        arrays[n].reshape(-1)[...] = result.reshape(-1)


_RUN: dict[type, Any] = {
    KernelCall: _kernel, Copy: _copy, LibraryCall: _library, Loop: _loop, Branch: _branch,
}  # fmt: skip
