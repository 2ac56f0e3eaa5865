"""Everything in this folder again, in Python alone: COVECTOR_NATIVE_RUNTIME=0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covector.runtime.native import native

HERE = Path(__file__).resolve().parent


@pytest.mark.skipif(native() is None, reason="this is that run")
def test_the_runtime_without_native_parts():
    env = {**os.environ, "COVECTOR_NATIVE_RUNTIME": "0"}
    env.pop("PYTEST_XDIST_WORKER", None)
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(HERE)]
    done = subprocess.run(
        command, cwd=HERE.parent.parent, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
