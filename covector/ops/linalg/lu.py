"""LU factors with partial pivoting, permutations that pivots make, and systems solved by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Library, Linear, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.gather import GatherDimensionNumbers
from covector.ops.linalg import parts, small
from covector.ops.linalg.parts import INT32, Factorisation, MatrixOp, matmul, triangle
from covector.ops.linalg.triangular import triangular_solve


class Lu(Factorisation):
    """(lu, pivots, permutation) of matrices m x n: a[permutation] = L U.

    `lu`: U above and on the diagonal, L below it (its diagonal is ones).  `pivots`: row i was
    swapped with row pivots[i], int32.  A singular matrix has a zero on the diagonal of U.
    """

    name = "lu"

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`, and two vectors of int32."""
        parts.check_matrices(self.name, a)
        *batch, m, n = a.shape
        return (
            a.strong(), ShapedArray((*batch, min(m, n)), INT32), ShapedArray((*batch, m), INT32)
        )  # fmt: skip

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """LAPACK's getrf, through SciPy."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            if not a.size:
                return [a, np.zeros(min(a.shape)), np.arange(len(a))]
            getrf = parts.scipy_linalg().get_lapack_funcs("getrf", [a])
            lu, pivots, _ = getrf(a)
            return [lu, pivots, _permutation(pivots, len(a))]

        return parts.each(one, [2], self.result(ShapedArray(a.shape, a.dtype)), a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Of square matrices L tril(F) + triu(F) U with F = L⁻¹ P da U⁻¹; the rest of a wide or
        tall one follows from its leading square."""
        factors, pivots, order = self(*primals)
        (t,) = tangents
        if t is None:
            return [factors, pivots, order], [None] * 3
        moved = take_rows(t, order)
        m, n = typeof(factors).shape[-2:]
        k = min(m, n)
        cut = _corner
        square = cut(factors, (0, k), (0, k))
        inside = triangular_solve(
            square, cut(moved, (0, k), (0, k)), left_side=True, lower=True, unit_diagonal=True
        )
        inside = triangular_solve(square, inside)
        low, up = triangle(inside, lower=True, strict=True), triangle(inside, lower=False)
        lower = _unit_lower(square)
        upper = triangle(square, lower=False)
        add, sub = ops.pointwise.add, ops.pointwise.sub
        d_lower, d_upper = matmul(lower, low), matmul(up, upper)
        out = add(d_lower, d_upper)
        if m > n:  # L₂ = a₂ U⁻¹
            rest = sub(cut(moved, (k, m), (0, k)), matmul(cut(factors, (k, m), (0, k)), d_upper))
            out = ops.pieces.concatenate(
                [out, triangular_solve(square, rest)], typeof(out).ndim - 2
            )
        if n > m:  # U₂ = L⁻¹ a₂
            rest = sub(cut(moved, (0, k), (k, n)), matmul(d_lower, cut(factors, (0, k), (k, n))))
            side = triangular_solve(square, rest, left_side=True, lower=True, unit_diagonal=True)
            out = ops.pieces.concatenate([out, side], typeof(out).ndim - 1)
        return [factors, pivots, order], [out, None, None]

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's getrf."""
        return Library("lu") if a.size else None

    def per_matrix(self, a: small.Matrix) -> list[Any]:
        """Elimination."""
        found = small.Elimination(a)
        return [found.factors(), found.pivots(), found.order()]

    def decompose(self, a: Any) -> list[Any]:
        """Nothing is swapped in an empty matrix."""
        _, pivots, order = self.result(typeof(a))
        return [a, ops.shape.zeros(pivots), ops.shape.iota(INT32, order.shape, order.ndim - 1)]

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's getrf, and the permutation that its pivots make."""
        if not writer.aval(a).size:
            return writer.lower(self.decompose, [a])
        factors, pivots, order = writer.out_avals
        batch = factors.shape[:-2]
        lu, swaps, found = parts.lapack(
            writer, "getrf", [a], [(factors, 2), (pivots, 1), parts.info(batch)], [2]
        )
        lu = parts.nan_where_failed(writer, found, lu, only_negative=True)
        one = writer.full(pivots, 1)
        swaps = writer.emit("stablehlo.subtract", [swaps, one], pivots)
        saved, writer.out_avals = writer.out_avals, [order]
        made = pivots_to_permutation(order.shape[-1]).stablehlo(writer, swaps)
        writer.out_avals = saved
        return [lu, swaps, made]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Square, tall, wide; every dtype; batches; one element, none; a singular one."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(x)[..., ::-1, :].copy()]

        for aval in parts.avals((4, 4)):
            yield Sample(Lu(), (aval,), scale=20.0, prepare=prepare)
        for shape in ((5, 3), (3, 5), (2, 3, 4, 4), (1, 1), (0, 3), (3, 0), (2, 0, 3, 3)):
            yield Sample(Lu(), (ShapedArray(shape, "float32"),), scale=20.0, prepare=prepare)
        yield Sample(Lu(), (np.array([[0, 1], [0, 2]], np.float32),), smooth=False)


