"""Orthogonal factors by Householder's reflections: packed, as matrices, and applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Library, Linear, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.linalg import parts
from covector.ops.linalg.parts import INT32, Factorisation, MatrixOp, adjoint, matmul, triangle
from covector.ops.linalg.triangular import triangular_solve


class Geqrf(Factorisation):
    """(packed, taus) of matrices m x n: R above the diagonal, reflections below it.

    Reflection k is I - taus[k] v vᴴ, where v is column k of `packed` below row k, and 1 in row k.
    With `pivoting`, (packed, columns, taus) of a[:, columns], so that R's diagonal descends.
    """

    name = "geqrf"
    pivoting: bool = False

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of `a`, and vectors."""
        parts.check_matrices(self.name, a)
        *batch, m, n = a.shape
        taus = ShapedArray((*batch, min(m, n)), a.dtype)
        columns = [ShapedArray((*batch, n), INT32)] if self.pivoting else []
        return (a.strong(), *columns, taus)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """LAPACK's geqrf or geqp3, through SciPy."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            if not a.size:
                empty = [a, np.zeros(0)]
                return [a, np.arange(a.shape[1]), empty[1]] if self.pivoting else empty
            name = "geqp3" if self.pivoting else "geqrf"
            routine = parts.scipy_linalg().get_lapack_funcs(name, [a])
            if self.pivoting:
                packed, columns, taus, _, _ = routine(a)
                return [packed, columns - 1, taus]
            packed, taus, _, _ = routine(a)
            return [packed, taus]

        return parts.each(one, [2], self.result(ShapedArray(a.shape, a.dtype)), a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """None: reflections are a means; `Qr` has a derivative."""
        parts.refuse_derivative(self.name, "take that of qr")

    def library(self, a: ShapedArray) -> Library | None:
        """LAPACK's geqrf or geqp3."""
        return Library("geqrf", (self.pivoting,)) if a.size else None

    def decompose(self, a: Any) -> list[Any]:
        """Nothing is turned in an empty matrix."""
        _, *columns, taus = self.result(typeof(a))
        order = [ops.shape.iota(INT32, c.shape, c.ndim - 1) for c in columns]
        return [a, *order, ops.shape.zeros(taus)]

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """LAPACK's geqrf or geqp3."""
        if not writer.aval(a).size:
            return writer.lower(self.decompose, [a])
        packed, *columns, taus = writer.out_avals
        if not self.pivoting:
            return parts.lapack(writer, "geqrf", [a], [(packed, 2), (taus, 1)], [2])
        free = writer.full(columns[0], 0)
        outs = [(packed, 2), (columns[0], 1), (taus, 1)]
        found = parts.lapack(writer, "geqp3", [a, free], outs, [2, 1])
        one = writer.full(columns[0], 1)
        return [found[0], writer.emit("stablehlo.subtract", [found[1], one], columns[0]), found[2]]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Square, tall, wide; every dtype; batches; none; with pivots."""
        for k, shape in enumerate(((5, 3), (3, 5))):
            for aval in parts.avals(shape):
                pivoting = (aval.itemsize // 4 + k) % 2 == 0
                yield Sample(Geqrf(pivoting), (aval,), smooth=False, scale=20.0)
        for pivoting in (False, True):
            for shape in ((2, 2, 4, 4), (0, 3)):
                aval = ShapedArray(shape, "float32")
                yield Sample(Geqrf(pivoting), (aval,), smooth=False, scale=20.0)


class HouseholderProduct(MatrixOp):
    """The m x n matrix of the first n columns of a product of reflections, packed as in `Geqrf`."""

    name = "householder_product"
    arity = 2
    transpose = Absent("not linear")

    def result(self, packed: ShapedArray, taus: ShapedArray) -> ShapedArray:
        """The type of `packed`."""
        _check_reflections(self.name, packed, taus)
        *_, m, n = packed.shape
        if m < n:
            raise ValueError(
                f"{self.name}: the matrix must have at least as many rows as columns; "
                f"got {packed.str_short()}"
            )
        return packed.strong()

    def numpy(self, packed: np.ndarray, taus: np.ndarray) -> np.ndarray:
        """Reflection after reflection."""

        def one(packed: np.ndarray, taus: np.ndarray) -> list[np.ndarray]:
            m, n = packed.shape
            return [_reflect(packed, taus, np.eye(m, n, dtype=packed.dtype), False)]

        outs = [ShapedArray(packed.shape, packed.dtype)]
        return parts.each(one, [2, 1], outs, packed, taus)[0]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """That of `blocked`."""
        if all(t is None for t in tangents):
            return self(*primals), None
        return self(*primals), parts.composite_jvp(
            tools, parts.listed(_first_columns), primals, tangents
        )[0]

    def library(self, packed: ShapedArray, taus: ShapedArray) -> Library | None:
        """LAPACK's orgqr or ungqr."""
        return Library("orgqr") if packed.size else None

    def decompose(self, packed: Any, taus: Any) -> Any:
        """Nothing of nothing."""
        return packed

    def stablehlo(self, writer: Any, packed: Any, taus: Any) -> Any:
        """LAPACK's orgqr or ungqr."""
        aval = writer.aval(packed)
        if not aval.size:
            return packed
        return parts.lapack(writer, "orgqr", [packed, taus], [(aval, 2)], [2, 1])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Tall, square, fewer reflections than columns; every dtype; batches; none."""
        for dtype in parts.LETTERS:
            avals = (ShapedArray((5, 3), dtype), ShapedArray((3,), dtype))
            yield Sample(HouseholderProduct(), avals, (-0.8, 0.8), scale=100.0)
        for shape, count in (((4, 4), 2), ((2, 3, 3), 3), ((3, 0), 0)):
            avals = (ShapedArray(shape, "float32"), ShapedArray((*shape[:-2], count), "float32"))
            yield Sample(HouseholderProduct(), avals, (-0.8, 0.8), scale=100.0)


class Ormqr(MatrixOp):
    """Q c, Qᴴ c, c Q or c Qᴴ, where Q is the product of the reflections in `packed`, m x m.

    `transpose_q`: the (conjugate) transpose.
    """

    name = "ormqr"
    arity = 3
    left: bool = True
    transpose_q: bool = False

    def result(self, packed: ShapedArray, taus: ShapedArray, c: ShapedArray) -> ShapedArray:
        """The type of `c`."""
        _check_reflections(self.name, packed, taus)
        _check.same_dtype(self.name, (packed, taus, c))
        parts.check_matrices(self.name, c, argument="c")
        parts.check_batch(self.name, (2, 2), packed, c)
        if c.shape[-2 if self.left else -1] != packed.shape[-2]:
            raise ValueError(
                f"{self.name}: with left={self.left}, c must have {packed.shape[-2]} "
                f"{'rows' if self.left else 'columns'}; got {c.str_short()}"
            )
        return c.strong()

    def numpy(self, packed: np.ndarray, taus: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Reflection after reflection."""

        def one(packed: np.ndarray, taus: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
            if self.left:
                return [_reflect(packed, taus, c, self.transpose_q)]
            back = _reflect(packed, taus, np.conj(c.T), not self.transpose_q)
            return [np.conj(back.T)]

        outs = [ShapedArray(c.shape, c.dtype)]
        return parts.each(one, [2, 1, 2], outs, packed, taus, c)[0]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """That of `blocked`; itself, by `c`."""
        packed, taus, _ = primals
        out, dc = self(*primals), tangents[2]
        total = None if dc is None else self(packed, taus, dc)
        if tangents[0] is None and tangents[1] is None:
            return out, total
        part = parts.composite_jvp(
            tools, parts.listed(self._blocked), primals, [*tangents[:2], None]
        )[0]
        return out, part if total is None else ops.pointwise.add(total, part)

    def _blocked(self, packed: Any, taus: Any, c: Any) -> Any:
        vectors, middle = blocked(packed, taus)
        middle = adjoint(middle) if self.transpose_q else middle
        if self.left:
            turned = matmul(vectors, matmul(middle, matmul(adjoint(vectors), c)))
        else:
            turned = matmul(matmul(matmul(c, vectors), middle), adjoint(vectors))
        return ops.pointwise.sub(c, turned)

    def transpose(self, tools: Any, ct: Any, packed: Any, taus: Any, c: Any) -> list[Any]:
        """Qᵀ, which is conj(Qᴴ)."""
        if isinstance(packed, Linear) or isinstance(taus, Linear):
            raise NotImplementedError("ormqr is not linear in the reflections: no transpose")
        flipped = self.with_params(transpose_q=not self.transpose_q)
        return [None, None, parts.conj(flipped(packed, taus, parts.conj(ct)))]

    def library(self, packed: ShapedArray, taus: ShapedArray, c: ShapedArray) -> Library | None:
        """LAPACK's ormqr or unmqr."""
        if not c.size or not taus.size:
            return None
        return Library("ormqr", (self.left, self.transpose_q))

    def decompose(self, packed: Any, taus: Any, c: Any) -> Any:
        """No reflections."""
        return c

    def stablehlo(self, writer: Any, packed: Any, taus: Any, c: Any) -> Any:
        """LAPACK's ormqr or unmqr."""
        aval, count = writer.aval(c), writer.aval(taus)
        if not aval.size or not count.size:
            return c
        k = count.shape[-1]
        if k < writer.aval(packed).shape[-1]:  # columns without a reflection
            axis = writer.aval(packed).ndim - 1

            def cut(x: Any) -> list[Any]:
                return [ops.pieces.slice_along(x, axis, 0, k)]

            packed = writer.lower(cut, [packed])[0]
        return parts.lapack(
            writer, "ormqr", [packed, taus, c], [(aval, 2)], [2, 1, 2],
            left=self.left, transpose=self.transpose_q,
        )[0]  # fmt: skip

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both sides, both forms; every dtype; batches; none."""
        for k, dtype in enumerate((*parts.LETTERS, *parts.LETTERS)):
            left, flip = k % 2 == 0, (k // 2 + k // 4) % 2 == 0
            c = (4, 2) if left else (2, 4)
            avals = ((4, 3), (3,), c)
            yield Sample(Ormqr(left, flip), tuple(ShapedArray(s, dtype) for s in avals),
                         (-0.8, 0.8), scale=100.0)  # fmt: skip
        for shapes in (((2, 3, 2), (2, 2), (2, 3, 1)), ((3, 2), (1,), (3, 2)),
                       ((3, 0), (0,), (3, 2))):  # fmt: skip
            avals = tuple(ShapedArray(s, "float32") for s in shapes)
            yield Sample(Ormqr(True, False), avals, (-0.8, 0.8), scale=100.0)


def _check_reflections(op: str, packed: ShapedArray, taus: ShapedArray) -> None:
    parts.check_matrices(op, packed, argument="the matrix")
    _check.same_dtype(op, (packed, taus))
    parts.check_batch(op, (2, 1), packed, taus)
    if not taus.ndim or taus.shape[-1] > min(packed.shape[-2:]):
        raise ValueError(
            f"{op}: taus must be vectors of at most {min(packed.shape[-2:])} elements, one for "
            f"each reflection of {packed.str_short()}; got {taus.str_short()}"
        )


def _reflect(packed: np.ndarray, taus: np.ndarray, c: np.ndarray, adjoint: bool) -> np.ndarray:
    order = range(len(taus)) if adjoint else reversed(range(len(taus)))
    for k in order:
        v = packed[:, k].copy()
        v[:k], v[k] = 0, 1
        tau = np.conj(taus[k]) if adjoint else taus[k]
        c = c - tau * np.outer(v, np.conj(v) @ c)
    return c.astype(packed.dtype)


def blocked(packed: Any, taus: Any) -> tuple[Any, Any]:
    """(V, T) such that the product of the reflections is I - V T Vᴴ
    (Schreiber and Van Loan 1989, A storage-efficient WY representation)."""
    count = typeof(taus).shape[-1]
    packed = ops.pieces.slice_along(packed, typeof(packed).ndim - 1, 0, count)
    vectors = ops.pointwise.add(
        triangle(packed, lower=True, strict=True), parts.identity_like(packed)
    )
    # T = D (I + U D)⁻¹, with D of the taus, and U the strict upper triangle of Vᴴ V.
    products = triangle(matmul(adjoint(vectors), vectors), lower=False, strict=True)
    mixed = parts.scale_columns(products, taus)
    one = parts.identity_like(mixed)
    inverse = triangular_solve(mixed, one, left_side=True, unit_diagonal=True)
    return vectors, parts.scale_rows(taus, inverse)


def _first_columns(packed: Any, taus: Any) -> Any:
    n = typeof(packed).shape[-1]
    vectors, middle = blocked(packed, taus)
    top = ops.pieces.slice_along(vectors, typeof(vectors).ndim - 2, 0, n)
    turned = matmul(vectors, matmul(middle, adjoint(top)))
    return ops.pointwise.sub(parts.identity_like(packed), turned)


class Qr(Factorisation):
    """(q, r) with a = q r: q has orthonormal columns, r is an upper triangle.

    Of m x n matrices, q is m x k and r k x n, where k is m if `full_matrices`, else min(m, n).
    With `pivoting` there is a third result, `columns`, and a[:, columns] = q r.
    """

    name = "qr"
    pivoting: bool = False
    full_matrices: bool = True

    def result(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The shapes above."""
        parts.check_matrices(self.name, a)
        *batch, m, n = a.shape
        k = m if self.full_matrices else min(m, n)
        q, r = ShapedArray((*batch, m, k), a.dtype), ShapedArray((*batch, k, n), a.dtype)
        return (q, r, ShapedArray((*batch, n), INT32)) if self.pivoting else (q, r)

    def numpy(self, a: np.ndarray) -> list[np.ndarray]:
        """scipy.linalg.qr."""

        def one(a: np.ndarray) -> list[np.ndarray]:
            m, n = a.shape
            if not a.size:
                k = m if self.full_matrices else min(m, n)
                pair = [np.eye(m, k, dtype=a.dtype), np.zeros((k, n), a.dtype)]
                return [*pair, np.arange(n)] if self.pivoting else pair
            mode = "full" if self.full_matrices else "economic"
            return list(parts.scipy_linalg().qr(a, mode=mode, pivoting=self.pivoting))

        return parts.each(one, [2], self.result(ShapedArray(a.shape, a.dtype)), a)

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Of the leading square part: with M = qᴴ da r⁻¹, dq = q (W - M) + da r⁻¹ and
        dr = (M - W) r, where W is skew and makes M - W an upper triangle with a real diagonal
        (Walter and Lehmann 2010, Algorithmic differentiation of linear algebra functions)."""
        q, r, *columns = outs = self(*primals)
        (t,) = tangents
        if t is None:
            return outs, [None] * len(outs)
        m, n = typeof(t).shape[-2:]
        if m > n and self.full_matrices:
            raise NotImplementedError(
                "qr with full_matrices=True of a tall matrix has no derivative, and so no "
                "transpose: the columns of q beyond the matrix's own are arbitrary; use "
                "full_matrices=False"
            )
        if columns:
            t = take_columns(t, columns[0])
        k, ndim = min(m, n), typeof(t).ndim
        head = ops.pieces.slice_along(t, ndim - 1, 0, k)
        square = ops.pieces.slice_along(r, ndim - 1, 0, k)
        scaled = triangular_solve(square, head)
        inside = matmul(adjoint(q), scaled)
        low = triangle(inside, lower=True, strict=True)
        skew = ops.pointwise.sub(low, adjoint(low))
        if parts.is_complex(inside):  # the diagonal of r stays real
            rows, cols = parts.rows_and_columns(inside)
            imaginary = ops.pointwise.sub(inside, parts.as_dtype_of(parts.real(inside), inside))
            turn = parts.where(ops.pointwise.eq(rows, cols), imaginary, 0)
            skew = ops.pointwise.add(skew, turn)
        upper = ops.pointwise.sub(inside, skew)
        dq = ops.pointwise.sub(scaled, matmul(q, upper))
        dr = matmul(upper, square)
        if n > k:  # r₂ = qᴴ a₂, where a₂ = q r₂
            rest = ops.pieces.slice_along(r, ndim - 1, k, n)
            d_rest = ops.pieces.slice_along(t, ndim - 1, k, n)
            moved = matmul(adjoint(q), d_rest)
            turned = matmul(matmul(adjoint(dq), q), rest)
            dr = ops.pieces.concatenate([dr, ops.pointwise.add(moved, turned)], ndim - 1)
        return outs, [dq, dr, *(None for _ in columns)]

    def decompose(self, a: Any) -> list[Any]:
        """Geqrf, and the product of its reflections."""
        m, n = typeof(a).shape[-2:]
        ndim = typeof(a).ndim
        k = m if self.full_matrices else min(m, n)
        packed, *columns, taus = Geqrf(self.pivoting)(a)
        rows = ops.pieces.slice_along(packed, ndim - 2, 0, min(k, m))
        r = triangle(rows, lower=False)
        left = ops.pieces.slice_along(packed, ndim - 1, 0, min(k, n))
        if k > n:
            low_high = [(0, 0, 0)] * (ndim - 1)
            left = ops.pieces.pad(left, 0.0, [*low_high, (0, k - n, 0)])
        if not typeof(taus).size:
            q_aval, _, *_ = self.result(typeof(a))
            return [parts.identity_like(ops.shape.zeros(q_aval)), r, *columns]
        return [HouseholderProduct()(left, taus), r, *columns]

    def stablehlo(self, writer: Any, a: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(self.decompose, [a])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Square, tall, wide; full and not; every dtype; batches; none; with pivots."""

        def prepare(x: np.ndarray) -> list[np.ndarray]:
            return [parts.dominant(x)]

        for shape, names in (((4, 4), ("float32", "complex128")), ((5, 3), tuple(parts.LETTERS)),
                             ((3, 5), ("float64", "complex64"))):  # fmt: skip
            for k, aval in enumerate(parts.avals(shape, *names)):
                full = k % 2 == 0 and shape != (5, 3)
                yield Sample(Qr(False, full), (aval,), scale=50.0, prepare=prepare)

        def f32(*shape: int) -> tuple[ShapedArray]:
            return (ShapedArray(shape, "float32"),)

        for pivoting in (False, True):
            yield Sample(Qr(pivoting, True), f32(4, 2), scale=50.0, smooth=False)
            yield Sample(Qr(pivoting, False), f32(2, 4, 3), scale=50.0, prepare=prepare)
            yield Sample(Qr(pivoting, True), f32(3, 0), smooth=False)
            yield Sample(Qr(pivoting, False), f32(0, 3))


def take_columns(x: Any, order: Any) -> Any:
    """Column order[j] of `x` as column j."""
    from_rows = parts.transposed(x)
    return parts.transposed(ops.linalg.lu.take_rows(from_rows, order))


geqrf, householder_product = Geqrf(), HouseholderProduct()
