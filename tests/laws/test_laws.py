"""The laws, over every primitive × sample: see docs/design for what each one protects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ir.interpret import apply
from covector.ir.op import Absent, has_rule
from covector.ir.text import parse_jaxpr, print_jaxpr
from covector.ir.values import typeof
from covector.runtime.array import Array, host
from covector.runtime.interchange import from_numpy
from covector.trace.stage import trace_to_jaxpr
from tests.laws.records import (
    RECORDS,
    Record,
    arguments,
    assert_same,
    compared,
    needs_x64,
    tolerance,
)

pytestmark = pytest.mark.parametrize("record", RECORDS, ids=repr)


@pytest.fixture(autouse=True)
def _types(record: Record) -> Any:
    with cv.enable_x64(needs_x64(record)):
        yield


def run(record: Record, *args: Any) -> list[Any]:
    """The results of the record's operation, as a list."""
    out = record.op(*args)
    return list(out) if record.op.multiple_results else [out]


def avals(record: Record) -> list[ShapedArray]:
    return [a if isinstance(a, ShapedArray) else typeof(a) for a in record.sample.args]


def as_arrays(record: Record, args: Sequence[np.ndarray]) -> list[Array]:
    return [from_numpy(x, a) for x, a in zip(args, avals(record), strict=True)]


def reference(record: Record, args: Sequence[Any]) -> list[np.ndarray]:
    if not has_rule(record.op, "numpy"):
        pytest.skip("no meaning in NumPy alone")
    return apply(record.op, *args)


def results(record: Record) -> list[ShapedArray]:
    out = record.op.result(*avals(record))
    return list(out) if record.op.multiple_results else [out]


def is_float(aval: ShapedArray) -> bool:
    return dtypes.issubdtype(aval.dtype, np.inexact)


def test_types_declared_are_types_computed(record: Record) -> None:
    """`result` says the shape and dtype that `numpy` gives."""
    for got, said in zip(reference(record, arguments(record.sample)), results(record), strict=True):
        assert got.shape == said.shape
        assert got.dtype == dtypes.physical_dtype(said.dtype)


def test_native_is_numpy(record: Record) -> None:
    """The operation, run at once, has NumPy's values."""
    args = arguments(record.sample)
    found, right = run(record, *as_arrays(record, args)), reference(record, args)
    for got, aval in zip(found, results(record), strict=True):
        assert got.aval.strong() is aval.strong()
    views = [compared(record.sample, xs) for xs in ([_plain(x) for x in found], right)]
    for got, wanted in zip(*views, strict=True):
        assert_same(got, wanted, "run at once", record.sample.scale)


def test_jit_is_eager(record: Record) -> None:
    """A compiled program of the operation alone has the same values: bitwise for integers."""
    args = as_arrays(record, arguments(record.sample))
    for got, wanted in zip(
        cv.jit(lambda *xs: run(record, *xs))(*args), run(record, *args), strict=True
    ):
        assert got.aval is wanted.aval
        scale = record.sample.scale
        assert_same(_plain(got), _plain(wanted), "compiled", scale)


def _plain(x: Any) -> np.ndarray:
    """The elements in memory (a key is one word)."""
    return host(x) if type(x) is Array else np.asarray(x)


def test_text_reads_back_equal(record: Record) -> None:
    """The printed Jaxpr, read again, prints the same."""
    if on_host(record):
        pytest.skip("a Python function has no text")
    program = trace_to_jaxpr(lambda *xs: run(record, *xs), avals(record)).jaxpr
    text = print_jaxpr(program)
    assert print_jaxpr(parse_jaxpr(text)) == text


def on_host(record: Record) -> bool:
    """Whether the operation calls Python."""
    absent = record.op.decompose
    return isinstance(absent, Absent) and absent.reason == "host"


def float_arguments(record: Record, args: Sequence[Any]) -> list[int]:
    """Positions of arguments that have derivatives."""
    return [
        k
        for k, (a, s) in enumerate(zip(avals(record), record.sample.args, strict=True))
        if is_float(a) and isinstance(s, ShapedArray)
    ]


def in_float64(record: Record) -> tuple[Callable[..., list[Any]], list[Any]]:
    """(function of the floating-point arguments alone, these, in double precision)."""
    args = arguments(record.sample, dtype=np.float64)
    moving = float_arguments(record, args)

    def fun(*some: Any) -> list[Any]:
        full: list[Any] = list(args)
        for k, x in zip(moving, some, strict=True):
            full[k] = x
        return [x for x in run(record, *full) if is_float(typeof(x))]

    return fun, [args[k] for k in moving]


def smooth(record: Record) -> None:
    """Skip where finite differences say nothing."""
    if not has_rule(record.op, "jvp"):
        pytest.skip("no derivative")
    if not record.sample.smooth or not float_arguments(record, ()):
        pytest.skip("not smooth")
    differentiable_in_float64(record)


