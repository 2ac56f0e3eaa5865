"""Singular values and vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Sample
from covector.ir.values import typeof
from covector.ops.families import like
from covector.ops.linalg import parts
from covector.ops.linalg.parts import Factorisation, adjoint, matmul
from covector.ops.linalg.spectral import quotient


class Svd(Factorisation):
    """[s], or [s, u, vh] if `compute_uv`, with a = u diag(s) vh; s descends.

    Of m x n matrices, s has k = min(m, n) values; u is m x m and vh n x n if `full_matrices`, else
    m x k and k x n.  All is NaN where an element of `a` isn't finite.
    """

    name = "svd"
    full_matrices: bool = False
    compute_uv: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The shapes above; `s` is real."""
        parts.check_matrices(self.name, a)
        *batch, m, n = a.shape
        k = min(m, n)
        s = ShapedArray((*batch, k), parts.real_dtype(a.dtype))
        if not self.compute_uv:
            return (s,)
        left, right = (m, n) if self.full_matrices else (k, k)
        return (
            s, ShapedArray((*batch, m, left), a.dtype), ShapedArray((*batch, right, n), a.dtype)
        )  # fmt: skip

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """numpy.linalg.svd."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            if not self.compute_uv:
                return [np.linalg.svd(a, compute_uv=False)]
            u, s, vh = np.linalg.svd(a, full_matrices=self.full_matrices)
            return [s, u, vh]

        outs = self.result(ShapedArray(a.shape, a.dtype))
        return parts.each(parts.guarded(one), [2], outs, a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """With M = uᴴ da v: ds is its real diagonal; u and v turn, and move into what is orthogonal
        to them (Townsend 2016, Differentiating the singular value decomposition)."""
        outs, (t,) = self(*primals), tangents
        if t is None:
            return outs, [None] * len(outs)
        if not self.compute_uv:
            outs = Svd(False, True)(*primals)
        s, u, vh = outs
        m, n = typeof(t).shape[-2:]
        if self.compute_uv and self.full_matrices and m != n:
            raise NotImplementedError(
                "svd with full_matrices=True of a matrix that isn't square has no derivative, and "
                "so no transpose: the further vectors are arbitrary; use full_matrices=False"
            )
        inside = matmul(matmul(adjoint(u), t), adjoint(vh))
        ds = parts.real(parts.diagonal(inside))
        if not self.compute_uv:
            return [s], [ds]
        du, dvh = _turned(primals[0], s, u, vh, t, inside)
        return outs, [ds, du, dvh]

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's gesdd."""
        return Library("svd", (self.full_matrices, self.compute_uv)) if a.size else None

    def decompose(self, a: Any) -> list[Any]:
        """Of empty matrices: no values; any basis."""
        s, *vectors = self.result(typeof(a))
        return [
            ops.shape.zeros(s), *(parts.identity_like(ops.shape.zeros(v)) for v in vectors)
        ]  # fmt: skip

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's gesdd."""
        aval = writer.aval(a)
        if not aval.size:
            return writer.lower(self.decompose, [a])
        s, u, vh = Svd(self.full_matrices, True).result(aval)
        mode = "N" if not self.compute_uv else "A" if self.full_matrices else "S"
        outs = [(aval, 2), (s, 1), (u, 2), (vh, 2), parts.info(aval.shape[:-2])]
        _, *found, ok = parts.lapack(writer, "gesdd", [a], outs, [2], mode=mode)
        kept = found if self.compute_uv else found[:1]
        return [parts.nan_where_failed(writer, ok, x) for x in kept]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Square, tall, wide; full and not; values alone; every dtype; batches; none; NaN."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(x)]

        def sample(op: Svd, aval: ShapedArray) -> Sample:
            # LAPACK picks the phase of a complex vector: not a smooth one.
            smooth = aval.dtype.kind == "f" or not op.compute_uv
            smooth = smooth and not (op.full_matrices and aval.shape[-1] != aval.shape[-2])
            return Sample(op, (aval,), smooth=smooth, scale=100.0, prepare=prepare,
                          view=_rebuilt)  # fmt: skip

        for shape, names in (((5, 3), tuple(parts.LETTERS)), ((3, 5), ("float64", "complex64")),
                             ((3, 3), ("float64", "complex128"))):  # fmt: skip
            for aval in parts.avals(shape, *names):
                yield sample(Svd(False, True), aval)
        for aval in parts.avals((3, 3), "float64", "complex128"):
            yield sample(Svd(True, True), aval)
        for aval in parts.avals((3, 4)):
            yield sample(Svd(False, False), aval)
        yield sample(Svd(True, True), ShapedArray((4, 2), "float32"))
        yield sample(Svd(True, True), ShapedArray((2, 4), "complex64"))
        yield sample(Svd(False, True), ShapedArray((2, 2, 3, 3), "float32"))
        yield sample(Svd(False, False), ShapedArray((0, 3), "float32"))
        for op in (Svd(False, True), Svd(True, True)):
            yield sample(op, ShapedArray((3, 0), "float32"))
        bad = np.array([[[1, 2], [3, 4]], [[np.nan, 0], [0, 1]]], np.float32)
        yield Sample(Svd(False, False), (bad,), scale=100.0)


def _rebuilt(s: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
    """What doesn't depend on signs."""
    if not vectors:
        return [s]
    u, vh = vectors
    k = s.shape[-1]
    full = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    back, forth = (np.conj(np.swapaxes(x, -1, -2)) for x in vectors)
    return [s, full, back @ u, vh @ forth]


def _turned(a: Any, s: Any, u: Any, vh: Any, t: Any, inside: Any) -> tuple[Any, Any]:
    """The tangents of `u` and `vh`.

    u turns by P and v by Q: with E = (P + Q) / 2, E s - s E is the Hermitian part of M but for
    its diagonal, and with D = (P - Q) / 2, D s + s D is the skew one.
    """
    point = ops.pointwise
    v = adjoint(vh)
    spectrum = (u, a, v, s)
    half = point.mul(inside, like(inside, 0.5))
    total = quotient(1, *spectrum, point.add(half, adjoint(half)))
    difference = quotient(-1, *spectrum, point.sub(half, adjoint(half)))
    du = matmul(u, point.add(total, difference))
    dv = matmul(v, point.sub(total, difference))
    m, n = typeof(u).shape[-2], typeof(vh).shape[-1]
    k = typeof(s).shape[-1]
    if m > k:
        du = point.add(du, quotient(0, *spectrum, _outside(matmul(t, v), u)))
    if n > k:
        dv = point.add(dv, quotient(0, *spectrum, _outside(matmul(adjoint(t), u), v)))
    return du, adjoint(dv)


def _outside(x: Any, basis: Any) -> Any:
    """What of the columns is orthogonal to a basis."""
    return ops.pointwise.sub(x, matmul(basis, matmul(adjoint(basis), x)))
