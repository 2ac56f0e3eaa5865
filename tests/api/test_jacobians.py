"""`jacfwd`, `jacrev`, `hessian`, `fwd_and_bwd`, and what `grad` and its kin take: against JAX."""

import functools
import re

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from tests.api.oracle import agree, same_error

TREE = {"p": np.arange(1.0, 3.0, dtype=np.float32), "q": np.ones(3, np.float32)}


def of_tree(j, x):
    return {"a": j.np.sin(x["p"]) * x["q"].sum(), "b": (x["p"] * 2.0, x["q"][0])}


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
def test_structures(name):
    def every(j):
        of = getattr(j.m, name)
        product = lambda x, y: x * y + x * x  # noqa: E731
        v = j.np.arange(1.0, 3.0)
        out = [
            of(functools.partial(of_tree, j))(TREE), of(product, (0, 1))(v, 3.0),
            of(lambda x: (x * x, {"k": x}), has_aux=True)(3.0),
            of(lambda x, *, k: x * x * k)(3.0, k=2.0), of(lambda x: 3.0)(1.0),
        ]  # fmt: skip
        if name == "hessian":
            return out
        return out, [
            of(product)(2.0, 3.0), of(product, -1)(2.0, 3.0), of(product, (0,))(2.0, 3.0),
            of(product, [1, 0])(v, v), of(lambda x: x * 2)(np.ones((2, 2), np.float16)),
            of(lambda x: x * 2)(np.ones(0)), j.m.jacobian(product)(2.0, 3.0),
        ]  # fmt: skip

    # In one program: an oracle that compiles operation by operation takes its time.
    agree(lambda j: j.m.jit(functools.partial(every, j))())
    agree(lambda j: getattr(j.m, name)(lambda d: {"s": d["x"] * d["x"]})({"x": 3.0}))


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
def test_in_and_around(name):
    def every(j):
        of = getattr(j.m, name)
        fun = lambda x: j.np.sin(x) * x[0]  # noqa: E731
        loop = lambda x: j.lax.scan(lambda c, _: (j.np.sin(c) * c, None), x, None, length=3)[0]  # noqa: E731
        x = j.np.arange(1.0, 3.0)
        return (
            j.m.jit(of(fun))(x), j.m.vmap(of(j.m.jit(fun)))(j.np.stack([x, -x])),
            of(j.m.vmap(lambda y: y * y))(x), j.m.jit(j.m.vmap(of(loop)))(x[None]),
            j.m.grad(lambda x: (j.m.jit(of(fun))(x) ** 2).sum())(x),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(every, j))(), 1e-5)


def test_holomorphic():
    z = np.array([1j, 2.0 + 1j], np.complex64)

    def every(j):
        cube = lambda z: z * z * z + z[0]  # noqa: E731
        names = ("jacfwd", "jacrev", "hessian")
        return [getattr(j.m, name)(cube, holomorphic=True)(z) for name in names]

    agree(lambda j: j.m.jit(functools.partial(every, j))(), 2e-6)


def test_integers():
    def case(j):
        f = lambda x, i: x * 2.0 * i  # noqa: E731
        return (
            j.m.jacrev(f, (0, 1), allow_int=True)(j.np.ones(2), j.np.arange(2)),
            j.m.jacfwd(lambda x: j.np.round(x).astype(int))(1.5),
            j.m.grad(lambda d: d["x"] * d["n"], allow_int=True)({"x": 2.0, "n": 3}),
            j.m.grad(lambda b: 1.0 * b, allow_int=True)(True),
        )  # fmt: skip

    agree(case)


