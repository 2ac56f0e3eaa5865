"""Contractions by our own tiles beside BLAS, by sizes: what `contraction.suits` decides by.

`python -m benchmarks.products [float64]` prints the table of docs/design/products.md anew, and
`python -m benchmarks.products made` that of products whose left operand is made on the way.  Both
ways are measured in turns, in this process, on as many threads as COVECTOR_NUM_THREADS says; a
figure is the least of many (of one thread: of its own time, whatever else the machine does).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import covector as cv
from covector.backends.cpu.library import contraction
from covector.compiler import prologue

#: equation, shapes of the operands.
PRODUCTS: Final = {
    "16": ("ij,jk->ik", (16, 16), (16, 16)),
    "32": ("ij,jk->ik", (32, 32), (32, 32)),
    "64": ("ij,jk->ik", (64, 64), (64, 64)),
    "128": ("ij,jk->ik", (128, 128), (128, 128)),
    "256": ("ij,jk->ik", (256, 256), (256, 256)),
    "512": ("ij,jk->ik", (512, 512), (512, 512)),
    "1024": ("ij,jk->ik", (1024, 1024), (1024, 1024)),
    "2048": ("ij,jk->ik", (2048, 2048), (2048, 2048)),
    "256, left transposed": ("ji,jk->ik", (256, 256), (256, 256)),
    "256, right transposed": ("ij,kj->ik", (256, 256), (256, 256)),
    "1024, left transposed": ("ji,jk->ik", (1024, 1024), (1024, 1024)),
    "1024, right transposed": ("ij,kj->ik", (1024, 1024), (1024, 1024)),
    "8 x 1024 x 1024": ("ij,jk->ik", (8, 1024), (1024, 1024)),
    "32 x 1024 x 1024": ("ij,jk->ik", (32, 1024), (1024, 1024)),
    "128 x 1024 x 1024": ("ij,jk->ik", (128, 1024), (1024, 1024)),
    "8 x 256 x 256": ("ij,jk->ik", (8, 256), (256, 256)),
    "32 x 256 x 256": ("ij,jk->ik", (32, 256), (256, 256)),
    "128 x 784 x 512": ("ij,jk->ik", (128, 784), (784, 512)),
    "784 x 128 x 512, left transposed": ("ji,jk->ik", (128, 784), (128, 512)),
    "128 x 512 x 10": ("ij,jk->ik", (128, 512), (512, 10)),
    "1024 x 256 x 1024": ("ij,jk->ik", (1024, 256), (256, 1024)),
    "1024 x 1024 x 256": ("ij,jk->ik", (1024, 1024), (1024, 256)),
    "10,000 x 32 x 32": ("ij,jk->ik", (10_000, 32), (32, 32)),
    "10,000 x 64 x 2": ("ij,jk->ik", (10_000, 64), (64, 2)),
    "1024 x 1024 x 4": ("ij,jk->ik", (1024, 1024), (1024, 4)),
    "300 x 4000 x 3": ("ij,jk->ik", (300, 4000), (4000, 3)),
    "1000 x 4 x 1000": ("ij,jk->ik", (1000, 4), (4, 1000)),
    "1000 of 5 x 33 x 7": ("bij,bjk->bik", (1000, 5, 33), (1000, 33, 7)),
    "1000 of 16": ("bij,bjk->bik", (1000, 16, 16), (1000, 16, 16)),
    "1000 of 32": ("bij,bjk->bik", (1000, 32, 32), (1000, 32, 32)),
    "64 of 128": ("bij,bjk->bik", (64, 128, 128), (64, 128, 128)),
    "64 of 128 x 32 x 128, right transposed": ("bij,bkj->bik", (64, 128, 32), (64, 128, 32)),
    "64 of 128 x 128 x 32": ("bij,bjk->bik", (64, 128, 128), (64, 128, 32)),
    "two axes of sums, which do not merge": ("bhqd,hdw->bqw", (8, 8, 128, 32), (8, 32, 256)),
}
#: What makes the left operand, shapes: of both operands, of a vector.
MADE: Final[dict[str, tuple[Callable[..., Any], tuple[int, int], tuple[int, int]]]] = {
    "scale, 100,000 x 64 x 16": (lambda x, s: x * s, (100_000, 64), (64, 16)),
    "scale, 16,384 x 64 x 64": (lambda x, s: x * s, (16_384, 64), (64, 64)),
    "scale, 8192 x 256 x 256": (lambda x, s: x * s, (8192, 256), (256, 256)),
    "scale, 2048 x 1024 x 256": (lambda x, s: x * s, (2048, 1024), (1024, 256)),
    "scale, 1024 x 1024 x 4": (lambda x, s: x * s, (1024, 1024), (1024, 4)),
    "tanh, 16,384 x 64 x 64": (lambda x, s: cv.numpy.tanh(x), (16_384, 64), (64, 64)),
    "mask, 8192 x 256 x 256": (lambda x, s: cv.numpy.where(s > 0, x, 0), (8192, 256), (256, 256)),
    "softmax, 8192 x 128 x 32": (lambda x, s: cv.nn.softmax(x), (8192, 128), (128, 32)),
    "from bfloat16, 100,000 x 64 x 16": (lambda x, s: x.astype(s.dtype), (100_000, 64), (64, 16)),
}  # fmt: skip
#: Seconds for each row.
PATIENCE: Final = 2.0


def main(dtype: str) -> None:
    """Prints the table."""
    cv.config.update("enable_x64", True)
    cv.config.update("enable_compilation_cache", False)  # or one would be served as the other
    decides = contraction.suits
    print("| product | BLAS | tiles | ratio | used |\n| --- | --- | --- | --- | --- |")
    for name, (equation, *shapes) in PRODUCTS.items():
        rng = np.random.default_rng(0)
        operands = [cv.numpy.asarray(rng.normal(size=s).astype(dtype)) for s in shapes]
        chosen: list[bool] = []

        def asked(*given: Any, into: list[bool] = chosen) -> bool:
            into.append(decides(*given))
            return False

        functions = []
        for suits in (asked, lambda *_: True):
            contraction.suits = suits  # type: ignore[assignment]
            functions.append(_compiled(equation, operands, len(functions)))
        blas, tiles = _measured(functions, operands)
        used = "tiles" if chosen and chosen[0] else "BLAS"
        print(f"| {name} | {_shown(blas)} | {_shown(tiles)} | {tiles / blas:.2f} | {used} |")
    contraction.suits = decides


def made() -> None:
    """Prints the table of operands that are made on the way."""
    cv.config.update("enable_compilation_cache", False)
    ahead, lead = prologue.ahead, prologue.lead
    print("| product | before | on the way | ratio |\n| --- | --- | --- | --- |")
    for name, (make, *shapes) in MADE.items():
        rng = np.random.default_rng(0)
        x, w, s = (
            cv.numpy.asarray(rng.normal(size=n).astype("float32")) for n in (*shapes, shapes[0][1:])
        )
        if name.startswith("from bfloat16"):
            x = x.astype("bfloat16")
        functions = []
        for joined in (False, True):
            prologue.ahead = ahead if joined else lambda steps: list(steps)
            prologue.lead = lead if joined else lambda program: program
            compiled = cv.jit(lambda x, w, s, make=make, joined=joined: (make(x, s) @ w, joined))
            cv.block_until_ready(compiled(x, w, s))
            functions.append(compiled)
        before, after = _measured(functions, [x, w, s])
        print(f"| {name} | {_shown(before)} | {_shown(after)} | {after / before:.2f} |")
    prologue.ahead, prologue.lead = ahead, lead


def _compiled(equation: str, operands: list[Any], which: int) -> Callable[..., Any]:
    def product(x: Any, y: Any) -> Any:
        return cv.numpy.einsum(equation, x, y), which  # the number makes it another function

    compiled = cv.jit(product)
    cv.block_until_ready(compiled(*operands))
    return compiled


def _measured(functions: list[Callable[..., Any]], operands: list[Any]) -> list[float]:
    """The least seconds of a call of each, taken in turns."""
    start = time.perf_counter()
    cv.block_until_ready(functions[0](*operands))
    rounds = max(1, int(2e-3 / (time.perf_counter() - start)))
    best = [float("inf")] * len(functions)
    clock = time.process_time if cv.num_threads() == 1 else time.perf_counter
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        for k, f in enumerate(functions):
            start = clock()
            result = f(*operands)
            for _ in range(rounds - 1):
                result = f(*operands)
            cv.block_until_ready(result)
            best[k] = min(best[k], (clock() - start) / rounds)
    return best


def _shown(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


if __name__ == "__main__":
    made() if sys.argv[1:] == ["made"] else main(*(sys.argv[1:] or ["float32"]))
