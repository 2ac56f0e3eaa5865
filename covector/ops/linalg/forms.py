"""Condensed forms of square matrices under unitary similarity: Schur's triangle, Hessenberg's,
tridiagonal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Library, Sample
from covector.ir.values import typeof
from covector.ops.linalg import parts
from covector.ops.linalg.parts import Factorisation


def _prepare(x: np.ndarray) -> list[np.ndarray]:
    return [parts.dominant(x)]


class Schur(Factorisation):
    """[t, z] with a = z t zᴴ, or [t]: z is unitary, t an upper triangle.

    Of real matrices t may have blocks of 2 x 2 on its diagonal, for conjugate pairs of values.
    All is NaN where an element isn't finite.
    """

    name = "schur"
    compute_schur_vectors: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`."""
        parts.check_matrices(self.name, a, square=True)
        return (a.strong(),) * (1 + self.compute_schur_vectors)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """scipy.linalg.schur."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            return list(parts.scipy_linalg().schur(a))[: 1 + self.compute_schur_vectors]

        outs = self.result(ShapedArray(a.shape, a.dtype))
        if not a.size:
            return [np.zeros(o.shape, o.dtype) for o in outs]
        return parts.each(parts.guarded(one), [2], outs, a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """None is known here."""
        parts.refuse_derivative(self.name, "the vectors' signs and order are LAPACK's choice")

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's gees."""
        return Library("schur", (self.compute_schur_vectors,)) if a.size else None

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's gees."""
        aval = writer.aval(a)
        if not aval.size:
            return writer.lower(self.decompose, [a])
        values = ShapedArray(aval.shape[:-1], aval.dtype)
        ok = parts.info(aval.shape[:-2])
        count = 1 if parts.is_complex(aval) else 2
        outs = [(aval, 2), (aval, 2), *((values, 1),) * count, ok, ok]
        mode = "V" if self.compute_schur_vectors else "N"
        found = parts.lapack(writer, "gees", [a], outs, [2], mode=mode, sort="N")
        kept = found[: 1 + self.compute_schur_vectors]
        return [parts.nan_where_failed(writer, found[-1], x) for x in kept]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every dtype, with vectors and without, batches, one element, none."""
        for vectors, names in ((True, tuple(parts.LETTERS)), (False, ("float32", "complex128"))):
            for aval in parts.avals((4, 4), *names):
                yield Sample(Schur(vectors), (aval,), smooth=False, scale=100.0, prepare=_prepare,
                             view=_rebuilt)  # fmt: skip
        for shape in ((2, 3, 3), (1, 1), (0, 0)):
            yield Sample(Schur(), (ShapedArray(shape, "float32"),), smooth=False, scale=100.0,
                         prepare=_prepare, view=_rebuilt)  # fmt: skip
        turn = np.array([[[1, 2, 0], [-2, 1, 0], [0.5, 0, 4]]], np.float32)
        yield Sample(Schur(), (turn,), smooth=False, scale=100.0, view=_rebuilt)


def _rebuilt(t: np.ndarray, *z: np.ndarray) -> list[np.ndarray]:
    """What doesn't depend on signs."""
    return parts.rebuilt(z[0], t) if z else [np.abs(t)]


