"""Products whose left operand is made block by block: which programs do it, on which sizes; the
same bits as in steps of their own, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import covector as cv
from covector import nn
from covector import numpy as cnp
from covector.backends.cpu.library.contraction_sizes import MADE_BYTES, leads, plan_of, product_of
from covector.backends.cpu.target import host
from covector.compiler import prologue
from covector.compiler.pipeline import compile_program
from covector.compiler.program import LibraryCall, Program
from covector.compiler.run import run
from covector.runtime import threads


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = threads.num_threads()
    yield
    threads.set_num_threads(before)


def _rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x / cnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def _residual(x: Any, w: Any) -> Any:
    h = cnp.sin(x)
    return h + h @ w


def _flipped(x: Any, w: Any) -> Any:
    h = cnp.sin(x)
    return h @ w - cnp.flip(h, 0)


X, W, S = _rows(1300, 64), _rows(64, 40), _rows(64)
NARROW = np.asarray(cnp.asarray(X, "bfloat16"))
MASK, PLACES = X > 0.5, np.arange(1300, dtype=np.int32) * 7 % 1300
MANY, EACH = _rows(20, 130, 33), _rows(20, 33, 40)
#: function, arguments, kernels that lead (whether what they make is nobody else's), steps.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], list[bool], int]] = {
    "cast": (lambda x, w: x.astype(np.float32) @ w, (NARROW, W), [True], 1),
    "scale": (lambda x, s, w: (x * s) @ w, (X, S, W), [True], 1),
    "mask": (lambda m, x, w: cnp.where(m, x, 0) @ w, (MASK, X, W), [True], 1),
    "norm": (lambda x, w: _norm(x) @ w, (X, W), [True], 1),
    "gather": (lambda x, i, w: x[i] @ w, (X, PLACES, W), [True], 1),
    "and what follows": (lambda x, s, w: nn.softmax((x + s) @ w), (X, S, W), [True], 1),
    "of a batch": (lambda x, w: cnp.einsum("bij,bjk->bik", nn.softmax(x), w), (MANY, EACH),
                   [True], 1),
    "of few columns": (lambda x, s, w: cnp.tanh((x * s) @ w), (X, S, _rows(64, 3)), [True], 1),
    "of few large ones": (lambda x, w: cnp.einsum("bij,jk->bik", x * 2, w),
                          (_rows(3, 700, 33), _rows(33, 40)), [True], 1),
    "rows that crowd a cache": (lambda x, w: (x * 2) @ w, (_rows(400, 1024), _rows(1024, 70)),
                                [True], 1),
    "two results": (lambda x, w: ((x + 1) @ w, cnp.tanh(x + 1)), (X, W), [True], 1),
    "a result too": (lambda x, w: (cnp.maximum(x + 1, 0) @ w, cnp.maximum(x + 1, 0)), (X, W),
                     [False], 1),
    "a gradient": (lambda g, h, x, w: ((g * (h > 0)) @ w, x.T @ (g * (h > 0))),
                   (X, X[::-1].copy(), X, W), [False], 2),
    "a residual": (_residual, (X, _rows(64, 64)), [False], 1),
    # Of these, nothing leads: what follows reads other rows, the operand is needed whole, or it
    # lies by columns.
    "backwards in what follows": (_flipped, (X, _rows(64, 64)), [], 2),
    "both operands": (lambda x: (lambda h: h @ h)(cnp.sin(x)), (_rows(200, 200),), [], 2),
    "the right operand": (lambda x, w: x @ cnp.sin(w), (X, W), [], 2),
    "by columns": (lambda x, w: cnp.einsum("ji,jk->ik", cnp.sin(x), w), (X, _rows(1300, 30)),
                   [], 2),
    "a product's follower": (lambda x, w, v: cnp.tanh(x @ w) @ v, (X, W, _rows(40, 30)), [], 2),
    "backwards": (lambda x, w: cnp.cumsum(x, 0) @ w, (X, W), [], 2),
}  # fmt: skip


def _leaders(program: Program) -> list[bool]:
    calls = [s for s in program.steps if isinstance(s, LibraryCall)]
    return [f.own for s in calls for f in s.leaders]


def _flat(results: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_leads_a_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments, leaders, steps = PROGRAMS[name]
    program, _ = compile_program(cv.make_jaxpr(function)(*arguments))
    assert _leaders(program) == leaders, str(program)
    assert len(program.steps) == steps, str(program)
    found = []
    for count in (1, 2, 3):
        threads.set_num_threads(count)
        found.append(_flat(cv.jit(function)(*arguments)))
    with cv.config.scoped(enable_compilation_cache=False):
        monkeypatch.setattr(prologue, "ahead", lambda steps: steps)
        monkeypatch.setattr(prologue, "lead", lambda program: program)
        apart = lambda *args: (lambda y: y)(function(*args))  # noqa: E731  (another function)
        jitted = cv.jit(apart)
        assert " after k" not in jitted.lower(*arguments).as_text("kernels")
        found.append(_flat(jitted(*arguments)))
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)
    with cv.enable_x64(True):
        wide = [cnp.asarray(x, "float64") if x.dtype.kind in "fV" else x for x in arguments]
        wanted = _flat(function(*wide))
    for x, y in zip(found[0], wanted, strict=True):
        np.testing.assert_allclose(x.astype("float64"), y, 1e-3, 1e-3)


def test_the_interpreter_runs_what_leads() -> None:
    function, x, s, w = PROGRAMS["scale"][0], X[:40], S, W
    program, consts = compile_program(cv.make_jaxpr(function)(x, s, w))
    assert _leaders(program) == [True]
    (got,) = run(program, [*consts, x, s, w], {"gemm": lambda _, x, y: [x @ y]})
    np.testing.assert_allclose(got, (x * s) @ w, 1e-4, 1e-4)


def test_blocks_are_made_where_each_is_multiplied_once_and_stays_in_cache() -> None:
    def led(*shapes: tuple[int, ...], share: int = 1) -> bool:
        product = product_of("float32", shapes, ((1,), (0,)), ((), ()))
        return leads(product, host(), share)

    assert led((10_000, 64), (64, 64))
    assert led((1000, 256), (256, 256))
    assert led((1000, 256), (256, 3))
    # Few rows: their blocks meet the panels of the right operand in several pieces of work.
    assert not led((24, 1000), (1000, 512))
    # Rows so long that a block leaves the second cache.
    long = product_of("float32", ((1000, 20_000), (20_000, 20)), ((1,), (0,)), ((), ()))
    assert plan_of(long, host(), 1).most(long) * long.k * 4 > MADE_BYTES
    assert not leads(long, host(), 1)


def test_what_is_made_just_before_is_not_overwritten_too_early() -> None:
    """x dies at the kernel, in whose place the product's result would lie; but blocks of rows of x
    are read until the product ends."""
    weights = _rows(96, 96)

    def layers(x: Any) -> Any:
        for _ in range(4):
            x = cnp.cumsum(x, 0) * 0.01  # a value of the program's own, and no follower
            x = (x * 1.5) @ weights
        return x

    x = _rows(1200, 96) / 10
    wanted = x.astype(np.float64)
    for _ in range(4):
        wanted = np.cumsum(wanted, 0) * 0.01 * 1.5 @ weights
    found = np.asarray(cv.jit(layers)(x))
    np.testing.assert_allclose(found, wanted, 1e-3, 1e-3 * abs(wanted).max())
    program, _ = compile_program(cv.make_jaxpr(layers)(x))
    assert _leaders(program), str(program)
