"""`checkpoint`: values as in JAX everywhere; what is saved; memory; that work is done again."""

import functools
import re

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import ad_checkpoint, lax
from tests.api.oracle import agree, same_error
from tests.api.test_custom_jvp import AROUND

POLICIES = {
    "none": lambda p: None,
    "dots": lambda p: p.dots_saveable,
    "dots without batch": lambda p: p.checkpoint_dots_with_no_batch_dims,
    "everything": lambda p: p.everything_saveable,
    "nothing": lambda p: p.nothing_saveable,
    "names": lambda p: p.save_only_these_names("b"),
    "any names": lambda p: p.save_any_names_but_these("b"),
    "anything except": lambda p: p.save_anything_except_these_names("b"),
    "both": lambda p: p.save_from_both_policies(p.dots_saveable, p.save_only_these_names("b")),
    "own": lambda p: lambda prim, *avals, **params: prim.name in ("sin", "cos"),
    "offload": lambda p: p.save_and_offload_only_these_names(
        names_which_can_be_saved=["b"], names_which_can_be_offloaded=[],
        offload_src="device", offload_dst="pinned_host",
    ),
}  # fmt: skip
X = np.linspace(0.1, 1.0, 9, dtype=np.float32).reshape(3, 3)


def block(j, x, y):
    named = j.ad.checkpoint_name(j.np.cos(j.np.sin(x)) @ y, "b")
    return j.np.tanh(named)


def checkpointed(j, policy):
    rule = POLICIES[policy](j.m.checkpoint_policies)
    return j.m.checkpoint(lambda x, y: block(j, x, y), policy=rule)


@pytest.mark.parametrize("name", [
    "call", "grad", "jvp", "linearize", "grad of jit", "all", "second order of jit", "hessian",
    "reverse over forward", "vmap of scan", "while", "cond",
])  # fmt: skip
def test_in_and_around(name):
    def case(j):
        return AROUND[name](j, j.m.checkpoint(lambda x: j.np.sin(j.np.sin(x))))

    agree(case)


@pytest.mark.parametrize("policy", POLICIES)
def test_values_do_not_depend_on_the_policy(policy):
    def case(j):
        f = checkpointed(j, policy)
        total = lambda x, y: f(f(x, y), y).sum()  # noqa: E731
        once = j.m.jit(j.m.grad(total, (0, 1)))(X, X)
        if policy != "dots":
            return once
        return (
            once, j.m.grad(total)(X, X), j.m.vmap(j.m.grad(total), (0, None))(np.stack([X, X]), X),
            j.m.grad(lambda x: (j.m.grad(total)(x, X) ** 2).sum())(X),
        )  # fmt: skip

    agree(lambda j: j.m.jit(functools.partial(case, j))(), 2e-5)


SAVED = {
    "none": {"the argument"}, "nothing": {"the argument"}, "any names": {"the argument"},
    "dots": {"the argument", "dot_general"}, "dots without batch": {"the argument", "dot_general"},
    "names": {"the argument", "'b'"}, "offload": {"the argument", "'b'"},
    "own": {"the argument", "cos", "sin"},
}  # fmt: skip


@pytest.mark.parametrize("policy", SAVED)
def test_what_is_saved(policy, capsys):
    j = Ours
    ad_checkpoint.print_saved_residuals(checkpointed(j, policy), X, X)
    lines = capsys.readouterr().out.splitlines()
    found = {
        re.search(r"from (the argument)|output of (\w+)|named ('b')", line).group(0)
        for line in lines
    }
    words = {w.removeprefix("from ").removeprefix("output of ").removeprefix("named ")
             for w in found}  # fmt: skip
    assert words <= SAVED[policy]
    assert (words & {"'b'", "dot_general"}) == (SAVED[policy] & {"'b'", "dot_general"})
    assert all(line.startswith("f32[3,3] ") for line in lines)
    made = [line for line in lines if "argument" not in line]
    assert all("test_checkpoint.py:" in line and "(block)" in line for line in made)


