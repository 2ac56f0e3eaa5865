"""Cholesky's factor of a definite matrix, and systems whose matrix is a triangle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Library, Linear, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import like
from covector.ops.linalg import parts, small
from covector.ops.linalg.parts import MatrixOp, matmul, triangle


class Cholesky(MatrixOp):
    """The lower triangle L with L Lᴴ = a, of Hermitian positive definite matrices.

    Only the lower triangle of `a` is read.  L is NaN (its upper triangle 0) where `a` is not
    positive definite.
    """

    name = "cholesky"
    arity = 1
    transpose = Absent("not linear")

    def result(self, a: ShapedArray) -> ShapedArray:
        """The type of `a`."""
        parts.check_matrices(self.name, a, square=True)
        return a.strong()

    def numpy(self, a: np.ndarray) -> np.ndarray:
        """numpy.linalg.cholesky."""
        return parts.each(_cholesky, [2], [ShapedArray(a.shape, a.dtype)], a)[0]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """L Φ(L⁻¹ da L⁻ᴴ), where Φ is the lower triangle with half the diagonal
        (Murray 2016, Differentiation of the Cholesky decomposition)."""
        factor, (t,) = self(*primals), tangents
        if t is None:
            return factor, None
        full = parts.hermitian(t)
        inside = triangular_solve(factor, full, left_side=True, lower=True)
        inside = triangular_solve(
            factor, inside, lower=True, transpose_a=True, conjugate_a=parts.is_complex(factor)
        )
        half = ops.pointwise.mul(triangle(inside, lower=True), like(inside, 0.5))
        phi = ops.pointwise.add(half, triangle(half, lower=True, strict=True))
        return factor, matmul(factor, phi)

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's potrf."""
        return Library("cholesky") if a.size else None

    def per_matrix(self, a: small.Matrix) -> list[small.Matrix]:
        """Column after column."""
        return [small.cholesky(a)]

    def decompose(self, a: Any) -> Any:
        """Nothing of nothing."""
        return a

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's potrf, whose upper triangle is cleared."""
        aval = writer.aval(a)
        if not aval.size:
            return a
        factor, found = parts.lapack(
            writer, "potrf", [a], [(aval, 2), parts.info(aval.shape[:-2])], [2], uplo="L"
        )
        factor = parts.nan_where_failed(writer, found, factor)

        def clear(x: Any) -> list[Any]:
            return [triangle(x, lower=True)]

        return writer.lower(clear, [factor])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every dtype, batches, one element, none, matrices that are not definite."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.definite(x)]

        for aval in parts.avals((4, 4)):
            yield Sample(Cholesky(), (aval,), scale=20.0, prepare=prepare)
        for shape in ((2, 3, 5, 5), (1, 1), (0, 0), (2, 0, 3, 3)):
            yield Sample(Cholesky(), (ShapedArray(shape, "float32"),), scale=20.0, prepare=prepare)
        bad = np.array([[[4, 0], [2, 5]], [[1, 0], [2, 1]], [[np.nan, 0], [0, 1]]], np.float32)
        yield Sample(Cholesky(), (bad,), scale=20.0)


def _cholesky(a: np.ndarray) -> list[np.ndarray]:
    try:
        if not np.isfinite(a).all():
            raise np.linalg.LinAlgError
        return [np.linalg.cholesky(a)]
    except np.linalg.LinAlgError:
        nan = np.full(a.shape, np.nan, np.real(a).dtype) + np.zeros_like(a)
        return [np.tril(nan)]


