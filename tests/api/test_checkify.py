"""`checkify` against JAX, as a black box: which error wins, its words, in every transformation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify as jck

import covector as cv
from covector import numpy as cnp
from covector.experimental import checkify as cck

#: (NumPy, lax, checkify, the package)
Side = tuple[Any, Any, Any, Any]
OURS: Side = (cnp, cv.lax, cck, cv)
THEIRS: Side = (jnp, jax.lax, jck, jax)


def got(side: Side, make: Callable[..., Any], args: Any, errors: str, jitted: bool) -> Any:
    """The message of `make(side's modules)(*args)`."""
    fun = side[2].checkify(make(*side), errors=getattr(side[2], errors))
    if jitted:
        fun = side[3].jit(fun)
    arrays = [side[0].asarray(a) for a in args]
    return fun(*arrays)[0].get()


def _user(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(x: Any) -> Any:
        ck.check(x > 0, "{} must be {a} positive", x, a=x)
        return x

    return f


def _spec(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x: ck.check(x < 0, "a {:.2f}", x)


def _vector(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x: ck.check(x.sum() < 0, "a {} {x}", x, x={"k": x})


def _two(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(x: Any) -> Any:
        ck.check(x < 5, "big {}", x)
        ck.check(x < 3, "middling {}", x)

    return f


def _debug(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x: ck.debug_check(x > 0, "no")


def _sin(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x: np_.sin(x)


def _masked(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x: np_.where(x > 0, np_.log(x), 0)


def _div(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, y: x / y


def _floor(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, y: lax.div(x, y)


def _index(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, i: x[i]


def _index2(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, i, j: x[i, j]


def _set(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, i: x.at[i].set(1.0)


def _add(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, i: x.at[i].add(1.0)


def _fori(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(n: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            ck.check(i < 3, "i is {i}", i=i)
            return c + 1

        return lax.fori_loop(0, n, body, 0)

    return f


def _scan(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            ck.check(c < 2, "c is {c}, x is {x}", c=c, x=x)
            return c + 1, np_.log(x)

        return lax.scan(body, 0, xs)

    return f


def _cond(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def high(x: Any) -> Any:
        ck.check(x > 10, "high {x}", x=x)
        return x

    def low(x: Any) -> Any:
        ck.check(x > 0, "low {x}", x=x)
        return x

    return lambda x: lax.cond(x > 0, high, low, x)


def _switch(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def checked(x: Any) -> Any:
        ck.check(x > 0, "neg {}", x)
        return x

    return lambda i, x: lax.switch(i, [lambda x: x, lambda x: np_.log(x), checked], x)


def _while(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def going(v: Any) -> Any:
        ck.check(v < 4, "cond v {v}", v=v)
        return v < 5

    return lambda x: lax.while_loop(going, lambda v: v + 1, x)


def _vmapped(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return m.vmap(_user(np_, lax, ck, m))


def _vmapped_cond(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return m.vmap(_cond(np_, lax, ck, m))


def _vmapped_index(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return lambda x, i: m.vmap(lambda i: x[i])(i)


def _gradient(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(x: Any) -> Any:
        ck.check(x > 0, "neg {}", x)
        return np_.sin(x)

    return m.grad(f)


def _inner_jit(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return m.jit(m.jit(_user(np_, lax, ck, m)))


def _custom(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    @m.custom_jvp
    def f(x: Any) -> Any:
        ck.check(x > 0, "custom")
        return x

    f.defjvp(lambda p, t: (f(p[0]), t[0]))
    return f


def _remat(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    return m.grad(m.checkpoint(_gradient_body(np_, ck)))


def _gradient_body(np_: Any, ck: Any) -> Any:
    def f(x: Any) -> Any:
        ck.check(x > 0, "neg {}", x)
        return np_.sin(x)

    return f


def _outer(np_: Any, lax: Any, ck: Any, m: Any) -> Any:
    def f(x: Any) -> Any:
        err, out = ck.checkify(_user(np_, lax, ck, m))(x)
        ck.check_error(err)
        return out

    return f


THREE = [0.0, 1.0, 2.0]
CASES: list[tuple[Any, tuple[Any, ...], str]] = [
    (_user, (-1.0,), "user_checks"),
    (_user, (1.0,), "all_checks"),
    (_two, (4.0,), "user_checks"),
    (_two, (7.0,), "user_checks"),
    (_spec, (3.0,), "user_checks"),
    (_vector, (THREE,), "user_checks"),
    (_debug, (-1.0,), "user_checks"),
    (_sin, (np.inf,), "all_checks"),
    (_sin, (np.inf,), "div_checks"),
    (_masked, (-1.0,), "nan_checks"),
    (_div, (1.0, 0.0), "all_checks"),
    (_div, (0.0, 0.0), "nan_checks"),
    (_floor, (1, 0), "all_checks"),
    (_index, (THREE, 5), "all_checks"),
    (_index, (THREE, -5), "index_checks"),
    (_index, (THREE, -1), "index_checks"),
    (_index, (THREE, [0, 1, 9, 8]), "index_checks"),
    (_index2, ([[1.0, 2.0], [3.0, 4.0]], 1, 7), "index_checks"),
    (_index2, ([[1.0, 2.0], [3.0, 4.0]], 5, 7), "index_checks"),
    (_set, (THREE, 5), "index_checks"),
    (_add, (THREE, [0, 7]), "index_checks"),
    (_fori, (6,), "user_checks"),
    (_fori, (2,), "all_checks"),
    (_scan, ([1.0, 2.0, 3.0, 4.0],), "all_checks"),
    (_scan, ([1.0, -1.0, 3.0, 4.0],), "user_checks"),
    (_scan, ([1.0, -1.0],), "all_checks"),
    (_cond, (5.0,), "all_checks"),
    (_cond, (-5.0,), "all_checks"),
    (_cond, (50.0,), "all_checks"),
    (_switch, (0, -1.0), "all_checks"),
    (_switch, (1, -1.0), "all_checks"),
    (_switch, (2, -1.0), "all_checks"),
    (_while, (0,), "all_checks"),
    (_vmapped, ([1.0, -2.0, 3.0],), "all_checks"),
    (_vmapped_cond, ([11.0, -2.0, 5.0],), "user_checks"),
    (_vmapped_index, (THREE, [0, 5]), "index_checks"),
    (_gradient, (-1.0,), "all_checks"),
    (_inner_jit, (-1.0,), "user_checks"),
    (_custom, (-1.0,), "user_checks"),
    (_remat, (-1.0,), "user_checks"),
    (_outer, (-1.0,), "user_checks"),
]


def words(text: str | None) -> str | None:
    """Without the place, which JAX does not say in the message."""
    return None if text is None else text.split(" at test_checkify.py")[0].strip()


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda k: f"{CASES[k][0].__name__}{k}")
def test_as_jax(case: int) -> None:
    make, args, errors = CASES[case]
    theirs = got(THEIRS, make, args, errors, False)
    for jitted in (False, True):
        ours = got(OURS, make, args, errors, jitted)
        assert words(ours) == (None if theirs is None else theirs.strip())
        if ours is not None:
            assert " at test_checkify.py:" in ours


# Where JAX gives another failure, or none


def test_the_first_example_counts() -> None:
    assert str(cck.checkify(cv.vmap(_checked))(cnp.array([1.0, -2.0, -3.0]))[0].get()).startswith(
        "x is -2.0"
    )


def test_the_first_round_counts_whatever_failed() -> None:
    fun = cck.checkify(_scan(*OURS), errors=cck.all_checks)
    assert "primitive: log" in str(fun(cnp.array([1.0, -1.0, 2.0, 3.0]))[0].get())


@pytest.mark.parametrize("jitted", [False, True])
def test_checks_in_loops_under_grad(jitted: bool) -> None:
    def scanned(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            cck.check(x > 0, "x is {x}", x=x)
            return c * cnp.sin(x), None

        return cv.lax.scan(body, 1.0, xs)[0]

    def looped(xs: Any) -> Any:
        def body(s: Any) -> Any:
            k, c = s
            cck.check(xs[k] > 0, "x is {x}", x=xs[k])
            return k + 1, c * cnp.sin(xs[k])

        return cv.lax.while_loop(lambda s: s[0] < 3, body, (0, 1.0))[1]

    xs = cnp.array([1.0, -1.0, -2.0])
    for fun in (scanned, looped):
        checked = cck.checkify(cv.grad(fun))
        err, slope = (cv.jit(checked) if jitted else checked)(xs)
        assert str(err.get()).startswith("x is -1.0")
        np.testing.assert_allclose(slope, jax.grad(_product)(np.asarray(xs)), rtol=1e-5)


def _product(xs: Any) -> Any:
    return jnp.prod(jnp.sin(xs))


# The error as a value


def _checked(x: Any) -> Any:
    cck.check(x > 0, "x is {x}", x=x)  # here
    return x * 2


def test_throw_and_its_line() -> None:
    err, out = cck.checkify(_checked)(3.0)
    assert err.get() is None
    assert err.throw() is None
    assert float(out) == 6.0
    assert repr(err) == "Error(None)"
    err, _ = cck.checkify(_checked)(-3.0)
    lines, first = inspect.getsourcelines(_checked)
    at = first + next(k for k, text in enumerate(lines) if "# here" in text)
    with pytest.raises(cck.JaxRuntimeError) as caught:
        err.throw()
    assert str(caught.value) == f"x is -3.0 (`check` failed) at test_checkify.py:{at} (_checked)"
    assert isinstance(caught.value, ValueError)
    assert isinstance(err.get_exception(), cck.FailedCheckError)


def test_it_is_a_pytree() -> None:
    err, _ = cck.checkify(_checked)(-3.0)
    leaves, structure = cv.tree.flatten(err)
    assert cv.tree.unflatten(structure, leaves).get() == err.get()
    assert len(leaves) == 2
    assert cck.init_error.get() is None
    assert cv.tree.structure(cck.checkify(_checked)(-1.0)[0]) == structure


def test_every_example_has_its_error() -> None:
    fun = cv.vmap(cck.checkify(_checked))
    err, _ = fun(cnp.array([1.0, -2.0, -3.0]))
    theirs = jax.vmap(jck.checkify(_user(*THEIRS)))(jnp.array([1.0, -2.0, -3.0]))[0].get()
    assert theirs is not None
    assert [line.split(":")[0] for line in theirs.split("\n")] == [
        line.split(":")[0] for line in str(err.get()).split("\n")
    ]
    assert fun(cnp.array([1.0, 2.0]))[0].get() is None
    with pytest.raises(cck.JaxRuntimeError, match=r"x is -2\.0"):
        err.throw()


def test_the_gradient_of_a_checked_function() -> None:
    def f(x: Any) -> Any:
        err, out = cck.checkify(_checked)(x)
        return out, err

    for grad in (cv.grad(f, has_aux=True), cv.jit(cv.grad(f, has_aux=True))):
        slope, err = grad(-1.0)
        assert float(slope) == 2.0
        assert str(err.get()).startswith("x is -1.0")


def test_the_gradient_of_a_checked_custom_rule() -> None:
    @cv.custom_vjp
    def f(x: Any) -> Any:
        cck.check(x > 0, "custom {}", x)
        return x * 3

    f.defvjp(lambda x: (x * 3, x), lambda x, ct: (ct * 100,))

    def g(x: Any) -> Any:
        err, out = cck.checkify(f)(x)
        return out, err

    slope, err = cv.grad(g, has_aux=True)(-1.0)
    assert float(slope) == 100.0
    assert str(err.get()).startswith("custom -1.0")


def test_results_are_those_of_the_function() -> None:
    def f(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = cv.lax.cond(x > 2, lambda c: c * x, lambda c: c + x, c)
            return c, cv.lax.while_loop(lambda v: v < 10, lambda v: v * 2, x)

        return cv.lax.scan(body, 1.0, xs)

    xs = cnp.array([1.0, 2.0, 3.0])
    for fun in (cck.checkify(f, errors=cck.all_checks), cv.jit(cck.checkify(f, cck.all_checks))):
        err, out = fun(xs)
        assert err.get() is None
        for a, b in zip(cv.tree.leaves(out), cv.tree.leaves(f(xs)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_argument_that_is_a_result() -> None:
    err, out = cck.checkify(lambda x: x)(2.0)
    assert isinstance(out, cv.Array)
    assert err.get() is None


def test_every_round_of_a_scan_has_its_error() -> None:
    def step(c: Any, x: Any) -> Any:
        err, y = cck.checkify(_checked)(x)
        return c + y, err

    _, errors = cv.lax.scan(step, 0.0, cnp.array([1.0, -2.0]))
    assert str(errors.get()).startswith("at mapped index 1: x is -2.0")


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev", "hessian"])
def test_second_order(transform: str) -> None:
    err, out = cv.jit(cck.checkify(getattr(cv, transform)(lambda x: _checked(x) ** 2)))(-1.0)
    assert str(err.get()).startswith("x is -1.0")
    assert float(out) == -8.0 if transform.startswith("jac") else 8.0


def test_a_vmapped_loop_and_a_solve() -> None:
    def loop(x: Any) -> Any:
        def body(s: Any) -> Any:
            cck.check(s[1] < 30.0, "{} after {}", s[1], s[0])
            return s[0] + 1, s[1] * 2

        return cv.lax.while_loop(lambda s: s[1] < 50.0, body, (0, x))[1]

    err, _ = cv.jit(cck.checkify(cv.vmap(loop)))(cnp.array([1.0, 50.0, 3.0]))
    assert str(err.get()).startswith("32.0 after 5")

    def solve(b: Any) -> Any:
        def halved(_: Any, b: Any) -> Any:
            cck.check(b[0] > 0, "b is {}", b)
            return b / 2

        return cv.lax.custom_linear_solve(lambda x: 2 * x, b, halved, symmetric=True)

    err, out = cck.checkify(solve)(cnp.array([-1.0]))
    assert str(err.get()).startswith("b is [-1.]")
    assert out.tolist() == [-0.5]


def test_kinds_that_are_not_looked_for_stay_checks() -> None:
    inner = cck.checkify(_checked, errors=cck.nan_checks)
    err, (_, _) = cck.checkify(inner)(-1.0)
    assert str(err.get()).startswith("x is -1.0")


# Outside of checkify


def test_at_once_or_not_at_all() -> None:
    with pytest.raises(cck.JaxRuntimeError, match=r"x is -1\.0 \(`check` failed\) at "):
        _checked(cnp.float32(-1))
    assert float(_checked(cnp.float32(1))) == 2.0
    for staged in (cv.jit(_checked), lambda x: cv.lax.map(_checked, cnp.ones(3) * x)):
        with pytest.raises(ValueError, match="not functionalized"):
            staged(1.0)
    # It is no fault of tracing alone.
    assert "check" in str(cv.make_jaxpr(_checked)(1.0))


def test_debug_check_is_left_out() -> None:
    def f(x: Any) -> Any:
        cck.debug_check(x > 0, "debug")
        return x + 1

    assert float(cv.jit(f)(-1.0)) == 0.0
    assert float(f(cnp.float32(-1))) == 0.0
    assert str(cck.checkify(f)(-1.0)[0].get()).startswith("debug")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((np.array([True]), "no"), "check takes a scalar pred as argument, got"),
        ((1, "no"), "check takes a scalar pred as argument, got 1"),
        ((False, "no {}", "s"), "need to be PyTrees of arrays, but got 's'"),
        ((False, "no {}", 3), "need to be PyTrees of arrays, but got 3"),
    ],
)
def test_wrong_arguments(args: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        cck.check(*args)
    with pytest.raises(TypeError):
        jck.check(*args)


def test_a_traced_error_is_not_known() -> None:
    @cv.jit
    def f(x: Any) -> Any:
        err, _ = cck.checkify(_checked)(x)
        return err.get()

    with pytest.raises(ValueError, match="check_error"):
        f(1.0)


# On several devices


@pytest.mark.parametrize("kind", ["shard_map", "pmap"])
def test_devices(kind: str) -> None:
    def positive(x: Any) -> Any:
        cck.check((x > 0).all(), "x is {x}", x=x)
        return cv.lax.psum(x, "i")

    mesh, spec = cv.make_mesh((1,), ("i",)), cv.sharding.PartitionSpec
    if kind == "pmap":
        fun = cv.pmap(positive, axis_name="i")
    else:
        fun = cv.shard_map(positive, mesh=mesh, in_specs=spec("i"), out_specs=spec())
    err, _ = cck.checkify(fun)(cnp.array([-1.0]))
    assert "-1." in str(err.get())
    assert cck.checkify(fun)(cnp.array([1.0]))[0].get() is None
