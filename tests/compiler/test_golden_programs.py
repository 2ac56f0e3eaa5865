"""The kernels of named programs, as text (tests/golden/programs): a change of the planner shows as
a change of programs.  `python tests/compiler/test_golden_programs.py` writes them anew."""

from pathlib import Path

import pytest
from fuzzing import LIBRARY, compare
from programs import PROGRAMS, named
from toys import oracle, random_inputs

from covector.compiler.loops.verify import verify
from covector.compiler.plan import plan
from covector.compiler.run import run

GOLDEN = Path(__file__).parent.parent / "golden" / "programs"

#: Steps that a program may take: what must not grow.
STEPS = {
    "two_layers": 4,
    "attention": 4,
    "layer_norm_gradient": 2,
    "rows_and_columns": 2,
    "scatter": 2,
    "update_slice": 3,
    "running_sum": 1,
    "sort": 3,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name):
    assert f"{plan(named(name))}\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps(name):
    assert len(plan(named(name)).steps) == STEPS.get(name, 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_value(name):
    jaxpr = named(name)
    inputs = random_inputs(jaxpr)
    program = plan(jaxpr)
    for kernel in program.kernels:
        verify(kernel)
    got = run(program, inputs, LIBRARY, lanes=True)
    for out, want in zip(got, oracle(jaxpr, inputs), strict=True):
        compare(out.reshape(want.shape), want, name)


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for program_name in PROGRAMS:
        text = f"{plan(named(program_name))}\n"
        (GOLDEN / f"{program_name}.txt").write_text(text, encoding="utf-8")
