"""scan, cond, switch, map, while_loop, fori_loop: as JAX, under every transformation, and what
they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax
from covector.ops.control import Cond, Scan
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")

RNG = np.random.default_rng(5)
W = RNG.normal(size=(3, 3)).astype("f")
XS = RNG.normal(size=(5, 3)).astype("f")


def recurrence(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return m.tanh(c @ w + x), {"a": c * 2, "b": (c.sum(), x)}

    c, ys = lib.lax.scan(step, m.zeros(3), xs, reverse=True)
    return m.sum(c) + m.sum(ys["a"] ** 2) + ys["b"][0].sum()


def branches(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return lib.lax.cond(x[0] > 0, lambda c: m.sin(c @ w), lambda c: c * x, c), None

    return lib.lax.scan(step, m.ones(3), xs)[0].sum()


def four_ways(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    ways = [
        lambda c, x: m.exp(-c @ w), lambda c, x: c * x + w[0], lambda c, x: c / (1 + x**2),
        lambda c, x: c,
    ]  # fmt: skip

    def step(c: Any, x: Any) -> Any:
        return lib.lax.switch((x[0] * 3).astype(int), ways, c, x), c[0]

    c, y = lib.lax.scan(step, m.ones(3), xs)
    return c.sum() + y.sum()


def counted(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    return lib.lax.fori_loop(0, 4, lambda i, c: m.sin(c @ w) + xs[i], m.ones(3)).sum()


def nested(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        def inner(d: Any, k: Any) -> Any:
            return m.cos(d + x * k), d.sum()

        d, sums = lib.lax.scan(inner, c @ w, m.arange(3.0))
        return d, sums

    c, sums = lib.lax.scan(outer, m.ones(3), xs)
    return c.sum() + (sums**2).sum()


def constants(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    """What no round changes is computed once, in reverse too."""

    def step(c: Any, x: Any) -> Any:
        return m.sin(w) @ c + x, None

    return (lib.lax.scan(step, m.ones(3), xs)[0] ** 2).sum()


def maps(m: Any, lib: Any, w: Any, xs: Any) -> Any:
    return (lib.lax.map(lambda x: m.exp(x @ w), xs, batch_size=2) ** 2).sum()


PROGRAMS = {
    f.__name__: f for f in (recurrence, branches, four_ways, counted, nested, constants, maps)
}
WAYS = {
    "value": lambda lib, m, f: f(W, XS),
    "grad": lambda lib, m, f: lib.grad(f, (0, 1))(W, XS),
    "jit of grad": lambda lib, m, f: lib.jit(lib.grad(f, (0, 1)))(W, XS),
    "forward over reverse": lambda lib, m, f: lib.jvp(lib.grad(f), (W, XS), (W / 2, XS / 3))[1],
    "reverse over forward": lambda lib, m, f: lib.grad(
        lambda w: lib.jvp(lambda w: f(w, XS), (w,), (W / 2,))[1]
    )(W),
    "vmap of grad": lambda lib, m, f: lib.vmap(lib.grad(f, (0, 1)))(
        np.stack([W, W / 2]), np.stack([XS, -XS])
    ),
    "jit of vmap of one": lambda lib, m, f: lib.jit(lib.vmap(f, (None, 1)))(
        W, np.stack([XS, -XS], 1)
    ),
    "grad of vmap": lambda lib, m, f: lib.grad(
        lambda w: lib.vmap(f, (None, 0))(w, np.stack([XS, -XS])).sum()
    )(W),
    "linearize": lambda lib, m, f: lib.linearize(f, W, XS)[1](W / 2, XS / 3),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_parity(name: str, way: str) -> None:
    program = PROGRAMS[name]

    def out(lib: Any, m: Any) -> list[Any]:
        found = WAYS[way](lib, m, lambda w, xs: program(m, lib, m.asarray(w), m.asarray(xs)))
        return lib.tree_util.tree_leaves(found)

    wanted = answer("lax", lambda: out(jax, jax.numpy))
    for ours, theirs in zip(out(cv, cnp), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=3e-5, atol=3e-5)


def newton(m: Any, lib: Any) -> Any:
    return lambda a: lib.lax.while_loop(
        lambda s: m.abs(s * s - a) > 1e-5 * a, lambda s: 0.5 * (s + a / s), a
    )


@pytest.mark.parametrize("way", ["vmap", "jit", "jvp"])
def test_examples_end_when_they_will(way: str) -> None:

    def out(lib: Any, m: Any) -> Any:
        f = lib.vmap(newton(m, lib))
        x = m.asarray(np.linspace(1, 200, 50), "float32")
        if way == "jvp":
            return lib.jvp(f, (x,), (m.ones(50),))[1]
        return (lib.jit(f) if way == "jit" else f)(x)

    wanted = answer("lax", lambda: out(jax, jax.numpy))
    np.testing.assert_allclose(out(cv, cnp), wanted, rtol=1e-6)


def test_a_branch_that_is_not_taken_does_not_run() -> None:
    def endless(x: Any) -> Any:
        return lax.while_loop(lambda y: y == y, lambda y: y + 1, x)

    f = cv.vmap(lambda p, x: lax.cond(p, endless, lambda x: -x, x))
    out = f(cnp.zeros(4, bool), cnp.arange(4.0))
    assert out.tolist() == [0, -1, -2, -3]


def test_vmap_of_an_index_is_a_loop_over_the_batch() -> None:
    def deep(x: Any) -> Any:
        for _ in range(20):
            x = cnp.sin(x)
        return x

    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, deep, lambda x: x, x)

    def cheap(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda x: x + 1, lambda x: x, x)

    args = (cnp.array([True, False]), cnp.ones(2))
    (eqn,) = [e for e in cv.make_jaxpr(cv.vmap(f))(*args).eqns if e.op.name == "scan"]
    assert [e.op.name for e in eqn.op.jaxpr.eqns] == ["cond"]
    assert "scan" not in [e.op.name for e in cv.make_jaxpr(cv.vmap(cheap))(*args).eqns]


def test_old_forms() -> None:
    assert float(lax.cond(False, 1.0, lambda x: x + 1, 2.0, lambda x: x * 10)) == 20
    assert float(lax.cond(True, lambda x: x + 1, lambda x: x, operand=3.0)) == 4
    assert int(lax.switch(-4, [lambda: 3, lambda: 4])) == 3
    assert int(lax.switch(9, [lambda x: x, lambda x: -x], operand=4)) == -4


def test_outer_products_are_summed_after_the_loop() -> None:
    w, xs = cnp.ones((40, 40)), cnp.ones((7, 40))
    f = cv.grad(lambda w: lax.scan(lambda h, x: (cnp.tanh(h @ w + x), None), xs[0], xs)[0].sum())
    text = str(cv.make_jaxpr(f)(w))
    loop = text[text.index("reverse=True") - 2000 : text.index("reverse=True")]
    assert "f32[40,40]" not in loop[loop.rindex("scan[") :].split("in (")[1]


@pytest.mark.parametrize("disable", [False, True])
def test_without_tracing(disable: bool) -> None:
    seen: list[Any] = []

    def step(c: Any, x: Any) -> Any:
        seen.append(x)
        return c + x, c

    with cv.disable_jit(disable):
        total, before = lax.scan(step, cnp.int32(0), cnp.arange(4), reverse=True)
        assert int(lax.while_loop(lambda x: x < 10, lambda x: x * 2, 1)) == 16
        assert int(lax.fori_loop(0, 5, lambda i, t: t + i, 0)) == 10
        assert int(lax.cond(True, lambda: 1, lambda: 2)) == 1
    assert int(total) == 6
    assert before.tolist() == [6, 5, 3, 0]
    assert len(seen) == (4 if disable else 1)


def test_no_rounds() -> None:
    c, ys = lax.scan(lambda c, x: (c + x, c), 1.0, cnp.zeros(0))
    assert float(c) == 1
    assert ys.shape == (0,)
    c, ys = lax.scan(lambda c, _: (c + 1, c), 1.0, length=3)
    assert (float(c), ys.tolist()) == (4, [1, 2, 3])


def test_weak_start_values_become_what_the_body_gives() -> None:
    c, ys = lax.scan(lambda c, x: (c + x, c), 0, cnp.arange(3.0))
    assert (c.dtype, ys.dtype) == (np.float32, np.float32)
    assert jax.lax.scan(lambda c, x: (c + x, c), 0, jax.numpy.arange(3.0))[1].dtype == np.float32


# What is refused

MISMATCHES = {
    "scan": lambda: lax.scan(lambda c, x: ((c[0] + x, c[1]), x), (cnp.zeros(2, int), 1.0),
                             cnp.arange(3.0)),
    "while_loop": lambda: lax.while_loop(lambda s: True, lambda s: (s[0].astype(float), s[1]),
                                         (cnp.zeros(2, int), 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_carry_of_another_type(name: str) -> None:
    with pytest.raises(TypeError) as error:
        MISMATCHES[name]()
    message = str(error.value)
    assert message.startswith(f"{name}: the carry that <lambda> returns")
    for word in ("type in", "type out", "[0]", "i32[2]", "f32[2]", "astype('int32')"):
        assert word in message
    assert "[1]" not in message


def test_a_carry_of_another_shape_or_structure() -> None:
    with pytest.raises(TypeError, match=r"shape \(2,\), or return one of shape \(\)"):
        lax.scan(lambda c, x: (c + x, None), 0.0, cnp.ones((3, 2)))
    with pytest.raises(TypeError, match="structure"):
        lax.scan(lambda c, x: ((c, c), None), 0.0, cnp.ones(3))
    with pytest.raises(TypeError, match="a pair"):
        lax.scan(lambda c, x: c, 0.0, cnp.ones(3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lax.scan(lambda c, x: (c, x), 0, None), ValueError, "give xs, or a length"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, 1.0), ValueError, "is a scalar"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, (cnp.ones(2), cnp.ones(3))), ValueError,
         r"one size; got \{'xs\[0\]': 2, 'xs\[1\]': 3\}"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, cnp.ones(2), length=3), ValueError,
         "length is 3"),
        (lambda: lax.scan(3, 0, cnp.ones(2)), TypeError, "scan wants a function"),
        (lambda: lax.cond(cnp.ones(2), lambda: 1, lambda: 2), TypeError, "use select or numpy"),
        (lambda: lax.cond(True, lambda: 1, lambda: 2.0), TypeError,
         "<lambda> gives f32.*gives i32|<lambda> gives i32.*gives f32"),
        (lambda: lax.cond(True, lambda: (1,), lambda: 2), TypeError, "same structure"),
        (lambda: lax.switch(1.0, [lambda: 1]), TypeError, "integer scalar"),
        (lambda: lax.switch(0, []), ValueError, "at least one branch"),
        (lambda: lax.fori_loop(0.5, 2, lambda i, x: x, 0), TypeError, "lower must be an integer"),
        (lambda: lax.while_loop(lambda x: x, lambda x: x, 1.0), TypeError, "boolean scalar"),
        (lambda: lax.map(lambda x: x, cnp.ones(3), batch_size=0), ValueError, "must be positive"),
        (lambda: lax.platform_dependent(1, tpu=lambda x: x), NotImplementedError, "no default"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_wrong_operands_of_the_operations() -> None:
    body = Scan.samples().__iter__().__next__().op
    with pytest.raises(ValueError, match="scan of length 4 reads rows"):
        body(np.ones(2, "f"), np.ones(2, "f"), np.ones((3, 2), "f"))
    with pytest.raises(TypeError, match="the body takes"):
        body(np.ones(2, "f"), np.ones(3, "f"), np.ones((4, 2), "f"))
    choice = next(iter(Cond.samples())).op
    with pytest.raises(TypeError, match="int32 scalar"):
        choice(np.float32(0), np.ones(3, "f"), np.ones(3, "f"))


# Reverse mode through loops of unknown length


def repeated(x: Any, n: Any) -> Any:
    """n rounds, n traced."""
    return lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, cnp.sin(s[1]) * 1.01 + 0.1 * x), (0, x)
    )[1]


def unrolled(x: Any, n: int) -> Any:
    y = x
    for _ in range(n):
        y = cnp.sin(y) * 1.01 + 0.1 * x
    return y


@pytest.mark.parametrize("n", [0, 1, 2, 7, 65])
def test_reverse_of_while(n: int) -> None:
    wanted = cv.grad(unrolled)(0.3, n)
    np.testing.assert_allclose(cv.grad(repeated)(0.3, n), wanted, rtol=1e-6)
    np.testing.assert_allclose(cv.jit(cv.grad(repeated))(0.3, n), wanted, rtol=1e-6)


def test_reverse_of_more_rounds_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covector.ops.control.replay.slots", lambda avals: 4)
    for n in (3, 4, 5, 8, 9, 100, 257):
        found = cv.grad(lambda x, n=n: repeated(x, n))(0.3)
        fixed = cv.grad(lambda x, n=n: lax.fori_loop(
            0, n, lambda i, y: cnp.sin(y) * 1.01 + 0.1 * x, x))(0.3)  # fmt: skip
        np.testing.assert_allclose(found, fixed, rtol=2e-6)


def test_reverse_of_while_twice_and_mapped() -> None:
    wanted = cv.grad(cv.grad(lambda x: unrolled(x, 5)))(0.3)
    np.testing.assert_allclose(cv.grad(cv.grad(lambda x: repeated(x, 5)))(0.3), wanted, rtol=1e-5)
    forward = cv.jvp(cv.grad(lambda x: repeated(x, 5)), (0.3,), (1.0,))[1]
    np.testing.assert_allclose(forward, wanted, rtol=1e-5)
    x, n = cnp.array([0.3, 0.5]), cnp.array([3, 1])
    each = [cv.grad(unrolled)(0.3, 3), cv.grad(unrolled)(0.5, 1)]
    np.testing.assert_allclose(cv.vmap(cv.grad(repeated))(x, n), each, rtol=1e-6)
    whole = cv.grad(lambda x: cv.vmap(repeated)(x, n).sum())(x)
    np.testing.assert_allclose(whole, each, rtol=1e-6)


def test_reverse_of_while_over_arrays_with_constants() -> None:
    def loop(w: Any, x: Any, n: Any) -> Any:
        return lax.while_loop(lambda s: s[1] < n, lambda s: (cnp.tanh(s[0] @ w), s[1] + 1), (x, 0))

    def fixed(w: Any, x: Any) -> Any:
        for _ in range(6):
            x = cnp.tanh(x @ w)
        return x.sum()

    found = cv.jit(cv.grad(lambda w, x: loop(w, x, 6)[0].sum(), (0, 1)))(W, XS)
    for ours, wanted in zip(found, cv.grad(fixed, (0, 1))(W, XS), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=1e-6)


def test_linearize_of_while_can_be_called_and_transposed() -> None:
    _, tangent = cv.linearize(lambda x: repeated(x, 7), 0.3)
    np.testing.assert_allclose(tangent(2.0), 2 * cv.grad(unrolled)(0.3, 7), rtol=1e-6)
    _, pullback = cv.vjp(lambda x: repeated(x, 7), 0.3)
    np.testing.assert_allclose(pullback(cnp.float32(2.0))[0], tangent(2.0), rtol=1e-6)


# A loop for each example, as one kernel


def test_loops_of_examples_are_one_kernel() -> None:
    f = cv.jit(cv.vmap(newton(cnp, cv)))
    text = f.lower(cnp.ones(100)).as_text("kernels")
    assert "kernel each(" in text
    assert "repeat while" in text
    assert "loop " not in text


def collatz(n: Any) -> Any:
    def step(s: Any) -> Any:
        n, count = s
        return cnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]


def inside(a: Any) -> Any:
    """A loop in a loop: how often halving x, then x - 1, … reaches 1."""

    def halvings(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] + 1), (x, 0))[1]

    def step(s: Any) -> Any:
        x, total = s
        return x - 1, total + halvings(x)

    return lax.while_loop(lambda s: s[0] > 1, step, (a, 0))[1]


@pytest.mark.parametrize("count", [1, 5, 8, 37, 1000])
def test_integers_and_loops_inside(count: int) -> None:
    def plain(n: int) -> int:
        steps = 0
        while n > 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    found = cv.jit(cv.vmap(collatz))(cnp.arange(count))
    assert found.tolist() == [plain(n) for n in range(count)]

    def nested(x: float) -> int:
        total = 0
        while x > 1:
            y = x
            while y > 1:
                y, total = y / 2, total + 1
            x -= 1
        return total

    x = (np.arange(min(count, 40)) * 0.75).astype("f")
    assert cv.jit(cv.vmap(inside))(x).tolist() == [nested(v) for v in x]


def test_two_batch_axes_complex_numbers_and_what_else_the_body_reads() -> None:
    c = (RNG.normal(size=(6, 11)) + 1j * RNG.normal(size=(6, 11))).astype("complex64")
    most = np.arange(5, 16)

    def rounds(c: Any, most: Any, m: Any, lib: Any) -> Any:
        return lib.lax.while_loop(
            lambda s: (s[0] < most) & (m.abs(s[1]) < 2), lambda s: (s[0] + 1, s[1] ** 2 + c),
            (0, m.zeros_like(c)),
        )  # fmt: skip

    both = []
    for lib, m in ((cv, cnp), (jax, jax.numpy)):
        f = lib.vmap(lib.vmap(lambda c, n, m=m, lib=lib: rounds(c, n, m, lib)), (0, None))
        both.append(lib.jit(f)(c, most))
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
