"""Quotients by gaps of eigenvalues, whose own derivatives see equal values as one space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.config import config
from covector.ir.avals import ShapedArray
from covector.ir.op import Linear, Sample
from covector.ir.values import typeof
from covector.ops.linalg import parts
from covector.ops.linalg.parts import MatrixOp, adjoint, matmul


class SpectralQuotient(MatrixOp):
    """`x` with x Λ - c Λ x = r, where Λ = leftᴴ a right is diag(w): r[i, j] / (w[j] - c w[i]).

    It is 0 where the denominator is 0: for c = 1 also between values equal up to rounding.  Λ
    stands for more than its diagonal: a perturbation of `a` makes it a full matrix within the space
    of equal values, whose basis is arbitrary, and the derivative follows that; so derivatives of
    any order of results that don't depend on the basis are right.  With respect to `left`, `right`
    and `w`, which are made of `a`, there is none.  Unless `guarded`, only the diagonal is 0.
    """

    name = "spectral_quotient"
    arity = 5
    c: int
    conjugate: bool = False
    guarded: bool = True

    def result(
        self, left: ShapedArray, a: ShapedArray, right: ShapedArray, w: ShapedArray, r: ShapedArray
    ) -> ShapedArray:
        """The type of `r`."""
        parts.check_matrices(self.name, r, argument="r")
        parts.check_batch(self.name, (2, 2, 2, 1, 2), left, a, right, w, r)
        k = w.shape[-1]
        if r.shape[-1] != k or (self.c and r.shape[-2] != k):
            raise TypeError(
                f"{self.name}: r must have {k} columns{' and rows' if self.c else ''}, one for "
                f"each value of w of {w.str_short()}; got {r.str_short()}"
            )
        return r.strong()

    def numpy(self, left: Any, a: Any, right: Any, w: Any, r: Any) -> np.ndarray:
        """The quotient, guarded."""
        gaps = w[..., None, :] - self.c * (w[..., :, None] if self.c else 0)
        size = np.abs(w).max(-1, initial=0)[..., None, None]
        slack = max(w.shape[-1], 10) * np.finfo(w.dtype).eps * size if self.c == 1 else 0
        none = np.abs(gaps) <= slack
        if not self.guarded:
            none = np.broadcast_to(np.eye(*gaps.shape[-2:], dtype=bool) & (self.c == 1), gaps.shape)
        return np.where(none, 0, r / np.where(none, 1, gaps)).astype(r.dtype)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The quotient of dr - x dΛ + c dΛ x, where dΛ is that of each space of equal values."""
        left, _, right, w, _ = primals
        x, (_, da, _, _, dr) = self(*primals), tangents
        if da is None:
            return x, None if dr is None else self(*primals[:4], dr)
        point = ops.pointwise
        change = parts.symmetrized(matmul(matmul(adjoint(left), da), right))
        change = parts.where(self._equal(w), change, 0)
        change = parts.conj(change) if self.conjugate else change
        side = point.neg(matmul(x, change))
        if self.c:
            turned = matmul(change, x)
            side = point.add(side, turned) if self.c > 0 else point.sub(side, turned)
        side = side if dr is None else point.add(dr, side)
        return x, self(*primals[:4], side)

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """Itself, with the transpose of Λ, which is its conjugate."""
        if any(isinstance(x, Linear) for x in args[:4]):
            raise NotImplementedError("spectral_quotient is linear in r alone: no transpose")
        flipped = self.with_params(conjugate=not self.conjugate)
        return [None, None, None, None, flipped(*args[:4], ct)]

    def decompose(self, left: Any, a: Any, right: Any, w: Any, r: Any) -> Any:
        """A product with guarded reciprocals."""
        point, rows = ops.pointwise, typeof(r).shape[-2]
        if self.c == 1:
            over = parts.inverse_gaps(w, self.guarded)
        else:
            sums = parts.as_rows(w, rows)
            sums = point.add(sums, parts.as_columns(w, rows)) if self.c else sums
            over = _reciprocal(sums) if self.guarded else point.reciprocal(sums)
        return point.mul(r, parts.as_dtype_of(over, r))

    def _equal(self, w: Any) -> Any:
        """Which pairs of values are one space: the diagonal alone unless `guarded`."""
        gaps = parts.inverse_gaps(w, self.guarded)
        return ops.pointwise.eq(gaps, ops.families.like(gaps, 0))

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(parts.listed(self.decompose), operands)[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every form, distinct and equal values, a batch, complex; the spectrum is constant."""
        w = np.array([[1.0, 2.0, 2.0], [0.0, 0.5, 4.0]])
        for dtype in ("float64", "complex128"):
            v = np.broadcast_to(np.eye(3, dtype=dtype), (2, 3, 3)).copy()
            a = (v * w[:, None, :]).astype(dtype)
            for c in (1, 0, -1):
                r = ShapedArray((2, 3, 3) if c else (2, 2, 3), dtype)
                yield Sample(SpectralQuotient(c), (v, a, v, w, r), scale=20.0)
                if dtype == "complex128" and c:
                    r = ShapedArray((3, 3), dtype)
                    yield Sample(SpectralQuotient(c, True), (v[0], a[0], v[0], w[0], r))


def _reciprocal(x: Any) -> Any:
    none = ops.pointwise.eq(x, ops.families.like(x, 0))
    return parts.where(none, 0, ops.pointwise.reciprocal(parts.where(none, 1, x)))


def quotient(c: int, left: Any, a: Any, right: Any, w: Any, r: Any) -> Any:
    """See `SpectralQuotient`; guarded unless the option singular_derivatives is 'ieee'."""
    guarded = config.singular_derivatives != "ieee"
    return SpectralQuotient(c, False, guarded)(left, a, right, w, r)
