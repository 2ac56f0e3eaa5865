"""Convolutions of every geometry, and their derivatives: as JAX, and as their own meaning."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.compiler.pipeline import compile_program, prepare
from covector.ir.avals import ShapedArray
from covector.ops.convolution_forms import ConvRows, ConvTaps
from covector.runtime import threads
from covector.trace.stage import trace_to_jaxpr
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")


class Case(NamedTuple):
    """Operands in the order NC…, OI…, the axes at which they are put, and the other arguments."""

    lhs: np.ndarray
    rhs: np.ndarray
    specs: tuple[tuple[int, ...], ...]
    rest: tuple[Any, ...]
    groups: tuple[int, int]

    def run(self, lib: Any, x: Any, y: Any) -> Any:
        numbers = lib.lax.ConvDimensionNumbers(*self.specs)
        return lib.lax.conv_general_dilated(x, y, *self.rest, numbers, *self.groups)


def drawn(seed: int) -> Case:
    """A case of any kind that JAX accepts."""
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([0, 1, 1, 2, 2, 3]))
    fg, bg = ((1, 1), (1, 1), (3, 1), (1, 2))[rng.integers(4)]
    inputs, outputs = (int(rng.choice(n)) for n in ([1, 2, 9], [1, 3, 17]))
    sizes, window = rng.integers(3, 9, rank), rng.integers(1, 4, rank)
    strides, spread = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
    dilation = rng.choice([1, 1, 2, 3], rank)
    padding = [tuple(map(int, p)) for p in rng.integers(-1, 4, (rank, 2))]
    specs = tuple(tuple(map(int, rng.permutation(rank + 2))) for _ in range(3))

    def array(spec: tuple[int, ...], *shape: int) -> np.ndarray:
        made = rng.normal(size=shape).astype(np.float32)
        return np.ascontiguousarray(np.transpose(made, np.argsort(spec)))

    lhs = array(specs[0], 2 * bg, inputs * fg, *sizes)
    rhs = array(specs[1], outputs * fg * bg, inputs, *window)
    rest = tuple(map(int, strides)), padding, tuple(map(int, dilation)), tuple(map(int, spread))
    return Case(lhs, rhs, specs, rest, (fg, bg))


@pytest.mark.parametrize("seed", range(10))
def test_any_geometry(seed: int) -> None:
    case = drawn(seed)
    shape = jax.eval_shape(lambda x, y: case.run(jax, x, y), case.lhs, case.rhs).shape
    ct = np.random.default_rng(seed).normal(size=shape).astype(np.float32)

    def theirs(x: Any, y: Any, ct: Any) -> Any:
        out, back = jax.vjp(lambda x, y: case.run(jax, x, y), x, y)
        return out, *back(ct)

    @cv.jit
    def both(x: Any, y: Any, ct: Any) -> Any:
        out, back = cv.vjp(lambda x, y: case.run(cv, x, y), x, y)
        return out, *back(ct)

    wanted = answer("ops", theirs, case.lhs, case.rhs, ct)
    for a, b in zip(wanted, both(case.lhs, case.rhs, ct), strict=True):
        scale = max(1.0, float(np.abs(a).max(initial=0)))
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5 * scale)


# Sizes that the native routines treat apart: whole and partial tiles, panels, blocks of places.

ROWS = [
    ((1, 20, 1, 5), (3, 5, 1, 17), (1,), (1,)),
    ((3, 9, 11, 1, 24), (3, 3, 24, 1, 33), (1, 2), (1, 1)),
    ((2, 13, 3, 8), (4, 8, 3, 8), (2,), (2,)),
    ((1, 4, 1, 40), (2, 40, 1, 300), (1,), (1,)),
    ((1, 5000, 1, 1), (9, 1, 1, 2), (4,), (1,)),
]
TAPS = [
    ((2, 30, 1, 5), (2, 28, 1, 17), (3,), (1,), (1,)),
    ((3, 15, 17, 2, 7), (3, 6, 8, 2, 9), (3, 2), (2, 2), (1, 1)),
    ((1, 1400, 1, 16), (1, 1397, 1, 16), (4,), (1,), (1,)),
    ((4, 40, 1, 64), (4, 36, 1, 300), (5,), (1,), (1,)),
]


def compiled(op: Any, *args: np.ndarray) -> Any:
    avals = [ShapedArray(x.shape, x.dtype) for x in args]
    program, _ = compile_program(trace_to_jaxpr(lambda *xs: [op(*xs)], avals, "conv"))
    assert not program.kernels  # it is the routine that is tested
    return cv.jit(lambda *xs: op(*xs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [*ROWS, *TAPS], ids=lambda c: f"{c[0]}x{c[1]}")
def test_routines(case: Any, dtype: str) -> None:
    with cv.enable_x64():
        rng = np.random.default_rng(0)
        x, y = (rng.normal(size=s).astype(dtype) for s in case[:2])
        if case in ROWS:
            op: Any = ConvRows(*case[2:], np.dtype(dtype))
        else:
            _, _, window, strides, dilation = case
            op = ConvTaps(strides, dilation, np.dtype(dtype), window)
        want = op.numpy(x.astype("f8"), y.astype("f8"))
        found = np.asarray(compiled(op, x, y)(x, y))
        bound = 2e-6 if dtype == "float32" else 1e-14
        assert found.dtype == dtype
        np.testing.assert_allclose(found, want, rtol=0, atol=bound * np.abs(want).max() * 4)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.normal(size=s).astype("f") for s in ((2, 20, 20, 24), (3, 3, 24, 40)))

    def layer(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    @cv.jit
    def all_three(x: Any, w: Any) -> Any:
        out, back = cv.vjp(layer, x, w)
        return out, *back(out)

    before = threads.num_threads()
    try:
        threads.set_num_threads(1)
        alone = [np.asarray(v) for v in all_three(x, w)]
        threads.set_num_threads(3)
        for _ in range(3):
            for a, b in zip(alone, all_three(x, w), strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        threads.set_num_threads(before)


# What programs become


def forms(function: Any, *shapes: tuple[int, ...]) -> dict[str, int]:
    """How many calls of each routine, and how many kernels, a program has."""
    avals = [ShapedArray(s, np.float32) for s in shapes]
    program, _ = compile_program(trace_to_jaxpr(lambda *xs: [function(*xs)], avals, "conv"))
    found: dict[str, int] = {"kernels": len(program.kernels)}
    for step in program.steps:
        name = getattr(step, "name", None)
        if name is not None and "conv" in str(name):
            found[name] = found.get(name, 0) + 1
    return found


def test_a_layer_is_one_call() -> None:
    def layer(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    shapes = (2, 16, 16, 8), (3, 3, 8, 16)
    assert forms(layer, *shapes) == {"kernels": 0, "conv_rows": 1}
    assert forms(lambda x, w: layer(x * 2, w), *shapes) == {"kernels": 1, "conv_rows": 1}


def test_the_gradient_of_a_window_is_one_call() -> None:
    def slope(x: Any, w: Any, ct: Any) -> Any:
        def layer(w: Any) -> Any:
            return lax.conv_general_dilated(
                x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )

        return cv.vjp(layer, w)[1](ct)[0]

    shapes = (2, 16, 16, 8), (3, 3, 8, 16), (2, 14, 14, 16)
    assert forms(slope, *shapes) == {"kernels": 0, "conv_taps": 1}


def test_a_transposed_convolution_multiplies_no_zeros() -> None:
    """Eight phases of two places each: what is computed is what is there."""

    def layer(x: Any, w: Any) -> Any:
        return lax.conv_transpose(x, w, (8,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))

    shapes = (1, 50, 16), (16, 16, 4)
    closed = trace_to_jaxpr(
        lambda x, w: [layer(x, w)], [ShapedArray(s, "f4") for s in shapes], "conv"
    )
    (form,) = [e for e in prepare(closed).eqns if e.op.name == "conv_rows"]
    window, inputs, _, outputs = form.invars[1].aval.shape
    assert (window, inputs, outputs) == (2, 16, 8 * 4)


# Transformations and types


def test_batches() -> None:
    """Of either operand, of both, in groups."""
    rng = np.random.default_rng(2)
    for fg, bg, dims in itertools.product((1, 2), (1, 2), ((0, None), (None, 2), (1, 0))):
        if fg == bg == 2:
            continue
        x = rng.normal(size=(2 * bg, 3 * fg, 7)).astype("f")
        y = rng.normal(size=(2 * fg * bg, 3, 2)).astype("f")
        many = [
            v if d is None else np.stack([v, v + 1, v * 2], d)
            for v, d in zip((x, y), dims, strict=True)
        ]

        def one(x: Any, y: Any, fg: int = fg, bg: int = bg) -> Any:
            return lax.conv_general_dilated(
                x, y, (1,), "SAME", feature_group_count=fg, batch_group_count=bg
            )

        got = cv.jit(cv.vmap(one, dims))(*many)
        each = [
            one(*(v if d is None else np.take(v, k, d) for v, d in zip(many, dims, strict=True)))
            for k in range(3)
        ]
        np.testing.assert_allclose(got, np.stack(each), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (cnp.asarray(rng.integers(0, 3, s)).astype(dtype) for s in ((2, 40, 5), (3, 5, 8)))
    words = ("NWC", "WIO", "NWC")
    got = lax.conv_general_dilated(x, y, (1,), "SAME", dimension_numbers=words)
    wide = "complex128" if dtype == "complex64" else "float64"
    full = np.pad(np.asarray(x).astype(wide), ((0, 0), (1, 1), (0, 0)))
    want = sum(full[:, k : k + 40] @ np.asarray(y).astype(wide)[k] for k in range(3))
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got).astype(wide), want.astype(bool) if dtype == "bool"
                                  else want)  # fmt: skip


def test_narrow_floats_are_summed_in_float32() -> None:
    x, w = cnp.ones((1, 600, 1), "float16"), cnp.ones((600, 1, 1), "float16") * 0.01
    words = ("NWC", "WIO", "NWC")
    got = lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=words)
    assert got.dtype == "float16"
    assert abs(float(got[0, 0, 0]) - 6) < 0.01
