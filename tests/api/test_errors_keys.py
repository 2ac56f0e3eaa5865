"""`debug_key_reuse`: a key that is consumed twice is found, eager and in programs; both lines are
named; what is no reuse is let pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, random
from covector.errors import JAXTypeError, KeyReuseError
from tests.random import test_parity as draws


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    with cv.debug_key_reuse(True):
        yield


def message(run: Callable[[], Any]) -> str:
    with pytest.raises(KeyReuseError) as caught:
        run()
    assert isinstance(caught.value, JAXTypeError)
    return str(caught.value)


def test_both_lines_and_the_name_of_the_key() -> None:
    def twice(seed: int) -> Any:
        noise = random.key(seed)
        first = random.normal(noise)
        return first + random.uniform(noise)

    line = twice.__code__.co_firstlineno
    said = message(lambda: twice(0)).splitlines()
    assert said[0] == "A random key is consumed twice."
    assert said[1].startswith(f"First by random_bits at test_errors_keys.py:{line + 2} (")
    assert said[2] == "    first = random.normal(noise)"
    assert said[3].startswith(f"then by random_bits at test_errors_keys.py:{line + 3} (")
    assert said[4] == "    return first + random.uniform(noise)"
    assert "`k1, k2 = random.split(noise)`" in said[5]
    assert "`random.clone(noise)`" in said[5]
    assert said[6] == "More: help(covector.errors.KeyReuseError)"
    said = message(lambda: cv.jit(lambda seed: twice(seed))(0)).splitlines()
    assert said[2] == "    first = random.normal(noise)"


def test_the_argument_is_named() -> None:
    @cv.jit
    def sample(params: Any) -> Any:
        return random.normal(params["key"]) + random.normal(params["key"])

    assert "The key is argument params['key'] of sample." in message(
        lambda: sample({"key": random.key(0)})
    )


def _loop(body: Callable[[Any, Any], Any], key: Any) -> Any:
    return lax.scan(lambda c, i: (c + body(key, i), None), 0.0, np.arange(3))


SPLIT_LATE: dict[str, Callable[[Any], Any]] = {
    "split, then draw": lambda k: (random.split(k), random.normal(k)),
    "draw, then split": lambda k: (random.bits(k), random.split(k)),
    "element": lambda k: [random.normal(s[0]) for s in [random.split(k)] * 2],
    "unpacked": lambda k: [random.normal(a) for a, _ in [tuple(random.split(k))] * 2],
    "reshaped": lambda k: (random.normal(k), random.normal(k.reshape(1)[0])),
    "stacked": lambda k: (random.normal(k), random.normal(cnp.stack([random.key(1), k])[1])),
    "mapped, then drawn": lambda k: [
        (cv.vmap(random.normal)(s), random.normal(s[1])) for s in [random.split(k)]],
    "jit, twice": lambda k: [f(k) for f in [cv.jit(random.normal)] * 2],
    "handed through jit": lambda k: random.normal(
        cv.jit(lambda k: (k, random.normal(k)))(k)[0]),
    "in grad": lambda k: cv.grad(lambda x: x * random.normal(k) * random.normal(k))(1.0),
    "in vmap": lambda k: cv.vmap(lambda x: x * random.normal(k) * random.normal(k))(np.ones(3)),
    "in checkpoint": lambda k: cv.checkpoint(lambda k: random.normal(k) * random.normal(k))(k),
    "cond, then draw": lambda k: (
        lax.cond(True, random.normal, random.uniform, k), random.normal(k)),
    "a branch, then draw": lambda k: (
        lax.cond(True, random.normal, lambda k: 0.0, k), random.normal(k)),
    "scan over a constant": lambda k: _loop(lambda k, i: random.normal(k), k),
    "scan, carried": lambda k: lax.scan(lambda k, _: (k, random.normal(k)), k, None, length=2),
    "scan, rows again": lambda k: [
        (lax.map(random.normal, s), random.normal(s[2])) for s in [random.split(k, 3)]],
    "while, carried": lambda k: lax.while_loop(
        lambda c: c[1] < 3, lambda c: (c[0], c[1] + random.uniform(c[0])), (k, 0.0)),
    "while, constant": lambda k: lax.while_loop(
        lambda c: c < 3, lambda c: c + random.uniform(k), 0.0),
    "while, condition": lambda k: lax.while_loop(
        lambda c: c < random.uniform(k), lambda c: c + 1, 0.0),
    "no numbers": lambda k: (random.normal(k, (0,)), random.normal(k)),
    "gamma": lambda k: (random.gamma(k, 1.0), random.gamma(k, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT_LATE)
@pytest.mark.parametrize("traced", [False, True])
def test_reuse_is_found(name: str, traced: bool) -> None:
    run = SPLIT_LATE[name]
    key = random.key(0)
    said = message(lambda: cv.eval_shape(run, key) if traced else run(key))
    assert "test_errors_keys.py:" in said


def _chain(x: Any, key: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        x, key = carry
        key, now = random.split(key)
        return (cnp.sin(x * random.normal(now)), key), x

    return lax.scan(body, (x, key), None, length=3)[0][0]


def _until(x: Any, key: Any) -> Any:
    def body(carry: Any) -> Any:
        i, x, key = carry
        key, now = random.split(key)
        return i + 1, cnp.sin(x * random.normal(now)), key

    return lax.while_loop(lambda c: c[0] < 3, body, (0, x, key))[1]


RIGHT: dict[str, Callable[[Any], Any]] = {
    "split": lambda k: [random.normal(s) for s in random.split(k)],
    "folded in": lambda k: [random.normal(random.fold_in(k, i)) for i in range(3)],
    "folded in, in a loop": lambda k: _loop(lambda k, i: random.normal(random.fold_in(k, i)), k),
    "cloned": lambda k: (random.normal(k), random.normal(random.clone(k))),
    "words": lambda k: (random.normal(k), random.key_data(k), k == k),
    "one seed": lambda k: [random.normal(random.key(7)) for _ in range(2)],
    "elements read twice": lambda k: [(s[0], s[0]) for s in [random.split(k)]],
    "other elements": lambda k: [random.normal(s[i]) for s in [random.split(k)] for i in (0, 1)],
    "branches": lambda k: lax.cond(True, random.normal, random.uniform, k),
    "branches, mapped": lambda k: cv.vmap(
        lambda p, k: lax.cond(p, random.normal, random.uniform, k))(
        np.array([True, False]), random.split(k)),
    "positions known at run time": lambda k: [
        cv.jit(lambda s, i: random.normal(s[i]))(s, i) for s in [random.split(k)] for i in (0, 1)],
    "same for all": lambda k: cv.vmap(lambda x: x * random.normal(k))(np.ones(3)),
    "rows": lambda k: lax.map(random.normal, random.split(k, 3)),
    "rows in blocks": lambda k: cv.vmap(random.normal, chunk=2)(random.split(k, 5)),
    "derivative": lambda k: cv.grad(_chain)(1.0, k),
    "derivative in jit": lambda k: cv.jit(cv.grad(_chain))(1.0, k),
    "second derivative": lambda k: cv.hessian(_chain)(1.0, k),
    "reverse of while": lambda k: cv.grad(_until)(1.0, k),
    "reverse of while in jit": lambda k: cv.jit(cv.grad(_until))(1.0, k),
    "drawn again by checkpoint": lambda k: cv.grad(
        cv.checkpoint(lambda x, k: cnp.sin(x * random.normal(k))))(1.0, k),
    "drawn again, in jit": lambda k: cv.jit(cv.grad(
        cv.checkpoint(lambda x, k: cnp.sin(x * random.normal(k)))))(1.0, k),
    "pullback twice": lambda k: [
        pull(1.0) for pull in [cv.vjp(lambda x: x * random.normal(k), 1.0)[1]] * 2],
    "legacy keys": lambda k: [random.normal(random.PRNGKey(0)) for _ in range(2)],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_reuse(name: str) -> None:
    RIGHT[name](random.key(0))


SAMPLERS = [
    draw for name, draw in [*draws.EXACT.items(), *((n, v[-1]) for n, v in draws.NEAR.items())]
    if "64" not in name and "past" not in name
]  # fmt: skip


def test_no_sampler_consumes_its_key_twice() -> None:
    key = random.key(0)
    for draw in SAMPLERS:
        cv.eval_shape(lambda k, draw=draw: draw(random, k), key)


def test_the_option_and_its_scopes() -> None:
    key = random.key(0)
    with cv.debug_key_reuse(False):
        random.normal(key)
        random.normal(key)
    random.normal(key)
    with cv.debug_key_reuse(False):
        random.normal(key)
    assert "First by" in message(lambda: random.normal(key))
    f = cv.jit(lambda k: random.normal(k) + random.uniform(k))
    with cv.debug_key_reuse(False):
        wanted = [f(key) for _ in range(3)]  # compiled, and called by the entry point
        assert wanted[0] == wanted[2]
    assert "argument k of" in message(lambda: f(key))
    with cv.debug_nans(True):  # both look at results
        fresh = random.key(1)
        random.normal(fresh)
        message(lambda: random.normal(fresh))
        with pytest.raises(FloatingPointError, match="nan"):
            cnp.log(-1.0)


def test_what_dies_is_forgotten() -> None:
    for _ in range(20):  # an array at the address of another one has keys of its own
        key = random.key(3)
        random.normal(key)
        del key


def test_against_jax() -> None:
    """The oracle refuses what we refuse, of these."""
    jax = pytest.importorskip("jax")
    with jax.debug_key_reuse(True):
        key = jax.random.key(0)
        jax.random.normal(key)
        with pytest.raises(jax.errors.KeyReuseError):
            jax.random.split(key)
        with pytest.raises(jax.errors.KeyReuseError):
            jax.jit(lambda k: jax.random.normal(k) + jax.random.uniform(k))(jax.random.key(1))
