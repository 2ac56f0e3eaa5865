"""`custom_vjp`, `custom_gradient`, `linear_call`, `closure_convert`: against JAX; forward mode
of our own; what errors tell."""

import functools
import re

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
from tests.api.oracle import agree, same_error
from tests.api.test_custom_jvp import AROUND

#: What JAX refuses: forward mode of a function with only a reverse rule.
FORWARD = {
    "jvp", "forward over reverse", "reverse over forward", "hessian", "jacobians", "while",
    "linear_transpose", "linearize",
}  # fmt: skip


def tripled(j):
    """sin, with a derivative that is three times its own, so that the rule is seen at work."""
    f = j.m.custom_vjp(lambda x: j.np.sin(x))
    f.defvjp(lambda x: (f(x), j.np.cos(x)), lambda cos, ct: (3 * cos * ct,))
    return f


#: The rest of AROUND repeats what `custom_jvp` shows.
ENOUGH = (
    "grad", "vjp", "jit of grad", "all", "grad of jit of vmap of jit", "second order of jit",
    "vmap of scan", "cond", "checkpoint", "map",
)  # fmt: skip


@pytest.mark.parametrize("name", ENOUGH)
def test_in_and_around(name):
    agree(lambda j: AROUND[name](j, tripled(j)))


@pytest.mark.parametrize("name", sorted(FORWARD - {"linear_transpose"}))
def test_forward_mode(name):
    """As with the same derivative stated as a custom_jvp, which the oracle takes."""

    def as_jvp(j):
        f = j.m.custom_jvp(lambda x: j.np.sin(x))
        f.defjvp(lambda p, t: (f(*p), 3 * j.np.cos(p[0]) * t[0]))
        return AROUND[name](j, f)

    agree(lambda j: as_jvp(j) if j.m is not cv else AROUND[name](j, tripled(j)))


