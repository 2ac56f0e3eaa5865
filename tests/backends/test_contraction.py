"""Contractions by register tiles: beside NumPy in float64, on any number of threads, for any
machine; and with what follows them in the same tasks, bit for bit as in steps of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import covector as cv
from covector import nn
from covector import numpy as cnp
from covector.backends.cpu.assemble import assembly, module_text
from covector.backends.cpu.library import contraction
from covector.backends.cpu.library.contraction import After, product_of, product_text
from covector.backends.cpu.target import host
from covector.compiler import epilogue
from covector.compiler.pipeline import compile_program
from covector.runtime import threads
from tests.backends.test_targets import TARGETS

#: equation, shapes: how operands lie, what is cut, what is left over.
PRODUCTS = {
    "plain": ("ij,jk->ik", (130, 70), (70, 45)),
    "left along its rows": ("ji,jk->ik", (70, 130), (70, 45)),
    "right along the sums": ("ij,kj->ik", (130, 70), (45, 70)),
    "both": ("ji,kj->ik", (300, 130), (37, 300)),
    "sums in blocks": ("ij,jk->ik", (100, 700), (700, 20)),
    "few rows": ("ij,jk->ik", (17, 40), (40, 90)),
    "one column more": ("ij,jk->ik", (96, 32), (32, 129)),
    "two columns": ("ij,jk->ik", (100, 50), (50, 2)),
    "three columns": ("ij,jk->ik", (101, 333), (333, 3)),
    "four columns along the sums": ("ij,kj->ik", (50, 80), (4, 80)),
    "five columns of a batch": ("bij,bjk->bik", (7, 30, 40), (7, 40, 5)),
    "six columns of two axes, apart": ("ij,ajb->iab", (33, 70), (3, 70, 2)),
    "rows that crowd a cache": ("ij,jk->ik", (50, 1024), (1024, 70)),
    "two axes of sums": ("iab,abk->ik", (40, 6, 30), (6, 30, 50)),
    "two axes of sums, exchanged": ("iab,bak->ik", (40, 30, 20), (20, 30, 50)),
    "many short axes of sums": ("iaj,ja->ji", (40, 90, 8), (8, 90)),
    "a long axis within another": ("iab,akb->ik", (30, 3, 600), (3, 50, 600)),
    "rows of two axes": ("aib,bk->aik", (7, 20, 30), (30, 40)),
    "rows apart": ("aib,ik->abk", (7, 40, 20), (40, 50)),
    "columns of two axes": ("ij,jab->iab", (40, 30), (30, 3, 16)),
    "columns apart": ("ij,ajb->iab", (40, 30), (3, 30, 5)),
    "columns apart in vectors": ("ij,ajb->iab", (40, 30), (3, 30, 16)),
    "batch of small ones": ("bij,bjk->bik", (20, 33, 17), (20, 17, 21)),
    "batch of large ones": ("bij,bjk->bik", (3, 130, 60), (3, 60, 70)),
    "batch inside": ("ibj,jbk->bik", (50, 12, 30), (30, 12, 20)),
    "two batch axes": ("abij,ackj->abick", (2, 6, 20, 16), (2, 4, 40, 16)),
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = threads.num_threads()
    yield
    threads.set_num_threads(before)


@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_are_right_on_any_number_of_threads(name: str) -> None:
    equation, *shapes = PRODUCTS[name]
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64"):
        operands = [rng.normal(size=s).astype(dtype) for s in shapes]
        exact = [x.astype(np.longdouble) for x in operands]
        wanted = np.einsum(equation, *exact)
        # Of sums of n products in some order: n half units, of the sum of magnitudes.
        bound = np.einsum(equation, *map(abs, exact)) * np.finfo(dtype).eps * 8
        with cv.enable_x64(True):
            given = [cnp.asarray(x) for x in operands]
            f = cv.jit(lambda x, y: cnp.einsum(equation, x, y))
            found = []
            for count in (1, 2, 3):
                threads.set_num_threads(count)
                found.append(np.asarray(f(*given)))
        assert found[0].dtype == dtype
        assert (abs(found[0] - wanted) <= bound).all()
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])


def test_tiles_take_these_and_leave_those_to_blas() -> None:
    def suits(*shapes: tuple[int, ...], dtype: str = "float32") -> bool:
        product = product_of(dtype, shapes, ((1,), (0,)), ((), ()))
        return contraction.suits(product, host())

    assert suits((256, 256), (256, 256))
    assert suits((10_000, 32), (32, 32))
    assert not suits((2048, 2048), (2048, 2048))  # too much to pack at once
    assert not suits((32, 1024), (1024, 1024))  # too few rows for what is packed
    assert not suits((1000, 500), (500, 1))  # a vector
    assert not suits((256, 256), (256, 256), dtype="complex64")


def test_tiles_take_what_blas_could_not_read() -> None:
    def suits(shapes: Any, contract: Any, batch: Any = ((), ())) -> bool:
        return contraction.suits(product_of("float32", shapes, contract, batch), host())

    plain = ((10, 900), (900, 100)), ((1,), (0,))
    assert not suits(*plain)  # few rows
    assert suits(((10, 30, 30), (30, 100, 30)), ((1, 2), (0, 2)))  # sums that do not merge
    assert suits(((4, 10, 900), (900, 100, 4)), ((2,), (0,)), ((0,), (2,)))  # no dense rows
    assert not suits(((10, 30, 3, 10), (30, 10, 100)), ((1, 3), (0, 1)))  # the left one alone


def test_a_large_operand_that_blas_cannot_read_is_copied_past_the_caches() -> None:
    x, y = _rows(2, 2048, 2, 512), _rows(2048, 512, 8)
    numbers = ((1, 3), (0, 1)), ((), ())
    got = cv.jit(lambda x, y: cv.lax.dot_general(x, y, numbers))(x, y)
    wanted = np.tensordot(x, y, ((1, 3), (0, 1)))
    np.testing.assert_allclose(np.asarray(got), wanted, 1e-3, 1e-2)


@pytest.mark.parametrize("machine", TARGETS)
def test_valid_code_for_any_machine(machine: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = TARGETS[machine]
    for n, contract in ((100, ((1,), (0,))), (100, ((0,), (1,))), (3, ((1,), (0,)))):
        shapes = (100, 100), (100, n) if contract[1] == (0,) else (n, 100)
        product = product_of("float32", shapes, contract, ((), ()))
        functions, declared = product_text("f", product, target, 1, [After("g", 100)])
        text = assembly(module_text(target, functions, {*declared}), target)
        assert "f.part" in text


@pytest.mark.parametrize("dtypes", ["bfloat16 bfloat16", "float16 float16", "float32 bfloat16"])
def test_narrow_floats_are_summed_in_float32(dtypes: str) -> None:
    x, y = (
        cnp.asarray(_rows(*shape), dtype)
        for shape, dtype in zip(((70, 300), (300, 50)), dtypes.split(), strict=True)
    )
    program, _ = compile_program(cv.make_jaxpr(cnp.matmul)(x, y))
    assert any(getattr(s, "name", "") == "gemm" for s in program.steps), str(program)
    found = cv.jit(cnp.matmul)(x, y)
    wanted = np.asarray(x, "float64") @ np.asarray(y, "float64")
    assert found.dtype == cnp.result_type(x, y)
    half = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0}[found.dtype.name]
    error = abs(np.asarray(found, "float64") - wanted)
    assert (error <= half * abs(wanted) + 1e-4).all()  # one rounding, of a sum in float32
    text = str(program)
    assert ("then k" in text) == (found.dtype != "float32")  # it is made narrow in the same step


# What follows


def _rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x / cnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


X, W, B = _rows(130, 70), _rows(70, 45), _rows(45)
HEADS = _rows(2, 4, 32, 16), _rows(2, 4, 32, 16)
#: function, arguments, steps of the program, kernels that follow a product.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], int, int]] = {
    "relu": (lambda x, w, b: cnp.maximum(x @ w + b, 0), (X, W, B), 1, 1),
    "scale": (lambda x, w: 0.5 * (x @ w), (X, W), 1, 1),
    "gelu, residual": (lambda x, w, b: x[:, :45] + nn.gelu(x @ w + b), (X, W, B), 1, 1),
    "cast": (lambda x, w: (x @ w).astype(cnp.bfloat16), (X, W), 1, 1),
    "mask": (lambda x, w: cnp.where(cnp.arange(45) < 7, x @ w, -1.0), (X, W), 1, 1),
    "softmax": (lambda x, w: nn.softmax(x @ w), (X, W), 1, 1),
    "norm": (lambda x, w: _norm(x @ w), (X, W), 1, 1),
    "update": (lambda x, y, w: w - 0.1 * (x.T @ y), (_rows(90, 258), _rows(90, 10), _rows(258, 10)),
               1, 1),
    "few rows, much work": (lambda x, w, b: cnp.tanh(x @ w + b),
                            (_rows(20, 300), _rows(300, 200), _rows(200)), 1, 1),
    "scores": (lambda q, k: nn.softmax(cnp.einsum("bhqd,bhkd->bhqk", q, k)), HEADS, 1, 1),
    "few columns": (lambda x, w, b: nn.softmax(x @ w + b), (X, _rows(70, 5), _rows(5)), 1, 1),
    "by BLAS": (lambda x, w: cnp.maximum(x @ w, 0), (_rows(20, 700), _rows(700, 300)), 1, 1),
    "its own operand": (lambda x: cnp.maximum(x @ x, x), (_rows(64, 64),), 1, 1),
    "two layers": (lambda x, w, b, v: cnp.tanh(cnp.maximum(x @ w + b, 0) @ v),
                   (X, W, B, _rows(45, 30)), 2, 2),
    # Each row of these needs rows of the product that may not be there yet.
    "sum of the columns": (lambda x, w: (x @ w).sum(0), (X, W), 2, 0),
    "with its transpose": (lambda x: (lambda y: y + y.T)(x @ x), (_rows(64, 64),), 2, 0),
    "the row before": (lambda x, w: cnp.diff(x @ w, axis=0), (X, W), 2, 0),
    "backwards": (lambda x, w: cnp.flip(x @ w, 0), (X, W), 2, 0),
    "running sum": (lambda x, w: cnp.cumsum(x @ w, 0), (X, W), 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_follows_a_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments, steps, following = PROGRAMS[name]
    program, _ = compile_program(cv.make_jaxpr(function)(*arguments))
    assert len(program.steps) == steps, str(program)
    assert sum(len(getattr(s, "followers", ())) for s in program.steps) == following, str(program)
    found = []
    for count in (1, 2, 3):
        threads.set_num_threads(count)
        found.append(np.asarray(cv.jit(function)(*arguments)))
    with cv.config.scoped(enable_compilation_cache=False):
        monkeypatch.setattr(epilogue, "attach", lambda program: program)
        apart = lambda *args: (lambda y: y)(function(*args))  # noqa: E731  (another function)
        found.append(np.asarray(cv.jit(apart)(*arguments)))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    with cv.enable_x64(True):
        wanted = np.asarray(function(*[cnp.asarray(x, "float64") for x in arguments]), "float64")
    tolerance = 1e-2 if found[0].dtype.name == "bfloat16" else 1e-4
    np.testing.assert_allclose(found[0].astype("float64"), wanted, tolerance, tolerance)


def test_a_residual_that_dies_is_not_written_while_it_is_read() -> None:
    """The result of the follower could take the place of x, but the product reads all of x."""
    weights = _rows(96, 96)

    def layers(x: Any) -> Any:
        for _ in range(3):
            x = cnp.sin(x)  # a value of the program's own, which dies at the product
            x = x + cnp.maximum(x @ weights, 0)
        return x

    x = _rows(120, 96) / 10
    wanted = x.astype(np.float64)
    for _ in range(3):
        wanted = np.sin(wanted)
        wanted = wanted + np.maximum(wanted @ weights, 0)
    np.testing.assert_allclose(np.asarray(cv.jit(layers)(x)), wanted, 1e-3, 1e-3)
    program, _ = compile_program(cv.make_jaxpr(layers)(x))
    assert sum(len(getattr(s, "followers", ())) for s in program.steps) == 3, str(program)
