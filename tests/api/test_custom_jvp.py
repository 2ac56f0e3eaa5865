"""`custom_jvp`: against JAX in and around every transformation; what its errors tell."""

import functools
import re

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.custom_derivatives import SymbolicZero, zero_from_primal
from tests.api.oracle import agree, same_error


def tripled(j):
    """sin, with a derivative that is three times its own, so that the rule is seen at work."""
    f = j.m.custom_jvp(lambda x: j.np.sin(x))
    f.defjvp(lambda p, t: (f(*p), 3 * j.np.cos(p[0]) * t[0]))
    return f


AROUND = {
    "call": lambda j, f: f(1.0),
    "grad": lambda j, f: j.m.grad(f)(1.0),
    "jvp": lambda j, f: j.m.jvp(f, (1.0,), (2.0,)),
    "vjp": lambda j, f: j.m.vjp(f, 1.0)[1](1.0),
    "linearize": lambda j, f: j.m.linearize(f, 1.0)[1](2.0),
    "jit": lambda j, f: j.m.jit(f)(1.0),
    "grad of jit": lambda j, f: j.m.grad(j.m.jit(f))(1.0),
    "jit of grad": lambda j, f: j.m.jit(j.m.grad(f))(1.0),
    "vmap": lambda j, f: j.m.vmap(f)(j.np.arange(3.0)),
    "vmap of grad": lambda j, f: j.m.vmap(j.m.grad(f))(j.np.arange(3.0)),
    "grad of vmap": lambda j, f: j.m.grad(lambda x: j.m.vmap(f)(x).sum())(j.np.arange(3.0)),
    "all": lambda j, f: j.m.jit(j.m.vmap(j.m.jit(j.m.grad(j.m.jit(f)))))(j.np.arange(3.0)),
    "grad of jit of vmap of jit": lambda j, f: j.m.grad(
        lambda x: j.m.jit(j.m.vmap(j.m.jit(f)))(x).sum()
    )(j.np.arange(3.0)),
    "second order": lambda j, f: j.m.grad(j.m.grad(f))(1.0),
    "second order of jit": lambda j, f: j.m.grad(j.m.jit(j.m.grad(j.m.jit(f))))(1.0),
    "forward over reverse": lambda j, f: j.m.jvp(j.m.grad(f), (1.0,), (1.0,)),
    "reverse over forward": lambda j, f: j.m.grad(lambda x: j.m.jvp(f, (x,), (x,))[1])(1.0),
    "hessian": lambda j, f: j.m.hessian(lambda x: f(x).sum())(j.np.arange(2.0)),
    "jacobians": lambda j, f: (j.m.jacfwd(f)(j.np.ones(2)), j.m.jacrev(f)(j.np.ones(2))),
    "scan": lambda j, f: j.m.grad(
        lambda x: j.lax.scan(lambda c, y: (f(c) * y, c), x, j.np.arange(1.0, 4.0))[0]
    )(0.5),
    "vmap of scan": lambda j, f: j.m.vmap(
        j.m.grad(lambda x: j.lax.scan(lambda c, y: (f(c) * y, c), x, j.np.arange(1.0, 4.0))[0])
    )(j.np.arange(2.0)),
    "while": lambda j, f: j.m.jvp(
        lambda x: j.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
        (0.5,), (1.0,),
    ),
    "cond": lambda j, f: j.m.vmap(
        j.m.grad(lambda x: j.lax.cond(x > 0.5, f, lambda x: 2.0 * x, x))
    )(j.np.arange(2.0)),
    "checkpoint": lambda j, f: j.m.grad(j.m.checkpoint(lambda x: f(f(x))))(1.0),
    "map": lambda j, f: j.m.grad(lambda x: j.lax.map(f, x).sum())(j.np.arange(3.0)),
    "linear_transpose": lambda j, f: j.m.linear_transpose(
        lambda t: j.m.jvp(f, (1.0,), (t,))[1], 1.0
    )(1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", AROUND)
def test_in_and_around(name):
    agree(lambda j: AROUND[name](j, tripled(j)))


def test_defjvps():
    def case(j):
        f = j.m.custom_jvp(lambda x, y, z: x * y)
        f.defjvps(lambda t, out, x, y, z: 10 * t + out, None, lambda t, out, x, y, z: t * x)
        return j.m.grad(f, (0, 1, 2))(2.0, 3.0, 4.0), j.m.jvp(f, (2.0, 3.0, 4.0), (1.0, 1.0, 0.5))

    agree(case)


def test_pytrees_integers_and_several_results():
    def case(j):
        @j.m.custom_jvp
        def f(d, n):
            return {"a": d["x"] * n, "n": n}, (d["y"],)

        @f.defjvp
        def rule(primals, tangents):
            (d, n), (t, tn) = primals, tangents
            assert str(np.asarray(tn).dtype) == "[('float0', 'V')]"
            return f(d, n), ({"a": t["x"] * 5, "n": tn}, (t["y"],))

        d = {"x": 2.0, "y": j.np.ones(2)}
        tangents = ({"x": 1.0, "y": j.np.ones(2)}, np.zeros((), j.m.dtypes.float0))
        return j.m.jvp(f, (d, 3), tangents), j.m.grad(lambda d: f(d, 3)[0]["a"])(d)

    agree(case)


def test_keywords_and_defaults():
    def case(j):
        f = j.m.custom_jvp(lambda x, y=3.0: x * y)
        f.defjvp(lambda p, t: (f(*p), t[0] * 100 + t[1]))
        return j.m.grad(lambda x: f(y=x, x=x))(2.0), j.m.grad(f)(2.0), f(2.0)

    agree(case)


@pytest.mark.parametrize("how", [{"nondiff_argnums": (0, 2)}, {"nondiff_argnames": ("g", "n")}])
def test_nondiff(how):
    def case(j):
        @functools.partial(j.m.custom_jvp, **how)
        def apply(g, x, n):
            return g(x) * n

        @apply.defjvp
        def rule(g, n, primals, tangents):
            return apply(g, *primals, n), tangents[0] * n * 10

        f = lambda x: apply(j.np.sin, x, 3.0)  # noqa: E731
        return j.m.grad(f)(1.0), j.m.jit(j.m.grad(f))(1.0), j.m.vmap(j.m.grad(f))(j.np.ones(2))

    agree(case)


def test_nondiff_may_be_traced():
    def case(j):
        f = functools.partial(j.m.custom_jvp, nondiff_argnums=(1,))(lambda x, n: x * n)
        f.defjvp(lambda n, p, t: (f(p[0], n), t[0] * 10 * n))
        both = lambda x, n: f(x, n)  # noqa: E731
        return (
            j.m.grad(both)(1.0, 2.0), j.m.grad(both, 1)(1.0, 2.0),
            j.m.jit(j.m.grad(both))(1.0, 2.0), j.m.vmap(j.m.grad(both))(*[j.np.ones(2)] * 2),
        )  # fmt: skip

    agree(case)


def test_symbolic_zeros():
    def case(j):
        seen = []
        f = j.m.custom_jvp(lambda x, y, n: (x * y, n))

        def rule(primals, tangents):
            seen.append([type(t).__name__ == "SymbolicZero" for t in tangents])
            assert tangents[1].shape == ()
            assert str(tangents[1].dtype) == "float32"
            return f(*primals), (tangents[0] * 2, tangents[2])

        f.defjvp(rule, symbolic_zeros=True)
        return j.m.grad(lambda x: f(x, 3.0, 4)[0])(2.0), seen

    agree(case)


def test_symbolic_zero_is_a_type_without_elements():
    zero = SymbolicZero.from_primal_value(cnp.ones((2, 3)))
    assert (zero.shape, zero.dtype, zero.ndim, zero.size) == ((2, 3), np.float32, 2, 6)
    assert repr(zero) == "SymbolicZero"
    assert zero_from_primal(3).dtype == cv.float0
    assert zero_from_primal(3.0, symbolic_zeros=True).aval.weak_type


def test_python_branches_on_concrete_values():
    def case(j):
        f = j.m.custom_jvp(lambda x: j.np.sin(x) if x > 0 else j.np.cos(x))
        f.defjvp(lambda p, t: (f(*p), (2 if p[0] > 0 else 3) * t[0]))
        return f(1.0), j.m.grad(f)(1.0), j.m.grad(f)(-1.0)

    agree(case)
    f = cv.custom_jvp(lambda x: cnp.sin(x) if x > 0 else x)
    f.defjvp(lambda p, t: (f(*p), t[0]))
    with pytest.raises(cv.errors.TracerBoolConversionError, match="Choose values with"):
        cv.jit(f)(1.0)


def closing_over(x, y):
    """A custom_jvp function and its rule that close over `y`."""
    f = cv.custom_jvp(lambda x: x * y)
    f.defjvp(lambda p, t: (f(p[0]), t[0] * y))
    return f(x)


@pytest.mark.parametrize("around", [
    lambda f: cv.grad(f), lambda f: cv.grad(cv.jit(f)), lambda f: cv.jit(cv.grad(cv.jit(f))),
    lambda f: cv.grad(lambda x, y: cv.jit(cv.vmap(f, (0, None)))(x[None], y)[0]),
    lambda f: cv.grad(lambda x, y: cv.vmap(cv.jit(f))(x[None], y[None])[0]),
    lambda f: cv.grad(lambda x, y: lax.scan(lambda c, _: (f(c, y), c), x, None, length=1)[0]),
])  # fmt: skip
def test_closures_over_traced_values(around):
    assert float(around(closing_over)(cnp.float32(2.0), cnp.float32(3.0))) == 3.0


@pytest.mark.parametrize("around", [
    lambda f: cv.grad(f, 1), lambda f: cv.grad(cv.jit(f), 1), lambda f: cv.jit(cv.grad(f, 1)),
])  # fmt: skip
def test_no_derivative_by_what_is_closed_over(around):
    with pytest.raises(cv.errors.UnexpectedTracerError, match=r"closed-over value.*as an argument"):
        around(closing_over)(2.0, 3.0)


def with_rule(j, rule):
    f = j.m.custom_jvp(lambda x: j.np.sin(x))
    f.defjvp(rule)
    return j.m.grad(f)(1.0)


@pytest.mark.parametrize(("case", "told"), [
    (lambda j: j.m.custom_jvp(lambda x: x)(1.0), "No JVP defined for custom_jvp function <lambda>"),
    (lambda j: with_rule(j, lambda p, t: p[0]), "must produce a pair .* but got 1.0"),
    (lambda j: with_rule(j, lambda p, t: (p[0], (t[0],))), "equal container .pytree. structures"),
    (lambda j: with_rule(j, lambda p, t: (p[0], None)), "equal container"),
    (lambda j: with_rule(j, lambda p, t: (p[0], j.np.ones(3))), r"f32\[\].*but got f32\[3\]"),
    (lambda j: with_rule(j, lambda p, t: (p[0], 1)), r"but got i32\[\]"),
    (lambda j: j.m.custom_jvp(lambda x, y: x, nondiff_argnums=(1,)).defjvps(None), "defjvps"),
    (lambda j: tripled(j)(1.0, z=1.0), "could not be resolved .* unexpected keyword argument 'z'"),
    (lambda j: tripled(j)("a"), "'a' of type|not a valid"),
    (lambda j: j.m.grad(j.m.jit(with_tree(j)))(1.0), "structure"),
])  # fmt: skip
def test_errors(case, told):
    message = same_error(case)
    assert re.search(told, message, re.DOTALL), message


def with_tree(j):
    f = j.m.custom_jvp(lambda x: j.np.sin(x))
    f.defjvp(lambda p, t: ((p[0],), (t[0],)))
    return f


def test_errors_of_our_own():
    f = cv.custom_jvp(lambda x, y: x, nondiff_argnums=(3,))
    f.defjvp(lambda *a: a)
    with pytest.raises(TypeError, match="names argument 3, but <lambda> was called with 2"):
        f(1.0, 2.0)
    with pytest.raises(ValueError, match="names 'q', which is no argument of <lambda>"):
        cv.custom_jvp(lambda x: x, nondiff_argnames="q")
    g = cv.custom_jvp(lambda x, y: x)
    g.defjvps(lambda t, out, x, y: t)
    with pytest.raises(TypeError, match=r"was given 1 rules, but .* 2 arguments"):
        cv.grad(g)(1.0, 2.0)


def test_looks_like_the_function():
    @cv.custom_jvp
    def f(x):
        """Of f."""
        return x

    f.fun.extra = 3
    assert (f.__name__, f.__doc__, f.__wrapped__, f.extra) == ("f", "Of f.", f.fun, 3)
    assert (f.jvp, f.symbolic_zeros, f.nondiff_argnums) == (None, False, ())


def test_program_text():
    f = cv.custom_jvp(lambda x: cnp.sin(x))
    f.defjvp(lambda p, t: (f(*p), t[0]))
    text = str(cv.make_jaxpr(f)(1.0))
    assert "custom_jvp_call[" in text
    assert "b:f32[]* = sin a" in text
    assert " at 0x" not in text


# What is batched: results that depend on a batched argument.


def _apart(j):
    f = j.m.custom_jvp(lambda x, y: (j.np.sin(x) * 2, j.np.cos(y)))

    @f.defjvp
    def _(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), (5 * j.np.cos(x) * dx, -3 * j.np.sin(y) * dy)

    return f


@pytest.mark.parametrize("around", ["value", "jit", "jvp", "grad", "grad of jit"])
def test_results_that_examples_share_are_not_batched(around):
    x, y = np.arange(3, dtype="float32"), np.float32(0.5)

    def run(j):
        f = j.m.vmap(_apart(j), (0, None), (0, None))
        f = j.m.jit(f) if "jit" in around else f
        if around == "jvp":
            return j.m.jvp(f, (x, y), (x + 1, y))
        if "grad" in around:
            return j.m.grad(lambda x, y: f(x, y)[0].sum() + 5 * f(x, y)[1], (0, 1))(x, y)
        return f(x, y)

    agree(run)


def test_a_result_whose_tangent_differs_is_batched():
    f = cv.custom_jvp(lambda x, factor: x)
    f.defjvp(lambda p, t: (p[0], t[0] * p[1]))
    factors = np.arange(3, dtype="float32")
    for g in (f, cv.jit(f)):
        total = cv.grad(lambda x, g=g: cv.vmap(g, (None, 0))(x, factors).sum())
        assert float(total(2.0)) == 3.0
    assert float(cv.vmap(f, (None, 0), None)(2.0, factors)) == 2.0
