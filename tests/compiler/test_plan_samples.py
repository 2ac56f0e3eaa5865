"""Every primitive through the whole planner: its kernels verified, interpreted, equal to NumPy."""

import numpy as np
import pytest

from covector import dtypes
from covector.compiler.loops.verify import verify
from covector.compiler.pipeline import compile_program
from covector.compiler.program import LibraryCall, Program
from covector.compiler.run import run
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from covector.ir.op import Absent, Op

SAMPLED = sorted(
    n
    for n, cls in Op.registry.items()
    if callable(cls.samples)
    and not (isinstance(cls.decompose, Absent) and cls.decompose.reason == "host")
)


def program_of(op, avals):
    outs = op.result(*avals)
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in (outs if op.multiple_results else [outs])]
    jaxpr = Jaxpr([], invars, outvars, [Equation(op, invars, outvars)])
    return compile_program(ClosedJaxpr(jaxpr, []))


def value(a, domain):
    if not isinstance(a, ShapedArray):
        return np.asarray(a)
    x = np.random.default_rng(0).uniform(*domain, size=a.shape)
    dtype = np.dtype(dtypes.physical_dtype(a.dtype))
    return np.asarray(x * (1 + 0.5j) if dtype.kind == "c" else x).astype(dtype)


def calls_libraries(program: Program) -> bool:
    steps = any(isinstance(s, LibraryCall) for s in program.steps)
    return steps or any(map(calls_libraries, program.programs))


@pytest.mark.parametrize("name", SAMPLED)
def test_sample(name):
    samples = list(Op.registry[name].samples())
    for sample in samples[:: max(1, len(samples) // 3)][:3]:
        op = sample.op
        avals = [
            a if isinstance(a, ShapedArray) else ShapedArray(np.shape(a), np.asarray(a).dtype)
            for a in sample.args
        ]
        program, consts = program_of(op, avals)
        for kernel in program.kernels:
            verify(kernel)
        if calls_libraries(program):
            continue
        xs = [value(a, sample.domain) for a in sample.args]
        with np.errstate(all="ignore"):
            wanted = op.numpy(*xs)
        got = run(program, [*consts, *xs], lanes=True)
        for y, w in zip(got, wanted if op.multiple_results else [wanted], strict=True):
            w = np.asarray(w)
            if w.dtype.kind in "biufc":
                x, w = y.reshape(w.shape).astype(complex), w.astype(complex)
                np.testing.assert_allclose(x, w, rtol=2e-2, atol=1e-3)