def test_forward_mode_of_pytrees_in_loops_and_batches():
    @cv.custom_vjp
    def f(d, w):
        return {"s": d["x"] @ w, "n": 1}, d["y"] * 2

    def forward(d, w):
        return f(d, w), (d["x"], w)

    def backward(res, ct):
        x, w = res
        return {"x": ct[0]["s"] @ w.T, "y": 2 * ct[1]}, x.T @ ct[0]["s"]

    f.defvjp(forward, backward)
    rng = np.random.default_rng(0)
    x, w, y = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 3), (4,)))

    def plain(d, w):
        return {"s": d["x"] @ w, "n": 1}, d["y"] * 2

    for fun in (f, plain):
        step = lambda c, _, fun=fun: (fun({"x": c, "y": c}, w)[0]["s"], c)  # noqa: E731
        loop = lambda c, step=step: lax.scan(step, c, None, length=3)[0]  # noqa: E731
        made = (
            cv.jacfwd(fun, 1, has_aux=False)({"x": x, "y": y}, w)[0]["s"],
            cv.jit(cv.jacfwd(loop))(x),
            cv.vmap(lambda c, loop=loop: cv.jvp(loop, (c,), (c,))[1])(np.stack([x, 2 * x])),
            cv.hessian(lambda c, loop=loop: (loop(c) ** 2).sum())(x),
            cv.vmap(cv.jit(cv.linearize(loop, x)[1]))(np.stack([x, x])),
        )
        if fun is f:
            ours = made
    for a, b in zip(ours, made, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize(("bwd", "told"), [
    (lambda r, g: (cnp.clip(g, -1, 1),), "transposing its bwd rule.*min has no transpose"),
    (lambda r, g: (g * g,), "mul is not linear in these arguments"),
    (lambda r, g: (r / g,), "div"),
])  # fmt: skip
def test_forward_mode_of_a_rule_that_is_not_linear(bwd, told):
    f = cv.custom_vjp(lambda x: cnp.sin(x))
    f.defvjp(lambda x: (f(x), x), bwd)
    assert np.isfinite(cv.grad(f)(1.0))
    with pytest.raises(TypeError, match="can't apply forward-mode autodiff.*" + told):
        cv.jvp(f, (1.0,), (1.0,))


@pytest.mark.parametrize("name", ["call", "grad", "jit of grad", "scan", "vmap of grad"])
def test_symbolic_zeros(name):
    def case(j):
        def forward(x, y):
            (a, moving), b = (x.value, x.perturbed), y.value
            assert moving
            assert not y.perturbed
            return (a * b, a), b

        def backward(b, ct):
            zero = [type(c).__name__ == "SymbolicZero" for c in ct]
            assert zero == [False, True]
            assert ct[1].shape == ()
            return ct[0] * b, None

        f = j.m.custom_vjp(lambda x, y: (x * y, x))
        f.defvjp(forward, backward, symbolic_zeros=True)
        return AROUND[name](j, lambda x: f(x, 2.0)[0])

    agree(case)


def test_vjp_primals_are_leaves():
    primal = CustomVJPPrimal(1.0, True)
    assert custom_vjp_primal_tree_values({"a": primal, "b": [2.0]}) == {"a": 1.0, "b": [2.0]}
    assert repr(primal) == "CustomVJPPrimal(value=1.0, perturbed=True)"
    assert primal == CustomVJPPrimal(1.0, True)
    assert cv.tree.leaves(primal) == [primal]


@pytest.mark.parametrize("how", [{"nondiff_argnums": (0, 2)}, {"nondiff_argnames": ("g", "n")}])
def test_nondiff(how):
    def case(j):
        @functools.partial(j.m.custom_vjp, **how)
        def apply(g, x, n=3.0):
            return g(x) * n

        apply.defvjp(
            lambda g, x, n: (apply(g, x, n), x), lambda g, n, x, ct: (ct * n * 10 * j.np.cos(x),)
        )
        f = lambda x: apply(j.np.sin, x)  # noqa: E731
        return j.m.grad(f)(1.0), j.m.jit(j.m.grad(f))(1.0), j.m.vmap(j.m.grad(f))(j.np.ones(2))

    agree(case)


def test_integers_and_none():
    def case(j):
        def f_of(back):
            f = j.m.custom_vjp(lambda d, n: (d["x"] * n, n))
            f.defvjp(lambda d, n: (f(d, n), n), back)
            return f

        float0 = np.zeros((), j.m.dtypes.float0)
        d = {"x": 2.0, "y": j.np.ones(2)}
        rules = [
            lambda n, ct: ({"x": ct[0] * n, "y": None}, None),
            lambda n, ct: [{"x": ct[0] * n, "y": 3 * j.np.ones(2)}, float0],
            lambda n, ct: (None, None),
        ]
        return [j.m.vjp(f_of(r), d, 3)[1]((1.0, float0)) for r in rules]

    agree(case)


def test_cotangent_of_an_argument_without_batch_is_summed():
    def case(j):
        f = j.m.custom_vjp(lambda x, y: x * y)
        f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (r[1] * g, r[0] * g))
        total = lambda x, y: j.m.vmap(f, (0, None))(x, y).sum()  # noqa: E731
        inner = j.m.vmap(j.m.grad(f, (0, 1)), (0, None))
        return (
            j.m.grad(total, (0, 1))(j.np.arange(3.0), 2.0),
            j.m.grad(j.m.jit(total), (0, 1))(j.np.arange(3.0), 2.0),
            inner(j.np.arange(3.0), 2.0),
        )

    agree(case)


def test_custom_gradient():
    def case(j):
        f = j.m.custom_gradient(lambda x: (x**2, lambda ct: ct * 7 * x))

        @j.m.custom_gradient
        def g(x, y):
            s = j.np.sin(x)
            return {"a": s * y}, lambda ct: (ct["a"] * y * 10, ct["a"] * s)

        pair = lambda x, y: g(x, y)["a"]  # noqa: E731
        return (
            f(3.0), j.m.grad(f)(3.0), j.m.vmap(j.m.grad(f))(j.np.arange(3.0)),
            j.m.jit(j.m.grad(j.m.jit(pair), (0, 1)))(1.0, 2.0), j.m.grad(pair, (0, 1))(1.0, 2.0),
        )  # fmt: skip

    agree(case)