class Ours:
    """Covector's modules."""

    m, np, lax, ad = cv, cnp, lax, ad_checkpoint


def test_residuals_have_bytes_lines_and_origins():
    def step(c, x):
        return cnp.sin(c * x), None

    def f(c, d):
        return lax.scan(step, c, d["xs"])[0] * np.float32(2)

    found = ad_checkpoint.saved_residuals(f, 1.0, {"xs": cnp.ones(5)})
    text = [str(r) for r in found]
    assert any(re.fullmatch(r"f32\[5\] output of cos from test_checkpoint.py:\d+ \(\S*step\), of "
                            "each round of scan", t) for t in text), text  # fmt: skip
    assert "f32[5] from the argument d['xs']" in text
    assert {r.nbytes for r in found} == {20}
    three = cnp.arange(3.0)
    (constant,) = ad_checkpoint.saved_residuals(lambda x: x * three, 1.0)
    assert (str(constant), constant.nbytes) == ("f32[3] from a constant", 12)


def net(f, depth=3):
    def loss(w, x):
        for _ in range(depth):
            x = f(w, x)
        return (x * x).sum()

    return loss


def dense(w, x):
    return cnp.tanh(cnp.tanh(x @ w) @ w)


@pytest.mark.parametrize(("policy", "prevent_cse", "dots"), [
    (None, True, 23), (None, False, 17), (cv.checkpoint_policies.dots_saveable, True, 17),
])  # fmt: skip
def test_work_is_done_again_in_the_compiled_program(policy, prevent_cse, dots):
    """6 products forward, 12 less one backward, and, of a checkpoint, 6 once more."""
    f = cv.checkpoint(dense, policy=policy, prevent_cse=prevent_cse)
    w = cnp.ones((8, 8))
    text = cv.jit(cv.grad(net(f))).lower(w, w).as_text("simplified")
    assert text.count("dot_general") == dots
    assert "optimization_barrier" not in text


def test_memory_of_the_compiled_program_is_less():
    w, x = cnp.ones((64, 64)), cnp.ones((512, 64))

    def loop(f):
        return lambda w, x: lax.scan(lambda c, _: (f(w, c), None), x, None, length=16)[0].sum()

    for around, factor in ((functools.partial(net, depth=8), 1.3), (loop, 1.9)):
        sizes = [
            cv.jit(cv.grad(around(f))).lower(w, x).compile().memory_analysis().temp_size_in_bytes
            for f in (dense, cv.checkpoint(dense))
        ]
        assert sizes[0] > factor * sizes[1], sizes


def test_policies_see_primitives_types_and_parameters():
    seen = []

    def policy(prim, *avals, **params):
        seen.append((prim.name, avals, params))
        return ad_checkpoint.Saveable if prim is lax.dot_general_p else ad_checkpoint.Recompute

    f = cv.checkpoint(cv.jit(lambda x: cnp.sin(x @ x)), policy=policy)
    cv.grad(lambda x: f(x).sum())(X)
    names = [name for name, _, _ in seen]
    assert {"dot_general", "sin", "cos"} <= set(names)
    _, avals, params = seen[names.index("dot_general")]
    assert [a.shape for a in avals] == [(3, 3), (3, 3)]
    assert params["dimension_numbers"] == (((1,), (0,)), ((), ()))


def test_names_in_loops_are_seen():
    def step(c, x):
        return ad_checkpoint.checkpoint_name(cnp.sin(c) * x, "state"), None

    f = lambda c, xs: lax.scan(step, c, xs)[0]  # noqa: E731
    keep = cv.checkpoint_policies.save_only_these_names("state")
    xs = cnp.arange(1.0, 6.0)
    kept = cv.checkpoint(lambda c, xs: cnp.sin(f(c, xs)), policy=keep)
    assert len(ad_checkpoint.saved_residuals(kept, 0.5, xs)) > len(
        ad_checkpoint.saved_residuals(cv.checkpoint(lambda c, xs: cnp.sin(f(c, xs))), 0.5, xs)
    )
    wanted = cv.grad(lambda c: cnp.sin(f(c, xs)))(0.5)
    np.testing.assert_allclose(cv.grad(kept)(0.5, xs), wanted, rtol=1e-6)