def differentiable_in_float64(record: Record) -> None:
    """Skip an operation whose parameters fix a precision."""
    params = record.op.params
    fixed = any(isinstance(v, np.dtype) for v in params.values()) or "mantissa_bits" in params
    try:
        record.op.result(*[typeof(x) for x in arguments(record.sample, dtype=np.float64)])
    except TypeError:
        fixed = True
    if fixed:
        pytest.skip("its parameters fix a precision")


def test_jvp_is_the_derivative(record: Record) -> None:
    """jvp equals central differences in double precision; the jvp of the jvp likewise."""
    with cv.enable_x64(True):
        smooth(record)
        fun, args = in_float64(record)
        directions = _directions(args)
        check_derivative(fun, args, directions, 1e-5, record.sample.scale)

        def first(*xs: Any) -> list[Any]:
            return cv.jvp(fun, xs, directions)[1]

        check_derivative(first, args, _directions(args, 1), 2e-5, record.sample.scale)


def _directions(args: Sequence[Any], seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(7 + seed)
    return tuple(
        (rng.standard_normal(a.shape) + (1j * rng.standard_normal(a.shape) if a.dtype.kind == "c"
                                         else 0)).astype(a.dtype)
        for a in args
    )  # fmt: skip


def check_derivative(
    fun: Callable[..., list[Any]], args: Any, directions: Any, rtol: float, scale: float
) -> None:
    _, tangents = cv.jvp(fun, tuple(args), directions)
    step = 1e-4
    sides = [
        fun(*[a + s * step * t for a, t in zip(args, directions, strict=True)]) for s in (1, -1)
    ]
    for got, plus, minus in zip(tangents, *sides, strict=True):
        plus, minus = np.asarray(plus), np.asarray(minus)
        wanted = (plus - minus) / (2 * step)
        size = np.max(np.abs(wanted), initial=1.0)
        np.testing.assert_allclose(
            np.asarray(got), wanted, rtol=rtol * scale, atol=rtol * scale * size
        )


def test_transpose_is_the_adjoint(record: Record) -> None:
    """<ct, J t> = <transpose(J) ct, t>, in double precision."""
    if on_host(record):
        pytest.skip("no derivative")
    if not has_rule(record.op, "jvp") or not float_arguments(record, ()):
        pytest.skip("no derivative")
    with cv.enable_x64(True):
        differentiable_in_float64(record)
        fun, args = in_float64(record)
        directions = _directions(args)
        try:
            outs, pullback = cv.vjp(fun, *args)
        except NotImplementedError as error:
            if "transpose" not in str(error):
                raise
            pytest.skip("its reverse derivative does not exist")
        cts = [c.astype(o.dtype) for c, o in zip(_directions(
            [np.asarray(o) for o in outs], 3), outs, strict=True)]  # fmt: skip
        tangents = cv.jvp(fun, tuple(args), directions)[1]
        back = pullback(cts)
        left = sum(np.sum(c * np.asarray(t)) for c, t in zip(cts, tangents, strict=True))
        right = sum(np.sum(np.asarray(b) * t) for b, t in zip(back, directions, strict=True))
        scale = max(abs(left), abs(right), 1.0)
        # Of complex numbers the real part is the inner product that both rules keep.
        assert abs(np.real(left) - np.real(right)) <= 1e-9 * scale


def test_vmap_is_a_stack(record: Record) -> None:
    """vmap over any axis of any one argument, and of all, equals a stack of single calls."""
    if not has_rule(record.op, "batch"):
        pytest.skip("no batching")
    count = 3
    shapes = avals(record)
    axes = [[0] * len(shapes)]
    for k, a in enumerate(shapes):
        for axis in {0, a.ndim}:
            axes.append([axis if j == k else None for j in range(len(shapes))])
    batches = [arguments(record.sample, seed) for seed in range(count)]
    for in_axes in axes if shapes else []:
        examples = [
            [x if d is not None else y for x, y, d in zip(b, batches[0], in_axes, strict=True)]
            for b in batches
        ]
        stacked = [
            np.stack([e[k] for e in examples], d) if d is not None else batches[0][k]
            for k, d in enumerate(in_axes)
        ]
        given = [
            from_numpy(x, ShapedArray(x.shape, a.dtype, a.weak_type))
            for x, a in zip(stacked, shapes, strict=True)
        ]
        got = cv.vmap(lambda *xs: run(record, *xs), tuple(in_axes))(*given)
        singles = [run(record, *as_arrays(record, e)) for e in examples]
        for k, x in enumerate(got):
            wanted = np.stack([_plain(s[k]) for s in singles])
            assert_same(_plain(x), wanted, f"vmap in_axes={in_axes}", record.sample.scale)
            assert tolerance(wanted.dtype) >= 0
