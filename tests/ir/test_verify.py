"""What is no legal Jaxpr is refused, with the place; the compiler checks after every pass."""

from __future__ import annotations

import numpy as np
import pytest

from covector import ops
from covector._base.config import config
from covector._base.errors import JaxprTypeError
from covector.compiler import pipeline
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.verify import verify
from covector.ops.call import Jit

sin, add = ops.pointwise.sin, ops.pointwise.add
F3, F2, I3 = (ShapedArray(s, d) for s, d in (((3,), "float32"), ((2,), "float32"), ((3,), "int32")))


def program(*eqns: Equation, invars: list[Var], outvars: list[Var | Literal]) -> Jaxpr:
    return Jaxpr([], invars, outvars, eqns)


def test_a_legal_program_passes() -> None:
    x, y = Var(F3), Var(F3)
    number = Literal(np.float32(2), ShapedArray((), "float32"))
    verify(ClosedJaxpr(program(Equation(add, [x, number], [y]), invars=[x], outvars=[y, number])))


def test_what_breaks_a_rule_is_refused() -> None:
    x, y, z = Var(F3), Var(F3), Var(F3)
    short, whole = Var(F2), Var(I3)
    wrong = Literal(np.float64(2), ShapedArray((), "float32"))
    inner = Jit(ClosedJaxpr(program(invars=[Var(F3)], outvars=[Var(F3)])), "f")
    cases = {
        "an operand of equation 0 (sin) is never defined, or only later": program(
            Equation(sin, [z], [y]), Equation(sin, [x], [z]), invars=[x], outvars=[y]
        ),
        "a result is never defined": program(invars=[x], outvars=[y]),
        "equation 1 (sin): a variable is defined twice": program(
            Equation(sin, [x], [y]), Equation(sin, [x], [y]), invars=[x], outvars=[y]
        ),
        "the arguments: a variable is defined twice": program(invars=[x, x], outvars=[x]),
        "equation 0 (sin) gives f32[3], declared as f32[2]": program(
            Equation(sin, [x], [short]), invars=[x], outvars=[short]
        ),
        "equation 0 (sin) gives f32[3], declared as f32[3], f32[3]": program(
            Equation(sin, [x], [y, z]), invars=[x], outvars=[y]
        ),
        "equation 0 (sin) refuses its operands: ": program(
            Equation(sin, [whole], [y]), invars=[whole], outvars=[y]
        ),
        "an operand of equation 0 (add) is array(2.), declared as f32[]": program(
            Equation(add, [x, wrong], [y]), invars=[x], outvars=[y]
        ),
        "a result is never defined, or only later": program(
            Equation(inner, [x], [y]), invars=[x], outvars=[y]
        ),
    }
    for complaint, broken in cases.items():
        with pytest.raises(JaxprTypeError) as error:
            verify(broken)
        assert str(error.value).startswith(complaint), complaint
        assert "{ lambda ; " in str(error.value)
    with pytest.raises(JaxprTypeError, match="constants and their variables are not equally many"):
        verify(ClosedJaxpr(program(invars=[x], outvars=[x]), [1.0]))


def test_the_compiler_names_the_pass_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_an_equation(closed: ClosedJaxpr) -> ClosedJaxpr:
        return ClosedJaxpr(closed.jaxpr.replace(eqns=closed.eqns[1:]), closed.consts)

    bad = pipeline.Pass("lose", lose_an_equation, "to be found out")
    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES, bad))
    x, y = Var(F3), Var(F3)
    closed = ClosedJaxpr(program(Equation(sin, [x], [y]), invars=[x], outvars=[y]))
    with config.scoped(enable_checks=True), pytest.raises(JaxprTypeError, match=r"^after lose: "):
        pipeline.prepare(closed)
