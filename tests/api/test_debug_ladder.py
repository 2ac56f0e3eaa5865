"""COVECTOR_DEBUG: each level of the ladder prints its stage, and those before it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import covector as cv
from covector import numpy as cnp
from covector._base.config import config

PROGRAM = """
import numpy as np, covector as cv
x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
@cv.jit
def scaled(x):
    return cv.nn.softmax(x) * FACTOR
scaled(x)
"""

#: What each level adds.
SIGNS = {
    1: (r"^covector: trace scaled\(x: f32\[2,3\]\), called at <string>:7 \(<module>\)$",
        r"^covector: compile scaled: kernels: 1, [\d.]+ ms$"),
    2: (r"^covector: jaxpr of scaled\n\{ lambda ; a:f32\[2,3\]\. let\n",),
    3: (r"^covector: after simplify, [\d.]+ ms\n\{ lambda ",
        r"^covector: after plan, [\d.]+ ms\nprogram scaled\(s0\) -> \(s1\)",
        r"^k0: kernel "),
    4: (r"^covector: LLVM IR\ntarget triple", r"^define void @k[0-9a-f]{40}\("),
    5: (r"^covector: assembly\n\s*\.", r"^k[0-9a-f]{40}:"),
}  # fmt: skip


@pytest.mark.parametrize("level", range(6))
def test_each_level_prints_its_stage(level: int) -> None:
    done = subprocess.run(
        # Another number, so that the program is in no cache yet.
        [sys.executable, "-c", PROGRAM.replace("FACTOR", str(level + 2))],
        env={**os.environ, "COVECTOR_DEBUG": str(level)},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == ""
    for n, signs in SIGNS.items():
        for sign in signs:
            assert bool(re.search(sign, done.stderr, re.MULTILINE)) == (n <= level), (n, sign)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines printed since, without the timed ones."""
    lines = [line.removeprefix("covector: ") for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if not line.startswith(("compile", "load"))]


@pytest.fixture
def speaking():
    with config.scoped(debug=1):
        yield


@pytest.mark.usefixtures("speaking")
def test_a_retrace_names_what_differed(capsys: pytest.CaptureFixture[str]) -> None:
    @cv.jit
    def f(params, x, **options):
        return params["w"] * x + options.get("shift", 0)

    x = cnp.ones((3,), "float32")
    f({"w": 1.0}, x)
    assert not [line for line in said(capsys) if "again" in line]
    cases = [
        (lambda: f({"w": 1.0}, x[:2]), "x was f32[3], now f32[2]"),
        (lambda: f({"w": cnp.float32(1)}, x[:2]),
         "params['w'] was f32[] (weakly typed), now f32[]"),
        (lambda: f({"w": cnp.int32(1)}, x[:2]), "params['w'] was f32[], now i32[]"),
        (lambda: f({"w": cnp.int32(1)}, x[:2], shift=x[:2]), "shift: new"),
        (lambda: f({"w": cnp.int32(1), "b": 1.0}, x[:2]),
         "params['b']: new"),  # against the trace that is most like it, without shift
        (lambda: f({"w": cnp.int32(1), "b": 1.0}, x=x[:2]),
         "the structure of the arguments was PyTreeDef("),
        (lambda: under_ieee(f, {"w": cnp.int32(1), "b": 1.0}, x=x[:2]),
         "option singular_derivatives was 'finite', now 'ieee'"),
    ]  # fmt: skip
    for call, wanted in cases:
        capsys.readouterr()
        call()
        found = [line for line in said(capsys) if "again" in line]
        assert len(found) == 1
        assert f"  again, since {wanted}" in found[0]
        call()  # the second time nothing is traced
        assert said(capsys) == []


def under_ieee(f, *args, **kwargs):
    with config.scoped(singular_derivatives="ieee"):
        return f(*args, **kwargs)


@pytest.mark.usefixtures("speaking")
def test_a_static_argument_is_named_by_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    f = cv.jit(lambda n, x: x * n, static_argnums=0)
    f(2, np.float32(1))
    line, *_ = said(capsys)
    assert line.startswith("trace <lambda>(x: f32[]), called at test_debug_ladder.py:")
    f(3, np.float32(1))
    assert said(capsys)[-1] == "  again, since static argument 0 was 2, now 3"
    f(3.0, np.float32(1))
    assert said(capsys)[-1] == "  again, since static argument 0 was 3, now 3.0"


@pytest.mark.usefixtures("speaking")
def test_a_long_signature_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    cv.jit(lambda xs: sum(xs))([1.0] * 20)
    assert ", … 12 more)" in said(capsys)[0]


@pytest.mark.usefixtures("speaking")
def test_what_the_disk_cache_holds_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    def make():
        return cv.jit(lambda x: cnp.sin(x) * 1234)

    first, second = make(), make()
    first(np.float32(1))
    assert "covector: compile <lambda>: kernels: 1, " in capsys.readouterr().err
    cv.clear_caches()  # else the program of an equal function is there
    second(np.float32(1))
    assert capsys.readouterr().err.endswith("covector: load <lambda> from the cache on disk\n")


def test_at_level_0_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with config.scoped(debug=0):
        cv.jit(lambda x: x + 3)(np.float32(1))
    assert capsys.readouterr().err == ""


def test_errors_name_arguments_beside_static_ones() -> None:
    f = cv.jit(lambda n, x: float(x) * n, static_argnums=0)
    with pytest.raises(cv.errors.ConcretizationTypeError, match="argument x of <lambda>"):
        f(2, 1.0)
