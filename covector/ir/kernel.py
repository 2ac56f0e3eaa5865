"""The kernel contract: what a `kernel` rule may ask while it says what the value AT AN INDEX is.

A rule never sees loops.  It is given an index (a tuple of `Affine`, one per output axis) and
answers with a scalar expression (a tuple of them for an op with several results).  Where the
value lives (recomputed at each use, in row-local scratch, in a buffer) is the planner's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from covector.ir.index import Affine
from covector.ir.scalar import Expr


class Ask(Protocol):
    """The tools handed to `kernel`, `push` and `cumulate` rules.

    shapes: of the arguments, as tuples of Affine (constants, or run-time extents in eager
    kernels); dtypes: element type names of the arguments ('float32'); out_shapes, out_dtypes:
    of the results.
    """

    shapes: tuple[tuple[Affine, ...], ...]
    dtypes: tuple[str, ...]
    out_shapes: tuple[tuple[Affine, ...], ...]
    out_dtypes: tuple[str, ...]

    def at(self, k: int, index: Sequence[Any]) -> Expr:
        """Argument `k` at `index` (Affines, axis names or ints), which must be in bounds."""
        ...

    def fold(
        self,
        kind: str,
        extents: Sequence[Affine],
        body: Callable[[Sequence[Affine]], Expr | tuple[Expr, ...]],
        init: Expr | None = None,
    ) -> Any:
        """The reduction of `body(k)` over every `k` of `extents` by `kind` (see COMBINE of the
        loop program); 'argmax'/'argmin' take and give a (value, index) pair."""
        ...

    def piece(self, i: Affine, lengths: Sequence[Any]) -> tuple[int, Affine]:
        """Which of the pieces [0, lengths[0]), [lengths[0], lengths[0] + lengths[1]), … holds `i`,
        over the whole domain, and where that piece begins; len(lengths) if past the last.
        The domain is cut where the answer would differ."""
        ...

    def divmod(self, i: Affine, n: Any) -> tuple[Affine, Affine]:
        """(i div n, i mod n); the domain is re-factored where that removes them."""
        ...

    def data(self, value: Expr) -> Affine:
        """An index read from memory: an integer expression, which must be in bounds."""
        ...

    def index(self, i: Affine, dtype: str) -> Expr:
        """The number `i` itself, as an element of `dtype`."""
        ...
