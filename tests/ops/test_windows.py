"""reduce_window and its gradients: as JAX, in 1 to 4 dimensions, under every transformation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, ops
from covector.compiler.pipeline import compile_program
from covector.ir.avals import ShapedArray
from covector.trace.stage import trace_to_jaxpr
from tests.oracle import answer, given

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
jnp = jax.numpy

RNG = np.random.default_rng(11)


class Case(NamedTuple):
    """Arguments of `reduce_window` after the computation."""

    shape: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    padding: Any = "VALID"
    base_dilation: tuple[int, ...] | None = None
    window_dilation: tuple[int, ...] | None = None

    def __call__(self, lib: Any, x: Any, init: Any, computation: Any) -> Any:
        return lib.lax.reduce_window(x, init, computation, *self[1:])

    @property
    def x(self) -> np.ndarray:
        return np.random.default_rng(3).permutation(int(np.prod(self.shape))).reshape(
            self.shape).astype("f")  # fmt: skip


CASES = [
    Case((9,), (3,)),
    Case((9,), (3,), (2,), "SAME"),
    Case((9,), (3,), (2,), "SAME_LOWER"),
    Case((10,), (2,), (3,), [(2, 1)], (2,), (3,)),
    Case((12,), (40,), (7,), [(15, 20)]),
    Case((5, 7), (2, 3), (1, 2), "SAME"),
    Case((5, 7), (2, 3), (1, 1), "SAME", None, (2, 1)),
    Case((5, 7), (2, 2), (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 2)),
    Case((4, 5, 3), (2, 2, 1), (1, 2, 1), [(1, 0), (1, 1), (0, 0)]),
    Case((2, 7, 8, 3), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
    Case((2, 7, 8, 3), (1, 7, 8, 1), (1, 1, 1, 1)),
    Case((2, 6, 6, 2), (1, 2, 2, 1), (1, 2, 2, 1)),
    Case((6, 2), (7, 1)),
]
KINDS = ["add", "max", "mixed"]


def computation(lib: Any, kind: str) -> tuple[Any, Any]:
    """(initial value, function)."""
    if kind == "mixed":
        return 0.5, lambda x, y: x + y + 0.1 * x * y
    return {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}[kind], getattr(lib.lax, kind)


def both(fun: Any) -> tuple[Any, Any]:
    return fun(cv, cnp), given("ops", lambda: fun(jax, jnp))


def close(got: Any, wanted: Any, tol: float = 2e-5) -> None:
    for a, b in zip(cv.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: "x".join(map(str, c.shape)))
def test_values_are_those_of_jax(case: Case, kind: str) -> None:
    x = case.x / case.x.size

    def fun(lib: Any, m: Any) -> Any:
        init, combine = computation(lib, kind)
        return case(lib, m.asarray(x), init, combine)

    close(*both(fun))


@pytest.mark.parametrize(
    ("case", "kind"),
    [(c, k) for c in CASES[1:8:2] + CASES[9:11] for k in ("add", "max", "mul")
     if k != "mul" or len(c.shape) < 3],
    ids=str,
)  # fmt: skip
def test_derivatives_are_those_of_jax(case: Case, kind: str) -> None:
    x = case.x / case.x.size + 0.5

    def derived(lib: Any, m: Any) -> Any:
        init, combine = computation(lib, kind)

        def fun(x: Any) -> Any:
            y = case(lib, x, init, combine)
            return m.where(m.isfinite(y), m.sin(m.where(m.isfinite(y), y, 0.0)), 0.0).sum()

        grads = lib.jit(lib.grad(fun))(x)
        tangent = lib.jvp(fun, (x,), (np.cos(x),))[1]
        return grads, tangent

    if kind == "mul" or (kind != "add" and (case.base_dilation or case.window_dilation)):
        # JAX has no such gradient: forward and reverse mode must agree.
        grads, tangent = derived(cv, cnp)
        np.testing.assert_allclose(float((np.asarray(grads) * np.cos(x)).sum()), float(tangent),
                                   rtol=1e-4)  # fmt: skip
        return
    close(derived(cv, cnp), answer("ops", lambda: derived(jax, jnp)), 1e-4)


@pytest.mark.parametrize("kind", ["add", "max"])
@pytest.mark.parametrize("axis", [0, 2])
def test_vmap_over_any_axis(kind: str, axis: int) -> None:
    x = RNG.normal(size=(4, 4, 4)).astype("f")
    case = Case((4, 4), (2, 3), (1, 2), "SAME")

    def fun(lib: Any, m: Any) -> Any:
        init, combine = computation(lib, kind)

        def one(x: Any) -> Any:
            return case(lib, x, init, combine)

        grads = lib.vmap(lib.grad(lambda x: (one(x) ** 2).sum()), axis)(x)
        return lib.jit(lib.vmap(one, axis))(x), grads

    close(*both(fun), 1e-4)


def test_hessian_of_a_pool() -> None:
    x = RNG.normal(size=(4, 4)).astype("f")

    def pooled(lib: Any) -> Any:
        def fun(x: Any) -> Any:
            y = lib.lax.reduce_window(x, -np.inf, lib.lax.max, (2, 2), (1, 1), "VALID")
            z = lib.lax.reduce_window(y**3, 0.0, lib.lax.add, (2, 2), (1, 1), "SAME")
            return (z * z).sum()

        return fun

    wanted = answer("ops", jax.jacrev(jax.grad(pooled(jax))), x)
    close(cv.jacfwd(cv.grad(pooled(cv)))(x), wanted, 1e-3)


def test_the_gradient_of_a_tie_goes_to_the_first() -> None:
    x = np.array([1.0, 1.0, 0.0, 2.0, 2.0, 2.0], "f")

    def fun(lib: Any, m: Any) -> Any:
        return lib.grad(
            lambda x: (lib.lax.reduce_window(x, -np.inf, lib.lax.max, (3,), (3,))
                       * m.asarray([1.0, 5.0])).sum()
        )(x)  # fmt: skip

    got, wanted = both(fun)
    close(got, wanted)
    assert np.asarray(got).tolist() == [1, 0, 0, 5, 0, 0]


def test_padding_gets_no_gradient() -> None:
    """Where all a window holds is as low as the padding, too."""
    x = np.full((4,), -np.inf, "f")
    g = cv.grad(lambda x: cnp.sum(
        lax.reduce_window(x, -np.inf, lax.max, (3,), (3,), [(2, 2)]) * cnp.asarray([1.0, 2.0])
    ))(x)  # fmt: skip
    assert np.isfinite(np.asarray(g)).all()
    assert float(cnp.sum(g)) == 3.0


def test_pools_as_flax_calls_them() -> None:
    x = RNG.normal(size=(2, 9, 9, 4)).astype("f")

    def fun(lib: Any, m: Any) -> Any:
        dims, strides = (1, 3, 3, 1), (1, 2, 2, 1)

        def average(x: Any) -> Any:
            ones = m.ones(x.shape[1:3])[None, :, :, None]
            counts = lib.lax.reduce_window(ones, 0.0, lib.lax.add, dims, strides, "SAME")
            return lib.lax.reduce_window(x, 0.0, lib.lax.add, dims, strides, "SAME") / counts

        def highest(x: Any) -> Any:
            return lib.lax.reduce_window(x, -m.inf, lib.lax.max, dims, strides, "SAME")

        return [
            lib.jit(lib.value_and_grad(lambda x, p=pool: (p(x) ** 2).sum()))(x)
            for pool in (average, highest)
        ]

    close(*both(fun), 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int32", "float16"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_other_dtypes(dtype: str, kind: str) -> None:
    x = RNG.integers(0, 9, (6, 5)).astype(dtype)

    def fun(lib: Any, m: Any) -> Any:
        ends = np.finfo(dtype) if x.dtype.kind == "f" else np.iinfo(dtype)
        init = {"add": 0, "max": ends.min, "min": ends.max}[kind]
        init = np.asarray(init, dtype)[()]
        return lib.lax.reduce_window(x, init, getattr(lib.lax, kind), (2, 2), (1, 2), "SAME")

    close(*both(fun), 1e-3)


def test_logic_of_windows() -> None:
    x = RNG.integers(0, 2, (6, 5)).astype(bool)

    def fun(lib: Any, m: Any) -> Any:
        return [
            lib.lax.reduce_window(x, start, getattr(lib.lax, name), (2, 2), (1, 1), "SAME")
            for start, name in ((False, "bitwise_or"), (True, "bitwise_and"))
        ]

    close(*both(fun))


@pytest.mark.parametrize("window", [(2, 3), (6, 6)])
def test_trees_of_operands(window: tuple[int, ...]) -> None:
    """The place of the greatest: pairs, combined by a function of the user's."""
    x = RNG.permutation(30).reshape(5, 6).astype("f")

    def fun(lib: Any, m: Any) -> Any:
        places = m.arange(30).reshape(5, 6)

        def better(a: Any, b: Any) -> Any:
            first = a["x"] >= b["x"]
            return {"x": m.where(first, a["x"], b["x"]), "at": m.where(first, a["at"], b["at"])}

        start = {"x": np.float32(-np.inf), "at": np.int32(-1)}
        run = lib.jit(lambda x: lib.lax.reduce_window(
            {"x": x, "at": places}, start, better, window, (1, 2), "SAME"))  # fmt: skip
        return run(x)

    close(*both(fun))


