"""Planning stays near-linear, and the same program always gets the same plan."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzing import random_program
from programs import softmax
from toys import Build, Matmul

from covector.compiler.loops import ask, partition
from covector.compiler.plan import plan


@pytest.fixture
def work(monkeypatch):
    """Counts of kernel rules asked and of kernels lowered."""
    counts = {"rules": 0, "kernels": 0}
    begin, lower_group = ask.Asking.begin, partition.lower_group

    def counted_begin(self, node, index):
        counts["rules"] += 1
        return begin(self, node, index)

    def counted_lower(*args, **kwargs):
        counts["kernels"] += 1
        return lower_group(*args, **kwargs)

    monkeypatch.setattr(ask.Asking, "begin", counted_begin)
    monkeypatch.setattr(partition, "lower_group", counted_lower)
    return counts


def test_five_thousand_chained_operations(work):
    b = Build()
    y = b.input(100)
    for k in range(5000):
        y = b.sin(y) if k % 2 else b.mul(y, 1.5)
    program = plan(b.jaxpr(y))
    assert len(program.steps) == 2  # one kernel would take LLVM too long
    assert work["rules"] < 3 * 5000
    assert len(str(program)) < 1_000_000


def test_shared_operands_are_asked_once(work):
    b = Build()
    y = b.input(100)
    for _ in range(200):
        y = b.mul(y, y)
    assert len(plan(b.jaxpr(y)).steps) == 1
    assert work["rules"] == 200


def test_neighbours_of_neighbours_are_bounded(work):
    """y[i] + y[i + 1], many times: recomputing all would be quadratic, then exponential."""
    b = Build()
    y = b.input(200)
    for _ in range(60):
        n = y.aval.shape[0]
        y = b.add(b.cut(y, (0, n - 1)), b.cut(y, (1, n)))
    plan(b.jaxpr(y))
    assert work["rules"] < 60 * 3 * 300


def test_layers_are_planned_once_each(work):
    b = Build()
    x = b.input(16, 32)
    for _ in range(40):
        h = b(Matmul(0), x, b.input(32, 32))
        x = softmax(b, b.add(b.tanh(b.add(h, b.full(b.input(32), h, 1))), x))[0]
    program = plan(b.jaxpr(x))
    assert len(program.steps) == 80
    assert len(program.kernels) == 1
    assert work["kernels"] <= 3 * 40


def test_means_of_means_are_not_computed_again_and_again(work):
    b = Build()
    y = b.input(30, 40)
    for _ in range(60):
        y = b.sin(b.sub(y, b.full(b.mul(b.sum(y, 0, 1), 0.001), y)))
    plan(b.jaxpr(y))
    assert work["rules"] < 60 * 60


def fingerprint():
    """Of the plans of many programs."""
    digest = hashlib.sha256()
    for seed in range(40):
        digest.update(str(plan(*random_program(seed))).encode())
    return digest.hexdigest()


def test_plans_do_not_depend_on_hashes_of_strings():
    here = Path(__file__)
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(here.parents[2])}
        code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import test_scale as t; "
        out = subprocess.run(
            [sys.executable, "-c", code + "print(t.fingerprint())"],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(out.stdout)
    assert len(found) == 1


def test_equal_layers_are_lowered_once(work):
    """A hundred layers of two kernels each: what is lowered is one layer, and the ends."""

    def layers(count):
        b = Build()
        x, w = b.input(16, 32), b.input(32, 32)
        for _ in range(count):
            (x,) = softmax(b, b(Matmul(10), x, w))
        before = work["kernels"]
        steps = len(plan(b.jaxpr(x)).steps)
        return steps, work["kernels"] - before

    few, many = layers(5), layers(100)
    assert many[0] > 15 * few[0]
    assert many[1] <= few[1] + 2