class Hessenberg(Factorisation):
    """[packed, taus]: Hessenberg's form on and above the first subdiagonal, and below it the
    reflections that lead there, as `Geqrf` packs them, one row lower."""

    name = "hessenberg"

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`, and vectors of n - 1 elements."""
        parts.check_matrices(self.name, a, square=True)
        *batch, n, _ = a.shape
        return a.strong(), ShapedArray((*batch, max(n - 1, 0)), a.dtype)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """LAPACK's gehrd, through SciPy."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            if len(a) < 2:
                return [a, np.zeros(0)]
            packed, taus, _ = parts.scipy_linalg().get_lapack_funcs("gehrd", [a])(a)
            return [packed, taus]

        return parts.each(one, [2], self.result(ShapedArray(a.shape, a.dtype)), a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """None is known here."""
        parts.refuse_derivative(self.name, "its reflections are a means")

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's gehrd."""
        return Library("hessenberg") if a.size and a.shape[-1] > 1 else None

    def decompose(self, a: Any) -> list[Any]:
        """One element is of that form."""
        return [a, ops.shape.zeros(self.result(typeof(a))[1])]

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's gehrd."""
        aval = writer.aval(a)
        if not aval.size or aval.shape[-1] < 2:
            return writer.lower(self.decompose, [a])
        packed, taus = self.result(aval)
        outs = [(packed, 2), (taus, 1), parts.info(aval.shape[:-2])]
        found = parts.lapack(writer, "gehrd", [a], outs, [2], low=1, high=aval.shape[-1])
        return [parts.nan_where_failed(writer, found[-1], x) for x in found[:2]]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every dtype, batches, one element, none."""
        for aval in parts.avals((4, 4)):
            yield Sample(Hessenberg(), (aval,), smooth=False, scale=100.0)
        for shape in ((2, 3, 3), (2, 2), (2, 1, 1), (0, 0)):
            yield Sample(Hessenberg(), (ShapedArray(shape, "float32"),), smooth=False, scale=100.0)


class Tridiagonal(Factorisation):
    """[packed, d, e, taus] of Hermitian matrices: the diagonal `d` and the next one `e`, real, of
    the tridiagonal form; reflections that lead there in `packed` and `taus`.

    Only the lower (or upper) triangle is read and written.
    """

    name = "tridiagonal"
    lower: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`, real vectors, vectors."""
        parts.check_matrices(self.name, a, square=True)
        *batch, n, _ = a.shape
        real, short = parts.real_dtype(a.dtype), (*batch, max(n - 1, 0))
        return (
            a.strong(), ShapedArray((*batch, n), real), ShapedArray(short, real),
            ShapedArray(short, a.dtype),
        )  # fmt: skip

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """LAPACK's sytrd or hetrd, through SciPy."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            if len(a) < 2:
                return [a, np.real(np.diag(a)), np.zeros(0), np.zeros(0)]
            name = "hetrd" if a.dtype.kind == "c" else "sytrd"
            routine = parts.scipy_linalg().get_lapack_funcs(name, [a])
            *found, _ = routine(a, lower=int(self.lower))
            return found

        return parts.each(one, [2], self.result(ShapedArray(a.shape, a.dtype)), a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """None is known here."""
        parts.refuse_derivative(self.name, "its reflections are a means")

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's sytrd or hetrd."""
        return Library("tridiagonal", (self.lower,)) if a.size and a.shape[-1] > 1 else None

    def decompose(self, a: Any) -> list[Any]:
        """One element is of that form."""
        _, _, e, taus = self.result(typeof(a))
        return [a, parts.real(parts.diagonal(a)), ops.shape.zeros(e), ops.shape.zeros(taus)]

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's sytrd or hetrd."""
        aval = writer.aval(a)
        if not aval.size or aval.shape[-1] < 2:
            return writer.lower(self.decompose, [a])
        packed, d, e, taus = self.result(aval)
        outs = [(packed, 2), (d, 1), (e, 1), (taus, 1), parts.info(aval.shape[:-2])]
        uplo = "L" if self.lower else "U"
        found = parts.lapack(writer, "sytrd", [a], outs, [2], uplo=uplo)
        return [parts.nan_where_failed(writer, found[-1], x) for x in found[:4]]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both triangles, every dtype, batches, one element, none."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [x + np.conj(np.swapaxes(x, -1, -2))]

        for lower in (True, False):
            for aval in parts.avals((4, 4)):
                yield Sample(
                    Tridiagonal(lower), (aval,), smooth=False, scale=100.0, prepare=prepare
                )
        for shape in ((2, 3, 3), (2, 2), (2, 1, 1), (0, 0)):
            yield Sample(Tridiagonal(), (ShapedArray(shape, "float32"),), smooth=False, scale=100.0,
                         prepare=prepare)  # fmt: skip
