"""Derivatives of complex functions, by JAX's conventions: cotangents are not conjugated."""

import functools
import re

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from tests.api.oracle import agree, same_error

Z = np.complex64(1.5 - 0.7j)
V = np.array([1.0 + 2.0j, -0.5 + 0.3j], np.complex64)

#: Complex to complex; `n` is the NumPy of either library.
HOLOMORPHIC = """
z ** 3
n.sin(z) * n.exp(-z)
n.log(z) + n.sqrt(z)
1 / z + z * z
n.tanh(z) - n.cosh(z)
n.power(z, 1 + 2j) + n.log1p(z)
""".strip().splitlines()

TO_REAL = """
n.abs(z)
n.real(z) * n.imag(z) + n.angle(z)
n.real(n.conj(z) * n.sin(z))
n.real(z * z) + n.imag(1j / z)
""".strip().splitlines()

NOT_HOLOMORPHIC = """
n.conj(z) * z
n.imag(z) * z + n.real(z)
n.abs(z) * n.exp(1j * n.angle(z)) + n.conj(z)
""".strip().splitlines()


def function(j, text):
    return eval(f"lambda z: {text}", {"n": j.np})


@pytest.mark.parametrize("text", HOLOMORPHIC)
def test_holomorphic(text):
    def case(j):
        f = function(j, text)
        return (
            j.m.grad(f, holomorphic=True)(Z), j.m.jvp(f, (Z,), (1j * np.ones_like(Z),)),
            j.m.vjp(f, Z)[1](np.complex64(2 - 1j)), j.m.vmap(j.m.grad(f, holomorphic=True))(V),
            j.m.grad(j.m.grad(f, holomorphic=True), holomorphic=True)(Z),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


@pytest.mark.parametrize("text", TO_REAL)
def test_complex_to_real(text):
    def case(j):
        f = function(j, text)
        tangent = np.complex64(0.3 + 1j)
        return (
            j.m.grad(f)(Z), j.m.value_and_grad(f)(Z), j.m.jvp(f, (Z,), (tangent,)),
            j.m.jacrev(f)(V), j.m.jit(j.m.vmap(j.m.grad(f)))(V),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


@pytest.mark.parametrize("text", NOT_HOLOMORPHIC)
def test_not_holomorphic(text):
    def case(j):
        f = function(j, text)
        directions = (np.complex64(1), np.complex64(1j))
        return (
            [j.m.jvp(f, (Z,), (t,)) for t in directions],
            [j.m.vjp(f, Z)[1](t) for t in directions],
            [j.m.linearize(f, Z)[1](t) for t in directions],
        )

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


def test_real_to_complex_and_back():
    def case(j):
        wave = lambda x: j.np.exp(1j * x) * x  # noqa: E731
        x = np.float32(0.7)
        return (
            j.m.jvp(wave, (x,), (x,)), j.m.vjp(wave, x)[1](np.complex64(1 - 2j)),
            j.m.jacfwd(wave)(x), j.m.grad(lambda x: j.np.abs(wave(x)) + wave(x).imag)(x),
            j.m.hessian(lambda x: j.np.abs(wave(x) + x) ** 2)(x),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


def test_gradient_is_the_conjugate_of_the_direction_of_ascent():
    """f(z) = |z|² grows fastest along z; the gradient is 2 conj(z)."""
    f = lambda z: cnp.abs(z) ** 2  # noqa: E731
    assert complex(cv.grad(f)(1 + 2j)) == pytest.approx(2 - 4j)
    z = np.complex64(3 + 4j)
    for _ in range(60):
        z = z - 0.1 * np.conj(cv.grad(f)(z))
    assert abs(z) < 1e-4


def test_custom_rules_of_complex_functions():
    def case(j):
        f = j.m.custom_jvp(lambda z: z * j.np.conj(z))
        f.defjvp(lambda p, t: (f(*p), 5 * t[0] * p[0] + j.np.conj(t[0])))
        g = j.m.custom_vjp(lambda z: z * z)
        g.defvjp(lambda z: (g(z), z), lambda z, ct: (7j * z * ct,))
        h = j.m.custom_vjp(lambda z: j.np.abs(z))
        h.defvjp(lambda z: (h(z), z), lambda z, ct: (j.np.conj(z) * ct,))
        return (
            j.m.jvp(f, (Z,), (Z,)), j.m.vjp(f, Z)[1](Z), j.m.vjp(g, Z)[1](Z),
            j.m.grad(g, holomorphic=True)(Z), j.m.grad(h)(Z),
            j.m.vmap(j.m.grad(h))(j.np.asarray(V)),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


def test_forward_mode_of_a_complex_function_with_a_reverse_rule():
    g = cv.custom_vjp(lambda z: z**3)
    g.defvjp(lambda z: (g(z), z), lambda z, ct: (3 * z * z * ct,))
    size = cv.custom_vjp(lambda z: cnp.abs(z) ** 2)
    size.defvjp(lambda z: (size(z), z), lambda z, ct: (2 * cnp.conj(z) * ct,))
    for ours, plain in ((g, lambda z: z**3), (size, lambda z: cnp.abs(z) ** 2)):
        for direction in (np.complex64(1), np.complex64(1j)):
            got, wanted = (cv.jvp(f, (Z,), (direction,))[1] for f in (ours, plain))
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
            assert got.dtype == wanted.dtype


@pytest.mark.parametrize(("case", "told"), [
    (lambda j: j.m.grad(lambda z: z * z)(1j), "real-valued outputs .*pass holomorphic=True"),
    (lambda j: j.m.grad(lambda x: x * 1j)(1.0), "real-valued outputs"),
    (lambda j: j.m.grad(lambda z: z.real, holomorphic=True)(1j), "complex-valued outputs"),
    (lambda j: j.m.grad(lambda z: z, holomorphic=True)(1.0), "inputs with complex dtype"),
    (lambda j: j.m.vjp(lambda z: z, Z)[1](np.float32(1)), r"c64\[\].*f32\[\]"),
    (lambda j: j.m.jvp(lambda z: z, (Z,), (np.float32(1),)), r"c64\[\].*f32\[\]"),
])  # fmt: skip
def test_errors(case, told):
    message = same_error(case)
    assert re.search(told, message, re.DOTALL), message
