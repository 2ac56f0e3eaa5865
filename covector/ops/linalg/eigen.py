"""Eigenvalues and eigenvectors, of Hermitian and of any square matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.config import config
from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Sample
from covector.ir.values import typeof
from covector.ops.linalg import parts
from covector.ops.linalg.lu import solve
from covector.ops.linalg.parts import INT32, Factorisation, adjoint, matmul
from covector.ops.linalg.spectral import quotient


class Eigh(Factorisation):
    """[v, w] with a v = v diag(w), or [w] unless `compute_vectors`: w ascends, v is unitary.

    Only the lower (or upper) triangle of the Hermitian `a` is read.  All is NaN where an element
    isn't finite.
    """

    name = "eigh"
    lower: bool = True
    compute_vectors: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`, and real vectors."""
        parts.check_matrices(self.name, a, square=True)
        w = ShapedArray(a.shape[:-1], parts.real_dtype(a.dtype))
        return (a.strong(), w) if self.compute_vectors else (w,)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """numpy.linalg.eigh."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            w, v = np.linalg.eigh(a, "L" if self.lower else "U")
            return [v, w] if self.compute_vectors else [w]

        outs = self.result(ShapedArray(a.shape, a.dtype))
        return parts.each(parts.guarded(one), [2], outs, a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """With M = vᴴ da v: dw is its diagonal, dv = v (F ∘ M), F of 1 / (w[j] - w[i])."""
        outs, (t,) = self(*primals), tangents
        if t is None:
            return outs, [None] * len(outs)
        v, w = outs if self.compute_vectors else Eigh(self.lower)(*primals)
        inside = matmul(adjoint(v), matmul(parts.hermitian(t, self.lower), v))
        dw = parts.real(parts.diagonal(inside))
        if not self.compute_vectors:
            return [w], [dw]
        full = parts.hermitian(primals[0], self.lower)
        turn = quotient(1, v, full, v, w, inside)
        return outs, [matmul(v, turn), dw]

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's syevd or heevd."""
        return Library("eigh", (self.lower, self.compute_vectors)) if a.size else None

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's syevd or heevd."""
        aval = writer.aval(a)
        if not aval.size:
            return writer.lower(self.decompose, [a])
        w = self.result(aval)[-1]
        outs = [(aval, 2), (w, 1), parts.info(aval.shape[:-2])]
        mode, uplo = "V" if self.compute_vectors else "N", "L" if self.lower else "U"
        *found, ok = parts.lapack(writer, "syevd", [a], outs, [2], mode=mode, uplo=uplo)
        kept = found if self.compute_vectors else found[1:]
        return [parts.nan_where_failed(writer, ok, x) for x in kept]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both triangles, values alone, every dtype, batches, one element, none, NaN."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(x)]

        for lower, names in ((True, tuple(parts.LETTERS)), (False, ("float64", "complex64"))):
            for aval in parts.avals((4, 4), *names):
                # LAPACK picks the phase of a complex vector: not a smooth one.
                yield Sample(Eigh(lower), (aval,), smooth=aval.dtype.kind == "f", scale=100.0,
                             prepare=prepare, view=parts.rebuilt)  # fmt: skip
                if lower:
                    yield Sample(Eigh(lower, False), (aval,), scale=100.0, prepare=prepare)
        for shape in ((2, 2, 3, 3), (1, 1), (0, 0), (2, 0, 3, 3)):
            for vectors in (True, False)[: 1 + (shape == (0, 0))]:
                aval = ShapedArray(shape, "float32")
                yield Sample(Eigh(True, vectors), (aval,), scale=100.0, prepare=prepare,
                             view=parts.rebuilt if vectors else None)  # fmt: skip
        bad = np.array([[[1, 2], [2, 4]], [[np.nan, 0], [np.nan, np.nan]]], np.float32)
        yield Sample(Eigh(), (bad,), scale=100.0, view=parts.rebuilt)