def test_any_initial_value() -> None:
    """It is where combining starts; padding counts for nothing."""
    x = RNG.normal(size=(5,)).astype("f")
    for kind in ("add", "max", "mul"):
        close(*both(lambda lib, m, k=kind: lib.jit(
            lambda x, v: lib.lax.reduce_window(x, v, getattr(lib.lax, k), (3,), (1,), "SAME")
        )(x, np.float32(0.25))))  # fmt: skip


@pytest.mark.parametrize("word", ["SAME", "SAME_LOWER", "VALID"])
def test_padtype_to_pads(word: str) -> None:
    for n, w, s in ((10, 3, 2), (7, 2, 3), (5, 5, 1), (1, 4, 2)):
        assert lax.padtype_to_pads((n,), (w,), (s,), word) == [
            tuple(map(int, p)) for p in jax.lax.padtype_to_pads((n,), (w,), (s,), word)
        ]


def test_reduce_window_shape_tuple() -> None:
    cases: list[Any] = [
        ((10, 9), (3, 2), (2, 1), ((1, 1), (0, 0))),
        ((10, 9), (3, 2), (2, 1), ((1, 1), (0, 0)), (2, 1), (1, 2)),
        ((1, 9), (3, 2), (2, 1), ((0, 0), (0, 0))),
    ]
    for args in cases:
        wanted = jax.lax.reduce_window_shape_tuple(*args)
        assert lax.reduce_window_shape_tuple(*args) == tuple(map(int, wanted))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0.0, lax.add, (2,)), "window_dimensions=.*one entry for each axis"),
        ((0.0, lax.add, (2, 0)), "window_dimensions must be positive"),
        ((0.0, lax.add, (2, 2), (1,)), "window_strides=.*one entry for each axis"),
        ((0.0, lax.add, (2, 2), (1, 0)), "window_strides must be positive"),
        ((0.0, lax.add, (2, 2), None, [(0, 0)]), "padding=.*one pair for each axis"),
        ((0.0, lax.add, (2, 2), None, "WIDE"), "'SAME', 'SAME_LOWER' or 'VALID'.*'WIDE'"),
        ((0.0, lax.add, (2, 2), None, "VALID", (0, 1)), "base_dilation must be positive"),
        ((cnp.zeros(2), lax.add, (2, 2)), "initial values must be scalars"),
        ((0.0, lambda x, y: x > y, (2, 2)), "scalars of the dtype that it takes"),
        ((np.int32(0), lax.add, (2, 2)), "same dtypes"),
        (((0.0,), lax.add, (2, 2)), "trees of one structure"),
        ((0.0, lambda x, y: (x, y), (2, 2)), "must give a tree like its arguments"),
    ],
)
def test_what_is_refused(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        lax.reduce_window(cnp.ones((3, 4)), *args)


def test_the_place_of_a_maximum_is_not_found_by_a_serial_loop() -> None:
    """The gradient of a large window: one kernel finds the places, another one adds there."""
    op = ops.windows.ReduceWindowMax((3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))

    def gradient(x: Any) -> list[Any]:
        return [cv.grad(lambda x: cnp.sum(op(x)))(x)]

    closed = trace_to_jaxpr(gradient, [ShapedArray((40, 40), "float32")])
    program, _ = compile_program(closed)
    pushes = [str(k) for k in program.kernels if "scatter" in str(k)]
    assert len(pushes) == 1
    assert len(program.kernels) > 1
    assert "gt(" not in pushes[0]  # nothing is compared there