class TriangularSolve(MatrixOp):
    """`x` with op(a) x = b, or x op(a) = b; `a` is the lower or the upper triangle of a matrix.

    op(a): as it is, transposed, conjugated, or both.  `unit_diagonal`: the diagonal is taken as
    ones.  Zeros on the diagonal give infinities and NaN.
    """

    name = "triangular_solve"
    arity = 2
    left_side: bool = False
    lower: bool = False
    transpose_a: bool = False
    conjugate_a: bool = False
    unit_diagonal: bool = False

    def result(self, a: ShapedArray, b: ShapedArray) -> ShapedArray:
        """The type of `b`."""
        _check.same_dtype(self.name, (a, b))
        parts.check_matrices(self.name, a, square=True, argument="a")
        parts.check_matrices(self.name, b, argument="b")
        parts.check_batch(self.name, (2, 2), a, b)
        if b.shape[-2 if self.left_side else -1] != a.shape[-1]:
            raise TypeError(
                f"{self.name}: with left_side={self.left_side}, b must have "
                f"{a.shape[-1]} {'rows' if self.left_side else 'columns'}, as many as "
                f"a of {a.str_short()}; got {b.str_short()}"
            )
        return b.strong()

    def numpy(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """scipy.linalg.solve_triangular."""

        def one(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
            if not b.size:
                return [b]
            a = np.tril(a) if self.lower else np.triu(a)
            if self.unit_diagonal:
                np.fill_diagonal(a, 1)
            a = np.conj(a) if self.conjugate_a else a
            a = a.T if self.transpose_a else a
            lower = self.lower != self.transpose_a
            solve = parts.scipy_linalg().solve_triangular
            if self.left_side:
                return [solve(a, b, lower=lower)]
            return [solve(a.T, b.T, lower=not lower).T]

        return parts.each(one, [2, 2], [ShapedArray(b.shape, b.dtype)], a, b)[0]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The solution for db - op(da) x."""
        (a, b), (da, db) = primals, tangents
        x = self(a, b)
        side = db
        if da is not None:
            moved = triangle(da, self.lower, strict=self.unit_diagonal)
            moved = parts.conj(moved) if self.conjugate_a else moved
            moved = parts.transposed(moved) if self.transpose_a else moved
            part = matmul(moved, x) if self.left_side else matmul(x, moved)
            side = ops.pointwise.neg(part) if db is None else ops.pointwise.sub(db, part)
        return x, None if side is None else self(a, side)

    def transpose(self, tools: Any, ct: Any, a: Any, b: Any) -> list[Any]:
        """The transposed system."""
        if isinstance(a, Linear):
            raise NotImplementedError("triangular_solve is not linear in the matrix: no transpose")
        return [None, self.with_params(transpose_a=not self.transpose_a)(a, ct)]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """One matrix for a batch of right sides: these are more columns (or rows) of one."""
        (a, b), (da, db) = args, dims
        if da is not None or db is None:
            return super().batch(tools, size, args, dims)
        shape, ndim = typeof(a).shape, typeof(b).ndim
        x = ops.shape.move_axis(b, db, ndim - 1 if self.left_side else ndim - 3)
        moved = typeof(x).shape
        if self.left_side:
            merged = (*moved[:-2], moved[-2] * size)
        else:
            merged = (*moved[:-3], size * moved[-2], moved[-1])
        if len(merged) != len(shape):
            raise AssertionError("as many axes as the matrix")
        out = ops.shape.reshape(self(a, ops.shape.reshape(x, merged)), moved)
        return out, len(moved) - 1 if self.left_side else len(moved) - 3

    def library(self, a: ShapedArray, b: ShapedArray) -> Library | None:
        """The trsm of BLAS, which has no conjugate that isn't transposed."""
        alone = self.conjugate_a and not self.transpose_a and parts.is_complex(a)
        if not b.size or alone:
            return None
        flags = (self.left_side, self.lower, self.transpose_a,
                 self.conjugate_a and parts.is_complex(a), self.unit_diagonal)  # fmt: skip
        return Library("triangular_solve", flags)

    def per_matrix(self, a: small.Matrix, b: small.Matrix) -> list[small.Matrix]:
        """Substitution, for each right side."""
        a = small.conjugated(a) if self.conjugate_a else a
        lower = self.lower != (self.transpose_a == self.left_side)
        if self.transpose_a == self.left_side:
            a = small.transposed(a)
        sides = small.transposed(b) if self.left_side else b
        found = [small.substituted(a, v, lower, self.unit_diagonal) for v in sides]
        return [small.transposed(found) if self.left_side else tuple(found)]

    def decompose(self, a: Any, b: Any) -> Any:
        """With the conjugate taken before."""
        if not typeof(b).size:
            return b
        return self.with_params(conjugate_a=False)(parts.conj(a), b)

    def stablehlo(self, writer: Any, a: Any, b: Any) -> Any:
        """stablehlo.triangular_solve."""
        if not writer.aval(b).size:
            return b
        if self.conjugate_a and not self.transpose_a:
            a = writer.lower(parts.listed(parts.conj), [a])[0]
        word = "TRANSPOSE" if self.transpose_a else "NO_TRANSPOSE"
        word = "ADJOINT" if self.transpose_a and self.conjugate_a else word
        return writer.emit(
            "stablehlo.triangular_solve",
            [a, b],
            left_side=self.left_side,
            lower=self.lower,
            unit_diagonal=self.unit_diagonal,
            transpose_a=f"#stablehlo<transpose {word}>",
        )

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every combination of flags, dtypes, batches, one right side, none."""

        def prepare(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(a), b]

        def sample(flags: tuple[bool, ...], a: Any, b: Any, dtype: str) -> Sample:
            types = (ShapedArray(a, dtype), ShapedArray(b, dtype))
            return Sample(TriangularSolve(*flags), types, scale=20.0, prepare=prepare)

        for k in range(16):
            left, lower, transpose, unit = (bool(k >> d & 1) for d in range(4))
            flags = (left, lower, transpose, bool(k % 3), unit)
            dtype = list(parts.LETTERS)[k % 4]
            yield sample(flags, (3, 3), (3, 2) if left else (2, 3), dtype)
        yield sample((True, False, False, True, False), (3, 3), (3, 2), "complex64")
        for flags in ((True, True), (False, True)):
            full = (*flags, False, False, False)
            yield sample(full, (2, 1, 3, 3), (2, 1, 3, 1) if flags[0] else (2, 1, 1, 3), "float32")
            yield sample(full, (0, 0), (0, 2) if flags[0] else (2, 0), "float32")


def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """See `TriangularSolve`."""
    return TriangularSolve(left_side, lower, transpose_a, conjugate_a, unit_diagonal)(a, b)


cholesky = Cholesky()