def test_chunks_bound_memory_and_change_nothing():
    x = cnp.arange(1.0, 8.0)
    f = lambda x: cnp.sin(x) * x[0]  # noqa: E731
    for of in (cv.jacfwd, cv.jacrev, cv.hessian):
        whole = of(f)(x)
        for chunk in (2, 7) if of is cv.hessian else (1, 3, 7, 100):
            np.testing.assert_allclose(of(f, chunk=chunk)(x), whole, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(cv.jit(of(f, chunk=2))(x), whole, rtol=1e-6, atol=1e-6)
        with pytest.raises(ValueError, match=f"{of.__name__}: chunk must be a positive integer"):
            of(f, chunk=0)
    wide, x = cnp.ones((1 << 18, 64)), cnp.ones(64)
    dense = lambda x: cnp.tanh(wide @ x) @ wide  # noqa: E731
    sizes = [
        cv.jit(cv.jacfwd(dense, chunk=chunk)).lower(x).compile().memory_analysis()
        .temp_size_in_bytes for chunk in (None, 1)
    ]  # fmt: skip
    assert sizes[0] > 3 * sizes[1], sizes


def test_two_passes():
    def case(j):
        f = lambda x, y: x * j.np.sin(y)  # noqa: E731
        one, both = j.m.fwd_and_bwd(f, 1), j.m.fwd_and_bwd(f, (0, 1))
        aux = j.m.fwd_and_bwd(lambda x, y: (x * y, x), (0,), has_aux=True, jitted=False)
        out = []
        for fwd, bwd in (one, both, aux):
            value, residuals, *rest = fwd(2.0, 3.0)
            out.append((value, bwd(residuals, 1.0), rest))
        return out

    agree(case)


def test_auxiliary_data_are_values():
    def case(j):
        f = lambda x: (x**2, {"half": x / 2, "n": 3})  # noqa: E731
        return (
            j.m.grad(f, has_aux=True)(3.0), j.m.value_and_grad(f, has_aux=True)(3.0),
            j.m.jvp(f, (3.0,), (1.0,), has_aux=True), j.m.vjp(f, 3.0, has_aux=True)[2],
            j.m.linearize(f, 3.0, has_aux=True)[2], j.m.jit(j.m.grad(f, has_aux=True))(3.0),
            j.m.vmap(j.m.grad(f, has_aux=True))(j.np.ones(2)),
            j.m.grad(lambda x: j.m.grad(f, has_aux=True)(x)[1]["half"] * x)(3.0),
        )  # fmt: skip

    agree(case)


F16 = np.ones((), np.float16)
ZERO = np.zeros((), [("float0", "V")])


@pytest.mark.parametrize(("case", "told"), [
    *[(lambda j, n=n, a=a: getattr(j.m, n)(lambda x: x * 2.0)(a), f"{n} requires .*{kind}")
      for n, a, kind in (("jacfwd", 1, "int32"), ("jacfwd", True, "bool"), ("jacrev", 1, "int32"),
                         ("jacfwd", 1j, "complex64"), ("jacrev", 1j, "complex64"))],
    (lambda j: j.m.hessian(lambda x: x * 2.0)(1j), "holomorphic=True"),
    (lambda j: j.m.jacrev(lambda x: x * 2j)(1.0), "holomorphic=True"),
    (lambda j: j.m.jacrev(lambda x: 3)(1.0), "functions with integer outputs, use vjp"),
    (lambda j: j.m.jacrev(lambda z: z, holomorphic=True)(1.0), "inputs with complex dtype"),
    (lambda j: j.m.jacfwd(lambda z: z, holomorphic=True)(1.0), "inputs with complex dtype"),
    (lambda j: j.m.jacfwd(lambda z: z.real, holomorphic=True)(1j), "outputs with complex dtype"),
    (lambda j: j.m.jacrev(lambda z: z.real, holomorphic=True)(1j), "outputs with complex dtype"),
    (lambda j: j.m.jacfwd(lambda x: x, 3)(1.0), "argnums=3 .* got 1"),
    (lambda j: j.m.jacfwd(3), "wants a function"),
    (lambda j: j.m.jacrev(lambda x: x, has_aux=True)(1.0), "pair"),
    (lambda j: j.m.jacfwd(lambda x: x)("a"), "'a' of type"),
    (lambda j: j.m.grad(lambda x: x, reduce_axes=("i",)), "reduce_axes argument to grad"),
    (lambda j: j.m.vjp(lambda x: x, 1.0, reduce_axes=("i",)), "reduce_axes argument to vjp"),
    (lambda j: j.m.vjp(lambda x: x, 1.0)[1](1.0, 2.0), "takes one argument.*pullback"),
    (lambda j: j.m.vjp(lambda x: x, 1.0)[1]((1.0,)), "structure"),
    (lambda j: j.m.vjp(lambda x: x, 1.0)[1](j.np.ones(3)), r"f32\[3\]"),
    (lambda j: j.m.linearize(lambda x: x, 1.0)[1](1.0, 2.0), "structure"),
    (lambda j: j.m.linearize(lambda x: x, 1.0)[1](j.np.ones(2)), r"f32\[2\]"),
    (lambda j: j.m.linearize(lambda x: x * 1.0, 1)[1](1), "float0"),
    (lambda j: j.m.jvp(lambda x: x, (1,), (1,)), "float0"),
    (lambda j: j.m.jvp(lambda x: x, (1.0,), (F16,)), r"f16\[\]"),
    (lambda j: j.m.jvp(lambda x: x, (1.0,), (1.0, 2.0)), "same tree structure"),
    (lambda j: j.m.jvp(lambda x: x, 1.0, 1.0), "must be a tuple or list"),
    (lambda j: j.m.jvp(lambda x: x, (1.0,), (j.np.ones(2),)), r"f32\[2\]"),
    (lambda j: j.m.grad(lambda x: x)(x=1.0), "at least 1 positional"),
    (lambda j: j.m.grad(lambda x: (x, x))(1.0), "scalar-output"),
    (lambda j: j.m.grad(lambda x: x)(j.np.ones(2)), r"shape: \(2,\)"),
    (lambda j: j.m.grad(lambda x: 1)(1.0), "np.floating"),
    (lambda j: j.m.grad(lambda x: x * 1.0)(3), "allow_int"),
])  # fmt: skip
def test_errors(case, told):
    message = same_error(case)
    assert re.search(told, message, re.DOTALL), message


def test_described():
    jacobian = cv.jacfwd(of_tree, argnums=(0, 1))
    assert jacobian.__name__ == "of_tree"
    assert "Jacobian of of_tree with respect to the positional argument(s) (0, 1)" in (
        jacobian.__doc__
    )
