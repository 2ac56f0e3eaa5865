"""The law of the text for XLA: what `as_text` gives, real XLA compiles and runs with equal results.

The oracle's CPU client does it, one module for all samples of a primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ir.interpret import apply
from covector.ir.op import has_rule, primitives
from covector.ir.values import typeof
from tests.laws.records import RECORDS, Record, arguments, compared

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
xla = pytest.importorskip("jaxlib._jax")

NAMES = [n for n, op in primitives().items() if has_rule(op, "stablehlo") and op.samples]

#: Relative errors allowed: XLA's own functions are less accurate than ours.
EPS = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 2e-5}


def run_on_xla(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compile a module's text for the CPU and run it."""
    device = jax.devices("cpu")[0]
    executable = device.client.compile_and_load(text, [device], xla.CompileOptions())
    with jax.enable_x64(True):
        found = executable.execute([jax.device_put(a, device) for a in arrays])
    return [np.asarray(x) for x in found]


def lowered_text(records: Sequence[Record], types: Sequence[Sequence[ShapedArray]]) -> str:
    """The text of one function that does the operation of every record."""

    def all_of_them(*groups: Any) -> list[Any]:
        return [r.op(*xs) for r, xs in zip(records, groups, strict=True)]

    structs = [
        [cv.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
        for avals in types
    ]
    with cv.enable_x64(True):
        return cv.jit(all_of_them).lower(*structs).as_text("stablehlo")


@pytest.fixture(scope="module", autouse=True)
def _routines() -> None:
    """The oracle registers its routines of LAPACK when it lowers the first call of one."""
    jax.jit(jax.lax.linalg.qr).lower(np.eye(2, dtype=np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_the_text_runs_on_xla(name: str) -> None:
    records = [r for r in RECORDS if r.op.name == name]
    values = [arguments(r.sample, 2) for r in records]
    with cv.enable_x64(True):
        types = [
            [a if isinstance(a, ShapedArray) else typeof(a) for a in r.sample.args] for r in records
        ]
    text = lowered_text(records, types)
    found = iter(run_on_xla(text, [x for xs in values for x in xs]))
    for record, xs, avals in zip(records, values, types, strict=True):
        said = record.op.result(*avals)
        said = said if record.op.multiple_results else [said]
        right = [np.asarray(x) for x in apply(record.op, *xs)]
        results = [next(found) for _ in right]
        for got, wanted, aval in zip(results, right, said, strict=True):
            assert got.shape == wanted.shape == aval.shape, record
            assert got.dtype == wanted.dtype == dtypes.physical_dtype(aval.dtype), record
        for got, wanted in zip(
            compared(record.sample, results), compared(record.sample, right), strict=True
        ):
            assert_close(got, wanted, record)


def assert_close(got: np.ndarray, wanted: np.ndarray, record: Record) -> None:
    """Equal up to the rounding of both: exactly for integers and booleans."""
    if not dtypes.issubdtype(got.dtype, np.inexact):
        np.testing.assert_array_equal(got, wanted, repr(record))
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    tolerance = record.sample.scale * EPS.get(got.dtype.name, 1e-11)
    x, y = got.astype(wide), wanted.astype(wide)
    size = max(1.0, np.abs(y[np.isfinite(y)]).max(initial=0.0))
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=size * tolerance, err_msg=repr(record))


def test_every_primitive_runs_on_xla() -> None:
    """No primitive is left out for want of a rule, but those of the host and of named axes."""
    left = {n for n, op in primitives().items() if not has_rule(op, "stablehlo")}
    reasons = {n: getattr(primitives()[n].stablehlo, "reason", None) for n in left}
    assert set(reasons.values()) <= {"host", "collective"}, reasons


def test_a_whole_program_runs_on_xla() -> None:
    """Nested calls, a captured array and a gradient, through the default dialect."""
    weights = cv.numpy.arange(12.0).reshape(3, 4) / 10

    @cv.jit
    def loss(x: Any) -> Any:
        return cv.numpy.tanh(x @ weights).sum()

    def step(x: Any) -> Any:
        return x - 0.1 * cv.grad(loss)(x)

    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    lowered = cv.jit(step).lower(x)
    text = lowered.as_text()
    assert text.startswith("module @jit_step {")
    captured = [np.asarray(c) for c in lowered.captured]
    (got,) = run_on_xla(text, [*captured, x])
    np.testing.assert_allclose(got, np.asarray(step(x)), rtol=1e-5)
