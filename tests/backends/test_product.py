"""Products of BLAS shared out between threads: right, and the same however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import covector as cv
from covector.backends.cpu.library import product
from covector.runtime import threads

#: (equation, shapes): each is large enough to be cut, in the way that its name says.
PRODUCTS = {
    "rows": ("ij,jk->ik", (700, 90), (90, 130)),
    "columns": ("ij,jk->ik", (130, 90), (90, 700)),
    "rows of a transposed operand": ("ji,jk->ik", (90, 700), (90, 130)),
    "columns of a transposed operand": ("ij,kj->ik", (130, 90), (700, 90)),
    "both transposed": ("ji,kj->ik", (90, 700), (130, 90)),
    "matrix times vector": ("ij,j->i", (900, 400), (400,)),
    "transposed matrix times vector": ("ji,j->i", (400, 900), (400,)),
    "vector times matrix": ("j,jk->k", (400,), (400, 900)),
    "row times matrix": ("ij,jk->ik", (1, 400), (400, 900)),
    "batch": ("bij,bjk->bik", (40, 50, 60), (40, 60, 70)),
    "batch of vectors": ("bij,bj->bi", (40, 50, 60), (40, 60)),
    "few large products": ("bij,bjk->bik", (2, 300, 80), (2, 80, 200)),
    "two batch axes": ("abij,abjk->abik", (3, 20, 30, 40), (3, 20, 40, 50)),
    "batch inside": ("ibj,jbk->bik", (50, 40, 60), (60, 40, 70)),
    "remainder": ("ij,jk->ik", (257, 64), (64, 259)),
    "nothing to add": ("ij,jk->ik", (700, 0), (0, 130)),
    "no length": ("ij,j->i", (700, 0), (0,)),
}
DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = threads.num_threads()
    yield
    threads.set_num_threads(before)


def _filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_any_number_of_threads_gives_the_same(name: str, dtype: str) -> None:
    equation, *shapes = PRODUCTS[name]
    rng = np.random.default_rng(3)
    operands = [_filled(rng, shape, dtype) for shape in shapes]
    wanted = np.einsum(equation, *operands)
    with cv.enable_x64(True):
        given = [cv.numpy.asarray(x) for x in operands]
        f = cv.jit(lambda x, y: cv.numpy.einsum(equation, x, y))
        found = []
        for count in (1, 2, 5):
            threads.set_num_threads(count)
            found.append(np.asarray(f(*given)))
    scale = 1e-4 if dtype in ("float32", "complex64") else 1e-12
    np.testing.assert_allclose(found[0], wanted, rtol=scale, atol=40 * scale)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize(
    ("name", "along"),
    {
        "rows": product.ROWS, "columns": product.COLUMNS, "batch": product.BATCH,
        "few large products": product.ROWS,
    }.items(),
)  # fmt: skip
def test_what_is_cut(name: str, along: int) -> None:
    _, x, y = PRODUCTS[name]
    cut = product.cut("gemm", x[0] if len(x) == 3 else 1, x[-2], y[-1], x[-1])
    assert cut.along == along
    assert cut.quantum < cut.units


def test_small_products_stay_whole() -> None:
    for sizes in ((1, 8, 8, 8), (4, 8, 8, 8), (1, 128, 10, 64)):
        cut = product.cut("gemm", *sizes)
        assert cut.quantum >= cut.units
