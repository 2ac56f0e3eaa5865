"""optax, unmodified, on Covector: the numbers it has on JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.oracle import once

ROOT = Path(__file__).resolve().parents[2]
optax = pytest.importorskip("optax", reason="pip install optax")


def run(library: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.optax_program", library],
        capture_output=True, text=True, timeout=300, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_on_jax() -> dict[str, Any]:
    """As `run`, from the record of the oracle's answers where it is there."""
    program = (ROOT / "tests/clients/optax_program.py").read_text(encoding="utf-8")
    (found,) = once(
        "clients", f"optax {optax.__version__} {program}", (),
        [SimpleNamespace(dtype="uint8", shape=(-1,))],
        lambda: [np.frombuffer(json.dumps(run("jax")).encode(), np.uint8)],
    )  # fmt: skip
    return json.loads(found.tobytes())


def test_training_gives_the_same_numbers() -> None:
    ours, theirs = run("covector"), run_on_jax()
    assert ours.pop("library") == "covector"
    assert theirs.pop("library") == "jax"
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=2e-5, err_msg=name)
        assert values[2] != values[0]
