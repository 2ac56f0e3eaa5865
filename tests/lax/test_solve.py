"""associative_scan, custom_linear_solve, custom_root: as JAX, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
RNG = np.random.default_rng(3)
SYSTEM = RNG.normal(size=(4, 4)).astype("f") + 4 * np.eye(4, dtype="f")
INVERSE = np.linalg.inv(SYSTEM)


def agree(program: Any, rtol: float = 2e-5) -> None:
    found, wanted = program(cv, cnp), answer("lax", lambda: program(jax, jax.numpy))
    for ours, theirs in zip(cv.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-6)


# associative_scan


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
def test_prefix_sums(n: int, reverse: bool) -> None:
    x = np.arange(1, n + 1, dtype="f")
    agree(lambda lib, m: lib.lax.associative_scan(m.add, x, reverse=reverse))


def test_prefix_products_of_matrices_and_of_trees() -> None:
    x = RNG.normal(size=(3, 7, 2, 2)).astype("f")
    agree(lambda lib, m: lib.lax.associative_scan(m.matmul, x, axis=1))

    def affine(p: Any, q: Any) -> Any:
        return p[0] * q[0], p[1] * q[0] + q[1]

    agree(lambda lib, m: lib.lax.associative_scan(affine, (x, x * 2), axis=1, reverse=True))
    agree(
        lambda lib, m: lib.grad(
            lambda x: lib.lax.associative_scan(affine, (x, x * 2), axis=-3)[1].sum()
        )(x)
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lax.associative_scan(3, cnp.ones(2)), TypeError, "wants a function"),
        (lambda: lax.associative_scan(cnp.add, cnp.ones(2), axis=1), ValueError, "no axis 1"),
        (lambda: lax.associative_scan(lambda a, b: a, (cnp.ones(2), cnp.ones(3))), ValueError,
         r"one size along axis 0; got \[2, 3\]"),
        (lambda: lax.associative_scan(lambda a, b: (a, b), cnp.ones(2)), TypeError, "structure"),
    ],
)  # fmt: skip
def test_refused_scans(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# custom_linear_solve


def solved(lib: Any, m: Any, reverse: bool = True) -> Any:
    system, inverse, b = m.asarray(SYSTEM), m.asarray(INVERSE), m.arange(1.0, 5.0)

    def x(t: Any) -> Any:
        turned = {}
        scale = lib.lax.stop_gradient(t)
        if reverse:
            turned = {"transpose_solve": lambda f, b: inverse.T @ b / scale}
        return lib.lax.custom_linear_solve(
            lambda x: system * t @ x, b * t**2, lambda f, b: inverse @ b / scale, **turned
        )

    return x


WAYS = {
    "value": lambda lib, m, f: f(1.5),
    "jvp": lambda lib, m, f: lib.jvp(f, (1.5,), (1.0,))[1],
    "grad": lambda lib, m, f: lib.grad(lambda t: (f(t) ** 2).sum())(1.5),
    "vmap of grad": lambda lib, m, f: lib.vmap(lib.grad(lambda t: (f(t) ** 2).sum()))(
        m.array([1.5, 2.0])
    ),
    "jit of grad of grad": lambda lib, m, f: lib.jit(
        lib.grad(lib.grad(lambda t: (f(t) ** 2).sum()))
    )(1.5),
}


@pytest.mark.parametrize("way", WAYS)
def test_linear_solve(way: str) -> None:
    agree(lambda lib, m: WAYS[way](lib, m, solved(lib, m)))


def test_linear_solve_by_its_own_matvec_with_aux() -> None:
    def program(lib: Any, m: Any) -> Any:
        d = m.array([2.0, 4.0])

        def iterate(f: Any, b: Any) -> Any:
            x = b
            for _ in range(60):
                x = x + 0.2 * (b - f(x))
            return x, (f(x) - b).sum()

        def run(b: Any) -> Any:
            return lib.lax.custom_linear_solve(
                lambda x: {"v": d * x["v"]}, {"v": b},
                lambda f, b: ({"v": iterate(lambda v: f({"v": v})["v"], b["v"])[0]}, 7.0),
                symmetric=True, has_aux=True,
            )  # fmt: skip

        x, aux = run(m.ones(2))
        return x, aux, lib.grad(lambda b: run(b)[0]["v"].sum())(m.ones(2))

    agree(program)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: cv.grad(lambda t: solved(cv, cnp, reverse=False)(t).sum())(1.0), TypeError,
         "needs transpose_solve"),
        (lambda: lax.custom_linear_solve(lambda x: x[:1], cnp.ones(2), lambda f, b: b), TypeError,
         "matvec must return arrays like b"),
        (lambda: lax.custom_linear_solve(lambda x: x, cnp.ones(2), lambda f, b: (b,)), TypeError,
         "solve must return the structure of b"),
        (lambda: lax.custom_linear_solve(1, cnp.ones(2), lambda f, b: b), TypeError,
         "wants a function"),
    ],
)  # fmt: skip
def test_refused_systems(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_effects_of_a_solver_stay() -> None:
    seen: list[float] = []

    def solve(f: Any, b: Any) -> Any:
        cv.debug.callback(lambda b: seen.append(float(b)), b)
        return b / 2

    def run(b: Any) -> Any:
        lax.custom_linear_solve(lambda x: 2 * x, b, solve)
        return b + 1

    assert float(cv.jit(run)(3.0)) == 4
    assert seen == [3]


# custom_root


def square_root(lib: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return lib.lax.fori_loop(0, 20, lambda i, x: x - f(x) / (2 * x), x)

    return lambda a: lib.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))


ROOT_WAYS = {
    "value": lambda lib, m, f: f(4.0),
    "grad": lambda lib, m, f: lib.grad(f)(4.0),
    "jit of grad of grad": lambda lib, m, f: lib.jit(lib.grad(lib.grad(f)))(4.0),
    "vmap of grad": lambda lib, m, f: lib.vmap(lib.grad(f))(m.array([4.0, 9.0])),
    "jvp": lambda lib, m, f: lib.jvp(f, (4.0,), (1.0,))[1],
}


@pytest.mark.parametrize("way", ROOT_WAYS)
def test_root(way: str) -> None:
    agree(lambda lib, m: ROOT_WAYS[way](lib, m, square_root(lib)))


def test_root_with_aux_and_what_it_refuses() -> None:
    x, aux = lax.custom_root(
        lambda x: x - 3.0, 0.0, lambda f, x: (x - f(x), 1.0), lambda g, y: y,
        has_aux=True,
    )  # fmt: skip
    assert (float(x), float(aux)) == (3, 1)
    with pytest.raises(TypeError, match="f must return what it takes"):
        lax.custom_root(lambda x: (x, x), 0.0, lambda f, x: x, lambda g, y: y)
    with pytest.raises(TypeError, match="solve must return the structure of the guess"):
        lax.custom_root(lambda x: x, 0.0, lambda f, x: (x, x), lambda g, y: y)
