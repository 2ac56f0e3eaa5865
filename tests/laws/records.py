"""What the laws are run over: every sample of every primitive, with arguments made from it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ir.op import Op, Sample, primitives

# Importing the package declares the primitives.
import covector  # noqa: F401  isort: skip


class Record(NamedTuple):
    """A sample, with a name for the test's id."""

    name: str
    sample: Sample

    @property
    def op(self) -> Op:
        return self.sample.op

    def __repr__(self) -> str:
        return self.name


def _records() -> list[Record]:
    out = []
    for name, cls in primitives().items():
        if callable(cls.samples):
            for k, sample in enumerate(cls.samples()):
                kinds = "-".join(
                    a.str_short() if isinstance(a, ShapedArray) else "const" for a in sample.args
                )
                out.append(Record(f"{name}-{k}-{kinds}", sample))
    return out


RECORDS = _records()


def needs_x64(record: Record) -> bool:
    """Whether a type of it exists only with the option enable_x64."""
    avals = [a for a in record.sample.args if isinstance(a, ShapedArray)]
    wide = {np.dtype(n) for n in ("float64", "int64", "uint64", "complex128")}
    found = {a.dtype for a in avals} | {
        a.dtype for a in record.sample.args if isinstance(a, np.ndarray)
    }
    params = {v for v in record.op.params.values() if isinstance(v, np.dtype)}
    return bool((found | params) & wide)


def arguments(sample: Sample, seed: int = 0, dtype: Any = None) -> list[np.ndarray]:
    """NumPy arguments: random numbers of the domain for a type, the array itself otherwise.

    `dtype`: replaces the floating-point type (complex ones by its complex kin).
    """
    rng = np.random.default_rng([seed, zlib.crc32(repr(sample.op).encode())])
    found = [
        _random(rng, a, sample.domain, dtype) if isinstance(a, ShapedArray) else np.asarray(a)
        for a in sample.args
    ]
    return found if sample.prepare is None else list(sample.prepare(*found))


def compared(sample: Sample, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What of the results has one right value."""
    return list(results if sample.view is None else sample.view(*results))


def _random(rng: Any, aval: ShapedArray, domain: tuple[float, float], wanted: Any) -> np.ndarray:
    low, high = domain
    dtype = dtypes.physical_dtype(aval.dtype)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return rng.integers(0, 2**63, aval.shape, np.uint64)
    if dtype == np.bool_:
        return rng.integers(0, 2, aval.shape).astype(bool)
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        low = int(max(low, info.min)) if low > -100 else int(info.min) // 2
        high = int(min(max(high, low + 5), info.max))
        return rng.integers(low, high + 1, aval.shape).astype(dtype)
    values = rng.uniform(low, high, aval.shape)
    if dtypes.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.uniform(low, high, aval.shape)
        return values.astype(np.complex128 if wanted is not None else dtype)
    return values.astype(dtype if wanted is None else wanted)


def tolerance(dtype: Any) -> float:
    """Relative error of one operation on elements of `dtype`."""
    if not dtypes.issubdtype(dtype, np.inexact):
        return 0.0
    return 8 * float(dtypes.finfo(dtype).eps)


def assert_same(got: Any, wanted: Any, what: str, scale: float = 1.0) -> None:
    """Equal shape and dtype; equal values up to rounding (exactly for integers and booleans)."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wanted {wanted.shape}"
    assert got.dtype == wanted.dtype, f"{what}: dtype {got.dtype}, wanted {wanted.dtype}"
    tol = tolerance(got.dtype) * scale
    if tol == 0.0:
        np.testing.assert_array_equal(got, wanted, err_msg=what)
        return
    wide = np.complex128 if dtypes.issubdtype(got.dtype, np.complexfloating) else np.float64
    a, b = got.astype(wide), wanted.astype(wide)
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(size, 1e-30), err_msg=what)
