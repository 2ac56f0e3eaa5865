"""Every primitive states every rule, or says with a known reason why it cannot exist."""

from __future__ import annotations

import pytest

from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import NATIVE_RULES, Absent, Op, has_rule, primitives
from tests.laws.records import RECORDS

#: Rules that each primitive must state; of the native ones, one is enough.
RULES = ("numpy", "jvp", "transpose", "batch", "stablehlo", "samples")


@pytest.mark.parametrize("name", list(primitives()))
def test_states_every_rule(name: str) -> None:
    cls = Op.registry[name]
    missing = [rule for rule in RULES if getattr(cls, rule) is None]
    if not any(has_rule(cls, rule) or _absent(cls, rule) for rule in NATIVE_RULES):
        missing.append(" or ".join(NATIVE_RULES))
    assert not missing, f"{name} does not state {missing}"


def _absent(cls: type[Op], rule: str) -> bool:
    return isinstance(getattr(cls, rule), Absent)


def test_every_primitive_has_samples() -> None:
    """Of its own; or, a collective, in a program over devices."""
    sampled = {name for r in RECORDS for name in _names(r.op)}
    assert sampled >= set(primitives())


def _names(op: Op) -> set[str]:
    programs = [p for p in op.params.values() if isinstance(p, ClosedJaxpr)]
    return {op.name}.union(*(_names(e.op) for p in programs for e in p.eqns))