class Eig(Factorisation):
    """[w, vl, vr] of any square matrix, all complex: a vr = vr diag(w), vlᴴ a = diag(w) vlᴴ.

    Vectors are columns of length 1 whose largest element is real.  `vl`, `vr` are there as asked
    for.  All is NaN where an element isn't finite.
    """

    name = "eig"
    compute_left_eigenvectors: bool = True
    compute_right_eigenvectors: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """Complex vectors and matrices."""
        parts.check_matrices(self.name, a, square=True)
        dtype = parts.complex_dtype(a.dtype)
        count = self.compute_left_eigenvectors + self.compute_right_eigenvectors
        return (ShapedArray(a.shape[:-1], dtype), *(ShapedArray(a.shape, dtype),) * count)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """scipy.linalg.eig."""
        left, right = self.compute_left_eigenvectors, self.compute_right_eigenvectors

        def one(a: np.ndarray) -> list[np.ndarray]:
            if not left and not right:
                return [parts.scipy_linalg().eigvals(a).astype(parts.complex_dtype(a.dtype))]
            found = parts.scipy_linalg().eig(a, left=left, right=right)
            return [x.astype(parts.complex_dtype(a.dtype)) for x in found]

        outs = self.result(ShapedArray(a.shape, a.dtype))
        if not a.size:
            return [np.zeros(o.shape, o.dtype) for o in outs]
        return parts.each(parts.guarded(one), [2], outs, a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """With M = v⁻¹ da v: dw is its diagonal, dv = v (F ∘ M) up to each column's factor, which
        keeps its length and its phase."""
        outs, (t,) = self(*primals), tangents
        if t is None:
            return outs, [None] * len(outs)
        if not typeof(t).size:
            return outs, [None] * len(outs)
        left, right = self.compute_left_eigenvectors, self.compute_right_eigenvectors
        t = ops.cast.convert_element_type(t, typeof(outs[0]).dtype)
        w, *vectors = outs
        v = vectors[-1] if right else Eig(False, True)(*primals)[1]
        inside = solve(v, matmul(t, v))
        tangents = [parts.diagonal(inside)]
        if left:  # the right ones of aᴴ, whose values are conjugate
            vl = vectors[0]
            other = solve(vl, matmul(adjoint(t), vl))
            tangents.append(_moved(vl, parts.conj(w), other))
        if right:
            tangents.append(_moved(v, w, inside))
        return outs, tangents

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's geev."""
        flags = self.compute_left_eigenvectors, self.compute_right_eigenvectors
        return Library("eig", flags) if a.size else None

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's geev."""
        aval = writer.aval(a)
        if not aval.size:
            return writer.lower(self.decompose, [a])
        left, right = self.compute_left_eigenvectors, self.compute_right_eigenvectors
        w, v, _ = Eig().result(aval)
        half = ShapedArray(w.shape, parts.real_dtype(aval.dtype))
        values = [(w, 1)] if parts.is_complex(aval) else [(half, 1), (half, 1)]
        outs = [*values, (v, 2), (v, 2), parts.info(aval.shape[:-2])]
        *found, ok = parts.lapack(
            writer, "geev", [a], outs, [2],
            compute_left="V" if left else "N", compute_right="V" if right else "N",
        )  # fmt: skip
        vectors = found[-2:]
        total = found[0]
        if not parts.is_complex(aval):
            total = writer.emit("stablehlo.complex", found[:2], w)
        kept = [total, *vectors[:1][: int(left)], *vectors[1:][: int(right)]]
        return [parts.nan_where_failed(writer, ok, x) for x in kept]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Real and complex values, every choice of vectors, every dtype, batches, none, NaN."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(x)]

        for aval in parts.avals((4, 4)):
            yield Sample(Eig(), (aval,), scale=200.0, prepare=prepare)
        for k, aval in enumerate(parts.avals((3, 3))):
            op = Eig(k in (0, 3), k == 1)
            yield Sample(op, (aval,), scale=200.0, prepare=prepare)
        for shape in ((2, 3, 3), (1, 1), (0, 0), (0, 3, 3)):
            aval = ShapedArray(shape, "float32")
            yield Sample(Eig(), (aval,), scale=200.0, prepare=prepare)
        turn = np.array(
            [[[1, 2, 0], [-2, 1, 0], [0.5, 0, 4]], [[np.nan, 0, 0], [0, 1, 0], [0, 0, 1]]]
        )
        yield Sample(Eig(), (turn,), scale=200.0)


def _moved(v: Any, w: Any, inside: Any) -> Any:
    """The tangent of eigenvectors `v` of values `w`, from M = v⁻¹ da v."""
    point, rows = ops.pointwise, typeof(v).shape[-2]
    gaps = parts.inverse_gaps(w, config.singular_derivatives != "ieee")
    raw = matmul(v, point.mul(gaps, inside))
    ndim = typeof(v).ndim
    size = parts.absolute(v)
    place = ops.reduce.argmax(size, ndim - 2, INT32)
    number, _ = parts.rows_and_columns(v)
    here = point.eq(number, parts.as_rows(place, rows))

    def largest(x: Any) -> Any:
        return ops.reduce.reduce_sum(parts.where(here, x, 0), (ndim - 2,))

    overlap = ops.reduce.reduce_sum(point.mul(parts.conj(v), raw), (ndim - 2,))
    turn = point.div(largest(raw), largest(v))
    factor = point.complex_(point.real(overlap), point.imag(turn))
    return point.sub(raw, parts.scale_columns(v, factor))