def test_closure_convert():
    def case(j):
        def minimise(f, x):
            converted, values = j.m.closure_convert(f, x)
            return solve(converted, x, *values), len(values)

        @functools.partial(j.m.custom_vjp, nondiff_argnums=(0,))
        def solve(f, x, *values):
            return f(x, *values)

        solve.defvjp(
            lambda f, x, *v: (solve(f, x, *v), (x, v)),
            lambda f, res, ct: (None, *[10 * g for g in j.m.vjp(
                lambda *v: f(res[0], *v), *res[1])[1](ct)]),
        )  # fmt: skip
        fun = lambda y: minimise(lambda x: x * y * j.np.ones(3), 2.0)[0].sum()  # noqa: E731
        count = lambda y: minimise(lambda x: x * y * 2.0, 2.0)[1] * y  # noqa: E731
        return j.m.grad(fun)(3.0), j.m.jit(j.m.grad(fun))(3.0), j.m.grad(count)(1.0)

    agree(case)
    converted, _ = cv.closure_convert(lambda x: x, cnp.ones(3))
    with pytest.raises(TypeError, match=r"must be of the type .* f32\[3\]; got f32\[2\]"):
        converted(cnp.ones(2))
    with pytest.raises(TypeError, match=r"takes 1 arguments .* and 0 values"):
        converted(cnp.ones(3), 1.0)


def test_linear_call_and_transpose():
    def case(j):
        def divide(x, y):
            return j.rules.linear_call(lambda r, t: t / r, lambda r, ct: 7 * ct / r, y, x)

        shape = j.m.ShapeDtypeStruct((3,), "float32")
        mixed = lambda d: {"a": 2 * d["x"] + d["y"], "b": (d["y"] * 3,)}  # noqa: E731
        cts = {"a": 1.0, "b": (2.0,)}
        return (
            divide(1.0, 2.0), j.m.grad(divide)(1.0, 2.0), j.m.jit(j.m.grad(divide))(1.0, 2.0),
            j.m.linear_transpose(lambda x: 2 * x, shape)(j.np.ones(3)),
            j.m.linear_transpose(mixed, {"x": 1.0, "y": 1.0})(cts),
            j.m.linear_transpose(lambda x: 2 * x, 1)(3),
        )  # fmt: skip

    agree(case)


def test_linear_call_in_batches():
    def divide(x, y):
        call = cv.custom_derivatives.linear_call
        return call(lambda r, t: t / r, lambda r, ct: 7 * ct / r, y, x)

    x, y = cnp.array([1.0, 3.0]), cnp.array([2.0, 4.0])
    assert cv.vmap(divide)(x, y).tolist() == [0.5, 0.75]
    assert cv.vmap(cv.grad(divide), (0, None))(x, 2.0).tolist() == [3.5, 3.5]
    total = lambda x, y: cv.jit(cv.vmap(divide, (None, 0)))(x, y).sum()  # noqa: E731
    assert float(cv.grad(total)(1.0, y)) == 7 / 2 + 7 / 4
    assert cv.grad(total, 1)(1.0, y).tolist() == [-0.25, -0.0625]


def rule(j, fwd=None, bwd=None, fun=None):
    f = j.m.custom_vjp(fun or (lambda x: j.np.sin(x)))
    f.defvjp(fwd or (lambda x: (j.np.sin(x), x)), bwd or (lambda r, g: (g,)))
    return f


TWO = lambda x, n: x * n  # noqa: E731


@pytest.mark.parametrize(("case", "told"), [
    (lambda j: j.m.custom_vjp(lambda x: x)(1.0), "No VJP defined for custom_vjp function <lambda>"),
    (lambda j: j.m.grad(rule(j, fwd=j.np.sin))(1.0), "must produce a pair .* but got|instead of a"),
    (lambda j: j.m.grad(j.m.jit(rule(j, fwd=lambda x: (j.np.ones(3), x))))(1.0),
     r"f32\[3\].*f32\[\]"),
    (lambda j: j.m.grad(j.m.jit(rule(j, fwd=lambda x: ((x,), x))))(1.0), "structure"),
    (lambda j: j.m.grad(rule(j, fwd=lambda x: (x, "res")))(1.0), "a residual of .* 'res'"),
    (lambda j: j.m.grad(rule(j, bwd=lambda r, g: g))(1.0), "a tuple of length equal"),
    (lambda j: j.m.grad(rule(j, bwd=lambda r, g: (g, g)))(1.0), r"got .*\(\*, \*\)"),
    (lambda j: j.m.grad(rule(j, bwd=lambda r, g: (j.np.ones(3),)))(1.0),
     r"output\[0\].*f32\[3\].*shapes do not match"),
    (lambda j: j.m.jit(lambda n: functools.partial(j.m.custom_vjp, nondiff_argnums=(1,))(
        TWO)(1.0, n))(2.0), "No VJP"),
    (lambda j: rule(j)(1.0, z=2), "could not be resolved"),
    (lambda j: rule(j).defvjp(lambda x: x, lambda x: x, True, True), "symbolic zeros"),
    (lambda j: j.m.linear_transpose(lambda x: j.np.sin(x), 1.0)(1.0), "sin has no transpose"),
    (lambda j: j.m.linear_transpose(lambda x: x, 1.0)((1.0,)), "cotangent tree does not match"),
    (lambda j: j.m.linear_transpose(lambda x: x, 1.0)(j.np.ones(2)), "cotangent type does not"),
    (lambda j: j.m.linear_transpose(lambda x: x, "a"), "'a'"),
    (lambda j: j.m.linear_transpose(lambda x: x, 1.0, reduce_axes=("i",)), "reduce_axes"),
])  # fmt: skip
def test_errors(case, told):
    message = same_error(case)
    assert re.search(told, message, re.DOTALL), message


