"""The StableHLO text of every sample, compiled and run by real XLA (the oracle's CPU client)."""

import numpy as np
import pytest

from covector import dtypes
from covector._base.config import enable_x64
from covector.compiler.math.expand import expand_all
from covector.ir import stablehlo
from covector.ir.avals import ShapedArray
from covector.ir.hlo_scalar import ELEMENTWISE
from covector.ir.jaxpr import Equation, Jaxpr, Var
from covector.ir.op import Absent, Op, has_rule
from covector.ops import _check
from covector.transforms.tools import tools
from tests.ops.filling import avals, describe, fill

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
xla = pytest.importorskip("jaxlib._jax")

NAMES = [
    name
    for name, op in sorted(Op.registry.items())
    if not isinstance(op.stablehlo, Absent) and op.samples is not None
]


def program_of(sample, arrays):
    """A program of one equation."""
    invars = [Var(a) for a in avals(arrays, sample)]
    out = sample.op.result(*[v.aval for v in invars])
    outvars = [Var(a) for a in (out if sample.op.multiple_results else (out,))]
    return Jaxpr([], invars, outvars, [Equation(sample.op, invars, outvars)])


def combined(programs):
    """One program that runs all: XLA compiles one module in little more time than one op."""
    return Jaxpr(
        [],
        [v for p in programs for v in p.invars],
        [v for p in programs for v in p.outvars],
        [e for p in programs for e in p.eqns],
    )


def in_hlo(node):
    """A scalar expression that StableHLO lacks, by the compiler's own expansion."""
    return expand_all([node], frozenset(ELEMENTWISE))[0]


def run_xla(text, arrays):
    """Compile the text for the CPU and run it."""
    device = jax.devices("cpu")[0]
    executable = device.client.compile_and_load(text, [device], xla.CompileOptions())
    with jax.enable_x64(True):
        found = executable.execute([jax.device_put(a, device) for a in arrays])
    return [np.asarray(x) for x in found]


EPS = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 2e-5}


@pytest.mark.parametrize("name", NAMES)
def test_text_runs_on_xla(name):
    samples = list(Op.registry[name].samples())
    arguments = [[np.asarray(a) for a in fill(s, 2)] for s in samples]
    programs = [program_of(s, xs) for s, xs in zip(samples, arguments, strict=True)]
    with enable_x64(True):
        text = stablehlo.module_text(combined(programs), name, tools, in_hlo)
    found = iter(run_xla(text, [a for xs in arguments for a in xs]))
    for sample, program, arrays in zip(samples, programs, arguments, strict=True):
        with np.errstate(all="ignore"):
            wanted = sample.op.numpy(*arrays)
        for y, v in zip(wanted if sample.op.multiple_results else [wanted], program.outvars,
                        strict=True):  # fmt: skip
            x, y = next(found), np.asarray(y)
            assert x.shape == y.shape == v.aval.shape, describe(sample)
            assert x.dtype == y.dtype == dtypes.physical_dtype(v.aval.dtype), describe(sample)
            check_close(x, y, sample)


def check_close(x, y, sample):
    if _check.kind(x.dtype) not in "fc":
        np.testing.assert_array_equal(x, y, describe(sample))
        return
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    tolerance = sample.scale * EPS.get(x.dtype.name, 1e-11)
    x, y = x.astype(wide), y.astype(wide)
    size = max(1.0, np.abs(y[np.isfinite(y)]).max(initial=0.0))
    np.testing.assert_allclose(
        x, y, rtol=tolerance, atol=size * tolerance, err_msg=describe(sample)
    )


def test_the_text_of_a_small_program():
    x = Var(ShapedArray((2, 3), "float32"))
    y, z = Var(x.aval), Var(ShapedArray((2,), "float32"))
    registry = Op.registry
    eqns = [
        Equation(registry["exp"](), [x], [y]),
        Equation(registry["reduce_sum"]((1,)), [y], [z]),
    ]
    assert stablehlo.module_text(Jaxpr([], [x], [z], eqns), "f") == "\n".join(
        [
            "module @f {",
            "  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<2xf32>) {",
            '    %0 = "stablehlo.exponential"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
            '    %4 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} '
            ": () -> tensor<f32>",
            '    %5 = "stablehlo.reduce"(%0, %4) ({',
            "    ^bb0(%1: tensor<f32>, %2: tensor<f32>):",
            '      %3 = "stablehlo.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>',
            '      "stablehlo.return"(%3) : (tensor<f32>) -> ()',
            "    }) {dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
            '    "func.return"(%5) : (tensor<2xf32>) -> ()',
            "  }",
            "}",
        ]
    ).replace("array<i64: 0>", "array<i64: 1>")


def test_an_op_without_a_rule_is_named():
    x, y = Var(ShapedArray((2,), "float32")), Var(ShapedArray((2,), "float32"))

    class NoRule(Op):
        name = "no_rule"

    try:
        assert not has_rule(NoRule, "stablehlo")
        with pytest.raises(NotImplementedError, match="no_rule"):
            stablehlo.module_text(Jaxpr([], [x], [y], [Equation(NoRule(), [x], [y])]))
    finally:
        del Op.registry["no_rule"]
