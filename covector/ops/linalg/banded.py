"""Systems whose matrix has three diagonals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Linear, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.linalg import parts
from covector.ops.linalg.parts import MatrixOp


class TridiagonalSolve(MatrixOp):
    """`x` with dl[i] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]; dl[0] and du[-1] are not read.

    Diagonals are vectors of n elements, b and x matrices of n rows.  Solved with pivoting; NaN
    where the matrix is singular.
    """

    name = "tridiagonal_solve"
    arity = 4

    def result(
        self, dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray
    ) -> ShapedArray:
        """The type of `b`."""
        _check.same_dtype(self.name, (dl, d, du, b))
        parts.check_matrices(self.name, b, argument="b")
        if any(v.shape != b.shape[:-1] for v in (dl, d, du)):
            raise ValueError(
                f"{self.name}: the diagonals must have shape {b.shape[:-1]}, as b of "
                f"{b.str_short()} says; got {', '.join(v.str_short() for v in (dl, d, du))}"
            )
        return b.strong()

    def numpy(self, dl: Any, d: Any, du: Any, b: Any) -> np.ndarray:
        """numpy.linalg.solve of the full matrix."""

        def one(dl: Any, d: Any, du: Any, b: Any) -> list[np.ndarray]:
            full = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
            try:
                return [np.linalg.solve(full, b)]
            except np.linalg.LinAlgError:
                return [np.full_like(b, np.nan)]

        outs = [ShapedArray(b.shape, b.dtype)]
        return parts.each(one, [1, 1, 1, 2], outs, dl, d, du, b)[0] if b.size else b

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The solution for db - dT x."""
        *diagonals, b = primals
        x = self(*diagonals, b)
        point, side = ops.pointwise, tangents[3]
        for t, step in zip(tangents[:3], (-1, 0, 1), strict=True):
            if t is not None:
                part = parts.scale_rows(t, _shifted(x, step, 2))
                side = point.neg(part) if side is None else point.sub(side, part)
        return x, None if side is None else self(*diagonals, side)

    def transpose(self, tools: Any, ct: Any, dl: Any, d: Any, du: Any, b: Any) -> list[Any]:
        """The transposed system."""
        if any(isinstance(v, Linear) for v in (dl, d, du)):
            raise NotImplementedError(
                "tridiagonal_solve is not linear in the diagonals: no transpose"
            )
        return [None, None, None, self(_shifted(du, -1, 1), d, _shifted(dl, 1, 1), ct)]

    def library(self, *avals: ShapedArray) -> Library | None:
        """LAPACK's gtsv."""
        return Library("tridiagonal_solve") if avals[3].size else None

    def decompose(self, dl: Any, d: Any, du: Any, b: Any) -> Any:
        """Nothing of nothing."""
        return b

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """LAPACK's gtsv."""
        avals = [writer.aval(x) for x in operands]
        if not avals[3].size:
            return operands[3]
        core = [1, 1, 1, 2]
        outs = [*zip(avals, core, strict=True), parts.info(avals[1].shape[:-1])]
        found = parts.lapack(writer, "gtsv", operands, outs, core)
        return parts.nan_where_failed(writer, found[4], found[3])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every dtype, batches, few rows, none."""

        def prepare(dl: Any, d: Any, du: Any, b: Any) -> list[np.ndarray]:
            return [dl, (d + 5).astype(d.dtype), du, b]

        for name in parts.LETTERS:
            v, b = ShapedArray((5,), name), ShapedArray((5, 2), name)
            yield Sample(TridiagonalSolve(), (v, v, v, b), scale=20.0, prepare=prepare)
        for shape in ((2, 3, 4, 2), (1, 1), (2, 1), (0, 2)):
            v, b = ShapedArray(shape[:-1], "float32"), ShapedArray(shape, "float32")
            yield Sample(TridiagonalSolve(), (v, v, v, b), scale=20.0, prepare=prepare)


def _shifted(x: Any, step: int, back: int) -> Any:
    """`x[i + step]` at i along the axis `back` from the end; zeros beyond."""
    if step == 0 or not typeof(x).size:
        return x
    ndim = typeof(x).ndim
    axis = ndim - back
    change = (1, -1, 0) if step < 0 else (-1, 1, 0)
    return ops.pieces.pad(x, 0.0, [change if d == axis else (0, 0, 0) for d in range(ndim)])