def _unit_lower(square: Any) -> Any:
    return ops.pointwise.add(triangle(square, lower=True, strict=True), parts.identity_like(square))


def _corner(x: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    ndim = typeof(x).ndim
    return ops.pieces.slice_along(ops.pieces.slice_along(x, ndim - 2, *rows), ndim - 1, *columns)


def take_rows(x: Any, order: Any) -> Any:
    """Row order[i] of `x` as row i."""
    shape, ndim = typeof(x).shape, typeof(x).ndim
    if not typeof(x).size:
        return x
    vectors = ops.shape.expand_dims(order, (typeof(order).ndim,))
    batch = tuple(range(ndim - 2))
    numbers = GatherDimensionNumbers((ndim - 1,), (ndim - 2,), (ndim - 2,), batch, batch)
    sizes = (*(1 for _ in batch), 1, shape[-1])
    return ops.gather.gather(x, vectors, numbers, sizes)


def inverse_order(order: Any) -> Any:
    """The permutation that undoes one."""
    return ops.sort.argsort(order, typeof(order).ndim - 1)


class LuPivotsToPermutation(MatrixOp):
    """The permutation of `permutation_size` rows that swaps make, one after another: row i with
    row pivots[i]."""

    name = "lu_pivots_to_permutation"
    arity = 1
    jvp = Absent("integer")
    transpose = Absent("integer")
    permutation_size: int

    def result(self, pivots: ShapedArray) -> ShapedArray:
        """int32 vectors of the given size."""
        if pivots.dtype != INT32 or not pivots.ndim:
            raise TypeError(f"{self.name}: pivots must be int32 vectors; got {pivots.str_short()}")
        if pivots.shape[-1] > self.permutation_size:
            raise ValueError(
                f"{self.name}: permutation_size must be at least the number of pivots, "
                f"{pivots.shape[-1]}; got {self.permutation_size}"
            )
        return ShapedArray((*pivots.shape[:-1], self.permutation_size), INT32)

    def numpy(self, pivots: np.ndarray) -> np.ndarray:
        """The swaps."""
        out = self.result(ShapedArray(pivots.shape, pivots.dtype))
        size = self.permutation_size

        def swap(pivots: np.ndarray) -> list[np.ndarray]:
            return [_permutation(pivots, size)]

        return parts.each(swap, [1], [out], pivots)[0]

    def library(self, pivots: ShapedArray) -> Library | None:
        """A loop of its own."""
        return Library("permutation") if pivots.size else None

    def decompose(self, pivots: Any) -> Any:
        """Without swaps: all rows in order."""
        shape = self.result(typeof(pivots)).shape
        return ops.shape.iota(INT32, shape, len(shape) - 1)

    def stablehlo(self, writer: Any, pivots: Any) -> Any:
        """Swap after swap, each a comparison with the row's number."""
        count = writer.aval(pivots).shape[-1]

        def swaps(p: Any) -> list[Any]:
            point, ndim = ops.pointwise, typeof(p).ndim
            order = places = self.decompose(p)
            shape = typeof(order).shape

            def element(mask: Any, now: Any) -> Any:
                one = ops.reduce.reduce_sum(parts.where(mask, now, 0), (ndim - 1,))
                return ops.shape.broadcast_in_dim(one, shape, tuple(range(ndim - 1)))

            for i in range(count):
                other = ops.pieces.slice_along(p, ndim - 1, i, i + 1)
                full = ops.shape.broadcast_in_dim(other, shape, tuple(range(ndim)))
                there, here = (
                    point.eq(places, row) for row in (full, ops.shape.full(shape, i, INT32))
                )
                first, second = element(here, order), element(there, order)
                order = point.where(there, first, point.where(here, second, order))
            return [order]

        return writer.lower(swaps, [pivots])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Vectors, batches, none."""
        op = LuPivotsToPermutation
        yield Sample(op(4), (np.array([2, 3, 3, 3], np.int32),))
        yield Sample(op(5), (np.array([[[1, 1, 4]], [[0, 2, 2]]], np.int32),))
        yield Sample(op(3), (np.zeros((0,), np.int32),))
        yield Sample(op(3), (np.zeros((0, 2), np.int32),))


def pivots_to_permutation(size: int) -> LuPivotsToPermutation:
    """The operation for `size` rows."""
    return LuPivotsToPermutation(size)


def _permutation(pivots: np.ndarray, size: int) -> np.ndarray:
    order = np.arange(size)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return order.astype(np.int32)


class LuSolve(MatrixOp):
    """`x` with op(a) x = b, from the factors of `a`: `lu` and `permutation` of `Lu`.

    op(a): as it is, transposed, or the conjugate transpose ('N', 'T', 'C').  Its derivative by the
    matrix is that by `a`: the factors are made of it, and count as constants.
    """

    name = "lu_solve"
    arity = 4
    trans: str = "N"

    def result(
        self, a: ShapedArray, lu: ShapedArray, permutation: ShapedArray, b: ShapedArray
    ) -> ShapedArray:
        """The type of `b`."""
        _check.same_dtype(self.name, (a, lu, b))
        parts.check_matrices(self.name, a, square=True, argument="a")
        parts.check_matrices(self.name, b, argument="b")
        parts.check_batch(self.name, (2, 2, 1, 2), a, lu, permutation, b)
        if lu.shape != a.shape or permutation.shape != a.shape[:-1]:
            raise TypeError(
                f"{self.name}: lu and permutation must be those of a of {a.str_short()}; "
                f"got {lu.str_short()} and {permutation.str_short()}"
            )
        if b.shape[-2] != a.shape[-1]:
            raise TypeError(
                f"{self.name}: b must have as many rows as a of {a.str_short()}; "
                f"got {b.str_short()}"
            )
        return b.strong()

    def numpy(self, a: Any, lu: Any, permutation: Any, b: Any) -> np.ndarray:
        """scipy.linalg's triangular solutions, and the permutation."""

        def one(lu: np.ndarray, order: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
            if not b.size:
                return [b]
            solve = parts.scipy_linalg().solve_triangular
            if self.trans == "N":
                y = solve(lu, b[order], lower=True, unit_diagonal=True)
                return [solve(lu, y, lower=False)]
            y = solve(lu, b, trans=self.trans, lower=False)
            y = solve(lu, y, trans=self.trans, lower=True, unit_diagonal=True)
            return [y[np.argsort(order)]]

        return parts.each(one, [2, 1, 2], [ShapedArray(b.shape, b.dtype)], lu, permutation, b)[0]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The solution for db - op(da) x."""
        a, lu, order, b = primals
        da, _, _, db = tangents
        x = self(a, lu, order, b)
        side = db
        if da is not None:
            moved = da if self.trans == "N" else parts.transposed(da)
            moved = parts.conj(moved) if self.trans == "C" else moved
            part = matmul(moved, x)
            side = ops.pointwise.neg(part) if db is None else ops.pointwise.sub(db, part)
        return x, None if side is None else self(a, lu, order, side)

    def transpose(self, tools: Any, ct: Any, a: Any, lu: Any, order: Any, b: Any) -> list[Any]:
        """The transposed system; of the conjugate transpose, that of the conjugate."""
        if any(isinstance(x, Linear) for x in (a, lu, order)):
            raise NotImplementedError("lu_solve is not linear in the matrix: it has no transpose")
        if self.trans == "C":  # a⁻ᴴ transposed is conj(a)⁻¹
            back = parts.conj(LuSolve("N")(a, lu, order, parts.conj(ct)))
        else:
            back = LuSolve("T" if self.trans == "N" else "N")(a, lu, order, ct)
        return [None, None, None, back]

    def per_matrix(self, a: small.Matrix, lu: small.Matrix, order: small.Vector,
                   b: small.Matrix) -> list[small.Matrix]:  # fmt: skip
        """The steps of the elimination itself, if they are known; else as `decompose` says."""
        if self.trans == "C":  # that of the conjugate is the conjugate
            (x,) = LuSolve("T").per_matrix(a, lu, order, small.conjugated(b))
            return [small.conjugated(x)]
        found, sides, plain = small.Elimination(a), small.transposed(b), self.trans == "N"
        if (lu, order) == (found.factors(), found.order()):
            solve = found.solved if plain else found.solved_transposed
            return [small.transposed([solve(v) for v in sides])]
        if plain:
            low = [small.substituted(lu, small.reordered(v, order), True, True) for v in sides]
            return [small.transposed([small.substituted(lu, v, False, False) for v in low])]
        back = small.transposed(lu)
        up = [small.substituted(back, v, True, False) for v in sides]
        up = [small.substituted(back, v, False, True) for v in up]
        return [small.transposed([small.restored(v, order) for v in up])]

    def decompose(self, a: Any, lu: Any, order: Any, b: Any) -> Any:
        """Two triangular systems, and the permutation."""
        plain = self.trans == "N"
        how: dict[str, Any] = {
            "left_side": True, "transpose_a": not plain, "conjugate_a": self.trans == "C"
        }  # fmt: skip
        if plain:
            b = take_rows(b, order)
            y = triangular_solve(lu, b, lower=True, unit_diagonal=True, **how)
            return triangular_solve(lu, y, **how)
        y = triangular_solve(lu, b, **how)
        y = triangular_solve(lu, y, lower=True, unit_diagonal=True, **how)
        return take_rows(y, inverse_order(order))

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(parts.listed(self.decompose), operands)[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every form, real and complex, a batch; factors that fit are constants."""
        rng = np.random.default_rng(3)
        for trans in "NTC":
            for dtype, shape in (("float64", (3, 3)), ("complex128", (3, 3)),
                                 ("float32", (2, 3, 3))):  # fmt: skip
                a = rng.uniform(-2, 2, shape)
                a = a + (1j * rng.uniform(-2, 2, shape) if dtype[0] == "c" else 0)
                a = parts.dominant(a.astype(dtype))[..., ::-1, :].copy()
                lu, _, order = Lu().numpy(a)
                b = ShapedArray((*shape[:-1], 2), dtype)
                yield Sample(LuSolve(trans), (a, lu, order, b), scale=20.0)


lu = Lu()


def solve(a: Any, b: Any, trans: str = "N") -> Any:
    """`x` with op(a) x = b; see `LuSolve`."""
    factors, _, order = lu(ops.select.stop_gradient(a))
    return LuSolve(trans)(a, factors, order, b)