def test_nested_and_combined_with_custom_rules():
    def case(j):
        f = j.m.custom_vjp(lambda x: j.np.sin(x))
        f.defvjp(lambda x: (f(x), j.np.cos(x)), lambda cos, ct: (3 * cos * ct,))
        inner = j.m.checkpoint(lambda x: f(f(x)))
        outer = j.m.checkpoint(lambda x: inner(j.np.tanh(inner(x))))
        return j.m.grad(outer)(0.3), j.m.jit(j.m.grad(outer))(0.3), j.m.grad(j.m.grad(outer))(0.3)

    agree(case, 1e-5)


def test_static_arguments():
    def case(j):
        f = j.m.checkpoint(lambda x, flag: j.np.sin(x) if flag else x * x, static_argnums=(1,))
        return j.m.grad(f)(1.0, True), j.m.grad(f)(1.0, False), j.m.jit(
            lambda x: j.m.grad(f)(x, True))(1.0)  # fmt: skip

    agree(case)
    f = cv.checkpoint(lambda x, flag: x * x if flag else x, static_argnames="flag")
    assert float(cv.grad(f)(3.0, flag=True)) == 6.0
    assert float(cv.grad(f)(3.0, True)) == 6.0
    g = cv.checkpoint(lambda x, table: x * table["a"], static_argnums=1)  # not hashable
    assert float(cv.grad(g)(3.0, {"a": 5})) == 5.0


def test_traced_once_for_one_function():
    g = cv.checkpoint(lambda x: cnp.sin(x) * cnp.cos(x))
    first, second = (cv.make_jaxpr(g)(x).eqns[0].op.jaxpr for x in (1.0, 2.0))
    assert first is second


def test_pytrees_auxiliary_data_and_keywords():
    def case(j):
        f = j.m.checkpoint(lambda d, *, k: ({"s": j.np.sin(d["x"]) * k}, 3))
        return j.m.grad(lambda d: f(d, k=2.0)[0]["s"])({"x": 1.0}), f({"x": 1.0}, k=2.0)

    agree(case)
    named = ad_checkpoint.checkpoint_name({"a": 1.0, "b": [2]}, "all")
    assert named["b"][0].dtype == np.int32


@pytest.mark.parametrize(("case", "told"), [
    (lambda j: j.m.grad(j.m.checkpoint(lambda x: x if x > 0 else -x))(1.0), "static_argnums"),
    (lambda j: j.m.checkpoint(lambda x: x, static_argnums=(5,))(1.0), "static_argnums"),
    (lambda j: j.m.checkpoint(lambda x: x, concrete=True)(1.0), "concrete.*static_argnums"),
    (lambda j: j.m.checkpoint(lambda x: x)("a"), "'a' of type"),
    (lambda j: j.m.grad(j.m.checkpoint(lambda x: j.np.sin(j.np.sin(x)), policy=lambda *_, **__: 3))(
        1.0), "policy.*3 of type"),
])  # fmt: skip
def test_errors(case, told):
    message = same_error(case)
    assert re.search(told, message, re.DOTALL), message


def test_errors_of_our_own():
    with pytest.raises(TypeError, match="checkpoint wants a function; got 3"):
        cv.checkpoint(3)
    with pytest.raises(TypeError, match="checkpoint: policy wants a function; got 'all'"):
        cv.checkpoint(lambda x: x, policy="all")
    with pytest.raises(ValueError, match=r"'b'.* cannot be both saved and offloaded"):
        cv.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["b"], names_which_can_be_offloaded=["b"],
            offload_src="device", offload_dst="pinned_host",
        )  # fmt: skip


def test_remat_is_checkpoint():
    agree(lambda j: j.m.grad(j.m.remat(lambda x: j.np.sin(x) ** 2, prevent_cse=False))(1.0))
    assert cv.ad_checkpoint.Offloadable("device", "pinned_host").dst == "pinned_host"