def test_nondiff_must_not_be_traced():
    def case(j):
        f = functools.partial(j.m.custom_vjp, nondiff_argnums=(1,))(lambda x, n: x * n)
        f.defvjp(lambda x, n: (x, None), lambda n, r, ct: (ct,))
        return j.m.jit(f)(1.0, 2.0)

    assert "a tracer passed as argument 1" in same_error(case)


def test_no_derivative_by_what_is_closed_over():
    def closing(y):
        f = cv.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (f(x), None), lambda r, ct: (ct * y,))
        return f(2.0)

    for around in (cv.grad(closing), cv.grad(cv.jit(closing)), cv.jit(cv.grad(closing))):
        with pytest.raises(cv.errors.UnexpectedTracerError, match="closed-over value"):
            around(3.0)


def test_closures_over_traced_values():
    def closing(x, y):
        f = cv.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (f(x), None), lambda r, ct: (ct * y,))
        return f(x)

    scan = lambda x, y: lax.scan(lambda c, _: (closing(c, y), c), x, None, length=2)[0]  # noqa: E731
    for fun, wanted in ((closing, 3.0), (cv.jit(closing), 3.0), (scan, 9.0), (cv.jit(scan), 9.0)):
        assert float(cv.grad(fun)(2.0, 3.0)) == wanted
        many = cv.vmap(cv.grad(fun), (0, None))(cnp.ones(2), 3.0)
        assert many.tolist() == [wanted] * 2


def test_cotangents_have_the_dtype_of_the_argument():
    f = rule(Ours, bwd=lambda r, g: (2.0,), fun=lambda x: x)
    assert cv.grad(f)(cnp.bfloat16(1)).dtype == cnp.bfloat16
    g = rule(Ours, bwd=lambda r, g: (1j * g,))
    with pytest.raises(ValueError, match="dtypes do not match"):
        cv.grad(g)(1.0)


class Ours:
    """What `rule` wants."""

    m, np = cv, cnp


def test_debugger_can_stop_in_the_rule_of_an_eager_gradient():
    seen = []
    f = rule(Ours, bwd=lambda r, g: (seen.append((float(r), float(g))), (g,))[1])
    cv.grad(lambda x: 2 * f(x))(1.0)
    assert seen == [(1.0, 2.0)]


# What is batched: results that depend on a batched argument.


def _apart(j):
    """Of two arguments each result depends on one; the second cotangent takes both."""
    f = j.m.custom_vjp(lambda x, y: (j.np.sin(x) * 2, j.np.cos(y)))
    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda r, ct: (2 * j.np.cos(r[0]) * ct[0], -3 * j.np.sin(r[1]) * ct[1]),
    )
    return f


