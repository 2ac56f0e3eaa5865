"""Transformations of transformations, beside the oracle: every pair, and a sample of triples, over
a dozen functions, with one more derivative on top.

`make test-matrix` runs all; otherwise a tenth, another one each day, runs.  COVECTOR_MATRIX is
`all`, or the number (0 to 9) of the tenth.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
Fun = Callable[[Any], Any]
X = np.array([0.3, -0.5, 0.8, 0.2], "f")
W = np.array([[0.4, -0.3, 0.2, 0.1], [0.1, 0.5, -0.2, 0.3], [-0.4, 0.2, 0.3, 0.1],
              [0.2, 0.1, -0.1, 0.6]], "f")  # fmt: skip

#: Functions of four numbers to four numbers, given the library and its numpy.
FUNCTIONS: dict[str, Callable[[Any, Any], Fun]] = {
    "sin": lambda lib, m: lambda x: m.sin(x) * x,
    "exp": lambda lib, m: lambda x: m.exp(-x * x),
    "layer": lambda lib, m: lambda x: m.tanh(m.asarray(W) @ x + 0.1),
    "quotient": lambda lib, m: lambda x: x / (1 + x**2),
    "softmax": lambda lib, m: lambda x: lib.nn.softmax(x * 2),
    "norm": lambda lib, m: lambda x: x / m.sqrt(1 + m.sum(x * x)),
    "index": lambda lib, m: lambda x: m.sin(x[m.array([3, 0, 1, 1])]).at[2].add(x[0] * x[1]),
    "cumsum": lambda lib, m: lambda x: m.cumsum(m.cos(x)) * 0.3,
    "outer": lambda lib, m: lambda x: m.einsum("i,j,ij->j", x, m.sin(x), m.asarray(W)),
    "where": lambda lib, m: lambda x: m.where(x > 0, x**3, m.sin(x)),
    "sort": lambda lib, m: lambda x: m.sort(x) * m.arange(1.0, 5.0) ** 0.5,
    "pieces": lambda lib, m: lambda x: m.concatenate([x[2:] ** 2, m.log1p(x[:2] ** 2)]),
}


def _custom_jvp(lib: Any, m: Any, f: Fun) -> Fun:
    @lib.custom_jvp
    def g(x: Any) -> Any:
        return f(x)

    g.defjvp(lambda primals, tangents: lib.jvp(f, primals, tangents))
    return g


def _custom_vjp(lib: Any, m: Any, f: Fun) -> Fun:
    if lib is jax:  # has no forward mode there: the function itself means the same
        return f

    @lib.custom_vjp
    def g(x: Any) -> Any:
        return f(x)

    g.defvjp(lambda x: (f(x), x), lambda x, ct: lib.vjp(f, x)[1](ct))
    return g


def _while(lib: Any, m: Any, f: Fun) -> Fun:
    if lib is jax:  # has no reverse mode there: as many rounds, counted
        return lambda x: lib.lax.fori_loop(0, 2, lambda i, y: f(y), x)
    return lambda x: lib.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[
        1
    ]


def _scan(lib: Any, m: Any, f: Fun) -> Fun:
    return lambda x: lib.lax.scan(lambda c, k: (f(c) * k, c.sum()), x, m.array([1.0, 0.5]))[0]


#: From such a function to such a function.
TRANSFORMATIONS: dict[str, Callable[[Any, Any, Fun], Fun]] = {
    "jit": lambda lib, m, f: lib.jit(f),
    "grad": lambda lib, m, f: lib.grad(lambda x: m.sum(f(x) * m.cos(x))),
    "jvp": lambda lib, m, f: lambda x: lib.jvp(f, (x,), (m.cos(x),))[1],
    "vjp": lambda lib, m, f: lambda x: lib.vjp(f, x)[1](m.cos(x))[0],
    "vmap": lambda lib, m, f: lambda x: lib.vmap(f, 1, 1)(m.stack([x, x * 0.5], 1)).sum(1),
    "linearize": lambda lib, m, f: lambda x: lib.linearize(f, x)[1](m.sin(x)),
    "jacfwd": lambda lib, m, f: lambda x: lib.jacfwd(f)(x) @ m.cos(x),
    "jacrev": lambda lib, m, f: lambda x: lib.jacrev(f)(x).sum(0),
    "checkpoint": lambda lib, m, f: lib.checkpoint(f),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    # That of the oracle can't be nested; over one device it means the function itself.
    "pmap": lambda lib, m, f: f if lib is jax else lambda x: lib.pmap(f)(x[None])[0],
    "cond": lambda lib, m, f: lambda x: lib.lax.cond(
        x[0] > 0.1, f, lambda y: f(y) * 0.5 + y, x
    ),
    "while": _while,
    "scan": _scan,
    "map": lambda lib, m, f: lambda x: lib.lax.map(f, m.stack([x, x * 2]))[1],
}  # fmt: skip
#: So many triples, each with one function.
TRIPLES = 600


def chains() -> Iterator[tuple[tuple[str, ...], str]]:
    """(transformations from the outermost in, function)."""
    for pair in itertools.product(TRANSFORMATIONS, repeat=2):
        for function in FUNCTIONS:
            yield pair, function
    draw = random.Random(7)
    for _ in range(TRIPLES):
        yield tuple(draw.choices(list(TRANSFORMATIONS), k=3)), draw.choice(list(FUNCTIONS))


def chosen() -> list[tuple[tuple[str, ...], str]]:
    everything = list(chains())
    wanted = os.environ.get("COVECTOR_MATRIX", str(dt.date.today().toordinal() % 10))
    if wanted == "all":
        return everything
    random.Random(11).shuffle(everything)  # so that a tenth has some of each
    return everything[int(wanted) :: 10]


def applied(lib: Any, m: Any, names: tuple[str, ...], function: str) -> Fun:
    f = FUNCTIONS[function](lib, m)
    for name in reversed(names):
        f = TRANSFORMATIONS[name](lib, m, f)
    return f


def asked(theirs: Fun) -> tuple[Any, Any]:
    """The oracle's value and derivative: one program for both, compiled in haste."""
    return answer(
        "matrix", lambda x: jax.jvp(theirs, (x,), (jax.numpy.cos(x),)), X,
        xla_backend_optimization_level=0,
    )  # fmt: skip


@pytest.mark.parametrize(("names", "function"), [
    pytest.param(*chain, id="-".join([*chain[0], chain[1]])) for chain in chosen()
])  # fmt: skip
def test_as_the_oracle(names: tuple[str, ...], function: str) -> None:
    ours, theirs = applied(cv, cnp, names, function), applied(jax, jax.numpy, names, function)
    x = cnp.asarray(X)
    value, slope = asked(theirs)
    found = cv.jvp(ours, (x,), (cnp.cos(x),))
    np.testing.assert_allclose(found[0], value, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(found[1], slope, rtol=1e-3, atol=1e-4)
