"""How programs are written as StableHLO text.  That XLA runs it is a law: tests/laws."""

import pytest

from covector.ir import stablehlo
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Equation, Jaxpr, Var
from covector.ir.op import Op, has_rule


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
            "    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
            '    "func.return"(%5) : (tensor<2xf32>) -> ()',
            "  }",
            "}",
        ]
    )


def test_an_op_without_a_rule_is_named():
    x, y = Var(ShapedArray((2,), "float32")), Var(ShapedArray((2,), "float32"))

    class NoRule(Op, registered=False):
        name = "no_rule"

    assert not has_rule(NoRule, "stablehlo")
    with pytest.raises(NotImplementedError, match="no_rule"):
        stablehlo.module_text(Jaxpr([], [x], [y], [Equation(NoRule(), [x], [y])]))