BATCHES = {
    "value": lambda j, f, x, y: f(x, y),
    "jit": lambda j, f, x, y: j.m.jit(f)(x, y),
    "gradient": lambda j, f, x, y: j.m.grad(
        lambda x, y: f(x, y)[0].sum() + 5 * f(x, y)[1], (0, 1))(x, y),
    "gradient of jit": lambda j, f, x, y: j.m.grad(
        lambda x, y: j.m.jit(lambda x, y: f(x, y)[0].sum() + 5 * f(x, y)[1])(x, y), (0, 1))(x, y),
    "twice": lambda j, f, x, y: j.m.vmap(f, (0, None), (0, None))(j.np.stack([x, x + 1]), y),
    "in a batch": lambda j, f, x, y: j.m.vmap(f)(j.np.stack([x, x + 1]), j.np.stack([y, y + 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_results_that_examples_share_are_not_batched(name):
    x, y = np.arange(3, dtype="float32"), np.float32(0.5)

    def run(j):
        f = j.m.vmap(_apart(j), (0, None), (0, None))
        return BATCHES[name](j, f, j.np.asarray(x), j.np.asarray(y))

    agree(run)


def test_the_shared_result_has_one_cotangent():
    """Its way back is taken once, though that of the other result sums over examples.

    (JAX 0.10.2 takes it once an example.)
    """
    f = cv.custom_vjp(lambda x, y: (cnp.sin(x) * y, cnp.cos(y)))
    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda r, ct: (cnp.cos(r[0]) * r[1] * ct[0], cnp.sin(r[0]) * ct[0] - cnp.sin(r[1]) * ct[1]),
    )
    x, y = cnp.arange(3.0), cnp.float32(0.5)

    def loss(f):
        def total(x, y):
            a, b = cv.vmap(f, (0, None), (0, None))(x, y)
            return a.sum() + 5 * b

        return cv.grad(total, (0, 1))

    plain = loss(lambda x, y: (cnp.sin(x) * y, cnp.cos(y)))(x, y)
    for wrap in (lambda g: g, cv.jit):
        for got, wanted in zip(wrap(loss(f))(x, y), plain, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_result_whose_way_back_differs_is_batched():
    """The value is the same for all, its derivative is not."""
    f = cv.custom_vjp(lambda x, factor: x)
    f.defvjp(lambda x, factor: (x, factor), lambda factor, ct: (ct * factor, None))
    factors = cnp.arange(3.0)

    def total(x):
        return cv.vmap(f, (None, 0))(x, factors).sum()

    for wrap in (lambda g: g, cv.jit):
        assert float(wrap(cv.grad(total))(2.0)) == 3.0
    assert float(cv.vmap(f, (None, 0), None)(2.0, factors)) == 2.0
    with pytest.raises(ValueError, match="mapped output but out_axes is None"):
        cv.grad(lambda x: cv.vmap(f, (None, 0), None)(x, factors))(2.0)


AROUND_REMAT = {
    "gradient": lambda j, g: j.m.grad(g)(0.3),
    "jit": lambda j, g: j.m.jit(j.m.grad(lambda x: j.np.cos(g(x))))(0.3),
    "scan": lambda j, g: j.m.grad(
        lambda x: j.m.lax.scan(lambda c, _: (g(c), None), x, None, length=3)[0])(0.3),
    "vmap": lambda j, g: j.m.vmap(j.m.grad(g))(j.np.arange(3.0)),
    "gradient of vmap": lambda j, g: j.m.grad(lambda x: j.m.vmap(g)(x).sum())(j.np.arange(3.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", AROUND_REMAT)
def test_optimize_remat(name):
    """A forward rule under `checkpoint` leaves out the residuals in the first pass."""

    def run(j):
        f = j.m.custom_vjp(lambda x, n: j.np.sin(x) ** n, nondiff_argnums=(1,))
        f.defvjp(
            lambda x, n: (j.np.sin(x) ** n, (j.np.cos(x), x)),
            lambda n, r, ct: (n * j.np.sin(r[1]) ** (n - 1) * r[0] * ct,),
            optimize_remat=True,
        )
        return AROUND_REMAT[name](j, j.m.checkpoint(lambda x: f(x, 3)))

    agree(run)


def test_residuals_are_not_made_in_the_first_pass():
    f = cv.custom_vjp(lambda x: cnp.sin(x))
    f.defvjp(lambda x: (cnp.sin(x), cnp.cos(x)), lambda r, ct: (r * ct,), optimize_remat=True)
    program = cv.make_jaxpr(lambda x: cv.vjp(cv.checkpoint(f), x)[0])(1.0)
    assert "sin " in str(program)
    assert "cos " not in str(program)
